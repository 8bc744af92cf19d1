"""Count the parts of types."""

from __future__ import annotations

from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.types import FuncType, TupleType, Type


def count_parts(type_: Type) -> int:
    """Return the number of parts of a type, and of those in them; no more than one above the limit."""
    count, work = 0, [type_]
    while work and count <= MAX_TUPLE_SIZE:
        match work.pop():
            case TupleType(fields=fields):
                count += len(fields)
                work += fields
            case FuncType(arg_types=arg_types, ret_type=ret_type):
                count += len(arg_types) + 1
                work += [*arg_types, ret_type]
    return min(count, MAX_TUPLE_SIZE + 1)
