"""Activations by PyTorch's names, with PyTorch's defaults."""

from __future__ import annotations

import math
from collections.abc import Callable

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins.argument_checks import (
    as_float,
    axes,
    fixed,
    flag,
    formula,
    known_int,
    known_number,
    of_formula,
    one_axis,
    require_float,
    word,
)
from nnmagic.tinynn.builtins.numpy.mathematics import expm1, log1p
from nnmagic.tinynn.builtins.numpy.reductions import is_empty
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_calls import call_operator
from nnmagic.tinynn.values.values import Operand, RefusalError, TupleOf, Value

_INPUT = "input=x"


def _plain(name: str, summary: str, function: Callable[[Formula], Formula]) -> Builtin:
    """Of one tensor of floats."""
    return Builtin(name, "x", of_formula(function, "x"), summary, None, _INPUT)


def _floats(call: Arguments, parameter: str = "x") -> Formula:
    data = formula(call, parameter)
    require_float(call, data, parameter)
    return data


def _relu(call: Arguments) -> Value:
    return formula(call, "x").op("nn.relu").value


def _erf(x: Formula) -> Formula:
    return x.op("erf")


def sigmoid(x: Formula) -> Formula:
    """1 / (1 + exp(-x))."""
    return x.op("sigmoid")


def softplus(x: Formula) -> Formula:
    """log(1 + exp(x)) without overflow."""
    return x.op("maximum", 0) + log1p((-x.abs()).exp())


def _gelu(call: Arguments) -> Value:
    """X * (1 + erf(x / sqrt(2))) / 2, or with tanh (Hendrycks and Gimpel, arXiv:1606.08415)."""
    x = _floats(call)
    if word(call, "approximate", ("none", "tanh"), "none") == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return (0.5 * x * (1 + inner.op("tanh"))).value
    return (x * 0.5 * (1 + _erf(x * 2**-0.5))).value


def _leaky_relu(call: Arguments) -> Value:
    return _floats(call).op("nn.leaky_relu", alpha=float(known_number(call, "negative_slope", 0.01))).value


def _prelu(call: Arguments) -> Value:
    """One slope, or one for each place of the channels' axis."""
    x = _floats(call)
    weight = formula(call, "weight")
    axis = one_axis(call, "axis", x.rank, 1 if x.rank > 1 else 0)
    if weight.rank == 1 and weight.shape[0] != 1 and x.rank:
        return x.op("nn.prelu", weight, axis=axis).value
    if weight.rank == 1:
        weight = weight.reshape(())
    if weight.rank:
        message = f"prelu: `weight` must be of rank 0 or 1, not of shape {format_shape(weight.shape)}"
        raise RefusalError(message, call.given["weight"].span)
    return (x < 0).choose(x * weight, x).value


def _elu(x: Formula, alpha: float, inner: float = 1.0) -> Formula:
    below = expm1(x.op("minimum", 0) * inner) * alpha
    return (x > 0).choose(x, below)


#: Klambauer et al., "Self-Normalizing Neural Networks", arXiv:1706.02515.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _selu(x: Formula) -> Formula:
    return _elu(x, _SELU_ALPHA) * _SELU_SCALE


def _elu_of(call: Arguments) -> Value:
    return _elu(_floats(call), float(known_number(call, "alpha", 1.0))).value


def _celu_of(call: Arguments) -> Value:
    alpha = float(known_number(call, "alpha", 1.0))
    if alpha == 0:
        raise RefusalError("celu: `alpha` cannot be 0", call.given["alpha"].span)
    return _elu(_floats(call), alpha, 1 / alpha).value


def _silu(x: Formula) -> Formula:
    return x * sigmoid(x)


def _mish(x: Formula) -> Formula:
    """Misra, arXiv:1908.08681."""
    return x * softplus(x).op("tanh")


def _hardsigmoid(x: Formula) -> Formula:
    return _limited(x / 6 + 0.5, 0, 1)


def _limited(x: Formula, low: float, high: float) -> Formula:
    return x.op("clip", a_min=float(low), a_max=float(high))


