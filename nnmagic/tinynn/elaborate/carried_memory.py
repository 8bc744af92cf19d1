"""Find which lists and arrays the rounds of a loop share, and widen that until it holds for all rounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from nnmagic.tinynn.elaborate.context import HELD, Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import BlockExit
from nnmagic.tinynn.elaborate.shared_memory import LoopMemory
from nnmagic.tinynn.values import values as v


def loop_memory(ctx: Elaboration, carried: Collection[str]) -> LoopMemory:
    """Return what the names that a loop carries may share before it."""
    if not ctx.changes_tensors:
        return LoopMemory(frozenset())
    chain = ctx.environment.chain()
    others = [
        value
        for environment in dict.fromkeys((*chain, *ctx.callers))
        for name, value in environment.bindings.locals.items()
        if environment is not ctx.environment or name not in carried
    ]
    outside = frozenset[object]().union(*(ctx.memory.of_value(value, chain) for value in others))
    return widen_memory(ctx, LoopMemory(outside), carried, ctx.environment.bindings, [])


def widen_memory(
    ctx: Elaboration,
    memory: LoopMemory,
    carried: Collection[str],
    before: v.Bindings,
    rounds: list[BlockExit],
) -> LoopMemory:
    """Return what the rounds share, with what they have joined: the fixpoint is where nothing changes."""
    ends = [exit_.bindings for exit_ in rounds]
    memory = replace(memory, lists=_widen_lists(ctx, memory, carried, before, ends))
    if not ctx.changes_tensors:
        return memory
    chain = ctx.environment.chain()
    tokens_of = partial(ctx.memory.of_value, chain=chain)
    return memory.widen(carried, before, ends, tokens_of, ctx.memory.are_disjoint)


_LIST = (v.TupleOf, v.ListOfRows, v.TableOf)


def _widen_lists(
    ctx: Elaboration,
    memory: LoopMemory,
    carried: Collection[str],
    before: v.Bindings,
    ends: Iterable[v.Bindings],
) -> dict[str, frozenset[object]]:
    """Return which lists the names may be at the beginning of a round."""
    lists: dict[str, frozenset[object]] = dict(memory.lists)
    for bindings in ends:
        left = {
            name: bindings.locals[name] for name in carried if isinstance(bindings.locals.get(name), _LIST)
        }
        others = {name: value for name, value in before.locals.items() if name not in carried}
        for name, value in left.items():
            lists[name] = lists.get(name, frozenset()) | (ctx.identities(value) & {HELD})
            for other, held in {**others, **left}.items():
                if other != name and isinstance(held, _LIST) and ctx.holds(value, held):
                    token = (
                        frozenset[object]((frozenset((name, other)),))
                        if other in left
                        else ctx.identities(held)
                    )
                    for each in {name, other} & left.keys():
                        lists[each] = lists.get(each, frozenset()) | token
    return lists
