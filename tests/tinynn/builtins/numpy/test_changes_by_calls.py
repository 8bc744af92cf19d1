"""NumPy's calls that change an array, its functions that make indices, and its polynomials, beside NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(3)
X, M, K = RNG.random(8), RNG.random((4, 4)), np.array([1, 3, 3, 0])
SIZES = (0, 1, 2, 9, "len(x)", "len(x) - 7")
PARAMETERS = 'x: Tensor[("n",), f64], m: Tensor[(4, 4), f64], k: Tensor[(4,), i64]'


def check(body: str, *, tolerance: float = 1e-12, absolute: float = 0) -> None:
    lines = "\n    ".join(body.split("\n"))
    source = f"def f({PARAMETERS}):\n    {lines}\n"
    names: dict[str, Any] = {"np": np}
    exec(re.sub(r": Tensor\[.*?\), \w+\]", "", source), names)
    expected = names["f"](X.copy(), M.copy(), K.copy())
    got = nnmagic.compile(source, namespace={"np": np})(X, M, K)
    for one, other in zip(got, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=absolute)


def test_calls_that_change_an_array() -> None:
    check("""y = np.empty_like(x)
y.fill(3)
y[1] = 2
z = np.zeros((4, 4))
np.copyto(z, m)
np.fill_diagonal(z, 7)
w = x.copy()
np.putmask(w, w > 0.5, 0)
return y, z, w""")


def test_changes_at_indices_count_each_index() -> None:
    check("""y, z, w, v = x.copy(), m.copy(), x.copy(), x.copy()
np.add.at(y, k, m[0])
np.add.at(y, -k - 1, 1)
np.subtract.at(z, (k, k), 0.5)
np.maximum.at(w, k, m[1])
np.multiply.at(v, k, 2)
c = np.zeros(5, dtype=np.int64)
np.add.at(c, k, 1)
r = m.copy()
np.add.at(r, k, m)
return y, z, w, v, c, r""")


def test_running_extremes() -> None:
    check("""y = np.where(x > 0.9, np.nan, x)
return (np.maximum.accumulate(x), np.minimum.accumulate(m, axis=1), np.maximum.accumulate(y),
        np.minimum.accumulate(k), np.maximum.accumulate(x[:0]))""")


def test_columns_and_rows() -> None:
    check("return np.c_[x, x * 2], np.c_[m, k], np.r_[x, 0.0, x[:2]], np.r_[m, m]")


@pytest.mark.full
def test_functions_that_make_indices() -> None:
    check("""i, j = np.triu_indices(4, 1)
a, b = np.tril_indices(4)
z = m.copy()
z[np.diag_indices(4)] = 0
z[np.ix_([0, 2], [1, 3])] += 1
rows, columns = np.indices((3, 4))
return m[i, j].sum(), m[a, b].sum(), z, m[np.ix_(k, [0, 2])], rows * 4 + columns, m[np.nonzero(m > 0.5)]""")


def test_polynomials() -> None:
    body = """p = np.polyfit(x, x**2 - x, 3)
return np.polyval([1.0, 2.0, -3.0], x), np.polyval(m[0], x), np.polyval([2, 1], k), np.polyval(p, x)"""
    check(body, tolerance=1e-9)


def test_windows() -> None:
    windows = [
        f"np.{name}({size})" for name in ("bartlett", "blackman", "hamming", "hanning") for size in SIZES
    ]
    check(f"return {', '.join(windows)}", absolute=1e-15)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("np.add.at(x, k, 1)\nreturn x", "the parameter `x` belongs to the caller"),
        ("y = x.copy()\nz = y.reshape(-1)\nnp.add.at(y, k, 1)\nreturn z", "`z` may share memory with `y`"),
        ("x.fill(1)\nreturn x", "the parameter `x` belongs to the caller"),
        ("return np.polyval(3, x)", "a list or a vector of coefficients"),
        ("y = x.copy()\nnp.hypot.at(y, k, 1)\nreturn y", "the function hypot has no attribute"),
    ],
)
def test_refusals(body: str, message: str) -> None:
    lines = "\n    ".join(body.split("\n"))
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(f"def f({PARAMETERS}):\n    {lines}\n", namespace={"np": np})


def test_an_index_out_of_range() -> None:
    source = f"def f({PARAMETERS}):\n    y = x.copy()\n    np.add.at(y, k + len(x), 1)\n    return y\n"
    with pytest.raises(IndexError, match="<tinynn>:3"):
        nnmagic.compile(source, namespace={"np": np})(X, M, K)


def test_elements_are_put_by_their_places() -> None:
    """Of tinynn/builtins/numpy/placement: put, place, put_along_axis, and the elements of `flat`."""
    check("""y, z, w, v = m.copy(), m.copy(), m.copy(), m.copy()
np.put(y, [0, 5, -1], [1.5, 2])
np.put(y, k, 7)
z.put([0, 50, -1], -3, mode='clip')
np.put(w, [[0, 50], [-1, 4]], [-3, 1], mode='wrap')
np.place(v, v > 0.3, [7, 8, 9.5])
return y, z, w, v""")
    check("""y, z, w = m.copy(), m.copy(), m.copy()
np.put_along_axis(y, k[:, None], 99, axis=1)
np.put_along_axis(z, k[None] - 4, np.array([[1.0, 2, 3, 4]]), 0)
np.put_along_axis(w, k, m[0], None)
v = m.copy()
v.partition(2)
return y, z, w, v[:, 2]""")
    check("""y, z = m.copy(), x.copy()
y.flat[5] = 50
y.flat[::5] += 1
y.flat[[1, 2]] = 9, 8
y.flat[-1] *= 2
for i in range(z.size):
    z.flat[i] = i * z.flat[i - 1]
s = 0.0
for value in y.flat:
    s += value
return y, z, s, y.flat[3]""")


@pytest.mark.full
def test_histograms_of_several_axes() -> None:
    check("""h, edges = np.histogramdd(m, bins=(3, 2, 2, 1))
d, other = np.histogramdd((x, x * 2), bins=[2, np.array([0.0, 0.5, 2.0])], weights=x)
e, last = np.histogramdd(m[:, :3], bins=4, density=True, range=[[0, 1], [0, 1], [0, 1]])
return h, edges[0], edges[3], d, other[1], e, last[2]""")


@pytest.mark.parametrize(
    "call",
    ["np.take(m, k[2:], axis=0)", "m.take([1, 3], axis=0)", "np.random.default_rng(1).permutation(m)[:2]"],
)
def test_what_an_array_of_indices_chooses_is_memory_of_its_own(call: str) -> None:
    body = f"y = {call}\n    y[0] = 7\n    return y"
    source = f"def f({PARAMETERS}):\n    {body}\n"
    names: dict[str, Any] = {"np": np}
    exec(re.sub(r": Tensor\[.*?\), \w+\]", "", source), names)
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    np.testing.assert_array_equal(function(X, M, K), names["f"](X, M.copy(), K))
