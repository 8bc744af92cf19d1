"""Legalize linear algebra: kernels that call LAPACK for each matrix of a batch.

As NumPy does, they compute in float64 on matrices whose columns lie one after the other, LAPACK's order.
Complex numbers are pairs of float64, in tensors as in LAPACK. Workspaces are further results of a kernel, so
that the plan of the program's memory has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize.lapack_kernels import (
    FLOAT,
    INT,
    Item,
    Kernel,
    Numbers,
    address,
    by_rows,
    compute_batch,
    each_part,
    from_columns,
    if_finite,
    lapack,
    load_value,
    note,
    number_of,
    numbers_of,
    store_value,
    to_columns,
    unit_matrix,
)
from nnmagic.engine.relax.legalize.least_squares import BLOCK, lstsq
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, assertion, tensor_dtype
from nnmagic.engine.relax.legalize.small_matrices import factor, factor_symmetric, is_small, solve_upper
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr, loop, maximum, minimum, product, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt


def _solve_sides(numbers: Numbers, size: Extent, columns: Extent, work: Sequence[Buffer]) -> Sequence[Stmt]:
    """Return the statements that solve for columns, which are overwritten, as ``gesv`` does."""
    status, a, b, pivots = work
    if is_small(size) and not numbers.is_complex:
        assert isinstance(size, int)
        factored = factor(a, pivots, size, status, b, columns)
        return [factored, solve_upper(a, size, b, columns)]
    stride = maximum(size, 1)
    addresses = address(a), stride, address(pivots), address(b), stride
    return [note(status, lapack(numbers.routine("gesv"), size, columns, *addresses))]


def _solve(call: OpCall) -> Value:
    """Lower ``solve``, or ``inv``, which solves for the columns of a unit matrix."""
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)

    def kernel(size: Extent, _: Extent, *of_sides: Extent) -> Kernel:
        columns = of_sides[1] if of_sides else size

        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, *sides, solution), (_status, a, b, _pivots) = items, work
            return [
                to_columns(matrix, a),
                to_columns(sides[0], b) if sides else unit_matrix(size, b, numbers.pair),
                *_solve_sides(numbers, size, columns, work),
                from_columns(b, solution),
            ]

        work = [numbers.work(size, size), numbers.work(size, columns), ((size,), INT)]
        return [((size, columns, *numbers.pair), dtype)], work, body

    return compute_batch(call, kernel, "Singular matrix")


def _cholesky(call: OpCall) -> Value:
    """Lower to a factorization of the rows, which are columns to LAPACK: L is an upper triangle there.

    That holds for complex matrices: A = L L^H where A^T = U^H U and L = U^T.
    """
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)
    upper = bool(call.attrs["upper"])

    def kernel(size: Extent, _: Extent) -> Kernel:
        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, factor), (status, a) = items, work
            triangle, routine = "L" if upper else "U", numbers.routine("potrf")
            if is_small(size) and not numbers.is_complex:
                assert isinstance(size, int)
                factored = factor_symmetric(a, size, status, upper=upper)
            else:
                found = lapack(routine, triangle, size, address(a), maximum(size, 1))
                factored = note(status, found)

            def copy_in(row: PrimExpr, column: PrimExpr) -> Stmt:
                def copy(batch_index: Sequence[Index], at: PrimExpr) -> Stmt:
                    return store_value(a, matrix.load(row, column, *batch_index), at)

                return each_part(numbers.pair, row * size + column, copy)

            def copy_out(row: PrimExpr, column: PrimExpr) -> Stmt:
                kept = row <= column if upper else row >= column

                def copy(batch_index: Sequence[Index], at: PrimExpr) -> Stmt:
                    value = tirx.Select(kept, load_value(a, at), number_of(0))
                    return factor.store(value, row, column, *batch_index)

                return each_part(numbers.pair, row * size + column, copy)

            return [by_rows(size, copy_in), factored, by_rows(size, copy_out)]

        return [((size, size, *numbers.pair), dtype)], [numbers.work(size, size)], body

    return compute_batch(call, kernel, "Matrix is not positive definite")


def _turn(sign: Buffer, sizes: Buffer, a: Buffer, at: PrimExpr, *, negate: PrimExpr) -> Stmt:
    """Multiply a complex sign by that of a number, and add the logarithm of the number's absolute value.

    Args:
        sign: the sign, a number on the unit circle.
        sizes: the sum of the logarithms, and two numbers that this overwrites.
        a: where the number is, which this overwrites.
        at: the position of its real part.
        negate: whether the sign changes, too.

    """
    re, im = load_value(a, at), load_value(a, at + 1)
    sign_re, sign_im = load_value(sign, 0), load_value(sign, 1)
    scale, length = load_value(sizes, 1), load_value(sizes, 2)
    divisor = tirx.Select(negate, -length, length)
    return sequence(
        [
            # The square of the larger part may overflow, and an infinite one keeps its logarithm.
            store_value(sizes, tirx.min(tirx.max(tirx.abs(re), tirx.abs(im)), tirx.max_value(FLOAT)), 1),
            store_value(a, re / scale, at),
            store_value(a, im / scale, at + 1),
            store_value(sizes, tirx.sqrt(re * re + im * im), 2),
            store_value(sizes, load_value(sizes, 0) + tirx.log(scale) + tirx.log(length), 0),
            store_value(a, re / divisor, at),
            store_value(a, im / divisor, at + 1),
            store_value(sizes, sign_re * re - sign_im * im, 1),
            store_value(sign, sign_re * im + sign_im * re, 1),
            store_value(sign, scale, 0),
        ]
    )


def _slogdet(call: OpCall) -> Value:
    """Lower to an LU decomposition; a singular matrix, for which the status is not 0, has the sign 0."""
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)

    def kernel(size: Extent, _: Extent) -> Kernel:
        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, sign, logarithm), (status, a, pivots, signs, logarithms) = items, work
            routine = numbers.routine("getrf")
            if is_small(size) and not numbers.is_complex:
                assert isinstance(size, int)
                zero = store_value(status, tirx.const(0, INT))
                factored = sequence([zero, factor(a, pivots, size, status)])
            else:
                arguments = size, size, address(a), maximum(size, 1), address(pivots)
                factored = store_value(status, lapack(routine, *arguments))

            def multiply(k: PrimExpr) -> Stmt:
                # Each exchange of rows changes the sign of a determinant; LAPACK counts rows from
                # 1.
                is_swapped = tirx.NE(load_value(pivots, k).astype("int64"), k + 1)
                if numbers.is_complex:
                    return _turn(signs, logarithms, a, (k * size + k) * 2, negate=is_swapped)
                entry = load_value(a, k * size + k)
                is_negative = entry < number_of(0)
                changes = tirx.Or(
                    tirx.And(is_swapped, tirx.Not(is_negative)), tirx.And(tirx.Not(is_swapped), is_negative)
                )
                factor = tirx.Select(changes, number_of(-1), number_of(1))
                total = load_value(logarithms, 0) + tirx.log(tirx.abs(entry))
                return sequence(
                    [store_value(signs, load_value(signs, 0) * factor), store_value(logarithms, total)]
                )

            def set_sign(value: float) -> Stmt:
                return each_part(
                    numbers.pair,
                    0,
                    lambda item, at: store_value(signs, number_of(0 if 1 in item else value), at),
                )

            singular = [set_sign(0), store_value(logarithms, -tirx.infinity(FLOAT))]
            return [
                to_columns(matrix, a),
                factored,
                set_sign(1),
                store_value(logarithms, number_of(0)),
                tirx.IfThenElse(
                    tirx.EQ(load_value(status, 0), tirx.const(0, INT)),
                    loop("k", size, multiply),
                    sequence(singular),
                ),
                each_part(numbers.pair, 0, lambda item, at: sign.store(load_value(signs, at), *item)),
                logarithm.store(load_value(logarithms, 0)),
            ]

        work = [numbers.work(size, size), ((size,), INT), numbers.work(1), ((3,), FLOAT)]
        return [(numbers.pair, dtype), ((), dtype)], work, body

    return compute_batch(call, kernel, None)


def _qr(call: OpCall) -> Value:
    dtype, mode = tensor_dtype(call.args[0]), str(call.attrs["mode"])
    numbers = numbers_of(call)

    def kernel(rows: Extent, columns: Extent) -> Kernel:
        least, most, stride = minimum(rows, columns), maximum(rows, columns), maximum(rows, 1)
        kept = rows if mode == "complete" else least
        length = maximum(BLOCK * most, 1)

        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, *parts), (status, a, factors, space) = items, work
            common = address(a), stride, address(factors), address(space), length
            statements = [
                to_columns(matrix, a),
                note(status, lapack(numbers.routine("geqrf"), rows, columns, *common)),
                from_columns(a, parts[-1], rows, upper=True),
            ]
            if mode != "r":
                routine = numbers.routine("orgqr", "ungqr")
                statements.append(note(status, lapack(routine, rows, kept, least, *common)))
                statements.append(from_columns(a, parts[0]))
            return statements

        results = [((rows, kept, *numbers.pair), dtype), ((kept, columns, *numbers.pair), dtype)]
        work = [numbers.work(rows, most), numbers.work(least), numbers.work(length)]
        return (results[1:] if mode == "r" else results), work, body

    return compute_batch(call, kernel, "Incorrect argument found while performing QR factorization")


def _svd(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)
    full, vectors = bool(call.attrs["full_matrices"]), bool(call.attrs["compute_uv"])
    job = ("A" if full else "S") if vectors else "N"

    def kernel(rows: Extent, columns: Extent) -> Kernel:
        least, stride = minimum(rows, columns), maximum(rows, 1)
        lhs, rhs = (rows, columns) if full else (least, least)
        length = 4 * least * least + 7 * least + (BLOCK + 1) * (rows + columns) + 1
        real = 5 * least * least + 7 * least + 2 * least * maximum(rows, columns)
        pair = numbers.pair

        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, *outputs), (status, a, values, u, vh, space, integers, *rest) = items, work
            found = lapack(
                *(numbers.routine("gesdd"), job, rows, columns, address(a), stride, address(values)),
                *(address(u), stride, address(vh), maximum(rhs, 1)),
                *(address(space), length, *map(address, rest), address(integers)),
            )
            singular = outputs[1] if vectors else outputs[0]
            statements = [
                to_columns(matrix, a),
                if_finite(status, [(a, product((rows, columns, *pair)))], note(status, found)),
                loop("k", least, lambda k: singular.store(load_value(values, k), k)),
            ]
            if vectors and full:  # LAPACK does nothing where there are no elements
                units = sequence([unit_matrix(rows, u, pair), unit_matrix(columns, vh, pair)])
                statements.append(tirx.IfThenElse(as_expr(least) <= 0, units, None))
            if vectors:
                statements += [from_columns(u, outputs[0]), from_columns(vh, outputs[2])]
            return statements

        u, vh = (((rows, lhs), (rhs, columns))) if vectors else ((1,), (1,))
        work = [numbers.work(rows, columns), ((least,), FLOAT), numbers.work(*u), numbers.work(*vh)]
        work += [numbers.work(length), ((8 * least,), INT)]
        if numbers.is_complex:
            work.append(((real,), FLOAT))
        results = [((rows, lhs, *pair), dtype), ((least,), dtype), ((rhs, columns, *pair), dtype)]
        return (results if vectors else results[1:2]), work, body

    return compute_batch(call, kernel, "SVD did not converge")


def _eigh(call: OpCall) -> Value:
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)
    vectors, triangle = bool(call.attrs["compute_v"]), str(call.attrs["UPLO"])

    def kernel(size: Extent, _: Extent) -> Kernel:
        # The least sizes that LAPACK documents with vectors: LWORK of ``dsyevd`` is 1 + 6 n + 2
        # n**2, LRWORK of ``zheevd`` 1 + 5 n + 2 n**2, and LIWORK of both 3 + 5 n.
        square = size * size if vectors else 0
        length, real = 2 * square + (BLOCK + 6) * size + 1, 2 * square + 5 * size + 1
        integers = 3 + 5 * size

        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, values, *rest), (status, a, found, space, indices, *others) = items, work
            solved = lapack(
                *(numbers.routine("syevd", "heevd"), "V" if vectors else "N", triangle),
                *(size, address(a), maximum(size, 1), address(found), address(space), length),
                *(part for other in others for part in (address(other), real)),
                *(address(indices), integers),
            )
            return [
                to_columns(matrix, a),
                note(status, solved),
                loop("k", size, lambda k: values.store(load_value(found, k), k)),
                *(from_columns(a, each) for each in rest),
            ]

        results = [((size,), dtype), ((size, size, *numbers.pair), dtype)]
        work = [numbers.work(size, size), ((size,), FLOAT), numbers.work(length), ((integers,), INT)]
        if numbers.is_complex:
            work.append(((real,), FLOAT))
        return results[: 1 + vectors], work, body

    return compute_batch(call, kernel, "Eigenvalues did not converge")


def _eig(call: OpCall) -> Value:
    """Lower to ``geev``; a pair of real columns holds the parts of two conjugate eigenvectors."""
    dtype, numbers = tensor_dtype(call.args[0]), numbers_of(call)
    vectors = bool(call.attrs["compute_v"])

    def kernel(size: Extent, _: Extent) -> Kernel:
        length = (BLOCK + 4) * size + 1

        def body(items: Sequence[Item], work: Sequence[Buffer]) -> list[Stmt]:
            (matrix, re, im, *parts), (status, a, info, columns, space, *rest) = items, work
            stride, leading = maximum(size, 1), (address(columns), maximum(size, 1))
            values = (address(info),) if numbers.is_complex else (address(info), address(info, size))
            solved = lapack(
                *(numbers.routine("geev"), "N", "V" if vectors else "N", size, address(a), stride),
                *(*values, *leading, *leading, address(space), length, *map(address, rest)),
            )

            def value(k: PrimExpr, component: int) -> PrimExpr:
                return load_value(info, k * 2 + component if numbers.is_complex else k + size * component)

            def vector(row: PrimExpr, column: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
                at = column * size + row
                if numbers.is_complex:
                    return load_value(columns, at * 2), load_value(columns, at * 2 + 1)
                # LAPACK puts the eigenvalue with the positive imaginary part first. Its columns are
                # the real and the imaginary part of that one's vector; the second vector is the
                # conjugate.
                is_first, is_second = value(column, 1) > 0, value(column, 1) < 0
                real = tirx.if_then_else(is_second, load_value(columns, at - size), load_value(columns, at))
                later = tirx.if_then_else(is_first, load_value(columns, at + size), number_of(0))
                return real, tirx.if_then_else(is_second, -load_value(columns, at), later)

            def store_vector(row: PrimExpr, column: PrimExpr) -> Stmt:
                both = zip(parts, vector(row, column), strict=True)
                return sequence([component.store(number, row, column) for component, number in both])

            statements = [
                to_columns(matrix, a),
                if_finite(status, [(a, product((size, size, *numbers.pair)))], note(status, solved)),
                loop("k", size, lambda k: sequence([re.store(value(k, 0), k), im.store(value(k, 1), k)])),
            ]
            return [*statements, by_rows(size, store_vector)] if vectors else statements

        count = size * size if vectors else 1
        work = [numbers.work(size, size), ((2 * size,), FLOAT), numbers.work(count), numbers.work(length)]
        if numbers.is_complex:
            work.append(((2 * size,), FLOAT))
        results = [((size,), dtype)] * 2 + [((size, size), dtype)] * (2 if vectors else 0)
        return results, work, body

    return compute_batch(call, kernel, "Eigenvalues did not converge")


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
        "linalg.inv": _solve,
        "linalg.cholesky": _cholesky,
        "linalg.slogdet": _slogdet,
        "linalg.qr": _qr,
        "linalg.svd": _svd,
        "linalg.eigh": _eigh,
        "linalg.eig": _eig,
        "linalg.lstsq": lstsq,
        "linalg.full_rank": _full_rank,
    }
)
