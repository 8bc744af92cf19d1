"""Emit several rounds of a loop at once, one in each lane of vectors, as `lane_plans` has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.storage import element_position
from nnmagic.engine.relax.codegen.aot.lane_facts import InnerLoop, LaneGuard, LanePlan, LaneStep, RangeCheck
from nnmagic.engine.relax.codegen.aot.loop_versions import to_signed
from nnmagic.engine.relax.codegen.aot.wrapping import wrap_integers
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, item_bytes, loop, sequence, vector_loop
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter

#: A loop whose indices are checked before has at most so many rounds.
_MOST_ROUNDS = 1 << 40

#: What stands for a register or an array at an index.
_Load = Callable[[Any], PrimExpr]


class LaneEmitter:
    """Emits rounds of a loop by so many ``lanes``, as a part of a body's emitter."""

    def __init__(self, body: BodyEmitter, plan: LanePlan, lanes: int) -> None:
        self._body, self._plan, self._lanes = body, plan, lanes
        self._locals: dict[aot.Register, Buffer] = {}

    def rounds(
        self, first: PrimExpr, lhs: PrimExpr, poll: Callable[[], list[Stmt]]
    ) -> tuple[list[Stmt], PrimExpr]:
        """Return the statements of rounds from ``first`` on, and how many of those that are left they are.

        ``poll``: what follows each block of rounds.
        """
        width = as_expr(self._lanes)
        done = tirx.Var("done", "int64")
        some = lhs
        # Whole blocks only; the scalar loop runs the rounds that are left over.
        if not self._plan.repeatable:
            some = tirx.truncdiv(lhs, width) * width
        holds = [
            lhs >= width,
            *(part for check in self._plan.checks for part in self._in_range(check, first, lhs)),
        ]
        enough = tirx.Select(tirx.all(*holds), some, as_expr(0))
        count = tirx.truncdiv(done + as_expr(self._lanes - 1), width)

        def block(number: PrimExpr) -> Stmt:
            begin = first + tirx.min(number * width, done - width)  # the last block may overlap with another
            counter = self._local(self._plan.counter)
            start = vector_loop(self._lanes, lambda lane: tirx.BufferStore(counter, begin + lane, [lane]))
            return sequence([start, *self._steps(self._plan.steps), *poll()])

        return [tirx.Bind(done, enough), loop("block", count, block)], done

    def _in_range(self, check: RangeCheck, first: PrimExpr, lhs: PrimExpr) -> list[PrimExpr]:
        """Return the conditions under which an index is in range in all rounds."""
        ends = {self._plan.counter: (first, first + lhs - 1)}
        parts = [lhs <= as_expr(_MOST_ROUNDS)]
        for inner in check.loops:
            low, high = (self._body.load(value) for value in (inner.first, inner.limit))
            ends[inner.counter] = low, high - 1
            parts += [high > low, high - low <= as_expr(_MOST_ROUNDS)]
        least: PrimExpr = tirx.const(to_signed(check.index.constant), "int64")
        most = least
        for term, factor in check.index.terms.items():
            assert isinstance(term, aot.Register)
            low, high = ends[term] if term in ends else (self._body.load(term),) * 2
            if factor < 0:
                low, high = high, low
            least, most = least + low * factor, most + high * factor
        # `least <= most` is false where the arithmetic has wrapped around.
        return [*parts, least >= as_expr(0), least <= most, most < check.size]

    # Registers

    def _local(self, register: aot.Register) -> Buffer:
        if register not in self._locals:
            dtype = "int8" if register.dtype == "bool" else register.dtype
            size = 1 if self._is_uniform(register) else self._lanes
            self._locals[register] = self._body.new_local(dtype, register.name, size)
        return self._locals[register]

    def _is_uniform(self, value: aot.Value) -> bool:
        return self._plan.fact(value).is_uniform

    def _load(self, value: aot.Value, lane: PrimExpr) -> PrimExpr:
        """Return a value in a lane."""
        if not isinstance(value, aot.Register) or value not in self._plan.facts:
            return self._body.load(value)
        place = as_expr(0) if self._is_uniform(value) else lane
        element = tirx.BufferLoad(self._local(value), [place])
        if value.dtype == "bool":
            return tirx.NE(element, tirx.const(0, "int8"))
        return self._body.fenced(element, value.dtype) if value in self._plan.summands else element

    def _assign(self, pairs: Sequence[tuple[aot.Register, aot.Value]]) -> list[Stmt]:
        """Assign values to registers; all are read before the first is written."""
        statements: list[Stmt] = []
        targets = {target for target, _ in pairs}
        stores: list[Stmt] = []
        for target, value in pairs:
            buffer = self._local(target)
            # A parallel assignment: the old value is copied before it is overwritten, as in `a, b =
            # b, a`.
            if value in targets and value is not target:
                next_values = self._body.new_local(dtype_of(buffer), "next", int(buffer.ty.shape[0]))
                statements.append(self._copy(next_values, value))
                stores.append(_each(buffer, partial(_element_of, next_values)))
            else:
                stores.append(self._copy(buffer, value))
        return [*statements, *stores]

    def _copy(self, buffer: Buffer, value: aot.Value) -> Stmt:
        def element(at: PrimExpr) -> PrimExpr:
            loaded = self._load(value, at)
            if dtype_of(loaded) == "bool":
                return tirx.Select(loaded, tirx.const(1, "int8"), tirx.const(0, "int8"))
            return loaded

        return _each(buffer, element)

    # Steps

    def _steps(self, steps: Sequence[LaneStep]) -> list[Stmt]:
        statements: list[Stmt] = []
        for step in steps:
            match step:
                case aot.ScalarCode():
                    for stage in step.stages:
                        statements += self._stage(stage, step)
                case aot.StoreElement():
                    statements += self._store(step)
                case InnerLoop():
                    statements += self._loop(step)
        return statements or [tirx.Evaluate(tirx.const(0, "int32"))]

    def _stage(self, stage: Stage, step: aot.ScalarCode) -> list[Stmt]:
        names = dict.fromkeys(stage.axes, as_expr(0)) | dict(step.sizes)
        inits = {} if stage.inits is None else dict(zip(stage.writes, stage.inits, strict=True))
        statements: list[Stmt] = []
        for buffer, value in zip(stage.writes, stage.values, strict=True):
            target = step.values[buffer]
            assert isinstance(target, aot.Register)
            local = self._local(target)
            expr = replace_vars(make_isnan_vectorizable(value), names)
            size = 1 if self._is_uniform(target) else self._lanes
            before, compute = self._computed(expr, step, names, inits, size)
            statements += [*before, _each(local, compute)]
        return statements

    def _computed(
        self,
        expr: PrimExpr,
        step: aot.ScalarCode | aot.StoreElement,
        names: Mapping[Var, PrimExpr],
        inits: Mapping[Buffer, PrimExpr],
        size: int,
    ) -> tuple[list[Stmt], _Load]:
        """Return statements, and what computes an expression after them in a lane."""
        before: list[Stmt] = []
        elements: list[tuple[Var, _Load]] = []

        def name_element(node: ir.expr.TensorLoad) -> PrimExpr:
            value = step.values.get(node.source)
            if not isinstance(value, aot.Storage) or node.source in inits:
                return node
            var = tirx.Var(node.source.name, dtype_of(node))
            elements.append((var, self._element(value, node, step, names, before, size)))
            return var

        named = rewrite(expr, [(ir.expr.TensorLoad, name_element)], before_parts=True)

        def compute(lane: PrimExpr) -> PrimExpr:
            def load(node: ir.expr.TensorLoad) -> PrimExpr:
                return (
                    inits[node.source] if node.source in inits else self._load(step.values[node.source], lane)
                )

            computed = wrap_integers(rewrite(named, [(ir.expr.TensorLoad, load)]))
            computed = replace_vars(computed, {var: element(lane) for var, element in elements})
            if dtype_of(computed) == "bool":
                return tirx.Select(computed, tirx.const(1, "int8"), tirx.const(0, "int8"))
            return computed

        return before, compute

    def _at(
        self,
        expr: PrimExpr,
        step: aot.ScalarCode | aot.StoreElement,
        names: Mapping[Var, PrimExpr],
        lane: PrimExpr,
    ) -> PrimExpr:
        """Return an expression of registers in a lane."""
        expr = replace_vars(as_expr(expr), names)
        return wrap_integers(
            rewrite(expr, [(ir.expr.TensorLoad, lambda load: self._load(step.values[load.source], lane))])
        )

    def _element(
        self,
        storage: aot.Storage,
        node: ir.expr.TensorLoad,
        step: aot.ScalarCode | aot.StoreElement,
        names: Mapping[Var, PrimExpr],
        before: list[Stmt],
        size: int,
    ) -> _Load:
        """Return what loads an element of an array: neighbours in memory as a vector, where they are that."""
        dtype = dtype_of(node.source)
        stored = "int8" if dtype == "bool" else dtype
        view = tirx.decl_buffer((1 << 40,), stored, node.source.name, data_alignment=item_bytes(stored))
        before += self._body.declare(view, storage)

        def element(offset: PrimExpr) -> PrimExpr:
            loaded = tirx.BufferLoad(view, [offset])
            return tirx.NE(loaded, tirx.const(0, "int8")) if dtype == "bool" else loaded

        def position(lane: PrimExpr) -> PrimExpr:
            indices = [self._at(index, step, names, lane) for index in node.indices]
            return element_position(node.source, indices, step.sizes)

        fact = self._plan.place(node.indices, step)
        if size == 1 or fact.is_uniform:
            return lambda _lane: element(position(as_expr(0)))
        # No constant distance between lanes: each lane loads for itself, which LLVM makes a gather
        # where the machine has one.
        if fact.stride is None:
            return lambda lane: element(position(lane))
        base = tirx.Var("base", "int64")
        before.append(tirx.Bind(base, position(as_expr(0))))
        stride = as_expr(fact.stride)
        if not fact.guards:
            return lambda lane: element(base + lane * stride)
        elements = self._body.new_local(stored, "elements", self._lanes)

        def store(place: _Load) -> Stmt:
            return vector_loop(
                self._lanes,
                lambda lane: tirx.BufferStore(elements, tirx.BufferLoad(view, [place(lane)]), [lane]),
            )

        holds = tirx.all(*(self._holds(guard, names) for guard in fact.guards))
        # One test of the first and the last lane decides for all in between whether they are
        # neighbours: an index that is clamped at the border, as in an image, is contiguous
        # everywhere else.
        before.append(tirx.IfThenElse(holds, store(lambda lane: base + lane * stride), store(position)))

        def load_found(lane: PrimExpr) -> PrimExpr:
            loaded = tirx.BufferLoad(elements, [lane])
            return tirx.NE(loaded, tirx.const(0, "int8")) if dtype == "bool" else loaded

        return load_found

    def _holds(self, guard: LaneGuard, names: Mapping[Var, PrimExpr]) -> PrimExpr:
        """Return whether a value that grows from lane to lane is within its bound in all of them."""
        first, last, bound = (
            self._at(expr, guard.step, {**names, **guard.step.sizes}, as_expr(lane))
            for expr, lane in ((guard.value, 0), (guard.value, self._lanes - 1), (guard.bound, 0))
        )
        is_within = first >= bound if guard.is_least else last <= bound
        return tirx.And(is_within, first <= last)

    def _store(self, step: aot.StoreElement) -> list[Stmt]:
        expr = replace_vars(as_expr(step.value), step.sizes)
        before, compute = self._computed(expr, step, step.sizes, {}, self._lanes)
        dtype = dtype_of(step.buffer)
        stored = "int8" if dtype == "bool" else dtype
        view = tirx.decl_buffer((1 << 40,), stored, step.buffer.name, data_alignment=item_bytes(stored))
        declared = self._body.declare(view, step.storage)

        def position(lane: PrimExpr) -> PrimExpr:
            indices = [self._at(index, step, step.sizes, lane) for index in step.indices]
            return element_position(step.buffer, indices, step.sizes)

        fact = self._plan.place(step.indices, step)
        place = position
        if fact.stride is not None and not fact.guards:
            base, stride = tirx.Var("base", "int64"), as_expr(fact.stride)
            before.append(tirx.Bind(base, position(as_expr(0))))
            place = lambda lane: base + lane * stride  # noqa: E731
        return [
            *declared,
            *before,
            vector_loop(self._lanes, lambda lane: tirx.BufferStore(view, compute(lane), [place(lane)])),
        ]

    def _loop(self, step: InnerLoop) -> list[Stmt]:
        """Run the rounds of a loop inside, as many in each lane."""
        first, count = tirx.Var("first", "int64"), tirx.Var("rounds", "int64")
        counter, limit = self._local(step.counter), self._body.new_local("int64", "limit", 1)

        def run_round(number: PrimExpr) -> Stmt:
            rounds = [
                tirx.BufferStore(counter, first + number, [as_expr(0)]),
                *self._steps(step.body),
                *self._assign(step.following),
            ]
            if not step.is_innermost:
                rounds += self._body.spend_and_poll(self._lanes)
            return sequence(rounds)

        statements = [
            *self._assign(step.carried),
            self._copy(counter, step.first),
            self._copy(limit, step.limit),
            tirx.Bind(first, counter[0]),
            tirx.Bind(count, self._body.distance(first, limit[0])),
            loop("round", count, run_round),
        ]
        if step.is_innermost:
            statements.append(self._body.spend(count * as_expr(self._lanes)))
        end = self._steps(step.end) if step.end else []
        return [*statements, *end, *self._assign(step.results)]


def _each(buffer: Buffer, element: _Load) -> Stmt:
    """Store each element of a local array."""
    return vector_loop(int(buffer.ty.shape[0]), lambda at: tirx.BufferStore(buffer, element(at), [at]))


def _element_of(buffer: Buffer, at: PrimExpr) -> PrimExpr:
    return tirx.BufferLoad(buffer, [at])
