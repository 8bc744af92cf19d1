"""Point at parts of arrays that kernels would copy: rows, columns, and slices without a step.

A kernel that copies what lies together in memory, such as ``a[i, 1:k]``, is left out where nothing changes
the array until the copy was read for the last time, and everything that takes the copy only reads it. Of a
column, that must be single elements: kernels take what lies together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.step_operands import values_read
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.legalize.slicing import COPIES_ROWS
from nnmagic.engine.relax.schedules.kernel_analysis import KernelStages, Stage, read_kernel
from nnmagic.engine.relax.tir.builders import are_equal, as_expr, collect_loads, dtype_of, product, static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, Load, PrimExpr, PrimFunc, Var
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite


def point_at_parts(program: AotProgram) -> None:
    """Replace the kernels of a program that need not copy, and drop those that nothing calls any more."""
    views: dict[ir.GlobalVar, _Part | None] = {}
    functions = (program.entry, *program.functions)
    memory, has_control = _Memory(program), program.has_control
    for function in functions:
        memory.join_carried(function)
        for region in list(aot.regions_of(function.body)):
            for step in list(region):
                if not isinstance(step, aot.KernelCall):
                    continue
                if step.kernel not in views:
                    kernel = program.kernels[step.kernel]
                    # of straight code, not each kernel is looked into: that takes milliseconds
                    worth = has_control or COPIES_ROWS in kernel.attrs
                    views[step.kernel] = _read_part(kernel) if worth else None
                view = views[step.kernel]
                if view is not None and _may_point(function, region, step, view, memory):
                    _replace(function, region, step, view, memory)
    called = {step.kernel for each in functions for step in each.steps() if isinstance(step, aot.KernelCall)}
    for kernel in [kernel for kernel in program.kernels if kernel not in called]:
        del program.kernels[kernel]


@dataclass(frozen=True, slots=True)
class _Part:
    """A kernel that copies from the element at ``indices`` of ``source`` on.

    step: how far apart the elements are of a vector that does not lie together, else None.
    """

    source: Buffer
    indices: tuple[Index, ...]
    step: Extent | None
    buffers: tuple[Buffer, ...]
    sizes: tuple[Var, ...]


def _read_part(kernel: PrimFunc) -> _Part | None:
    """Return the part that a kernel copies; None for any other kernel."""
    stages = read_kernel(kernel)
    if stages is None or len(stages.stages) != 1:
        return None
    (stage,) = stages.stages
    load = stage.value
    if not stage.is_elementwise or not stage.writes_at_axes or not isinstance(load, ir.TensorLoad):
        return None
    view = _first_element(stage, stages, load.source, load.indices)
    if view is None or dtype_of(load.source) != dtype_of(stage.buffer):
        return None
    indices, step = view
    buffers = tuple(param for param in kernel.params if isinstance(param.ty, tirx.BufferType))
    return _Part(load.source, indices, step, buffers, tuple(aot.kernel_sizes(kernel)))


def _first_element(
    stage: Stage, stages: KernelStages, source: Buffer, indices: Sequence[Index]
) -> tuple[tuple[Index, ...], Extent | None] | None:
    """Return the index of the first element that a stage copies, and the step of a vector."""
    extents = stages.shape(stage)
    axes = [number for number, extent in enumerate(extents) if static_int(extent) != 1]
    first: list[Index] = []
    step: Extent | None = None
    for position, index in enumerate(indices):
        own = [axis for axis in stage.axes if _uses(index, axis)]
        if len(own) > 1:
            return None
        for axis in own:
            if not (index.same_as(axis) or _is_shifted(index, axis)):
                return None
            number = next(at for at, each in enumerate(stage.axes) if each.same_as(axis))
            if number in axes:
                # A transposed part does not lie together in the order of its elements.
                if number != axes.pop(0):
                    return None
                steps = (product(extents[number + 1 :]), product(list(source.ty.shape)[position + 1 :]))
                if not are_equal(*steps):
                    if len(extents) > 1:
                        return None
                    step = steps[1]
        first.append(replace_vars(as_expr(index), dict.fromkeys(own, as_expr(0))))
    return None if axes else (tuple(first), step)


def _uses(index: Index, axis: Var) -> bool:
    return any(var.same_as(axis) for var in tirx.analysis.undefined_vars(tirx.Evaluate(as_expr(index))))


def _is_shifted(index: Index, axis: Var) -> bool:
    """Return whether an index is an axis and something that does not depend on it."""
    if not isinstance(index, tirx.Add):
        return False
    return any(a.same_as(axis) and not _uses(b, axis) for a, b in ((index.a, index.b), (index.b, index.a)))


# Where a part may be pointed at


class _Memory:
    """What the steps of functions change, and which arrays may share memory."""

    def __init__(self, program: AotProgram) -> None:
        self._shared = {*program.shared_functions(), *program.separate_functions()}
        self._parent: dict[aot.Storage, aot.Storage] = {}
        self._read_only: dict[aot.Storage, bool] = {}

    def join_carried(self, function: aot.NativeFunction) -> None:
        """Note that what rounds and branches hand on may share memory with what it is handed on as."""
        for step in function.steps():
            if isinstance(step, aot.Assign | aot.NextRound):
                assign = step.assign if isinstance(step, aot.NextRound) else step
                for target, value in assign.pairs:
                    if isinstance(target, aot.Storage) and isinstance(value, aot.Storage):
                        self.join(target, value)

    def join(self, one: aot.Storage, other: aot.Storage) -> None:
        """Note that two arrays share memory."""
        one, other = self.find(one), self.find(other)
        if one is not other:
            self._parent[one] = other

    def find(self, storage: aot.Storage) -> aot.Storage:
        """Return what is the same for all arrays that may share the memory."""
        # Union-find (Tarjan, 1975), by arrays that may share memory.
        while storage in self._parent:
            storage = self._parent[storage]
        return storage

    def mentioned(self, step: aot.Step) -> list[aot.Value]:
        """Return the values that a step reads or writes."""
        return [*values_read(step), *self.changed(step)]

    def only_reads(self, step: aot.Step, storage: aot.Storage) -> bool:
        """Return whether a step that takes an array neither changes it nor hands it on."""
        takes = isinstance(
            step, aot.KernelCall | aot.ScalarCode | aot.StoreElement | aot.PointAt | aot.FunctionCall
        )
        return takes and storage not in self.changed(step)

    def changed(self, step: aot.Step) -> list[aot.Storage]:
        """Return the arrays that a step may change."""
        values: Iterable[aot.Value] = ()
        match step:
            case aot.KernelCall(args=args, reads=reads):  # what is changed in place is the last one
                values = args[reads:] or args[-1:]
            case aot.StoreElement(storage=storage):
                values = (storage,)
            case aot.CopyArray(target=target) | aot.MakeArray(target=target):
                values = (target,)
            case aot.FunctionCall(callee=callee, args=args, results=results):
                pairs = zip(args, callee.parameters, strict=True)
                values = (*results, *(arg for arg, param in pairs if not self._is_read_only(callee, param)))
        return [value for value in values if isinstance(value, aot.Storage)]

    def only_elements(self, step: aot.Step, storage: aot.Storage) -> bool:
        """Return whether a step only reads single elements of an array, in all functions that it calls."""
        match step:
            case aot.ScalarCode():
                return True
            case aot.StoreElement(storage=changed):
                return changed is not storage
            case aot.FunctionCall(callee=callee, args=args):
                params = [param for arg, param in zip(args, callee.parameters, strict=True) if arg is storage]
                return callee not in self._shared and all(
                    self.only_elements(inner, param)
                    for param in params
                    if isinstance(param, aot.Storage)
                    for inner in callee.steps()
                    if param in self.mentioned(inner)
                )
        return False

    def _is_read_only(self, function: aot.NativeFunction, param: aot.Value) -> bool:
        """Return whether a function only reads an argument."""
        # A recursive function would ask about itself.
        if not isinstance(param, aot.Storage) or function.recursive:
            return False
        if param not in self._read_only:
            steps = [step for step in function.steps() if param in self.mentioned(step)]
            self._read_only[param] = all(self.only_reads(step, param) for step in steps)
        return self._read_only[param]


def _may_point(
    function: aot.NativeFunction, region: aot.Region, call: aot.KernelCall, view: _Part, memory: _Memory
) -> bool:
    """Return whether a copy is only read, and before anything changes what it was copied from."""
    values = dict(zip(view.buffers, call.args, strict=True))
    source, copy = values[view.source], call.args[-1]
    indices = [values[load.source] for index in view.indices for load in collect_loads(as_expr(index))]
    if not isinstance(source, aot.Storage) or not isinstance(copy, aot.Storage) or copy.kind != "temporary":
        return False
    # An address is computed of registers: an index in memory would have to be loaded.
    if any(isinstance(index, aot.Storage) for index in indices):
        return False
    position = next(at for at, step in enumerate(region) if step is call)
    following = list(aot.steps_of(region[position + 1 :]))
    uses = [at for at, step in enumerate(following) if copy in memory.mentioned(step)]
    # Uses in another region, such as the next round of a loop, may come after a change of the
    # source.
    if len(uses) + 1 != sum(copy in memory.mentioned(step) for step in function.steps()):
        return False
    if not all(memory.only_reads(following[at], copy) for at in uses):
        return False
    if view.step is not None and not all(memory.only_elements(following[at], copy) for at in uses):
        return False
    changed = [each for step in following[: max(uses, default=-1) + 1] for each in memory.changed(step)]
    # A change of the source, or of anything that may share its memory, between the copy and its
    # last use would show in the view.
    return memory.find(source) not in map(memory.find, changed)


def _replace(
    function: aot.NativeFunction, region: aot.Region, call: aot.KernelCall, part: _Part, memory: _Memory
) -> None:
    """Point at the part instead of calling the kernel; a part of that shares the source's memory, too."""
    values: dict[Buffer, aot.Value] = dict(zip(part.buffers, call.args, strict=True))
    source, view = values[part.source], call.args[-1]
    assert isinstance(source, aot.Storage)
    assert isinstance(view, aot.Storage)
    view.kind = "view"
    view.sources.append(source)
    memory.join(view, source)
    function.pointers.append(view)
    sizes = dict(zip(part.sizes, call.sizes, strict=True))
    position = next(at for at, step in enumerate(region) if step is call)
    region[position] = aot.PointAt(view, source, part.source, part.indices, values, sizes)
    if part.step is not None:
        _read_with_step(function, view, replace_vars(as_expr(part.step), sizes))


