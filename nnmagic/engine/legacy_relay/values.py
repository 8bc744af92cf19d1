"""Convert NumPy arrays, tuples and AdtValue to values of Relay's runtime, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm.runtime.container import ADT

from nnmagic.relay import types as ty
from nnmagic.relay.expr import Constructor
from nnmagic.relay.module import Module
from nnmagic.relay.text.types import type_text
from nnmagic.relay.values import AdtValue

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def crosses(type_: ty.Type) -> bool:
    """Return whether Python can hold values of the type: a tensor, a data type, or a tuple of such."""
    if isinstance(type_, ty.TupleType):
        return all(map(crosses, type_.fields))
    return isinstance(type_, ty.TensorType | ty.TypeCall)


def as_tensor(value: object, type_: ty.TensorType) -> Any:
    """Copy an array to TVM's memory. Raises TypeError or ValueError if it does not fit."""
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != ty.NUMPY_DTYPES[type_.dtype]:
        raise TypeError(f"an argument must be {type_text(type_)}, not an array of {array.dtype}")
    fits = len(array.shape) == len(type_.shape) and all(
        not isinstance(dim, int) or dim == length
        for dim, length in zip(type_.shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"an argument must be {type_text(type_)}, not of shape {array.shape}")
    tensor = tvm.nd.empty(array.shape, type_.dtype)
    if array.size:
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        tensor.copyfrom(plain.view(np.uint16) if plain.dtype == _BFLOAT16 else plain)
    return tensor


def as_array(tensor: Any) -> np.ndarray:
    """Return a copy of a tensor."""
    array: np.ndarray = tensor.numpy()
    return array.view(_BFLOAT16) if str(tensor.dtype) == "bfloat16" else array


@dataclass(frozen=True, slots=True)
class Constructors:
    """The data types of a module, and the tag by which the runtime knows each constructor."""

    module: Module
    tags: Mapping[str, int]

    @classmethod
    def of(cls, module: Module, program: Any) -> Constructors:
        """Return the constructors of a module; ``program`` is the same module in TVM."""
        constructors = [
            item for name in module.types for item in program.get_type(name) if hasattr(item, "tag")
        ]
        return cls(module, {constructor.name_hint: constructor.tag for constructor in constructors})

    # A list has as many levels as elements, so values are walked with a stack: a value is taken apart, and
    # put together when its parts are made.

    def to_runtime(self, value: Any, type_: ty.Type) -> Any:
        """Convert an argument for the runtime. Raises TypeError or ValueError if it does not fit."""
        values: list[Any] = []
        work: list[tuple[Any, ty.Type, int | None]] = [(value, type_, None)]
        while work:
            item, kind, tag = work.pop()
            match kind:
                case ty.TupleType() | ty.TypeCall() if tag is not None:
                    values.append(ADT(tag, [values.pop() for _ in range(item)]))
                case ty.TensorType():
                    values.append(as_tensor(item, kind))
                case ty.TupleType(fields=fields):
                    work.append((len(fields), kind, 0))
                    work += [(field, each, None) for field, each in zip(item, fields, strict=True)]
                case ty.TypeCall(func=func, args=args):
                    constructor = self._constructor(item, func)
                    work.append((len(item.fields), kind, self.tags[constructor.name]))
                    types = self._field_types(constructor, args)
                    work += [(field, each, None) for field, each in zip(item.fields, types, strict=True)]
                case _:
                    raise TypeError(f"a value of type {type_text(kind)} cannot be passed from Python")
        return values[0]

    def from_runtime(self, value: Any, type_: ty.Type) -> Any:
        """Convert a result for Python."""
        by_tag = {
            self.tags[data_constructor.name]: data_constructor
            for data in self.module.types.values()
            for data_constructor in data.constructors
        }
        values: list[Any] = []
        work: list[tuple[Any, ty.Type, Callable[[tuple[Any, ...]], Any] | None]] = [(value, type_, None)]
        while work:
            item, kind, rebuild = work.pop()
            match kind:
                case ty.TupleType() | ty.TypeCall() if rebuild is not None:
                    values.append(rebuild(tuple(values.pop() for _ in range(item))))
                case ty.TensorType():
                    values.append(as_array(item))
                case ty.TupleType(fields=fields):
                    work.append((len(fields), kind, tuple))
                    work += [
                        (item[index], data_constructor, None) for index, data_constructor in enumerate(fields)
                    ]
                case ty.TypeCall(args=args):
                    constructor = by_tag[item.tag]
                    types = self._field_types(constructor, args)
                    work.append((len(types), kind, partial(AdtValue, constructor.name)))
                    work += [
                        (item[index], data_constructor, None) for index, data_constructor in enumerate(types)
                    ]
                case _:
                    raise TypeError(f"a value of type {type_text(kind)} cannot be given to Python")
        return values[0]

    def _constructor(self, value: object, data_type: ty.GlobalTypeVar) -> Constructor:
        if not isinstance(value, AdtValue):
            raise TypeError(
                f"an argument must be an AdtValue of {data_type.name}, not a {type(value).__name__}"
            )
        for constructor in self.module.types[data_type.name].constructors:
            if constructor.name == value.constructor:
                if len(value.fields) != len(constructor.inputs):
                    raise TypeError(
                        f"{constructor.name} has {len(constructor.inputs)} fields, not {len(value.fields)}"
                    )
                return constructor
        raise TypeError(f"{data_type.name} has no constructor {value.constructor}")

    def _field_types(self, constructor: Constructor, args: Sequence[ty.Type]) -> list[ty.Type]:
        data = self.module.types[constructor.belong_to.name]
        bound = dict(zip(data.type_vars, args, strict=True))
        return [_substitute(input_type, bound) for input_type in constructor.inputs]


def _substitute(type_: ty.Type, bound: Mapping[ty.TypeVar, ty.Type]) -> ty.Type:
    match type_:
        case ty.TypeVar():
            return bound.get(type_, type_)
        case ty.TupleType(fields=fields):
            return ty.TupleType(tuple(_substitute(field, bound) for field in fields))
        case ty.TypeCall(func=func, args=args):
            return ty.TypeCall(func, tuple(_substitute(arg, bound) for arg in args))
        case ty.RefType(value=value):
            return ty.RefType(_substitute(value, bound))
        case ty.FuncType(arg_types=args, ret_type=result, type_params=params):
            return ty.FuncType(tuple(_substitute(a, bound) for a in args), _substitute(result, bound), params)
    return type_
