"""The nodes that a cell's tree has beside synr's own. Knows synr's tree only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import attr
from synr import ast


class ExtraOp(Enum):
    """Python's operators that synr's BuiltinOp lacks."""

    MatMul = auto()
    Pow = auto()
    LShift = auto()
    RShift = auto()


@attr.s(auto_attribs=True, frozen=True)
class Starred(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """``*value`` in a call, in a tuple or at the left of an assignment."""

    span: ast.Span
    value: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class EllipsisLiteral(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """``...``."""

    span: ast.Span


@attr.s(auto_attribs=True, frozen=True)
class Invalid(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """An expression that was refused; what uses it reports nothing more."""

    span: ast.Span


@attr.s(auto_attribs=True, frozen=True)
class Annotation(ast.Type):  # type: ignore[misc]  # synr is untyped
    """A type as the expression that it is: aliases and captured numbers mean the same."""

    span: ast.Span
    expr: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class InvalidStatement(ast.Stmt):  # type: ignore[misc]  # synr is untyped
    """A statement that was refused. ``names``: what it would have bound; ``returns``: it holds a return."""

    span: ast.Span
    names: Sequence[str]
    returns: bool


@attr.s(auto_attribs=True, frozen=True)
class Pass(ast.Stmt):  # type: ignore[misc]  # synr is untyped
    """``pass``, or a string that stands alone."""

    span: ast.Span


@attr.s(auto_attribs=True, frozen=True)
class Unpack(ast.Stmt):  # type: ignore[misc]  # synr is untyped
    """``a, (b, *c) = rhs`` and ``a = b = rhs``: each target is a Var or a Tuple of targets.

    One part of a Tuple may be Starred.
    """

    span: ast.Span
    targets: Sequence[ast.Expr]
    rhs: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class Definition(ast.Function):  # type: ignore[misc]  # synr is untyped
    """A function with the place of its name and its docstring."""

    span: ast.Span
    name: str
    params: list[ast.Parameter]
    ret_type: ast.Type | None
    body: ast.Block
    decorators: list[ast.Expr]
    name_span: ast.Span
    docstring: str | None
