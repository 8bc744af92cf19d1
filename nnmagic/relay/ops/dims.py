"""Compute with dimensions and shapes, some of which may be dynamic.

A dimension that is carried through unchanged keeps its label; arithmetic on named ones returns their
polynomial as a label, arithmetic on a ``?`` without a label another one without.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nnmagic.relay import polynomials
from nnmagic.relay.polynomials import (
    NoPolynomialError,
    Polynomial,
    constant,
    evaluate,
    has_positive_part,
    is_nonnegative,
    names,
    polynomial,
    solution,
)
from nnmagic.relay.types import ANY, AnyDim, Dim, Int64, VarDim

Shape = tuple[Dim, ...]


def is_unknown(dim: Dim) -> bool:
    """Return whether the dimension is ``?``, with or without a label."""
    return isinstance(dim, AnyDim)


def same_dim(lhs: Dim, rhs: Dim) -> bool | None:
    """Return whether two dimensions are equal; None if that is known only at run time."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs == rhs
    if lhs == rhs and not (isinstance(lhs, AnyDim) and lhs.label is None):
        return True
    return None


def merge_dim(lhs: Dim, rhs: Dim) -> Dim:
    """Return the more precise one of two dimensions that must be equal."""
    if isinstance(lhs, int) or (isinstance(rhs, AnyDim) and rhs.label is None):
        return lhs
    return rhs if isinstance(rhs, int) or lhs == ANY else lhs


def as_polynomial(dim: Dim) -> Polynomial | None:
    """Return a number or a label as a polynomial; None for a dimension without either."""
    match dim:
        case int():
            return constant(dim)
        case AnyDim(label=str() as label):
            return polynomial(label)
    return None


def as_dim(value: Polynomial) -> Dim:
    """Return the dimension that a polynomial stands for."""
    return AnyDim(str(value)) if value.number is None else value.number


def dim_names(dim: Dim) -> set[str]:
    """Return the names in a dimension's label."""
    value = as_polynomial(dim) if isinstance(dim, AnyDim) else None
    return set() if value is None else set(names(value))


def rename_dim(dim: Dim, dims: Mapping[str, Dim]) -> Dim:
    """Replace the names in a dimension's label; ``?`` if one of them is not in ``dims``."""
    if not isinstance(dim, AnyDim) or dim.label is None:
        return dim
    try:
        return as_dim(evaluate(polynomial(dim.label), _polynomials(dims), constant))
    except (KeyError, NoPolynomialError):
        return dims.get(dim.label, ANY)


def _polynomials(dims: Mapping[str, Dim]) -> dict[str, Polynomial]:
    return {name: value for name, dim in dims.items() if (value := as_polynomial(dim)) is not None}


def match_dim(param: Dim, arg: Dim, dims: dict[str, Dim]) -> str | None:
    """Bind a name of a parameter's dimension to an argument's; return the name, None if nothing was learned.

    ``dims``: the names known so far; a label that cannot be solved for a name is bound as a whole.
    """
    if not isinstance(param, AnyDim) or param.label is None:
        return None
    label = param.label
    open_names = dim_names(param) - set(dims)
    if label in dims or arg == ANY or (not open_names and dim_names(param)):
        return None
    if isinstance(arg, AnyDim | int) and len(open_names) == 1:
        (name,) = open_names
        size, values = as_polynomial(arg), _polynomials(dims)
        solved = None if size is None else solution(polynomial(label), size, name, values)
        if solved is not None:
            dims[name] = as_dim(solved)
            return name
    dims[label] = arg
    return label


def _arithmetic(function: Callable[[Any, Any], Any], lhs: Dim, rhs: Dim) -> Dim:
    """Apply ``function``, which is defined for ints and for polynomials."""
    if not (isinstance(lhs, int) and isinstance(rhs, int)):
        try:
            first, second = as_polynomial(lhs), as_polynomial(rhs)
            return ANY if first is None or second is None else as_dim(function(first, second))
        except NoPolynomialError:
            return ANY
    wide = isinstance(lhs, Int64) or isinstance(rhs, Int64)
    value: int = function(int(lhs), int(rhs))
    return Int64(value) if wide else value


def add(lhs: Dim, rhs: Dim) -> Dim:
    """Return the sum; adding 0 keeps a dynamic dimension's label."""
    if rhs == 0:
        return lhs
    return rhs if lhs == 0 else _arithmetic(operator.add, lhs, rhs)