def _hardswish(x: Formula) -> Formula:
    return x * _limited(x + 3, 0, 6) / 6


def _hardtanh(call: Arguments) -> Value:
    low, high = known_number(call, "min_val", -1.0), known_number(call, "max_val", 1.0)
    return _limited(formula(call, "x"), float(low), float(high)).value


def _relu6(call: Arguments) -> Value:
    return _limited(formula(call, "x"), 0, 6).value


def _softplus_of(call: Arguments) -> Value:
    x = _floats(call)
    beta, threshold = float(known_number(call, "beta", 1.0)), float(known_number(call, "threshold", 20.0))
    scaled = x if beta == 1 else x * beta
    soft = softplus(scaled) if beta == 1 else softplus(scaled) / beta
    return (scaled > threshold).choose(x, soft).value


def _softsign(x: Formula) -> Formula:
    return x / (1 + x.abs())


def _tanhshrink(x: Formula) -> Formula:
    return x - x.op("tanh")


def _shrink(soft: bool) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        x, bound = _floats(call), float(known_number(call, "lambd", 0.5))
        high, low = (x - bound, x + bound) if soft else (x, x)
        return (x > bound).choose(high, (x < -bound).choose(low, x.like(0))).value

    return apply_to


def _threshold(call: Arguments) -> Value:
    x = formula(call, "x")
    return (x > known_number(call, "threshold", 0)).choose(x, known_number(call, "value", 0)).value


def logsigmoid(x: Formula) -> Formula:
    """log(sigmoid(x)) without loss."""
    return x.op("minimum", 0) - log1p((-x.abs()).exp())


def _softmax(operator: str, sign: int = 1) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        x = _floats(call)
        one_axis(call, "axis", x.rank, -1)
        return (x if sign > 0 else -x).op(operator, axis=known_int(call, "axis", -1)).value

    return apply_to


