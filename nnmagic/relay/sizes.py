"""Find the sizes of named dimensions, and put them into attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnmagic.relay.polynomials import NoPolynomialError, constant, evaluate, linear, names, polynomial
from nnmagic.relay.types import AnyDim, TensorType, TupleType, Type, VarDim

#: The sizes of labels: names, and the arithmetic on names that parameters are declared with.
Sizes = dict[str, int]


def bind_sizes(type_: Type | None, value: Any, sizes: Sizes) -> None:
    """Note the sizes of the named dimensions of a parameter."""
    match type_:
        case TensorType(shape=shape) if isinstance(value, np.ndarray):
            for dim, size in zip(shape, value.shape, strict=True):
                label = _label(dim)
                if label is not None:
                    sizes[label] = size
                    _solve(label, size, sizes)
        case TupleType(fields=fields):
            for field, item in zip(fields, value, strict=True):
                bind_sizes(field, item, sizes)


def with_sizes(value: Any, sizes: Sizes) -> Any:
    """Return the value of an attribute with numbers for dimensions."""
    if isinstance(value, tuple):
        return tuple(with_sizes(part, sizes) for part in value)
    label = _label(value)
    if label is None:
        return value
    if label in sizes:
        return sizes[label]
    try:
        return evaluate(
            polynomial(label), {name: constant(size) for name, size in sizes.items()}, constant
        ).number
    except (KeyError, NoPolynomialError):
        return value


def _label(dim: object) -> str | None:
    match dim:
        case AnyDim(label=label) | VarDim(name=label):
            return label
    return None


def _solve(label: str, size: int, sizes: Sizes) -> None:
    """Note the size of the one unknown name in a label."""
    try:
        wanted = polynomial(label)
        unknown = [name for name in names(wanted) if name not in sizes]
        if label.isidentifier() or len(unknown) != 1:
            return
        known = {name: constant(number) for name, number in sizes.items()}
        coefficients = linear(
            evaluate(wanted, known | {unknown[0]: polynomial(unknown[0])}, constant), unknown[0]
        )
    except (KeyError, NoPolynomialError):
        return
    if coefficients is not None and coefficients[0].number:
        sizes[unknown[0]] = (size - (coefficients[1].number or 0)) // coefficients[0].number
