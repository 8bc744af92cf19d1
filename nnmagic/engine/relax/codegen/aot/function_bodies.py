"""Emit the bodies of native functions: registers are local arrays of one element, branches structured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.calls import CallEmitter
from nnmagic.engine.relax.codegen.aot.bodies.registers import as_byte, first_of, store_first, value_dtype
from nnmagic.engine.relax.codegen.aot.bodies.steps import RUNNING
from nnmagic.engine.relax.codegen.aot.bodies.storage import copy_bytes
from nnmagic.engine.relax.codegen.aot.cells import emit_cell_step, keeps_no_cells, mark_cells
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    CountedLoop,
    FewRounds,
    find_carried,
    find_counted_loop,
    find_few_rounds,
)
from nnmagic.engine.relax.codegen.aot.invariant_elements import find_invariant_elements
from nnmagic.engine.relax.codegen.aot.lane_loops import LaneEmitter
from nnmagic.engine.relax.codegen.aot.lane_plans import plan_lanes, reads_neighbours, runs_known_rounds
from nnmagic.engine.relax.codegen.aot.wrapping import wrap_integers
from nnmagic.engine.relax.codegen.debug_lines import with_lines
from nnmagic.engine.relax.runtime.debug_files import debug_folder
from nnmagic.engine.relax.schedules.machine_model import cpu_model
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, likely, loop, sequence, unlikely
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt

#: How many vectors of rounds are computed together: the sums of one need not wait for each other.
_VECTORS_TOGETHER = 2


class BodyEmitter(CallEmitter):
    """Emits the body of a native function, or of the entry: its loops and its steps."""

    span: ir.Span | None = None

    def body(self) -> list[Stmt]:
        """Return the statements of the body."""
        function = self.function
        if self.caller is None:
            self._declare_blocks(function)
        frame: list[Stmt] = []
        if function.recursive and (not isinstance(function.workspace, int) or function.workspace):
            frame = self._allocate_frame()
        offsets = [stmt for offset, value in function.chunks for stmt in self._define(offset, value)]
        setup: list[Stmt] = []
        for param, argument in zip(function.parameters, self.arguments, strict=True):
            if isinstance(param, aot.Register) or param.kind == "pointer":
                setup.append(self.assign(param, argument))
        if function.recursive and not function.loops and not frame:
            self.entered = self._calling_region(function.body)
        elif function.recursive:
            # The depth is checked first: a function that is too deep must not touch its frame.
            setup = [*self._enter(), *setup]
        carried = {dim: self.new_local("int64", dim.name) for dim in function.carried_dims}
        setup += [store_first(local, self.first_sizes[dim]) for dim, local in carried.items()]
        self.carried_sizes = carried
        for pointer in function.pointers:
            self.local(pointer)
        self._declare_copies()
        if keeps_no_cells(function):
            mark, self.end_of_round = mark_cells(self)
            setup += mark
        counted = find_counted_loop(function)
        if not function.loops:
            statements = self._region(function.body)
        elif counted is not None:
            statements = self._counted_loop(counted)
        else:
            statements = self._loop()
        if self.is_entry and self.clocked is not None:
            statements = [self._time(tirx.Evaluate(0), len(self.clocked), ()), *statements]
        return [*self.declared, *offsets, *frame, *setup, *statements]

    # Loops

    def _loop(self) -> list[Stmt]:
        """Emit a loop that goes on until a round ends it."""
        budget = self._budget()
        begin: list[Stmt] = []
        again: PrimExpr = tirx.const(1, "bool")
        if self.function.is_short and self.caller is not None:
            return self._short_loop(*self.function.body)
        if self.caller is not None:
            running = self.local(RUNNING)
            begin = [store_first(running, tirx.const(1, "int8"))]
            again = tirx.NE(first_of(running), tirx.const(0, "int8"))
        sizes = [tirx.Bind(dim, first_of(local)) for dim, local in self.carried_sizes.items()]
        round_ = sequence([*sizes, *self._region(self.function.body)])
        if self.function.paced_by is not None and self.is_paced:
            # No round polls, so that LLVM sees a loop with one end less: those around it do.
            pace = first_of(self.local(self.function.paced_by)).astype("int64")
            first = tirx.Var("first", "int64")
            moved = pace - first
            rounds = tirx.While(again, round_)
            spent = self.spend(tirx.max(moved, as_expr(0) - moved))
            return [tirx.Bind(first, pace), *begin, rounds, spent]
        # Two loops: the inner one has no poll, so that LLVM can keep what rounds carry in
        # registers; the outer one polls for interrupts when the budget is spent.
        some = tirx.While(likely(tirx.And(again, first_of(budget) > as_expr(0))), round_)
        # A loop that has ended leaves the poll to those around it: no round needs the flag in a register.
        poll = tirx.IfThenElse(unlikely(again), sequence(self._ask(budget)), None)
        return [*begin, tirx.While(again, sequence([some, poll]))]

    @property
    def is_paced(self) -> bool:
        """Whether the loop, a part of its caller, ends before a poll for interrupts is due."""
        return self.function.paced_by is not None and self.caller is not None

    def _known_work(self, region: aot.Region) -> int | None:
        """Return the work of a round that calls at most loops of few rounds, which become a part of it."""
        work = 1
        for step in aot.steps_of(region):
            if isinstance(step, aot.FunctionCall):
                few = find_few_rounds(step, self.variables)
                if few is None and (not step.callee.is_short or step.callee in self.variables):
                    return None
                work += few.work if few is not None else 0
            elif isinstance(
                step, aot.KernelCall | aot.CopyArray | aot.MakeArray | aot.ShapeCheck | aot.CloseCells
            ):
                return None
        return work

    def _short_loop(self, *body: aot.Step) -> list[Stmt]:
        """Emit a loop of a few rounds, with its test before each: LLVM knows some by a single instruction."""
        *test, branch = body
        assert isinstance(branch, aot.Branch)
        going = self.new_local("int8", "going")

        def ask() -> list[Stmt]:
            return [*self._region(test), store_first(going, as_byte(self.load(branch.condition)))]

        rounds = sequence([*self._region(branch.then), *ask()])
        goes_on = tirx.NE(first_of(going), tirx.const(0, "int8"))
        return [*ask(), tirx.While(goes_on, rounds), *self._region(branch.other)]

    def _counted_loop(self, counted: CountedLoop) -> list[Stmt]:
        """Emit a loop that counts, then what follows its last round.

        LLVM sees how many rounds it has. Those that call something poll for interrupts. Innermost rounds can
        be vectors, and do not: they come in pieces, with a poll before each if the budget is spent.
        """
        self.counter = counted.counter
        if self.few is not None:
            return [*self._few_rounds(counted, self.few), *self._region(counted.end)]
        budget, counter = self._budget(), self.local(counted.counter)
        limit = self.load(counted.limit) if self.stop is None else self.stop
        distance = self.distance(first_of(counter), limit)
        lanes = self._rounds_in_lanes(counted, counter, distance)
        self.work = None if lanes else self._known_work(counted.round)
        if self.work is not None:
            left = _as_unsigned(wrap_integers(limit - first_of(counter)))  # exact below the limit
            share = first_of(budget)
            if self.work > 1:
                share = tirx.max(tirx.truncdiv(share, as_expr(self.work)), as_expr(1))
            count = _with_bits_of("int64", tirx.min(left, _as_unsigned(share)))
            piece = [self._poll(budget), *self._rounds(counted, count)]
            return [tirx.While(first_of(counter) < limit, sequence(piece)), *self._region(counted.end)]
        rounds = self._rounds(counted, distance, [self.spend(self._work()), self._poll(budget)])
        return [*lanes, *rounds, *self._region(counted.end)]

    def _rounds_in_lanes(self, counted: CountedLoop, counter: Buffer, left: PrimExpr) -> list[Stmt]:
        """Run rounds several at a time, if they are independent and have sums of their own."""
        target = tvm.target.Target.current(allow_none=True)
        if target is None:
            return []
        plan = plan_lanes(self.function, counted, self.variables)
        if plan is None or (runs_known_rounds(self.function, self.variables) and not reads_neighbours(plan)):
            return []
        lanes = _VECTORS_TOGETHER * cpu_model(target).lanes("float64")
        first = tirx.Var("first", "int64")
        emitter = LaneEmitter(self, plan, lanes)
        blocks, done = emitter.rounds(first, left, lambda: self.spend_and_poll(lanes))
        return [tirx.Bind(first, first_of(counter)), *blocks, store_first(counter, first + done)]

    def distance(self, first: PrimExpr, limit: PrimExpr) -> PrimExpr:
        """Return the number of integers from ``first`` to ``limit``; at most the largest number."""
        most = tirx.const((1 << 63) - 1, "int64")
        # A difference of numbers far apart wraps around, and is negative.
        difference = wrap_integers(limit - first)
        some = tirx.Select(difference < as_expr(0), most, difference)
        return tirx.Select(first < limit, some, as_expr(0))

    def _few_rounds(self, counted: CountedLoop, few: FewRounds) -> list[Stmt]:
        """Run a constant number of rounds, so few that none of them polls for interrupts."""
        counter = self.local(counted.counter)
        load, store = self._hold_elements(counted)

        def run_round(number: PrimExpr) -> Stmt:
            return sequence([store_first(counter, as_expr(few.first) + number), *self._region(counted.round)])

        rounds = [
            *load,
            loop("round", as_expr(few.count), run_round),
            *store,
            store_first(counter, as_expr(few.first + few.count)),
        ]
        if self.caller is not None and self.caller.few is None and self.caller.work is None:
            rounds.append(self.spend(few.work))
        return rounds

    def _hold_elements(self, counted: CountedLoop) -> tuple[list[Stmt], list[Stmt]]:
        """Hold the elements in registers that all rounds access; return what loads and what stores them."""
        loads, stores = list[Stmt](), list[Stmt]()
        for element in find_invariant_elements(self.function, counted, self.origin):
            places = [
                index.written(lambda term: self.load(term) if isinstance(term, aot.Register) else term)
                for index in element.indices
            ]
            view, offset, declaration = self._view(element.storage, element.buffer, places, element.sizes)
            local = self.new_local(dtype_of(view), element.buffer.name)
            loads += [*declaration, store_first(local, tirx.BufferLoad(view, [offset]))]
            stores += [*declaration, tirx.BufferStore(view, first_of(local), [offset])]
            self.elements[element.storage] = local
        return loads, stores

    def _rounds(self, counted: CountedLoop, count: PrimExpr, after_each: Sequence[Stmt] = ()) -> list[Stmt]:
        """Run some rounds; ``after_each`` is what follows each of them."""
        counter = self.local(counted.counter)
        first, rounds, round_ = (tirx.Var(name, "int64") for name in ("first", "rounds", "round"))
        load, store = self._hold_elements(counted)
        body = sequence([store_first(counter, round_), *self._region(counted.round), *after_each])
        statements = [
            tirx.Bind(first, first_of(counter)),
            tirx.Bind(rounds, count),
            *load,
            tirx.For(round_, first, rounds, tirx.ForKind.SERIAL, body),
            *store,
            store_first(counter, first + rounds),
        ]
        if self.work is not None:
            statements.append(self.spend(rounds * self.work))
        return statements

    # Steps

    def _region(self, region: aot.Region) -> list[Stmt]:
        statements = self._enter() if region is self.entered else []
        emit = self._step if debug_folder() is None else self._step_with_lines
        for step in region:
            statements += emit(step)
        return statements or [tirx.Evaluate(tirx.const(0, "int32"))]

    def _calling_region(self, region: aot.Region) -> aot.Region:
        """Return the innermost region that has all calls of functions which call themselves."""
        calling = [step for step in region if self._calls_recursion([step])]
        if len(calling) == 1 and isinstance(branch := calling[0], aot.Branch):
            parts = [part for part in (branch.then, branch.other) if self._calls_recursion(part)]
            if len(parts) == 1:
                return self._calling_region(parts[0])
        return region

    @staticmethod
    def _calls_recursion(region: aot.Region) -> bool:
        callees = (step.callee for step in aot.steps_of(region) if isinstance(step, aot.FunctionCall))
        return any(each.recursive for callee in callees for each in aot.with_callees(callee))

    def _step_with_lines(self, step: aot.Step) -> list[Stmt]:
        """Emit a step for debuggers: of its line, or of that of the step before."""
        self.span = getattr(step, "span", None) or self.span
        return with_lines(self._step(step), self.span)

    def _step(self, step: aot.Step) -> list[Stmt]:
        match step:
            case aot.KernelCall():
                return self._kernel_call(step)
            case aot.ScalarCode():
                return self._scalar_code(step)
            case aot.StoreElement():
                return self._store_in_memory(step)
            case aot.CopyArray(source=source, target=target, nbytes=nbytes):
                chosen = self._choose_copies([target])
                return [*chosen, copy_bytes(self.address(target), self.address(source), nbytes)]
            case aot.MakeArray(target=target):
                return self._choose_copies([target])
            case aot.PointAt(target=target):
                return [store_first(self.local(target), self._address_of_element(step))]
            case aot.FunctionCall():
                return self._function_call(step)
            case aot.Assign():
                return self._assign(step)
            case aot.Branch(condition=condition, then=then, other=other):
                taken, left = sequence(self._region(then)), sequence(self._region(other))
                return [tirx.IfThenElse(self.load(condition), taken, left)]
            case aot.Check():
                return self._check(step)
            case aot.ShapeCheck():
                return self._shape_check(step)
            case aot.NameSizes():
                return self._name_sizes(step)
            case aot.DefineSize(dim=dim, size=size):
                return self._define(dim, size)
            case aot.MakeCell() | aot.ReadCell() | aot.CloseCells():
                return emit_cell_step(self, step)
            case aot.NextRound(assign=aot.Assign(pairs=pairs)) if self.counter is not None:
                # The loop itself advances its counter.
                others = tuple(pair for pair in pairs if pair[0] is not self.counter)
                return [*self._assign(aot.Assign(others)), *self.end_of_round]
            case aot.NextRound(assign=assign, sizes=sizes):
                carried = [store_first(self.carried_sizes[dim], size) for dim, size in sizes]
                spent = [] if self.function.is_short or self.is_paced else [self.spend(self._work())]
                return [*self._assign(assign), *carried, *spent, *self._count_round(), *self.end_of_round]
            case aot.Exit():
                return self._exit(step)

    def _inlined(self, step: aot.FunctionCall, blocks: Mapping[int, PrimExpr]) -> list[Stmt]:
        """Emit a function as a part of its only caller.

        ``blocks``: where the memory of results is whose sizes it measures, and where these sizes go.
        """
        callee = step.callee
        bound: list[Stmt] = []
        args: list[PrimExpr] = []
        for value, param in zip(step.args, callee.parameters, strict=True):
            loaded = self.load(value)
            var = tirx.Var("argument", "bool" if dtype_of(loaded) == "bool" else value_dtype(param))
            bound.append(tirx.Bind(var, loaded))
            args.append(var)
        results = [
            as_expr(0)
            if isinstance(result, aot.Register)
            else blocks[number]
            if number in blocks
            else self.address(result)
            for number, result in enumerate(step.results)
        ]
        emitter = BodyEmitter(callee, self.variables, args, results, clocked=self.clocked, caller=self)
        emitter.targets = step.results
        carried = find_carried(callee)
        pairs = zip(callee.parameters, step.args, strict=True)
        emitter.given = {param: arg for param, arg in pairs if param not in carried}
        emitter.few = find_few_rounds(step, self.variables)
        sizes = [
            tirx.Bind(emitter.first_sizes.get(dim, dim), as_expr(size))
            for dim, size in zip(callee.dims, step.sizes, strict=True)
        ]
        emitter.result_sizes = blocks.get(len(step.results))
        addresses = (self.state_address, self.constants_address, self.address(step.frame))
        emitter.use(self.state, self.constants, self.first_constant, addresses)
        return [*sizes, *bound, *emitter.body()]


def _as_unsigned(value: PrimExpr) -> PrimExpr:
    return _with_bits_of("uint64", value)


def _with_bits_of(dtype: str, value: PrimExpr) -> PrimExpr:
    if isinstance(value, tirx.IntImm) and not value.value:
        return tirx.const(0, dtype)  # TVM takes a zero that is reinterpreted for a null pointer
    return tirx.reinterpret(dtype, value)
