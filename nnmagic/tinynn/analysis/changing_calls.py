"""Mark the calls of functions that change arguments, so that the names count as assigned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attr
from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_elements_assigned, find_rebound, walk
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import Formal

#: Finds the parameters of a function that changes arguments, by how a call writes it; None for any other.
FindFormals = Callable[[ast.Expr], Sequence[Formal] | None]


def mark_changing_calls(definition: tree.DefinitionNode, find_formals: FindFormals) -> tree.DefinitionNode:
    """Return a function whose calls of functions that change arguments are ChangingCall nodes.

    These are only calls that are a statement, the right side of an assignment, or what is returned.
    """
    calls = (part for part in walk(definition.body) if isinstance(part, ast.Call))
    if all(isinstance(call.func_name, ast.Op) or find_formals(call.func_name) is None for call in calls):
        return definition
    return attr.evolve(definition, body=_mark(definition.body, find_formals))


def find_changed_parameters(definition: tree.DefinitionNode) -> frozenset[str]:
    """Return the parameters whose arrays a function changes, and that never stand for another value."""
    names = {parameter.name for parameter in definition.params}
    changed = find_elements_assigned(definition.body) & names
    return changed - {name for name, _ in find_rebound(definition.body, changed)}


def _mark(node: ast.Node, find_formals: FindFormals) -> ast.Node:
    """Return a block or a statement with its calls marked."""

    def inner(part: ast.Node) -> ast.Node:
        return _mark(part, find_formals)

    def call(expr: ast.Expr) -> ast.Expr:
        return _mark_call(expr, find_formals)

    match node:
        case tree.WriteOut(rhs=rhs) if find_formals(rhs.func_name) is not None:  # a parameter called `out`
            target = node.targets[0]
            is_whole = any(isinstance(part, tree.EllipsisLiteral) for part in walk(target.params[1]))
            out = {ast.Constant(node.span, "out"): target.params[0] if is_whole else target}
            whole = ast.Call(rhs.span, rhs.func_name, rhs.params, {**rhs.keyword_params, **out})
            return tree.CallStatement(node.span, call(whole))
        case ast.Block(stmts=stmts):
            return attr.evolve(node, stmts=[inner(statement) for statement in stmts])
        case ast.Assign(rhs=rhs) | tree.Unpack(rhs=rhs):
            return attr.evolve(node, rhs=call(rhs))
        case ast.Return(value=value) if value is not None:
            return attr.evolve(node, value=call(value))
        case tree.CallStatement():
            return attr.evolve(node, call=call(node.call))
        case ast.If():
            return attr.evolve(node, true=inner(node.true), false=inner(node.false))
        case tree.For() | tree.While():
            return attr.evolve(node, body=inner(node.body), orelse=inner(node.orelse))
        case tree.MatchNode(cases=cases):
            return attr.evolve(node, cases=[attr.evolve(case, body=inner(case.body)) for case in cases])
        case tree.DefinitionNode():
            return attr.evolve(node, body=inner(node.body))
    return node


def _mark_call(expr: ast.Expr, find_formals: FindFormals) -> ast.Expr:
    if not isinstance(expr, ast.Call) or isinstance(expr.func_name, ast.Op):
        return expr
    formals = find_formals(expr.func_name)
    if formals is None:
        return expr
    positional = [formal for formal in formals if formal.kind != "KEYWORD_ONLY"]
    given = list(zip(positional, expr.params, strict=False))
    by_name = {formal.name: formal for formal in formals}
    given += [(by_name[key.value], arg) for key, arg in expr.keyword_params.items() if key.value in by_name]
    changed = [arg.id.name for formal, arg in given if formal.destination and isinstance(arg, ast.Var)]
    return tree.ChangingCall(expr.span, expr.func_name, expr.params, expr.keyword_params, changed)
