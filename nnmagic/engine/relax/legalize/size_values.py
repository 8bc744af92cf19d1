"""Compute integer tensors whose elements are sizes: ``x.shape``, its items, and arithmetic on them.

A shape that is an operand is then as good as one that is an attribute: no kernel computes it, and TVM sees
which sizes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
import tvm
from tvm import tirx

from nnmagic.engine.relax.legalize.registry import OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.sizes import maximum, minimum, simplify
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr

#: The elements of an integer tensor of rank 0 or 1.
Elements: TypeAlias = tuple[Extent, ...]

#: The longest constant that counts as sizes: no tensor has more dimensions.
_MOST_CONSTANTS = 64


def _arithmetic(function: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Callable[[Extent, Extent], Extent]:
    return lambda lhs, rhs: simplify(function(as_expr(lhs), as_expr(rhs)))


_BINARY: dict[str, Callable[[Extent, Extent], Extent]] = {
    "add": _arithmetic(tirx.Add),
    "subtract": _arithmetic(tirx.Sub),
    "multiply": _arithmetic(tirx.Mul),
    "floor_divide": _arithmetic(tirx.floordiv),
    "maximum": maximum,
    "minimum": minimum,
}

#: Operators that keep the elements and their order.
_UNCHANGED = frozenset(("reshape", "expand_dims", "squeeze", "copy"))


class SizeValues:
    """The lowered values of a module whose elements are sizes or constants."""

    def __init__(self) -> None:
        self._elements: dict[Value, Elements] = {}

    def elements(self, value: Value) -> Elements | None:
        """Return the elements of a value, None if it is no integer tensor of known elements."""
        if isinstance(value, tuple):
            return None
        if isinstance(value, tvm.ir.GenericConst):
            array = as_array(value.value)
            is_sizes = array.ndim <= 1 and array.size <= _MOST_CONSTANTS and array.dtype.kind == "i"
            return tuple(int(item) for item in np.atleast_1d(array)) if is_sizes else None
        return self._elements.get(value)

    def know(self, value: Value, elements: Elements) -> None:
        """Remember the elements of a parameter."""
        self._elements[value] = elements

    def record(self, call: OpCall, lowered: Value) -> None:
        """Remember the elements of what a call was lowered to, if sizes determine them."""
        if isinstance(lowered, tuple) or tensor_dtype(lowered) != "int64" or int(lowered.ty.ndim) > 1:
            return
        elements = self._evaluate(call)
        if elements is not None:
            self._elements[lowered] = elements

    def _evaluate(self, call: OpCall) -> Elements | None:
        name = call.name
        if name == "shape_of":
            return tuple(shape_of(call.args[0]))
        if name == "concatenate":
            return self._join(call.args[0])
        if name == "cast" or name in _UNCHANGED:
            return self.elements(call.args[0])
        if name == "take":
            return self._select(call.args[0], call.args[1], call.attrs)
        if name == "strided_slice":
            return self._slice(call.args[0], call.attrs)
        if name in _BINARY:
            lhs, rhs = map(self.elements, call.args)
            return None if lhs is None or rhs is None else _apply(_BINARY[name], lhs, rhs)
        return None

    def _join(self, parts: Sequence[Value]) -> Elements | None:
        joined: list[Extent] = []
        for part in parts:
            elements = self.elements(part)
            if elements is None:
                return None
            joined += elements
        return tuple(joined)

    def _select(self, data: Value, index: Value, attrs: Mapping[str, object]) -> Elements | None:
        """Return the elements at constant indices, which a shape has."""
        elements, positions = self.elements(data), self.elements(index)
        if elements is None or positions is None or attrs["axis"] not in (0, None):
            return None
        chosen = []
        for position in positions:
            if not isinstance(position, int) or not 0 <= position < len(elements):
                return None  # what another index means is the mode's to say
            chosen.append(elements[position])
        return tuple(chosen)

    def _slice(self, data: Value, attrs: Mapping[str, object]) -> Elements | None:
        """Return the elements between constant bounds within a vector."""
        elements = self.elements(data)
        bounds = (attrs["begin"], attrs["end"], attrs["strides"] or (1,))
        if elements is None or attrs["slice_mode"] != "end" or data.ty.ndim != 1:
            return None
        (begin,), (end,), (step,) = (
            [int(item) for item in cast("tuple[int, ...]", bound)] for bound in bounds
        )
        return elements[begin:end:step] if 0 <= begin <= end <= len(elements) and step > 0 else None


def _apply(function: Callable[[Extent, Extent], Extent], lhs: Elements, rhs: Elements) -> Elements | None:
    """Apply an operator to elements that broadcast; None for a divisor that may be 0."""
    if function is _BINARY["floor_divide"] and not all(isinstance(by, int) and by for by in rhs):
        return None
    size = len(rhs) if len(lhs) == 1 else len(lhs)
    if len(rhs) not in (1, size):
        return None
    lhs, rhs = (side * size if len(side) == 1 else side for side in (lhs, rhs))
    return tuple(function(a, b) for a, b in zip(lhs, rhs, strict=True))
