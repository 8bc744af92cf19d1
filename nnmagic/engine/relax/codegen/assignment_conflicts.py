"""Keep what is assigned to a region of an array apart from the assignment, where one loop could not do both.

The loop reads elements of the array that it has written by then, if these are others than the one at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import ir, relax, tirx

from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call
from nnmagic.engine.relax.legalize.slicing import ASSIGNS
from nnmagic.engine.relax.schedules.kernel_analysis import read_kernel
from nnmagic.engine.relax.schedules.overlaps import Positions, Visitor, all_loads
from nnmagic.engine.relax.tir.builders import as_expr, collect_loads
from nnmagic.engine.relax.tir.regions import region_of
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, PrimFunc, RelaxExpr, Var
from nnmagic.engine.relax.tir.visitors import replace_vars

#: How many values are looked at to find out how one is computed from another.
_MOST_LOOKED_AT = 64


def find_conflicts(module: tvm.IRModule) -> list[ir.GlobalVar]:
    """Return the kernels that assign a region, and may not be fused with what computes the new elements."""
    conflicts: dict[ir.GlobalVar, None] = {}
    for function in module.functions.values():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            bindings = {
                binding.var: binding.value for block in function.body.blocks for binding in block.bindings
            }
            for value in bindings.values():
                if _assigns(module, value) and not _is_safe(module, bindings, value):
                    conflicts[value.args[0]] = None
    return list(conflicts)


def _assigns(module: tvm.IRModule, value: RelaxExpr) -> bool:
    if not is_kernel_call(value):
        return False
    return ASSIGNS in (module[value.args[0]].attrs or {})


def _is_safe(module: tvm.IRModule, bindings: Mapping[RelaxExpr, RelaxExpr], call: RelaxExpr) -> bool:
    """Return whether one loop may compute the new elements of a region and assign them."""
    kernel = module[call.args[0]]
    read = read_kernel(kernel)
    region = None if read is None else region_of(read.stages[-1].value, read.stages[-1].axes)
    if read is None or region is None:
        return False
    buffers, sizes = _buffers_of(kernel), _sizes_of(kernel, call)
    last = read.stages[-1]
    axes = zip(last.axes, read.shape(last), strict=True)
    spans = [region.spans.get(axis, (as_expr(0), extent)) for axis, extent in axes]
    known = [(replace_vars(as_expr(a), sizes), replace_vars(as_expr(b), sizes)) for a, b in spans]
    data = call.args[1].fields[_number_of(region.old.source, buffers)]
    reads = _Reads(module, bindings, data, Positions(last.axes, known))
    return all_loads(read.stages[:-1], region.new, reads.of_operands(kernel, call))


@dataclass(slots=True)
class _Reads:
    """The reads of ``data`` in what values are computed from, up to other assignments."""

    module: tvm.IRModule
    bindings: Mapping[RelaxExpr, RelaxExpr]
    data: RelaxExpr
    positions: Positions
    seen: int = 0

    def are_safe(self, value: RelaxExpr, places: Sequence[Index] | None) -> bool:
        """Return whether a value is safe to compute; ``places``: of which element, None if of any."""
        self.seen += 1
        if self.seen > _MOST_LOOKED_AT:
            return False
        if value.same_as(self.data):
            return places is not None and self.positions.is_safe(places)
        bound = self.bindings.get(value, value)
        operands: Sequence[RelaxExpr] = ()
        match bound:
            case ir.Call() if is_kernel_call(bound):
                return _assigns(self.module, bound) or self._is_kernel_safe(bound, places)
            case ir.Call():
                operands = bound.args
            case relax.Tuple():
                operands = bound.fields
            case relax.TupleGetItem():
                operands = [bound.tuple_value]
        return all(self.are_safe(operand, None) for operand in operands)

    def _is_kernel_safe(self, call: RelaxExpr, places: Sequence[Index] | None) -> bool:
        kernel = self.module[call.args[0]]
        read = None if places is None else read_kernel(kernel)
        last = None if read is None else read.stages[-1]
        is_plain = last is not None and last.is_elementwise and last.writes_at_axes
        if read is None or last is None or places is None or not is_plain:
            return all(self.are_safe(operand, None) for operand in call.args[1].fields)
        value = replace_vars(last.value, dict(zip(last.axes, map(as_expr, places), strict=True)))
        return all_loads(read.stages[:-1], value, self.of_operands(kernel, call))

    def of_operands(self, kernel: PrimFunc, call: RelaxExpr) -> Visitor:
        """Return what tells whether a load of an operand of a kernel is safe."""
        buffers, sizes, operands = _buffers_of(kernel), _sizes_of(kernel, call), call.args[1].fields

        def accept(buffer: Buffer, indices: Sequence[Index]) -> bool:
            places = [replace_vars(as_expr(index), sizes) for index in indices]
            is_computed = any(collect_loads(place) for place in places)
            return self.are_safe(operands[_number_of(buffer, buffers)], None if is_computed else places)

        return accept


def _buffers_of(kernel: PrimFunc) -> list[Buffer]:
    return [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]


def _number_of(buffer: Buffer, buffers: Sequence[Buffer]) -> int:
    return next(number for number, each in enumerate(buffers) if each.same_as(buffer))


def _sizes_of(kernel: PrimFunc, call: RelaxExpr) -> dict[Var, PrimExpr]:
    """Return what the sizes in a kernel are at a call of it."""
    operands, *extra = call.args[1:]
    explicit = [param for param in kernel.params if not isinstance(param.ty, tirx.BufferType)]
    given = [size for shape in extra for size in shape.values]
    sizes = dict(zip(explicit, map(as_expr, given), strict=False))
    for buffer, operand in zip(_buffers_of(kernel), operands.fields, strict=False):
        shape = getattr(operand.ty, "shape", None)
        for dim, size in zip(buffer.ty.shape, getattr(shape, "values", ()), strict=False):
            if isinstance(dim, tirx.Var):
                sizes.setdefault(dim, as_expr(size))
    return sizes
