"""Declare the operator that prints values as a program computes them, which real Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import INTEGER, STR
from nnmagic.relay.ops.declaration import Attr, declare
from nnmagic.relay.types import TensorType, Type


def _print(_types: Sequence[Type], _attrs: Attrs) -> TensorType:
    return TensorType((), "bool")


declare(
    "python.print",
    "values",
    _print,
    "Prints the tensors of a tuple with the text around them, and is true; ``number`` tells calls apart.",
    Attr("layout", STR, ""),
    Attr("number", INTEGER, 0),
    family="debugging",
    variadic=True,
)
