"""Type inference against real Relay: the measured programs, refusals, odd acceptances and models."""

import re

import pytest

from nnmagic.diagnostics import RelayError
from nnmagic.relay.infer import erase_types, infer_type
from nnmagic.relay.text.parser import parse_module
from tests.relay.corpus import models, parameters, without_spans


def without_results(text):
    """The text without the result types of globals, and without metadata (which holds constants' types)."""
    body = text.partition("\n#[metadata]")[0]
    return re.sub(r"^(def .*\)) -> .* \{$", r"\1 {", without_spans(body), flags=re.MULTILINE)


@pytest.mark.parametrize("program", parameters("programs"))
def test_a_program_gets_relays_types_and_gives_them_back(program):
    typed = infer_type(parse_module(program["text"]))
    text = without_spans(typed.astext())
    assert text == without_spans(program["typed_text"])
    assert without_spans(infer_type(parse_module(program["typed_text"])).astext()) == text
    assert without_results(erase_types(typed).astext()) == without_results(program["text"])


@pytest.mark.parametrize("program", parameters("refused"))
def test_what_relay_refuses_is_refused_with_a_place(program):
    with pytest.raises(RelayError) as caught:
        infer_type(parse_module(program["text"]))
    assert all(diagnostic.span is not None for diagnostic in caught.value.diagnostics)


@pytest.mark.parametrize("program", parameters("accepted_though_odd"))
def test_what_relay_accepts_is_accepted(program):
    typed = infer_type(parse_module(program["text"]))
    assert without_spans(typed.astext()) == without_spans(program["printed"])


@pytest.mark.parametrize("name", models())
def test_a_model_infers_to_itself(name):
    text = models()[name]
    assert without_spans(infer_type(parse_module(text)).astext()) == without_spans(text)
