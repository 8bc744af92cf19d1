"""Loops for kernels without reductions: chains of element functions, broadcasts, copies, transposes, gathers.

Knows TIR only.

A kernel comes as one loop nest a tensor. Where a tensor is needed once, its computation moves to where it is
read. What is left are the results, and tensors that would be computed too often. For each of them:

- The dimensions that lie in one row in all memory that is touched become one loop.
- A condition on a place (of a concatenation or a padding) splits the loops where it changes.
- The innermost loop takes a few vectors at a time, the intermediate values in registers. What is left at its
  end is done by a vector that ends there and computes some elements again: no element has a condition.
- Large kernels are given to the threads, by rows or by pieces of the one row.

Intermediate values go through small local arrays, which LLVM keeps in registers: what TVM sees as an
expression it simplifies as if numbers had infinitely many digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import DataType, ir, s_tir, sym, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.fusion_analysis import Stage
from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.schedules.registry import SCHEDULES
from nnmagic.engine.relax.tir.builders import is_choice, loads_of
from nnmagic.engine.relax.tir.visitors import rewrite, visit

#: More pieces than this of a loop nest are not worth their code.
_MOST_PIECES = 9

#: Elements times instructions from which on threads pay: about 100 microseconds of one core.
_PARALLEL_WORK = 1 << 24

#: Operations on an element up to which it is cheaper computed again than kept.
_CHEAP = 4


@dataclass(frozen=True, slots=True)
class _Step:
    """One value in the innermost loop: ``local[lane]``, or without a local array the result."""

    local: Any
    value: Any


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops around steps. The last step's value is stored at ``offset`` of ``row``.

    ``lane`` is the place in the steps' local arrays.
    """

    loops: tuple[tuple[Any, Any], ...]
    steps: tuple[_Step, ...]
    row: Any
    offset: Any
    lane: Any

    def offsets(self) -> list[Any]:
        """The places in rows that are touched; the last is the one that is written."""
        locals_ = {step.local for step in self.steps}
        loads = [load for step in self.steps for load in loads_of(step.value) if load.source not in locals_]
        return [*(load.indices[0] for load in loads), self.offset]


def schedule(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """The kernel with fused, vectorised and parallel loops; itself where it is not made of plain stages."""
    stages = _stages(function)
    if stages is None:
        return function
    shapes = [param.ty.shape for param in function.params if isinstance(param.ty, tirx.BufferType)]
    if any(_size(shape) == 0 for shape in [*shapes, *(stage.extents for stage in stages)]):
        return function
    if not any(loads_of(stage.value) for stage in stages):
        return function  # made of places only: LLVM does well, and other loops could round otherwise
    kept = _kept(stages, set(function.params))
    while True:
        rows = _Rows(kept.difference(function.params))
        inlined = {stage.buffer: stage for stage in stages if stage.buffer not in kept}
        builders = [
            builder for stage in stages if stage.buffer in kept for builder in _pieces(stage, inlined, rows)
        ]
        unsafe = {buffer for builder in builders for buffer in builder.unsafe}
        if not unsafe:
            break
        kept |= unsafe  # what a branch guards may not be computed before it
    loops = [_Loops(_collapsed(builder.nest), machine).statement() for builder in builders]
    body = tirx.SeqStmt([*rows.declarations(), *loops])
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)


