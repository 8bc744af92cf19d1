"""Hold the state of an elaboration: errors, the function at hand, the block being filled, limits and modes.

The functions of the other modules take this context first. What a node means is found in its tables, which
`dispatch` fills, so that a module needs no import of those that elaborate the parts of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from synr import ast

from nnmagic.diagnostics import Diagnostic, Diagnostics, Source, Span
from nnmagic.limits import ITEMS_OF_A_STATEMENT, MAX_TUPLE_SIZE, MAX_WORK
from nnmagic.relay.types import Dim, TensorType, Type
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.live_names import LiveNames
from nnmagic.tinynn.elaborate.optional_values import kept, may_be_none, present
from nnmagic.tinynn.elaborate.shared_memory import SharedMemory, Tokens
from nnmagic.tinynn.namespace.compiled_values import CompiledGlobal
from nnmagic.tinynn.namespace.name_resolution import NameResolver
from nnmagic.tinynn.program import Program, Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import source_text

#: An identity of all lists that tables hold, of which a change is one of the table.
HELD = "held by a table"


class WorkLimitError(Exception):
    """A cell that would take too long to compile; reported where the function begins."""


class BranchNeededError(Exception):
    """A condition that must not be computed where it is not needed: it is worth a branch."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """The functions that elaborate the nodes of the tree, by the class of the node."""

    expressions: Mapping[type, Callable[[Elaboration, ast.Expr], v.Value]]
    statements: Mapping[type, Callable[[Elaboration, ast.Stmt], Terminator | None]]


@dataclass(slots=True)
class PendingFunctions:
    """The functions of the cell whose result type is not known yet; a recursive one needs its own."""

    unfinished: set[str] = field(default_factory=set)
    #: Those of them whose type was asked for.
    awaited: set[str] = field(default_factory=set)
    #: Whether the result type of a recursive function is being inferred.
    inferring: bool = False
    #: The type of each function that has returned Python numbers alone so far.
    weak_results: dict[str, Type] = field(default_factory=dict)


@dataclass(slots=True)
class Growth:
    """A list that grows in a loop. ``before``: its items before it; ``rows``: the name of its tensor.

    ``type``: that of the items, once a round was elaborated.
    """

    name: str
    rows: str
    before: tuple[v.Value, ...]
    type: TensorType | None = None
    #: Of a list of tuples: what they have at each place.
    columns: v.Columns = ()
    #: How deep the items are lists: 0 of arrays, 1 of lists of numbers or of arrays.
    is_table: int = 0
    #: Whether these lists may have other names.
    is_shared: bool = False
    #: Whether a trial is finding the type.
    is_tried: bool = True


class ListNames(NamedTuple):
    """The names that stand for a list: its tensor, its first item, and the one behind its last."""

    rows: str
    begin: str
    end: str


@dataclass(slots=True)
class LoopForms:
    """How the loops of a function are elaborated, and what the elaboration finds out about them.

    Loops are known by the identities of their statements.
    """

    #: Whether loops are unrolled wherever they can be.
    unroll_all: bool = False
    #: Loops with the names that they assign, and that are used after them.
    kept: frozenset[tuple[int, str]] = frozenset()
    #: How many forms of a loop were given up: by the loop, its number of rounds, and the types of its names.
    given_up: dict[tuple[int, int | v.Computed | None, frozenset[tuple[str, object]]], int] = field(
        default_factory=dict
    )
    #: How many rounds, if they are known, the loops inside the one that is elaborated have together.
    rounds_inside: int = 1
    #: Whether a loop became a function that could have been unrolled or begun otherwise.
    functions: bool = False
    #: Names that have no usable value after a loop, with the loop.
    lost: dict[v.Unassigned, tuple[ast.Stmt, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class InlinedFunction:
    """A function that is inlined: its definition, where it was defined, and the functions that it takes."""

    definition: tree.DefinitionNode | tree.Lambda
    environment: v.Environment
    functions: tuple[v.Value, ...] = ()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, InlinedFunction)
            and self.definition is other.definition
            and self.environment is other.environment
            and self.functions == other.functions
        )

    __hash__ = None  # type: ignore[assignment] # nothing looks it up


@dataclass(slots=True)
class RuleInProgress:
    """A function whose gradient rule is being elaborated, for arguments; its rule may call it, too.

    type: that of its result, once it is known.
    """

    function: object
    arguments: Sequence[object]
    name: str
    type: Type | None = None


@dataclass(slots=True)
class Elaboration:
    """The state of the elaboration of one cell."""

    source: Source
    resolver: NameResolver
    nodes: NodeTable
    diagnostics: Diagnostics
    #: Called before and after each statement, in trials too (`trials` says so).
    observe: Callable[[Elaboration, ast.Stmt], None] | None = None
    environment: v.Environment = field(default_factory=lambda: v.Environment(""))
    #: What the imports above the functions of the cell bind.
    imports: dict[str, object] = field(default_factory=dict)
    block: Block = field(default_factory=Block)
    #: The names that are mentioned in what follows the statement at hand, in its function.
    live: LiveNames = field(default_factory=LiveNames)
    pending: PendingFunctions = field(default_factory=PendingFunctions)
    #: What does not stop the compilation, by message and place.
    warnings: dict[tuple[str, Span], Diagnostic] = field(default_factory=dict)
    #: Why names have no usable value, as far as it was reported: once is enough.
    reported: set[v.Unassigned] = field(default_factory=set)
    #: The sources of methods that are inlined, of other files than the cell.
    other_sources: list[Source] = field(default_factory=list)
    #: The methods of the notebook's modules, by the identity of the module and their names.
    methods: dict[tuple[int, str], object] = field(default_factory=dict)
    #: Inlined functions, innermost last.
    inlining: list[InlinedFunction] = field(default_factory=list)
    #: The functions that the inlined bodies were called in.
    callers: list[v.Environment] = field(default_factory=list)
    #: Whether the cell changes tensors in place anywhere: only then does it matter what values share.
    changes_tensors: bool = False
    #: Whether the cell deletes entries of dictionaries anywhere, or members of sets.
    deletes_entries: bool = False
    #: Compiles the cell for one function without types and the arguments of a call.
    specialize: Callable[[Specialization], Program] | None = None
    #: The functions without types that call themselves, and what they were compiled to, by their arguments.
    recursive: frozenset[str] = frozenset()
    instances: dict[object, CompiledGlobal] = field(default_factory=dict)
    #: Of the function at hand, if it is compiled for arguments: its parameters, with the values of those that
    #: are known; the types of the others; and those with which it calls itself.
    own_parameters: dict[str, v.Value | None] = field(default_factory=dict)
    own_arguments: dict[str, Type] = field(default_factory=dict)
    varying: dict[str, Type] = field(default_factory=dict)
    #: The parameters of the function at hand whose arrays it may change without saying so, and does.
    changeable: frozenset[str] = frozenset()
    changing: set[str] = field(default_factory=set)
    #: The expressions, by identity, whose values may be None where they are handed on.
    none_kept: dict[int, ast.Expr] = field(default_factory=dict)
    #: Whether a function of the cell calls Python for its effects.
    has_effects: bool = False
    #: The memory that values may share.
    memory: SharedMemory = field(default_factory=SharedMemory)
    #: The lists and dictionaries that paths left, each with the identities of those that it may be, which are
    #: kept alive: no other value gets their identities.
    merged_lists: dict[int, tuple[tuple[v.Value, ...], frozenset[object]]] = field(default_factory=dict)
    #: The lists inside of arguments that are known when the function is compiled.
    given_lists: tuple[v.Value, ...] = ()
    #: The memory that the results of the function of the cell may share.
    returned: Tokens = frozenset()
    work: int = 0
    #: The part of the work that statements count more because they are differentiated.
    work_of_derivatives: int = 0
    #: How many trials are under way, each inside the one before.
    trials: int = 0
    #: The work at which the unrolling of a loop is given up, and what is raised then; None outside of one.
    unroll_budget: tuple[int, Exception] | None = None
    #: How many loops that are functions have rounds that are being elaborated; and whether lists are rows of
    #: arrays in them, whose items are known by numbers of the call.
    rounds: int = 0
    items_as_rows: bool = False
    #: What is raised where a loop that is being unrolled turns out not to be cheap; None outside of one.
    unrolling: Exception | None = None
    #: How the loops of the function at hand are elaborated.
    loop_forms: LoopForms = field(default_factory=LoopForms)
    #: Whether loops become functions wherever they can: they were too long to be unrolled.
    compact: bool = False
    #: Whether a condition is being tried that may be computed though it is not needed.
    speculating: bool = False
    #: The right side of ``x += y``, as ``x + y``, while it is elaborated.
    updating: ast.Expr | None = None
    #: The names that `z = y` has given to one tensor, by the identity of its expression.
    alike: dict[int, set[str]] = field(default_factory=dict)
    #: The arrays that inlined functions have changed as a whole, with their names there and the places.
    changed_by_calls: list[tuple[v.Computed, str, Span]] = field(default_factory=list)
    #: How many generators of random numbers the functions have made so far.
    generators: int = 0
    #: The states of generators that the function at hand cannot change, since it is compiled for itself.
    frozen: frozenset[str] = frozenset()
    #: The functions of the notebook that stand beside those of the cell.
    beside: dict[str, tree.DefinitionNode] = field(default_factory=dict)
    #: Whether a gradient was asked for anywhere.
    asks_for_gradients: bool = False
    #: The functions whose gradient rules are being elaborated, innermost last.
    rules_in_progress: list[RuleInProgress] = field(default_factory=list)
    #: Whether the shape of an annotation is being read.
    in_shape: bool = False
    #: The range of the parallel loop whose rounds are being elaborated; None outside of one.
    parallel: Span | None = None
    #: The loops that are elaborated in place of others, by the identities of these, which are kept.
    rewritten: dict[object, ast.Stmt] = field(default_factory=dict)
    rewritten_sources: list[ast.Stmt] = field(default_factory=list)
    #: Of the loops among them that change lists: for which lists they are written, and the names for each.
    changing_lists: dict[int, tuple[object, Mapping[str, ListNames]]] = field(default_factory=dict)
    #: The lists that change in loops which are functions, by their functions and their names.
    growing: dict[tuple[v.Environment, str], Growth] = field(default_factory=dict)

    def sizes_of_arrays(self) -> Iterator[Dim]:
        """Yield the sizes of the arrays that names stand for here."""
        for value in self.environment.bindings.locals.values():
            for part in v.parts_of(value):
                if isinstance(part, v.Computed) and isinstance(part.type, TensorType):
                    yield from part.type.shape

    def note_merged_lists(
        self, merged: v.Value, values: Sequence[v.Value], tokens: frozenset[object] = frozenset()
    ) -> None:
        """Note which lists a value may be that paths have left: a change of it is one of theirs."""
        if isinstance(merged, v.ListOfRows | v.TableOf) or (
            isinstance(merged, v.TupleOf) and merged.written != "tuple"
        ):
            identities = tokens.union(*map(self.identities, values))
            for value in values if isinstance(merged, v.TableOf) else ():
                self.hold_lists(value)
            self.merged_lists[id(merged)] = (merged, *values), identities | {id(merged)}
        for index, part in enumerate(merged.items if isinstance(merged, v.TupleOf) else ()):
            tuples = [value.items for value in values if isinstance(value, v.TupleOf)]
            self.note_merged_lists(part, [items[index] for items in tuples if index < len(items)])

    def identities(self, value: v.Value) -> frozenset[object]:
        """Return the identities of the lists that a value may be, with its own."""
        own = {id(value), *([HELD] if getattr(value, "written", "") == "held" else ())}
        return self.merged_lists.setdefault(id(value), ((value,), frozenset(own)))[1]

    def takes_named(self, value: v.Value) -> bool:
        """Return whether lists in a value may have other names, where a list of rows takes them."""
        if isinstance(value, v.TupleOf) and (value.record is not None or value.written == "tuple"):
            return any(map(self.takes_named, value.items))
        if not isinstance(value, v.TupleOf | v.ListOfRows):
            return False
        around = dict.fromkeys((*self.environment.chain(), *self.callers))
        named = any(self.holds(each, value) for at in around for each in at.bindings.locals.values())
        if named or (isinstance(value, v.ListOfRows) and value.is_row):
            self.hold_lists(value)
            return True
        found = [self.takes_named(item) for item in getattr(value, "items", ())]
        return any(found)

    def hold_lists(self, value: v.Value) -> None:
        """Note that a table, or rows, hold the lists in a value: a change of them is one of these."""
        for item in value.items if isinstance(value, v.TupleOf) else ():
            self.hold_lists(item)
        if isinstance(value, v.ListOfRows) or (
            isinstance(value, v.TupleOf) and value.record is None and value.written != "tuple"
        ):
            own = self.identities(value) - {HELD}
            for key, (kept, identities) in self.merged_lists.items():
                if not own.isdisjoint(identities):
                    self.merged_lists[key] = kept, identities | {HELD}

    def holds(self, value: v.Value | None, held: v.Value) -> bool:
        """Return whether a value may be a list or a dictionary, or is a tuple that may hold it."""
        if value is None:
            return False
        if not self.identities(value).isdisjoint(self.identities(held)):
            return True
        return isinstance(value, v.TupleOf) and any(self.holds(item, held) for item in value.items)

    # -- nodes -----------------------------------------------------------------------------------------

    def evaluate(self, expr: ast.Expr) -> v.Value:
        """Return the value of an expression; FAILED, once the error was reported, where it has none."""
        try:
            value = self.nodes.expressions.get(type(expr), _refuse_expression)(self, expr)
            if isinstance(value, v.TupleOf) and may_be_none(value) and id(expr) not in self.none_kept:
                value = present(source_text(self.span(expr.span)), value, self.span(expr.span))
            size = v.size_of(value)
            self.count_work(size // ITEMS_OF_A_STATEMENT)
            if size > MAX_TUPLE_SIZE:
                if v.is_failed(value):
                    return v.FAILED
                v.check_size(value, self.span(expr.span))
        except v.RefusalError as refusal:
            self.report(refusal)
            return v.FAILED
        return value

    def operand(self, expr: ast.Expr, keyword: str | None = None) -> v.Operand:
        """Return the value of an expression with its span."""
        return v.Operand(self.evaluate(expr), self.span(expr.span), keyword)

    def condition(self, expr: ast.Expr) -> v.Operand:
        """Return the value of a condition, which may be None."""
        self.none_kept |= kept(expr)
        return self.operand(expr)

    def execute(self, statement: ast.Stmt) -> Terminator | None:
        """Elaborate a statement in the current block; return how control leaves it, None where it goes on."""
        elaborate = self.nodes.statements.get(type(statement))
        return None if elaborate is None else elaborate(self, statement)

    # -- spans and errors ------------------------------------------------------------------------------

    def warn(self, message: str, span: Span, *, hint: str) -> None:
        """Record a warning, once for its place."""
        self.warnings.setdefault((message, span), Diagnostic(message, span, hint, severity="warning"))

    def note(self, message: str, span: Span, *, hint: str) -> None:
        """Record a line that is good to know, once for its place."""
        self.warnings.setdefault((message, span), Diagnostic(message, span, hint, severity="note"))

    def span(self, span: ast.Span) -> Span:
        """Convert a span of the tree to a span of Relay and of diagnostics."""
        source = self.source
        if self.other_sources and not source.holds(span.filename, span.start_line):
            others = (each for each in self.other_sources if each.holds(span.filename, span.start_line))
            source = next(others, source)
        return Span(span.filename, span.start_line, span.start_column, span.end_line, span.end_column, source)

    def report(self, refusal: v.RefusalError) -> None:
        """Record an error."""
        self.diagnostics.add(refusal.diagnostic)

    def report_depth(self, span: ast.Span) -> None:
        """Record that something needs more recursion than Python allows."""
        self.diagnostics.error(
            "this is nested too deeply", self.span(span), hint="split it into several assignments"
        )

    def count_work(self, amount: int = 1) -> None:
        """Count one more statement or call, or a wide value. Raises WorkLimitError."""
        self.work += amount
        if self.work > MAX_WORK:
            raise WorkLimitError

    @property
    def keeps_order(self) -> bool:
        """Whether calls of functions may have effects, so that their number and order matter."""
        return self.has_effects or self.resolver.linker.has_effects

    # -- blocks ----------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, block: Block, bindings: v.Bindings) -> Iterator[v.Bindings]:
        """Fill another block, with other bindings; restore the block and all bindings afterwards."""
        outer_block = self.block
        saved = [(environment, environment.bindings) for environment in self.environment.chain()]
        for environment, before in saved[1:]:
            environment.bindings = before.copy()
        self.block, self.environment.bindings = block, bindings
        try:
            yield bindings
        finally:
            self.block = outer_block
            for environment, before in saved:
                environment.bindings = before

    @contextmanager
    def inside_round(self) -> Iterator[None]:
        """Elaborate a round of a loop that is a function."""
        self.rounds += 1
        try:
            yield
        finally:
            self.rounds -= 1

    @contextmanager
    def frozen_generators(self, is_state: Callable[[str], bool]) -> Iterator[None]:
        """Elaborate a function that is compiled for itself, and cannot change the generators around it."""
        before = self.frozen
        self.frozen = before | frozenset(filter(is_state, self.environment.names()))
        try:
            yield
        finally:
            self.frozen = before

    @contextmanager
    def trial(self) -> Iterator[Diagnostics]:
        """Elaborate without effect: names, block and errors are as before afterwards."""
        environment = self.environment
        saved = (self.diagnostics, environment.failed, self.live, self.reported)
        self.diagnostics, self.reported = Diagnostics(), set(self.reported)
        self.trials += 1
        try:
            with self.inside(Block(), environment.bindings.copy()):
                yield self.diagnostics
        finally:
            self.trials -= 1
            self.environment = environment
            self.diagnostics, environment.failed, self.live, self.reported = saved


def _refuse_expression(ctx: Elaboration, expr: ast.Expr) -> v.Value:
    raise v.RefusalError("this expression is not part of TinyNN", ctx.span(expr.span))
