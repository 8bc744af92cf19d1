"""Declare operators that sort and search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, DTYPE, INT, INTEGER, choice
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import subtract
from nnmagic.relay.ops.relations import axis_of, require_same, same_as, tensor
from nnmagic.relay.types import TensorType, TupleType, Type

declare = Family("sorting", Trait.SPECULATABLE | Trait.HEAVY).declare


def values_and_indices(values: TensorType, attrs: Attrs) -> Type:
    """Return the type of topk's result: a tuple of both, or one of them, as ``ret_type`` says."""
    indices = TensorType(values.shape, str(attrs["dtype"]))
    match attrs["ret_type"]:
        case "values":
            return values
        case "indices":
            return indices
    return TupleType((values, indices))


def _topk(types: Sequence[Type], attrs: Attrs) -> Type:
    data, k = tensor(types), cast(int, attrs["k"])
    shape = list(data.shape)
    axis = axis_of(attrs, shape)
    if k >= 1:
        shape[axis] = k
    return values_and_indices(TensorType(tuple(shape), data.dtype), attrs)


def _searchsorted(types: Sequence[Type], attrs: Attrs) -> TensorType:
    sequence, values = tensor(types, 0), tensor(types, 1)
    if not values.shape:
        raise RelationError("expected values of rank 1 or more, found a scalar", 1)
    if len(sequence.shape) > 1:
        if len(values.shape) != len(sequence.shape):
            raise RelationError("the sequence and the values must have one rank", 0, 1)
        for lhs, rhs in zip(sequence.shape[:-1], values.shape[:-1], strict=True):
            require_same(lhs, rhs, "the sequence and the values differ before the last axis", 0, 1)
    return TensorType(values.shape, str(attrs["dtype"]))


def _histogram(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    tensor(types, 0)
    edges = tensor(types, 1, rank=1)
    return TensorType((subtract(edges.shape[0], 1),), "int64")


def _check_histogram(types: Sequence[Type], _attrs: Attrs) -> None:
    data, edges = tensor(types, 0, rank=1), tensor(types, 1)
    if data.dtype not in ("float32", "float64") or data.dtype != edges.dtype:
        message = "expected floats of one dtype, found {data} and {edges}"
        raise RelationError(message, 0, 1, data=data, edges=edges)


def _fit_histogram(types: Sequence[Type], _attrs: Attrs) -> None:
    if sizes(types)[1][0] < 2:
        raise RelationError("there must be two edges or more", 1)


def _partition(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, kth = tensor(types), tensor(types, 1, rank=1)
    axis_of(attrs, data.shape)
    if kth.dtype != "int64":
        raise RelationError("expected places of int64, found {kth}", 1, kth=kth)
    return data


def _isin(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data, others = tensor(types, 0), tensor(types, 1, rank=1)
    if data.dtype != others.dtype:
        raise RelationError(
            "expected elements of one dtype, found {data} and {others}", 0, 1, data=data, others=others
        )
    return TensorType(data.shape, "bool")


def _check_isin(types: Sequence[Type], _attrs: Attrs) -> None:
    if tensor(types).dtype in ("bool", "complex64", "complex128"):
        raise RelationError("expected real numbers, found {data}", 0, data=tensor(types))


def _check_searchsorted(types: Sequence[Type], attrs: Attrs) -> None:
    if not tensor(types).shape:
        raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
    if attrs["dtype"] not in {"int32", "int64"}:
        message = "dtype must be {allowed:dtype or}, not {dtype!r}"
        raise RelationError(message, attr="dtype", allowed=("int32", "int64"), dtype=attrs["dtype"])


def _unique(types: Sequence[Type], attrs: Attrs) -> TupleType:
    """Return values, first indices, inverse, count of values and, on request, how often each occurs.

    They are as long as the data; only the first part is used.
    """
    data = tensor(types, rank=1)
    indices = TensorType(data.shape, "int32")
    fields = (data, indices, indices, TensorType((1,), "int32"))
    return TupleType((*fields, indices) if attrs["return_counts"] else fields)


def _check_axis(types: Sequence[Type], attrs: Attrs) -> None:
    axis_of(attrs, tensor(types).shape)


#: The forms of topk's result.
RET_TYPE = choice("both", "values", "indices")
_ORDER = (Attr("axis", INT, -1), Attr("is_ascend", BOOL, default=True))
declare(
    "sort(data)",
    same_as(0),
    "The elements in order along an axis.",
    *_ORDER,
    Attr("dtype", DTYPE, ""),
    attrs_key="ArgsortAttrs",
    call_order="data axis is_ascend",
    numpy="numpy.sort",
    traits=Trait.CHECKS_SIZES,
    preconditions=[_check_axis],
)
declare(
    "argsort(data)",
    lambda types, attrs: TensorType(tensor(types).shape, str(attrs["dtype"])),
    "The indices that put the elements in order along an axis.",
    *_ORDER,
    Attr("dtype", DTYPE, "", call_default="int32"),
    numpy="numpy.argsort",
    traits=Trait.CHECKS_SIZES,
    preconditions=[_check_axis],
)
declare(
    "topk(data)",
    _topk,
    "The k largest (or smallest) elements along an axis and their indices.",
    Attr("k", INTEGER, call_default=1),
    Attr("axis", INT, -1),
    Attr("ret_type", RET_TYPE, "both"),
    Attr("is_ascend", BOOL, default=False),
    Attr("dtype", DTYPE, "", call_default="int32"),
)
Family("sorting").declare(  # it may raise
    "invert_permutation(data)",
    same_as(0),
    "The permutation that undoes a permutation.",
    numpy="numpy.argsort",
)
declare(
    "searchsorted(sorted_sequence, values)",
    _searchsorted,
    "Where values would be inserted into a sorted sequence to keep its order.",
    Attr("right", BOOL, default=False),
    Attr("dtype", DTYPE, "int32"),
    attrs_key="SearchSortedAttrs",
    numpy="numpy.searchsorted",
    preconditions=[_check_searchsorted],
)
declare(
    "numpy.histogram(data, edges)",
    _histogram,
    "How many elements of a vector lie between edges of equal distance; the last one is inside, too.",
    numpy="numpy.histogram",
    preconditions=[_check_histogram],
    shape_constraints=[_fit_histogram],
)
declare(
    "numpy.isin(data, others)",
    _isin,
    "Which elements are among the elements of a vector.",
    numpy="numpy.isin",
    preconditions=[_check_isin],
)
declare(
    "numpy.partition(data, kth)",
    _partition,
    "The elements with those of some places, which ascend, where sorting would put them.",
    Attr("axis", INT, -1),
    numpy="numpy.partition",
)
declare(
    "numpy.argpartition(data, kth)",
    lambda types, attrs: TensorType(_partition(types, attrs).shape, "int64"),
    "The indices of the elements as `numpy.partition` orders these, int64.",
    Attr("axis", INT, -1),
    numpy="numpy.argpartition",
)
declare(
    "unique(data)",
    _unique,
    "The distinct elements, where each first occurs, and which one each element is.",
    Attr("sorted", BOOL, default=True),
    Attr("return_counts", BOOL, default=False),
    keywords={"is_sorted": "sorted"},
    numpy="numpy.unique",
)
