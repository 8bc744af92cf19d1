"""Read a kernel that reduces as stages over named axes: inline cheap values, and unify axes.

A kernel that is not supported (loops of another form, buffers that are not read as they were written) gives
None, and keeps the loops that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import tvm
import tvm_ffi
from tvm import tirx

from nnmagic.engine.relax.schedules.kernel_analysis import BlockStage, KernelStages, Stage, read_kernel
from nnmagic.engine.relax.tir.builders import (
    are_equal,
    as_index,
    collect_loads,
    dtype_of,
    product,
    static_int,
)
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, Node, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import collect, rewrite

#: The annotation of a reduction to an index (argmax, argmin): a key of ``argreduce.TIE_RULES``.
TIE_RULE = "nnmagic.place"

#: An expression of more nodes than this is computed once and kept, where several stages need it.
_LARGE_NODES = 40

#: The length that a dynamic axis counts as where sizes decide.
_DYNAMIC_LENGTH = 1 << 10

#: Calls that cost about as much as an addition.
_CHEAP_CALLS = {"isnan", "if_then_else", "shift_left", "shift_right", "reinterpret", "fabs", "likely"}
_CHEAP_CALLS |= {f"bitwise_{name}" for name in ("and", "or", "xor", "not")}
_CHEAP_CALLS |= {"floor", "ceil", "trunc", "nearbyint"}

#: By buffer, a function from the indices of a load to the expression that replaces it.
LoadSubstitutions = Mapping[Buffer, Callable[[list[Index]], PrimExpr]]


@dataclass(frozen=True, slots=True, eq=False)
class ReductionStage(Stage):
    """A stage whose axes are the variables of its indices, then those that are reduced.

    tie_rule: which index a reduction to an index keeps, a key of ``argreduce.TIE_RULES``; it has two writes.
    in_order: whether such a reduction visits the indices from the first on.
    decided: of a part of a reduction of truth values, the flag that is set by the part that decides the
    result; the others are skipped then.
    """

    tie_rule: str | None = None
    in_order: bool = True
    decided: Buffer | None = None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers that the stage writes and reads."""
        return (*self.writes, *(load.source for load in collect_loads(*self.values)))

    def derive(
        self,
        *,
        writes: Sequence[Buffer] | None = None,
        indices: Sequence[Index] | None = None,
        reduced: Sequence[Var] | None = None,
        values: Sequence[PrimExpr] | None = None,
    ) -> ReductionStage:
        """Return the stage with other parts, and with the axes that these have."""
        indices = self.indices if indices is None else tuple(indices)
        reduced = self.reduced if reduced is None else tuple(reduced)
        return replace(
            self,
            writes=self.writes if writes is None else tuple(writes),
            indices=indices,
            axes=_axes_of(indices, reduced),
            reduced=reduced,
            values=self.values if values is None else tuple(values),
        )

    def substitute(self, names: Mapping[Var, PrimExpr], loads: LoadSubstitutions) -> ReductionStage:
        """Return the stage with other axes, and with other expressions for loads of some buffers."""
        return self.derive(
            indices=[substitute_axes(index, names) for index in self.indices],
            reduced=[names.get(axis, axis) for axis in self.reduced],
            values=[substitute_axes(value, names, loads) for value in self.values],
        )


def _axes_of(indices: Sequence[Index], reduced: Sequence[Var]) -> tuple[Var, ...]:
    return (*dict.fromkeys(axis for index in indices for axis in variables_of(index)), *reduced)


@dataclass(frozen=True, slots=True)
class Chunk:
    """An axis that is a part of a dynamic one, or counts its parts: its extent has a bound.

    most: the largest extent. whole: the extent of all parts together, or the least that it is.
    """

    most: Extent
    whole: Extent


