"""Emit the loops of a nest for a machine: vectors, squares of a transposition, threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import ir, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.elementwise.costs import bytes_in_memory, count_instructions
from nnmagic.engine.relax.schedules.elementwise.nests import Nest, rename_lets
from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    is_conditional,
    local_array,
    static_int,
)
from nnmagic.engine.relax.tir.types import Call, Extent, Index, Load, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import rewrite, visit

#: The side of the squares that a transposition is made of; more rows would fall out of the cache.
_SQUARE = 8

#: How many pieces of one long row the threads share.
_PIECES = 64

#: How many vectors are computed together, by the instructions of an element up to which their values stay in
#: registers; one for longer computations.
_VECTORS_TOGETHER = ((8, 4), (40, 2))

#: Two instructions of an element count as one operation, and a byte that is moved as two.
_OPERATIONS_PER_INSTRUCTION = 1 / 2
_OPERATIONS_PER_BYTE = 2

#: The calls that TVM can vectorize.
_VECTORIZABLE = {
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "popcount"),
    *("ceil", "floor", "nearbyint", "round", "trunc", "fabs", "sqrt", "rsqrt", "isnan", "reinterpret"),
    *("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin", "if_then_else", "likely"),
}

_Loops = list[tuple[Var, Extent]]


def emit_nest(nest: Nest, machine: CpuModel) -> Stmt:
    """Return the nest as parallel loops around vectors."""
    if not nest.loops:
        return _emit_steps(nest, {}, 1)
    *outer, (inner, extent) = nest.loops
    size = static_int(extent)
    width = _choose_width(nest, machine)
    threads = machine.uses_threads(Work.ELEMENT_OPERATIONS, _count_operations(nest))
    if width == 1:
        var = tirx.Var("i", "int64")
        return _wrap([*outer, (var, extent)], _emit_steps(nest, {inner: var}, 1), parallel=threads)
    if size is None:
        return _emit_dynamic_row(nest, width)
    return _emit_vectors(nest, width, size, threads=threads)


def _emit_vectors(nest: Nest, width: int, size: int, *, threads: bool) -> Stmt:
    """Emit a nest whose innermost loop, of a static size, is vectorized."""
    *outer, (inner, _) = nest.loops
    loops: _Loops = list(outer)
    indices: dict[Var, Index] = {}
    transposed = _find_transposed_loop(nest)
    rows: _Loops = []
    if transposed is not None:
        width = min(width, _SQUARE)
        var, extent = outer[transposed]
        squares, row = tirx.Var("rows", "int64"), tirx.Var("row", "int64")
        rows = [(row, as_expr(_SQUARE))]
        loops[transposed] = (squares, as_expr(-(-extent.value // _SQUARE)))
        indices[var] = _part_begin(squares, _SQUARE, extent.value) + row
    vectors = -(-size // width)
    var = tirx.Var("v", "int64")
    if threads and not outer and vectors >= 2 * _PIECES:
        piece_vectors = -(-vectors // _PIECES)
        piece = tirx.Var("piece", "int64")
        loops = [(piece, as_expr(-(-vectors // piece_vectors))), (var, as_expr(piece_vectors))]
        vector = (piece * as_expr(piece_vectors) + var) * as_expr(width)
        indices[inner] = tirx.min(vector, as_expr(size - width))
    else:
        loops.append((var, as_expr(vectors)))
        indices[inner] = _part_begin(var, width, size)
    body = _emit_steps(nest, indices, width)
    return _wrap([*loops, *rows], body, parallel=threads and len(loops) > 1)


def _find_transposed_loop(nest: Nest) -> int | None:
    """Find an outer loop that runs through neighbours in memory where the innermost loop does not."""
    *outer, (inner, _) = nest.loops
    for offset in nest.offsets():
        parts = [static_int(part) for part in detect_linear_equation(offset, [inner])]
        if not parts or parts[0] in (0, 1):
            continue
        for number, (var, extent) in enumerate(outer):
            factors = [static_int(part) for part in detect_linear_equation(offset, [var])]
            size = static_int(extent)
            if factors and factors[0] == 1 and size is not None and size >= _SQUARE:
                return number
    return None


def _emit_dynamic_row(nest: Nest, width: int) -> Stmt:
    """Emit loops over a dynamic innermost dimension: vectors where it is long enough, else elements."""
    *outer, (inner, extent) = nest.loops
    var, element = tirx.Var("v", "int64"), tirx.Var("i", "int64")
    wide = as_expr(width)
    begin = tirx.min(var * wide, extent - wide)
    count = (extent + (wide - as_expr(1))) // wide
    vectors = _wrap([*outer, (var, count)], _emit_steps(nest, {inner: begin}, width), parallel=False)
    # TVM keeps facts about a variable, such as that the extent is small, for every loop that has it.
    renamed = {loop: tirx.Var(loop.name, "int64") for loop, _ in outer}
    body = _emit_steps(nest, {**renamed, inner: element}, 1)
    around = [(renamed[loop], count) for loop, count in outer]
    elements = _wrap([*around, (element, extent)], body, parallel=False)
    return tirx.IfThenElse(extent >= wide, vectors, elements)


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
        store = tirx.BufferStore(
            local.get(step.local, nest.row),
            _rename(step.value, names),
            [lane if step.local is not None else _rename(nest.offset, names)],
        )
        if width > 1:
            store = tirx.For(lane, as_expr(0), as_expr(width), tirx.ForKind.VECTORIZED, store)
        statements.append(store)
    return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]


def _rename(value: PrimExpr, names: Mapping[Node, Node]) -> PrimExpr:
    """Return a copy with other variables and buffers, and new variables for its lets."""
    extended = rename_lets(value, names)
    return rewrite(value, [(ir.Var, lambda var: extended.get(var, var))])


def _count_operations(nest: Nest) -> float:
    """Count the operations of all elements; dynamic dimensions count as one element."""
    sizes = [static_int(extent) for _, extent in nest.loops]
    elements = math.prod(size for size in sizes if size is not None)
    loads = [load for step in nest.steps for load in collect_loads(step.value)]
    instructions = sum(count_instructions(step.value) for step in nest.steps)
    moved = sum(bytes_in_memory(load.source) for load in loads) + bytes_in_memory(nest.row)
    return elements * (instructions * _OPERATIONS_PER_INSTRUCTION + moved * _OPERATIONS_PER_BYTE)


def _choose_width(nest: Nest, machine: CpuModel) -> int:
    """Choose how many elements of the innermost loop are computed together."""
    inner, extent = nest.loops[-1]
    dtypes = [dtype_of(nest.row)]
    dtypes += [dtype_of(load.source) for step in nest.steps for load in collect_loads(step.value)]
    lanes = min(machine.lanes(dtype) for dtype in dtypes)
    if not all(_is_vectorizable(step.value, inner) for step in nest.steps):
        return 1
    parts = [static_int(part) for part in detect_linear_equation(nest.offset, [inner])]
    if not parts or parts[0] != 1:
        return 1
    size = static_int(extent)
    if size is None:
        return lanes
    while lanes > size:
        lanes //= 2
    instructions = sum(count_instructions(step.value) for step in nest.steps)
    vectors = next((count for most, count in _VECTORS_TOGETHER if instructions <= most), 1)
    while lanes * vectors > size:
        vectors //= 2
    return lanes * vectors


def _is_vectorizable(value: PrimExpr, inner: Var) -> bool:
    """Return whether vectors of neighbours pay: no foreign calls, and all indices linear in the loop."""
    obstacles: list[Node] = []

    def check_condition(var: Var) -> None:
        if var.same_as(inner):
            obstacles.append(var)

    def check_call(call: Call) -> None:
        if str(getattr(call.op, "name", "")).rsplit(".", 1)[-1] not in _VECTORIZABLE:
            obstacles.append(call)
        if is_conditional(call):
            visit(call.args[0], [(ir.Var, check_condition)])

    def check_load(load: Load) -> None:
        if not all(detect_linear_equation(index, [inner]) for index in load.indices):
            obstacles.append(load)

    visit(value, [(ir.Call, check_call), (ir.expr.TensorLoad, check_load)])
    return not obstacles


def _part_begin(number: PrimExpr, width: int, size: int) -> Index:
    """Return where a part of ``width`` begins: the last one ends with the whole, and may overlap."""
    begin = number * as_expr(width)
    return begin if size % width == 0 else tirx.min(begin, as_expr(size - width))
