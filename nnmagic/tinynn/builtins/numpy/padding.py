"""Define NumPy's pad.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.pad.html
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.builtins.argument_checks import as_formula, choice_argument, formula, static_value_or_none
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, concatenate, constant_of, require_elements
from nnmagic.tinynn.calls.argument_binding import Arguments, numpy_function
from nnmagic.tinynn.values import symbolic_sizes as symbolic
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor
from nnmagic.tinynn.values.values import Dimension, Known, LoopCall, Operand, RefusalError, TupleOf, Value

#: The modes that NumPy computes of the whole axis, and what they fill it with.
_OF_AXIS = {
    "maximum": "max(a, axis=-1, keepdims=True)",
    "minimum": "min(a, axis=-1, keepdims=True)",
    "mean": "mean(a, axis=-1, keepdims=True)",
    "median": "median(a, axis=-1, keepdims=True)",
    "empty": "a[..., :1] * 0",
    "linear_ramp": "",
}
_MODES = ("constant", "edge", "reflect", "symmetric", "wrap", *_OF_AXIS)
#: Maximal length of an axis that is extended by its own elements: their indices are a constant.
_MAX_INDICES = 10_000_000
#: How many elements before and after an axis are added: numbers, or sizes that a call decides.
_Widths: TypeAlias = "tuple[Value, Value]"


def _pad_width(call: Arguments, rank: int) -> list[_Widths]:
    """Return the widths for each axis: one number, one pair for all, or a pair for each."""
    widths, span = call.given["pad_width"].value, call.at("pad_width")
    listed = widths.items if isinstance(widths, TupleOf) else (widths,)
    sizes = [symbolic.as_size(Operand(item, span)) for item in listed]
    pairs: list[_Widths] = []
    if 0 < len(sizes) <= 2 and not any(size is None for size in sizes):
        first, last = sizes[0], sizes[-1]
        pairs = [(first, last)] * rank if first is not None and last is not None else []
    elif all(isinstance(item, TupleOf) and item.items for item in listed):
        for item in listed:
            assert isinstance(item, TupleOf)
            ends = [symbolic.as_size(Operand(end, span)) for end in item.items]
            if ends[0] is not None and ends[-1] is not None:
                pairs.append((ends[0], ends[-1]))
        pairs = pairs * rank if len(pairs) == len(listed) == 1 else pairs
    if len(pairs) != rank:
        hint = "write one number, (before, after), or a pair for each dimension"
        raise RefusalError(f"pad: `pad_width` does not fit a tensor of rank {rank}", span, hint=hint)
    if any((_static(width) or 0) < 0 for pair in pairs for width in pair):
        raise RefusalError("pad: `pad_width` must not be negative", span)
    return pairs


def _static(size: Value) -> int | None:
    value = size.value if isinstance(size, Known) else None
    return value if isinstance(value, int) else None


def _pad(call: Arguments) -> Value:
    """Pad as NumPy does; ``pad_value`` and ``pad_mode`` are Relay's names."""
    data = formula(call, "array")
    widths = _pad_width(call, data.rank)
    if "mode" in call and not isinstance(static_value_or_none(call.given["mode"].value), str):
        call = Arguments(  # Relay's pad(x, widths, 0)
            call.name,
            {"constant_values": call.given["mode"], **{k: v for k, v in call.given.items() if k != "mode"}},
            call.span,
        )
    mode = choice_argument(call, "mode", _MODES, "constant")
    if mode != "constant" and "constant_values" in call:
        raise RefusalError(f"pad: `constant_values` with the mode {mode!r}", call.at("constant_values"))
    if mode == "constant":
        return _pad_with(call, data, widths, _constant_value(call, data))
    if mode in _OF_AXIS:
        return _of_axes(call, data, widths, mode)
    for axis, (before, after) in enumerate(widths):
        if (before, after) != (Known(0), Known(0)):
            data = _extend_axis(call, data, axis, before, after, mode)
    return data.value


def _of_axes(call: Arguments, data: Formula, widths: list[_Widths], mode: str) -> Value:
    """Pad with numbers of each axis in turn, in the language itself."""
    static_widths = [(_static(before), _static(after)) for before, after in widths]
    if any(None in pair for pair in static_widths):
        message = f"pad: `pad_width` must be known with mode={mode!r}"
        raise RefusalError(message, call.given["pad_width"].span)
    lines = ["def pad(a):\n    kind = a.dtype\n"]
    for axis, (before, after) in enumerate(static_widths):
        lines.append(f"    a = moveaxis(a, {axis}, -1)\n")
        for width, edge in ((before, "a[..., :1]"), (after, "a[..., -1:]")):
            value = _OF_AXIS[mode] or edge
            if mode in ("mean", "median") and not data.is_float and not data.is_complex:
                value = f"round({value})"
            name = "first" if edge == "a[..., :1]" else "last"
            ramp = f" * (arange({width}) / {width})" if mode == "linear_ramp" and width else ""
            lines.append(f"    {name} = ({value}{ramp} + zeros({width}, dtype=kind)).astype(kind)\n")
        backwards = "last[..., ::-1]" if mode == "linear_ramp" else "last"
        lines.append(f"    a = moveaxis(concatenate((first, a, {backwards}), axis=-1), -1, {axis})\n")
    lines.append("    return a\n")
    return LoopCall("text", (Operand(data.value, call.given["array"].span),), text="".join(lines))


