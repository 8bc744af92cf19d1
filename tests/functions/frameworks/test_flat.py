"""Compiled functions as functions of flat arrays, which `f.torch` and `f.jax` are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.frameworks.flat import FlatFunction, specialize

X, W = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])


def compiled(source: str) -> Any:
    return nnmagic.compile(source, engine="numpy")


def test_leaves_of_tuples_and_records_go_in_and_out() -> None:
    f = compiled(
        "class P:\n    w: Tensor[(3,), f64]\n    b: f64\n"
        'def f(x: Tensor[("n", 3), f64], p: P, *, k: i64 = 2):\n'
        "    return P(p.w * f64(k), p.b), x @ p.w + p.b\n"
    )
    flat = FlatFunction(f, "torch")
    leaves, makers = flat.open((X, {"w": W, "b": 0.5}), {"k": 3})
    assert [np.ndim(leaf) for leaf in leaves] == [2, 1, 0, 0]
    assert flat.shapes([np.shape(leaf) for leaf in leaves]) == [(3,), (), (2,)]
    record, product = flat.close(flat.run(leaves), makers)
    assert isinstance(record, dict)
    np.testing.assert_array_equal(record["w"], 3 * W)
    np.testing.assert_allclose(product, X @ W + 0.5)
    arguments = flat.with_cotangents(leaves, [np.zeros(3), np.zeros(()), np.array([1.0, 1.0])])
    by_x, by_w, by_b, by_k = flat.gradients(flat.pullback.run(arguments))
    np.testing.assert_array_equal(by_x, [W, W])
    np.testing.assert_array_equal(by_w, X.sum(0))
    assert (by_b, by_k) == (2.0, None)


def test_sizes_are_those_of_the_arguments_or_symbols_or_those_that_a_run_decides() -> None:
    f = compiled('def f(x: Tensor[("n",), f64]):\n    return concatenate([x, x]), x[x > 0.0]')
    flat = FlatFunction(f, "torch")
    assert flat.shapes([(4,)]) == [(8,), (None,)]

    class Symbol:
        def __rmul__(self, number: int) -> str:
            return f"{number} of it"

    assert flat.shapes([(Symbol(),)]) == [("2 of it",), (None,)]
    with pytest.raises(TypeError, match="of rank 1, not of rank 2"):
        flat.shapes([(4, 4)])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(x: InOut[Tensor[(3,), f64]]):\n    x[0] = 1.0", "changes its arguments"),
        ("def f(g: np.random.Generator):\n    return g.random()", "draws from a generator"),
        ("def f(x: f64):\n    return {1, 2}", "its result is"),
    ],
)
def test_what_has_no_tensors_is_refused_by_name(source: str, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        FlatFunction(compiled(source), "torch")


def test_a_function_without_types_is_compiled_for_stand_ins() -> None:
    f = compiled("def f(x, axis=0):\n    return x[0].sum(axis=axis) * x[1]")

    class Tensor:
        array = np.ones((2, 3), "f4")

    given = Tensor()

    def view(value: Any) -> Any:
        return value.array if isinstance(value, Tensor) else value

    function, positional, keywords = specialize(f, ((given, 2.0),), {"axis": 1}, view)
    assert positional == [(given, 2.0)]
    assert not keywords
    np.testing.assert_array_equal(function((Tensor.array, 2.0)), [6.0, 6.0])
