"""Values of data types as Python sees them. Knows nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdtValue:
    """A value of an algebraic data type: the constructor's name and its fields (arrays, tuples, values)."""

    constructor: str
    fields: tuple[object, ...] = ()