def _constant_value(call: Arguments, data: Formula) -> Operand:
    operand = call.given.get("constant_values", Operand(Known(0), call.span))
    number = static_value_or_none(operand.value)
    if isinstance(number, bool | int | float | complex):
        number = bool(number) if data.dtype == "bool" else number
        return Operand(number_constant(number, data.dtype, operand.span), operand.span)
    if is_tensor(operand.value):
        return operand
    raise call.mismatch("constant_values", "one number")


def _pad_with(call: Arguments, data: Formula, widths: list[_Widths], value: Operand) -> Value:
    numbers = [tuple(map(_static, pair)) for pair in widths]
    if not any(None in pair for pair in numbers):
        if not any(map(any, numbers)):
            return data.value
        operands = [Operand(data.value, call.at("array")), value]
        return call_operator(OPERATORS["nn.pad"], operands, {"pad_width": numbers}, call.span)
    number = as_formula(value, call.span, "pad: `constant_values`").cast(data.dtype)
    for axis, pair in enumerate(widths):
        before, after = (_fill(number, data, axis, width) for width in pair)
        data = concatenate(call, [*before, data, *after], axis)
    return data.value


def _fill(number: Formula, data: Formula, axis: int, width: Value) -> list[Formula]:
    """Return what is added to an axis: a tensor of one number, or nothing."""
    if width == Known(0):
        return []
    sizes = list(symbolic.shape_of(data.value, data.span).items)
    sizes[axis] = width
    return [Formula(symbolic.full(number.value, sizes, data.span), data.span)]


def _extend_axis(
    call: Arguments, data: Formula, axis: int, before: Value, after: Value, mode: str
) -> Formula:
    """Extend one axis by its own elements."""
    size = symbolic.size_along(data.value, axis, call.span)
    static = _static(size)
    if static == 0:
        raise RefusalError(f"pad: axis {axis} has no elements to repeat", call.at("array"))
    total = symbolic.calculate_size(
        BuiltinOp.Add, symbolic.calculate_size(BuiltinOp.Add, before, size, call.span), after, call.span
    )
    many = _static(total)
    if many is not None and many > _MAX_INDICES:
        message = f"pad: axis {axis} would have {many} elements (with mode={mode!r} at most {_MAX_INDICES})"
        raise RefusalError(message, call.at("pad_width"))
    if many is not None and static is not None:
        first = _static(before)
        assert first is not None
        indices = constant_of(_places(np.arange(many) - first, static, mode), "int32", call.span)
        return data.op("take", indices, axis=axis, mode="clip")
    count = total if isinstance(total, Dimension) else many
    assert count is not None
    data = require_elements(data, (axis,), f"pad: axis {axis} has no elements to repeat")
    offset = Formula(symbolic.number_of(before, call.span), call.span)
    length = Formula(symbolic.number_of(size, call.span), call.span)
    places = _dynamic_places(arange(count, call.span) - offset, length, mode)
    return data.op("take", places, axis=axis, mode="fast")


def _places(indices: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Return which element of an axis stands at each place, some of which are outside of it."""
    match mode:
        case "edge":
            return indices.clip(0, size - 1)
        case "wrap":
            return indices % size
        case "symmetric":
            indices = indices % (2 * size)
            mirrored = 2 * size - 1 - indices
        case _:
            indices = indices % max(2 * (size - 1), 1)
            mirrored = max(2 * (size - 1), 1) - indices
    return np.where(indices < mirrored, indices, mirrored)


def _dynamic_places(indices: Formula, size: Formula, mode: str) -> Formula:
    """Return what ``_places`` does; of an axis without elements, a place that is out of range."""
    size = size.op("maximum", 1)
    match mode:
        case "edge":
            return indices.op("maximum", 0).op("minimum", size - 1)
        case "wrap":
            return indices.op("floor_mod", size)
        case "symmetric":
            indices = indices.op("floor_mod", size * 2)
            return indices.op("minimum", size * 2 - 1 - indices)
        case _:
            period = ((size - 1) * 2).op("maximum", 1)
            indices = indices.op("floor_mod", period)
            return indices.op("minimum", period - indices)


PADDING = (
    numpy_function(
        "pad",
        "array pad_width mode? * constant_values?=0",
        _pad,
        "Pad the ends of axes.",
        "pad_value=constant_values pad_mode=mode x=array",
    ),
)
