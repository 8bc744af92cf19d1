"""The standard's own tests: each passes, or is refused for the reason that is stated."""

from __future__ import annotations

import re

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.importers.onnx import backend

#: The nine large networks take minutes.
NAMES = sorted(name for name in backend.cases() if EXHAUSTIVE or not name.startswith("real-"))


def _reason(table: dict[str, str], name: str) -> str | None:
    return next((reason for pattern, reason in table.items() if re.search(pattern, name)), None)


@pytest.mark.slow
@pytest.mark.sampled(every=120)
@pytest.mark.filterwarnings("ignore")  # of the judge
@pytest.mark.parametrize("name", NAMES)
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
