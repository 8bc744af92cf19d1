"""Read kernels of single elements as expressions, which registers hold."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from nnmagic.engine.relax.codegen.aot.program import Immediate, Register, ScalarCode, Storage, StoreElement
from nnmagic.engine.relax.codegen.aot.wrapping import narrow_integers
from nnmagic.engine.relax.schedules.kernel_analysis import Stage, read_kernel
from nnmagic.engine.relax.tir.builders import collect_loads, static_int
from nnmagic.engine.relax.tir.guarded_loads import guard_loads
from nnmagic.engine.relax.tir.types import PrimFunc


def read_scalar_stages(kernel: PrimFunc) -> tuple[Stage, ...] | None:
    """Return the stages of a kernel that computes single elements only; None for any other kernel."""
    stages = read_kernel(guard_loads(kernel))
    if stages is None or any(static_int(dim) != 1 for stage in stages.stages for dim in stages.shape(stage)):
        return None
    written = {buffer for stage in stages.stages for buffer in stage.writes}
    if any(static_int(dim) != 1 for buffer in written for dim in buffer.ty.shape):
        return None
    seen: set[object] = set()
    for stage in stages.stages:
        early = {load.source for load in collect_loads(*stage.values)} & (written - seen)
        if early - set(stage.writes if stage.reduces else ()):
            return None
        seen.update(stage.writes)
    return tuple(replace(stage, values=tuple(map(narrow_integers, stage.values))) for stage in stages.stages)


def store_element(value: Register | Immediate, storage: Storage) -> StoreElement:
    """Return the step that stores a register as an array of one element."""
    element, array = _element(value.dtype), _element(value.dtype)
    index = tirx.const(0, "int64")
    load = tirx.BufferLoad(element, [index])
    return StoreElement(storage, array, (index,), load, {element: value, array: storage}, {})


def load_element(storage: Storage, register: Register) -> ScalarCode:
    """Return the step that loads an array of one element into a register."""
    array, element = _element(register.dtype), _element(register.dtype)
    index = tirx.const(0, "int64")
    stage = Stage((element,), (index,), (), (), (tirx.BufferLoad(array, [index]),), None)
    return ScalarCode((stage,), {array: storage, element: register}, {}, (storage,))


def _element(dtype: str) -> tirx.Buffer:
    return tirx.decl_buffer((1,), dtype, "element")
