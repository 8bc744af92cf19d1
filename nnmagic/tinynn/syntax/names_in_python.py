"""Find and replace names and expressions in Python's tree."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from nnmagic.tinynn.syntax.written_code import moved

Node = TypeVar("Node", py.stmt, py.expr)


class AssignedNameError(Exception):
    """A name is assigned in whose place an expression was to stand."""


class _Substituted(py.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, names: dict[str, Callable[[], py.expr]]) -> None:
        self.names = names

    def visit_Name(self, node: py.Name) -> py.AST:
        """Return what replaces a name."""
        if node.id not in self.names:
            return node
        made = self.names[node.id]()
        if not isinstance(node.ctx, py.Load) and not isinstance(made, py.Name):
            raise AssignedNameError
        if isinstance(made, py.Name):
            made.ctx = node.ctx
        return moved(node, made)


def substitute_names(node: py.AST, names: dict[str, Callable[[], py.expr]]) -> py.AST:
    """Return a node with expressions for names. Raises AssignedNameError."""
    changed = _Substituted(names).visit(node)
    assert isinstance(changed, py.AST)
    return changed


class _Replaced(py.NodeTransformer):
    def __init__(self, nodes: Mapping[int, py.expr]) -> None:
        self.nodes = nodes

    def visit(self, node: py.AST) -> py.AST:
        """Return the copy of a node; the blocks of an `if` stay as they are."""
        if id(node) in self.nodes:
            return self.nodes[id(node)]
        if isinstance(node, py.If):
            test = self.visit(node.test)
            assert isinstance(test, py.expr)
            return py.copy_location(py.If(test, node.body, node.orelse), node)
        # Of a copy: what was read of a statement before is found again by the identities of its nodes.
        return self.generic_visit(copy.copy(node))


def replace_nodes(nodes: Mapping[int, py.expr], node: Node) -> Node:
    """Return a copy of a node with expressions instead of others, which are known by their identities."""
    return cast("Node", _Replaced(nodes).visit(node))


def bound_by(node: py.AST) -> set[str]:
    """Return the names that a loop's head or a comprehension binds."""
    if isinstance(node, py.For):
        targets: list[py.expr] = [node.target]
    else:
        targets = [each.target for each in getattr(node, "generators", ())]
    return {part.id for target in targets for part in py.walk(target) if isinstance(part, py.Name)}
