"""Return NumPy's scalars for results of rank 0, as NumPy's own functions do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from nnmagic.relay.types import TensorType, TupleType, Type, TypeCall
from nnmagic.relay.values import map_leaves

#: Returns a value of a call as its caller gets it.
Conversion = Callable[[Any], Any]


def to_scalars(type_: Type) -> Conversion | None:
    """Return a function that makes scalars of the arrays of rank 0 in a result; None if there is none."""
    match type_:
        case TensorType(shape=shape):
            return None if shape else itemgetter(())
        case TupleType(fields=fields):
            scalars = [to_scalars(field) for field in fields]
            return None if scalars.count(None) == len(scalars) else _of_tuple(scalars)
        case TypeCall():
            return lambda value: map_leaves(value, scalar_of)
    return None


def scalar_of(value: Any) -> Any:
    """Return an array of rank 0 as a scalar, a tuple of its items, anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(scalar_of, value))
    return value[()] if isinstance(value, np.ndarray) and not value.shape else value


def _of_tuple(parts: Sequence[Conversion | None]) -> Conversion:
    def convert(value: Any) -> Any:
        pairs = zip(parts, value, strict=True)
        return tuple([item if part is None else part(item) for part, item in pairs])

    return convert
