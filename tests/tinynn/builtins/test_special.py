"""Functions of ``scipy.special`` by SciPy's names: SciPy is the judge.

Their formulas are in relay/functions/bessel, relay/functions/gamma, relay/functions/normal_distribution and
relay/functions/scipy_special; relay/reference/special computes them in NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import special

import nnmagic
from nnmagic.tinynn.builtins import MODULES

RNG = np.random.default_rng(7)
_REAL = np.concatenate(
    [
        *(RNG.uniform(-5, 5, 60), RNG.uniform(-40, 40, 60), 10 ** RNG.uniform(-12, 2, 40)),
        [0.0, -0.0, 1, 2, 0.5, -0.5, np.inf, np.nan, 10.5, 34.5, 29.9, 30.1],
    ]
)
_SHARES = np.concatenate(
    [
        *(RNG.uniform(0, 1, 80), 10 ** RNG.uniform(-300, 0, 40), 1 - 10 ** RNG.uniform(-16, 0, 40)),
        [0, 1, 0.5, 0.3, 0.65, np.nan, -0.1, 1.1],
    ]
)
_SYMMETRIC = np.concatenate([2 * _SHARES - 1, 10 ** RNG.uniform(-300, 0, 40), [-0.0]])
_POSITIVE = abs(_REAL)
_GAMMA = np.concatenate([RNG.uniform(-30, 170, 100), RNG.uniform(-3, 3, 60), [1, 2, 3, 7.0, 22, np.nan]])

#: The functions of one operand, and numbers.
UNARY = {
    **dict.fromkeys(("erf", "erfc", "expit", "log_expit", "entr", "ndtr", "log_ndtr"), _REAL),
    **dict.fromkeys(("exp2", "exp10", "expm1", "log1p", "cbrt", "sinc"), _REAL),
    **dict.fromkeys(("i0", "i1"), _REAL[np.isfinite(_REAL)]),
    **dict.fromkeys(("i0e", "i1e"), np.append(_REAL[np.isfinite(_REAL)], [1e300, -1.7e308])),
    **dict.fromkeys(("gamma", "rgamma", "gammaln"), _GAMMA),
    **dict.fromkeys(("digamma", "psi", "loggamma"), abs(_GAMMA)),
    **dict.fromkeys(("ndtri", "logit", "erfcinv"), _SHARES),
    "erfinv": _SYMMETRIC,
}
BINARY = {
    "xlogy": (_REAL, _REAL[::-1].copy()),
    "xlog1py": (_REAL, _REAL[::-1].copy()),
    "rel_entr": (_REAL, _REAL[::-1].copy()),
    "kl_div": (np.linspace(0, 9, 50), np.linspace(8, 0, 50)),
    "huber": (_REAL, _REAL[::-1].copy()),
    "pseudo_huber": (_POSITIVE + 0.01, _REAL),
    "beta": (abs(_GAMMA) + 1e-3, abs(_GAMMA[::-1]) + 1e-3),
    "betaln": (abs(_GAMMA) + 1e-3, abs(_GAMMA[::-1]) * 10 + 1e-3),
    "binom": (RNG.integers(0, 200, 100).astype(float), RNG.integers(-3, 210, 100).astype(float)),
    "comb": (RNG.integers(0, 200, 100).astype(float), RNG.integers(-3, 210, 100).astype(float)),
}
#: SciPy's own errors in sums of logarithms of gamma functions.
TOLERANCE = {"beta": 2e-12, "betaln": 1e-10, "binom": 2e-12, "comb": 2e-12, "kl_div": 1e-12}
ENGINES = [pytest.param("numpy"), pytest.param("relax", marks=pytest.mark.full)]


def cell(text: str, *parameters: str, **options: Any) -> nnmagic.CompiledFunction:
    source = f"def f({', '.join(parameters)}):\n    return {text}\n"
    return nnmagic.compile(source, namespace={"special": special, "np": np}, cache=False, **options)


VECTORS = ('x: Tensor[("n",), f64]', 'y: Tensor[("n",), f64]')


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name: str, engine: str) -> None:
    data = UNARY[name]
    found = cell(f"special.{name}(x)", VECTORS[0], engine=engine)(data)
    with np.errstate(all="ignore"):
        expected = getattr(special, name)(data)
    np.testing.assert_allclose(found, expected, rtol=5e-14, atol=2e-16)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(name: str, engine: str) -> None:
    operands = BINARY[name]
    found = cell(f"special.{name}(x, y)", *VECTORS, engine=engine)(*operands)
    with np.errstate(all="ignore"):
        expected = getattr(special, name)(*operands)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE.get(name, 5e-14), atol=1e-300)


def test_beta_functions_of_large_numbers() -> None:
    """SciPy loses digits there; these are from mpmath."""
    found = cell("special.betaln(x, y)", *VECTORS, engine="numpy")
    values = found(np.array([3.3, 20.5, 100.3]), np.array([8.1e5, 1.2e6, 1e4]))
    np.testing.assert_allclose(
        values, [-43.9087115452255, -246.12422393958755, -563.7787746523635], rtol=1e-14
    )


@pytest.mark.full
def test_machine_code_computes_the_same() -> None:
    text = "special.gammaln(x), special.erfinv(x / 100), special.i0e(x), special.polygamma(2, x)"
    data = np.concatenate([_POSITIVE[np.isfinite(_POSITIVE)] + 1e-3, RNG.uniform(0, 3, 20)])
    data = data[data < 99]
    results = cell(text, VECTORS[0], engine="relax")(data)
    expected = (
        special.gammaln(data),
        special.erfinv(data / 100),
        special.i0e(data),
        special.polygamma(2, data),
    )
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=2e-16)


@pytest.mark.parametrize("order", [0, 1, 2, 7])
def test_polygamma(order: int) -> None:
    data = np.concatenate([RNG.uniform(0.1, 5, 40), RNG.uniform(5, 100, 40)])
    found = cell(f"special.polygamma({order}, x)", VECTORS[0], engine="numpy")(data)
    np.testing.assert_allclose(found, special.polygamma(order, data), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "i1", "u2", "?"])
@pytest.mark.parametrize("name", ["gammaln", "erf", "expit", "i0", "factorial"])
def test_dtypes_are_those_of_scipy(name: str, dtype: str) -> None:
    if name == "factorial" and dtype == "?":
        pytest.skip("SciPy's factorials are not of bools")
    data = np.array([0, 1, 3, 5, 1, 0]).astype(dtype)
    shown = {"?": "bool_"}.get(dtype) or f"{dtype[0]}{8 * int(dtype[1])}"
    found = cell(f"special.{name}(x)", f"x: Tensor[(6,), {shown}]", engine="numpy")(data)
    expected = getattr(special, name)(data)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-7 if found.dtype == "f4" else 1e-14)


@pytest.mark.parametrize(
    "text",
    [
        *("logsumexp(x)", "logsumexp(x, axis=1)", "logsumexp(x, axis=(0, 1), keepdims=True)"),
        *("logsumexp(x, b=y)", "logsumexp(x, axis=0, b=y, keepdims=True)", "logsumexp(x, 1, y[:, :1])"),
        *("softmax(x)", "softmax(x, axis=0)", "softmax(x, axis=(0, 1))"),
        *("log_softmax(x)", "log_softmax(x, axis=-1)", "log_softmax(x, axis=(0, 1))"),
    ],
)
def test_sums_of_exponentials(text: str) -> None:
    x, y = RNG.normal(size=(3, 4)) * 300, RNG.uniform(0, 2, (3, 4))
    y[1, 1] = 0
    found = cell(f"special.{text}", "x: Tensor[(3, 4), f64]", "y: Tensor[(3, 4), f64]", engine="numpy")(x, y)
    expected = eval(f"special.{text}", {"special": special, "x": x, "y": y})
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert np.shape(found) == np.shape(expected)


#: The functions with a derivative everywhere inside, and where to ask.
SMOOTH = {
    **dict.fromkeys(("erf", "erfc", "expit", "log_expit", "ndtr", "log_ndtr", "i0", "i0e", "i1", "i1e"), 0.7),
    **dict.fromkeys(("gamma", "gammaln", "digamma", "entr"), 1.3),
    **dict.fromkeys(("ndtri", "logit", "erfcinv", "erfinv"), 0.4),
    **{f"xlogy({a}, {b})": 0.6 for a, b in (("x", 3.0), ("2.0", "x"))},
    **{f"{name}(x, 1.5)": 0.6 for name in ("xlog1py", "rel_entr", "kl_div", "beta", "betaln")},
    "polygamma(1, x)": 2.5,
    "huber(1.0, x)": 0.4,
    "logsumexp(np.array([x, 2 * x]))": 0.4,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str) -> None:
    text = name if "(" in name else f"{name}(x)"
    source = f"def g(x: f64):\n    return special.{text}\n\ndef f(x: f64):\n    return g(x), grad(g)(x)\n"
    namespace = {"special": special, "np": np}
    function = nnmagic.compile(source, namespace=namespace, engine="numpy", cache=False)
    x, step = SMOOTH[name], 1e-6
    slope = (function(x + step)[0] - function(x - step)[0]) / (2 * step)
    np.testing.assert_allclose(function(x)[1], slope, rtol=1e-7, atol=1e-8)


def test_the_derivative_at_the_edge_is_that_of_the_limit() -> None:
    source = (
        "def f(x: f64):\n    return grad(special.xlogy)(x, 3.0), grad(special.i1)(x), grad(special.i1e)(x)\n"
    )
    found = nnmagic.compile(source, namespace={"special": special}, engine="numpy", cache=False)(0.0)
    np.testing.assert_allclose(found, [math.log(3), 0.5, 0.5])


def test_names_are_those_of_the_notebook() -> None:
    namespace: dict[str, Any] = {"scipy": scipy, "np": np, "torch": None}
    exec(
        "from scipy import special as sp\nfrom scipy.special import erf, gammaln as lg, softmax\n", namespace
    )
    source = (
        'def f(x: Tensor[("n",), f64]):\n'
        "    return scipy.special.erf(x), sp.erf(x), erf(x), lg(x), softmax(x), special.expit(x)\n"
    )
    x = np.linspace(0.5, 2, 4)
    found = nnmagic.compile(source, namespace=namespace, engine="numpy", cache=False)(x)
    expected = (*[special.erf(x)] * 3, special.gammaln(x), special.softmax(x), special.expit(x))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "special.factorial(x), special.factorial(x[0]), special.factorial(x[0].astype(np.float32))",
        "special.comb(n, k, repetition=True), special.comb(x, k, repetition=True)",
        "special.comb(n[-1], k[-1], repetition=True), special.comb(4, 2, repetition=True) * x",
        "special.factorial(2.5) * x + special.factorial(-0.5)",
    ],
)
def test_factorials_of_floats_and_combinations_with_repetition(text: str) -> None:
    x = np.array([2.5, 0, -0.5, 1, 7.25, -3, 4])
    n, k = np.array([0, 3, 5, 5, 0, 2, 9]), np.array([0, 0, 2, 7, 2, -1, 4])
    parameters = "x: Tensor[(7,), f64]", "n: Tensor[(7,), i64]", "k: Tensor[(7,), i64]"
    results = cell(text, *parameters, engine="numpy")(x, n, k)
    wanted = eval(text, {"special": special, "np": np, "x": x, "n": n, "k": k})
    for found, expected in zip(*map(_tuple, (results, wanted)), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-7 if found.dtype == "f4" else 1e-13)


def _tuple(value: object) -> tuple[np.ndarray, ...]:
    return value if isinstance(value, tuple) else (np.asarray(value),)


def test_numbers_stay_numbers() -> None:
    text = "x * special.gamma(5) + special.comb(5, 2) * x + special.polygamma(1, 2.0) * x"
    found = cell(text, "x: f32", engine="numpy")(np.float32(2))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 2 * (24 + 10 + special.polygamma(1, 2.0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("special.polygamma(21, x)", "the order must be from 0 to 20, not 21"),
        ("special.comb(x, 2, exact=True)", "`exact` is not supported"),
        ("special.hyp2f1(x, x, x, x)", "`special.hyp2f1` is not supported in a cell"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match="(?s)" + message.replace("(", "\\(")):
        cell(text, "x: f64")


def test_every_function_is_one_of_scipy() -> None:
    """A newer SciPy may have more: softplus is of 1.15."""
    unknown = {name for name in MODULES["scipy.special"] if not hasattr(special, name)}
    assert unknown <= {"softplus", "log_expit"}
    assert MODULES["scipy.special"] == MODULES["jax.scipy.special"]
