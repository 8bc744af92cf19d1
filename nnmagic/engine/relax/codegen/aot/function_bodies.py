"""Emit the bodies of native functions: registers are local arrays of one element, branches structured."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    CountedLoop,
    FewRounds,
    find_carried,
    find_counted_loop,
    find_early_products,
    find_few_rounds,
    find_summands,
)
from nnmagic.engine.relax.codegen.aot.heap import DROP, POINTER_TO_WORDS, RESERVE
from nnmagic.engine.relax.codegen.aot.lane_loops import LaneEmitter
from nnmagic.engine.relax.codegen.aot.lane_plans import plan_lanes, reads_neighbours, runs_known_rounds
from nnmagic.engine.relax.codegen.aot.memory import depends_on, exceeds_any_memory, round_up
from nnmagic.engine.relax.codegen.aot.parallel_loops import ParallelCall
from nnmagic.engine.relax.codegen.aot.wrapping import wrap_integers
from nnmagic.engine.relax.runtime.callbacks import POLL, SHAPES_FIT_NATIVE
from nnmagic.engine.relax.runtime.native_entry import (
    FAILED,
    FAILURES,
    INTERRUPTED,
    REFUSED,
    TOO_DEEP,
    TOO_LONG,
)
from nnmagic.engine.relax.runtime.vm_executable import MAX_CALL_DEPTH
from nnmagic.engine.relax.schedules.kernel_analysis import Stage, substitute
from nnmagic.engine.relax.schedules.machine_model import cpu_model
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_pointer,
    dtype_of,
    item_bytes,
    loop,
    sequence,
    static_int,
    unlikely,
    words_at,
)
from nnmagic.engine.relax.tir.strict_float import hidden_zero
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.vectorizable_isnan import make_isnan_vectorizable
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite, visit

#: The TIR function of each native function.
Variables = Mapping[aot.NativeFunction, ir.GlobalVar]

_INT32 = ir.PrimType("int32")

#: With more copies of a temporary than this, loops find the one that is free.
_MOST_COMPARED = 8

#: How many vectors of rounds are computed together: the sums of one need not wait for each other.
_VECTORS_TOGETHER = 2

#: The work of rounds of a loop, in elements, after which the program asks whether it is to be interrupted.
_POLL_WORK = 1 << 19

#: The work after which a call that CPython makes directly gives up, to be begun again through Python, where
#: it can be interrupted: tens of microseconds.
_DIRECT_WORK = 1 << 14


class BodyEmitter:
    """Emits the body of a native function, or of the entry.

    Attributes:
        arguments: a value, or an address, for each parameter.
        results: the addresses of the results.
        is_entry: whether a failure is the function's result.
        clocked: the calls of kernels that are timed, in the order of their rows.
        caller: the emitter of the only caller, of whose body this is a part; None for a function.
        targets: where this caller wants the results.

    """

    def __init__(
        self,
        function: aot.NativeFunction,
        variables: Variables,
        arguments: Sequence[PrimExpr],
        results: Sequence[PrimExpr],
        *,
        is_entry: bool = False,
        clocked: Sequence[aot.KernelCall] | None = None,
        caller: BodyEmitter | None = None,
    ) -> None:
        self.function, self.variables = function, variables
        self.arguments, self.results = arguments, results
        self.is_entry = is_entry
        self.caller = caller
        self.targets: Sequence[aot.Register | aot.Storage] = ()
        #: The address to which a function writes the sizes that it measures.
        self.result_sizes: PrimExpr | None = None
        if function.result_dims:
            self.result_sizes = tirx.Var("result_sizes", POINTER_TO_WORDS)
        #: What the dimensions are at first that the rounds of a loop change.
        self.first_sizes = {dim: tirx.Var(dim.name, "int64") for dim in function.carried_dims}
        #: Where the memory is that was allocated for temporaries: an address and a number of bytes for each
        #: copy. A function has also those of the functions that are a part of it.
        self.blocks: dict[aot.Storage, Buffer] = {}
        #: The statements by which an entry frees all that the program allocated.
        self.release: list[Stmt] = []
        #: The rounds of a loop that are known and few.
        self.few: FewRounds | None = None
        self.declared: list[Stmt] = []
        self.locals: dict[aot.Register | aot.Storage, Buffer] = {}
        self.frame: list[Stmt] = []
        self.clocked = clocked
        #: What LLVM must not fuse with the sum that it is part of: what rounds add to one sum,
        #: and products that need not wait for the round before. That sum waits for fewer operations then.
        self.summands = set[aot.Register]()
        if function.loops:
            self.summands = find_summands(function) | find_early_products(function)
        #: The induction variable of a counted loop, which no round assigns.
        self.counter: aot.Register | None = None
        #: Of a parallel loop: the parameter where a piece of its rounds ends.
        self.stop = tirx.Var("stop", "int64") if function.parallel is not None else None

    def use(
        self,
        state: Buffer | None,
        constants: Buffer,
        first: int,
        addresses: tuple[PrimExpr, PrimExpr, PrimExpr],
    ) -> None:
        """Set where the state, the constants' addresses and the workspace are.

        ``first`` is the number of the first constant in ``constants``; the addresses are those of the state,
        of the first constant's address and of the workspace.
        """
        self.state, self.constants, self.first_constant = state, constants, first
        self.state_address, self.constants_address, self.workspace = addresses

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
                setup.append(self._store(param, argument))
        if function.recursive:
            setup = [*self._enter(), *setup]
        carried = {dim: self._new_local("int64", dim.name) for dim in function.carried_dims}
        setup += [store_first(local, self.first_sizes[dim]) for dim, local in carried.items()]
        self.carried_sizes = carried
        for pointer in function.pointers:
            self._local(pointer)
        self._declare_copies()
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
        if self.caller is not None:
            running = self._local(_RUNNING)
            begin = [store_first(running, tirx.const(1, "int8"))]
            again = tirx.NE(first_of(running), tirx.const(0, "int8"))
        sizes = [tirx.Bind(dim, first_of(local)) for dim, local in self.carried_sizes.items()]
        round_ = sequence([*sizes, *self._region(self.function.body)])
        some = tirx.While(tirx.And(again, first_of(budget) > as_expr(0)), round_)
        return [*begin, tirx.While(again, sequence([some, self._poll(budget)]))]

    def _counted_loop(self, counted: CountedLoop) -> list[Stmt]:
        """Emit a loop that counts, then what follows its last round.

        LLVM sees how many rounds it has. Those that call something poll for interrupts. Innermost rounds can
        be vectors, and do not: they come in pieces, with a poll between.
        """
        self.counter = counted.counter
        if self.few is not None:
            return [*self._few_rounds(counted, self.few), *self._region(counted.end)]
        budget, counter = self._budget(), self._local(counted.counter)
        limit = self._load(counted.limit) if self.stop is None else self.stop
        distance = self.distance(first_of(counter), limit)
        if counted.is_innermost:
            piece = self._rounds(counted, tirx.min(distance, tirx.max(first_of(budget), as_expr(1))))
            rounds = [tirx.While(first_of(counter) < limit, sequence([*piece, self._poll(budget)]))]
        else:
            rounds = [
                *self._rounds_in_lanes(counted, counter, distance),
                *self._rounds(counted, distance, [self._spend(self._work()), self._poll(budget)]),
            ]
        return [*rounds, *self._region(counted.end)]

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

    # What `LaneEmitter` needs

    def new_local(self, dtype: str, name: str, size: int) -> Buffer:
        """Declare an array that LLVM keeps in registers."""
        return self._new_local(dtype, name, size)

    def load(self, value: aot.Value) -> PrimExpr:
        """Return the value of a register of the function, or of a constant."""
        return self._load(value)

    def fenced(self, value: PrimExpr, dtype: str) -> PrimExpr:
        """Return a float that LLVM does not fuse with the sum that it is part of."""
        fence = f"llvm.arithmetic.fence.{'f32' if dtype == 'float32' else 'f64'}"
        return tirx.call_llvm_pure_intrin(dtype, fence, value)

    def declare(self, buffer: Buffer, storage: aot.Storage) -> list[Stmt]:
        """Declare a buffer at an array in memory."""
        return self._declare(buffer, storage)

    def position(
        self, buffer: Buffer, indices: Sequence[PrimExpr], sizes: Mapping[Var, PrimExpr]
    ) -> PrimExpr:
        """Return the position of an element in the memory of an array."""
        return _position(buffer, indices, sizes)

    def spend(self, work: PrimExpr) -> Stmt:
        """Take work from what is left until the next poll."""
        return self._spend(work)

    def spend_and_poll(self, work: int) -> list[Stmt]:
        """Take work from what is left, and poll."""
        return [self._spend(work), self._poll(self._budget())]

    def distance(self, first: PrimExpr, limit: PrimExpr) -> PrimExpr:
        """Return the number of integers from ``first`` to ``limit``; at most the largest number."""
        most = tirx.const((1 << 63) - 1, "int64")
        # A difference of numbers far apart wraps around, and is negative.
        difference = tirx.reinterpret("int64", _as_unsigned(limit) - _as_unsigned(first))
        some = tirx.Select(difference < as_expr(0), most, difference)
        return tirx.Select(first < limit, some, as_expr(0))

    def _few_rounds(self, counted: CountedLoop, few: FewRounds) -> list[Stmt]:
        """Run a constant number of rounds, so few that none of them polls for interrupts."""
        counter = self._local(counted.counter)

        def run_round(number: PrimExpr) -> Stmt:
            return sequence([store_first(counter, as_expr(few.first) + number), *self._region(counted.round)])

        rounds = [
            loop("round", as_expr(few.count), run_round),
            store_first(counter, as_expr(few.first + few.count)),
        ]
        if self.caller is not None and self.caller.few is None:
            rounds.append(self._spend(few.work))
        return rounds

    def _rounds(self, counted: CountedLoop, count: PrimExpr, after_each: Sequence[Stmt] = ()) -> list[Stmt]:
        """Run some rounds; ``after_each`` is what follows each of them."""
        counter = self._local(counted.counter)
        first, rounds = (tirx.Var(name, "int64") for name in ("first", "rounds"))

        def run_round(number: PrimExpr) -> Stmt:
            body = self._region(counted.round)
            return sequence([store_first(counter, first + number), *body, *after_each])

        statements = [
            tirx.Bind(first, first_of(counter)),
            tirx.Bind(rounds, count),
            loop("round", rounds, run_round),
            store_first(counter, first + rounds),
        ]
        if counted.is_innermost:
            statements.append(self._spend(rounds))
        return statements

    def _declare_copies(self) -> None:
        """Declare a pointer for each temporary with several copies: to the one that is written."""
        for step in self.function.steps():
            match step:
                case aot.KernelCall(args=args, reads=reads):
                    written: Sequence[aot.Value] = args[reads:]
                case aot.FunctionCall(results=results):
                    written = results
                case _:
                    continue
            for value in written:
                if isinstance(value, aot.Storage) and (value.copies > 1 or value.on_heap):
                    self._local(value)

    # Registers and addresses

    def _local(self, value: aot.Register | aot.Storage) -> Buffer:
        """Return the local array of a register or a pointer."""
        if value not in self.locals:
            dtype = value_dtype(value) if isinstance(value, aot.Register) else "int64"
            name = value.name if isinstance(value, aot.Register) else "pointer"
            self.locals[value] = self._new_local(dtype, name)
        return self.locals[value]

    def _new_local(self, dtype: str, name: str, size: int = 1) -> Buffer:
        buffer = tirx.decl_buffer((size,), dtype, name, scope="local", data_alignment=item_bytes(dtype))
        self.declared.append(tirx.AllocBuffer(buffer, {"disable_lower_builtin": tirx.IntImm("bool", 1)}))
        return buffer

    def _define(self, variable: Var, value: PrimExpr) -> list[Stmt]:
        """Define a size, or an offset, so that TVM's analysis does not put its arithmetic for it."""
        local = self._new_local("int64", variable.name)
        return [store_first(local, value), tirx.Bind(variable, first_of(local))]

    def _load(self, value: aot.Value) -> PrimExpr:
        """Return the value of a register or constant, or an address."""
        match value:
            case aot.Immediate(dtype=dtype, value=number):
                return hidden_zero(number, dtype) if number == 0 else tirx.const(number, dtype)
            case aot.Register(dtype="bool"):
                return tirx.NE(first_of(self._local(value)), tirx.const(0, "int8"))
            case aot.Register() if value in self.summands:
                return self.fenced(first_of(self._local(value)), value.dtype)
            case aot.Register():
                return first_of(self._local(value))
        return self._address(value)

    def _store(self, target: aot.Register | aot.Storage, value: PrimExpr) -> Stmt:
        """Assign an expression to a register or a pointer."""
        local = self._local(target)
        if dtype_of(local) == "int8" and dtype_of(value) == "bool":
            value = as_byte(value)
        return store_first(local, value)

    def _address(self, storage: aot.Storage) -> PrimExpr:
        match storage.kind:
            case "parameter":
                return self.arguments[storage.index]
            case "result":
                return self.results[storage.index]
            case "constant":
                return self.constants[self.first_constant + storage.index]
            case "pointer" | "view":
                return first_of(self._local(storage))
        if storage.copies > 1 or storage.on_heap:
            return first_of(self._local(storage))
        return self.workspace + as_expr(storage.offset)

    def _choose_copies(self, values: Sequence[aot.Value]) -> list[Stmt]:
        """Point each temporary with several copies to one that no pointer of the loop holds."""
        statements: list[Stmt] = []
        for value in values:
            if isinstance(value, aot.Storage) and value.on_heap:
                statements += self._allocate(value)
                continue
            if not isinstance(value, aot.Storage) or value.copies == 1 or value.kind != "temporary":
                continue
            stride = as_expr(round_up(value.nbytes))
            begin = self.workspace + as_expr(value.offset)
            if value.copies > _MOST_COMPARED:
                statements += self._find_free_copy(value, begin, stride)
                continue
            chosen: PrimExpr = begin + stride * (value.copies - 1)
            for number in reversed(range(value.copies - 1)):
                copy = begin + stride * number
                free: PrimExpr = tirx.const(1, "bool")
                for holder in value.holders:
                    free = tirx.And(free, tirx.NE(first_of(self._local(holder)), copy))
                chosen = tirx.Select(free, copy, chosen)
            statements.append(store_first(self._local(value), chosen))
        return statements

    def _find_free_copy(self, value: aot.Storage, begin: PrimExpr, stride: PrimExpr) -> list[Stmt]:
        """Do the same with loops: the code is linear in the number of copies."""
        pointer, count = self._local(value), value.copies
        used = self._new_local("int8", "used", count)
        zero, one = tirx.const(0, "int8"), tirx.const(1, "int8")
        statements = [loop("copy", count, lambda copy: tirx.BufferStore(used, zero, [copy]))]
        for holder in value.holders:
            held = tirx.floordiv(first_of(self._local(holder)) - begin, stride)
            is_copy = tirx.And(held >= as_expr(0), held < as_expr(count))
            statements.append(tirx.IfThenElse(is_copy, tirx.BufferStore(used, one, [held]), None))

        def take_if_free(copy: PrimExpr) -> Stmt:
            taken = store_first(pointer, begin + stride * copy)
            return tirx.IfThenElse(tirx.EQ(tirx.BufferLoad(used, [copy]), zero), taken, None)

        statements.append(loop("copy", count, take_if_free))
        return statements

    # Memory of sizes that nothing bounds

    def _declare_blocks(self, function: aot.NativeFunction) -> None:
        """Declare the blocks of memory of a function, and of those that are a part of it."""
        for step in function.steps():
            for storage in aot.written_storage(step):
                if storage.on_heap and storage not in self.blocks:
                    block = self._new_local("int64", "block", 2 * storage.copies)
                    self.blocks[storage] = block
                    zeros = (
                        tirx.BufferStore(block, as_expr(0), [as_expr(at)]) for at in range(2 * storage.copies)
                    )
                    self.declared += zeros
            if isinstance(step, aot.FunctionCall) and step.callee not in self.variables:
                self._declare_blocks(step.callee)

    def _free_block(self, storage: aot.Storage) -> tuple[list[Stmt], Buffer, PrimExpr]:
        """Return the blocks of a temporary, and the number of one that no pointer of the loop holds."""
        root = self
        while root.caller is not None:
            root = root.caller
        blocks = root.blocks[storage]
        if storage.copies == 1:
            return [], blocks, as_expr(0)
        chosen: PrimExpr = as_expr(2 * (storage.copies - 1))
        for number in reversed(range(storage.copies - 1)):
            address = tirx.BufferLoad(blocks, [as_expr(2 * number)])
            free: PrimExpr = tirx.const(1, "bool")
            for holder in storage.holders:
                free = tirx.And(free, tirx.NE(first_of(self._local(holder)), address))
            chosen = tirx.Select(free, as_expr(2 * number), chosen)
        number = self._new_local("int64", "block_number")
        return [store_first(number, chosen)], blocks, first_of(number)

    def _allocate(self, storage: aot.Storage) -> list[Stmt]:
        """Have enough memory for a temporary, and point it there."""
        statements, blocks, number = self._free_block(storage)
        address = _address_of(blocks, number)
        pointed = store_first(self._local(storage), tirx.BufferLoad(blocks, [number]))
        return [*statements, *self._reserve(address, storage.nbytes), pointed]

    def _reserve(self, block: PrimExpr, nbytes: Extent) -> list[Stmt]:
        """Have a block of memory, the address of which and of its size is at ``block``, be large enough."""
        words, needed = words_at("block"), tirx.Var("needed", "int64")
        reserve = tirx.Evaluate(ir.Call(RESERVE, [self.state_address, block, needed], ret_ty=_INT32))
        failed = tirx.IfThenElse(tirx.EQ(words[0], as_expr(0)), sequence(self._fail(FAILED)), None)
        is_small = tirx.Or(words[1] < needed, exceeds_any_memory(as_expr(nbytes)))
        return [
            tirx.Bind(needed, tirx.max(as_expr(nbytes), as_expr(1))),
            tirx.DeclBuffer(words, data=block),
            tirx.IfThenElse(is_small, sequence([reserve, failed]), None),
        ]

    def _free_blocks(self) -> list[Stmt]:
        """Give back the memory that the function allocated."""
        statements: list[Stmt] = []
        for storage, blocks in self.blocks.items():
            for number in range(storage.copies):
                address = _address_of(blocks, as_expr(2 * number))
                drop = ir.Call(DROP, [self.state_address, address], ret_ty=_INT32)
                is_used = tirx.BufferLoad(blocks, [as_expr(2 * number)]) != as_expr(0)
                statements.append(tirx.IfThenElse(is_used, tirx.Evaluate(drop), None))
        return statements

    # Steps

    def _region(self, region: aot.Region) -> list[Stmt]:
        statements: list[Stmt] = []
        for step in region:
            statements += self._step(step)
        return statements or [tirx.Evaluate(tirx.const(0, "int32"))]

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
                return [*chosen, copy_bytes(self._address(target), self._address(source), nbytes)]
            case aot.PointAt(target=target):
                return [store_first(self._local(target), self._address_of_element(step))]
            case aot.FunctionCall():
                return self._function_call(step)
            case aot.Assign():
                return self._assign(step)
            case aot.Branch(condition=condition, then=then, other=other):
                taken, left = sequence(self._region(then)), sequence(self._region(other))
                return [tirx.IfThenElse(self._load(condition), taken, left)]
            case aot.Check():
                return self._check(step)
            case aot.ShapeCheck():
                return self._shape_check(step)
            case aot.NameSizes():
                return self._name_sizes(step)
            case aot.DefineSize(dim=dim, size=size):
                return self._define(dim, size)
            case aot.NextRound(assign=aot.Assign(pairs=pairs)) if self.counter is not None:
                others = tuple(pair for pair in pairs if pair[0] is not self.counter)
                return self._assign(aot.Assign(others))
            case aot.NextRound(assign=assign, sizes=sizes):
                carried = [store_first(self.carried_sizes[dim], size) for dim, size in sizes]
                return [*self._assign(assign), *carried, self._spend(self._work()), *self._count_round()]
            case aot.Exit():
                return self._exit(step)

    def _kernel_call(self, step: aot.KernelCall) -> list[Stmt]:
        reads, writes = step.args[: step.reads], step.args[step.reads :]
        statements = self._choose_copies(writes)
        pointers: list[PrimExpr] = []
        after: list[Stmt] = []
        for value in reads:
            if isinstance(value, aot.Register):
                spilled = self._new_local(value_dtype(value), "operand")
                statements.append(store_first(spilled, first_of(self._local(value))))
                pointers.append(pointer_to(spilled))
            elif isinstance(value, aot.Immediate):
                pointers.append(as_pointer(self.constants[self.first_constant + value.index]))
            else:
                pointers.append(as_pointer(self._address(value)))
        for value in writes:
            if isinstance(value, aot.Register):
                spilled = self._new_local(value_dtype(value), "outcome")
                pointers.append(pointer_to(spilled))
                after.append(store_first(self._local(value), first_of(spilled)))
            else:
                assert isinstance(value, aot.Storage)
                pointers.append(as_pointer(self._address(value)))
        if step.joined is not None:
            return [*statements, *_joined(step, pointers), *after]
        if self._counts_its_work(step):
            after.append(self._spend(step.work))
        # What fails inside, a packed function, makes a kernel return another number.
        code = ir.Call(step.kernel, [*pointers, *step.sizes], ret_ty=_INT32)
        run: Stmt = tirx.IfThenElse(code != 0, sequence(self._fail(FAILED)), None)
        if self.clocked is not None:
            run = self._time(run, self.clocked.index(step), step.sizes)
        return [*statements, run, *after]

    def _time(self, run: Stmt, number: int, sizes: Sequence[PrimExpr]) -> Stmt:
        """Add the time of a call to a row of the times."""
        assert self.state is not None
        times = [self._new_local("int64", "time", 2) for _ in range(2)]
        width = 2 + max((len(call.sizes) for call in self.clocked or ()), default=0)
        row = words_at("row")
        stores = [
            tirx.BufferStore(row, row[0] + _passed(*times), [as_expr(0)]),
            tirx.BufferStore(row, row[1] + as_expr(1), [as_expr(1)]),
            *(
                tirx.BufferStore(row, as_expr(size), [as_expr(2 + position)])
                for position, size in enumerate(sizes)
            ),
        ]
        declared = tirx.DeclBuffer(row, data=as_pointer(self.state[aot.CLOCK] + as_expr(8 * width * number)))
        return sequence([_read_clock(times[0]), run, _read_clock(times[1]), declared, *stores])

    def _function_call(self, step: aot.FunctionCall) -> list[Stmt]:
        after_call = list[Stmt]()
        measured = step.callee.measured_results()
        written = [
            result
            for number, result in enumerate(step.results)
            if number not in step.callee.changed and number not in measured
        ]
        statements = self._choose_copies([*written, step.frame])
        blocks: dict[int, PrimExpr] = {}
        for number in measured:
            result = step.results[number]
            assert isinstance(result, aot.Storage)
            chosen, block, at = self._free_block(result)
            statements += chosen
            blocks[number] = _address_of(block, at)
            after_call.append(store_first(self._local(result), tirx.BufferLoad(block, [at])))
        if step.result_dims:
            sizes = self._new_local("int64", "sizes", len(step.result_dims))
            blocks[len(step.results)] = _address_of(sizes, as_expr(0))
            named = enumerate(step.result_dims)
            after_call += [tirx.Bind(dim, tirx.BufferLoad(sizes, [as_expr(at)])) for at, dim in named]
        if step.callee not in self.variables:
            return [*statements, *self._inlined(step, blocks), *after_call]
        if step.callee.parallel is not None:
            return [*statements, *self._parallel_call(step)]
        args: list[PrimExpr] = []
        after: list[Stmt] = []
        for value, param in zip(step.args, step.callee.parameters, strict=True):
            loaded = self._load(value)
            if isinstance(param, aot.Register) and param.dtype == "bool":
                loaded = as_byte(loaded)
            args.append(loaded)
        for number, result in enumerate(step.results):
            if isinstance(result, aot.Register):
                spilled = self._new_local(value_dtype(result), "outcome")
                args.append(pointer_to(spilled))
                after.append(store_first(self._local(result), first_of(spilled)))
            else:
                args.append(blocks[number] if number in blocks else self._address(result))
        if step.result_dims:
            args.append(blocks[len(step.results)])
        assert self.state is not None
        frame = self._address(step.frame)
        rest = [self.state_address, self.constants_address, frame]
        call = ir.Call(self.variables[step.callee], [*step.sizes, *args, *rest], ret_ty=_INT32)
        failed = tirx.NE(self.state[aot.STATUS], tirx.const(0, "int64"))
        code = tirx.Var("code", "int32")
        return [
            *statements,
            *self._hand_on_budget(),
            tirx.Bind(code, call),
            tirx.IfThenElse(code != 0, sequence(self._fail(INTERRUPTED)), None),  # a packed function raised
            tirx.IfThenElse(failed, sequence(self._leave()), None),
            *self._take_budget(),
            *after,
            *after_call,
        ]

    def _parallel_call(self, step: aot.FunctionCall) -> list[Stmt]:
        """Run a loop whose rounds threads share; what they need is bound before, and captured by value."""
        bound: list[Stmt] = []

        def bind(value: PrimExpr) -> PrimExpr:
            var = tirx.Var("captured", dtype_of(value))
            bound.append(tirx.Bind(var, value))
            return var

        loaded = [self._load(value) for value in step.args]
        args = [bind(as_byte(value) if dtype_of(value) == "bool" else value) for value in loaded]
        results = [
            None if isinstance(result, aot.Register) else bind(self._address(result))
            for result in step.results
        ]
        assert self.state is not None
        call = ParallelCall(
            step.callee,
            self.variables[step.callee],
            [bind(as_expr(size)) for size in step.sizes],
            args,
            results,
            bind(self.constants_address),
            bind(self._address(step.frame)),
            self.state,
        )
        statements = call.run(self._leave(), words_at)
        for number, result in enumerate(step.results):
            if isinstance(result, aot.Register):
                statements += call.reduce(number, self._local(result))
        return [*bound, *statements]

    def _inlined(self, step: aot.FunctionCall, blocks: Mapping[int, PrimExpr]) -> list[Stmt]:
        """Emit a function as a part of its only caller.

        ``blocks``: where the memory of results is whose sizes it measures, and where these sizes go.
        """
        callee = step.callee
        bound: list[Stmt] = []
        args: list[PrimExpr] = []
        for value, param in zip(step.args, callee.parameters, strict=True):
            loaded = self._load(value)
            var = tirx.Var("argument", "bool" if dtype_of(loaded) == "bool" else value_dtype(param))
            bound.append(tirx.Bind(var, loaded))
            args.append(var)
        results = [
            as_expr(0)
            if isinstance(result, aot.Register)
            else blocks[number]
            if number in blocks
            else self._address(result)
            for number, result in enumerate(step.results)
        ]
        emitter = BodyEmitter(callee, self.variables, args, results, clocked=self.clocked, caller=self)
        emitter.targets = step.results
        emitter.few = find_few_rounds(step, self.variables)
        sizes = [
            tirx.Bind(emitter.first_sizes.get(dim, dim), as_expr(size))
            for dim, size in zip(callee.dims, step.sizes, strict=True)
        ]
        emitter.result_sizes = blocks.get(len(step.results))
        addresses = (self.state_address, self.constants_address, self._address(step.frame))
        emitter.use(self.state, self.constants, self.first_constant, addresses)
        return [*sizes, *bound, *emitter.body()]

    def _scalar_code(self, step: aot.ScalarCode) -> list[Stmt]:
        """Compute the stages of a kernel of single elements in registers."""
        statements: list[Stmt] = []
        for stage in step.stages:
            statements += self._scalar_stage(stage, step.values, step.sizes)
        return statements

    def _store_in_memory(self, step: aot.StoreElement) -> list[Stmt]:
        """Store one element of an array in memory."""
        declared: list[Stmt] = []

        def load(node: ir.expr.TensorLoad) -> PrimExpr:
            value = step.values[node.source]
            if not isinstance(value, aot.Storage):
                return self._load(value)
            return self._element_of(value, node.source, node.indices, step.sizes, declared)

        def compute(expr: PrimExpr) -> PrimExpr:
            expr = replace_vars(as_expr(expr), step.sizes)
            return rewrite(expr, [(ir.expr.TensorLoad, load)])

        bound: list[Stmt] = []
        indices: list[PrimExpr] = []
        for index in step.indices:
            statement, name = self._name_value("index", compute(index))
            bound.append(statement)
            indices.append(name)
        statement, value = self._name_value("element", wrap_integers(compute(step.value)))
        # An array of one element is written as a whole.
        is_whole = all(static_int(dim) == 1 for dim in step.buffer.ty.shape)
        chosen = self._choose_copies([step.storage]) if is_whole else []
        view, offset, declaration = self._view(step.storage, step.buffer, indices, step.sizes)
        if dtype_of(value) == "bool":
            value = as_byte(value)
        return [*declared, *bound, statement, *chosen, *declaration, tirx.BufferStore(view, value, [offset])]

    def _scalar_stage(
        self,
        stage: Stage,
        values: Mapping[Buffer, aot.Value],
        sizes: Mapping[Var, PrimExpr],
    ) -> list[Stmt]:
        names: dict[Var, PrimExpr] = {axis: as_expr(0) for axis in stage.axes} | dict(sizes)
        declared: list[Stmt] = []
        loads = {} if stage.inits is None else dict(zip(stage.writes, stage.inits, strict=True))

        def load(node: ir.expr.TensorLoad) -> PrimExpr:
            buffer = node.source
            if buffer in loads:
                return loads[buffer]
            value = values[buffer]
            if isinstance(value, aot.Register) and value.dtype in ("float32", "float64") and selects:
                # TVM would make a branch of the choice, as reading memory may not be safe.
                var = tirx.Var(buffer.name, value.dtype)
                declared.append(tirx.Bind(var, self._load(value)))
                return var
            if not isinstance(value, aot.Storage):
                return self._load(value)
            return self._element_of(value, buffer, node.indices, names, declared)

        selects = any(isinstance(value, tirx.Select) for value in stage.values)
        stores: list[Stmt] = []
        results: list[tuple[aot.Register, PrimExpr]] = []
        for buffer, value in zip(stage.writes, stage.values, strict=True):
            expr = replace_vars(make_isnan_vectorizable(value), names)
            expr = rewrite(expr, [(ir.expr.TensorLoad, load)])
            target = values[buffer]
            assert isinstance(target, aot.Register)
            store, result = self._name_value(buffer.name, wrap_integers(expr))
            stores.append(store)
            results.append((target, result))
        return [*declared, *stores, *(self._store(target, result) for target, result in results)]

    def _name_value(self, name: str, value: PrimExpr) -> tuple[Stmt, PrimExpr]:
        """Return a statement that computes a value, and the expression that it has from then on.

        One that is computed from bfloat16 is stored, as BF16ComputeLegalize does not look into a Bind. So is
        one with lets, which ``let_to_buffers`` then removes: TVM may simplify a Bind twice, and refuses to
        bind the variable of a let again.
        """
        if not (_has_bfloat16(value) or _has_lets(value)):
            var = tirx.Var(name, dtype_of(value))
            return tirx.Bind(var, value), var
        register = aot.Register(dtype_of(value), name)
        return self._store(register, value), self._load(register)

    def _element_of(
        self,
        storage: aot.Storage,
        buffer: Buffer,
        indices: Sequence[Index],
        sizes: Mapping[Var, PrimExpr],
        declared: list[Stmt],
    ) -> PrimExpr:
        """Load one element of an array in memory."""
        view, offset, declaration = self._view(storage, buffer, indices, sizes)
        declared += declaration
        element = tirx.BufferLoad(view, [offset])
        return tirx.NE(element, tirx.const(0, "int8")) if dtype_of(buffer) == "bool" else element

    def _view(
        self, storage: aot.Storage, buffer: Buffer, indices: Sequence[Index], sizes: Mapping[Var, PrimExpr]
    ) -> tuple[Buffer, PrimExpr, list[Stmt]]:
        """Return a flat view of an array in memory, the position of an element in it, and its declaration."""
        dtype = dtype_of(buffer)
        stored = "int8" if dtype == "bool" else dtype
        offset = _position(buffer, indices, sizes)
        view = tirx.decl_buffer((1 << 40,), stored, buffer.name, data_alignment=item_bytes(stored))
        return view, offset, self._declare(view, storage)

    def _declare(self, buffer: Buffer, storage: aot.Storage) -> list[Stmt]:
        """Declare a buffer at an array in memory.

        Its address is bound: TVM's CommonSubexprElim would name a sum that a declaration and statements after
        it compute after the declaration.
        """
        address, statements = self._address(storage), list[Stmt]()
        if not isinstance(address, tirx.Var):
            var = tirx.Var("address", "int64")
            statements, address = [tirx.Bind(var, address)], var
        return [*statements, tirx.DeclBuffer(buffer, data=as_pointer(address))]

    def _address_of_element(self, step: aot.PointAt) -> PrimExpr:
        def compute(index: Index) -> PrimExpr:
            expr = replace_vars(as_expr(index), step.sizes)
            return rewrite(expr, [(ir.expr.TensorLoad, lambda load: self._load(step.values[load.source]))])

        position = _position(step.buffer, [compute(index) for index in step.indices], step.sizes)
        return self._address(step.source) + position * as_expr(item_bytes(dtype_of(step.buffer)))

    def _assign(self, step: aot.Assign) -> list[Stmt]:
        """Assign several values at once: all are read before the first is written."""
        reads, writes = [], []
        for target, value in step.pairs:
            if isinstance(value, aot.Register):
                read: PrimExpr = first_of(self._local(value))
            else:
                read = self._load(value)
                if dtype_of(read) == "bool":
                    read = as_byte(read)
            if len(step.pairs) == 1:
                return [store_first(self._local(target), read)]
            var = tirx.Var("next", dtype_of(read))
            reads.append(tirx.Bind(var, read))
            writes.append(store_first(self._local(target), var))
        return [*reads, *writes]

    def _check(self, step: aot.Check) -> list[Stmt]:
        details: list[Stmt] = []
        assert self.state is not None
        if step.condition is not None:
            condition = step.condition
            holds = (
                self._load(condition) if isinstance(condition, aot.Register | aot.Immediate) else condition
            )
            wrong = tirx.Not(holds)
        elif step.index is not None:
            index = tirx.Var("index", "int64")
            size = step.size
            loaded = self._load(step.index)
            declared = tirx.Bind(index, loaded if dtype_of(loaded) == "int64" else tirx.Cast("int64", loaded))
            unsigned = tirx.Cast("uint64", index) >= tirx.Cast("uint64", as_expr(size))
            details = [
                _store_word(self.state, aot.DETAIL, index),
                _store_word(self.state, aot.DETAIL + 1, size),
            ]
            failed = sequence([*details, *self._fail(FAILURES + step.number)])
            return [declared, tirx.IfThenElse(unsigned, failed, None)]
        else:
            assert step.report is not None
            report = tirx.decl_buffer((2,), "int64", "report", data_alignment=8)
            details = [
                _store_word(self.state, aot.DETAIL, report[1]),
                _store_word(self.state, aot.DETAIL + 1, step.size),
            ]
            failed = sequence([*details, *self._fail(FAILURES + step.number)])
            wrong = tirx.NE(report[0], as_expr(0))
            return [*self._declare(report, step.report), tirx.IfThenElse(wrong, failed, None)]
        return [tirx.IfThenElse(wrong, sequence(self._fail(FAILURES + step.number)), None)]

    def _name_sizes(self, step: aot.NameSizes) -> list[Stmt]:
        if not isinstance(step.vector, aot.Storage):
            (dim,) = step.dims
            return [tirx.Bind(dim, self._load(step.vector))]
        words = words_at("sizes")
        sizes = [tirx.Bind(dim, words[number]) for number, dim in enumerate(step.dims)]
        return [*self._declare(words, step.vector), *sizes]

    def _shape_check(self, step: aot.ShapeCheck) -> list[Stmt]:
        """Ask about shapes that were not checked the last time, and remember them."""
        assert self.state is not None
        changed: PrimExpr = tirx.EQ(self.state[step.record], as_expr(0))
        for number, size in enumerate(step.sizes):
            changed = tirx.Or(changed, tirx.NE(self.state[step.record + 1 + number], size))
        answer = tirx.call_packed(
            SHAPES_FIT_NATIVE, step.key, *map(as_expr, (len(step.ranks), *step.ranks)), *step.sizes
        )
        remember = [
            _store_word(self.state, step.record + 1 + number, size) for number, size in enumerate(step.sizes)
        ]
        ask = [
            tirx.IfThenElse(tirx.NE(answer, 0), sequence(self._fail(REFUSED)), None),
            *remember,
            _store_word(self.state, step.record, as_expr(1)),
        ]
        return [tirx.IfThenElse(tirx.And(tirx.Not(step.fit), changed), sequence(ask), None)]

    def _exit(self, step: aot.Exit) -> list[Stmt]:
        statements: list[Stmt] = []
        measured = self.function.measured_results()
        sizes = dict(zip(self.function.result_dims, step.sizes, strict=True))
        for number, value in enumerate(step.results):
            if number in self.function.left:
                continue
            if number in measured:
                assert isinstance(value, aot.Storage)
                nbytes = substitute(as_expr(self.function.result_bytes(number)), sizes)
                words = words_at("block")
                statements += [
                    *self._reserve(self.results[number], nbytes),
                    tirx.DeclBuffer(words, data=self.results[number]),
                    copy_bytes(words[0], self._address(value), nbytes),
                ]
                continue
            if isinstance(value, aot.Storage):
                if value.kind != "result" and number not in self.function.changed:
                    nbytes = self.function.result_bytes(number)
                    statements.append(copy_bytes(self.results[number], self._address(value), nbytes))
                continue
            loaded = self._load(value) if isinstance(value, aot.Immediate) else first_of(self._local(value))
            if dtype_of(loaded) == "bool":
                loaded = as_byte(loaded)
            if self.caller is not None:
                statements.append(store_first(self.caller._local(self.targets[number]), loaded))
                continue
            view = tirx.decl_buffer(
                (1,), dtype_of(loaded), "result", data_alignment=item_bytes(dtype_of(loaded))
            )
            address = self.results[number]
            data = address if isinstance(address.ty, ir.PointerType) else as_pointer(address)
            statements.append(tirx.DeclBuffer(view, data=data))
            statements.append(store_first(view, loaded))
        if self.result_sizes is not None:
            words = words_at("result_sizes")
            statements.append(tirx.DeclBuffer(words, data=self.result_sizes))
            left = [self._place_of_left(number, step.results[number], sizes) for number in self.function.left]
            every = [size for each in left for size in each] or step.sizes
            statements += [_store_word(words, at, size) for at, size in enumerate(every)]
        if self.caller is None:
            return [*statements, *self._hand_on_budget(), *self._leave(0)]
        if self.function.loops:
            statements.append(store_first(self._local(_RUNNING), tirx.const(0, "int8")))
        return statements or [tirx.Evaluate(tirx.const(0, "int32"))]

    def _place_of_left(self, number: int, value: aot.Value, sizes: dict[Var, PrimExpr]) -> list[PrimExpr]:
        """Return the address and the sizes of a result that an entry leaves where it is."""
        assert isinstance(value, aot.Storage)
        shape = self.function.all_results[number].shape
        return [self._address(value), *(substitute(as_expr(size), sizes) for size in shape)]

    # Ends, interrupts and recursion

    def _fail(self, code: int) -> list[Stmt]:
        """End the function, and those that called it, with a code."""
        if self.caller is not None:
            return self.caller._fail(code)
        if self.is_entry:
            return [*self.release, tirx.Return(tirx.const(code, "int32"))]
        assert self.state is not None
        return [_store_word(self.state, aot.STATUS, as_expr(code)), *self._leave()]

    def _leave(self, code: int | None = None) -> list[Stmt]:
        """End the function; ``code`` is the entry's, by default the state's."""
        if self.caller is not None:
            return self.caller._leave(code)
        if self.is_entry and code is not None:
            if code == 0 and self.function.left:  # whoever called reads them first
                return [tirx.Return(tirx.const(code, "int32"))]
            return [*self.release, tirx.Return(tirx.const(code, "int32"))]
        state = self.state
        assert state is not None
        if self.is_entry:
            return [*self.release, tirx.Return(state[aot.STATUS].astype("int32"))]
        leave = self._free_blocks() if code == 0 else []
        if self.function.recursive:
            leave += [_store_word(state, aot.DEPTH, state[aot.DEPTH] - 1), *self.frame]
        return [*leave, tirx.Return(tirx.const(0, "int32"))]

    def _enter(self) -> list[Stmt]:
        """Count the depth of recursion, and the work."""
        assert self.state is not None
        deeper = _store_word(self.state, aot.DEPTH, self.state[aot.DEPTH] + 1)
        too_deep = tirx.GT(self.state[aot.DEPTH], self.state[aot.DEPTH + 1])
        return [
            deeper,
            tirx.IfThenElse(too_deep, sequence(self._fail(TOO_DEEP)), None),
            _store_word(self.state, aot.WORK, self.state[aot.WORK] - self._work()),
            self._poll(self.state, aot.WORK),
        ]

    def _count_round(self) -> list[Stmt]:
        """Count the calls of a function at its own end, of which there may be no more than other ones."""
        if not self.function.counts_rounds:
            return []
        if _ROUNDS not in self.locals:
            self.locals[_ROUNDS] = self._new_local("int64", "rounds")
            self.declared.append(store_first(self.locals[_ROUNDS], as_expr(0)))
        rounds = first_of(self.locals[_ROUNDS])
        return [
            store_first(self.locals[_ROUNDS], rounds + as_expr(1)),
            tirx.IfThenElse(rounds >= as_expr(MAX_CALL_DEPTH), sequence(self._fail(TOO_DEEP)), None),
        ]

    def _allocate_frame(self) -> list[Stmt]:
        """Allocate a workspace of the function's own."""
        state = self.state
        assert state is not None
        failed = sequence(
            [_store_word(state, aot.STATUS, as_expr(FAILED)), tirx.Return(tirx.const(0, "int32"))]
        )
        statements: list[Stmt] = []
        if not isinstance(self.function.workspace, int):
            too_large = exceeds_any_memory(self.function.workspace)
            statements.append(tirx.IfThenElse(too_large, failed, None))
        nbytes = as_expr(self.function.workspace) + as_expr(aot.ALIGNMENT)
        # C's malloc, which all systems have, as a function of numbers: TVM's passes cannot rewrite a pointer
        # that is reinterpreted as a number.
        allocated, address = tirx.Var("allocated", "int64"), tirx.Var("frame", "int64")
        statements += [
            tirx.Bind(allocated, tirx.call_extern("int64", "malloc", nbytes)),
            tirx.IfThenElse(tirx.EQ(allocated, as_expr(0)), failed, None),
            tirx.Bind(address, round_up(allocated)),
        ]
        self.workspace = address
        self.frame = [tirx.Evaluate(tirx.call_extern("void", "free", as_pointer(allocated)))]
        return statements

    def _budget(self) -> Buffer:
        """Return the counter of the work until the next poll, which all loops of a TIR function share.

        Functions hand it on in the state.
        """
        if self.caller is not None:
            return self.caller._budget()
        if _BUDGET not in self.locals:
            self.locals[_BUDGET] = self._new_local("int64", "budget")
            first = self.first_budget() if self.is_entry or self.state is None else self.state[aot.WORK]
            self.declared.append(store_first(self.locals[_BUDGET], first))
        return self.locals[_BUDGET]

    def _spend(self, work: Extent) -> Stmt:
        """Take work, in elements, from what is left until the next poll."""
        budget = self._budget()
        return store_first(budget, first_of(budget) - as_expr(work))

    def first_budget(self) -> PrimExpr:
        """Return the work that a call may do before its first poll."""
        if self.state is None:
            return as_expr(_POLL_WORK)
        return tirx.Select(self._is_direct(), as_expr(_DIRECT_WORK), as_expr(_POLL_WORK))

    def _is_direct(self) -> PrimExpr:
        """Return whether CPython makes the call directly."""
        assert self.state is not None
        return tirx.NE(self.state[aot.DIRECT], as_expr(0))

    def _hand_on_budget(self) -> list[Stmt]:
        """Write the counter of work to the state, for another function."""
        if self.caller is not None:
            return self.caller._hand_on_budget()
        if _BUDGET not in self.locals:
            return []
        return [_store_word(self.state, aot.WORK, first_of(self.locals[_BUDGET]))]

    def _take_budget(self) -> list[Stmt]:
        """Read the counter of work from the state, after another function."""
        if self.caller is not None:
            return self.caller._take_budget()
        if _BUDGET not in self.locals or self.state is None:
            return []
        return [store_first(self.locals[_BUDGET], self.state[aot.WORK])]

    def _work(self) -> PrimExpr:
        """Return the work of a round, or of a call, in elements."""
        work: PrimExpr = as_expr(1)
        for step in self.function.steps():
            if isinstance(step, aot.KernelCall) and not self._counts_its_work(step):
                work = work + as_expr(step.work)
        return work

    def _counts_its_work(self, step: aot.KernelCall) -> bool:
        """Return whether the work of a kernel is known when it is called, and not at the end of a round."""
        return depends_on(step.work, {**self.function.named, **dict.fromkeys(self.function.carried_dims)})

    def _save_registers(self) -> tuple[list[Stmt], list[Stmt]]:
        """Return statements that save what the loops around here carry, and that load it again.

        LLVM would keep it in memory throughout if it had to survive a call: no vector register does.
        """
        save: list[Stmt] = []
        restore: list[Stmt] = []
        emitter: BodyEmitter | None = self
        while emitter is not None:
            function = emitter.function
            carried = find_carried(function) - {emitter.counter}
            registers = [param for param in function.parameters if isinstance(param, aot.Register)]
            for number, register in enumerate(registers):
                if register not in carried:
                    continue
                local = emitter._local(register)
                dtype = dtype_of(local)
                slot = tirx.decl_buffer((1,), dtype, "saved", data_alignment=item_bytes(dtype))
                address = self.state_address + as_expr(8 * (function.saved + number))
                save += [
                    tirx.DeclBuffer(slot, data=as_pointer(address)),
                    store_first(slot, first_of(local)),
                ]
                restore.append(store_first(local, first_of(slot)))
            emitter = emitter.caller
        return save, restore

    def _poll(self, budget: Buffer, number: int = 0) -> Stmt:
        """Ask whether to stop if the budget is spent; a call that CPython makes directly gives up then."""
        at = as_expr(number)
        stop = tirx.NE(tirx.call_packed(POLL), 0)
        save, restore = self._save_registers()
        ask = [
            tirx.IfThenElse(self._is_direct(), sequence(self._fail(TOO_LONG)), None),
            tirx.BufferStore(budget, as_expr(_POLL_WORK), [at]),
            *save,
            tirx.IfThenElse(stop, sequence(self._fail(INTERRUPTED)), None),
            *self._stop_with_others(),
            *restore,
        ]
        is_spent = unlikely(tirx.BufferLoad(budget, [at]) <= as_expr(0))
        return tirx.IfThenElse(is_spent, sequence(ask), None)

    def _stop_with_others(self) -> list[Stmt]:
        """End the function if it is a part of a parallel loop of which another thread was interrupted."""
        if not any(function.parallel is not None for function in self.variables):
            return []
        assert self.state is not None
        word = words_at("stop")
        look = [
            tirx.DeclBuffer(word, data=as_pointer(self.state[aot.STOP])),
            tirx.IfThenElse(first_of(word) < as_expr(0), sequence(self._fail(INTERRUPTED)), None),
        ]
        return [tirx.IfThenElse(tirx.NE(self.state[aot.STOP], as_expr(0)), sequence(look), None)]


