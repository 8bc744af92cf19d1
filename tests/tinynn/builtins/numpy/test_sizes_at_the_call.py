"""Sizes that only the call knows: of no elements, negative ones, and those beyond the range of int32."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction
from tests.child_process import run_python

#: What takes ``x[:n]``, a vector, a matrix ``m[:n]`` or a number.
NEEDS_ELEMENTS = [
    "np.convolve(x[:n], x)",
    "np.convolve(x, x[:n])",
    "np.convolve(x, x[:n], 'same')",
    "np.convolve(x[:n], x, 'valid')",
    "np.correlate(x[:n], x)",
    "np.correlate(x, x[:n], 'full')",
    "np.nanmax(x[:n])",
    "np.nanmin(x[:n])",
    "np.nanmax(m[:n])",
    "np.nanmin(m[:n], axis=0)",
    "np.nanmax(m[:n].astype(np.int32), axis=0)",
    "np.nanargmax(x[:n])",
    "np.nanargmin(x[:n].astype(np.int64))",
    "np.pad(x[:n], 1, mode='edge')",
    "np.pad(x[:n], 1, mode='reflect')",
    "np.polyfit(x[:n], x[:n], 1)",
]

NO_NEGATIVE_SIZE = [
    "np.eye(n - 1)",
    "np.eye(3, n - 1)",
    "np.eye(n - 1, 3)",
    "np.identity(n - 1)",
    "np.linspace(0, 1, n - 1)",
    "np.linspace(x[0], 1, n - 1)",
    "np.logspace(0, x[1], n - 1)",
    "np.geomspace(1, 8, n - 1)",
    "np.zeros(n - 1)",
    "np.ones((2, n - 1))",
    "np.full(n - 1, 2.0)",
    "np.bincount(np.array([1, 2]), minlength=n - 1)",
    "np.hanning(n - 1)[0]",
]

_PARAMETERS = "x: Tensor[('k',), f64], m: Tensor[('k', 3), f64], n: i64"


def _compiled(body: str, engine: str = "auto") -> CompiledFunction:
    source = f"def f({_PARAMETERS}):\n    return {body}\n"
    return nnmagic.compile(source, namespace={"np": np}, engine=engine)


def _numpys(body: str, n: int) -> object:
    x = np.array([3.0, 1, 2])
    return eval(body, {"np": np, "x": x, "m": np.outer(x, x), "n": n})


@pytest.mark.parametrize("body", [*NEEDS_ELEMENTS, *NO_NEGATIVE_SIZE])
def test_the_call_raises_where_numpy_does(body: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)):
        _numpys(body, 0)
    function = _compiled(body, "numpy")
    x = np.array([3.0, 1, 2])
    with pytest.raises((ValueError, IndexError), match=r"empty|no elements|negative|out of range"):
        function(x, np.outer(x, x), 0)
    np.testing.assert_allclose(function(x, np.outer(x, x), 3), _numpys(body, 3), atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize(
    "body",
    [
        "np.logspace(0, 3, n)",
        "np.logspace(x[0], 0.5, n, endpoint=False)",
        "np.logspace(0.5, 3, n, base=2, dtype=np.float32)",
        "np.geomspace(1, 1000, n)",
        "np.geomspace(x[0], x[1], n)",
        "np.geomspace(-x[0], -2.5, n, endpoint=False)",
    ],
)
def test_logarithmic_spaces_of_a_count_that_the_call_knows(body: str, count: int) -> None:
    x = np.array([3.0, 1, 2])
    result, expected = _compiled(body, "numpy")(x, np.outer(x, x), count), _numpys(body, count)
    assert isinstance(expected, np.ndarray)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-7 if expected.dtype == "f4" else 1e-15)


def test_a_geometric_progression_has_no_zero() -> None:
    function = _compiled("np.geomspace(x[0], x[1], n)", "numpy")
    for x in (np.array([0.0, 1, 2]), np.array([1.0, 0, 2])):
        with pytest.raises(ValueError, match=r"geomspace: `(start|stop)` is 0"):
            function(x, np.outer(x, x), 3)


@pytest.mark.machine_code
@pytest.mark.parametrize("body", ["np.convolve(x[:n], x)", "np.nanmax(x[:n])", "np.eye(n - 1)"])
def test_machine_code_raises_too(body: str) -> None:
    function = _compiled(body)
    x = np.array([3.0, 1, 2])
    with pytest.raises(ValueError, match=r"empty|no elements|negative dimensions"):
        function(x, np.outer(x, x), 0)
    np.testing.assert_allclose(function(x, np.outer(x, x), 3), _numpys(body, 3))


def test_a_negative_number_of_rows_of_tri_is_none_as_in_numpy() -> None:
    for n in (-2, 0, 2):
        for body in ("np.tri(n)", "np.tri(3, n)", f"np.tri({n}, 3)"):
            np.testing.assert_array_equal(
                _compiled(body, "numpy")(np.zeros(1), np.zeros((1, 3)), n), _numpys(body, n)
            )


@pytest.mark.machine_code
@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_an_integer_in_a_new_shape_is_checked(engine: str) -> None:
    source = "def f(x: Tensor[('k',), f64], n: i64):\n    return x.reshape(n, 3), x.reshape(n, -1)\n"
    function = nnmagic.compile(source, engine=engine)
    first, second = function(np.arange(6.0), 2)
    np.testing.assert_array_equal(first, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(second, first)
    for size, n in ((3, 0), (6, 3), (6, -2), (0, 1)):
        with pytest.raises(ValueError, match="shape"):
            function(np.zeros(size), n)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["u8", "u16", "u32", "u64"])
def test_rounded_unsigned_integers_wrap_around(dtype: str) -> None:
    bits = int(dtype[1:])
    numbers = [2**bits - 1, 2**bits - 6, 25, 15, 4, 0]
    function = nnmagic.compile(
        f"def f(x: Tensor[(6,), {dtype}]):\n    return np.round(x, -1)\n", namespace={"np": np}
    )
    expected = [round(float(number) / 10) * 10 % 2**bits for number in numbers]
    if bits == 64:  # as in NumPy, by way of float64
        expected[:2] = [0, 0]
    assert function(np.array(numbers, f"uint{bits}")).tolist() == expected


#: Indices beyond 2**31, of vectors of int8, in a process of its own: they take gigabytes.
_LARGE = """
import numpy as np
import nnmagic

