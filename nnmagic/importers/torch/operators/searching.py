"""Import searches in sorted tensors, and functions that are built of powers and error functions.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
"""

from __future__ import annotations

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert, wide
from nnmagic.importers.torch.registry import operator, operators


@operator("searchsorted", note="of sequences that are sorted")
def _searchsorted(call: AtenCall) -> Value:
    right = call.flag("right") or call.argument("side") == "right"
    return _search(call, "sorted_sequence", right=right)


def _search(call: AtenCall, name: str, *, right: bool) -> Value:
    """Return where values would be inserted in the argument ``name``; those of rank 0 are a vector of one."""
    _, (sequence, values) = call.promote(name, "self")
    sorter = call.get("sorter")
    if sorter is not None:
        sequence = op("gather", sequence, sorter, axis=sequence.rank - 1)
    flat = op("expand_dims", values, axis=0) if not values.rank else values
    places = op("searchsorted", sequence, flat, right=right, dtype=call.dtype)
    if flat.is_float:  # NaN is behind all numbers
        last = shapes.size_along(sequence, sequence.rank - 1).cast(call.dtype)
        places = op("isnan", wide(flat)).choose(last, places)
    return places if values.rank else shapes.squeeze(places, [0])


@operator("ldexp")
def _ldexp(call: AtenCall) -> Value:
    data, exponent = convert(call["self"], call.dtype), convert(call["other"], call.dtype)
    return data * op("power", data.like(2), exponent)


operators(
    {
        "bucketize": lambda call: _search(call, "boundaries", right=call.flag("right")),
        "erfc": lambda call: op("special.erfc", convert(call["self"], call.dtype)),
    }
)
