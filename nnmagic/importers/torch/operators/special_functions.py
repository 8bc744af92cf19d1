"""Import the gamma function's logarithm and its derivatives, which are computed in float64.

What they compute: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay.ops.unary import MAX_ORDER


@operator("polygamma", note=f"of orders up to {MAX_ORDER}")
def _polygamma(call: AtenCall) -> Value:
    order = call.integer("n")
    if order > MAX_ORDER:
        raise UnsupportedError(f"the derivative {order} of the digamma function is not supported")
    return op("special.polygamma", convert(call["self"], call.dtype), n=order)


operators(
    {
        "digamma": lambda call: op("special.polygamma", convert(call["self"], call.dtype)),
        "lgamma": lambda call: op("special.gammaln", convert(call["self"], call.dtype)),
    }
)
