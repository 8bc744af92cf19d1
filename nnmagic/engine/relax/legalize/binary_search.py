"""Search sorted elements by loops of our own: sixteen comparisons at a time, without branches.

The elements become a tree whose nodes are sixteen neighbours: each level has the last element of every node
below it but the last one. A value goes to the child after as many as are less than it. Knuth, The Art of
Computer Programming, volume 3, section 6.2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import tvm
from tvm import tirx, topi

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, branch, broadcast, dtype_of, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The elements of a node, and the most levels: of more elements than memory holds.
_NODE, _LEVELS = 16, 12

#: The values of a piece of work for a thread, and how many operations a search counts as.
_PIECE, _OPERATIONS = 1 << 12, 16

#: A tree is made for a value in so many elements; for fewer values halving the elements takes less time.
_ELEMENTS_OF_VALUE = 8

#: The statements that find a place, and the place.
Found: TypeAlias = tuple[list[Stmt], PrimExpr]


def find_places(ordered: Tensor, values: Tensor, *, right: bool, dtype: str) -> Tensor:
    """Return for each value how many elements come before it, those that are equal to it too with ``right``.

    Of several axes of the elements the last one is searched, for the values of the same position.
    """
    search, operands = partial(_search_rows, right=right), [widen(ordered), widen(values)]
    return independent_kernel(search, [(values.shape, dtype)], operands, "search")


def widen(data: Tensor) -> Tensor:
    """Return bfloat16 as float32, of which loops have views."""
    return topi.cast(data, "float32") if scalar_functions.dtype_of(data) == "bfloat16" else data


def _search_rows(ordered: Buffer, values: Buffer, result: Buffer, *, right: bool) -> Stmt:
    length = builders.as_index(ordered.ty.shape[-1])
    flat, views = zip(*map(builders.flat_view, (ordered, values, result)), strict=True)
    elements, wanted, places = flat
    rows: Extent = 1
    count = builders.product(values.ty.shape)
    if len(ordered.ty.shape) > 1:
        rows, count = builders.product(values.ty.shape[:-1]), builders.as_index(values.ty.shape[-1])

    def search_row(row: PrimExpr) -> Stmt:
        tree = SearchTree(dtype_of(ordered), length, right=right)

        def element(at: PrimExpr) -> PrimExpr:
            return tirx.BufferLoad(elements, [row * length + at])

        def store_place(at: PrimExpr, find: Callable[[PrimExpr], Found]) -> Stmt:
            steps, place = find(tirx.BufferLoad(wanted, [row * count + at]))
            position = tirx.BufferStore(places, place.astype(dtype_of(result)), [row * count + at])
            return sequence([*steps, position])

        def by_tree() -> Stmt:
            position = for_each(count, lambda at: store_place(at, tree.find))
            return sequence([*tree.build(element), position])

        def by_halves() -> Stmt:
            return loop("at", count, lambda at: store_place(at, partial(tree.find_by_halves, element)))

        return branch(_is_worth_a_tree(length, count), by_tree, by_halves)

    return sequence([*views, loop("row", rows, search_row)])


def _is_worth_a_tree(length: Extent, count: Extent) -> PrimExpr | bool:
    static_length, values = static_int(length), static_int(count)
    if static_length is not None and values is not None:
        return values * _ELEMENTS_OF_VALUE >= static_length
    return as_expr(count) * _ELEMENTS_OF_VALUE >= as_expr(length)


def for_each(count: Extent, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Return a loop, in pieces that threads may share if there are several."""
    static_count = static_int(count)
    if static_count is not None and static_count <= _PIECE:
        return loop("at", count, body)

    def piece(number: PrimExpr) -> Stmt:
        begin = number * _PIECE
        size = tirx.min(as_expr(count) - begin, as_expr(_PIECE))
        return loop("at", size, lambda at: body(begin + at))

    chunks = loop("piece", builders.round_up_div(count, _PIECE), piece)
    assert isinstance(chunks, tirx.For)
    return independent_loop(chunks, _PIECE * _OPERATIONS)


