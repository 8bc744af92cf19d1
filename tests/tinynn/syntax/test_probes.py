"""Every piece of Python syntax ends as a program or as located errors: no crash, no silence, no hang."""

from __future__ import annotations

import re

import pytest

from tests.tinynn.cases import errors_of, program_of
from tests.tinynn.syntax.probes import cells

CELLS = cells()

#: The data type of programs that raise.
ASSERTION = "type Assertion {\n  Holds,\n  Fails,\n}\n\n"


@pytest.mark.full("418", "421", "416")
@pytest.mark.parametrize("text", CELLS, ids=range(len(CELLS)))
def test_a_program_or_located_errors(text: str) -> None:
    lines = re.split(r"\r\n|\r|\n", text)
    errors = errors_of(text)
    for error in errors:
        span = error.span
        assert span is not None
        assert 2 <= span.line <= span.end_line <= len(lines) + 1
        assert 1 <= span.column <= len(lines[span.line - 2]) + 1
        assert (span.line, span.column) < (span.end_line, span.end_column)
        assert error.message
        assert error.render()
    assert len({(error.message, error.span) for error in errors}) == len(errors)
    if not errors:
        program = program_of(text)
        typed = {info.name for info in program.functions if not info.open}
        assert set(program.module.functions) == typed
        assert str(program.module).removeprefix(ASSERTION).startswith("def @") or not typed


@pytest.mark.full
def test_few_pieces_are_taken() -> None:
    """A probe that is refused for another reason than its own would make the test above empty."""
    taken = [text for text in CELLS if not errors_of(text)]
    assert 80 < len(taken) < len(CELLS) / 2
