"""View complex arrays as pairs of floats, as machine code has them, and back."""

from __future__ import annotations

import numpy as np

from nnmagic.relay import types as ty


def pairs_of(array: np.ndarray) -> np.ndarray:
    """Return a complex array as pairs of floats in the same memory."""
    dtype = array.dtype
    part = _PARTS[dtype] if dtype.isnative else _PARTS[dtype.newbyteorder("=")].newbyteorder(dtype.byteorder)
    return array[..., None].view(part)


_PARTS = {dtype: ty.NUMPY_DTYPES[ty.part_dtype(name)] for name, dtype in ty.COMPLEX_DTYPES.items()}

_WHOLES = {part: dtype for dtype, part in _PARTS.items()}


def complex_of(array: np.ndarray) -> np.ndarray:
    """Return an array of pairs of floats as a complex array, in the same memory if its pairs lie there."""
    if array.strides[-1] != array.itemsize:
        array = np.ascontiguousarray(array)
    whole: np.ndarray = array.view(_WHOLES[array.dtype.newbyteorder("=")])
    return whole[..., 0]
