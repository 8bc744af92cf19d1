"""Type hints of Python, which no cell has as types: what calls give decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, Literal, Optional, Union  # noqa: UP035  # as people write them

import numpy as np
import pytest

from tests.tinynn.cases import assert_as_in_python, errors_of


@dataclass
class Loan:
    rate: float
    months: int


TYPING = {
    "Sequence": Sequence,
    "Callable": Callable,
    "Literal": Literal,
    "Optional": Optional,
    "Tuple": tuple,
    "Union": Union,
    "Loan": Loan,
}
X = np.array([3.0, 1.0, 2.0])
SIGNATURES = {
    "a string": ("(x, how: str = 'sum') -> float", "x.sum() if how == 'sum' else x.mean()", (X, "mean")),
    "a list": (
        "(x: list[float], y: Sequence[int]) -> list[float]",
        "[v * len(y) for v in x]",
        ([1.0, 2.0], [1, 2]),
    ),
    "a function": ("(g: Callable, x: np.ndarray) -> np.ndarray", "g(x)", (np.sin, X)),
    "a function of numbers": ("(g: Callable[[float], float], a: float) -> float", "g(a) * 2", (np.sin, 1.0)),
    "None or a string": (
        "(x: np.ndarray, how: str | None = None) -> dict[str, float]",
        "{'m': x.max()}",
        (X,),
    ),
    "None or a number": (
        "(x: np.ndarray, n: Optional[int] = None) -> Optional[float]",
        "x[0] if n is None else None",
        (X,),
    ),
    "one of several": (
        "(d: dict[str, float], mode: Literal['a', 'b']) -> str",
        "mode if d['q'] > 1 else 'y'",
        ({"q": 2.0}, "a"),
    ),
    "tuples": (
        "(p: Tuple[float, ...], q: Union[int, str]) -> tuple[np.ndarray, str]",
        "np.array(p), 'a'",
        ((1.0, 2.0), 3),
    ),
    "arrays, by mistake": ("(x: np.array, i: int) -> float", "x[i]", (X, 1)),
    "a dataclass": ("(loan: Loan) -> float", "loan.rate * loan.months", (Loan(0.5, 3),)),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_hints_leave_types_open(name: str) -> None:
    signature, value, args = SIGNATURES[name]
    assert_as_in_python(f"def f{signature}:\n    return {value}\n", *args, **TYPING)


def test_types_of_cells_are_no_hints() -> None:
    text = (
        "class List:\n    def Nil(): ...\n    def Cons(head: f32, tail: List): ...\n\n"
        "def total(xs: List) -> f32:\n    match xs:\n        case Nil():\n            return 0.0\n"
        "        case Cons(head, tail):\n            return head + total(tail)\n"
    )
    assert not errors_of(text)
    assert errors_of("def f(x: list[f32]):\n    return x[0]\n")
