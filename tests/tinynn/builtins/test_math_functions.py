"""Python's ``math`` in cells, of numbers that are known and of numbers of the call: Python is the judge.

The digits of floats are of relay/functions/float_parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.tinynn.builtins import MODULES

INF, NAN = math.inf, math.nan
_FLOATS = [-2.5, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 2.5, 3.0, 10.7, 100.0, 1e-310, 1e300, INF, -INF, NAN]
_SMALL = [number for number in _FLOATS if abs(number) < 1e9]
_EXPONENTS = [-2000, -1080, -1074, -1040, -53, -1, 0, 1, 60, 1023, 2000, 5000]
_COUNTS = [0, 1, 2, 3, 5, 10, 30, 31, -1, 18, 62]

ONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "degrees", "erf", "erfc"),
    *("exp", "exp2", "expm1", "fabs", "frexp", "gamma", "isfinite", "isinf", "isnan", "lgamma", "log"),
    *("log10", "log1p", "log2", "modf", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "ulp"),
    *("floor", "ceil", "trunc"),
)
TWO = ("atan2", "copysign", "fmod", "hypot", "isclose", "nextafter", "pow", "remainder")


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return what a call gives, or the class of what it raises."""
    try:
        return function(*arguments)
    except (ValueError, OverflowError, TypeError, ZeroDivisionError) as error:
        return type(error)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        return all(map(same, found, expected))
    if isinstance(expected, type) or isinstance(found, type):
        return bool(found is expected)
    return bool(np.isclose(float(found), float(expected), rtol=1e-14, atol=5e-324, equal_nan=True))


def check(
    text: str,
    types: str,
    judge: Callable[..., Any],
    calls: list[Any],
    engine: str = "numpy",
    *,
    raises: bool = False,
) -> None:
    """Compare a cell of these parameters with a function of Python.

    ``raises``: whether it raises what Python raises; where it does not, NaN or inf stand for that.
    """
    source = f"def f({types}):\n    return {text}\n"
    function = nnmagic.compile(source, namespace={"math": math}, engine=engine, cache=False)
    for call in calls:
        arguments = call if isinstance(call, tuple) else (call,)
        expected, found = outcome(judge, arguments), outcome(function, arguments)
        if isinstance(expected, type) and not raises and not isinstance(found, type):
            continue
        assert same(found, expected), (text, arguments, found, expected)


@pytest.mark.parametrize("name", [name for name in ONE if hasattr(math, name)])
def test_functions_of_one_float(name: str) -> None:
    numbers = _SMALL if name in ("gamma", "floor", "ceil", "trunc") else _FLOATS
    if name == "lgamma":
        numbers = [number for number in numbers if number != -2.5]  # Python's has few digits there
    check(f"math.{name}(x)", "x: f64", getattr(math, name), numbers)
    if name != "ulp":
        check(f"math.{name}(x)", "x: i64", getattr(math, name), [1, 2, 5] if name == "acosh" else [0, 1])


@pytest.mark.parametrize("name", [name for name in TWO if hasattr(math, name)])
def test_functions_of_two_floats(name: str) -> None:
    pairs = [(x, y) for x in _FLOATS for y in _FLOATS if (name, x) != ("pow", -INF)]
    check(f"math.{name}(x, y)", "x: f64, y: f64", getattr(math, name), pairs)


@pytest.mark.parametrize("name", ["factorial", "isqrt", "comb", "perm", "gcd", "lcm"])
@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
def test_functions_of_integers(name: str, engine: str) -> None:
    judge: Callable[..., Any] = getattr(math, name)
    if name in ("factorial", "isqrt"):
        numbers = [*range(-1, 21), *([2**62, 3037000499**2, 2**63 - 1] if name == "isqrt" else [])]
        check(f"math.{name}(n)", "n: i64", judge, numbers, engine, raises=True)
    else:
        pairs = [(n, k) for n in (0, 1, 5, 10, 20, 60, 62, -1, 12) for k in _COUNTS]
        fitting = [pair for pair in pairs if not isinstance(r := outcome(judge, pair), int) or r < 2**63]
        check(f"math.{name}(n, k)", "n: i64, k: i64", judge, fitting, engine, raises=True)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("math.factorial(n)", (21,)), ("math.comb(n, 34)", (68,)), ("math.perm(n, 20)", (62,))],
)
def test_integers_beyond_64_bits_raise(text: str, arguments: tuple[int, ...]) -> None:
    function = nnmagic.compile(f"def f(n: i64):\n    return {text}\n", namespace={"math": math}, cache=False)
    with pytest.raises(OverflowError, match="more than 64 bits"):
        function(*arguments)


def test_machine_code_has_the_digits_of_floats() -> None:
    text = "math.frexp(x), math.ldexp(x, n), math.ulp(x), math.remainder(x, 0.7), math.floor(x), math.modf(x)"

    def judge(x: float, n: int) -> Any:
        return eval(text, {"math": math, "x": x, "n": n})

    numbers = [number for number in _SMALL if not math.isnan(number)]
    pairs = [(x, n) for x in numbers for n in _EXPONENTS if n < 1000]
    check(text, "x: f64, n: i64", judge, pairs, "relax")


