"""Declare Relay's operators, a file for each family; importing this package fills the table."""

from nnmagic.relay.ops import (  # noqa: F401 - they fill the table
    binary,
    blocks,
    convolution,
    creation,
    debugging,
    dense,
    dynamic,
    image,
    indexing,
    joining,
    linalg,
    nn_misc,
    normalization,
    padding,
    pooling,
    python,
    qnn,  # uses attributes and relations of the families above
    quantization,
    random,
    reduction,
    scatter,
    shape,
    signal,
    sorting,
    tables,
    unary,
    vision,
)
from nnmagic.relay.ops.calls import call, resolve
from nnmagic.relay.ops.declaration import NONE_GIVEN, OPERATORS, REQUIRED, Attr, Operator, RelationError

__all__ = ["NONE_GIVEN", "OPERATORS", "REQUIRED", "Attr", "Operator", "RelationError", "call", "resolve"]
