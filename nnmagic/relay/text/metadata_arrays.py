"""Save and load arrays as TVM does in the metadata section of Relay text."""

from __future__ import annotations

import base64
import binascii
import math
import struct

import numpy as np

from nnmagic.relay.types import NUMPY_DTYPES, dtype_of_array

_NDARRAY_MAGIC = 0xDD5E40F096B4A13F
_NDARRAY_HEAD = struct.Struct(
    "<QQiiiBBH"
)  # magic, reserved, device type and id, rank, dtype: code, bits, lanes
_CPU = 1
_DTYPE_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_CODE_OF_DTYPE = {
    name: (1, 1) if name == "bool" else (_DTYPE_CODES[name.rstrip("0123456789")], 8 * dtype.itemsize)
    for name, dtype in NUMPY_DTYPES.items()
}
_DTYPE_OF_CODE = {code: name for name, code in _CODE_OF_DTYPE.items()}


def save_array(data: np.ndarray) -> str:
    """Return an array as TVM saves it, in base64."""
    dtype = dtype_of_array(data)
    assert dtype is not None
    code, bits = _CODE_OF_DTYPE[dtype]
    head = _NDARRAY_HEAD.pack(_NDARRAY_MAGIC, 0, _CPU, 0, data.ndim, code, bits, 1)
    little = data.astype(data.dtype.newbyteorder("<"), order="C", copy=False)
    shape = struct.pack(f"<{data.ndim}q", *data.shape)
    blob = head + shape + struct.pack("<q", data.nbytes) + little.tobytes()
    return base64.b64encode(blob).decode("ascii")


def load_array(text: str) -> np.ndarray:
    """Return the read-only array of ``save_array``'s text. Raises ValueError."""
    try:
        blob = base64.b64decode(text, validate=True)
        magic, _, _, _, rank, code, bits, lanes = _NDARRAY_HEAD.unpack_from(blob)
        if magic != _NDARRAY_MAGIC or not 0 <= rank <= 64 or lanes != 1:
            raise ValueError("not a saved TVM array")
        *shape, size = struct.unpack_from(f"<{rank + 1}q", blob, _NDARRAY_HEAD.size)
    except (binascii.Error, struct.error):
        raise ValueError("not a saved TVM array") from None
    dtype = NUMPY_DTYPES.get(_DTYPE_OF_CODE.get((code, bits), ""))
    start = _NDARRAY_HEAD.size + 8 * (rank + 1)
    if dtype is None:
        raise ValueError(f"a saved array of an unknown dtype (code {code}, {bits} bits)")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size or len(blob) - start != size:
        raise ValueError("a saved array whose size does not fit its shape")
    data = np.frombuffer(blob, dtype.newbyteorder("<"), offset=start).astype(dtype).reshape(shape)
    data.flags.writeable = False
    return data
