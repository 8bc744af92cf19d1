"""Layers by PyTorch's names: convolutions, pooling, normalisation, embedding, resizing, attention.

Images are NCHW unless a layout says otherwise. Relay's keywords (``strides``, ``pool_size``, ``gamma``, ...)
are taken, too, with Relay's defaults where they differ.
"""

from __future__ import annotations

import math

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.annotations import dtype_short_name
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.builtins.formula import Formula
from nnmagic.tinynn.builtins.operands import (
    axes,
    dtype_argument,
    fixed,
    flag,
    formula,
    known_int,
    known_number,
    one_axis,
    require_float,
    word,
)
from nnmagic.tinynn.calls import operator_call
from nnmagic.tinynn.emit import call_operator, is_tensor
from nnmagic.tinynn.products import matrix_product
from nnmagic.tinynn.strict import dims_differ
from nnmagic.tinynn.values import (
    Computed,
    Operand,
    Refusal,
    Value,
    number_constant,
    shape_shown,
)


def _operator(name: str, call: Arguments, *arguments: str, **attrs: object) -> Formula:
    """A call of an operator on arguments of this call, blamed where they stand."""
    operands = [Operand(formula(call, each).value, call.given[each].span) for each in arguments]
    places = {each: operand.span for each, operand in call.given.items() if each in attrs}
    found = call_operator(OPERATORS[name], operands, attrs, call.span, places)
    assert isinstance(found, Computed)
    return Formula(found, call.span)


def relay_call(name: str, call: Arguments, renamed: dict[str, str] | None = None) -> Value:
    """The Relay operator of that name, by Relay's keywords."""
    from dataclasses import replace

    operands = [
        replace(operand, keyword=(renamed or {}).get(parameter, parameter))
        for parameter, operand in call.given.items()
    ]
    return operator_call(OPERATORS[name], operands, call.span)


def _biased(found: Formula, call: Arguments, axis: int) -> Value:
    if "bias" not in call:
        return found.value
    operands = [
        Operand(found.value, call.span),
        Operand(formula(call, "bias").value, call.given["bias"].span),
    ]
    return call_operator(OPERATORS["nn.bias_add"], operands, {"axis": axis}, call.span)


# -- convolutions --------------------------------------------------------------------------------------

_CONV_ATTRS = (
    "strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout out_dtype"
)
_CONV = " ".join(f"{name}?" for name in _CONV_ATTRS.split())
_CONV_NAMES = "input=data x=data stride=strides"


def _spread(value: object, rank: int) -> list[int] | None:
    """One number for every axis, or one for each."""
    listed = value if isinstance(value, tuple) else (value,) * rank
    if len(listed) != rank or not all(isinstance(one, int) for one in listed):
        return None
    return [one for one in listed if isinstance(one, int)]


def _same_padding(call: Arguments, rank: int, weight: Formula) -> tuple[int, ...]:
    """PyTorch's "same": the result is as large as the data; the odd one goes to the end."""
    strides = _spread(call.known("strides") if "strides" in call else 1, rank)
    if strides is None or any(stride != 1 for stride in strides):
        hint = "give the numbers, as in padding=1"
        raise Refusal(
            f'{call.name}: padding="same" needs strides of 1', call.given["padding"].span, hint=hint
        )
    dilation = _spread(call.known("dilation") if "dilation" in call else 1, rank)
    sizes = [fixed(call, dim, call.given["weight"].span) for dim in weight.shape[2:]]
    totals = [step * (size - 1) for step, size in zip(dilation or [1] * rank, sizes, strict=True)]
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))


def _convolution(rank: int) -> Builtin:
    name = f"nn.conv{rank}d"

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs(*_CONV_ATTRS.split())
        if attrs.get("padding") in ("same", "valid"):
            same = attrs["padding"] == "same"
            attrs["padding"] = _same_padding(call, rank, formula(call, "weight")) if same else 0
        found = _operator(name, call, "data", "weight", **attrs)
        default = OPERATORS[name].attr("data_layout")
        layout = attrs.get("out_layout") or attrs.get("data_layout") or (default and default.default)
        return _biased(found, call, str(layout).find("C"))

    summary = f"{name}, then nn.bias_add where there is a bias."
    return Builtin(f"conv{rank}d", f"data weight bias? {_CONV}", apply_to, summary, None, _CONV_NAMES)


