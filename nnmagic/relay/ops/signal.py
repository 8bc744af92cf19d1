"""Declare Fourier transforms.

Those of NumPy take complex numbers: with ``pairs``, the pairs of floats in a last axis of size 2, which
``axis`` does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, INT, choice, optional
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, add, floor_divide, multiply, window_output
from nnmagic.relay.ops.relations import axis_of, require_positive, require_type, tensor
from nnmagic.relay.types import Dim, TensorType, TupleType, Type, complex_dtype, is_complex, part_dtype

declare = Family("signal").declare


def _complex_shape(types: Sequence[Type], attrs: Attrs) -> Shape:
    """Return the shape of a complex operand, which may be of pairs. Raises RelationError for another one."""
    data = tensor(types)
    if attrs["pairs"] and data.shape[-1:] == (2,) and complex_dtype(data.dtype) is not None:
        return data.shape[:-1]
    if attrs["pairs"] or not is_complex(data.dtype):
        raise RelationError("expected complex numbers, found {data}", 0, data=data)
    return data.shape


def _along(shape: Shape, attrs: Attrs, size: Dim) -> Shape:
    """Return a shape with another size of the axis."""
    axis = axis_of(attrs, shape)
    return (*shape[:axis], size, *shape[axis + 1 :])


def _fft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    axis_of(attrs, _complex_shape(types, attrs))
    return tensor(types)


def _rfft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    dtype = complex_dtype(data.dtype)
    if dtype is None:
        raise RelationError("expected real numbers, found {data}", 0, data=data)
    size = data.shape[axis_of(attrs, data.shape)]
    shape = _along(data.shape, attrs, add(floor_divide(size, 2), 1))
    return TensorType((*shape, 2), data.dtype) if attrs["pairs"] else TensorType(shape, dtype)


def _irfft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    shape, length = _complex_shape(types, attrs), cast("int | None", attrs["n"])
    default = add(multiply(shape[axis_of(attrs, shape)], 2), -2)
    dtype = tensor(types).dtype if attrs["pairs"] else part_dtype(tensor(types).dtype)
    return TensorType(_along(shape, attrs, default if length is None else length), dtype)


def _stft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return (batch, frequencies, frames, real and imaginary part); data of one dimension has no batch."""
    data = tensor(types)
    size, hop = cast(int, attrs["n_fft"]), cast(int, attrs["hop_length"])
    if hop == 0:
        raise RelationError("hop_length must not be 0", 0, attr="hop_length")
    if not data.shape:
        raise RelationError("expected data, found a scalar", 0)
    *batch, length = data.shape if len(data.shape) == 2 else data.shape[:1]
    frequencies = size // 2 + 1 if attrs["onesided"] else size
    return TensorType((*batch, frequencies, window_output(length, 0, size, hop), 2), data.dtype)


def _check_dft(types: Sequence[Type], _attrs: Attrs) -> None:
    real, imaginary = tensor(types, 0), tensor(types, 1)
    if real.dtype != imaginary.dtype:
        message = "the dtypes {real:dtype} and {imaginary:dtype} differ"
        raise RelationError(message, 0, 1, real=real.dtype, imaginary=imaginary.dtype)
    require_type(imaginary, real.shape, "the imaginary part", 1)


def _check_stft(types: Sequence[Type], attrs: Attrs) -> None:
    data = tensor(types)
    tensor(types, 1, rank=1)
    if len(data.shape) > 2:
        raise RelationError("expected a tensor of rank 1 or 2, found {data}", 0, data=data)
    size = cast(int, attrs["n_fft"])
    require_positive("n_fft", [size])
    require_positive("hop_length", [cast(int, attrs["hop_length"])])
    length = data.shape[-1]
    if isinstance(length, int) and length < size:
        raise RelationError(f"n_fft {size} is larger than the data", 0, attr="n_fft")


