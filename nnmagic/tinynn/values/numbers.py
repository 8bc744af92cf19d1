"""Turn Python numbers into constants."""

from __future__ import annotations

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, is_complex, is_float, part_dtype
from nnmagic.tinynn.values.descriptions import brief
from nnmagic.tinynn.values.values import Computed, RefusalError

#: An int that is known at compile time has at most as many bits: a float holds no larger one.
MAX_INT_BITS = 1024


def is_number(value: object) -> bool:
    """Return whether a static value is a Python number (True and False too)."""
    return isinstance(value, bool | int | float | complex)


def number_constant(
    number: bool | int | float | complex, dtype: str, span: Span, wanted_by: str = ""
) -> Computed:
    """Convert a Python number to a constant of rank 0. Raises RefusalError where the dtype cannot hold it.

    ``wanted_by`` replaces the hint: how to convert the tensor beside the number.
    """
    if is_complex(dtype):
        return _complex_constant(complex(number), dtype, span)
    short = dtype_short_name(dtype)
    if isinstance(number, complex):
        hint = wanted_by or f"take its real part, or use a complex dtype instead of {short}"
        raise RefusalError(f"the complex number {number!r} cannot become {short}", span, hint=hint)
    if isinstance(number, float) and not is_float(dtype):
        hint = wanted_by or f"write a whole number, or use a float dtype instead of {short}"
        raise RefusalError(f"the float {number!r} cannot become {short}", span, hint=hint)
    if dtype == "bool" and not isinstance(number, bool):
        raise RefusalError(f"the number {number!r} cannot become bool_", span, hint="write True or False")
    native = ARRAY_DTYPES[dtype]
    if not is_float(dtype) and dtype != "bool":
        limits = np.iinfo(str(native))
        if not limits.min <= number <= limits.max:
            raise RefusalError(f"{number} does not fit in {short} ({limits.min} to {limits.max})", span)
    try:
        with np.errstate(over="ignore"):
            stored = np.array(float(number) if is_float(dtype) else number, dtype=native)
    except OverflowError:  # an int beyond the range of a float
        raise RefusalError(f"{brief(number)} does not fit in {short}", span) from None
    if is_float(dtype) and not np.isfinite(stored) and abs(number) != float("inf") and number == number:  # noqa: PLR0124  # nan
        raise RefusalError(f"{brief(number)} does not fit in {short}", span)
    return Computed(ir.constant(stored, dtype, span=span), TensorType((), dtype))


def _complex_constant(number: complex, dtype: str, span: Span) -> Computed:
    for part in (number.real, number.imag):
        number_constant(part, part_dtype(dtype), span)  # refuses what does not fit
    constant = ir.constant(np.array(number, ARRAY_DTYPES[dtype]), dtype, span=span)
    return Computed(constant, TensorType((), dtype))


#: The dtypes of Python's numbers at run time: each takes the numbers of those before it.
NATURAL_DTYPES = ("bool", "int64", "float64", "complex128")


def natural_dtype(number: bool | int | float | complex) -> str:
    """Return the dtype of a Python number at run time."""
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, complex):
        return "complex128"
    return "int64" if isinstance(number, int) else "float64"
