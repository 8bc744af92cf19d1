"""Write expressions of dimensions as JSON, which a call evaluates without a compiler."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from nnmagic.engine.relax.artifact import Json
from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Var

_OPERATORS = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.Div: "//",  # of sizes, which are not negative
    tirx.FloorMod: "%",
    tirx.Min: "min",
    tirx.Max: "max",
}


class NoSizeError(ValueError):
    """An expression is none of dimensions."""


def size_to_json(size: Extent, dims: Sequence[Var]) -> Json:
    """Return a size as an int, as ``["dim", number]``, or as an operator with its operands.

    Raises NoSizeError for other expressions.
    """
    if isinstance(size, int):
        return size
    match size:
        case tirx.IntImm():
            return int(size.value)
        case tirx.Var():
            for number, dim in enumerate(dims):
                if dim.same_as(size):
                    return ["dim", number]
        case tirx.Cast() if dtype_of(size).startswith("int"):
            return size_to_json(size.value, dims)
        case tirx.Select():
            return [
                "if",
                *(_part(part, dims) for part in (size.condition, size.true_value, size.false_value)),
            ]
        case _ if type(size) in _OPERATORS:
            return [_OPERATORS[type(size)], size_to_json(size.a, dims), size_to_json(size.b, dims)]
    raise NoSizeError(f"{size} is no size")


_COMPARISONS = {tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.EQ: "==", tirx.NE: "!="}


def _part(operand: PrimExpr, dims: Sequence[Var]) -> Json:
    if type(operand) in _COMPARISONS:
        return [_COMPARISONS[type(operand)], size_to_json(operand.a, dims), size_to_json(operand.b, dims)]
    if isinstance(operand, tirx.And | tirx.Or):
        return [
            "and" if isinstance(operand, tirx.And) else "or",
            _part(operand.a, dims),
            _part(operand.b, dims),
        ]
    return size_to_json(operand, dims)
