"""Elaborate a whole cell: its data types, its functions in the order of their calls, recursion among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import attr
from synr import ast

from nnmagic.diagnostics import Diagnostic, Diagnostics, Source, Span
from nnmagic.limits import MAX_ERRORS, MAX_TUPLE_SIZE, MAX_WORK
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.annotations import KERNEL
from nnmagic.relay.infer.unify import MAX_NESTING
from nnmagic.relay.module import TypeData
from nnmagic.tinynn.analysis.bound_names import (
    ASSIGNING,
    callees_first,
    calls_for_effects,
    changes_tensors,
    deletes_entries,
    find_assigned_names,
    find_lists_changed,
    find_local_names,
    find_mentioned_names,
    find_reassigned_names,
    find_rebindings,
    walk,
)
from nnmagic.tinynn.analysis.changing_calls import (
    FindFormals,
    find_changed_parameters,
    mark_changing_calls,
)
from nnmagic.tinynn.analysis.view_names import write_out_views
from nnmagic.tinynn.calls.defaults import to_python
from nnmagic.tinynn.elaborate.annotation_types import (
    find_named_dimensions,
    is_python_number,
    parameter_type_or_none,
    result_type_or_none,
    type_or_none,
)
from nnmagic.tinynn.elaborate.calls import as_function
from nnmagic.tinynn.elaborate.context import Elaboration, LoopForms, WorkLimitError
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.conversions import convert_to_declared
from nnmagic.tinynn.elaborate.dispatch import NODES
from nnmagic.tinynn.elaborate.function_bodies import declares_none, finish_body
from nnmagic.tinynn.elaborate.generators import new_state
from nnmagic.tinynn.elaborate.imports import imports_of_cell
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.elaborate.live_names import LiveNames
from nnmagic.tinynn.elaborate.python_functions import definitions_beside
from nnmagic.tinynn.elaborate.python_hints import without_hints
from nnmagic.tinynn.elaborate.sequencing import fill_block, steps_of
from nnmagic.tinynn.elaborate.shared_memory import Foreign
from nnmagic.tinynn.elaborate.statements import return_destinations
from nnmagic.tinynn.elaborate.templates import ANEW, fit_pattern
from nnmagic.tinynn.namespace.capture import as_compiled_function
from nnmagic.tinynn.namespace.library_functions import library_function
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.namespace.name_resolution import NameResolver
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.program import NumberType, Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import Destination, OpenTensor, OpenType
from nnmagic.tinynn.types.part_counts import count_parts, nesting
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number, natural_dtype
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.weak_types import as_weak

#: How often the functions of a group are tried, each time with the types found so far.
_ROUNDS = 3


@dataclass(slots=True)
class _Signature:
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


def new_elaboration(source: Source, namespace: Mapping[str, object], diagnostics: Diagnostics) -> Elaboration:
    """Return the state before a cell's elaboration; ``namespace``: the notebook's names."""
    return Elaboration(source, NameResolver(namespace), NODES, diagnostics)


def elaborate_cell(
    ctx: Elaboration, cell: tree.CellNode, specialization: Specialization | None = None
) -> dict[str, ir.Function]:
    """Return the Relay functions of the cell, in source order; those with errors are left out.

    A function whose parameters have open types has none. ``specialization``: elaborate that function alone,
    with those that it calls.
    """
    cell = without_hints(ctx, cell)
    ctx.beside = definitions_beside(ctx, cell.funcs)
    cell = attr.evolve(cell, funcs={**ctx.beside, **cell.funcs})
    ctx.resolver.linker.reserved.update(cell.funcs)
    ctx.has_effects = any(map(calls_for_effects, cell.funcs.values()))
    ctx.resolver.refused = cell.refused
    ctx.imports = {**imports_of_cell(cell.imports), **cell.constants}
    for decorator in (each for each in _foreign_decorators(cell) if specialization is None):
        hint = "its options mean nothing here; those of nnmagic are on the %%tinynn line"
        ctx.note(
            f"`@{decorator.id.name}` is left out: nnmagic compiles the function",
            ctx.span(decorator.span),
            hint=hint,
        )
    _declare_types(ctx, cell)
    if specialization is not None:
        cell = attr.evolve(cell, funcs=_needed_functions(cell, specialization.name))
        cell = _with_itself_anew(ctx, cell, specialization)
    signatures = {
        name: _elaborate_signature(
            ctx, definition, specialization if specialization and name == specialization.name else None
        )
        for name, definition in cell.funcs.items()
    }
    templates = {name: cell.funcs[name] for name, signature in signatures.items() if signature.open}
    for name, definition in templates.items():
        _declare_template(ctx, definition, signatures.pop(name))
    cell = attr.evolve(cell, funcs={name: cell.funcs[name] for name in signatures})
    for name, signature in signatures.items():
        ctx.resolver.functions[name] = v.GlobalFunction(name, name, _elaborate_formals(ctx, signature), None)
        results = signature.results()
        if results is not None and not signature.failed:
            _set_type(ctx, name, signature, results)
    find_formals = partial(_find_formals, ctx)
    groups = callees_first(templates)
    ctx.recursive |= frozenset(
        name
        for group in groups
        for name in group
        if len(group) > 1 or name in find_mentioned_names(templates[name].body)
    )
    for name in (name for group in groups for name in group):
        ctx.resolver.templates[name] = _with_changes(ctx.resolver.templates[name], find_formals)
    functions = {
        name: mark_changing_calls(definition, find_formals) for name, definition in cell.funcs.items()
    }
    if specialization is not None:
        name = specialization.name
        _refuse_changed_containers(ctx, functions[name], signatures[name], specialization)
        while changed := find_changed_parameters(functions[name]) & _changeable(signatures[name]):
            functions[name] = _let_change(ctx, functions[name], signatures[name], changed)
    cell = attr.evolve(cell, funcs=functions)
    definitions = [*functions.values(), *templates.values()]
    ctx.deletes_entries = deletes_entries(definitions)
    ctx.changes_tensors = changes_tensors(definitions) or _mentions_assigning(ctx, definitions)
    ctx.pending.unfinished = set(cell.funcs)
    done: dict[str, ir.Function | None] = {}
    for group in callees_first(cell.funcs):
        if len(ctx.diagnostics.errors) >= MAX_ERRORS:
            break
        _find_types(ctx, group, cell, signatures)
        for name in group:
            done[name] = _elaborate_function(ctx, cell.funcs[name], signatures[name])
        ctx.pending.unfinished.difference_update(group)
    return {name: function for name in cell.funcs if (function := done.get(name)) is not None}


def _foreign_decorators(cell: tree.CellNode) -> list[ast.Var]:
    """Return the decorators of other compilers in a cell."""
    return [
        decorator
        for func in cell.funcs.values()
        for decorator in func.decorators
        if decorator.id.name != "kernel"
    ]


def _changeable(signature: _Signature) -> frozenset[str]:
    """Return the parameters without types that took arrays, which the function may change as Python's do."""
    return frozenset(
        parameter.name
        for parameter, type_ in signature.parameters
        if parameter.ty is None
        and parameter.name not in signature.destinations
        and isinstance(type_, ty.TensorType)
        and type_.shape
    )