_TRANSPOSED_ATTRS = "strides padding output_padding groups dilation"


def _transposed_convolution(rank: int) -> Builtin:
    name = f"nn.conv{rank}d_transpose"

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs(*_TRANSPOSED_ATTRS.split())
        weight = formula(call, "weight")
        if weight.rank == rank + 2:
            groups = known_int(call, "groups", 1)
            outputs = fixed(call, weight.shape[1], call.given["weight"].span) * groups
            attrs |= {"channels": outputs, "kernel_size": weight.shape[2:]}
        attrs["kernel_layout"] = "IO" + "DHW"[3 - rank :]
        return _biased(_operator(name, call, "data", "weight", **attrs), call, 1)

    words = " ".join(f"{word}?" for word in _TRANSPOSED_ATTRS.split())
    summary = f"{name} with PyTorch's order of the weight: (in, out / groups, ...)."
    return Builtin(
        f"conv_transpose{rank}d", f"data weight bias? {words}", apply_to, summary, None, _CONV_NAMES
    )


def _linear(call: Arguments) -> Value:
    attrs = call.attrs("units", "out_dtype")
    data = formula(call, "data")
    if data.rank != 1:
        return _biased(_operator("nn.dense", call, "data", "weight", **attrs), call, -1)
    rows = {**call.given, "data": Operand(data.expand(0).value, call.given["data"].span)}
    found = _operator("nn.dense", Arguments(call.name, rows, call.span), "data", "weight", **attrs)
    return _biased(found.op("squeeze", axis=[0]), call, -1)


def _bilinear(call: Arguments) -> Value:
    one, other, weight = (formula(call, name) for name in ("input1", "input2", "weight"))
    if one.rank != 2 or other.rank != 2 or weight.rank != 3:
        raise Refusal("bilinear takes two matrices and a weight of rank 3", call.span)
    from nnmagic.tinynn.emit import computed_part
    from nnmagic.tinynn.values import TupleOf

    whole = computed_part(Operand(TupleOf((one.value, weight.value, other.value)), call.span))
    found = call_operator(
        OPERATORS["einsum"], [Operand(whole, call.span)], {"equation": "ni,oij,nj->no"}, call.span
    )
    assert isinstance(found, Computed)
    return _biased(Formula(found, call.span), call, -1)


# -- pooling -------------------------------------------------------------------------------------------


def _pool(kind: str, rank: int) -> Builtin:
    """PyTorch's strides are the window's size; with Relay's ``pool_size`` they are Relay's, 1."""
    name = f"nn.{kind}_pool{rank}d"

    def apply_to(call: Arguments) -> Value:
        torch = "kernel_size" in call
        if torch == ("pool_size" in call):
            missing = f"{call.name}: missing argument `kernel_size`"
            both = f"{call.name}: `pool_size` and `kernel_size` are one"
            raise Refusal(both if torch else missing, call.span)
        attrs = call.attrs("strides", "padding", "dilation", "layout", "out_layout", "ceil_mode")
        attrs = {key: value for key, value in attrs.items() if value is not None}
        attrs["pool_size"] = call.known("kernel_size" if torch else "pool_size")
        if torch:
            attrs.setdefault("strides", attrs["pool_size"])
        if kind == "avg":
            attrs["count_include_pad"] = flag(call, "count_include_pad", default=torch)
        elif flag(call, "return_indices"):
            raise Refusal(f"{call.name}: indices are not given", call.given["return_indices"].span)
        found = _operator(name, call, "data", **attrs)
        if torch and attrs.get("ceil_mode") is True and "layout" not in attrs:
            found = _without_empty_windows(call, found, attrs, rank)
        return found.value

    order = "dilation? ceil_mode? return_indices?" if kind == "max" else "ceil_mode? count_include_pad?"
    more = "" if kind == "max" else " dilation?"
    signature = f"data kernel_size? strides? padding? {order} * pool_size? layout? out_layout?{more}"
    what = "The largest" if kind == "max" else "The mean"
    names = "input=data x=data stride=strides"
    return Builtin(f"{kind}_pool{rank}d", signature, apply_to, f"{what} of each window.", None, names)


