"""Read a kernel of plain loops as stages: the buffers that each block writes, its axes, and its values.

All families of schedules start from here. Each family has an analysis of its own for the rest: a main block
and its epilogue, the factors of a product, axes that stages have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tvm
from tvm import s_tir, tirx

from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, indices_are_axes
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import VarMap, collect, rewrite


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One block: ``write[indices] = value`` for each of its writes and for all of ``axes``.

    The values of a reduction read the writes, and are applied for all of ``reduced``, which are among the
    axes; before that the writes hold ``inits``. Several writes occur where an index and a value are
    reduced together.
    """

    writes: tuple[Buffer, ...]
    indices: tuple[Index, ...]
    axes: tuple[Var, ...]
    reduced: tuple[Var, ...]
    values: tuple[PrimExpr, ...]
    inits: tuple[PrimExpr, ...] | None

    @property
    def reduces(self) -> bool:
        """Return whether this is a reduction."""
        return self.inits is not None

    @property
    def buffer(self) -> Buffer:
        """Return the first buffer that the stage writes."""
        return self.writes[0]

    @property
    def value(self) -> PrimExpr:
        """Return the first value."""
        return self.values[0]

    @property
    def is_elementwise(self) -> bool:
        """Return whether each element of one buffer is computed independently."""
        return not self.reduced and self.inits is None and len(self.writes) == 1

    @property
    def writes_at_axes(self) -> bool:
        """Return whether the indices of the writes are the axes, in order."""
        return indices_are_axes(self.indices, self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class BlockStage(Stage):
    """A stage as its block has it.

    loops_are_axes: whether the loops around the block are its axes, in order. in_own_nest: whether no other
    block is inside of these loops.
    """

    annotations: Mapping[str, Node]
    loops_are_axes: bool
    in_own_nest: bool


@dataclass(frozen=True, slots=True)
class KernelStages:
    """A kernel as stages in order, with the extents of their axes and the buffers that it allocates."""

    stages: tuple[BlockStage, ...]
    extents: Mapping[Var, Extent]
    allocated: frozenset[Buffer]

    def shape(self, stage: Stage) -> list[Extent]:
        """Return the extents of a stage's axes."""
        return [self.extents[axis] for axis in stage.axes]

    def loops(self, stage: Stage) -> Stmt:
        """Return an element-wise stage as serial loops."""
        body: Stmt = tirx.BufferStore(stage.buffer, stage.value, list(stage.indices))
        for axis in reversed(stage.axes):
            body = tirx.For(axis, as_expr(0), self.extents[axis], tirx.ForKind.SERIAL, body)
        return body


def read_kernel(function: tirx.PrimFunc) -> KernelStages | None:
    """Read a kernel; return None where it is more than loops from 0 around blocks that store elements."""
    root = getattr(function.body, "block", None)
    if root is None or root.iter_vars or root.match_buffers:
        return None
    extents: dict[Var, Extent] = {}
    stages: list[BlockStage] = []
    for nest in _statements(root.body):
        blocks = _blocks_in_loops(nest, {})
        if blocks is None:
            return None
        for block, loops in blocks:
            stage = _read_block(block, loops, extents, in_own_nest=len(blocks) == 1)
            if stage is None:
                return None
            stages.append(stage)
    return KernelStages(tuple(stages), extents, frozenset(root.alloc_buffers))


def _statements(body: Stmt) -> list[Stmt]:
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _blocks_in_loops(nest: Stmt, loops: dict[Var, Extent]) -> list[tuple[Node, dict[Var, Extent]]] | None:
    """Return the realized blocks in a nest with the loops around each; None for a nest of another form."""
    match nest:
        case tirx.For():
            # A nest that is unrolled or vectorised has its schedule already.
            kinds = (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL)
            if nest.kind not in kinds or not _is_int(nest.min, 0):
                return None
            return _blocks_in_loops(nest.body, {**loops, nest.loop_var: nest.extent})
        case tirx.SeqStmt():
            parts = [_blocks_in_loops(stmt, loops) for stmt in nest.seq]
            return [block for stmt in parts for block in stmt or ()] if None not in parts else None
        case s_tir.SBlockRealize():
            # A predicate guards elements that a split loop computes too many of: such a kernel was
            # scheduled already.
            return [(nest, loops)] if _is_int(nest.predicate, 1) else None
        case _:
            return None


def _is_int(value: PrimExpr, number: int) -> bool:
    return isinstance(value, tirx.IntImm) and bool(value.value == number)


def _read_block(
    realize: Node, loops: Mapping[Var, Extent], extents: dict[Var, Extent], *, in_own_nest: bool
) -> BlockStage | None:
    """Read a block, and add the extents of its axes: each is a loop's variable, or has one element.

    The axis that TVM gives the block of a scalar is none of the stage.
    """
    block = realize.block
    of_scalar = not loops and all(isinstance(value, tirx.IntImm) for value in realize.iter_values)
    dummies = dict(zip((var.var for var in block.iter_vars), realize.iter_values, strict=True))
    stores = _read_stores(block.body, dummies if of_scalar else {})
    inits = () if block.init is None else _read_stores(block.init, {})
    if block.alloc_buffers or block.match_buffers or stores is None or inits is None:
        return None
    for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True):
        # An axis that is computed, as i * 4 + j is, would have no loop of its own.
        if value not in loops and not isinstance(value, tirx.IntImm):
            return None
        extents[iter_var.var] = loops[value] if value in loops else as_expr(1)
    is_plain = of_scalar and block.init is None
    axes = () if is_plain else tuple(iter_var.var for iter_var in block.iter_vars)
    reduced = [var.var for var in block.iter_vars if var.iter_type == tirx.IterVar.CommReduce]
    return BlockStage(
        tuple(store.buffer for store in stores),
        tuple(stores[0].indices),
        axes,
        tuple(reduced),
        tuple(store.value for store in stores),
        tuple(store.value for store in inits) if block.init is not None else None,
        dict(block.annotations),
        is_plain or indices_are_axes(realize.iter_values, list(loops)),
        in_own_nest,
    )


def _read_stores(body: Stmt, known: Mapping[Var, PrimExpr]) -> list[tirx.BufferStore] | None:
    """Return the stores of a block, with the values that it binds substituted; None for other statements.

    ``known`` are values of the block's variables.
    """
    bound = dict(known)
    stores = []
    for statement in _statements(body):
        match statement:
            case tirx.Bind():
                bound[statement.var] = statement.value
            case tirx.BufferStore():
                value = substitute(statement.value, bound) if bound else statement.value
                stores.append(tirx.BufferStore(statement.buffer, value, list(statement.indices)))
            case _:
                return None
    return stores or None


def rename_lets(value: PrimExpr, names: Mapping[Var, PrimExpr]) -> dict[Var, PrimExpr]:
    """Add a new variable to ``names`` for each that the value binds: TVM wants one binding of each."""
    bound = [let.var for let in collect(tirx.Let, value)]
    return {**names, **{var: tirx.Var(var.name, dtype_of(var)) for var in bound}}


def substitute(
    expr: PrimExpr, variables: Mapping[Var, PrimExpr], loads: Mapping[Buffer, PrimExpr] | None = None
) -> PrimExpr:
    """Return the expression with other expressions for variables, and for every load of some buffers."""
    values = loads or {}
    callbacks = [
        (tvm.ir.Var, VarMap(variables).replace),
        (tvm.ir.TensorLoad, lambda load: values.get(load.source, load)),
    ]
    return rewrite(expr, callbacks)
