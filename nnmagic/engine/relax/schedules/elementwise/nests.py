"""Inline the computation of several stages into one loop nest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.kernel_analysis import Stage, rename_lets
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    collect_loads,
    dtype_of,
    is_conditional,
    is_library_fallback,
    local_array,
    static_int,
)
from nnmagic.engine.relax.tir.types import Buffer, Call, Extent, Index, Load, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import VarMap, collect, rewrite, visit

_NEGATED = {
    tirx.LT: tirx.GE,
    tirx.GE: tirx.LT,
    tirx.LE: tirx.GT,
    tirx.GT: tirx.LE,
    tirx.EQ: tirx.NE,
    tirx.NE: tirx.EQ,
}

#: The nodes of a condition up to which TVM is asked to prove it.
_MOST_NODES = 64

#: A part of an axis with at most so many elements is short; so many loads may be computed in its branches.
_FEW, _MOST_COPIES = 16, 64

#: Loops over a part of an axis: where it begins, then the extents of the loops, outermost first.
Range = Sequence[Index]

#: On which sides of some points an index is: it is not below the first ones, and below the last one.
Sides = tuple[Sequence[Index], Index]


@dataclass(frozen=True, slots=True)
class NestStep:
    """One value in the innermost loop, stored in ``local[lane]``; the result has no local array."""

    local: Buffer | None
    value: PrimExpr


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops around steps; the last step's value is stored in ``row[offset]``.

    lane: the variable that is the index in the steps' local arrays.
    """

    loops: tuple[tuple[Var, Extent], ...]
    steps: tuple[NestStep, ...]
    row: Buffer
    offset: Index
    lane: Var

    def offsets(self) -> list[Index]:
        """Return the indices in flat buffers; the last is that of the store."""
        local = {step.local for step in self.steps}
        loads = [load for step in self.steps for load in collect_loads(step.value)]
        return [*(load.indices[0] for load in loads if load.source not in local), self.offset]


class FlatBuffers:
    """Views of a kernel's buffers as one dimension; ``allocated`` are the kernel's own buffers."""

    def __init__(self, allocated: set[Buffer]) -> None:
        self._allocated = allocated
        self._rows: dict[Buffer, Buffer] = {}
        self._statements: list[Stmt] = []

    def flatten(self, buffer: Buffer) -> Buffer:
        """Return the buffer with one dimension."""
        if buffer not in self._rows:
            size = math.prod(buffer.ty.shape, start=as_expr(1))
            own = buffer in self._allocated
            alignment = {} if own else {"data_alignment": buffer.ty.data_alignment}
            row = tirx.decl_buffer((size,), dtype_of(buffer), f"{buffer.name}_row", **alignment)
            data = tirx.buffer.buffer_data(buffer)
            self._statements.append(tirx.AllocBuffer(row) if own else tirx.DeclBuffer(row, data=data))
            self._rows[buffer] = row
        return self._rows[buffer]

    def declarations(self) -> list[Stmt]:
        """Return the statements that declare or allocate the flat buffers."""
        return self._statements


@dataclass(frozen=True, slots=True)
class Inlining:
    """The parts that all nests of a kernel share: the stages to inline, by buffer, and the flat buffers."""

    stages: Mapping[Buffer, Stage]
    rows: FlatBuffers


def _flat_index(buffer: Buffer, indices: Sequence[Index]) -> Index:
    """Return the index of an element in the flat buffer."""
    offset: Index = as_expr(0)
    for dim, index in zip(buffer.ty.shape, indices, strict=True):
        # (i // d) * d + i % d is i: after a reshape, indices are divided by a dimension and then
        # multiplied by it again.
        undivided = _undo_division(offset, index, dim)
        offset = offset * dim + index if undivided is None else undivided
    return offset


def _undo_division(quotient: Index, numerator: Index, dim: Index) -> PrimExpr | None:
    """Return what was divided by a dimension, where these are the quotient and the rest of it.

    Of the quotient, the rest by a number may be given. LLVM takes seconds for many such divisions.
    """
    outer = quotient.b if isinstance(quotient, tirx.FloorMod) else None
    if outer is not None:
        quotient = quotient.a
    if not isinstance(quotient, tirx.FloorDiv) or not isinstance(numerator, tirx.FloorMod):
        return None
    # Only for the same numerator and the same divisor, which is the dimension itself.
    equal, divisor = tvm_ffi.structural_equal, as_expr(dim)
    if not (equal(quotient.a, numerator.a) and equal(quotient.b, divisor) and equal(numerator.b, divisor)):
        return None
    return quotient.a if outer is None else tirx.floormod(quotient.a, outer * divisor)


