"""Bind the parameters of a function to what they stand for in its body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.tinynn.analysis.bound_names import find_lists_changed
from nnmagic.tinynn.analysis.changing_calls import find_changed_parameters
from nnmagic.tinynn.elaborate.annotation_types import is_python_number
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.function_signatures import Signature
from nnmagic.tinynn.elaborate.generators import new_state
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.program import NumberType, Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.weak_types import as_weak

_LISTS = (v.ListOfRows, v.TupleOf)


def _with_numbers(value: v.Value, given: ty.Type | None) -> v.Value:
    """Return a parameter whose parts are Python numbers where those of the argument are."""
    match value, given:
        case v.TupleOf(items=items), ty.TupleType(fields=fields):
            return replace(value, items=tuple(map(_with_numbers, items, fields)))
        case v.Computed(), NumberType():
            return replace(value, weak=True)
    return value


def value_of_parameter(
    ctx: Elaboration,
    parameter: tree.ParameterNode,
    variable: ir.Var,
    destination: str | None,
    given: ty.Type | None,
) -> v.Value:
    """Return what a parameter's name stands for in the body; ``given``: the type of its argument."""
    type_ = variable.type_annotation
    assert type_ is not None
    if destination == v.GENERATOR:
        return v.GeneratorOf(new_state(ctx))
    if destination == "Out":
        zeros = apply("zeros_like", ctx.span(parameter.span), v.Computed(variable, type_))
        return v.Computed(zeros.expr, type_)
    value = as_tuple(_with_numbers(v.as_value(variable, type_), given))
    return as_weak(value) if is_python_number(parameter.ty) else value


def lists_inside(value: v.Value) -> Iterator[v.Value]:
    """Yield the lists inside of a list or a tuple, and those inside of these."""
    for item in value.items if isinstance(value, v.TupleOf) else ():
        if isinstance(item, v.TupleOf):
            yield item
            yield from lists_inside(item)


def as_tuple(value: v.Value) -> v.Value:
    """Return an argument that is a tuple as one that was written so; the lists in it are the caller's."""
    if isinstance(value, v.TupleOf) and value.record is not None and value.record.name == ty.NESTED:
        return v.TupleOf(value.items, written="tuple")  # of arrays
    value = _with_callers_lists(value)
    if isinstance(value, v.TupleOf) and value.record is None:
        return replace(value, written=value.written or "tuple")
    return value


def _with_callers_lists(value: v.Value) -> v.Value:
    """Return an argument whose inner lists are marked as such."""
    if not isinstance(value, v.TupleOf) or not any(isinstance(each, _LISTS) for each in value.items):
        return value
    items = (
        replace(each, is_row=True) if isinstance(each, v.ListOfRows) else _with_callers_lists(each)
        for each in value.items
    )
    return replace(value, items=tuple(items))


def enter_dictionaries(ctx: Elaboration) -> None:
    """Make tables of the dictionaries of the caller whose keys only the call knows."""
    bindings = ctx.environment.bindings
    for name, value in list(bindings.locals.items()):
        record = value.record if isinstance(value, v.TupleOf) else None
        if record is None or record.name != ty.TABLE:
            continue
        assert isinstance(value, v.TupleOf)
        keys, values = value.items
        if record.names[-1] == ty.NUMBERS:
            assert isinstance(values, v.Computed)
            values = replace(values, weak=True)
        assert isinstance(keys, v.Computed)
        table = atomize(ctx, tables.table_of(keys, values, bindings.spans[name]), name, set())
        assert isinstance(table, v.TableOf)
        ctx.memory.own(table.slots.expr, f"the parameter `{name}`")
        bindings.locals[name] = table


#: What makes a copy of an argument that is a container, and what it is, by the name of its record.
_CONTAINERS = {
    ty.DICTIONARY: ("dict", "dictionary"),
    ty.TABLE: ("dict", "dictionary"),
    ty.LIST: ("list", "list"),
    ty.ITEMS: ("list", "list"),
}


def refuse_changed_containers(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature, specialization: Specialization
) -> None:
    """Report the lists and dictionaries of the caller that a function changes, as Python would."""
    changed = find_changed_parameters(definition) | find_lists_changed(definition.body)
    types = {parameter.name: type_ for parameter, type_ in signature.parameters}
    for parameter in (each for each in definition.params if each.name in changed):
        name, type_ = parameter.name, types.get(parameter.name)
        record = type_.name if isinstance(type_, ty.RecordType) else ""
        if isinstance(specialization.values.get(name), list):
            record = ty.LIST
        if record in _CONTAINERS:
            kind, word = _CONTAINERS[record]
            hint = f"change a copy: begin with {name} = {kind}({name}), and return it"
            message = f"`{name}` is the caller's {word}, which Python would change"
            ctx.report(v.RefusalError(message, ctx.span(parameter.span), hint=hint))
