"""Plan calls of kernels and of native functions, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, relax, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.destructive_updates import single_store
from nnmagic.engine.relax.codegen.aot.planning.arrays import (
    Planned,
    UnsupportedError,
    array_numbers,
    bind_sizes,
    count_elements,
    fields_of,
    is_reshape,
    match_dims,
    with_sizes,
)
from nnmagic.engine.relax.codegen.aot.planning.cells import is_cell_call, plan_cell
from nnmagic.engine.relax.codegen.aot.planning.values import ValuePlanner
from nnmagic.engine.relax.codegen.aot.program import Value as NativeValue
from nnmagic.engine.relax.codegen.aot.scalar_code import load_element, read_scalar_stages
from nnmagic.engine.relax.legalize.counted_results import COUNTS_ELEMENTS
from nnmagic.engine.relax.legalize.extern_loops import COPIES_RESULT
from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call
from nnmagic.engine.relax.runtime.callbacks import (
    ASSERTED,
    INDEX_IN_RANGE,
    REQUIRED,
    SHAPE_TO_NAME,
    SHAPES_FIT,
    SIZES_NAMED,
)
from nnmagic.engine.relax.runtime.compiled_program import TOO_DEEP
from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, PrimFunc, RelaxExpr, Var

_RESHAPE = ir.Op.get("relax.reshape")
_TENSOR_TO_SHAPE = ir.Op.get("relax.tensor_to_shape")


class CallPlanner(ValuePlanner):
    """Plans the calls of one function."""

    def _value(self, region: aot.Region, binding: RelaxExpr) -> Planned:
        """Plan the value of a binding that is no branch."""
        value = binding.value
        match value:
            case ir.Call() if is_kernel_call(value):
                return self._kernel_call(region, value, binding.var)
            case ir.Call() if value.op in (_RESHAPE, _TENSOR_TO_SHAPE):
                return self._operand(value.args[0])
            case ir.Call() if isinstance(value.op, ir.GlobalVar):
                return self._function_call(region, value, binding.var)
            case ir.Call() if is_cell_call(value):
                return self._cell(region, value, binding.var)
            case ir.Call() if isinstance(value.op, relax.ExternFunc):
                return self._check(region, value)
        return self._operand(value)

    def _cell(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> Planned:
        """Plan a call of an operator of cells."""
        operands = [arg for arg in call.args if not isinstance(arg.ty, ir.PrimType)]
        arrays = [self._array_of(operand) for operand in operands]
        planned = plan_cell(call, list(map(self._leaf, operands)), arrays, self.planner.place)
        region += planned.steps
        self.native.named.update(dict.fromkeys(planned.sizes))
        if planned.array is not None:
            self.arrays[var] = planned.array
        return planned.value

    def _kernel_call(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> Planned:
        kernel, operands, *extra = call.args
        function, type_ = self.planner.module[kernel], call.ty
        outputs = [self._array(field) for field in fields_of(type_)]
        arrays: list[aot.Array] = []
        reads: list[NativeValue] = []
        explicit: list[PrimExpr] = []
        for operand in operands.fields:
            if isinstance(operand.ty, ir.PrimType):
                explicit.append(self._size(getattr(operand, "value", operand)))
                continue
            reads.append(self._leaf(operand))
            arrays.append(self._array_of(operand))
        explicit += [self._size(size) for shape in extra for size in shape.values]
        sizes = bind_sizes(function, [*arrays, *outputs], explicit)
        # Row-major arrays of one size hold their elements in the same order: a reshape costs
        # nothing.
        if len(reads) == 1 and is_reshape(function, [*arrays, *outputs]):
            return reads[0]
        if COPIES_RESULT in (function.attrs or {}) and _is_own(reads[0]):
            return reads[0]  # the end of the program copies it, where it is not in the memory of the result
        if var in self.in_place.kernels:
            # The copying kernel stays for calls that need the old array as well.
            number, name, changing = self.planner.kernel_in_place(kernel)
            if isinstance(changed := reads[number], aot.Storage):
                others = [*arrays[:number], *arrays[number + 1 :], *outputs[1:]]
                work = sum(map(count_elements, others), start=1)
                more = [self.planner.place(output) for output in outputs[1:]]
                args = (*reads[:number], *reads[number + 1 :], changed, *more)
                if more or not self._store_element(region, changing, args, sizes, call.span):
                    self._run(region, name, changing, args, len(reads), sizes, work)
                return (changed, *more) if more else changed
        updated = self.in_place.updates.get(var)
        if updated is not None and isinstance(changed := reads[updated], aot.Storage):
            name, updating = self.planner.updating_kernel(kernel, updated)
            args = (*reads[:updated], *reads[updated + 1 :], changed)
            self._run(region, name, updating, args, len(reads), sizes, count_elements(outputs[0]))
            return changed
        written = [self.planner.place(output) for output in outputs]
        if COUNTS_ELEMENTS in (function.attrs or {}):
            self.bounds |= dict.fromkeys(written, count_elements(arrays[0]))
        planned = tuple(written) if isinstance(type_, relax.TupleType) else written[0]
        if all(isinstance(value, aot.Register) for value in written):
            stages = read_scalar_stages(expand_regions(function))
            if stages is not None:
                buffers = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
                values: dict[Buffer, NativeValue] = dict(zip(buffers, [*reads, *written], strict=True))
                for buffer in (buffer for stage in stages for buffer in stage.writes):
                    values.setdefault(buffer, aot.Register(dtype_of(buffer), buffer.name))
                region.append(aot.ScalarCode(stages, values, sizes, tuple(reads), call.span))
                return planned
        work = sum(map(count_elements, outputs), start=1)
        self._run(region, kernel, function, (*reads, *written), len(reads), sizes, work, call.span)
        return planned

    def _run(
        self,
        region: aot.Region,
        name: ir.GlobalVar,
        kernel: PrimFunc,
        args: tuple[NativeValue, ...],
        reads: int,
        sizes: Mapping[Var, PrimExpr],
        work: Extent,
        span: ir.Span | None = None,
    ) -> None:
        """Call a kernel, which has a name in the program."""
        self.program.kernels[name] = kernel
        # Kernels are called with addresses: their operands first, then the results, as `call_tir` has them.
        taken = tuple(sizes[var] for var in aot.kernel_sizes(kernel))
        region.append(aot.KernelCall(name, args, reads, taken, work, span=span))

    def _store_element(
        self,
        region: aot.Region,
        kernel: PrimFunc,
        args: Sequence[NativeValue],
        sizes: Mapping[Var, PrimExpr],
        span: ir.Span | None,
    ) -> bool:
        """Plan a kernel that changes its last argument as a store, if it stores one element of others."""
        *others, changed = args
        store = single_store(kernel)
        if store is None or not isinstance(changed, aot.Storage):
            return False
        if not all(isinstance(other, aot.Register | aot.Immediate) for other in others):
            return False
        buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
        values = dict(zip(buffers, args, strict=True))
        indices = tuple(store.indices)
        stored = aot.StoreElement(changed, store.buffer, indices, store.value, values, dict(sizes), span)
        region.append(stored)
        return True

    def _give(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> list[NativeValue]:
        """Return the arguments of a call; a copy of what the callee changes and is needed here."""
        consumed = self.planner.in_place[call.op].consumed
        given = self.in_place.given.get(var, set())
        args: list[NativeValue] = []
        for number, arg in enumerate(call.args):
            if isinstance(arg, relax.ShapeExpr):
                continue
            value = self._leaf(arg)
            # The callee changes its parameter for all callers. One that still needs the array
            # passes a copy.
            if number in consumed and number not in given and isinstance(value, aot.Storage):
                nbytes = self._array_of(arg).nbytes
                copy = aot.Storage("temporary", -1, nbytes)
                region.append(aot.CopyArray(value, copy, nbytes))
                value = copy
            args.append(value)
        return args

    def _function_call(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> Planned:
        callee, type_ = self.planner.native(call.op), var.ty
        operands = [arg for arg in call.args if not isinstance(arg, relax.ShapeExpr)]
        args = tuple(
            self._in_memory(region, value, self._array_of(operand))
            if isinstance(param, aot.Storage)
            else value
            for value, operand, param in zip(
                self._give(region, call, var), operands, callee.parameters, strict=True
            )
        )
        sizes = self._given_sizes(call, self.planner.module[call.op])
        for dim, size in match_dims(callee.arrays, [self._array_of(arg) for arg in operands]).items():
            self._require_size(region, size, sizes.setdefault(dim, size))
        if any(dim not in sizes for dim in callee.dims):
            raise UnsupportedError
        if self.native.named:
            own = [with_sizes(array, sizes) for array in callee.arrays]
            self._require_shapes(region, map(self._array_of, operands), own)
        taken = tuple(sizes[dim] for dim in callee.dims)
        result_dims = tuple(tirx.Var("measured", "int64") for _ in callee.result_dims)
        self.native.named.update(dict.fromkeys(result_dims))
        sizes |= dict(zip(callee.result_dims, result_dims, strict=True))
        arrays = [with_sizes(array, sizes) for array in callee.results]
        places = [self.planner.place(array) for array in arrays]
        results = [
            aot.Storage("temporary", -1, array.nbytes) if register is None else place
            for place, array, register in zip(places, arrays, callee.result_registers, strict=True)
        ]
        for result, number in array_numbers(
            self.planner.module[call.op], self.planner.in_place[call.op]
        ).items():
            changed = args[number]
            assert isinstance(changed, aot.Storage)
            results[result] = changed
        for value, param in zip(args, callee.parameters, strict=True):
            if isinstance(value, aot.Storage) != isinstance(param, aot.Storage):
                raise UnsupportedError
        frame = aot.Storage("temporary", -1, 0)
        region.append(aot.FunctionCall(callee, taken, args, tuple(results), frame, result_dims))
        for at, (filled, place) in enumerate(zip(results, places, strict=True)):
            if isinstance(filled, aot.Storage) and isinstance(place, aot.Register):
                region.append(load_element(filled, place))
                results[at] = place
        is_tuple = isinstance(type_, relax.TupleType)
        # The type has lost its sizes where an argument is the value of a branch.
        self.arrays[var] = tuple(arrays) if is_tuple else arrays[0]
        return tuple(results) if is_tuple else results[0]

    def _check(self, region: aot.Region, call: RelaxExpr) -> Planned:
        name, args = str(call.op.global_symbol), list(call.args)
        match name:
            case _ if name == REQUIRED:
                condition, message, *operator = args
                texts = [str(text.value) for text in (message, *operator)]
                if texts == [TOO_DEEP]:
                    return ()  # native functions count for themselves
                number = self._failure(["required", *texts])
                region.append(aot.Check(number, self._truth(condition), span=call.span))
            case _ if name == ASSERTED:
                condition, which = args
                number = self._failure(["assertion", int(self._size(which).value)])
                region.append(aot.Check(number, self._truth(condition), span=call.span))
            case _ if name == INDEX_IN_RANGE:
                report, shape = args
                number = self._failure(["index"])
                (size,) = shape.values
                index = self._operand(report)
                if isinstance(index, aot.Register | aot.Immediate):
                    region.append(aot.Check(number, index=index, size=self._size(size), span=call.span))
                else:
                    region.append(aot.Check(number, report=index, size=self._size(size), span=call.span))
            case _ if name == SIZES_NAMED:
                pass
            case _ if name == SHAPE_TO_NAME:
                return self._operand(args[0])
            case _ if name == SHAPES_FIT:
                key, fits, *shapes = args
                sizes = [self._size(dim) for shape in shapes for dim in shape.values]
                ranks = tuple(len(shape.values) for shape in shapes)
                record = aot.STATE_WORDS + self.program.records
                fit = fits if isinstance(fits, tirx.IntImm) else self._size(fits)
                region.append(aot.ShapeCheck(str(key.value), fit, ranks, tuple(sizes), record))
                self.program.records += len(sizes) + 1
            case _:
                raise UnsupportedError
        return ()


def _is_own(value: NativeValue) -> bool:
    """Return whether a value is in the program's own memory."""
    return isinstance(value, aot.Storage) and value.kind in ("temporary", "pointer")
