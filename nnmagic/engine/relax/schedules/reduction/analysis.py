"""A kernel taken apart: stages, each of which says what one buffer holds, as a function of named axes.

Knows TIR only. What it cannot read (loops of another form, blocks inside of blocks, sizes that are not known)
it says with None, and the kernel keeps the loops that it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import s_tir, tirx

from nnmagic.engine.relax.tir.builders import loads_of
from nnmagic.engine.relax.tir.visitors import rewrite, visit

#: The annotation of a reduction to a place (argmax, argmin): a key of ``places.KEEPS``.
PLACE = "nnmagic.place"

#: An expression larger than this is computed once and kept, where several stages need it.
_LARGE = 40

#: What costs about as much as an addition.
_CHEAP_CALLS = {"isnan", "if_then_else", "shift_left", "shift_right", "reinterpret", "fabs", "likely"}
_CHEAP_CALLS |= {f"bitwise_{name}" for name in ("and", "or", "xor", "not")}


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """``targets[at] = values`` for all ``at``, or for a reduction ``values`` applied for all of ``reduced``.

    The values of a reduction read the targets; ``inits`` is what they are before. There are two targets where
    a place and a value are reduced together, else one; ``in_order`` says that such a reduction comes to the
    places from the first on. ``at`` has an axis, or an expression, for each dimension.
    """

    targets: tuple[Any, ...]
    at: tuple[Any, ...]
    reduced: tuple[Any, ...]
    values: tuple[Any, ...]
    inits: tuple[Any, ...] | None
    place: str | None = None
    in_order: bool = True

    @property
    def reduces(self) -> bool:
        """Whether this is a reduction."""
        return self.inits is not None

    @property
    def axes(self) -> tuple[Any, ...]:
        """The axes of the targets, then those that are reduced."""
        found = dict.fromkeys(axis for index in self.at for axis in variables(index))
        return (*found, *self.reduced)

    @property
    def buffers(self) -> tuple[Any, ...]:
        """What it writes and reads."""
        return (*self.targets, *(load.source for load in loads_of(*self.values)))

    def mapped(self, names: Mapping[Any, Any], loads: Mapping[Any, Callable[..., Any]]) -> Stage:
        """The stage with other axes, and other expressions where it reads some buffers."""
        return replace(
            self,
            at=tuple(rewritten(index, names, {}) for index in self.at),
            reduced=tuple(names.get(axis, axis) for axis in self.reduced),
            values=tuple(rewritten(value, names, loads) for value in self.values),
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """Stages in the order in which they are computed. ``kept``: which buffers they write for one another."""

    stages: tuple[Stage, ...]
    extents: Mapping[Any, int]
    kept: frozenset[Any]


def rewritten(
    expr: Any, variables: Mapping[Any, Any], loads: Mapping[Any, Callable[[list[Any]], Any]]
) -> Any:
    """The expression with other variables, and with other expressions where it reads some buffers."""

    def variable(var: Any) -> Any:
        found = variables.get(var)
        return var if found is None else _of_dtype(found, var)

    def load(node: Any) -> Any:
        found = loads.get(node.source)
        return node if found is None else found(list(node.indices))

    callbacks = [(tvm.ir.Var, variable), (tvm.ir.TensorLoad, load)]
    return rewrite(expr, callbacks)


def always(expr: Any) -> Callable[[list[Any]], Any]:
    """What reads at any indices give, where that is one expression."""
    return lambda _indices: expr


def _of_dtype(expr: Any, like: Any) -> Any:
    dtype = str(like.ty.dtype)
    return expr if str(expr.ty.dtype) == dtype else expr.astype(dtype)


def variables(expr: Any) -> list[Any]:
    """The variables of an expression of indices, in order."""
    found: list[Any] = []
    visit(expr, [(tvm.ir.Var, found.append)])
    return found


def shape_of(buffer: Any) -> tuple[int, ...]:
    """The dimensions of a buffer, all known."""
    return tuple(int(dim) for dim in buffer.ty.shape)


def dtype_of(buffer: Any) -> str:
    """The dtype of a buffer's elements."""
    return str(buffer.ty.dtype)


def size(expr: Any) -> tuple[int, int]:
    """How many nodes an expression has, and how many of them are costly: functions, divisions."""
    nodes: list[Any] = []
    visit(expr, [(tvm.ir.Expr, nodes.append)])
    costly = [node for node in nodes if isinstance(node, tirx.Div) or _costly_call(node)]
    return len(nodes), len(costly)


