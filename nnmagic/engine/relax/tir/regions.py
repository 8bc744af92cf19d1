"""Recognise assignments to a region of an array: choices between new elements and those of the array before.

``if_then_else(inside(i, start, length), new[i - start], old[i])`` has the region in plain sight, so that a
kernel that may change its array in place visits nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import ir, s_tir, sym, tirx

from nnmagic.engine.relax.tir.builders import as_expr, indices_are_axes, static_int
from nnmagic.engine.relax.tir.types import Extent, Index, Load, Node, PrimExpr, PrimFunc
from nnmagic.engine.relax.tir.visitors import rewrite

#: Marks a kernel that finds the array before in its result.
IN_PLACE = "nnmagic.in_place"

_INSIDE = "nnmagic.inside"
_EXTERN = ir.Op.get("tirx.call_pure_extern")
_CHOICE = ir.Op.get("prim.if_then_else")


@dataclass(frozen=True, slots=True)
class Region:
    """The elements ``start + i`` of axes that get a new value; an axis that is left out is whole."""

    new: PrimExpr
    old: Load
    spans: dict[Index, tuple[Index, Extent]]


def inside(index: Index, start: Index, length: Extent) -> PrimExpr:
    """Return whether an index is one of ``length`` from ``start`` on."""
    return tirx.call_pure_extern("bool", _INSIDE, as_expr(index), as_expr(start), as_expr(length))


def expand_regions(root: Node) -> Node:
    """Return a tree with comparisons for `inside`."""

    def expand(call: PrimExpr) -> PrimExpr:
        if not _is_inside(call):
            return call
        _, index, start, length = call.args
        # No index is at or behind the start and before an end that is before the start.
        length = length.a if _is_natural_part(length) else length
        return tirx.all(start <= index, index < start + length)

    return rewrite(root, [(ir.Call, expand)])


def region_of(value: PrimExpr, axes: Sequence[Index]) -> Region | None:
    """Return the region of a value that is assigned at ``axes``; None for another value."""
    if not isinstance(value, ir.Call) or value.op != _CHOICE:
        return None
    condition, new, old = value.args
    conjuncts, work = [], [condition]
    while work:
        part = work.pop()
        if isinstance(part, tirx.And):
            work += [part.a, part.b]
        else:
            conjuncts.append(part)
    if not all(map(_is_inside, conjuncts)) or not isinstance(old, ir.TensorLoad):
        return None
    if not indices_are_axes(old.indices, axes):
        return None
    return Region(
        new, old, {conjunct.args[1]: (conjunct.args[2], conjunct.args[3]) for conjunct in conjuncts}
    )


def last_store(kernel: PrimFunc) -> tirx.BufferStore | None:
    """Return the store that a kernel's last block is; None for other blocks."""
    node = getattr(getattr(kernel.body, "block", None), "body", None)
    while isinstance(node, tirx.SeqStmt | tirx.For | s_tir.SBlockRealize):
        match node:
            case tirx.SeqStmt():
                node = node.seq[-1]
            case tirx.For():
                node = node.body
            case _:
                node = node.block.body
    return node if isinstance(node, tirx.BufferStore) else None


def is_open(region: Region, extents: Mapping[Index, Extent]) -> bool:
    """Return whether it is not known at compile time how far a region is from both ends of its axes."""
    return any(
        static_int(start) is None or not (static_int(length) is not None or _is_rest(length, extents[axis]))
        for axis, (start, length) in region.spans.items()
    )


def _is_rest(length: Extent, extent: Extent) -> bool:
    """Return whether a length is that of an axis without a known number of elements."""
    if not _is_natural_part(length):
        return False
    return static_int(sym.Analyzer().simplify(as_expr(extent) - length.a)) is not None


def _is_natural_part(length: Extent) -> bool:
    """Return whether a length is 0 where it would be negative."""
    return isinstance(length, tirx.Max) and static_int(length.b) == 0


def _is_inside(node: Node) -> bool:
    return isinstance(node, ir.Call) and node.op == _EXTERN and node.args[0].value == _INSIDE
