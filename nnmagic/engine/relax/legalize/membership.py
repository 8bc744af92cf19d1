"""Legalize the test whether elements occur among others: by a table of integers, or by a search."""

from __future__ import annotations

import tvm
from tvm import tirx

from nnmagic.engine.relax.legalize.binary_search import SearchTree, for_each, widen
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value
from nnmagic.engine.relax.legalize.sort_loops import sort_buffer
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, branch, dtype_of, loop, sequence
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

#: A table has at least so many entries, which all integers of 8 bits have, and so many for each element.
_ENTRIES, _ENTRIES_OF_ELEMENT = 258, 4


def _isin(call: OpCall) -> Value:
    def compute(data: Tensor, others: Tensor) -> Tensor:
        return independent_kernel(
            lambda *buffers: _Membership(*buffers).emit(),
            [(data.shape, "bool")],
            [widen(data), widen(others)],
            "isin",
        )

    return call.te(compute, *call.args)


class _Membership:
    """The loops that test which elements of data are among the elements of a vector."""

    def __init__(self, data: Buffer, others: Buffer, result: Buffer) -> None:
        self.dtype = dtype_of(data)
        self.others = others
        self.count = builders.product(data.ty.shape)
        self.length = builders.as_index(others.ty.shape[0])
        (self.data, declare_data), (self.result, declare_result) = map(builders.flat_view, (data, result))
        self.views = [declare_data, declare_result]

    def emit(self) -> Stmt:
        """Return the loops."""
        some = self.length > 0 if isinstance(self.length, int) else as_expr(self.length) > 0
        search = self._by_search if self.dtype.startswith(("float", "bfloat")) else self._of_integers
        return sequence([*self.views, branch(some, search, self._nowhere)])

    def _store(self, at: PrimExpr, position: PrimExpr) -> Stmt:
        return tirx.BufferStore(self.result, position, [at])

    def _nowhere(self) -> Stmt:
        return for_each(self.count, lambda at: self._store(at, tirx.const(0, "bool")))

    def _of_integers(self) -> Stmt:
        """Use a table where the others are close together."""
        lowest, highest = (builders.local_array(1, self.dtype, name) for name in ("lowest", "highest"))

        def find_range(at: PrimExpr) -> Stmt:
            low = tirx.BufferStore(lowest, tirx.min(lowest[0], self.others[at]), [0])
            return sequence([low, tirx.BufferStore(highest, tirx.max(highest[0], self.others[at]), [0])])

        def distance(value: PrimExpr) -> PrimExpr:
            """Return how far above the lowest of the others a value is; a lower one is very far above it."""
            return _bits(value) - _bits(lowest[0])

        size = (self.count + self.length) * _ENTRIES_OF_ELEMENT + _ENTRIES
        table = tirx.decl_buffer((size,), "int8", "table")
        none = tirx.Var("none", "uint64")  # the entry of what is above the highest one
        yes, no = tirx.const(1, "int8"), tirx.const(0, "int8")

        def entry(value: PrimExpr) -> PrimExpr:
            return tirx.min(distance(value), none).astype("int64")

        def by_table() -> Stmt:
            return sequence(
                [
                    tirx.AllocBuffer(table),
                    tirx.Bind(none, distance(highest[0]) + tirx.const(1, "uint64")),
                    loop("at", none.astype("int64") + 1, lambda at: tirx.BufferStore(table, no, [at])),
                    loop(
                        "at", self.length, lambda at: tirx.BufferStore(table, yes, [entry(self.others[at])])
                    ),
                    for_each(self.count, lambda at: self._store(at, table[entry(self.data[at])] != no)),
                ]
            )

        is_narrow = int(tvm.DataType(self.dtype).bits) == 8
        fits = distance(highest[0]) < as_expr(size - 1).astype("uint64")
        return sequence(
            [
                *map(tirx.AllocBuffer, (lowest, highest)),
                tirx.BufferStore(lowest, tirx.max_value(self.dtype), [0]),
                tirx.BufferStore(highest, tirx.min_value(self.dtype), [0]),
                loop("at", self.length, find_range),
                branch(True if is_narrow else fits, by_table, self._by_search),
            ]
        )

    def _by_search(self) -> Stmt:
        """Sort the others, and look each element up."""
        ordered = tirx.decl_buffer((self.length,), self.dtype, "ordered")
        tree = SearchTree(self.dtype, self.length, right=False)

        def test(at: PrimExpr) -> Stmt:
            value = tirx.BufferLoad(self.data, [at])
            steps, place = tree.find(value)
            is_there = tirx.And(place < as_expr(self.length), tree.element(place) == value.astype(tree.dtype))
            return sequence([*steps, self._store(at, is_there)])

        return sequence(
            [
                tirx.AllocBuffer(ordered),
                sort_buffer(self.others, ordered),
                *tree.build(lambda at: ordered[at]),
                for_each(self.count, test),
            ]
        )


def _bits(value: PrimExpr) -> PrimExpr:
    """Return an integer as one without a sign, of which differences are right."""
    dtype = builders.dtype_of(value)
    return (
        value.astype("uint64")
        if dtype.startswith("uint")
        else tirx.reinterpret("uint64", value.astype("int64"))
    )


RULES["numpy.isin"] = _isin