def _costly_call(node: Any) -> bool:
    return isinstance(node, tvm.ir.Call) and node.op.name.removeprefix("tirx.") not in _CHEAP_CALLS


def kernel_of(function: tirx.PrimFunc) -> Kernel | None:
    """The kernel that a function of serial loops is, each axis named once; None for another function."""
    root = getattr(function.body, "block", None)
    if root is None or root.iter_vars or not _all_known(function, root):
        return None
    extents: dict[Any, int] = {}
    stages = []
    for nest in root.body if isinstance(root.body, tirx.SeqStmt) else [root.body]:
        stage = _stage(nest, extents)
        if stage is None:
            return None
        stages.append(stage)
    inlined = _inlined(stages, frozenset(root.alloc_buffers), extents)
    return _unified(inlined, frozenset(root.alloc_buffers), extents)


def _all_known(function: tirx.PrimFunc, root: Any) -> bool:
    buffers = [*(p for p in function.params if isinstance(p.ty, tirx.BufferType)), *root.alloc_buffers]
    dims = [dim for buffer in buffers for dim in buffer.ty.shape]
    plain = not any(list(buffer.ty.strides or ()) for buffer in buffers)
    return plain and all(isinstance(dim, tirx.IntImm) and dim.value > 0 for dim in dims)


def _stage(nest: Any, extents: dict[Any, int]) -> Stage | None:
    """One nest of loops around one block, with new names for its axes; axes of one element are gone."""
    loops = {}
    while isinstance(nest, tirx.For):
        if nest.kind != tirx.ForKind.SERIAL or not isinstance(nest.extent, tirx.IntImm):
            return None
        loops[nest.loop_var] = int(nest.extent)
        nest = nest.body
    if not isinstance(nest, s_tir.SBlockRealize) or not isinstance(nest.predicate, tirx.IntImm):
        return None
    block = nest.block
    if block.alloc_buffers or block.match_buffers:
        return None
    names: dict[Any, Any] = {}
    reduced = []
    for iter_var, value in zip(block.iter_vars, nest.iter_values, strict=True):
        var = iter_var.var
        extent = loops.get(value, 1 if isinstance(value, tirx.IntImm) else 0)
        if extent == 0:
            return None
        if extent == 1:
            names[var] = tirx.const(0, str(var.ty.dtype))
            continue
        names[var] = axis = tirx.Var(var.name, "int64")
        extents[axis] = extent
        if iter_var.iter_type == tirx.IterVar.CommReduce:
            reduced.append(axis)
    stores = _stores(block.body)
    inits = () if block.init is None else _stores(block.init)
    if stores is None or inits is None or (reduced and len(inits) != len(stores)):
        return None
    at = tuple(rewritten(index, names, {}) for index in stores[0].indices)
    place = block.annotations.get(PLACE)
    if len(stores) > 1 and place is None:
        return None
    if inits and not reduced:  # over axes of one element
        started = {one.buffer: always(one.value) for one in inits}
        values = tuple(rewritten(one.value, names, started) for one in stores)
        if len(values) > 1:
            return None
        return Stage((stores[0].buffer,), at, (), values, None)
    return Stage(
        tuple(one.buffer for one in stores),
        at,
        tuple(reduced),
        tuple(rewritten(one.value, names, {}) for one in stores),
        tuple(one.value for one in inits) if reduced else None,
        None if place is None else str(place),
    )


def _stores(body: Any) -> list[Any] | None:
    """The stores of a block, what they name put in its place."""
    bound: dict[Any, Any] = {}
    found = []
    for statement in body if isinstance(body, tirx.SeqStmt) else [body]:
        match statement:
            case tirx.Bind():
                bound[statement.var] = statement.value
            case tirx.BufferStore():
                value = rewritten(statement.value, bound, {}) if bound else statement.value
                found.append(tirx.BufferStore(statement.buffer, value, list(statement.indices)))
            case _:
                return None
    return found or None


def _inlined(stages: Sequence[Stage], own: frozenset[Any], extents: Mapping[Any, int]) -> list[Stage]:
    """Element functions that only other stages read put into these, where that is cheap."""
    result: list[Stage] = []
    waiting = list(stages)
    while waiting:
        stage = waiting.pop(0)
        (target, *more) = stage.targets
        if stage.reduces or more or target not in own or not _worth_inlining(stage, waiting, extents):
            result.append(stage)
            continue
        axes = stage.at
        value = stage.values[0]

        def element(indices: list[Any], axes: Any = axes, value: Any = value) -> Any:
            names = {axis: index for axis, index in zip(axes, indices, strict=True) if _is_axis(axis)}
            return rewritten(value, names, {})

        waiting = [reader.mapped({}, {target: element}) for reader in waiting]
    return result


