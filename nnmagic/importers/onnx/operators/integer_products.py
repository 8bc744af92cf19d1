"""Import products of integers of 8 bits, in float32 as far as it holds each of their sums exactly.

The standard: https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.values import Value, constant, op

#: Up to it, float32 holds each integer, and so each sum whose terms sum up to no more.
_MOST_EXACT = 2**24

#: A product of two tensors: of matrices, or a convolution.
Multiply = Callable[[Value, Value], Value]


def shifted(value: Value, zero: Value | None, axis: int | None = None, dtype: str = "int32") -> Value:
    """Return integers less their zero point; a vector of zero points lies along an axis."""
    wide = value.cast(dtype)
    if zero is None:
        return wide
    zero = zero.cast(dtype)
    if zero.rank == 1 and axis is not None and zero.shape != (1,):
        after = value.rank - 1 - axis % value.rank
        zero = op("expand_dims", zero, axis=1, num_newaxis=after) if after else zero
    elif zero.rank == 1:
        zero = shapes.scalar(zero)
    return wide - zero


def multiply_matrices(
    lhs: Value, left_zero: Value | None, rhs: Value, right_zero: Value | None, multiply: Multiply
) -> Value:
    """Return the product of matrices less their zero points, as whole numbers of float32 or int32."""
    weights = _static_weights(rhs, right_zero, -1)
    if weights is not None:
        sizes = np.abs(weights).max(tuple(range(weights.ndim - 2)), initial=0).T
        ranges = _parts(lhs, left_zero, sizes)
        if ranges is not None:
            data = shifted(lhs, left_zero, -2, "float32")
            return _sum(data, data.rank - 1, weights, weights.ndim - 2, ranges, multiply)
    return multiply(shifted(lhs, left_zero, -2), shifted(rhs, right_zero, -1))


def convolve_integers(
    data: Value,
    data_zero: Value | None,
    weight: Value,
    weight_zero: Value | None,
    groups: int,
    multiply: Multiply,
) -> Value:
    """Return the convolution of channels less their zero points, as whole numbers of float32 or int32."""
    weights = _static_weights(weight, weight_zero, 0)
    if weights is not None:
        terms = _parts(data, data_zero, np.abs(weights).sum(tuple(range(2, weights.ndim))))
        if terms is not None and (groups == 1 or len(terms) == 1):
            return _sum(shifted(data, data_zero, 1, "float32"), 1, weights, 1, terms, multiply)
    return multiply(shifted(data, data_zero, 1), shifted(weight, weight_zero, 0))


def _static_weights(weight: Value, zero: Value | None, axis: int) -> np.ndarray | None:
    """Return weights less their zero points, if they are constants of 8 bits."""
    static = weight.known
    if static is None or weight.dtype not in ("int8", "uint8") or static.ndim < 2 or not static.size:
        return None
    if zero is None:
        return static.astype("int32")
    if zero.known is None:
        return None
    zeros = zero.known.astype("int32")
    if zeros.ndim == 1 and zeros.size > 1:
        zeros = zeros.reshape([-1 if at == axis % static.ndim else 1 for at in range(static.ndim)])
    less: np.ndarray = static - zeros
    return less


def _parts(data: Value, zero: Value | None, sizes: np.ndarray) -> list[tuple[int, int]] | None:
    """Return ranges of the axis that is summed over, such that the sums over each are exact in float32.

    sizes: the absolute weights, of (an element of the result, an element that is summed). None: there are
    no such ranges.
    """
    most = _largest(data, zero)
    if most is None:
        return None
    length = sizes.shape[1]
    for step in _halves(length):
        bounds = [(begin, min(begin + step, length)) for begin in range(0, length, step)]
        if all(most * sizes[:, begin:end].sum(1).max() <= _MOST_EXACT for begin, end in bounds):
            return bounds
    return None


def _halves(length: int) -> Iterator[int]:
    while length >= 16:
        yield length
        length = -(-length // 2)
    yield length


def _largest(data: Value, zero: Value | None) -> int | None:
    """Return how far numbers of 8 bits can be from their zero point."""
    if data.dtype not in ("int8", "uint8"):
        return None
    least, most = (-128, 127) if data.dtype == "int8" else (0, 255)
    if zero is None:
        return max(-least, most)
    if zero.known is None:
        return 255
    return int(max(np.max(zero.known.astype(int)) - least, most - np.min(zero.known.astype(int))))


def _sum(
    data: Value,
    axis: int,
    weights: np.ndarray,
    summed: int,
    ranges: list[tuple[int, int]],
    multiply: Multiply,
) -> Value:
    """Add the products of parts of an axis."""
    factors = weights.astype("float32")
    if len(ranges) == 1:
        return multiply(data, constant(factors))
    total: Value | None = None
    for begin, end in ranges:
        factor = np.take(factors, range(begin, end), axis=summed)
        product = multiply(shapes.slice_axis(data, axis, begin, end), constant(factor)).cast("int32")
        total = product if total is None else total + product
    assert total is not None
    return total
