"""Define AOT programs: native functions of structured steps, over registers and memory.

A program is what TVM's AOT executor runs (static-shape dataflow with planned memory and one entry), extended
by sizes that only a call knows, branches, loops and calls. A value of one element lives in a register.
Other values have storage: bytes of an argument, of a constant, of a result or of the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import ir, tirx

from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, PrimFunc
from nnmagic.engine.relax.tir.types import Var as TirVar
from nnmagic.relay.types import NUMPY_DTYPES

#: Of the workspace and what is in it, in bytes: a vector register's, and a line's of the cache.
ALIGNMENT = 64

#: The bytes of the first levels of a function that is two loops: most functions call themselves a few times.
FIRST_LEVELS = 1 << 10


@dataclass(frozen=True, slots=True)
class Array:
    """A dtype and a shape, whose sizes are static or expressions of a function's dimensions."""

    dtype: str
    shape: tuple[Extent, ...]

    @property
    def nbytes(self) -> Extent:
        """The size in bytes."""
        return math.prod(self.shape, start=NUMPY_DTYPES[self.dtype].itemsize)

    @property
    def is_element(self) -> bool:
        """Return whether there is exactly one element."""
        return all(static_int(dim) == 1 for dim in self.shape)


@dataclass(slots=True, eq=False)
class Register:
    """One element that a register holds. ``name`` is a hint."""

    dtype: str
    name: str = "value"


@dataclass(slots=True, eq=False)
class Immediate:
    """One element that is known at compile time, which is the constant of the number ``index``, too."""

    dtype: str
    value: float | int | bool
    index: int


@dataclass(slots=True, eq=False)
class Storage:
    """The bytes of a value.

    Attributes:
        kind: ``parameter``, ``constant``, ``result``, ``temporary`` (a piece of the workspace), ``pointer``
            (what was chosen at run time from ``sources``, and what a loop carries) or ``view`` (a part of
            ``sources``, which is only read).
        index: the number of the parameter, constant or result.
        nbytes: the size in bytes.
        offset: the first byte of a temporary in the workspace.
        sources: what a pointer may point to.
        copies: how many pieces of this size a temporary has: pointers of a loop may still hold the values
            of rounds before.
        on_heap: whether memory is allocated for a temporary when it is written, as nothing bounds its size
            before.

    """

    kind: str
    index: int
    nbytes: Extent
    offset: Extent = 0
    sources: list[Storage] = field(default_factory=list)
    copies: int = 1
    holders: list[Storage] = field(default_factory=list)
    on_heap: bool = False


