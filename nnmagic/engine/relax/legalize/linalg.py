"""Legalize linear algebra: kernels that call LAPACK for each matrix of a batch.

As NumPy does, they compute in float64 on matrices whose columns lie one after the other, LAPACK's order.
Complex numbers are pairs of float64, in tensors as in LAPACK. Workspaces are further results of a kernel, so
that the plan of the program's memory has them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from tvm import relax, te, tirx

from nnmagic.engine import engine_error
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, assertion, tensor_dtype
from nnmagic.engine.relax.legalize.small_matrices import factor, factor_symmetric, is_small, solve_upper
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

#: A workspace for so many columns lets LAPACK's routines use products of matrices.
_BLOCK = 64

#: Rows that are copied at once between the two orders: as many lines of the cache are in use.
_ROWS = 16

_INT, _FLOAT = "int32", "float64"

#: The shape and dtype of a result or workspace.
_Array: TypeAlias = "tuple[Sequence[Extent], str]"


@dataclass(frozen=True, slots=True)
class _Item:
    """The matrix, vector or number of a batch's element."""

    buffer: Buffer
    batch: Sequence[PrimExpr]

    @property
    def shape(self) -> list[Extent]:
        """Return its shape, with the axis of pairs if it is complex."""
        return [as_index(dim) for dim in self.buffer.shape[len(self.batch) :]]

    def load(self, *at: Index) -> PrimExpr:
        """Return an element as float64."""
        return tirx.BufferLoad(self.buffer, [*self.batch, *map(as_expr, at)]).astype(_FLOAT)

    def store(self, value: PrimExpr, *at: Index) -> Stmt:
        """Return the statement that stores an element."""
        converted = value.astype(dtype_of(self.buffer))
        return tirx.BufferStore(self.buffer, converted, [*self.batch, *map(as_expr, at)])


def _number(value: float) -> PrimExpr:
    return tirx.const(value, _FLOAT)


def _address(buffer: Buffer, at: Index = 0) -> PrimExpr:
    """Return the address of an element of a workspace, by default the first."""
    return tirx.address_of(tirx.BufferLoad(buffer, [as_expr(at)]))


def _lapack(routine: str, *args: Index | str) -> PrimExpr:
    """Return the call of a routine of LAPACK, which gives 0 or the number of what failed.

    A buffer goes by its address; letters, sizes and numbers go by value.
    """
    buffers = []
    for arg in args:
        if isinstance(arg, str | int):
            buffers.append(tirx.const(ord(arg), "int8") if isinstance(arg, str) else tirx.const(arg, _INT))
        else:
            is_size = str(getattr(arg.ty, "dtype", "")) == "int64"  # a pointer has none
            buffers.append(arg.astype(_INT) if is_size else arg)
    return tirx.call_extern(_INT, f"{PREFIX}{routine}", *buffers)


def _load(buffer: Buffer, at: Index) -> PrimExpr:
    return tirx.BufferLoad(buffer, [as_expr(at)])


def _store(buffer: Buffer, value: PrimExpr, at: Index = 0) -> Stmt:
    return tirx.BufferStore(buffer, value, [as_expr(at)])


def _each_part(pair: Sequence[Extent], at: Index, copy: Callable[[Sequence[Index], PrimExpr], Stmt]) -> Stmt:
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


def _to_columns(matrix: _Item, buffer: Buffer, stride: Extent | None = None) -> Stmt:
    """Copy a matrix to LAPACK's order, ``stride`` elements from one column to the next."""
    rows, columns, *pair = matrix.shape
    step = rows if stride is None else stride

    def copy(row: PrimExpr, column: PrimExpr) -> Stmt:
        return _each_part(
            pair,
            column * step + row,
            lambda part, at: _store(buffer, matrix.load(row, column, *part), at),
        )

    return _by_blocks(rows, columns, copy)


def _from_columns(
    buffer: Buffer,
    matrix: _Item,
    stride: Extent | None = None,
    *,
    upper: bool = False,
) -> Stmt:
    """Copy a matrix, or its upper triangle, from LAPACK's order."""
    rows, columns, *pair = matrix.shape
    step = rows if stride is None else stride

    def copy(row: PrimExpr, column: PrimExpr) -> Stmt:
        def copy_part(part: Sequence[Index], at: PrimExpr) -> Stmt:
            value = _load(buffer, at)
            if upper:
                value = tirx.Select(row <= column, value, _number(0))
            return matrix.store(value, row, column, *part)

        return _each_part(pair, column * step + row, copy_part)

    return _by_blocks(rows, columns, copy)


