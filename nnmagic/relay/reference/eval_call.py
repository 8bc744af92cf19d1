"""View the call that a rule of the reference evaluates: its attributes and the type of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TupleType, Type

Array = np.ndarray
#: Returns the value of a call: ``rule(given, *operands)``; an operand is an array or a tuple of arrays.
Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class EvalCall:
    """The attributes of a call, whose dimensions are numbers, and the type of its result."""

    attrs: Attrs
    type: Type

    def __getitem__(self, name: str) -> Any:
        return self.attrs[name]

    @property
    def parts(self) -> tuple[TensorType, ...]:
        """The types of the parts of a result that is a tuple."""
        assert isinstance(self.type, TupleType)
        return tuple(field for field in self.type.fields if isinstance(field, TensorType))

    @property
    def tensor(self) -> TensorType:
        """The type of the result, or of its first part."""
        type_ = self.type.fields[0] if isinstance(self.type, TupleType) else self.type
        assert isinstance(type_, TensorType)
        return type_

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(int(dim) for dim in self.tensor.shape)  # type: ignore[arg-type]  # all are numbers

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the result."""
        return ARRAY_DTYPES[self.tensor.dtype]


def plain(function: Callable[..., Any]) -> Rule:
    """Return the rule of an operator that is a NumPy function of the same operands."""
    return lambda _given, *operands: function(*operands)
