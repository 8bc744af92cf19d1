"""Import the gamma function's logarithm and its derivatives, which are computed in float64."""

from __future__ import annotations

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import Call
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator
from nnmagic.relay.ops.unary import MAX_ORDER


@operator("lgamma")
def _lgamma(call: Call) -> Value:
    return op("special.gammaln", convert(call["self"], call.dtype))


@operator("digamma")
def _digamma(call: Call) -> Value:
    return op("special.polygamma", convert(call["self"], call.dtype))


@operator("polygamma", note=f"of orders up to {MAX_ORDER}")
def _polygamma(call: Call) -> Value:
    order = call.integer("n")
    if order > MAX_ORDER:
        raise UnsupportedError(f"the derivative {order} of the digamma function is not supported")
    return op("special.polygamma", convert(call["self"], call.dtype), n=order)
