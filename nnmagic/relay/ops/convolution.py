"""Declare convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import dims
from nnmagic.relay.ops import relations as rel
from nnmagic.relay.ops.attributes import DTYPE, INT, OPTIONAL_DIM, STR, optional, padding, spatial
from nnmagic.relay.ops.checks import sizes, window_has_elements
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.layouts import Layout, convert_shape, convertible_layout, parse_layout
from nnmagic.relay.types import ANY, Dim, TensorType, Type

declare = Family("convolution").declare


@dataclass(frozen=True, slots=True)
class _ConvolutionRelation:
    """The relation of a convolution: its spatial axes (``HW``) and whether it is transposed.

    Shapes are compared in the layouts NCHW and OIHW (IOHW when transposed), whatever the call's are.
    """

    axes: str
    transposed: bool = False
    weight: int = 1

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def data_layout(self) -> Layout:
        return parse_layout(f"NC{self.axes}")

    @property
    def kernel_layout(self) -> Layout:
        return parse_layout(("IO" if self.transposed else "OI") + self.axes)

    def data_shape(self, data: TensorType, attrs: Attrs) -> dims.Shape:
        layout = convertible_layout(attrs, "data_layout", self.data_layout.name, "data")
        return convert_shape(data.shape, layout, self.data_layout)

    def infer_weight_shape(
        self, data: dims.Shape, weight: TensorType | None, attrs: Attrs
    ) -> dims.Shape | None:
        """Return the weight's shape in the call's layout, if channels and kernel_size determine it."""
        if attrs["channels"] is None or attrs["kernel_size"] is None:
            return None
        channels, groups = cast(Dim, attrs["channels"]), cast(int, attrs["groups"])
        kernel = rel.dims(attrs, "kernel_size", self.rank)
        layout = convertible_layout(attrs, "kernel_layout", self.kernel_layout.name, "kernel")
        if self.transposed:
            shape: dims.Shape = (data[1], dims.floor_divide(channels, groups), *kernel)
        elif self._is_depthwise(data, weight, layout, groups):
            shape = (data[1], dims.floor_divide(channels, groups), *kernel)
        else:
            shape = (channels, dims.floor_divide(data[1], groups), *kernel)
        return convert_shape(shape, self.kernel_layout, layout, self.weight)

    def _is_depthwise(self, data: dims.Shape, weight: TensorType | None, layout: Layout, groups: int) -> bool:
        """Return whether each channel has its own group, which Relay's weight layout treats specially."""
        if self.rank == 1 or self.weight != 1 or groups == 1 or data[1] != groups or weight is None:
            return False
        return convert_shape(weight.shape, layout, self.kernel_layout, self.weight)[0] == groups

    def kernel(self, data: dims.Shape, weight: TensorType, attrs: Attrs) -> tuple[Dim, dims.Shape]:
        """Return the number of output channels and the spatial shape of the kernel, checked."""
        groups = cast(int, attrs["groups"])
        expected_shape = self.infer_weight_shape(data, weight, attrs)
        if expected_shape is not None:
            rel.require_type(weight, expected_shape, "the weight", self.weight)
            return cast(Dim, attrs["channels"]), rel.dims(attrs, "kernel_size")
        layout = convertible_layout(attrs, "kernel_layout", self.kernel_layout.name, "kernel")
        shape = convert_shape(weight.shape, layout, self.kernel_layout, self.weight)
        outer, inner = shape[:2]
        if attrs["kernel_size"] is not None:
            for declared, size in zip(rel.dims(attrs, "kernel_size", self.rank), shape[2:], strict=True):
                message = "kernel_size is not that of the weight"
                rel.require_same(declared, size, message, self.weight, attr="kernel_size")
        if self.transposed:
            rel.require_same(data[1], outer, "the weight's input channels are not the data's", self.weight, 0)
            channels = inner  # regardless of groups
        else:
            expected = dims.floor_divide(data[1], groups)
            message = "the weight's input channels are not the data's (by groups)"
            rel.require_same(inner, expected, message, self.weight, 0, attr="groups")
            channels = outer
        if attrs["channels"] is not None:
            declared, message = cast(Dim, attrs["channels"]), "channels is not that of the weight"
            rel.require_same(declared, channels, message, self.weight, attr="channels")
        return channels, shape[2:]

    def spatial(self, data: dims.Shape, kernel: dims.Shape, attrs: Attrs) -> dims.Shape:
        """Return the spatial dimensions of the result."""
        strides, dilation = (rel.leading_dims(attrs, name, self.rank) for name in ("strides", "dilation"))
        if attrs["channels"] is not None and attrs["kernel_size"] is not None:
            rel.dims(attrs, "dilation", self.rank)
        if self.rank == 1 and not self.transposed:
            rel.dims(attrs, "padding", 2)
        pads = padding_sums(attrs, self.rank)
        if 0 in strides and not self.transposed:
            raise RelationError("strides must not be 0", attr="strides")
        spans = [dims.dilate(size, step) for size, step in zip(kernel, dilation, strict=True)]
        if not self.transposed:
            return tuple(
                dims.window_output(size, pad, span, stride)
                for size, pad, span, stride in zip(data[2:], pads, spans, strides, strict=True)
            )
        extra = rel.leading_dims(attrs, "output_padding", self.rank)
        return tuple(
            ANY if dims.is_unknown(size) else _conv_transpose_size(size, stride, span, pad, more)
            for size, stride, span, pad, more in zip(data[2:], strides, spans, pads, extra, strict=True)
        )

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        data, weight = rel.tensor(types, 0), rel.tensor(types, self.weight)
        rel.require_positive("groups", [cast(int, attrs["groups"])])
        shape = self.data_shape(data, attrs)
        attr = "out_layout" if attrs["out_layout"] else "data_layout"
        out_layout = convertible_layout(attrs, attr, self.data_layout.name, "output")
        channels, kernel = self.kernel(shape, weight, attrs)
        result: dims.Shape = (shape[0], channels, *self.spatial(shape, kernel, attrs))
        return TensorType(
            convert_shape(result, self.data_layout, out_layout), rel.dtype_or(attrs, "out_dtype", data.dtype)
        )

    def precondition(self, types: Sequence[Type], attrs: Attrs) -> None:
        """Require what Relay does not: an attribute for each axis, positive steps, room for the kernel."""
        for name in ("strides", "dilation"):
            rel.require_positive(name, rel.dims(attrs, name, self.rank))
        shape = self.data_shape(rel.tensor(types), attrs)
        _, kernel = self.kernel(shape, rel.tensor(types, self.weight), attrs)
        least = 0 if self.transposed else 1
        if any(isinstance(dim, int) and dim < least for dim in self.spatial(shape, kernel, attrs)):
            raise RelationError("the kernel is larger than the padded data", 0, self.weight)

    def assume(self, types: Sequence[Type | None], attrs: Attrs) -> Sequence[Type | None]:
        """Give an unknown weight the shape that channels and kernel_size determine."""
        data = types[0]
        if not isinstance(data, TensorType) or types[self.weight] is not None:
            return types
        rel.require_positive("groups", [cast(int, attrs["groups"])])
        wanted = self.infer_weight_shape(self.data_shape(data, attrs), None, attrs)
        filled = list(types)
        filled[self.weight] = None if wanted is None else TensorType(wanted, data.dtype)
        return filled


