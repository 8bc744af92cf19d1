"""The text format against real Relay: what it printed, what it refused, what it accepted."""

import re

import numpy as np
import pytest

from nnmagic.diagnostics import RelayError
from nnmagic.relay.expr import Call, Constant, OpRef, children
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.text.parser import parse_module
from tests.relay.corpus import load_file, models, parameters, without_spans

#: What the parser must refuse, and where: line, column and length of the error, read off the texts by hand.
SYNTAX_ERRORS = {
    "no_version": (1, 1, 3),
    "bad_version": (1, 1, 20),
    "unknown_attribute": (1, 1, 6),
    "hash_only": (1, 1, 1),
    "missing_rbrace": (4, 1, 0),
    "missing_rparen": (4, 1, 1),
    "missing_semicolon_graph": (4, 3, 2),
    "let_no_body": (4, 1, 1),
    "undefined_graph": (3, 11, 2),
    "undefined_op": (3, 3, 7),
    "undefined_op_simple": (3, 3, 3),
    "param_no_percent": (2, 11, 1),
    "global_no_at": (2, 5, 4),
    "unknown_dtype": (2, 27, 3),
    "tensor_no_dtype": (2, 28, 1),
    "bad_number": (3, 11, 6),
    "nan_literal": (3, 11, 4),
    "int_overflow": (3, 11, 20),
    "int_suffix_overflow": (3, 11, 8),
    "unterminated_string": (3, 18, 7),
    "single_quote_str": (3, 18, 1),
    "if_no_parens": (3, 6, 4),
    "match_unknown_ctor": (4, 16, 1),
    "dup_ctor_two_types": (3, 10, 1),
    "extra_token": (5, 1, 7),
    "tgi_float": (3, 12, 3),
    "attr_unknown": (3, 11, 5),
    "attr_wrong_type_str": (3, 3, 7),
    "attr_softmax_str": (3, 23, 3),
    "attr_missing_required_cast": (3, 3, 8),
    "attr_int_for_list": (3, 22, 1),
    "attr_on_function_call": (4, 10, 1),
    "argsort_dtype": (3, 21, 5),
    "topk_axis": (3, 3, 16),
}


@pytest.mark.parametrize("program", parameters("programs"))
def test_a_program_prints_as_relay_printed_it(program):
    module = parse_module(program["text"])
    assert module.astext() == program["text"]
    body = program["text"].partition("\n#[metadata]")[0].removeprefix('#[version = "0.0.5"]\n')
    if "meta[relay.attrs." not in body:  # those attributes are written by name where there is no metadata
        assert str(module) == body
        without_metadata = module.astext(show_meta_data=False)
        assert without_metadata.startswith('#[version = "0.0.5"]\n' + body)
        assert without_metadata.endswith("`astext`. \n */") == ("meta[" in body)


@pytest.mark.parametrize("program", parameters("programs"))
def test_the_typed_text_is_the_same_program(program):
    typed = parse_module(program["typed_text"])
    again = parse_module(typed.astext())
    assert structural_equal(typed, again)
    # Inference adds result types, types of let and pattern variables and comments, but no expression.
    assert _shape(typed) == _shape(parse_module(program["text"]))


def _shape(module):
    """Operators, their attributes and the kinds of all nodes, in the order of a walk."""
    result = []
    for name in sorted(module.functions):
        pending, seen = [module.functions[name]], set()
        while pending:
            expr = pending.pop()
            if expr not in seen:
                seen.add(expr)
                operator = expr.op.name if isinstance(expr, Call) and isinstance(expr.op, OpRef) else ""
                result.append((type(expr).__name__, operator, repr(getattr(expr, "attrs", {}))))
                pending += children(expr)
    return result


@pytest.mark.parametrize("name", models())
def test_a_model_is_read_and_printed(name):
    text = models()[name]
    module = parse_module(text)
    printed = module.astext()
    untyped = re.sub(r" /\* ty=.*? \*/", "", without_spans(text))
    assert printed == untyped
    assert structural_equal(module, parse_module(printed))


@pytest.mark.parametrize("program", [pytest.param(each, id=each["id"]) for each in load_file("refused")])
def test_refused_programs(program):
    position = SYNTAX_ERRORS.get(program["id"], program.get("place"))
    if position is None:
        parse_module(program["text"])  # its types are wrong, not its text
        return
    with pytest.raises(RelayError) as caught:
        parse_module(program["text"])
    span = caught.value.diagnostics[0].span
    assert (span.line, span.column, span.end_column - span.column) == tuple(position)
    assert span.filename == "from_string"
    assert span.source.text == program["text"]
    assert len(caught.value.diagnostics) == 1


def test_every_syntax_error_of_relay_is_one_here():
    kinds = {"syntax", "lexical", "scope", "type-syntax"}
    theirs = {each["id"] for each in load_file("refused") if each["category"] in kinds}
    assert theirs <= SYNTAX_ERRORS.keys()


@pytest.mark.parametrize("program", parameters("accepted_though_odd"))
def test_odd_programs_are_accepted_and_mean_what_they_mean_in_relay(program):
    module = parse_module(program["text"])
    if program["category"] == "language":
        return  # inference adds types of lets and patterns; test_infer_corpus compares what it prints
    without_results = re.sub(r"^(def .*\)) -> .* \{$", r"\1 {", program["printed"], flags=re.MULTILINE)
    assert structural_equal(module, parse_module(without_results))


def test_a_metadata_constant_holds_the_saved_array():
    text = next(
        each.values[0]["text"] for each in parameters("programs") if each.values[0]["id"] == "const_shared"
    )
    body = parse_module(text).functions["main"].body
    first = body.args[0].args[1]
    assert isinstance(first, Constant)
    assert body.args[1] is first  # one constant, used twice
    np.testing.assert_array_equal(first.data, np.array([0, 1, 2], np.float32))
    assert not first.data.flags.writeable
