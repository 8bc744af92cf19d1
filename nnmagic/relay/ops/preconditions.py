"""What a call needs to mean something although Relay's type relation does not ask for it.

Relay text is typed without it, as in real Relay; cells and engines refuse such a call. Rules over argument
types and attributes that raise RelationError, in a table by operator; the relation has been content before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import Shape
from nnmagic.relay.ops.nn_preconditions import NN_DEMANDS
from nnmagic.relay.ops.qnn import DEMANDS as QNN_DEMANDS
from nnmagic.relay.ops.relations import axis_of, ints, normalize_axis, require_type, tensor
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import ANY, Dim, Type, is_integer

_Demand = Callable[[Sequence[Type], Attrs], None]


def demand(name: str, types: Sequence[Type], attrs: Attrs) -> None:
    """Raises RelationError where a call that Relay has typed can have no meaning."""
    rule = _DEMANDS.get(name)
    if rule is None:
        return
    try:
        rule(types, attrs)
    except RelationError as error:
        message = f"{name}: {error.message}"
        raise RelationError(message, *error.operands, hint=error.hint, attr=error.attr) from None


def _take(types: Sequence[Type], attrs: Attrs) -> None:
    if attrs["axis"] is not None:
        axis_of(attrs, tensor(types).shape)


def _gather_nd(_types: Sequence[Type], attrs: Attrs) -> None:
    batch = cast(int, attrs["batch_dims"])
    if batch < 0:
        raise RelationError(f"batch_dims must not be negative, it is {batch}")


def _scatter_elements(types: Sequence[Type], _attrs: Attrs) -> None:
    ranks = {len(tensor(types, index).shape) for index in range(3)}
    if len(ranks) > 1:
        raise RelationError("data, indices and updates must have one rank", 0, 1, 2)


def _scatter_nd(types: Sequence[Type], _attrs: Attrs) -> None:
    data, indices, updates = (tensor(types, index) for index in range(3))
    depth = cast(int, indices.shape[0])
    require_type(updates, indices.shape[1:] + data.shape[depth:], "the updates", 2)


def _strided_set(types: Sequence[Type], _attrs: Attrs) -> None:
    tensor(types), tensor(types, 1)
    for index in (2, 3, 4):
        if not is_integer(tensor(types, index, rank=1).dtype):
            raise RelationError(f"expected a vector of integers, found {type_text(types[index])}", index)


def _sparse_to_dense(types: Sequence[Type], _attrs: Attrs) -> None:
    indices, values = tensor(types, 0), tensor(types, 1)
    if len(indices.shape) > 2 or len(values.shape) > 1:
        raise RelationError("sparse_indices has a rank of at most 2, sparse_values of at most 1", 0, 1)


def _matrix_set_diag(types: Sequence[Type], attrs: Attrs) -> None:
    data, diagonal = tensor(types, 0), tensor(types, 1)
    low, high = cast(int, attrs["k1"]), cast(int, attrs["k2"])
    *batch, rows, columns = data.shape
    length: Dim = ANY
    if isinstance(rows, int) and isinstance(columns, int):
        length = min(rows + min(high, 0), columns - max(low, 0))
        if length < 1 or low <= -rows or high >= columns:
            raise RelationError(f"{type_text(data)} has no diagonals {low} to {high}", 0)
    several = () if low == high else (high - low + 1,)
    require_type(diagonal, (*batch, *several, length), "the diagonal", 1)


def _unravel_index(types: Sequence[Type], _attrs: Attrs) -> None:
    tensor(types, 1, rank=1)


def _one_hot(types: Sequence[Type], _attrs: Attrs) -> None:
    for index in (1, 2):
        tensor(types, index, rank=0)


def _searchsorted(types: Sequence[Type], attrs: Attrs) -> None:
    if not tensor(types).shape:
        raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
    if attrs["dtype"] not in {"int32", "int64"}:
        raise RelationError(f"dtype must be int32 or int64, not {attrs['dtype']!r}")


def _sections(_types: Sequence[Type], attrs: Attrs) -> None:
    count = attrs["indices_or_sections"]
    if isinstance(count, int) and count <= 0:
        raise RelationError(f"the number of sections must be positive, it is {count}")


def _reshape_like(types: Sequence[Type], attrs: Attrs) -> None:
    _in_range(attrs, "lhs", tensor(types).shape, 0)
    _in_range(attrs, "rhs", tensor(types, 1).shape, 1)


def _in_range(attrs: Attrs, side: str, shape: Shape, operand: int) -> None:
    rank = len(shape)
    begin, end = attrs[f"{side}_begin"], attrs[f"{side}_end"]
    start = cast(int, begin) + (rank if cast(int, begin) < 0 else 0)
    stop = rank if end is None else cast(int, end) + (rank if cast(int, end) < 0 else 0)
    if not 0 <= start <= stop <= rank:
        raise RelationError(f"{side}_begin and {side}_end are out of range for rank {rank}", operand)


def _sliding_window(types: Sequence[Type], attrs: Attrs) -> None:
    data = tensor(types)
    over = data.shape[normalize_axis(cast(int, attrs["axis"]), len(data.shape)) :]
    window, strides = ints(attrs, "window_shape", len(over)), ints(attrs, "strides", len(over))
    if any(size < 1 for size in (*window, *strides)):
        raise RelationError("window_shape and strides must be positive")
    if any(isinstance(size, int) and size < width for size, width in zip(over, window, strict=True)):
        raise RelationError(f"the window {list(window)} is larger than {type_text(data)}", 0)


_DEMANDS: Final[dict[str, _Demand]] = {
    **NN_DEMANDS,
    **QNN_DEMANDS,
    "gather_nd": _gather_nd,
    "matrix_set_diag": _matrix_set_diag,
    "one_hot": _one_hot,
    "reshape_like": _reshape_like,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "searchsorted": _searchsorted,
    "sliding_window": _sliding_window,
    "sparse_to_dense": _sparse_to_dense,
    "split": _sections,
    "strided_set": _strided_set,
    "take": _take,
    "unravel_index": _unravel_index,
}