def subtract(lhs: Dim, rhs: Dim) -> Dim:
    """Return the difference."""
    return lhs if rhs == 0 else _arithmetic(operator.sub, lhs, rhs)


def multiply(lhs: Dim, rhs: Dim) -> Dim:
    """Return the product; a dynamic dimension times 1 keeps its label."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _arithmetic(operator.mul, lhs, rhs)  # a 64-bit 1 makes the product 64-bit
    if rhs == 1:
        return lhs
    return rhs if lhs == 1 else _arithmetic(operator.mul, lhs, rhs)


def floor_divide(lhs: Dim, rhs: Dim) -> Dim:
    """Return the quotient, rounded down."""
    if rhs == 1 and not isinstance(lhs, int):
        return lhs
    return _arithmetic(operator.floordiv, lhs, rhs)


def ceil_divide(lhs: Dim, rhs: Dim) -> Dim:
    """Return the quotient, rounded up."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _arithmetic(lambda a, b: -(-a // b), lhs, rhs)
    return floor_divide(add(lhs, add(rhs, -1)), rhs)


def minimum(lhs: Dim, rhs: Dim) -> Dim:
    """Return the smaller one."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _arithmetic(min, lhs, rhs)
    return _arithmetic(polynomials.minimum, lhs, rhs)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    total: Dim = 1
    for dim in dims:
        total = multiply(total, dim)
    return total


def total(dims: Iterable[Dim]) -> Dim:
    """Return the sum of dimensions."""
    result: Dim = 0
    for dim in dims:
        result = add(result, dim)
    return result


def static_size(shape: Sequence[Dim]) -> int | None:
    """Return the number of elements of a static shape, None for a dynamic one."""
    sizes = [dim for dim in shape if isinstance(dim, int)]
    return math.prod(map(int, sizes)) if len(sizes) == len(shape) else None


def broadcast_dim(lhs: Dim, rhs: Dim) -> Dim | None:
    """Broadcast two dimensions by NumPy's rule, with Relay's for ``?``; None if they do not fit."""
    if same_dim(lhs, rhs):
        return lhs
    if lhs == 1:
        return rhs
    if rhs == 1:
        return lhs
    if isinstance(lhs, int) and isinstance(rhs, int):
        return None
    if isinstance(lhs, int):
        return lhs
    if isinstance(rhs, int):
        return rhs
    if isinstance(lhs, VarDim) and isinstance(rhs, VarDim):
        return None
    return lhs if _covers(lhs, rhs) else rhs if _covers(rhs, lhs) else ANY


def _covers(size: Dim, part: Dim) -> bool:
    """Return whether a name and a minimum with it broadcast to the name, where they fit.

    They do if the minimum is never larger, and 1 where the name is 1.
    """
    whole_size, less = as_polynomial(size), as_polynomial(part)
    if (
        whole_size is None
        or less is None
        or not has_positive_part(less)
        or not str(whole_size).isidentifier()
    ):
        return False
    try:
        least = evaluate(less, {str(whole_size): constant(1)}, constant)
        return least == constant(1) and is_nonnegative(whole_size - less)
    except (KeyError, NoPolynomialError):
        return False


def broadcast_shapes(lhs: Sequence[Dim], rhs: Sequence[Dim]) -> Shape | None:
    """Broadcast two shapes, aligned at the right; None if they do not fit."""
    rank = max(len(lhs), len(rhs))
    padded = ((1,) * (rank - len(lhs)) + tuple(lhs), (1,) * (rank - len(rhs)) + tuple(rhs))
    dims = [broadcast_dim(a, b) for a, b in zip(*padded, strict=True)]
    return None if None in dims else tuple(dim for dim in dims if dim is not None)


def window_output(size: Dim, padding: Dim, window: Dim, stride: Dim, *, ceil: bool = False) -> Dim:
    """Return the number of windows in ``size`` with padding, by stride; rounded up with ``ceil``."""
    room = subtract(padding, window)
    if size == ANY:
        return size if room == -1 and stride == 1 else ANY
    return add((ceil_divide if ceil else floor_divide)(add(size, room), stride), 1)


def round_scale(size: Dim, scale: float) -> Dim:
    """Multiply a dimension by a finite factor, and round to the nearest integer, halves to even."""
    if not isinstance(size, int):
        return size if scale == 1 else ANY
    return round(size * scale)


def dilate(window: Dim, dilation: Dim) -> Dim:
    """Return the number of elements that a window spans with ``dilation`` between neighbours."""
    return window if dilation == 1 else add(multiply(add(window, -1), dilation), 1)
