"""Emit the entry of an AOT program, which checks its arrays and calls the kernels."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot_program import ALIGNMENT, AotProgram, Array, Storage
from nnmagic.engine.relax.runtime.aot_executable import ENTRY, FAILED, REFUSED
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, LOW, RANK, READABLE, TYPE, WORDS


def lower_to_pointer_args(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel as a function of pointers to the data of its buffers."""
    pointers = [tirx.Var(f"{buffer.name}_data", _pointer(buffer)) for buffer in kernel.params]
    declared = [
        tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(kernel.params, pointers, strict=True)
    ]
    body = tirx.SeqStmt([*declared, kernel.body])  # `object_code._return_status` makes it return 0
    return tirx.PrimFunc(pointers, body, _INT32, kernel.attrs).without_attr("global_symbol")


_INT32 = ir.PrimType("int32")


def _pointer(buffer: Any) -> Any:
    return ir.PointerType(ir.PrimType(str(buffer.ty.dtype)))


def emit_entry(program: AotProgram) -> tirx.PrimFunc:
    """Return the function that checks its arrays and calls the kernels.

    Its arguments are addresses, as int64: of the array objects of the parameters, the results, the workspace
    and a table. The table holds, as int64: NumPy's array type, the dtype objects, the data of the constants.
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
    rounded = tirx.bitwise_and(objects[-2][DATA] + (ALIGNMENT - 1), tirx.const(-ALIGNMENT, "int64"))
    statements.append(tirx.Bind(workspace, rounded))
    arrays = (*program.parameters, *program.results)
    statements.extend(_checks(arrays, objects, table, dtypes))

    def pointer(storage: Storage) -> Any:
        match storage.kind:
            case "parameter":
                return _as_pointer(objects[storage.index][DATA])
            case "result":
                return _as_pointer(objects[len(program.parameters) + storage.index][DATA])
            case "constant":
                return _as_pointer(table[1 + len(dtypes) + storage.index])
        return _as_pointer(workspace + tirx.const(storage.offset, "int64"))

    clock = objects[count - 1][DATA]
    if program.has_clock:
        statements.append(_read_clock(clock, 0))
    for number, step in enumerate(program.steps):
        # What fails inside, a packed function, makes a kernel return another number.
        code = ir.Call(step.kernel, [pointer(storage) for storage in step.args], ret_ty=_INT32)
        statements.append(tirx.IfThenElse(code != 0, tirx.Return(tirx.const(FAILED, "int32")), None))
        if program.has_clock:
            statements.append(_read_clock(clock, number + 1))
    statements.append(tirx.Return(tirx.const(0, "int32")))
    body = tirx.SeqStmt(statements)
    return tirx.PrimFunc(addresses, body, _INT32).with_attr("global_symbol", ENTRY)


def _read_clock(times: Any, row: int) -> Any:
    """Return the statement that writes the time to a row of the array whose address ``times`` is."""
    address = _as_pointer(times + tirx.const(16 * row, "int64"))
    clock = tirx.const(time.CLOCK_MONOTONIC, "int32")
    return tirx.Evaluate(tirx.call_extern("int32", "clock_gettime", clock, address))


def _words(name: str, count: int) -> Any:
    return tirx.decl_buffer((count,), "int64", name, data_alignment=8)


def _as_pointer(address: Any) -> Any:
    return tirx.reinterpret("handle", address)


def _checks(
    arrays: Sequence[Array], objects: Sequence[Any], table: Any, dtypes: Sequence[str]
) -> Iterator[Any]:
    """Refuse arrays of a wrong type, then of a wrong dtype, rank or flags, then of a wrong shape.

    The order matters: each group reads memory that only the groups before it make safe to read.
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
