"""Evaluate expressions of TIR by intervals: from the ranges of variables to those of values.

Interval arithmetic (Moore, 1966) over the sizes and counters of loops (Harrison, 1977).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.linear import LEAST, MOST, BoundedSymbol, Linear, number, of_symbol
from nnmagic.engine.relax.tir.builders import dtype_of, is_conditional
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import collect, rewrite

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.aot.symbols import Symbols


#: The least and the largest integer of the dtypes that are followed.
LIMITS = {f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)}
LIMITS |= {f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Truth:
    """A truth value: facts that hold where it is true, and facts that hold where it is false."""

    when: tuple[Linear, ...]
    unless: tuple[Linear, ...]

    def negated(self) -> Truth:
        """Return the opposite."""
        return Truth(self.unless, self.when)


TRUE = Truth((), (number(-1),))


FALSE = TRUE.negated()


#: What is known about a value: nothing of one that is no integer.
Known: TypeAlias = Linear | Truth | None


@dataclass(frozen=True, slots=True)
class RangeEvaluator:
    """Evaluates expressions of TIR: ``values`` are those of buffers, ``sizes`` those of variables."""

    analysis: Symbols
    values: Mapping[Buffer, aot.Value]
    sizes: Mapping[Var, PrimExpr]

    def decide_choices(self, expr: PrimExpr) -> PrimExpr:
        """Return an expression with the choices decided that can be."""

        def decide(node: PrimExpr) -> PrimExpr:
            condition, then, other = _choice(node) or (None, node, node)
            taken = None if condition is None else self.analysis.decide(self.evaluate(condition))
            return node if taken is None else (then if taken else other)

        return rewrite(expr, [((tirx.Select, ir.Call), decide)])

    def without_divisions(self, expr: PrimExpr) -> PrimExpr:
        """Return an expression without divisions for the rest of a number that is near to the divisor."""
        return rewrite(expr, [(tirx.FloorMod, self._rest_of_near)])

    def _rest_of_near(self, remainder: PrimExpr) -> PrimExpr:
        """Return ``a % b`` by a comparison or two if ``a`` is in ``range(-b, 2 * b)``, as around a torus."""
        a, b, prove = self.evaluate(remainder.a), self.evaluate(remainder.b), self.analysis.facts.prove
        choices = collect((tirx.Select, ir.Call), remainder.a)
        if not isinstance(a, Linear) or not isinstance(b, Linear) or choices:
            return remainder
        if not (prove(b - 1) and prove(a + b) and prove(b + b - a - 1)):
            return remainder
        # A division of integers takes tens of cycles; a comparison and a subtraction take two.
        result = (
            remainder.a
            if prove(b - a - 1)
            else tirx.Select(remainder.a >= remainder.b, remainder.a - remainder.b, remainder.a)
        )
        return result if prove(a) else tirx.Select(remainder.a < 0, remainder.a + remainder.b, result)

    def evaluate(self, expr: PrimExpr) -> Known:
        """Return what is known about an expression."""
        match expr:
            case tirx.IntImm() if dtype_of(expr) == "bool":
                return TRUE if expr.value else FALSE
            case tirx.IntImm():
                return number(int(expr.value))
            case tirx.Var() if expr in self.sizes:
                return RangeEvaluator(self.analysis, {}, {}).evaluate(self.sizes[expr])
            case tirx.Var():
                return self.analysis.sizes.get(expr)
            case ir.expr.TensorLoad():
                value = self.values.get(expr.source)
                return self.analysis.buffers.get(expr.source) if value is None else self.analysis.of(value)
            case tirx.Cast():
                return self._cast(self.evaluate(expr.value), dtype_of(expr))
            case tirx.Not():
                truth = self.evaluate(expr.a)
                return truth.negated() if isinstance(truth, Truth) else None
            case tirx.And() | tirx.Or():
                return self._connect(expr)
            case _ if type(expr) in _COMPARISONS:
                return self._compare(expr)
            case _ if type(expr) in _ARITHMETIC:
                return self._calculate(expr)
            case _ if type(expr) in _BITS:
                return self._calculate_bits(expr)
        choice = _choice(expr)
        return None if choice is None else self._choose(*choice)

    def _calculate_bits(self, expr: PrimExpr) -> Known:
        """Return what is known about an operation on the bits of integers."""
        a, b = (self._number(self.evaluate(operand), operand) for operand in (expr.a, expr.b))
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        facts = self.analysis.facts
        if isinstance(expr, tirx.BitwiseAnd):
            for value, other in ((a, b), (b, a)):
                if other == value - 1 or self.analysis.before.get(next(iter(other.terms), None)) == value:
                    return self._without_last_bit(value)
        positive = [value for value in (a, b) if facts.prove(value)]
        high = max(self._most(a), self._most(b))
        match expr:
            case tirx.BitwiseAnd() if positive:
                result = of_symbol(BoundedSymbol(0, min(value.high for value in positive)))
                facts.add([value - result for value in positive])
                return result
            case tirx.BitwiseOr() | tirx.BitwiseXor() if len(positive) == 2:
                return of_symbol(BoundedSymbol(0, (1 << high.bit_length()) - 1))
            case tirx.RShift() if not b.terms and 0 <= b.constant < 64:
                return self._divide(a, 1 << b.constant)[0]
            case tirx.RShift() if len(positive) == 2:
                result = of_symbol(BoundedSymbol(0, max(MOST, a.high)))
                facts.add([a - result])
                return result
            case tirx.LShift() if not b.terms and 0 <= b.constant < 64:
                result = a.times(1 << b.constant)
                return result if self._fits(result, dtype_of(expr)) else None
        return None

    def _without_last_bit(self, value: Linear) -> Linear:
        """Return what is known about ``value & (value - 1)``."""
        result = of_symbol(symbol := BoundedSymbol(LEAST, max(MOST, value.high)))
        self.analysis.without_last_bit[symbol] = value
        if self.analysis.facts.prove(value):
            self.analysis.facts.add([result, value - result])
        return result

    def _most(self, value: Linear) -> int:
        """Return a number of ones in binary that a sum does not exceed."""
        facts = self.analysis.facts
        return next((most for most in _ONES if facts.prove(number(most) - value)), max(MOST, value.high))

    def _cast(self, value: Known, dtype: str) -> Known:
        return value if isinstance(value, Linear) and self._fits(value, dtype) else None

    def _fits(self, value: Linear, dtype: str) -> bool:
        """Return whether a sum certainly is a number of a dtype."""
        if dtype not in LIMITS:
            return False
        (low, high), facts = LIMITS[dtype], self.analysis.facts
        return facts.prove(value - low) and facts.prove(number(high) - value)

    def _connect(self, expr: PrimExpr) -> Truth:
        """Return what is known about ``and``, or about ``or``, which is true unless both are false."""
        truths = [
            interval for interval in map(self.evaluate, (expr.a, expr.b)) if isinstance(interval, Truth)
        ]
        is_or = isinstance(expr, tirx.Or)
        if is_or:
            truths = [interval.negated() for interval in truths]
        undecided = [interval for interval in truths if not self.analysis.decide(interval)]
        if len(truths) == 2 and len(undecided) < 2:
            # One side is certainly true: what is known of `and` is what is known of the other side,
            # its negation included.
            both = undecided[0] if undecided else TRUE
        else:
            both = Truth(tuple(fact for interval in truths for fact in interval.when), ())
        return both.negated() if is_or else both

    def _compare(self, expr: PrimExpr) -> Truth | None:
        if isinstance(expr.a, tirx.Cast) and dtype_of(expr.a.value) == "bool":
            return self._compare_truth(expr)
        a, b = self.evaluate(expr.a), self.evaluate(expr.b)
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        truth = _COMPARISONS[type(expr)](a, b)
        if not isinstance(expr, tirx.EQ | tirx.NE):
            return truth
        # Numbers that differ are on the side where one certainly is.
        prove = self.analysis.facts.prove
        apart = (
            (a - b - 1,) if prove(a - b) else (b - a - 1,) if prove(b - a) else (self.analysis.apart(a - b),)
        )
        return replace(truth, unless=apart) if isinstance(expr, tirx.EQ) else replace(truth, when=apart)

    def _compare_truth(self, expr: PrimExpr) -> Truth | None:
        """Return the comparison of a truth value, as 0 or 1, with a number: `not a` is `a < 1`."""
        truth, limit = self.evaluate(expr.a.value), self.evaluate(expr.b)
        if not isinstance(truth, Truth) or not isinstance(limit, Linear) or limit.terms:
            return None
        compare = _COMPARISONS[type(expr)]
        of_false, of_true = (self.analysis.decide(compare(number(value), limit)) for value in (0, 1))
        if of_false is None or of_true is None:
            return None
        if of_false == of_true:
            return TRUE if of_true else FALSE
        return truth if of_true else truth.negated()

    def _calculate(self, expr: PrimExpr) -> Linear | None:
        """Return a number that arithmetic gives, where it does not wrap around."""
        a, b = self.evaluate(expr.a), self.evaluate(expr.b)
        if isinstance(expr, tirx.Max | tirx.Min):
            a, b = self._number(a, expr.a), self._number(b, expr.b)
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        match expr:
            case tirx.Add():
                result = a + b
            case tirx.Sub():
                result = a - b
            # Products of two unknowns are not linear; they become unknown numbers.
            case tirx.Mul() if not a.terms or not b.terms:
                result = b.times(a.constant) if not a.terms else a.times(b.constant)
            case tirx.FloorDiv() if not b.terms and b.constant > 0:
                return self._divide(a, b.constant)[0]
            case tirx.FloorDiv() if (
                not b.terms and b.constant < 0 and self._fits(a.times(-1), dtype_of(expr))
            ):
                # a // -b is (-a) // b.
                return self._divide(a.times(-1), -b.constant)[0]
            case tirx.FloorMod() if not b.terms and b.constant > 0:
                return self._divide(a, b.constant)[1]
            case tirx.FloorMod() if self.analysis.facts.prove(b - 1):
                return self._rest(a, b)
            case tirx.Max() | tirx.Min():
                at_least = _COMPARISONS[tirx.GE if isinstance(expr, tirx.Max) else tirx.LE](a, b)
                return self._one_of(at_least, a, b)
            case _:
                return None
        # The sum of a Linear is exact; the machine's wraps around. They agree only if the result
        # fits the dtype.
        if self._fits(result, dtype_of(expr)):
            return result
        wrapped = self.analysis.wrapped(result, dtype_of(expr))
        if wrapped is not None and result == a - 1:
            self.analysis.before[next(iter(wrapped.terms))] = a
        return wrapped

    def _number(self, fact: Known, expr: PrimExpr) -> Known:
        """Return what is known about an integer, or a number of its own."""
        return self.analysis.unknown(dtype_of(expr)) if fact is None else fact

    def _divide(self, a: Linear, by: int) -> tuple[Linear, Linear]:
        """Return the quotient, rounded down, and the rest."""
        quotient = of_symbol(BoundedSymbol(a.low // by, a.high // by))
        remainder = a - quotient.times(by)
        # a = by * quotient + remainder with 0 <= remainder < by: two linear facts instead of a
        # division.
        self.analysis.facts.add([remainder, number(by - 1) - remainder])
        return quotient, remainder

    def _rest(self, a: Linear, by: Linear) -> Linear:
        """Return the rest of a division by a number that is at least 1."""
        facts = self.analysis.facts
        # 0 <= a < by: a % by is a.
        if facts.prove(a) and facts.prove(by - a - 1):
            return a
        fact = of_symbol(BoundedSymbol(0, max(MOST, by.high)))
        facts.add([by - fact - 1])
        return fact

    def _choose(self, condition: PrimExpr, then: PrimExpr, other: PrimExpr) -> Known:
        a, b = self.evaluate(then), self.evaluate(other)
        truth = self.evaluate(condition)
        taken = self.analysis.decide(truth)
        if taken is not None:
            return a if taken else b
        a, b = self._number(a, then), self._number(b, other)
        if not isinstance(a, Linear) or not isinstance(b, Linear):
            return None
        if a == b:
            return a
        return self._one_of(truth if isinstance(truth, Truth) else Truth((), ()), a, b)

    def _one_of(self, truth: Truth, a: Linear, b: Linear) -> Linear:
        """Return a number that is one of two, with the bounds that both have."""
        taken = self.analysis.decide(truth)
        if taken is not None:
            return a if taken else b
        facts = self.analysis.facts
        chosen = of_symbol(BoundedSymbol(LEAST, max(MOST, a.high, b.high)))
        bounds: list[Linear] = []
        for bound in (number(0), number(-1), a, b):  # -1 is where a slice backwards ends
            for sign in (1, -1):
                begun = len(facts.known)
                holds = True
                # A bound holds for the choice if it holds for each value where that one is chosen:
                # max(i, 0) >= 0, as i >= 0 is known where i is taken.
                for value, known in ((a, truth.when), (b, truth.unless)):
                    facts.add(known)
                    holds = holds and facts.prove((value - bound).times(sign))
                    facts.forget(begun)
                if holds:
                    bounds.append((chosen - bound).times(sign))
        facts.add(bounds)
        (symbol,) = chosen.terms
        self.analysis.choices[symbol] = (truth, a, b)
        return chosen


_COMPARISONS: dict[type, Callable[[Linear, Linear], Truth]] = {
    tirx.LT: lambda a, b: Truth((b - a - 1,), (a - b,)),
    tirx.LE: lambda a, b: Truth((b - a,), (a - b - 1,)),
    tirx.GT: lambda a, b: Truth((a - b - 1,), (b - a,)),
    tirx.GE: lambda a, b: Truth((a - b,), (b - a - 1,)),
    tirx.EQ: lambda a, b: Truth((a - b, b - a), ()),
    tirx.NE: lambda a, b: Truth((), (a - b, b - a)),
}


_BITS = frozenset((tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor, tirx.LShift, tirx.RShift))

#: Numbers of ones in binary that integers are compared with.
_ONES = tuple((1 << bits) - 1 for bits in (1, 4, 8, 16, 32))

_ARITHMETIC = frozenset((tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min))


def _choice(expr: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Return the condition and the values of a choice; None for other expressions."""
    if isinstance(expr, tirx.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, ir.Call) and is_conditional(expr):
        return expr.args[0], expr.args[1], expr.args[2]
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A truth value at the end of a branch: when that runs, what is known, and the value if it is certain."""

    condition: Truth
    truth: Truth
    decided: bool | None


def merge_truths(then: Outcome, other: Outcome) -> Truth:
    """Return what is known about the truth value of two branches: `a and b` is false in the second."""
    when: tuple[Linear, ...] = ()
    unless: tuple[Linear, ...] = ()
    for one, certain in ((then, other.decided), (other, then.decided)):
        if certain is False:
            when += (*one.condition.when, *one.truth.when)
        elif certain:
            unless += (*one.condition.when, *one.truth.unless)
    return Truth(when, unless)
