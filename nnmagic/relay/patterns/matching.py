"""Match patterns by backtracking over an explicit stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import OPERATORS, Trait
from nnmagic.relay.passes.scopes import is_opaque, opaque_functions
from nnmagic.relay.patterns.language import (
    CallPattern,
    Dominates,
    Either,
    HasAttrs,
    HasDtype,
    HasShape,
    HasType,
    IfPattern,
    IsConstant,
    IsExpr,
    IsOp,
    IsVar,
    LetPattern,
    Pattern,
    TupleGetItemPattern,
    TuplePattern,
    Where,
    Wildcard,
)
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import TensorType

#: What is left to match: the first pair, and the rest.
_Goals = tuple[tuple[Pattern, Expr], "_Goals"] | None
#: The ways in which a pattern may match a node: what must match then.
_Ways = Sequence[Sequence[tuple[Pattern, Expr]]]

_FAILS: _Ways = ()
_HOLDS: _Ways = ((),)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What a pattern matched. ``match[part]`` is the node that a part of the pattern stands for.

    Attributes:
        expr: the node that the whole pattern matched.
        nodes: what each part matched; a part in a branch of ``|`` that was not taken has none.

    """

    expr: Expr
    nodes: Mapping[Pattern, Expr] = field(repr=False)

    def __getitem__(self, part: Pattern) -> Expr:
        """Return the node that a part of the pattern matched. Raises KeyError if it matched none."""
        if part not in self.nodes:
            raise KeyError(f"this part of the pattern matched nothing here: {part!r}")
        return self.nodes[part]

    def __contains__(self, part: object) -> bool:
        return part in self.nodes

    def get(self, part: Pattern) -> Expr | None:
        """Return the node that a part of the pattern matched, or None."""
        return self.nodes.get(part)

    @property
    def covered(self) -> frozenset[Expr]:
        """The nodes that the pattern describes, without those that stand for a wildcard or a variable."""
        covered = {node for part, node in self.nodes.items() if isinstance(part, _STRUCTURES)}
        for part, node in self.nodes.items():
            if isinstance(part, Dominates):
                covered |= _between(node, self.nodes[part.parent])
        return frozenset(covered)


_STRUCTURES = (CallPattern, TuplePattern, TupleGetItemPattern, IfPattern, LetPattern, IsOp, IsConstant)


def match(pattern: Pattern, expr: Expr) -> Match | None:
    """Return how a pattern matches an expression, or None."""
    nodes: dict[Pattern, Expr] = {}
    bound: list[Pattern] = []
    goals: _Goals = ((pattern, expr), None)
    choices: list[tuple[_Goals, int]] = []
    while goals is not None:
        (part, node), goals = goals
        if part in nodes:
            ways = _HOLDS if nodes[part] is node else _FAILS
        else:
            nodes[part] = node
            bound.append(part)
            ways = _ways(part, node)
        if ways:
            choices.extend((_with(way, goals), len(bound)) for way in reversed(ways[1:]))
            goals = _with(ways[0], goals)
            continue
        if not choices:
            return None
        goals, count = choices.pop()
        while len(bound) > count:
            del nodes[bound.pop()]
    return Match(expr, nodes)


def find(pattern: Pattern, program: Module | Expr) -> Iterator[Match]:
    """Yield every match in a module or an expression, operands before what uses them."""
    if isinstance(program, Module):
        roots = [function for function in program.functions.values() if not is_opaque(function)]
    else:
        roots = [program]  # type: ignore[list-item]  # any expression
    seen: set[Expr] = set()
    for root in roots:
        seen |= opaque_functions(root)
        for node in post_order(root, skip=seen):
            seen.add(node)
            found = match(pattern, node)
            if found is not None:
                yield found


def _with(way: Sequence[tuple[Pattern, Expr]], goals: _Goals) -> _Goals:
    for goal in reversed(way):
        goals = (goal, goals)
    return goals


