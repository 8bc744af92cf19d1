"""Lift local functions to global ones (Johnsson 1985): what they capture becomes parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import UnionType

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import keeps_types
from nnmagic.relay.passes.scopes import PlacementScope, Scopes, is_opaque, scopes_of
from nnmagic.relay.structure.callgraph import rename_globals
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.structure.traverse import Transform, binders, post_order, rewrite
from nnmagic.relay.types import TensorType, TupleType, Type, TypeCall

#: What means the same in every function, and is no parameter of one that is lifted.
_CLOSED = (ir.Constant, ir.Constructor, ir.GlobalVar, ir.OpRef)


@keeps_types
def lift_local_functions(module: Module, *, data_types: bool = False, taken: Collection[str] = ()) -> Module:
    """Make global functions of those that a let binds and that are only called, recursive ones among them.

    A call passes what the function captured as further arguments. Functions that capture anything but tensors
    and tuples of tensors, or take or return it, stay where they are, and so do generic ones. The module must
    be typed. data_types: values of data types are captured, too. taken: names that no lifted function gets.
    """
    functions = dict(module.functions)
    names = {*functions, *taken}
    waiting = list(functions)
    lifted_names: list[str] = []
    while waiting:
        name = waiting.pop()
        while not is_opaque(functions[name]):
            lifted = _lift_one(functions[name], name, names, data_types=data_types)
            if lifted is None:
                break
            functions[name], new_name, functions[new_name] = lifted
            names.add(new_name)
            waiting.append(new_name)
            lifted_names.append(new_name)
    return replace(module, functions=_merge_equal(functions, lifted_names))


def _merge_equal(functions: dict[str, ir.Function], lifted: Sequence[str]) -> dict[str, ir.Function]:
    """Return functions of which equal lifted ones are one, as the loops of a helper that is called twice."""
    instead: dict[str, str] = {}
    kept: dict[object, list[tuple[str, ir.Function]]] = {}
    for name in reversed(lifted):  # inner ones first
        function = rename_globals(functions[name], {**instead, name: ""})
        types = (*(param.checked_type for param in function.params), function.ret_type)
        alike = kept.setdefault((types, function.span), [])  # of one place, which errors name
        found = next((other for other, known in alike if structural_equal(function, known)), None)
        if found is None:
            alike.append((name, function))
        else:
            instead[name] = found
    if not instead:
        return functions
    return {
        name: rename_globals(function, instead) for name, function in functions.items() if name not in instead
    }


def _lift_one(
    function: ir.Function, name: str, taken: Collection[str], *, data_types: bool
) -> tuple[ir.Function, str, ir.Function] | None:
    """Lift one local function of a function: the rest, and the lifted one with its name; None without one."""
    nodes = list(post_order(function))
    lets = [node for node in nodes if isinstance(node, ir.Let) and isinstance(node.value, ir.Function)]
    if not lets:
        return None
    uses = Counter(child for node in nodes for child in ir.children(node))
    calls = Counter(node.op for node in nodes if isinstance(node, ir.Call))
    scopes = scopes_of(function)
    for let in lets:
        # A use as a value needs a closure: only calls can pass further arguments.
        if uses[let.var] != calls[let.var] or not uses[let.var]:
            continue
        captured = _captures(let, scopes, TensorType | TypeCall if data_types else TensorType)
        if captured is None:
            continue
        new_name = f"{name}_{let.var.name_hint}"
        while new_name in taken:
            new_name += "_"
        lifted = _lift(let, captured, new_name)
        return _without(function, let, captured, new_name), new_name, lifted
    return None


def _captures(let: ir.Let, scopes: Scopes, kinds: type | UnionType) -> list[ir.Expr] | None:
    """Return the values from outside that a local function uses; None if it cannot be lifted.

    kinds: the types of values that can be parameters, beside tuples of them.
    """
    function = let.value
    assert isinstance(function, ir.Function)
    types = [_type_of(param) for param in function.params]
    if function.type_params or is_opaque(function):
        return None
    if not all(_consists_of(type_, kinds) for type_ in (*types, function.ret_type)):
        return None
    (scope,) = scopes.inner[function]
    bound = {var for node in post_order(function) for var in binders(node)}
    captured: dict[ir.Expr, None] = {}
    entered: set[ir.Expr] = set()
    work = [function.body]
    while work:
        node = work.pop()
        if node in entered or isinstance(node, _CLOSED) or node is let.var:
            continue
        entered.add(node)
        # A shared node that a scope outside computes is captured as a whole, not computed again in
        # here.
        if node in bound if isinstance(node, ir.Var) else _is_within(scopes.scope_of[node], scope):
            work.extend(reversed(ir.children(node)))
        elif _consists_of(_type_of(node), kinds):
            captured[node] = None
        else:
            return None
    return list(captured)


def _is_within(scope: PlacementScope, outer: PlacementScope) -> bool:
    while scope.depth > outer.depth:
        scope = scope.jump if scope.jump.depth >= outer.depth else scope.parent
    return scope is outer


def _lift(let: ir.Let, captured: list[ir.Expr], name: str) -> ir.Function:
    """Return the global function of a local one, which takes what it captured as its last parameters."""
    function = let.value
    assert isinstance(function, ir.Function)
    params: dict[ir.Expr, ir.Expr] = {}
    for var in captured:
        hint = var.name_hint if isinstance(var, ir.Var) else f"v{len(params)}"
        params[var] = ir.Var(hint, _type_of(var), span=var.span, checked_type=_type_of(var))
    body = rewrite(function.body, _call_global(let.var, name, params), dict(params))
    new_params = [param for param in params.values() if isinstance(param, ir.Var)]
    return replace(function, params=(*function.params, *new_params), body=body, checked_type=None)


def _without(function: ir.Function, let: ir.Let, captured: list[ir.Expr], name: str) -> ir.Function:
    """Return a function that calls the lifted one instead of its own local function."""
    memo: dict[ir.Expr, ir.Expr] = {let.value: let.value}
    outer: dict[ir.Expr, ir.Expr] = {}

    def transform(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if old is let:
            assert isinstance(new, ir.Let)
            return new.body
        if isinstance(old, ir.Call) and old.op is let.var:
            for value in captured:
                # The captured value may itself call the function that is lifted, where functions
                # are nested.
                outer[value] = rewrite(value, transform, memo)
        return call_global(old, new)

    call_global = _call_global(let.var, name, outer)
    return rewrite(function, transform, memo)


def _call_global(var: ir.Var, name: str, captured: dict[ir.Expr, ir.Expr]) -> Transform:
    """Return what makes each call of a local function one of a global function that takes more."""

    def transform(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if not isinstance(old, ir.Call) or old.op is not var:
            return new
        assert isinstance(new, ir.Call)
        return replace(
            new,
            op=ir.GlobalVar(name, span=old.op.span),
            args=(*new.args, *captured.values()),
            checked_type=None,
        )

    return transform


def _type_of(node: ir.Expr) -> Type | None:
    return node.checked_type or (node.type_annotation if isinstance(node, ir.Var) else None)


def _consists_of(type_: Type | None, kinds: type | UnionType) -> bool:
    """Return whether a type is one of these kinds, or a tuple of them."""
    if isinstance(type_, TupleType):
        return all(_consists_of(field, kinds) for field in type_.fields)
    return isinstance(type_, kinds)
