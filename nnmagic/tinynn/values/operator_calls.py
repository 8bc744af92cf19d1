"""Build typed calls of operators, and report in a cell's words what an operator refuses.

What a cell refuses beyond Relay stands in `operator_restrictions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.operators import find_operator
from nnmagic.relay.ops.declaration import Operator, RelationError
from nnmagic.relay.ops.notation import Notation
from nnmagic.relay.signatures import dtype_short_name, format_dim, format_shape, format_type
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TupleType, Type
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_restrictions import check_restrictions, check_result
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, TupleOf, Value, as_value, dynamic

#: How a cell writes types: ``Tensor[(3,), f32]``, not Relay's ``Tensor[(3), float32]``.
_CELL = Notation(format_type, format_shape, format_dim, dtype_short_name)


def call_operator(
    operator: Operator,
    operands: Sequence[Operand],
    attrs: Mapping[str, object],
    span: Span,
    spans: Mapping[str, Span] | None = None,
) -> Value:
    """Build a call of an operator; the operands must be Computed. ``spans``: where attributes were given.

    Raises RefusalError, which points at the operands and attributes that it speaks of.
    """
    try:
        complete = operator.complete_attrs(attrs, from_call=True)
        types = [as_computed(operand).type for operand in operands]
        check_restrictions(operator, types, complete)
        result = operator.result_type(types, complete)
        operator.check_preconditions(types, complete)
        check_result(operator, result)
    except RelationError as error:
        hint = error.hint or _attribute_hint(error.attrs, attrs)
        raise to_refusal(error, operands, span, spans or {}, hint) from None
    args = tuple(as_computed(operand).expr for operand in operands)
    call = ir.Call(ir.OpRef(operator.name, span=span), args, complete, span=span)
    return as_value(call, result)


def to_refusal(
    error: RelationError,
    operands: Sequence[Operand],
    span: Span,
    spans: Mapping[str, Span],
    hint: str | None = None,
) -> RefusalError:
    """Convert an operator's refusal to one that points at the operands or the attribute to blame.

    ``spans``: where attributes were given. ``hint``: instead of the error's own.
    """
    blamed = [operands[index] for index in error.operands if index < len(operands)]
    notes = [Note(f"this is {describe(operand.value)}", operand.span) for operand in blamed]
    attribute = next((name for name in error.attrs if name in spans), None)
    if attribute is not None:
        span = spans[attribute]
    elif len(blamed) == 1:
        span, notes = blamed[0].span, []
    hint = hint or error.hint
    if hint is not None:  # "{0}" stands for the first operand to blame
        for number, operand in enumerate(blamed):
            hint = hint.replace(f"{{{number}}}", source_text(operand.span))
    return RefusalError(error.message_in(_CELL), span, hint=hint, notes=notes)


def _attribute_hint(blamed: Sequence[str], attrs: Mapping[str, object]) -> str | None:
    """Suggest what to give for a shape or a padding that holds a string."""
    attr = next((name for name in blamed if name in ("shape", "padding")), None)
    if attr is None:
        return None
    value = attrs.get(attr)
    items = value if isinstance(value, tuple | list) else (value,)
    text = next((item for item in items if isinstance(item, str)), None)
    if text is None:
        return None
    if attr == "padding":
        return "write the numbers, as in padding=1 or padding=(1, 1)"
    if not re.fullmatch(r"\w+", text):
        return None
    return f'the size of the dimension "{text}" is that of a tensor, as in x.shape[0]'


def is_computed(value: Value) -> bool:
    """Return whether a value has a Relay expression: a tensor, a function, or a tuple of such values."""
    if isinstance(value, TupleOf):
        return value.whole is not None or all(map(is_computed, value.items))
    return isinstance(value, Computed)


def as_computed(operand: Operand) -> Computed:
    """Return the Relay expression of an operand. Raises RefusalError for a value that has none."""
    match operand.value:
        case Computed() as computed:
            return computed
        case TupleOf(whole=Computed() as whole):
            return whole
        case TupleOf(items=items):
            parts = [as_computed(Operand(item, operand.span)) for item in items]
            return Computed(
                ir.Tuple(tuple(field.expr for field in parts), span=operand.span),
                TupleType(tuple(field.type for field in parts)),
            )
    raise RefusalError(f"expected a tensor, found {describe(operand.value)}", operand.span)


def apply(name: str, span: Span, *args: Computed | Operand, **attrs: object) -> Computed:
    """Call the operator of that name, whose result must be one tensor; arguments may be results of others."""
    operands = [arg if isinstance(arg, Operand) else Operand(arg, span) for arg in args]
    return dynamic(call_operator(find_operator(name), operands, attrs, span))


def tensor_type(operand: Operand) -> TensorType:
    """Return the type of an operand that must be a tensor. Raises RefusalError."""
    if isinstance(operand.value, Computed) and isinstance(operand.value.type, TensorType):
        return operand.value.type
    raise RefusalError(f"expected a tensor, found {describe(operand.value)}", operand.span)


def is_tensor(value: Value) -> bool:
    """Return whether a value is one tensor."""
    return isinstance(value, Computed) and isinstance(value.type, TensorType)


def cast(operand: Computed, dtype: str, span: Span) -> Computed:
    """Return the tensor in another dtype; itself where it has that one already."""
    type_: Type = operand.type
    if isinstance(type_, TensorType) and type_.dtype == dtype:
        return replace(operand, weak=False, default_dtype=None)
    return apply("cast", span, operand, dtype=dtype)


def vector_of(numbers: Sequence[Computed], span: Span) -> Computed:
    """Return a vector of numbers of rank 0 and one dtype: a constant if all of them are constants."""
    constants = [number.expr.data.item() for number in numbers if isinstance(number.expr, ir.Constant)]
    if len(constants) == len(numbers):
        (dtype,) = {number.type.dtype for number in numbers if isinstance(number.type, TensorType)}
        array = np.array(constants, ARRAY_DTYPES[dtype])
        return Computed(ir.constant(array, dtype, span=span), TensorType((len(numbers),), dtype))
    vectors = [apply("expand_dims", span, number, axis=0) for number in numbers]
    if len(vectors) == 1:
        return vectors[0]
    types = TupleType(tuple(vector.type for vector in vectors))
    whole = Computed(ir.Tuple(tuple(vector.expr for vector in vectors), span=span), types)
    return apply("concatenate", span, whole, axis=0)


def whole_numbers(start: Computed, stop: Computed, step: Computed, span: Span) -> Computed:
    """Call ``arange`` on int64 ends, static or dynamic.

    Relay keeps the ends as attributes, too; a variable stands for a dynamic one.
    """
    ends = {"start": start, "stop": stop, "step": step}
    data = [end.expr.data.item() for end in ends.values() if isinstance(end.expr, ir.Constant)]
    if len(data) == len(ends) and not range(*data):  # Relay's arange has an element
        return Computed(ir.constant(np.zeros(0, "int64"), span=span), TensorType((0,), "int64"))
    attributes = {
        name: end.expr if isinstance(end.expr, ir.Constant) else ir.Var(name, end.type)
        for name, end in ends.items()
    }
    return apply("arange", span, *ends.values(), **attributes, dtype="int64")
