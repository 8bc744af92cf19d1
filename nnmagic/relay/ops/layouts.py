"""Parse tensor layouts, such as ``NHWC`` and ``NCHW16c``, and convert shapes between them.

A capital names an axis; a number and a small letter an inner part of that axis, of that length.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import Shape, ceil_divide, multiply, same_dim
from nnmagic.relay.types import Dim

_AXIS = re.compile(r"([A-Z])|([1-9]\d*)([a-z])")


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout's axes in order: a letter, and the factor of an inner axis (0 for a capital)."""

    name: str
    axes: tuple[tuple[str, int], ...]
    #: The attribute that gives it, for messages.
    attr: str | tuple[str, ...] = field(default=(), compare=False)

    @property
    def primal(self) -> frozenset[str]:
        """The capitals."""
        return frozenset(letter for letter, factor in self.axes if not factor)

    def factor(self, letter: str) -> int:
        """Return the product of the inner parts of an axis."""
        return math.prod(factor for axis, factor in self.axes if factor and axis == letter.lower())

    def index(self, letter: str) -> int:
        """Return the index of an undivided axis."""
        return self.axes.index((letter, 0))


def parse_layout(name: object, attr: str | tuple[str, ...] = ()) -> Layout:
    """Parse a layout, which the attribute ``attr`` gives. Raises RelationError for a string that is none."""
    text = name if isinstance(name, str) else ""
    axis_texts = list(_AXIS.finditer(text))
    axes = tuple(
        (axis_text[1], 0) if axis_text[1] else (axis_text[3], int(axis_text[2])) for axis_text in axis_texts
    )
    letters = [letter for letter, _ in axes]
    whole = "".join(axis_text[0] for axis_text in axis_texts) == text
    inner_without_outer = [x for x in letters if x.islower() and x.upper() not in letters]
    if not text or not whole or len(set(letters)) != len(letters) or inner_without_outer:
        hint = "a layout is a string such as 'NCHW' or 'NCHW16c'"
        raise RelationError(f"{name!r} is not a layout", hint=hint, attr=attr)
    return Layout(text, axes, attr)


def convertible_layout(attrs: Attrs, attr: str, to: str, what: str) -> Layout:
    """Parse an attribute's layout. Raises RelationError unless it has the same axes as ``to``."""
    name = attrs[attr]
    layout = parse_layout(name, attr)
    if layout.primal != parse_layout(to).primal:
        raise RelationError(f"the {what} layout {name!r} cannot be converted to {to}", attr=attr)
    return layout


def convert_shape(shape: Shape, source: Layout, target: Layout, operand: int = 0) -> Shape:
    """Return a shape in another layout; an axis that its inner part does not divide is padded.

    Raises RelationError if the shape does not fit the source layout.
    """
    if len(shape) != len(source.axes):
        raise RelationError(
            f"layout {source.name} wants rank {len(source.axes)}, found shape {{shape:shape}}",
            operand,
            attr=source.attr,
            shape=shape,
        )
    if source.primal != target.primal:
        message = f"layout {source.name} cannot be converted to {target.name}"
        raise RelationError(message, operand, attr=target.attr or source.attr)
    extents: dict[str, Dim] = {}
    for (letter, factor), dim in zip(source.axes, shape, strict=True):
        if not factor:
            extents[letter] = multiply(dim, source.factor(letter))
        elif same_dim(dim, factor) is False:
            message = f"layout {source.name} does not fit shape {{shape:shape}}"
            raise RelationError(message, operand, attr=source.attr, shape=shape)
    return tuple(
        factor or _as_int32(ceil_divide(extents[letter], target.factor(letter)))
        for letter, factor in target.axes
    )


def _as_int32(dim: Dim) -> Dim:
    """Convert a 64-bit dimension to a 32-bit one, as Relay's layouts do."""
    return int(dim) if isinstance(dim, int) else dim
