"""NumPy programs beside Python on NumPy: dtypes that meet, destinations, histograms, grids, sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(17)
X = RNG.standard_normal(200)
M = RNG.standard_normal((4, 30))
VECTOR = 'x: Tensor[("n",), f64]'


def _twin(source: str) -> Callable[..., Any]:
    """The same function of Python, without annotations."""
    names: dict[str, Any] = {"np": np}
    exec(re.sub(r"(\w+): (Tensor\[.*?\), \w+\]|i64|f64)", r"\1", source), names)
    return names["f"]  # type: ignore[no-any-return]


def _same(got: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, tuple):
        assert isinstance(got, tuple)
        for one, other in zip(got, expected, strict=True):
            _same(one, other, tolerance)
        return
    expected = np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance / 100)


def check(parameters: str, body: str, *arguments: Any, tolerance: float = 1e-12) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    source = f"def f({parameters}):\n{lines}"
    got = nnmagic.compile(source, namespace={"np": np})(*arguments)
    with np.errstate(all="ignore"):
        expected = _twin(source)(
            *(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)
        )
    _same(got, expected, tolerance)


@pytest.mark.parametrize(
    ("parameters", "call", "arguments"),
    [
        (VECTOR, "np.histogram(x), np.histogram(x, 7), np.histogram(x, bins=3, density=True)", [X]),
        (VECTOR, "np.histogram(x, 5, range=(-1.0, 1.0)), np.histogram(x, [-1.0, 0.0, 0.5, 2.0])", [X]),
        (VECTOR, "np.histogram(x, 4)", [X[:0]]),
        (VECTOR, "np.histogram(x, 4)", [X[:1]]),
        (VECTOR, "np.histogram(x)", [np.arange(0, 1.01, 0.05)]),
        (f'{VECTOR}, w: Tensor[("n",), f64], n: i64', "np.histogram(x, n, weights=w)", [X, X**2, 17]),
        ('x: Tensor[("n",), i32]', "np.histogram(x, 4)", [RNG.integers(-5, 9, 99).astype("i4")]),
        ("x: Tensor[(99,), u8]", "np.histogram(x, [0, 2, 5, 7])", [RNG.integers(0, 9, 99).astype("u1")]),
    ],
)
def test_histograms(parameters: str, call: str, arguments: list[Any]) -> None:
    check(parameters, f"return {call}", *arguments)


def test_covariances() -> None:
    calls = "np.cov(m), np.cov(m, rowvar=False), np.cov(m, bias=True), np.cov(m[0], m[1]), np.corrcoef(m)"
    check('m: Tensor[("v", "n"), f64]', f"return {calls}", M, tolerance=1e-9)
    check("m: Tensor[(4, 30), f32]", "return np.cov(m), np.corrcoef(m)", M.astype("f4"), tolerance=1e-6)


def test_grids_and_sizes_of_arguments() -> None:
    grids = "i, j = np.mgrid[0:n, 1:k]\na, b = np.ogrid[0:n, 0:4]\n"
    check("n: i64, k: i64", f"{grids}return i, j, a * b, np.mgrid[2:9:3], np.mgrid[0:1:0.25, 0:3]", 3, 5)
    made = (
        "np.eye(n), np.eye(n, k, 1), np.identity(n, dtype=np.float32), np.tri(n, k), np.zeros((n, k)), "
        "np.arange(n), np.arange(1, n), np.arange(n, 0, -1), np.linspace(0, 1, n), np.full((k, 2), 3.5)"
    )
    check("n: i64, k: i64", f"return {made}", 4, 6)
    spaced = "np.linspace(a, b, n), np.linspace(a, b, 7), np.linspace(a, 1, n, endpoint=False)"
    check("a: f64, b: f64, n: i64", f"return {spaced}", 0.3, 2.7, 11)
    reshaped = "return np.reshape(np.reshape(a, (i, j, 1, k)) @ c, (i, j, k))"
    stack = 'a: Tensor[("n", "m", "p"), f64], c: Tensor[("p", "p"), f64], i: i64, j: i64, k: i64'
    check(stack, reshaped, RNG.random((3, 4, 5)), RNG.random((5, 5)), 3, 4, 5)


def test_sizes_without_a_name_are_added_to() -> None:
    body = "y = x[x > 0]\nn = len(y)\nreturn n + 1, n - 1, 1 + n, 1 * n, np.zeros(n + 1)"
    check(VECTOR, body, X[:9])


def test_methods_of_universal_functions() -> None:
    outer = "np.add.outer(x, b), np.minimum.outer(i, i), np.subtract.outer(b, x), np.less.outer(i, i)"
    along = "np.add.reduce(b), np.maximum.reduce(b, axis=None), np.add.accumulate(b)"
    parameters = f"{VECTOR}, b: Tensor[(2, 3), f64], i: Tensor[(3,), i32]"
    check(parameters, f"return {outer}, {along}", X[:4], M[:2, :3].copy(), np.array([1, 2, 3], "i4"))


def test_destinations_of_calls() -> None:
    body = """c = np.empty_like(x)
