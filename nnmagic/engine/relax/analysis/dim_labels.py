"""Read the labels of dimensions, and evaluate them where their names have sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TypeVar

from nnmagic.relay.expr import Function
from nnmagic.relay.ops.dims import dim_names
from nnmagic.relay.polynomials import NoPolynomialError, evaluate, polynomial
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type, VarDim

#: A size that is not an int: an expression in the language of whoever asks, such as TIR.
Size = TypeVar("Size")


def label_of(dim: Dim) -> str | None:
    """Return the name of a symbolic dimension, or None if it has none."""
    return dim.label if isinstance(dim, AnyDim) else dim.name if isinstance(dim, VarDim) else None


def size_of(dim: Dim, sizes: Mapping[str, Size], constant: Callable[[int], Size]) -> int | Size | None:
    """Return the size of a dimension, an int or an expression of ``sizes``; None if unknown.

    ``constant`` returns the expression of an int.
    """
    if isinstance(dim, int):
        return int(dim)
    label = label_of(dim)
    if label is None or label in sizes:
        return sizes.get(label or "")
    try:
        size: Size = evaluate(polynomial(label), sizes, constant)
    except (KeyError, NoPolynomialError):
        return None
    return size


def names_in(dim: Dim) -> set[str]:
    """Return the label of a dimension and the names in it."""
    label = label_of(dim)
    return set() if label is None else {label, *dim_names(dim)}


def new_labels(function: Function, prefix: str) -> Iterator[str]:
    """Yield labels, which begin with ``prefix``, that no parameter of a function has."""
    taken: set[str] = set()
    work: list[Type | None] = [var.checked_type or var.type_annotation for var in function.params]
    while work:
        match work.pop():
            case TupleType(fields=fields):
                work.extend(fields)
            case TensorType(shape=shape):
                taken = taken.union(*map(names_in, shape))
    return (label for number in count() if (label := f"{prefix}{number}") not in taken)
