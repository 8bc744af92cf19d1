"""Define NumPy's packbits and unpackbits: bytes of eight truth values.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.packbits.html
"""

from __future__ import annotations

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import choice_argument, formula, one_axis
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.values.symbolic_sizes import calculate_size, dim_of, size_along
from nnmagic.tinynn.values.values import Dimension, Known, RefusalError, Value


def _shifts(call: Arguments) -> Formula:
    """Return by how many places each of eight bits is shifted."""
    is_big = choice_argument(call, "bitorder", ("big", "little"), "big") == "big"
    places = np.arange(8, dtype="uint8")
    return constant_of(places[::-1].copy() if is_big else places, "uint8", call.span)


def _along_last(call: Arguments, data: Formula) -> tuple[Formula, list[int]]:
    """Return the data with the axis of a call as the last, all in one without an axis; and the way back."""
    if "axis" not in call:
        data = data.flat()
    axis = one_axis(call, "axis", data.rank, 0)
    others = [index for index in range(data.rank) if index != axis]
    back = list(range(data.rank - 1))
    back.insert(axis, data.rank - 1)
    return data.transpose([*others, axis]), back


def _unpack(call: Arguments) -> Value:
    data = formula(call, "a")
    if data.dtype != "uint8":
        message = f"unpackbits takes bytes, not {dtype_short_name(data.dtype)}"
        raise RefusalError(message, call.at("a"), hint="convert them with .astype(np.uint8)")
    data, back = _along_last(call, data)
    bits = data.expand(data.rank).op("right_shift", _shifts(call)).op("bitwise_and", data.like(1))
    joined = bits.op("reshape", newshape=[*[0] * (data.rank - 1), -1])
    return joined.transpose(back).value


def _pack(call: Arguments) -> Value:
    data = formula(call, "a")
    if not (data.is_integer or data.dtype == "bool"):
        message = f"packbits takes integers or bools, not {dtype_short_name(data.dtype)}"
        raise RefusalError(message, call.at("a"))
    data, back = _along_last(call, data.truth().cast("uint8"))
    length = size_along(data.value, data.rank - 1, call.span)
    longer = calculate_size(BuiltinOp.Add, length, Known(7), call.span)
    size = calculate_size(BuiltinOp.FloorDiv, longer, Known(8), call.span)
    count = size if isinstance(size, Dimension) else dim_of(size)
    assert isinstance(count, int | Dimension)
    widths = [(0, 7 * (axis == data.rank - 1)) for axis in range(data.rank)]
    places = arange(count, call.span).expand(1) * 8 + arange(8, call.span)
    bits = data.op("nn.pad", 0, pad_width=widths).op("take", places, axis=data.rank - 1, mode="clip")
    return bits.op("left_shift", _shifts(call)).reduce("sum", (data.rank,)).transpose(back).value


BITS = (
    free_function(
        "packbits",
        "a axis? bitorder?='big'",
        _pack,
        "Pack truth values into the bits of bytes, padded with zeros.",
    ),
    free_function(
        "unpackbits", "a axis? * bitorder?='big'", _unpack, "Return the bits of bytes as zeros and ones."
    ),
)
