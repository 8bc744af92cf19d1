"""Compute the constants above the functions of a cell: literals, and Python's arithmetic on them."""

from __future__ import annotations

import ast as py
import math
import operator
from collections.abc import Callable, Iterator, Mapping

import numpy as np

#: The largest base and exponent of a power of ints.
_MOST = 1024

_OPERATORS: dict[type[py.operator], Callable[[complex, complex], object]] = {
    py.Add: operator.add,
    py.Sub: operator.sub,
    py.Mult: operator.mul,
    py.Div: operator.truediv,
    py.FloorDiv: operator.floordiv,
    py.Mod: operator.mod,
    py.Pow: operator.pow,
}
_NUMPY = ("np", "numpy")


class NoConstantError(Exception):
    """An expression is not known before the cell runs."""


def assigned_constants(statement: py.stmt, known: Mapping[str, object]) -> dict[str, object] | None:
    """Return the names that a statement above functions assigns, with their values; None for any other.

    ``known``: the names that were assigned before.
    """
    match statement:
        case py.Assign(targets=targets, value=value):
            pass
        case py.AnnAssign(target=py.Name() as target, value=py.expr() as value):
            targets = [target]
        case _:
            return None
    try:
        made = _value(value, known)
        return {name: each for target in targets for name, each in _parts(target, made)}
    except (NoConstantError, ArithmeticError, TypeError, ValueError, RecursionError):
        return None


def _parts(target: py.expr, value: object) -> Iterator[tuple[str, object]]:
    """Yield the names of a target with their values."""
    if isinstance(target, py.Tuple) and isinstance(value, tuple):
        for elt, each in zip(target.elts, value, strict=True):
            yield from _parts(elt, each)
    elif isinstance(target, py.Name):
        yield target.id, value
    else:
        raise NoConstantError


def _value(node: py.expr, names: Mapping[str, object]) -> object:
    match node:
        case py.Constant(value=value):
            return value
        case py.Name(id=name) if name in names:
            return names[name]
        case py.Tuple(elts=items):
            return tuple(_value(item, names) for item in items)
        case py.List(elts=items):
            return [_value(item, names) for item in items]
        case py.Dict(keys=keys, values=values) if None not in keys:
            return {_value(key, names): _value(value, names) for key, value in zip(keys, values, strict=True)}  # type: ignore[arg-type]  # no None
        case py.UnaryOp(op=py.USub(), operand=operand):
            return -_number(operand, names)
        case py.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, other = _number(left, names), _number(right, names)
            if isinstance(op, py.Pow) and max(map(abs, (one, other))) > _MOST and isinstance(one, int):
                raise NoConstantError
            return _OPERATORS[type(op)](one, other)
        case py.Attribute(value=py.Name(id="np" | "numpy" | "math"), attr="pi" | "e" | "inf" | "nan" as name):
            return getattr(math, name)
        case py.Call(
            func=py.Attribute(value=py.Name(id=module), attr="array"), args=[items], keywords=options
        ) if module in _NUMPY and {option.arg for option in options} <= {"dtype"}:
            return np.array(_value(items, names), *(_dtype(option.value) for option in options))
    raise NoConstantError


def _number(node: py.expr, known: Mapping[str, object]) -> complex:
    value = _value(node, known)
    if not isinstance(value, int | float | complex):
        raise NoConstantError
    return value


def _dtype(node: py.expr) -> np.dtype:
    match node:
        case py.Attribute(value=py.Name(id=module), attr=name) if module in _NUMPY:
            return np.dtype(name.rstrip("_"))
        case py.Name(id="float" | "int" | "bool" | "complex" as name) | py.Constant(value=str() as name):
            return np.dtype(name)
    raise NoConstantError


def as_function(statement: py.stmt) -> py.FunctionDef | None:
    """Return the function that ``name = lambda x: value`` above functions is; None for any other."""
    match statement:
        case py.Assign(targets=[py.Name(id=name)], value=py.Lambda(args=args, body=body)):
            (function,) = py.parse(f"def {name}(): pass").body
            assert isinstance(function, py.FunctionDef)
            function.args, function.body = args, [py.copy_location(py.Return(body), body)]
            return py.fix_missing_locations(py.copy_location(function, statement))
    return None