_BUDGET, _ROUNDS = aot.Register("int64", "budget"), aot.Register("int64", "rounds")

#: Whether a loop that is a part of its caller goes on.
_RUNNING = aot.Register("int8", "running")


def _joined(step: aot.KernelCall, pointers: Sequence[PrimExpr]) -> list[Stmt]:
    """Return a kernel as statements of the function, with its arrays where the pointers point."""
    kernel = step.joined
    assert kernel is not None
    arrays = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    statements: list[Stmt] = [
        tirx.Bind(var, size) for var, size in zip(aot.kernel_sizes(kernel), step.sizes, strict=True)
    ]
    for array, pointer in zip(arrays, pointers, strict=True):
        data = tirx.Var("data", pointer.ty)  # as `_declare` binds an address
        statements += [tirx.Bind(data, pointer), tirx.DeclBuffer(array, data=data)]
    return [*statements, kernel.body]


def _address_of(words: Buffer, number: PrimExpr) -> PrimExpr:
    """Return a pointer to one of some words."""
    return tirx.address_of(tirx.BufferLoad(words, [number]))


def _position(buffer: Buffer, indices: Sequence[Index], sizes: Mapping[Var, PrimExpr]) -> PrimExpr:
    """Return the position of an element in the memory of an array."""
    position = as_expr(0)
    for dim, index in zip(buffer.ty.shape, indices, strict=True):
        position = position * replace_vars(as_expr(dim), sizes) + index
    return position


