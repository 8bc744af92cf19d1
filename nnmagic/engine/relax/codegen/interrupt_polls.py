"""Let long kernels poll for interrupts, and return early when one is pending.

A loop counts the work that it does in a budget, and asks when that is spent. Of a parallel loop only the
thread of the call asks, because signals are handled there; the others look at a word that it sets.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.runtime.callbacks import POLL
from nnmagic.engine.relax.runtime.lapack import PREFIX
from nnmagic.engine.relax.schedules.thread_choice import THREADS
from nnmagic.engine.relax.tir.builders import (
    FAIL,
    as_expr,
    dtype_of,
    local_array,
    sequence,
    static_int,
    unlikely,
)
from nnmagic.engine.relax.tir.types import Buffer, Call, PrimExpr, PrimFunc, Stmt, Var
from nnmagic.engine.relax.tir.visitors import collect

#: Marks a function that is to get polls, or, where it is 0, only to free its memory where it is left.
POLLED = "nnmagic.polled"

#: The work between two polls, in statements: milliseconds, tens of them where memory is touched first.
_POLL_WORK = 1 << 21

#: So many lanes of a vector that is stored are the work of a statement more.
_LANES = 4

#: From this size on a routine of LAPACK takes longer for a matrix than is between two polls.
_LARGE_MATRIX = 1 << 10

#: The most work of a nest of loops that counts as one statement of so much work.
_SHORT = 1 << 16

#: So many rounds of a loop are a piece, if loops of unknown length are in it: one, or one in the other. The
#: first number is that of short ones: asking in each round takes longer. Of long ones a round is a piece.
_ROUNDS = ((256, 16), (4,))

#: Loops in one of so few rounds ask by themselves, as passes over all elements do.
_FEW_ROUNDS = 64

#: The least work of a round that is counted alone; shorter rounds are counted in pieces.
_ROUND = 1 << 8

#: The work of a call of a function of the module, which asks by itself if it does much more.
_CALL = 1 << 14

#: Threads share so many pieces of a parallel loop at most, and poll after each.
_PIECES = 256

#: What threads of a parallel loop share: whether they stop, the budget of the thread that asks, and which.
_STOPPED, _BUDGET, _OWNER, _WORDS = 0, 1, 2, 3

#: The operators that become calls of C's functions.
_FUNCTIONS = frozenset(
    [
        *("call_extern", "call_pure_extern", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh"),
        *("cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p"),
        *("pow", "erf", "hypot", "fmod"),
    ]
)

_FREE, _EXTERN = (tvm.ir.Op.get(f"tirx.{name}") for name in ("TVMBackendFreeWorkspace", "call_extern"))


_NOTHING = as_expr(0)


@dataclass(frozen=True, slots=True)
class _Polled:
    """A statement with polls.

    work: what it does and does not count. asks: whether it asks, or a round around it must. depth: of loops
    of unknown length in it that do not ask, one in the other. spent: what these do, if sizes outside say so.
    """

    statement: Stmt
    work: int = 0
    asks: bool = False
    depth: int = 0
    spent: PrimExpr = _NOTHING


@dataclass(frozen=True, slots=True)
class _Poller:
    """Add polls to the statements of one thread; ``ask`` is what it does when its budget is spent.

    threads: whether threads share the parallel loops in it; None if they do.
    """

    budget: Buffer
    ask: Sequence[Stmt]
    leave: Stmt
    this_thread: str
    threads: PrimExpr | None = None

    def visit(self, statement: Stmt, *, nested: bool = False) -> _Polled:
        """Return a statement with polls; ``nested``: whether it is in a round that asks."""
        match statement:
            case tirx.SeqStmt():
                return self._together([self.visit(stmt, nested=nested) for stmt in statement.seq])
            case tirx.For() if statement.kind == tirx.ForKind.PARALLEL:
                return self._parallel_loop(statement)
            case tirx.For():
                return self._loop(statement, nested=nested)
            case tirx.While():
                body = self.visit(statement.body, nested=True)
                spend = self._count if nested and not body.asks else self._spend
                rounds = sequence([body.statement, *spend(body.spent + as_expr(body.work + 1))])
                return _Polled(tirx.While(statement.condition, rounds), asks=True)
            case tirx.IfThenElse(condition=tirx.NE(a=tvm.ir.Call(op=tvm.ir.GlobalVar()))):
                return _Polled(statement, _CALL)
            case tirx.IfThenElse():
                return self._branch(statement, nested=nested)
            case tirx.AttrStmt():
                inner = replace(self, threads=statement.value) if statement.attr_key == THREADS else self
                body = inner.visit(statement.body, nested=nested)
                node, key, value = statement.node, statement.attr_key, statement.value
                return replace(body, statement=tirx.AttrStmt(node, key, value, body.statement))
            case tirx.Bind() | tirx.AllocBuffer() | tirx.DeclBuffer():
                return _Polled(statement)
            case tirx.BufferStore(value=value) if (size := _matrix_size(value)) is not None:
                return _Polled(statement, 1, depth=1, spent=size * size * size)
            case tirx.BufferStore():
                return _Polled(statement, 1 + int(statement.value.ty.dtype.lanes) // _LANES)
        return _Polled(statement, 1)

    def _together(self, statements: Sequence[_Polled]) -> _Polled:
        bound = [polled.statement.var for polled in statements if isinstance(polled.statement, tirx.Bind)]
        statements = [self._counted(polled, bound) for polled in statements]
        return _Polled(
            tirx.SeqStmt([polled.statement for polled in statements]),
            sum(polled.work for polled in statements),
            any(polled.asks for polled in statements),
            max([0, *(polled.depth for polled in statements)]),
            functools.reduce(operator.add, (polled.spent for polled in statements), _NOTHING),
        )

    def _counted(self, polled: _Polled, bound: Sequence[Var]) -> _Polled:
        """Return a statement that counts what it does, if variables that are bound around it say how much."""
        if not _uses(polled.spent, bound):
            return polled
        return replace(
            polled, statement=sequence([polled.statement, *self._count(polled.spent)]), spent=_NOTHING
        )

    def _branch(self, branch: tirx.IfThenElse, *, nested: bool) -> _Polled:
        then = self.visit(branch.then_case, nested=nested)
        other = None if branch.else_case is None else self.visit(branch.else_case, nested=nested)
        statement = tirx.IfThenElse(branch.condition, then.statement, other and other.statement)
        both = (then,) if other is None else (then, other)
        work, depth = 1 + max(outcome.work for outcome in both), max(outcome.depth for outcome in both)
        spent = functools.reduce(operator.add, (outcome.spent for outcome in both), _NOTHING)
        return _Polled(statement, work, any(outcome.asks for outcome in both), depth, spent)

    def _loop(self, loop: tirx.For, *, nested: bool) -> _Polled:
        """Return a loop whose rounds ask, or pieces of it; inside of others it may leave that to them."""
        extent = static_int(loop.extent)
        is_short = extent is not None and extent <= _FEW_ROUNDS
        body = self._counted(self.visit(loop.body, nested=nested or not is_short), [loop.loop_var])
        work = max(body.work, 1)
        # Short loops count as one statement: a test in each round would keep LLVM from making
        # vectors.
        if not body.asks and not body.depth and extent is not None and extent * work <= _SHORT:
            return _Polled(loop, extent * work)
        is_long = work >= _ROUND or (nested and extent is None and _calls_functions(loop.body))
        if body.asks or (is_long and not body.depth):
            counted = sequence([body.statement, *self._spend(body.spent + as_expr(work))])
            return _Polled(_with_body(loop, counted), asks=True)
        round_ = body.spent + as_expr(work)
        if nested and body.depth < len(_ROUNDS) and (body.depth or extent is None):
            spent = tirx.max(loop.extent.astype("int64"), _NOTHING) * round_
            return _Polled(_with_body(loop, body.statement), depth=body.depth + 1, spent=spent)
        most = as_expr(1 if body.depth else _SHORT >> work.bit_length())
        for rounds in reversed(_ROUNDS[body.depth - 1]) if body.depth else ():
            most = tirx.Select(round_ <= as_expr(_POLL_WORK // rounds), as_expr(rounds), most)
        return _Polled(self._pieces(_with_body(loop, body.statement), round_, most), asks=True)

    def _pieces(self, loop: tirx.For, work: PrimExpr, most: PrimExpr) -> Stmt:
        """Return a loop in pieces of some rounds, with a poll after each; ``work``: that of a round."""
        dtype = dtype_of(loop.loop_var)
        rounds, number, remaining = (tirx.Var(name, dtype) for name in ("rounds", "piece", "left"))
        bound, zero = [tirx.Bind(rounds, most.astype(dtype))], tirx.const(0, dtype)
        if isinstance(most, tirx.IntImm):
            rounds, bound = tirx.const(most.value, dtype), []
        extent = loop.extent.astype(dtype)
        count = tirx.truncdiv(tirx.max(extent, zero) - 1, rounds) + 1
        first = loop.min.astype(dtype) + number * rounds
        within = tirx.Var("within", dtype)
        body = sequence([tirx.Bind(loop.loop_var, first + within), loop.body])
        inner = tirx.For(within, zero, remaining, loop.kind, body, annotations=loop.annotations)
        spent = remaining.astype("int64") * work
        outer = [tirx.Bind(remaining, tirx.min(rounds, extent - number * rounds)), inner, *self._spend(spent)]
        pieces = tirx.For(number, zero, count, tirx.ForKind.SERIAL, sequence(outer))
        return sequence([*bound, pieces])

    def _count(self, work: PrimExpr) -> list[Stmt]:
        return [_store(self.budget, _load(self.budget) - work)]

    def _spend(self, work: PrimExpr) -> list[Stmt]:
        """Count work, and ask if the budget is spent."""
        renewed = _store(self.budget, as_expr(_POLL_WORK))
        is_spent = unlikely(_load(self.budget) <= as_expr(0))
        return [*self._count(work), tirx.IfThenElse(is_spent, sequence([renewed, *self.ask]), None)]

    def _in_pieces(self, loop: tirx.For) -> tuple[Stmt, tirx.For]:
        """Return a parallel loop over pieces of the rounds, and what binds their size.

        One piece has all rounds if threads do not share them.
        """
        dtype = dtype_of(loop.loop_var)
        chunk, within, share = (tirx.Var(name, dtype) for name in ("piece", "within", "share"))
        zero, one, extent = tirx.const(0, dtype), tirx.const(1, dtype), loop.extent.astype(dtype)
        rounds = tirx.truncdiv(extent + (_PIECES - 1), tirx.const(_PIECES, dtype))
        if self.threads is not None:
            rounds = tirx.Select(self.threads, rounds, extent)
        index = tirx.Bind(loop.loop_var, loop.min.astype(dtype) + chunk * share + within)
        left = tirx.min(share, extent - chunk * share)
        inner = tirx.For(within, zero, left, tirx.ForKind.SERIAL, sequence([index, loop.body]))
        count = self._if_shared(tirx.truncdiv(extent + share - one, share), tirx.min(extent, one))
        return tirx.Bind(share, tirx.max(rounds, one)), tirx.For(chunk, zero, count, loop.kind, inner)

    def _if_shared(self, value: PrimExpr, alone: PrimExpr) -> PrimExpr:
        """Return a value that takes long, or ``alone`` where threads do not share the loop."""
        return value if self.threads is None else tirx.if_then_else(self.threads, value, alone)

    def _parallel_loop(self, loop: tirx.For) -> _Polled:
        """Return a parallel loop whose rounds end early when the thread of the call is to stop."""
        words, budget = _declare("shared", _WORDS), _declare("budget")
        thread_share = self._if_shared(tirx.call_extern("int64", self.this_thread), as_expr(0))
        is_owner = tirx.Var("is_owner", "bool")
        is_stopped = tirx.NE(_load(words, _STOPPED), as_expr(0))
        leave = tirx.IfThenElse(is_stopped, tirx.Return(tirx.const(0, "int32")), None)
        stop = _stop_if_asked(_store(words, as_expr(1), _STOPPED))
        ask = [tirx.IfThenElse(is_owner, stop, None), leave]
        thread = _Poller(budget, ask, leave, self.this_thread)
        if (extent := static_int(loop.extent)) is not None:
            body = thread.visit(loop.body, nested=True)
            is_counted = body.asks or body.depth > 0
            if not is_counted and extent * max(body.work, 1) <= _POLL_WORK:
                return _Polled(loop, extent * max(body.work, 1))
        size, loop = self._in_pieces(loop)
        body = thread.visit(loop.body, nested=True)
        first = tirx.Select(is_owner, _load(words, _BUDGET), as_expr(_POLL_WORK))
        rounds = [
            tirx.Bind(is_owner, tirx.EQ(thread_share, _load(words, _OWNER))),
            tirx.AllocBuffer(budget),
            _store(budget, first),
            leave,
            body.statement,
            *thread._spend(body.spent + as_expr(body.work + 1)),
            tirx.IfThenElse(is_owner, _store(words, _load(budget), _BUDGET), None),
        ]
        statements = [
            size,
            tirx.AllocBuffer(words),
            _store(words, as_expr(0), _STOPPED),
            _store(words, _load(self.budget), _BUDGET),
            _store(words, thread_share, _OWNER),
            _with_body(loop, sequence(rounds)),
            _store(self.budget, _load(words, _BUDGET)),
            tirx.IfThenElse(is_stopped, self.leave, None),
        ]
        return _Polled(sequence(statements), asks=True)


def add_polls(function: PrimFunc, *, windows: bool) -> PrimFunc:
    """Return a function, of which loops are final, with polls where it may take long."""
    budget = _declare("budget")
    this_thread = "GetCurrentThreadId" if windows else "pthread_self"
    polled = _Poller(budget, [_stop_if_asked(FAIL)], FAIL, this_thread).visit(function.body)
    if not polled.asks:
        return function
    begin = [tirx.AllocBuffer(budget), _store(budget, as_expr(_POLL_WORK))]
    return function.with_body(sequence([*begin, polled.statement]))


def free_before_leaving(statement: Stmt, frees: Sequence[Stmt] = ()) -> Stmt:
    """Return a statement that frees its memory where it is left; ``frees`` is what does so around it.

    A parallel loop is a function of its own, which frees only what is allocated in it.
    """
    match statement:
        case tirx.Evaluate(value=tvm.ir.Call() as call) if call.op == FAIL.value.op:
            return sequence([*reversed(frees), statement])
        case tirx.Return():
            return sequence([*reversed(frees), statement])
        case tirx.SeqStmt():
            return _free_in_sequence(list(statement.seq), frees)
        case tirx.For():
            # Memory from outside of a parallel loop is freed by the function around it, once.
            own = () if statement.kind == tirx.ForKind.PARALLEL else frees
            return _with_body(statement, free_before_leaving(statement.body, own))
        case tirx.While():
            return tirx.While(statement.condition, free_before_leaving(statement.body, frees))
        case tirx.AttrStmt():
            body = free_before_leaving(statement.body, frees)
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
        case tirx.IfThenElse():
            then = free_before_leaving(statement.then_case, frees)
            other = statement.else_case
            other = None if other is None else free_before_leaving(other, frees)
            return tirx.IfThenElse(statement.condition, then, other)
    return statement


def _free_in_sequence(statements: Sequence[Stmt], around: Sequence[Stmt]) -> Stmt:
    freed = {buffer: call for buffer, call in map(_freed_by, statements) if buffer is not None}
    live: dict[Buffer, Stmt] = {}
    result = []
    allocated = None
    for statement in statements:
        buffer, _ = _freed_by(statement)
        if buffer is not None:
            live.pop(buffer, None)
            result.append(statement)
        else:
            result.append(free_before_leaving(statement, [*around, *live.values()]))
        if allocated is not None:  # the statement leaves the function if there is no memory
            live[allocated] = freed[allocated]
        allocated = statement.buffer if isinstance(statement, tirx.DeclBuffer) else None
        allocated = allocated if allocated in freed else None
    return sequence(result)


def _freed_by(statement: Stmt) -> tuple[Buffer | None, Stmt]:
    """Return the array that a statement frees, if it frees one, and a statement that only does that."""
    call: Any = None
    match statement:
        case tirx.IfThenElse(condition=tirx.NE(a=tvm.ir.Call() as call)) if call.op == _FREE:
            pointer = call.args[2]
        case tirx.Evaluate(value=tvm.ir.Call() as call) if _callee(call) in ("free", "_aligned_free"):
            pointer = call.args[1]
        case _:
            return None, statement
    return pointer.args[0], tirx.Evaluate(call)


def _uses(expr: PrimExpr, variables: Sequence[Var]) -> bool:
    uses = collect(tirx.Var, expr)
    return any(each.same_as(var) for each in uses for var in variables)


def _calls_functions(statement: Stmt) -> bool:
    """Return whether a function of C is called: it takes long, and no vector survives it anyway."""
    calls = collect(tvm.ir.Call, statement)
    names = {getattr(call.op, "name", "").rpartition(".")[2] for call in calls}
    return not names.isdisjoint(_FUNCTIONS)


def _matrix_size(value: PrimExpr) -> PrimExpr | None:
    """Return the size of the matrix that a routine of LAPACK computes with, if a value is its status."""
    calls = collect(tvm.ir.Call, value)
    for call in calls:
        if (_callee(call) or "").startswith(PREFIX):
            size = next(arg for arg in call.args[1:] if str(getattr(arg.ty, "dtype", "")) == "int32")
            return tirx.min(size.astype("int64"), as_expr(_LARGE_MATRIX))
    return None


def _callee(call: Call) -> str | None:
    """Return the name of the function of C that is called, if one is."""
    return call.args[0].value if call.op == _EXTERN else None


def _stop_if_asked(stop: Stmt) -> Stmt:
    return tirx.IfThenElse(tirx.NE(tirx.call_packed(POLL), 0), stop, None)


def _declare(name: str, words: int = 1) -> Buffer:
    return local_array(words, "int64", name)


def _load(words: Buffer, number: int = 0) -> PrimExpr:
    return tirx.BufferLoad(words, [as_expr(number)])


def _store(words: Buffer, value: PrimExpr, number: int = 0) -> Stmt:
    return tirx.BufferStore(words, value, [as_expr(number)])


def _with_body(loop: tirx.For, body: Stmt) -> tirx.For:
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)
