"""Walk and rebuild expression graphs without recursion, each node once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from operator import is_

from nnmagic.relay.expr import (
    Call,
    Clause,
    Expr,
    Function,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module

#: Returns the new node for (the old node, the same node with its parts already replaced).
Transform = Callable[[Expr, Expr], Expr]


def post_order(root: Expr, skip: Container[Expr] = ()) -> Iterator[Expr]:
    """Yield every node of a graph once, parts before the whole, except those in ``skip`` and their parts.

    Variables appear where they are used; ``binders`` names those that a node binds.
    """
    entered: set[Expr] = set()
    done: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        if node in entered:
            stack.pop()
            if node not in done:
                done.add(node)
                yield node
        elif node in skip:
            stack.pop()
        else:
            entered.add(node)
            stack += [part for part in reversed(children(node)) if part not in done]


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """Return the variables that a pattern binds, left to right."""
    stack = [pattern]
    while stack:
        match stack.pop():
            case PatternVar(var=var):
                yield var
            case PatternConstructor(patterns=parts) | PatternTuple(patterns=parts):
                stack.extend(reversed(parts))
            case PatternWildcard():
                pass


def binders(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that a node itself binds."""
    match expr:
        case Function(params=params):
            return params
        case Let(var=var):
            return (var,)
        case Match(clauses=clauses):
            return tuple(var for clause in clauses for var in pattern_vars(clause.lhs))
        case _:
            return ()


def rewrite(root: Expr, transform: Transform, memo: dict[Expr, Expr] | None = None) -> Expr:
    """Return the graph rebuilt from its leaves up; a shared node is transformed once and stays shared.

    Binding variables are transformed as their uses are, so the two stay one. A node none of whose parts
    changed reaches ``transform`` as itself. ``memo`` (old to new) carries sharing over several calls.
    """
    memo = {} if memo is None else memo

    def new(expr: Expr) -> Expr:
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
    memo: dict[Expr, Expr] = {}
    functions = {}
    for name, function in module.functions.items():
        new = rewrite(function, transform, memo)
        if not isinstance(new, Function):
            raise TypeError(f"the transformation made @{name} a {type(new).__name__}, not a function")
        functions[name] = new
    return replace(module, functions=functions)


def with_parts(expr: Expr, new: Callable[[Expr], Expr]) -> Expr:
    """Return ``expr`` made of the new parts; itself if all of them are the old ones."""
    parts = children(expr)
    if not parts:
        return expr
    old = (*binders(expr), *parts)
    if all(map(is_, map(new, old), old)):
        return expr
    match expr:
        case Call(op=op, args=args):
            return replace(expr, op=new(op), args=tuple(map(new, args)))
        case Tuple(fields=fields):
            return replace(expr, fields=tuple(map(new, fields)))
        case TupleGetItem(tuple_value=value):
            return replace(expr, tuple_value=new(value))
        case Let(var=var, value=value, body=body):
            return replace(expr, var=_new_var(var, new), value=new(value), body=new(body))
        case If(cond=cond, true_branch=then, false_branch=other):
            return replace(expr, cond=new(cond), true_branch=new(then), false_branch=new(other))
        case Function(params=params, body=body):
            return replace(expr, params=tuple(_new_var(p, new) for p in params), body=new(body))
        case Match(data=data, clauses=clauses):
            arms = tuple(Clause(_new_pattern(arm.lhs, new), new(arm.rhs)) for arm in clauses)
            return replace(expr, data=new(data), clauses=arms)
        case RefCreate(value=value):
            return replace(expr, value=new(value))
        case RefRead(ref=ref):
            return replace(expr, ref=new(ref))
        case RefWrite(ref=ref, value=value):
            return replace(expr, ref=new(ref), value=new(value))
        case _:
            return expr


def _new_var(var: Var, new: Callable[[Expr], Expr]) -> Var:
    rebuilt = new(var)
    if not isinstance(rebuilt, Var):
        raise TypeError(f"the binder %{var.name_hint} was rewritten to a {type(rebuilt).__name__}")
    return rebuilt


def _new_pattern(pattern: Pattern, new: Callable[[Expr], Expr]) -> Pattern:
    match pattern:
        case PatternVar(var=var):
            return PatternVar(_new_var(var, new))
        case PatternConstructor(patterns=parts) | PatternTuple(patterns=parts):
            return replace(pattern, patterns=tuple(_new_pattern(part, new) for part in parts))
        case PatternWildcard():
            return pattern