CASES: dict[str, tuple[str, list[Any]]] = {
    "math.ldexp(x, n)": ("x: f64, n: i64", [(x, n) for x in _FLOATS for n in _EXPONENTS]),
    "math.log(x, y)": ("x: f64, y: f64", [(x, y) for x in (0.5, 2.0, 10.0) for y in (2.0, 3.0, 10.0)]),
    "math.log(8, 2), math.log2(8), math.log10(x)": ("x: f64", [100.0]),
    "math.hypot(x, y, 3.0), math.hypot(x)": ("x: f64, y: f64", [(1.0, 2.0), (1e300, 1e300), (0.0, 0.0)]),
    "math.dist((x, y), (y, 1.0))": ("x: f64, y: f64", [(1.0, 2.0), (1e300, -1e300)]),
    "math.dist(x, y)": ('x: Tensor[("n",), f64], y: Tensor[("n",), f64]', [(np.arange(4.0), np.ones(4))]),
    "math.gcd(a, b, c), math.lcm(a, b, c), math.gcd(a)": (
        "a: i64, b: i64, c: i64",
        [(12, 18, 27), (-4, 0, 10)],
    ),
    "math.perm(n), math.comb(n, 2)": ("n: i64", [5, 3]),
    "math.isclose(x, y, rel_tol=0.1, abs_tol=0.01)": (
        "x: f64, y: f64",
        [(x, y) for x in _FLOATS for y in _FLOATS],
    ),
    "math.fsum(x), math.prod(x), math.prod(x, start=2)": (
        'x: Tensor[("n",), f64]',
        [np.full(10, 0.1), np.array([1e16, 1, -1e16, 1e-3] * 3), np.array([INF, 1.0])],
    ),
    "math.fsum([x, y, 0.1]), math.prod([x, y, 2]), math.fsum((x, y)), math.prod((2, 3))": (
        "x: f64, y: f64",
        [(0.1, 0.2)],
    ),
    "x * math.factorial(5) + math.comb(5, 2) + math.tau + math.e + math.floor(2.7) + math.isqrt(17)": (
        "x: f64",
        [1.0],
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_forms_of_calls(text: str) -> None:
    types, calls = CASES[text]
    names = [part.split(":")[0] for part in types.split(", ") if ": " in part]

    def judge(*arguments: Any) -> Any:
        return eval(text, {"math": math, **dict(zip(names, arguments, strict=True))})

    check(text, types, judge, calls)


@pytest.mark.full
def test_loops_compute_as_python_does() -> None:
    source = """
def total(n):
    s = 0.0
    for i in range(1, n):
        k = math.floor(i * 0.7)
        s += k // 2 + sqrt(i) + math.comb(10, i % 11) + factorial(i % 15) / math.gamma(i % 15 + 1.5)
        s -= math.trunc(-i / 3) + math.isqrt(i) + math.ceil(i / 7)
    return s
"""
    namespace: dict[str, Any] = {"math": math}
    exec("from math import sqrt, factorial\n" + source, namespace)
    cell = nnmagic.compile(source.replace("(n)", "(n: i64)", 1), namespace=namespace, cache=False)
    np.testing.assert_allclose(cell(100), namespace["total"](100), rtol=1e-13)


def test_integers_are_those_of_python() -> None:
    """What floor gives is an index, and takes the dtype of an array."""
    source = (
        "def f(x: Tensor[(3,), f32], i: f64):\n    k = math.floor(i / 2)\n    return x[k] * k, math.ceil(i)\n"
    )
    function = nnmagic.compile(source, namespace={"math": math}, engine="numpy", cache=False)
    part, whole = function(np.array([1, 2, 3], "f4"), 5.0)
    assert (part.dtype, float(part), whole.dtype, int(whole)) == (np.float32, 6.0, np.int64, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("math.factorial(x)", "math.factorial takes whole numbers, not an f64"),
        ("math.sqrt(-1)", "math.sqrt: math domain error"),
        ("math.comb(-1, 2)", "math.comb: n must be a non-negative integer"),
        ("math.isclose(x, 1, rel_tol=-1.0)", "tolerances must be non-negative"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(f"def f(x: f64):\n    return {text}\n", namespace={"math": math}, cache=False)
    assert message in str(caught.value)


def test_the_module_is_there_whole() -> None:
    public = {name for name in vars(math) if not name.startswith("_") and callable(getattr(math, name))}
    assert public - set(MODULES["math"]) <= {"fma", "signbit", "isnormal", "issubnormal", "fmax", "fmin"}


def test_fix_needs_no_function_that_numpy_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "fix")
    function = nnmagic.compile("def f(x: f64):\n    return fix(-2.5), fix(x)\n", engine="numpy")
    np.testing.assert_array_equal(function(2.5), [-2, 2])
