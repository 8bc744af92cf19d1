"""Build and map nodes of a cell's tree."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import TypeGuard

from synr import ast


def subscript(span: ast.Span, owner: ast.Expr, index: Sequence[ast.Expr]) -> ast.Call:
    """Return ``owner[index]``."""
    return ast.Call(span, ast.Op(span, ast.BuiltinOp.Subscript), [owner, ast.Tuple(span, list(index))], {})


def is_subscript(node: object) -> TypeGuard[ast.Call]:
    """Return whether a node is ``owner[index]``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func_name, ast.Op)
        and node.func_name.name is ast.BuiltinOp.Subscript
    )


def subscripts_of(node: ast.Expr) -> tuple[ast.Expr, list[ast.Call]]:
    """Return what a chain of subscripts begins with, and its subscripts: ``y[i]``, then ``y[i][j]``."""
    chain: list[ast.Call] = []
    while is_subscript(node):
        chain.insert(0, node)
        node = node.params[0]
    return node, chain


def variable(span: ast.Span, name: str) -> ast.Var:
    """Return a name as an expression."""
    return ast.Var(span, ast.Id(span, name))


def operation(span: ast.Span, op: ast.BuiltinOp, *operands: ast.Expr) -> ast.Call:
    """Return the call of an operator."""
    return ast.Call(span, ast.Op(span, op), list(operands), {})


def map_parts(node: ast.Node, change: Callable[[ast.Node], ast.Node]) -> ast.Node:
    """Return a node with its parts changed, also those in lists and dictionaries; itself if none is."""
    changes = {
        key: new for key, child in vars(node).items() if (new := _map_part(child, change)) is not child
    }
    if not changes:
        return node
    changed = copy.copy(node)
    for key, child in changes.items():
        object.__setattr__(changed, key, child)
    return changed


def _map_part(value: object, change: Callable[[ast.Node], ast.Node]) -> object:
    match value:
        case ast.Node():
            return change(value)
        case list() | tuple():
            items = [_map_part(item, change) for item in value]
            return type(value)(items) if any(map(operator.is_not, items, value)) else value
        case dict():
            return {key: _map_part(item, change) for key, item in value.items()} if value else value
    return value