Value: TypeAlias = Register | Immediate | Storage


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel: the values that it reads, then those that it writes; the sizes that it takes.

    joined: the prepared kernel, where it becomes a part of the function instead. span: of the expression.
    """

    kernel: ir.GlobalVar
    args: tuple[Value, ...]
    reads: int
    sizes: tuple[PrimExpr, ...] = ()
    work: Extent = 0
    joined: PrimFunc | None = None
    span: ir.Span | None = None


@dataclass(frozen=True, slots=True)
class StoreElement:
    """A store of one element, computed in registers: ``buffer[indices] = value`` in ``storage``."""

    storage: Storage
    buffer: Buffer
    indices: tuple[Index, ...]
    value: PrimExpr
    values: dict[Buffer, Value]
    sizes: dict[TirVar, PrimExpr]
    span: ir.Span | None = None


@dataclass(frozen=True, slots=True)
class CopyArray:
    """A copy of an array, which a function may change."""

    source: Storage
    target: Storage
    nbytes: Extent


@dataclass(frozen=True, slots=True)
class MakeArray:
    """Take memory for an array, whose elements are what was there before."""

    target: Storage


@dataclass(frozen=True, slots=True)
class PointAt:
    """Point at an element of an array, ``buffer[indices]`` in ``source``, and what follows it."""

    target: Storage
    source: Storage
    buffer: Buffer
    indices: tuple[Index, ...]
    values: dict[Buffer, Value]
    sizes: dict[TirVar, PrimExpr]


@dataclass(frozen=True, slots=True)
class ScalarCode:
    """A kernel of single elements, computed in registers: its stages, and the value of each buffer."""

    stages: tuple[Stage, ...]
    values: dict[Buffer, Value]
    sizes: dict[TirVar, PrimExpr]
    reads: tuple[Value, ...]
    span: ir.Span | None = None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a native function, which takes ``frame`` as its workspace.

    Results that are arguments, which the function changes, are not written by it. ``result_dims`` name the
    sizes that it measures.
    """

    callee: NativeFunction
    sizes: tuple[PrimExpr, ...]
    args: tuple[Value, ...]
    results: tuple[Register | Storage, ...]
    frame: Storage
    result_dims: tuple[TirVar, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign:
    """Assign values to registers and pointers, all at once."""

    pairs: tuple[tuple[Register | Storage, Value], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Run one of two regions."""

    condition: Register | Immediate
    then: Region
    other: Region


@dataclass(frozen=True, slots=True)
class Check:
    """Fail unless a condition holds.

    Attributes:
        number: the position in the program's ``failures``.
        condition: a truth value, or an expression of sizes.
        index: an index that must lie in ``range(size)`` instead.
        report: instead two int64: whether some index is out of the range, and that index.

    """

    number: int
    condition: Register | Immediate | PrimExpr | None = None
    index: Register | Immediate | None = None
    report: Storage | None = None
    size: PrimExpr | None = None
    span: ir.Span | None = None


@dataclass(frozen=True, slots=True)
class ShapeCheck:
    """Ask for a check of an operator's shapes, once for each combination: ``sizes`` are their dimensions.

    fit: a condition under which they certainly fit.
    """

    key: str
    fit: PrimExpr
    ranks: tuple[int, ...]
    sizes: tuple[PrimExpr, ...]
    record: int


@dataclass(frozen=True, slots=True)
class NameSizes:
    """Name sizes that values decide: the elements of a vector of int64, each at most ``most``."""

    dims: tuple[TirVar, ...]
    vector: Register | Immediate | Storage
    most: Extent | None = None


@dataclass(frozen=True, slots=True)
class DefineSize:
    """Name a size that is an expression of others."""

    dim: TirVar
    size: PrimExpr


@dataclass(frozen=True, slots=True)
class NextRound:
    """Begin a loop's next round; the assignments are those of its parameters, and of sizes that change."""

    assign: Assign
    sizes: tuple[tuple[TirVar, PrimExpr], ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """End the function with these results; ``sizes``: of its ``result_dims``."""

    results: tuple[Value, ...]
    sizes: tuple[PrimExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class MakeCell:
    """Make a cell, a value of a data type, and put its address into a register.

    fields: the words where values begin, the values, and the bytes of those in memory. apart: the words that
    refer to the cells of the others, the values, and their bytes. sizes: words of sizes, with these.
    """

    target: Register
    header: int
    length: int
    fields: tuple[tuple[int, Value, Extent], ...]
    apart: tuple[tuple[int, Value, Extent], ...] = ()
    sizes: tuple[tuple[int, Extent], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadCell:
    """Read the word ``offset`` of a cell, or point there; the tag of a value where that is None.

    is_apart: whether the word refers to another cell, in which the target is.
    """

    target: Register | Storage
    cell: Register | Immediate
    offset: int | None
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class CloseCells:
    """Copy all cells that some values reach to memory that Python reads; ``size`` are its words."""

    target: Storage
    size: Register
    roots: tuple[Register | Immediate, ...]


@dataclass(frozen=True, slots=True)
class LinearRecursion:
    """The only call of a function in itself.

    path: the regions around it, the outermost first, each with the position of the step that contains it.
    saved: the registers and addresses that are read after it, and were there before.
    """

    call: FunctionCall
    path: tuple[tuple[Region, int], ...]
    saved: tuple[Register | Storage, ...] = ()

    def before(self) -> Iterator[Step]:
        """Yield the steps before the call."""
        for region, position in self.path:
            yield from steps_of(region[:position])

    def after(self) -> Iterator[Step]:
        """Yield the steps after the call, in their order."""
        for region, position in reversed(self.path):
            yield from region[position + 1 :]


Step: TypeAlias = (
    KernelCall
    | ScalarCode
    | StoreElement
    | CopyArray
    | MakeArray
    | PointAt
    | FunctionCall
    | Assign
    | Branch
    | Check
    | ShapeCheck
    | NameSizes
    | DefineSize
    | MakeCell
    | ReadCell
    | CloseCells
    | NextRound
    | Exit
)
Region: TypeAlias = list[Step]


@dataclass(slots=True, eq=False)
class NativeFunction:
    """A native function.

    Attributes:
        name: unique in the program.
        dims: the dimensions that it takes, before its parameters.
        parameters: what its arguments become.
        arrays: the dtypes and shapes of the parameters.
        results: the dtypes and shapes of the results.
        result_registers: the dtype of each result that is a single element in a register, else None.
        body: its steps; every path ends with an ``Exit`` or a ``NextRound``.
        loops: whether it calls itself at its end, which is a loop.
        is_short: whether it is a loop that certainly ends after a few rounds, each of plain steps.
        paced_by: of a loop of plain steps, what grows or shrinks in each round, for no longer than an array.
        counts_rounds: whether these calls count as recursion, all the same.
        recursive: whether it calls itself elsewhere, perhaps through others; its frame is then allocated at
            each call.
        recursion: its call of itself, if that is the only one and the function is two loops; it is not
            ``recursive`` then.
        saved: the first word of the state where a loop saves its registers.
        workspace: the bytes that it needs.
        changed: the results that are parameters which it changes, with the numbers of these.
        parallel: of a loop whose rounds threads share: the parameters that it reduces to, each with the
            operator; else None. state_words: then, the words of the program's state.
        is_kernel: whether it stays a function of its own, which is shown.
        named: the sizes that steps name, each with the most that it can be, of which the workspace has
            room; None as long as that is not found.
        exact: those of them that only other sizes decide.
        extents: the sizes of arrays in terms of its dimensions, which may be what ``named`` can be at most.
        counts: the numbers of elements of such arrays that have several dimensions.
        result_dims: the sizes of results that it measures: each exit states them.
        carried_dims: the dimensions that the rounds of a loop change.
        left: the results of an entry that it leaves where they are. ``results`` are the others then, and a
            vector of the addresses and sizes of these; ``all_results`` are all.

    """

    name: str
    dims: list[TirVar]
    parameters: list[Register | Storage]
    arrays: list[Array]
    results: list[Array]
    result_registers: list[str | None]
    body: Region = field(default_factory=list)
    loops: bool = False
    is_short: bool = False
    paced_by: Register | None = None
    counts_rounds: bool = False
    recursive: bool = False
    recursion: LinearRecursion | None = None
    saved: int = 0
    workspace: Extent = 0
    changed: dict[int, int] = field(default_factory=dict)
    parallel: dict[int, str] | None = None
    state_words: int = 0
    is_kernel: bool = False
    pointers: list[Storage] = field(default_factory=list)
    chunks: list[tuple[PrimExpr, PrimExpr]] = field(default_factory=list)
    named: dict[TirVar, Extent | None] = field(default_factory=dict)
    exact: set[TirVar] = field(default_factory=set)
    extents: dict[object, Extent] = field(default_factory=dict)
    counts: dict[object, Extent] = field(default_factory=dict)
    all_results: list[Array] = field(default_factory=list)
    result_dims: list[TirVar] = field(default_factory=list)
    carried_dims: set[TirVar] = field(default_factory=set)
    left: list[int] = field(default_factory=list)

    def result_bytes(self, number: int) -> Extent:
        """Return the bytes of a result."""
        return (self.all_results or self.results)[number].nbytes

    def measured_results(self) -> list[int]:
        """Return the numbers of the results whose sizes it measures, for which its caller has no memory."""
        return self.left or [
            number
            for number, array in enumerate(self.results)
            if any(not isinstance(dim, int) and dim in self.result_dims for dim in array.shape)
        ]

    def unbounded(self) -> set[TirVar]:
        """Return the sizes of which nothing is known before they are computed."""
        unbounded = set(self.carried_dims)
        for dim, limit in self.named.items():
            if limit is None or (
                not isinstance(limit, int)
                and any(var in unbounded for var in tirx.analysis.undefined_vars(tirx.Evaluate(limit)))
            ):
                unbounded.add(dim)
        return unbounded

    def steps(self) -> Iterator[Step]:
        """Yield all steps, those of branches after the branch itself."""
        yield from steps_of(self.body)


def with_callees(function: NativeFunction) -> Iterator[NativeFunction]:
    """Yield a function, and all functions that it calls, itself or through others."""
    work, seen = [function], {function}
    while work:
        each = work.pop()
        yield each
        for step in each.steps():
            if isinstance(step, FunctionCall) and step.callee not in seen:
                seen.add(step.callee)
                work.append(step.callee)


def regions_of(region: Region) -> Iterator[Region]:
    """Yield a region and those of its branches."""
    yield region
    for step in region:
        if isinstance(step, Branch):
            yield from regions_of(step.then)
            yield from regions_of(step.other)


def steps_of(region: Region) -> Iterator[Step]:
    """Yield all steps of a region, those of branches after the branch itself."""
    for step in region:
        yield step
        if isinstance(step, Branch):
            yield from steps_of(step.then)
            yield from steps_of(step.other)


#: The words of a call's state: how it ended, two details of a failure, the work until the next poll for
#: interrupts, the most calls inside of calls, the address of the times, whether CPython makes the call
#: directly, the address of a word that is negative when the threads of a loop are to stop, or 0, the
#: address of the block of memory that was allocated last; where the next cell begins, where the memory for
#: cells ends, its address and its size; then records of shapes that were checked.
STATUS, DETAIL, WORK, LEVELS, CLOCK, DIRECT, STOP, HEAP = 0, 1, 3, 4, 5, 6, 7, 8
CELLS, CELLS_END, CELL_BLOCK = 9, 10, 11
STATE_WORDS = 13


def kernel_sizes(kernel: PrimFunc) -> list[TirVar]:
    """Return the sizes that a kernel takes: its parameters that are no buffers, then dimensions of these."""
    sizes: dict[TirVar, None] = {}
    for param in kernel.params:
        if not isinstance(param.ty, tirx.BufferType):
            sizes[param] = None
    for param in kernel.params:
        if isinstance(param.ty, tirx.BufferType):
            sizes |= {dim: None for dim in param.ty.shape if isinstance(dim, tirx.Var)}
    return list(sizes)


def static_or_expr(dim: PrimExpr) -> Extent:
    """Return a dimension as an ``int`` if it is static."""
    return int(dim.value) if isinstance(dim, tirx.IntImm) else dim
