"""Define NumPy's functions size, shape and ndim, which tell the sizes of a tensor.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.shape.html
"""

from __future__ import annotations

from nnmagic.tinynn.builtins.argument_checks import formula, one_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_of
from nnmagic.tinynn.values.values import Known, Value


def _shape(call: Arguments) -> Value:
    return shape_of(formula(call, "a").value, call.span)


def _size(call: Arguments) -> Value:
    data = formula(call, "a")
    sizes = shape_of(data.value, call.span).items
    return sizes[one_axis(call, "axis", data.rank)] if "axis" in call else product_of(sizes, call.span)


def _ndim(call: Arguments) -> Value:
    return Known(formula(call, "a").rank)


#: Called by NumPy's names alone: bare they are names that programs give to variables.
SIZES = {
    "shape": free_function("shape", "a", _shape, "Return the sizes."),
    "size": free_function("size", "a axis?", _size, "Return the number of elements."),
    "ndim": free_function("ndim", "a", _ndim, "Return the number of axes."),
}
