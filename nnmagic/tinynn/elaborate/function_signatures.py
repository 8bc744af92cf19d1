"""Elaborate the signatures of a cell's functions: the types of their parameters and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.tinynn.analysis.bound_names import find_mentioned_names, returns, walk
from nnmagic.tinynn.calls.defaults import to_python
from nnmagic.tinynn.elaborate import annotation_types
from nnmagic.tinynn.elaborate.calls import as_function
from nnmagic.tinynn.elaborate.changed_defaults import refuse_changed_defaults
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import convert_to_declared, refine
from nnmagic.tinynn.elaborate.function_bodies import declares_none
from nnmagic.tinynn.elaborate.templates import fit_pattern
from nnmagic.tinynn.namespace.compiled_values import as_compiled_function
from nnmagic.tinynn.namespace.library_functions import TRANSFORMATIONS
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.program import NumberType, Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import Destination, OpenTensor, OpenType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number, natural_dtype
from nnmagic.tinynn.values.weak_types import as_weak


@dataclass(slots=True)
class Signature:
    """A function's parameters with their types (None where an error was reported) and declared result.

    ``destinations``: the parameters whose arrays it changes, each with ``"Out"`` or ``"InOut"``.
    ``open``: the parameters whose types each call completes, with what is written of them. ``known``: the
    values of parameters that are known at compile time, which are none of ``parameters``. ``completed``: the
    parameters whose types the call that it is specialized for has completed, with these types; they have no
    default, but for those that are ``left_out``.
    """

    parameters: list[tuple[tree.ParameterNode, ty.Type | None]]
    destinations: dict[str, str]
    declared: ty.Type | OpenTensor | OpenType | None
    is_silent: bool
    failed: bool
    open: dict[str, OpenTensor | None]
    known: dict[str, v.Value]
    completed: Mapping[str, ty.Type]
    left_out: set[str]

    def results(self) -> ty.Type | None:
        """Return the declared type of its own result and of the arrays that it changes."""
        types = [type_ for parameter, type_ in self.parameters if parameter.name in self.destinations]
        if isinstance(self.declared, OpenTensor | OpenType):
            return None
        if self.declared is not None:
            types.insert(0, self.declared)
        elif not self.is_silent:
            return None
        result_types = tuple(type_ for type_ in types if type_ is not None)
        return result_types[0] if len(result_types) == 1 else ty.TupleType(result_types)


def elaborate_signature(
    ctx: Elaboration, definition: tree.DefinitionNode, specialization: Specialization | None
) -> Signature:
    """Elaborate the types of the parameters and of the result of a function."""
    refuse_changed_defaults(ctx, definition)
    parameters: list[tuple[tree.ParameterNode, ty.Type | None]] = []
    destinations: dict[str, str] = {}
    open_types: dict[str, OpenTensor | None] = {}
    values: dict[str, v.Value] = {}
    completed: dict[str, ty.Type] = {}
    left_out: set[str] = set()
    failed = False
    for parameter in definition.params:
        type_, destination, is_open = _parameter_pattern(ctx, parameter)
        if specialization is not None and parameter.name in specialization.types:
            argument = specialization.types[parameter.name]
            if isinstance(argument, Destination):
                destination, argument = type(argument).__name__, argument.tensor.relay_type()
            argument = _with_declared_sizes(type_, argument)
            completed[parameter.name] = argument
            type_ = without_numbers(argument)
        elif specialization is not None and parameter.name in specialization.values:
            values[parameter.name] = _known_argument(ctx, parameter, type_, specialization)
            continue
        elif specialization is not None and is_open:
            assert parameter.default is not None, "a parameter without an argument"
            value = ctx.evaluate(parameter.default)
            number = value.value if isinstance(value, v.Known) else None
            if definition.name not in find_mentioned_names(definition.body) or not is_number(number):
                values[parameter.name] = value
                continue
            assert isinstance(number, bool | int | float | complex)
            left_out.add(parameter.name)
            completed[parameter.name] = NumberType(
                (), natural_dtype(number)
            )  # which its own calls may change
            type_ = without_numbers(completed[parameter.name])
        elif is_open:
            open_types[parameter.name] = type_ if isinstance(type_, OpenTensor) else None
            type_ = None
        failed = failed or (type_ is None and not is_open)
        assert not isinstance(type_, OpenTensor)
        parameters.append((parameter, type_))
        if destination:
            destinations[parameter.name] = destination
    declared, declares = None, definition.ret_type is not None
    if destinations and declares and declares_none(definition):
        declares = False
    if definition.ret_type is not None and declares:
        declared = annotation_types.result_type_or_none(ctx, definition.ret_type)
    failed = failed or (declares and declared is None)
    is_silent = bool(destinations) and not declares and not returns(definition)
    return Signature(
        parameters, destinations, declared, is_silent, failed, open_types, values, completed, left_out
    )


def _with_declared_sizes(written: ty.Type | OpenTensor | None, argument: ty.Type) -> ty.Type:
    """Return the type of an argument with the sizes that are written where nobody else knows them."""
    if not isinstance(argument, ty.TensorType):
        return argument
    declared = written.relay_type(argument) if isinstance(written, OpenTensor) else written
    if not isinstance(declared, ty.TensorType) or len(declared.shape) != len(argument.shape):
        return argument
    return replace(argument, shape=refine(declared, argument).shape)


def without_numbers(type_: ty.Type) -> ty.Type:
    """Return the type of an argument with tensors of rank 0 for Python's numbers."""
    if isinstance(type_, ty.TupleType):
        return v.tuple_type(
            map(without_numbers, type_.fields), type_ if isinstance(type_, ty.RecordType) else None
        )
    return ty.TensorType((), type_.dtype) if isinstance(type_, NumberType) else type_


