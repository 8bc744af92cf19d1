"""Elaborate the functions of a cell that call each other, and find the types of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from synr import ast

from nnmagic.diagnostics import Diagnostic, Diagnostics
from nnmagic.limits import MAX_WORK
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.annotations import KERNEL
from nnmagic.tinynn.analysis import bound_names
from nnmagic.tinynn.analysis.changing_calls import (
    mark_changing_calls,
)
from nnmagic.tinynn.analysis.view_names import write_out_views
from nnmagic.tinynn.elaborate import parameter_values
from nnmagic.tinynn.elaborate.context import Elaboration, LoopForms, WorkLimitError
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.function_bodies import finish_body
from nnmagic.tinynn.elaborate.function_signatures import (
    Signature,
    elaborate_formals,
    find_all_formals,
    without_numbers,
)
from nnmagic.tinynn.elaborate.live_names import LiveNames
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, NoneMerges
from nnmagic.tinynn.elaborate.sequencing import fill_block, steps_of
from nnmagic.tinynn.elaborate.shared_memory import Foreign
from nnmagic.tinynn.elaborate.statements import return_destinations
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import named_sizes

#: How often the functions of a group are tried, each time with the types found so far. A round may open one
#: size of a result alone.
_ROUNDS = 64


def changeable(signature: Signature) -> frozenset[str]:
    """Return the parameters without types that took arrays, which the function may change as Python's do."""
    return frozenset(
        parameter.name
        for parameter, type_ in signature.parameters
        if parameter.ty is None
        and parameter.name not in signature.destinations
        and isinstance(type_, ty.TensorType)
        and type_.shape
    )


def let_change(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature, names: Iterable[str]
) -> tree.DefinitionNode:
    """Let a function change arrays of its callers; return it with its calls of itself marked."""
    name = definition.name
    signature.destinations |= dict.fromkeys(names, "InOut")
    signature.is_silent = signature.declared is None and not bound_names.returns(definition)
    formals = elaborate_formals(ctx, signature)
    ctx.resolver.functions[name] = replace(ctx.resolver.functions[name], parameters=formals, type=None)
    set_declared_type(ctx, name, signature)
    return mark_changing_calls(definition, partial(find_all_formals, ctx))


def _let_vary(ctx: Elaboration, name: str, signature: Signature, types: Mapping[str, ty.Type]) -> None:
    """Let a function take the arguments with which it calls itself, too."""
    signature.completed = {**signature.completed, **types}
    signature.parameters = [
        (parameter, without_numbers(types[parameter.name]) if parameter.name in types else type_)
        for parameter, type_ in signature.parameters
    ]
    set_declared_type(ctx, name, signature)


def set_type(ctx: Elaboration, name: str, signature: Signature, result: ty.Type) -> None:
    """Let the callers of a function know the type of its result."""
    types = tuple(type_ for _, type_ in signature.parameters if type_ is not None)
    function = ctx.resolver.functions[name]
    ctx.resolver.functions[name] = replace(function, type=ty.FuncType(types, result))


def set_declared_type(ctx: Elaboration, name: str, signature: Signature) -> None:
    """Note the type of a function whose results are declared."""
    results = signature.results()
    if results is not None and not signature.failed:
        set_type(ctx, name, signature, results)


def find_types(
    ctx: Elaboration, group: Sequence[str], cell: tree.CellNode, signatures: dict[str, Signature]
) -> None:
    """Infer the result types of functions that call each other and do not declare them."""
    bodies = [template.definition.body for template in ctx.resolver.templates.values()]
    called = bound_names.find_mentioned_names([*(cell.funcs[member].body for member in group), *bodies])
    waiting = [name for name in group if name in called and not signatures[name].failed]
    # Each round may learn the result of one more function of the circle from those of the others.
    for _ in range(_ROUNDS * len(group)):
        waiting = [name for name in waiting if ctx.resolver.functions[name].type is None]
        before = dict(ctx.pending.weak_results)
        progress = [_try_type(ctx, name, cell, signatures) for name in reversed(waiting)]
        if not any(progress) and before == ctx.pending.weak_results:
            break
    for name, type_ in ctx.pending.weak_results.items():
        if ctx.resolver.functions[name].type is None:
            set_type(ctx, name, signatures[name], type_)
    ctx.pending.weak_results.clear()