def _without_empty_windows(call: Arguments, found: Formula, attrs: dict[str, object], rank: int) -> Formula:
    """PyTorch leaves out a last window that begins beyond the data."""
    data = formula(call, "data")
    strides, padding = _spread(attrs["strides"], rank), _spread(attrs.get("padding", 0), rank)
    if strides is None or padding is None:
        return found
    for place in range(rank):
        axis = place + 2
        size, count = data.shape[axis], found.shape[axis]
        if (
            isinstance(size, int)
            and isinstance(count, int)
            and (count - 1) * strides[place] >= size + padding[place]
        ):
            found = found.op("strided_slice", begin=[0], end=[count - 1], strides=[1], axes=[axis])
    return found


def _adaptive(kind: str, rank: int) -> Builtin:
    name = f"nn.adaptive_{kind}_pool{rank}d"

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs("output_size", "layout", "out_layout")
        sizes = attrs.get("output_size")
        if isinstance(sizes, tuple) and None in sizes:
            data = formula(call, "data")
            dims = data.shape[2:]
            attrs["output_size"] = tuple(
                fixed(call, dim, call.given["data"].span) if size is None else size
                for size, dim in zip(sizes, dims, strict=False)
            )
        return _operator(name, call, "data", **attrs).value

    what = "The largest" if kind == "max" else "The mean"
    return Builtin(
        f"adaptive_{kind}_pool{rank}d",
        "data output_size? * layout? out_layout?",
        apply_to,
        f"{what} of each of output_size windows.",
        None,
        "input=data x=data",
    )


# -- normalisation -------------------------------------------------------------------------------------


def _scaled(
    found: Formula, call: Arguments, shape: tuple[object, ...] | None, weight: str, bias: str
) -> Formula:
    """Times a weight, plus a bias, where they are given, in a shape that broadcasts."""
    for name in (weight, bias):
        if name not in call:
            continue
        factor = formula(call, name)
        if shape is not None:
            if factor.rank != 1:
                message = f"{call.name}: `{name}` must be of rank 1, not of shape {shape_shown(factor.shape)}"
                raise Refusal(message, call.given[name].span)
            factor = factor.reshape([factor.shape[0] if dim is None else 1 for dim in shape])
        found = found * factor if name == weight else found + factor
    return found


def _channelwise(data: Formula) -> tuple[object, ...]:
    """The shape of a vector of channels beside the data: None stands for their number."""
    return tuple(None if axis == 1 else 1 for axis in range(data.rank))


def _vectors(call: Arguments, data: Formula, *names: str) -> None:
    for name in names:
        if name in call:
            found = formula(call, name)
            if found.rank != 1 or dims_differ(found.shape[0], data.shape[1]):
                shapes = f"{shape_shown(found.shape)}, the data {shape_shown(data.shape)}"
                message = f"{call.name}: `{name}` has the shape {shapes}"
                raise Refusal(message, call.given[name].span, hint="one number for each channel, axis 1")


_BATCH_NORM = (
    "data running_mean? running_var? weight? bias? training? momentum? eps? "
    "* gamma? beta? moving_mean? moving_var? axis? epsilon? center? scale?"
)
_RELAY_VECTORS = ("gamma", "beta", "moving_mean", "moving_var")
_RELAY_NORM = ("axis", "epsilon", "center", "scale")


