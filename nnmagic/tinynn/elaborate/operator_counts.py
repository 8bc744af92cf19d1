"""Count the operators that an elaboration computes, and find those whose shapes depend on some variables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from nnmagic.tinynn.elaborate import control_flow_blocks
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.values.values import ClosureValue, Computed, Dimension, TupleOf, Value


class OperatorCount:
    """Counter of the calls in the values of the names, and in what the current block binds."""

    def __init__(self, ctx: Elaboration) -> None:
        self._counted: set[ir.Expr] = set()
        self.count_new(ctx)

    def count_new(self, ctx: Elaboration) -> int:
        """Return the number of calls that were not there before."""
        roots = [value for _, value in ctx.block.lets]
        for value in ctx.environment.bindings.locals.values():
            roots += _expressions_of(value)
        return self._count(roots)

    def count_in(self, end: control_flow_blocks.Terminator | None) -> int:
        """Return the number of calls in the branches of a terminator that were not there before."""
        return self._count([root for _, root in _expressions_in_end(end)])

    def _count(self, roots: Iterable[ir.Expr]) -> int:
        calls = 0
        for root in roots:
            if root not in self._counted:
                nodes = list(post_order(root, skip=self._counted))
                self._counted.update(nodes)
                calls += sum(isinstance(node, ir.Call) for node in nodes)
        return calls


def _expressions_of(value: Value) -> Iterator[ir.Expr]:
    match value:
        case (
            Computed(expr=expr)
            | ClosureValue(function=Computed(expr=expr))
            | Dimension(number=Computed(expr=expr))
        ):
            yield expr
        case TupleOf(items=items):
            for item in items:
                yield from _expressions_of(item)


def has_shapes_of(block: control_flow_blocks.Block, variables: Collection[ir.Var]) -> bool:
    """Return whether a tensor in the block has a size that depends on the values of the variables.

    Sizes that change in the rounds of a loop inside the block do not count.
    """
    dependent: set[ir.Expr] = set(variables)
    changing: set[ir.Expr] = set(_params_of_loops(block.end))
    seen: set[ir.Expr] = set()
    for variable, root in _expressions_in(block):
        for node in post_order(root, skip=seen):
            seen.add(node)
            for kind in (dependent, changing):
                if not kind.isdisjoint(ir.children(node)):
                    kind.add(node)
            sizes = _sizes_of(node) if node in dependent else ()
            if not dependent.isdisjoint(sizes) and changing.isdisjoint(sizes):
                return True
        for kind in (dependent, changing):
            if variable is not None and root in kind:
                kind.add(variable)
    return False


def _params_of_loops(end: control_flow_blocks.Terminator | None) -> Iterator[ir.Var]:
    """Yield the variables that the rounds of loops behind a terminator change."""
    match end:
        case control_flow_blocks.CondBranch(then=then, other=other):
            blocks = [then, other]
        case control_flow_blocks.Switch(arms=arms):
            blocks = [block for _, block in arms]
        case control_flow_blocks.Loop(params=params, body=body):
            yield from params
            blocks = [body]
        case control_flow_blocks.JoinPoint(first=first, rest=rest):
            yield from _params_of_loops(first)
            blocks = [rest]
        case _:
            blocks = []
    for block in blocks:
        yield from _params_of_loops(block.end)


def _sizes_of(node: ir.Expr) -> tuple[ir.Expr, ...]:
    """Return the arguments that say how large a call's result is."""
    match node:
        case ir.Call(op=ir.OpRef(name="arange" | "dyn.zeros"), args=args):
            return tuple(args)
        case ir.Call(op=ir.OpRef(name=name), args=(_, *sizes)) if name.startswith("dyn."):
            return tuple(sizes)
    return ()


def _expressions_in(block: control_flow_blocks.Block) -> Iterator[tuple[ir.Var | None, ir.Expr]]:
    """Yield the expressions of a block, each with the variable that it is bound to, if any."""
    yield from block.lets
    yield from _expressions_in_end(block.end)


def _expressions_in_end(
    end: control_flow_blocks.Terminator | None,
) -> Iterator[tuple[ir.Var | None, ir.Expr]]:
    match end:
        case control_flow_blocks.CondBranch(condition=condition, then=then, other=other):
            yield None, condition
            yield from _expressions_in(then)
            yield from _expressions_in(other)
        case control_flow_blocks.Switch(data=data, arms=arms):
            yield None, data
            for _, block in arms:
                yield from _expressions_in(block)
        case control_flow_blocks.Loop(params=params, start=start, body=body):
            yield from zip(params, start, strict=True)
            yield from _expressions_in(body)
        case control_flow_blocks.JoinPoint(first=first, rest=rest):
            yield from _expressions_in_end(first)
            yield from _expressions_in(rest)
        case _:
            for part in () if end is None else end.args:
                yield None, part