def _read_clock(times: Buffer) -> Stmt:
    """Return the statement that writes the time to an array: as C's ``timespec``, on Windows as ticks."""
    if sys.platform == "win32":
        read = tirx.call_extern("int32", "QueryPerformanceCounter", pointer_to(times))
    else:
        clock = tirx.const(time.CLOCK_MONOTONIC, "int32")
        read = tirx.call_extern("int32", "clock_gettime", clock, pointer_to(times))
    return tirx.Evaluate(read)


def _passed(before: Buffer, after: Buffer) -> PrimExpr:
    """Return the nanoseconds between two times."""
    if sys.platform == "win32":
        a_second = round(1 / time.get_clock_info("perf_counter").resolution)  # in ticks
        return tirx.floordiv((after[0] - before[0]) * as_expr(10**9), as_expr(a_second))
    return (after[0] - before[0]) * as_expr(10**9) + (after[1] - before[1])


def as_byte(truth: PrimExpr) -> PrimExpr:
    """Return a truth value as registers and arrays hold it."""
    return tirx.Select(truth, tirx.const(1, "int8"), tirx.const(0, "int8"))


def _has_bfloat16(value: PrimExpr) -> bool:
    parts: list[PrimExpr] = []
    visit(value, [((ir.expr.TensorLoad, tirx.Cast), parts.append)])
    return any(dtype_of(part) == "bfloat16" for part in parts)


