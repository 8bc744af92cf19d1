"""Define NumPy's cumulative sums and products with the array API standard's names.

The standard: https://data-apis.org/array-api/latest/API_specification/generated/array_api.cumulative_sum.html
"""

from __future__ import annotations

from nnmagic.relay.types import is_complex
from nnmagic.tinynn.builtins.argument_checks import dtype_argument, flag, formula, one_axis, static_size
from nnmagic.tinynn.builtins.numpy.reductions import wide_dtype
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, numpy_function
from nnmagic.tinynn.values.values import RefusalError, Value


def _cumulative(name: str, operator: str) -> Builtin:
    """Declare a scan along one axis, which only a vector may leave out."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "x")
        if data.rank == 0:
            raise RefusalError(f"{name} of a scalar", call.at("x"))
        if data.rank > 1 and "axis" not in call:
            hint = "give the axis, as in axis=0"
            raise RefusalError(f"{name} of a tensor of rank {data.rank}", call.span, hint=hint)
        axis = one_axis(call, "axis", data.rank) if "axis" in call else 0
        dtype = dtype_argument(call) or wide_dtype(data.dtype)
        if data.dtype == "bool" or is_complex(dtype):
            data = data.cast(dtype)
        if operator == "cumprod" and is_complex(dtype):
            scanned = _complex_products(call, data, axis)
        else:
            scanned = data.op(operator, axis=axis, dtype=dtype)
        if flag(call, "include_initial"):
            scanned = concatenate(call, [_initial(scanned, axis, operator), scanned], axis)
        return scanned.value

    what = "sum" if operator == "cumsum" else "product"
    summary = f"Compute the cumulative {what} along an axis; `include_initial` puts that of nothing first."
    return numpy_function(name, "x * axis? dtype? include_initial?", apply_to, summary)


def _initial(scanned: Formula, axis: int, operator: str) -> Formula:
    """Return the sum or the product of nothing, as one element along the axis."""
    zeros = scanned.op("zeros_like").reduce("sum", (axis,), keepdims=True)
    return zeros if operator == "cumsum" else zeros + 1


def _complex_products(call: Arguments, data: Formula, axis: int) -> Formula:
    """Multiply by what is 1, 2, 4 ... elements before: after that the products of all before."""
    size = static_size(call, data.shape[axis], call.at("x"), "the size of a complex axis")
    step = 1
    while step < size:
        kept = data.between(axis, 0, step)
        rest = data.between(axis, step, size) * data.between(axis, 0, size - step)
        data, step = concatenate(call, [kept, rest], axis), 2 * step
    return data


SCANS = (_cumulative("cumulative_sum", "cumsum"), _cumulative("cumulative_prod", "cumprod"))
