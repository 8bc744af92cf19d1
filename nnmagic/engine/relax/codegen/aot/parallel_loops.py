"""Run the rounds of a parallel loop on the thread pool, in a fixed number of pieces: calls of its function.

How rounds are divided, and in which order the results of pieces are combined, depends on the number of rounds
alone: results are the same for any number of threads. The first failure is that of the loop run in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import CountedLoop, find_carried, find_counted_loop
from nnmagic.engine.relax.runtime.native_entry import INTERRUPTED
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, item_bytes, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Stmt
from nnmagic.relay.types import NUMPY_DTYPES

#: The pieces of a loop: several for each thread, so that none waits long for another.
PIECES = 64

#: What sums and products of truth values are.
_OF_TRUTHS = {"add": "or", "mul": "and"}

#: The word after the states of the pieces: the first piece that is known to have failed.
_LIMIT_WORD = 0


@dataclass(frozen=True, slots=True)
class PieceMemory:
    """Where the pieces of a loop keep their states and results: ``words`` of 8 bytes for each of them."""

    state_words: int
    results: int

    @property
    def words(self) -> int:
        """The words of a piece: whole lines of the cache, which threads then do not share."""
        line = aot.ALIGNMENT // 8
        return -(-(self.state_words + self.results) // line) * line

    @property
    def nbytes(self) -> int:
        """The bytes of all pieces, and of a word that they share."""
        return 8 * (PIECES * self.words) + aot.ALIGNMENT


def memory_of(function: aot.NativeFunction) -> PieceMemory:
    """Return the memory that a call of a parallel loop needs beside its arrays."""
    return PieceMemory(function.state_words, len(function.results))


def why_serial(function: aot.NativeFunction) -> str | None:
    """Return why the rounds of a loop cannot be divided among threads; None if they can."""
    counted = find_counted_loop(function)
    if counted is None:
        return "its number of rounds is not known before it begins"
    reduced = {function.parameters[number] for number in function.parallel or ()}
    if find_carried(function) - {counted.counter} - reduced:
        return "a round needs what another one computed, or a copy of an array"
    for step in function.steps():
        if not isinstance(step, aot.Exit):
            continue
        for number, result in enumerate(step.results):
            if number not in function.changed and result not in reduced:
                return "it has a result that no reduction gives"
    for callee in aot.with_callees(function):
        if callee.recursive:
            return "a round calls a recursive function"
        if callee.parallel is not None and callee is not function:
            return "it contains another parallel loop"
        if any(isinstance(step, aot.KernelCall | aot.MakeArray | aot.ShapeCheck) for step in callee.steps()):
            return "a round computes whole arrays"
    return None if function.workspace == 0 else "a round computes whole arrays"


def changes_one_element(function: aot.NativeFunction) -> bool:
    """Return whether a loop changes an array of one element or none, which threads need not share."""
    carried = find_carried(function)
    changed = [
        array for param, array in zip(function.parameters, function.arrays, strict=True) if param in carried
    ]
    return any(array.shape and array.is_element for array in changed) or any(
        static_int(dim) == 0 for array in function.results for dim in array.shape
    )


@dataclass(frozen=True, slots=True)
class ParallelCall:
    """A call of a parallel loop, with all values as expressions that do not change.

    ``args``: of the parameters. ``results``: the addresses of the results that are arrays, None for those of
    reductions. ``rest``: the address of the table of constants. ``frame``: the address of the memory.
    """

    callee: aot.NativeFunction
    symbol: ir.GlobalVar
    sizes: Sequence[PrimExpr]
    args: Sequence[PrimExpr]
    results: Sequence[PrimExpr | None]
    constants: PrimExpr
    frame: PrimExpr
    state: Buffer

    def run(self, fail: list[Stmt], words_at: Callable[[str], Buffer]) -> list[Stmt]:
        """Return the statements that run all pieces; ``fail`` ends the caller with the state's failure."""
        memory = memory_of(self.callee)
        counted = find_counted_loop(self.callee)
        assert counted is not None
        first = self.args[self.callee.parameters.index(counted.counter)]
        count, size, more = (tirx.Var(name, "int64") for name in ("count", "size", "more"))
        limit = self._limit(counted)
        shared = words_at("shared")
        left = tirx.Select(first < limit, limit - first, as_expr(0))
        begin = [
            tirx.Bind(count, left),
            tirx.Bind(size, tirx.truncdiv(count, as_expr(PIECES))),
            tirx.Bind(more, tirx.truncmod(count, as_expr(PIECES))),
            tirx.DeclBuffer(shared, data=_pointer(self.frame + as_expr(8 * PIECES * memory.words))),
            tirx.BufferStore(shared, as_expr(PIECES), [as_expr(_LIMIT_WORD)]),
        ]

        def piece(number: PrimExpr) -> Stmt:
            # The first `more` pieces have a round more than the others, so that sizes differ by one
            # at most.
            low = first + number * size + tirx.min(number, more)
            high = low + size + tirx.Select(number < more, as_expr(1), as_expr(0))
            return sequence(self._piece(number, low, high, memory, counted, words_at))

        def look(number: PrimExpr) -> Stmt:
            words = words_at("piece")
            ended = tirx.NE(words[aot.STATUS], as_expr(0))
            copies = [
                tirx.BufferStore(self.state, words[word], [as_expr(word)])
                for word in (aot.DETAIL, aot.DETAIL + 1, aot.STATUS)
            ]
            return sequence(
                [
                    tirx.DeclBuffer(words, data=_pointer(self._piece_address(number, memory))),
                    tirx.IfThenElse(ended, sequence([*copies, *fail]), None),
                ]
            )

        return [*begin, loop("piece", PIECES, piece, tirx.ForKind.PARALLEL), loop("piece", PIECES, look)]

    def _limit(self, counted: CountedLoop) -> PrimExpr:
        if isinstance(counted.limit, aot.Register):
            return self.args[self.callee.parameters.index(counted.limit)]
        return as_expr(int(counted.limit.value))

    def _piece_address(self, number: PrimExpr, memory: PieceMemory) -> PrimExpr:
        return self.frame + number * as_expr(8 * memory.words)

    def _piece(
        self,
        number: PrimExpr,
        low: PrimExpr,
        high: PrimExpr,
        memory: PieceMemory,
        counted: CountedLoop,
        words_at: Callable[[str], Buffer],
    ) -> list[Stmt]:
        """Run the rounds from ``low`` to ``high``, unless a piece before has failed."""
        words, shared = words_at("piece"), words_at("shared")
        address = tirx.Var("piece_address", "int64")
        shared_address = self.frame + as_expr(8 * PIECES * memory.words)
        numbers = {
            aot.WORK: as_expr(1 << 19),
            aot.STOP: shared_address + as_expr(8 * _LIMIT_WORD),
        }
        cleared = [
            tirx.BufferStore(words, numbers.get(word, as_expr(0)), [as_expr(word)])
            for word in range(aot.STATE_WORDS)
        ]
        args = self._piece_arguments(counted, low)
        results = [
            _pointer(address + as_expr(8 * (memory.state_words + position))) if result is None else result
            for position, result in enumerate(self.results)
        ]
        initial = [
            stmt
            for position in self._reduced_results()
            for stmt in self._store_identity(position, results[position])
        ]
        call = ir.Call(
            self.symbol,
            [*self.sizes, *args, *results, address, self.constants, as_expr(0), high],
            ret_ty=ir.PrimType("int32"),
        )
        code = tirx.Var("code", "int32")
        interrupted = tirx.EQ(words[aot.STATUS], as_expr(INTERRUPTED))
        # A failure ends the pieces behind it: one before may fail first in order. An interrupt ends all.
        stop = tirx.Select(interrupted, as_expr(-1), tirx.min(number, shared[_LIMIT_WORD]))
        raised = tirx.BufferStore(words, as_expr(INTERRUPTED), [as_expr(aot.STATUS)])
        run = [
            tirx.Bind(code, call),
            tirx.IfThenElse(tirx.And(code != 0, tirx.EQ(words[aot.STATUS], as_expr(0))), raised, None),
            tirx.IfThenElse(
                tirx.NE(words[aot.STATUS], as_expr(0)),
                tirx.BufferStore(shared, stop, [as_expr(_LIMIT_WORD)]),
                None,
            ),
        ]
        wanted = tirx.And(low < high, number < shared[_LIMIT_WORD])
        return [
            tirx.Bind(address, self._piece_address(number, memory)),
            tirx.DeclBuffer(words, data=_pointer(address)),
            tirx.DeclBuffer(shared, data=_pointer(shared_address)),
            *cleared,
            *initial,
            tirx.IfThenElse(wanted, sequence(run), None),
        ]

    def _piece_arguments(self, counted: CountedLoop, low: PrimExpr) -> list[PrimExpr]:
        """Return the arguments of a piece that begins at ``low``, with the identities of reductions."""
        args = list(self.args)
        args[self.callee.parameters.index(counted.counter)] = low
        for position in self.callee.parallel or ():
            param = self.callee.parameters[position]
            assert isinstance(param, aot.Register)
            args[position] = identity(self._operator(position), param.dtype)
        return args

    def _reduced_results(self) -> list[int]:
        return [position for position, result in enumerate(self.results) if result is None]

    def operator_of(self, result: int) -> tuple[int, str]:
        """Return the parameter that a result reduces to, and its operator."""
        for step in self.callee.steps():
            if isinstance(step, aot.Exit):
                position = self.callee.parameters.index(step.results[result])  # type: ignore[arg-type]  # `why_serial` says so
                return position, self._operator(position)
        raise AssertionError("a loop without an end")

    def _operator(self, position: int) -> str:
        operator = (self.callee.parallel or {})[position]
        is_truth = self.callee.arrays[position].dtype == "bool"
        return _OF_TRUTHS.get(operator, operator) if is_truth else operator

    def _store_identity(self, result: int, pointer: PrimExpr) -> list[Stmt]:
        position, operator = self.operator_of(result)
        param = self.callee.parameters[position]
        assert isinstance(param, aot.Register)
        value = identity(operator, param.dtype)
        stored = "int8" if param.dtype == "bool" else param.dtype
        view = tirx.decl_buffer((1,), stored, "partial", data_alignment=item_bytes(stored))
        return [tirx.DeclBuffer(view, data=pointer), tirx.BufferStore(view, value, [as_expr(0)])]

    def reduce(self, result: int, total: Buffer) -> list[Stmt]:
        """Return the statements that combine a value with the results of the pieces, in their order."""
        memory = memory_of(self.callee)
        position, operator = self.operator_of(result)
        dtype = str(total.ty.dtype)
        view = tirx.decl_buffer((1,), dtype, "partial", data_alignment=item_bytes(dtype))

        def add(number: PrimExpr) -> Stmt:
            address = self._piece_address(number, memory) + as_expr(8 * (memory.state_words + result))
            combined = combine(operator, total[0], view[0])
            return sequence(
                [
                    tirx.DeclBuffer(view, data=_pointer(address)),
                    tirx.BufferStore(total, combined, [as_expr(0)]),
                ]
            )

        return [
            # The value before the loop is added once, here: pieces begin with the identity.
            tirx.BufferStore(total, self.args[position], [as_expr(0)]),
            loop("piece", PIECES, add),
        ]


