"""Share what passes need: the rule for types, replacing nodes of a graph, copies with new variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, cast, overload

from nnmagic.relay.expr import Constant, Expr, Function, Let, Var, children
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import is_atom, is_opaque
from nnmagic.relay.structure.traverse import binders, post_order, rewrite, with_parts

P = ParamSpec("P")


def keeps_types(
    rewriting: Callable[Concatenate[Module, P], Module],
) -> Callable[Concatenate[Module, P], Module]:
    """Wrap a pass: a typed module comes out typed anew, an untyped one untyped.

    A module in which nothing changed is returned itself.
    """

    @wraps(rewriting)
    def run(module: Module, *args: P.args, **kwargs: P.kwargs) -> Module:
        new = rewriting(module, *args, **kwargs)
        if new.functions == module.functions:
            return module
        is_typed = all(function.checked_type is not None for function in module.functions.values())
        return infer_type(new, look_into_callees=True) if is_typed else new

    return cast("Callable[Concatenate[Module, P], Module]", run)


@overload
def substitute(root: Function, replaced: Mapping[Expr, Expr]) -> Function: ...


@overload
def substitute(root: Expr, replaced: Mapping[Expr, Expr]) -> Expr: ...


def substitute(root: Expr, replaced: Mapping[Expr, Expr]) -> Expr:
    """Return the graph with some nodes, and so what they were made of, replaced by others.

    A replacement is rewritten in turn. Sharing is kept. A binder may be replaced if what binds it is, too.
    """
    targets: dict[Expr, Expr] = {}
    memo: dict[Expr, Expr] = {}

    def target(expr: Expr) -> Expr:
        path = []
        while expr in replaced:
            path.append(expr)
            expr = targets.get(expr) or replaced[expr]
        targets.update(dict.fromkeys(path, expr))
        return expr

    def new(expr: Expr) -> Expr:
        replacement = target(expr)
        return memo.get(replacement, replacement)  # a binder that is used nowhere is not in the memo

    stack = [root]
    entered: set[Expr] = set()
    while stack:
        node = target(stack[-1])
        if node in memo:
            stack.pop()
        elif node in entered:
            stack.pop()
            memo[node] = with_parts(node, new)
        else:
            entered.add(node)
            stack.extend(child for child in reversed(children(node)) if target(child) not in memo)
    return new(root)


def fold_nodes(function: Function, fold: Callable[[Expr, Mapping[Expr, int]], Expr | None]) -> Function:
    """Replace nodes of a function by what ``fold`` gives for a node and the numbers of uses of all nodes.

    None leaves a node as it is. ``fold`` sees the nodes as they were, operands before what uses them.
    """
    order = list(post_order(function))
    uses = Counter(child for node in order for child in children(node))
    replaced = {node: new for node in order if (new := fold(node, uses)) is not None}
    new_function = substitute(function, replaced) if replaced else function
    assert isinstance(new_function, Function)
    return new_function


def with_flat_lets(function: Function) -> Function:
    """Return the function with ``let %a = (let %b = x; y); z`` written ``let %b = x; let %a = y; z``.

    Only that has a text. A chain of lets that several nodes use stays where it is.
    """
    order = list(post_order(function))
    lets = [node for node in order if isinstance(node, Let)]
    if not any(isinstance(let.value, Let) for let in lets):
        return function
    uses = Counter(child for node in order for child in children(node))
    replaced: dict[Expr, Expr] = {}
    seen: set[Let] = set()
    for let in reversed(lets):  # outer ones first
        if let not in seen:
            _flatten(let, uses, seen, replaced)
    return substitute(function, replaced)


def _flatten(root: Let, uses: Counter[Expr], seen: set[Let], replaced: dict[Expr, Expr]) -> None:
    """Enter the flat chain that replaces a let and the lets that it alone uses."""
    chain: list[tuple[Let, Expr]] = []
    result: Expr = root
    # What to do next: flatten a node, or enter a let whose value is flattened.
    work: list[tuple[Expr, bool]] = [(root, False)]
    while work:
        node, has_value = work.pop()
        if not isinstance(node, Let) or (node is not root and uses[node] > 1):
            result = node
        elif not has_value:
            seen.add(node)
            work += [(node, True), (node.value, False)]
        else:
            if isinstance(node.value, Let) and is_atom(result):
                replaced[node.var] = result
            else:
                chain.append((node, result))
            work.append((node.body, False))
    for let, value in reversed(chain):
        result = replace(let, value=value, body=result)
    replaced[root] = result


def copy_graph(function: Function, *, only: Callable[[Expr], bool] = lambda _node: True) -> Function:
    """Return a copy with variables and nodes of its own.

    ``only`` selects the nodes to copy; those that depend on a variable that the function binds are copied
    anyway.
    """
    bound = {var for node in post_order(function) for var in binders(node)}

    def fresh(old: Expr, new: Expr) -> Expr:
        if isinstance(old, Var):
            return replace(old) if old in bound else old
        if new is not old or is_atom(old) or isinstance(old, Constant):
            return new
        return replace(old) if only(old) else old

    return rewrite(function, fresh)


def map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """Change every function of a module except those that no pass looks into."""
    functions = {
        name: function if is_opaque(function) else change(function)
        for name, function in module.functions.items()
    }
    return replace(module, functions=functions)
