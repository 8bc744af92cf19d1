"""Follow integers of a loop's round as ``factor * counter + offset``.

The counter goes from 0 to what the number of rounds says, and the offset is arithmetic on sizes. So the
bounds of ``x[i : i + 5]`` are a window of 5 elements, of which it may be provable that the array has all.
(Compilers know this as scalar evolution.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from synr.ast import BuiltinOp

from nnmagic.relay.ops.dims import as_polynomial
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial, constant, is_nonnegative
from nnmagic.relay.types import Dim
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.affine_int import AffineInt

#: Larger numbers are not followed: sums of them would come near to what 64 bits can count.
_MOST = 1 << 31
#: The sizes of the arrays that the function at hand has where it is elaborated: none is negative.
_SIZES: ContextVar[Callable[[], Iterable[Dim]]] = ContextVar("sizes", default=tuple)


@contextmanager
def sizes_of_arrays(sizes: Callable[[], Iterable[Dim]]) -> Iterator[None]:
    """Let proofs inside know that none of some sizes is negative."""
    token = _SIZES.set(sizes)
    try:
        yield
    finally:
        _SIZES.reset(token)


def is_certain(of: Polynomial) -> bool:
    """Return whether a value is certainly 0 or more, given that the sizes of arrays are."""
    if is_nonnegative(of):
        return True
    sizes = {as_polynomial(size) for size in set(_SIZES.get()())}
    return any(is_nonnegative(of - size) for size in sizes if size is not None and len(size.terms) > 1)


def affine_of(value: v.Value) -> AffineInt | None:
    """Return what an integer is of a loop's counter and sizes, None if that is not known."""
    match value:
        case v.Known(value=int() as number) if not isinstance(number, bool) and abs(number) <= _MOST:
            return AffineInt(constant(number), terms=((number, None),))
        case v.Dimension(dim=dim):
            known = as_polynomial(dim)
            return None if known is None else AffineInt(known, terms=((1, value.number),))
        case v.Computed(affine=affine):
            return affine
    return None


def affine_result(op: object, left: v.Value, right: v.Value) -> AffineInt | None:
    """Return what a sum, a difference or a product of integers is, None if that is not known."""
    first, second = affine_of(left), affine_of(right)
    if first is None or second is None:
        return None
    try:
        if op is BuiltinOp.Mul:
            return _scaled(first, second) or _scaled(second, first)
        if op is BuiltinOp.Add:
            return _sum(first, second, 1)
        return _sum(first, second, -1) if op is BuiltinOp.Sub else None
    except NoPolynomialError:
        return None


def _sum(lhs: AffineInt, rhs: AffineInt, sign: int) -> AffineInt | None:
    if lhs.factor and rhs.factor and lhs.counter is not rhs.counter:
        return None
    base = lhs if lhs.factor else rhs
    factor = lhs.factor + sign * rhs.factor
    terms = None
    if lhs.terms is not None and rhs.terms is not None:
        terms = (*lhs.terms, *((sign * times, number) for times, number in rhs.terms))
    return replace(base, offset=lhs.offset + rhs.offset * constant(sign), factor=factor, terms=terms)


def _scaled(value: AffineInt, by: AffineInt) -> AffineInt | None:
    number = by.offset.number
    if by.factor or number is None or abs(value.factor * number) > _MOST:
        return None
    terms = None if value.terms is None else tuple((number * times, term) for times, term in value.terms)
    return replace(value, offset=value.offset * constant(number), factor=value.factor * number, terms=terms)