def _batch_norm(call: Arguments) -> Value:
    """Inference: by the running mean and variance. PyTorch's order; by Relay's keywords Relay's operator."""
    if any(name in call for name in _RELAY_VECTORS):
        return relay_call("nn.batch_norm", call)
    positional = [name for name in ("running_mean", "running_var", "weight", "bias") if name in call]
    if len(positional) == 4 and all(call.given[name].keyword is None for name in positional):
        hint = (
            "name them: running_mean=, running_var=, weight=, bias= as in PyTorch, or gamma=, beta=, "
            "moving_mean=, moving_var= as in Relay; or write relay.nn.batch_norm"
        )
        raise Refusal(
            "batch_norm: PyTorch and Relay have these four in different orders", call.span, hint=hint
        )
    if flag(call, "training"):
        hint = "leave it out: a compiled function infers, by the running statistics"
        raise Refusal("batch_norm: there is no training", call.given["training"].span, hint=hint)
    for name in ("running_mean", "running_var"):
        if name not in call:
            raise Refusal(f"batch_norm: missing argument `{name}`", call.span)
    data = _data(call, 2)
    _vectors(call, data, "running_mean", "running_var", "weight", "bias")
    parts: dict[str, Formula] = {}
    for name, number in (("weight", 1), ("bias", 0)):
        if name in call:
            parts[name] = formula(call, name)
        else:
            like = formula(call, "running_mean")
            parts[name] = like.op("ones_like" if number else "zeros_like")
    epsilon = float(known_number(call, "eps", known_number(call, "epsilon", 1e-5)))
    operands = [
        Operand(each.value, call.span)
        for each in (
            data,
            parts["weight"],
            parts["bias"],
            formula(call, "running_mean"),
            formula(call, "running_var"),
        )
    ]
    from nnmagic.tinynn.values import TupleOf

    found = call_operator(OPERATORS["nn.batch_norm"], operands, {"axis": 1, "epsilon": epsilon}, call.span)
    assert isinstance(found, TupleOf)
    return found.items[0]


def _data(call: Arguments, rank: int) -> Formula:
    data = formula(call, "data")
    require_float(call, data, "data")
    if data.rank < rank:
        message = (
            f"{call.name} takes a tensor of rank {rank} or more, not one of shape {shape_shown(data.shape)}"
        )
        raise Refusal(message, call.given["data"].span)
    return data


#: Second to fourth argument, which PyTorch and Relay have in different orders.
_ORDERED = ("second?", "third?", "fourth?")


def _named(call: Arguments, torch: tuple[str, ...], relay: tuple[str, ...]) -> Arguments:
    """Arguments by their names in PyTorch; where the second is a tensor, in Relay: its gamma."""
    names = relay if _is_relay_norm(call, "second") else torch
    given = dict(call.given)
    for place, name in zip(_ORDERED, names, strict=True):
        operand = given.pop(place.rstrip("?"), None)
        if operand is None:
            continue
        if name in given:
            raise Refusal(f"{call.name}: `{name}` is given twice", given[name].span)
        given[name] = operand
    return Arguments(call.name, given, call.span)


def _is_relay_norm(call: Arguments, second: str) -> bool:
    """Whether the second argument is a tensor: Relay's gamma, where PyTorch has a number or a shape."""
    return second in call and is_tensor(call.given[second].value)


def _normalized(data: Formula, along: tuple[int, ...], epsilon: float) -> Formula:
    """Less its mean, over its standard deviation."""
    mean = data.reduce("mean", along, keepdims=True)
    variance = data.op("variance", mean, axis=along, keepdims=True)
    return (data - mean) / (variance + epsilon).sqrt()


def _last_axes(call: Arguments, data: Formula) -> tuple[int, ...]:
    """The last dimensions, which must be those of ``normalized_shape``."""
    given = call.known("normalized_shape")
    wanted = given if isinstance(given, tuple) else (given,)
    last = data.shape[data.rank - len(wanted) :] if len(wanted) <= data.rank else ()
    if (
        len(last) != len(wanted)
        or not wanted
        or any(one != other for one, other in zip(wanted, last, strict=True))
    ):
        message = f"{call.name}: `normalized_shape` is no end of the shape {shape_shown(data.shape)}"
        raise Refusal(message, call.given["normalized_shape"].span)
    return tuple(range(data.rank - len(wanted), data.rank))


