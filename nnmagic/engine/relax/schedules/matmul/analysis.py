"""Split a kernel with a matrix product: the product, the stages before it, and its epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import tirx
from tvm.sym import Analyzer

from nnmagic.engine.relax.schedules.elementwise.schedule import elementwise_loops, is_elementwise
from nnmagic.engine.relax.schedules.kernel_analysis import (
    BlockStage,
    KernelStages,
    Stage,
    read_kernel,
    rename_lets,
    substitute,
)
from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import collect_loads, dtype_of, indices_are_axes
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import collect

#: The kind of a block that multiplies matrices.
PRODUCT = "product"

#: How many nodes of an epilogue's expressions are unrolled for each vector of a tile.
_MOST_UNROLLED_NODES = 60

#: The bindings that an epilogue may have: as many as one function of vector mathematics. More of them on a
#: tile need its registers: two to four fused took up to twice as long as a kernel of their own.
_MOST_BINDINGS = 12


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand: a buffer, the index of its first element as an expression of the batch axes, strides.

    panel: the width of the panels in which the columns are stored, 0 for other layouts.
    """

    buffer: Buffer
    base: Index
    row: Index
    column: Index
    panel: int = 0

    def matrix(self, view: Buffer, batch: Mapping[Var, PrimExpr]) -> Matrix:
        """Return the matrix of one index in the batch."""
        base = self.base
        if not isinstance(base, int):
            base = substitute_with_new_lets(base, batch, {})
        return Matrix(view, base, self.row, self.column, self.panel)

    @property
    def is_batched(self) -> bool:
        """Return whether the matrices of a batch differ."""
        return builders.static_int(self.base) != 0


@dataclass(frozen=True, slots=True)
class Product:
    """``result[batch, i, j] = sum(left[i, k] * right[k, j] for k)``, then the stages of the epilogue.

    batch, sizes: the axes of the batch, and their extents. fused: whether the epilogue is computed where the
    sums are.
    """

    function: tirx.PrimFunc
    kernel: KernelStages
    before: tuple[BlockStage, ...]
    result: Buffer
    batch: tuple[Var, ...]
    sizes: tuple[Extent, ...]
    rows: Extent
    columns: Extent
    depth: Extent
    left: Factor
    right: Factor
    after: tuple[BlockStage, ...]
    fused: bool

    @property
    def dtype(self) -> str:
        """Return the dtype of the sums."""
        return dtype_of(self.result)

    @property
    def is_one_matrix(self) -> bool:
        """Return whether the batch is one matrix of more rows, times the same right matrix."""
        if self.right.is_batched or builders.static_int(self.left.column) != 1:
            return False
        stride = builders.as_index(self.rows * self.left.row)
        expected: Index = 0
        for axis, size in zip(reversed(self.batch), reversed(self.sizes), strict=True):
            # The batch of row-major left matrices, [b, i, k], is one matrix of b * i rows where the
            # matrices follow one another without a gap.
            expected = axis * stride + expected
            stride = builders.as_index(stride * size)
        return bool(self.batch) and Analyzer().can_prove_equal(
            builders.as_expr(expected), builders.as_expr(self.left.base)
        )

    @property
    def count(self) -> Extent:
        """Return how many matrices there are."""
        count: Extent = 1
        for size in self.sizes:
            count = builders.as_index(count * size)
        return count

    @property
    def is_symmetric(self) -> bool:
        """Return whether a matrix is multiplied by its own transpose, and the epilogue keeps the symmetry."""
        lhs, rhs = self.left, self.right
        pairs = ((lhs.base, rhs.base), (lhs.row, rhs.column), (lhs.column, rhs.row))
        equal = Analyzer().can_prove_equal
        return (
            lhs.buffer.same_as(rhs.buffer)
            and not lhs.panel
            and not rhs.panel
            and all(equal(*map(builders.as_expr, pair)) for pair in (*pairs, (self.rows, self.columns)))
            and (not self.fused or all(map(self._is_free_of_places, self.after)))
        )

    def _is_free_of_places(self, stage: BlockStage) -> bool:
        """Return whether a stage of the epilogue gives equal elements for equal sums."""
        computed = (self.result, *(each.buffer for each in self.after))
        # With the sums replaced by a constant, an axis that is still mentioned comes from another
        # operand or from the position itself, as a bias of the columns does: the result is not
        # symmetric then.
        rest = substitute(stage.value, {}, {buffer: tirx.const(1, dtype_of(buffer)) for buffer in computed})
        used = collect(tvm.ir.Var, rest)
        return not any(axis in used for axis in stage.axes)

    def mirror(self, batch: Sequence[PrimExpr], row: PrimExpr, column: PrimExpr) -> Stmt:
        """Return the statement that copies a finished element to its place across the diagonal."""
        result = self.after[-1].buffer if self.fused and self.after else self.result
        value = tirx.BufferLoad(result, [*batch, row, column])
        return tirx.BufferStore(result, value, [*batch, column, row])

    def loops_before(self) -> list[Stmt]:
        """Return the stages before the product as loops."""
        return [self.kernel.loops(stage) for stage in self.before]

    def loops_after(self, machine: CpuModel) -> list[Stmt]:
        """Return the stages of an epilogue that is not fused as loops, with the buffers that are theirs."""
        if self.fused or not self.after:  # where nothing reads it, its shape alone was wanted
            return []
        if is_elementwise(self.after):
            stages = replace(self.kernel, stages=self.after)
            loops = elementwise_loops(stages, {*self.function.params, *self._own_buffers()}, machine)
            if loops is not None:
                return loops
        return [
            *self._allocate(stage.buffer for stage in self.after),
            *(self.kernel.loops(stage) for stage in self.after),
        ]

    def allocations(self) -> list[Stmt]:
        """Return the statements that allocate the buffers of the product and of the stages before it."""
        return self._allocate(self._own_buffers())

    def _own_buffers(self) -> list[Buffer]:
        return [*(stage.buffer for stage in self.before), *([] if self.fused else [self.result])]

    def _allocate(self, buffers: Iterable[Buffer]) -> list[Stmt]:
        params = set(self.function.params)
        return [tirx.AllocBuffer(buffer) for buffer in buffers if buffer not in params]

    def finish(self, batch: Sequence[PrimExpr], row: PrimExpr, column: PrimExpr, value: PrimExpr) -> Stmt:
        """Return the statement that stores a sum, after the epilogue."""
        indices = (*batch, row, column)
        if not self.fused or not self.after:
            return tirx.BufferStore(self.result, value, list(indices))
        var = tirx.Var("total", self.dtype)
        bindings, values = [(var, value)], {self.result: var}
        *inner, last = self.after
        for stage in inner:
            stmt = substitute_with_new_lets(stage.value, dict(zip(stage.axes, indices, strict=True)), values)
            var = tirx.Var("part", dtype_of(stage.buffer))
            bindings.append((var, stmt))
            values[stage.buffer] = var
        result = substitute_with_new_lets(last.value, dict(zip(last.axes, indices, strict=True)), values)
        for var, stmt in reversed(bindings):
            result = tirx.Let(var, stmt, result)
        return tirx.BufferStore(last.buffer, result, list(indices))

    @property
    def has_long_epilogue(self) -> bool:
        """Return whether the epilogue is too long to be unrolled for each vector of a tile."""
        nodes = collect(tvm.ir.Expr, *(stage.value for stage in self.after if self.fused))
        return len(nodes) > _MOST_UNROLLED_NODES


