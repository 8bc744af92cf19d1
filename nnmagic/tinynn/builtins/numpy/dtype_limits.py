"""Define finfo and iinfo, which tell the limits of dtypes as numbers that are known at compile time.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.finfo.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float, is_integer
from nnmagic.tinynn.builtins.argument_checks import dtype_of_operand
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.types.annotations import dtype_named
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.values import Known, RefusalError, TupleOf, Value

#: The numbers that NumPy's finfo and PyTorch's have.
_OF_FLOATS = (
    *("bits", "eps", "max", "min", "tiny", "smallest_normal", "smallest_subnormal", "resolution", "epsneg"),
    *("nmant", "precision"),
)


def _dtype(call: Arguments, default: str | None) -> str:
    """Return the dtype that is asked for: one that is given, or that of a tensor."""
    operand = call.given.get("type")
    if operand is None and default is not None:
        return default
    if operand is None:
        raise RefusalError(
            f"{call.name}: missing argument `type`", call.span, hint="give a dtype, or x.dtype"
        )
    return tensor_type(operand).dtype if is_tensor(operand.value) else dtype_of_operand(operand, call.name)


def _of_floats(call: Arguments) -> Value:
    dtype = _dtype(call, "float32")
    if is_complex(dtype):
        dtype = "float32" if dtype == "complex64" else "float64"
    if not is_float(dtype):
        message = f"finfo tells the limits of floats, not of {dtype_short_name(dtype)}"
        raise RefusalError(message, call.span, hint="write iinfo" if is_integer(dtype) else None)
    if dtype == "bfloat16":
        import ml_dtypes

        info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # it has no types
    else:
        info = np.finfo(dtype)
    whole = ("bits", "nmant", "precision")
    numbers = [
        int(getattr(info, name)) if name in whole else float(getattr(info, name)) for name in _OF_FLOATS
    ]
    items = (*map(Known, numbers), Known(dtype_named(dtype)))
    return TupleOf(items, names=(*_OF_FLOATS, "dtype"))


def _of_integers(call: Arguments) -> Value:
    dtype = _dtype(call, None)
    if not is_integer(dtype):
        message = f"iinfo tells the limits of integers, not of {dtype_short_name(dtype)}"
        raise RefusalError(message, call.span, hint="write finfo" if is_float(dtype) else None)
    info = np.iinfo(dtype)
    items = (Known(info.bits), Known(int(info.max)), Known(int(info.min)), Known(dtype_named(dtype)))
    return TupleOf(items, names=("bits", "max", "min", "dtype"))


#: Called by the names of a library alone, as ``np.finfo(f32).eps``.
DTYPE_LIMITS = {
    "finfo": free_function(
        "finfo",
        "type?",
        _of_floats,
        f"Return the limits of a float dtype, as numbers: {', '.join(_OF_FLOATS)}.",
        "dtype=type",
    ),
    "iinfo": free_function(
        "iinfo",
        "type?",
        _of_integers,
        "Return the limits of an integer dtype, as numbers: bits, max, min.",
        "dtype=type int_type=type",
    ),
}
