"""Every function of floats gives NumPy's result of zeros, infinities, NaN and the ends of the dtypes.

The sign of a zero counts. Numbers may differ in the last bits; `_DIFFERENT` lists what differs more, and why.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nnmagic
from tests.newer_libraries import IS_NUMPY_OLD
from tests.tinynn.python_twin import neural, torch_names

_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64"}

#: Of one number each.
_UNARY = """
    exp(x); log(x); log2(x); log10(x); sqrt(x); sin(x); cos(x); tan(x); sinh(x); cosh(x); tanh(x);
    arcsin(x); arccos(x); arctan(x); arcsinh(x); arccosh(x); arctanh(x); exp2(x); expm1(x);
    log1p(x); cbrt(x); deg2rad(x); rad2deg(x); sinc(x); absolute(x); fabs(x); negative(x);
    positive(x); square(x); sign(x); rint(x); floor(x); ceil(x); trunc(x); isnan(x); isinf(x);
    isfinite(x); isposinf(x); isneginf(x); signbit(x); logical_not(x); reciprocal(x); round(x);
    round(x, 1); round(x, -1); nan_to_num(x); modf(x)[0]; modf(x)[1]; x ** 0.5; x ** 2; x ** 3;
    x ** 4; x ** 5; x ** -1; x ** -0.5; x ** 0; x ** 1; x ** 1.5; x ** -2; x ** -3; 2.0 ** x;
    (-0.0) ** x; power(x, 2); -x; x + 0.0; x - 0.0; 0.0 - x; -0.0 + x; x * 0.0; x * -1; x / 1;
    1 / x; 0.0 / x; x // 1; x % 1; x // -1; x % -1; x // 0.0; x % 0.0; clip(x, -0.0, 0.0);
    clip(x, 0.0, 1.0); clip(x, -1, None); clip(x, 1, -1); x.astype(f16); x.astype(f32);
    x.astype(f64); where(x > 0, x, -0.0); sort(x, kind='stable'); argsort(x, kind='stable');
    cumsum(x); cumprod(x); diff(x); flip(x); roll(x, 1); gradient(x); sum(x[1:2]);
    sum(x[1:2], keepdims=True); prod(x[1:2]); mean(x[1:2]); median(x[1:2]); average(x[1:2]);
    nansum(x[1:2]); nanmean(x[1:2]); max(x[1:2]); min(x[1:2]); cumsum(x[1:2]);
    sort(x[1:2]); sort(x[1:6:4]); sort(-x[:3]); quantile(x[1:2], [0, 0.3, 1]); var(x[1:2]);
    trace(x[1:2, None])
"""
#: Of each pair of numbers.
_BINARY = """
    x + y; x - y; x * y; x / y; x // y; x % y; x ** y; power(x, y); maximum(x, y); minimum(x, y);
    fmax(x, y); fmin(x, y); fmod(x, y); hypot(x, y); arctan2(x, y); logaddexp(x, y);
    logaddexp2(x, y); copysign(x, y); heaviside(x, y); x == y; x != y; x < y; x <= y;
    where(x > y, x, y); isclose(x, y); divmod(x, y)[0]; divmod(x, y)[1]; clip(x, y, y)
"""
#: Along each axis of rows that hold a pair each, and of their transpose.
_REDUCTIONS = """
    sum prod max min mean var std median nansum nanprod nanmax nanmin nanmean nanvar nanstd ptp
    argmax argmin cumsum cumprod any all count_nonzero average
"""
#: NumPy's other kinds of sorting give zeros in any order, and some lose one of two signs.
_OF_ROWS = """
    sort(z, axis=1, kind='stable'); argsort(z, axis=1, kind='stable');
    sort(z.T, kind='stable', axis=0); quantile(z, 0.3, axis=1); quantile(z, 0.7, axis=1); diff(z);
    z[:, :1].sum(axis=1); mean(z[:, :1], axis=1)
"""

#: Of one number each, by PyTorch's names.
_ACTIVATIONS = """
    relu(x); relu6(x); sigmoid(x); erf(x); erfc(x); rsqrt(x); gelu(x, approximate='none'); leaky_relu(x);
    leaky_relu(x, 0); leaky_relu(x, -0.5); elu(x); elu(x, 0.5); celu(x); celu(x, 2.0); celu(x, -2.0); selu(x);
    silu(x); mish(x); hardsigmoid(x); hardswish(x); hardtanh(x); hardtanh(x, -0.5, 2.0); softplus(x);
    softsign(x); tanhshrink(x); softshrink(x); softshrink(x, 0.0); hardshrink(x); hardshrink(x, 0.0);
    hardshrink(x, -1.0); threshold(x, 0.5, 2.0); threshold(x, -1, 0); logsigmoid(x);
    mse_loss(x, 0 * y, reduction='none'); l1_loss(x, y, reduction='none');
    smooth_l1_loss(x, y, reduction='none'); huber_loss(x, y, reduction='none');
    kl_div(y, x, reduction='none')
