"""Hold code with control flow while it is built: blocks of let bindings, each with a terminator.

A terminator is an exit (control goes on, returns, leaves a loop or jumps) or an instruction whose own blocks
end in exits: a conditional branch, a switch, a loop, or a join point, which several exits jump to. When all
exits are known, ``render`` turns a block into one Relay expression.

Join points are functions bound by let (Maurer et al., "Compiling without continuations", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import has_effects
from nnmagic.relay.failures import Failure
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import TensorType, Type
from nnmagic.tinynn.values.values import Bindings, Operand


class ExitKind(Enum):
    """What happens at the end of a block."""

    GOES_ON = auto()
    RETURNS = auto()
    BREAKS = auto()
    CONTINUES = auto()
    #: The same of the loop around it: they stand in the ``else`` of a loop.
    BREAKS_OUTER = auto()
    CONTINUES_OUTER = auto()
    #: The pattern of a case did not take the value: the next case is tried.
    FALLS_THROUGH = auto()
    #: A call of a loop, or of what follows: ``target`` and ``args`` are set.
    JUMPS = auto()
    #: It raises an exception: ``raised`` is set.
    RAISES = auto()


@dataclass(frozen=True, slots=True)
class AssertionGuard:
    """The constructors of the data type of assertions."""

    holds: ir.Constructor
    fails: ir.Constructor


@dataclass(frozen=True, slots=True)
class Raised:
    """What a ``raise`` raises: the call that raises it, and the exception if its message is known."""

    expr: ir.Expr
    failure: Failure | None
    guard: AssertionGuard


@dataclass(slots=True)
class BlockExit:
    """The end of a block. ``bindings``: the names there.

    Of a return: ``value``, and what the arrays that the function changes hold then, ``written``.
    """

    kind: ExitKind
    span: Span
    bindings: Bindings = field(default_factory=Bindings)
    value: Operand | None = None
    written: tuple[Operand, ...] = ()
    target: ir.Var | None = None
    args: tuple[ir.Expr, ...] = ()
    raised: Raised | None = None


@dataclass(slots=True)
class CondBranch:
    """``if``."""

    condition: ir.Expr
    then: Block
    other: Block
    span: Span


@dataclass(slots=True)
class Switch:
    """``match``; ``assertion``: of one that is there to fail when no arm takes the value, what it raises."""

    data: ir.Expr
    arms: list[tuple[ir.Pattern, Block]]
    complete: bool
    span: Span
    assertion: Failure | None = None


@dataclass(slots=True)
class Loop:
    """A function that calls itself: jumps to ``variable`` inside ``body`` go round.

    ``attrs``: how the function is to run.
    """

    variable: ir.Var
    params: tuple[ir.Var, ...]
    start: tuple[ir.Expr, ...]
    body: Block
    span: Span
    attrs: ir.Attrs = field(default_factory=dict)


@dataclass(slots=True)
class JoinPoint:
    """``first``, whose jumps to ``variable`` go on with ``rest``."""

    first: Terminator
    variable: ir.Var
    params: tuple[ir.Var, ...]
    rest: Block
    span: Span


Terminator = BlockExit | CondBranch | Switch | Loop | JoinPoint


@dataclass(slots=True)
class Block:
    """Let bindings in order, then the terminator; None while the block is being filled."""

    lets: list[tuple[ir.Var, ir.Expr]] = field(default_factory=list)
    end: Terminator | None = None


def exits_of(end: Terminator | None) -> Iterator[tuple[BlockExit, Block | None]]:
    """Yield every exit with the block that it ends, in source order; None for one outside of a block."""
    match end:
        case BlockExit():
            yield end, None
        case CondBranch(then=then, other=other):
            yield from _inside(then)
            yield from _inside(other)
        case Switch(arms=arms):
            for _, block in arms:
                yield from _inside(block)
        case Loop(body=body):
            yield from _inside(body)
        case JoinPoint(first=first, rest=tail):
            yield from exits_of(first)
            yield from _inside(tail)


def may_fail(end: Terminator | None) -> bool:
    """Return whether an assertion stands in it, so that it must run whatever it gives."""
    match end:
        case Switch(assertion=Failure()):
            return True
        case CondBranch(then=then, other=other):
            return may_fail(then.end) or may_fail(other.end)
        case Switch(arms=arms):
            return any(may_fail(block.end) for _, block in arms)
        case Loop(body=body):
            return may_fail(body.end)
        case JoinPoint(first=first, rest=tail):
            return may_fail(first) or may_fail(tail.end)
    return False


def may_have_effects(end: Terminator | None) -> bool:
    """Return whether something in it may have effects: calls of Python declared so, or of functions."""
    match end:
        case BlockExit():
            return end.kind is ExitKind.JUMPS
        case CondBranch(then=then, other=other):
            return _has_effects(then) or _has_effects(other)
        case Switch(arms=arms):
            return any(_has_effects(block) for _, block in arms)
        case Loop(body=body):
            return _has_effects(body)
        case JoinPoint(first=first, rest=tail):
            return may_have_effects(first) or _has_effects(tail)
    return False


def _has_effects(block: Block) -> bool:
    nodes = (node for _, value in block.lets for node in post_order(value))
    return may_have_effects(block.end) or any(
        isinstance(node, ir.Call)
        and (has_effects(node) or not isinstance(node.op, ir.OpRef | ir.Constructor))
        for node in nodes
    )


def _inside(block: Block) -> Iterator[tuple[BlockExit, Block | None]]:
    for exit_, inner in exits_of(block.end):
        yield exit_, inner or block


def guard(of: AssertionGuard, condition: ir.Expr, tail: Block, failure: Failure, span: Span) -> Switch:
    """Return what goes on with ``tail`` where a condition holds, and else raises an exception."""
    check = ir.If(condition, ir.Call(of.holds, ()), ir.Call(of.fails, ()), span=span)
    arms: list[tuple[ir.Pattern, Block]] = [(ir.PatternConstructor(of.holds), tail)]
    return Switch(check, arms, complete=False, span=span, assertion=failure)


#: The type of what raises an exception in any case.
RAISES_TYPE = TensorType((), "bool")


class Raising:
    """The parts of a terminator that end in an exception, whatever way control takes."""

    def __init__(self, end: Terminator | None) -> None:
        self._guards: dict[int, AssertionGuard | None] = {}
        self._variables: dict[ir.Var, AssertionGuard] = {}
        self._settle(end)

    def guard_of(self, end: Terminator | None) -> AssertionGuard | None:
        """Return the guard of a part that ends in an exception; None of any other."""
        return self._guards.get(id(end))

    def _settle(self, end: Terminator | None) -> AssertionGuard | None:
        guard: AssertionGuard | None = None
        match end:
            case BlockExit(raised=Raised(guard=guard)):
                pass
            case BlockExit(target=ir.Var() as target):
                guard = self._variables.get(target)
            case CondBranch(then=then, other=other):
                guard = self._all([then, other])
            case Switch(arms=arms):
                guard = self._all([block for _, block in arms])
            case Loop(variable=variable, body=body):
                # A loop that nothing but an exception ends, `while True: ... raise`, must be known
                # before its body is looked at, since jumps in there go to it.
                if (ends := self._guard_of_rounds(end)) is not None:
                    self._variables[variable] = ends
                guard = self._settle(body.end)
            case JoinPoint(first=first, variable=variable, rest=tail):
                if (ends := self._settle(tail.end)) is not None:
                    self._variables[variable] = ends
                guard = self._settle(first)
        self._guards[id(end)] = guard
        return guard

    def _all(self, blocks: Sequence[Block]) -> AssertionGuard | None:
        guards = [self._settle(block.end) for block in blocks]
        return None if None in guards else guards[0]

    def _guard_of_rounds(self, loop: Loop) -> AssertionGuard | None:
        """Return the guard of a loop that only an exception ends."""
        inner, guard = set(_variables_in(loop)), None
        for exit_, _ in exits_of(loop):
            if exit_.raised is not None:
                guard = exit_.raised.guard
            elif exit_.target in self._variables:
                guard = self._variables[exit_.target]
            elif exit_.target not in inner:
                return None
        return guard


def find_raising(end: Terminator | None) -> Raising | None:
    """Return the parts of a terminator that raise exceptions; None where nothing in it does."""
    return Raising(end) if any(exit_.raised is not None for exit_, _ in exits_of(end)) else None


def _variables_in(end: Terminator | None) -> Iterator[ir.Var]:
    """Yield the variables of the loops and the join points in a terminator."""
    match end:
        case CondBranch(then=then, other=other):
            yield from _variables_in(then.end)
            yield from _variables_in(other.end)
        case Switch(arms=arms):
            for _, block in arms:
                yield from _variables_in(block.end)
        case Loop(variable=variable, body=body):
            yield variable
            yield from _variables_in(body.end)
        case JoinPoint(first=first, variable=variable, rest=tail):
            yield variable
            yield from _variables_in(first)
            yield from _variables_in(tail.end)


def render(block: Block, result: Type, value_of: Callable[[BlockExit], ir.Expr]) -> ir.Expr:
    """Return a block as one expression of the type ``result``; ``value_of`` gives that of an exit.

    One that raises an exception in any case is of the type ``RAISES_TYPE``.
    """
    return _render(block, result, value_of, find_raising(block.end))


def render_terminator(
    end: Terminator | None, result: Type, value_of: Callable[[BlockExit], ir.Expr]
) -> ir.Expr:
    """Return a terminator as one expression of the type ``result``."""
    return _render_end(end, result, value_of, find_raising(end))


def _render(
    block: Block, result: Type, value_of: Callable[[BlockExit], ir.Expr], raising: Raising | None
) -> ir.Expr:
    expr = _render_end(block.end, result, value_of, raising)
    # From the inside out: the last let is the innermost.
    for variable, value in reversed(block.lets):
        expr = ir.Let(variable, value, expr, span=variable.span)
    return expr


def _render_end(
    end: Terminator | None, result: Type, value_of: Callable[[BlockExit], ir.Expr], raising: Raising | None
) -> ir.Expr:
    def inner(block: Block) -> ir.Expr:
        return _render(block, result, value_of, raising)

    if raising is not None:
        end = _raise_first(end, value_of, raising)
    match end:
        case BlockExit(raised=Raised(expr=expr)):
            return expr
        case BlockExit(kind=ExitKind.JUMPS, target=ir.Var() as target, args=args, span=span):
            return ir.Call(target, args, span=span)
        case BlockExit():
            return value_of(end)
        case CondBranch(condition=condition, then=then, other=other, span=span):
            return ir.If(condition, inner(then), inner(other), span=span)
        case Switch(data=data, arms=arms, complete=complete, span=span, assertion=assertion):
            clauses = tuple(ir.Clause(pattern, inner(block)) for pattern, block in arms)
            return ir.Match(data, clauses, complete, assertion, span=span)
        case Loop(variable=variable, params=params, start=start, body=body, span=span, attrs=attrs):
            function = ir.Function(params, inner(body), result, attrs=attrs, span=span)
            return ir.Let(variable, function, ir.Call(variable, start, span=span), span=span)
        case JoinPoint(first=first, variable=variable, params=params, rest=tail, span=span):
            raises = raising is not None and raising.guard_of(tail.end) is not None
            type_ = RAISES_TYPE if raises else result
            function = ir.Function(params, _render(tail, type_, value_of, raising), type_, span=span)
            return ir.Let(variable, function, _render_end(first, result, value_of, raising), span=span)
    raise AssertionError("a block without an end")


def _raise_first(
    end: Terminator | None, value_of: Callable[[BlockExit], ir.Expr], raising: Raising
) -> Terminator | None:
    """Return a branch some of whose arms raise an exception as one that goes on where none of them is taken.

    That none is taken is a condition, which raises the exception as it is computed.
    """
    match end:
        case CondBranch(then=then, other=other):
            blocks = [then, other]
        case Switch(arms=arms, assertion=None):
            blocks = [block for _, block in arms]
        case _:
            return end
    guards = [raising.guard_of(block.end) for block in blocks]
    fails = next((each for each in guards if each is not None), None)
    # An `if` all of whose arms raise has no value: what ends in an exception is itself the
    # condition.
    if fails is None or None not in guards:
        return end
    if isinstance(end, CondBranch) and (simple := _as_assertion(end, fails, guards)) is not None:
        return simple
    # Relay has no exceptions: the arm that raises becomes a part of a condition, whose assertion
    # fails as it is computed, and the arms that go on stay as they are.
    always = ir.constant(True, "bool")  # noqa: FBT003
    tests = [
        always if each is None else _render(block, RAISES_TYPE, value_of, raising)
        for block, each in zip(blocks, guards, strict=True)
    ]
    if isinstance(end, CondBranch):
        condition: ir.Expr = ir.If(end.condition, tests[0], tests[1], span=end.span)
        tail = blocks[guards.index(None)]
    else:
        clauses = tuple(
            ir.Clause(_without_variables(pattern) if each is None else pattern, test)
            for (pattern, _), each, test in zip(end.arms, guards, tests, strict=True)
        )
        condition = ir.Match(end.data, clauses, end.complete, span=end.span)
        kept = [arm for arm, each in zip(end.arms, guards, strict=True) if each is None]
        tail = Block(end=replace(end, arms=kept, complete=False))
    return guard(fails, condition, tail, Failure(), end.span)


def _as_assertion(
    end: CondBranch, fails: AssertionGuard, guards: Sequence[AssertionGuard | None]
) -> Switch | None:
    """Return a branch as an assertion if one arm only raises an exception with a known message."""
    failing, tail = (end.then, end.other) if guards[1] is None else (end.other, end.then)
    raised = failing.end.raised if isinstance(failing.end, BlockExit) else None
    if raised is None or raised.failure is None or _has_effects(failing):
        return None
    assert isinstance(failing.end, BlockExit)
    condition = end.condition
    if failing is end.then:
        condition = ir.Call(ir.OpRef("logical_not"), (condition,), span=end.span)
    return guard(fails, condition, tail, raised.failure, failing.end.span)


def _without_variables(pattern: ir.Pattern) -> ir.Pattern:
    """Return a pattern that takes the same values and binds nothing."""
    match pattern:
        case ir.PatternConstructor(patterns=parts) | ir.PatternTuple(patterns=parts):
            return replace(pattern, patterns=tuple(map(_without_variables, parts)))
    return ir.PatternWildcard()
