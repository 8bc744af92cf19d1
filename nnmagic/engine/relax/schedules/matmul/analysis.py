"""A kernel with a product of matrices, taken apart: the product, what is computed before it, the epilogue.

Knows TIR only. What it cannot read it says with None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import Place, loads_of, same_places
from nnmagic.engine.relax.tir.visitors import rewrite, visit

#: The kind of a block that multiplies matrices.
PRODUCT = "product"


@dataclass(frozen=True, slots=True)
class Stage:
    """An element-wise block: ``buffer[at] = value`` for all ``axes``."""

    buffer: Any
    at: tuple[Any, ...]
    axes: tuple[Any, ...]
    extents: tuple[Any, ...]
    value: Any

    def loops(self) -> Any:
        """The block as serial loops."""
        body: Any = tirx.BufferStore(self.buffer, self.value, list(self.at))
        for axis, extent in zip(reversed(self.axes), reversed(self.extents), strict=True):
            body = tirx.For(axis, builders.expr(0), extent, tirx.ForKind.SERIAL, body)
        return body


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand: a buffer, the place of its first element as an expression of the batch axes, strides."""

    buffer: Any
    base: Place
    row: Place
    column: Place
    panel: int = 0

    def matrix(self, view: Any, batch: Mapping[Any, Any]) -> Matrix:
        """The matrix of one place in the batch."""
        base = self.base
        if not isinstance(base, int):
            base = rewritten(base, batch, {})
        return Matrix(view, base, self.row, self.column, self.panel)

    @property
    def batched(self) -> bool:
        """Whether it differs between places in the batch."""
        return builders.static_int(self.base) != 0


@dataclass(frozen=True, slots=True)
class Product:
    """``result[batch, i, j] = sum(left[i, k] * right[k, j] for k)``, then the stages of the epilogue.

    ``dtype``: of the sums. ``whole``: the batch and the rows of the left matrix are rows of one matrix, and
    the right one is the same for all.
    """

    function: tirx.PrimFunc
    before: tuple[Stage, ...]
    result: Any
    batch: tuple[Any, ...]
    sizes: tuple[Place, ...]
    rows: Place
    columns: Place
    depth: Place
    left: Factor
    right: Factor
    after: tuple[Stage, ...]
    fused: bool

    @property
    def dtype(self) -> str:
        """The dtype of the sums."""
        return str(self.result.ty.dtype)

    @property
    def whole(self) -> bool:
        """Whether the batch is one matrix of more rows."""
        if self.right.batched or builders.static_int(self.left.column) != 1:
            return False
        stride = builders.as_index(self.rows * self.left.row)
        expected: Any = 0
        for axis, size in zip(reversed(self.batch), reversed(self.sizes), strict=True):
            expected = axis * stride + expected
            stride = builders.as_index(stride * size)
        return bool(self.batch) and Analyzer().can_prove_equal(
            builders.expr(expected), builders.expr(self.left.base)
        )

    @property
    def count(self) -> Place:
        """How many matrices there are."""
        found: Place = 1
        for size in self.sizes:
            found = builders.as_index(found * size)
        return found

    def unfused(self) -> list[Any]:
        """The stages of an epilogue that cannot be computed where the sums are, as loops."""
        return [] if self.fused else [stage.loops() for stage in self.after]

    def allocated(self) -> list[Any]:
        """The statements for the buffers that the loops keep values in."""
        params = set(self.function.params)
        stages = self.before if self.fused else (*self.before, *self.after)
        written = [stage.buffer for stage in stages] + ([] if self.fused else [self.result])
        return [tirx.AllocBuffer(one) for one in written if one not in params]

    def finished(self, batch: Sequence[Any], row: Any, column: Any, value: Any) -> Any:
        """The statement that stores a sum, after the epilogue."""
        at = (*batch, row, column)
        if not self.fused or not self.after:
            return tirx.BufferStore(self.result, value, list(at))
        var = tirx.Var("total", self.dtype)
        bound, names = [(var, value)], {self.result: var}
        last = self.after[-1]
        for stage in self.after:
            found = rewritten(stage.value, dict(zip(stage.axes, at, strict=True)), names)
            if stage is not last:
                var = tirx.Var("part", str(stage.buffer.ty.dtype))
                bound.append((var, found))
                names[stage.buffer] = var
        for var, part in reversed(bound):
            found = tirx.Let(var, part, found)
        return tirx.BufferStore(last.buffer, found, list(at))

    @property
    def costly(self) -> bool:
        """Whether the epilogue is too long to be written out for each vector of a tile."""
        nodes: list[Any] = []
        for stage in self.after if self.fused else ():
            visit(stage.value, [(tvm.ir.Expr, nodes.append)])
        return len(nodes) > _LONG


