"""Name the types of TVM that legalization handles; ``tir.types`` has those of scalar expressions and Relax.

TVM has no type information that mypy can use, so each name stands for ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nnmagic.engine.relax.tir.types import PrimExpr

#: A tensor expression: ``te.Tensor``. Called with indices, it gives the element there.
Tensor: TypeAlias = Any

#: What ``te.extern`` returns: a tensor, or a list of tensors.
Tensors: TypeAlias = Any

#: A scalar of NumPy, whose stubs do not say that ``array[()]`` is one.
NumpyScalar: TypeAlias = Any

#: Computes an element of the result from the elements of the operands.
ElementFunction: TypeAlias = Callable[..., PrimExpr]

#: What ``te.comm_reducer`` returns, such as ``te.sum``.
Reducer: TypeAlias = Any

#: An axis that a reduction runs over: ``te.reduce_axis``, an ``IterVar``.
ReduceAxis: TypeAlias = Any

#: The type of a Relax expression: ``relax.TensorType``, ``relax.TupleType``, ``relax.ShapeType``.
RelaxType: TypeAlias = Any
