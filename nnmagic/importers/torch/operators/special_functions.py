"""Import special functions: of the gamma, error and Bessel families.

What they compute: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert, in_float32
from nnmagic.importers.torch.registry import Rule, operator, operators
from nnmagic.relay.functions import float_parts, normal_distribution, special
from nnmagic.relay.ops.unary import MAX_ORDER


@operator("polygamma", note=f"of orders up to {MAX_ORDER}")
def _polygamma(call: AtenCall) -> Value:
    order = call.integer("n")
    if order > MAX_ORDER:
        raise UnsupportedError(f"the derivative {order} of the digamma function is not supported")
    return op("special.polygamma", convert(call["self"], call.dtype), n=order)


@operator("nextafter")
def _nextafter(call: AtenCall) -> Value:
    return special.next_float(*(convert(call[name], call.dtype) for name in ("self", "other")))


@operator("frexp")
def _frexp(call: AtenCall) -> list[Value]:
    mantissa, exponent = float_parts.frexp(call["self"])
    return [mantissa, exponent.cast("int32")]


def _special(name: str) -> Rule:
    return lambda call: in_float32(f"special.{name}", convert(call["self"], call.dtype))


operators(
    {
        "erfinv": _special("erfinv"),
        "i0": _special("i0"),
        **{f"special_{name}": _special(name) for name in ("i0e", "i1", "i1e", "log_ndtr", "ndtri")},
        "special_erfcx": lambda call: normal_distribution.erfcx(convert(call["self"], call.dtype)),
        "digamma": lambda call: op("special.polygamma", convert(call["self"], call.dtype)),
        "lgamma": lambda call: op("special.gammaln", convert(call["self"], call.dtype)),
    }
)
