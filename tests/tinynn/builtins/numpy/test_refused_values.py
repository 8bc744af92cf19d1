"""Values that NumPy refuses with ValueError are refused at the call; others give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

NAN, INF = np.nan, np.inf
#: Functions of i (i64) or x (f64), with what they take and what they refuse.
CASES: dict[str, tuple[list[list[float]], list[list[float]]]] = {
    "np.bincount(i)": ([[0, 3, 1], [5], []], [[0, -1], [-(2**62)]]),
    "np.bincount(i, minlength=4)": ([[0, 9, 1], []], [[3, -2]]),
    "np.bincount(i, weights=i * 0.5)": ([[0, 9, 1]], [[3, -2]]),
    "np.repeat(i, i)": ([[0, 3, 1], [0], []], [[1, -1], [-1, 5]]),
    "np.repeat([3.0, 5.0, 7.0], i)": ([[0, 3, 1]], [[1, 2], [1, 1, 1, 1], [1, 1, -1]]),
    "np.choose(i, (i * 2, i + 9, -i))": ([[0, 2, 1], []], [[0, 3], [-1, 0]]),
    "np.ravel_multi_index((i, i), (3, 4))": ([[0, 2, 1]], [[0, 3], [-1, 0]]),
    "np.unravel_index(i, (2, 3))": ([[0, 5, 1], []], [[0, 6], [-1, 0]]),
    "np.digitize([0.5, 2.0, 9.0], x)": (
        [[1, 2, 3], [3, 2, 2, 0], [2, 2], [5], []],
        [[1, 3, 2], [2, 1, 2], [1, 1, 2, 1]],
    ),
    "np.digitize([0.5, 2.0, 9.0], x, right=True)": ([[1, 2, 9], [9, 2, 0]], [[1, 3, 2]]),
    "np.histogram([0.5, 2.0, 9.0], x)[0]": ([[1, 2, 9], [0, 2, 2, 10]], [[1, 3, 2], [9, 2, 0]]),
    "np.histogram(x, 4)[0]": ([[1, 3, 2], [2]], [[1, NAN], [INF, 2], [-INF, INF]]),
    "np.histogram(x, 4)[1]": ([[1, 3, 2], [2]], [[1, NAN], [INF, 2]]),
    "np.histogram([0.5, 2.0, 9.0], 3, range=(x[0], x[1]))[0]": (
        [[0, 9], [2, 2]],
        [[1, 0], [0, INF], [NAN, 2]],
    ),
    "np.histogram2d(x, x, 3)[0]": ([[1, 2, 9]], [[1, NAN]]),
    "np.searchsorted(x, 2.0, sorter=np.argsort(x) + 0)": ([[1, 9, 3]], []),
    "np.searchsorted([1.0, 5.0, 3.0], 2.0, sorter=i)": ([[0, 2, 1]], [[7, 8, 9], [-5, -5, -5]]),
    "np.nanargmax(x)": ([[1, NAN, 3]], [[NAN, NAN]]),
    "np.nanargmin(x[None], axis=1)": ([[1, NAN, 3]], [[NAN, NAN]]),
}


def _array(name: str, values: list[float]) -> np.ndarray:
    return np.array(values, "int64" if name == "i" else "float64")


@pytest.mark.full(
    "np.histogram2d(x, x, 3)[0]",
    "np.nanargmin(x[None], axis=1)",
    "np.nanargmax(x)",
    "np.digitize([0.5, 2.0, 9.0], x)",
    "np.searchsorted(x, 2.0, sorter=np.ar",
    "np.digitize([0.5, 2.0, 9.0], x, right=True)",
)
@pytest.mark.parametrize("expression", CASES)
def test_values_that_numpy_refuses(expression: str) -> None:
    name = "i" if "i)" in expression or "(i" in expression else "x"
    dtype = {"i": "i64", "x": "f64"}[name]
    source = f'def f({name}: Tensor[("n",), {dtype}]):\n    return {expression}\n'
    f = nnmagic.compile(source, namespace={"np": np})
    fine, refused = CASES[expression]
    for values in fine:
        given = _array(name, values)
        expected = eval(expression, {"np": np, name: given})
        found = f(given)
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours, theirs)
    for values in refused:
        given = _array(name, values)
        with pytest.raises(ValueError, match=r".+"):
            eval(expression, {"np": np, name: given})
        called = expression.removeprefix("np.").partition("(")[0]
        with pytest.raises(ValueError, match=rf"^{called}\b") as caught:
            f(given)
        assert "<tinynn>:2:" in str(caught.value)


@pytest.mark.full("relax")
@pytest.mark.parametrize("engine", ["relax", "numpy"])
def test_a_refused_value_in_a_batch_and_in_a_loop(engine: str) -> None:
    source = """
def f(i: Tensor[("n", "m"), i64]):
    total = 0
    for k in range(len(i)):
        total += bincount(i[k], length=4)[1]
    counts = vmap(lambda row: bincount(row, length=4))(i)
    return total, counts, vmap(lambda row: bincount(i[0], length=4) + row[0])(i)
"""
    f = nnmagic.compile(source, engine=engine)
    i = np.array([[0, 1, 3], [1, 1, 2]])
    total, counts, first = f(i)
    assert total == 3
    np.testing.assert_array_equal(counts, [[1, 1, 0, 1], [0, 2, 1, 0]])
    np.testing.assert_array_equal(first, [[1, 1, 0, 1], [2, 2, 1, 2]])
    with pytest.raises(ValueError, match="bincount: a number is negative"):
        f(-i)


def test_a_list_of_bins_out_of_order_is_refused_at_once() -> None:
    with pytest.raises(nnmagic.CompileError, match="digitize: the bins must increase or decrease"):
        nnmagic.compile('def f(x: Tensor[("n",), f32]):\n    return digitize(x, [1, 3, 2])\n')
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), f32]):\n    return digitize(x, [5, 2, 0]), digitize(x, [0, 2, 2])\n'
    )
    x = np.array([-1, 0, 1, 2, 5, 9], "float32")
    for found, bins in zip(f(x), ([5, 2, 0], [0, 2, 2]), strict=True):
        np.testing.assert_array_equal(found, np.digitize(x, bins))


@pytest.mark.full
def test_gradients_pass_a_check() -> None:
    source = """
def f(x: Tensor[("n",), f64], i: Tensor[("n",), i64]):
    def g(x):
        return (np.repeat(x, i) ** 2).sum()

    return grad(g)(x)
"""
    f = nnmagic.compile(source, namespace={"np": np})
    np.testing.assert_array_equal(f(np.array([1.0, 2, 3]), np.array([2, 0, 1])), [4, 0, 6])
    with pytest.raises(ValueError, match="repeat: a number in `repeats` is negative"):
        f(np.array([1.0, 2, 3]), np.array([2, 0, -1]))