x = np.zeros(2**31 + 11, np.int8)
x[100], x[-3] = 3, 5
for dim in ("'n'", str(len(x))):
    source = f"def f(x: Tensor[({dim},), i8]):\\n    BODY\\n"
    found = nnmagic.compile(source, namespace={"np": np})(x)
    assert np.array_equal(found, EXPECTED), (dim, found)
"""

#: What NumPy gives, which takes as long again as both functions.
LARGE = {
    "return x[x > 0]": [3, 5],
    "return x[x > 0].sum()": 8,
    "return x[x > 0][::-1]": [5, 3],
    "return x.reshape(-1, 1)[x > 0]": [[3], [5]],
    "return x[np.flatnonzero(x > 0)]": [3, 5],
    "return np.argmax(x)": 2**31 + 8,
    "return np.count_nonzero(x)": 2,
    "return x[1:][-4:]": [0, 5, 0, 0],
    "return np.diff(x)[-4:]": [0, 5, -5, 0],
    "y = x.copy(); y[x > 0] = 7; return y[-4:]": [0, 7, 0, 0],
    "y = x.copy(); y[1:] = 7; return y[-4:]": [7, 7, 7, 7],
    "return np.take(x, np.array([2147483656, 100]))": [5, 3],
}


@pytest.mark.full
@pytest.mark.parametrize("body", LARGE)
def test_indices_beyond_the_range_of_int32(body: str) -> None:
    code = _LARGE.replace("BODY", body.replace("; ", "\\n    ")).replace("EXPECTED", str(LARGE[body]))
    run_python("-c", code)


@pytest.mark.machine_code
@pytest.mark.parametrize("step", ["-7", "s"])
def test_a_range_of_more_than_64_bits_is_too_large(step: str) -> None:
    function = nnmagic.compile(
        f"def f(k: i64, s: i64):\n    return np.arange(k, -k, {step})\n", namespace={"np": np}
    )
    np.testing.assert_array_equal(function(20, -7), np.arange(20, -20, -7))
    np.testing.assert_array_equal(function(-20, -7), [])
    for k in (2**62, 2**63 - 1):
        with pytest.raises((ValueError, MemoryError), match=r"too large|more memory than there is"):
            function(k, -7)
