"""Walk and rebuild expression graphs without recursion, each node once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from operator import is_
from typing import cast, overload

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module

#: Returns the new node for (the old node, the same node with its parts already replaced).
Transform = Callable[[ir.Expr, ir.Expr], ir.Expr]


def post_order(root: ir.Expr, skip: Container[ir.Expr] = ()) -> Iterator[ir.Expr]:
    """Yield every node of a graph once, parts before the whole, except those in ``skip`` and their parts.

    Variables appear where they are used; ``binders`` names those that a node binds.
    """
    entered: set[ir.Expr] = set()
    done: set[ir.Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in done or node in skip:
            continue
        if node not in entered and (parts := ir.children(node)):
            entered.add(node)
            stack.append(node)
            stack += [part for part in reversed(parts) if part not in done]
        else:
            done.add(node)
            yield node


def pattern_vars(pattern: ir.Pattern) -> Iterator[ir.Var]:
    """Return the variables that a pattern binds, left to right."""
    stack = [pattern]
    while stack:
        match stack.pop():
            case ir.PatternVar(var=var):
                yield var
            case ir.PatternConstructor(patterns=parts) | ir.PatternTuple(patterns=parts):
                stack.extend(reversed(parts))
            case ir.PatternWildcard():
                pass


def binders(expr: ir.Expr) -> tuple[ir.Var, ...]:
    """Return the variables that a node itself binds."""
    match expr:
        case ir.Function(params=params):
            return params
        case ir.Let(var=var):
            return (var,)
        case ir.Match(clauses=clauses):
            return tuple(var for clause in clauses for var in pattern_vars(clause.lhs))
        case _:
            return ()


@overload
def rewrite(
    root: ir.Function, transform: Transform, memo: dict[ir.Expr, ir.Expr] | None = None
) -> ir.Function: ...


@overload
def rewrite(root: ir.Expr, transform: Transform, memo: dict[ir.Expr, ir.Expr] | None = None) -> ir.Expr: ...


def rewrite(root: ir.Expr, transform: Transform, memo: dict[ir.Expr, ir.Expr] | None = None) -> ir.Expr:
    """Return the graph rebuilt from its leaves up; a shared node is transformed once and stays shared.

    Binding variables are transformed as their uses are, so the two stay one. A node none of whose parts
    changed reaches ``transform`` as itself. ``memo`` (old to new) carries sharing over several calls.
    """
    memo = {} if memo is None else memo

    def new(expr: ir.Expr) -> ir.Expr:
        rebuilt = memo.get(expr)
        if rebuilt is None:  # a binder that is used nowhere
            rebuilt = memo[expr] = transform(expr, expr)
        return rebuilt

    for node in post_order(root, skip=memo):
        if node not in memo:
            memo[node] = transform(node, with_parts(node, new))
    return memo[root]


def rewrite_module(module: Module, transform: Transform) -> Module:
    """Rewrite every function of a module; what functions share stays shared."""
    memo: dict[ir.Expr, ir.Expr] = {}
    functions = {}
    for name, function in module.functions.items():
        new = rewrite(cast("ir.Expr", function), transform, memo)
        if not isinstance(new, ir.Function):
            raise TypeError(f"the transformation made @{name} a {type(new).__name__}, not a function")
        functions[name] = new
    return replace(module, functions=functions)


def with_parts(expr: ir.Expr, new: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """Return ``expr`` made of the new parts; itself if all of them are the old ones."""
    children = ir.children(expr)
    if not children:
        return expr
    old = (*binders(expr), *children)
    if all(map(is_, map(new, old), old)):
        return expr
    match expr:
        case ir.Call(op=op, args=args):
            return replace(expr, op=new(op), args=tuple(map(new, args)))
        case ir.Tuple(fields=fields):
            return replace(expr, fields=tuple(map(new, fields)))
        case ir.TupleGetItem(tuple_value=value):
            return replace(expr, tuple_value=new(value))
        case ir.Let(var=var, value=value, body=body):
            return replace(expr, var=_new_var(var, new), value=new(value), body=new(body))
        case ir.If(cond=cond, true_branch=then, false_branch=other):
            return replace(expr, cond=new(cond), true_branch=new(then), false_branch=new(other))
        case ir.Function(params=params, body=body):
            return replace(expr, params=tuple(_new_var(p, new) for p in params), body=new(body))
        case ir.Match(data=data, clauses=clauses):
            arms = tuple(ir.Clause(_new_pattern(arm.lhs, new), new(arm.rhs)) for arm in clauses)
            return replace(expr, data=new(data), clauses=arms)
        case ir.RefCreate(value=value):
            return replace(expr, value=new(value))
        case ir.RefRead(ref=ref):
            return replace(expr, ref=new(ref))
        case ir.RefWrite(ref=ref, value=value):
            return replace(expr, ref=new(ref), value=new(value))
        case _:
            return expr


def _new_var(var: ir.Var, new: Callable[[ir.Expr], ir.Expr]) -> ir.Var:
    rebuilt = new(var)
    if not isinstance(rebuilt, ir.Var):
        raise TypeError(f"the binder %{var.name_hint} was rewritten to a {type(rebuilt).__name__}")
    return rebuilt


def _new_pattern(pattern: ir.Pattern, new: Callable[[ir.Expr], ir.Expr]) -> ir.Pattern:
    match pattern:
        case ir.PatternVar(var=var):
            return ir.PatternVar(_new_var(var, new))
        case ir.PatternConstructor(patterns=parts) | ir.PatternTuple(patterns=parts):
            return replace(pattern, patterns=tuple(_new_pattern(part, new) for part in parts))
        case ir.PatternWildcard():
            return pattern
