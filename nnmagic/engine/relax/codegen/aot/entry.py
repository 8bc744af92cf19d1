"""Emit the entry of an AOT program, which checks its arrays, reads their sizes and runs the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice

from tvm import ir, tirx

from nnmagic.engine.relax.artifact import VALUE
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import Variables, value_dtype
from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter
from nnmagic.engine.relax.codegen.aot.heap import RELEASE
from nnmagic.engine.relax.codegen.aot.memory import exceeds_any_memory, round_up
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.runtime.native_entry import GROW, REFUSED
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, LOW, RANK, READABLE, TYPE, WORDS
from nnmagic.engine.relax.tir.builders import as_expr, as_pointer, item_bytes, words_at
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, PrimFunc, Stmt
from nnmagic.engine.relax.tir.visitors import rewrite

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

    arguments: list[PrimExpr] = []
    for param, array, words_of in zip(function.parameters, program.parameters, objects, strict=False):
        if isinstance(param, aot.Register):
            arguments.append(_element(array, words_of, statements))
        else:
            arguments.append(words_of[DATA])
    results = [words_of[DATA] for words_of in objects[len(program.parameters) : count]]
    constants = objects[-1][DATA], table, 1 + len(dtypes)
    statements += _run(program, variables, begin, (arguments, results), constants)
    return tirx.PrimFunc(addresses, tirx.SeqStmt(statements), _INT32).with_attr("global_symbol", symbol)


def emit_plain_entry(program: AotProgram, variables: Variables) -> PrimFunc:
    """Return a function that runs the program for a caller who checked the arrays.

    It takes the sizes, the arguments (single elements by value, other arrays by address), and the addresses
    of the results, the workspace, which is aligned, a table of the constants' addresses, and its status.
    """
    function = program.entry
    arguments = [
        tirx.Var(f"argument{number}", value_dtype(param))
        for number, param in enumerate(function.parameters[: len(program.parameters)])
    ]
    results = [tirx.Var(f"result{number}", "int64") for number in range(len(program.results))]
    begin, table = tirx.Var("workspace_data", "int64"), tirx.Var("table", "int64")
    constants = words_at("constants")
    statements: list[Stmt] = [
        tirx.DeclBuffer(constants, data=as_pointer(table)),
        *_refuse(size < as_expr(0) for size in function.dims),
        *_run(program, variables, begin, (list(arguments), list(results)), (table, constants, 0)),
    ]
    return _with_status([*function.dims, *arguments, *results, begin, table], statements)


def emit_workspace_size(program: AotProgram) -> PrimFunc:
    """Return a function of the sizes that writes how many bytes of workspace the plain entry needs.

    Then those of each result, unless it leaves some. It returns GROW if no machine has so much memory.
    """
    words = words_at("needed")
    address = tirx.Var("needed_at", "int64")
    too_many = exceeds_any_memory(as_expr(program.entry.workspace))
    statements: list[Stmt] = [
        tirx.DeclBuffer(words, data=as_pointer(address)),
        tirx.IfThenElse(too_many, tirx.Return(tirx.const(GROW, "int32")), None),
        tirx.BufferStore(words, as_expr(_workspace_bytes(program)), [as_expr(0)]),
        *(
            tirx.BufferStore(words, as_expr(result.nbytes), [as_expr(number)])
            for number, result in enumerate([] if program.entry.left else program.results, 1)
        ),
        tirx.Return(tirx.const(0, "int32")),
    ]
    return _with_status([*program.entry.dims, address], statements)


def _with_status(params: Sequence[PrimExpr], statements: Sequence[Stmt]) -> PrimFunc:
    """Return a function that writes what it would return to an address, its last parameter, and returns 0."""
    address, status = tirx.Var("status_at", "int64"), words_at("status")

    def write(returned: tirx.Return) -> Stmt:
        value = returned.value.astype("int64")
        return tirx.SeqStmt(
            [tirx.BufferStore(status, value, [as_expr(0)]), tirx.Return(tirx.const(0, "int32"))]
        )

    body = rewrite(tirx.SeqStmt(statements), [(tirx.Return, write)])
    declared = tirx.DeclBuffer(status, data=as_pointer(address))
    return tirx.PrimFunc([*params, address], tirx.SeqStmt([declared, body]), _INT32)


def _run(
    program: AotProgram,
    variables: Variables,
    begin: PrimExpr,
    data: tuple[list[PrimExpr], list[PrimExpr]],
    constants_of: tuple[PrimExpr, Buffer, int],
) -> list[Stmt]:
    """Return the statements that run the program.

    Args:
        program: the program.
        variables: its functions.
        begin: the address of the workspace.
        data: the arguments, and the addresses of the results.
        constants_of: the address of a table of words, the table, and which word is the first constant's.

    """
    function = program.entry
    arguments, results = data
    at, table, first = constants_of
    statements: list[Stmt] = []
    state, workspace = _declare_state(program, begin, statements)
    arguments = [*arguments, *[as_expr(0)] * len(program.lengths)]  # arrays without elements
    times = results.pop() if program.clocked is not None else None
    addresses_of_left = as_pointer(results.pop()) if function.left else None
    for number in function.left:
        results.insert(number, as_expr(0))
    emitter = BodyEmitter(function, variables, arguments, results, is_entry=True, clocked=program.clocked)
    emitter.result_sizes = addresses_of_left
    emitter.use(state, table, first, (begin, at + as_expr(8 * first), workspace))
    if state is not None and program.functions:
        emitter.levels = state[aot.LEVELS]
        statements.append(tirx.BufferStore(state, emitter.first_budget(), [as_expr(aot.WORK)]))
    if times is not None:
        statements += _begin_times(state, times, program.results[-1])
    if program.uses_heap:
        emitter.release = [tirx.Evaluate(ir.Call(RELEASE, [begin], ret_ty=_INT32))]
        # Where a function of Python raised, what the last call with this workspace allocated is still there.
        statements += emitter.release
    if program.has_cells:
        assert state is not None
        words = (aot.CELLS, aot.CELLS_END, aot.CELL_BLOCK, aot.CELL_BLOCK + 1)
        statements += [tirx.BufferStore(state, as_expr(0), [as_expr(word)]) for word in words]
    return [*statements, *emitter.body(), tirx.Return(tirx.const(0, "int32"))]


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
    wrong = tirx.Or(dims[0] < _workspace_bytes(program), exceeds_any_memory(program.entry.workspace))
    yield tirx.IfThenElse(wrong, tirx.Return(tirx.const(GROW, "int32")), None)


def _workspace_bytes(program: AotProgram) -> PrimExpr:
    """Return the bytes of the state and of the temporaries, wherever they begin."""
    return program.entry.workspace + as_expr(round_up(program.state_words() * 8) + aot.ALIGNMENT)


def _refuse(conditions: Iterable[PrimExpr]) -> Iterator[Stmt]:
    """Yield the statements that refuse the arrays if one of the conditions holds."""
    rest = iter(conditions)
    while group := list(islice(rest, _CONDITIONS)):
        refused = tirx.Return(tirx.const(REFUSED, "int32"))
        yield tirx.IfThenElse(reduce(tirx.Or, group), refused, None)
