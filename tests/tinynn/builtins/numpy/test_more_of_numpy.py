"""NumPy's functions on sizes that only the call knows, and functions of functions: NumPy is the judge."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(18)
GIVEN = {"x": RNG.normal(size=7), "m": RNG.normal(size=(4, 5)), "i": RNG.integers(0, 5, 9), "k": np.int64(3)}
HEAD = (
    'def f(x: Tensor[("n",), f64], m: Tensor[("r", "c"), f64], i: Tensor[("j",), i64], k: i64):\n    return '
)

EXPRESSIONS = """
np.bincount(i)
np.bincount(i, minlength=8)
np.bincount(i, minlength=k)
np.bincount(i, weights=i * 0.5)
np.convolve(x, m[0])
np.convolve(m[0], x, "same")
np.convolve(x, [1.0, 2.0, 3.0], "same")
np.convolve(x, np.ones(3) / 3, mode="valid")
np.correlate(x, m[0])
np.correlate(m[0], x, "same")
np.correlate(x, [1.0, 2.0, 3.0], "full")
np.roll(x, k)
np.roll(m, k, axis=1)
np.roll(m, (1, -2), axis=(0, 1))
np.pad(x, 2, mode="edge")
np.pad(m, 1, mode="reflect")
np.pad(x, 9, mode="wrap")
np.pad(x, 9, mode="symmetric")
np.pad(x, k)
np.pad(x, (k, 0), mode="edge")
np.pad(m, ((0, 0), (k, 1)), constant_values=2)
np.repeat(x, k)
np.repeat(m, k, axis=1)
np.repeat(m, len(x), axis=0)
np.repeat(x, i[:7])
np.repeat(x, [1, 2, 0, 1, 1, 1, 3])
np.tile(x, k)
np.tile(m, (2, k))
np.tile(x, (k, 1))
np.insert(x, 0, 2)
np.insert(x, 0, [1.0, 2.0])
np.insert(np.eye(3, 4), -1, x[0], axis=1)
np.insert(np.eye(3, 4), 1, [5.0, 6.0, 7.0], axis=1)
np.insert(np.eye(3, 4), 4, np.ones((2, 3)), axis=1)
np.insert(np.eye(3, 4), 3, [5.0, 6.0, 7.0, 8.0], axis=0)
np.insert(np.eye(3, 4), 2, x[1])
np.lib.stride_tricks.sliding_window_view(x, 3).std(axis=1)
np.lib.stride_tricks.sliding_window_view(m, (2, 3))
np.lib.stride_tricks.sliding_window_view(m, 2, axis=0)
np.lib.stride_tricks.sliding_window_view(m, (3, 2), axis=(1, 0))
np.partition(x, 3)[3]
np.sort(np.partition(m, 1, axis=0)[:2], axis=0)
np.sort(x[np.argpartition(x, (2, 4))[:2]])
min(x[0], x[1], x[2])
max(x[0], -9, x[1], -x[2])
np.mean([x[0], x[1], 2.0])
np.mean([m, m * 2], axis=0)
np.mgrid[-1.5:1.5:4j, -2:1:3j]
np.mgrid[0:2:5j, 0:3]
np.std([x, x * 2])
np.max([x, -x], axis=0)
np.sum([x, -2 * x], axis=1)
np.max([x[0], x[1]])
np.argmax([x[0], x[1], x[2]])
np.select([x > 1, x < -1], [x, -x])
np.select([x > 1, x < -1], [x, -x], default=7)
np.piecewise(x, [x < 0, x >= 0], [-1, 1])
np.piecewise(x, [x < 0], [lambda v: v * 2, lambda v: v + 1])
np.apply_along_axis(lambda r: r.sum(), 1, m)
np.apply_along_axis(lambda r: np.sort(r)[:2], 0, m)
np.apply_along_axis(lambda r, by: r * by, 1, m, 3.0)
np.apply_along_axis(lambda r: r.sum(), 0, x), np.apply_along_axis(lambda r: r.sum(), 1, m[:, :0])
np.unique(i, return_index=True, return_inverse=True, return_counts=True)
np.unique(m > 0, return_counts=True)
np.unique_counts(i)
np.isin(i, [1, 2])
np.isin(m, x, invert=True)
np.nextafter(x, 0.0)
np.cumulative_sum(x, include_initial=True)
np.cumulative_prod(m, axis=1)
np.linalg.vector_norm(m, axis=(0, 1), ord=3)
np.linalg.matrix_norm(m, ord=1, keepdims=True)
np.searchsorted(x, m[0], sorter=np.argsort(x))
np.nanargmax(m), np.nanargmin(m, axis=1, keepdims=True), np.nanargmax(np.where(m > 1, np.nan, m), axis=0)
np.nancumsum(np.where(m > 0, np.nan, m), axis=1), np.nancumprod(np.where(x > 0, np.nan, x)), np.nancumsum(i)
np.lexsort((i, i % 2)), np.lexsort((x[::-1], x > 0)), np.lexsort((m, m > 0), axis=0)
np.block([x, x]), np.block([[m], [m]]), np.block([x, 1.0, x])
np.histogram2d(x, x * 2, bins=(2, 3), range=[[-1, 1], [-2, 2]])
np.histogram2d(x, x, bins=[np.linspace(-1, 1, 4), np.linspace(-2, 2, 3)], weights=x)
np.histogram2d(x, x[::-1], bins=4, density=True)
np.unwrap(x * 5), np.unwrap(m * 5, axis=0), np.unwrap(x * 5, period=4)
np.union1d(i, [9]), np.intersect1d(i, [1, 2]), np.setdiff1d(i, [1, 2]), np.setdiff1d(x, x[:2])
np.choose(i % 3, [i, i * 2, -1]), np.choose(i % 2, (0.5, 1.5))
np.ravel_multi_index((i % 4, i % 3), (4, 3))
np.size(m), np.size(m, 1), np.shape(m)[0], np.ndim(m)
np.nanmedian(np.where(m > 0, np.nan, m), axis=0), np.nanmedian(x), np.nanmedian(i)
np.nanquantile(np.where(m > 1, np.nan, m), [0, 0.3, 1], axis=1), np.nanpercentile(m, 40, 0, keepdims=True)
np.gcd(i, 6), np.gcd(i - 3, i[::-1]), np.lcm(i[:, None], [4, 0, -6]), np.gcd(i.astype(np.uint8), 200)
np.delete(x, 1), np.delete(m, [0, -1, 0], axis=1), np.delete(m, k, axis=0), np.delete(m, k - 4, axis=1)
np.delete(x, i % 7), np.delete(x, x > 0), np.delete(m, range(0, 3, 2), axis=0), np.delete(m, [])
np.polyadd(x, [1.0, 2.0]), np.polysub(m[0], x), np.polymul(x, m[0]), np.polymul(x * (x > 9), [0.0, 2.0])
np.polyder(x), np.polyder(i, 2), np.polyint(x), np.polyint(i, 2, [1, 2]), np.polyint(x, k=3.5)
np.vectorize(lambda v: v * 2 if v > 0 else -v)(m), np.vectorize(lambda a, b: (a + b, a > b))(x, x[:1])[1]
np.vectorize(lambda v: v, otypes=[np.int64])(x)
np.stack(list(map(np.sum, m))), sum(map(lambda a, b: a @ b, (x, x), (x, -x))), np.array(list(map(np.sin, m)))
np.finfo(x.dtype).eps * x, np.finfo(np.float32).max + x, np.iinfo(np.int8).min + i, x * np.finfo(float).tiny
np.isreal(x + 0j), np.iscomplex(x * 1j), np.isreal(i)
"""

#: The last assigns `s`.
STATEMENTS = """
s = 0.0; for (a, b), c in np.ndenumerate(m): s += c * a
s = np.zeros_like(m); for a, b in np.ndindex(m.shape): s[a, b] = m[a, b] + a - b
s = x.copy(); s.sort()
s = m.copy(); s.sort(axis=0)
"""

KNOWN_SIZES = """
np.unstack(m, axis=1)
np.fft.rfft2(m)
np.fft.irfftn(m + 1j, s=(4, 8), axes=(0, 1))
np.fft.rfftn(m, axes=(1, 0), norm="ortho")
np.fft.hfft(x + 1j * x)
np.fft.ihfft(x, norm="forward")
np.fft.fftn(m, s=(3, 8), axes=(0, 1))
np.convolve(x + 1j, m[0] - 2j)
np.correlate(x + 1j, m[0] - 2j, "full")
np.indices(m.shape), np.indices((len(x), 2)), np.indices((len(i),))
np.clip(i, 0, len(i) - 1), i.clip(1 - len(i), len(i)), np.clip(i, len(i) - 2, None)
np.cumulative_prod(x + 1j)
np.linalg.diagonal(m.reshape(2, 2, 5))
np.linalg.trace(m.reshape(2, 2, 5), offset=1)
np.zeros_like(x + 1j, dtype=np.int16)
np.poly(x), np.poly([1, 2, 3]) * x[0], np.poly(m[0].astype(np.float32))
np.delete(m, 2, axis=0), np.delete(m, [1, 3], axis=1), np.delete(m, -1)
np.nanmedian(m, axis=0), np.nanquantile(np.where(x > 0, np.nan, x), 0.7), np.polymul([1, -2], [0, 3]) * x[0]
np.median(m.reshape(2, 2, 5), axis=(0, 2)), np.quantile(m.reshape(2, 2, 5), [0.1, 0.7], (2, 1), keepdims=True)
np.nanmedian(m.reshape(2, 2, 5), axis=(0, 1)), np.percentile(m[None], 30, axis=(0, 2))
np.gcd(12, 18) * x, tuple(m.shape)[1] * x, [v for v in map(abs, (x, -x))][1]
"""


def check(head: str, expression: str) -> None:
    function = nnmagic.compile(head + expression, namespace={"np": np}, promote=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        expected = eval(expression, {"np": np}, GIVEN)
    results = function(*GIVEN.values())
    pairs = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
    for result, wanted in pairs:
        assert result.dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.full("np.union1d(i, [9])", "np.unique_counts(i)")
@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_named_sizes(expression):
    check(HEAD, expression)


@pytest.mark.full("s = x.copy(); s.sort()", "s = m.copy(); s.sort(axis=0)")
@pytest.mark.parametrize("lines", STATEMENTS.strip().splitlines())
def test_statements(lines):
    head, *body = lines.replace(": s", ":\n        s").split("; ")
    text = "".join(f"    {line}\n" for line in (head, *body)) + "    return s\n"
    space = {"np": np}
    exec(f"def f(x, m, i, k):\n{text}", space)
    source = HEAD.removesuffix("    return ") + text
    result = nnmagic.compile(source, namespace={"np": np})(*GIVEN.values())
    np.testing.assert_allclose(result, space["f"](*GIVEN.values()), rtol=1e-12)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("expression", KNOWN_SIZES.strip().splitlines())
def test_known_sizes(expression):
    check(HEAD.replace('"n",', "7,").replace('"r", "c"', "4, 5"), expression)


@pytest.mark.sampled(every=4)
@pytest.mark.full("np.nanargmax(m, axis=1)-changed8")
@pytest.mark.parametrize(
    ("expression", "changed"),
    [
        ("np.bincount(i)", {"i": -GIVEN["i"] - 1}),
        ("np.repeat(x, k)", {"k": np.int64(-1)}),
        ("np.tile(x, k)", {"k": np.int64(-1)}),
        ("np.pad(x, k)", {"k": np.int64(-1)}),
        ("np.repeat(x, i)", {}),
        ("np.repeat(x, i[:7] - 9)", {}),
        ("np.pad(x, 2, mode='wrap')", {"x": np.zeros(0)}),
        ("np.convolve(x, m[0])", {"m": np.zeros((4, 0))}),
        ("np.nanargmax(m, axis=1)", {"m": np.full((4, 5), np.nan)}),
        ("np.choose(i, [1, 2])", {}),
        ("np.ravel_multi_index((i, i), (2, 9))", {}),
        ("np.delete(m, k, axis=0)", {"k": np.int64(4)}),
        ("np.delete(x, i)", {"x": np.zeros(2)}),
    ],
)
def test_a_call_that_numpy_refuses_is_an_error(expression, changed):
    function = nnmagic.compile(HEAD + expression, namespace={"np": np})
    given = {**GIVEN, **changed}
    with pytest.raises((ValueError, IndexError)):
        eval(expression, {"np": np}, given)
    with pytest.raises((ValueError, IndexError)):
        function(*given.values())


def test_scan_carries_and_stacks():
    def expected(x, k):
        carry, rows = 1.0, []
        for a, b in zip(x, k, strict=True):
            rows.append((carry, a * b))
            carry = carry * a + b
        return carry, np.transpose(rows)

    source = """
