"""The dtype and the shape of every NumPy function of a cell are NumPy's, for every dtype and some ranks.

Only types are compared, which compiles no kernels. Where a cell refuses a call that NumPy takes, the table of
refusals says why.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from nnmagic.diagnostics import TinyNNError
from nnmagic.relay.types import TensorType, TupleType, Type
from nnmagic.tinynn.builtins import MODULES
from nnmagic.tinynn.types.annotations import DTYPES
from tests.tinynn.cases import program_of

_DTYPES = [dtype for name, dtype in DTYPES.items() if name != "bf16"]  # NumPy has no bfloat16

#: Of one vector, by name.
_OF_VECTOR = """
    absolute abs acos acosh all amax amin any arccos arccosh arcsin arcsinh arctan arctanh argmax
    argmin argsort argwhere around array asarray ascontiguousarray asin asinh atan atanh atleast_1d
    atleast_2d atleast_3d average bitwise_invert bitwise_not cbrt ceil copy cos cosh count_nonzero
    cumprod cumsum deg2rad degrees diag diff ediff1d empty_like exp exp2 expm1 fabs fix flatnonzero
    flip floor invert isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not max
    mean median min modf nan_to_num nanmax nanmean nanmin nanprod nanstd nansum nanvar negative
    nonzero ones_like positive prod ptp rad2deg radians ravel reciprocal rint round sign signbit sin
    sinc sinh sort sqrt square squeeze std sum tan tanh transpose trapezoid trunc unique vander var
    cumulative_prod cumulative_sum unique_all unique_counts unique_inverse unique_values
    zeros_like real imag conj conjugate angle iscomplexobj isrealobj isreal iscomplex nanargmin
    nanargmax nancumsum nancumprod unwrap
    nanmedian polyder polyint packbits unpackbits asfortranarray diagflat frexp i0 sort_complex
    bitwise_count diag_indices_from
"""
#: Of one matrix, by name.
_OF_MATRIX = "diagonal fliplr flipud matrix_transpose rot90 trace tril triu"
#: Of two vectors, by name.
_OF_TWO = """
    add allclose append arctan2 array_equal atan2 bitwise_and bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor broadcast_arrays copysign cross digitize divide divmod dot equal
    floor_divide fmax fmin fmod greater greater_equal heaviside hypot inner isclose kron left_shift
    polyadd polysub polymul gcd lcm
    less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor matmul maximum meshgrid
    minimum mod multiply not_equal outer pow power remainder right_shift searchsorted subtract
    true_divide trapezoid vdot vecdot convolve correlate isin nextafter
    intersect1d union1d setdiff1d histogram2d array_equiv float_power setxor1d polydiv
"""
_EXPRESSIONS = """
    arange(3); arange(3.0); arange(1, 2, 0.5); array_split(v, 2); average(v, weights=w);
    broadcast_to(v, (2, 3)); clip(v, v, w); column_stack([v, w]); concat([v, w]);
    concatenate([v, w]); cross(x, x); cumsum(x, axis=0); cumsum(v, dtype=float64); diff(x, axis=0);
    dsplit(x[..., None], 1); dstack([v, w]); einsum('i,i->', v, w); einsum('ij->j', x);
    einsum('ij,jk->ik', x, x); empty((2,)); expand_dims(v, 0); eye(3); full((2,), 1);
    full((2,), 1.5); full_like(v, 1); geomspace(1, 2, 3); gradient(v); gradient(v, 2.0);
    hsplit(v, 3); hstack([v, w]); identity(3); interp(v, w, w); linalg.multi_dot([x, x, x]);
    linalg.norm(v); linalg.norm(v, 1); linalg.norm(v, 3); linalg.norm(v, inf); linalg.norm(x);
    linspace(0, 1, 3); logspace(0, 1, 3); mean(x, axis=0); mean(v, dtype=float32);
    median(x, axis=0); moveaxis(x, 0, 1); ones((2,)); pad(v, 1); percentile(v, 50);
    percentile(v, [50, 2]); permute_dims(x, (1, 0)); prod(v, dtype=int64); prod(x, axis=0);
    quantile(v, 0.5); quantile(v, [0.5]); repeat(v, 2); reshape(v, (3, 1)); roll(v, 1);
    rollaxis(x, 1); round(v, 1); split(v, 3); stack([v, w]); std(v, dtype=float32);
    sum(v, dtype=float32); sum(v, dtype=bool); sum(x, axis=0); swapaxes(x, 0, 1); take(v, i);
    take_along_axis(v, i, axis=0); tile(v, 2); trapezoid(v, dx=2); tri(3); unravel_index(i, (2, 2));
    vander(v, 2); var(v, axis=(), ddof=1); var(v, ddof=1); vsplit(x, 3); vstack([v, w]);
    v.astype(float32); astype(v, float64); tensordot(x, x, 2); where(v > 0, v, w); zeros((2,));
    v + w; v * w; v / w; -v; +v; ~v; abs(v); v @ w; v > w; v / 2; 2 / v; v // 2; v % 2; 7 // v;
    v > 1; v << 1; v + 1; v * True; maximum(v, 1); searchsorted(v, 1); nan_to_num(v, nan=1);
    max(v, initial=1); isclose(v, 1); ndarray((2,)); histogram(v, 3); cov(v); cov(x); corrcoef(v, w);
    unstack(x); select([v > 1, v > 2], [v, w]); select([v > 1], [v], 2);
    piecewise(v, [v > 1], [2, 3]); insert(v, 1, 5); partition(v, 1); argpartition(v, 1);
    block([v, w]); lexsort((v, w)); ravel_multi_index((i, i), (4, 4)); choose(i, [v, w, v]);
    nanquantile(v, 0.5); nanquantile(v, [0.5]); nanpercentile(v, 50); delete(v, 1); delete(v, [0, 1]);
    gcd(v, 2); delete(x, 0, axis=1); matvec(x, v); vecmat(v, x); ldexp(v, 2); row_stack([v, w]);
    resize(v, (2, 2)); kaiser(3, 2.0); tril_indices_from(x); triu_indices_from(x);
    mask_indices(3, triu); apply_over_axes(sum, x, 0); compress([True, False], v); extract([True, False], v);
    trim_zeros(v)
