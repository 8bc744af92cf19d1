"""Whether the shapes of a call's operands fit together.

Type inference has asked the operator's relation already, but of a dimension that only the call knows it could
not. The relation is asked again, with the lengths that the operands turn out to have: so a program is refused
at a call exactly where the program of those shapes would be. Knows Relay's operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import OPERATORS, RelationError
from nnmagic.relay.ops.preconditions import demand
from nnmagic.relay.types import NUMPY_DTYPES, Dim, TensorType, TupleType, Type

#: Operators that any shapes do for, or whose rules check all that they need.
CHECKED_BY_THEIR_RULES = frozenset(
    {
        "abs", "acos", "acosh", "add", "all", "any", "argmax", "argmin", "asin", "asinh", "atan",
        "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "cast_like", "ceil",
        "clip", "copy", "cos", "cosh", "cumprod", "cumsum", "divide", "equal", "erf", "exp",
        "expand_dims", "fast_exp", "fast_tanh", "fixed_point_multiply", "floor", "floor_divide",
        "floor_mod", "full", "full_like", "greater", "greater_equal", "isfinite", "isinf", "isnan",
        "left_shift", "less", "less_equal", "log", "log10", "log2", "logical_and", "logical_not",
        "logical_or", "logical_xor", "max", "maximum", "mean", "min", "minimum", "mod", "multiply",
        "ndarray_size", "negative", "nn.batch_flatten", "nn.batch_matmul", "nn.bias_add", "nn.dense",
        "nn.dropout", "nn.fast_softmax", "nn.leaky_relu", "nn.log_softmax", "nn.matmul", "nn.relu",
        "nn.softmax", "not_equal", "ones", "ones_like", "power", "prod", "reshape", "reverse",
        "right_shift", "round", "rsqrt", "shape_of", "sigmoid", "sign", "sin", "sinh", "sqrt",
        "subtract", "sum", "tan", "tanh", "transpose", "trunc", "trunc_divide", "trunc_mod", "where",
        "zeros", "zeros_like",
    }
)  # fmt: skip

#: No machine has so much memory; sizes above it come near to what 64 bits can count.
MAX_BYTES = 1 << 50

#: What an operator needs beside its relation: (types of the operands, attributes) -> what is wrong, or None.
Need = Callable[[Sequence[Type], Attrs], str | None]


def _shapes(types: Sequence[Type]) -> list[tuple[Dim, ...]]:
    return [type_.shape if isinstance(type_, TensorType) else () for type_ in types]


def _windows(types: Sequence[Type], attrs: Attrs) -> str | None:
    """The data has elements in the dimensions that windows move over."""
    (data, *_) = _shapes(types)
    layout = str(attrs.get("data_layout") or attrs["layout"])
    empty = [letter for letter, dim in zip(layout, data, strict=False) if dim == 0 and letter in "DHW"]
    return f"the data has no elements along {', '.join(empty)} of {layout}" if empty else None


def _elements(types: Sequence[Type], _attrs: Attrs) -> str | None:
    """The data has elements."""
    (data, *_) = _shapes(types)
    return f"the data, of shape {data}, has no elements" if 0 in data else None


def _broadcasts(small: Sequence[Dim], large: Sequence[Dim]) -> str | None:
    """One shape can be broadcast to another."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    if len(small) <= len(large) and all(a in (1, b) for a, b in pairs):
        return None
    return f"the shape {tuple(small)} does not broadcast to {tuple(large)}"


def _mean_fits(types: Sequence[Type], _attrs: Attrs) -> str | None:
    data, center = _shapes(types)
    return _broadcasts(center, data) if len(center) == len(data) else f"the mean has not the rank {len(data)}"


def _to_like(types: Sequence[Type], _attrs: Attrs) -> str | None:
    return _broadcasts(*_shapes(types))


def _collapses_to_like(types: Sequence[Type], _attrs: Attrs) -> str | None:
    data, like = _shapes(types)
    return _broadcasts(like, data)


def _collapses(types: Sequence[Type], attrs: Attrs) -> str | None:
    return _broadcasts(integers(attrs["shape"]), _shapes(types)[0])


def _scatters(types: Sequence[Type], attrs: Attrs) -> str | None:
    data, indices, updates = _shapes(types)
    if indices != updates:
        return f"the indices are of shape {indices}, the updates of {updates}"
    if 0 in indices:
        return None
    axis = integer(attrs["axis"]) % len(data)
    sizes = [(a, b) for one, (a, b) in enumerate(zip(indices, data, strict=True)) if one != axis]
    if any(isinstance(a, int) and isinstance(b, int) and a > b for a, b in sizes):
        return f"indices of shape {indices} reach beyond data of shape {data} beside axis {axis}"
    return "there is no element to update" if data[axis] == 0 else None