def f(x: Tensor[("n",), f64], y: Tensor[("n",), f64]):
    def step(c, t):
        a, b = t
        return c * a + b, (c, a * b)
    return scan(step, 1.0, (x, y))
"""
    x, y = GIVEN["x"], np.cos(GIVEN["x"])
    carry, (before, products) = nnmagic.compile(source)(x, y)
    wanted, rows = expected(x, y)
    np.testing.assert_allclose(carry, wanted, rtol=1e-14)
    np.testing.assert_allclose([before, products], rows, rtol=1e-14)


def test_scan_without_values_counts_rounds():
    source = """
def root(x: f64):
    return scan(lambda c, _: (c / 2 + x / c / 2, None), x, None, length=20)[0]
"""
    np.testing.assert_allclose(nnmagic.compile(source)(2.0), np.sqrt(2.0), rtol=1e-15)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("scan(lambda c, a: c + a, 0.0, x)", "scan: the function must return (carry, y), not an f64"),
        ("scan(lambda c, a: (c + q, a), 0.0, x)", "unknown name `q`"),
        ("scan(3, 0.0, x)", "scan: `f` must be a function, not the number 3"),
        ("scan(lambda c, a: (c, a), 0.0)", "scan: without `xs`, how many rounds there are"),
        ("piecewise(x, [x > 0], [1, 2, 3])", "piecewise: 3 functions for 1 conditions"),
        ("apply_along_axis(lambda r: q, 0, x)", "unknown name `q`"),
        ("convolve(x, zeros((0,)))", "convolve: `v` is empty"),
        ("delete(x, 3)", "delete: index 3 is out of range for an axis of size 3"),
        ("delete(x, 1.5)", "delete: `obj` must be an index, indices or a mask, not the number 1.5"),
        ("nan_to_num(x, copy=False)", "nan_to_num makes a new array"),
        (
            "histogram(x, 3, range=(1, 0))",
            "histogram: `range` must be two finite numbers, the smaller one first",
        ),
        ("gcd(x, 2)", "gcd is defined for integers, not f64"),
        ("polyadd(x[None], x)", "polyadd takes vectors of coefficients, not a tensor of shape (1, 3)"),
        ("poly(x[None])", "poly takes the zeros, or a square matrix, not a tensor of shape (1, 3)"),
        ("vectorize(3)(x)", "vectorize: `pyfunc` must be a function, not the number 3"),
        ("np.finfo(3).eps", "finfo: the number 3 is no dtype"),
        ("np.iinfo(x.dtype).max", "iinfo tells the limits of integers, not of f64"),
    ],
)
def test_a_mistake_is_located(body, message):
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(f"def f(x: Tensor[(3,), f64]):\n    return {body}\n", namespace={"np": np})
    (found,) = error.value.diagnostics
    assert found.message == message
    assert found.span.line == 2


def test_functions_that_are_imported_by_name():
    names = {}
    exec(
        "from numpy import exp, cumsum as running\nfrom numpy.linalg import norm\nfrom math import sqrt\n"
        "from numpy.lib.stride_tricks import sliding_window_view",
        names,
    )
    source = (
        "def f(x: Tensor[(6,), f64]):\n"
        "    return running(exp(x)) / norm(x) + sqrt(2), sliding_window_view(x, 2)\n"
    )
    x = np.linspace(0, 1, 6)
    values, windows = nnmagic.compile(source, namespace=names)(x)
    np.testing.assert_allclose(values, np.cumsum(np.exp(x)) / np.linalg.norm(x) + np.sqrt(2), rtol=1e-14)
    np.testing.assert_array_equal(windows, np.transpose([x[:-1], x[1:]]))


def test_a_function_of_the_same_name_is_another():
    def exp(x):
        return x + 1

    assert nnmagic.compile("def f(x: f64):\n    return exp(x)\n", namespace={"exp": exp})(1.0) == 2
