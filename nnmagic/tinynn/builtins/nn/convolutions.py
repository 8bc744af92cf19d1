"""Define linear layers and convolutions by PyTorch's names; Relay's keywords (``strides``, ...) also work.

PyTorch's reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html
"""

from __future__ import annotations

import re
from dataclasses import replace

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.builtins.argument_checks import formula, static_int, static_size
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.calls.operator_arguments import call_with_arguments
from nnmagic.tinynn.values.operator_calls import as_computed, call_operator
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, TupleOf, Value, dynamic

_DATA = "input=data x=data"


def operator_formula(name: str, call: Arguments, *arguments: str, **attrs: object) -> Formula:
    """Call an operator with arguments of this call; errors are located at these arguments."""
    operands = [Operand(formula(call, parameter).value, call.at(parameter)) for parameter in arguments]
    spans = {parameter: operand.span for parameter, operand in call.given.items() if parameter in attrs}
    result = dynamic(call_operator(OPERATORS[name], operands, attrs, call.span, spans))
    return Formula(result, call.span)


def relay_call(name: str, call: Arguments, renamed: dict[str, str] | None = None) -> Value:
    """Call the Relay operator of the given name with Relay's keywords."""
    operands = [
        replace(operand, keyword=(renamed or {}).get(parameter, parameter))
        for parameter, operand in call.given.items()
    ]
    return call_with_arguments(OPERATORS[name], operands, call.span)


def _add_bias(result: Formula, call: Arguments, axis: int) -> Value:
    if "bias" not in call:
        return result.value
    operands = [Operand(result.value, call.span), Operand(formula(call, "bias").value, call.at("bias"))]
    return call_operator(OPERATORS["nn.bias_add"], operands, {"axis": axis}, call.span)


_CONV_ATTRS = (
    "strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout out_dtype"
)

_CONV = " ".join(f"{name}?" for name in _CONV_ATTRS.split())

_CONV_NAMES = "input=data x=data stride=strides"


def per_axis(value: object, rank: int) -> list[int] | None:
    """Return one number per axis from a single number or a sequence."""
    listed = value if isinstance(value, tuple) else (value,) * rank
    if len(listed) != rank or not all(isinstance(one, int) for one in listed):
        return None
    return [one for one in listed if isinstance(one, int)]


def _same_padding(call: Arguments, rank: int, weight: Formula, layout: str) -> tuple[int, ...] | int:
    """Return the padding that PyTorch calls "same"; an odd element goes to the end.

    Return 0 if the rank of the weight does not match its layout: the operator reports that.
    """
    strides = per_axis(call.static("strides") if "strides" in call else 1, rank)
    if strides is None or any(stride != 1 for stride in strides):
        hint = "give the numbers, as in padding=1"
        raise call.refusal("padding", 'padding="same" needs strides of 1', hint=hint)
    dilation = per_axis(call.static("dilation") if "dilation" in call else 1, rank)
    axes = re.findall(r"\d*[A-Za-z]", layout)
    windows = [dim for axis, dim in zip(axes, weight.shape, strict=False) if axis in "DHW"]
    if len(axes) != weight.rank or len(windows) != rank:
        return 0
    sizes = [static_size(call, dim, call.at("weight")) for dim in windows]
    totals = [step * (size - 1) for step, size in zip(dilation or [1] * rank, sizes, strict=True)]
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))


def _convolution(rank: int) -> Builtin:
    name = f"nn.conv{rank}d"

    def default(attribute: str) -> object:
        declaration = OPERATORS[name].attr(attribute)
        return declaration and declaration.default

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs(*_CONV_ATTRS.split())
        if attrs.get("padding") in ("same", "valid"):
            same = attrs["padding"] == "same"
            layout = str(attrs.get("kernel_layout") or default("kernel_layout"))
            attrs["padding"] = _same_padding(call, rank, formula(call, "weight"), layout) if same else 0
        result = operator_formula(name, call, "data", "weight", **attrs)
        layout = str(attrs.get("out_layout") or attrs.get("data_layout") or default("data_layout"))
        return _add_bias(result, call, layout.find("C"))

    summary = f"Call {name}, followed by nn.bias_add if a bias is given."
    return Builtin(f"conv{rank}d", f"data weight bias? {_CONV}", apply_to, summary, aliases=_CONV_NAMES)


_TRANSPOSED_ATTRS = "strides padding output_padding groups dilation"


def _convolution_transpose(rank: int) -> Builtin:
    name = f"nn.conv{rank}d_transpose"

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs(*_TRANSPOSED_ATTRS.split())
        weight = formula(call, "weight")
        if weight.rank == rank + 2:
            groups = static_int(call, "groups", 1)
            outputs = static_size(call, weight.shape[1], call.at("weight")) * groups
            attrs |= {"channels": outputs, "kernel_size": weight.shape[2:]}
        attrs["kernel_layout"] = "IO" + "DHW"[3 - rank :]
        return _add_bias(operator_formula(name, call, "data", "weight", **attrs), call, 1)

    words = "strides?=1 padding?=0 output_padding?=0 groups?=1 dilation?=1"
    summary = f"Call {name}, with PyTorch's weight layout: (in, out / groups, ...)."
    return Builtin(
        f"conv_transpose{rank}d", f"data weight bias? {words}", apply_to, summary, aliases=_CONV_NAMES
    )


def _linear(call: Arguments) -> Value:
    attrs = call.attrs("units", "out_dtype")
    data = formula(call, "data")
    if data.rank != 1:
        return _add_bias(operator_formula("nn.dense", call, "data", "weight", **attrs), call, -1)
    rows = {**call.given, "data": Operand(data.expand(0).value, call.at("data"))}
    result = operator_formula("nn.dense", Arguments(call.name, rows, call.span), "data", "weight", **attrs)
    return _add_bias(result.op("squeeze", axis=[0]), call, -1)


def _bilinear(call: Arguments) -> Value:
    one, other, weight = (formula(call, name) for name in ("input1", "input2", "weight"))
    if one.rank != 2 or other.rank != 2 or weight.rank != 3:
        raise RefusalError("bilinear takes two matrices and a weight of rank 3", call.span)
    computed = as_computed(Operand(TupleOf((one.value, weight.value, other.value)), call.span))
    result = call_operator(
        OPERATORS["einsum"], [Operand(computed, call.span)], {"equation": "ni,oij,nj->no"}, call.span
    )
    assert isinstance(result, Computed)
    return _add_bias(Formula(result, call.span), call, -1)


CONVOLUTIONS = (
    *map(_convolution, (1, 2, 3)),
    *map(_convolution_transpose, (1, 2, 3)),
    Builtin(
        "linear",
        "data weight bias? * units? out_dtype?",
        _linear,
        "Call nn.dense, followed by nn.bias_add if a bias is given.",
        aliases=_DATA,
    ),
    cell_function(
        "bilinear",
        "input1 input2 weight bias?",
        _bilinear,
        "Compute input1 @ weight @ input2 for each output.",
    ),
)
