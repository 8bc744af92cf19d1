"""Write kernels that call LAPACK for each matrix of a batch.

Their matrices are stored by columns, as Fortran has them (https://netlib.org/lapack/lug/).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm import relax, te, tirx

from nnmagic.engine import engine_error
from nnmagic.engine.relax.legalize.registry import OPAQUE, OpCall, Value, assertion
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.runtime.lapack import HOW_TO_INSTALL, PREFIX, WHY
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_index,
    dtype_of,
    loop,
    maximum,
    minimum,
    product,
    round_up_div,
    sequence,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

#: Rows that are copied at once between the two orders: as many lines of the cache are in use.
_ROWS = 16

INT, FLOAT = "int32", "float64"

#: The shape and dtype of a result or workspace.
_Array: TypeAlias = "tuple[Sequence[Extent], str]"


@dataclass(frozen=True, slots=True)
class Item:
    """The matrix, vector or number of a batch's element."""

    buffer: Buffer
    batch: Sequence[PrimExpr]

    @property
    def shape(self) -> list[Extent]:
        """Return its shape, with the axis of pairs if it is complex."""
        return [as_index(dim) for dim in self.buffer.shape[len(self.batch) :]]

    def load(self, *at: Index) -> PrimExpr:
        """Return an element as float64."""
        return tirx.BufferLoad(self.buffer, [*self.batch, *map(as_expr, at)]).astype(FLOAT)

    def store(self, value: PrimExpr, *at: Index) -> Stmt:
        """Return the statement that stores an element."""
        converted = value.astype(dtype_of(self.buffer))
        return tirx.BufferStore(self.buffer, converted, [*self.batch, *map(as_expr, at)])


def number_of(value: float) -> PrimExpr:
    """Return a 64-bit integer or float of TIR."""
    return tirx.const(value, FLOAT)


def address(buffer: Buffer, at: Index = 0) -> PrimExpr:
    """Return the address of an element of a workspace, by default the first."""
    return tirx.address_of(tirx.BufferLoad(buffer, [as_expr(at)]))


def lapack(routine: str, *args: Index | str) -> PrimExpr:
    """Return the call of a routine of LAPACK, which gives 0 or the number of what failed.

    A buffer goes by its address; letters, sizes and numbers go by value.
    """
    buffers = []
    for arg in args:
        if isinstance(arg, str | int):
            buffers.append(tirx.const(ord(arg), "int8") if isinstance(arg, str) else tirx.const(arg, INT))
        else:
            is_size = str(getattr(arg.ty, "dtype", "")) == "int64"  # a pointer has none
            buffers.append(arg.astype(INT) if is_size else arg)
    return tirx.call_extern(INT, f"{PREFIX}{routine}", *buffers)


def load_value(buffer: Buffer, at: Index) -> PrimExpr:
    """Return the element of a buffer at an index."""
    return tirx.BufferLoad(buffer, [as_expr(at)])


def store_value(buffer: Buffer, value: PrimExpr, at: Index = 0) -> Stmt:
    """Return a statement that stores an element."""
    return tirx.BufferStore(buffer, value, [as_expr(at)])


def each_part(pair: Sequence[Extent], at: Index, copy: Callable[[Sequence[Index], PrimExpr], Stmt]) -> Stmt:
    """Copy the number at a position of a buffer: one float, or two where it is complex.

    Args:
        pair: the axis of pairs: none of real numbers.
        at: the position, in numbers.
        copy: takes the index in that axis, and the position in floats.

    """
    if not pair:
        return copy((), as_expr(at))
    return sequence([copy((part,), as_expr(at) * 2 + part) for part in (0, 1)])