def _worth_inlining(stage: Stage, readers: Sequence[Stage], extents: Mapping[Any, int]) -> bool:
    if not all(_is_axis(index) or isinstance(index, tirx.IntImm) for index in stage.at):
        return False
    target = stage.targets[0]
    reads = [
        (reader, load)
        for reader in readers
        for load in loads_of(*reader.values)
        if load.source.same_as(target)
    ]
    if any(dtype_of(load.source) == "bfloat16" for load in loads_of(*stage.values)) and any(
        _has_let(reader.values) for reader, _ in reads
    ):
        return False  # TVM reads bfloat16 inside of a Let as integers
    nodes, costly = size(stage.values[0])
    if not costly:
        return nodes <= _LARGE or len(reads) <= 1
    count = _product(extents[axis] for axis in stage.axes)
    return len(reads) <= 1 and all(
        _product(extents[axis] for axis in reader.axes) <= count for reader, _ in reads
    )


def _has_let(exprs: Sequence[Any]) -> bool:
    found: list[Any] = []
    for expr in exprs:
        visit(expr, [(tirx.Let, found.append)])
    return bool(found)


def _product(numbers: Any) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _is_axis(index: Any) -> bool:
    return isinstance(index, tvm.ir.Var)


def _unified(stages: Sequence[Stage], own: frozenset[Any], extents: dict[Any, int]) -> Kernel | None:
    """The kernel with one name for what is one axis; None where a buffer is not read as it was written."""
    names: dict[Any, Any] = {}

    def name(axis: Any) -> Any:
        while axis in names:
            axis = names[axis]
        return axis

    written: dict[Any, Stage] = {}
    for stage in stages:
        for load in loads_of(*stage.values):
            writer = written.get(load.source)
            if writer is None or load.source in stage.targets:
                continue
            for axis, index in zip(writer.at, load.indices, strict=True):
                if not _is_axis(axis):
                    continue
                if not _is_axis(index) or extents[axis] != extents[index]:
                    return None
                if not name(axis).same_as(name(index)):
                    names[name(index)] = name(axis)
        written.update(dict.fromkeys(stage.targets, stage))
    apart = [{name(axis) for axis in stage.axes} for stage in stages]
    if any(len(names) < len(set(stage.axes)) for names, stage in zip(apart, stages, strict=True)):
        return None
    _named_alike(stages, names, name, extents)
    final = {axis: name(axis) for axis in extents}
    unified = [stage.mapped(final, {}) for stage in stages]
    kept = frozenset(buffer for stage in unified for buffer in stage.targets if buffer in own)
    used = {axis for stage in unified for axis in stage.axes}
    return Kernel(tuple(unified), {axis: extents[axis] for axis in extents if axis in used}, kept)


def _named_alike(
    stages: Sequence[Stage], names: dict[Any, Any], name: Callable[[Any], Any], extents: Mapping[Any, int]
) -> None:
    """One name also for axes of several stages that go along the same dimension of what they read."""
    along: dict[tuple[Any, int], Any] = {}
    for stage in stages:
        for load in loads_of(*stage.values):
            for place, index in enumerate(load.indices):
                if not _is_axis(index):
                    continue
                first, second = name(along.setdefault((load.source, place), index)), name(index)
                if first.same_as(second) or extents[first] != extents[second]:
                    continue
                if not any({first, second} <= {name(axis) for axis in other.axes} for other in stages):
                    names[second] = first


@dataclass(frozen=True, slots=True)
class View:
    """A buffer with two of its dimensions as one: those at ``position`` and behind, which has ``extent``."""

    buffer: Any
    position: int
    extent: int


def merged(kernel: Kernel) -> tuple[Kernel, dict[Any, View]]:
    """The kernel with axes that always stand side by side as one axis, and the views by which it is so."""
    views: dict[Any, View] = {}
    refused: set[tuple[Any, Any]] = set()
    while True:
        pair = next((pair for pair in _neighbours(kernel) if pair not in refused), None)
        if pair is None:
            return kernel, views
        joined = _joined(kernel, pair, views)
        if joined is None:
            refused.add(pair)
        else:
            kernel = joined