def _by_rows(size: Extent, copy: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Copy the elements (row, column) of a square matrix, row by row."""
    return loop("row", size, lambda row: loop("column", size, lambda column: copy(row, column)))


def _unit_matrix(rows: Extent, buffer: Buffer, pair: Sequence[Extent]) -> Stmt:
    def store(row: PrimExpr, column: PrimExpr) -> Stmt:
        diagonal = tirx.if_then_else(tirx.EQ(row, column), _number(1), _number(0))

        def store_part(part: Sequence[Index], at: PrimExpr) -> Stmt:
            return _store(buffer, _number(0) if 1 in part else diagonal, at)

        return _each_part(pair, column * rows + row, store_part)

    return _by_blocks(rows, rows, store)


def _for_each(batch: Sequence[Extent], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Build loops over the elements of a batch."""

    def open_loops(at: list[PrimExpr]) -> Stmt:
        if len(at) == len(batch):
            return body(at)
        return loop("item", batch[len(at)], lambda index: open_loops([*at, index]))

    return open_loops([])


def _if_finite(status: Buffer, parts: Sequence[tuple[Buffer, Extent]], solve: Stmt) -> Stmt:
    """Do something, or note a failure, only where all elements are finite.

    Of others LAPACK may look for singular values forever, and nothing can interrupt it.
    """

    def check(buffer: Buffer, size: Extent) -> Stmt:
        def check_element(at: PrimExpr) -> Stmt:
            is_finite = tirx.abs(_load(buffer, at)) < tirx.infinity(_FLOAT)
            return _note(status, tirx.Select(is_finite, tirx.const(0, _INT), tirx.const(1, _INT)))

        return loop("k", size, check_element)

    checks = [check(buffer, size) for buffer, size in parts]
    all_finite = tirx.EQ(_load(status, 0), tirx.const(0, _INT))
    return sequence([*checks, tirx.IfThenElse(all_finite, solve, None)])


@dataclass(frozen=True, slots=True)
class _Numbers:
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
        return (*shape, *self.pair), _FLOAT


def _numbers(call: OpCall) -> _Numbers:
    return _Numbers(bool(call.attrs.get("pairs")))


#: Returns the statements for one element of the batch, of the operands' and results' items and workspaces.
_Body: TypeAlias = Callable[[Sequence[_Item], Sequence[Buffer]], Sequence[Stmt]]

#: A kernel: its results for one element of the batch, workspaces, and statements.
_Kernel: TypeAlias = "tuple[Sequence[_Array], Sequence[_Array], _Body]"


def _compute(call: OpCall, kernel: Callable[..., _Kernel], failure: str | None) -> Value:
    """Return the results of a kernel.

    ``kernel`` takes the rows and columns of each operand. The first workspace, which is added, is the status;
    ``failure`` says what it means if it is not 0.
    """
    if importlib.util.find_spec("scipy") is None:
        raise engine_error(f"{call.name}: {WHY}", call.node.span, hint=HOW_TO_INSTALL)
    counts: list[int] = []

    def compute(*tensors: Tensor) -> Tensors:
        rank = 2 + len(_numbers(call).pair)
        batch = tensors[0].shape[:-rank]
        sizes = [as_index(dim) for tensor in tensors for dim in tensor.shape[-rank:][:2]]
        results, workspaces, body = kernel(*sizes)
        counts.append(len(results))
        outputs = [([*batch, *shape], dtype) for shape, dtype in results]
        for shape, dtype in (((1,), _INT), *workspaces):
            outputs.append(([maximum(product(shape), 1)], dtype))

        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            buffers, work = [*ins, *outs[: len(results)]], outs[len(results) :]

            def of_item(at: list[PrimExpr]) -> Stmt:
                return sequence(body([_Item(buffer, at) for buffer in buffers], work))

            return sequence([_store(work[0], tirx.const(0, _INT)), _for_each(batch, of_item)])

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
            call.te(lambda found: te.compute((), lambda: tirx.EQ(found(0), tirx.const(0, _INT))), status)
        )
        call.emit(assertion(worked, f"{call.name}: {failure}", call.name))
    results = [relax.TupleGetItem(parts, number) for number in range(count)]
    return results[0] if count == 1 else relax.Tuple(results)


