"""How Relay's types appear in Relax: dimensions as symbolic variables, tuples flattened into their tensors.

Knows Relay's types and TVM's Relax types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import relax, tirx

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.relay.expr import Var
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type, VarDim


def label_of(dim: Dim) -> str | None:
    """The name of a symbolic dimension; None where it has none."""
    return dim.label if isinstance(dim, AnyDim) else dim.name if isinstance(dim, VarDim) else None


class Dimensions:
    """The symbolic variables of one function: one for each label, a fresh one for each ``?``."""

    def __init__(self) -> None:
        self._by_label: dict[str, Any] = {}
        self._fresh = 0

    def lower(self, dim: Dim) -> Any:
        """A dimension as a TIR expression."""
        if isinstance(dim, int):
            return int(dim)
        label = label_of(dim)
        return self.fresh() if label is None else self._by_label.setdefault(label, tirx.Var(label, "int64"))

    def fresh(self) -> Any:
        """A variable that nothing else uses."""
        self._fresh += 1
        return tirx.Var(f"dim{self._fresh}", "int64")

    def tensor(self, type_: TensorType) -> Any:
        """A tensor type as a Relax type."""
        return relax.TensorType([self.lower(dim) for dim in type_.shape], type_.dtype)

    def result(self, type_: TensorType) -> Any:
        """A tensor type of a result: without its shape where the parameters do not determine that."""
        known = all(isinstance(dim, int) or label_of(dim) in self._by_label for dim in type_.shape)
        return self.tensor(type_) if known else relax.TensorType(dtype=type_.dtype, ndim=len(type_.shape))


def type_of(var: Var) -> Type:
    """The type of a parameter. Raises EngineError where it is not known."""
    type_ = var.checked_type or var.type_annotation
    if type_ is None:
        raise engine_error(f"the type of %{var.name_hint} is not known", var.span, hint="infer types first")
    return type_


def leaves(type_: Type, span: Span | None) -> Iterator[TensorType]:
    """The tensors of a type, tuples flattened. Raises EngineError for what is neither."""
    match type_:
        case TensorType():
            yield type_
        case TupleType(fields=fields):
            for part in fields:
                yield from leaves(part, span)
        case _:
            raise engine_error(f"the relax engine cannot hold a value of type {type_text(type_)} yet", span)


def rebuild(type_: Type, items: Iterator[Any]) -> Any:
    """The inverse of flattening: nested tuples shaped as the type says, of the next items."""
    if isinstance(type_, TupleType):
        return tuple(rebuild(part, items) for part in type_.fields)
    return next(items)


def flatten(value: Any) -> Iterator[Any]:
    """The tensors of a lowered value, in order."""
    if isinstance(value, tuple):
        for part in value:
            yield from flatten(part)
    else:
        yield value


def flat_names(name: str, type_: Type) -> Iterator[str]:
    """A name for each tensor of a parameter: ``t_0_1`` for ``t.0.1``."""
    if isinstance(type_, TupleType):
        for index, part in enumerate(type_.fields):
            yield from flat_names(f"{name}_{index}", part)
    else:
        yield name
