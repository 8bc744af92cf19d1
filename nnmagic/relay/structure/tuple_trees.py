"""Handle the parts of nested tuples: types, values, cotangents.

A tree is a leaf (anything but a list; None where nothing flows) or a list of trees, in the form of a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nnmagic.relay.types import TensorType, TupleType, Type, is_float

if TYPE_CHECKING:
    from nnmagic.relay.expr import Expr

#: A leaf, or a list of trees.
Tree = Any


def leaf_types(type_: Type) -> list[Type]:
    """Return the types of the leaves, left to right."""
    if isinstance(type_, TupleType):
        return [leaf for field in type_.fields for leaf in leaf_types(field)]
    return [type_]


def leaves(tree: Tree, type_: Type) -> list[Any]:
    """Return the leaves of a tree, left to right; None stands for a tree of Nones."""
    if isinstance(type_, TupleType):
        parts = [None] * len(type_.fields) if tree is None else tree
        return [leaf for part, field in zip(parts, type_.fields, strict=True) for leaf in leaves(part, field)]
    return [tree]


def tree_of(parts: Iterator[Any], type_: Type) -> Tree:
    """Return the tree of leaves, taken in order."""
    if isinstance(type_, TupleType):
        return [tree_of(parts, field) for field in type_.fields]
    return next(parts)


def flatten(value: Any) -> Iterator[Any]:
    """Yield the parts of nested tuples, in order."""
    if isinstance(value, tuple):
        for part in value:
            yield from flatten(part)
    else:
        yield value


def rebuild(type_: Type, parts: Iterator[Any]) -> Any:
    """Undo ``flatten``: nest the next parts in tuples as the type says."""
    if isinstance(type_, TupleType):
        return tuple(rebuild(field, parts) for field in type_.fields)
    return next(parts)


def has_leaf(tree: Tree) -> bool:
    """Return whether any leaf is not None or False."""
    if isinstance(tree, list):
        return any(map(has_leaf, tree))
    return tree is not None and tree is not False


def combine(first: Tree, second: Tree, join: Callable[[Any, Any], Any]) -> Tree:
    """Return the leaf by leaf combination of two trees of one form."""
    if isinstance(first, list) or isinstance(second, list):
        length = len(first) if isinstance(first, list) else len(second)
        lhs = first if isinstance(first, list) else [first] * length
        rhs = second if isinstance(second, list) else [second] * length
        return [combine(a, b, join) for a, b in zip(lhs, rhs, strict=True)]
    return join(first, second)


def float_leaves(type_: Type) -> Tree:
    """Return a tree that says which leaves are tensors of floats."""
    if isinstance(type_, TupleType):
        return [float_leaves(field) for field in type_.fields]
    return isinstance(type_, TensorType) and is_float(type_.dtype)


def project(expr: Expr, type_: Type, path: Sequence[int] = ()) -> list[Expr]:
    """Return the expressions of the leaves of a value."""
    from nnmagic.relay.expr import TupleGetItem

    if isinstance(type_, TupleType):
        return [
            leaf
            for index, field in enumerate(type_.fields)
            for leaf in project(TupleGetItem(expr, index, span=expr.span), field, (*path, index))
        ]
    return [expr]


def items(expr: Expr, width: int) -> Iterator[Expr]:
    """Yield the parts of a value that is a tuple where it has several."""
    from nnmagic.relay.expr import TupleGetItem

    if width == 1:
        yield expr
        return
    for index in range(width):
        yield TupleGetItem(expr, index, span=expr.span)


def nest(tree: Tree) -> Expr:
    """Return a tree of expressions as one of tuples."""
    from nnmagic.relay.expr import Expr, Tuple

    if isinstance(tree, list):
        return Tuple(tuple(map(nest, tree)))
    assert isinstance(tree, Expr)
    return tree
