"""Plan an AOT program: static-shape dataflow with planned memory and one entry, as TVM's AOT executor has it.

The kernels of a fused Relax function become private functions of pointers, which the entry calls one after
another. Intermediate values live in a workspace; values with disjoint lifetimes share bytes. The entry takes
the addresses of NumPy's own array objects, so that a call converts nothing: it reads their data pointers, and
refuses an array that the program was not compiled for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from nnmagic.engine.relax.artifact import Json
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.relay.types import NUMPY_DTYPES

#: Of the workspace and what is in it, in bytes: a vector register's, and a line's of the cache.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Array:
    """A static dtype and shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * NUMPY_DTYPES[self.dtype].itemsize


@dataclass(slots=True, eq=False)
class Storage:
    """The bytes of a value: of a parameter, a constant, a result, or a piece of the workspace."""

    kind: str
    index: int
    nbytes: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel: the storage that it reads, then the storage that it writes."""

    kernel: Any
    args: tuple[Storage, ...]
    reads: int


@dataclass(slots=True)
class AotProgram:
    """An AOT program: parameters, results, constants, kernels and the calls of these."""

    parameters: list[Array]
    results: list[Array]
    constants: list[np.ndarray] = field(default_factory=list)
    kernels: dict[Any, tirx.PrimFunc] = field(default_factory=dict)
    steps: list[KernelCall] = field(default_factory=list)
    workspace: int = 0
    has_clock: bool = False

    def facts(self) -> Json:
        """Return what a call needs to know, as JSON."""
        return {
            "parameters": [[array.dtype, list(array.shape)] for array in self.parameters],
            "results": [[array.dtype, list(array.shape)] for array in self.results],
            "dtypes": self.dtypes(),
            "workspace": self.workspace,
        }

    def dtypes(self) -> list[str]:
        """Return the dtypes of the parameters and results, each once."""
        return list(dict.fromkeys(array.dtype for array in (*self.parameters, *self.results)))


def add_clock(program: AotProgram) -> None:
    """Add a result, the last one: the time before the first step and after each step.

    A row is C's ``timespec``: seconds and nanoseconds.
    """
    program.results.append(Array("int64", (len(program.steps) + 1, 2)))
    program.has_clock = True


def plan_aot_program(module: tvm.IRModule, name: str) -> AotProgram | None:
    """Plan the function ``name`` of a module of kernels; return None unless it is static-shape dataflow."""
    function = module[name]
    arrays = [_array(param.ty) for param in function.params]
    results = _arrays(function.ret_ty)
    bindings = _bindings(function)
    if bindings is None or results is None or any(array is None for array in arrays):
        return None
    program = AotProgram([array for array in arrays if array is not None], results)
    values: dict[Any, Any] = {
        param: Storage("parameter", place, array.nbytes)
        for place, (param, array) in enumerate(zip(function.params, program.parameters, strict=True))
    }
    for binding in bindings:
        value = _value(program, module, values, binding)
        if value is None:
            return None
        values[binding.var] = value
    outcome = _operand(program, values, function.body.body)
    storages = [outcome] if isinstance(outcome, Storage) else list(outcome or ())
    if len(storages) != len(results):
        return None
    # A result has memory of its own: none is a part of another, of a parameter or of a constant.
    if len(set(storages)) != len(storages) or any(storage.kind != "temporary" for storage in storages):
        return None
    for place, storage in enumerate(storages):
        storage.kind, storage.index = "result", place
    _plan_memory(program)
    return program


def _array(type_: Any) -> Array | None:
    if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
        return None
    dims = type_.shape.values
    if not all(isinstance(dim, tirx.IntImm) for dim in dims):
        return None
    return Array(str(type_.dtype.dtype), tuple(int(dim.value) for dim in dims))


def _arrays(type_: Any) -> list[Array] | None:
    """Return the tensors of a type, a tensor or a flat tuple; None if a shape is dynamic."""
    fields = list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]
    found = [_array(each) for each in fields]
    known = [array for array in found if array is not None]
    return known if len(known) == len(found) else None


def _bindings(function: relax.Function) -> list[Any] | None:
    """Return the bindings of a function's body in order; None if one does not bind a value."""
    blocks = function.body.blocks
    found = [binding for block in blocks for binding in block.bindings]
    return found if all(isinstance(binding, relax.VarBinding) for binding in found) else None


_CALL_TIR = ir.Op.get("relax.call_tir")
_RESHAPE = ir.Op.get("relax.reshape")


def _value(program: AotProgram, module: tvm.IRModule, values: dict[Any, Any], binding: Any) -> Any:
    """Return the storage (or tuple of storage) that a binding computes; None if the program cannot be AOT."""
    value = binding.value
    if not isinstance(value, ir.Call):
        return _operand(program, values, value)
    if value.op == _RESHAPE:
        return _operand(program, values, value.args[0])
    outputs = _arrays(binding.var.ty)
    if value.op != _CALL_TIR or outputs is None or len(value.args) != 2:  # a third: symbolic dimensions
        return None
    kernel, operands = value.args
    reads = [_operand(program, values, operand) for operand in operands.fields]
    if not all(isinstance(read, Storage) for read in reads):
        return None
    written = tuple(Storage("temporary", -1, output.nbytes) for output in outputs)
    program.kernels[kernel] = module[kernel]
    program.steps.append(KernelCall(kernel, (*reads, *written), len(reads)))
    return written[0] if not isinstance(binding.var.ty, relax.TupleType) else written


def _operand(program: AotProgram, values: dict[Any, Any], expr: Any) -> Any:
    """Return the storage, or tuple of storage, of an expression that computes nothing; None for any other."""
    match expr:
        case ir.GenericConst():
            program.constants.append(as_array(expr.value))
            return Storage("constant", len(program.constants) - 1, 0)
        case relax.Tuple(fields=fields):
            parts = tuple(_operand(program, values, part) for part in fields)
            return parts if all(isinstance(part, Storage) for part in parts) else None
        case relax.TupleGetItem(tuple_value=whole, index=index):
            found = _operand(program, values, whole)
            return found[int(index)] if isinstance(found, tuple) else None
        case relax.Var():
            return values.get(expr)
    return None


def _plan_memory(program: AotProgram) -> None:
    """Give each temporary the lowest offset in the workspace that is free during its lifetime."""
    last = {storage: place for place, step in enumerate(program.steps) for storage in step.args}
    live: list[Storage] = []
    for place, step in enumerate(program.steps):
        for storage in step.args[step.reads :]:
            if storage.kind == "temporary":
                storage.offset = _free_place(live, storage.nbytes)
                live.append(storage)
                program.workspace = max(program.workspace, storage.offset + storage.nbytes)
        live = [storage for storage in live if last[storage] > place]
    if program.workspace:
        program.workspace += ALIGNMENT  # the entry rounds its address up


def _free_place(live: Sequence[Storage], nbytes: int) -> int:
    offset = 0
    for other in sorted(live, key=lambda storage: storage.offset):
        if offset + nbytes <= other.offset:
            break
        offset = max(offset, _rounded(other.offset + other.nbytes))
    return offset


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