def substitute_with_new_lets(
    expr: PrimExpr, variables: Mapping[Var, PrimExpr], loads: Mapping[Buffer, PrimExpr]
) -> PrimExpr:
    """Substitute variables and loads, and rename the variables that the expression binds.

    TVM wants one binding of each variable in a function.
    """
    return substitute(expr, rename_lets(expr, variables), loads)


def read_product(function: tirx.PrimFunc) -> Product | None:
    """Read the product that a kernel of serial loops computes; return None for another kernel."""
    kernel = read_kernel(function)
    if kernel is None or not all(_is_supported(stage) for stage in kernel.stages):
        return None
    mains = [stage for stage in kernel.stages if KIND in stage.annotations and stage.reduced]
    if len(mains) != 1 or str(mains[0].annotations[KIND]) != PRODUCT:
        return None
    (main,) = mains
    # A decomposed reduction has a block of its own that initializes the result.
    others = [stage for stage in kernel.stages if stage is not main and not stage.buffer.same_as(main.buffer)]
    if not all(stage.is_elementwise for stage in others):
        return None
    before, after = _split_at_product(others, main.buffer)
    return _read_factors(function, kernel, main, before, after)


def _is_supported(stage: BlockStage) -> bool:
    return stage.loops_are_axes and len(stage.writes) == 1


def _split_at_product(
    stages: Sequence[BlockStage], result: Buffer
) -> tuple[list[BlockStage], list[BlockStage]]:
    """Return the stages that do not need the product, and those that do."""
    before: list[BlockStage] = []
    after: list[BlockStage] = []
    dependent = {result}
    for stage in stages:
        if any(load.source in dependent for load in collect_loads(stage.value)):
            dependent.add(stage.buffer)
            after.append(stage)
        else:
            before.append(stage)
    return before, after