def _epsilon(call: Arguments, default: float = 1e-5) -> float:
    return float(known_number(call, "eps", known_number(call, "epsilon", default)))


def _layer_norm(call: Arguments) -> Value:
    """PyTorch's shape, weight and bias; or Relay's gamma and beta, along one axis."""
    call = _named(call, ("normalized_shape", "weight", "bias"), ("gamma", "beta", "axis"))
    if "gamma" in call:
        return relay_call("nn.layer_norm", call)
    data = _data(call, 1)
    if "normalized_shape" not in call:
        axis = axes(call, data.rank) or (data.rank - 1,)
        return _scaled(_normalized(data, axis, _epsilon(call)), call, None, "weight", "bias").value
    along = _last_axes(call, data)
    vectors = [formula(call, name) for name in ("weight", "bias") if name in call]
    if len(along) == 1 and len(vectors) == 2 and all(each.rank == 1 for each in vectors):
        found = data.op("nn.layer_norm", *vectors, axis=-1, epsilon=_epsilon(call))
        return found.value
    return _scaled(_normalized(data, along, _epsilon(call)), call, None, "weight", "bias").value


def _rms_norm(call: Arguments) -> Value:
    """X / sqrt(mean(x ** 2) + eps) times a weight (Zhang and Sennrich, arXiv:1910.07467)."""
    data = _data(call, 1)
    weight = "weight"
    along: tuple[int, ...] = (data.rank - 1,)
    if _is_relay_norm(call, "normalized_shape"):  # rms_norm(x, weight)
        weight = "normalized_shape"
    elif "normalized_shape" in call:
        along = _last_axes(call, data)
    else:
        along = axes(call, data.rank) or along
    smallest = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[
        data.dtype
    ]
    scale = ((data * data).reduce("mean", along, keepdims=True) + _epsilon(call, smallest)).op("rsqrt")
    return _scaled(data * scale, call, None, weight, "bias").value


def _group_norm(call: Arguments) -> Value:
    """Each group of channels of each image, then a weight and a bias for each channel."""
    call = _named(call, ("num_groups", "weight", "bias"), ("gamma", "beta", "num_groups"))
    if "gamma" in call:
        return relay_call("nn.group_norm", call)
    data = _data(call, 2)
    if "num_groups" not in call:
        raise Refusal("group_norm: missing argument `num_groups`", call.span)
    groups = known_int(call, "num_groups")
    channels = fixed(call, data.shape[1], call.given["data"].span, "the number of channels")
    if groups < 1 or channels % groups:
        message = f"group_norm: {channels} channels do not divide into {groups} groups"
        raise Refusal(message, call.given["num_groups"].span)
    _vectors(call, data, "weight", "bias")
    parts = []
    for name, number in (("weight", 1.0), ("bias", 0.0)):
        if name in call:
            parts.append(formula(call, name))
        else:
            vector = Formula(number_constant(number, data.dtype, call.span), call.span)
            parts.append(vector.op("full", shape=(channels,), dtype=data.dtype))
    return data.op("nn.group_norm", *parts, num_groups=groups, axis=1, epsilon=_epsilon(call)).value


def _instance_norm(call: Arguments) -> Value:
    """Each channel of each image; by position Relay's gamma and beta."""
    if "gamma" in call or "beta" in call:
        return relay_call("nn.instance_norm", call)
    data = _data(call, 3)
    _vectors(call, data, "weight", "bias")
    found = _normalized(data, tuple(range(2, data.rank)), _epsilon(call))
    return _scaled(found, call, _channelwise(data), "weight", "bias").value


