"""Prove linear inequalities between integers of 64 bits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LEAST, MOST = -(2**63), 2**63 - 1

#: The steps of one proof. Those of loop nests need fewer than 30.
_MOST_STEPS = 100

#: The facts that one proof adds up.
_MOST_FACTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class BoundedSymbol:
    """An integer that is not known, between two bounds."""

    low: int = LEAST
    high: int = MOST


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of symbols, each times an integer, and of a constant; as a fact, that it is not negative."""

    terms: Mapping[BoundedSymbol, int]
    constant: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        terms = dict(self.terms)
        for symbol, factor in other.terms.items():
            terms[symbol] = terms.get(symbol, 0) + factor
        kept = {symbol: factor for symbol, factor in terms.items() if factor}
        return Linear(kept, self.constant + other.constant)

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (-other if isinstance(other, int) else other.times(-1))

    def times(self, factor: int) -> Linear:
        """Return the sum times an integer."""
        if not factor:
            return Linear({})
        return Linear({symbol: term * factor for symbol, term in self.terms.items()}, self.constant * factor)

    def over(self, other: Linear) -> int:
        """Return the positive factor by which the sum is another one; 0 where there is none."""
        pairs = [(self.terms.get(symbol, 0), factor) for symbol, factor in other.terms.items()]
        quotient = next((a // b for a, b in (*pairs, (self.constant, other.constant)) if b), 1)
        return quotient if quotient > 0 and other.times(quotient) == self else 0

    def substitute(self, values: Mapping[BoundedSymbol, Linear]) -> Linear:
        """Return the sum with other sums for some symbols."""
        result = Linear(
            {symbol: factor for symbol, factor in self.terms.items() if symbol not in values}, self.constant
        )
        for symbol, factor in self.terms.items():
            if symbol in values:
                result = result + values[symbol].times(factor)
        return result

    @property
    def key(self) -> tuple[object, ...]:
        """What equal sums have in common, which can be hashed."""
        return frozenset(self.terms.items()), self.constant

    @property
    def low(self) -> int:
        """The least value that the bounds of the symbols allow."""
        least = self.constant
        for symbol, factor in self.terms.items():
            least += factor * (symbol.low if factor > 0 else symbol.high)
        return least

    @property
    def high(self) -> int:
        """The largest value that the bounds of the symbols allow."""
        return -self.times(-1).low


def number(value: int) -> Linear:
    """Return a sum that is a constant."""
    return Linear({}, value)


def of_symbol(symbol: BoundedSymbol) -> Linear:
    """Return a sum that is one symbol."""
    return Linear({symbol: 1})


@dataclass(slots=True)
class Facts:
    """Sums that are not negative, in the order in which they became known.

    bounds: by symbol, and whether its factor is positive, the facts that bound it.
    """

    known: list[Linear] = field(default_factory=list)
    bounds: dict[tuple[BoundedSymbol, bool], list[Linear]] = field(default_factory=dict)

    def add(self, facts: Iterable[Linear]) -> None:
        """Add facts that hold from now on."""
        for fact in facts:
            if fact.terms:
                self.known.append(fact)
                for symbol, factor in fact.terms.items():
                    self.bounds.setdefault((symbol, factor > 0), []).append(fact)

    def forget(self, count: int) -> None:
        """Keep the first facts only, so many."""
        while len(self.known) > count:
            for symbol, factor in self.known.pop().terms.items():
                self.bounds[symbol, factor > 0].pop()

    def prove(self, goal: Linear) -> bool:
        """Return whether a sum is certainly not negative; False where no proof is found.

        Fourier and Motzkin's elimination: a fact that bounds a symbol of the goal is subtracted from it, as
        often as the symbol vanishes. What is left must follow from the bounds of its symbols.
        """
        goal = _divide(goal)
        if goal.low >= 0:
            return True
        # Breadth first: the shortest proof is found first, and one useless fact does not use up all steps.
        work, seen, steps = deque([(goal, 0)]), {goal.key}, 1
        while work:
            goal, used = work.popleft()
            for difference in self._without_symbol(goal) if used < _MOST_FACTS else ():
                if steps == _MOST_STEPS:
                    return False
                steps += 1
                if difference.low >= 0:
                    return True
                # The same remainder is reached by subtracting two facts in either order.
                if (key := difference.key) not in seen:
                    seen.add(key)
                    work.append((difference, used + 1))
        return False

    def _without_symbol(self, goal: Linear) -> Iterable[Linear]:
        """Yield the goal less each fact that bounds its least bounded symbol."""
        bounded = [
            (factor * (symbol.low if factor > 0 else symbol.high), symbol)
            for symbol, factor in goal.terms.items()
            if self.bounds.get((symbol, factor > 0))
        ]
        if bounded:
            # The symbol that lets the goal become most negative is replaced first; others are left to
            # later steps.
            _, symbol = min(bounded, key=lambda pair: pair[0])
            coefficient = goal.terms[symbol]
            for fact in self.bounds[symbol, coefficient > 0]:
                yield _less(goal, abs(fact.terms[symbol]), fact, abs(coefficient))


def _less(goal: Linear, times: int, fact: Linear, factor: int) -> Linear:
    """Return a goal, so many times, less a fact, so many times, and divided.

    An integer is not negative if so many times it is more than so many times -1: of ``2 * q >= a - 1``, where
    q is ``a // 2``, follows that q is not negative if a is not.
    """
    terms = {symbol: term * times for symbol, term in goal.terms.items()}
    for symbol, term in fact.terms.items():
        terms[symbol] = terms.get(symbol, 0) - term * factor
    kept = {symbol: term for symbol, term in terms.items() if term}
    return _divide(Linear(kept, goal.constant * times + times - 1 - fact.constant * factor))


def _divide(goal: Linear) -> Linear:
    """Divide a goal by what its factors have in common: it holds for the same integers."""
    # 2 * i + 1 >= 0 is i >= 0 for integers (a Chvatal-Gomory cut): the constant is divided with
    # rounding down.
    common = math.gcd(*goal.terms.values())
    if common <= 1:
        return goal
    return Linear(
        {symbol: factor // common for symbol, factor in goal.terms.items()}, goal.constant // common
    )
