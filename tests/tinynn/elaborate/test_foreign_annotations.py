"""Annotations of other libraries in every place of a cell: functions in functions, classes, variables."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

import nnmagic
from nnmagic import Tensor, f32

X = np.arange(3, dtype="float32")


def test_functions_in_functions_and_helpers_without_types() -> None:
    source = """
def helper(x: npt.NDArray[np.float32], scale: float = 2.0) -> npt.NDArray[np.float32]:
    return x * scale

def f(x: Annotated[np.ndarray, Tensor[("n",), f32]]) -> np.ndarray:
    def shifted(y: npt.NDArray[np.floating], by: float) -> np.ndarray:
        return y + by
    return shifted(helper(x), 1.5) + helper(x, 3)
"""
    names = {"np": np, "npt": npt, "Annotated": Annotated, "Tensor": Tensor, "f32": f32}
    result = nnmagic.compile(source, namespace=names, engine="numpy", cache=False)(X)
    assert result.dtype == "float32"
    np.testing.assert_array_equal(result, X * 5 + np.float32(1.5))


def test_classes_and_variables_have_pythons_types() -> None:
    source = """
class Step:
    size: float
    count: int
    weights: Tensor[(3,), float]

def f(step: Step) -> float:
    total: float = 0.5
    for i in range(step.count):
        total += step.size
    return total + step.weights.sum()
"""
    function = nnmagic.compile(source, engine="numpy", cache=False)
    assert function((0.25, 3, np.ones(3))) == 0.5 + 0.75 + 3
