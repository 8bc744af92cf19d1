"""Define the patterns: the whole language on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.diagnostics import closest, kind_of
from nnmagic.relay.expr import Call, Constant, Expr, Function, If, Let, OpRef, Tuple, TupleGetItem, Var
from nnmagic.relay.ops.declaration import OPERATORS, Trait
from nnmagic.relay.types import TensorType, Type

#: What must match so that a pattern does.
Goals = Sequence[tuple["Pattern", Expr]]
#: Returns the ways in which a pattern may match a node: what must match then.
Ways = Callable[[Expr], Sequence[Goals]]

_FAILS: Sequence[Goals] = ()
_HOLDS: Sequence[Goals] = ((),)


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A description of expressions. Patterns compare by identity, as the nodes that they match do.

    Attributes:
        kind: what it is, for error messages.
        ways: how it may match a node, apart from what its parts say.
        is_structure: whether it describes the node itself, which a wildcard or a variable does not.
        dominator: the pattern on which this one depends through others.

    """

    kind: str
    ways: Ways = field(repr=False)
    is_structure: bool = field(default=False, repr=False)
    dominator: Pattern | None = field(default=None, repr=False)

    def __call__(self, *args: Pattern) -> Pattern:
        """Return a pattern of calls: of this operator or function on these arguments."""
        wanted = _patterns(args)

        def ways(expr: Expr) -> Sequence[Goals]:
            if not isinstance(expr, Call) or len(expr.args) != len(wanted):
                return _FAILS
            straight = [(self, expr.op), *zip(wanted, expr.args, strict=True)]
            operator = OPERATORS.get(expr.op.name) if isinstance(expr.op, OpRef) else None
            commutes = operator is not None and Trait.COMMUTATIVE in operator.traits
            if commutes and expr.args[0] is not expr.args[1]:
                return [straight, [(self, expr.op), *zip(wanted, expr.args[::-1], strict=True)]]
            return [straight]

        return Pattern("call", ways, is_structure=True)

    def __or__(self, other: Pattern) -> Pattern:
        """Return a pattern that matches what either matches; the left one is tried first."""
        right = _pattern(other)
        return Pattern("|", lambda expr: [[(self, expr)], [(right, expr)]])

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
        wanted = {name: _plain(value) for name, value in attrs.items()}

        def holds(expr: Expr) -> bool:
            own = expr.attrs if isinstance(expr, Call | Function) else {}
            return all(name in own and _same(own[name], value) for name, value in wanted.items())

        return self.where(lambda expr: isinstance(expr, Call | Function) and holds(expr))

    def has_type(self, type_: Type) -> Pattern:
        """Match only expressions of a type. The program must be typed, here and for shapes and dtypes."""
        return self.where(lambda expr: expr.checked_type == type_)

    def has_shape(self, shape: Sequence[int | None]) -> Pattern:
        """Match only tensors of a shape, where None stands for any size: ``has_shape((None, 4))``."""
        wanted = tuple(shape)

        def holds(expr: Expr) -> bool:
            type_ = _tensor_type(expr)
            if type_ is None or len(type_.shape) != len(wanted):
                return False
            return all(size in (None, dim) for size, dim in zip(wanted, type_.shape, strict=True))

        return self.where(holds)

    def has_dtype(self, dtype: str) -> Pattern:
        """Match only tensors of a dtype: ``has_dtype("float32")``."""
        return self.where(lambda expr: (type_ := _tensor_type(expr)) is not None and type_.dtype == dtype)

    def where(self, condition: Callable[[Expr], bool]) -> Pattern:
        """Match only expressions for which a function is true."""
        return Pattern("where", lambda expr: [[(self, expr)]] if condition(expr) else _FAILS)

    def optional(self, around: Callable[[Pattern], Pattern]) -> Pattern:
        """Match what ``around`` makes of this pattern, or this pattern alone.

        ``is_op("add")(x, y).optional(is_op("nn.relu"))`` is an addition, with a relu around it or without.
        """
        return around(self) | self

    def dominates(self, child: Pattern, path: Pattern | None = None) -> Pattern:
        """Match ``child`` if it depends on this pattern, and every node in between matches ``path``.

        What depends on nothing that matches this pattern may be anything.
        """
        from nnmagic.relay.patterns.matching import dominators

        between, own = wildcard() if path is None else _pattern(path), _pattern(child)

        def ways(expr: Expr) -> Sequence[Goals]:
            return [[(own, expr), (self, node)] for node in dominators(self, between, expr)]

        return Pattern("dominates", ways, dominator=self)