def _has_lets(value: PrimExpr) -> bool:
    lets: list[PrimExpr] = []
    visit(value, [(tirx.Let, lets.append)])
    return bool(lets)


def _as_unsigned(value: PrimExpr) -> PrimExpr:
    return tirx.reinterpret("uint64", value)


def first_of(buffer: Buffer) -> PrimExpr:
    """Return the first element, which is the only one of a register."""
    return tirx.BufferLoad(buffer, [as_expr(0)])


def store_first(buffer: Buffer, value: PrimExpr) -> Stmt:
    """Store the first element."""
    return tirx.BufferStore(buffer, value, [as_expr(0)])


def _store_word(words: Buffer, number: int, value: Index) -> Stmt:
    return tirx.BufferStore(words, as_expr(value), [as_expr(number)])


def copy_bytes(to: PrimExpr, source: PrimExpr, nbytes: Extent) -> Stmt:
    """Copy memory, which may overlap."""
    pointers = as_pointer(to), as_pointer(source)
    return tirx.Evaluate(tirx.call_extern("handle", "memmove", *pointers, as_expr(nbytes)))


def pointer_to(buffer: Buffer) -> PrimExpr:
    """Return a pointer to the first element."""
    return tirx.address_of(first_of(buffer))


def value_dtype(value: aot.Register | aot.Storage) -> str:
    """Return the dtype of what holds a value: of itself, or of its address."""
    if isinstance(value, aot.Storage):
        return "int64"
    return "int8" if value.dtype == "bool" else value.dtype