def _note(status: Buffer, result: PrimExpr) -> Stmt:
    """Keep the status of a call: it stays 0 if all are."""
    return _store(status, tirx.bitwise_or(_load(status, 0), result))


def _solve_sides(numbers: _Numbers, size: Extent, columns: Extent, work: Sequence[Buffer]) -> Sequence[Stmt]:
    """Return the statements that solve for columns, which are overwritten, as ``gesv`` does."""
    status, a, b, pivots = work
    if is_small(size) and not numbers.is_complex:
        assert isinstance(size, int)
        factored = factor(a, pivots, size, status, b, columns)
        return [factored, solve_upper(a, size, b, columns)]
    stride = maximum(size, 1)
    addresses = _address(a), stride, _address(pivots), _address(b), stride
    return [_note(status, _lapack(numbers.routine("gesv"), size, columns, *addresses))]


def _solve(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)

    def kernel(size: Extent, _: Extent, _rows: Extent, columns: Extent) -> _Kernel:
        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, sides, solution), (_status, a, b, _pivots) = items, work
            return [
                _to_columns(matrix, a),
                _to_columns(sides, b),
                *_solve_sides(numbers, size, columns, work),
                _from_columns(b, solution),
            ]

        work = [numbers.work(size, size), numbers.work(size, columns), ((size,), _INT)]
        return [((size, columns, *numbers.pair), dtype)], work, body

    return _compute(call, kernel, "Singular matrix")


def _inv(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)

    def kernel(size: Extent, _: Extent) -> _Kernel:
        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, inverse), (_status, a, b, _pivots) = items, work
            return [
                _to_columns(matrix, a),
                _unit_matrix(size, b, numbers.pair),
                *_solve_sides(numbers, size, size, work),
                _from_columns(b, inverse),
            ]

        work = [numbers.work(size, size), numbers.work(size, size), ((size,), _INT)]
        return [((size, size, *numbers.pair), dtype)], work, body

    return _compute(call, kernel, "Singular matrix")


def _cholesky(call: OpCall) -> Value:
    """Lower to a factorization of the rows, which are columns to LAPACK: L is an upper triangle there.

    That holds for complex matrices: A = L L^H where A^T = U^H U and L = U^T.
    """
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)
    upper = bool(call.attrs["upper"])

    def kernel(size: Extent, _: Extent) -> _Kernel:
        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, factor), (status, a) = items, work
            triangle, routine = "L" if upper else "U", numbers.routine("potrf")
            if is_small(size) and not numbers.is_complex:
                assert isinstance(size, int)
                factored = factor_symmetric(a, size, status, upper=upper)
            else:
                found = _lapack(routine, triangle, size, _address(a), maximum(size, 1))
                factored = _note(status, found)

            def copy_in(row: PrimExpr, column: PrimExpr) -> Stmt:
                def copy(batch_index: Sequence[Index], at: PrimExpr) -> Stmt:
                    return _store(a, matrix.load(row, column, *batch_index), at)

                return _each_part(numbers.pair, row * size + column, copy)

            def copy_out(row: PrimExpr, column: PrimExpr) -> Stmt:
                kept = row <= column if upper else row >= column

                def copy(batch_index: Sequence[Index], at: PrimExpr) -> Stmt:
                    value = tirx.Select(kept, _load(a, at), _number(0))
                    return factor.store(value, row, column, *batch_index)

                return _each_part(numbers.pair, row * size + column, copy)

            return [
                _by_rows(size, copy_in),
                factored,
                _by_rows(size, copy_out),
            ]

        return [((size, size, *numbers.pair), dtype)], [numbers.work(size, size)], body

    return _compute(call, kernel, "Matrix is not positive definite")


