"""Declare operators that join, cut and repeat tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import INT, INTEGER, OPTIONAL_INTEGER, STR, array, either, one_or_more
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import add, floor_divide, is_unknown, multiply, same_dim, total
from nnmagic.relay.ops.relations import at_most, axis_of, ints, new_axis, tensor, tensors_of_tuple
from nnmagic.relay.types import ANY, AnyDim, Dim, TensorType, TupleType, Type

declare = Family("joining", Trait.SPECULATABLE).declare


def _same_kind(tensors: Sequence[TensorType]) -> None:
    """Raise RelationError unless all tensors of the tuple have the rank and dtype of the first."""
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype or len(other.shape) != len(first.shape):
            message = "the tensors must have one rank and one dtype, found {first} and {other}"
            raise RelationError(message, 0, first=first, other=other)


def _concatenate(types: Sequence[Type], attrs: Attrs) -> TensorType:
    tensors = tensors_of_tuple(types)
    _same_kind(tensors)
    axis = axis_of(attrs, tensors[0].shape)
    columns = list(zip(*(tensor.shape for tensor in tensors), strict=True))
    length = total(columns[axis])
    known_wins = is_unknown(length)
    shape = [
        length if index == axis else _common_dim(dims, tensors, known_wins=known_wins)
        for index, dims in enumerate(columns)
    ]
    return TensorType(tuple(shape), tensors[0].dtype)


def _common_dim(dims: Sequence[Dim], tensors: Sequence[TensorType], *, known_wins: bool) -> Dim:
    """Return the dimension that all tensors share.

    Where it is dynamic in one of them, so is the result, unless the axis that they are joined along is
    dynamic, too: that is Relay's rule.
    """
    static = [dim for dim in dims if not is_unknown(dim)]
    for dim in static[1:]:
        if same_dim(static[0], dim) is False:
            message = "the tensors differ on another axis than the given one: {tensors:types}"
            raise RelationError(message, 0, attr="axis", tensors=tensors)
    if static and known_wins:
        return static[0]
    labels = [dim for dim in dims if isinstance(dim, AnyDim)]
    return next((dim for dim in labels if dim.label), ANY) if labels else static[0]


def _stack(types: Sequence[Type], attrs: Attrs) -> TensorType:
    tensors = tensors_of_tuple(types)
    _same_kind(tensors)
    shape = tensors[0].shape
    for other in tensors[1:]:
        if any(same_dim(a, b) is False for a, b in zip(shape, other.shape, strict=True)):
            message = "the tensors must have one shape, found {first} and {other}"
            raise RelationError(message, 0, first=tensors[0], other=other)
    axis = new_axis(cast(int, attrs["axis"]), len(shape))
    return TensorType((*shape[:axis], len(tensors), *shape[axis:]), tensors[0].dtype)


def _split(types: Sequence[Type], attrs: Attrs) -> TupleType:
    data = tensor(types)
    axis = axis_of(attrs, data.shape)
    size, wanted = data.shape[axis], attrs["indices_or_sections"]
    if isinstance(wanted, int):
        sections = at_most(int(wanted), "indices_or_sections", attr="indices_or_sections")
        lengths = _equal_sections(size, sections)
    else:
        lengths = _sections_at(size, ints(attrs, "indices_or_sections"))
    shape = data.shape
    return TupleType(tuple(TensorType((*shape[:axis], n, *shape[axis + 1 :]), data.dtype) for n in lengths))


def _check_split(_types: Sequence[Type], attrs: Attrs) -> None:
    count = attrs["indices_or_sections"]
    if isinstance(count, int) and count <= 0:
        raise RelationError(
            f"the number of sections must be positive, it is {count}", attr="indices_or_sections"
        )


def _equal_sections(size: Dim, count: int) -> list[Dim]:
    """Return the lengths of ``count`` sections; Relay makes none of a negative number."""
    if count == 0:
        raise RelationError("the number of sections must not be 0", attr="indices_or_sections")
    if isinstance(size, int) and size % count:
        message = f"{size} elements cannot be split into {count} equal sections"
        raise RelationError(message, 0, attr="indices_or_sections")
    return [floor_divide(size, count)] * count


def _sections_at(size: Dim, indices: Sequence[int]) -> list[Dim]:
    bounds = [0, *indices]
    lengths: list[Dim] = [stop - start for start, stop in zip(bounds, indices, strict=False)]
    if is_unknown(size):
        lengths.append(ANY if indices else size)
    else:
        lengths.append(add(size, -bounds[-1]))
    for length in lengths:
        if isinstance(length, int) and length <= 0:
            message = f"the indices {list(indices)} must increase and lie within the axis"
            raise RelationError(message, 0, attr="indices_or_sections")
    return lengths


def _tile(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, reps = tensor(types), ints(attrs, "reps")
    if any(count < 1 for count in reps):
        raise RelationError(f"reps must be positive, found {list(reps)}", attr="reps")
    rank = max(len(reps), len(data.shape))
    shape = (1,) * (rank - len(data.shape)) + data.shape
    counts = (1,) * (rank - len(reps)) + tuple(reps)
    return TensorType(tuple(multiply(dim, n) for dim, n in zip(shape, counts, strict=True)), data.dtype)


def _repeat(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, repeats = tensor(types), int(cast(int, attrs["repeats"]))
    if repeats < 1:
        raise RelationError(f"repeats must be positive, it is {repeats}", attr="repeats")
    axis, shape = axis_of(attrs, data.shape), data.shape
    return TensorType((*shape[:axis], multiply(shape[axis], repeats), *shape[axis + 1 :]), data.dtype)


def _meshgrid(types: Sequence[Type], attrs: Attrs) -> TupleType:
    tensors = tensors_of_tuple(types)
    if any(vector.dtype != tensors[0].dtype or len(vector.shape) > 1 for vector in tensors):
        raise RelationError("the tensors must be vectors or scalars of one dtype", 0)
    shape: list[Dim] = [vector.shape[0] if vector.shape else 1 for vector in tensors]
    if attrs["indexing"] == "xy" and len(shape) > 1:
        shape[0], shape[1] = shape[1], shape[0]
    return TupleType((TensorType(tuple(shape), tensors[0].dtype),) * len(tensors))


declare(
    "concatenate(data)",
    _concatenate,
    "Tensors joined along an axis.",
    Attr("axis", INT, 0, call_default=REQUIRED),
    numpy="numpy.concatenate",
    variadic=True,
)
declare(
    "stack(data)",
    _stack,
    "Tensors of one shape joined along a new axis.",
    Attr("axis", INTEGER, 0, call_default=REQUIRED),
    numpy="numpy.stack",
    variadic=True,
)
declare(
    "split(data)",
    _split,
    "A tuple of sections along an axis: so many equal ones, or cut at the given indices.",
    Attr("indices_or_sections", either(INTEGER, array(INTEGER))),
    Attr("axis", INT, 0),
    numpy="numpy.split",
    traits=Trait.MOVES | Trait.VIEW,
    preconditions=[_check_split],
)
declare(
    "tile(data)",
    _tile,
    "Data repeated as a whole along each axis.",
    Attr("reps", one_or_more(INTEGER)),
    numpy="numpy.tile",
    traits=Trait.MOVES,
)
declare(
    "repeat(data)",
    _repeat,
    "Each element repeated along an axis.",
    Attr("repeats", INTEGER),
    Attr("axis", OPTIONAL_INTEGER, None, call_default=REQUIRED),
    numpy="numpy.repeat",
    traits=Trait.MOVES,
)
declare(
    "meshgrid(data)",
    _meshgrid,
    "Coordinates of the grid that vectors span.",
    Attr("indexing", STR, "ij"),
    numpy="numpy.meshgrid",
    variadic=True,
)
