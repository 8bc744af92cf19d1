"""Emit the loops of a nest for a machine: vectors, squares of a transposition, threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.elementwise.costs import bytes_in_memory, count_instructions
from nnmagic.engine.relax.schedules.elementwise.nests import Nest
from nnmagic.engine.relax.schedules.kernel_analysis import rename_lets
from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.schedules.thread_choice import parallel_if
from nnmagic.engine.relax.tir.builders import (
    are_equal,
    as_expr,
    as_index,
    collect_loads,
    dtype_of,
    is_conditional,
    is_library_fallback,
    load,
    local_array,
    loop_over,
    product,
    round_up_div,
    sequence,
    static_int,
    store,
)
from nnmagic.engine.relax.tir.transposition import transpose
from nnmagic.engine.relax.tir.types import Call, Extent, Index, Load, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import collect, replace_vars, rewrite, visit

#: The side of the squares that a transposition is made of; more rows would fall out of the cache. Where a
#: vector is as long or longer, they have its side and are transposed in registers.
_SQUARE = 8

#: What squares are transposed in registers.
_SHUFFLED = {"float32", "float64", "int32", "int64", "uint32", "uint64"}

#: How many vectors are computed together, by the instructions of an element up to which their values stay in
#: registers; one for longer computations.
_VECTORS_TOGETHER = ((8, 4), (40, 2))

#: How many nests that write to one array in turns become one loop, at most.
_MOST_INTERLEAVED = 8

#: The lanes that int8 can number.
_SHORT_INDICES = 128

#: Two instructions of an element count as one operation, and a byte that is moved as two.
_OPERATIONS_PER_INSTRUCTION = 1 / 2
_OPERATIONS_PER_BYTE = 2

#: The calls that TVM can vectorize.
_VECTORIZABLE = {
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "popcount"),
    *("ceil", "floor", "nearbyint", "round", "trunc", "fabs", "sqrt", "rsqrt", "isnan", "reinterpret"),
    *("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin", "if_then_else", "likely"),
    "call_llvm_pure_intrin",
}

#: From here on rows are filled by vectors, whatever their length.
_LONG_ROW = 256

_Loops = list[tuple[Var, Extent]]


def emit_nest(nest: Nest, machine: CpuModel, *, dynamic_threads: bool = True, once: bool = False) -> Stmt:
    """Return the nest as parallel loops around vectors.

    Where only the call knows the sizes, it chooses between versions of the loops.

    Args:
        nest: the loops and what they compute.
        machine: the CPU.
        dynamic_threads: whether the call may choose threads.
        once: whether no element may be computed twice, as the last ones of vectors that overlap are.

    """
    if not nest.loops:
        return _emit_steps(nest, {}, 1)
    width = _choose_width(nest, machine)
    threads = _threads_condition(nest, machine)
    if not isinstance(threads, bool) and not dynamic_threads:
        threads = False
    if width == 1 or _fills_short_rows(nest, width):
        return parallel_if(threads, lambda shared: _emit_elements(nest, threads=shared))
    lanes, size = _lanes(nest, machine), static_int(nest.loops[-1][1])
    if once:
        widths = sorted({width, min(width, lanes)}, reverse=True)
        return parallel_if(threads, lambda shared: _emit_once(nest, widths, threads=shared))
    transposed = _find_transposed_loop(nest)
    side, loads = _SQUARE, []
    if transposed is not None:
        var, extent = nest.loops[transposed]
        is_large = all(known is None or known >= lanes for known in (size, static_int(extent)))
        if is_large and lanes >= _SQUARE:
            loads = _find_transposed_loads(nest, var)
        side = lanes if loads else _SQUARE
        width = lanes if loads else min(width, _SQUARE)
    lanes = min(width, lanes)
    # Where only the call knows how long rows are: several vectors together for long rows, one
    # vector for rows that are shorter than that, and single elements for the shortest.
    widths = [width] if size is not None or lanes == width else [width, lanes]
    statement: Stmt | None = None
    # From the narrowest version to the widest: each becomes the other branch of the next wider one.
    for wide in reversed(widths):
        sizes = [(nest.loops[-1][1], wide)]
        sizes += [] if transposed is None else [(nest.loops[transposed][1], side)]
        fits = [extent >= as_expr(least) for extent, least in sizes if static_int(extent) is None]
        if fits and statement is None:
            statement = _emit_elements(nest, threads=False)

        def emit(shared: bool, wide: int = wide) -> Stmt:
            return _emit_vectors(nest, wide, transposed, side, loads, threads=shared)

        vectors = parallel_if(threads if wide == width else False, emit)
        statement = tirx.IfThenElse(tirx.all(*fits), vectors, statement) if fits else vectors
    return statement


def _emit_elements(*nests: Nest, threads: bool) -> Stmt:
    """Emit loops over single elements, of nests with equal extents."""
    extents = [extent for _, extent in nests[0].loops]
    outer = [tirx.Var(var.name, "int64") for var, _ in nests[0].loops[:-1]]
    loops: _Loops = list(zip([*outer, tirx.Var("i", "int64")], extents, strict=True))
    bodies = []
    for nest in nests:
        names = {var: renamed for (var, _), (renamed, _) in zip(nest.loops, loops, strict=True)}
        bodies.append(_emit_steps(nest, names, 1))
    return _wrap(loops, sequence(bodies), parallel=threads)


def emit_interleaved_nests(nests: Sequence[Nest], machine: CpuModel) -> Stmt | None:
    """Emit nests that write every k-th element of one array, k of them, as one loop; None for others.

    LLVM makes vectors of the values of one round, which are neighbours in memory, as in a stack along the
    last axis.
    """
    first, count = nests[0], len(nests)
    if not first.loops or not 1 < count <= _MOST_INTERLEAVED:
        return None
    for nest in nests:
        if not nest.row.same_as(first.row) or len(nest.loops) != len(first.loops):
            return None
        pairs = zip(nest.loops, first.loops, strict=True)
        if not all(are_equal(extent, other) for (_, extent), (_, other) in pairs):
            return None
        inner = nest.loops[-1][0]
        parts = [static_int(part) for part in detect_linear_equation(nest.offset, [inner])]
        if not parts or parts[0] != count:
            return None
        if not all(_is_vectorizable(step.value, inner) for step in nest.steps):
            return None
    threads = _threads_condition(first, machine)
    return parallel_if(threads, lambda shared: _emit_elements(*nests, threads=shared))


def _emit_once(nest: Nest, widths: Sequence[int], *, threads: bool) -> Stmt:
    """Emit a nest whose innermost loop has vectors of these widths, the widest first, then elements."""
    *outer, (inner, extent) = nest.loops
    loops: _Loops = [(tirx.Var(var.name, "int64"), count) for var, count in outer]
    indices: dict[Var, Index] = {var: renamed for (var, _), (renamed, _) in zip(outer, loops, strict=True)}
    size, begin = as_index(extent), as_index(0)
    statements: list[Stmt] = []
    for width in (*widths, 1):
        count = (size - begin) // width

        def compute(number: PrimExpr, width: int = width, begin: Index = begin) -> list[Stmt]:
            return [_emit_steps(nest, {**indices, inner: begin + number * width}, width)]

        kind = tirx.ForKind.PARALLEL if threads and not outer and not statements else tirx.ForKind.SERIAL
        statements += loop_over(count, compute, kind)
        begin = begin + count * width
    return _wrap(loops, sequence(statements), parallel=threads and bool(loops))


def _emit_vectors(
    nest: Nest, width: int, transposed: int | None, side: int, loads: Sequence[Load], *, threads: bool
) -> Stmt:
    """Emit a nest whose innermost loop is vectorized; it has ``width`` elements at least.

    transposed: the number of the loop that makes squares with the innermost one; it has ``side`` elements.
    loads: those of whose squares the rows are read, and transposed in registers; ``width`` is ``side`` then.
    """
    *outer, (inner, extent) = nest.loops
    size = as_index(extent)
    # TVM keeps facts about a variable, such as that its extent is small, for every loop that has it.
    loops: _Loops = [(tirx.Var(var.name, "int64"), count) for var, count in outer]
    indices: dict[Var, Index] = {var: renamed for (var, _), (renamed, _) in zip(outer, loops, strict=True)}
    rows: _Loops = []
    if transposed is not None:
        var, count = outer[transposed]
        squares, row = tirx.Var("rows", "int64"), tirx.Var("row", "int64")
        rows = [(row, as_expr(side))]
        loops[transposed] = (squares, as_expr(round_up_div(as_index(count), side)))
        # The last square is moved back to end with the axis, as the last vector of a row is.
        first_row = _part_begin(squares, side, as_index(count))
        indices[var] = first_row + row
    vectors = round_up_div(size, width)
    var = tirx.Var("v", "int64")
    loops.append((var, as_expr(vectors)))
    indices[inner] = _part_begin(var, width, size)
    if loads:
        assert transposed is not None
        begin = {**indices, outer[transposed][0]: first_row}
        body = _emit_square(nest, begin, indices, rows[0], loads)
    else:
        body = _wrap(rows, _emit_steps(nest, indices, width), parallel=False)
    return _wrap(loops, body, parallel=threads)


def _emit_square(
    nest: Nest,
    begin: Mapping[Var, Index],
    indices: Mapping[Var, Index],
    rows: tuple[Var, Extent],
    loads: Sequence[Load],
) -> Stmt:
    """Compute a square of elements; what it reads the other way round is transposed first."""
    row, side = rows[0], int(rows[1])
    inner = nest.loops[-1][0]
    statements: list[Stmt] = []
    squares = []
    for each in loads:
        dtype = dtype_of(each.source)
        square = local_array(side * side, dtype, "square")
        lines = []
        for column in range(side):
            start = _rename(each.indices[0], {**begin, inner: as_expr(begin[inner]) + column})
            lines.append(load(each.source, start, side, dtype))
        before, columns = transpose(lines, dtype)
        statements += [tirx.AllocBuffer(square), *before]
        # The transposed square is written to an array that LLVM promotes to registers: the steps
        # then read its rows as vectors, where they would gather elements that are a row apart.
        statements += [store(square, line * side, side, value) for line, value in enumerate(columns)]
        squares.append(square)

    def from_square(transposed: Load) -> Load:
        for each, square in zip(loads, squares, strict=True):
            if transposed.same_as(each):
                return tirx.BufferLoad(square, [row * as_expr(side) + nest.lane])
        return transposed

    steps = (
        replace(step, value=rewrite(step.value, [(ir.expr.TensorLoad, from_square)])) for step in nest.steps
    )
    body = _emit_steps(replace(nest, steps=tuple(steps)), indices, side)
    return sequence([*statements, _wrap([rows], body, parallel=False)])


def _find_transposed_loads(nest: Nest, var: Var) -> list[Load]:
    """Find what is read along an outer loop, always and by the loops' variables alone."""
    inner = nest.loops[-1][0]
    local = {step.local for step in nest.steps}
    transposed: list[Load] = []
    obstacles: list[Node] = []

    def check_call(call: Call) -> None:
        if is_conditional(call):
            obstacles.append(call)

    for step in nest.steps:
        visit(step.value, [(ir.Call, check_call), (tirx.Let, obstacles.append)])
        for candidate in collect_loads(step.value):
            if candidate.source in local or dtype_of(candidate.source) not in _SHUFFLED:
                continue
            along, across = (
                detect_linear_equation(candidate.indices[0], [variable]) for variable in (var, inner)
            )
            # Contiguous along the outer loop and strided along the inner one: the transposed
            # access.
            if along and static_int(along[0]) == 1 and across and static_int(across[0]) not in (0, 1):
                transposed.append(candidate)
    return [] if obstacles else transposed


