"""Declare Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, INT
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, RelationError, Trait, declare
from nnmagic.relay.ops.dims import window_output
from nnmagic.relay.ops.relations import require_positive, require_type, tensor
from nnmagic.relay.types import TensorType, TupleType, Type


def _dft(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    return TupleType((tensor(types, 0), tensor(types, 1)))


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
    "dft",
    "re_data im_data",
    _dft,
    "Discrete Fourier transform along the last axis, as (real, imaginary).",
    Attr("inverse", BOOL, default=False),
    attrs_key="DFTAttrs",
    numpy="numpy.fft.fft",
    traits=Trait.SPECULATABLE | Trait.HEAVY,
    family="signal",
    preconditions=[_check_dft],
)
declare(
    "stft",
    "data window",
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
    family="signal",
    preconditions=[_check_stft],
    shape_constraints=[_fit_frames],
)
