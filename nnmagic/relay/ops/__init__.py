"""Relay's operators: one declaration each, a file a family; importing this package fills the table."""

from nnmagic.relay.ops import (
    binary,
    convolution,
    creation,
    dense,
    indexing,
    nn_misc,
    normalization,
    pooling,
    reduction,
    shape,
    unary,
)
from nnmagic.relay.ops.calls import call, resolve
from nnmagic.relay.ops.declaration import NONE_GIVEN, OPERATORS, Attr, Operator, RelationError

__all__ = [
    "NONE_GIVEN",
    "OPERATORS",
    "Attr",
    "Operator",
    "RelationError",
    "binary",
    "call",
    "convolution",
    "creation",
    "dense",
    "indexing",
    "nn_misc",
    "normalization",
    "pooling",
    "reduction",
    "resolve",
    "shape",
    "unary",
]