def _normalize(call: Arguments) -> Value:
    """X / max(norm, eps), PyTorch's; the norm of order p along an axis."""
    data = _data(call, 1)
    along = axes(call, data.rank) if "axis" in call else (1,) if data.rank > 1 else (0,)
    order, epsilon = float(known_number(call, "p", 2.0)), float(known_number(call, "eps", 1e-12))
    if order == 2:
        length = (data * data).reduce("sum", along, keepdims=True).sqrt()
    elif order == 1:
        length = data.abs().reduce("sum", along, keepdims=True)
    elif order == math.inf:
        length = data.abs().reduce("max", along, keepdims=True)
    elif order > 0:
        length = (data.abs() ** order).reduce("sum", along, keepdims=True) ** (1 / order)
    else:
        raise Refusal("normalize: `p` must be above 0", call.given["p"].span)
    return (data / length.op("maximum", epsilon)).value


# -- embedding, one-hot --------------------------------------------------------------------------------


def _embedding(call: Arguments) -> Value:
    """Rows of a table; an index that there is not is an error."""
    from nnmagic.tinynn.builtins.numpy_indexing import index_formula, taken

    if is_tensor(call.given["indices"].value) and formula(call, "indices").is_float:
        hint = "the indices come first: embedding(indices, table)"
        message = (
            f"embedding: `indices` must be integers, not {dtype_short_name(formula(call, 'indices').dtype)}"
        )
        raise Refusal(message, call.given["indices"].span, hint=hint)
    table = formula(call, "weight")
    if table.rank != 2:
        message = f"embedding: `weight` must be of rank 2, not of shape {shape_shown(table.shape)}"
        raise Refusal(message, call.given["weight"].span)
    return taken(call, table, index_formula(call, "indices"), 0).value


def _one_hot(call: Arguments) -> Value:
    """1 at the index, along a new last axis; i64 unless a dtype is given. Relay's with on_value or depth."""
    if "depth" in call or "off_value" in call or "on_value" in call:
        return relay_call("one_hot", call, {"num_classes": "on_value"})
    from nnmagic.tinynn.builtins.numpy_creation import apply_arange
    from nnmagic.tinynn.builtins.numpy_indexing import index_formula

    if "num_classes" not in call:
        hint = "as in one_hot(indices, 10)"
        raise Refusal("one_hot: missing argument `num_classes`", call.span, hint=hint)
    indices, count = index_formula(call, "indices"), known_int(call, "num_classes")
    if count < 1:
        raise Refusal(f"one_hot: `num_classes` is {count}", call.given["num_classes"].span)
    axis = one_axis(call, "axis", indices.rank + 1, -1)
    places = apply_arange(count, call.span).cast(indices.dtype)
    shape = [count if place == axis else 1 for place in range(indices.rank + 1)]
    found = indices.expand(axis).equal(places.reshape(shape))
    return found.cast(dtype_argument(call) or "int64").value


# -- images --------------------------------------------------------------------------------------------