def _turn(sign: Buffer, sizes: Buffer, a: Buffer, at: PrimExpr, *, negate: PrimExpr) -> Stmt:
    """Multiply a complex sign by that of a number, and add the logarithm of the number's absolute value.

    Args:
        sign: the sign, a number on the unit circle.
        sizes: the sum of the logarithms, and two numbers that this overwrites.
        a: where the number is, which this overwrites.
        at: the position of its real part.
        negate: whether the sign changes, too.

    """
    re, im = _load(a, at), _load(a, at + 1)
    sign_re, sign_im = _load(sign, 0), _load(sign, 1)
    scale, length = _load(sizes, 1), _load(sizes, 2)
    divisor = tirx.Select(negate, -length, length)
    return sequence(
        [
            # The square of the larger part may overflow, and an infinite one keeps its logarithm.
            _store(sizes, tirx.min(tirx.max(tirx.abs(re), tirx.abs(im)), tirx.max_value(_FLOAT)), 1),
            _store(a, re / scale, at),
            _store(a, im / scale, at + 1),
            _store(sizes, tirx.sqrt(re * re + im * im), 2),
            _store(sizes, _load(sizes, 0) + tirx.log(scale) + tirx.log(length), 0),
            _store(a, re / divisor, at),
            _store(a, im / divisor, at + 1),
            _store(sizes, sign_re * re - sign_im * im, 1),
            _store(sign, sign_re * im + sign_im * re, 1),
            _store(sign, scale, 0),
        ]
    )


def _slogdet(call: OpCall) -> Value:
    """Lower to an LU decomposition; a singular matrix, for which the status is not 0, has the sign 0."""
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)

    def kernel(size: Extent, _: Extent) -> _Kernel:
        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, sign, logarithm), (status, a, pivots, signs, logarithms) = items, work
            routine = numbers.routine("getrf")
            if is_small(size) and not numbers.is_complex:
                assert isinstance(size, int)
                zero = _store(status, tirx.const(0, _INT))
                factored = sequence([zero, factor(a, pivots, size, status)])
            else:
                arguments = size, size, _address(a), maximum(size, 1), _address(pivots)
                factored = _store(status, _lapack(routine, *arguments))

            def multiply(k: PrimExpr) -> Stmt:
                is_swapped = tirx.NE(_load(pivots, k).astype("int64"), k + 1)
                if numbers.is_complex:
                    return _turn(signs, logarithms, a, (k * size + k) * 2, negate=is_swapped)
                entry = _load(a, k * size + k)
                is_negative = entry < _number(0)
                changes = tirx.Or(
                    tirx.And(is_swapped, tirx.Not(is_negative)), tirx.And(tirx.Not(is_swapped), is_negative)
                )
                factor = tirx.Select(changes, _number(-1), _number(1))
                total = _load(logarithms, 0) + tirx.log(tirx.abs(entry))
                return sequence([_store(signs, _load(signs, 0) * factor), _store(logarithms, total)])

            def set_sign(value: float) -> Stmt:
                return _each_part(
                    numbers.pair, 0, lambda item, at: _store(signs, _number(0 if 1 in item else value), at)
                )

            singular = [set_sign(0), _store(logarithms, -tirx.infinity(_FLOAT))]
            return [
                _to_columns(matrix, a),
                factored,
                set_sign(1),
                _store(logarithms, _number(0)),
                tirx.IfThenElse(
                    tirx.EQ(_load(status, 0), tirx.const(0, _INT)),
                    loop("k", size, multiply),
                    sequence(singular),
                ),
                _each_part(numbers.pair, 0, lambda item, at: sign.store(_load(signs, at), *item)),
                logarithm.store(_load(logarithms, 0)),
            ]

        work = [numbers.work(size, size), ((size,), _INT), numbers.work(1), ((3,), _FLOAT)]
        return [(numbers.pair, dtype), ((), dtype)], work, body

    return _compute(call, kernel, None)


