"""Declare normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, FLOAT, INT, INTEGER, STR, one_or_more, optional
from nnmagic.relay.ops.checks import sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.relations import assume_channel_vectors, axis_of, channel_vectors, identity, tensor
from nnmagic.relay.types import TensorType, TupleType, Type

declare = Family("normalization", Trait.SPECULATABLE).declare


def _softmax(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = tensor(types)
    axis_of(attrs, data.shape)
    return data


_batch_vectors = channel_vectors("gamma", "beta", "moving_mean", "moving_var")


def _batch_norm(types: Sequence[Type], attrs: Attrs) -> TupleType:
    if cast(int, attrs["axis"]) < -1:
        raise RelationError(f"axis must be -1 or not negative, it is {attrs['axis']}", 0, attr="axis")
    data = _batch_vectors(types, attrs)
    return TupleType((data, tensor(types, 3), tensor(types, 4)))


def _instance_norm(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = channel_vectors("gamma", "beta")(types, attrs)
    if len(data.shape) < 3:
        raise RelationError("expected a tensor of rank 3 or more, found {data}", 0, data=data)
    return data


def _divide_groups(types: Sequence[Type], attrs: Attrs) -> None:
    """Require channels that the groups divide."""
    channels, groups = sizes(types)[0][cast(int, attrs["axis"])], cast(int, attrs["num_groups"])
    if groups < 1 or channels % groups:
        message = f"{channels} channels cannot be divided into {groups} groups"
        raise RelationError(message, 0, attr="num_groups")


for _name, _summary in (
    ("softmax", "exp(x) divided by its sum along an axis."),
    ("log_softmax", "Logarithm of the softmax along an axis."),
    ("fast_softmax", "Softmax with an approximated exp."),
):
    declare(
        f"nn.{_name}(data)",
        _softmax,
        _summary,
        Attr("axis", INT, -1),
        attrs_key="SoftmaxAttrs",
        traits=Trait.CHECKS_SIZES,
        elements="floats",
    )

_NORM = (Attr("epsilon", FLOAT, 1e-5), Attr("center", BOOL, default=True), Attr("scale", BOOL, default=True))
declare(
    "nn.batch_norm(data, gamma, beta, moving_mean, moving_var)",
    _batch_norm,
    "Normalisation by given means and variances of each channel; the result is (data, mean, variance).",
    Attr("axis", INT, 1),
    *_NORM,
    elements="floats",
    assume=assume_channel_vectors,
)
for _name, _summary, _key, _first in (
    ("layer_norm", "Normalisation along one axis.", "LayerNormAttrs", (Attr("axis", INT, -1),)),
    (
        "instance_norm",
        "Normalisation of each channel of each image.",
        "InstanceNormAttrs",
        (Attr("axis", INT, 1),),
    ),
    (
        "group_norm",
        "Normalisation of each group of channels of each image.",
        "GroupNormAttrs",
        (Attr("num_groups", INT, 0, call_default=REQUIRED), Attr("axis", INT, 1)),
    ),
):
    declare(
        f"nn.{_name}(data, gamma, beta)",
        _instance_norm if _name == "instance_norm" else channel_vectors("gamma", "beta"),
        _summary,
        *_first,
        *_NORM,
        attrs_key=_key,
        traits=Trait.SPECULATABLE,
        elements="floats",
        assume=assume_channel_vectors,
        shape_constraints=[_divide_groups] if _name == "group_norm" else (),
    )
declare(
    "nn.l2_normalize(data)",
    identity,
    "Data divided by its Euclidean norm along the axes.",
    Attr("eps", FLOAT),
    Attr("axis", optional(one_or_more(INTEGER)), call_default=None),
    elements="floats",
)
declare(
    "nn.lrn(data)",
    identity,
    "Local response normalisation across neighbouring channels.",
    Attr("size", INT, 5),
    Attr("axis", INT, 1),
    Attr("bias", FLOAT, 2.0),
    Attr("alpha", FLOAT, 1e-4, call_default=1e-5),
    Attr("beta", FLOAT, 0.75),
    Attr("norm_region", STR, "ACROSS_CHANNELS"),
    attrs_key="LRNAttrs",
    elements="floats",
)
