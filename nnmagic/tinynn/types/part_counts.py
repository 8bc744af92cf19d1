"""Count the parts of types, and how deep they nest."""

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


def nesting(type_: TupleType) -> int:
    """Return how deep tuples nest in one that has no more parts than the limit."""
    deepest, work = 0, [(type_, 1)]
    while work:
        tuple_, depth = work.pop()
        deepest = max(deepest, depth)
        work += [(field, depth + 1) for field in tuple_.fields if isinstance(field, TupleType)]
    return deepest