np.add(x, y, out=c)
np.multiply(c, c, c)
d = c > 1
np.logical_not(d, d)
s = np.zeros(1)
np.sum(c, keepdims=True, out=s)
np.sqrt(x * x, out=c[1:4])
return c, d, s"""
    check("x: Tensor[(3,), f64], y: Tensor[(3,), f64]", body.replace("[1:4]", "[:]"), X[:3], X[3:6])
    with pytest.raises(nnmagic.TinyNNError, match="`out=` gives f64, which an array of i32 cannot hold"):
        check(VECTOR, "k = np.zeros(3, dtype=np.int32)\nnp.add(x, x, out=k)\nreturn k", X[:3])


def test_values_take_the_dtype_of_the_array() -> None:
    body = """a = np.zeros(4, dtype=np.int32)
a[1:] = i[1:]
a[0] = i[2]
b = np.zeros(4, dtype=np.float32)
b[:] = x
b[2] = i[1]
d = np.zeros(4, dtype=np.bool_)
d[:] = i
e = np.zeros(4, dtype=np.uint8)
e[:] = x * 3 + 7
e[0] += 0.5
a += i[3]
return a, b, d, e"""
    check(
        "i: Tensor[(4,), i64], x: Tensor[(4,), f64]",
        body,
        np.arange(4),
        np.array([0.5, 1.25, 2, 3]),
        tolerance=1e-7,
    )


@pytest.mark.parametrize("statement", ["a += x[1]", "a[1:] += x[1]", "a /= 2"])
def test_arrays_of_integers_hold_no_sum_with_floats(statement: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match=r"`.=` gives f64, which an array of i64 cannot hold"):
        check("i: Tensor[(3,), i64], x: Tensor[(3,), f64]", f"a = i.copy()\n{statement}\nreturn a")


DTYPES = {
    "bool_": "?",
    "i8": "i1",
    "i32": "i4",
    "i64": "i8",
    "u8": "u1",
    "u32": "u4",
    "f32": "f4",
    "f64": "f8",
}


def test_elements_meet_arrays_as_in_numpy() -> None:
    """All pairs in one cell, but those of which the integers take the dtype of the floats."""
    names = ["b" if name == "bool_" else name for name in DTYPES]
    pairs = list(zip(names, DTYPES, strict=True))
    parameters = ", ".join(
        [f"{name}_: Tensor[(5,), {dtype}]" for name, dtype in pairs]
        + [f"{name}_1: {dtype}" for name, dtype in pairs]
    )
    other_than_numpy = {frozenset(("f32", other)) for other in ("i32", "i64", "u32")}
    taken = [
        (one, other) for one in names for other in names if frozenset((one, other)) not in other_than_numpy
    ]
    arrays = [np.array([0, 1, 1, 3, 5]).astype(dtype) for dtype in DTYPES.values()]
    elements = [array[3] for array in arrays]
    for form in ("{}_ + {}_1", "{}_1 < {}_", "{}_ / {}_1", "np.maximum({}_1, {}_)", "{}_1 * {}_1"):
        check(parameters, "return " + ", ".join(form.format(*pair) for pair in taken), *arrays, *elements)


@pytest.mark.full
def test_arrays_meet_as_in_numpy() -> None:
    """All pairs in one cell, by the same rule as elements."""
    names = ["b" if name == "bool_" else name for name in DTYPES]
    pairs = list(zip(names, DTYPES, strict=True))
    parameters = ", ".join(f"{name}_: Tensor[(5,), {dtype}]" for name, dtype in pairs)
    other_than_numpy = {frozenset(("f32", other)) for other in ("i32", "i64", "u32")}
    taken = [
        (one, other) for one in names for other in names if frozenset((one, other)) not in other_than_numpy
    ]
    arrays = [np.array([0, 1, 1, 3, 5]).astype(dtype) for dtype in DTYPES.values()]
    for form in ("{}_ + {}_", "{}_ < {}_", "{}_[:, None] * {}_", "np.maximum({}_, {}_)", "{}_ @ {}_"):
        check(parameters, "return " + ", ".join(form.format(*pair) for pair in taken), *arrays)
    check(parameters, "return np.where(b_, i8_, u8_), np.concatenate((i8_, i64_)), u8_ / i64_", *arrays)


def test_results_of_functions_that_make_their_arrays_may_be_changed() -> None:
    source = """
def smooth(x: Tensor[("n",), f64], rounds: i64):
    y = x.copy()
    for k in range(rounds):
        y[1:-1] = (y[:-2] + y[2:]) / 2
    return y

def f(x: Tensor[("n",), f64], steps: i64):
    y = x.copy()
    for k in range(steps):
        z = smooth(y, 2)
        y[0] += z[1]
        z[0] = y[0]
        y[:] = z
    return y
"""
    names: dict[str, Any] = {}
    exec(re.sub(r"(\w+): (Tensor\[.*?\), \w+\]|i64)", r"\1", source), names)
    np.testing.assert_allclose(nnmagic.compile(source)(X[:9], 3), names["f"](X[:9], 3), rtol=1e-12)


def test_a_view_that_a_function_returns_is_no_memory_of_its_own() -> None:
    source = """
def head(x: Tensor[(4,), f64]):
    return x[:2]

def f(x: Tensor[(4,), f64]):
    y = x.copy()
    z = head(y)
    y[0] = 1.0
    return z
"""
    with pytest.raises(nnmagic.TinyNNError, match="`z` may share memory with `y`"):
        nnmagic.compile(source)
