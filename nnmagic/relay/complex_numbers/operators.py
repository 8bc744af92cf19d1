"""Define the operators of complex tensors that Relay lacks; no text of Relay shows them.

They are in a table of their own: `lowering` replaces them before anything else reads the module.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import OPERATORS, Operator, RelationError
from nnmagic.relay.ops.relations import tensor
from nnmagic.relay.types import TensorType, Type, complex_dtype, is_complex, lower_complex_type, part_dtype

MAKE, REAL, IMAG = "complex.make", "complex.real", "complex.imag"
ABS, ANGLE, CONJ = "complex.abs", "complex.angle", "complex.conj"
PAIRS, OF_PAIRS = "complex.pairs", "complex.of_pairs"


def _make(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    real, imaginary = tensor(types, 0), tensor(types, 1)
    dtype = complex_dtype(real.dtype)
    if dtype is None or real.dtype != imaginary.dtype or len(real.shape) != len(imaginary.shape):
        message = "expected two tensors of f32 or f64 of one shape, found {real} and {imaginary}"
        raise RelationError(message, 0, 1, real=real, imaginary=imaginary)
    return TensorType(real.shape, dtype)


def _part(types: Sequence[Type], attrs: Attrs) -> TensorType:
    same = _same(types, attrs)
    return TensorType(same.shape, part_dtype(same.dtype))


def _pairs(types: Sequence[Type], attrs: Attrs) -> Type:
    return lower_complex_type(_same(types, attrs))


def _of_pairs(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data = tensor(types)
    dtype = complex_dtype(data.dtype)
    if dtype is None or data.shape[-1:] != (2,):
        raise RelationError("expected pairs of f32 or f64 along the last axis, found {data}", 0, data=data)
    return TensorType(data.shape[:-1], dtype)


def _same(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    data = tensor(types)
    if not is_complex(data.dtype):
        raise RelationError("expected a complex tensor, found {data}", 0, data=data)
    return data


def _declare(name: str, relation: object, summary: str, args: str = "data") -> Operator:
    return Operator(name, tuple(args.split()), relation, summary, family="complex")  # type: ignore[arg-type]


#: Operators that only complex tensors have, by name.
COMPLEX_OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        _declare(MAKE, _make, "Complex tensor of its real and its imaginary part.", "real imaginary"),
        _declare(REAL, _part, "Real part of each element."),
        _declare(IMAG, _part, "Imaginary part of each element."),
        _declare(ABS, _part, "Absolute value of each element."),
        _declare(ANGLE, _part, "Angle of each element in the complex plane, in radians."),
        _declare(CONJ, _same, "Complex conjugate of each element."),
        _declare(PAIRS, _pairs, "Real and imaginary parts along a new last axis."),
        _declare(OF_PAIRS, _of_pairs, "Complex tensor of real and imaginary parts along the last axis."),
    )
}


def find_operator(name: str) -> Operator:
    """Return an operator of Relay, or one that only complex tensors have. Raises KeyError."""
    return COMPLEX_OPERATORS[name] if name in COMPLEX_OPERATORS else OPERATORS[name]
