"""Format the types, shapes and dtypes of an error's message in a language's notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import cast

from nnmagic.relay.text.types import dim_text, type_text
from nnmagic.relay.types import Dim, Type


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language writes the types, shapes, dimensions and dtypes in a message."""

    type: Callable[[Type], str]
    shape: Callable[[Sequence[Dim]], str]
    dim: Callable[[Dim], str]
    dtype: Callable[[str], str]

    def format(self, template: str, values: Mapping[str, object]) -> str:
        """Fill in a template's fields: types without a format, ``{x:types}``, ``{x:shape}``, ``{x:dtype}``.

        ``{x:dim}`` is a dimension; ``{x:dtype or}`` separates several dtypes by "or" instead of commas.
        """
        return _NotationFields(self).vformat(template, (), values) if values else template


class _NotationFields(Formatter):
    def __init__(self, notation: Notation) -> None:
        self.notation = notation

    def format_field(self, value: object, format_spec: str) -> str:
        notation = self.notation
        if isinstance(value, Type):
            return notation.type(value)
        match format_spec:
            case "types":
                return ", ".join(map(notation.type, cast("Sequence[Type]", value)))
            case "shape":
                return notation.shape(cast("Sequence[Dim]", value))
            case "dim":
                return notation.dim(cast(Dim, value))
            case "dtype" | "dtype or":
                dtypes = (value,) if isinstance(value, str) else cast("Sequence[str]", value)
                return (", " if format_spec == "dtype" else " or ").join(map(notation.dtype, dtypes))
        return format(value, format_spec)


def shape_text(shape: Sequence[Dim]) -> str:
    """Format a shape as Relay does: ``(2, ?)``."""
    return f"({', '.join(map(dim_text, shape))})"


#: Relay's own notation: ``Tensor[(3), float32]``.
RELAY = Notation(type_text, shape_text, dim_text, str)
