"""Arithmetic on the names of dimensions: ``2*n``, ``n + 1``, ``n // 2`` as polynomials, each with one text.

Knows nothing of types: a dimension's label is such a text, and equal polynomials have equal texts.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from keyword import iskeyword
from typing import Any

#: Of how many terms a polynomial may be made, and of how many factors a term: no shape needs more.
_MOST_TERMS, _MOST_FACTORS = 24, 8
_LIMIT = 2**63


class NoPolynomialError(ValueError):
    """What is no arithmetic on names, or too large to be kept."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """``numerator // divisor``, rounded down."""

    numerator: Polynomial
    divisor: Polynomial


Atom = str | Quotient
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products: whole coefficients by the atoms of their product, sorted."""

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def number(self) -> int | None:
        """The number that it is, if it has no names."""
        if not self.terms:
            return 0
        monomial, coefficient = self.terms[0]
        return coefficient if len(self.terms) == 1 and not monomial else None

    def __add__(self, other: Polynomial) -> Polynomial:
        return _made([*self.terms, *other.terms])

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _made([((*one, *two), a * b) for one, a in self.terms for two, b in other.terms])

    def __floordiv__(self, other: Polynomial) -> Polynomial:
        """Raises NoPolynomialError for a divisor that is 0."""
        exact = self.divided(other)
        return _quotient(self, other) if exact is None else exact

    def divided(self, other: Polynomial) -> Polynomial | None:
        """The quotient where there is one without a rest. Raises NoPolynomialError for the divisor 0."""
        if not other.terms:
            raise NoPolynomialError("division by zero")
        if not self.terms:
            return self
        (monomial, coefficient), (by, number) = self.terms[0], other.terms[0]
        if Counter(by) - Counter(monomial) or coefficient % number:
            return None
        left = (Counter(monomial) - Counter(by)).elements()
        first = _made([(tuple(left), coefficient // number)])
        if len(other.terms) == 1:
            rest = Polynomial(self.terms[1:]).divided(other)
            return None if rest is None else first + rest
        return first if first * other == self else None

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            text += sign + _term_text(monomial, abs(coefficient), alone=sign != "-")
        return text or "0"


def constant(number: int) -> Polynomial:
    """A number alone, however large."""
    return Polynomial((((), int(number)),) if number else ())


def _key(atom: Atom) -> tuple[bool, str]:
    return (True, _atom_text(atom)) if isinstance(atom, Quotient) else (False, atom)


def _made(terms: list[tuple[Monomial, int]]) -> Polynomial:
    """Like terms together, in order: products of more factors first, what is added before the rest."""
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        ordered = tuple(sorted(monomial, key=_key))
        total[ordered] = total.get(ordered, 0) + coefficient
    kept = [(monomial, number) for monomial, number in total.items() if number]
    large = any(len(monomial) > _MOST_FACTORS or not -_LIMIT < number < _LIMIT for monomial, number in kept)
    if large or len(kept) > _MOST_TERMS:
        raise NoPolynomialError("too large")
    kept.sort(key=lambda term: (-len(term[0]), term[1] < 0, [_key(atom) for atom in term[0]]))
    return Polynomial(tuple(kept))


def _quotient(numerator: Polynomial, divisor: Polynomial) -> Polynomial:
    """``numerator // divisor`` where a rest may be left, in lowest terms, whole numbers taken out."""
    numerator, divisor = _reduced(numerator, divisor)
    by = divisor.number
    if by is not None and by < 0:
        numerator, by = numerator * constant(-1), -by
        divisor = constant(by)
    if by == 1:
        return numerator
    if by is None:
        return _made([((Quotient(numerator, divisor),), 1)])
    number = dict(numerator.terms).get((), 0)
    varying = numerator - constant(number)
    common = math.gcd(by, *(coefficient for _, coefficient in varying.terms))
    inner = _scaled(varying, common) + constant(number // common % (by // common))
    whole = constant(number // common // (by // common))
    by //= common
    if by == 1:
        return inner + whole
    match inner.terms:
        case (((Quotient(numerator=innermost, divisor=other),), 1),) if other.number is not None:
            return innermost // constant(other.number * by) + whole  # (n // 2) // 3 is n // 6
    return _made([((Quotient(inner, constant(by)),), 1)]) + whole


def _scaled(polynomial: Polynomial, by: int) -> Polynomial:
    return _made([(monomial, number // by) for monomial, number in polynomial.terms])


def _reduced(numerator: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Both without the factors that all their terms have."""
    terms = [*numerator.terms, *divisor.terms]
    shared = reduce(lambda left, right: left & right, (Counter(monomial) for monomial, _ in terms))
    common = math.gcd(*(number for _, number in terms))

    def without(polynomial: Polynomial) -> Polynomial:
        return _made(
            [
                (tuple((Counter(monomial) - shared).elements()), n // common)
                for monomial, n in polynomial.terms
            ]
        )

    return without(numerator), without(divisor)


# -- text ----------------------------------------------------------------------------------------------


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    above, below = str(atom.numerator), str(atom.divisor)
    if len(atom.numerator.terms) > 1:
        above = f"({above})"
    if not below.isalnum():
        below = f"({below})"
    return f"{above} // {below}"


def _term_text(monomial: Monomial, number: int, *, alone: bool) -> str:
    """``alone``: no sign before it binds tighter than a division in it."""
    if not monomial:
        return str(number)
    if len(monomial) == 1 and number == 1 and alone:
        return _atom_text(monomial[0])
    factors = [atom if isinstance(atom, str) else f"({_atom_text(atom)})" for atom in monomial]
    return "*".join([*([str(number)] if number != 1 else []), *factors])


@lru_cache(maxsize=4096)
def polynomial(text: str) -> Polynomial:
    """The polynomial that a text means: names, whole numbers, ``+ - * //``, brackets.

    Raises NoPolynomialError, which says what it holds instead.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        keyword = f"`{text}` is a keyword of Python" if iskeyword(text) else "it is no expression"
        raise NoPolynomialError(keyword) from None
    try:
        return _read(tree)
    except RecursionError:
        raise NoPolynomialError("it is nested too deeply") from None


def _read(node: ast.expr) -> Polynomial:
    match node:
        case ast.Name(id=name):
            return Polynomial((((name,), 1),))
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            if number >= _LIMIT:
                raise NoPolynomialError("too large")
            return constant(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _read(operand) * constant(-1)
        case ast.BinOp(left=left, op=operator, right=right):
            one, other = _read(left), _read(right)
            match operator:
                case ast.Add():
                    return one + other
                case ast.Sub():
                    return one - other
                case ast.Mult():
                    return one * other
                case ast.FloorDiv():
                    return one // other
                case ast.Pow() if other.number is not None and 0 <= other.number <= _MOST_FACTORS:
                    return reduce(lambda a, b: a * b, [one] * other.number, constant(1))
    raise NoPolynomialError("it may hold names, whole numbers, +, -, *, // and brackets")


# -- questions -----------------------------------------------------------------------------------------


def names(of: Polynomial) -> Iterator[str]:
    """The names in it, each as often as it stands there."""
    for monomial, _ in of.terms:
        for atom in monomial:
            if isinstance(atom, str):
                yield atom
            else:
                yield from names(atom.numerator)
                yield from names(atom.divisor)


def evaluate(of: Polynomial, values: Mapping[str, Any], number: Any = int) -> Any:
    """What it comes to for these values of its names: ints, polynomials, or whatever has ``+ * //``.

    ``number`` makes such a value of an int. Raises KeyError for a name that has none, ZeroDivisionError.
    """

    def of_atom(atom: Atom) -> Any:
        if isinstance(atom, str):
            return values[atom]
        return evaluate(atom.numerator, values, number) // evaluate(atom.divisor, values, number)

    total = None
    for monomial, coefficient in of.terms:
        part = None if coefficient == 1 and monomial else number(coefficient)
        for atom in monomial:
            part = of_atom(atom) if part is None else part * of_atom(atom)
        total = part if total is None else total + part
    return number(0) if total is None else total


def linear(of: Polynomial, name: str) -> tuple[Polynomial, Polynomial] | None:
    """A factor and a rest without the name, such that it is factor * name + rest; None where it is not."""
    factor: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, number in of.terms:
        others = tuple(atom for atom in monomial if atom != name)
        if name in names(Polynomial(((others, 1),))) or len(monomial) - len(others) > 1:
            return None
        (rest if len(others) == len(monomial) else factor).append((others, number))
    return _made(factor), _made(rest)


def solution(
    of: Polynomial, size: Polynomial, name: str, values: Mapping[str, Polynomial]
) -> Polynomial | None:
    """The name that makes it ``size``, by the values of the other names; None where it is not found."""
    try:
        parts = linear(evaluate(of, {**values, name: polynomial(name)}, constant), name)
        return None if parts is None else (size - parts[1]).divided(parts[0])
    except (KeyError, NoPolynomialError):
        return None


def is_nonnegative(of: Polynomial) -> bool:
    """Whether it is surely 0 or more, whatever its names are, which count something."""
    terms: dict[Monomial, Fraction] = {}
    for monomial, number in of.terms:
        if number > 0 and not all(isinstance(atom, str) or _is_count(atom) for atom in monomial):
            return False
        match monomial:
            case (Quotient(numerator=above, divisor=below) as atom,) if number < 0 and _is_count(atom):
                if below.number is None:
                    return False
                for inner, factor in above.terms:  # it is at most the number that is rounded down
                    terms[inner] = terms.get(inner, Fraction(0)) + Fraction(number * factor, below.number)
            case _:
                terms[monomial] = terms.get(monomial, Fraction(0)) + number
    return all(number >= 0 for number in terms.values())


def _is_count(atom: Quotient) -> bool:
    below = atom.divisor.number
    return is_nonnegative(atom.numerator) and (below is None or below > 0)
