"""Keep what the symbols of an analysis stand for: registers, sizes, choices, sums that may wrap around."""

from __future__ import annotations

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Facts, Linear, number, of_symbol
from nnmagic.engine.relax.codegen.aot.range_evaluator import FALSE, LIMITS, TRUE, Known, Truth
from nnmagic.engine.relax.tir.types import Buffer, Var


class Symbols:
    """What is known of integers: facts, and what symbols stand for."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.registers: dict[aot.Register, Known] = {}
        #: The values of a step's own buffers.
        self.buffers: dict[Buffer, Known] = {}
        self.sizes: dict[Var, Linear] = {}
        #: The symbols that stand for one of two numbers, with when it is the first.
        self.choices: dict[BoundedSymbol, tuple[Truth, Linear, Linear]] = {}
        #: The symbols that stand for sums which may wrap around.
        self._wrapped: dict[object, Linear | None] = {}
        #: The symbols that are 1 where a number is not 0.
        self._apart: dict[object, BoundedSymbol] = {}
        #: The symbols that stand for a number less 1, which may wrap around.
        self.before: dict[BoundedSymbol | None, Linear] = {}
        #: The symbols that stand for a number without its last bit.
        self.without_last_bit: dict[BoundedSymbol, Linear] = {}

    def of(self, value: aot.Value) -> Known:
        """Return what is known about a value."""
        match value:
            case aot.Register():
                return self.registers.get(value)
            case aot.Immediate(value=bool() as truth):
                return TRUE if truth else FALSE
            case aot.Immediate(value=int() as constant):
                return number(constant)
        return None

    def unknown(self, dtype: str, limits: tuple[int, int] | None = None) -> Linear | None:
        """Return a number of a dtype of which nothing else is known than its limits."""
        return of_symbol(BoundedSymbol(*(limits or LIMITS[dtype]))) if dtype in LIMITS else None

    def apart(self, difference: Linear) -> Linear:
        """Return a fact that says that a number is not 0, of a symbol that is 1 then."""
        return of_symbol(self._apart.setdefault(difference.key, BoundedSymbol(0, 1))) - 1

    def wrapped(self, value: Linear, dtype: str) -> Linear | None:
        """Return a number that a sum is which may wrap around: the same for the same sum."""
        return self._wrapped.setdefault((value.key, dtype), self.unknown(dtype))

    def is_at_most(self, value: Linear, most: Linear) -> bool:
        """Return whether a number certainly is not larger than another; one of two is not if both are not."""
        if self.facts.prove(most - value):
            return True
        if value.constant or list(value.terms.values()) != [1]:
            return False
        (symbol,) = value.terms
        options = self.choices.get(symbol, ())[1:]
        return bool(options) and all(self.is_at_most(option, most) for option in options)

    def decide(self, truth: Known) -> bool | None:
        """Return a truth value; None where it is not known."""
        if not isinstance(truth, Truth):
            return None
        if any(self.facts.prove(number(-1) - fact) for fact in truth.unless):
            return True
        return False if any(self.facts.prove(number(-1) - fact) for fact in truth.when) else None
