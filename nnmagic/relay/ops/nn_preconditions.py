"""What calls of nn, image, vision and signal operators need beyond type relations; see ``demands``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import convolution, pooling
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import add, multiply
from nnmagic.relay.ops.image import image_layout
from nnmagic.relay.ops.layouts import convert_shape, convertible_layout, parse_layout
from nnmagic.relay.ops.nn_misc import pairs
from nnmagic.relay.ops.relations import axis_of, ints, require_positive, require_same, require_type, tensor
from nnmagic.relay.text.types import dim_text, type_text
from nnmagic.relay.types import Dim, Type

_Demand = Callable[[Sequence[Type], Attrs], None]


def one_of(name: str, *values: str) -> _Demand:
    """The attribute is one of these strings."""

    def rule(_types: Sequence[Type], attrs: Attrs) -> None:
        if attrs[name] not in values:
            raise RelationError(f"{name} must be one of {', '.join(map(repr, values))}, not {attrs[name]!r}")

    return rule


def both(first: _Demand, second: _Demand) -> _Demand:
    """Two demands."""

    def rule(types: Sequence[Type], attrs: Attrs) -> None:
        first(types, attrs)
        second(types, attrs)

    return rule


def _divisible(dim: Dim, by: int, what: str) -> None:
    if by < 1 or (isinstance(dim, int) and dim % by):
        raise RelationError(f"{what} {dim_text(dim)} cannot be divided by {by}", 0)


def _not_negative(dim: Dim, what: str) -> None:
    if isinstance(dim, int) and dim < 0:
        raise RelationError(f"{what} are larger than the data", 0)


def _has_elements(types: Sequence[Type], _attrs: Attrs) -> None:
    """TVM's loops over a tensor without elements divide by its size."""
    for index in range(len(types)):
        if 0 in tensor(types, index).shape:
            raise RelationError("it takes tensors with elements", index)


def _pad(types: Sequence[Type], _attrs: Attrs) -> None:
    tensor(types, 1, rank=0)


def _fifo_buffer(types: Sequence[Type], attrs: Attrs) -> None:
    data, buffer = tensor(types, 0), tensor(types, 1)
    axis = axis_of(attrs, buffer.shape, operand=1)
    for at, (left, right) in enumerate(zip(data.shape, buffer.shape, strict=True)):
        if at != axis:
            require_same(left, right, "data and buffer differ on another axis than the given one", 0, 1)


