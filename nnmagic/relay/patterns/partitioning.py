"""Put what a pattern matches into functions of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from nnmagic.diagnostics import kind_of
from nnmagic.relay import expr as ir
from nnmagic.relay.infer import ensure_types, infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import map_functions, substitute
from nnmagic.relay.passes.scopes import opaque_functions
from nnmagic.relay.patterns.language import Pattern
from nnmagic.relay.patterns.matching import Match, match
from nnmagic.relay.structure.traverse import post_order

_CALLEES = (ir.OpRef, ir.GlobalVar, ir.Constructor)


def partition(
    module: Module,
    pattern: Pattern,
    *,
    attrs: Mapping[str, object] | None = None,
    check: Callable[[Match], bool] | None = None,
) -> Module:
    """Put each match into a function literal that is called in its place; the result is typed.

    What wildcards and variables matched, and what is used inside but not part of the pattern, become
    parameters; constants stay inside. A match is left as it is if a value inside it is also used outside, or
    if it overlaps one that was taken before, or if it has branches; those nearer to the result come first.

    Args:
        module: the module.
        pattern: what to look for.
        attrs: the attributes of each function, such as ``{"Composite": "my.dense_relu"}``.
        check: a function that says whether to take a match.

    """
    if not isinstance(pattern, Pattern):
        raise TypeError(f"partition takes a pattern, not {kind_of(pattern)}")
    module = ensure_types(module)
    shared = _shared_nodes(module)

    def change(function: ir.Function) -> ir.Function:
        return _partition(function, pattern, attrs or {}, check, shared)

    new = map_functions(module, change)
    changed = any(new.functions[name] is not each for name, each in module.functions.items())
    return infer_type(new, look_into_callees=True) if changed else module


def _shared_nodes(module: Module) -> set[ir.Expr]:
    """Return the nodes that several functions of a module use."""
    seen: set[ir.Expr] = set()
    shared: set[ir.Expr] = set()
    for function in module.functions.values():
        nodes = set(post_order(function))
        shared |= nodes & seen
        seen |= nodes
    return shared


def _partition(
    function: ir.Function,
    pattern: Pattern,
    attrs: Mapping[str, object],
    check: Callable[[Match], bool] | None,
    shared: set[ir.Expr],
) -> ir.Function:
    users: dict[ir.Expr, list[ir.Expr]] = defaultdict(list)
    for node in post_order(function):
        for child in ir.children(node):
            users[child].append(node)
    order = [node for node in post_order(function, opaque_functions(function)) if node is not function]
    taken: set[ir.Expr] = set()
    replaced: dict[ir.Expr, ir.Expr] = {}
    for node in reversed(order):
        if isinstance(node, (*_CALLEES, ir.Var, ir.Constant)) or node in taken:
            continue
        matched = match(pattern, node)
        if matched is None or (check is not None and not check(matched)):
            continue
        inside: set[ir.Expr] = {node}
        inside.update(member for member in matched.covered if not isinstance(member, _CALLEES))
        inner = inside - {node}
        if any(
            isinstance(member, ir.If | ir.Let) for member in inside
        ):  # its parts are computed later, or not at all
            continue
        if inside & taken or any(
            member in shared or any(user not in inside for user in users[member])
            for member in inner
            if not isinstance(member, ir.Constant)
        ):
            continue
        call = _call(node, inside, attrs)
        if call.args:
            taken |= {member for member in inside if not isinstance(member, ir.Constant)}
            replaced[node] = call
    if not replaced:
        return function
    return substitute(function, replaced)


def _call(root: ir.Expr, inside: set[ir.Expr], attrs: Mapping[str, object]) -> ir.Call:
    """Return the call of a function that computes ``root`` from what is outside."""
    inputs: dict[ir.Expr, ir.Expr] = {}
    for node in post_order(root, skip=_Outside(inside)):
        for child in ir.children(node):
            if child not in inside and not isinstance(child, _CALLEES) and child not in inputs:
                name = child.name_hint if isinstance(child, ir.Var) else f"p{len(inputs)}"
                inputs[child] = ir.Var(name, child.checked_type, span=child.span)
    body = substitute(root, inputs)
    params = tuple(var for var in inputs.values() if isinstance(var, ir.Var))
    made = ir.Function(params, body, root.checked_type, attrs=dict(attrs), span=root.span)
    return ir.Call(made, tuple(inputs), span=root.span)


class _Outside:
    """Contains every node that is not one of some nodes."""

    def __init__(self, inside: set[ir.Expr]) -> None:
        self._inside = inside

    def __contains__(self, node: object) -> bool:
        return node not in self._inside
