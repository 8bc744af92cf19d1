"""Define the patterns: the whole language on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.relay.expr import Expr
from nnmagic.relay.ops.declaration import OPERATORS
from nnmagic.relay.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A description of expressions. Patterns compare by identity, as the nodes that they match do."""

    def __call__(self, *args: Pattern) -> Pattern:
        """Return a pattern of calls: of this operator or function on these arguments."""
        return CallPattern(self, _patterns(args))

    def __or__(self, other: Pattern) -> Pattern:
        """Return a pattern that matches what either matches; the left one is tried first."""
        return Either(self, _pattern(other))

    def __add__(self, other: Pattern) -> Pattern:
        """Return the pattern of an ``add``."""
        return is_op("add")(self, other)

    def __sub__(self, other: Pattern) -> Pattern:
        """Return the pattern of a ``subtract``."""
        return is_op("subtract")(self, other)

    def __mul__(self, other: Pattern) -> Pattern:
        """Return the pattern of a ``multiply``."""
        return is_op("multiply")(self, other)

    def __truediv__(self, other: Pattern) -> Pattern:
        """Return the pattern of a ``divide``."""
        return is_op("divide")(self, other)

    def has_attr(self, **attrs: object) -> Pattern:
        """Match only calls with these attributes, or functions: ``is_op("sum")(x).has_attr(axis=(1,))``."""
        return HasAttrs(self, tuple((name, _plain(value)) for name, value in attrs.items()))

    def has_type(self, type_: Type) -> Pattern:
        """Match only expressions of a type. The program must be typed, here and for shapes and dtypes."""
        return HasType(self, type_)

    def has_shape(self, shape: Sequence[int | None]) -> Pattern:
        """Match only tensors of a shape, where None stands for any size: ``has_shape((None, 4))``."""
        return HasShape(self, tuple(shape))

    def has_dtype(self, dtype: str) -> Pattern:
        """Match only tensors of a dtype: ``has_dtype("float32")``."""
        return HasDtype(self, dtype)

    def where(self, condition: Callable[[Expr], bool]) -> Pattern:
        """Match only expressions for which a function is true."""
        return Where(self, condition)

    def optional(self, around: Callable[[Pattern], Pattern]) -> Pattern:
        """Match what ``around`` makes of this pattern, or this pattern alone.

        ``is_op("add")(x, y).optional(is_op("nn.relu"))`` is an addition, with a relu around it or without.
        """
        return Either(around(self), self)

    def dominates(self, child: Pattern, path: Pattern | None = None) -> Pattern:
        """Match ``child`` if it depends on this pattern, and every node in between matches ``path``.

        What depends on nothing that matches this pattern may be anything.
        """
        return Dominates(self, wildcard() if path is None else _pattern(path), _pattern(child))


@dataclass(frozen=True, slots=True, eq=False)
class Wildcard(Pattern):
    """Anything."""


@dataclass(frozen=True, slots=True, eq=False)
class IsExpr(Pattern):
    """One node."""

    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class IsVar(Pattern):
    """A variable, of a name if there is one."""

    name: str | None


@dataclass(frozen=True, slots=True, eq=False)
class IsConstant(Pattern):
    """A constant, of a value if there is one."""

    value: np.ndarray | None


@dataclass(frozen=True, slots=True, eq=False)
class IsOp(Pattern):
    """An operator, in callee position."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallPattern(Pattern):
    """A call."""

    op: Pattern
    args: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TuplePattern(Pattern):
    """A tuple, of these fields if they are given."""

    fields: tuple[Pattern, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class TupleGetItemPattern(Pattern):
    """A projection, of an index if there is one."""

    tuple_value: Pattern
    index: int | None


@dataclass(frozen=True, slots=True, eq=False)
class IfPattern(Pattern):
    """An ``if``."""

    cond: Pattern
    true_branch: Pattern
    false_branch: Pattern


@dataclass(frozen=True, slots=True, eq=False)
class LetPattern(Pattern):
    """A ``let``."""

    var: Pattern
    value: Pattern
    body: Pattern


@dataclass(frozen=True, slots=True, eq=False)
class Either(Pattern):
    """One of two patterns."""

    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True, eq=False)
class HasAttrs(Pattern):
    """A pattern with attributes."""

    pattern: Pattern
    attrs: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, eq=False)
class HasType(Pattern):
    """A pattern with a type."""

    pattern: Pattern
    type_: Type


@dataclass(frozen=True, slots=True, eq=False)
class HasShape(Pattern):
    """A pattern with a shape."""

    pattern: Pattern
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HasDtype(Pattern):
    """A pattern with a dtype."""

    pattern: Pattern
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Where(Pattern):
    """A pattern with a condition."""

    pattern: Pattern
    condition: Callable[[Expr], bool] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Dominates(Pattern):
    """A child that depends on a parent through a path alone."""

    parent: Pattern
    path: Pattern
    child: Pattern


def wildcard() -> Pattern:
    """Return a pattern that matches anything; what it matched is found under it."""
    return Wildcard()


def is_expr(expr: Expr) -> Pattern:
    """Return a pattern that matches one node."""
    return IsExpr(expr)


def is_var(name: str | None = None) -> Pattern:
    """Return a pattern of variables, of those of one name if there is one."""
    return IsVar(name)


def is_constant(value: object = None) -> Pattern:
    """Return a pattern of constants, of those equal to ``value`` everywhere if there is one.

    ``is_constant(0)`` matches a tensor of zeros of any shape and dtype.
    """
    return IsConstant(None if value is None else np.asarray(value))


def is_op(*names: str) -> Pattern:
    """Return a pattern of operators: ``is_op("nn.relu")(x)`` is a call, of any of several names.

    Raises ValueError for the name of no operator.
    """
    for name in names:
        if name not in OPERATORS:
            from nnmagic.diagnostics import closest

            close = closest(name, OPERATORS)
            raise ValueError(f"there is no operator {name!r}" + (f"; did you mean {close}?" if close else ""))
    if not names:
        raise ValueError("is_op needs the name of an operator")
    return IsOp(names)


def is_tuple(fields: Sequence[Pattern] | None = None) -> Pattern:
    """Return a pattern of tuples, of those with these fields if they are given."""
    return TuplePattern(None if fields is None else _patterns(fields))


def is_tuple_get_item(value: Pattern, index: int | None = None) -> Pattern:
    """Return a pattern of projections, of those with an index if there is one."""
    return TupleGetItemPattern(_pattern(value), index)


def is_if(cond: Pattern, true_branch: Pattern, false_branch: Pattern) -> Pattern:
    """Return a pattern of ``if``."""
    return IfPattern(*_patterns((cond, true_branch, false_branch)))


def is_let(var: Pattern, value: Pattern, body: Pattern) -> Pattern:
    """Return a pattern of ``let``."""
    return LetPattern(*_patterns((var, value, body)))


def _patterns(given: Sequence[Pattern]) -> tuple[Pattern, ...]:
    return tuple(map(_pattern, given))


def _pattern(given: object) -> Pattern:
    if not isinstance(given, Pattern):
        raise TypeError(f"a pattern is made of patterns, not of {kind_of(given)}: is_expr(…) matches a node")
    return given


def _plain(value: object) -> object:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