def _read_factors(
    function: tirx.PrimFunc,
    kernel: KernelStages,
    main: Stage,
    before: Sequence[BlockStage],
    after: Sequence[BlockStage],
) -> Product | None:
    if len(main.axes) < 3 or not main.axes[-1].same_as(main.reduced[-1]):
        return None
    *batch, row, column, inner = main.axes
    total = main.value
    if not indices_are_axes(main.indices, main.axes[:-1]):
        return None
    if not isinstance(total, tirx.Add) or not isinstance(total.b, tirx.Mul):
        return None
    lhs = _read_factor(total.b.a, row, inner)
    rhs = _read_factor(total.b.b, inner, column)
    if lhs is None or rhs is None:
        return None
    *sizes, rows, columns, depth = (builders.as_index(extent) for extent in kernel.shape(main))
    if depth == 0:  # sums of nothing: zeros
        return None
    return Product(
        function,
        kernel,
        tuple(before),
        main.buffer,
        tuple(batch),
        tuple(sizes),
        rows,
        columns,
        depth,
        lhs,
        rhs,
        tuple(after),
        _can_fuse(function, kernel, main, before, after),
    )


def _can_fuse(
    function: tirx.PrimFunc,
    kernel: KernelStages,
    main: Stage,
    before: Sequence[BlockStage],
    after: Sequence[BlockStage],
) -> bool:
    """Return whether the epilogue can be computed where the sums are."""
    params = set(function.params)
    written = [stage.buffer for stage in (*before, *after)] + [main.buffer]
    results = [buffer for buffer in written if buffer in params]
    return (
        len(results) == 1
        and results[0].same_as((after[-1] if after else main).buffer)
        and all(_reads_at_element(kernel, stage, main, after) for stage in after)
        # The sums must not be needed anywhere else: an epilogue in registers never stores them.
        and sum(_count_bindings(stage) for stage in after) <= _MOST_BINDINGS
    )


def _count_bindings(stage: Stage) -> int:
    return len(collect(tirx.Let, stage.value))


def _reads_at_element(kernel: KernelStages, stage: Stage, main: Stage, after: Sequence[Stage]) -> bool:
    """Return whether a stage of the product's shape reads the product and its epilogue at one element."""
    shape, own_shape = kernel.shape(main)[:-1], kernel.shape(stage)
    if len(own_shape) != len(shape) or not stage.writes_at_axes:
        return False
    analyzer = Analyzer()
    if not all(analyzer.can_prove_equal(a, b) for a, b in zip(own_shape, shape, strict=True)):
        return False
    computed = {main.buffer, *(other.buffer for other in after)}
    loads = [load for load in collect_loads(stage.value) if load.source in computed]
    # An epilogue that reads a neighbour's sum, as a shift or a softmax does, needs a whole finished
    # tile or row.
    return all(indices_are_axes(load.indices, stage.axes) for load in loads)


def _read_factor(value: PrimExpr, first: Var, second: Var) -> Factor | None:
    """Read an operand: the strides of the matrix's two axes, and the batch's part of the index."""
    if isinstance(value, tirx.Cast):
        value = value.value
    if not isinstance(value, tvm.ir.TensorLoad):
        return None
    buffer = value.source
    if list(buffer.ty.strides or ()):
        return None
    stride: Index = 1
    strides: dict[Var, Index] = {}
    base: Index = 0
    dims = list(buffer.ty.shape)
    for index, dim in zip(reversed(list(value.indices)), reversed(dims), strict=True):
        if index.same_as(first) or index.same_as(second):
            # One index twice, as in x[i, i]: a diagonal has no stride of its own.
            if index in strides:
                return None
            strides[index] = stride
        else:
            used = collect(tvm.ir.Var, index)
            if first in used or second in used:
                return _read_panels(value, first, second)
            if builders.static_int(index) != 0:
                base = index * stride + base
        stride = builders.as_index(stride * builders.as_index(dim))
    if first not in strides or second not in strides:
        return _read_panels(value, first, second)
    return Factor(buffer, base, strides[first], strides[second])


def _read_panels(load: Load, row: Var, column: Var) -> Factor | None:
    """Read a matrix whose columns are stored in panels: [columns / width][rows][width]."""
    indices, dims = list(load.indices), list(load.source.ty.shape)
    if len(indices) != 3 or not indices[1].same_as(row):
        return None
    width = builders.static_int(dims[2])
    panel, _, lane = indices
    if width is None or not (isinstance(panel, tirx.FloorDiv) and isinstance(lane, tirx.FloorMod)):
        return None
    divides = all(node.a.same_as(column) and builders.static_int(node.b) == width for node in (panel, lane))
    size = builders.as_index(dims[1]) * width
    return Factor(load.source, 0, width, size, width) if divides else None
