"""Define preconditions and shape constraints that several families of operators share.

Relay text is typed without preconditions, as in the original Relay. Shape constraints see sizes that are all
numbers, after the relation and the preconditions have accepted the call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import Check, RelationError
from nnmagic.relay.ops.relations import tensor
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, Type

#: No machine has so much memory; sizes above it come near to what 64 bits can count.
MAX_BYTES = 1 << 50


def find_problem(tensor: TensorType) -> str | None:
    """Return why no machine holds a tensor, to follow its name in a message; None if one may."""
    sizes = [dim for dim in tensor.shape if isinstance(dim, int)]
    if tensor.dtype not in ARRAY_DTYPES:
        return f" would have elements of the dtype {tensor.dtype!r}, which no array has"
    if min(sizes, default=0) < 0:
        return f" would have a negative dimension, {tensor}"
    if math.prod(max(size, 1) for size in sizes) * ARRAY_DTYPES[tensor.dtype].itemsize > MAX_BYTES:
        return f", {tensor}, is larger than any memory"
    return None


# --- preconditions ----------------------------------------------------------------------------------------


def one_of(name: str, *values: str) -> Check:
    """Return the check that an attribute is one of some strings."""

    def check(_types: Sequence[Type], attrs: Attrs) -> None:
        if attrs[name] not in values:
            choices = ", ".join(map(repr, values))
            raise RelationError(f"{name} must be one of {choices}, not {attrs[name]!r}", attr=name)

    return check


def vector(index: int) -> Check:
    """Return the check that an argument is a vector."""

    def check(types: Sequence[Type], _attrs: Attrs) -> None:
        tensor(types, index, rank=1)

    return check


# --- shape constraints --------------------------------------------------------------------------------------


def sizes(types: Sequence[Type]) -> list[tuple[int, ...]]:
    """Return the shapes of operands whose sizes are all numbers; () for an operand that is no tensor."""
    return [cast("tuple[int, ...]", type_.shape) if isinstance(type_, TensorType) else () for type_ in types]


def require_broadcast(small: Sequence[int], large: Sequence[int]) -> None:
    """Raise RelationError unless a tensor of one shape can be broadcast to another shape."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    if len(small) > len(large) or any(have not in (1, wanted) for have, wanted in pairs):
        raise RelationError(f"the shape {tuple(small)} does not broadcast to {tuple(large)}")


def data_has_elements(types: Sequence[Type], _attrs: Attrs) -> None:
    """Raise RelationError for data without elements."""
    data = sizes(types)[0]
    if 0 in data:
        raise RelationError(f"the data, of shape {data}, has no elements", 0)


def window_has_elements(types: Sequence[Type], attrs: Attrs) -> None:
    """Raise RelationError for data without elements along an axis that windows move over."""
    layout = str(attrs.get("data_layout") or attrs["layout"])
    pairs = zip(layout, sizes(types)[0], strict=False)
    empty = [letter for letter, size in pairs if size == 0 and letter in "DHW"]
    if empty:
        raise RelationError(f"the data has no elements along {', '.join(empty)} of {layout}", 0)
