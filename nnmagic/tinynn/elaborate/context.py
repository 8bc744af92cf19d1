"""What every part of the elaboration shares: places, errors, the function and the block being filled.

The parts are classes, each over the one before: Core, Expressions, Branches, Loops, Matching, Closures,
Statements, and the Elaborator of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from synr import Transformer, ast

from nnmagic.diagnostics import Diagnostics, Source, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import FuncType, Type
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.namespace.name_resolution import NameResolver
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.environments import Env, Environment
from nnmagic.tinynn.values.values import (
    ClosureValue,
    Computed,
    Dimension,
    LocalFunction,
    Method,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    Value,
    Zipped,
    computed,
)

#: Statements and calls elaborated for one cell, loops written out and bodies inlined; more is an error.
MAX_WORK = 50_000


class WorkLimitError(Exception):  # reported where the function begins
    """A cell that would take for ever to compile."""


class NotSimpleError(Exception):  # a question answered with no
    """A condition that is worth a branch."""


class Core(Transformer):  # type: ignore[misc]  # synr is untyped
    """The state of an elaboration."""

    def __init__(self, source: Source, namespace: Mapping[str, object], found: Diagnostics) -> None:
        self.source = source
        self.found = found
        self.scope = NameResolver(namespace)
        self.frame = Environment("")
        self.block = Block()
        self.in_shape = False
        self.work = 0
        #: The names that stand in what follows the statement at hand, in its function.
        self.live: frozenset[str] = frozenset()
        #: Why names have no usable value, as far as somebody was told: once is enough.
        self.told: set[Unassigned] = set()
        #: The work at which a loop that is being written out is given up; None outside of one.
        self.unroll_budget: int | None = None
        #: Whether loops are functions wherever they can be: they were too long to be written out.
        self.compact = False
        #: Whether a condition is being tried that may be computed though it is not needed.
        self.simple_only = False
        #: Functions of the cell that are not done yet, and those of them whose type was asked for.
        self.unfinished: set[str] = set()
        self.awaited: set[str] = set()
        #: Whether the result type of a recursive function is being looked for.
        self.guessing = False
        #: Of functions that have returned a Python number alone so far, its type.
        self.weak_results: dict[str, Type] = {}
        #: Bodies being put where they are called, innermost last.
        self.inlining: list[object] = []

    # -- places and errors -----------------------------------------------------------------------------

    def place(self, span: ast.Span) -> Span:
        """A span of the tree as a span of Relay and of diagnostics."""
        return Span(
            span.filename, span.start_line, span.start_column, span.end_line, span.end_column, self.source
        )

    def report(self, refusal: RefusalError) -> None:
        """Records an error."""
        self.found.add(refusal.diagnostic)

    def report_depth(self, span: ast.Span) -> None:
        """Records that something needs more recursion than Python allows."""
        self.found.error(
            "this is nested too deeply", self.place(span), hint="split it into several assignments"
        )

    def count_work(self) -> None:
        """One more statement or call. Raises TooMuchWork."""
        self.work += 1
        if self.work > MAX_WORK:
            raise WorkLimitError

    # -- what the parts give each other ----------------------------------------------------------------

    def transform_expr(self, expr: ast.Expr) -> Value:
        """The value of an expression; FAILED, once it was reported, where it has none."""
        raise NotImplementedError

    def transform_type(self, ty: tree.Annotation) -> Type | None:
        """The type that an annotation means, or None where an error was reported. Raises Refusal."""
        raise NotImplementedError

    def sequence(self, steps: Iterable[Callable[[], Terminator | None]]) -> bool:
        """Carries out statements in the current block; False where it got an end."""
        raise NotImplementedError

    def steps(self, statements: Sequence[ast.Stmt]) -> list[Callable[[], Terminator | None]]:
        """Statements, each to be carried out."""
        raise NotImplementedError

    def conditional(self, expr: tree.Conditional) -> Value:
        """``then if condition else other``. Raises Refusal."""
        raise NotImplementedError

    def logical(self, expr: tree.Logical) -> Value:
        """``a and b``, ``a or b``. Raises Refusal."""
        raise NotImplementedError

    def chain(self, expr: tree.Chain) -> Value:
        """``a < b < c``. Raises Refusal."""
        raise NotImplementedError

    def negated(self, operand: Operand, span: Span) -> Value:
        """``not x``. Raises Refusal."""
        raise NotImplementedError

    def comprehension(self, expr: tree.Comprehension) -> Value:
        """``[f(x) for x in items]``. Raises Refusal."""
        raise NotImplementedError

    def lambda_value(self, expr: tree.Lambda) -> Value:
        """``lambda x: body``."""
        raise NotImplementedError

    def inlined(self, function: LocalFunction, operands: list[Operand], callee: Span, span: Span) -> Value:
        """A call of a function whose body is put in its place. Raises Refusal."""
        raise NotImplementedError

    def renewed(self, closure: ClosureValue) -> ClosureValue | None:
        """The closure with what its names stand for now; None where that failed. Raises Refusal."""
        raise NotImplementedError

    def as_function(self, value: Operand, wanted: FuncType) -> Computed:
        """A value as a Relay function of that type. Raises Refusal."""
        raise NotImplementedError

    def type_or_none(self, annotation: tree.Annotation) -> Type | None:
        """The type that an annotation means; None where an error was reported."""
        raise NotImplementedError

    def operand(self, expr: ast.Expr, keyword: str | None = None) -> Operand:
        """An expression's value with its place."""
        return Operand(self.transform_expr(expr), self.place(expr.span), keyword)

    # -- blocks ----------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, block: Block, env: Env) -> Iterator[Env]:
        """Fills another block, with other names; gives back what was there before."""
        frame, before = self.frame, self.block
        envs = [(each, each.env) for each in frame.chain()]
        for each, known in envs[1:]:
            each.env = known.copy()
        self.block, frame.env = block, env
        try:
            yield env
        finally:
            self.block = before
            for each, known in envs:
                each.env = known

    @contextmanager
    def trial(self) -> Iterator[Diagnostics]:
        """Elaborates without effect: names, block and errors are as before afterwards."""
        frame, before = self.frame, (self.found, self.frame.failed, self.live, self.told)
        self.found, self.told = Diagnostics(), set(self.told)
        try:
            with self.inside(Block(), frame.env.copy()):
                yield self.found
        finally:
            self.frame = frame
            self.found, frame.failed, self.live, self.told = before

    # -- values that cross into branches ---------------------------------------------------------------

    def settle(self, names: Iterable[str]) -> None:
        """Binds by let what the names stand for, so that a branch or an inner function can use it."""
        for name in names:
            owner = self.frame.owner(name)
            if owner is not None and name in owner.env.locals:
                owner.env.locals[name] = self.settled(owner.env.locals[name], name, set())

    def settled(self, value: Value, name: str, seen: set[int]) -> Value:
        """The value as one that can be used anywhere below: its expressions are variables or constants."""
        match value:
            case Computed(expr=expr) if not is_atom(expr):
                return self.bound(value, name)
            case Dimension(dim=dim, number=number) if not is_atom(number.expr):
                return Dimension(dim, self.bound(number, name))
            case TupleOf(items=_, whole=Computed() as whole):
                if is_atom(whole.expr):
                    return value  # its items are taken anew wherever it is read
                kept = self.bound(whole, name)
                return computed(kept.expr, kept.type)
            case TupleOf(items=items):
                parts = (self.settled(item, f"{name}_{index}", seen) for index, item in enumerate(items))
                return TupleOf(tuple(parts))
            case Method(receiver=receiver, name=word, callee=callee):
                kept_receiver = self.settled(receiver.value, name, seen)
                return Method(Operand(kept_receiver, receiver.span), word, callee)
            case Zipped(word=word, parts=parts_):
                kept_parts = (Operand(self.settled(part.value, name, seen), part.span) for part in parts_)
                return Zipped(word, tuple(kept_parts))
            case LocalFunction() | ClosureValue():
                return self._settled_function(value, seen)
        return value

    def _settled_function(self, value: LocalFunction | ClosureValue, seen: set[int]) -> Value:
        """A function whose body will be put somewhere below, or made again there: what it takes is bound."""
        if id(value) in seen:
            return value
        seen.add(id(value))
        frame = value.frame
        if frame not in self.frame.chain():  # it has returned: nothing changes its names any more
            frame = replace(frame, env=frame.env.copy())
            value = replace(value, frame=frame)
        for captured in sorted(value.versions):
            if captured in frame.env.locals:
                frame.env.locals[captured] = self.settled(frame.env.locals[captured], captured, seen)
        return value

    def bound(self, value: Computed, name: str) -> Computed:
        """A let binding of a value in the current block."""
        if self.simple_only:
            raise NotSimpleError
        variable = ir.Var(name, span=value.expr.span)
        self.block.lets.append((variable, value.expr))
        return Computed(variable, value.type, value.weak)


def is_atom(expr: ir.Expr) -> bool:
    """Whether an expression may stand in several branches: it is no node that would be computed there."""
    return isinstance(expr, ir.Var | ir.GlobalVar | ir.Constant | ir.Constructor)


def fresh(value: Value) -> Value:
    """The value for one use: the parts of a variable that holds a tuple are taken anew."""
    if isinstance(value, TupleOf) and value.whole is not None and isinstance(value.whole.expr, ir.Var):
        return computed(value.whole.expr, value.whole.type)
    return value