def _scatters_nd(types: Sequence[Type], _attrs: Attrs) -> str | None:
    data, indices, updates = _shapes(types)
    depth = indices[0]
    assert isinstance(depth, int)
    if depth > len(data) or updates != (*indices[1:], *data[depth:]):
        return f"updates of shape {updates} do not fit data of {data} and indices of {indices}"
    return "there is no element to update" if 0 not in updates and 0 in data[:depth] else None


def _sparse(types: Sequence[Type], attrs: Attrs) -> str | None:
    indices, values, _ = _shapes(types)
    rank = len(integers(attrs["output_shape"]))
    each = indices[1] if len(indices) == 2 else 1
    if each != rank:
        return f"indices of shape {indices} do not name places of a tensor of rank {rank}"
    if values and values[0] != (indices[0] if indices else 1):
        return f"there are indices of shape {indices}, and values of shape {values}"
    return None


def _crops(types: Sequence[Type], _attrs: Attrs) -> str | None:
    _, boxes, images = _shapes(types)
    if boxes[:1] != images[:1]:
        return f"there are {boxes[0]} boxes, and image numbers for {images[0]}"
    return None


def _grouped(types: Sequence[Type], attrs: Attrs) -> str | None:
    data = _shapes(types)[0]
    channels, groups = data[str(attrs["data_layout"]).index("C")], integer(attrs["groups"])
    if isinstance(channels, int) and channels % groups:
        return f"{channels} channels cannot be divided into {groups} groups"
    return None


def _normalized_groups(types: Sequence[Type], attrs: Attrs) -> str | None:
    data, groups = _shapes(types)[0], integer(attrs["num_groups"])
    channels = data[integer(attrs["axis"])]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        return f"{channels} channels cannot be divided into {groups} groups"
    return None


def _reflects(types: Sequence[Type], attrs: Attrs) -> str | None:
    """A border is reflected from elements that there are."""
    mode = str(attrs.get("pad_mode") or attrs.get("mode")).lower()
    if mode == "constant":
        return None
    widths = attrs["pad_width"]
    assert isinstance(widths, tuple)
    for axis, (dim, pair) in enumerate(zip(_shapes(types)[0], widths, strict=True)):
        wide = max(integers(pair))
        assert isinstance(dim, int)
        if wide > 0 and (dim == 0 or (mode != "edge" and wide > dim - (mode == "reflect"))):
            return f"axis {axis} has {dim} elements, too few for a border of {wide}"
    return None


def _pool_gradient(types: Sequence[Type], attrs: Attrs) -> str | None:
    """The gradient has the shape of the pool's result."""
    (wanted,) = _shapes([OPERATORS["nn.max_pool2d"].result_type(types[1:], {**attrs, "dilation": (1, 1)})])
    (found,) = _shapes(types[:1])
    return None if found == wanted else f"the gradient is of shape {found}, the pool of {wanted}"


def _frames(types: Sequence[Type], attrs: Attrs) -> str | None:
    data, window = _shapes(types)
    size, width = integer(attrs["n_fft"]), integer(attrs["win_length"])
    width = width if width > 0 else size
    if window != (width,):
        return f"the window is of shape {window}, not ({width},)"
    length = data[-1]
    assert isinstance(length, int)
    return None if length >= size >= width else f"{length} samples hold no frame of {size}"


def _columns(*names: str) -> Need:
    """The last dimension of the data holds the columns that the attributes name."""

    def need(types: Sequence[Type], attrs: Attrs) -> str | None:
        width = _shapes(types)[0][-1]
        last = max(integer(attrs[name]) + (3 if name == "coord_start" else 0) for name in names)
        assert isinstance(width, int)
        return None if last < width else f"the data has {width} columns, and column {last} is needed"

    return need


def _suppressed(types: Sequence[Type], attrs: Attrs) -> str | None:
    data, counts, indices, *_ = _shapes(types)
    if counts != data[:1] or indices != data[:2]:
        return f"data of shape {data} has counts of {data[:1]} and indices of {data[:2]}"
    return _columns("coord_start", "score_index", "id_index")(types, attrs)


def _boxes(types: Sequence[Type], _attrs: Attrs) -> str | None:
    rois = _shapes(types)[1]
    return None if rois[-1] == 5 else f"a region has 5 numbers, not {rois[-1]}"


def _blocks(types: Sequence[Type], attrs: Attrs) -> str | None:
    stride, (_, channels, height, width) = integer(attrs["stride"]), _shapes(types)[0]
    assert isinstance(channels, int)
    assert isinstance(height, int)
    assert isinstance(width, int)
    if channels % stride**2 or height % stride or width % stride:
        return (
            f"{channels} channels of {height} x {width} cannot be divided into blocks of {stride} x {stride}"
        )
    return None


