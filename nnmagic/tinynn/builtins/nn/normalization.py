"""Normalisations by PyTorch's names; with Relay's vectors (``gamma``, ...) they are Relay's."""

from __future__ import annotations

import math

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins.argument_checks import axes, fixed, flag, formula, known_int, known_number
from nnmagic.tinynn.builtins.nn.convolutions import relay_call
from nnmagic.tinynn.builtins.nn.operands import float_data
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_calls import call_operator, is_tensor
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import Operand, RefusalError, TupleOf, Value, number_constant

_DATA = "input=data x=data"


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
                message = (
                    f"{call.name}: `{name}` must be of rank 1, not of shape {format_shape(factor.shape)}"
                )
                raise RefusalError(message, call.given[name].span)
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
                shapes = f"{format_shape(found.shape)}, the data {format_shape(data.shape)}"
                message = f"{call.name}: `{name}` has the shape {shapes}"
                raise RefusalError(message, call.given[name].span, hint="one number for each channel, axis 1")


_BATCH_NORM = (
    "data running_mean? running_var? weight? bias? training? momentum?=0.1 eps? "
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
        raise RefusalError(
            "batch_norm: PyTorch and Relay have these four in different orders", call.span, hint=hint
        )
    if flag(call, "training"):
        hint = "leave it out: a compiled function infers, by the running statistics"
        raise RefusalError("batch_norm: there is no training", call.given["training"].span, hint=hint)
    for name in ("running_mean", "running_var"):
        if name not in call:
            raise RefusalError(f"batch_norm: missing argument `{name}`", call.span)
    data = float_data(call, 2)
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

    found = call_operator(OPERATORS["nn.batch_norm"], operands, {"axis": 1, "epsilon": epsilon}, call.span)
    assert isinstance(found, TupleOf)
    return found.items[0]


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
            raise RefusalError(f"{call.name}: `{name}` is given twice", given[name].span)
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
        message = f"{call.name}: `normalized_shape` is no end of the shape {format_shape(data.shape)}"
        raise RefusalError(message, call.given["normalized_shape"].span)
    return tuple(range(data.rank - len(wanted), data.rank))


def _epsilon(call: Arguments, default: float = 1e-5) -> float:
    return float(known_number(call, "eps", known_number(call, "epsilon", default)))


def _layer_norm(call: Arguments) -> Value:
    """PyTorch's shape, weight and bias; or Relay's gamma and beta, along one axis."""
    call = _named(call, ("normalized_shape", "weight", "bias"), ("gamma", "beta", "axis"))
    if "gamma" in call:
        return relay_call("nn.layer_norm", call)
    data = float_data(call, 1)
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
    data = float_data(call, 1)
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
    data = float_data(call, 2)
    if "num_groups" not in call:
        raise RefusalError("group_norm: missing argument `num_groups`", call.span)
    groups = known_int(call, "num_groups")
    channels = fixed(call, data.shape[1], call.given["data"].span, "the number of channels")
    if groups < 1 or channels % groups:
        message = f"group_norm: {channels} channels do not divide into {groups} groups"
        raise RefusalError(message, call.given["num_groups"].span)
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
    data = float_data(call, 3)
    _vectors(call, data, "weight", "bias")
    found = _normalized(data, tuple(range(2, data.rank)), _epsilon(call))
    return _scaled(found, call, _channelwise(data), "weight", "bias").value


def _normalize(call: Arguments) -> Value:
    """X / max(norm, eps), PyTorch's; the norm of order p along an axis."""
    data = float_data(call, 1)
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
        raise RefusalError("normalize: `p` must be above 0", call.given["p"].span)
    return (data / length.op("maximum", epsilon)).value


_NORM = "* gamma? beta? axis? epsilon? center? scale?"


NORMALIZATION = (
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
        form=f"data normalized_shape? weight? bias? eps? {_NORM}",
    ),
    Builtin(
        "rms_norm",
        "data normalized_shape? weight? eps?=None * axis? epsilon?=None",
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
        form=f"data num_groups? weight? bias? eps? {_NORM}",
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
        "data p?=2 axis?=1 eps?=1e-12",
        _normalize,
        "Over its norm along an axis, 1.",
        None,
        "dim=axis " + _DATA,
    ),
)
