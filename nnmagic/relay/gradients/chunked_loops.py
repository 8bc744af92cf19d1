"""Divide loops into chunks of rounds, so that a gradient keeps a value of each chunk alone.

The rounds of a chunk are computed again when the backward pass comes to it: the memory is that of as many
values as there are chunks, and as many as a chunk has rounds (Griewank and Walther 2008, chapter 12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnmagic.relay import expr as ir
from nnmagic.relay.gradients.blocks import type_of
from nnmagic.relay.ops.calls import call
from nnmagic.relay.passes.rewriting import copy_graph
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.structure.tuple_trees import items
from nnmagic.relay.types import TensorType, TupleType


def chunk_loops(function: ir.Function, rounds: int) -> ir.Function:
    """Return a typed function whose local loops run in chunks of so many rounds."""

    def transform(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if isinstance(new, ir.Let) and isinstance(new.value, ir.Function):
            chunk = _chunk(new.var, new.value, rounds)
            if chunk is not None:
                var, value, loop = chunk
                return ir.Let(var, value, ir.Let(new.var, loop, new.body, span=new.span), span=new.span)
        return new

    return rewrite(function, transform)


def _chunk(
    loop: ir.Var, function: ir.Function, rounds: int
) -> tuple[ir.Var, ir.Function, ir.Function] | None:
    """Return the function of a chunk, which gives the parameters of the next, and the loop over chunks."""
    span, count = function.span, len(function.params)
    if not count or not _calls_itself_at_its_end(loop, function.body):
        return None
    types = tuple(map(type_of, function.params))
    # A chunk gives back the loop's whole state: nothing else of its rounds is kept.
    kept = TupleType(types) if count > 1 else types[0]
    place = ir.Var("place", TensorType((), "int64"), span=span)
    chunk = ir.Var(f"{loop.name_hint}_chunk", span=span)
    further = call("add", [place, ir.constant(1, "int64", span=span)], span)
    own = copy_graph(function)
    end: ir.Expr = own.params[0] if count == 1 else ir.Tuple(own.params, span=span)
    inner = _with_ends(
        own.body,
        loop,
        lambda again: ir.Call(chunk, (*again.args, further), span=again.span),
        lambda _result: end,
    )
    more = call("less", [place, ir.constant(rounds, "int64", span=span)], span)
    made = ir.Function((*own.params, place), ir.If(more, inner, end, span=span), kept, span=span)

    def run_chunk(again: ir.Call) -> ir.Expr:
        after = ir.Var("after", kept, span=again.span)
        first = ir.Call(chunk, (*function.params, ir.constant(0, "int64", span=span)), span=again.span)
        return ir.Let(
            after, first, ir.Call(loop, tuple(items(after, count)), span=again.span), span=again.span
        )

    outer = _with_ends(function.body, loop, run_chunk, lambda result: result)
    return chunk, made, ir.Function(function.params, outer, function.ret_type, span=span)


def _calls_itself_at_its_end(loop: ir.Var, body: ir.Expr) -> bool:
    """Return whether a function calls itself, and does so at its end only."""
    ends = set[ir.Call]()

    def note(again: ir.Call) -> ir.Expr:
        ends.add(again)
        return again

    _with_ends(body, loop, note, lambda result: result)
    uses = sum(child is loop for node in post_order(body) for child in ir.children(node))
    # A mention elsewhere, as an argument or under another call, needs the function to stay one
    # round.
    return 0 < uses == len(ends)


def _with_ends(
    expr: ir.Expr, loop: ir.Var, again: Callable[[ir.Call], ir.Expr], result: Callable[[ir.Expr], ir.Expr]
) -> ir.Expr:
    """Return the body of a function with other expressions at its ends: calls of itself, and results."""
    lets = []
    while isinstance(expr, ir.Let):
        lets.append(expr)
        expr = expr.body
    match expr:
        case ir.If(true_branch=yes, false_branch=no):
            parts = (_with_ends(part, loop, again, result) for part in (yes, no))
            expr = ir.If(expr.cond, *parts, span=expr.span)
        case ir.Match(clauses=clauses):
            new = tuple(
                replace(clause, rhs=_with_ends(clause.rhs, loop, again, result)) for clause in clauses
            )
            expr = replace(expr, clauses=new, checked_type=None)
        case ir.Call(op=op) if op is loop:
            expr = again(expr)
        case _:
            expr = result(expr)
    for let in reversed(lets):
        expr = ir.Let(let.var, let.value, expr, span=let.span)
    return expr