def _conv_transpose_size(size: Dim, stride: Dim, span: Dim, pad: Dim, extra: Dim) -> Dim:
    return dims.total((dims.multiply(dims.add(size, -1), stride), span, dims.multiply(pad, -1), extra))


def padding_sums(attrs: Attrs, rank: int) -> dims.Shape:
    """Return the padding before plus after each spatial dimension.

    ``padding`` may have 1, rank or 2 * rank elements.
    """
    padding = rel.dims(attrs, "padding")
    if len(padding) not in {1, rank, 2 * rank}:
        message = f"padding must have 1, {rank} or {2 * rank} elements, it has {len(padding)}"
        raise RelationError(message, attr="padding")
    full = padding * (2 * rank // len(padding))
    return tuple(dims.add(before, after) for before, after in zip(full[:rank], full[rank:], strict=True))


def _divide_groups(types: Sequence[Type], attrs: Attrs) -> None:
    """Require channels that the groups divide."""
    channels = sizes(types)[0][str(attrs["data_layout"]).index("C")]
    groups = cast(int, attrs["groups"])
    if channels % groups:
        raise RelationError(f"{channels} channels cannot be divided into {groups} groups", 0, attr="groups")


def _declare_convolution(rank: int) -> None:
    axes = "DHW"[3 - rank :]
    ones, zeros = (1,) * rank, (0,) * rank
    over = f"over {rank} spatial {'axis' if rank == 1 else 'axes'}"
    kind = spatial(rank)
    convolution = _ConvolutionRelation(axes)
    declare(
        f"nn.conv{rank}d(data, weight)",
        convolution,
        f"Convolution (cross-correlation) {over}, without a bias.",
        Attr("strides", kind, ones),
        Attr("padding", padding(rank), (0, 0) if rank == 1 else zeros, call_default=zeros),
        Attr("dilation", kind, ones),
        Attr("groups", INT, 1),
        Attr("channels", OPTIONAL_DIM, None),
        Attr("kernel_size", optional(kind), None),
        Attr("data_layout", STR, f"NC{axes}"),
        Attr("kernel_layout", STR, f"OI{axes}"),
        Attr("out_layout", STR, ""),
        Attr("out_dtype", DTYPE, ""),
        attrs_key=f"Conv{rank}DAttrs",
        traits=Trait.SPECULATABLE | Trait.HEAVY | Trait.CONVOLVES,
        assume=convolution.assume,
        preconditions=[convolution.precondition, window_has_elements],
        shape_constraints=[_divide_groups],
    )
    transposed = _ConvolutionRelation(axes, transposed=True)
    declare(
        f"nn.conv{rank}d_transpose(data, weight)",
        transposed,
        f"Transposed convolution {over}: the gradient of one.",
        Attr("channels", OPTIONAL_DIM, None),
        Attr("kernel_size", optional(kind), None),
        Attr("strides", kind, ones),
        Attr("output_padding", kind, zeros),
        Attr("padding", spatial(1, lengths=(1, 2)) if rank == 1 else padding(rank), zeros),
        Attr("dilation", kind, ones),
        Attr("groups", INT, 1),
        Attr("data_layout", STR, f"NC{axes}"),
        Attr("kernel_layout", STR, f"IO{axes}"),
        Attr("out_layout", STR, ""),
        Attr("out_dtype", DTYPE, ""),
        attrs_key=f"Conv{rank}DTransposeAttrs",
        call_order="data weight strides padding dilation groups channels kernel_size data_layout "
        "kernel_layout out_layout output_padding out_dtype",
        traits=Trait.SPECULATABLE | Trait.HEAVY,
        assume=transposed.assume,
        preconditions=[transposed.precondition, window_has_elements],
        shape_constraints=[_divide_groups],
    )


for _rank in (1, 2, 3):
    _declare_convolution(_rank)


@dataclass(frozen=True, slots=True)
class _Deformable(_ConvolutionRelation):
    """The relation of a convolution whose kernel elements are displaced by offsets, its second argument."""

    def offset(self, data: dims.Shape, result: dims.Shape, kernel: dims.Shape, attrs: Attrs) -> dims.Shape:
        """Return the offsets' shape.

        There are two numbers for each kernel element and group, at each element of the result.
        """
        groups = cast(int, attrs["deformable_groups"])
        return (data[0], dims.multiply(dims.product(kernel), 2 * groups), *result)

    def __call__(self, types: Sequence[Type], attrs: Attrs) -> TensorType:
        result = _ConvolutionRelation.__call__(self, types, attrs)
        shape = self.data_shape(rel.tensor(types), attrs)
        _, kernel = self.kernel(shape, rel.tensor(types, self.weight), attrs)
        wanted = self.offset(shape, self.spatial(shape, kernel, attrs), kernel, attrs)
        layout = parse_layout(attrs["data_layout"], "data_layout")
        rel.require_type(
            rel.tensor(types, 1), convert_shape(wanted, self.data_layout, layout), "the offset", 1
        )
        return result


def _has_elements(types: Sequence[Type], _attrs: Attrs) -> None:
    """Require elements in all operands: TVM's loops over a tensor without elements divide by its size."""
    for index in range(len(types)):
        if 0 in rel.tensor(types, index).shape:
            raise RelationError("it takes tensors with elements", index)


_deformable = _Deformable("HW", weight=2)
_PAIR = spatial(2)
declare(
    "nn.deformable_conv2d(data, offset, weight)",
    _deformable,
    "Convolution whose kernel positions are displaced by given offsets.",
    Attr("strides", _PAIR, (1, 1)),
    Attr("padding", padding(2), (0, 0)),
    Attr("dilation", _PAIR, (1, 1)),
    Attr("deformable_groups", INT, 1),
    Attr("groups", INT, 1),
    Attr("channels", OPTIONAL_DIM, None),
    Attr("kernel_size", optional(_PAIR), None),
    Attr("data_layout", STR, "NCHW"),
    Attr("kernel_layout", STR, "OIHW"),
    Attr("out_layout", STR, ""),
    Attr("out_dtype", DTYPE, ""),
    attrs_key="DeformableConv2DAttrs",
    traits=Trait.HEAVY,
    assume=_deformable.assume,
    preconditions=[_has_elements],
    nonempty_constraints=[window_has_elements],
)
