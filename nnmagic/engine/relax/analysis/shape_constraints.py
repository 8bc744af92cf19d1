"""Check that the shapes of a call's operands fit together.

Type inference has run the operator's relation already, but it could not check dynamic shapes. The relation
runs again with the sizes that the operands have at run time, followed by the preconditions and shape
constraints of the operator's declaration: a call with dynamic shapes is refused exactly where one with those
shapes as static ones would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnmagic.engine.relax.analysis.tuple_flattening import leaves
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.checks import find_problem
from nnmagic.relay.ops.declaration import OPERATORS, RelationError
from nnmagic.relay.types import Dim, TensorType, TupleType, Type


def check(name: str, types: Sequence[Type], attrs: Attrs) -> None:
    """Raise ValueError where operands of these known shapes do not fit the operator's declaration."""
    operator = OPERATORS[name]
    try:
        result = operator.result_type(types, attrs)
        operator.check_preconditions(types, attrs)
        tensors = list(leaves(result))
        _check_sizes(name, "an operand", [leaf for type_ in types for leaf in leaves(type_)])
        _check_sizes(name, "the result", tensors)
        nonempty = not all(is_empty(tensor.shape) for tensor in tensors)
        operator.check_shapes(types, attrs, nonempty=nonempty)
    except RelationError as error:
        raise ValueError(error.message) from None


def _check_sizes(name: str, what: str, tensors: Sequence[TensorType]) -> None:
    for tensor in tensors:
        if (problem := find_problem(tensor)) is not None:
            raise ValueError(f"{name}: {what}{problem}")


def of_shapes(type_: Type, shapes: Iterator[tuple[int, ...]]) -> Type:
    """Return the type with the shapes that its tensors have at run time."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(of_shapes(field, shapes) for field in type_.fields))
    assert isinstance(type_, TensorType)
    return TensorType(next(shapes), type_.dtype)


def is_empty(shape: Sequence[Dim]) -> bool:
    """Return whether a tensor of this shape is known to have no elements."""
    return any(dim == 0 for dim in shape if isinstance(dim, int))
