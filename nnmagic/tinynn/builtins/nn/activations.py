"""Define activations by PyTorch's names, with PyTorch's defaults."""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.relay.functions import activations, special
from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.nn.training import dropout
from nnmagic.tinynn.builtins.numpy.reductions import is_empty
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import RefusalError, Value


def _activation(
    name: str, signature: str, apply_to: Callable[[Arguments], Value], summary: str, aliases: str = ""
) -> Builtin:
    """Declare a function whose first parameter PyTorch calls ``input``."""
    return Builtin(name, signature, apply_to, summary, aliases=f"{aliases} input=x".strip())


def _float_activation(name: str, summary: str, function: Callable[[Formula], Formula]) -> Builtin:
    """Declare a function of one tensor of floats."""
    return _activation(name, "x", args.float_function(function, "x"), summary)


def _floats(call: Arguments, parameter: str = "x") -> Formula:
    data = args.formula(call, parameter)
    args.require_float(call, data, parameter)
    return data


def _relu(call: Arguments) -> Value:
    return args.formula(call, "x").op("nn.relu").value


def _gelu(call: Arguments) -> Value:
    return activations.gelu(
        _floats(call), args.choice_argument(call, "approximate", ("none", "tanh"), "none")
    ).value


def _leaky_relu(call: Arguments) -> Value:
    return (
        _floats(call).op("nn.leaky_relu", alpha=float(args.static_number(call, "negative_slope", 0.01))).value
    )


def _prelu(call: Arguments) -> Value:
    """Apply a single slope, or one per channel."""
    x = _floats(call)
    weight = args.formula(call, "weight")
    axis = args.one_axis(call, "axis", x.rank, 1 if x.rank > 1 else 0)
    if weight.rank == 1 and weight.shape[0] != 1 and x.rank:
        return x.op("nn.prelu", weight, axis=axis).value
    if weight.rank == 1:
        weight = weight.reshape(())
    if weight.rank:
        message = f"prelu: `weight` must be of rank 0 or 1, not of shape {format_shape(weight.shape)}"
        raise RefusalError(message, call.at("weight"))
    return (x < 0).choose(x * weight, x).value


#: Klambauer et al., "Self-Normalizing Neural Networks", arXiv:1706.02515.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _selu(x: Formula) -> Formula:
    return activations.elu(x, _SELU_ALPHA) * _SELU_SCALE


def _celu_of(call: Arguments) -> Value:
    alpha = float(args.static_number(call, "alpha", 1.0))
    if alpha == 0:
        raise RefusalError("celu: `alpha` cannot be 0", call.at("alpha"))
    return activations.elu(_floats(call), alpha, 1 / alpha).value


def _hardsigmoid(x: Formula) -> Formula:
    return activations.limit(x / 6 + 0.5, 0, 1)


def _hardtanh(call: Arguments) -> Value:
    low, high = args.static_number(call, "min_val", -1.0), args.static_number(call, "max_val", 1.0)
    return activations.limit(args.formula(call, "x"), float(low), float(high)).value


def _relu6(call: Arguments) -> Value:
    return activations.limit(args.formula(call, "x"), 0, 6).value


def _softplus_of(call: Arguments) -> Value:
    x = _floats(call)
    beta, threshold = (
        float(args.static_number(call, "beta", 1.0)),
        float(args.static_number(call, "threshold", 20.0)),
    )
    scaled = x if beta == 1 else x * beta
    soft = special.softplus(scaled) if beta == 1 else special.softplus(scaled) / beta
    return (scaled > threshold).choose(x, soft).value


def _shrink_limit(call: Arguments) -> float:
    return float(args.static_number(call, "lambd", 0.5))


def _softshrink(call: Arguments) -> Value:
    """Move x towards 0; the zero between keeps the sign of x, and NaN stays NaN."""
    x, bound = _floats(call), _shrink_limit(call)
    if bound < 0:
        raise RefusalError(f"softshrink: `lambd` must not be negative, not {bound!r}", call.at("lambd"))
    return (x > bound).choose(x - bound, (x < -bound).choose(x + bound, x * 0)).value


def _hardshrink(call: Arguments) -> Value:
    x, bound = _floats(call), _shrink_limit(call)
    return (x.abs() <= bound).choose(0, x).value


def _threshold(call: Arguments) -> Value:
    x = args.formula(call, "x")
    return (
        (x <= args.static_number(call, "threshold", 0)).choose(args.static_number(call, "value", 0), x).value
    )


def _logsigmoid(x: Formula) -> Formula:
    return x.minimum(0) - special.log_of_one_plus_exp(x)


def _softmax(operator: str, sign: int = 1) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        x = _floats(call)
        args.one_axis(call, "axis", x.rank, -1)
        return (x if sign > 0 else -x).op(operator, axis=args.static_int(call, "axis", -1)).value

    return apply_to


