"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, INT
from nnmagic.relay.ops.declaration import REQUIRED, Attr, RelationError, declare
from nnmagic.relay.ops.dims import window_output
from nnmagic.relay.ops.relations import tensor
from nnmagic.relay.types import TensorType, TupleType, Type


def _dft(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    return TupleType((tensor(types, 0), tensor(types, 1)))


def _stft(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """(batch, frequencies, frames, real and imaginary part); data of one dimension has no batch."""
    data = tensor(types)
    size, hop = cast(int, attrs["n_fft"]), cast(int, attrs["hop_length"])
    if hop == 0 or not data.shape:
        raise RelationError("hop_length must not be 0" if hop == 0 else "expected data, found a scalar", 0)
    *batch, length = data.shape if len(data.shape) == 2 else data.shape[:1]
    frequencies = size // 2 + 1 if attrs["onesided"] else size
    return TensorType((*batch, frequencies, window_output(length, 0, size, hop), 2), data.dtype)


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
