"""Name the tensors of nested tuples."""

from __future__ import annotations

from collections.abc import Iterator

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import TensorType, TupleType, Type


def leaves(type_: Type, span: Span | None = None) -> Iterator[TensorType]:
    """Yield the tensors of a type, tuples flattened. Raises EngineError for what is neither."""
    match type_:
        case TensorType():
            yield type_
        case TupleType(fields=fields):
            for field in fields:
                yield from leaves(field, span)
        case _:
            raise engine_error(f"the relax engine cannot hold a value of type {type_text(type_)} yet", span)


def named_leaves(name: str, type_: Type, span: Span | None = None) -> Iterator[tuple[str, TensorType]]:
    """Yield the name and type of each tensor of a variable. Raises EngineError as ``leaves`` does."""
    return zip(flat_names(name, type_), leaves(type_, span), strict=True)


def nested_source(type_: Type, items: Iterator[str]) -> str:
    """Return the Python expression of what ``rebuild`` makes of the values of the next expressions."""
    if isinstance(type_, TupleType):
        return f"({''.join(f'{nested_source(field, items)}, ' for field in type_.fields)})"
    return next(items)


def flat_names(name: str, type_: Type) -> Iterator[str]:
    """Yield a name for each tensor of a parameter: ``t_0_1`` for ``t.0.1``."""
    if isinstance(type_, TupleType):
        for index, field in enumerate(type_.fields):
            yield from flat_names(f"{name}_{index}", field)
    else:
        yield name
