"""Schedule matrix products: register tiles with the epilogue at their ends, panels, threads.

``static_loops`` has the loops of static sizes, ``dynamic_loops`` those of dynamic ones, ``blocked_loops``
those of large products of either. Threads share the batch, panels, or tiles of rows, whatever there is enough
of.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT, Product, read_product
from nnmagic.engine.relax.schedules.matmul.dynamic_loops import dynamic_loops
from nnmagic.engine.relax.schedules.matmul.matrix_product import MatrixProduct
from nnmagic.engine.relax.schedules.matmul.static_loops import static_loops
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.schedules.thread_choice import choose_threads, split_factors
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The matrices of a dynamic batch from which on threads share the batch, not each product.
_MANY_MATRICES = 8


def _schedule_product(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Give the kernel of a product loops for the machine; return one of another form as it is."""
    product = read_product(function)
    if product is None or 0 in (product.count, product.rows, product.columns):
        return function
    if any("bfloat16" in builders.dtype_of(factor.buffer) for factor in (product.left, product.right)):
        return function
    views = [builders.flat_view(factor.buffer) for factor in (product.left, product.right)]
    (left_view, _), (right_view, _) = views
    body = [
        *product.allocations(),
        *product.loops_before(),
        *(declaration for _, declaration in views),
        _multiply(product, left_view, right_view, machine),
        *product.loops_after(machine),
    ]
    return tirx.PrimFunc(function.params, builders.sequence(body), function.ret_type, function.attrs)


SCHEDULES[PRODUCT] = _schedule_product


def _multiply(product: Product, lhs: Buffer, rhs: Buffer, machine: CpuModel) -> Stmt:
    """Multiply all matrices of the batch."""
    one_matrix = product.is_one_matrix
    count: Extent = 1 if one_matrix else product.count
    rows = builders.as_index(product.count * product.rows) if one_matrix else product.rows
    sizes = (rows, product.columns, product.depth)

    def multiply(number: PrimExpr, *, threads: bool) -> Stmt:
        batch = _unravel(number, product.sizes)
        first = dict.fromkeys(product.batch, builders.as_expr(0))
        names = first if one_matrix else dict(zip(product.batch, batch, strict=True))

        def finish(row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
            if not one_matrix:
                return product.finish(batch, row, column, value)
            height = builders.as_expr(product.rows)
            outer = _unravel(tirx.floordiv(row, height), product.sizes)
            return product.finish(outer, tirx.floormod(row, height), column, value)

        def mirror(row: PrimExpr, column: PrimExpr) -> Stmt:
            return product.mirror(batch, row, column)

        matrices = MatrixProduct(
            *sizes,
            product.dtype,
            product.left.matrix(lhs, names),
            product.right.matrix(rhs, names),
            finish,
            unrolled=not product.has_long_epilogue,
            mirror=mirror if product.is_symmetric else None,
        )
        if product.columns == 1 and not matrices.right.panel:
            matrices = matrices.transposed()  # one row of dot products, or of sums of rows
        loops = static_loops if matrices.is_static else dynamic_loops
        return loops(matrices, machine, threads=threads)

    def multiply_batch(*, parallel: bool) -> Stmt:
        return builders.parallel_loop(
            "place", count, lambda number: multiply(number, threads=False), wanted=parallel
        )

    work, dynamic = split_factors(sizes)
    alone = not dynamic and machine.uses_threads(Work.MATMUL_MULTIPLICATIONS, work)
    if count == 1:
        return multiply(builders.as_expr(0), threads=alone or bool(dynamic))
    if isinstance(count, int) or not alone:
        return choose_threads(
            machine,
            Work.MATMUL_MULTIPLICATIONS,
            (count, *sizes),
            lambda parallel: multiply_batch(parallel=parallel),
        )
    few = builders.loop("place", count, lambda number: multiply(number, threads=True))
    # Each product is enough work for the threads: with few matrices, they share the rows of one
    # after the other, or some threads would have none.
    return tirx.IfThenElse(count >= _MANY_MATRICES, multiply_batch(parallel=True), few)


def _unravel(number: PrimExpr, sizes: Sequence[Extent]) -> list[PrimExpr]:
    """Return the indices of a matrix in the batch from its number."""
    indices: list[PrimExpr] = []
    for axis, size in reversed(list(enumerate(sizes))):
        extent = builders.as_expr(size)
        indices.insert(0, number if axis == 0 else tirx.floormod(number, extent))
        number = tirx.floordiv(number, extent)
    return indices