def rewritten(expr: Any, variables: Mapping[Any, Any], buffers: Mapping[Any, Any]) -> Any:
    """The expression with others in the place of variables, and of what it reads from buffers.

    What it binds gets new names: TVM wants one value for each in a function.
    """
    bound: list[Any] = []
    visit(expr, [(tirx.Let, lambda let: bound.append(let.var))])
    names = {**variables, **{var: tirx.Var(var.name, str(var.ty.dtype)) for var in bound}}
    rewrites = [
        (tvm.ir.TensorLoad, lambda load: buffers.get(load.source, load)),
        (tvm.ir.Var, lambda var: names.get(var, var)),
    ]
    return rewrite(expr, rewrites)


#: How many nodes of an epilogue's expressions are written out for each vector of a tile.
_LONG = 60


def read(function: tirx.PrimFunc) -> Product | None:
    """The product that a kernel of serial loops computes; None for another kernel."""
    root = getattr(function.body, "block", None)
    if root is None or root.iter_vars or root.match_buffers:
        return None
    nests = root.body if isinstance(root.body, tirx.SeqStmt) else [root.body]
    found = [block for nest in nests for block in _blocks(nest, [])]
    if any(block is None for block in found):
        return None
    named = [block for block in found if KIND in block.annotations]
    reducing = [block for block in named if _reduced(block)]
    if len(reducing) != 1 or str(reducing[0].annotations[KIND]) != PRODUCT:
        return None
    main = reducing[0]
    result = main.body.buffer
    others = [_stage(block) for block in found if block is not main and not _starts(block, result)]
    stages = [stage for stage in others if stage is not None]
    if len(stages) < len(others):
        return None
    before, after = _sorted(stages, result)
    return _product(function, main, before, after)


def _blocks(nest: Any, loops: list[Any]) -> list[Any]:
    """The blocks inside of loops over exactly their axes, None for one of another form."""
    if isinstance(nest, tirx.For) and nest.kind == tirx.ForKind.SERIAL:
        return _blocks(nest.body, [*loops, nest.loop_var])
    if isinstance(nest, tirx.SeqStmt):
        return [block for part in nest for block in _blocks(part, loops)]
    if not isinstance(nest, s_tir.SBlockRealize) or not isinstance(nest.predicate, tirx.IntImm):
        return [None]
    block = nest.block
    if block.alloc_buffers or block.match_buffers or not isinstance(block.body, tirx.BufferStore):
        return [None]
    same = len(loops) == len(nest.iter_values) and all(
        a.same_as(b) for a, b in zip(loops, nest.iter_values, strict=True)
    )
    return [block if same else None]


def _reduced(block: Any) -> bool:
    return any(var.iter_type == tirx.IterVar.CommReduce for var in block.iter_vars)


def _starts(block: Any, result: Any) -> bool:
    """Whether a block is the initialisation that was taken out of the product."""
    return bool(block.body.buffer.same_as(result))


def _stage(block: Any) -> Stage | None:
    if block.init is not None or _reduced(block):
        return None
    axes = tuple(var.var for var in block.iter_vars)
    extents = tuple(var.dom.extent for var in block.iter_vars)
    return Stage(block.body.buffer, tuple(block.body.indices), axes, extents, block.body.value)


def _sorted(stages: Sequence[Stage], result: Any) -> tuple[list[Stage], list[Stage]]:
    """The stages that do not need the product, and those that do."""
    before, after, made = [], [], {result}
    for stage in stages:
        if any(load.source in made for load in loads_of(stage.value)):
            made.add(stage.buffer)
            after.append(stage)
        else:
            before.append(stage)
    return before, after