def _find_transposed_loop(nest: Nest) -> int | None:
    """Find an outer loop that runs through neighbours in memory where the innermost loop does not."""
    *outer, (inner, _) = nest.loops
    for offset in nest.offsets():
        parts = [static_int(coefficient) for coefficient in detect_linear_equation(offset, [inner])]
        if not parts or parts[0] in (0, 1):
            continue
        for number, (var, extent) in enumerate(outer):
            factors = [static_int(coefficient) for coefficient in detect_linear_equation(offset, [var])]
            size = static_int(extent)
            if factors and factors[0] in (1, -1) and (size is None or size >= _SQUARE):
                return number
    return None


def _wrap(loops: Sequence[tuple[Var, Extent]], body: Stmt, *, parallel: bool) -> Stmt:
    """Build the loops around the body; threads share the outermost one if that is wanted."""
    for number, (var, extent) in reversed(list(enumerate(loops))):
        kind = tirx.ForKind.PARALLEL if parallel and number == 0 else tirx.ForKind.SERIAL
        body = tirx.For(var, as_expr(0), extent, kind, body)
    return body


def _emit_steps(nest: Nest, indices: Mapping[Var, Index], width: int) -> Stmt:
    """Compute ``width`` elements from the given indices of the loops on, step by step."""
    local = {
        step.local: local_array(width, dtype_of(step.local), step.local.name)
        for step in nest.steps
        if step.local is not None
    }
    statements: list[Stmt] = [tirx.AllocBuffer(buffer) for buffer in local.values()]
    for step in nest.steps:
        lane = tirx.Var("lane", "int64") if width > 1 else as_expr(0)
        names = {**local, **indices, nest.lane: lane}
        if indices:
            innermost = nest.loops[-1][0]
            names[innermost] = indices[innermost] + lane
        stored = tirx.BufferStore(
            local.get(step.local, nest.row),
            _rename(step.value, names),
            [lane if step.local is not None else _rename(nest.offset, names)],
        )
        if width > 1:
            stored = tirx.For(lane, as_expr(0), as_expr(width), tirx.ForKind.VECTORIZED, stored)
        statements.append(stored)
    return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]