def _try_type(ctx: Elaboration, name: str, cell: tree.CellNode, signatures: dict[str, Signature]) -> bool:
    """Return whether the function's result type follows from what is known of the others."""
    with ctx.trial():
        ctx.pending.awaited.clear()
        ctx.pending.inferring = True
        result = _elaborate_body(ctx, cell.funcs[name], signatures[name])[1]
        ctx.pending.inferring = False
        asked = bool(ctx.pending.awaited)
    if result is None:
        return False
    # `return 0` beside `return x * f(n - 1)`: the literal is of the dtype that the other branch
    # turns out to have.
    if result.weak and asked:  # a number alone takes the dtype that the other branches ask for
        ctx.pending.weak_results[name] = result.type
        return False
    set_type(ctx, name, signatures[name], result.type)
    return True


def elaborate_group(
    ctx: Elaboration, group: Sequence[str], cell: tree.CellNode, signatures: dict[str, Signature]
) -> dict[str, ir.Function | None]:
    """Return the Relay functions of a circle, which take the results of one another to be as they are.

    One branch may say less of the sizes than the result has: ``left[:-1]`` of two rows is no ``left[:-1]``.
    """
    inferred = [name for name in group if signatures[name].results() is None]
    for _ in range(_ROUNDS):
        before = {name: ctx.resolver.functions[name].type for name in inferred}
        made = {name: _elaborate_function(ctx, cell.funcs[name], signatures[name]) for name in group}
        changed = [name for name in inferred if before[name] not in (None, ctx.resolver.functions[name].type)]
        if not changed or None in made.values():
            return made
    for name in changed:
        message = f"the type of what `{name}` returns is another one where it calls itself"
        hint = "declare the type of its result"
        ctx.diagnostics.error(message, ctx.span(cell.funcs[name].name_span), hint=hint)
    return dict.fromkeys(group)


