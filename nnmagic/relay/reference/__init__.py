"""Define the reference semantics of every operator in NumPy, with which other engines are compared.

``compute`` evaluates one call on arrays. Operators without a rule raise NoReferenceError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.reference import (
    elementwise,
    images,
    linalg,
    nn,
    others,
    printing,
    quantized,
    random,
    reductions,
    shapes,
    special,
    tables,
    vision,
)
from nnmagic.relay.reference.eval_call import EvalCall
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TupleType, Type, dtype_of_array

#: The rule of each operator, by name.
RULES = {
    **elementwise.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **nn.RULES,
    **random.RULES,
    **quantized.RULES,
    **images.RULES,
    **linalg.RULES,
    **others.RULES,
    **printing.RULES,
    **special.RULES,
    **tables.RULES,
    **vision.RULES,
}


class NoReferenceError(NotImplementedError):
    """An operator that the reference has no rule for."""


def compute(name: str, operands: Sequence[Any], attrs: Attrs) -> Any:
    """Return the value of an operator's call: an array or a tuple of arrays.

    Args:
        name: the operator.
        operands: arrays, or tuples of arrays.
        attrs: its attributes, with numbers for dimensions.

    Raises:
        NoReferenceError: for an operator without a rule.
        ValueError, IndexError, ZeroDivisionError: for operands that the operator has no value for.

    """
    if name not in RULES:
        raise NoReferenceError(f"the engine 'numpy' has no rule for the operator {name}")
    operator = OPERATORS[name]
    types = [type_of(operand) for operand in operands]
    try:
        complete = operator.complete_attrs(attrs)
        result = operator.result_type(types, complete)
        sized = not isinstance(result, TensorType) or all(dim != 0 for dim in result.shape)
        operator.check_shapes(types, complete, nonempty=sized)
    except RelationError as error:
        raise ValueError(str(error)) from None
    with np.errstate(all="ignore"):
        value = RULES[name](EvalCall(complete, result), *operands)
    return _as_type(name, value, result)


def type_of(value: Any) -> Type:
    """Return the type of an array or of a tuple of them."""
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    dtype = dtype_of_array(value)
    assert dtype is not None
    return TensorType(value.shape, dtype)


def _as_type(name: str, value: Any, type_: Type) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_as_type(name, *pair) for pair in zip(value, type_.fields, strict=True))
    assert isinstance(type_, TensorType)
    array = np.asarray(value).astype(ARRAY_DTYPES[type_.dtype], copy=False)
    fits = len(array.shape) == len(type_.shape) and all(
        not isinstance(wanted, int) or wanted == size
        for size, wanted in zip(array.shape, type_.shape, strict=True)
    )
    assert fits, f"{name} gave {array.shape}, and its type says {type_.shape}"
    return array


__all__ = ["RULES", "NoReferenceError", "compute", "type_of"]
