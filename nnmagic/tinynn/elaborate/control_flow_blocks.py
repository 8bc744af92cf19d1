"""Hold code with control flow while it is built: blocks of let bindings, each with a terminator.

A terminator is an exit (control goes on, returns, leaves a loop or jumps) or an instruction whose own blocks
end in exits: a conditional branch, a switch, a loop, or a join point, which several exits jump to. When all
exits are known, ``render`` turns a block into one Relay expression.

Join points are functions bound by let (Maurer et al., "Compiling without continuations", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import has_effects
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import Type
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


@dataclass(slots=True)
class CondBranch:
    """``if``."""

    condition: ir.Expr
    then: Block
    other: Block
    span: Span


@dataclass(slots=True)
class Switch:
    """``match``; ``assertion``: of one that is there to fail when no arm takes the value, its message."""

    data: ir.Expr
    arms: list[tuple[ir.Pattern, Block]]
    complete: bool
    span: Span
    assertion: str | None = None


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
        case JoinPoint(first=first, rest=rest):
            yield from exits_of(first)
            yield from _inside(rest)


def may_fail(end: Terminator | None) -> bool:
    """Return whether an assertion stands in it, so that it must run whatever it gives."""
    match end:
        case Switch(assertion=str()):
            return True
        case CondBranch(then=then, other=other):
            return may_fail(then.end) or may_fail(other.end)
        case Switch(arms=arms):
            return any(may_fail(block.end) for _, block in arms)
        case Loop(body=body):
            return may_fail(body.end)
        case JoinPoint(first=first, rest=rest):
            return may_fail(first) or may_fail(rest.end)
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
        case JoinPoint(first=first, rest=rest):
            return may_have_effects(first) or _has_effects(rest)
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


def render(block: Block, result: Type, value_of: Callable[[BlockExit], ir.Expr]) -> ir.Expr:
    """Return a block as one expression of the type ``result``; ``value_of`` gives that of an exit."""
    expr = render_terminator(block.end, result, value_of)
    for variable, value in reversed(block.lets):
        expr = ir.Let(variable, value, expr, span=variable.span)
    return expr


def render_terminator(
    end: Terminator | None, result: Type, value_of: Callable[[BlockExit], ir.Expr]
) -> ir.Expr:
    """Return a terminator as one expression of the type ``result``."""

    def inner(block: Block) -> ir.Expr:
        return render(block, result, value_of)

    match end:
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
        case JoinPoint(first=first, variable=variable, params=params, rest=rest, span=span):
            function = ir.Function(params, inner(rest), result, span=span)
            return ir.Let(variable, function, render_terminator(first, result, value_of), span=span)
    raise AssertionError("a block without an end")