def _stages(function: tirx.PrimFunc) -> list[Stage] | None:
    """The stages of a kernel, in order; None where it is made of anything else."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or root.block.name_hint != "root":
        return None
    body = root.block.body
    found = [_stage(each) for each in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]
    stages = [stage for stage in found if stage is not None]
    if len(stages) < len(found) or root.block.match_buffers:
        return None
    written: set[Any] = set()
    computed = {stage.buffer for stage in stages}
    for stage in stages:
        early = {load.source for load in loads_of(stage.value)} & (computed - written)
        if early or stage.buffer in written or stage.buffer.ty.strides:
            return None
        written.add(stage.buffer)
    return stages


def _stage(statement: Any) -> Stage | None:
    """A perfect nest of loops from 0 around one block that stores one element at its axes."""
    extents: dict[Any, Any] = {}
    while isinstance(statement, tirx.For):
        if statement.kind not in (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL) or not _is_zero(statement.min):
            return None
        extents[statement.loop_var] = statement.extent
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize):
        return None
    block, store = statement.block, statement.block.body
    plain = not (block.init or block.alloc_buffers or block.match_buffers) and _is_true(statement.predicate)
    if not plain or not isinstance(store, tirx.BufferStore) or len(block.iter_vars) != len(extents):
        return None
    axes = tuple(each.var for each in block.iter_vars)
    if list(store.indices) != list(axes) or list(statement.iter_values) != list(extents):
        return None
    return Stage(store.buffer, axes, tuple(extents.values()), store.value)


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and value.value == 0


def _is_true(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and value.value == 1


def _kept(stages: Sequence[Stage], results: set[Any]) -> set[Any]:
    """The buffers that are written to memory: the results, and what would be computed too often otherwise."""
    kept = {stage.buffer for stage in stages if stage.buffer in results}
    weights: dict[Any, int] = {}
    for stage in stages:
        # Places that are divided by a length that only the call knows would be written out within each other.
        kept |= {load.source for load in loads_of(stage.value) if any(map(_divides_by_lengths, load.indices))}
        reads = {load.source for load in loads_of(stage.value)}
        weights[stage.buffer] = _weight(stage.value) + sum(weights.get(source, 0) for source in reads)
    computed: dict[Any, float] = {}
    for stage in reversed(stages):
        size = _size(stage.extents)
        often = computed.get(stage.buffer, 0.0)
        if stage.buffer not in kept and often > size and weights[stage.buffer] > _CHEAP:
            kept.add(stage.buffer)
        times = size if stage.buffer in kept else often
        places = {(load.source, tvm_ffi.StructuralKey(load.indices)) for load in loads_of(stage.value)}
        for source, _ in places:
            computed[source] = computed.get(source, 0.0) + times
    return kept


def _divides_by_lengths(index: Any) -> bool:
    found: list[Any] = []
    divisions = (tirx.FloorDiv, tirx.FloorMod)
    visit(index, [(divisions, lambda node: found.append(node.b))])
    return not all(isinstance(_number(divisor), int) for divisor in found)


def _size(extents: Sequence[Any]) -> float:
    """How many elements; a dimension that only the call knows counts as a large one."""
    return math.prod(each if isinstance(each := _number(extent), int) else 1e6 for extent in extents)


def _number(value: Any) -> Any:
    """An int where the value is one that is known, else the value itself."""
    return int(value.value) if isinstance(value, tirx.IntImm) else value


_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, tirx.Select, tirx.Cast)
_SLOW = (tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod, ir.Call)


def _weight(value: Any) -> int:
    """Roughly how many instructions a value takes, without the loads."""
    found = [0]

    def add(count: int) -> Any:
        def visit(_: Any) -> None:
            found[0] += count

        return visit

    skip = (ir.expr.TensorLoad, lambda _: tvm_ffi.WalkResult.SKIP)
    visit(value, [skip, (_OPERATIONS, add(1)), (_SLOW, add(3))], before_parts=True)
    return found[0]


class _Rows:
    """Every buffer of a kernel, seen as one row of elements."""

    def __init__(self, allocated: set[Any]) -> None:
        self._allocated = allocated
        self._rows: dict[Any, Any] = {}
        self._statements: list[Any] = []

    def of(self, buffer: Any) -> Any:
        """The buffer as one row."""
        if buffer not in self._rows:
            size = math.prod(buffer.ty.shape, start=_int(1))
            alignment = {} if buffer in self._allocated else {"data_alignment": buffer.ty.data_alignment}
            row = tirx.decl_buffer((size,), str(buffer.ty.dtype), f"{buffer.name}_row", **alignment)
            data = tirx.buffer.buffer_data(buffer)
            self._statements.append(
                tirx.AllocBuffer(row) if buffer in self._allocated else tirx.DeclBuffer(row, data=data)
            )
            self._rows[buffer] = row
        return self._rows[buffer]

    def declarations(self) -> list[Any]:
        """The statements that make the rows known."""
        return self._statements


def _offset(buffer: Any, indices: Sequence[Any]) -> Any:
    """The place of an element in the row."""
    place: Any = _int(0)
    for dim, index in zip(buffer.ty.shape, indices, strict=True):
        place = place * dim + index
    return place


class _Builder:
    """Brings the computation of all inlined stages into the loops of one stage, within ``ranges``."""

    def __init__(
        self, stage: Stage, inlined: dict[Any, Stage], rows: _Rows, ranges: Sequence[Sequence[Any]]
    ) -> None:
        self._inlined = inlined
        self._rows = rows
        self._analyzer = sym.Analyzer()
        self._steps: list[_Step] = []
        self._locals: dict[Any, Any] = {}
        self._finished: dict[Any, Any] = {}
        self._branches = 0
        self.lane = tirx.Var("lane", "int64")
        self.conditions: list[Any] = []
        self.unsafe: set[Any] = set()
        self.loops: list[tuple[Any, Any]] = []
        places = [self._place(*each) for each in ranges]
        value = self._evaluated(stage, places)
        offset = self._analyzer.simplify(_offset(stage.buffer, places))
        steps = (*self._steps, _Step(None, value))
        self.nest = _Nest(tuple(self.loops), steps, rows.of(stage.buffer), offset, self.lane)

    def _place(self, begin: Any, *extents: Any) -> Any:
        """The index that loops of these extents, outermost first, run through from ``begin`` on."""
        place: Any = _int(0)
        for extent in extents:
            if _number(extent) == 1:
                place = place * extent
                continue
            var = tirx.Var(f"i{len(self.loops)}", "int64")
            self._analyzer.bind(var, ir.Range(_int(0), extent))
            self.loops.append((var, extent))
            place = place * extent + var
        return place + begin

    def _evaluated(self, stage: Stage, indices: Sequence[Any]) -> Any:
        """The value of a stage's element."""
        fresh: dict[Any, Any] = dict(zip(stage.axes, indices, strict=True))

        def rename(let: Any) -> None:
            fresh[let.var] = tirx.Var(let.var.name, str(let.var.ty.dtype))

        visit(stage.value, [(tirx.Let, rename)])
        return self._mapped(stage.value, fresh)

    def _mapped(self, value: Any, fresh: dict[Any, Any]) -> Any:
        """A value with other variables, its loads from rows or from local arrays."""
        # What a callback gives is looked through again: so a variable stands for it until the end.
        finished: dict[Any, Any] = {}

        def later(expr: Any) -> Any:
            stand_in = tirx.Var("finished", str(expr.ty.dtype))
            finished[stand_in] = expr
            return stand_in

        callbacks = [
            (ir.Var, lambda var: fresh.get(var, var)),
            (ir.expr.TensorLoad, lambda load: later(self._load(load, fresh))),
            (ir.Call, lambda call: later(self._branch(call, fresh)) if is_choice(call) else call),
        ]
        mapped = rewrite(value, callbacks, before_parts=True)
        return rewrite(mapped, [(ir.Var, lambda var: finished.get(var, var))])

    def _load(self, load: Any, fresh: dict[Any, Any]) -> Any:
        indices = [self._mapped(index, fresh) for index in load.indices]
        stage = self._inlined.get(load.source)
        if stage is None:
            place = self._analyzer.simplify(_offset(load.source, indices))
            return tirx.BufferLoad(self._rows.of(load.source), [place])
        if self._branches:
            self.unsafe.add(load.source)
        key = (load.source, tvm_ffi.StructuralKey([self._analyzer.simplify(index) for index in indices]))
        if key not in self._locals:
            value = self._evaluated(stage, indices)
            if str(value.ty.dtype) == "bool":  # TVM has no arrays of these
                value = value.astype("int8")
            local = tirx.decl_buffer((1,), str(value.ty.dtype), stage.buffer.name, scope="local")
            self._steps.append(_Step(local, value))
            self._locals[key] = local
        found = tirx.BufferLoad(self._locals[key], [self.lane])
        return tirx.NE(found, tirx.const(0, "int8")) if str(load.ty.dtype) == "bool" else found

    def _branch(self, call: Any, fresh: dict[Any, Any]) -> Any:
        condition = self._analyzer.simplify(self._mapped(call.args[0], fresh))
        if isinstance(condition, tirx.IntImm):
            return self._mapped(call.args[1 if condition.value else 2], fresh)
        self.conditions.append(condition)
        self._branches += 1
        branches = [self._mapped(each, fresh) for each in call.args[1:]]
        self._branches -= 1
        return tirx.if_then_else(condition, *branches)


