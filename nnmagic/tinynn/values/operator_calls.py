"""Builds calls of operators with their types, and says where an operator refuses its arguments.

Knows operators and values; what a cell refuses beyond Relay stands in strict.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import Operator, RelationError
from nnmagic.relay.ops.dims import multiply
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type
from nnmagic.tinynn.values.operator_restrictions import check_restrictions, check_result
from nnmagic.tinynn.values.values import (
    Computed,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    computed,
    described,
    source_text,
)


def call_operator(
    operator: Operator,
    operands: Sequence[Operand],
    attrs: Mapping[str, object],
    span: Span,
    places: Mapping[str, Span] | None = None,
) -> Value:
    """A call of an operator; the operands must be Computed. ``places``: where attributes were given.

    Raises Refusal, which points at the operands and attributes that it speaks of.
    """
    try:
        complete = operator.complete_attrs(attrs, from_call=True)
        types = [computed_part(operand).type for operand in operands]
        check_restrictions(operator, types, complete)
        result = operator.result_type(types, complete)
        operator.check_preconditions(types, complete)
        check_result(operator, result)
    except RelationError as error:
        raise located(error, operands, span, places or {}) from None
    args = tuple(computed_part(operand).expr for operand in operands)
    call = ir.Call(ir.OpRef(operator.name, span=span), args, complete, span=span)
    return computed(call, result)


def located(
    error: RelationError, operands: Sequence[Operand], span: Span, places: Mapping[str, Span]
) -> RefusalError:
    """An operator's refusal at its place; the operands and the attribute that it speaks of are pointed at."""
    blamed = [operands[index] for index in error.operands if index < len(operands)]
    notes = [Note(f"this is {described(operand.value)}", operand.span) for operand in blamed]
    hint = error.hint
    if hint is not None:  # "{0}" stands for the first operand that the error blames
        for number, operand in enumerate(blamed):
            hint = hint.replace(f"{{{number}}}", source_text(operand.span))
    words = re.findall(r"\w+", error.message)
    named = [place for name, place in places.items() if name in words]
    if named:
        span = named[0]
    elif len(blamed) == 1:
        span, notes = blamed[0].span, []
    if hint is None and (found := re.search(r"attribute 'shape' must be an int, not '(\w+)'", error.message)):
        hint = f'the size of the dimension "{found[1]}" is that of a tensor, as in x.shape[0]'
    if hint is None and re.search(r"attribute 'padding' must be an int, not '", error.message):
        hint = "write the numbers, as in padding=1 or padding=(1, 1)"
    return RefusalError(_in_words_of_a_cell(error.message), span, hint=hint, notes=notes)


def _in_words_of_a_cell(message: str) -> str:
    """What an operator says with types as a cell writes them: ``Tensor[(3,), f32]``, not Relay's ``(3)``."""
    if "attribute" in message:  # Relay's own words are taken there, too
        return message
    message = re.sub(r"Tensor\[\(([^,()]+)\), ", r"Tensor[(\1,), ", message)
    message = re.sub(r"(Tensor\[\([^()]*\), )bool\]", r"\1bool_]", message)
    return re.sub(
        r"(?<!['\w])(?:bfloat|float|u?int)\d+(?!['\w])", lambda found: dtype_short_name(found[0]), message
    )


def computed_part(operand: Operand) -> Computed:
    """The Relay expression of an operand. Raises Refusal for what has none."""
    match operand.value:
        case Computed() as found:
            return found
        case TupleOf(whole=Computed() as whole):
            return whole
        case TupleOf(items=items):
            parts = [computed_part(Operand(item, operand.span)) for item in items]
            return Computed(
                ir.Tuple(tuple(part.expr for part in parts), span=operand.span),
                TupleType(tuple(part.type for part in parts)),
            )
    raise RefusalError(f"expected a tensor, found {described(operand.value)}", operand.span)


def apply(name: str, span: Span, *args: Computed | Operand, **attrs: object) -> Computed:
    """A call of the operator of that name whose result is one tensor; arguments may be results of others."""
    operands = [arg if isinstance(arg, Operand) else Operand(arg, span) for arg in args]
    result = call_operator(OPERATORS[name], operands, attrs, span)
    assert isinstance(result, Computed)
    return result


def tensor_type(operand: Operand) -> TensorType:
    """The type of an operand that must be a tensor."""
    if isinstance(operand.value, Computed) and isinstance(operand.value.type, TensorType):
        return operand.value.type
    raise RefusalError(f"expected a tensor, found {described(operand.value)}", operand.span)


def is_tensor(value: Value) -> bool:
    """Whether a value is one tensor."""
    return isinstance(value, Computed) and isinstance(value.type, TensorType)


def cast(operand: Computed, dtype: str, span: Span) -> Computed:
    """The tensor in another dtype; itself where it has that one already."""
    type_: Type = operand.type
    if isinstance(type_, TensorType) and type_.dtype == dtype:
        return Computed(operand.expr, type_)
    return apply("cast", span, operand, dtype=dtype)


def whole_numbers(start: Computed, stop: Computed, step: Computed, span: Span) -> Computed:
    """``arange`` of int64 ends, known or computed.

    Relay keeps the ends as attributes, too, for what is known of them; a variable stands for a computed one.
    """
    ends = {"start": start, "stop": stop, "step": step}
    data = [end.expr.data.item() for end in ends.values() if isinstance(end.expr, ir.Constant)]
    if len(data) == len(ends) and not range(*data):  # Relay's arange has an element
        return Computed(ir.constant(np.zeros(0, "int64"), span=span), TensorType((0,), "int64"))
    told = {
        name: end.expr if isinstance(end.expr, ir.Constant) else ir.Var(name, end.type)
        for name, end in ends.items()
    }
    return apply("arange", span, *ends.values(), **told, dtype="int64")


def reshape_to(operand: Computed, shape: Sequence[Dim], span: Span) -> Computed:
    """The tensor in a shape of as many elements; the type keeps its names. Raises Refusal."""
    assert isinstance(operand.type, TensorType)
    codes = reshape_codes(operand.type.shape, shape)
    if codes is None:
        raise RefusalError("reshape: several dimensions are known only when the function is called", span)
    result = apply("reshape", span, operand, newshape=codes, **({"allowzero": True} if 0 in shape else {}))
    assert isinstance(result.type, TensorType)
    return Computed(result.expr, TensorType(tuple(shape), result.type.dtype))


def reshape_codes(given: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    """Relay's newshape: numbers, 0 for a dimension that stays, -3 for two that become one, -1 once.

    None where more than one dimension would have to be inferred.
    """
    if sum(not isinstance(dim, int) for dim in wanted) <= 1 or 0 in wanted:
        return _inferring(wanted)
    codes: list[int] = []
    at = 0
    for dim in wanted:
        here, after = (*given[at : at + 2], None, None)[:2]
        named = isinstance(dim, AnyDim) and dim.label is not None
        if isinstance(dim, int):
            codes.append(int(dim))
        elif named and dim == here:
            codes.append(0)
        elif named and here is not None and after is not None and dim == multiply(here, after):
            codes.append(-3)
            at += 1
        else:
            codes.append(-1)
        at += 1
    return tuple(codes) if codes.count(-1) <= 1 else None


def _inferring(wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    codes = tuple(int(dim) if isinstance(dim, int) else -1 for dim in wanted)
    return codes if codes.count(-1) <= 1 else None
