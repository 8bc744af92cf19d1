"""Compute with the names of dimensions: ``2*n``, ``n + 1``, ``n // 2`` as polynomials in normal form.

The label of a dynamic dimension is the text of a polynomial; equal polynomials have equal texts. Sizes that
the engine and the importers compute also have minima and maxima, which annotations lack. Both are positive
parts, ``max(p, 0)``, plus a polynomial: so equal sizes have one form.
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

#: The most terms of a polynomial, and the most factors of a term: no shape needs more.
_MOST_TERMS, _MOST_FACTORS = 24, 8
#: The most cases that a proof of a bound tells apart.
_MOST_CASES = 64
_LIMIT = 2**63


class NoPolynomialError(ValueError):
    """An expression that is no arithmetic on names, or is too large."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """``numerator // divisor``, rounded down."""

    numerator: Polynomial
    divisor: Polynomial


@dataclass(frozen=True, slots=True)
class Positive:
    """``max(argument, 0)``."""

    argument: Polynomial


Atom = str | Quotient | Positive
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products: integer coefficients by the sorted atoms of their product."""

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def number(self) -> int | None:
        """The number that the polynomial is, None if it has names."""
        if not self.terms:
            return 0
        monomial, coefficient = self.terms[0]
        return coefficient if len(self.terms) == 1 and not monomial else None

    def __add__(self, other: Polynomial) -> Polynomial:
        return _normalize([*self.terms, *other.terms])

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _normalize([((*lhs, *rhs), a * b) for lhs, a in self.terms for rhs, b in other.terms])

    def __floordiv__(self, other: Polynomial) -> Polynomial:
        """Return the quotient, rounded down. Raises NoPolynomialError for the divisor 0."""
        exact = self.divide_exactly(other)
        return _quotient(self, other) if exact is None else exact

    def divide_exactly(self, other: Polynomial) -> Polynomial | None:
        """Return the quotient if it leaves no remainder, else None.

        Raises NoPolynomialError for the divisor 0.
        """
        if not other.terms:
            raise NoPolynomialError("division by zero")
        if not self.terms:
            return self
        (monomial, coefficient), (by, number) = self.terms[0], other.terms[0]
        if Counter(by) - Counter(monomial) or coefficient % number:
            return None
        left = (Counter(monomial) - Counter(by)).elements()
        # Long division by the leading term. The quotient of the leading terms must divide evenly,
        # or no polynomial is the quotient.
        first = _normalize([(tuple(left), coefficient // number)])
        if len(other.terms) == 1:
            tail = Polynomial(self.terms[1:]).divide_exactly(other)
            return None if tail is None else first + tail
        return first if first * other == self else None

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            text += sign + _term_text(monomial, abs(coefficient), alone=sign != "-")
        return text or "0"


#: Keeps results: sizes of the same few names meet in many operators.
_remembered = lru_cache(maxsize=1 << 12)


def constant(number: int) -> Polynomial:
    """Return a number as a polynomial, however large."""
    return Polynomial((((), int(number)),) if number else ())


def _key(atom: Atom) -> tuple[bool, str]:
    return (False, atom) if isinstance(atom, str) else (True, _atom_text(atom))


def _normalize(terms: list[tuple[Monomial, int]]) -> Polynomial:
    """Collect like terms and sort them.

    Products of more factors come first, positive coefficients before negative ones.
    """
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        ordered = tuple(sorted(monomial, key=_key))
        total[ordered] = total.get(ordered, 0) + coefficient
    nonzero = [(monomial, number) for monomial, number in total.items() if number]
    large = any(
        len(monomial) > _MOST_FACTORS or not -_LIMIT < number < _LIMIT for monomial, number in nonzero
    )
    if large or len(nonzero) > _MOST_TERMS:
        raise NoPolynomialError("too large")
    nonzero.sort(key=lambda term: (-len(term[0]), term[1] < 0, [_key(atom) for atom in term[0]]))
    return Polynomial(tuple(nonzero))


@_remembered
def _quotient(numerator: Polynomial, divisor: Polynomial) -> Polynomial:
    """Return ``numerator // divisor``, which may leave a remainder, in lowest terms."""
    # (2 * n) // (2 * m) is n // m also for floor division, as both sides are exact multiples.
    numerator, divisor = _cancel(numerator, divisor)
    by = divisor.number
    if by is not None and by < 0:
        numerator, by = numerator * constant(-1), -by
        divisor = constant(by)
    if by == 1:
        return numerator
    if by is None:
        return _normalize([((Quotient(numerator, divisor),), 1)])
    number = dict(numerator.terms).get((), 0)
    varying = numerator - constant(number)
    # (4 * n + 3) // 6 is (2 * n + 1) // 3: what the varying terms and the divisor share can be
    # divided out, with the constant rounded down.
    common = math.gcd(by, *(coefficient for _, coefficient in varying.terms))
    inner = _divide_coefficients(varying, common) + constant(number // common % (by // common))
    quotient = constant(number // common // (by // common))
    by //= common
    if by == 1:
        return inner + quotient
    match inner.terms:
        case (((Quotient(numerator=innermost, divisor=other),), 1),) if other.number is not None:
            return innermost // constant(other.number * by) + quotient  # (n // 2) // 3 is n // 6
    return _normalize([((Quotient(inner, constant(by)),), 1)]) + quotient


def _divide_coefficients(polynomial: Polynomial, by: int) -> Polynomial:
    return _normalize([(monomial, number // by) for monomial, number in polynomial.terms])


def _cancel(numerator: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Cancel the factors that all terms of both share."""
    terms = [*numerator.terms, *divisor.terms]
    shared = reduce(lambda lhs, rhs: lhs & rhs, (Counter(monomial) for monomial, _ in terms))
    common = math.gcd(*(number for _, number in terms))

    def without(polynomial: Polynomial) -> Polynomial:
        return _normalize(
            [
                (tuple((Counter(monomial) - shared).elements()), n // common)
                for monomial, n in polynomial.terms
            ]
        )

    return without(numerator), without(divisor)


# -- minimum, maximum --------------------------------------------------------------------------------


def maximum(lhs: Polynomial, rhs: Polynomial) -> Polynomial:
    """Return the larger one."""
    # max(a, b) = b + max(a - b, 0): one kind of atom is enough for both, and equal extremes compare
    # equal.
    return rhs + positive_part(lhs - rhs)


def minimum(lhs: Polynomial, rhs: Polynomial) -> Polynomial:
    """Return the smaller one."""
    return lhs - positive_part(lhs - rhs)


@_remembered
def positive_part(of: Polynomial) -> Polynomial:
    """Return ``max(of, 0)``."""
    if is_nonnegative(of):
        return of
    opposite = of * constant(-1)
    if is_nonnegative(opposite):
        return constant(0)
    common = math.gcd(*(number for _, number in of.terms))
    if common > 1:
        return positive_part(_divide_coefficients(of, common)) * constant(common)
    for monomial, number in of.terms:
        match monomial:
            case (Positive(argument=inner),):
                remainder = of - Polynomial(((monomial, number),))
                if number > 0 and is_nonnegative(remainder * constant(-1)):
                    return positive_part(inner * constant(number) + remainder)  # max(max(a, 0) - 1, 0)
                if number < 0 and is_nonnegative(remainder):
                    return of + positive_part(inner * constant(-number) - remainder)  # max(1 - max(a, 0), 0)
    # max(a, 0) is a + max(-a, 0): of a and -a, one is the normal form.
    first = min(of.terms, key=lambda term: (-len(term[0]), [_key(atom) for atom in term[0]]))
    return of + positive_part(opposite) if first[1] < 0 else Polynomial((((Positive(of),), 1),))


# -- text ----------------------------------------------------------------------------------------------


@_remembered
def _atom_text(atom: Atom) -> str:
    match atom:
        case str():
            return atom
        case Positive(argument=argument):
            return f"max({argument}, 0)"
    above, below = str(atom.numerator), str(atom.divisor)
    if len(atom.numerator.terms) > 1:
        above = f"({above})"
    if not below.isalnum():
        below = f"({below})"
    return f"{above} // {below}"


def _term_text(monomial: Monomial, number: int, *, alone: bool) -> str:
    """Return a term's text; ``alone``: no sign before it binds tighter than a division in it."""
    if not monomial:
        return str(number)
    if len(monomial) == 1 and number == 1 and alone:
        return _atom_text(monomial[0])
    factors = [atom if isinstance(atom, str) else f"({_atom_text(atom)})" for atom in monomial]
    return "*".join([*([str(number)] if number != 1 else []), *factors])


@lru_cache(maxsize=4096)
def polynomial(text: str) -> Polynomial:
    """Parse a polynomial: names, integers, ``+ - * //``, parentheses, and the positive part ``max(p, 0)``.

    Raises NoPolynomialError, which says what the text holds instead.
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
        case ast.BinOp(left=lhs, op=kind, right=rhs):
            first, second = _read(lhs), _read(rhs)
            match kind:
                case ast.Add():
                    return first + second
                case ast.Sub():
                    return first - second
                case ast.Mult():
                    return first * second
                case ast.FloorDiv():
                    return first // second
                case ast.Pow() if second.number is not None and 0 <= second.number <= _MOST_FACTORS:
                    return reduce(lambda a, b: a * b, [first] * second.number, constant(1))
        case ast.Call(func=ast.Name(id="max"), args=[of, ast.Constant(value=0)], keywords=[]):
            return positive_part(_read(of))
    raise NoPolynomialError("it may hold names, whole numbers, +, -, *, // and brackets")


# -- queries --------------------------------------------------------------------------------------------


def names(of: Polynomial) -> Iterator[str]:
    """Yield the names in a polynomial, each as often as it occurs."""
    for monomial, _ in of.terms:
        for atom in monomial:
            if isinstance(atom, str):
                yield atom
            for part in parts(atom):
                yield from names(part)


def parts(atom: Atom) -> tuple[Polynomial, ...]:
    """Return the polynomials that an atom is made of; a name is made of none."""
    match atom:
        case Quotient(numerator=numerator, divisor=divisor):
            return numerator, divisor
        case Positive(argument=argument):
            return (argument,)
    return ()


def has_positive_part(of: Polynomial) -> bool:
    """Return whether a minimum or a maximum is in a polynomial."""
    atoms = [atom for monomial, _ in of.terms for atom in monomial]
    return any(
        isinstance(atom, Positive) or any(has_positive_part(part) for part in parts(atom)) for atom in atoms
    )


def evaluate(of: Polynomial, values: Mapping[str, Any], number: Any = int) -> Any:
    """Return the value for given values of the names: ints, polynomials, or anything with ``+ * //``.

    ``number`` makes such a value of an int. Raises KeyError for a name without a value, ZeroDivisionError,
    and NoPolynomialError for the positive part of what is neither int nor polynomial and has no ``maximum``.
    """

    def of_atom(atom: Atom) -> Any:
        if isinstance(atom, str):
            return values[atom]
        first, *rest = (evaluate(term, values, number) for term in parts(atom))
        if isinstance(atom, Quotient):
            return first // rest[0]
        if isinstance(first, Polynomial):
            return positive_part(first)
        if isinstance(first, int):
            return max(first, 0)
        if not hasattr(first, "maximum"):
            raise NoPolynomialError("a positive part has no such value")
        return first.maximum(number(0))

    total = None
    for monomial, coefficient in of.terms:
        term = None if coefficient == 1 and monomial else number(coefficient)
        for atom in monomial:
            term = of_atom(atom) if term is None else term * of_atom(atom)
        total = term if total is None else total + term
    return number(0) if total is None else total


def linear(of: Polynomial, name: str) -> tuple[Polynomial, Polynomial] | None:
    """Return (factor, rest) without the name such that factor * name + rest is the polynomial, else None."""
    factor: list[tuple[Monomial, int]] = []
    remainder: list[tuple[Monomial, int]] = []
    for monomial, number in of.terms:
        others = tuple(atom for atom in monomial if atom != name)
        if name in names(Polynomial(((others, 1),))) or len(monomial) - len(others) > 1:
            return None
        (remainder if len(others) == len(monomial) else factor).append((others, number))
    return _normalize(factor), _normalize(remainder)


def solution(
    of: Polynomial, size: Polynomial, name: str, values: Mapping[str, Polynomial]
) -> Polynomial | None:
    """Return the value of a name for which the polynomial is ``size``; None if it is not found."""
    try:
        coefficients = linear(evaluate(of, {**values, name: polynomial(name)}, constant), name)
        return None if coefficients is None else (size - coefficients[1]).divide_exactly(coefficients[0])
    except (KeyError, NoPolynomialError):
        return None


# Sound but incomplete: whether a polynomial is nonnegative for all integers is undecidable in
# general (Hilbert's tenth problem, Matiyasevich, 1970).
@_remembered
def is_nonnegative(of: Polynomial) -> bool:
    """Return whether the value is certainly 0 or more, given that names are sizes.

    A positive part is either of two polynomials: a proof tells these cases apart.
    """
    try:
        return _is_proven(of, [_MOST_CASES])
    except NoPolynomialError:
        return False


def _is_proven(of: Polynomial, cases: list[int]) -> bool:
    """Prove that the value is 0 or more; ``cases`` holds how many more polynomials may be looked at."""
    cases[0] -= 1
    if cases[0] < 0:
        return False
    # max(a, 0) is either 0 or a. Added, one of the two cases proves the sum, as it is at least
    # either; subtracted, both must hold.
    for monomial, number in sorted(of.terms, key=lambda term: term[1]):  # a sum of two needs only one proof
        remainder, factor = of - Polynomial(((monomial, number),)), constant(number)
        match monomial:
            case (Positive(argument=argument),) if number > 0:
                return _is_proven(remainder, cases) or _is_proven(remainder + argument * factor, cases)
            case (Positive(argument=argument),):
                return _is_proven(remainder, cases) and _is_proven(remainder + argument * factor, cases)
    return _is_sum_of_sizes(of, cases)


def _is_sum_of_sizes(of: Polynomial, cases: list[int]) -> bool:
    """Return whether no term is negative, with the exact quotients for those that are rounded down.

    A quotient is at most the exact one, and less by at most ``(divisor - 1) / divisor``. One that is added is
    a size itself, too: the proof is tried with that first.
    """
    return any(_is_sum_with_quotients(of, cases, estimate=estimate) for estimate in (False, True))


def _is_sum_with_quotients(of: Polynomial, cases: list[int], *, estimate: bool) -> bool:
    terms: dict[Monomial, Fraction] = {}

    def add(monomial: Monomial, number: Fraction | int) -> None:
        terms[monomial] = terms.get(monomial, Fraction(0)) + number

    for monomial, number in of.terms:
        match monomial:
            case (Quotient(numerator=above, divisor=below),) if number < 0 or (estimate and below.number):
                if below.number is None or not _is_size(monomial[0], cases):
                    return False
                for inner, factor in above.terms:
                    add(inner, Fraction(number * factor, below.number))
                if number > 0:
                    # n // k >= (n - (k - 1)) / k.
                    add((), -Fraction(number * (below.number - 1), below.number))
            case _:
                add(monomial, number)
    return all(
        number >= 0 and (number == 0 or all(_is_size(atom, cases) for atom in monomial))
        for monomial, number in terms.items()
    )


def _is_size(atom: Atom, cases: list[int]) -> bool:
    match atom:
        case Quotient(numerator=above, divisor=below):
            positive = below.number is None or below.number > 0
            return positive and _is_proven(above, cases)
    return True
