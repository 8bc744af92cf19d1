"""Programs without control flow and of known shapes as one machine function, which needs no virtual machine.

The kernels of a fused Relax function become private functions of pointers; the entry calls one after another.
What is computed in between lives in a workspace, where values that are not needed at the same time share
bytes. The entry takes the addresses of NumPy's own array objects, so that a call costs no conversion: it
reads from them where the data is, and refuses an array that the program was not compiled for. Knows TVM.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from nnmagic.engine.relax.artifact import Json
from nnmagic.engine.relax.runtime.aot_executable import ENTRY, FAILED, REFUSED
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, LOW, RANK, READABLE, TYPE, WORDS
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.relay.types import NUMPY_DTYPES

#: Of the workspace and what is in it, in bytes: a vector register's, and a line's of the cache.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Array:
    """A dtype and a shape, all known."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * NUMPY_DTYPES[self.dtype].itemsize


@dataclass(slots=True, eq=False)
class _Storage:
    """The bytes of a value: of a parameter, a constant, a result, or a piece of the workspace."""

    kind: str
    index: int
    nbytes: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """The call of a kernel: what it reads, then what it writes."""

    kernel: Any
    args: tuple[_Storage, ...]
    reads: int


@dataclass(slots=True)
class Straight:
    """A straight program: what it takes and gives, its constants, its kernels, their calls."""

    parameters: list[Array]
    results: list[Array]
    constants: list[np.ndarray] = field(default_factory=list)
    kernels: dict[Any, tirx.PrimFunc] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)
    workspace: int = 0
    timed: bool = False

    def facts(self) -> Json:
        """What a call must know, for JSON."""
        return {
            "parameters": [[array.dtype, list(array.shape)] for array in self.parameters],
            "results": [[array.dtype, list(array.shape)] for array in self.results],
            "dtypes": self.dtypes(),
            "workspace": self.workspace,
        }

    def dtypes(self) -> list[str]:
        """The dtypes of the parameters and results, each once."""
        return list(dict.fromkeys(array.dtype for array in (*self.parameters, *self.results)))


def straight(module: tvm.IRModule, name: str) -> Straight | None:
    """The function of a module of kernels as a straight program; None where it is none."""
    function = module[name]
    arrays = [_array(param.ty) for param in function.params]
    results = _arrays(function.ret_ty)
    bindings = _bindings(function)
    if bindings is None or results is None or any(array is None for array in arrays):
        return None
    program = Straight([array for array in arrays if array is not None], results)
    values: dict[Any, Any] = {
        param: _Storage("parameter", place, array.nbytes)
        for place, (param, array) in enumerate(zip(function.params, program.parameters, strict=True))
    }
    for binding in bindings:
        value = _value(program, module, values, binding)
        if value is None:
            return None
        values[binding.var] = value
    outcome = _operand(program, values, function.body.body)
    storages = [outcome] if isinstance(outcome, _Storage) else list(outcome or ())
    if len(storages) != len(results):
        return None
    # A result has memory of its own: none is a part of another, of a parameter or of a constant.
    if len(set(storages)) != len(storages) or any(storage.kind != "temporary" for storage in storages):
        return None
    for place, storage in enumerate(storages):
        storage.kind, storage.index = "result", place
    _plan(program)
    return program


def _array(type_: Any) -> Array | None:
    if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
        return None
    dims = type_.shape.values
    if not all(isinstance(dim, tirx.IntImm) for dim in dims):
        return None
    return Array(str(type_.dtype.dtype), tuple(int(dim.value) for dim in dims))


def _arrays(type_: Any) -> list[Array] | None:
    """A type's tensors, of a tensor or a flat tuple; None where one is not known."""
    fields = list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]
    found = [_array(each) for each in fields]
    known = [array for array in found if array is not None]
    return known if len(known) == len(found) else None


def _bindings(function: relax.Function) -> list[Any] | None:
    """The bindings of a function's body in order; None where it has other things than bindings of values."""
    blocks = function.body.blocks
    found = [binding for block in blocks for binding in block.bindings]
    return found if all(isinstance(binding, relax.VarBinding) for binding in found) else None


