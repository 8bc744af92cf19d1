"""Compute exact remainders of floating-point divisions as vectors; of large quotients, call the C library."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import FLOAT32, FLOAT64, Computation, vector_function

#: From this quotient on, its product with parts of the divisor may be rounded.
_LARGEST = {"float32": 2.0**23, "float64": 2.0**24}


@vector_function
def fmod(steps: Computation, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Compute the remainder of truncated division: exact, with the sign of x."""
    size, divisor = steps.bind("size", tirx.abs(x)), steps.bind("divisor", tirx.abs(y))
    quotient = steps.bind("quotient", size / divisor)
    whole = steps.bind("whole", tirx.trunc(quotient))
    remainder = steps.bind("rest", _subtract_product(steps, size, whole, divisor))
    # The quotient may have been rounded up to an integer.
    remainder = steps.bind("rest", tirx.Select(remainder < steps.number(0), remainder + divisor, remainder))
    # fmod(1, inf) is 1, but the quotient 0 times infinity is NaN.
    remainder = steps.bind("rest", tirx.Select(size < divisor, size, remainder))
    large = quotient >= steps.number(_LARGEST[steps.form.dtype])
    return steps.call_library_if(large, "fmod", (x, y), steps.copy_sign(remainder, x))


def _subtract_product(steps: Computation, size: PrimExpr, quotient: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """Compute ``size - whole * divisor`` exactly, where ``quotient`` is the quotient or that plus 1."""
    if steps.form is FLOAT32:
        wide = steps.in_format(FLOAT64)
        # 23 bits by 24 bits: exact in float64, and so is the difference.
        product = wide.bind("product", quotient.astype("float64") * divisor.astype("float64"))
        return (size.astype("float64") - product).astype("float32")
    # 24 bits by 26 bits, and 24 by 27: both products are exact.
    first = steps.head(divisor)
    rest = steps.bind("rest", size - quotient * first)
    second = steps.bind("second", divisor - first)
    return rest - quotient * second