def wildcard() -> Pattern:
    """Return a pattern that matches anything; what it matched is found under it."""
    return Pattern("wildcard", lambda _expr: _HOLDS)


def is_expr(expr: Expr) -> Pattern:
    """Return a pattern that matches one node."""
    return Pattern("is_expr", lambda node: _HOLDS if node is expr else _FAILS)


def is_var(name: str | None = None) -> Pattern:
    """Return a pattern of variables, of those of one name if there is one."""

    def holds(expr: Expr) -> bool:
        return isinstance(expr, Var) and name in (None, expr.name_hint)

    return Pattern("is_var", lambda expr: _HOLDS if holds(expr) else _FAILS)


def is_constant(value: object = None) -> Pattern:
    """Return a pattern of constants, of those equal to ``value`` everywhere if there is one.

    ``is_constant(0)`` matches a tensor of zeros of any shape and dtype.
    """
    wanted = None if value is None else np.asarray(value)

    def holds(expr: Expr) -> bool:
        if not isinstance(expr, Constant) or wanted is None:
            return isinstance(expr, Constant)
        fits = expr.data.shape == wanted.shape if expr.data.size == 0 or wanted.ndim > 0 else True
        return fits and bool(np.all(expr.data == wanted))

    return Pattern("is_constant", lambda expr: _HOLDS if holds(expr) else _FAILS, is_structure=True)


def is_op(*names: str) -> Pattern:
    """Return a pattern of operators: ``is_op("nn.relu")(x)`` is a call, of any of several names.

    Raises ValueError for the name of no operator.
    """
    for name in names:
        if name not in OPERATORS:
            close = closest(name, OPERATORS)
            raise ValueError(f"there is no operator {name!r}" + (f"; did you mean {close}?" if close else ""))
    if not names:
        raise ValueError("is_op needs the name of an operator")

    def ways(expr: Expr) -> Sequence[Goals]:
        return _HOLDS if isinstance(expr, OpRef) and expr.name in names else _FAILS

    return Pattern("is_op", ways, is_structure=True)


def is_tuple(fields: Sequence[Pattern] | None = None) -> Pattern:
    """Return a pattern of tuples, of those with these fields if they are given."""
    return _node("is_tuple", Tuple, fields, lambda expr: expr.fields)


def is_tuple_get_item(value: Pattern, index: int | None = None) -> Pattern:
    """Return a pattern of projections, of those with an index if there is one."""
    items = _node("is_tuple_get_item", TupleGetItem, [value], lambda expr: [expr.tuple_value])
    return items if index is None else items.where(lambda expr: getattr(expr, "index", None) == index)


def is_if(cond: Pattern, true_branch: Pattern, false_branch: Pattern) -> Pattern:
    """Return a pattern of ``if``."""
    parts = [cond, true_branch, false_branch]
    return _node("is_if", If, parts, lambda expr: [expr.cond, expr.true_branch, expr.false_branch])


def is_let(var: Pattern, value: Pattern, body: Pattern) -> Pattern:
    """Return a pattern of ``let``."""
    return _node("is_let", Let, [var, value, body], lambda expr: [expr.var, expr.value, expr.body])


def _node(
    kind: str,
    node: type[Expr],
    patterns: Sequence[Pattern] | None,
    operands_of: Callable[..., Sequence[Expr]],
) -> Pattern:
    """Return a pattern of nodes of a class with these parts; None are any."""
    wanted = None if patterns is None else _patterns(patterns)

    def ways(expr: Expr) -> Sequence[Goals]:
        if not isinstance(expr, node) or (wanted is not None and len(operands_of(expr)) != len(wanted)):
            return _FAILS
        return _HOLDS if wanted is None else [list(zip(wanted, operands_of(expr), strict=True))]

    return Pattern(kind, ways, is_structure=True)


def _patterns(given: Sequence[Pattern]) -> tuple[Pattern, ...]:
    return tuple(map(_pattern, given))


def _pattern(operand: object) -> Pattern:
    if not isinstance(operand, Pattern):
        raise TypeError(
            f"a pattern is made of patterns, not of {kind_of(operand)}: is_expr(…) matches a node"
        )
    return operand


def _plain(value: object) -> object:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _same(node: object, wanted: object) -> bool:
    return isinstance(node, bool) == isinstance(wanted, bool) and node == wanted


def _tensor_type(expr: Expr) -> TensorType | None:
    type_ = expr.checked_type
    if type_ is None and isinstance(expr, Constant):
        return expr.tensor_type
    return type_ if isinstance(type_, TensorType) else None