_RESIZE = {1: "image.resize1d", 2: "image.resize2d", 3: "image.resize3d"}
_METHODS = {
    "nearest": "nearest_neighbor",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


def _interpolate(call: Arguments) -> Value:
    data = _data(call, 3)
    rank = data.rank - 2
    if rank not in _RESIZE:
        raise Refusal(f"{call.name} takes one to three spatial dimensions", call.given["data"].span)
    default = "nearest"
    mode = word(call, "mode", tuple(_METHODS), default)
    ranks = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
    if ranks.get(mode, rank) != rank:
        message = f"{call.name}: the mode {mode!r} is for {ranks[mode]} spatial dimensions, not {rank}"
        raise Refusal(message, call.given["mode"].span)
    sizes = _sizes(call, data, rank)
    method = _METHODS[mode]
    attrs: dict[str, object] = {"size": sizes, "layout": "NC" + "DHW"[3 - rank :], "method": method}
    if method == "nearest_neighbor":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    else:
        aligned = flag(call, "align_corners")
        attrs["coordinate_transformation_mode"] = "align_corners" if aligned else "half_pixel"
        attrs |= {"cubic_alpha": -0.75} if method == "cubic" else {}
    return _operator(_RESIZE[rank], call, "data", **attrs).value


def _sizes(call: Arguments, data: Formula, rank: int) -> tuple[int, ...]:
    if ("size" in call) == ("scale_factor" in call):
        raise Refusal(f"{call.name} takes `size` or `scale_factor`", call.span)
    name = "size" if "size" in call else "scale_factor"
    given, at = call.known(name), call.given[name].span
    listed = given if isinstance(given, tuple) else (given,) * rank
    if len(listed) != rank or not all(isinstance(one, int | float) for one in listed):
        raise Refusal(f"{call.name}: `{name}` must be a number, or {rank} of them", at)
    found = []
    for one, dim in zip(listed, data.shape[2:], strict=True):
        assert isinstance(one, int | float)
        size: float = one
        if name == "scale_factor":
            size = fixed(call, dim, call.given["data"].span) * one
        if size != int(size) or size < 1:
            hint = "give `size`, the number of pixels"
            raise Refusal(f"{call.name}: the result would have {size} pixels along an axis", at, hint=hint)
        found.append(int(size))
    return tuple(found)


def _pixel_shuffle(call: Arguments) -> Value:
    data = _data(call, 3)
    factor = known_int(call, "upscale_factor")
    batched = data if data.rank == 4 else data.expand(0)
    if batched.rank != 4:
        raise Refusal("pixel_shuffle takes a tensor of rank 3 or 4", call.given["data"].span)
    found = batched.op("nn.depth_to_space", block_size=factor, layout="NCHW", mode="CRD")
    return (found if data.rank == 4 else found.op("squeeze", axis=[0])).value


def _pixel_unshuffle(call: Arguments) -> Value:
    data = _data(call, 4)
    factor = known_int(call, "downscale_factor")
    n, c, h, w = data.shape
    rows, columns = (fixed(call, dim, call.given["data"].span) for dim in (h, w))
    if factor < 1 or rows % factor or columns % factor:
        message = f"pixel_unshuffle: {rows} x {columns} pixels do not divide by {factor}"
        raise Refusal(message, call.span)
    channels = fixed(call, c, call.given["data"].span)
    split = data.reshape((n, channels, rows // factor, factor, columns // factor, factor))
    order = split.transpose((0, 1, 3, 5, 2, 4))
    return order.reshape((n, channels * factor * factor, rows // factor, columns // factor)).value


# -- attention -----------------------------------------------------------------------------------------


def _attention(call: Arguments) -> Value:
    """softmax(query @ key.T * scale + mask) @ value (Vaswani et al., arXiv:1706.03762)."""
    query, key, value = (formula(call, name) for name in ("query", "key", "value"))
    require_float(call, query, "query")
    for name, each in (("query", query), ("key", key), ("value", value)):
        if each.rank < 2:
            message = (
                f"{call.name}: `{name}` must be of rank 2 or more, not of shape {shape_shown(each.shape)}"
            )
            raise Refusal(message, call.given[name].span)
    if known_number(call, "dropout_p", 0.0) != 0:
        raise Refusal(f"{call.name}: there is no training, so no dropout", call.given["dropout_p"].span)
    width = fixed(call, query.shape[-1], call.given["query"].span, "the size of the last axis")
    scale = float(known_number(call, "scale", 1 / math.sqrt(width) if width else 1.0))
    flipped = key.transpose([*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scores = _matrices(call, query, "query", flipped, "key") * scale
    if flag(call, "is_causal"):
        if "attn_mask" in call:
            raise Refusal(f"{call.name} takes `attn_mask` or `is_causal`", call.given["attn_mask"].span)
        scores = causal(scores)
    if "attn_mask" in call:
        mask = formula(call, "attn_mask")
        if mask.dtype not in ("bool", scores.dtype):
            message = f"{call.name}: `attn_mask` must be of bools or {dtype_short_name(scores.dtype)}"
            raise Refusal(f"{message}, not {dtype_short_name(mask.dtype)}", call.given["attn_mask"].span)
        scores = mask.choose(scores, -math.inf) if mask.dtype == "bool" else scores + mask
    shares = scores.op("nn.softmax", axis=-1)
    return _matrices(call, shares, "query", value, "value").value


def _matrices(call: Arguments, one: Formula, first: str, other: Formula, second: str) -> Formula:
    left, right = Operand(one.value, call.given[first].span), Operand(other.value, call.given[second].span)
    return Formula(matrix_product(left, right, call.span, call.name), call.span)


def causal(scores: Formula) -> Formula:
    """-inf where the column is after the row. Places are counted, so that sizes may be unknown."""
    ones = scores.op("ones_like").cast("int32")
    rows, columns = (ones.op("cumsum", axis=axis) for axis in (scores.rank - 2, scores.rank - 1))
    return (columns <= rows).choose(scores, -math.inf)


_DATA = "input=data x=data"
_NORM = "* gamma? beta? axis? epsilon? center? scale?"

LAYERS = (
    *map(_convolution, (1, 2, 3)),
    *map(_transposed_convolution, (1, 2, 3)),
    Builtin(
        "linear",
        "data weight bias? * units? out_dtype?",
        _linear,
        "nn.dense, then nn.bias_add where there is a bias.",
        None,
        _DATA,
    ),
    Builtin(
        "bilinear", "input1 input2 weight bias?", _bilinear, "x1 @ weight @ x2 for each output.", method=False
    ),
    *(_pool(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
    *(_adaptive(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
    Builtin(
        "batch_norm", _BATCH_NORM, _batch_norm, "By running mean and variance; inference only.", None, _DATA
    ),
    Builtin(
        "layer_norm",
        f"data {' '.join(_ORDERED)} eps? {_NORM} normalized_shape? weight? bias?",
        _layer_norm,
        "Over the last dimensions.",
        None,
        _DATA,
    ),
    Builtin(
        "rms_norm",
        "data normalized_shape? weight? eps? * axis? epsilon?",
        _rms_norm,
        "By the root mean square.",
        None,
        _DATA,
    ),
    Builtin(
        "group_norm",
        f"data {' '.join(_ORDERED)} eps? {_NORM} num_groups? weight? bias?",
        _group_norm,
        "Over groups of channels.",
        None,
        _DATA,
    ),
    Builtin(
        "instance_norm",
        "data gamma? beta? axis? epsilon? * weight? bias? eps? center? scale?",
        _instance_norm,
        "Over each channel.",
        None,
        _DATA,
    ),
    Builtin(
        "normalize",
        "data p? axis? eps?",
        _normalize,
        "Over its norm along an axis, 1.",
        None,
        "dim=axis " + _DATA,
    ),
    Builtin(
        "embedding",
        "indices weight padding_idx?",
        _embedding,
        "Rows of a table.",
        None,
        "input=indices",
        method=False,
    ),
    Builtin(
        "one_hot",
        "indices num_classes? off_value? depth? axis? dtype? * on_value?",
        _one_hot,
        "1 at each index, along a new axis.",
        None,
        "input=indices tensor=indices",
    ),
    Builtin(
        "interpolate",
        "data size? scale_factor? mode? align_corners?",
        _interpolate,
        "Images resized.",
        None,
        _DATA,
    ),
    Builtin(
        "upsample",
        "data size? scale_factor? mode? align_corners?",
        _interpolate,
        "Images resized.",
        None,
        _DATA,
    ),
    Builtin("pixel_shuffle", "data upscale_factor", _pixel_shuffle, "Channels as pixels.", None, _DATA),
    Builtin("pixel_unshuffle", "data downscale_factor", _pixel_unshuffle, "Pixels as channels.", None, _DATA),
    Builtin(
        "scaled_dot_product_attention",
        "query key value attn_mask? dropout_p? is_causal? scale?",
        _attention,
        "softmax(q @ k.T * scale + mask) @ v.",
        None,
        "mask=attn_mask",
        method=False,
    ),
)