def _pieces(stage: Stage, inlined: dict[Any, Stage], rows: _Rows) -> list[_Builder]:
    """The loops of a stage: cut where conditions on places change, and divided where places are."""
    whole = [[_int(0), extent] for extent in stage.extents]
    first = _Builder(stage, inlined, rows, whole)
    if not first.conditions:
        return [_divided(first, stage, inlined, rows, whole)]
    cuts = _cuts(first, stage.extents)
    if math.prod(len(each) - 1 for each in cuts) > _MOST_PIECES:
        return [first]
    found = []
    for parts in itertools.product(*(itertools.pairwise(each) for each in cuts)):
        ranges = [[begin, end - begin] for begin, end in parts]
        found.append(_divided(_Builder(stage, inlined, rows, ranges), stage, inlined, rows, ranges))
    return found


def _cuts(builder: _Builder, extents: Sequence[Any]) -> list[list[Any]]:
    """Where each axis is to be cut, from its begin to its end, so that conditions are the same in a piece."""
    points: dict[Any, set[int]] = {var: set() for var, _ in builder.loops}
    for condition in builder.conditions:
        visit(condition, [(_COMPARISONS, lambda test: _add_points(test, points))])
    cuts, loops = [], iter(builder.loops)
    for extent in extents:
        inner: list[int] = []
        if not _is_one(extent):
            size = _number(extent)
            inner = sorted(
                point for point in points[next(loops)[0]] if isinstance(size, int) and 0 < point < size
            )
        cuts.append([_int(0), *(tirx.const(point, "int64") for point in inner), extent])
    return cuts


