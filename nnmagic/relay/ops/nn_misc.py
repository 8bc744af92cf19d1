"""Declare activations, bias, dropout, the FIFO buffer, correlation and losses of Relay's nn namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import relations as rel
from nnmagic.relay.ops.attributes import BOOL, FLOAT, INT, STR, spatial
from nnmagic.relay.ops.checks import data_has_elements, one_of
from nnmagic.relay.ops.convolution import padding_sums
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import add, ceil_divide, same_dim
from nnmagic.relay.types import TensorType, TupleType, Type, is_float

declare = Family("nn", Trait.SPECULATABLE).declare


def _dropout(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    data = rel.tensor(types)
    return TupleType((data, data))


def _fifo_buffer(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, buffer = rel.tensor(types, 0), rel.tensor(types, 1)
    if len(data.shape) != len(buffer.shape):
        raise RelationError("{data} and {buffer} must have one rank", 0, 1, data=data, buffer=buffer)
    rel.axis_of(attrs, buffer.shape, operand=1)
    return buffer


def _check_fifo_buffer(types: Sequence[Type], attrs: Attrs) -> None:
    data, buffer = rel.tensor(types, 0), rel.tensor(types, 1)
    axis = rel.axis_of(attrs, buffer.shape, operand=1)
    for index, (lhs, rhs) in enumerate(zip(data.shape, buffer.shape, strict=True)):
        if index != axis:
            message = "data and buffer differ on another axis than the given one"
            rel.require_same(lhs, rhs, message, 0, 1, attr="axis")


def _correlation(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return a channel for each displacement of the second image, an element for each patch of the first."""
    first, second = rel.tensor(types, 0, rank=4), rel.tensor(types, 1, rank=4)
    if attrs["layout"] != "NCHW":
        raise RelationError(f"the layout must be NCHW, not {attrs['layout']!r}", attr="layout")
    kernel, most, step, grid = (
        cast(int, attrs[name]) for name in ("kernel_size", "max_displacement", "stride1", "stride2")
    )
    if step < 1 or grid < 1:
        raise RelationError("stride1 and stride2 must be positive", attr="stride1" if step < 1 else "stride2")
    border = most + max(kernel - 1, 0) // 2
    sides = (
        ceil_divide(add(add(dim, pad), -2 * border), step)
        for dim, pad in zip((first.shape[2], second.shape[3]), padding_sums(attrs, 2), strict=True)
    )
    return TensorType((first.shape[0], (2 * (most // grid) + 1) ** 2, *sides), first.dtype)


def _check_correlation(types: Sequence[Type], attrs: Attrs) -> None:
    rel.require_positive("kernel_size", [cast(int, attrs["kernel_size"])])
    rel.require_type(rel.tensor(types, 1), rel.tensor(types).shape, "the second image", 1)


def _cross_entropy(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    predictions, targets = rel.tensor(types, 0, rank=2), rel.tensor(types, 1, rank=2)
    rel.require_type(targets, predictions.shape, "the targets", 1)
    return TensorType((), predictions.dtype)


def _nll_loss(types: Sequence[Type], attrs: Attrs) -> TensorType:
    predictions, targets, weights = rel.tensor(types, 0), rel.tensor(types, 1), rel.tensor(types, 2, rank=1)
    if not is_float(predictions.dtype) or weights.dtype != predictions.dtype:
        raise RelationError(
            "the predictions and weights must be of one floating dtype, found {predictions} and {weights}",
            0,
            2,
            predictions=predictions,
            weights=weights,
        )
    if not targets.dtype.startswith("int"):
        raise RelationError("the targets must be signed integers, found {targets}", 1, targets=targets)
    if len(predictions.shape) != len(targets.shape) + 1:
        raise RelationError(
            "the predictions must have one more axis than the targets, found {predictions} and {targets}",
            0,
            1,
            predictions=predictions,
            targets=targets,
        )
    if len(predictions.shape) < 2:
        raise RelationError(
            "the predictions must have classes, found {predictions}", 0, predictions=predictions
        )
    if same_dim(weights.shape[0], predictions.shape[1]) is False:
        raise RelationError("there must be a weight for each class, found {weights}", 2, 0, weights=weights)
    return TensorType(targets.shape if attrs["reduction"] == "none" else (), predictions.dtype)


def _check_nll_loss(types: Sequence[Type], _attrs: Attrs) -> None:
    batch, _classes, *rest = rel.tensor(types).shape
    rel.require_type(rel.tensor(types, 1), (batch, *rest), "the targets", 1)


def _prelu(types: Sequence[Type], attrs: Attrs) -> TensorType:
    if cast(int, attrs["axis"]) < 0:
        raise RelationError(f"axis must not be negative, it is {attrs['axis']}", 0, attr="axis")
    return rel.channel_vectors("alpha")(types, attrs)


declare(
    "nn.relu(data)",
    rel.identity,
    "The element where it is positive, else 0.",
    traits=Trait.CHECKS_SIZES,
)
declare(
    "nn.leaky_relu(data)",
    rel.identity,
    "The element where it is positive, else alpha times it.",
    Attr("alpha", FLOAT, 0.25, call_default=0.01),
    traits=Trait.CHECKS_SIZES,
    elements="floats",
)
declare(
    "nn.prelu(data, alpha)",
    _prelu,
    "The element where it is positive, else its channel's alpha times it.",
    Attr("axis", INT, 1),
    attrs_key="PReluAttrs",
    elements="floats",
    assume=rel.assume_channel_vectors,
)
declare(
    "nn.bias_add(data, bias)",
    rel.channel_vectors("bias"),
    "A vector added along one axis.",
    Attr("axis", INT, 1),
    traits=Trait.CHECKS_SIZES,
    assume=rel.assume_channel_vectors,
)
declare(
    "nn.dropout(data)",
    _dropout,
    "Data and a mask; when a program runs nothing is dropped.",
    Attr("rate", FLOAT, 0.5),
    traits=Trait.CHECKS_SIZES,
    elements="floats",
)
declare(
    "nn.fifo_buffer(data, buffer)",
    _fifo_buffer,
    "A buffer with data pushed in at the end of an axis and the oldest elements out.",
    Attr("axis", INT, 0, call_default=REQUIRED),
    attrs_key="FIFOBufferAttrs",
    preconditions=[_check_fifo_buffer],
)
declare(
    "nn.correlation(data1, data2)",
    _correlation,
    "How well patches of one image match displaced patches of another.",
    *(
        Attr(_name, INT, 1, call_default=REQUIRED)
        for _name in ("kernel_size", "max_displacement", "stride1", "stride2")
    ),
    Attr("padding", spatial(2, lengths=(1, 2, 4)), (0, 0), call_default=REQUIRED),
    Attr("is_multiply", BOOL, default=True, call_default=REQUIRED),
    Attr("layout", STR, "NCHW", call_default=REQUIRED),
    preconditions=[_check_correlation],
    nonempty_constraints=[data_has_elements],
)
for _name, _summary in (
    ("cross_entropy", "Mean cross entropy of probabilities and one-hot targets."),
    ("cross_entropy_with_logits", "Mean cross entropy of log-probabilities and one-hot targets."),
):
    declare(
        f"nn.{_name}(x, y)",
        _cross_entropy,
        _summary,
        keywords={"predictions": "x", "targets": "y"},
        elements="floats",
    )
Family("nn").declare(  # it may raise
    "nn.nll_loss(predictions, targets, weights)",
    _nll_loss,
    "Negative log-likelihood of the target classes, weighted.",
    Attr("reduction", STR, "mean"),
    Attr("ignore_index", INT, call_default=-100),
    attrs_key="NLLLossAttrs",
    preconditions=[_check_nll_loss, one_of("reduction", "mean", "sum", "none")],
)