"""

_TIE = "of 0.0 and -0.0 NumPy takes the first or the second, by dtype, function and machine"
_FUSED = "a product and a sum are rounded once, so that a product below the smallest number keeps its sign"
_NARROW = "NumPy squares the distances in f16, where they overflow"

#: Expressions whose results differ, of which numbers, and why.
_DIFFERENT = {
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "max", "min", "nanmax", "nanmin"), _TIE),
    "clip(x, y, y)": _TIE,
    "quantile": _FUSED,
    **dict.fromkeys(("var", "std"), _NARROW),
}


def _is_excused(source: str, operands: np.ndarray) -> bool:
    """Whether the numbers beside an expression are those for which it may differ."""
    reason = _DIFFERENT.get(source) or _DIFFERENT.get(source.partition("(")[0])
    if reason is _TIE:
        return bool((operands == 0).all())
    if reason is _FUSED:
        smallest = np.finfo(operands.dtype).smallest_subnormal
        return bool((abs(operands) <= smallest).all())
    if reason is _NARROW:
        return operands.dtype == "float16" and bool((abs(operands) == np.finfo("float16").max).all())
    return False


def _numbers(dtype: str) -> np.ndarray:
    limits = np.finfo(dtype)
    ends = [float(limits.smallest_subnormal), float(limits.max)]
    return np.array([s * each for each in (0.0, 0.5, 1.0, np.inf, *ends) for s in (1, -1)] + [np.nan], dtype)


def _agree(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays agree: up to 8 units in the last place, and in the sign of zeros."""
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind != "f":
        return result == expected
    limits = np.finfo(expected.dtype)
    small = 4 * float(limits.smallest_subnormal)
    near = np.isclose(
        result.astype("f8"), expected.astype("f8"), rtol=8 * float(limits.eps), atol=small, equal_nan=True
    )
    return near & ((np.signbit(result) == np.signbit(expected)) | np.isnan(expected))


def _check(sources: list[str], dtype: str, arguments: dict[str, np.ndarray], operands: np.ndarray) -> None:
    """Compare the expressions of a cell with NumPy's; ``operands``: the numbers of each result."""
    parameters = ", ".join(f"{name}: Tensor[{array.shape}, {dtype}]" for name, array in arguments.items())
    compiled = nnmagic.compile(f"def f({parameters}):\n    return ({', '.join(sources)},)\n", cache=False)
    dtypes = {short: np.dtype(name).type for short, name in _DTYPES.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = [np.asarray(eval(source, {**vars(np), **dtypes, **arguments})) for source in sources]
    for source, one, other in zip(sources, compiled(*arguments.values()), expected, strict=True):
        agree = _agree(np.asarray(one), other)
        if source.endswith("axis=0)") and agree.ndim == 2:
            agree = agree.T
        rows = agree.reshape(len(operands), -1) if agree.size % len(operands) == 0 else agree.reshape(1, -1)
        wrong = [row for row, right in enumerate(rows.all(axis=1)) if not right]
        wrong = [row for row in wrong if not _is_excused(source, operands[row])]
        assert not wrong, f"{source} of {operands[wrong].tolist()}"


def _split(sources: str) -> list[str]:
    return [" ".join(source.split()) for source in sources.split(";")]


@pytest.mark.full
@pytest.mark.parametrize("dtype", _DTYPES)
def test_functions_of_one_number(dtype: str) -> None:
    if dtype == "f16" and IS_NUMPY_OLD:
        pytest.skip("NumPy computes sinc of float16 otherwise from 2.3 on")
    numbers = _numbers(_DTYPES[dtype])
    _check(_split(_UNARY), dtype, {"x": numbers}, numbers[:, None])


@pytest.mark.full
@pytest.mark.parametrize("dtype", _DTYPES)
def test_functions_of_two_numbers(dtype: str) -> None:
    numbers = _numbers(_DTYPES[dtype])
    pairs = np.stack(np.broadcast_arrays(numbers[:, None], numbers), axis=-1).reshape(-1, 2)
    _check(_split(_BINARY), dtype, {"x": pairs[:, 0].copy(), "y": pairs[:, 1].copy()}, pairs)


@pytest.mark.full
@pytest.mark.parametrize("dtype", _DTYPES)
def test_reductions_of_two_numbers(dtype: str) -> None:
    if dtype == "f16" and IS_NUMPY_OLD:
        pytest.skip("NumPy computes quantiles of float16 otherwise from 2.3 on")
    numbers = _numbers(_DTYPES[dtype])
    pairs = np.stack(np.broadcast_arrays(numbers[:, None], numbers), axis=-1).reshape(-1, 2)
    names = _REDUCTIONS.split()
    sources = [f"{name}(z, axis=1)" for name in names] + [f"{name}(z.T, axis=0)" for name in names]
    _check([*sources, *_split(_OF_ROWS)], dtype, {"z": pairs}, pairs)


@pytest.mark.full
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("size", ["13", '"n"'])
def test_functions_of_neural_networks(dtype: str, size: str) -> None:
    numbers = _numbers(_DTYPES[dtype])
    limits = np.finfo(numbers.dtype)
    names = {**vars(neural), **vars(torch_names)}
    sources, ones = _split(_ACTIVATIONS), np.ones_like(numbers)
    tensor = f"Tensor[({size},), {dtype}]"
    text = f"def f(x: {tensor}, y: {tensor}):\n    return ({', '.join(sources)},)\n"
    results = nnmagic.compile(text, cache=False)(numbers, ones)
    for source, result in zip(sources, results, strict=True):
        with np.errstate(all="ignore"):
            expected = eval(source, {**names, "x": numbers.astype("f8"), "y": ones.astype("f8")})
            expected = np.asarray(expected).astype(numbers.dtype)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), source
        one, other = result.astype("f8"), expected.astype("f8")
        near = np.isclose(one, other, rtol=float(4 * limits.eps), atol=float(4 * limits.tiny), equal_nan=True)
        assert near.all(), f"{source} of {numbers[~near]}: {result[~near]}, not {expected[~near]}"
