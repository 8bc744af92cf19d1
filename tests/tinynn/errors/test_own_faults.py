"""A fault of the front end's own is told as one, at the place where it showed."""

from __future__ import annotations

import pytest

import nnmagic
from nnmagic.diagnostics import InternalError

CELL = """def f(x: Tensor[(2,), f32]):
    y = exp(x)
    if y.sum() > 0:
        y = y - x
    return y
"""


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("tinynn.syntax.cell.CellCompiler._binary", 4),
        ("tinynn.elaborate.cell_functions.finish_body", 1),
        ("tinynn.elaborate.joins.merge_exits", 3),
        ("tinynn.elaborate.operations.check_operands", 3),
        ("tinynn.compilation.check_kernels", 1),
    ],
)
def test_a_fault_of_ours_is_told_where_it_showed(
    monkeypatch: pytest.MonkeyPatch, part: str, line: int
) -> None:
    monkeypatch.setattr(f"nnmagic.{part}", None)
    with pytest.raises(InternalError, match="internal error of nnmagic: ") as caught:
        nnmagic.compile(CELL, namespace={}, cache=False)
    (error,) = caught.value.diagnostics
    assert error.span is not None
    assert error.span.line == line
    assert "please report it" in (error.hint or "")
    assert isinstance(caught.value.__cause__, TypeError)
    assert caught.value.__cause__.__traceback__ is not None


def test_a_function_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnmagic.tinynn.elaborate.operations.check_operands", None)

    @nnmagic.function
    def f(x):
        return x + 1

    with pytest.raises(InternalError, match="return x"):
        f(1.0)