def _parameter_pattern(
    ctx: Elaboration, parameter: tree.ParameterNode
) -> tuple[ty.Type | OpenTensor | None, str, bool]:
    """Return what is written of a parameter's type, how it is changed, and whether calls complete it."""
    if parameter.ty is None:
        return None, "", True
    type_, destination = annotation_types.parameter_type_or_none(ctx, parameter.ty)
    if isinstance(type_, OpenType):
        return None, "", True
    return type_, destination, isinstance(type_, OpenTensor)


def _known_argument(
    ctx: Elaboration,
    parameter: tree.ParameterNode,
    type_: ty.Type | OpenTensor | None,
    specialization: Specialization,
) -> v.Value:
    """Return the value of a parameter that is known at compile time, as its annotation has it."""
    span = ctx.span(parameter.span)
    given = specialization.values[parameter.name]
    try:
        value = _captured(ctx, parameter.name, given, span)
        if type_ is None:
            return value
        fitted = fit_pattern(
            specialization.name, parameter.name, type_, v.Operand(value, span), {}, partial(as_function, ctx)
        )
        return as_weak(fitted) if annotation_types.is_python_number(parameter.ty) else fitted
    except v.RefusalError as refusal:
        ctx.report(refusal)
        return v.FAILED


def _captured(ctx: Elaboration, name: str, given: object, span: Span) -> v.Value:
    """Return an argument that is known as a value: a list or a tuple of what cells can use."""
    if isinstance(given, list | tuple):
        items = tuple(_captured(ctx, f"{name}_{index}", each, span) for index, each in enumerate(given))
        return v.TupleOf(items, written=type(given).__name__)
    return ctx.resolver.lookup_import((name,), {name: given}, span)[0]


def find_all_formals(ctx: Elaboration, callee: ast.Expr) -> Sequence[v.Formal] | None:
    """Return the parameters of a function that changes arguments, by how a call writes it; else None."""
    if not isinstance(callee, ast.Var):
        return None
    name = callee.id.name
    formals: Sequence[v.Formal]
    if name in ctx.resolver.templates:
        template = ctx.resolver.templates[name]
        formals = [
            replace(formal, destination="InOut" if formal.name in template.changed else "")
            for formal in template.parameters
        ]
    elif name in ctx.resolver.functions:
        formals = ctx.resolver.functions[name].parameters
    else:
        compiled = as_compiled_function(look_up(ctx.resolver.namespace, name))
        infos = () if compiled is None else compiled.parameters
        formals = [v.Formal(info.name, info.kind, None, info.destination) for info in infos]
    return formals if any(formal.changes_array for formal in formals) else None


