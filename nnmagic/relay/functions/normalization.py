"""Write normalizations of floats along axes with Relay's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nnmagic.relay.tensor_expr import TensorOperators

T = TypeVar("T", bound=TensorOperators)


def moments(x: T, axes: Sequence[int]) -> tuple[T, T]:
    """Return the mean and the variance along axes, which are kept."""
    mean = x.op("mean", axis=tuple(axes), keepdims=True)
    return mean, x.op("variance", mean, axis=tuple(axes), keepdims=True)


def standardize(x: T, axes: Sequence[int], epsilon: float) -> tuple[T, T, T, T]:
    """Return (x - mean) / sqrt(variance + epsilon); the mean, the variance, and 1 / sqrt(variance + epsilon).

    The axes of the last three have the size 1.
    """
    mean, variance = moments(x, axes)
    inverse = (variance + epsilon).op("rsqrt")
    return (x - mean) * inverse, mean, variance, inverse


def rms_norm(x: T, axes: Sequence[int], epsilon: float) -> T:
    """Compute x / sqrt(mean(x ** 2) + epsilon) (Zhang and Sennrich, arXiv:1910.07467)."""
    return x * ((x * x).op("mean", axis=tuple(axes), keepdims=True) + epsilon).op("rsqrt")


def per_channel(vector: T, rank: int) -> T:
    """Return a vector so that it is broadcast along the channels, the second axis of that rank."""
    return vector.op("expand_dims", axis=1, num_newaxis=rank - 2) if rank > 2 else vector


def scale_and_shift(x: T, weight: T | None, bias: T | None) -> T:
    """Multiply by a weight and add a bias, where given; they are broadcast."""
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def scale_channels(x: T, weight: T | None, bias: T | None) -> T:
    """Multiply by a weight and add a bias, where given: vectors with a number for each channel, axis 1."""
    wide = (None if vector is None else per_channel(vector, x.rank) for vector in (weight, bias))
    return scale_and_shift(x, *wide)