_CALL_TIR = ir.Op.get("relax.call_tir")
_RESHAPE = ir.Op.get("relax.reshape")


def _value(program: Straight, module: tvm.IRModule, values: dict[Any, Any], binding: Any) -> Any:
    """What a binding computes: storage, or a tuple of it; None where it is no part of a straight program."""
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
    if not all(isinstance(read, _Storage) for read in reads):
        return None
    written = tuple(_Storage("temporary", -1, output.nbytes) for output in outputs)
    program.kernels[kernel] = module[kernel]
    program.steps.append(_Step(kernel, (*reads, *written), len(reads)))
    return written[0] if not isinstance(binding.var.ty, relax.TupleType) else written


def _operand(program: Straight, values: dict[Any, Any], expr: Any) -> Any:
    """The storage (or tuple of it) of an expression that computes nothing; None where it is another one."""
    match expr:
        case ir.GenericConst():
            program.constants.append(as_array(expr.value))
            return _Storage("constant", len(program.constants) - 1, 0)
        case relax.Tuple(fields=fields):
            parts = tuple(_operand(program, values, part) for part in fields)
            return parts if all(isinstance(part, _Storage) for part in parts) else None
        case relax.TupleGetItem(tuple_value=whole, index=index):
            found = _operand(program, values, whole)
            return found[int(index)] if isinstance(found, tuple) else None
        case relax.Var():
            return values.get(expr)
    return None


def _plan(program: Straight) -> None:
    """Gives each temporary its place in the workspace: the lowest that is free while it is needed."""
    last = {storage: place for place, step in enumerate(program.steps) for storage in step.args}
    live: list[_Storage] = []
    for place, step in enumerate(program.steps):
        for storage in step.args[step.reads :]:
            if storage.kind == "temporary":
                storage.offset = _free_place(live, storage.nbytes)
                live.append(storage)
                program.workspace = max(program.workspace, storage.offset + storage.nbytes)
        live = [storage for storage in live if last[storage] > place]
    if program.workspace:
        program.workspace += _ALIGNMENT  # the entry rounds its address up


