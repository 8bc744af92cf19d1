"""Declare operators that look at values as a program computes them, which real Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.failures import RAISE
from nnmagic.relay.ops.attributes import INTEGER, STR, array
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import same_dim
from nnmagic.relay.ops.relations import tensor
from nnmagic.relay.types import TensorType, Type

declare = Family("debugging").declare


def _print(_types: Sequence[Type], _attrs: Attrs) -> TensorType:
    return TensorType((), "bool")


def _require(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    condition = tensor(types, 1)
    if condition.dtype != "bool":
        raise RelationError("the condition must be of bools, not {operand}", 1, operand=condition)
    return tensor(types)


def _sized(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data, like = tensor(types), tensor(types, 1)
    axes = cast("Sequence[int]", attrs["axes"])
    if len(like.shape) != len(axes) + 1 or not all(-len(data.shape) <= axis < 0 for axis in axes):
        raise RelationError("the axes {axes} are none of {operand}", 0, operand=data, axes=list(axes))
    return data


def _fit_sizes(types: Sequence[Type], attrs: Attrs) -> None:
    data, like = tensor(types), tensor(types, 1)
    for axis, wanted in zip(cast("Sequence[int]", attrs["axes"]), like.shape[1:], strict=True):
        if same_dim(data.shape[axis], wanted) is False:
            sizes = f"its size along axis {axis} is {data.shape[axis]}, not {wanted}"
            raise RelationError(f"{attrs['message']}, but {sizes}")


declare(
    "python.require(data, condition)",
    _require,
    "The data; ValueError with the message, unless every element of the condition is true.",
    Attr("message", STR, call_default=REQUIRED),
    traits=Trait.VIEW,
)
declare(
    "python.sized(data, like)",
    _sized,
    "The data; ValueError unless it has, along ``axes``, the sizes of ``like`` behind its first one.",
    Attr("axes", array(INTEGER)),
    Attr("message", STR, call_default=REQUIRED),
    traits=Trait.VIEW,
    shape_constraints=[_fit_sizes],
)
declare(
    "python.print(values)",
    _print,
    "Prints the tensors of a tuple with the text around them, and is true; ``number`` tells calls apart.",
    Attr("layout", STR, ""),
    Attr("number", INTEGER, 0),
    variadic=True,
)
declare(
    f"{RAISE}(values)",
    _print,
    "Raises an exception, whose message is made of the tensors of a tuple; ``number`` tells calls apart.",
    Attr("layout", STR, ""),
    Attr("kind", STR, "ValueError"),
    Attr("number", INTEGER, 0),
    variadic=True,
)
