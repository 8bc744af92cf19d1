"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, INT
from nnmagic.relay.ops.declaration import REQUIRED, Attr, RelationError, declare
from nnmagic.relay.ops.dims import window_output
from nnmagic.relay.ops.relations import require_type, tensor
from nnmagic.relay.types import TensorType, TupleType, Type


def _dft(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    real, imaginary = tensor(types, 0), tensor(types, 1)
    if real.dtype != imaginary.dtype:
        raise RelationError(f"the dtypes {real.dtype} and {imaginary.dtype} differ", 0, 1)
    require_type(imaginary, real.shape, "the imaginary part", 1)
    return TupleType((real, real))


def _stft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """(batch, frequencies, frames, real and imaginary part)."""
    data = tensor(types, rank=2)
    tensor(types, 1, rank=1)
    size, hop = cast(int, attrs["n_fft"]), cast(int, attrs["hop_length"])
    if size < 1 or hop < 1:
        raise RelationError(f"n_fft and hop_length must be positive, they are {size} and {hop}")
    batch, length = data.shape
    frames = window_output(length, 0, size, hop)
    if isinstance(frames, int) and frames < 1:
        raise RelationError(f"n_fft {size} is larger than the data", 0)
    return TensorType((batch, size // 2 + 1 if attrs["onesided"] else size, frames, 2), data.dtype)


declare(
    "dft",
    "re_data im_data",
    _dft,
    "Discrete Fourier transform along the last axis, as (real, imaginary).",
    Attr("inverse", BOOL, default=False),
    attrs_key="DFTAttrs",
    numpy="numpy.fft.fft",
    family="signal",
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
    family="signal",
)