def _glu(call: Arguments) -> Value:
    """The first half times the sigmoid of the second (Dauphin et al., arXiv:1612.08083)."""
    x = _floats(call)
    axis = one_axis(call, "axis", x.rank, -1)
    size = fixed(call, x.shape[axis], call.given["x"].span)
    if size % 2:
        message = f"glu: axis {axis} of size {size} does not divide into two halves"
        raise RefusalError(message, call.given["x"].span)
    halves = [
        x.op("strided_slice", begin=[begin], end=[begin + size // 2], strides=[1], axes=[axis])
        for begin in (0, size // 2)
    ]
    return (halves[0] * sigmoid(halves[1])).value


def logsumexp(x: Formula, along: tuple[int, ...] | None, *, keepdims: bool) -> Formula:
    """log(sum(exp(x))) from the largest on; nothing but -inf is -inf, and inf is inf."""
    largest = x.reduce("max", along, keepdims=True)
    start = largest.op("isfinite").choose(largest, largest.op("isnan").choose(largest, 0))
    total = (x - start).exp().reduce("sum", along, keepdims=True).log() + start
    if keepdims:
        return total
    every = tuple(range(x.rank)) if along is None else along
    return total.op("squeeze", axis=every) if every else total


def _logsumexp(call: Arguments) -> Value:

    x = as_float(formula(call, "x"))
    along = axes(call, x.rank)
    if is_empty(x, along):
        raise RefusalError("logsumexp of no elements", call.given["x"].span)
    return logsumexp(x, along, keepdims=flag(call, "keepdims")).value


def _dropout(call: Arguments) -> Value:
    """What runs is inference, where nothing is dropped."""
    if flag(call, "training"):
        hint = "leave it out: a compiled function infers, and drops nothing"
        raise RefusalError("dropout: there is no training", call.given["training"].span, hint=hint)
    share = known_number(call, "p", 0.5)
    if not 0 <= share <= 1:
        raise RefusalError(f"dropout: `p` must be from 0 to 1, not {share!r}", call.given["p"].span)

    data = Operand(_floats(call).value, call.given["x"].span)
    found = call_operator(OPERATORS["nn.dropout"], [data], {"rate": float(share)}, call.span)
    assert isinstance(found, TupleOf)
    return found.items[0]


_SOFT = "dim=axis " + _INPUT


ACTIVATIONS = (
    Builtin("relu", "x", _relu, "x, or 0 where it is less.", None, _INPUT),
    _plain("sigmoid", "1 / (1 + exp(-x)).", sigmoid),
    _plain("erf", "Gauss' error function.", _erf),
    _plain("erfc", "1 - erf(x).", lambda x: 1 - _erf(x)),
    _plain("rsqrt", "1 / sqrt(x).", lambda x: x.op("rsqrt")),
    Builtin(
        "gelu",
        "x * approximate?='none'",
        _gelu,
        'x times the normal distribution; approximate="tanh" too.',
        None,
        _INPUT,
    ),
    Builtin(
        "leaky_relu",
        "x negative_slope?=0.01",
        _leaky_relu,
        "x, scaled by 0.01 where less than 0.",
        None,
        "alpha=negative_slope " + _INPUT,
    ),
    Builtin(
        "prelu",
        "x weight axis?=1",
        _prelu,
        "x, scaled by learned slopes where less than 0.",
        None,
        "alpha=weight " + _INPUT,
    ),
    Builtin("elu", "x alpha?=1.0", _elu_of, "x, or alpha * (exp(x) - 1) where less than 0.", None, _INPUT),
    Builtin("celu", "x alpha?=1.0", _celu_of, "x, or alpha * (exp(x / alpha) - 1).", None, _INPUT),
    _plain("selu", "The self-normalising elu.", _selu),
    _plain("silu", "x * sigmoid(x).", _silu),
    _plain("swish", "x * sigmoid(x).", _silu),
    _plain("mish", "x * tanh(softplus(x)).", _mish),
    _plain("hardsigmoid", "x / 6 + 1 / 2 from 0 to 1.", _hardsigmoid),
    _plain("hardswish", "x * hardsigmoid(x).", _hardswish),
    Builtin("hardtanh", "x min_val?=-1.0 max_val?=1.0", _hardtanh, "x from -1 to 1.", None, _INPUT),
    Builtin("relu6", "x", _relu6, "x from 0 to 6.", None, _INPUT),
    Builtin(
        "softplus", "x beta?=1.0 threshold?=20.0", _softplus_of, "log(1 + exp(x)), stable.", None, _INPUT
    ),
    _plain("softsign", "x / (1 + |x|).", _softsign),
    _plain("tanhshrink", "x - tanh(x).", _tanhshrink),
    Builtin("softshrink", "x lambd?=0.5", _shrink(soft=True), "x moved to 0 by lambd.", None, _INPUT),
    Builtin("hardshrink", "x lambd?=0.5", _shrink(soft=False), "x, 0 within lambd.", None, _INPUT),
    Builtin("threshold", "x threshold value", _threshold, "x above a threshold, else a value.", None, _INPUT),
    _plain("logsigmoid", "log(sigmoid(x)), stable.", logsigmoid),
    Builtin(
        "softmax",
        "x axis?=-1",
        _softmax("nn.softmax"),
        "exp(x) divided by its sum along an axis, the last.",
        None,
        _SOFT,
    ),
    Builtin("log_softmax", "x axis?=-1", _softmax("nn.log_softmax"), "log(softmax(x)).", None, _SOFT),
    Builtin("softmin", "x axis?=-1", _softmax("nn.softmax", -1), "softmax(-x).", None, _SOFT),
    Builtin("glu", "x axis?=-1", _glu, "One half times the sigmoid of the other.", None, _SOFT),
    Builtin(
        "logsumexp",
        "x axis? keepdims?",
        _logsumexp,
        "log(sum(exp(x))), stable.",
        None,
        "keepdim=keepdims " + _SOFT,
    ),
    Builtin(
        "dropout",
        "x p?=0.5 training?",
        _dropout,
        "The tensor itself: inference drops nothing.",
        None,
        "rate=p " + _INPUT,
    ),
)
