"""Write activations of neural networks with Relay's operators; their operands are floats."""

from __future__ import annotations

import math
from typing import TypeVar

from nnmagic.relay.functions.special import softplus
from nnmagic.relay.tensor_expr import TensorOperators
from nnmagic.relay.types import is_float

T = TypeVar("T", bound=TensorOperators)


def gelu(x: T, approximate: str = "none") -> T:
    """Compute x * (1 + erf(x / sqrt(2))) / 2, or its "tanh" form (Hendrycks and Gimpel, arXiv:1606.08415)."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1 + inner.op("tanh"))
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).op("erf"))


def elu(x: T, alpha: float = 1.0, inner: float = 1.0) -> T:
    """Return x, or alpha * (exp(x * inner) - 1) where x is negative; -0.0 as it is."""
    return (x >= 0).choose(x, (x.minimum(0) * inner).op("numpy.expm1") * alpha)


def swish(x: T, slope: float = 1.0) -> T:
    """Compute x * sigmoid(slope * x)."""
    return x * (x if slope == 1 else x * slope).op("sigmoid")


def mish(x: T) -> T:
    """Compute x * tanh(softplus(x)) (Misra, arXiv:1908.08681)."""
    return x * softplus(x).op("tanh")


def softsign(x: T) -> T:
    """Compute x / (1 + abs(x))."""
    return x / (1 + x.abs())


def limit(x: T, low: float, high: float) -> T:
    """Limit numbers to a range; unlike that of a clip, the gradient of floats at its ends is 0."""
    if not is_float(x.dtype):
        return x.op("clip", a_min=float(low), a_max=float(high))
    return (x >= float(high)).choose(float(high), (x <= float(low)).choose(float(low), x))


def hard_swish(x: T) -> T:
    """Compute x * (x + 3) / 6, where the second factor is limited to 0 to 1."""
    return x * (limit(x + 3, 0, 6) / 6)  # the largest numbers times 6 would overflow
