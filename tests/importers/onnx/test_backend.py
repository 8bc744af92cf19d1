"""The standard's own tests: each passes, or is refused for the reason that is stated."""

from __future__ import annotations

import re

import pytest

from tests.importers.onnx import backend


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", sorted(backend.cases()))


def _reason(table: dict[str, str], name: str) -> str | None:
    return next((reason for pattern, reason in table.items() if re.search(pattern, name)), None)


@pytest.mark.full(
    "real-",
    "node-test_attention_3d",  # many that are nearly the same
    "node-test_attention_4d_with",
    "node-test_castlike",
    "node-test_layer_normalization_4d",
    "node-test_nllloss",
    "node-test_reduce_l",
    "node-test_sce",
    "node-test_causal_conv_with_state_silu_fp16",  # the engine `numpy` rounds after each operator
    "node-test_center_crop_pad_crop_expanded",
    "node-test_unique",
)
@pytest.mark.sampled(every=4)
@pytest.mark.filterwarnings("ignore")  # of the judge
def test_of_the_standard(name: str) -> None:
    outcome = backend.run(name)
    if re.search(backend.REFUSED_AT_CALL, name):
        assert outcome.kind == "refused"
        assert "random numbers" in outcome.why
    elif (reason := _reason(backend.REFUSED, name)) is not None and outcome.kind != "passed":
        assert outcome.kind == "refused", outcome.why
        assert re.search(reason, outcome.why)
    elif _reason(backend.ROUNDED, name) is not None:
        assert outcome.kind in ("passed", "wrong")
    else:
        assert outcome.kind == "passed", outcome.why
