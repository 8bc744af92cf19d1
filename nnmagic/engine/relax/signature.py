"""How Relay's types appear in Relax: dimensions as symbolic variables, tuples flattened into their tensors.

Knows Relay's types and TVM's Relax types; what flattens values is used where TVM's compiler is not loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.relay.expr import Var
from nnmagic.relay.ops.dims import dim_names
from nnmagic.relay.polynomials import NoPolynomialError, evaluated, polynomial
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type, VarDim


def label_of(dim: Dim) -> str | None:
    """The name of a symbolic dimension; None where it has none."""
    return dim.label if isinstance(dim, AnyDim) else dim.name if isinstance(dim, VarDim) else None


def size_of(dim: Dim, labels: Mapping[str, Any]) -> Any:
    """A dimension by the labels of which the sizes are known; None where it is not known by them."""
    if isinstance(dim, int):
        return int(dim)
    label = label_of(dim)
    if label is None or label in labels:
        return labels.get(label or "")
    from tvm import tirx

    try:
        return evaluated(polynomial(label), labels, lambda number: tirx.const(number, "int64"))
    except (KeyError, NoPolynomialError):
        return None


def names_in(dim: Dim) -> set[str]:
    """The label of a dimension, and the names that it is made of."""
    label = label_of(dim)
    return set() if label is None else {label, *dim_names(dim)}


class Dimensions:
    """The symbolic variables of one function: one for each label, a fresh one for each ``?``."""

    def __init__(self) -> None:
        self._by_label: dict[str, Any] = {}
        self._fresh = 0

    def declare(self, tensors: Iterable[TensorType]) -> None:
        """Takes the names that stand alone in the parameters: what is computed of them needs them first."""
        for type_ in tensors:
            for dim in type_.shape:
                if (label_of(dim) or "").isidentifier():
                    self.lower(dim)

    def lower(self, dim: Dim) -> Any:
        """A dimension as a TIR expression."""
        if isinstance(dim, int):
            return int(dim)
        label = label_of(dim)
        if label is None:
            return self.fresh()
        from tvm import tirx

        found = size_of(dim, self._by_label)
        if found is None:
            found = self._by_label[label] = tirx.Var(re.sub(r"\W+", "_", label), "int64")
        return found

    def fresh(self) -> Any:
        """A variable that nothing else uses."""
        from tvm import tirx

        self._fresh += 1
        return tirx.Var(f"dim{self._fresh}", "int64")

    def tensor(self, type_: TensorType) -> Any:
        """A tensor type as a Relax type."""
        from tvm import relax

        return relax.TensorType([self.lower(dim) for dim in type_.shape], type_.dtype)

    def result(self, type_: TensorType) -> Any:
        """A tensor type of a result: without its shape where the parameters do not determine that."""
        from tvm import relax

        known = all(size_of(dim, self._by_label) is not None for dim in type_.shape)
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
