"""Elaborate a whole cell: its data types, its functions in the order of their calls, recursion among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import attr
from synr import ast

from nnmagic.diagnostics import Diagnostics, Source
from nnmagic.limits import MAX_ERRORS
from nnmagic.relay import expr as ir
from nnmagic.tinynn.analysis import bound_names
from nnmagic.tinynn.analysis.changing_calls import (
    FindFormals,
    find_changed_parameters,
    mark_changing_calls,
)
from nnmagic.tinynn.elaborate import parameter_values
from nnmagic.tinynn.elaborate.cell_functions import (
    changeable,
    elaborate_group,
    find_types,
    let_change,
    set_declared_type,
)
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.dispatch import NODES
from nnmagic.tinynn.elaborate.function_signatures import (
    Signature,
    elaborate_formals,
    elaborate_signature,
    find_all_formals,
    is_inlined,
)
from nnmagic.tinynn.elaborate.imports import imports_of_cell
from nnmagic.tinynn.elaborate.python_functions import definitions_beside
from nnmagic.tinynn.elaborate.python_hints import without_hints
from nnmagic.tinynn.elaborate.templates import ANEW
from nnmagic.tinynn.elaborate.type_declarations import declare_types
from nnmagic.tinynn.namespace.library_functions import library_function
from nnmagic.tinynn.namespace.name_resolution import NameResolver
from nnmagic.tinynn.program import Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import map_parts, variable
from nnmagic.tinynn.values import values as v


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
    cell = _prepare(ctx, without_hints(ctx, cell), specialization)
    signatures = {
        name: elaborate_signature(
            ctx, definition, specialization if specialization and name == specialization.name else None
        )
        for name, definition in cell.funcs.items()
    }
    templates = {
        name: cell.funcs[name]
        for name, signature in signatures.items()
        if signature.open or is_inlined(cell.funcs[name], signature, specialization)
    }
    for name, definition in templates.items():
        _declare_template(ctx, definition, signatures.pop(name))
    cell = attr.evolve(cell, funcs={name: cell.funcs[name] for name in signatures})
    for name, signature in signatures.items():
        ctx.resolver.functions[name] = v.GlobalFunction(name, name, elaborate_formals(ctx, signature), None)
        set_declared_type(ctx, name, signature)
    functions = _mark_changes(ctx, cell, templates)
    if specialization is not None:
        name = specialization.name
        parameter_values.refuse_changed_containers(ctx, functions[name], signatures[name], specialization)
        # Marking a parameter as changed makes calls of the function itself changes, too, which may
        # be of further parameters.
        while changed := find_changed_parameters(functions[name]) & changeable(signatures[name]):
            functions[name] = let_change(ctx, functions[name], signatures[name], changed)
    cell = attr.evolve(cell, funcs=functions)
    definitions = [*functions.values(), *templates.values()]
    ctx.deletes_entries = bound_names.deletes_entries(definitions)
    ctx.changes_tensors = bound_names.changes_tensors(definitions) or _mentions_assigning(ctx, definitions)
    ctx.pending.unfinished = set(cell.funcs)
    done: dict[str, ir.Function | None] = {}
    # A function's result type is known before its callers are elaborated, except in a circle, which
    # is tried round by round.
    for group in bound_names.callees_first(cell.funcs):
        if len(ctx.diagnostics.errors) >= MAX_ERRORS:
            break
        find_types(ctx, group, cell, signatures)
        done |= elaborate_group(ctx, group, cell, signatures)
        ctx.pending.unfinished.difference_update(group)
    return {name: function for name in cell.funcs if (function := done.get(name)) is not None}


def _prepare(ctx: Elaboration, cell: tree.CellNode, specialization: Specialization | None) -> tree.CellNode:
    """Note what a cell imports and declares; return it with the functions that are to be elaborated."""
    ctx.beside = definitions_beside(ctx, cell.funcs)
    cell = attr.evolve(cell, funcs={**ctx.beside, **cell.funcs})
    ctx.resolver.linker.reserved.update(cell.funcs)
    ctx.has_effects = any(map(bound_names.calls_for_effects, cell.funcs.values()))
    ctx.resolver.refused = cell.refused
    ctx.imports = {**imports_of_cell(cell.imports), **cell.constants}
    for decorator in (name for name in _foreign_decorators(cell) if specialization is None):
        hint = "its options mean nothing here; those of nnmagic are on the %%tinynn line"
        ctx.note(
            f"`@{decorator.id.name}` is left out: nnmagic compiles the function",
            ctx.span(decorator.span),
            hint=hint,
        )
    declare_types(ctx, cell)
    if specialization is not None:
        cell = attr.evolve(cell, funcs=_needed_functions(cell, specialization.name))
        cell = _with_itself_anew(ctx, cell, specialization)
    return cell


def _mark_changes(
    ctx: Elaboration, cell: tree.CellNode, templates: Mapping[str, tree.DefinitionNode]
) -> dict[str, tree.DefinitionNode]:
    """Return the functions of a cell with the calls marked that change arguments; so are the templates."""
    find_formals = partial(find_all_formals, ctx)
    groups = bound_names.callees_first(templates, of_rules=False)
    ctx.recursive |= frozenset(
        name
        for group in groups
        for name in group
        if len(group) > 1
        or name in {node.id.name for node in bound_names.called_names(templates[name], of_rules=False)}
    )
    for name in (name for group in groups for name in group):
        ctx.resolver.templates[name] = _with_changes(ctx.resolver.templates[name], find_formals)
    return {name: mark_changing_calls(definition, find_formals) for name, definition in cell.funcs.items()}


def _foreign_decorators(cell: tree.CellNode) -> list[ast.Var]:
    """Return the decorators of other compilers in a cell."""
    return [
        decorator
        for func in cell.funcs.values()
        for decorator in func.decorators
        if decorator.id.name != "kernel"
    ]


def _mentions_assigning(ctx: Elaboration, definitions: Sequence[object]) -> bool:
    """Return whether a function that assigns elements has another name in the notebook."""
    values = (ctx.resolver.namespace.get(name) for name in bound_names.find_mentioned_names(definitions))
    functions = (library_function(value) for value in values)
    return any(function is not None and function[1].name in bound_names.ASSIGNING for function in functions)


def _needed_functions(cell: tree.CellNode, name: str) -> dict[str, tree.DefinitionNode]:
    """Return a function of the cell and those that it calls, in source order."""
    needed, work = {name}, [name]
    while work:
        mentioned = bound_names.find_mentioned_names(cell.funcs[work.pop()]) & set(cell.funcs) - needed
        needed |= mentioned
        work += sorted(mentioned)
    return {other: definition for other, definition in cell.funcs.items() if other in needed}


def _with_itself_anew(ctx: Elaboration, cell: tree.CellNode, specialization: Specialization) -> tree.CellNode:
    """Let a function call itself as another one where it is compiled for a parameter that is None.

    Its own calls may give a value for this parameter, as in ``def sort(x, high=None)``.
    """
    function = cell.funcs[specialization.name]
    is_known = any(
        specialization.values.get(parameter.name, ...) is None
        or (parameter.name not in specialization.types and getattr(parameter.default, "value", ...) is None)
        for parameter in function.params
    )
    has_text = any(isinstance(value, str) for value in specialization.values.values())
    if not (is_known or has_text) or function.name not in bound_names.find_mentioned_names(function.body):
        return cell
    again = f"{function.name}{ANEW}"
    other = attr.evolve(function, name=again)
    formals = elaborate_formals(ctx, elaborate_signature(ctx, other, None))
    template = v.LocalFunction(again, other, formals, v.Environment(""), {})
    ctx.resolver.templates[again] = _with_changes(template, partial(find_all_formals, ctx))
    ctx.recursive |= {again}
    if not is_known:  # only calls with other texts are of another function
        return cell

    def rename(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Var) and node.id.name == function.name:
            return variable(node.span, again)
        return map_parts(node, rename)

    return attr.evolve(
        cell, funcs={**cell.funcs, function.name: attr.evolve(function, body=rename(function.body))}
    )


def _declare_template(ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature) -> None:
    """Declare a function whose calls in the cell are inlined; record what is written of its types."""
    name = definition.name
    formals = elaborate_formals(ctx, signature)
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