"""
#: Functions of cells that always refuse, one whose name NumPy does not have, and what is indexed.
_OTHERS = {"bincount", "variance", "mgrid", "ogrid"} | {
    *("apply_along_axis", "vectorize", "fromfunction"),  # take functions
    "poly",  # of few zeros
    "spacing",  # of f32 and f64
    "roots",  # of as many as there are coefficients that are not 0
    "histogramdd",  # of real numbers
    "einsum_path",  # of shapes
    "real_if_close",  # of real numbers
    "histogram_bin_edges",  # of real numbers
    "sliding_window_view",  # of numpy.lib.stride_tricks
    *("c_", "r_", "indices", "ix_", "triu_indices", "tril_indices", "diag_indices", "polyval", "polyfit"),
    *("bartlett", "blackman", "hamming", "hanning"),
    *("size", "shape", "ndim", "finfo", "iinfo"),  # numbers of the compiler
    *("result_type", "promote_types", "can_cast", "broadcast_shapes"),  # and its dtypes and shapes
}


def _sources() -> list[str]:
    calls = [f"{name}(v)" for name in _OF_VECTOR.split()]
    calls += [f"{name}(x)" for name in _OF_MATRIX.split()]
    calls += [f"{name}(v, w)" for name in _OF_TWO.split()]
    return [*calls, *(each.strip() for each in _EXPRESSIONS.split(";"))]


#: What a cell refuses though NumPy takes it. By the kinds of dtypes: b bools, i signed, u unsigned, f floats,
#: c complex.
_REFUSED = {
    "b": """
        fabs square rint signbit round around floor_divide mod remainder power pow left_shift
        right_shift bitwise_left_shift bitwise_right_shift fmod divmod matmul dot vdot outer kron
        vecdot vecmat matvec linalg.multi_dot cross v@w v//2 v%2 7//v maximum(v,1) searchsorted(v,1)
        max(v,initial=1) isclose(v,1) v<<1 conj conjugate piecewise polyadd polysub polymul
    """,  # arithmetic of bools, and numbers beside them
    "biu": "reciprocal",  # would be 0 nearly everywhere
    "c": """
        amax amin argmax argmin argsort clip fmax fmin greater greater_equal histogram less less_equal max
        maximum median min minimum nanmax nanmin nanmedian
        ptp rint round around searchsorted sign sort unique v>1 v>w
        partition argpartition insert
        nanargmax nanargmin nancumsum nancumprod intersect1d union1d setdiff1d setxor1d unwrap histogram2d
        lexsort choose block
        where(v>0,v,w) astype v.astype(float32) mean(v,dtype=float32) prod(v,dtype=int64)
        std(v,dtype=float32) sum(v,dtype=float32) acos acosh arccos arccosh arcsin arcsinh arctan arctanh
        asin asinh atan atanh average corrcoef cov cumprod expm1 gradient log1p nan_to_num nanmean nanprod
        nanstd nansum nanvar sinc trapezoid vander select piecewise
    """,  # an order, a conversion that loses the imaginary part, functions that are not defined
    "biuf": "nextafter",  # of f16, which it makes of the narrowest integers
    "bi": "power pow",  # a negative exponent is an error of NumPy's at run time
}


def _may_be_refused(source: str, kind: str) -> bool:
    name, text = source.partition("(")[0], source.replace(" ", "")
    return any(kind in kinds and {name, text} & set(names.split()) for kinds, names in _REFUSED.items())


def _leaves(type_: Type) -> list[tuple[str, tuple[object, ...]]]:
    if isinstance(type_, TupleType):
        return [leaf for field in type_.fields for leaf in _leaves(field)]
    assert isinstance(type_, TensorType)
    return [(type_.dtype, type_.shape)]


def _in_cell(
    source: str, shapes: dict[str, tuple[str, tuple[int, ...]]]
) -> list[tuple[str, tuple[object, ...]]]:
    parameters = ", ".join(f"{name}: Tensor[{shape}, {dtype}]" for name, (dtype, shape) in shapes.items())
    text = f"def f({parameters}):\n    return {source.replace('linalg.', 'np.linalg.')}\n"
    try:
        return _leaves(program_of(text, {"np": np}).module.functions["f"].ret_type)
    except TinyNNError:
        return None


def _in_numpy(source: str, arrays: dict[str, np.ndarray]) -> list[tuple[str, tuple[int, ...]]] | None:
    """The dtypes and shapes of NumPy's results, or None where it refuses."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = eval(source, {**vars(np), **arrays})
    except (TypeError, ValueError, IndexError):
        return None
    parts = result if isinstance(result, tuple | list) else [result]
    return [(np.asarray(part).dtype.name, np.asarray(part).shape) for part in parts]


