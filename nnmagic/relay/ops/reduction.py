"""Declare reductions along axes, and scans."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import AXES, BOOL, DTYPE, INTEGER, OPTIONAL_INTEGER, optional
from nnmagic.relay.ops.checks import require_broadcast, sizes
from nnmagic.relay.ops.declaration import Attr, Elements, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, product
from nnmagic.relay.ops.relations import axis_of, dtype_or, ints, normalize_axis, tensor
from nnmagic.relay.types import TensorType, Type

declare = Family("reduction", Trait.SPECULATABLE).declare


def _reduce_shape(shape: Shape, attrs: Attrs) -> Shape:
    axes = set(range(len(shape)))
    if attrs["axis"]:  # Relay takes an empty list as all axes, excluded or not
        listed = [normalize_axis(axis, len(shape)) for axis in ints(attrs, "axis")]
        if len(set(listed)) != len(listed):
            raise RelationError("an axis is listed twice", attr="axis")
        axes = axes - set(listed) if attrs["exclude"] else set(listed)
    if attrs["keepdims"]:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _reduce(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    return TensorType(_reduce_shape(data.shape, attrs), data.dtype)


def _arg_reduce(types: Sequence[Type], attrs: Attrs) -> TensorType:
    if not tensor(types).shape:
        raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
    return TensorType(_reduce_shape(tensor(types).shape, attrs), "int32")


def _variance(types: Sequence[Type], attrs: Attrs) -> TensorType:
    tensor(types, 1, rank=len(tensor(types).shape))
    return _reduce(types, attrs)


def _fit_mean(types: Sequence[Type], _attrs: Attrs) -> None:
    data, mean = sizes(types)
    require_broadcast(mean, data)


def _scan(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    dtype = dtype_or(attrs, "dtype", data.dtype)
    if attrs["axis"] is None:
        if not data.shape:
            raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
        return TensorType((product(data.shape),), dtype)
    axis_of(attrs, data.shape)
    return TensorType(data.shape, dtype)


def _running(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    if not data.shape:
        raise RelationError("expected a tensor of rank 1 or more, found a scalar", 0)
    axis_of(attrs, data.shape)
    return data


_REDUCE = (
    Attr("axis", AXES, None),
    Attr("keepdims", BOOL, default=False),
    Attr("exclude", BOOL, default=False),
)
_REDUCTIONS: tuple[tuple[str, str, Elements], ...] = (
    ("all", "Whether all elements along the axes are true.", "bools"),
    ("any", "Whether any element along the axes is true.", "bools"),
    ("max", "Largest element along the axes.", "any"),
    ("mean", "Arithmetic mean along the axes, in the dtype of the data.", "floats"),
    ("min", "Smallest element along the axes.", "any"),
    ("prod", "Product along the axes.", "numbers"),
    ("sum", "Sum along the axes.", "numbers"),
)
for _name, _summary, _elements in _REDUCTIONS:
    declare(
        f"{_name}(data)",
        _reduce,
        _summary,
        *_REDUCE,
        attrs_key="ReduceAttrs",
        numpy=f"numpy.{_name}",
        traits=Trait.CHECKS_SIZES | Trait.REDUCES,
        elements=_elements,
    )
for _name in ("and", "or", "xor"):
    declare(
        f"numpy.bitwise_{_name}.reduce(data)",
        _reduce,
        f"Bitwise {_name} of the elements along the axes.",
        *_REDUCE,
        numpy=f"numpy.bitwise_{_name}.reduce",
        traits=Trait.SPECULATABLE,
        elements="integers",
    )
    declare(
        f"numpy.bitwise_{_name}.accumulate(data)",
        _running,
        f"Bitwise {_name} of the elements so far along an axis.",
        Attr("axis", INTEGER, 0),
        numpy=f"numpy.bitwise_{_name}.accumulate",
        traits=Trait.SPECULATABLE,
        elements="integers",
    )
for _name, _which in (("argmax", "largest"), ("argmin", "smallest")):
    declare(
        f"{_name}(data)",
        _arg_reduce,
        f"Index of the {_which} element along the axes, as int32.",
        Attr("axis", AXES, None),
        Attr("keepdims", BOOL, default=False),
        Attr("select_last_index", BOOL, default=False),
        Attr("exclude", BOOL, default=False),
        attrs_key="ArgReduceAttrs",
        call_order="data axis keepdims exclude select_last_index",
        numpy=f"numpy.{_name}",
        traits=Trait.CHECKS_SIZES,
    )
declare(
    "variance(data, mean)",
    _variance,
    "Mean squared distance from a mean that is given with its axes kept.",
    *_REDUCE,
    Attr("unbiased", BOOL, default=False),
    call_order="data axis keepdims exclude unbiased mean",
    keywords={"with_mean": "mean"},
    numpy="numpy.var",
    elements="floats",
    shape_constraints=[_fit_mean],
)
for _name, _what in (("cumsum", "sum"), ("cumprod", "product")):
    declare(
        f"{_name}(data)",
        _scan,
        f"Running {_what} along an axis; without one, of the flattened tensor.",
        Attr("axis", OPTIONAL_INTEGER, None),
        Attr("dtype", DTYPE, ""),
        Attr("exclusive", optional(BOOL), default=False, call_default=None),
        attrs_key="ScanopAttrs",
        numpy=f"numpy.{_name}",
        traits=Trait.CHECKS_SIZES,
        elements="numbers",
    )
for _name, _what in (("maximum", "largest"), ("minimum", "smallest")):
    declare(
        f"numpy.{_name}.accumulate(data)",
        _running,
        f"The {_what} element so far along an axis; NaN from a NaN on.",
        Attr("axis", INTEGER, 0),
        numpy=f"numpy.{_name}.accumulate",
        traits=Trait.CHECKS_SIZES | Trait.KERNEL,
        elements="any",
    )
