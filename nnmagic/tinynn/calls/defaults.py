"""Convert defaults of parameters to Python objects, and these to values of a cell.

A default is a number, a bool, an array, a value of a data type, or a tuple of them: what a Python caller may
give, what a file can hold, and what another cell can use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay.module import TypeData
from nnmagic.relay.types import TensorType, TupleType, Type, TypeCall, dtype_of_array
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.values import Computed, Known, NotStaticError, TupleOf, Value


def to_python(value: Value) -> object:
    """Convert a static value to a Python object. Raises NotStaticError for any other."""
    match value:
        case Known(value=number) if is_number(number):
            return number
        case TupleOf(items=items, whole=None):
            return tuple(map(to_python, items))
        case Computed(expr=expr):
            return _constant(expr)
    raise NotStaticError


def _constant(expr: ir.Expr) -> object:
    match expr:
        case ir.Constant(data=data):
            return data
        case ir.Tuple(fields=fields):
            return tuple(map(_constant, fields))
        case ir.Call(op=ir.Constructor(name=name), args=args):
            return AdtValue(name, tuple(map(_constant, args)))
    raise NotStaticError


def copy_default(value: Value) -> Value:
    """Return a default for one use, with nodes of its own, so that no branch computes it for another."""
    match value:
        case TupleOf(items=items, whole=None):
            return TupleOf(tuple(map(copy_default, items)))
        case Computed(expr=expr, type=type_):
            return Computed(_copy_default(expr), type_, value.weak)
    return value


def _copy_default(expr: ir.Expr) -> ir.Expr:
    match expr:
        case ir.Tuple(fields=fields):
            return replace(expr, fields=tuple(map(_copy_default, fields)))
        case ir.Call(op=ir.Constructor(), args=args):
            return replace(expr, args=tuple(map(_copy_default, args)))
    return expr


def from_python(default: object, types: Mapping[str, TypeData]) -> Value:
    """Convert a default to a value; ``types``: those of the module that it was compiled in."""
    match default:
        case tuple():
            return TupleOf(tuple(from_python(item, types) for item in default))
        case np.ndarray() | AdtValue():
            return Computed(*_expression(default, types))
    return Known(default)


def _expression(value: object, types: Mapping[str, TypeData]) -> tuple[ir.Expr, Type]:
    match value:
        case AdtValue(constructor=name, fields=fields):
            constructor = {entry.name: entry for data in types.values() for entry in data.constructors}[name]
            parts = tuple(_expression(field, types)[0] for field in fields)
            return ir.Call(constructor, parts), TypeCall(constructor.belong_to, ())
        case tuple():
            pairs = [_expression(item, types) for item in value]
            return ir.Tuple(tuple(expr for expr, _ in pairs)), TupleType(tuple(type_ for _, type_ in pairs))
    assert isinstance(value, np.ndarray)
    constant = ir.constant(value, dtype_of_array(value))
    assert isinstance(constant.tensor_type, TensorType)
    return constant, constant.tensor_type
