"""Define embeddings, one-hot vectors and image functions by PyTorch's names.

PyTorch's reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
"""

from __future__ import annotations

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.nn.convolutions import operator_formula, relay_call
from nnmagic.tinynn.builtins.nn.operands import float_data
from nnmagic.tinynn.builtins.numpy.indexing import index_formula, take_with_check
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.operator_calls import is_tensor
from nnmagic.tinynn.values.values import Dimension, RefusalError, Value

_DATA = "input=data x=data"


def _embedding(call: Arguments) -> Value:
    """Look up rows of a table; an index out of range is an error."""
    if is_tensor(call.given["indices"].value) and args.formula(call, "indices").is_float:
        hint = "the indices come first: embedding(indices, table)"
        shown = dtype_short_name(args.formula(call, "indices").dtype)
        raise call.refusal("indices", f"`indices` must be integers, not {shown}", hint)
    table = args.formula(call, "weight")
    if table.rank != 2:
        raise call.refusal("weight", f"`weight` must be of rank 2, not of shape {format_shape(table.shape)}")
    return take_with_check(call, table, index_formula(call, "indices"), 0).value


def _one_hot(call: Arguments) -> Value:
    """Return 1 at each index along a new last axis, i64 unless a dtype is given.

    With ``on_value`` or ``depth`` it is Relay's one_hot.
    """
    if "depth" in call or "off_value" in call or "on_value" in call:
        return relay_call("one_hot", call, {"num_classes": "on_value"})
    if "num_classes" not in call:
        hint = "as in one_hot(indices, 10)"
        raise RefusalError("one_hot: missing argument `num_classes`", call.span, hint=hint)
    size = call.given["num_classes"]
    if isinstance(size.value, Dimension):
        hint = f"write {source_text(call.at('indices'))}[..., None] == arange({source_text(size.span)})"
        raise call.mismatch("num_classes", "an int", hint)
    indices, count = index_formula(call, "indices"), args.static_int(call, "num_classes")
    if count < 1:
        raise RefusalError(f"one_hot: `num_classes` is {count}", call.at("num_classes"))
    axis = args.one_axis(call, "axis", indices.rank + 1, -1)
    classes = arange(count, call.span).cast(indices.dtype)
    shape = [count if index == axis else 1 for index in range(indices.rank + 1)]
    result = indices.expand(axis).equal(classes.reshape(shape))
    return result.cast(args.dtype_argument(call) or "int64").value


_RESIZE = {1: "image.resize1d", 2: "image.resize2d", 3: "image.resize3d"}

_METHODS = {
    "nearest": "nearest_neighbor",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


def _interpolate(call: Arguments) -> Value:
    data = float_data(call, 3)
    rank = data.rank - 2
    if rank not in _RESIZE:
        raise RefusalError(f"{call.name} takes one to three spatial dimensions", call.at("data"))
    default = "nearest"
    mode = args.choice_argument(call, "mode", tuple(_METHODS), default)
    ranks = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
    if ranks.get(mode, rank) != rank:
        raise call.refusal("mode", f"the mode {mode!r} is for {ranks[mode]} spatial dimensions, not {rank}")
    sizes = _sizes(call, data, rank)
    method = _METHODS[mode]
    attrs: dict[str, object] = {"size": sizes, "layout": "NC" + "DHW"[3 - rank :], "method": method}
    if method == "nearest_neighbor":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    else:
        aligned = args.flag(call, "align_corners")
        attrs["coordinate_transformation_mode"] = "align_corners" if aligned else "half_pixel"
        attrs |= {"cubic_alpha": -0.75} if method == "cubic" else {}
    return operator_formula(_RESIZE[rank], call, "data", **attrs).value


def _sizes(call: Arguments, data: Formula, rank: int) -> tuple[int, ...]:
    if ("size" in call) == ("scale_factor" in call):
        raise RefusalError(f"{call.name} takes `size` or `scale_factor`", call.span)
    name = "size" if "size" in call else "scale_factor"
    value, span = call.static(name), call.at(name)
    listed = value if isinstance(value, tuple) else (value,) * rank
    if len(listed) != rank or not all(isinstance(factor, int | float) for factor in listed):
        raise RefusalError(f"{call.name}: `{name}` must be a number, or {rank} of them", span)
    sizes = []
    for factor, dim in zip(listed, data.shape[2:], strict=True):
        assert isinstance(factor, int | float)
        size: float = factor
        if name == "scale_factor":
            size = args.static_size(call, dim, call.at("data")) * factor
        if not 1 <= size < 2**63 or size != int(size):
            hint = "give `size`, the number of pixels"
            raise RefusalError(
                f"{call.name}: the result would have {size} pixels along an axis", span, hint=hint
            )
        sizes.append(int(size))
    return tuple(sizes)


def _pixel_shuffle(call: Arguments) -> Value:
    data = float_data(call, 3)
    factor = args.static_int(call, "upscale_factor")
    batched = data if data.rank == 4 else data.expand(0)
    if batched.rank != 4:
        raise RefusalError("pixel_shuffle takes a tensor of rank 3 or 4", call.at("data"))
    result = batched.op("nn.depth_to_space", block_size=factor, layout="NCHW", mode="CRD")
    return (result if data.rank == 4 else result.op("squeeze", axis=[0])).value


def _pixel_unshuffle(call: Arguments) -> Value:
    data = float_data(call, 3)
    factor = args.static_int(call, "downscale_factor")
    *batch, c, h, w = data.shape
    rows, columns = (args.static_size(call, dim, call.at("data")) for dim in (h, w))
    if factor < 1 or rows % factor or columns % factor:
        raise RefusalError(f"pixel_unshuffle: {rows} x {columns} pixels do not divide by {factor}", call.span)
    channels = args.static_size(call, c, call.at("data"))
    split = data.reshape((*batch, channels, rows // factor, factor, columns // factor, factor))
    first = len(batch)
    order = split.transpose((*range(first + 1), *(first + axis for axis in (2, 4, 1, 3))))
    return order.reshape((*batch, channels * factor * factor, rows // factor, columns // factor)).value


IMAGES = (
    cell_function(
        "embedding",
        "indices weight padding_idx?",
        _embedding,
        "Look up rows of a table.",
        aliases="input=indices",
    ),
    Builtin(
        "one_hot",
        "indices num_classes? off_value? depth? axis?=-1 dtype? * on_value?",
        _one_hot,
        "Return one-hot vectors along a new axis.",
        aliases="input=indices tensor=indices",
    ),
    Builtin(
        "interpolate",
        "data size? scale_factor? mode?='nearest' align_corners?",
        _interpolate,
        "Resize images.",
        aliases=_DATA,
    ),
    Builtin(
        "upsample",
        "data size? scale_factor? mode?='nearest' align_corners?",
        _interpolate,
        "Resize images.",
        aliases=_DATA,
    ),
    Builtin(
        "pixel_shuffle",
        "data upscale_factor",
        _pixel_shuffle,
        "Rearrange channels into pixels.",
        aliases=_DATA,
    ),
    Builtin(
        "pixel_unshuffle",
        "data downscale_factor",
        _pixel_unshuffle,
        "Rearrange pixels into channels.",
        aliases=_DATA,
    ),
)
