"""Read what is differentiated by: the order, the types and the numbers of the operands of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnmagic.diagnostics import Span
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import FuncType, TensorType, Type
from nnmagic.tinynn.calls.function_calls import bind_arguments
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.custom_rules import WithParameters, name_of
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import source_text, with_article
from nnmagic.tinynn.values.numbers import is_number, number_constant

#: What is called as the function itself.
_OF_PARAMETERS = frozenset({"grad", "value_and_grad", "jacobian", "jacfwd", "jacrev"})


def operands_in_order(function: v.Operand, operands: Sequence[v.Operand], span: Span) -> list[v.Operand]:
    """Return the arguments of a function whose parameters are known in their order, defaults left out.

    Those that follow one that is left out, and those that have no place, keep their names.
    """
    value = _differentiate(function)
    if not isinstance(value, WithParameters):
        return list(operands)
    bind_arguments(name_of(value), value.parameters, operands, span)
    ordered = [operand for operand in operands if operand.keyword is None]
    named = {operand.keyword: operand for operand in operands if operand.keyword is not None}
    for formal in value.parameters[len(ordered) :]:
        if formal.kind == "KEYWORD_ONLY" or formal.name not in named:
            break
        ordered.append(replace(named.pop(formal.name), keyword=None))
    return [*ordered, *named.values()]


def _differentiate(function: v.Operand) -> v.Value:
    """Return the function whose parameters a gradient has, or the function itself."""
    value = function.value
    while isinstance(value, v.GradientOf) and value.kind in _OF_PARAMETERS:
        value = value.function.value
    return value


def number_of_name(gradient: v.GradientOf, name: str, ordered: Sequence[v.Operand], span: Span) -> int:
    """Return the place of an argument of that name. Raises RefusalError."""
    names = [formal.name for formal in formals_of(gradient.function)]
    for index, operand in enumerate(ordered):
        if (operand.keyword or (names[index] if index < len(names) else None)) == name:
            return index
    if name in names:
        message = f"{gradient.kind}: argnums has `{name}`, which this call leaves out"
        raise v.RefusalError(message, span, hint="give it a value")
    message = f"{gradient.kind}: argnums has `{name}`, which is no parameter"
    raise v.RefusalError(message, span, hint=f"its parameters: {', '.join(names)}" if names else None)


def parameter_number(gradient: v.GradientOf, number: int, count: int, span: Span) -> int:
    """Return a number of argnums, counted from the front. Raises RefusalError."""
    if not -count <= number < count:
        what = "1 argument has" if count == 1 else f"{count} arguments have"
        message = f"{gradient.kind}: argnums has {number}, but {what} a place"
        hint = "arguments are counted from 0; those that follow a default, or go by name only, have none"
        raise v.RefusalError(message, span, hint=hint)
    return number % count


def formals_of(function: v.Operand) -> tuple[v.Formal, ...]:
    """Return the parameters of a function, as far as they are known."""
    value = _differentiate(function)
    return value.parameters if isinstance(value, WithParameters) else ()


def _declared_type(function: v.Operand, number: int, keyword: str | None) -> Type | None:
    """Return the declared type of a parameter, if there is one."""
    value = function.value
    if keyword is not None:
        number = next((n for n, formal in enumerate(formals_of(function)) if formal.name == keyword), number)
    type_ = value.type if isinstance(value, v.GlobalFunction) else None
    if isinstance(value, v.ClosureValue):
        type_ = value.function.type if isinstance(value.function.type, FuncType) else None
    return type_.arg_types[number] if type_ is not None and number < len(type_.arg_types) else None


def primals_of(
    ctx: Elaboration, function: v.Operand, given: Sequence[tuple[int, v.Operand]]
) -> list[v.Computed]:
    """Return the arguments to differentiate by. Raises RefusalError, after a report of errors before it."""
    primals, errors = list[v.Computed](), list[v.RefusalError]()
    for number, operand in given:
        try:
            _refuse_capture(ctx, operand)
            primals.append(primal_of(ctx, function, number, operand))
        except v.RefusalError as refusal:  # noqa: PERF203 - all errors at once
            errors.append(refusal)
    for error in errors[:-1]:
        ctx.report(error)
    if errors:
        raise errors[-1]
    return primals


def _refuse_capture(ctx: Elaboration, operand: v.Operand) -> None:
    """Check that an argument is no array of the notebook, a part of the program. Raises RefusalError."""
    value = operand.value
    if isinstance(value, v.Computed) and ctx.resolver.is_captured(value.expr):
        text = source_text(operand.span)
        message = f"`{text}` is an array of the notebook, a constant of this program: it has no gradient"
        hint = "make it a parameter of the function, and pass it as an argument"
        raise v.RefusalError(message, operand.span, hint=hint)


def primal_of(ctx: Elaboration, function: v.Operand, number: int, operand: v.Operand) -> v.Computed:
    """Return an argument to differentiate by, which holds floats. Raises RefusalError."""
    value, wanted = operand.value, _declared_type(function, number, operand.keyword)
    if isinstance(value, v.Known) and is_number(value.value):
        assert isinstance(value.value, bool | int | float)
        if isinstance(wanted, TensorType) and not wanted.shape:
            return number_constant(value.value, wanted.dtype, operand.span)
        if isinstance(value.value, float):
            made = number_constant(value.value, "float64", operand.span)
            return v.Computed(made.expr, made.type, weak=True)
    computed = value if isinstance(value, v.Computed) else to_relay(operand, wanted)
    if not has_floats(ctx, computed.type):
        text = source_text(operand.span)
        message = f"argument {number} is {with_article(computed.type)}: only floats have a gradient"
        hint = "leave it out of argnums"
        if isinstance(computed.type, TensorType):
            hint += f", or convert it, as in {text}.astype(f32)"
        raise v.RefusalError(message, operand.span, hint=hint)
    return computed


def has_floats(ctx: Elaboration, type_: Type) -> bool:
    """Return whether a value of a type has a gradient."""
    return any(map(DataTypes(ctx.resolver.types(), str).flows, leaf_types(type_)))
