"""Define losses by PyTorch's names, with PyTorch's defaults: the mean unless ``reduction`` is given.

PyTorch's reference: https://docs.pytorch.org/docs/stable/nn.functional.html#loss-functions
"""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.relay.functions.special import log_of_one_plus_exp
from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.nn.convolutions import relay_call
from nnmagic.tinynn.builtins.numpy.indexing import check_indices, take_with_check
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast_together
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import RefusalError, Value

_REDUCTIONS = ("mean", "sum", "none")

_NAMES = "predictions=input targets=target x=input"


def _reduce(call: Arguments, losses: Formula, default: str = "mean") -> Value:
    how = args.choice_argument(call, "reduction", _REDUCTIONS, default)
    return losses.value if how == "none" else losses.reduce(how).value


def _shapes_differ(call: Arguments, predicted: Formula, target: Formula) -> str:
    shapes = f"{format_shape(predicted.shape)}, the targets {format_shape(target.shape)}"
    return f"{call.name}: the predictions have the shape {shapes}"


def _pairs(call: Arguments) -> tuple[Formula, Formula]:
    """Return predictions and targets as floats of one shape.

    Shapes that only broadcast are refused; PyTorch warns of them.
    """
    one, other = args.pair(call, "input", "target")
    args.require_float(call, one, "input")
    if one.rank != other.rank or any(map(dims_differ, one.shape, other.shape)):
        raise RefusalError(
            _shapes_differ(call, one, other), call.span, hint="both must have one shape: reshape one of them"
        )
    return one, other


def _difference_loss(
    name: str, summary: str, function: Callable[[Arguments, Formula], Formula], more: str = ""
) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        one, other = _pairs(call)
        return _reduce(call, function(call, one - other))

    return Builtin(name, f"input target {more}* reduction?", apply_to, summary, aliases=_NAMES)


def _positive_number(call: Arguments, name: str) -> float:
    bound = float(args.static_number(call, name, 1.0))
    if bound <= 0:
        raise call.refusal(name, f"`{name}` must be above 0")
    return bound


def _smooth(call: Arguments, gap: Formula) -> Formula:
    if args.static_number(call, "beta", 1.0) == 0:
        return gap.abs()
    size, beta = gap.abs(), _positive_number(call, "beta")
    return (size < beta).choose(gap * gap * (0.5 / beta), size - 0.5 * beta)


def _huber(call: Arguments, gap: Formula) -> Formula:
    size, delta = gap.abs(), _positive_number(call, "delta")
    return (size <= delta).choose(gap * gap * 0.5, (size - 0.5 * delta) * delta)


def _apply_weight(call: Arguments, losses: Formula) -> Formula:
    return losses * args.formula(call, "weight") if "weight" in call else losses


def _binary_cross_entropy(call: Arguments) -> Value:
    """Compute the binary cross entropy; logarithms are limited to -100, as in PyTorch."""
    p, y = _pairs(call)
    yes, no = p.log().op("maximum", -100), (1 - p).log().op("maximum", -100)
    return _reduce(call, _apply_weight(call, -(y * yes + (1 - y) * no)))


def _binary_with_logits(call: Arguments) -> Value:
    x, y = _pairs(call)
    common = log_of_one_plus_exp(x)  # the logarithms of sigmoid(x) and of sigmoid(-x) have it in common
    yes, no = x.op("minimum", 0) - common, (-x).op("minimum", 0) - common
    positive = y * yes
    if "pos_weight" in call:
        positive = positive * args.formula(call, "pos_weight")
    return _reduce(call, _apply_weight(call, -(positive + (1 - y) * no)))


def _kl_div(call: Arguments) -> Value:
    """Compute target * (log(target) - input), where 0 * log(0) is 0; ``input`` is a logarithm."""
    x, y = _pairs(call)
    weights, logs = (y.exp(), y) if args.flag(call, "log_target") else (y, y.equal(0).choose(1, y).log())
    losses = weights * (logs - x)
    if "reduction" in call and call.static("reduction") == "batchmean":
        total = losses.reduce("sum")
        return (total * (1 / _rows(call, losses))).value
    return _reduce(call, losses)


def _rows(call: Arguments, losses: Formula) -> int:
    rows = losses.shape[0] if losses.rank else 1
    if not isinstance(rows, int):
        hint = 'write kl_div(input, target, reduction="sum") / len(input)'
        raise RefusalError(
            f"{call.name}: the size of the batch is known only when it runs", call.span, hint=hint
        )
    return rows


def _class_weights(call: Arguments, data: Formula, axis: int) -> Formula:
    """Return the argument ``weight``: one number per class."""
    weights = args.formula(call, "weight")
    if weights.rank != 1 or dims_differ(weights.shape[0], data.shape[axis]):
        raise call.refusal("weight", "`weight` must have a number for each class")
    return weights


def _likelihood(call: Arguments, logs: Formula) -> Value:
    """Return the negative log-likelihoods of the target classes; ``ignore_index`` marks targets to skip."""
    target = args.formula(call, "target")
    if not target.is_integer:
        raise call.refusal("target", "`target` must be integers, the classes")
    axis = 0 if logs.rank == 1 else 1
    other_dims = tuple(dim for index, dim in enumerate(logs.shape) if index != axis)
    if len(other_dims) != target.rank or any(map(dims_differ, other_dims, target.shape)):
        raise RefusalError(
            _shapes_differ(call, logs, target),
            call.span,
            hint="the targets lack the axis of the classes, axis 1",
        )
    ignored = args.static_int(call, "ignore_index", -100)
    wide = target.cast("int64")
    skipped = wide.equal(ignored)
    indices = skipped.choose(0, wide)
    indices = check_indices(indices, logs, axis)
    chosen = logs.op("gather", indices.expand(axis), axis=axis).op("squeeze", axis=[axis])
    weights = chosen.op("ones_like")
    if "weight" in call:
        weights = take_with_check(call, _class_weights(call, logs, axis), indices, 0, "target")
    weights = skipped.choose(0, weights)
    losses = -(chosen * weights)
    how = args.choice_argument(call, "reduction", _REDUCTIONS, "mean")
    if how == "none":
        return losses.value
    total = losses.reduce("sum")
    return total.value if how == "sum" else (total / weights.reduce("sum")).value


