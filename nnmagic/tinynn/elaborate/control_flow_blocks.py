"""Code with control flow while it is made: blocks of let bindings, each with what it ends in. Knows the IR.

A block ends in a *leaf* (the code goes on, returns, leaves a loop or jumps) or in an instruction whose own
blocks end in leaves: a fork (``if``), arms (``match``), a loop, or what follows several leaves. When all
leaves are known, ``rendered`` makes one Relay expression of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import Type
from nnmagic.tinynn.values.environments import Env
from nnmagic.tinynn.values.values import Operand


class Exit(Enum):
    """What happens at the end of a block."""

    GOES_ON = auto()
    RETURNS = auto()
    BREAKS = auto()
    CONTINUES = auto()
    #: The same of the loop around it: they stand in the ``else`` of a loop.
    BREAKS_OUTER = auto()
    CONTINUES_OUTER = auto()
    #: The pattern of a case did not take the value: the next case is tried.
    MISSES = auto()
    #: A call of a loop, or of what follows: ``target`` and ``args`` are set.
    JUMPS = auto()


@dataclass(slots=True)
class Leaf:
    """The end of a block. ``env``: the names there; ``value``: of a return."""

    exit: Exit
    span: Span
    env: Env = field(default_factory=Env)
    value: Operand | None = None
    target: ir.Var | None = None
    args: tuple[ir.Expr, ...] = ()


@dataclass(slots=True)
class Fork:
    """``if``."""

    condition: ir.Expr
    then: Block
    other: Block
    span: Span


@dataclass(slots=True)
class Arms:
    """``match``; ``assertion``: of one that is there to fail when no arm takes the value, its message."""

    data: ir.Expr
    arms: list[tuple[ir.Pattern, Block]]
    complete: bool
    span: Span
    assertion: str | None = None


@dataclass(slots=True)
class Loop:
    """A function that calls itself: jumps to ``variable`` inside ``body`` go round."""

    variable: ir.Var
    params: tuple[ir.Var, ...]
    start: tuple[ir.Expr, ...]
    body: Block
    span: Span


@dataclass(slots=True)
class Followed:
    """``first``, whose jumps to ``variable`` go on with ``rest``."""

    first: End
    variable: ir.Var
    params: tuple[ir.Var, ...]
    rest: Block
    span: Span


End = Leaf | Fork | Arms | Loop | Followed


@dataclass(slots=True)
class Block:
    """Let bindings in order, then the end; None while the block is being filled."""

    lets: list[tuple[ir.Var, ir.Expr]] = field(default_factory=list)
    end: End | None = None


def leaves(end: End | None) -> Iterator[tuple[Leaf, Block | None]]:
    """Every leaf with the block that it ends, in source order; None for a leaf that ends none inside."""
    match end:
        case Leaf():
            yield end, None
        case Fork(then=then, other=other):
            yield from _inside(then)
            yield from _inside(other)
        case Arms(arms=arms):
            for _, block in arms:
                yield from _inside(block)
        case Loop(body=body):
            yield from _inside(body)
        case Followed(first=first, rest=rest):
            yield from leaves(first)
            yield from _inside(rest)


def may_fail(end: End | None) -> bool:
    """Whether an assertion stands in it, so that it must be carried out whatever it gives."""
    match end:
        case Arms(assertion=str()):
            return True
        case Fork(then=then, other=other):
            return may_fail(then.end) or may_fail(other.end)
        case Arms(arms=arms):
            return any(may_fail(block.end) for _, block in arms)
        case Loop(body=body):
            return may_fail(body.end)
        case Followed(first=first, rest=rest):
            return may_fail(first) or may_fail(rest.end)
    return False


def _inside(block: Block) -> Iterator[tuple[Leaf, Block | None]]:
    for leaf, inner in leaves(block.end):
        yield leaf, inner or block


def rendered(block: Block, result: Type, value_of: Callable[[Leaf], ir.Expr]) -> ir.Expr:
    """A block as one expression of the type ``result``; ``value_of`` gives that of a leaf."""
    expr = rendered_end(block.end, result, value_of)
    for variable, value in reversed(block.lets):
        expr = ir.Let(variable, value, expr, span=variable.span)
    return expr


def rendered_end(end: End | None, result: Type, value_of: Callable[[Leaf], ir.Expr]) -> ir.Expr:
    """An end as one expression of the type ``result``."""

    def inner(block: Block) -> ir.Expr:
        return rendered(block, result, value_of)

    match end:
        case Leaf(exit=Exit.JUMPS, target=ir.Var() as target, args=args, span=span):
            return ir.Call(target, args, span=span)
        case Leaf():
            return value_of(end)
        case Fork(condition=condition, then=then, other=other, span=span):
            return ir.If(condition, inner(then), inner(other), span=span)
        case Arms(data=data, arms=arms, complete=complete, span=span, assertion=assertion):
            clauses = tuple(ir.Clause(pattern, inner(block)) for pattern, block in arms)
            return ir.Match(data, clauses, complete, assertion, span=span)
        case Loop(variable=variable, params=params, start=start, body=body, span=span):
            function = ir.Function(params, inner(body), result, span=span)
            return ir.Let(variable, function, ir.Call(variable, start, span=span), span=span)
        case Followed(first=first, variable=variable, params=params, rest=rest, span=span):
            function = ir.Function(params, inner(rest), result, span=span)
            return ir.Let(variable, function, rendered_end(first, result, value_of), span=span)
    raise AssertionError("a block without an end")
