"""Split the loops of a stage where conditions change, and where indices are divided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvm import ir, sym, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.elementwise.nests import Inlining, NestBuilder, is_small
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import (
    are_equal,
    as_expr,
    as_index,
    collect_loads,
    dtype_of,
    static_int,
)
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import collect, visit

#: More pieces of a loop nest than this are not worth their code.
_MOST_PIECES = 9

#: How many loops of a nest are split because indices are divided.
_MOST_SPLITS = 3

#: What is known of a dynamic dimension.
_SIZE = sym.ConstIntBound(0, sym.ConstIntBound.POS_INF)

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_MIRRORED = {tirx.LT: tirx.GT, tirx.GT: tirx.LT, tirx.LE: tirx.GE, tirx.GE: tirx.LE}


def build_pieces(stage: Stage, extents: Sequence[Extent], inlining: Inlining) -> list[NestBuilder]:
    """Build the loops of a stage: cut where conditions on indices change, split where indices are divided."""
    nest = NestBuilder(stage, inlining, [[as_expr(0), extent] for extent in extents])
    if not nest.conditions:
        return [_split_divided_loops(nest)]
    # Cuts of several axes multiply: padding two axes at both ends makes 3 * 3 pieces, one more axis
    # 27.
    for clamped in (True, False):
        cuts = _find_cuts(nest, extents, clamped=clamped)
        if math.prod(len(points) - 1 for points in cuts) <= _MOST_PIECES:
            break
    else:
        return [nest]
    builders = []
    for parts in itertools.product(*(enumerate(itertools.pairwise(points)) for points in cuts)):
        ranges = [[begin.place, _difference(end.place, begin.place)] for _, (begin, end) in parts]
        # Cuts at equal points, as padding of width 0 has, enclose nothing.
        if any(static_int(size) == 0 for _, size in ranges):
            continue
        sides = [
            ([cut.point for cut in points[1 : number + 1]], points[number + 1].point)
            for points, (number, _) in zip(cuts, parts, strict=True)
        ]
        builders.append(_split_divided_loops(NestBuilder(stage, inlining, ranges, sides)))
    return builders


class _Cut(NamedTuple):
    """A place of an axis at which its loops are cut, and the point that this stands for.

    Where the order of points is not known, a place is in the axis and behind the places before it.
    """

    place: Index
    point: Index


def _difference(end: Index, begin: Index) -> Index:
    difference = end - begin
    return difference if static_int(difference) is not None else sym.Analyzer().simplify(difference)


def _find_cuts(builder: NestBuilder, extents: Sequence[Extent], *, clamped: bool) -> list[list[_Cut]]:
    """Return where to cut each axis, from its begin to its end: no condition changes within a piece.

    clamped: whether it is cut at points whose order is not known, too.
    """
    points: dict[Var, _Points] = {var: _Points(extent) for var, extent in builder.loops}
    for condition in builder.conditions:
        visit(condition, [(_COMPARISONS, lambda comparison: _add_points(comparison, points))])
    cuts, loops = [], iter(builder.loops)
    for extent in extents:
        inner: list[_Cut] = []
        if static_int(extent) != 1:
            var, _ = next(loops)
            inner = points[var].ordered(clamped=clamped)
        cuts.append([_Cut(as_expr(0), 0), *inner, _Cut(extent, extent)])
    return cuts


class _Points:
    """Points within an axis; those of dynamic sizes count where their order is provable."""

    def __init__(self, extent: Extent) -> None:
        self._extent = as_index(extent)
        self._static: set[int] = set()
        self._dynamic: list[PrimExpr] = []

    def add(self, point: Index) -> None:
        """Add a point."""
        if isinstance(point, int):
            self._static.add(point)
        elif not any(are_equal(point, other) for other in self._dynamic):
            self._dynamic.append(point)

    def ordered(self, *, clamped: bool) -> list[_Cut]:
        """Return the points inside of the axis, in order."""
        if isinstance(self._extent, int) and not self._dynamic:
            return [_Cut(as_expr(point), point) for point in sorted(self._static) if 0 < point < self._extent]
        candidates = [*sorted(point for point in self._static if point > 0), *self._dynamic]
        analyzer = sym.Analyzer()
        for expr in map(as_expr, (self._extent, *candidates)):
            visit(expr, [(ir.Var, lambda var: analyzer.update(var, _SIZE))])

        def precedes(lhs: Index, rhs: Index) -> bool:
            condition = as_expr(lhs) <= as_expr(rhs)
            return is_small(condition) and analyzer.can_prove(condition)

        order: list[Index] = []
        candidates = [
            point for point in candidates if not (precedes(point, 0) or precedes(self._extent, point))
        ]
        for point in candidates:
            if not precedes(0, point) or not precedes(point, self._extent):
                continue
            behind = [number for number, other in enumerate(order) if not precedes(other, point)]
            # Points of dynamic sizes are inserted only where their order is proven: with n before m
            # unknown, pieces from n to m might have a negative extent.
            place = behind[0] if behind else len(order)
            if all(precedes(point, other) for other in order[place:]):
                order.insert(place, point)
        if not clamped or len(order) == len(candidates):
            return [_Cut(as_expr(point), point) for point in order]
        cuts = [_Cut(as_expr(0), 0)]
        for point in candidates:
            within = tirx.min(as_expr(point), as_expr(self._extent))
            cuts.append(_Cut(analyzer.simplify(tirx.max(within, cuts[-1].place)), point))
        return cuts[1:]


def _add_points(comparison: PrimExpr, points: Mapping[Var, _Points]) -> None:
    """Add the points where a comparison of one loop variable with a number changes."""
    if not dtype_of(comparison.a).startswith("int"):
        return
    variables = list(points)
    coefficients = detect_linear_equation(comparison.a - comparison.b, variables)
    if not coefficients:
        return
    *factors, constant = [static_int(coefficient) for coefficient in coefficients]
    used = [number for number, factor in enumerate(factors) if factor != 0]
    # A condition on two axes, such as i < j, changes along a diagonal: no cut of one axis decides
    # it.
    if len(used) != 1:
        return
    factor, kind = factors[used[0]], type(comparison)
    if factor is None:
        return
    changes = points[variables[used[0]]]
    if constant is None:
        # An axis and a size: the sides of the point belong to different pieces, whatever the comparison is.
        if (
            factor in (1, -1)
            and dtype_of(coefficients[-1]) == "int64"
            and not collect_loads(coefficients[-1])
        ):
            point = sym.Analyzer().simplify(coefficients[-1] * -factor)
            if kind in (tirx.EQ, tirx.NE):
                changes.add(point)
            changes.add(point if _changes_before(kind, factor) else sym.Analyzer().simplify(point + 1))
        return
    if factor < 0:
        factor, constant, kind = -factor, -constant, _MIRRORED.get(kind, kind)
    if kind not in (tirx.GT, tirx.LE):
        changes.add(-(constant // factor))  # the first index where the difference is not below 0
    if kind not in (tirx.GE, tirx.LT):
        changes.add((-constant) // factor + 1)  # the first where it is above 0


def _changes_before(kind: type[PrimExpr], factor: int) -> bool:
    """Return whether ``factor * axis + constant`` compared with 0 changes before the axis makes it 0."""
    return (_MIRRORED.get(kind, kind) if factor < 0 else kind) in (tirx.GE, tirx.LT)


def _linear_parts(expr: PrimExpr, variables: Sequence[Var]) -> list[int | None]:
    """Return the factors of the variables and the constant, None where not static; empty if not linear."""
    return [static_int(part) for part in detect_linear_equation(expr, list(variables))]


def _split_divided_loops(builder: NestBuilder) -> NestBuilder:
    """Split loops so that an index ``i // 4`` or ``i % 4`` becomes a loop variable."""
    for _ in range(_MOST_SPLITS):
        split = _find_split(builder)
        if split is None:
            break
        builder = _split_loop(builder, *split)
    return builder


