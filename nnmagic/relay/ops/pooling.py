"""Declare pooling: over windows, whole images and a given number of windows, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, DIM, STR, array, one_or_more, optional, padding, spatial
from nnmagic.relay.ops.checks import sizes, window_has_elements
from nnmagic.relay.ops.convolution import padding_sums
from nnmagic.relay.ops.declaration import OPERATORS, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import add, dilate, multiply, window_output
from nnmagic.relay.ops.layouts import parse_layout
from nnmagic.relay.ops.relations import dims, leading_dims, require_positive, same_as, tensor
from nnmagic.relay.types import Dim, TensorType, Type

declare = Family("pooling", Trait.SPECULATABLE | Trait.HEAVY).declare


def _spatial_axes(data: TensorType, attrs: Attrs, axes: str) -> list[int]:
    """Return the indices of the spatial axes in the data's layout, in which they may not be divided."""
    layout = parse_layout(attrs["layout"], "layout")
    if not set(axes) <= layout.primal or any(layout.factor(axis) != 1 for axis in axes):
        message = f"the layout {layout.name!r} must have {' and '.join(axes)}, undivided"
        raise RelationError(message, attr="layout")
    indices = [layout.index(axis) for axis in axes]
    if max(indices) >= len(data.shape):
        message = f"layout {layout.name} wants rank {len(layout.axes)}, found {{data}}"
        raise RelationError(message, 0, attr="layout", data=data)
    return indices


@dataclass(frozen=True, slots=True)
class _Pool:
    """The relation of pooling with a window over the given axes."""

    axes: str

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        data, rank = tensor(types), len(self.axes)
        if attrs["out_layout"] and rank != 2:  # Relay ignores it for two axes
            parse_layout(attrs["out_layout"], "out_layout")
        shape = list(data.shape)
        windows, strides, steps = (
            leading_dims(attrs, name, rank) for name in ("pool_size", "strides", "dilation")
        )
        if 0 in strides:
            raise RelationError("strides must not be 0", attr="strides")
        pads = padding_sums(attrs, rank)
        for axis, size, stride, step, pad in zip(
            _spatial_axes(data, attrs, self.axes), windows, strides, steps, pads, strict=True
        ):
            shape[axis] = _window_count(
                shape[axis], pad, dilate(size, step), stride, ceil=bool(attrs["ceil_mode"])
            )
        return TensorType(tuple(shape), data.dtype)

    def precondition(self, types: Sequence[Type], attrs: Attrs) -> None:
        """Require what Relay does not: a positive attribute for each axis, room for the window."""
        data, rank = tensor(types), len(self.axes)
        for name in ("pool_size", "strides", "dilation"):
            require_positive(name, dims(attrs, name, rank))
        windows, steps, pads = dims(attrs, "pool_size"), dims(attrs, "dilation"), padding_sums(attrs, rank)
        for axis, size, step, pad in zip(
            _spatial_axes(data, attrs, self.axes), windows, steps, pads, strict=True
        ):
            room = add(add(data.shape[axis], pad), multiply(dilate(size, step), -1))
            if isinstance(room, int) and room < 0:
                raise RelationError("the window is larger than the padded data", 0, attr="pool_size")


def _window_count(size: Dim, pad: Dim, window: Dim, stride: Dim, *, ceil: bool) -> Dim:
    """Return the number of windows; Relay rounds towards zero, and so finds one where none fits."""
    room = add(add(size, pad), multiply(window, -1))
    if not isinstance(room, int) or not isinstance(stride, int) or room >= 0 < stride:
        return window_output(size, pad, window, stride, ceil=ceil)
    steps = room + stride - 1 if ceil else room
    quotient = abs(steps) // abs(stride)
    return (quotient if steps * stride >= 0 else -quotient) + 1


