"""Map numbers to integers that sort as the numbers do, and back."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vectorizable_isnan import is_nan

#: The bits of float32's usual NaN.
_QUIET_NAN = 0x7FC00000


def key_dtype(dtype: str) -> str:
    """Return the dtype of the keys of a dtype's numbers."""
    return "int64" if tvm.DataType(dtype).bits == 64 else "int32"


def sort_key(value: PrimExpr) -> PrimExpr:
    """Return an integer that sorts as the number does: -0 right before 0, all NaN the highest."""
    dtype = scalar_functions.dtype_of(value)
    if dtype in scalar_functions.NARROW_FLOATS:
        return sort_key(value.astype("float32"))
    kind = key_dtype(dtype)
    if dtype in ("uint32", "uint64"):
        # The sign bit is flipped: unsigned order becomes signed order, as 0 becomes the lowest
        # number.
        return tirx.reinterpret(kind, value) ^ tirx.min_value(kind)
    if not dtype.startswith("float"):
        return value.astype(kind)
    # IEEE 754 numbers are a sign and a magnitude: those of one sign are in the order of their bits.
    bits = tirx.reinterpret(kind, value)
    return tirx.Select(is_nan(value), tirx.max_value(kind), _flip_negative(bits))


def sort_keys(values: PrimExpr, lanes: int) -> PrimExpr:
    """Return the keys of a vector of numbers of 32 or 64 bits."""
    dtype = scalar_functions.dtype_of(values).partition("x")[0]
    kind = key_dtype(dtype)
    bits = tirx.reinterpret(builders.vector_type(kind, lanes), values)

    def every(number: int) -> PrimExpr:
        return builders.broadcast(tirx.const(number, kind), lanes)

    info = np.iinfo(kind)
    if dtype in ("uint32", "uint64"):
        return tirx.bitwise_xor(bits, every(int(info.min)))
    if not dtype.startswith("float"):
        return bits
    infinity = int(np.array(np.inf, dtype).view(kind))
    sign = tirx.shift_right(bits, every(info.bits - 1))
    key = tirx.bitwise_xor(bits, tirx.bitwise_and(sign, every(int(info.max))))
    size = tirx.bitwise_and(bits, every(int(info.max)))
    return tirx.Select(size > every(infinity), every(int(info.max)), key)


def from_sort_key(key: PrimExpr, dtype: str) -> PrimExpr:
    """Return the number that has this key."""
    if dtype in scalar_functions.NARROW_FLOATS:
        # The highest NaN of float32 would be rounded up to a bfloat16 that is none.
        return from_sort_key(tirx.min(key, tirx.const(_QUIET_NAN, "int32")), "float32").astype(dtype)
    kind = key_dtype(dtype)
    if dtype in ("uint32", "uint64"):
        return tirx.reinterpret(dtype, key ^ tirx.min_value(kind))
    if not dtype.startswith("float"):
        return key.astype(dtype)
    return tirx.reinterpret(dtype, _flip_negative(key))


def join_zeros(key: PrimExpr) -> PrimExpr:
    """Return the key of a float, made the same for both zeros."""
    kind = scalar_functions.dtype_of(key)
    return tirx.Select(key == tirx.const(-1, kind), tirx.const(0, kind), key)


def _flip_negative(bits: PrimExpr) -> PrimExpr:
    """Reverse the order of the negative numbers, whose bits grow with the magnitude."""
    kind = scalar_functions.dtype_of(bits)
    sign = tirx.shift_right(bits, tirx.const(tvm.DataType(kind).bits - 1, kind))
    return bits ^ (sign & tirx.max_value(kind))