def _free_place(live: Sequence[_Storage], nbytes: int) -> int:
    offset = 0
    for other in sorted(live, key=lambda storage: storage.offset):
        if offset + nbytes <= other.offset:
            break
        offset = max(offset, _rounded(other.offset + other.nbytes))
    return offset


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def of_pointers(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel as a function of pointers to the data of its buffers."""
    pointers = [tirx.Var(f"{buffer.name}_data", _pointer(buffer)) for buffer in kernel.params]
    declared = [
        tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(kernel.params, pointers, strict=True)
    ]
    body = tirx.SeqStmt([*declared, kernel.body])  # `library` has it return 0
    return tirx.PrimFunc(pointers, body, _INT32, kernel.attrs).without_attr("global_symbol")


_INT32 = ir.PrimType("int32")


def _pointer(buffer: Any) -> Any:
    return ir.PointerType(ir.PrimType(str(buffer.ty.dtype)))


def add_times(program: Straight) -> None:
    """Give a program another result, last: the clock before the first step and after each step.

    A row is C's timespec: seconds and nanoseconds.
    """
    program.results.append(Array("int64", (len(program.steps) + 1, 2)))
    program.timed = True


def _read_clock(times: Any, row: int) -> Any:
    """Return the statement that writes the time into a row; ``times`` is an expression of the address."""
    address = _as_pointer(times + tirx.const(16 * row, "int64"))
    clock = tirx.const(time.CLOCK_MONOTONIC, "int32")
    return tirx.Evaluate(tirx.call_extern("int32", "clock_gettime", clock, address))


def entry(program: Straight) -> tirx.PrimFunc:
    """What calls the kernels.

    It takes the addresses of the parameters' arrays, of the results', of the workspace's and of a table of
    int64: NumPy's array type, the dtypes' objects, the constants' data.
    """
    count = len(program.parameters) + len(program.results)
    names = [f"array{place}" for place in range(count)] + ["workspace", "table"]
    addresses = [tirx.Var(name, "int64") for name in names]
    objects = [_words(f"{name}_object", WORDS) for name in names]
    statements: list[Any] = [
        tirx.DeclBuffer(words, data=_as_pointer(address))
        for words, address in zip(objects, addresses, strict=True)
    ]
    dtypes = program.dtypes()
    table = _words("table_data", 1 + len(dtypes) + len(program.constants))
    statements.append(tirx.DeclBuffer(table, data=_as_pointer(objects[-1][DATA])))
    workspace = tirx.Var("workspace_data", "int64")
    rounded = tirx.bitwise_and(objects[-2][DATA] + (_ALIGNMENT - 1), tirx.const(-_ALIGNMENT, "int64"))
    statements.append(tirx.Bind(workspace, rounded))
    arrays = (*program.parameters, *program.results)
    statements.extend(_checks(arrays, objects, table, dtypes))

    def pointer(storage: _Storage) -> Any:
        match storage.kind:
            case "parameter":
                return _as_pointer(objects[storage.index][DATA])
            case "result":
                return _as_pointer(objects[len(program.parameters) + storage.index][DATA])
            case "constant":
                return _as_pointer(table[1 + len(dtypes) + storage.index])
        return _as_pointer(workspace + tirx.const(storage.offset, "int64"))

    times = objects[count - 1][DATA]
    if program.timed:
        statements.append(_read_clock(times, 0))
    for number, step in enumerate(
        program.steps
    ):  # what fails inside, a packed function, makes a kernel return another number
        code = ir.Call(step.kernel, [pointer(storage) for storage in step.args], ret_ty=_INT32)
        statements.append(tirx.IfThenElse(code != 0, tirx.Return(tirx.const(FAILED, "int32")), None))
        if program.timed:
            statements.append(_read_clock(times, number + 1))
    statements.append(tirx.Return(tirx.const(0, "int32")))
    body = tirx.SeqStmt(statements)
    return tirx.PrimFunc(addresses, body, _INT32).with_attr("global_symbol", ENTRY)


def _words(name: str, count: int) -> Any:
    return tirx.decl_buffer((count,), "int64", name, data_alignment=8)


def _as_pointer(address: Any) -> Any:
    return tirx.reinterpret("handle", address)


def _checks(
    arrays: Sequence[Array], objects: Sequence[Any], table: Any, dtypes: Sequence[str]
) -> Iterator[Any]:
    """Refuses where an array is not of its type, then dtype, rank and flags, then shape: in this order,
    because what one says is there only if the ones before hold.
    """
    pairs = list(zip(arrays, objects[: len(arrays)], strict=True))
    low = tirx.const(LOW, "int64")

    def number(words: Any, at: int) -> Any:
        return tirx.bitwise_and(words[at], low)

    yield _refuse(words[TYPE] != table[0] for _, words in pairs)
    yield _refuse(
        condition
        for array, words in pairs
        for condition in (
            words[DESCR] != table[1 + dtypes.index(array.dtype)],
            number(words, RANK) != len(array.shape),
            tirx.bitwise_and(words[FLAGS], tirx.const(READABLE, "int64")) != READABLE,
        )
    )
    dims = {}
    for array, words in pairs:
        if array.shape:
            dims[words] = _words(f"{words.name}_dims", len(array.shape))
            yield tirx.DeclBuffer(dims[words], data=_as_pointer(words[DIMS]))
    yield _refuse(dims[words][axis] != dim for array, words in pairs for axis, dim in enumerate(array.shape))


def _refuse(conditions: Iterator[Any]) -> Any:
    found = list(conditions)
    if not found:
        return tirx.Evaluate(tirx.const(0, "int32"))
    wrong = found[0]
    for condition in found[1:]:
        wrong = tirx.Or(wrong, condition)
    return tirx.IfThenElse(wrong, tirx.Return(tirx.const(REFUSED, "int32")), None)