@dataclass(frozen=True, slots=True)
class ReductionKernel:
    """Stages in the order in which they are computed.

    kept: the kernel's own buffers that stages write for one another. views: by buffer with merged dimensions,
    the one whose memory it is. chunks: the dynamic axes whose extents have a bound.
    """

    stages: tuple[ReductionStage, ...]
    extents: Mapping[Var, Extent]
    kept: frozenset[Buffer]
    views: Mapping[Buffer, Buffer] = field(default_factory=dict)
    chunks: Mapping[Var, Chunk] = field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Return whether all sizes are static."""
        return are_static(self.extents.values())

    def count(self, axes: Sequence[Var]) -> Extent:
        """Return how many elements the axes have together, at most."""
        return product(self.chunks[axis].most if axis in self.chunks else self.extents[axis] for axis in axes)

    def estimate(self, axes: Sequence[Var]) -> int:
        """Return about how many elements the axes have together."""
        return estimate(self.extents[axis] for axis in axes)


def are_static(extents: Iterable[Extent]) -> bool:
    """Return whether all extents are static."""
    return all(isinstance(extent, int) for extent in extents)


def estimate(extents: Iterable[Extent]) -> int:
    """Return the product of extents, with a guess for dynamic ones."""
    return math.prod(extent if isinstance(extent, int) else _DYNAMIC_LENGTH for extent in extents)


def substitute_axes(
    expr: PrimExpr, names: Mapping[Var, PrimExpr], loads: LoadSubstitutions | None = None
) -> PrimExpr:
    """Return the expression with other expressions for variables and for loads of some buffers."""
    functions = loads or {}

    def rewrite_variable(var: Var) -> PrimExpr:
        value = names.get(var)
        if value is None:
            return var
        return value if dtype_of(value) == dtype_of(var) else value.astype(dtype_of(var))

    def rewrite_load(load: Load) -> PrimExpr:
        function = functions.get(load.source)
        return load if function is None else function(list(load.indices))

    return rewrite(expr, [(tvm.ir.Var, rewrite_variable), (tvm.ir.TensorLoad, rewrite_load)])


def always(expr: PrimExpr) -> Callable[[list[Index]], PrimExpr]:
    """Return a substitution of loads that is the same expression for all indices."""
    return lambda _indices: expr


def variables_of(*exprs: PrimExpr) -> list[Var]:
    """Return the variables of expressions, in order."""
    return collect(tvm.ir.Var, *exprs)


def count_nodes(expr: PrimExpr) -> int:
    """Return how many nodes an expression has."""
    return len(collect(tvm.ir.Expr, expr))


def count_costly(expr: PrimExpr) -> int:
    """Return how many nodes of an expression are costly: functions and divisions."""
    return sum(isinstance(node, tirx.Div) or _is_costly_call(node) for node in collect(tvm.ir.Expr, expr))


def _is_costly_call(node: Node) -> bool:
    return isinstance(node, tvm.ir.Call) and node.op.name.removeprefix("tirx.") not in _CHEAP_CALLS


def read_reduction_kernel(function: tirx.PrimFunc) -> ReductionKernel | None:
    """Read a function of serial loops as a kernel, each axis named once; None for another function."""
    kernel = read_kernel(function)
    if kernel is None or not _are_supported([*function.params, *kernel.allocated]):
        return None
    extents: dict[Var, Extent] = {}
    stages = []
    for stage in kernel.stages:
        named = _name_axes(stage, kernel, extents)
        if named is None:
            return None
        stages.append(named)
    inlined = _inline_cheap(stages, kernel.allocated, extents)
    return _unify_axes(inlined, kernel.allocated, extents)


def _are_supported(params: Sequence[Var]) -> bool:
    """Return whether the buffers among the parameters are compact, and none of a static shape is empty."""
    buffers = [param for param in params if isinstance(param.ty, tirx.BufferType)]
    compact = not any(list(buffer.ty.strides or ()) for buffer in buffers)
    return compact and not any(static_int(dim) == 0 for buffer in buffers for dim in buffer.ty.shape)


def _name_axes(stage: BlockStage, kernel: KernelStages, extents: dict[Var, Extent]) -> ReductionStage | None:
    """Return the stage with new variables for its axes, and 0 for axes of one element."""
    names: dict[Var, PrimExpr] = {}
    reduced: list[Var] = []
    if not stage.in_own_nest:
        return None
    for var in stage.axes:
        extent = as_index(kernel.extents[var])
        if isinstance(extent, int) and extent == 1:
            names[var] = tirx.const(0, dtype_of(var))
            continue
        names[var] = axis = tirx.Var(var.name, "int64")
        extents[axis] = extent
        if var in stage.reduced:
            reduced.append(axis)
    rule = stage.annotations.get(TIE_RULE)
    inits = stage.inits or ()
    if (inits or reduced) and len(inits) != len(stage.writes):
        return None
    if len(stage.writes) > 1 and (rule is None or (inits and not reduced)):
        return None
    indices = tuple(substitute_axes(index, names) for index in stage.indices)
    if inits and not reduced:  # a reduction over axes of one element
        initial = {write: always(value) for write, value in zip(stage.writes, inits, strict=True)}
        values = tuple(substitute_axes(value, names, initial) for value in stage.values)
        return ReductionStage(stage.writes, indices, _axes_of(indices, ()), (), values, None)
    return ReductionStage(
        stage.writes,
        indices,
        _axes_of(indices, reduced),
        tuple(reduced),
        tuple(substitute_axes(value, names) for value in stage.values),
        inits if reduced else None,
        None if rule is None else str(rule),
    )


def _inline_cheap(
    stages: Sequence[ReductionStage], own: frozenset[Buffer], extents: Mapping[Var, Extent]
) -> list[ReductionStage]:
    """Inline element functions that only other stages read into these, where that is cheap."""
    result: list[ReductionStage] = []
    waiting = list(stages)
    while waiting:
        stage = waiting.pop(0)
        several = len(stage.writes) > 1
        if stage.reduces or several or stage.buffer not in own or not _should_inline(stage, waiting, extents):
            result.append(stage)
            continue

        def element(indices: list[Index], stage: ReductionStage = stage) -> PrimExpr:
            pairs = zip(stage.indices, indices, strict=True)
            return substitute_axes(stage.value, {axis: index for axis, index in pairs if is_axis(axis)})

        waiting = [reader.substitute({}, {stage.buffer: element}) for reader in waiting]
    return result


def _should_inline(
    stage: ReductionStage, readers: Sequence[ReductionStage], extents: Mapping[Var, Extent]
) -> bool:
    if not all(is_axis(index) or isinstance(index, tirx.IntImm) for index in stage.indices):
        return False
    reads = [
        reader
        for reader in readers
        for load in collect_loads(*reader.values)
        if load.source.same_as(stage.buffer)
    ]
    reads_bfloat16 = any(dtype_of(load.source) == "bfloat16" for load in collect_loads(*stage.values))
    if reads_bfloat16 and any(_has_let(reader.values) for reader in reads):
        return False  # TVM reads bfloat16 inside of a Let as integers
    if not count_costly(stage.value):
        return count_nodes(stage.value) <= _LARGE_NODES or len(reads) <= 1
    count = estimate(extents[axis] for axis in stage.axes)
    return len(reads) <= 1 and all(
        estimate(extents[axis] for axis in reader.axes) <= count for reader in reads
    )


def _has_let(exprs: Sequence[PrimExpr]) -> bool:
    return bool(collect(tirx.Let, *exprs))


def is_axis(index: Index) -> bool:
    """Return whether an index is a variable."""
    return isinstance(index, tvm.ir.Var)


class _AxisNames:
    """Axes that are the same one, as a union of names."""

    def __init__(self) -> None:
        self._names: dict[Var, Var] = {}

    def find(self, axis: Var) -> Var:
        """Return the name of an axis."""
        while axis in self._names:
            axis = self._names[axis]
        return axis

    def unite(self, axis: Var, other: Var) -> None:
        """Give another axis the name of this one."""
        if not self.find(axis).same_as(self.find(other)):
            self._names[self.find(other)] = self.find(axis)


def _unify_axes(
    stages: Sequence[ReductionStage], own: frozenset[Buffer], extents: dict[Var, Extent]
) -> ReductionKernel | None:
    """Give equal axes one name; return None where a buffer is not read as it was written."""
    names = _AxisNames()
    writers: dict[Buffer, ReductionStage] = {}
    for stage in stages:
        for load in collect_loads(*stage.values):
            writer = writers.get(load.source)
            if writer is None or load.source in stage.writes:
                continue
            for axis, index in zip(writer.indices, load.indices, strict=True):
                if not is_axis(axis):
                    continue
                if index not in extents or not are_equal(extents[axis], extents[index]):
                    return None
                names.unite(axis, index)
        writers.update(dict.fromkeys(stage.writes, stage))
    for stage in stages:
        if len({names.find(axis) for axis in stage.axes}) < len(set(stage.axes)):
            return None
    _unite_axes_of_operands(stages, names, extents)
    final = {axis: names.find(axis) for axis in extents}
    unified = [stage.substitute(final, {}) for stage in stages]
    kept = frozenset(buffer for stage in unified for buffer in stage.writes if buffer in own)
    used = {axis for stage in unified for axis in stage.axes}
    return ReductionKernel(tuple(unified), {axis: extents[axis] for axis in extents if axis in used}, kept)


def _unite_axes_of_operands(
    stages: Sequence[ReductionStage], names: _AxisNames, extents: Mapping[Var, Extent]
) -> None:
    """Unite axes of several stages that run along the same dimension of buffers of one shape."""
    along: dict[tuple[object, int], Var] = {}
    for stage in stages:
        for load in collect_loads(*stage.values):
            shape = tvm_ffi.StructuralKey(list(load.source.ty.shape))
            for position, index in enumerate(load.indices):
                if index not in extents:
                    continue
                first = names.find(along.setdefault((shape, position), index))
                second = names.find(index)
                if first.same_as(second) or not are_equal(extents[first], extents[second]):
                    continue
                if not any({first, second} <= set(map(names.find, other.axes)) for other in stages):
                    names.unite(first, second)