def _product(
    function: tirx.PrimFunc, main: Any, before: Sequence[Stage], after: Sequence[Stage]
) -> Product | None:
    axes = [var.var for var in main.iter_vars]
    extents = [builders.as_index(var.dom.extent) for var in main.iter_vars]
    store = main.body
    if len(axes) < 3 or main.iter_vars[-1].iter_type != tirx.IterVar.CommReduce:
        return None
    *batch, row, column, inner = axes
    if not same_places(store.indices, axes[:-1]):
        return None
    total = store.value
    if not isinstance(total, tirx.Add) or not isinstance(total.b, tirx.Mul):
        return None
    left = _factor(total.b.a, row, inner)
    right = _factor(total.b.b, inner, column)
    if left is None or right is None:
        return None
    result = store.buffer
    shape = tuple(zip(axes[:-1], (var.dom.extent for var in main.iter_vars[:-1]), strict=True))
    written = [stage.buffer for stage in (*before, *after)] + [result]
    results = [one for one in written if one in set(function.params)]
    fused = (
        len(results) == 1
        and results[0].same_as((after[-1] if after else store).buffer)
        and all(_elementwise(stage, result, after, shape) for stage in after)
        and _bindings(after) <= _MOST_BINDINGS
    )
    *sizes, rows, columns, depth = extents
    return Product(
        function,
        tuple(before),
        result,
        tuple(batch),
        tuple(sizes),
        rows,
        columns,
        depth,
        left,
        right,
        tuple(after),
        fused,
    )


#: The bindings that an epilogue may have: as many as one function of vector mathematics. More of them on a
#: tile need its registers: two to four fused took up to twice as long as a kernel of their own.
_MOST_BINDINGS = 12


def _bindings(stages: Sequence[Stage]) -> int:
    found: list[Any] = []
    for stage in stages:
        visit(stage.value, [(tirx.Let, found.append)])
    return len(found)


def _elementwise(stage: Stage, result: Any, after: Sequence[Stage], shape: Sequence[tuple[Any, Any]]) -> bool:
    """Whether a stage of the product's shape reads the product and its epilogue at the very element."""
    if len(stage.axes) != len(shape) or not same_places(stage.at, stage.axes):
        return False
    analyzer = Analyzer()
    if not all(
        analyzer.can_prove_equal(extent, size) for extent, (_, size) in zip(stage.extents, shape, strict=True)
    ):
        return False
    made = {result, *(one.buffer for one in after)}
    return all(same_places(load.indices, stage.axes) for load in loads_of(stage.value) if load.source in made)


def _factor(value: Any, first: Any, second: Any) -> Factor | None:
    """What an operand reads: strides of the two axes of the matrix, the batch's part of the place."""
    if isinstance(value, tirx.Cast):
        value = value.value
    if not isinstance(value, tvm.ir.TensorLoad):
        return None
    buffer = value.source
    if list(buffer.ty.strides or ()):
        return None
    stride: Place = 1
    strides: dict[Any, Place] = {}
    base: Any = 0
    dims = list(buffer.ty.shape)
    for index, dim in zip(reversed(list(value.indices)), reversed(dims), strict=True):
        if index.same_as(first) or index.same_as(second):
            if index in strides:
                return None
            strides[index] = stride
        else:
            used: list[Any] = []
            visit(index, [(tvm.ir.Var, used.append)])
            if first in used or second in used:
                return _in_panels(value, first, second)
            if builders.static_int(index) != 0:
                base = index * stride + base
        stride = builders.as_index(stride * builders.as_index(dim))
    if first not in strides or second not in strides:
        return _in_panels(value, first, second)
    return Factor(buffer, base, strides[first], strides[second])


def _in_panels(value: Any, row: Any, column: Any) -> Factor | None:
    """A matrix whose columns stand in panels: [columns / width][rows][width]."""
    indices, dims = list(value.indices), list(value.source.ty.shape)
    if len(indices) != 3 or not indices[1].same_as(row) or builders.static_int(dims[2]) is None:
        return None
    width = int(builders.static_int(dims[2]) or 1)
    panel, place = indices[0], indices[2]
    if not (isinstance(panel, tirx.FloorDiv) and isinstance(place, tirx.FloorMod)):
        return None
    same = all(one.a.same_as(column) and builders.static_int(one.b) == width for one in (panel, place))
    return Factor(value.source, 0, width, 1, width) if same else None
