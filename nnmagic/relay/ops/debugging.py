"""Declare operators that look at values as a program computes them, which real Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.failures import RAISE
from nnmagic.relay.ops.attributes import INTEGER, STR
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
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


declare(
    "python.require",
    "data condition",
    _require,
    "The data; ValueError with the message, unless every element of the condition is true.",
    Attr("message", STR, call_default=REQUIRED),
    traits=Trait.VIEW,
)
declare(
    "python.print",
    "values",
    _print,
    "Prints the tensors of a tuple with the text around them, and is true; ``number`` tells calls apart.",
    Attr("layout", STR, ""),
    Attr("number", INTEGER, 0),
    variadic=True,
)
declare(
    RAISE,
    "values",
    _print,
    "Raises an exception, whose message is made of the tensors of a tuple; ``number`` tells calls apart.",
    Attr("layout", STR, ""),
    Attr("kind", STR, "ValueError"),
    Attr("number", INTEGER, 0),
    variadic=True,
)