def _by_blocks(rows: Extent, columns: Extent, copy: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Copy the elements (row, column), in an order that suits rows as well as columns in memory."""

    def block(outer: PrimExpr) -> Stmt:
        first = outer * _ROWS
        count = minimum(_ROWS, as_expr(rows) - first)
        return loop(
            "column", columns, lambda column: loop("row", count, lambda row: copy(first + row, column))
        )

    return loop("block", round_up_div(rows, _ROWS), block)


def to_columns(matrix: Item, buffer: Buffer, stride: Extent | None = None) -> Stmt:
    """Copy a matrix to LAPACK's order, ``stride`` elements from one column to the next."""
    rows, columns, *pair = matrix.shape
    step = rows if stride is None else stride

    def copy(row: PrimExpr, column: PrimExpr) -> Stmt:
        return each_part(
            pair,
            column * step + row,
            lambda part, at: store_value(buffer, matrix.load(row, column, *part), at),
        )

    return _by_blocks(rows, columns, copy)


def from_columns(buffer: Buffer, matrix: Item, stride: Extent | None = None, *, upper: bool = False) -> Stmt:
    """Copy a matrix, or its upper triangle, from LAPACK's order."""
    rows, columns, *pair = matrix.shape
    step = rows if stride is None else stride

    def copy(row: PrimExpr, column: PrimExpr) -> Stmt:
        def copy_part(part: Sequence[Index], at: PrimExpr) -> Stmt:
            value = load_value(buffer, at)
            if upper:
                value = tirx.Select(row <= column, value, number_of(0))
            return matrix.store(value, row, column, *part)

        return each_part(pair, column * step + row, copy_part)

    return _by_blocks(rows, columns, copy)


def by_rows(size: Extent, copy: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Copy the elements (row, column) of a square matrix, row by row."""
    return loop("row", size, lambda row: loop("column", size, lambda column: copy(row, column)))


def unit_matrix(rows: Extent, buffer: Buffer, pair: Sequence[Extent]) -> Stmt:
    """Return a statement that writes an identity matrix."""

    def store(row: PrimExpr, column: PrimExpr) -> Stmt:
        diagonal = tirx.if_then_else(tirx.EQ(row, column), number_of(1), number_of(0))

        def store_part(part: Sequence[Index], at: PrimExpr) -> Stmt:
            return store_value(buffer, number_of(0) if 1 in part else diagonal, at)

        return each_part(pair, column * rows + row, store_part)

    return _by_blocks(rows, rows, store)


def for_each(batch: Sequence[Extent], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Build loops over the elements of a batch."""

    def open_loops(at: list[PrimExpr]) -> Stmt:
        if len(at) == len(batch):
            return body(at)
        return loop("item", batch[len(at)], lambda index: open_loops([*at, index]))

    return open_loops([])


def if_finite(status: Buffer, parts: Sequence[tuple[Buffer, Extent]], solve: Stmt) -> Stmt:
    """Do something, or note a failure, only where all elements are finite.

    Of others LAPACK may look for singular values forever, and nothing can interrupt it.
    """

    def check(buffer: Buffer, size: Extent) -> Stmt:
        def check_element(at: PrimExpr) -> Stmt:
            is_finite = tirx.abs(load_value(buffer, at)) < tirx.infinity(FLOAT)
            return note(status, tirx.Select(is_finite, tirx.const(0, INT), tirx.const(1, INT)))

        return loop("k", size, check_element)

    checks = [check(buffer, size) for buffer, size in parts]
    all_finite = tirx.EQ(load_value(status, 0), tirx.const(0, INT))
    return sequence([*checks, tirx.IfThenElse(all_finite, solve, None)])


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a call computes with: float64, or complex128 as pairs of float64."""

    is_complex: bool

    @property
    def pair(self) -> tuple[int, ...]:
        """Return the sizes of the axis of pairs: none of real numbers."""
        return (2,) if self.is_complex else ()

    def routine(self, real: str, complex_: str = "") -> str:
        """Return a routine of LAPACK by its name without the letter for the type of numbers."""
        return f"z{complex_ or real}" if self.is_complex else f"d{real}"

    def work(self, *shape: Extent) -> _Array:
        """Return a workspace of so many numbers."""
        return (*shape, *self.pair), FLOAT


def numbers_of(call: OpCall) -> Numbers:
    """Return what a call computes with: complex numbers if its operands are pairs."""
    return Numbers(bool(call.attrs.get("pairs")))


#: Returns the statements for one element of the batch, of the operands' and results' items and workspaces.
_Body: TypeAlias = Callable[[Sequence[Item], Sequence[Buffer]], Sequence[Stmt]]
#: A kernel: its results for one element of the batch, workspaces, and statements.
Kernel: TypeAlias = "tuple[Sequence[_Array], Sequence[_Array], _Body]"


def compute_batch(call: OpCall, kernel: Callable[..., Kernel], failure: str | None) -> Value:
    """Return the results of a kernel.

    ``kernel`` takes the rows and columns of each operand. The first workspace, which is added, is the status;
    ``failure`` says what it means if it is not 0.
    """
    if importlib.util.find_spec("scipy") is None:
        raise engine_error(f"{call.name}: {WHY}", call.node.span, hint=HOW_TO_INSTALL)
    counts: list[int] = []

    def compute(*tensors: Tensor) -> Tensors:
        rank = 2 + len(numbers_of(call).pair)
        batch = tensors[0].shape[:-rank]
        sizes = [as_index(dim) for tensor in tensors for dim in tensor.shape[-rank:][:2]]
        results, workspaces, body = kernel(*sizes)
        counts.append(len(results))
        outputs = [([*batch, *shape], dtype) for shape, dtype in results]
        for shape, dtype in (((1,), INT), *workspaces):
            outputs.append(([maximum(product(shape), 1)], dtype))

        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            buffers, work = [*ins, *outs[: len(results)]], outs[len(results) :]

            def of_item(at: list[PrimExpr]) -> Stmt:
                return sequence(body([Item(buffer, at) for buffer in buffers], work))

            return sequence([store_value(work[0], tirx.const(0, INT)), for_each(batch, of_item)])

        return te.extern(
            [shape for shape, _ in outputs],
            list(tensors),
            emit,
            dtype=[dtype for _, dtype in outputs],
            name=call.name.replace(".", "_"),
        )

    parts = call.emit(call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE}))
    (count,) = counts
    if failure is not None:
        status = call.emit(relax.TupleGetItem(parts, count))
        worked = call.emit(
            call.te(lambda found: te.compute((), lambda: tirx.EQ(found(0), tirx.const(0, INT))), status)
        )
        call.emit(assertion(worked, f"{call.name}: {failure}", call.name))
    results = [relax.TupleGetItem(parts, number) for number in range(count)]
    return results[0] if count == 1 else relax.Tuple(results)


def note(status: Buffer, result: PrimExpr) -> Stmt:
    """Keep the status of a call: it stays 0 if all are."""
    return store_value(status, tirx.bitwise_or(load_value(status, 0), result))
