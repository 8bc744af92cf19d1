"""Read the labels of dimensions, and evaluate them where their names have sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnmagic.relay.ops.dims import dim_names
from nnmagic.relay.polynomials import NoPolynomialError, evaluate, polynomial
from nnmagic.relay.types import AnyDim, Dim, VarDim


def label_of(dim: Dim) -> str | None:
    """The name of a symbolic dimension; None where it has none."""
    return dim.label if isinstance(dim, AnyDim) else dim.name if isinstance(dim, VarDim) else None


def size_of(dim: Dim, sizes: Mapping[str, Any], constant: Callable[[int], Any]) -> Any:
    """Return the size of a dimension, an int or an expression of ``sizes``; None if unknown.

    ``constant`` makes an expression of an int.
    """
    if isinstance(dim, int):
        return int(dim)
    label = label_of(dim)
    if label is None or label in sizes:
        return sizes.get(label or "")
    try:
        return evaluate(polynomial(label), sizes, constant)
    except (KeyError, NoPolynomialError):
        return None


def names_in(dim: Dim) -> set[str]:
    """The label of a dimension, and the names that it is made of."""
    label = label_of(dim)
    return set() if label is None else {label, *dim_names(dim)}