def _bounds(types: Sequence[Type], _attrs: Attrs) -> str | None:
    data, *bounds = _shapes(types)
    if len(set(bounds)) > 1:
        return f"begin, end and strides are of other lengths: {', '.join(map(str, bounds))}"
    (count,) = bounds[0]
    assert isinstance(count, int)
    return None if count <= len(data) else f"there are bounds for {count} axes, and data of rank {len(data)}"


_CONVOLUTIONS = [
    *(f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")),
    "qnn.conv2d",
    "qnn.conv2d_transpose",
]

_WINDOWED = [
    *_CONVOLUTIONS,
    *(f"nn.{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for n in (1, 2, 3)),
    *(f"nn.global_{kind}_pool2d" for kind in ("max", "avg")),
    *(f"image.resize{n}d" for n in (1, 2, 3)),
    "nn.deformable_conv2d",
    "qnn.avg_pool2d",
    "nn.upsampling",
    "nn.upsampling3d",
    "image.dilation2d",
    "image.grid_sample",
]

#: What the shapes of an operator's operands must be to each other.
NEEDS: Mapping[str, Need] = {
    **dict.fromkeys(_CONVOLUTIONS, _grouped),
    **dict.fromkeys(["nn.pad", "nn.mirror_pad"], _reflects),
    **dict.fromkeys(["nn.max_pool2d_grad", "nn.avg_pool2d_grad"], _pool_gradient),
    **dict.fromkeys(["vision.roi_align", "vision.roi_pool"], _boxes),
    "nn.group_norm": _normalized_groups,
    "broadcast_to_like": _to_like,
    "collapse_sum_like": _collapses_to_like,
    "collapse_sum_to": _collapses,
    "dyn.strided_slice": _bounds,
    "image.crop_and_resize": _crops,
    "scatter_elements": _scatters,
    "scatter_nd": _scatters_nd,
    "sparse_to_dense": _sparse,
    "stft": _frames,
    "variance": _mean_fits,
    "vision.get_valid_counts": _columns("score_index", "id_index"),
    "vision.non_max_suppression": _suppressed,
    "vision.yolo_reorg": _blocks,
}

#: What they must have where the result has elements at all.
NEED_ELEMENTS: Mapping[str, Need] = {
    **dict.fromkeys(_WINDOWED, _windows),
    **dict.fromkeys(["image.crop_and_resize", "nn.correlation"], _elements),
    **dict.fromkeys(["vision.roi_align", "vision.roi_pool"], _elements),
}


def check(name: str, types: Sequence[Type], attrs: Attrs) -> None:
    """Raises ValueError where operands of these known shapes do not fit."""
    try:
        result = OPERATORS[name].result_type(types, attrs)
        demand(name, types, attrs)
    except RelationError as error:
        raise ValueError(error.message) from None
    tensors = list(tensors_of(result))
    for tensor in tensors:
        if any(isinstance(dim, int) and dim < 0 for dim in tensor.shape):
            raise ValueError(f"{name}: the result would have a negative dimension, {tensor}")
        if _bytes(tensor) > MAX_BYTES:
            raise ValueError(f"{name}: the result, {tensor}, is larger than any memory")
    needs = [NEEDS.get(name)]
    if not all(is_empty(tensor.shape) for tensor in tensors):
        needs.append(NEED_ELEMENTS.get(name))
    for need in needs:
        reason = need(types, attrs) if need is not None else None
        if reason is not None:
            raise ValueError(f"{name}: {reason}")


def of_shapes(type_: Type, shapes: Iterator[tuple[int, ...]]) -> Type:
    """The type with the shapes that its tensors turned out to have."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(of_shapes(part, shapes) for part in type_.fields))
    assert isinstance(type_, TensorType)
    return TensorType(next(shapes), type_.dtype)


def _bytes(tensor: TensorType) -> int:
    sizes = [dim for dim in tensor.shape if isinstance(dim, int)]
    return math.prod(sizes) * NUMPY_DTYPES[tensor.dtype].itemsize


def is_empty(shape: Sequence[Dim]) -> bool:
    """Whether a tensor of this shape is known to have no elements."""
    return any(dim == 0 for dim in shape if isinstance(dim, int))


def tensors_of(type_: Type) -> Iterator[TensorType]:
    """The tensors of a type, tuples flattened; none of other types."""
    match type_:
        case TensorType():
            yield type_
        case TupleType(fields=fields):
            for part in fields:
                yield from tensors_of(part)