def _glu(call: Arguments) -> Value:
    """Multiply the first half by the sigmoid of the second (Dauphin et al., arXiv:1612.08083)."""
    x = _floats(call)
    axis = args.one_axis(call, "axis", x.rank, -1)
    size = args.static_size(call, x.shape[axis], call.at("x"))
    if size % 2:
        raise RefusalError(f"glu: axis {axis} of size {size} does not divide into two halves", call.at("x"))
    halves = [x.between(axis, begin, begin + size // 2) for begin in (0, size // 2)]
    return (halves[0] * halves[1].op("sigmoid")).value


def _logsumexp(call: Arguments) -> Value:
    x = args.as_float(args.formula(call, "x"))
    along = args.axes(call, x.rank)
    if is_empty(x, along):
        raise RefusalError("logsumexp of no elements", call.at("x"))
    every = range(x.rank) if along is None else along
    return special.logsumexp(x, every, keepdims=args.flag(call, "keepdims")).value


ACTIVATIONS = (
    _activation("relu", "x", _relu, "Compute max(x, 0)."),
    _float_activation("sigmoid", "Compute 1 / (1 + exp(-x)).", lambda x: x.op("sigmoid")),
    _float_activation("erf", "Compute the error function.", lambda x: x.op("erf")),
    _float_activation("erfc", "Compute 1 - erf(x).", lambda x: x.op("special.erfc")),
    _float_activation("rsqrt", "Compute 1 / sqrt(x).", lambda x: x.op("rsqrt")),
    _activation(
        "gelu",
        "x * approximate?='none'",
        _gelu,
        'Multiply x by the cumulative normal distribution; approximate="tanh" is supported.',
    ),
    _activation(
        "leaky_relu",
        "x negative_slope?=0.01",
        _leaky_relu,
        "Scale x by negative_slope (0.01) where it is negative.",
        aliases="alpha=negative_slope",
    ),
    _activation(
        "prelu",
        "x weight axis?=1",
        _prelu,
        "Scale x by learned slopes where it is negative.",
        aliases="alpha=weight",
    ),
    _activation(
        "elu",
        "x alpha?=1.0",
        lambda call: activations.elu(_floats(call), float(args.static_number(call, "alpha", 1.0))).value,
        "Return x, or alpha * (exp(x) - 1) where x is negative.",
    ),
    _activation(
        "celu", "x alpha?=1.0", _celu_of, "Return x, or alpha * (exp(x / alpha) - 1) where x is negative."
    ),
    _float_activation("selu", "Compute the self-normalizing elu.", _selu),
    _float_activation("silu", "Compute x * sigmoid(x).", activations.swish),
    _float_activation("swish", "Compute x * sigmoid(x).", activations.swish),
    _float_activation("mish", "Compute x * tanh(softplus(x)).", activations.mish),
    _float_activation("hardsigmoid", "Compute x / 6 + 1 / 2, limited to 0 to 1.", _hardsigmoid),
    _float_activation("hardswish", "Compute x * hardsigmoid(x).", activations.hard_swish),
    _activation(
        "hardtanh",
        "x min_val?=-1.0 max_val?=1.0",
        _hardtanh,
        "Limit x to the range from min_val to max_val (-1 to 1).",
    ),
    _activation("relu6", "x", _relu6, "Limit x to the range from 0 to 6."),
    _activation(
        "softplus",
        "x beta?=1.0 threshold?=20.0",
        _softplus_of,
        "Compute log(1 + exp(x)), numerically stable.",
    ),
    _float_activation("softsign", "Compute x / (1 + abs(x)).", activations.softsign),
    _float_activation("tanhshrink", "Compute x - tanh(x).", lambda x: x - x.op("tanh")),
    _activation("softshrink", "x lambd?=0.5", _softshrink, "Move x towards 0 by lambd."),
    _activation("hardshrink", "x lambd?=0.5", _hardshrink, "Return x, or 0 where abs(x) is at most lambd."),
    _activation(
        "threshold", "x threshold value", _threshold, "Return x where it is above the threshold, else value."
    ),
    _float_activation("logsigmoid", "Compute log(sigmoid(x)), numerically stable.", _logsigmoid),
    _activation(
        "softmax",
        "x axis?=-1",
        _softmax("nn.softmax"),
        "Compute exp(x) divided by its sum along an axis, by default the last.",
        aliases="dim=axis",
    ),
    _activation(
        "log_softmax",
        "x axis?=-1",
        _softmax("nn.log_softmax"),
        "Compute log(softmax(x)).",
        aliases="dim=axis",
    ),
    _activation(
        "softmin", "x axis?=-1", _softmax("nn.softmax", -1), "Compute softmax(-x).", aliases="dim=axis"
    ),
    _activation(
        "glu", "x axis?=-1", _glu, "Multiply one half by the sigmoid of the other half.", aliases="dim=axis"
    ),
    _activation(
        "logsumexp",
        "x axis? keepdims?",
        _logsumexp,
        "Compute log(sum(exp(x))), numerically stable.",
        aliases="keepdim=keepdims dim=axis",
    ),
    _activation(
        "dropout",
        "x p?=0.5 training? * key?",
        dropout,
        "Return the tensor itself; with a key, zeros at random places, and the others divided by 1 - p.",
        aliases="rate=p",
    ),
)