class SearchTree:
    """The tree of so many elements in ascending order, NaN last, of a dtype."""

    def __init__(self, dtype: str, length: Extent, *, right: bool) -> None:
        self.dtype, self.length, self._right = _compared_dtype(dtype), length, right
        size = length + length // _ELEMENTS_OF_VALUE + _NODE * _LEVELS
        self._tree = tirx.decl_buffer((size,), self.dtype, "tree")
        self._begin = builders.local_array(_LEVELS, "int64", "begin")
        self._top = builders.local_array(1, "int64", "top")
        self._nodes = builders.local_array(1, "int64", "nodes")
        self._static = _level_sizes(static_int(length))
        self._is_float = self.dtype.startswith("float")

    def element(self, at: PrimExpr) -> PrimExpr:
        """Return an element; behind the last one it may be any number."""
        return self._tree[at]

    def build(self, element: Callable[[PrimExpr], PrimExpr]) -> list[Stmt]:
        """Return the statements that copy the elements and make the levels."""
        length = as_expr(self.length)

        def own(at: PrimExpr) -> PrimExpr:
            return element(at).astype(self.dtype)

        def last_of_node(below: PrimExpr, at: PrimExpr) -> PrimExpr:
            return self._tree[below + at * _NODE + (_NODE - 1)]

        allocation: list[Stmt] = [tirx.AllocBuffer(self._tree)]
        if self._static is not None:
            levels = self._fill(length, as_expr(0), own)
            for (below, nodes), (begin, _) in pairwise(self._static):
                # The last node needs no separator: what is above all of them goes there.
                levels += self._fill(
                    as_expr(nodes - 1), as_expr(begin), partial(last_of_node, as_expr(below))
                )
            return [*allocation, *levels]
        begins, level, nodes_below = self._begin, self._top, self._nodes
        above, nodes = level[0], nodes_below[0]
        add_level = sequence(
            [
                tirx.BufferStore(level, above + 1, [0]),
                tirx.BufferStore(begins, begins[above - 1] + nodes * _NODE, [above]),
                *self._fill(nodes - 1, begins[above], partial(last_of_node, begins[above - 1])),
                tirx.BufferStore(nodes_below, tirx.floordiv(nodes - 1, _NODE) + 1, [0]),
            ]
        )
        return [
            *allocation,
            *map(tirx.AllocBuffer, (begins, level, nodes_below)),
            tirx.BufferStore(level, as_expr(0), [0]),
            tirx.BufferStore(begins, as_expr(0), [0]),
            *self._fill(length, as_expr(0), own),
            tirx.BufferStore(nodes_below, tirx.floordiv(length, _NODE) + 1, [0]),
            tirx.While(nodes > as_expr(1), add_level),
        ]

    def _fill(self, size: PrimExpr, begin: PrimExpr, value: Callable[[PrimExpr], PrimExpr]) -> list[Stmt]:
        """Fill a level, and what is left of its last node with what comes before no value."""
        # Padding must not count as less than a value: comparisons with NaN are false, and no
        # integer is above the highest one.
        padding = tirx.const(float("nan"), self.dtype) if self._is_float else tirx.max_value(self.dtype)
        rest = (tirx.floordiv(size, _NODE) + 1) * _NODE - size
        return [
            loop("at", size, lambda at: tirx.BufferStore(self._tree, value(at), [begin + at])),
            loop("pad", rest, lambda at: tirx.BufferStore(self._tree, padding, [begin + size + at])),
        ]

    def find(self, value: PrimExpr) -> Found:
        """Find the place of a value."""
        sought = tirx.Var("sought", self.dtype)
        place = builders.local_array(1, "int64", "place")
        own = value.astype(self.dtype)
        after_equal = self._right and not self._is_float  # before its successor, if there is one

        def descend(begin: PrimExpr) -> Stmt:
            start = place[0] * _NODE
            elements = tirx.BufferLoad(self._tree, [builders.ramp(begin + start, _NODE)])
            before = self._before(elements, sought, _NODE)
            return tirx.BufferStore(place, start + _count(before), [0])

        if self._static is None:
            top = self._top[0]
            levels = [loop("level", top + 1, lambda number: descend(self._begin[top - number]))]
        else:
            levels = [descend(as_expr(begin)) for begin, _ in reversed(self._static)]
        begin_at_top = [
            tirx.AllocBuffer(place),
            # Elements up to an integer are those below its successor. The highest integer has none,
            # and is handled below.
            tirx.Bind(sought, own + tirx.const(1, self.dtype) if after_equal else own),
            tirx.BufferStore(place, as_expr(0), [0]),
        ]
        position: PrimExpr = place[0]
        if self._right:
            # Nothing comes after NaN in the sorted order, nor after the highest integer: its place
            # is behind all.
            last = tirx.isnan(own) if self._is_float else own == tirx.max_value(self.dtype)
            position = tirx.Select(last, as_expr(self.length), position)
        return [*begin_at_top, *levels], position

    def _before(self, elements: PrimExpr, sought: PrimExpr, lanes: int = 1) -> PrimExpr:
        """Return which elements come before a value in the tree: before NaN all numbers do."""
        wanted = broadcast(sought, lanes)
        if not self._is_float:
            return elements < wanted
        before = elements <= wanted if self._right else elements < wanted
        numbers = elements <= broadcast(tirx.const(float("inf"), self.dtype), lanes)
        of_nan = tirx.all(broadcast(tirx.isnan(sought), lanes), numbers)
        return before if self._right else tirx.any(before, of_nan)

    def find_by_halves(self, element: Callable[[PrimExpr], PrimExpr], value: PrimExpr) -> Found:
        """Find the place of a value without the tree."""
        sought, one = tirx.Var("sought", self.dtype), as_expr(1)
        place, remaining = (builders.local_array(1, "int64", name) for name in ("place", "left"))

        def before(elements: PrimExpr, lanes: int = 1) -> PrimExpr:
            if self._is_float or not self._right:
                return self._before(elements, sought, lanes)
            return elements <= broadcast(sought, lanes)

        def advance(size: PrimExpr) -> Stmt:
            """Skip so many elements if the last of them comes before the value; without a branch."""
            last = element(place[0] + size - 1).astype(self.dtype)
            skipped = tirx.Select(before(last), size, as_expr(0))
            return tirx.BufferStore(place, place[0] + skipped, [0])

        def halve_to(least: int) -> Stmt:
            # The remaining length shrinks in the same way whatever is found, so that the only
            # branch, of the loop, is predicted, and the choice is a conditional move (Khuong and
            # Morin, Array layouts for comparison-based searching, 2017).
            half = tirx.shift_right(remaining[0], one)
            halve = [advance(half), tirx.BufferStore(remaining, remaining[0] - half, [0])]
            return tirx.While(remaining[0] > as_expr(least), sequence(halve))

        def count_node() -> Stmt:
            """Count in sixteen neighbours among which the place is."""
            # Sixteen neighbours must lie inside of the array: near its end some that are before the
            # place are counted again, as from `start` on.
            start = tirx.min(place[0], as_expr(self.length) - _NODE)
            elements = element(builders.ramp(start, _NODE)).astype(builders.vector_type(self.dtype, _NODE))
            return tirx.BufferStore(place, start + _count(before(elements, _NODE)), [0])

        def search_few() -> Stmt:
            return sequence([halve_to(1), tirx.IfThenElse(remaining[0] > 0, advance(one), None)])

        steps = [
            branch(
                _is_at_least(self.length, _NODE),
                lambda: sequence([halve_to(_NODE), count_node()]),
                search_few,
            )
        ]
        begin = [
            tirx.AllocBuffer(place),
            tirx.AllocBuffer(remaining),
            tirx.Bind(sought, value.astype(self.dtype)),
            tirx.BufferStore(place, as_expr(0), [0]),
            tirx.BufferStore(remaining, as_expr(self.length), [0]),
        ]
        position: PrimExpr = place[0]
        if self._right and self._is_float:
            position = tirx.Select(tirx.isnan(sought), as_expr(self.length), position)
        return [*begin, *steps], position


def _count(truths: PrimExpr) -> PrimExpr:
    """Return how many truth values of a node are true."""
    numbers = truths.astype(builders.vector_type("int32", _NODE))
    return tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.add", numbers).astype("int64")


def _is_at_least(length: Extent, least: int) -> PrimExpr | bool:
    static_length = static_int(length)
    return as_expr(length) >= as_expr(least) if static_length is None else static_length >= least


def _compared_dtype(dtype: str) -> str:
    """Return the dtype in which vectors of numbers are compared."""
    if dtype.startswith(("float", "bfloat")):
        return "float64" if dtype == "float64" else "float32"
    # Narrow integers are compared as int32, of which a vector of sixteen is one register.
    if tvm.DataType(dtype).bits >= 32:
        return dtype
    return "int32"


def _level_sizes(length: int | None) -> list[tuple[int, int]] | None:
    """Return where each level begins and its number of nodes; None where only the call knows the length."""
    if length is None:
        return None
    levels, begin, nodes = [], 0, length // _NODE + 1
    levels.append((begin, nodes))
    while nodes > 1:
        begin, nodes = begin + nodes * _NODE, (nodes - 1) // _NODE + 1
        levels.append((begin, nodes))
    return levels