def _ways(pattern: Pattern, expr: Expr) -> _Ways:
    """Return the ways in which a pattern may match a node, apart from what its parts say."""
    match pattern, expr:
        case Wildcard(), _:
            return _HOLDS
        case IsExpr(expr=wanted), _:
            return _HOLDS if wanted is expr else _FAILS
        case IsVar(name=name), Var(name_hint=hint):
            return _HOLDS if name in (None, hint) else _FAILS
        case IsConstant(value=value), Constant(data=data):
            return _HOLDS if value is None or _equal(data, value) else _FAILS
        case IsOp(names=names), OpRef(name=name):
            return _HOLDS if name in names else _FAILS
        case CallPattern(op=op, args=wanted_args), Call(op=callee, args=args):
            return _call_ways(op, wanted_args, callee, args)
        case TuplePattern(fields=None), Tuple():
            return _HOLDS
        case TuplePattern(fields=tuple() as wanted_fields), Tuple(fields=fields):
            return [_zip(wanted_fields, fields)] if len(fields) == len(wanted_fields) else _FAILS
        case TupleGetItemPattern(tuple_value=value, index=index), TupleGetItem():
            return [[(value, expr.tuple_value)]] if index in (None, expr.index) else _FAILS
        case IfPattern(), If():
            branches = (pattern.cond, pattern.true_branch, pattern.false_branch)
            return [_zip(branches, children(expr))]
        case LetPattern(), Let():
            return [_zip((pattern.var, pattern.value, pattern.body), (expr.var, expr.value, expr.body))]
        case Either(left=left, right=right), _:
            return [[(left, expr)], [(right, expr)]]
        case HasAttrs(pattern=part, attrs=attrs), Call() | Function():
            return [[(part, expr)]] if _has_attrs(expr.attrs, attrs) else _FAILS
        case HasType(pattern=part, type_=type_), _:
            return [[(part, expr)]] if expr.checked_type == type_ else _FAILS
        case HasShape(pattern=part, shape=shape), _:
            return [[(part, expr)]] if _has_shape(expr, shape) else _FAILS
        case HasDtype(pattern=part, dtype=dtype), _:
            tensor = _tensor_type(expr)
            return [[(part, expr)]] if tensor is not None and tensor.dtype == dtype else _FAILS
        case Where(pattern=part, condition=condition), _:
            return [[(part, expr)]] if condition(expr) else _FAILS
        case Dominates(parent=parent, path=path, child=child), _:
            return [[(child, expr), (parent, node)] for node in _parents(parent, path, expr)]
    return _FAILS


def _call_ways(op: Pattern, wanted: Sequence[Pattern], callee: Expr, args: Sequence[Expr]) -> _Ways:
    if len(wanted) != len(args):
        return _FAILS
    straight = [(op, callee), *_zip(wanted, args)]
    operator = OPERATORS.get(callee.name) if isinstance(callee, OpRef) else None
    if operator is not None and Trait.COMMUTATIVE in operator.traits and args[0] is not args[1]:
        return [straight, [(op, callee), *_zip(wanted, args[::-1])]]
    return [straight]


def _zip(patterns: Sequence[Pattern], exprs: Sequence[Expr]) -> Sequence[tuple[Pattern, Expr]]:
    return list(zip(patterns, exprs, strict=True))


def _equal(data: np.ndarray, value: np.ndarray) -> bool:
    if data.size == 0 or value.ndim > 0:
        return data.shape == value.shape and bool(np.all(data == value))
    return bool(np.all(data == value))


def _has_attrs(attrs: Mapping[str, object], wanted: Sequence[tuple[str, object]]) -> bool:
    return all(name in attrs and _same(attrs[name], value) for name, value in wanted)


def _same(found: object, wanted: object) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def _tensor_type(expr: Expr) -> TensorType | None:
    type_ = expr.checked_type
    if type_ is None and isinstance(expr, Constant):
        return expr.tensor_type
    return type_ if isinstance(type_, TensorType) else None


def _has_shape(expr: Expr, shape: Sequence[int | None]) -> bool:
    type_ = _tensor_type(expr)
    if type_ is None or len(type_.shape) != len(shape):
        return False
    return all(size is None or size == dim for size, dim in zip(shape, type_.shape, strict=True))


def _parents(parent: Pattern, path: Pattern, child: Expr) -> list[Expr]:
    """Return the nodes that match ``parent`` and on which ``child`` depends through ``path`` alone."""
    candidates: dict[Expr, None] = {}
    work = list(reversed(children(child)))
    while work:
        node = work.pop()
        if node not in candidates and not isinstance(node, OpRef):
            candidates[node] = None
            if match(path, node) is not None:
                work.extend(reversed(children(node)))
    found = []
    for node in candidates:
        if match(parent, node) is not None:
            inner = _between(child, node)
            if all(match(path, each) is not None for each in inner):
                found.append(node)
    return found


def _between(child: Expr, parent: Expr) -> set[Expr]:
    """Return the nodes that ``child`` depends on and that depend on ``parent``, without these two."""
    dependent = {parent}
    for node in post_order(child):
        if any(part in dependent for part in children(node)):
            dependent.add(node)
    return dependent - {child, parent}
