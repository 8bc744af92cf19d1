"""Emit the entry of an AOT program, which checks its arrays, reads their sizes and runs the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice

from tvm import ir, tirx

from nnmagic.engine.relax.artifact import VALUE
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.function_bodies import (
    BodyEmitter,
    Variables,
)
from nnmagic.engine.relax.codegen.aot.heap import RELEASE
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory, round_up
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.runtime.native_entry import GROW, REFUSED
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, LOW, RANK, READABLE, TYPE, WORDS
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, item_bytes, words_at
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, PrimFunc, Stmt

_INT32 = ir.PrimType("int32")

#: How many conditions are tested at once: LLVM's time is quadratic in the length of a piece without branches.
_CONDITIONS = 32


def emit_entry(program: AotProgram, variables: Variables, symbol: str) -> PrimFunc:
    """Return the function of that name that checks its arrays and runs the program.

    Its arguments are addresses, as int64: of the array objects of the parameters, the results, the workspace
    and a table. The table holds, as int64: NumPy's array type, the dtype objects, the data of the constants.
    """
    function = program.entry
    count = len(program.parameters) + len(program.results)
    names = [f"array{number}" for number in range(count)] + ["workspace", "table"]
    addresses = [tirx.Var(name, "int64") for name in names]
    objects = [_words(f"{name}_object", WORDS) for name in names]
    statements: list[Stmt] = [
        tirx.DeclBuffer(words, data=as_pointer(address))
        for words, address in zip(objects, addresses, strict=True)
    ]
    dtypes = program.dtypes()
    table = _words("table_data", 1 + len(dtypes) + len(program.constants))
    statements.append(tirx.DeclBuffer(table, data=as_pointer(objects[-1][DATA])))
    rounded = tirx.bitwise_and(objects[-2][DATA] + (aot.ALIGNMENT - 1), tirx.const(-aot.ALIGNMENT, "int64"))
    begin = tirx.Var("workspace_data", "int64")
    statements.append(tirx.Bind(begin, rounded))
    statements.extend(_checks(program, objects, table))
    if not isinstance(function.workspace, int):
        statements.extend(_workspace_check(program, objects[-2]))

    state, workspace = _declare_state(program, begin, statements)
    arguments: list[PrimExpr] = []
    for param, array, words_of in zip(function.parameters, program.parameters, objects, strict=False):
        if isinstance(param, aot.Register):
            arguments.append(_element(array, words_of, statements))
        else:
            arguments.append(words_of[DATA])
    arguments += [as_expr(0)] * len(program.lengths)  # arrays without elements
    results = [words_of[DATA] for words_of in objects[len(program.parameters) : count]]
    times = results.pop() if program.clocked is not None else None
    addresses_of_left = as_pointer(results.pop()) if function.left else None
    for number in function.left:
        results.insert(number, as_expr(0))
    emitter = BodyEmitter(function, variables, arguments, results, is_entry=True, clocked=program.clocked)
    emitter.result_sizes = addresses_of_left
    first = 1 + len(dtypes)
    constants = objects[-1][DATA] + as_expr(8 * first)
    emitter.use(state, table, first, (begin, constants, workspace))
    if state is not None and program.functions:
        statements.append(tirx.BufferStore(state, emitter.first_budget(), [as_expr(aot.WORK)]))
    if times is not None:
        statements += _begin_times(state, times, program.results[-1])
    if program.uses_heap:
        emitter.release = [tirx.Evaluate(ir.Call(RELEASE, [begin], ret_ty=_INT32))]
        # Where a function of Python raised, what the last call with this workspace allocated is still there.
        statements += emitter.release
    statements.extend(emitter.body())
    statements.append(tirx.Return(tirx.const(0, "int32")))
    body = tirx.SeqStmt(statements)
    return tirx.PrimFunc(addresses, body, _INT32).with_attr("global_symbol", symbol)


def _declare_state(
    program: AotProgram, begin: PrimExpr, statements: list[Stmt]
) -> tuple[Buffer | None, PrimExpr]:
    """Return the words of the state, which come first, and where the rest of the workspace begins."""
    words = program.state_words()
    if not words:
        return None, begin
    state = words_at("state_words")
    statements.append(tirx.DeclBuffer(state, data=as_pointer(begin)))
    statements.append(tirx.BufferStore(state, as_expr(0), [as_expr(aot.STATUS)]))
    return state, begin + as_expr(round_up(words * 8))


def emit_release(symbol: str) -> PrimFunc:
    """Return the function that frees what the entry of that name left: it takes the address of its state."""
    state = tirx.Var("state", "int64")
    release = tirx.Evaluate(ir.Call(RELEASE, [state], ret_ty=_INT32))
    body = tirx.SeqStmt([release, tirx.Return(tirx.const(0, "int32"))])
    return tirx.PrimFunc([state], body, _INT32).with_attr("global_symbol", symbol)


def _begin_times(state: Buffer | None, times: PrimExpr, array: aot.Array) -> Iterator[Stmt]:
    """Yield the statements that set the times of kernels to 0, and tell the program where they are."""
    assert state is not None
    clear = tirx.call_extern("handle", "memset", as_pointer(times), 0, as_expr(array.nbytes))
    yield tirx.Evaluate(clear)
    yield tirx.BufferStore(state, times, [as_expr(aot.CLOCK)])


def _words(name: str, count: int) -> Buffer:
    return tirx.decl_buffer((count,), "int64", name, data_alignment=8)


def _element(array: aot.Array, words: Buffer, statements: list[Stmt]) -> PrimExpr:
    """Load the only element of an array."""
    dtype = "int8" if array.dtype == "bool" else array.dtype
    view = tirx.decl_buffer((1,), dtype, "element", data_alignment=item_bytes(dtype))
    value = tirx.Var("value", dtype)
    statements.append(tirx.DeclBuffer(view, data=as_pointer(words[DATA])))
    statements.append(tirx.Bind(value, view[0]))
    return value


def _checks(program: AotProgram, objects: Sequence[Buffer], table: Buffer) -> Iterator[Stmt]:
    """Refuse arrays of a wrong type, then of a wrong dtype, rank or flags, then of a wrong shape.

    The order matters: each group reads memory that only the groups before it make safe to read. The
    dimensions are bound where an array has them first. An array has no negative size: that of a result is
    refused by the check of the operator's shapes.
    """
    arrays, dtypes = (*program.parameters, *program.results), program.dtypes()
    pairs = list(zip(arrays, objects[: len(arrays)], strict=True))
    low = tirx.const(LOW, "int64")

    def number(words: Buffer, at: int) -> PrimExpr:
        return tirx.bitwise_and(words[at], low)

    yield from _refuse(words[TYPE] != table[0] for _, words in pairs)
    yield from _refuse(
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
            yield tirx.DeclBuffer(dims[words], data=as_pointer(words[DIMS]))
    bound: set[tuple[Buffer, int]] = set()
    for dimension in program.entry.dims:
        parameter, axis = program.source_of(dimension)
        array, words = pairs[parameter]
        if axis == VALUE:
            statements: list[Stmt] = []
            statements.append(tirx.Bind(dimension, _element(array, words, statements)))
            yield from statements
            yield from _refuse([dimension < as_expr(0)])
        else:
            bound.add((words, axis))
            yield tirx.Bind(dimension, dims[words][axis])
    yield from _refuse(
        dims[words][axis] != (dim if isinstance(dim, int | tirx.Var) else tirx.max(dim, as_expr(0)))
        for array, words in pairs
        for axis, dim in enumerate(array.shape)
        if (words, axis) not in bound
    )


def _workspace_check(program: AotProgram, words: Buffer) -> Iterator[Stmt]:
    """Refuse a workspace that is too small for these sizes."""
    dims = tirx.decl_buffer((1,), "int64", "workspace_dims", data_alignment=8)
    yield tirx.DeclBuffer(dims, data=as_pointer(words[DIMS]))
    needed = program.entry.workspace + as_expr(round_up(program.state_words() * 8) + aot.ALIGNMENT)
    wrong = tirx.Or(dims[0] < needed, exceeds_any_memory(program.entry.workspace))
    yield tirx.IfThenElse(wrong, tirx.Return(tirx.const(GROW, "int32")), None)


def _refuse(conditions: Iterable[PrimExpr]) -> Iterator[Stmt]:
    """Yield the statements that refuse the arrays if one of the conditions holds."""
    rest = iter(conditions)
    while group := list(islice(rest, _CONDITIONS)):
        refused = tirx.Return(tirx.const(REFUSED, "int32"))
        yield tirx.IfThenElse(reduce(tirx.Or, group), refused, None)