def _accesses(stage: Stage) -> list[tuple[Any, list[Any]]]:
    reads = [(load.source, list(load.indices)) for load in loads_of(*stage.values)]
    return [*((target, list(stage.at)) for target in stage.targets), *reads]


def _neighbours(kernel: Kernel) -> list[tuple[Any, Any]]:
    found: dict[tuple[Any, Any], None] = {}
    for stage in kernel.stages:
        for _, indices in _accesses(stage):
            for a, b in itertools.pairwise(indices):
                if _is_axis(a) and _is_axis(b):
                    found[a, b] = None
    return list(found)


def _joined(kernel: Kernel, pair: tuple[Any, Any], views: dict[Any, View]) -> Kernel | None:
    a, b = pair
    extent = kernel.extents[b]
    places: dict[Any, int] = {}
    for stage in kernel.stages:
        axes, reduced = set(stage.axes), set(stage.reduced)
        if (a in axes) != (b in axes) or (a in reduced) != (b in reduced):
            return None
        for buffer, indices in _accesses(stage):
            used = [var for index in indices for var in variables(index)]
            if not (a in used or b in used):
                continue
            found = [k for k, index in enumerate(indices) if index.same_as(a)]
            if len(found) != 1 or used.count(a) != 1 or used.count(b) != 1:
                return None
            k = found[0]
            if k + 1 == len(indices) or not indices[k + 1].same_as(b):
                return None
            if shape_of(buffer)[k + 1] != extent or places.setdefault(buffer, k) != k:
                return None
    written = {target for stage in kernel.stages for target in stage.targets}
    both = tirx.Var(a.name, "int64")
    new: dict[Any, Any] = {}
    for buffer, k in places.items():
        shape = shape_of(buffer)
        new[buffer] = tirx.decl_buffer(
            [*shape[:k], shape[k] * extent, *shape[k + 2 :]], dtype_of(buffer), buffer.name
        )
    for stage in kernel.stages:  # a buffer that is written is read in one way
        for load in loads_of(*stage.values):
            if load.source in written and load.source in new and a not in variables_of(load):
                return None
    names = {a: both // extent, b: both % extent}
    stages = [_with_views(stage, names, (a, b, both), places, new) for stage in kernel.stages]
    kept = frozenset(new.get(buffer, buffer) for buffer in kernel.kept)
    for buffer, k in places.items():
        if buffer not in kernel.kept:
            views[new[buffer]] = View(buffer, k, extent)
    extents = {axis: count for axis, count in kernel.extents.items() if axis not in (a, b)}
    return Kernel(tuple(stages), {**extents, both: kernel.extents[a] * extent}, kept)


def variables_of(load: Any) -> list[Any]:
    """The variables in the indices of what is read."""
    return [var for index in load.indices for var in variables(index)]


def _with_views(
    stage: Stage,
    names: Mapping[Any, Any],
    axes: tuple[Any, Any, Any],
    places: Mapping[Any, int],
    new: Mapping[Any, Any],
) -> Stage:
    a, b, both = axes

    def joined(indices: Sequence[Any], k: int) -> list[Any]:
        return [*indices[:k], both, *indices[k + 2 :]]

    def load(node: Any) -> Any:
        k = places.get(node.source)
        if k is None or not node.indices[k].same_as(a):
            return node
        return tirx.BufferLoad(new[node.source], joined(list(node.indices), k))

    values = [rewrite(value, [(tvm.ir.TensorLoad, load)]) for value in stage.values]
    target = stage.targets[0]
    moved = target in places and any(index.same_as(a) for index in stage.at)
    return replace(
        stage,
        targets=tuple(new[one] for one in stage.targets) if moved else stage.targets,
        at=tuple(joined(stage.at, places[target])) if moved else stage.at,
        reduced=tuple(both if axis.same_as(a) else axis for axis in stage.reduced if not axis.same_as(b)),
        values=tuple(rewritten(value, names, {}) for value in values),
    )


def resolved(buffer: Any, indices: Sequence[Any], views: Mapping[Any, View]) -> tuple[Any, list[Any]]:
    """The buffer that a view is of, and the indices there."""
    found = list(indices)
    while buffer in views:
        view = views[buffer]
        k = view.position
        found[k : k + 1] = [tirx.floordiv(found[k], view.extent), tirx.floormod(found[k], view.extent)]
        buffer = view.buffer
    return buffer, found
