"""Declare operators that put elements into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, DIM, INT, INTEGER, STR, array
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.indexing import index_depth, integers, signed_integers
from nnmagic.relay.ops.relations import axis_of, dims, identity, ints, require_type, tensor
from nnmagic.relay.types import ANY, Dim, TensorType, Type, is_integer

declare = Family("indexing").declare

#: How scatter_elements and scatter_nd can combine an update with the element that it updates.
_COMBINED = ("update", "add", "mul", "mean", "min", "max")


def _check_combination(attrs: Attrs, name: str) -> None:
    if attrs[name] not in _COMBINED:
        raise RelationError(f"{name} must be one of {', '.join(_COMBINED)}, not {attrs[name]!r}", attr=name)


# --- scatter_elements, scatter_nd -------------------------------------------------------------------------


def _scatter_elements(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, _, _ = tensor(types, 0), integers(types, 1), tensor(types, 2)
    axis_of(attrs, data.shape)
    _check_combination(attrs, "reduction")
    return data


def _check_scatter_elements(types: Sequence[Type], _attrs: Attrs) -> None:
    ranks = {len(tensor(types, index).shape) for index in range(3)}
    if len(ranks) > 1:
        raise RelationError("data, indices and updates must have one rank", 0, 1, 2)


def _fit_elements(types: Sequence[Type], attrs: Attrs) -> None:
    """Require an update for each index, and data that has an element for each of them."""
    data, indices, updates = sizes(types)
    if indices != updates:
        raise RelationError(f"the indices are of shape {indices}, the updates of {updates}", 1, 2)
    if 0 in indices:
        return
    scattered = cast(int, attrs["axis"]) % len(data)
    pairs = enumerate(zip(indices, data, strict=True))
    if any(count > size for axis, (count, size) in pairs if axis != scattered):
        message = f"indices of shape {indices} reach beyond data of shape {data} beside axis {scattered}"
        raise RelationError(message, 1, 0, attr="axis")
    if data[scattered] == 0:
        raise RelationError("there is no element to update", 0)


def _scatter_nd(types: Sequence[Type], attrs: Attrs) -> TensorType:
    _check_combination(attrs, "mode")
    data, indices, updates = tensor(types, 0), integers(types, 1), tensor(types, 2)
    depth = index_depth(indices, data, 1)
    wanted = len(indices.shape) - 1 + len(data.shape) - depth  # Relay does not compare the dimensions
    if len(updates.shape) < wanted:
        message = f"expected updates of rank {wanted} or more, found {{updates}}"
        raise RelationError(message, 2, updates=updates)
    return data


def _check_scatter_nd(types: Sequence[Type], _attrs: Attrs) -> None:
    data, indices, updates = (tensor(types, index) for index in range(3))
    depth = cast(int, indices.shape[0])
    require_type(updates, indices.shape[1:] + data.shape[depth:], "the updates", 2)


declare(
    "scatter_elements(data, indices, updates)",
    _scatter_elements,
    "Data with updates put at, or combined into, indices along an axis.",
    Attr("axis", INTEGER, 0),
    Attr("reduction", STR, "update"),
    numpy="numpy.put_along_axis",
    preconditions=[_check_scatter_elements],
    shape_constraints=[_fit_elements],
    traits=Trait.UPDATES,
)
declare(
    "scatter_nd(data, indices, updates)",
    _scatter_nd,
    "Data with updates put at, or combined into, indices whose coordinates lie along the first axis.",
    Attr("mode", STR, "update"),
    attrs_key="ScatterNDAttrs",
    preconditions=[_check_scatter_nd],
    traits=Trait.UPDATES,
)


# --- strided_set ------------------------------------------------------------------------------------------


def _check_strided_set(types: Sequence[Type], _attrs: Attrs) -> None:
    tensor(types), tensor(types, 1)
    for index in (2, 3, 4):
        if not is_integer(tensor(types, index, rank=1).dtype):
            raise RelationError("expected a vector of integers, found {operand}", index, operand=types[index])


declare(
    "strided_set(data, v, begin, end, strides)",
    identity,
    "Data with v put into a strided slice.",
    preconditions=[_check_strided_set],
    traits=Trait.UPDATES,
)


# --- sparse_to_dense --------------------------------------------------------------------------------------


def _sparse_to_dense(types: Sequence[Type], attrs: Attrs) -> TensorType:
    _, values = signed_integers(types, 0), tensor(types, 1)
    tensor(types, 2, rank=0)
    return TensorType(dims(attrs, "output_shape"), values.dtype)


def _check_sparse_to_dense(types: Sequence[Type], _attrs: Attrs) -> None:
    indices, values = tensor(types, 0), tensor(types, 1)
    if len(indices.shape) > 2 or len(values.shape) > 1:
        raise RelationError("sparse_indices has a rank of at most 2, sparse_values of at most 1", 0, 1)


def _fit_values(types: Sequence[Type], attrs: Attrs) -> None:
    """Require an index of the result for each value."""
    indices, values, _ = sizes(types)
    rank = len(ints(attrs, "output_shape"))
    if (indices[1] if len(indices) == 2 else 1) != rank:
        message = f"indices of shape {indices} do not name positions of a tensor of rank {rank}"
        raise RelationError(message, 0, attr="output_shape")
    if values and values[0] != (indices[0] if indices else 1):
        raise RelationError(f"there are indices of shape {indices}, and values of shape {values}", 0, 1)


declare(
    "sparse_to_dense(sparse_indices, sparse_values, default_value)",
    _sparse_to_dense,
    "A tensor with values at the given indices and a default elsewhere.",
    Attr("output_shape", array(DIM)),
    call_order="sparse_indices output_shape sparse_values default_value",
    arg_defaults={"default_value": 0},
    preconditions=[_check_sparse_to_dense],
    shape_constraints=[_fit_values],
)


# --- matrix_set_diag --------------------------------------------------------------------------------------


def _matrix_set_diag(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return the type of the data; diagonals k1 to k2 are set, several of them from the rows of ``diagonal``.

    Relay does not compare the shapes, only that there are enough dimensions.
    """
    data, diagonal = tensor(types, 0), tensor(types, 1)
    low, high = cast(int, attrs["k1"]), cast(int, attrs["k2"])
    if len(data.shape) < 2 or low > high:
        raise RelationError("expected matrices, and k1 of at most k2", 0, attr=("k1", "k2"))
    least = 1 if low == high else 2
    if len(diagonal.shape) < least:
        message = f"expected a diagonal of rank {least} or more, found {{diagonal}}"
        raise RelationError(message, 1, diagonal=diagonal)
    return data


def _check_matrix_set_diag(types: Sequence[Type], attrs: Attrs) -> None:
    data, diagonal = tensor(types, 0), tensor(types, 1)
    low, high = cast(int, attrs["k1"]), cast(int, attrs["k2"])
    *batch, rows, columns = data.shape
    length: Dim = ANY
    if isinstance(rows, int) and isinstance(columns, int):
        length = min(rows + min(high, 0), columns - max(low, 0))
        if length < 1 or low <= -rows or high >= columns:
            raise RelationError(f"{{data}} has no diagonals {low} to {high}", 0, attr=("k1", "k2"), data=data)
    several = () if low == high else (high - low + 1,)
    require_type(diagonal, (*batch, *several, length), "the diagonal", 1)


declare(
    "matrix_set_diag(input, diagonal)",
    _matrix_set_diag,
    "Matrices with some of their diagonals replaced.",
    Attr("k1", INT, 0),
    Attr("k2", INT, 0),
    Attr("super_diag_right_align", BOOL, default=True),
    Attr("sub_diag_right_align", BOOL, default=False),
    keywords={"data": "input"},
    traits=Trait.SPECULATABLE,
    preconditions=[_check_matrix_set_diag],
)