def _fit_frames(types: Sequence[Type], attrs: Attrs) -> None:
    """Require a window of the frame's length, and data that holds a frame."""
    data, window = sizes(types)
    size, width = cast(int, attrs["n_fft"]), cast(int, attrs["win_length"])
    width = width if width > 0 else size
    if window != (width,):
        raise RelationError(f"the window is of shape {window}, not ({width},)", 1, attr="win_length")
    if not data[-1] >= size >= width:
        raise RelationError(f"{data[-1]} samples hold no frame of {size}", 0, attr="n_fft")


declare(
    "dft(re_data, im_data)",
    lambda types, _attrs: TupleType((tensor(types, 0), tensor(types, 1))),
    "Discrete Fourier transform along the last axis, as (real, imaginary).",
    Attr("inverse", BOOL, default=False),
    attrs_key="DFTAttrs",
    numpy="numpy.fft.fft",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
    preconditions=[_check_dft],
)


def _points(types: Sequence[Type], attrs: Attrs, *, is_complex: bool) -> int:
    """Return the size of the axis of an operand of known shape."""
    (shape, *_) = sizes(types)
    return shape[axis_of(attrs, shape[:-1] if is_complex and attrs["pairs"] else shape)]


def _require_points(number: int, attr: str) -> None:
    """Raise RelationError for a length of less than 1, as NumPy does."""
    if number < 1:
        raise RelationError(f"invalid number of data points ({number})", 0, attr=attr)


def _has_points(types: Sequence[Type], attrs: Attrs, *, is_complex: bool) -> None:
    _require_points(_points(types, attrs, is_complex=is_complex), "axis")


def _has_half(types: Sequence[Type], attrs: Attrs) -> None:
    """Require a length of at least 1, and the elements that it has."""
    size, length = _points(types, attrs, is_complex=True), cast("int | None", attrs["n"])
    points = 2 * (size - 1) if length is None else length
    _require_points(points, "n")
    if size != points // 2 + 1:
        raise RelationError(f"{points} points have {points // 2 + 1} frequencies, not {size}", 0, attr="n")


#: Only the call may know whether there are points to transform.
_TRANSFORM = Trait.SPECULATABLE | Trait.RESHAPES | Trait.HEAVY
_AXIS, _PAIRS = Attr("axis", INT, -1), Attr("pairs", BOOL, default=False)
_NORM = Attr("norm", choice("backward", "ortho", "forward"), "backward")
declare(
    "numpy.fft(data)",
    _fft,
    "Discrete Fourier transform of complex numbers along an axis, or its inverse.",
    _AXIS,
    Attr("inverse", BOOL, default=False),
    _NORM,
    _PAIRS,
    numpy="numpy.fft.fft",
    traits=_TRANSFORM,
    shape_constraints=[partial(_has_points, is_complex=True)],
)
declare(
    "numpy.rfft(data)",
    _rfft,
    "Discrete Fourier transform of real numbers along an axis: the frequencies that are not negative.",
    _AXIS,
    _NORM,
    _PAIRS,
    numpy="numpy.fft.rfft",
    traits=_TRANSFORM,
    shape_constraints=[partial(_has_points, is_complex=False)],
)
declare(
    "numpy.irfft(data)",
    _irfft,
    "The real numbers whose transform is given at the frequencies that are not negative.",
    Attr("n", optional(INT), None),
    _AXIS,
    _NORM,
    _PAIRS,
    numpy="numpy.fft.irfft",
    traits=_TRANSFORM,
    shape_constraints=[_has_half],
)
declare(
    "stft(data, window)",
    _stft,
    "Short-time Fourier transform.",
    Attr("n_fft", INT, -1, call_default=REQUIRED),
    Attr("hop_length", INT, -1),
    Attr("win_length", INT, -1),
    Attr("normalized", BOOL, default=False),
    Attr("onesided", BOOL, default=True),
    attrs_key="STFTAttrs",
    call_order="data n_fft hop_length win_length window normalized onesided",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
    preconditions=[_check_stft],
    shape_constraints=[_fit_frames],
)