def _split_loop(builder: NestBuilder, number: int, factor: int) -> NestBuilder:
    """Split the loop of this number into two, of which the inner one has ``factor`` as its extent."""
    first = 0
    ranges = list(builder.ranges)
    for axis, (begin, *extents) in enumerate(ranges):
        loops = [position for position, extent in enumerate(extents) if static_int(extent) != 1]
        if first <= number < first + len(loops):
            position = loops[number - first]
            total = static_int(extents[position])
            assert total is not None
            parts = [as_expr(total // factor), as_expr(factor)]
            ranges[axis] = [begin, *extents[:position], *parts, *extents[position + 1 :]]
            break
        first += len(loops)
    return NestBuilder(builder.stage, builder.inlining, ranges, builder.sides)


def _find_split(builder: NestBuilder) -> tuple[int, int] | None:
    """Find a loop to split because of a division: its number, and the extent of the inner loop."""
    variables = [var for var, _ in builder.loops]
    offsets = (each for each in builder.nest.offsets() if not detect_linear_equation(each, variables))
    for division in collect((tirx.FloorDiv, tirx.FloorMod), *offsets):
        parts, divisor = _linear_parts(division.a, variables), static_int(division.b)
        if not parts or divisor is None:
            continue
        for number, (index_piece, (_, extent)) in enumerate(zip(parts, builder.loops, strict=False)):
            size = static_int(extent)
            if index_piece is None or size is None or index_piece <= 0 or divisor % index_piece:
                continue
            factor = divisor // index_piece
            # Only loops that divide evenly: a rest would need a piece of its own.
            if 1 < factor < size and size % factor == 0:
                return number, factor
    return None
