"""Guess what holds of the integers that a loop carries in all of its rounds: `ranges` proves it, or drops it.

That a number only grows, or only shrinks, stays on its side of another one, or grows in some rounds only, as
a count does. All guesses are assumed at once; those that a round breaks are dropped until none is. (Houdini:
Flanagan and Leino, An annotation assistant for ESC/Java, 2001.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import find_counted_loop, find_steps
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Linear
from nnmagic.engine.relax.codegen.aot.range_evaluator import LIMITS

#: With more numbers that no constant is added to, a loop is asked for bounds of each alone.
_MOST_PAIRED = 6

#: With how many sizes of arrays each is compared.
_MOST_SIZES = 3

#: What is guessed of one parameter, or of two.
Guess: TypeAlias = tuple[str, aot.Register, aot.Register]


@dataclass(slots=True)
class Invariants:
    """What is assumed of the rounds of a loop.

    Attributes:
        symbols: what stands for each parameter in a round.
        assumed: what is not negative, under what was guessed.
        broken: the guesses that some round breaks.
        becomes: for a register, the parameters that it may become in the next round.
        halved: the symbols of what loses a bit in each round; None before the first end of one.
        paced: what has moved in each round, from its start, by no more than an array has elements.
        following: the least and the largest number that each parameter may be in the next round.

    """

    symbols: dict[aot.Register, BoundedSymbol] = field(default_factory=dict)
    assumed: dict[Guess, Linear] = field(default_factory=dict)
    broken: set[Guess] = field(default_factory=set)
    becomes: dict[aot.Value, set[aot.Register]] = field(default_factory=dict)
    halved: set[BoundedSymbol] | None = None
    paced: list[tuple[aot.Register, Linear]] = field(default_factory=list)
    following: dict[aot.Register, tuple[int, int]] = field(default_factory=dict)

    def of(self, param: aot.Register) -> Iterator[tuple[Guess, Linear]]:
        """Yield what is assumed of a parameter."""
        symbol = self.symbols[param]
        return ((guess, fact) for guess, fact in self.assumed.items() if symbol in fact.terms)

    def follow(self, param: aot.Register, value: Linear) -> None:
        """Note what a parameter may be in the next round."""
        low, high = self.following.get(param, (value.low, value.high))
        self.following[param] = min(low, value.low), max(high, value.high)


def narrow(
    limits: dict[aot.Register, tuple[int, int] | None],
    starts: Mapping[aot.Register, Linear],
    invariants: Invariants,
) -> bool:
    """Assume that parameters stay between what they may be at first and in the next round.

    ``limits`` are what was assumed before, None where that failed; what fails now is assumed no more. Return
    whether something changed.
    """
    changed = False
    for param, start in starts.items():
        low, high = invariants.following.get(param, (start.low, start.high))
        low, high = min(low, start.low), max(high, start.high)
        least, most = limits.get(param) or LIMITS[param.dtype]
        if param in limits:
            if limits[param] is not None and (low < least or high > most):
                limits[param], changed = None, True
        elif least < low and high < most:
            limits[param], changed = (low, high), True
    return changed


def guess_invariants(
    function: aot.NativeFunction,
    starts: Mapping[aot.Register, Linear],
    values: Mapping[aot.Register, Linear],
    sizes: Sequence[Linear],
    prove: Callable[[Linear], bool],
) -> Iterator[tuple[Guess, Linear]]:
    """Yield guesses that hold in the first round: ``starts`` are the values in it, ``values`` in any round.

    ``sizes`` are those of arrays that the loop indexes.
    """
    steps = {param: step for param, step in find_steps(function).items() if param in starts}
    is_counted = find_counted_loop(function) is not None  # its limit is known
    for param, step in steps.items():
        grown = values[param] - starts[param]
        yield ("moves", param, param), grown if step > 0 else grown.times(-1)
        if step < 0 and prove(starts[param] + 1):
            yield ("from -1", param, param), values[param] + 1
        if step > 0 and not is_counted:
            yield from _below_sizes(param, values[param], starts[param], sizes, prove)
    others = [param for param in starts if param not in steps]
    for param in others:
        value, start = values[param], starts[param]
        yield ("grows", param, param), value - start
        yield ("shrinks", param, param), start - value
        if prove(start):
            yield ("positive", param, param), value
        if prove(start + 1):
            yield ("from -1", param, param), value + 1
        yield from _below_sizes(param, value, start, sizes, prove)
        for counter in (each for each, step in steps.items() if step == 1):
            yield ("counts", param, counter), values[counter] - starts[counter] - value + start
    if len(others) > _MOST_PAIRED:
        return
    for param in others:
        for other in starts:
            if other is param:
                continue
            for sign, name in ((1, "below"), (-1, "above")):
                if prove((starts[other] - starts[param]).times(sign)):
                    yield (name, param, other), (values[other] - values[param]).times(sign)
                    if other not in steps:
                        yield (f"{name} first", param, other), (starts[other] - values[param]).times(sign)


def _below_sizes(
    param: aot.Register,
    value: Linear,
    start: Linear,
    sizes: Sequence[Linear],
    prove: Callable[[Linear], bool],
) -> Iterator[tuple[Guess, Linear]]:
    """Yield that a parameter stays an index of an array, or one more, as it is in the first round."""
    for number, size in enumerate(sizes[:_MOST_SIZES]):
        for less in (1, 0):
            if prove(size - start - less):
                yield (f"size {number} less {less}", param, param), size - value - less


def find_next(function: aot.NativeFunction) -> dict[aot.Value, set[aot.Register]]:
    """Return the parameters that registers may become in the next round."""
    becomes: dict[aot.Value, set[aot.Register]] = {}
    for step in reversed(list(function.steps())):
        match step:
            case aot.NextRound(assign=aot.Assign(pairs=pairs)):
                for param, value in pairs:
                    if isinstance(param, aot.Register):
                        becomes.setdefault(value, set()).add(param)
            case aot.Assign(pairs=pairs):
                for target, value in pairs:
                    becomes.setdefault(value, set()).update(becomes.get(target, ()))
    return becomes
