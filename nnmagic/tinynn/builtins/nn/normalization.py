"""Define normalizations by PyTorch's names; with Relay's vectors (``gamma``, ...) they are Relay's."""

from __future__ import annotations

import math

from nnmagic.relay.functions.normalization import rms_norm, scale_and_shift, scale_channels, standardize
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.nn.convolutions import relay_call
from nnmagic.tinynn.builtins.nn.operands import float_data
from nnmagic.tinynn.builtins.nn.training import batch_statistics
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import Operand, RefusalError, TupleOf, Value

_DATA = "input=data x=data"


def _optional(call: Arguments, name: str) -> Formula | None:
    return args.formula(call, name) if name in call else None


def _vectors(call: Arguments, data: Formula, *names: str) -> None:
    for name in names:
        if name in call:
            vector = args.formula(call, name)
            if vector.rank != 1 or dims_differ(vector.shape[0], data.shape[1]):
                shapes = f"{format_shape(vector.shape)}, the data {format_shape(data.shape)}"
                message = f"`{name}` has the shape {shapes}"
                raise call.refusal(name, message, hint="one number for each channel, axis 1")


_BATCH_NORM = (
    "data running_mean? running_var? weight? bias? training? momentum?=0.1 eps? "
    "* gamma? beta? moving_mean? moving_var? axis? epsilon? center? scale?"
)

_RELAY_VECTORS = ("gamma", "beta", "moving_mean", "moving_var")


def _batch_norm(call: Arguments) -> Value:
    """Normalize by the running mean and variance, in PyTorch's argument order.

    With Relay's keywords it is Relay's operator. In training it gives the new running statistics, too.
    """
    if any(name in call for name in _RELAY_VECTORS):
        return relay_call("nn.batch_norm", call)
    positional = [name for name in ("running_mean", "running_var", "weight", "bias") if name in call]
    if len(positional) == 4 and all(call.given[name].keyword is None for name in positional):
        hint = (
            "name them: running_mean=, running_var=, weight=, bias= as in PyTorch, or gamma=, beta=, "
            "moving_mean=, moving_var= as in Relay; or write relay.nn.batch_norm"
        )
        raise RefusalError(
            "batch_norm: PyTorch and Relay have these four in different orders", call.span, hint=hint
        )
    for name in ("running_mean", "running_var"):
        if name not in call:
            raise RefusalError(f"batch_norm: missing argument `{name}`", call.span)
    data = float_data(call, 2)
    _vectors(call, data, "running_mean", "running_var", "weight", "bias")
    if args.flag(call, "training"):
        return batch_statistics(call, data)
    mean = args.formula(call, "running_mean")
    weight = _optional(call, "weight") or mean.op("ones_like")
    bias = _optional(call, "bias") or mean.op("zeros_like")
    operands = [
        Operand(operand.value, call.span)
        for operand in (data, weight, bias, mean, args.formula(call, "running_var"))
    ]
    attrs = {"axis": 1, "epsilon": _epsilon(call)}
    result = call_operator(OPERATORS["nn.batch_norm"], operands, attrs, call.span)
    assert isinstance(result, TupleOf)
    return result.items[0]


#: The second to fourth argument, whose order differs between PyTorch and Relay.
_ORDERED = ("second?", "third?", "fourth?")


def _name_arguments(call: Arguments, torch: tuple[str, ...], relay: tuple[str, ...]) -> Arguments:
    """Name the arguments as PyTorch does, or as Relay does if the second is a tensor (gamma)."""
    names = relay if _is_relay_norm(call, "second") else torch
    arguments = dict(call.given)
    for parameter, name in zip(_ORDERED, names, strict=True):
        operand = arguments.pop(parameter.rstrip("?"), None)
        if operand is None:
            continue
        if name in arguments:
            raise RefusalError(f"{call.name}: `{name}` is given twice", arguments[name].span)
        arguments[name] = operand
    return Arguments(call.name, arguments, call.span)


def _is_relay_norm(call: Arguments, second: str) -> bool:
    """Return whether the second argument is a tensor: Relay's gamma, not PyTorch's number or shape."""
    return second in call and is_tensor(call.given[second].value)


def _last_axes(call: Arguments, data: Formula) -> tuple[int, ...]:
    """Return the last axes; their sizes must equal ``normalized_shape``."""
    shape = call.static("normalized_shape")
    wanted = shape if isinstance(shape, tuple) else (shape,)
    last = data.shape[data.rank - len(wanted) :] if len(wanted) <= data.rank else ()
    if (
        len(last) != len(wanted)
        or not wanted
        or any(one != other for one, other in zip(wanted, last, strict=True))
    ):
        message = f"`normalized_shape` is no end of the shape {format_shape(data.shape)}"
        raise call.refusal("normalized_shape", message)
    return tuple(range(data.rank - len(wanted), data.rank))


def _epsilon(call: Arguments, default: float = 1e-5) -> float:
    return float(args.static_number(call, "eps", args.static_number(call, "epsilon", default)))


