"""Fold assignments to one region of an array: only the last one is made.

``s[1:-1] += a; s[1:-1] += b`` reads what it has just assigned, and assigns all of it again. Folded, it adds
``a`` and ``b`` to the elements that were there, and assigns the sum: one pass over the array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from nnmagic.relay.expr import Call, Constant, Expr, Function, Let, call_of, children, operator_of
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import map_functions, substitute
from nnmagic.relay.passes.scopes import scopes_of
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import ANY, AnyDim, TensorType

#: By axis, the begin, end and step of a region that leaves something out; or the operands that say so.
_Region: TypeAlias = Mapping[int, tuple[int, int, int]] | tuple[Expr, ...]

#: The end of a slice that is beyond that of any axis.
_FAR = 2**48


def fold_assignments(module: Module) -> Module:
    """Leave out assignments to a region of an array all of which is assigned again, and read in no other way.

    What reads the region in between gets the elements that were assigned. Types are kept.
    """
    return map_functions(module, _fold_function)


def _fold_function(function: Function) -> Function:
    nodes = list(post_order(function))
    assignments = [node for node in nodes if isinstance(node, Call) and operator_of(node) == "strided_set"]
    if len(assignments) < 2:
        return function
    users = _users(nodes)
    scope_of = scopes_of(function).scope_of
    replaced: dict[Expr, Expr] = {}
    #: The arrays before the assignments that are folded into one.
    before: dict[Expr, Expr] = {}
    for assignment in assignments:
        data, value, *bounds = assignment.args
        start = before.get(assignment, data)
        last = _fold(assignment, value, _region(bounds), users)
        if last is not None and scope_of[last[0]] is scope_of[assignment]:
            before[last[0]] = start
            replaced |= dict.fromkeys(last[1], value)
        elif start is not data:
            replaced[assignment] = replace(assignment, args=(start, *assignment.args[1:]))
    if not before:
        return function
    return substitute(function, replaced)


def _users(nodes: Sequence[Expr]) -> dict[Expr, list[Expr]]:
    """Return what uses each node, also by the name that a let gives it; a let that ends with it, too."""
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        for part in (node.body,) if isinstance(node, Let) else children(node):
            users.setdefault(part, []).append(node)
    for let in nodes:
        if isinstance(let, Let):
            users.setdefault(let.value, []).extend(users.setdefault(let.var, []))
            users[let.var] = users[let.value]
    return users


def _fold(
    assignment: Call, value: Expr, region: _Region | None, users: Mapping[Expr, Sequence[Expr]]
) -> tuple[Call, list[Expr]] | None:
    """Return the assignment that an assignment is folded into, and the reads of what it assigns."""
    following: list[Call] = []
    reads: list[Expr] = []
    own = users.get(assignment, ())
    for user in own:
        # What changes the array is no assignment of it to a part of another one; names have its users, too.
        change = call_of(user, "strided_set")
        if change and users[change.args[0]] is own and change.args[1] not in reads:
            following.append(change)
            continue
        reads_ = _reads_of(user, region, users)
        if not all(_has_type(value, read) for read in reads_) or not reads_:
            return None
        reads += reads_
    if region is None or len(following) != 1 or _region(following[0].args[2:]) != region:
        return None
    return (following[0], reads) if _fits(value) else None


def _has_type(value: Expr, read: Expr) -> bool:
    """Return whether a value has the type of a read, but for the labels of dimensions."""
    one, other = value.checked_type, read.checked_type
    if not isinstance(one, TensorType) or not isinstance(other, TensorType) or one.dtype != other.dtype:
        return False
    pairs = list(zip(one.shape, other.shape, strict=False))
    same = all(a == b or (isinstance(a, AnyDim) and isinstance(b, AnyDim)) for a, b in pairs)
    return same and len(one.shape) == len(other.shape)


def _fits(value: Expr) -> bool:
    """Return whether a value certainly has the shape of the region that it is assigned to."""
    type_ = value.checked_type
    is_known = isinstance(type_, TensorType) and ANY not in type_.shape
    return is_known or operator_of(value) in ("broadcast_to_like", "full_like")


def _reads_of(user: Expr, region: _Region | None, users: Mapping[Expr, Sequence[Expr]]) -> list[Expr]:
    """Return the slices of a region, in one step or two, that a slice of the whole array begins."""
    if dynamic := call_of(user, "dyn.strided_slice"):
        return [user] if _region(dynamic.args[1:]) == region else []
    first = _slices(user)
    if first is None:
        return []
    if first == region:
        return [user]
    following = users.get(user, ())
    both = [_compose(first, _slices(binding)) for binding in following]
    return list(following) if both and all(binding == region for binding in both) else []


def _region(bounds: Sequence[Expr]) -> _Region | None:
    """Return the region that vectors of begins, ends and steps say."""
    if not all(isinstance(bound, Constant) for bound in bounds):
        return tuple(bounds)
    vectors = [[int(item) for item in bound.data] for bound in bounds if isinstance(bound, Constant)]
    if len({len(vector) for vector in vectors}) != 1:
        return None
    return _without_whole(dict(enumerate(zip(*vectors, strict=True))))


def _slices(node: Expr) -> dict[int, tuple[int, int, int]] | None:
    """Return the region that a slice takes of its operand."""
    call = call_of(node, "strided_slice")
    if call is None or call.attrs["slice_mode"] != "end":
        return None
    axes, *bounds = (call.attrs[name] for name in ("axes", "begin", "end", "strides"))
    vectors = [operand for operand in (axes, *bounds) if isinstance(operand, tuple)]
    if len(vectors) != 4 or len({len(vector) for vector in vectors}) != 1:
        return None
    return _without_whole({axis: slice_ for axis, *slice_ in zip(*vectors, strict=True)})


def _without_whole(slices: Mapping[int, Sequence[object]]) -> dict[int, tuple[int, int, int]] | None:
    regions = {}
    for axis, slice_ in slices.items():
        begin, end, step = (number for number in slice_ if isinstance(number, int))
        if axis < 0:
            return None
        if (begin, step) != (0, 1) or end < _FAR:
            regions[axis] = begin, min(end, _FAR), step
    return regions


def _compose(
    first: Mapping[int, tuple[int, int, int]], second: Mapping[int, tuple[int, int, int]] | None
) -> dict[int, tuple[int, int, int]] | None:
    """Return the region of two slices, of which the first one cuts at the end, the second at the begin."""
    if second is None:
        return None
    both = dict(first)
    for axis, (begin, end, step) in second.items():
        before = both.get(axis, (0, _FAR, 1))
        if before[0] != 0 or before[2] != 1 or end != _FAR or begin < 0 or step < 1:
            return None
        both[axis] = begin, before[1], step
    return both