class NestBuilder:
    """Build the nest of one stage within ``ranges``, with all inlined stages computed in its loops.

    unsafe: inlined buffers that only one case of a conditional reads.
    """

    def __init__(
        self, stage: Stage, inlining: Inlining, ranges: Sequence[Range], sides: Sequence[Sides] = ()
    ) -> None:
        self.stage = stage
        self.inlining = inlining
        self.ranges = ranges
        self.sides = sides
        self._analyzer = sym.Analyzer()
        self._steps: list[NestStep] = []
        self._locals: dict[tuple[Buffer, object], Buffer] = {}
        self._branches = 0
        self._dynamic = False
        self._lane = tirx.Var("lane", "int64")
        self.conditions: list[PrimExpr] = []
        self.unsafe: set[Buffer] = set()
        self.loops: list[tuple[Var, Extent]] = []
        indices = [self._add_loops(*range_) for range_ in ranges]
        #: Numbers that are not negative.
        self._known = [
            number
            for index, (points, end) in zip(indices, sides, strict=False)
            for number in (*(index - point for point in points), end - 1 - index)
        ]
        #: How many loads in branches may be computed there: in the few elements at the ends of an axis.
        self._branch_copies = _MOST_COPIES if any(map(self._is_short, ranges)) else 0
        value = self._inline_stage(stage, indices)
        offset = self._analyzer.simplify(_flat_index(stage.buffer, indices))
        steps = (*self._steps, NestStep(None, value))
        row = inlining.rows.flatten(stage.buffer)
        self.nest = Nest(tuple(self.loops), steps, row, offset, self._lane)

    def _add_loops(self, begin: Index, *extents: Extent) -> Index:
        """Add loops of these extents, outermost first; return the index that they count from ``begin`` on."""
        index: Index = as_expr(0)
        for extent in extents:
            if static_int(extent) == 1:
                index = index * extent
                continue
            var = tirx.Var(f"i{len(self.loops)}", "int64")
            self._analyzer.bind(var, ir.Range(as_expr(0), extent))
            if static_int(extent) is None:
                self._dynamic = True
                visit(extent, [(ir.Var, self._assume_size)])
            self.loops.append((var, extent))
            index = index * extent + var
        return index + begin

    def _is_short(self, range_: Range) -> bool:
        """Return whether a part of an axis has certainly few elements."""
        return any(self._analyzer.const_int_bound(as_expr(extent)).max_value <= _FEW for extent in range_[1:])

    def _assume_size(self, var: Var) -> None:
        """Let the analyzer know that a dynamic dimension is not negative."""
        # Sizes are not negative, which the analyzer needs to drop a test such as i - n < n.
        self._analyzer.update(var, sym.ConstIntBound(0, sym.ConstIntBound.POS_INF))

    def _decide(self, condition: PrimExpr) -> PrimExpr:
        """Return a condition on dynamic sizes, or what it is in these loops where that is provable."""
        if not self._dynamic or isinstance(condition, tirx.IntImm) or not is_small(condition):
            return condition
        conjuncts = split_conjunction(condition)
        if any(self._holds(conjunct, negated=True) for conjunct in conjuncts):
            return tirx.const(0, "bool")
        conjuncts = [conjunct for conjunct in conjuncts if not self._holds(conjunct, negated=False)]
        return tirx.all(*conjuncts) if conjuncts else tirx.const(1, "bool")

    def _holds(self, condition: PrimExpr, *, negated: bool) -> bool:
        """Return whether a comparison of integers, or its negation, provably holds."""
        kind = _NEGATED.get(type(condition))
        if kind is None or dtype_of(condition.a) != "int64" or collect_loads(condition):
            return False
        holding = kind if negated else type(condition)
        # Not simplified: ``min(1, n) - 1`` would become ``-max(0, 1 - n)``, and be equal to no known number.
        least = _at_least(holding, condition.a - condition.b)
        if least is not None and any(self._is_natural(least - number) for number in self._known):
            return True
        # TVM's analyzer knows that ``i < n``, but not that ``i - n < 0``.
        difference = self._analyzer.simplify(condition.a - condition.b)
        variables = collect(ir.Var, difference)
        variables = list(dict.fromkeys(variables))
        coefficients = [
            static_int(coefficient) for coefficient in detect_linear_equation(difference, variables)
        ]
        factors = [coefficient for coefficient in coefficients if coefficient is not None]
        if not coefficients or len(factors) < len(coefficients):
            return False
        terms = list(zip([*variables, as_expr(1)], factors, strict=True))
        lhs, rhs = (
            sum((term * (sign * factor) for term, factor in terms if sign * factor > 0), start=as_expr(0))
            for sign in (1, -1)
        )
        return bool(self._analyzer.can_prove(holding(lhs, rhs)))

    def _is_natural(self, number: PrimExpr) -> bool:
        value = static_int(self._analyzer.simplify(number))
        return value is not None and value >= 0

    def _inline_stage(self, stage: Stage, indices: Sequence[Index]) -> PrimExpr:
        """Return the value of a stage's element."""
        names: dict[Var, PrimExpr] = dict(zip(stage.axes, indices, strict=True))
        return self._rewrite(stage.value, rename_lets(stage.value, names))

    def _rewrite(self, value: PrimExpr, names: Mapping[Var, PrimExpr]) -> PrimExpr:
        """Replace variables, and loads by those from flat buffers or local arrays."""
        # The visitor descends into a callback's result, so a variable stands for it until the end.
        finished = VarMap()

        def finish(expr: PrimExpr) -> Var:
            stand_in = tirx.Var("finished", dtype_of(expr))
            finished[stand_in] = expr
            return stand_in

        callbacks = [
            (ir.Var, VarMap(names).replace),
            (ir.expr.TensorLoad, lambda load: finish(self._rewrite_load(load, names))),
            (ir.Call, lambda call: finish(self._rewrite_branch(call, names)) if _is_branch(call) else call),
        ]
        rewritten = rewrite(value, callbacks, before_parts=True)
        return rewrite(rewritten, [(ir.Var, finished.replace)])

    def _rewrite_load(self, load: Load, names: Mapping[Var, PrimExpr]) -> PrimExpr:
        indices = [self._rewrite(index, names) for index in load.indices]
        stage = self.inlining.stages.get(load.source)
        if stage is None:
            offset = self._analyzer.simplify(_flat_index(load.source, indices))
            return tirx.BufferLoad(self.inlining.rows.flatten(load.source), [offset])
        # A case of a condition that is not chosen must not be read: its index may be out of bounds,
        # as in the padding of a concatenation. The caller stores such buffers instead.
        if self._branches and self._branch_copies:
            self._branch_copies -= 1
            return self._inline_stage(stage, indices)
        if self._branches:
            self.unsafe.add(load.source)
        # One step for each element that is read: `y * y` computes an inlined y once.
        key = (load.source, tvm_ffi.StructuralKey([self._analyzer.simplify(index) for index in indices]))
        if key not in self._locals:
            value = self._inline_stage(stage, indices)
            if dtype_of(value) == "bool":  # TVM has no arrays of these
                value = value.astype("int8")
            local = local_array(1, dtype_of(value), stage.buffer.name)
            self._steps.append(NestStep(local, value))
            self._locals[key] = local
        element = tirx.BufferLoad(self._locals[key], [self._lane])
        return tirx.NE(element, tirx.const(0, "int8")) if dtype_of(load) == "bool" else element

    def _rewrite_branch(self, call: Call, names: Mapping[Var, PrimExpr]) -> PrimExpr:
        condition = self._decide(self._analyzer.simplify(self._rewrite(call.args[0], names)))
        # The loops of a piece lie on one side of the condition, so that it needs no test in them.
        if isinstance(condition, tirx.IntImm):
            return self._rewrite(call.args[1 if condition.value else 2], names)
        self.conditions.append(condition)
        self._branches += 1
        branches = [self._rewrite(branch, names) for branch in call.args[1:]]
        self._branches -= 1
        return tirx.if_then_else(condition, *branches)


def _at_least(comparison: type[PrimExpr], difference: PrimExpr) -> PrimExpr | None:
    """Return a number that is not negative where a comparison of an integer with 0 holds."""
    match comparison:
        case tirx.GE:
            return difference
        case tirx.GT:
            return difference - 1
        case tirx.LE:
            return -difference
        case tirx.LT:
            return -1 - difference
        case _:
            return None


def _is_branch(call: Call) -> bool:
    return is_conditional(call) and not is_library_fallback(call)


def split_conjunction(condition: PrimExpr) -> list[PrimExpr]:
    """Return the conditions that hold if all of ``condition`` holds."""
    if isinstance(condition, tirx.And):
        return [*split_conjunction(condition.a), *split_conjunction(condition.b)]
    return [condition]


def is_small(expr: PrimExpr) -> bool:
    """Return whether an expression is one that TVM's simplifier is not slow with."""
    return len(collect(ir.Expr, expr)) <= _MOST_NODES