def test_every_numpy_function_has_a_source() -> None:
    covered = {source.partition("(")[0] for source in _sources()}
    assert set(MODULES["numpy"]) - _OTHERS <= covered


@pytest.mark.full("f32", "i16", "u8", "u64", "i8", "f16", "u16", "u32", "i32", "c128")
@pytest.mark.parametrize("dtype", _DTYPES, ids=repr)
def test_dtypes_are_numpys(dtype: object) -> None:
    name = np.dtype(dtype.dtype).name  # type: ignore[attr-defined]
    kind = np.dtype(name).kind
    vector = np.array([1, 2, 3]).astype(name)
    matrix = np.array([[1, 2, 3]] * 3).astype(name)
    arrays = {"v": vector, "w": vector, "x": matrix, "i": np.array([0, 1, 2])}
    shapes = {each: (str(dtype), array.shape) for each, array in arrays.items()}
    shapes["i"] = ("i64", (3,))
    for source in _sources():
        expected = _in_numpy(source, arrays)
        result = _in_cell(source, shapes)
        if result is None:
            assert expected is None or _may_be_refused(source, kind), source
        elif expected is not None:
            assert [each[0] for each in result] == [each[0] for each in expected], source


#: Calls whose result depends on the rank; "v" has the shape of the test.
_OF_ANY_RANK = """
    sum(v); sum(v, axis=()); sum(v, keepdims=True); mean(v, axis=()); var(v, axis=(), ddof=1);
    max(v); max(v, axis=()); argmax(v); argmax(v, keepdims=True); argmin(v, keepdims=True);
    argmax(v, axis=None); roll(v, 1); roll(v, (1, 2)); roll(v, 1, axis=0); flip(v); ravel(v);
    transpose(v); sort(v, axis=None); argsort(v, axis=None); cumsum(v); cumsum(v, axis=None);
    median(v); median(v, keepdims=True); quantile(v, 0.5); quantile(v, [0.1, 0.5], keepdims=True);
    any(v, axis=()); count_nonzero(v, axis=()); nansum(v, axis=()); nanvar(v, axis=(), ddof=1);
    take(v, [0]); repeat(v, 2); tile(v, 2); tile(v, (2, 2)); append(v, v); reshape(v, -1);
    squeeze(v); atleast_2d(v); outer(v, v); searchsorted([0.5, 1.5], v); digitize(v, [0.5, 1.5]);
    interp(v, [0, 1], [2, 3]); where(v > 0, v, 0); round(v, 1); clip(v, 0, 1); vdot(v, v);
    inner(v, v); tensordot(v, v, 0); kron(v, v); diff(v); ediff1d(v); trapezoid(v);
    broadcast_to(v, (2, 3, 4)); stack([v, v]); hstack([v, v]); vstack([v, v]); isclose(v, 1);
    logaddexp(v, 1)
"""


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 1), (0, 3), (2, 3, 4)], ids=str)
def test_shapes_are_numpys(shape: tuple[int, ...]) -> None:
    data = np.ones(shape, "float32")
    for source in (each.strip() for each in _OF_ANY_RANK.split(";")):
        expected = _in_numpy(source, {"v": data})
        result = _in_cell(source, {"v": ("f32", shape)})  # may refuse, for example to reduce no elements
        if result is not None and expected is not None:
            assert [each[1] for each in result] == [each[1] for each in expected], source
