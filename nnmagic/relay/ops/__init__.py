"""Relay's operators: one declaration each, a file a family; importing this package fills the table."""

from nnmagic.relay.ops import binary, reduction, unary
from nnmagic.relay.ops.declaration import NONE_GIVEN, OPERATORS, Attr, Operator, RelationError

__all__ = ["NONE_GIVEN", "OPERATORS", "Attr", "Operator", "RelationError", "binary", "reduction", "unary"]