def _qr(call: OpCall) -> Value:
    dtype, mode = tensor_dtype(call.args[0]), str(call.attrs["mode"])
    numbers = _numbers(call)

    def kernel(rows: Extent, columns: Extent) -> _Kernel:
        least, most, stride = minimum(rows, columns), maximum(rows, columns), maximum(rows, 1)
        kept = rows if mode == "complete" else least
        length = maximum(_BLOCK * most, 1)

        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, *parts), (status, a, factors, space) = items, work
            common = _address(a), stride, _address(factors), _address(space), length
            statements = [
                _to_columns(matrix, a),
                _note(status, _lapack(numbers.routine("geqrf"), rows, columns, *common)),
                _from_columns(a, parts[-1], rows, upper=True),
            ]
            if mode != "r":
                routine = numbers.routine("orgqr", "ungqr")
                statements.append(_note(status, _lapack(routine, rows, kept, least, *common)))
                statements.append(_from_columns(a, parts[0]))
            return statements

        results = [((rows, kept, *numbers.pair), dtype), ((kept, columns, *numbers.pair), dtype)]
        work = [numbers.work(rows, most), numbers.work(least), numbers.work(length)]
        return (results[1:] if mode == "r" else results), work, body

    return _compute(call, kernel, "Incorrect argument found while performing QR factorization")


def _svd(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)
    full, vectors = bool(call.attrs["full_matrices"]), bool(call.attrs["compute_uv"])
    job = ("A" if full else "S") if vectors else "N"

    def kernel(rows: Extent, columns: Extent) -> _Kernel:
        least, stride = minimum(rows, columns), maximum(rows, 1)
        lhs, rhs = (rows, columns) if full else (least, least)
        length = 4 * least * least + 7 * least + (_BLOCK + 1) * (rows + columns) + 1
        real = 5 * least * least + 7 * least + 2 * least * maximum(rows, columns)
        pair = numbers.pair

        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, *outputs), (status, a, values, u, vh, space, integers, *rest) = items, work
            found = _lapack(
                *(numbers.routine("gesdd"), job, rows, columns, _address(a), stride, _address(values)),
                *(_address(u), stride, _address(vh), maximum(rhs, 1)),
                *(_address(space), length, *map(_address, rest), _address(integers)),
            )
            singular = outputs[1] if vectors else outputs[0]
            statements = [
                _to_columns(matrix, a),
                _if_finite(status, [(a, product((rows, columns, *pair)))], _note(status, found)),
                loop("k", least, lambda k: singular.store(_load(values, k), k)),
            ]
            if vectors and full:  # LAPACK does nothing where there are no elements
                units = sequence([_unit_matrix(rows, u, pair), _unit_matrix(columns, vh, pair)])
                statements.append(tirx.IfThenElse(as_expr(least) <= 0, units, None))
            if vectors:
                statements += [_from_columns(u, outputs[0]), _from_columns(vh, outputs[2])]
            return statements

        u, vh = (((rows, lhs), (rhs, columns))) if vectors else ((1,), (1,))
        work = [numbers.work(rows, columns), ((least,), _FLOAT), numbers.work(*u), numbers.work(*vh)]
        work += [numbers.work(length), ((8 * least,), _INT)]
        if numbers.is_complex:
            work.append(((real,), _FLOAT))
        results = [((rows, lhs, *pair), dtype), ((least,), dtype), ((rhs, columns, *pair), dtype)]
        return (results if vectors else results[1:2]), work, body

    return _compute(call, kernel, "SVD did not converge")


def _eigh(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)
    vectors, triangle = bool(call.attrs["compute_v"]), str(call.attrs["UPLO"])

    def kernel(size: Extent, _: Extent) -> _Kernel:
        square = size * size if vectors else 0
        length, real = 2 * square + (_BLOCK + 6) * size + 1, 2 * square + 5 * size + 1
        integers = 3 + 5 * size

        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, values, *rest), (status, a, found, space, indices, *others) = items, work
            solved = _lapack(
                *(numbers.routine("syevd", "heevd"), "V" if vectors else "N", triangle),
                *(size, _address(a), maximum(size, 1), _address(found), _address(space), length),
                *(part for other in others for part in (_address(other), real)),
                *(_address(indices), integers),
            )
            return [
                _to_columns(matrix, a),
                _note(status, solved),
                loop("k", size, lambda k: values.store(_load(found, k), k)),
                *(_from_columns(a, each) for each in rest),
            ]

        results = [((size,), dtype), ((size, size, *numbers.pair), dtype)]
        work = [numbers.work(size, size), ((size,), _FLOAT), numbers.work(length), ((integers,), _INT)]
        if numbers.is_complex:
            work.append(((real,), _FLOAT))
        return results[: 1 + vectors], work, body

    return _compute(call, kernel, "Eigenvalues did not converge")