_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_MIRRORED = {tirx.LT: tirx.GT, tirx.GT: tirx.LT, tirx.LE: tirx.GE, tirx.GE: tirx.LE}


def _add_points(test: Any, points: dict[Any, set[int]]) -> None:
    """Adds the places where a comparison of one loop variable with a number changes."""
    if not str(test.a.ty.dtype).startswith("int"):
        return
    variables = list(points)
    parts = [_number(part) for part in detect_linear_equation(test.a - test.b, variables)]
    used = [at for at, part in enumerate(parts[:-1]) if part != 0]
    if len(used) != 1 or not isinstance(parts[-1], int) or not isinstance(parts[used[0]], int):
        return
    factor, begin, kind = parts[used[0]], parts[-1], type(test)
    if factor < 0:
        factor, begin, kind = -factor, -begin, _MIRRORED.get(kind, kind)
    found = points[variables[used[0]]]
    if kind not in (tirx.GT, tirx.LE):
        found.add(-(begin // factor))  # the first place where the difference is not below 0
    if kind not in (tirx.GE, tirx.LT):
        found.add((-begin) // factor + 1)  # the first where it is above 0


def _divided(
    builder: _Builder, stage: Stage, inlined: dict[Any, Stage], rows: _Rows, ranges: list[list[Any]]
) -> _Builder:
    """The same with loops divided so that a place ``i // 4`` or ``i % 4`` becomes that of a loop."""
    for _ in range(3):
        found = _division(builder)
        if found is None:
            break
        at, factor = found
        position = 0
        for number, (begin, *extents) in enumerate(ranges):
            size = sum(not _is_one(extent) for extent in extents)
            if position <= at < position + size:
                loop = [n for n, extent in enumerate(extents) if not _is_one(extent)][at - position]
                total = _number(extents[loop])
                parts = [tirx.const(total // factor, "int64"), tirx.const(factor, "int64")]
                ranges = [*ranges]
                ranges[number] = [begin, *extents[:loop], *parts, *extents[loop + 1 :]]
                break
            position += size
        builder = _Builder(stage, inlined, rows, ranges)
    return builder


def _is_one(extent: Any) -> bool:
    """Whether an extent is 1, as that of no loop is; one that is not known is not."""
    number = _number(extent)
    return isinstance(number, int) and number == 1


def _division(builder: _Builder) -> tuple[int, int] | None:
    """Which loop is to be divided by what."""
    variables = [var for var, _ in builder.loops]
    divisions: list[Any] = []
    for offset in builder.nest.offsets():
        if not detect_linear_equation(offset, variables):
            visit(offset, [((tirx.FloorDiv, tirx.FloorMod), divisions.append)])
    for division in divisions:
        parts = [_number(part) for part in detect_linear_equation(division.a, variables)]
        divisor = _number(division.b)
        if not parts or not isinstance(divisor, int):
            continue
        for at, (part, (_, extent)) in enumerate(zip(parts, builder.loops, strict=False)):
            size = _number(extent)
            if isinstance(part, int) and isinstance(size, int) and part > 0 and divisor % part == 0:
                factor = divisor // part
                if 1 < factor < size and size % factor == 0:
                    return at, factor
    return None


def _collapsed(nest: _Nest) -> _Nest:
    """The nest with loops made one where all that is touched lies in one row."""
    variables = [var for var, _ in nest.loops]
    parts = [detect_linear_equation(offset, variables) for offset in nest.offsets()]
    linear = [each for each in parts if each]
    fixed = _fixed(nest, variables)
    groups: list[list[int]] = []
    for at, (var, extent) in enumerate(nest.loops):
        last = groups[-1][-1] if groups else None
        joined = (
            last is not None
            and not {var, nest.loops[last][0]} & fixed
            and all(_same(each[last], each[at] * extent) for each in linear)
        )
        if joined:
            groups[-1].append(at)
        else:
            groups.append([at])
    if len(groups) == len(nest.loops):
        return nest
    loops = []
    for group in groups:
        extent = math.prod([nest.loops[at][1] for at in group[1:]], start=nest.loops[group[0]][1])
        loops.append((variables[group[0]] if len(group) == 1 else tirx.Var("i", "int64"), extent))

    def place(offset: Any) -> Any:
        found = detect_linear_equation(offset, variables)
        if not found:
            return offset
        terms = [var * found[group[-1]] for (var, _), group in zip(loops, groups, strict=True)]
        return sum(terms, start=found[-1])

    locals_ = {step.local for step in nest.steps}

    def moved(load: Any) -> Any:
        return load if load.source in locals_ else tirx.BufferLoad(load.source, [place(load.indices[0])])

    steps = tuple(
        replace(step, value=rewrite(step.value, [(ir.expr.TensorLoad, moved)])) for step in nest.steps
    )
    return replace(nest, loops=tuple(loops), steps=steps, offset=place(nest.offset))


def _same(left: Any, right: Any) -> bool:
    return left is right or bool(sym.Analyzer().can_prove_equal(left, right))


def _fixed(nest: _Nest, variables: list[Any]) -> set[Any]:
    """The loop variables that are used otherwise than linearly in the place of a load."""
    used: set[Any] = set()

    def load(node: Any) -> Any:
        linear = len(node.indices) == 1 and detect_linear_equation(node.indices[0], variables)
        return tvm_ffi.WalkResult.SKIP if linear else tvm_ffi.WalkResult.ADVANCE

    for step in nest.steps:
        visit(step.value, [(ir.expr.TensorLoad, load), (ir.Var, used.add)], before_parts=True)
    return used & set(variables)


class _Loops:
    """The statement of a nest for a machine."""

    def __init__(self, nest: _Nest, machine: CpuModel) -> None:
        self._nest = nest
        self._machine = machine

    def statement(self) -> Any:
        """Parallel loops around vectors."""
        nest = self._nest
        if not nest.loops:
            return self._body({}, 1)
        *outer, (inner, extent) = nest.loops
        size = _number(extent)
        width = self._width(inner, size)
        loops: list[tuple[Any, Any]] = list(outer)
        parallel = self._pays()
        if width == 1:
            var = tirx.Var("i", "int64")
            return self._around([*loops, (var, extent)], self._body({inner: var}, 1), parallel=parallel)
        if not isinstance(size, int):
            return self._open(loops, inner, extent, width)
        places: dict[Any, Any] = {}
        tiled = self._tiled(inner, outer)
        rows: list[tuple[Any, Any]] = []
        if tiled is not None:
            width = min(width, _TILE)
            var, extent = outer[tiled]
            blocks, row = tirx.Var("rows", "int64"), tirx.Var("row", "int64")
            rows = [(row, _int(_TILE))]
            loops[tiled] = (blocks, _int(-(-extent.value // _TILE)))
            places[var] = _within(blocks, _TILE, extent.value) + row
        count = -(-size // width)
        var = tirx.Var("v", "int64")
        if parallel and not outer and count >= 2 * _PIECES:
            part = -(-count // _PIECES)
            piece = tirx.Var("piece", "int64")
            loops = [(piece, _int(-(-count // part))), (var, _int(part))]
            places[inner] = tirx.min((piece * _int(part) + var) * _int(width), _int(size - width))
        else:
            loops.append((var, _int(count)))
            places[inner] = _within(var, width, size)
        return self._around([*loops, *rows], self._body(places, width), parallel=parallel and len(loops) > 1)

    def _tiled(self, inner: Any, outer: list[tuple[Any, Any]]) -> int | None:
        """Which outer loop runs through neighbours where the innermost does not: a transposition."""
        for offset in self._nest.offsets():
            parts = [_number(part) for part in detect_linear_equation(offset, [inner])]
            if not parts or parts[0] in (0, 1):
                continue
            for at, (var, extent) in enumerate(outer):
                across = [_number(part) for part in detect_linear_equation(offset, [var])]
                if across and across[0] == 1 and isinstance(size := _number(extent), int) and size >= _TILE:
                    return at
        return None

    def _open(self, outer: list[tuple[Any, Any]], inner: Any, extent: Any, width: int) -> Any:
        """Loops over a dimension that only the call knows: vectors where it has one, else elements."""
        var, element = tirx.Var("v", "int64"), tirx.Var("i", "int64")
        wide = tirx.const(width, "int64")
        begin = tirx.min(var * wide, extent - wide)
        count = (extent + (wide - _int(1))) // wide
        vectors = self._around([*outer, (var, count)], self._body({inner: begin}, width), parallel=False)
        # TVM holds what it knows of a variable, as that the extent is small, for every loop that has it.
        again = {loop: tirx.Var(loop.name, "int64") for loop, _ in outer}
        body = self._body({**again, inner: element}, 1)
        around = [(again[loop], count) for loop, count in outer]
        elements = self._around([*around, (element, extent)], body, parallel=False)
        return tirx.IfThenElse(extent >= wide, vectors, elements)

    def _around(self, loops: list[tuple[Any, Any]], body: Any, *, parallel: bool) -> Any:
        for at, (var, extent) in reversed(list(enumerate(loops))):
            kind = tirx.ForKind.PARALLEL if parallel and at == 0 else tirx.ForKind.SERIAL
            body = tirx.For(var, _int(0), extent, kind, body)
        return body

    def _body(self, places: dict[Any, Any], width: int) -> Any:
        """The steps for ``width`` elements."""
        nest, lane = self._nest, self._nest.lane
        local = {
            step.local: tirx.decl_buffer((width,), str(step.local.ty.dtype), step.local.name, scope="local")
            for step in nest.steps[:-1]
        }
        statements: list[Any] = [tirx.AllocBuffer(buffer) for buffer in local.values()]
        for step in nest.steps:
            own = tirx.Var("lane", "int64") if width > 1 else _int(0)
            known = {**local, **places, lane: own}
            if places:
                known[nest.loops[-1][0]] = places[nest.loops[-1][0]] + own
            store = tirx.BufferStore(
                local.get(step.local, nest.row),
                _renamed(step.value, known),
                [own if step.local is not None else _renamed(nest.offset, known)],
            )
            if width > 1:
                kind = tirx.ForKind.VECTORIZED
                store = tirx.For(own, _int(0), tirx.const(width, "int64"), kind, store)
            statements.append(store)
        return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]

    def _pays(self) -> bool:
        """Whether the work is worth the threads."""
        nest = self._nest
        sizes = [_number(extent) for _, extent in nest.loops]
        elements = math.prod(size for size in sizes if isinstance(size, int))
        memory = sum(_bytes(load.source) for step in nest.steps for load in loads_of(step.value))
        each = sum(_weight(step.value) for step in nest.steps) / 2 + 2 * (memory + _bytes(nest.row))
        return self._machine.parallel and elements * each >= _PARALLEL_WORK

    def _width(self, inner: Any, size: Any) -> int:
        """How many elements of the innermost loop are computed at once."""
        nest = self._nest
        dtypes = [str(nest.row.ty.dtype)]
        dtypes += [str(load.source.ty.dtype) for step in nest.steps for load in loads_of(step.value)]
        lanes = min(self._machine.lanes(dtype) for dtype in dtypes)
        if not all(_vectorises(step.value, inner) for step in nest.steps):
            return 1
        parts = [_number(part) for part in detect_linear_equation(nest.offset, [inner])]
        if not parts or parts[0] != 1:
            return 1
        if not isinstance(size, int):
            return lanes
        while lanes > size:
            lanes //= 2
        operations = sum(_weight(step.value) for step in nest.steps)
        several = 4 if operations <= 8 else 2 if operations <= 40 else 1
        while lanes * several > size:
            several //= 2
        return lanes * several


def _int(value: int) -> Any:
    return tirx.const(value, "int64")


def _within(number: Any, width: int, size: int) -> Any:
    """Where a part of ``width`` begins: the last one ends with the whole, and may overlap the one before."""
    begin = number * _int(width)
    return begin if size % width == 0 else tirx.min(begin, _int(size - width))


def _bytes(buffer: Any) -> int:
    """The size of an element in memory; nothing for what stays in registers."""
    return 0 if buffer.ty.storage_scope == "local" else DataType(str(buffer.ty.dtype)).bits // 8


#: The side of the squares that a transposition is made of; more rows would fall out of the cache.
_TILE = 8

#: How many pieces of one long row the threads share.
_PIECES = 64


def _renamed(value: Any, known: dict[Any, Any]) -> Any:
    """A copy with other variables; what it binds itself gets new ones."""
    fresh = dict(known)

    def rename(let: Any) -> None:
        fresh[let.var] = tirx.Var(let.var.name, str(let.var.ty.dtype))

    visit(value, [(tirx.Let, rename)])
    return rewrite(value, [(ir.Var, lambda var: fresh.get(var, var))])


#: The calls that TVM can make of vectors.
_OF_VECTORS = {
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "popcount"),
    *("ceil", "floor", "nearbyint", "round", "trunc", "fabs", "sqrt", "rsqrt", "isnan", "reinterpret"),
    *("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin", "if_then_else", "likely"),
}


def _vectorises(value: Any, inner: Any) -> bool:
    """Whether a vector of neighbours is no worse than one after another: no foreign calls, places linear."""
    bad: list[Any] = []

    def test(var: Any) -> None:
        if var.same_as(inner):
            bad.append(var)

    def call(node: Any) -> None:
        if str(getattr(node.op, "name", "")).rsplit(".", 1)[-1] not in _OF_VECTORS:
            bad.append(node)
        if is_choice(node):
            visit(node.args[0], [(ir.Var, test)])

    def load(node: Any) -> None:
        if not all(detect_linear_equation(index, [inner]) for index in node.indices):
            bad.append(node)

    visit(value, [(ir.Call, call), (ir.expr.TensorLoad, load)])
    return not bad


SCHEDULES["elementwise"] = schedule
