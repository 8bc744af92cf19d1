"""Registers of native functions as local arrays of one element, and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    FewRounds,
    find_copies,
    find_early_products,
    find_summands,
)
from nnmagic.engine.relax.codegen.aot.heap import POINTER_TO_WORDS
from nnmagic.engine.relax.codegen.aot.wrapped_indices import find_wrapped_indices
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, item_bytes
from nnmagic.engine.relax.tir.strict_float import hidden_zero
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt, Var

#: The TIR function of each native function.
Variables = Mapping[aot.NativeFunction, ir.GlobalVar]


def counts_levels(function: aot.NativeFunction, variables: Variables) -> bool:
    """Return whether a function takes how many calls may be inside of it, as one that calls itself must."""
    return function.parallel is None and any(other.recursive for other in variables)


class RegisterEmitter:
    """Loads and stores what the body of a native function, or of the entry, has in registers.

    Attributes:
        arguments: a value, or an address, for each parameter.
        results: the addresses of the results.
        is_entry: whether a failure is the function's result.
        clocked: the calls of kernels that are timed, in the order of their rows.
        caller: the emitter of the only caller, of whose body this is a part; None for a function.
        targets: where this caller wants the results.
        given: what it gives for the parameters that no round assigns.

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
        caller: RegisterEmitter | None = None,
    ) -> None:
        self.function, self.variables = function, variables
        self.arguments, self.results = arguments, results
        self.is_entry, self.caller = is_entry, caller
        self.targets: Sequence[aot.Register | aot.Storage] = ()
        self.given: dict[object, aot.Value] = {}
        self.copies = find_copies(function)
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
        #: The work of a round of a loop that calls at most such loops: rounds are counted in pieces.
        self.work: int | None = None
        self.declared: list[Stmt] = []
        self.locals: dict[aot.Register | aot.Storage, Buffer] = {}
        self.frame: list[Stmt] = []
        #: The region before which a function that calls itself counts its level and its work.
        self.entered: aot.Region | None = None
        #: Where the next cell begins: a register, which calls of functions hand on in the state.
        self.cells: Buffer | None = None
        #: What ends a round of a loop: it frees the cells that the round made, if no other reads them.
        self.end_of_round: list[Stmt] = []
        self.clocked = clocked
        #: What LLVM must not fuse with the sum that it is part of: what rounds add to one sum,
        #: and products that need not wait for the round before. That sum waits for fewer operations then.
        self.summands = set[aot.Register]()
        if function.loops:
            self.summands = find_summands(function) | find_early_products(function)
        #: The indices that a check counts from the end if they are negative.
        self.wrapped = find_wrapped_indices(function)
        self.from_end: dict[aot.Register, Var] = {}
        #: The arrays of which a loop accesses one element, and what holds it.
        self.elements: dict[aot.Storage, Buffer] = {}
        #: The induction variable of a counted loop, which no round assigns.
        self.counter: aot.Register | None = None
        #: Of a parallel loop: the parameter where a piece of its rounds ends.
        self.stop = tirx.Var("stop", "int64") if function.parallel is not None else None
        #: How many calls may be inside of this one: in a register, as memory would be waited for.
        self.levels: PrimExpr = as_expr(0) if caller is None else caller.levels
        if caller is None and counts_levels(function, variables):
            self.levels = tirx.Var("levels", "int64")

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

    def origin(self, value: object) -> object:
        """Return the register, of this function or one around it, that a value is a copy of."""
        while isinstance(value, aot.Register) and value in self.copies:
            value = self.copies[value]
        return (
            self.caller.origin(self.given[value])
            if self.caller is not None and value in self.given
            else value
        )

    def local(self, value: aot.Register | aot.Storage) -> Buffer:
        """Return the local array of a register or a pointer."""
        if value not in self.locals:
            dtype = value_dtype(value) if isinstance(value, aot.Register) else "int64"
            name = value.name if isinstance(value, aot.Register) else "pointer"
            self.locals[value] = self.new_local(dtype, name)
        return self.locals[value]

    def new_local(self, dtype: str, name: str, size: int = 1) -> Buffer:
        """Declare an array that LLVM keeps in registers."""
        buffer = tirx.decl_buffer((size,), dtype, name, scope="local", data_alignment=item_bytes(dtype))
        # Without this mark, TVM turns the array into a call of its workspace allocator, which
        # LLVM's mem2reg does not promote to a register.
        self.declared.append(tirx.AllocBuffer(buffer, {"disable_lower_builtin": tirx.IntImm("bool", 1)}))
        return buffer

    def _define(self, variable: Var, value: PrimExpr) -> list[Stmt]:
        """Define a size, or an offset, so that TVM's analysis does not put its arithmetic for it."""
        local = self.new_local("int64", variable.name)
        return [store_first(local, value), tirx.Bind(variable, first_of(local))]

    def load(self, value: aot.Value) -> PrimExpr:
        """Return the value of a register or constant, or an address."""
        match value:
            case aot.Immediate(dtype=dtype, value=number):
                # TVM simplifies 0 * x to 0 and x + 0.0 to x, which is wrong for NaN, infinities and
                # -0.0.
                return hidden_zero(number, dtype) if number == 0 else tirx.const(number, dtype)
            case aot.Register(dtype="bool"):
                return tirx.NE(first_of(self.local(value)), tirx.const(0, "int8"))
            case aot.Register() if value in self.summands:
                return self.fenced(first_of(self.local(value)), value.dtype)
            case aot.Register():
                return first_of(self.local(value))
        return self.address(value)

    def fenced(self, value: PrimExpr, dtype: str) -> PrimExpr:
        """Return a float that LLVM does not fuse with the sum that it is part of."""
        fence = f"llvm.arithmetic.fence.{'f32' if dtype == 'float32' else 'f64'}"
        return tirx.call_llvm_pure_intrin(dtype, fence, value)

    def assign(self, target: aot.Register | aot.Storage, value: PrimExpr) -> Stmt:
        """Assign an expression to a register or a pointer."""
        local = self.local(target)
        if dtype_of(local) == "int8" and dtype_of(value) == "bool":
            value = as_byte(value)
        return store_first(local, value)

    def address(self, storage: aot.Storage) -> PrimExpr:
        """Return the address of an array in memory."""
        match storage.kind:
            case "parameter":
                return self.arguments[storage.index]
            case "result":
                return self.results[storage.index]
            case "constant":
                return self.constants[self.first_constant + storage.index]
            case "pointer" | "view":
                return first_of(self.local(storage))
        if storage.copies > 1 or storage.on_heap:
            return first_of(self.local(storage))
        return self.workspace + as_expr(storage.offset)


def as_byte(truth: PrimExpr) -> PrimExpr:
    """Return a truth value as registers and arrays hold it."""
    return tirx.Select(truth, tirx.const(1, "int8"), tirx.const(0, "int8"))


def first_of(buffer: Buffer) -> PrimExpr:
    """Return the first element, which is the only one of a register."""
    return tirx.BufferLoad(buffer, [as_expr(0)])


def store_first(buffer: Buffer, value: PrimExpr) -> Stmt:
    """Store the first element."""
    return tirx.BufferStore(buffer, value, [as_expr(0)])


def store_word(words: Buffer, number: int, value: Index) -> Stmt:
    """Store one of some words."""
    return tirx.BufferStore(words, as_expr(value), [as_expr(number)])


def pointer_to(buffer: Buffer) -> PrimExpr:
    """Return a pointer to the first element."""
    return tirx.address_of(first_of(buffer))


def value_dtype(value: aot.Register | aot.Storage) -> str:
    """Return the dtype of what holds a value: of itself, or of its address."""
    if isinstance(value, aot.Storage):
        return "int64"
    return "int8" if value.dtype == "bool" else value.dtype