def _layer_norm(call: Arguments) -> Value:
    """Normalize with PyTorch's shape, weight and bias, or with Relay's gamma and beta along one axis."""
    call = _name_arguments(call, ("normalized_shape", "weight", "bias"), ("gamma", "beta", "axis"))
    if "gamma" in call:
        return relay_call("nn.layer_norm", call)
    data = float_data(call, 1)
    weight, bias = _optional(call, "weight"), _optional(call, "bias")
    along = (
        _last_axes(call, data)
        if "normalized_shape" in call
        else args.axes(call, data.rank) or (data.rank - 1,)
    )
    is_last = "normalized_shape" in call and len(along) == 1
    if is_last and weight is not None and bias is not None and weight.rank == bias.rank == 1:
        return data.op("nn.layer_norm", weight, bias, axis=-1, epsilon=_epsilon(call)).value
    return scale_and_shift(standardize(data, along, _epsilon(call))[0], weight, bias).value


def _rms_norm(call: Arguments) -> Value:
    """Compute x / sqrt(mean(x ** 2) + eps) times a weight (Zhang and Sennrich, arXiv:1910.07467)."""
    data = float_data(call, 1)
    weight = "weight"
    along: tuple[int, ...] = (data.rank - 1,)
    if _is_relay_norm(call, "normalized_shape"):  # rms_norm(x, weight)
        weight = "normalized_shape"
    elif "normalized_shape" in call:
        along = _last_axes(call, data)
    else:
        along = args.axes(call, data.rank) or along
    smallest = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[
        data.dtype
    ]
    result = rms_norm(data, along, _epsilon(call, smallest))
    return scale_and_shift(result, _optional(call, weight), None).value


def _group_norm(call: Arguments) -> Value:
    """Normalize each group of channels of each image, then apply a weight and a bias per channel."""
    call = _name_arguments(call, ("num_groups", "weight", "bias"), ("gamma", "beta", "num_groups"))
    if "gamma" in call:
        return relay_call("nn.group_norm", call)
    data = float_data(call, 2)
    if "num_groups" not in call:
        raise RefusalError("group_norm: missing argument `num_groups`", call.span)
    groups = args.static_int(call, "num_groups")
    channels = args.static_size(call, data.shape[1], call.at("data"), "the number of channels")
    if groups < 1 or channels % groups:
        raise call.refusal("num_groups", f"{channels} channels do not divide into {groups} groups")
    _vectors(call, data, "weight", "bias")
    parts = [
        _optional(call, name) or data.like(number).op("full", shape=(channels,), dtype=data.dtype)
        for name, number in (("weight", 1.0), ("bias", 0.0))
    ]
    return data.op("nn.group_norm", *parts, num_groups=groups, axis=1, epsilon=_epsilon(call)).value


def _instance_norm(call: Arguments) -> Value:
    """Normalize each channel of each image; positional arguments are Relay's gamma and beta."""
    if "gamma" in call or "beta" in call:
        return relay_call("nn.instance_norm", call)
    data = float_data(call, 3)
    _vectors(call, data, "weight", "bias")
    result = standardize(data, range(2, data.rank), _epsilon(call))[0]
    return scale_channels(result, _optional(call, "weight"), _optional(call, "bias")).value


def _normalize(call: Arguments) -> Value:
    """Compute x / max(norm, eps), as PyTorch does, with the norm of order p along an axis."""
    data = float_data(call, 1)
    along = args.axes(call, data.rank) if "axis" in call else (1,) if data.rank > 1 else (0,)
    order, epsilon = float(args.static_number(call, "p", 2.0)), float(args.static_number(call, "eps", 1e-12))
    if order == 2:
        length = (data * data).reduce("sum", along, keepdims=True).sqrt()
    elif order == 1:
        length = data.abs().reduce("sum", along, keepdims=True)
    elif order == math.inf:
        length = data.abs().reduce("max", along, keepdims=True)
    elif order > 0:
        length = (data.abs() ** order).reduce("sum", along, keepdims=True) ** (1 / order)
    else:
        raise RefusalError("normalize: `p` must be above 0", call.at("p"))
    return (data / length.op("maximum", epsilon)).value


_NORM = "* gamma? beta? axis? epsilon? center? scale?"

NORMALIZATION = (
    Builtin(
        "batch_norm",
        _BATCH_NORM,
        _batch_norm,
        "Normalize by the running mean and variance; in training by the batch's, giving (y, mean, var).",
        aliases=_DATA,
    ),
    Builtin(
        "layer_norm",
        f"data {' '.join(_ORDERED)} eps? {_NORM} normalized_shape? weight? bias?",
        _layer_norm,
        "Normalize over the last dimensions.",
        aliases=_DATA,
        form=f"data normalized_shape? weight? bias? eps? {_NORM}",
    ),
    Builtin(
        "rms_norm",
        "data normalized_shape? weight? eps?=None * axis? epsilon?=None",
        _rms_norm,
        "Normalize by the root mean square.",
        aliases=_DATA,
    ),
    Builtin(
        "group_norm",
        f"data {' '.join(_ORDERED)} eps? {_NORM} num_groups? weight? bias?",
        _group_norm,
        "Normalize over groups of channels.",
        aliases=_DATA,
        form=f"data num_groups? weight? bias? eps? {_NORM}",
    ),
    Builtin(
        "instance_norm",
        "data gamma? beta? axis? epsilon? * weight? bias? eps? center? scale?",
        _instance_norm,
        "Normalize over each channel.",
        aliases=_DATA,
    ),
    Builtin(
        "normalize",
        "data p?=2 axis?=1 eps?=1e-12",
        _normalize,
        "Divide by the norm along an axis, by default 1.",
        aliases="dim=axis " + _DATA,
    ),
)
