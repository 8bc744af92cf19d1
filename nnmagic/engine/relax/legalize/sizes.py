"""Simplify the sizes of tensors, TIR expressions of int64, by a normal form that is computed once.

TVM's simplifier takes exponential time for nested minima and maxima, and does not know that sizes are at
least 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm_ffi
from tvm import tirx

from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, static_int
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import collect
from nnmagic.relay import polynomials
from nnmagic.relay.polynomials import Atom, NoPolynomialError, Polynomial, Positive, Quotient, constant

#: The most nodes that are read of an expression.
_MAX_READ = 2000


def simplify(size: Extent) -> Extent:
    """Return an equal size in normal form: an int where it is static."""
    if isinstance(size, int | tirx.Var):
        return size
    normal = normal_form(size)
    if normal is None:
        return size
    polynomial, variables = normal
    return _sum(polynomial, variables) if polynomial.number is None else polynomial.number


def is_complicated(size: Extent) -> bool:
    """Return whether a size has a choice, or a minimum or maximum of several dimensions.

    The normal form of those of one dimension is good enough.
    """
    if isinstance(size, int | tirx.Var | tirx.IntImm):
        return False
    dims = tirx.analysis.undefined_vars(tirx.Evaluate(size))
    return bool(collect((tirx.Select, tirx.Max, tirx.Min) if len(dims) > 1 else tirx.Select, size))


def same_size(lhs: Extent, rhs: Extent) -> bool:
    """Return whether two sizes are certainly equal."""
    return lhs is rhs or difference(lhs, rhs) == 0 or bool(tvm_ffi.structural_equal(lhs, rhs))


def difference(lhs: Extent, rhs: Extent) -> int | None:
    """Return ``left - right`` if it is the same number for all values of their variables."""
    a, b = static_int(lhs), static_int(rhs)
    if a is not None and b is not None:
        return a - b
    normal = normal_form(as_expr(lhs) - as_expr(rhs))
    return None if normal is None else normal[0].number


def exact_quotient(size: Extent, divisor: Extent) -> Extent | None:
    """Return the quotient that leaves no remainder for any values of the variables; None if there is none."""
    reader = _Reader()
    try:
        above, below = (reader.read(as_expr(side)) for side in (size, divisor))
        quotient = above.divide_exactly(below)
    except NoPolynomialError:
        return None
    if quotient is None:
        return None
    return _sum(quotient, reader.variables) if quotient.number is None else quotient.number


def is_nonnegative(size: Extent) -> bool:
    """Return whether a size is certainly 0 or more."""
    normal = normal_form(as_expr(size))
    return normal is not None and polynomials.is_nonnegative(normal[0])


def maximum(lhs: Extent, rhs: Extent) -> Extent:
    """Return the larger of two sizes."""
    inner = shifted_maximum(lhs)
    if inner is not None:
        size, least, shift = inner
        bound = static_int(rhs)
        if bound is not None and least + shift <= bound:  # max(max(n - 1, 0) - 1, 0) is max(n - 2, 0)
            lhs = simplify(size + shift)
    return simplify(tirx.max(as_expr(lhs), as_expr(rhs)))


def shifted_maximum(size: Extent) -> tuple[Extent, int, int] | None:
    """Return the parts of ``max(size, least) + shift`` with static numbers; None for another size."""
    shift = 0
    if isinstance(size, tirx.Add | tirx.Sub) and static_int(size.b) is not None:
        shift = int(size.b.value) if isinstance(size, tirx.Add) else -int(size.b.value)
        size = size.a
    if isinstance(size, tirx.Max) and static_int(size.b) is not None:
        return size.a, int(size.b.value), shift
    return None


def minimum(lhs: Extent, rhs: Extent) -> Extent:
    """Return the smaller of two sizes."""
    return simplify(tirx.min(as_expr(lhs), as_expr(rhs)))


def broadcast_size(lhs: Extent, rhs: Extent) -> Extent:
    """Return the one of two sizes that is not 1; where neither is, they are equal."""
    a, b = static_int(lhs), static_int(rhs)
    if a == 1 or (b is not None and b != 1):
        return rhs
    if b == 1 or a is not None or same_size(lhs, rhs):
        return lhs
    return tirx.Select(lhs == 1, rhs, lhs)


def normal_form(size: PrimExpr) -> tuple[Polynomial, dict[str, Var]] | None:
    """Return a size as a polynomial and the variables of its names; None if it is no arithmetic on sizes."""
    reader = _Reader()
    try:
        return reader.read(size), reader.variables
    except NoPolynomialError:
        return None


class _Reader:
    """Read TIR expressions as polynomials."""

    def __init__(self) -> None:
        self.variables: dict[str, Var] = {}
        self._done: dict[PrimExpr, Polynomial] = {}

    def read(self, node: PrimExpr) -> Polynomial:
        """Return the polynomial of an expression, reading each of its nodes once."""
        if node in self._done:
            return self._done[node]
        if len(self._done) >= _MAX_READ:
            raise NoPolynomialError("too large")
        result = self._done[node] = self._read(node)
        return result

    def _read(self, node: PrimExpr) -> Polynomial:
        match node:
            case tirx.IntImm(value=value):
                return constant(int(value))
            case tirx.Var(name=name) if dtype_of(node) == "int64":
                unique = f"{name}@{hash(node):x}"  # names are not unique
                self.variables[unique] = node
                return Polynomial((((unique,), 1),))
            case tirx.Add(a=a, b=b):
                return self.read(a) + self.read(b)
            case tirx.Sub(a=a, b=b):
                return self.read(a) - self.read(b)
            case tirx.Mul(a=a, b=b):
                return self.read(a) * self.read(b)
            case tirx.FloorDiv(a=a, b=b):
                return self.read(a) // self.read(b)
            case tirx.Max(a=a, b=b):
                return polynomials.maximum(self.read(a), self.read(b))
            case tirx.Min(a=a, b=b):
                return polynomials.minimum(self.read(a), self.read(b))
        raise NoPolynomialError("no arithmetic on sizes")


def _sum(size: Polynomial, variables: Mapping[str, Var]) -> PrimExpr:
    """Return the TIR expression of a polynomial; the sum with a positive part is a minimum or a maximum."""
    for monomial, number in size.terms:
        match monomial:
            case (Positive(argument=argument),) if number in (1, -1):
                remainder = size - Polynomial(((monomial, number),))
                other = remainder + argument * constant(number)
                if len(other.terms) < len(argument.terms):
                    both = _sum(other, variables), _sum(remainder, variables)
                    return tirx.max(*both) if number > 0 else tirx.min(*both)
    total: PrimExpr | None = None
    for monomial, number in size.terms:
        factor = number if total is None else abs(number)
        term: PrimExpr | None = None
        for atom in monomial:
            lowered = _lower_atom(atom, variables)
            term = lowered if term is None else term * lowered
        if term is None or factor != 1:
            term = as_expr(factor) if term is None else term * as_expr(factor)
        total = term if total is None else total - term if number < 0 else total + term
    return as_expr(0) if total is None else total


def _lower_atom(atom: Atom, variables: Mapping[str, Var]) -> PrimExpr:
    match atom:
        case str():
            return variables[atom]
        case Quotient(numerator=numerator, divisor=divisor):
            return tirx.floordiv(_sum(numerator, variables), _sum(divisor, variables))
        case Positive(argument=argument):
            return tirx.max(_sum(argument, variables), as_expr(0))
    raise TypeError(atom)
