"""Arithmetic on dimensions and shapes, some of which are known only when the program runs. Knows types only.

A dimension that is carried through unchanged keeps its label; arithmetic on an unknown one gives ``?``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from nnmagic.relay.types import ANY, AnyDim, Dim, Int64, VarDim

Shape = tuple[Dim, ...]


def is_unknown(dim: Dim) -> bool:
    """Whether the dimension is ``?``, with or without a label."""
    return isinstance(dim, AnyDim)


def same_dim(left: Dim, right: Dim) -> bool | None:
    """Whether two dimensions are equal; None where that is known only when the program runs."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if left == right and not (isinstance(left, AnyDim) and left.label is None):
        return True
    return None


def merge_dim(left: Dim, right: Dim) -> Dim:
    """The dimension of two that must be equal: the more precise one."""
    if isinstance(left, int) or (isinstance(right, AnyDim) and right.label is None):
        return left
    return right if isinstance(right, int) or left == ANY else left


def _arithmetic(function: Callable[[int, int], int], left: Dim, right: Dim) -> Dim:
    if not (isinstance(left, int) and isinstance(right, int)):
        return ANY
    wide = isinstance(left, Int64) or isinstance(right, Int64)
    value = function(int(left), int(right))
    return Int64(value) if wide else value


def add(left: Dim, right: Dim) -> Dim:
    """The sum; nothing added to an unknown dimension leaves it as it is."""
    if right == 0:
        return left
    return right if left == 0 else _arithmetic(int.__add__, left, right)


def multiply(left: Dim, right: Dim) -> Dim:
    """The product; an unknown dimension once is itself."""
    if right == 1:
        return left
    return right if left == 1 else _arithmetic(int.__mul__, left, right)


def floor_divide(left: Dim, right: Dim) -> Dim:
    """The quotient, rounded down."""
    return left if right == 1 else _arithmetic(int.__floordiv__, left, right)


def ceil_divide(left: Dim, right: Dim) -> Dim:
    """The quotient, rounded up."""
    return left if right == 1 else _arithmetic(lambda a, b: -(-a // b), left, right)


def product(dims: Iterable[Dim]) -> Dim:
    """How many elements a shape has."""
    total: Dim = 1
    for dim in dims:
        total = multiply(total, dim)
    return total


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of dimensions."""
    result: Dim = 0
    for dim in dims:
        result = add(result, dim)
    return result


def known_size(shape: Sequence[Dim]) -> int | None:
    """How many elements a shape has, where all its dimensions are known."""
    known = [dim for dim in shape if isinstance(dim, int)]
    return math.prod(map(int, known)) if len(known) == len(shape) else None


def broadcast_dim(left: Dim, right: Dim) -> Dim | None:
    """NumPy's rule for one dimension, with Relay's for ``?``; None where the two do not fit."""
    if same_dim(left, right):
        return left
    if left == 1:
        return right
    if right == 1:
        return left
    if isinstance(left, int) and isinstance(right, int):
        return None
    if isinstance(left, int):
        return left
    if isinstance(right, int):
        return right
    if isinstance(left, VarDim) and isinstance(right, VarDim):
        return None
    return ANY


def broadcast_shapes(left: Sequence[Dim], right: Sequence[Dim]) -> Shape | None:
    """The shape of two broadcast together, aligned at the right; None where they do not fit."""
    rank = max(len(left), len(right))
    padded = ((1,) * (rank - len(left)) + tuple(left), (1,) * (rank - len(right)) + tuple(right))
    dims = [broadcast_dim(a, b) for a, b in zip(*padded, strict=True)]
    return None if None in dims else tuple(dim for dim in dims if dim is not None)


def window_output(size: Dim, padding: Dim, window: Dim, stride: Dim, *, ceil: bool = False) -> Dim:
    """How many places a window has in ``size`` with padding, step by step; rounded up with ``ceil``."""
    room = add(padding, _arithmetic(int.__sub__, 0, window))
    if is_unknown(size):
        return size if room == -1 and stride == 1 else ANY
    return add((ceil_divide if ceil else floor_divide)(add(size, room), stride), 1)


def round_scale(size: Dim, scale: float) -> Dim:
    """The dimension times a finite factor, rounded to the nearest integer, halves to the even one."""
    if not isinstance(size, int):
        return size if scale == 1 else ANY
    return round(size * scale)


def dilated(window: Dim, dilation: Dim) -> Dim:
    """How many elements a window spans when ``dilation`` lies between neighbours."""
    return window if dilation == 1 else add(multiply(add(window, -1), dilation), 1)