def identity(operator: str, dtype: str) -> PrimExpr:
    """Return what changes nothing as an operand of a reduction."""
    stored = "int8" if dtype == "bool" else dtype
    if operator in ("max", "min"):
        least = operator == "max"
        if dtype.startswith("float"):
            return tirx.const(-np.inf if least else np.inf, dtype)
        if dtype == "bool":
            return tirx.const(int(not least), stored)
        bounds = _integers(dtype)
        return tirx.const(bounds[0] if least else bounds[1], dtype)
    if operator == "and":
        ones = 1 if dtype == "bool" else _integers(dtype)[1] if dtype.startswith("u") else -1
        return tirx.const(ones, stored)
    if operator == "mul":
        return tirx.const(1, stored)
    # -0.0 + x is x for every x; 0.0 + -0.0 would be 0.0 (IEEE 754).
    return tirx.const(-0.0 if dtype.startswith("float") else 0, stored)


def _integers(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a dtype."""
    bits = 8 * NUMPY_DTYPES[dtype].itemsize
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def combine(operator: str, lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return a reduction of two values, as the operator of a round computes it."""
    match operator:
        case "add":
            return _wrap(lhs, rhs, tirx.Add)
        case "mul":
            return _wrap(lhs, rhs, tirx.Mul)
        case "max":
            return tirx.Select(tirx.Or(lhs > rhs, _is_nan(lhs)), lhs, rhs)
        case "min":
            return tirx.Select(tirx.Or(lhs < rhs, _is_nan(lhs)), lhs, rhs)
        case "and":
            return tirx.bitwise_and(lhs, rhs)
        case "or":
            return tirx.bitwise_or(lhs, rhs)
    return tirx.bitwise_xor(lhs, rhs)


def _is_nan(value: PrimExpr) -> PrimExpr:
    return tirx.isnan(value) if dtype_of(value).startswith("float") else tirx.const(0, "bool")


def _wrap(lhs: PrimExpr, rhs: PrimExpr, operator: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> PrimExpr:
    from nnmagic.engine.relax.codegen.aot.wrapping import wrap_integers

    return wrap_integers(operator(lhs, rhs))


def _pointer(address: PrimExpr) -> PrimExpr:
    return tirx.reinterpret("handle", address)