def _read_with_step(function: aot.NativeFunction, view: aot.Storage, step: PrimExpr) -> None:
    """Make the reads of a vector's elements reads of elements that are some steps apart."""
    for region in aot.regions_of(function.body):
        for position, extent in enumerate(region):
            if isinstance(extent, aot.FunctionCall) and view in extent.args:
                distance = tirx.Var("step", "int64")
                extent.callee.dims.append(distance)
                region[position] = replace(extent, sizes=(*extent.sizes, step))
                for arg, param in zip(extent.args, extent.callee.parameters, strict=True):
                    if arg is view and isinstance(param, aot.Storage):
                        _read_with_step(extent.callee, param, distance)
            elif isinstance(extent, aot.ScalarCode | aot.StoreElement) and view in extent.values.values():
                region[position] = _apart(extent, view, step)


def _apart(
    code: aot.ScalarCode | aot.StoreElement, view: aot.Storage, step: PrimExpr
) -> aot.ScalarCode | aot.StoreElement:
    """Return a step that reads the elements of a vector as the first column of an array with longer rows."""
    length = tirx.Var("step", "int64")
    columns = {
        buffer: tirx.decl_buffer((1 << 40, length), dtype_of(buffer), buffer.name)
        for buffer, value in code.values.items()
        if value is view
    }

    def read(load: Load) -> Load:
        column = columns.get(load.source)
        return load if column is None else tirx.BufferLoad(column, [*load.indices, as_expr(0)])

    def apart(expr: PrimExpr) -> PrimExpr:
        return rewrite(expr, [(ir.TensorLoad, read)])

    values = {columns.get(buffer, buffer): value for buffer, value in code.values.items()}
    sizes = {**code.sizes, length: step}
    if isinstance(code, aot.StoreElement):
        indices = tuple(apart(as_expr(index)) for index in code.indices)
        return replace(code, indices=indices, value=apart(code.value), values=values, sizes=sizes)
    stages = tuple(replace(stage, values=tuple(map(apart, stage.values))) for stage in code.stages)
    return replace(code, stages=stages, values=values, sizes=sizes)