def _nll_loss(call: Arguments) -> Value:
    if "weights" in call:  # Relay's keyword
        return relay_call("nn.nll_loss", call, {"input": "predictions", "target": "targets"})
    logs = args.formula(call, "input")
    args.require_float(call, logs, "input")
    args.require_rank(call, logs, "input", 1)
    return _likelihood(call, logs)


def _cross_entropy(call: Arguments) -> Value:
    """Compute the cross entropy of logits; targets are classes or their probabilities.

    With Relay's keywords it is Relay's operator.
    """
    if any(name in call for name in ("predictions", "targets")):
        return relay_call("nn.cross_entropy", call)
    for name in ("input", "target"):
        if name not in call:
            raise RefusalError(f"cross_entropy: missing argument `{name}`", call.span)
    x = args.formula(call, "input")
    args.require_float(call, x, "input")
    axis = 0 if x.rank == 1 else 1
    if x.rank == 0:
        raise RefusalError("cross_entropy of a scalar", call.at("input"))
    smoothing = float(args.static_number(call, "label_smoothing", 0.0))
    logs = x.op("nn.log_softmax", axis=axis)
    target = args.formula(call, "target")
    if not target.is_float:
        if smoothing:
            hint = "give the probabilities of the classes: one_hot(target, n).astype(f32)"
            raise RefusalError(
                "cross_entropy: `label_smoothing` of classes", call.at("label_smoothing"), hint=hint
            )
        return _likelihood(call, logs)
    if logs.rank != target.rank or any(map(dims_differ, logs.shape, target.shape)):
        hint = "targets are classes (integers), or a probability for each class"
        raise RefusalError(_shapes_differ(call, logs, target), call.span, hint=hint)
    if smoothing:
        classes = x.shape[axis]
        if not isinstance(classes, int):
            raise RefusalError("cross_entropy: the number of classes is known only when it runs", call.span)
        target = target * (1 - smoothing) + smoothing / classes
    if "weight" in call:
        vector = _class_weights(call, x, axis)
        target = target * vector.reshape([vector.shape[0] if index == axis else 1 for index in range(x.rank)])
    losses = -(logs * target).reduce("sum", (axis,))
    return _reduce(call, losses)


def _cosine_similarity(call: Arguments) -> Value:
    one, other = args.pair(call, "x1", "x2")
    args.require_float(call, one, "x1")
    one, other = broadcast_together(call, [one, other])
    axis = args.one_axis(call, "axis", one.rank, 1 if one.rank > 1 else 0)
    epsilon = float(args.static_number(call, "eps", 1e-8))
    dot = (one * other).reduce("sum", (axis,))

    def length(x: Formula) -> Formula:
        return (x * x).reduce("sum", (axis,)).sqrt().op("maximum", epsilon)

    return (dot / (length(one) * length(other))).value


_CLASSES = "input? target? weight? * ignore_index?=-100 reduction? label_smoothing?=0.0 predictions? targets?"

LOSSES = (
    _difference_loss("mse_loss", "Compute the squared error.", lambda _call, gap: gap * gap),
    _difference_loss("l1_loss", "Compute the absolute error.", lambda _call, gap: gap.abs()),
    _difference_loss(
        "smooth_l1_loss",
        "Compute the squared error below beta and the absolute error above.",
        _smooth,
        "beta?=1.0 ",
    ),
    _difference_loss(
        "huber_loss",
        "Compute the squared error below delta and the absolute error above.",
        _huber,
        "delta?=1.0 ",
    ),
    Builtin(
        "binary_cross_entropy",
        "input target weight? * reduction?",
        _binary_cross_entropy,
        "Compute the binary cross entropy of probabilities.",
        aliases=_NAMES,
    ),
    Builtin(
        "binary_cross_entropy_with_logits",
        "input target weight? * reduction? pos_weight?",
        _binary_with_logits,
        "Compute the binary cross entropy of logits, numerically stable.",
        aliases=_NAMES,
    ),
    Builtin(
        "kl_div",
        "input target * reduction? log_target?=False",
        _kl_div,
        "Compute the Kullback-Leibler divergence of log probabilities.",
        aliases=_NAMES,
    ),
    Builtin(
        "nll_loss",
        "input target weight? * weights? ignore_index?=-100 reduction?",
        _nll_loss,
        "Compute the negative log-likelihood of the classes.",
        aliases=_NAMES,
    ),
    Builtin(
        "cross_entropy",
        _CLASSES,
        _cross_entropy,
        "Compute the cross entropy of logits; targets are classes or probabilities.",
        form=_CLASSES.replace("t?", "t", 2),
    ),
    Builtin(
        "cosine_similarity",
        "x1 x2 axis?=1 eps?=1e-08",
        _cosine_similarity,
        "Compute the cosine similarity along an axis, by default 1.",
        aliases="dim=axis",
    ),
)
