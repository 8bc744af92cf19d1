"""Write statements and expressions into a cell: their errors show the place that they are written for."""

from __future__ import annotations

import ast as py
from typing import TypeVar

_Node = TypeVar("_Node", bound=py.AST)


def placed(place: py.AST, node: _Node) -> _Node:
    """Return a node with all its parts that have no place at a place."""
    for child in py.walk(node):
        if not hasattr(child, "lineno"):
            py.copy_location(child, place)
    return node


def moved(place: py.AST, node: _Node) -> _Node:
    """Return a node with all its parts at a place."""
    for child in py.walk(node):
        py.copy_location(child, place)
    return node


def statements_at(place: py.AST, text: str) -> list[py.stmt]:
    """Return the statements of a text, at a place."""
    return moved(place, py.parse(text)).body


def expression_at(place: py.AST, text: str) -> py.expr:
    """Return the expression of a text, at a place."""
    return moved(place, py.parse(text, mode="eval")).body
