"""NumPy's functions that others express, beside NumPy (tinynn/builtins/numpy/dtype_functions)."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import nnmagic

#: Calls of ``x`` and ``y``, and the dtypes to ask.
CALLS: list[tuple[str, str]] = [
    *((f"np.diagflat(x{more})", "f8 f4 i4 ? c16") for more in ("", ", 1", ", k=-2")),
    *(("np.matvec(np.ones((2, 4, 6), x.dtype), np.ravel(x))", dtype) for dtype in ("f8", "f4")),
    ("np.vecmat(np.ravel(x), np.ones((6, 2), x.dtype))", "f8 c16"),
    ("np.setxor1d(x, y)", "f8 i4 u1"),
    *((f"np.mask_indices(4, np.{name})", "f8") for name in ("triu", "tril")),
    ("np.mask_indices(3, np.triu, 1)", "f8"),
    ("np.diag_indices_from(np.ones((3, 3)))", "f8"),
    ("np.tril_indices_from(x)", "f8"),
    ("np.triu_indices_from(x, 1)", "f8"),
    ("np.histogram_bin_edges(x)", "f8 i4"),
    ("np.histogram_bin_edges(x, 5, (0.0, 2.0))", "f8"),
    ("np.array_equiv(x, x)", "f8 i4"),
    ("np.array_equiv(x, x[0])", "f8 i4"),
    ("np.array_equiv(x, np.ones(5))", "f8"),
    ("np.bitwise_count(x)", "i1 i2 i4 i8 u1 u4 u8"),
    ("np.float_power(x, y)", "f4 f8 i4"),
    ("np.float_power(x, 2)", "f4 i8"),
    ("np.frexp(x)", "f2 f4 f8 i4"),
    ("np.ldexp(x, 3)", "f4 f8"),
    ("np.ldexp(x, -1073)", "f8"),
    ("np.spacing(x)", "f4 f8"),
    ("np.i0(x)", "f8"),
    *((f"np.resize(x, {shape})", "f8 i4") for shape in ("(3, 5)", "4", "(2,)", "(7, 1)")),
    ("np.sort_complex(x)", "f4 f8 i1 i4 c8 c16"),
    ("np.apply_over_axes(np.sum, x, [0, 1])", "f8 i4"),
    ("np.apply_over_axes(np.mean, x, 0)", "f8"),
    ("np.polydiv(np.ravel(x), np.array([2.0, 1.0]))", "f8"),
    ("np.row_stack((x, y))", "f8"),
    ("np.asfortranarray(x)", "f4"),
    ("np.kaiser(7, 2.5)", "f8"),
    ("np.kaiser(1, 2.5)", "f8"),
    ("np.cross(x[:, :2], y[:, :2])", "f8 i4"),
    ("np.compress(np.ravel(x) > 0, x)", "f8 i4"),
    ("np.compress([True, False, True], x, axis=1)", "f4"),
    ("np.extract(x > 0, x)", "f8 u1"),
    *(
        (f"np.trim_zeros(np.ravel(x * (x > {least})){more})", "f8")
        for least in (0, 99)
        for more in ("", ", 'f'", ", 'b'")
    ),
    ("np.fromfunction(lambda i, j: i * 2 + j, (2, 3))", "f8"),
    ("np.fromfunction(lambda i, j: i == j, (3, 3), dtype=int)", "f8"),
    ("np.zeros(3, np.result_type(x, np.int32))", "f4 f8 i4"),
    ("np.zeros(3, np.result_type(x, 1.5, np.float32))", "f4 i4"),
    ("np.zeros(3, np.promote_types('f4', x.dtype))", "i8 f4"),
    ("np.zeros(np.broadcast_shapes(x.shape, (4, 1, 1), (3,)))", "f8"),
    ("x * np.can_cast(x.dtype, np.float32) + np.can_cast(np.int64, 'i4', 'same_kind')", "f8 f4"),
    ("np.cross(x[:, :2], y[0, :2])", "f8"),
]
CASES = [(call, dtype) for call, dtypes in CALLS for dtype in dtypes.split()]


def data_of(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.integers(-9 if np.dtype(dtype).kind not in "u?" else 0, 9, (2, 3))
    y = rng.integers(0, 5, (2, 3))
    if np.dtype(dtype).kind == "c":
        return (x + 1j * y).astype(dtype), (y - 1j * x).astype(dtype)
    return x.astype(dtype), y.astype(dtype)


def type_of(array: np.ndarray) -> str:
    kind, bits = array.dtype.kind, 8 * array.dtype.itemsize
    return f"Tensor[{array.shape}, {'bool_' if kind == 'b' else f'{kind}{bits}'}]"


@pytest.mark.parametrize(("call", "dtype"), CASES)
def test_a_function_gives_what_numpy_gives(call: str, dtype: str) -> None:
    name = re.findall(r"np\.(\w+)", call)[0]
    if not hasattr(np, name):
        pytest.skip("of a newer NumPy, or an older one")
    x, y = data_of(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2 has other plans for cross and row_stack
        expected: Any = eval(call, {"np": np, "x": x, "y": y})
    source = f"def f(x: {type_of(x)}, y: {type_of(y)}):\n    return {call}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
        function = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)
    found = function(x, y)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for own, wanted in pairs:
        assert np.shape(own) == np.shape(wanted)
        assert np.asarray(own).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(own, wanted, rtol=1e-5 if np.dtype(dtype) == "f4" else 1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("np.bitwise_count(x)", "bitwise_count is defined for integers, not f64"),
        ("np.ldexp(x, x)", "ldexp: `x2` holds integers, not f64"),
        ("np.resize(x, x.sum())", "resize"),
    ],
)
def test_what_is_refused(call: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(f"def f(x: Tensor[(2,), f64]):\n    return {call}\n", cache=False)
    assert message in str(caught.value)
