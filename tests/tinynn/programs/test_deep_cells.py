"""Deep cells are compiled in a time that grows with their size."""

from __future__ import annotations

import pytest

from nnmagic.diagnostics import Source
from nnmagic.tinynn import compile_source


def _nest(depth: int, line: str) -> str:
    """Statements in one another, ``{d}`` their depth."""
    lines = [f"{'    ' * (level + 1)}{line.format(d=level)}:" for level in range(depth)]
    return "\n".join(
        ["def f(x: f32, n: i64):", *lines, f"{'    ' * (depth + 1)}x = x + 1", "    return x", ""]
    )


def _one_line(text: str) -> str:
    return f"def f(x: f32, n: i64):\n    return {text}\n"


DEEP = {
    "loops": _nest(18, "for i{d} in range(n)"),
    "while": _nest(18, "while x > {d}"),
    "written out": _nest(18, "for i{d} in range(2)"),
    "long loops": _nest(18, "for i{d} in range(100)"),
    "branches": _nest(60, "if x > {d}"),
    "and": _one_line(" and ".join(f"n // {number + 2} > 1" for number in range(60))),
    "and in brackets": _one_line("(n // 2 > 1 and " * 30 + "n > 1" + ")" * 30),
    "choices": _one_line("".join(f"n + {number} if n > {number} else " for number in range(40)) + "n"),
    "choices in conditions": _one_line("(1 if " * 25 + "n > 1" + " else 0)" * 25),
    "comparisons": _one_line(" < ".join(f"n // {number + 2}" for number in range(60))),
    "branches in a row": "def f(x: f32):\n"
    + "".join(f"    if x > {number}:\n        x = x * 2\n" for number in range(1000))
    + "    return x\n",
}


@pytest.mark.full("branches in a row")
@pytest.mark.parametrize("name", DEEP)
def test_work_grows_with_the_size_of_a_cell(name: str) -> None:
    """Where each level doubled the work, some of these would take longer than the universe has."""
    assert compile_source(Source("cell", DEEP[name]), {}).module.functions["f"]