def _rename(value: PrimExpr, names: Mapping[Node, Node]) -> PrimExpr:
    """Return a copy with other variables and buffers, and new variables for its lets."""
    return replace_vars(value, rename_lets(value, names))


def _threads_condition(nest: Nest, machine: CpuModel) -> bool | PrimExpr:
    """Return whether there is work for threads: a condition where only the call knows the sizes."""
    elements = product(extent for _, extent in nest.loops)
    operations = _operations_of_element(nest)
    if isinstance(elements, int):
        return machine.uses_threads(Work.ELEMENT_OPERATIONS, elements * operations)
    if any(_has_index(step.value, "float") for step in nest.steps):
        return False  # TVM would bind floats of sizes, which both versions need: its code generator fails
    most = math.ceil(Work.ELEMENT_OPERATIONS.value / operations)
    # The threshold is divided by the operations, which are a float: the condition stays one of
    # integers.
    return elements >= as_expr(most) if machine.parallel else False


def _operations_of_element(nest: Nest) -> float:
    loads = [load for step in nest.steps for load in collect_loads(step.value)]
    instructions = sum(count_instructions(step.value) for step in nest.steps)
    moved = sum(bytes_in_memory(load.source) for load in loads) + bytes_in_memory(nest.row)
    return instructions * _OPERATIONS_PER_INSTRUCTION + moved * _OPERATIONS_PER_BYTE