def elaborate_formals(ctx: Elaboration, signature: Signature) -> tuple[v.Formal, ...]:
    """Return the parameters as a caller sees them. A default must be known at compile time."""
    formals = []
    for parameter, type_ in signature.parameters:
        default, destination = None, signature.destinations.get(parameter.name, "")
        if parameter.default is not None and destination:
            message = f"`{parameter.name}` is `{destination}`: it has no default"
            hint = "leave the default out: each call gives its own array"
            ctx.report(v.RefusalError(message, ctx.span(parameter.default.span), hint=hint))
        elif parameter.default is not None and (
            parameter.name in signature.left_out or parameter.name not in signature.completed
        ):
            default = ctx.evaluate(parameter.default)
            if not v.is_failed(default):
                try:
                    value = v.Operand(default, ctx.span(parameter.default.span))
                    if parameter.name in signature.open:
                        _check_open_default(parameter.name, value)
                    elif type_ is not None:
                        _check_default(parameter.name, type_, value)
                except v.RefusalError as refusal:
                    ctx.report(refusal)
                    default = v.FAILED
        kind = parameter.kind
        if kind == "VAR_POSITIONAL" and (signature.completed or signature.known):
            kind = "POSITIONAL_OR_KEYWORD"  # of the tuple that a call has gathered
        formals.append(v.Formal(parameter.name, kind, default, destination))
    for index in reversed(range(len(formals) - 1)):  # a call gives what stands before one without a default
        if formals[index + 1].default is None and formals[index + 1].kind.startswith("POSITIONAL"):
            formals[index] = replace(formals[index], default=None)
    return tuple(formals)


def _check_default(name: str, type_: ty.Type, value: v.Operand) -> None:
    """Refuse a default that the parameter's type cannot hold. Raises RefusalError."""
    if value.value == v.Known(None):
        hint = "write a number, a string or a name of the notebook; or leave the default out"
        raise v.RefusalError(f"the default of `{name}` is None, which is no tensor", value.span, hint=hint)
    convert_to_declared(f"the default of `{name}`", type_, value, None)
    _check_open_default(name, value, type_)


def _check_open_default(name: str, value: v.Operand, type_: ty.Type | None = None) -> None:
    """Refuse a default that is not known at compile time. Raises RefusalError."""
    try:
        of_notebook = v.Known | v.BuiltinName | v.OperatorName | v.DictOf | v.ModuleOf | v.TupleOf
        if type_ is not None or not isinstance(value.value, of_notebook):
            to_python(value.value)
    except v.NotStaticError:
        hint = "compute it in another cell, and write the name that holds it"
        if isinstance(type_, ty.FuncType):
            hint = "leave the default out, and give a function in each call"
        message = f"the default of `{name}` is {describe(value.value)} that is not known at compile time"
        raise v.RefusalError(message, value.span, hint=hint) from None


def is_inlined(
    definition: tree.DefinitionNode, signature: Signature, specialization: Specialization | None
) -> bool:
    """Return whether calls inline a function with types: it gives functions, or differentiates its own."""
    mentioned = find_mentioned_names(definition.body)
    if definition.name in mentioned or (specialization and definition.name == specialization.name):
        return False
    if any(isinstance(type_, ty.FuncType) for _, type_ in signature.parameters):
        return not mentioned.isdisjoint(TRANSFORMATIONS)
    inner = {node.name for node in walk(definition.body) if isinstance(node, tree.DefinitionNode)}
    returned = [
        part
        for node in walk(definition.body, into_functions=False)
        if isinstance(node, ast.Return)
        for part in (node.value.values if isinstance(node.value, ast.Tuple) else [node.value])
    ]
    return definition.ret_type is None and any(
        isinstance(part, tree.Lambda) or (isinstance(part, ast.Var) and part.id.name in inner)
        for part in returned
    )