@dataclass(frozen=True, slots=True)
class _AdaptivePool:
    """The relation of pooling to ``output_size`` over the given axes; without it nothing changes."""

    axes: str

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        data = tensor(types)
        shape = list(data.shape)
        axes = _spatial_axes(data, attrs, self.axes)
        lengths = dims(attrs, "output_size") if attrs["output_size"] is not None else ()
        if len(lengths) not in {0, 1, len(axes)}:
            message = f"output_size must have 1 or {len(axes)} elements, it has {len(lengths)}"
            raise RelationError(message, attr="output_size")
        if lengths:
            for axis, size in zip(axes, lengths * (len(axes) // len(lengths)), strict=True):
                shape[axis] = size
        return TensorType(tuple(shape), data.dtype)


def _global_pool(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    spatial = _spatial_axes(data, attrs, "HW")
    return TensorType(tuple(1 if axis in spatial else dim for axis, dim in enumerate(data.shape)), data.dtype)


def _window_attrs(rank: int, *, dilation: bool = True, raw_padding: bool = False) -> tuple[Attr, ...]:
    """Return the attributes of pooling, up to ceil_mode; gradients take no dilation and no four paddings."""
    ones, zeros = (1,) * rank, (0,) * rank
    return (
        Attr("pool_size", spatial(rank), call_default=ones),
        Attr("strides", spatial(rank), ones),
        Attr(
            "dilation", spatial(rank) if dilation else array(DIM), ones, call_default=ones if dilation else ()
        ),
        Attr("padding", spatial(rank, lengths=(rank, 2 * rank)) if raw_padding else padding(rank), zeros),
        Attr("layout", STR, f"NC{'DHW'[3 - rank :]}"),
        Attr("out_layout", STR, ""),
        Attr("ceil_mode", BOOL, default=False),
    )


_COUNT_PAD = Attr("count_include_pad", BOOL, default=False)


def _fit_gradient(types: Sequence[Type], attrs: Attrs) -> None:
    """Require a gradient of the shape that the pool's result has."""
    pool = OPERATORS["nn.max_pool2d"].result_type(types[1:], {**attrs, "dilation": (1, 1)})
    (wanted,), (actual,) = sizes([pool]), sizes(types[:1])
    if actual != wanted:
        raise RelationError(f"the gradient is of shape {actual}, the pool of {wanted}", 0)


def _declare_pools(rank: int) -> None:
    axes = "DHW"[3 - rank :]
    over = f"over {rank} spatial {'axis' if rank == 1 else 'axes'}"
    for kind, what, extra in (("max", "Largest element", ()), ("avg", "Mean", (_COUNT_PAD,))):
        pool = _Pool(axes)
        declare(
            f"nn.{kind}_pool{rank}d(data)",
            pool,
            f"{what} of each window {over}.",
            *_window_attrs(rank),
            *extra,
            attrs_key=f"{kind.capitalize()}Pool{rank}DAttrs",
            traits=Trait.SPECULATABLE | Trait.HEAVY,
            preconditions=[pool.precondition, window_has_elements],
        )
        declare(
            f"nn.adaptive_{kind}_pool{rank}d(data)",
            _AdaptivePool(axes),
            f"{what} of each of output_size windows that cover the data, {over}.",
            Attr("output_size", optional(one_or_more(DIM)), (), call_default=None),
            Attr("layout", STR, f"NC{axes}"),
            Attr("out_layout", STR, ""),
            attrs_key=f"AdaptivePool{rank}DAttrs",
            traits=Trait.SPECULATABLE | Trait.HEAVY,
            preconditions=[window_has_elements],
        )


for _rank in (1, 2, 3):
    _declare_pools(_rank)
for _kind, _what, _extra in (("max", "Largest element", ()), ("avg", "Mean", (_COUNT_PAD,))):
    declare(
        f"nn.global_{_kind}_pool2d(data)",
        _global_pool,
        f"{_what} of each whole image.",
        Attr("layout", STR, "NCHW"),
        Attr("out_layout", STR, ""),
        attrs_key="GlobalPool2DAttrs",
        traits=Trait.SPECULATABLE | Trait.HEAVY,
        preconditions=[window_has_elements],
    )
    # Relay names the first argument "data", but it is the gradient of the result; the data is the second.
    declare(
        f"nn.{_kind}_pool2d_grad(data, grad)",
        same_as(1),
        f"Gradient of {_kind}_pool2d: of the result's gradient and the data.",
        *_window_attrs(2, dilation=False, raw_padding=True),
        *_extra,
        attrs_key=f"{_kind.capitalize()}Pool2DAttrs",
        call_order="data grad pool_size strides padding layout out_layout ceil_mode"
        + "".join(f" {attr.name}" for attr in _extra),
        keywords={"out_grad": "data", "data": "grad"},
        traits=Trait.SPECULATABLE | Trait.HEAVY,
        shape_constraints=[_fit_gradient],
    )
