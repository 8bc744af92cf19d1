"""Check the data of layers."""

from __future__ import annotations

from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins.argument_checks import formula, require_float
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.values import RefusalError


def float_data(call: Arguments, rank: int) -> Formula:
    """Return the argument ``data``, which must hold floats and have at least the given rank."""
    data = formula(call, "data")
    require_float(call, data, "data")
    if data.rank < rank:
        message = (
            f"{call.name} takes a tensor of rank {rank} or more, not one of shape {format_shape(data.shape)}"
        )
        raise RefusalError(message, call.at("data"))
    return data