def _elaborate_function(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature
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
    set_type(ctx, name, signature, result.type)
    if not any(isinstance(token, Foreign) for token in ctx.returned):
        ctx.memory.fresh.add(name)
    is_kernel = any(decorator.id.name == "kernel" for decorator in definition.decorators)
    attrs: ir.Attrs = {KERNEL: 1} if is_kernel else {}
    return ir.Function(params, result.expr, result.type, attrs=attrs, span=ctx.span(definition.span))


def _elaborate_body(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature
) -> tuple[tuple[ir.Var, ...], v.Computed | None]:
    """Return the parameters and the result; None for the latter where an error was reported.

    A loop that became a function may leave names without a value, or numbers that are no longer known at
    compile time. Where that is an error, or leaves a size of the result open, the function is elaborated
    again with other forms of its loops. So it is with views written out where one memory is used by several
    names.
    """
    token = NONE_MERGES.set(NoneMerges())
    try:
        return _elaborate_in_forms(ctx, definition, signature, NONE_MERGES.get())
    finally:
        NONE_MERGES.reset(token)


def _elaborate_in_forms(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature, merges: NoneMerges
) -> tuple[tuple[ir.Var, ...], v.Computed | None]:
    """Return what `_elaborate_body` does. Where a function is refused, None may merge with other values."""
    diagnostics, reported = ctx.diagnostics, ctx.reported
    forms, first, as_written = LoopForms(), None, list[Diagnostic]()
    while True:
        ctx.diagnostics, ctx.reported, ctx.loop_forms = Diagnostics(), set(reported), forms
        ctx.changeable, ctx.changing = changeable(signature), set()
        values = {param.name: signature.known.get(param.name) for param in definition.params}
        ctx.own_parameters = values if signature.completed or signature.known else {}
        ctx.own_arguments, ctx.varying = dict(signature.completed), {}
        try:
            body = _try_body(ctx, definition, signature)
        finally:
            errors, ctx.diagnostics = ctx.diagnostics.errors, diagnostics
        if ctx.varying:
            _let_vary(ctx, definition.name, signature, ctx.varying)
            continue
        if errors and ctx.changing:
            definition = let_change(ctx, definition, signature, ctx.changing)
            continue
        if not errors and not _has_unknown_size(body[1]):
            break
        shared = [name for lost in ctx.reported for name in lost.shared]
        written = write_out_views(definition, shared) if shared else None
        if written is not None:
            definition, as_written = written, as_written or errors
            continue
        if not forms.functions or forms.unroll_all or ctx.work > MAX_WORK // 2:
            is_open = bool(signature.completed or signature.known)  # types that a call gave
            if errors and merges.met and is_open and not merges.allowed and first is None:
                merges.allowed, forms, as_written = True, LoopForms(), as_written or errors
                continue
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
    loops = (
        node
        for node in bound_names.walk(stmt, into_functions=False)
        if isinstance(node, tree.For | tree.While)
    )
    return {(id(loop), name) for loop in loops if name in bound_names.find_assigned_names(loop)}


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


def _bind_parameters(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature
) -> tuple[tuple[ir.Var, ...], v.Environment]:
    """Return the parameters of a function, and the environment of its body, in which they are bound."""
    bindings, dimensions, params = v.Bindings(), dict[str, v.NamedSize](), list[ir.Var]()
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
        value = parameter_values.value_of_parameter(
            ctx, parameter, variable, destination, signature.completed.get(parameter.name)
        )
        if isinstance(value, v.GeneratorOf):
            bindings.bind(value.state, v.Computed(variable, type_))
            states[parameter.name] = value.state
        bindings.bind(parameter.name, value, span)
        for label, named in named_sizes(parameter.name, v.Computed(variable, type_), span):
            dimensions.setdefault(label, named)
    for known, value in signature.known.items():
        bindings.bind(known, parameter_values.as_tuple(value), ctx.span(definition.name_span))
        ctx.given_lists += tuple(parameter_values.lists_inside(value))
    body = definition.body
    reassigned = bound_names.find_reassigned_names(body, bindings.locals)
    environment = v.Environment(
        definition.name, bound_names.find_local_names(body), reassigned, None, bindings, dimensions
    )
    environment.failed = signature.failed
    environment.destinations = {
        states.get(parameter.name, parameter.name): type_
        for parameter, type_ in signature.parameters
        if type_ is not None and parameter.name in signature.destinations
    }
    for rebound, at in bound_names.find_rebindings(body, environment.destinations):
        hint = f"write into it, as in {rebound}[...] = value, or use another name"
        message = f"`{rebound}` is the caller's array, and cannot stand for another value"
        ctx.report(v.RefusalError(message, ctx.span(at), hint=hint))
        environment.failed = True
    return tuple(params), environment


def _try_body(
    ctx: Elaboration, definition: tree.DefinitionNode, signature: Signature
) -> tuple[tuple[ir.Var, ...], v.Computed | None]:
    """Return the parameters and the result; None for the latter where an error was reported."""
    params, environment = _bind_parameters(ctx, definition, signature)
    outer, ctx.environment, ctx.block, ctx.live = ctx.environment, environment, Block(), LiveNames()
    ctx.live |= environment.destinations
    ctx.returned = frozenset()
    try:
        steps: list[Callable[[], Terminator | None]] = [
            partial(parameter_values.enter_dictionaries, ctx),
            *steps_of(ctx, definition.body.stmts),
        ]
        if environment.destinations:
            steps.append(partial(return_destinations, ctx, None, definition.name_span))
        fill_block(ctx, ctx.block, steps, ctx.span(definition.name_span))
        return params, finish_body(ctx, definition, ctx.block, signature.declared)
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
    return params, None