def _depth_to_space(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW")
    block = cast(int, attrs["block_size"])
    require_positive("block_size", [block])
    _divisible(convert_shape(tensor(types).shape, layout, plain)[1], block**2, "the number of channels")


def _space_to_depth(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW")
    for dim in convert_shape(tensor(types).shape, layout, plain)[2:]:
        _divisible(dim, cast(int, attrs["block_size"]), "the image's side")


def _space_to_batch(types: Sequence[Type], attrs: Attrs) -> None:
    blocks = ints(attrs, "block_shape")
    widths = pairs(attrs, "paddings", len(blocks))
    for dim, block, pair in zip(tensor(types).shape[1:], blocks, widths, strict=False):
        _not_negative(add(dim, sum(pair)), "negative paddings, which crop,")
        _divisible(add(dim, sum(pair)), block, "the padded dimension")


def _batch_to_space(types: Sequence[Type], attrs: Attrs) -> None:
    blocks, (batch, *spatial) = ints(attrs, "block_shape"), tensor(types).shape
    crops = pairs(attrs, "crops", len(blocks))
    if any(crop < 0 for pair in crops for crop in pair):
        raise RelationError("crops must not be negative")
    places = 1
    for dim, block, pair in zip(spatial, blocks, crops, strict=False):
        require_positive("block_shape", [block])
        _not_negative(add(multiply(dim, block), -sum(pair)), "crops")
        places *= block
    _divisible(batch, places, "the batch")


def _correlation(types: Sequence[Type], attrs: Attrs) -> None:
    require_positive("kernel_size", [cast(int, attrs["kernel_size"])])
    require_type(tensor(types, 1), tensor(types).shape, "the second image", 1)


def _nll_loss(types: Sequence[Type], _attrs: Attrs) -> None:
    batch, _classes, *rest = tensor(types).shape
    require_type(tensor(types, 1), (batch, *rest), "the targets", 1)


def _crop_and_resize(types: Sequence[Type], _attrs: Attrs) -> None:
    boxes = tensor(types, 1, rank=2)
    require_same(boxes.shape[1], 4, "a box has 4 numbers", 1)
    tensor(types, 2, rank=1)


def _grid_sample(types: Sequence[Type], attrs: Attrs) -> None:
    data, grid = tensor(types, 0), tensor(types, 1)
    axes = "HW" if len(data.shape) == 4 else "DHW"
    layout, plain = image_layout(attrs, axes)
    batch = convert_shape(data.shape, layout, plain)[0]
    require_same(grid.shape[0], batch, "the batches of data and grid differ", 0, 1)
    require_same(grid.shape[1], len(axes), "the grid must have a coordinate for each axis", 1)


def _dilation2d(types: Sequence[Type], attrs: Attrs) -> None:
    layout, plain = image_layout(attrs, "HW", "data_layout")
    kernel = convertible_layout(attrs["kernel_layout"], "IHW", "kernel")
    channels = convert_shape(tensor(types, 1).shape, kernel, parse_layout("IHW"), 1)[0]
    expected = convert_shape(tensor(types).shape, layout, plain)[1]
    require_same(channels, expected, "the channels of the weight and of the data differ", 1, 0)


def _regions(types: Sequence[Type], _attrs: Attrs) -> None:
    require_same(tensor(types, 1).shape[1], 5, "a region has 5 numbers", 1)


def _non_max_suppression(types: Sequence[Type], _attrs: Attrs) -> None:
    data, count = tensor(types), tensor(types, 1)
    require_same(count.shape[0], data.shape[0], "valid_count must be as long as the batch", 1, 0)


def _all_class_nms(types: Sequence[Type], _attrs: Attrs) -> None:
    boxes, scores = tensor(types, 0), tensor(types, 1)
    require_same(boxes.shape[0], scores.shape[0], "the batches of boxes and scores differ", 0, 1)
    require_same(boxes.shape[2], 4, "a box has 4 numbers", 0)


def _yolo_reorg(_types: Sequence[Type], attrs: Attrs) -> None:
    require_positive("stride", [cast(int, attrs["stride"])])


def _vector(index: int) -> _Demand:
    """The argument that says the result's shape is a vector."""

    def rule(types: Sequence[Type], _attrs: Attrs) -> None:
        tensor(types, index, rank=1)

    return rule


def _computed_pad(types: Sequence[Type], _attrs: Attrs) -> None:
    require_type(tensor(types, 1), (len(tensor(types).shape), 2), "pad_width", 1)


def _dft(types: Sequence[Type], _attrs: Attrs) -> None:
    real, imaginary = tensor(types, 0), tensor(types, 1)
    if real.dtype != imaginary.dtype:
        raise RelationError(f"the dtypes {real.dtype} and {imaginary.dtype} differ", 0, 1)
    require_type(imaginary, real.shape, "the imaginary part", 1)


def _stft(types: Sequence[Type], attrs: Attrs) -> None:
    data = tensor(types)
    tensor(types, 1, rank=1)
    if len(data.shape) > 2:
        raise RelationError(f"expected a tensor of rank 1 or 2, found {type_text(data)}", 0)
    size = cast(int, attrs["n_fft"])
    require_positive("n_fft", [size])
    require_positive("hop_length", [cast(int, attrs["hop_length"])])
    length = data.shape[-1]
    if isinstance(length, int) and length < size:
        raise RelationError(f"n_fft {size} is larger than the data", 0)


NN_DEMANDS: Final[dict[str, _Demand]] = {
    **convolution.DEMANDS,
    **pooling.DEMANDS,
    "dft": _dft,
    "dyn.broadcast_to": _vector(1),
    "dyn.full": _vector(1),
    "dyn.nn.pad": _computed_pad,
    "dyn.reshape": _vector(1),
    "dyn.squeeze": _vector(1),
    "dyn.strided_slice": _vector(1),
    "dyn.tile": _vector(1),
    "dyn.zeros": _vector(0),
    "image.crop_and_resize": _crop_and_resize,
    "image.dilation2d": _dilation2d,
    "image.grid_sample": _grid_sample,
    "nn.batch_to_space_nd": _batch_to_space,
    "nn.correlation": _correlation,
    "nn.deformable_conv2d": _has_elements,
    "nn.depth_to_space": _depth_to_space,
    "nn.fifo_buffer": _fifo_buffer,
    "nn.mirror_pad": one_of("mode", "SYMMETRIC", "REFLECT"),
    "nn.nll_loss": both(_nll_loss, one_of("reduction", "mean", "sum", "none")),
    "nn.pad": _pad,
    "nn.space_to_batch_nd": _space_to_batch,
    "nn.space_to_depth": _space_to_depth,
    "stft": _stft,
    "vision.all_class_non_max_suppression": both(
        _all_class_nms, one_of("output_format", "onnx", "tensorflow")
    ),
    "vision.non_max_suppression": _non_max_suppression,
    "vision.roi_align": _regions,
    "vision.roi_pool": _regions,
    "vision.yolo_reorg": _yolo_reorg,
}
