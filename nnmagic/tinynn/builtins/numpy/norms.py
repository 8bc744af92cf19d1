"""Define NumPy's norms of vectors and matrices (numpy.linalg).

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.linalg.norm.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnmagic.relay.types import Dim
from nnmagic.tinynn.builtins.argument_checks import axes, flag, formula, require_rank, static_number
from nnmagic.tinynn.builtins.numpy.linalg import floats, singular_values
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.values import RefusalError, Value

_BY_SINGULAR_VALUES = (2, -2, "nuc")


def _norm(call: Arguments) -> Value:
    """Compute the norms of vectors or of matrices along one or two axes; without `ord` of all elements."""
    data = formula(call, "x")
    order = call.static("ord") if "ord" in call else None
    if is_number(order):
        order = static_number(call, "ord", 2)
    along, keepdims = axes(call, data.rank), flag(call, "keepdims")
    count = data.rank if along is None else len(along)
    data = _as_floats(data, order if count > 1 else None)
    if order is None and (along is None or len(along) < 3):
        return _root_of_squares(data, along, keepdims=keepdims).value
    along = tuple(range(data.rank)) if along is None else along
    if len(along) == 1:
        result = _vector_norm(call, data, along, order, keepdims=keepdims)
    elif len(along) == 2:
        result = _matrix_norm(call, data, along[0], along[1], order)
        if keepdims:
            kept: list[Dim] = [1 if axis in along else dim for axis, dim in enumerate(data.shape)]
            result = result.reshape(kept, data)
    else:
        message = f"norm along {len(along)} axes: a vector has one, a matrix two"
        raise RefusalError(message, call.span, hint="give the axes, or leave `ord` out")
    return result.value


def _as_floats(data: Formula, order: object) -> Formula:
    """Return numbers as floats: of complex numbers absolute values, except for norms by singular values."""
    if data.is_complex:
        return data if order in _BY_SINGULAR_VALUES else data.abs()
    return data if data.is_float else data.cast("float64")


def _root_of_squares(data: Formula, along: Sequence[int] | None, *, keepdims: bool) -> Formula:
    return (data * data).reduce("sum", along, keepdims=keepdims).sqrt()


def _vector_norm(
    call: Arguments, data: Formula, along: tuple[int, ...], order: object, *, keepdims: bool
) -> Formula:
    if not isinstance(order, int | float):
        raise RefusalError("norm: `ord` must be a number for vectors", call.at("ord"))
    if order == math.inf:
        return data.abs().reduce("max", along, keepdims=keepdims).op("maximum", 0)  # 0 of no elements
    if order == -math.inf:
        return data.abs().reduce("min", along, keepdims=keepdims)
    if order == 0:
        return data.truth().cast(data.dtype).reduce("sum", along, keepdims=keepdims)
    if order == 1:
        return data.abs().reduce("sum", along, keepdims=keepdims)
    if order == 2:
        return _root_of_squares(data, along, keepdims=keepdims)
    powers = (data.abs() ** float(order)).reduce("sum", along, keepdims=keepdims)
    return powers.op("power", 1 / order)


def _extremum(data: Formula, axis: int, *, least: bool) -> Formula:
    """Return the least along an axis, or the largest of numbers that are not negative: 0 of no elements."""
    return data.reduce("min", (axis,)) if least else data.reduce("max", (axis,)).op("maximum", 0)


def _matrix_norm(call: Arguments, data: Formula, row: int, column: int, order: object) -> Formula:
    if order in ("fro", "f"):
        return _root_of_squares(data, (row, column), keepdims=False)
    if order in (1, -1, math.inf, -math.inf):
        assert isinstance(order, int | float)
        inner, outer = (row, column) if abs(order) == 1 else (column, row)
        sums = data.abs().reduce("sum", (inner,))
        axis = outer - (outer > inner)
        return _extremum(sums, axis, least=order < 0)
    if order in _BY_SINGULAR_VALUES:
        kept = [axis for axis in range(data.rank) if axis not in (row, column)]
        values = singular_values(call, floats(call, data, "x").transpose([*kept, row, column]))
        axis = values.rank - 1
        if order == "nuc":
            return values.reduce("sum", (axis,))
        return _extremum(values, axis, least=order == -2)
    message = f"norm: `ord` of a matrix must be 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc', not {order!r}"
    raise RefusalError(message, call.at("ord"))


def _order(call: Arguments, default: object) -> object:
    order = call.static("ord") if "ord" in call else default
    return static_number(call, "ord", 2) if is_number(order) and "ord" in call else order


def _vector_norms(call: Arguments) -> Value:
    """Compute the norm along the axes as if they were one; of all elements without them."""
    data = _as_floats(formula(call, "x"), None)
    along, keepdims = axes(call, data.rank), flag(call, "keepdims")
    every = tuple(range(data.rank)) if along is None else along
    return _vector_norm(call, data, every, _order(call, 2), keepdims=keepdims).value


def _matrix_norms(call: Arguments) -> Value:
    """Compute the norm of the matrices in the last two axes."""
    data = formula(call, "x")
    require_rank(call, data, "x", 2)
    order = _order(call, "fro")
    data = _as_floats(data, order)
    result = _matrix_norm(call, data, data.rank - 2, data.rank - 1, order)
    if flag(call, "keepdims"):
        result = result.reshape((*data.shape[:-2], 1, 1), data)
    return result.value


NORMS = (
    Builtin(
        "norm",
        "x ord? axis? keepdims?",
        _norm,
        "Compute the norm of vectors or matrices (numpy.linalg.norm).",
        aliases="input=x",
    ),
    cell_function(
        "vector_norm",
        "x axis? keepdims? ord?",
        _vector_norms,
        "Compute the norm of vectors along axes, or of all elements (numpy.linalg.vector_norm).",
        aliases="input=x",
    ),
    cell_function(
        "matrix_norm",
        "x keepdims? ord?",
        _matrix_norms,
        "Compute the norms of matrices, by default Frobenius' (numpy.linalg.matrix_norm).",
        aliases="input=x",
    ),
)