def _eig(call: OpCall) -> Value:
    """Lower to ``geev``; a pair of real columns holds the parts of two conjugate eigenvectors."""
    dtype, numbers = tensor_dtype(call.args[0]), _numbers(call)
    vectors = bool(call.attrs["compute_v"])

    def kernel(size: Extent, _: Extent) -> _Kernel:
        length = (_BLOCK + 4) * size + 1

        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, re, im, *parts), (status, a, info, columns, space, *rest) = items, work
            stride, leading = maximum(size, 1), (_address(columns), maximum(size, 1))
            values = (_address(info),) if numbers.is_complex else (_address(info), _address(info, size))
            solved = _lapack(
                *(numbers.routine("geev"), "N", "V" if vectors else "N", size, _address(a), stride),
                *(*values, *leading, *leading, _address(space), length, *map(_address, rest)),
            )

            def value(k: PrimExpr, component: int) -> PrimExpr:
                return _load(info, k * 2 + component if numbers.is_complex else k + size * component)

            def vector(row: PrimExpr, column: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
                at = column * size + row
                if numbers.is_complex:
                    return _load(columns, at * 2), _load(columns, at * 2 + 1)
                is_first, is_second = value(column, 1) > 0, value(column, 1) < 0
                real = tirx.if_then_else(is_second, _load(columns, at - size), _load(columns, at))
                later = tirx.if_then_else(is_first, _load(columns, at + size), _number(0))
                return real, tirx.if_then_else(is_second, -_load(columns, at), later)

            def store_vector(row: PrimExpr, column: PrimExpr) -> Stmt:
                both = zip(parts, vector(row, column), strict=True)
                return sequence([component.store(number, row, column) for component, number in both])

            statements = [
                _to_columns(matrix, a),
                _if_finite(status, [(a, product((size, size, *numbers.pair)))], _note(status, solved)),
                loop("k", size, lambda k: sequence([re.store(value(k, 0), k), im.store(value(k, 1), k)])),
            ]
            return [*statements, _by_rows(size, store_vector)] if vectors else statements

        count = size * size if vectors else 1
        work = [numbers.work(size, size), ((2 * size,), _FLOAT), numbers.work(count), numbers.work(length)]
        if numbers.is_complex:
            work.append(((2 * size,), _FLOAT))
        results = [((size,), dtype)] * 2 + [((size, size), dtype)] * (2 if vectors else 0)
        return results, work, body

    return _compute(call, kernel, "Eigenvalues did not converge")


#: What LAPACK's documentation bounds the workspace of ``gelsd`` by: the size of its smallest problems, and
#: the depth of the tree of problems, for sizes of 32 bits.
_SMALLEST, _DEPTH = 25, 30

#: Singular values below the largest one times this, and times the larger size, are 0 by default.
_EPSILON = float(np.finfo(np.float64).eps)


#: How far the condition of a matrix must be from where its rank is in doubt, for a factorization without
#: singular values: the estimate is that of another norm, and may be some times too small.
_MARGIN = 1000.0


def _lstsq(call: OpCall) -> Value:
    """Lower to QR where the matrix certainly has full rank, otherwise to a singular value decomposition."""
    dtype, rcond = tensor_dtype(call.args[0]), call.attrs["rcond"]

    def kernel(rows: Extent, columns: Extent, _rows: Extent, sides: Extent) -> _Kernel:
        least, most = minimum(rows, columns), maximum(rows, columns)
        stride, right = maximum(most, 1), maximum(sides, 1)  # LAPACK wants one right-hand side at least
        cutoff = as_expr(most).astype(_FLOAT) * _number(_EPSILON)
        if rcond is not None:
            cutoff = _number(float(cast(float, rcond)))
        length = least * (least + right + 16 + 2 * _SMALLEST + 8 * _DEPTH)
        length += (_SMALLEST + 1) ** 2 + _BLOCK * (rows + columns + right)
        is_tall = as_expr(rows) >= as_expr(columns)

        def body(items: Sequence[_Item], work: Sequence[Buffer]) -> list[Stmt]:
            matrix, given, solution, residuals, rank = items
            status, a, b, found, found_rank, space, integers = work
            arrays = _address(a), maximum(rows, 1), _address(b), stride

            def load() -> list[Stmt]:
                return [
                    loop("k", stride * right, lambda k: _store(b, _number(0), k)),
                    _to_columns(matrix, a),
                    _to_columns(given, b, stride),
                ]

            factored = _lapack("dgels", "N", rows, columns, right, *arrays, _address(space), length)
            measured = _lapack(
                *(
                    "dtrcon",
                    "1",
                    tirx.Select(is_tall, *(tirx.const(ord(each), "int8") for each in "UL")),
                    "N",
                ),
                *(least, _address(a), maximum(rows, 1), _address(found), _address(space), _address(integers)),
            )
            decomposed = _lapack(
                *("dgelsd", rows, columns, right, *arrays, _address(found), cutoff, _address(found_rank)),
                *(_address(space), length, _address(integers)),
            )
            none = tirx.const(0, _INT)
            is_certain = _load(found, 0) > cutoff * as_expr(most).astype(_FLOAT) * _number(_MARGIN)
            solved = sequence(
                [
                    _store(found, _number(0)),
                    _store(found_rank, as_expr(least).astype(_INT)),
                    _store(integers, factored),
                    tirx.IfThenElse(tirx.EQ(_load(integers, 0), none), tirx.Evaluate(measured), None),
                    tirx.IfThenElse(
                        tirx.Not(is_certain), sequence([*load(), _note(status, decomposed)]), None
                    ),
                ]
            )
            # LAPACK clears the right sides of a matrix without columns, which are the residuals.
            solve = tirx.IfThenElse(as_expr(columns) > 0, solved, _store(found_rank, tirx.const(0, _INT)))

            def add_squares(side: PrimExpr) -> Stmt:
                def add(row: PrimExpr) -> Stmt:
                    entry = _load(b, side * stride + columns + row)
                    return residuals.store(residuals.load(side) + entry * entry, side)

                rest = loop("row", maximum(as_expr(rows) - columns, 0), add)
                return sequence([residuals.store(_number(0), side), rest])

            return [
                *load(),
                _if_finite(status, [(a, rows * columns), (b, stride * right)], solve),
                _from_columns(b, solution, stride),
                loop("side", sides, add_squares),
                rank.store(_load(found_rank, 0)),
            ]

        results = [((columns, sides), dtype), ((sides,), dtype), ((), _INT)]
        work = [
            ((rows, columns), _FLOAT),
            ((stride, right), _FLOAT),
            ((maximum(least, 1),), _FLOAT),
            ((1,), _INT),
        ]
        work += [((length,), _FLOAT), (((3 * _DEPTH + 11) * maximum(least, 1),), _INT)]
        return results, work, body

    return _compute(call, kernel, "SVD did not converge in Linear Least Squares")


def _full_rank(call: OpCall) -> Value:
    """Lower to the data as they are, after a check; of no data there is nothing to check."""
    data, rank, matrix = call.args

    def check(status: Tensor, sizes: Sequence[Extent]) -> Tensor:
        count, rows, columns = map(as_expr, sizes)
        is_full = tirx.EQ(status().astype("int64"), columns)
        return te.compute((), lambda: tirx.any(count <= 0, tirx.all(is_full, rows > columns)))

    sizes = [product(data.ty.shape.values), *matrix.ty.shape.values]
    full = call.emit(call.te(check, rank, relax.ShapeExpr(sizes)))
    message = "lstsq has no residuals unless the matrix has more rows than columns, and full rank"
    call.emit(assertion(full, f"{call.name}: {message}", call.name))
    return data


RULES.update(
    {
        "linalg.solve": _solve,
        "linalg.inv": _inv,
        "linalg.cholesky": _cholesky,
        "linalg.slogdet": _slogdet,
        "linalg.qr": _qr,
        "linalg.svd": _svd,
        "linalg.eigh": _eigh,
        "linalg.eig": _eig,
        "linalg.lstsq": _lstsq,
        "linalg.full_rank": _full_rank,
    }
)