def _choose_width(nest: Nest, machine: CpuModel) -> int:
    """Choose how many elements of the innermost loop are computed together."""
    inner, extent = nest.loops[-1]
    lanes = _lanes(nest, machine)
    if not all(_is_vectorizable(step.value, inner) for step in nest.steps):
        return 1
    parts = [static_int(part) for part in detect_linear_equation(nest.offset, [inner])]
    if not parts or parts[0] != 1:
        return 1
    size = static_int(extent)
    # Half as many lanes, again and again, keep the width a power of two, which LLVM's vector types
    # need.
    while size is not None and lanes > size:
        lanes //= 2
    instructions = sum(count_instructions(step.value) for step in nest.steps)
    vectors = next((count for most, count in _VECTORS_TOGETHER if instructions <= most), 1)
    while size is not None and lanes * vectors > size:
        vectors //= 2
    if any(_has_index(step.value, "int8") for step in nest.steps):  # TVM numbers lanes in the dtype
        vectors = max(1, min(vectors, _SHORT_INDICES // lanes))
    return lanes * vectors


def _fills_short_rows(nest: Nest, width: int) -> bool:
    """Return whether one value is stored in rows that overlapping vectors would cover.

    LLVM would write out every round of such loops, which takes it seconds for the border of a padded array.
    """
    size = static_int(nest.loops[-1][1])
    if size is None or size % width == 0 or size >= _LONG_ROW:
        return False
    variables = [var for var, _ in nest.loops]
    found: list[Var] = []

    def check(var: Var) -> None:
        if any(var.same_as(other) for other in variables):
            found.append(var)

    for step in nest.steps:
        visit(step.value, [(ir.Var, check)])
    return not found


def _has_index(value: PrimExpr, dtype: str) -> bool:
    """Return whether an index or a size becomes a number of a dtype whose name begins so."""
    casts = collect(tirx.Cast, value)
    return any(dtype_of(cast).startswith(dtype) and dtype_of(cast.value) == "int64" for cast in casts)


def _lanes(nest: Nest, machine: CpuModel) -> int:
    """Return how many elements of the widest dtype of a nest are a vector: fewest where dtypes differ."""
    dtypes = [dtype_of(nest.row)]
    dtypes += [dtype_of(load.source) for step in nest.steps for load in collect_loads(step.value)]
    # With lanes of the narrowest dtype, a float64 beside an int8 would take eight registers for
    # each value.
    return min(machine.lanes(dtype) for dtype in dtypes)


def _is_vectorizable(value: PrimExpr, inner: Var) -> bool:
    """Return whether vectors of neighbours pay: no foreign calls, and all indices linear in the loop."""
    obstacles: list[Node] = []

    def check_condition(var: Var) -> None:
        if var.same_as(inner):
            obstacles.append(var)

    def check_call(call: Call) -> tvm_ffi.WalkResult:
        if is_library_fallback(call):
            visit(call.args[2], checks, before_parts=True)
            return tvm_ffi.WalkResult.SKIP
        if str(getattr(call.op, "name", "")).rsplit(".", 1)[-1] not in _VECTORIZABLE:
            obstacles.append(call)
        if is_conditional(call):
            visit(call.args[0], [(ir.Var, check_condition)])
        return tvm_ffi.WalkResult.ADVANCE

    def check_load(load: Load) -> None:
        if not all(detect_linear_equation(index, [inner]) for index in load.indices):
            obstacles.append(load)

    checks = [(ir.Call, check_call), (ir.expr.TensorLoad, check_load)]
    visit(value, checks, before_parts=True)
    return not obstacles


def _part_begin(number: PrimExpr, width: int, size: Index) -> Index:
    """Return where a part of ``width`` begins: the last one ends with the whole, and may overlap."""
    begin = number * as_expr(width)
    rest = size % width if isinstance(size, int) else static_int(sym.Analyzer().simplify(size % width))
    return begin if rest == 0 else tirx.min(begin, as_expr(size - width))