def _refuse_changed_containers(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    signature: _Signature,
    specialization: Specialization,
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


#: What makes a copy of an argument that is a container, and what it is, by the name of its record.
_CONTAINERS = {
    ty.DICTIONARY: ("dict", "dictionary"),
    ty.TABLE: ("dict", "dictionary"),
    ty.LIST: ("list", "list"),
    ty.ITEMS: ("list", "list"),
}


def _let_change(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: _Signature, names: Iterable[str]
) -> tree.DefinitionNode:
    """Let a function change arrays of its callers; return it with its calls of itself marked."""
    name = definition.name
    signature.destinations |= dict.fromkeys(names, "InOut")
    signature.is_silent = signature.declared is None and not _returns(definition)
    formals = _elaborate_formals(ctx, signature)
    ctx.resolver.functions[name] = replace(ctx.resolver.functions[name], parameters=formals, type=None)
    results = signature.results()
    if results is not None and not signature.failed:
        _set_type(ctx, name, signature, results)
    return mark_changing_calls(definition, partial(_find_formals, ctx))


def _let_vary(ctx: Elaboration, name: str, signature: _Signature, types: Mapping[str, ty.Type]) -> None:
    """Let a function take the arguments with which it calls itself, too."""
    signature.completed = {**signature.completed, **types}
    signature.parameters = [
        (parameter, _without_numbers(types[parameter.name]) if parameter.name in types else type_)
        for parameter, type_ in signature.parameters
    ]
    results = signature.results()
    if results is not None and not signature.failed:
        _set_type(ctx, name, signature, results)


def _mentions_assigning(ctx: Elaboration, parts: Sequence[object]) -> bool:
    """Return whether a function that assigns elements has another name in the notebook."""
    values = (ctx.resolver.namespace.get(name) for name in find_mentioned_names(parts))
    functions = (library_function(value) for value in values)
    return any(each is not None and each[1].name in ASSIGNING for each in functions)


def _needed_functions(cell: tree.CellNode, name: str) -> dict[str, tree.DefinitionNode]:
    """Return a function of the cell and those that it calls, in source order."""
    needed, work = {name}, [name]
    while work:
        mentioned = find_mentioned_names(cell.funcs[work.pop()]) & set(cell.funcs) - needed
        needed |= mentioned
        work += sorted(mentioned)
    return {each: definition for each, definition in cell.funcs.items() if each in needed}


def _with_itself_anew(ctx: Elaboration, cell: tree.CellNode, given: Specialization) -> tree.CellNode:
    """Let a function call itself as another one where it is compiled for a parameter that is None.

    Its own calls may give a value for this parameter, as in ``def sort(x, high=None)``.
    """
    own = cell.funcs[given.name]
    is_known = any(
        given.values.get(each.name, ...) is None
        or (each.name not in given.types and getattr(each.default, "value", ...) is None)
        for each in own.params
    )
    if not is_known or own.name not in find_mentioned_names(own.body):
        return cell
    again = f"{own.name}{ANEW}"
    other = attr.evolve(own, name=again)
    formals = _elaborate_formals(ctx, _elaborate_signature(ctx, other, None))
    template = v.LocalFunction(again, other, formals, v.Environment(""), {})
    ctx.resolver.templates[again] = _with_changes(template, partial(_find_formals, ctx))
    ctx.recursive |= {again}

    def rename(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Var) and node.id.name == own.name:
            return tree.variable(node.span, again)
        return tree.map_parts(node, rename)

    return attr.evolve(cell, funcs={**cell.funcs, own.name: attr.evolve(own, body=rename(own.body))})


def _declare_template(ctx: Elaboration, definition: tree.DefinitionNode, signature: _Signature) -> None:
    """Declare a function whose calls in the cell are inlined; record what is written of its types."""
    name = definition.name
    formals = _elaborate_formals(ctx, signature)
    ctx.resolver.templates[name] = v.LocalFunction(name, definition, formals, v.Environment(""), {})
    types = {parameter.name: type_ for parameter, type_ in signature.parameters}
    ctx.resolver.open_types[name] = {**types, **signature.open}


def _with_changes(template: v.LocalFunction, find_formals: FindFormals) -> v.LocalFunction:
    """Return a function that is inlined with the parameters that it changes, whether or not these say so."""
    assert not isinstance(template.definition, tree.Lambda)
    definition = mark_changing_calls(template.definition, find_formals)
    declared = {formal.name for formal in template.parameters if formal.destination}
    changed = find_changed_parameters(definition) | declared
    return replace(template, definition=definition, changed=changed)


def _declare_types(ctx: Elaboration, cell: tree.CellNode) -> None:
    """Declare all data types of the cell; each may hold any other."""
    for name, data in cell.types.items():
        if data.is_record:
            continue
        fields = {
            constructor.name: tuple(field.name for field in constructor.fields)
            for constructor in data.constructors
        }
        header = ty.GlobalTypeVar(name)
        ctx.resolver.data_types[name] = v.DataTypeName(TypeData(header, (), ()), fields)
    for name, data in cell.types.items():
        if data.is_record:
            _declare_record(ctx, name, data)
            continue
        data_type = ctx.resolver.data_types[name]
        constructors: list[ir.Constructor] = []
        for declared in data.constructors:
            span = ctx.span(declared.span)
            others = {*cell.funcs, *cell.types, *ctx.resolver.constructors} - {name}
            if declared.name in others:
                hint = "give it another name: constructors are called by their bare names"
                ctx.report(v.RefusalError(f"the name `{declared.name}` is taken", span, hint=hint))
            types = [type_or_none(ctx, field.ty) for field in declared.fields if field.ty is not None]
            for field in declared.fields:
                if field.default is not None:
                    message = "a constructor's field has no default"
                    ctx.report(v.RefusalError(message, ctx.span(field.default.span), hint="leave it out"))
            inputs = tuple(type_ for type_ in types if type_ is not None)
            if len(inputs) < len(declared.fields):
                inputs += (ty.GlobalTypeVar("failed"),) * (len(declared.fields) - len(inputs))
            constructors.append(
                ir.Constructor(declared.name, inputs, data_type.type.header, len(constructors), span=span)
            )
        complete = replace(data_type, type=TypeData(data_type.type.header, (), tuple(constructors)))
        try:
            ctx.resolver.declare(complete, ctx.span(data.name_span))
        except v.RefusalError as refusal:
            ctx.report(refusal)


def _declare_record(ctx: Elaboration, name: str, data: tree.DataTypeNode) -> None:
    """Declare a record, whose fields may be records that are declared above it."""
    (declared,) = data.constructors
    types = [type_or_none(ctx, field.ty) for field in declared.fields if field.ty is not None]
    known = tuple(type_ for type_ in types if type_ is not None)
    record = ty.RecordType(known, name, tuple(field.name for field in declared.fields))
    is_wide = count_parts(record) > MAX_TUPLE_SIZE
    if is_wide or nesting(record) > MAX_NESTING:
        limit = f"has more than {MAX_TUPLE_SIZE} parts" if is_wide else f"nests more than {MAX_NESTING} deep"
        ctx.report(v.RefusalError(f"the record `{name}` {limit}", ctx.span(data.name_span)))
    elif len(known) == len(declared.fields):
        ctx.resolver.records[name] = v.RecordName(record)
        return
    ctx.resolver.failed_records.add(name)


def _elaborate_signature(
    ctx: Elaboration, definition: tree.DefinitionNode, specialization: Specialization | None
) -> _Signature:
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
            completed[parameter.name] = argument
            type_ = _without_numbers(argument)
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
            type_ = _without_numbers(completed[parameter.name])
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
        declared = result_type_or_none(ctx, definition.ret_type)
    failed = failed or (declares and declared is None)
    is_silent = bool(destinations) and not declares and not _returns(definition)
    return _Signature(
        parameters, destinations, declared, is_silent, failed, open_types, values, completed, left_out
    )


def _returns(definition: tree.DefinitionNode) -> bool:
    """Return whether a function returns a value anywhere."""
    return any(
        isinstance(node, ast.Return) and node.value is not None
        for node in walk(definition.body, into_functions=False)
    )


def _without_numbers(type_: ty.Type) -> ty.Type:
    """Return the type of an argument with tensors of rank 0 for Python's numbers."""
    if isinstance(type_, ty.TupleType):
        return v.tuple_type(
            map(_without_numbers, type_.fields), type_ if isinstance(type_, ty.RecordType) else None
        )
    return ty.TensorType((), type_.dtype) if isinstance(type_, NumberType) else type_


def _with_numbers(value: v.Value, given: ty.Type | None) -> v.Value:
    """Return a parameter whose parts are Python numbers where those of the argument are."""
    match value, given:
        case v.TupleOf(items=items), ty.TupleType(fields=fields):
            return replace(value, items=tuple(map(_with_numbers, items, fields)))
        case v.Computed(), NumberType():
            return replace(value, weak=True)
    return value


def _parameter_pattern(
    ctx: Elaboration, parameter: tree.ParameterNode
) -> tuple[ty.Type | OpenTensor | None, str, bool]:
    """Return what is written of a parameter's type, how it is changed, and whether calls complete it."""
    if parameter.ty is None:
        return None, "", True
    type_, destination = parameter_type_or_none(ctx, parameter.ty)
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
        return fit_pattern(
            specialization.name, parameter.name, type_, v.Operand(value, span), {}, partial(as_function, ctx)
        )
    except v.RefusalError as refusal:
        ctx.report(refusal)
        return v.FAILED


def _captured(ctx: Elaboration, name: str, given: object, span: Span) -> v.Value:
    """Return an argument that is known as a value: a list or a tuple of what cells can use."""
    if isinstance(given, list | tuple):
        items = tuple(_captured(ctx, f"{name}_{index}", each, span) for index, each in enumerate(given))
        return v.TupleOf(items, written=type(given).__name__)
    return ctx.resolver.lookup_import((name,), {name: given}, span)[0]


def _find_formals(ctx: Elaboration, callee: ast.Expr) -> Sequence[v.Formal] | None:
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


def _elaborate_formals(ctx: Elaboration, signature: _Signature) -> tuple[v.Formal, ...]:
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


def _set_type(ctx: Elaboration, name: str, signature: _Signature, result: ty.Type) -> None:
    types = tuple(type_ for _, type_ in signature.parameters if type_ is not None)
    function = ctx.resolver.functions[name]
    ctx.resolver.functions[name] = replace(function, type=ty.FuncType(types, result))


def _find_types(
    ctx: Elaboration, group: Sequence[str], cell: tree.CellNode, signatures: dict[str, _Signature]
) -> None:
    """Infer the result types of functions that call each other and do not declare them."""
    bodies = [template.definition.body for template in ctx.resolver.templates.values()]
    called = find_mentioned_names([*(cell.funcs[member].body for member in group), *bodies])
    waiting = [name for name in group if name in called and not signatures[name].failed]
    for _ in range(_ROUNDS * len(group)):
        waiting = [name for name in waiting if ctx.resolver.functions[name].type is None]
        before = dict(ctx.pending.weak_results)
        progress = [_try_type(ctx, name, cell, signatures) for name in reversed(waiting)]
        if not any(progress) and before == ctx.pending.weak_results:
            break
    for name, type_ in ctx.pending.weak_results.items():
        if ctx.resolver.functions[name].type is None:
            _set_type(ctx, name, signatures[name], type_)
    ctx.pending.weak_results.clear()


def _try_type(ctx: Elaboration, name: str, cell: tree.CellNode, signatures: dict[str, _Signature]) -> bool:
    """Return whether the function's result type follows from what is known of the others."""
    with ctx.trial():
        ctx.pending.awaited.clear()
        ctx.pending.inferring = True
        result = _elaborate_body(ctx, cell.funcs[name], signatures[name])[1]
        ctx.pending.inferring = False
        asked = bool(ctx.pending.awaited)
    if result is None:
        return False
    if result.weak and asked:  # a number alone takes the dtype that the other branches ask for
        ctx.pending.weak_results[name] = result.type
        return False
    _set_type(ctx, name, signatures[name], result.type)
    return True


def _elaborate_function(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: _Signature
) -> ir.Function | None:
    """Return the Relay function, None where an error was reported; callers know its type from then on."""
    name, before = definition.name, len(ctx.diagnostics.errors)
    ctx.pending.awaited.clear()
    params, result = _elaborate_body(ctx, definition, signature)
    if ctx.pending.awaited and len(ctx.diagnostics.errors) == before:
        hint = "write the type of its result, as in -> Tensor[(2, 3), f32], and let a branch end it"
        message = f"`{name}` calls itself, and no branch says what it returns"
        ctx.diagnostics.error(message, ctx.span(definition.name_span), hint=hint)
    if result is None or signature.failed or len(ctx.diagnostics.errors) > before:
        if signature.results() is None:
            ctx.resolver.functions[name] = replace(ctx.resolver.functions[name], type=None)
        return None
    _set_type(ctx, name, signature, result.type)
    if not any(isinstance(token, Foreign) for token in ctx.returned):
        ctx.memory.fresh.add(name)
    is_kernel = any(decorator.id.name == "kernel" for decorator in definition.decorators)
    attrs: ir.Attrs = {KERNEL: 1} if is_kernel else {}
    return ir.Function(params, result.expr, result.type, attrs=attrs, span=ctx.span(definition.span))


def _elaborate_body(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: _Signature
) -> tuple[tuple[ir.Var, ...], v.Computed | None]:
    """Return the parameters and the result; None for the latter where an error was reported.

    A loop that became a function may leave names without a value, or numbers that are no longer known at
    compile time. Where that is an error, or leaves a size of the result open, the function is elaborated
    again with other forms of its loops. So it is with views written out where one memory is used by several
    names.
    """
    diagnostics, reported = ctx.diagnostics, ctx.reported
    forms, first, as_written = LoopForms(), None, list[Diagnostic]()
    while True:
        ctx.diagnostics, ctx.reported, ctx.loop_forms = Diagnostics(), set(reported), forms
        ctx.changeable, ctx.changing = _changeable(signature), set()
        own = {param.name: signature.known.get(param.name) for param in definition.params}
        ctx.own_parameters = own if signature.completed or signature.known else {}
        ctx.own_arguments, ctx.varying = dict(signature.completed), {}
        try:
            body = _try_body(ctx, definition, signature)
        finally:
            errors, ctx.diagnostics = ctx.diagnostics.errors, diagnostics
        if ctx.varying:
            _let_vary(ctx, definition.name, signature, ctx.varying)
            continue
        if errors and ctx.changing:
            definition = _let_change(ctx, definition, signature, ctx.changing)
            continue
        if not errors and not _has_unknown_size(body[1]):
            break
        shared = [name for lost in ctx.reported for name in lost.shared]
        written = write_out_views(definition, shared) if shared else None
        if written is not None:
            definition, as_written = written, as_written or errors
            continue
        if not forms.functions or forms.unroll_all or ctx.work > MAX_WORK // 2:
            break
        if not errors:
            first = first or body
        kept = forms.kept.union(*(_losing_loops(*forms.lost[at]) for at in ctx.reported if at in forms.lost))
        forms = LoopForms(unroll_all=kept == forms.kept, kept=kept)
    if first is not None and (errors or _has_unknown_size(body[1])):
        return first
    for diagnostic in (as_written or errors) if errors else ():
        ctx.diagnostics.add(diagnostic)
    return body


def _losing_loops(stmt: ast.Stmt, name: str) -> set[tuple[int, str]]:
    """Return the loop after which a name has no value, and those in it that assign the name."""
    loops = (node for node in walk(stmt, into_functions=False) if isinstance(node, tree.For | tree.While))
    return {(id(loop), name) for loop in loops if name in find_assigned_names(loop)}


def _has_unknown_size(result: v.Computed | None) -> bool:
    """Return whether a tensor of a function's result has a size without a name."""
    work: list[ty.Type] = [] if result is None else [result.type]
    while work:
        match work.pop():
            case ty.TensorType(shape=shape):
                if any(isinstance(dim, ty.AnyDim) and dim.label is None for dim in shape):
                    return True
            case ty.TupleType(fields=fields):
                work += fields
    return False


def _value_of_parameter(
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
    value = _as_tuple(_with_numbers(v.as_value(variable, type_), given))
    return as_weak(value) if is_python_number(parameter.ty) else value


def _as_tuple(value: v.Value) -> v.Value:
    """Return an argument that is a tuple as one that was written so."""
    if isinstance(value, v.TupleOf) and value.record is None:
        return replace(value, written=value.written or "tuple")
    return value


def _enter_dictionaries(ctx: Elaboration) -> None:
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


def _try_body(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: _Signature
) -> tuple[tuple[ir.Var, ...], v.Computed | None]:
    """Return the parameters and the result; None for the latter where an error was reported."""
    bindings, dimensions, params = v.Bindings(), dict[str, str](), list[ir.Var]()
    states = dict[str, str]()
    for parameter, type_ in signature.parameters:
        span = ctx.span(parameter.span)
        if type_ is None:
            bindings.bind(parameter.name, v.FAILED, span)
            continue
        variable = ir.Var(parameter.name, type_, span=span)
        params.append(variable)
        destination = signature.destinations.get(parameter.name)
        ctx.memory.own(variable, None if destination else f"the parameter `{parameter.name}`")
        value = _value_of_parameter(
            ctx, parameter, variable, destination, signature.completed.get(parameter.name)
        )
        if isinstance(value, v.GeneratorOf):
            bindings.bind(value.state, v.Computed(variable, type_))
            states[parameter.name] = value.state
        bindings.bind(parameter.name, value, span)
        for label, written in find_named_dimensions(parameter.name, type_):
            dimensions.setdefault(label, written)
    for known, value in signature.known.items():
        bindings.bind(known, _as_tuple(value), ctx.span(definition.name_span))
    body = definition.body
    reassigned = find_reassigned_names(body, bindings.locals)
    environment = v.Environment(
        definition.name, find_local_names(body), reassigned, None, bindings, dimensions
    )
    environment.failed = signature.failed
    environment.destinations = {
        states.get(parameter.name, parameter.name): type_
        for parameter, type_ in signature.parameters
        if type_ is not None and parameter.name in signature.destinations
    }
    for rebound, at in find_rebindings(body, environment.destinations):
        hint = f"write into it, as in {rebound}[...] = value, or use another name"
        message = f"`{rebound}` is the caller's array, and cannot stand for another value"
        ctx.report(v.RefusalError(message, ctx.span(at), hint=hint))
        environment.failed = True
    outer, ctx.environment, ctx.block, ctx.live = ctx.environment, environment, Block(), LiveNames()
    ctx.live |= environment.destinations
    ctx.returned = frozenset()
    try:
        steps: list[Callable[[], Terminator | None]] = [
            partial(_enter_dictionaries, ctx),
            *steps_of(ctx, definition.body.stmts),
        ]
        if environment.destinations:
            steps.append(partial(return_destinations, ctx, None, definition.name_span))
        fill_block(ctx, ctx.block, steps, ctx.span(definition.name_span))
        return tuple(params), finish_body(ctx, definition, ctx.block, signature.declared)
    except v.RefusalError as refusal:
        ctx.report(refusal)
    except RecursionError:
        ctx.report_depth(definition.name_span)
    except WorkLimitError:
        hint = "its loops are written out too often: use fewer rounds, or operators on whole tensors"
        span = ctx.span(definition.name_span)
        ctx.diagnostics.error(f"`{definition.name}` takes too long to compile", span, hint=hint)
    finally:
        ctx.environment = outer
    return tuple(params), None
