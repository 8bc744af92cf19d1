"""Define NumPy's functions that make indices: indices, ix_, triu_indices and the like.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.indexing.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.types import TensorType
from nnmagic.tinynn.builtins.argument_checks import as_formula, static_int, static_value_or_none
from nnmagic.tinynn.builtins.numpy.spaced_numbers import grid
from nnmagic.tinynn.builtins.tensor_helpers import constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, free_function
from nnmagic.tinynn.values.symbolic_sizes import is_size
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, SliceOf, TupleOf, Value


def _indices(call: Arguments) -> Value:
    """Return the coordinates of a grid, as one tensor."""
    operand = call.given["dimensions"]
    shape = static_value_or_none(operand.value)
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if all(isinstance(size, int) and size >= 0 for size in sizes):
        return constant_of(np.indices(sizes), "int64", call.span).value
    named = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    negative = any(isinstance(size, int) and size < 0 for size in sizes)
    if negative or not all(is_size(size) or _is_integer(size) for size in named):
        raise RefusalError("indices takes a tuple of sizes", operand.span)
    slices = TupleOf(tuple(SliceOf(Known(0), size, Known(None)) for size in named))
    axes = grid(Arguments("indices", {"slices": Operand(slices, operand.span)}, call.span))
    if len(named) == 1:  # of which a grid has no first axis
        return as_formula(Operand(axes, call.span), call.span, "indices").expand(0).value
    return axes


def _is_integer(value: Value) -> bool:
    return isinstance(value, Computed) and value.type == TensorType((), "int64")


def _ix(call: Arguments) -> Value:
    """Return each vector along an axis of its own, to index with all of them."""
    vectors = [as_formula(item, call.span, "ix_: an item") for item in call.items("args")]
    if any(vector.rank != 1 or not (vector.is_integer) for vector in vectors):
        raise RefusalError(
            "ix_ takes vectors of integers", call.at("args"), hint="of a mask: np.nonzero(mask)[0]"
        )
    for number, vector in enumerate(vectors):
        after = len(vectors) - number - 1
        vectors[number] = vector.op("expand_dims", axis=1, num_newaxis=after) if after else vector
        for _ in range(number):
            vectors[number] = vectors[number].expand(0)
    return TupleOf(tuple(vector.value for vector in vectors))


def _triangle(call: Arguments) -> Value:
    """Return the rows and the columns of a triangle of a matrix."""
    n, k = static_int(call, "n", None), static_int(call, "k", 0)
    m = static_int(call, "m", n)
    if min(n, m) < 0 or n * m > _MOST:
        raise RefusalError(f"{call.name}: a matrix of {n} by {m}", call.span)
    find = np.triu_indices if call.name == "triu_indices" else np.tril_indices
    return TupleOf(tuple(constant_of(part, "int64", call.span).value for part in find(n, k, m)))


def _diagonal(call: Arguments) -> Value:
    n, ndim = static_int(call, "n", None), static_int(call, "ndim", 2)
    if n < 0 or not 1 <= ndim <= 64:
        raise RefusalError(f"diag_indices: {n} elements of {ndim} axes", call.span)
    return TupleOf((constant_of(np.arange(n), "int64", call.span).value,) * ndim)


#: The most elements of a matrix whose triangle is made at compile time.
_MOST = 1 << 24

INDEX_SETS = (
    free_function("indices", "dimensions", _indices, "Coordinates of a grid of a shape, as one tensor."),
    free_function("ix_", "*args", _ix, "Vectors that index all their combinations: `x[ix_(i, j)]`."),
    free_function(
        "triu_indices", "n k? m?", _triangle, "Rows and columns of the upper triangle of a matrix."
    ),
    free_function(
        "tril_indices", "n k? m?", _triangle, "Rows and columns of the lower triangle of a matrix."
    ),
    free_function("diag_indices", "n ndim?", _diagonal, "Indices of the diagonal of a matrix."),
)
