"""Recognise what earlier cells compiled among the values of the notebook."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.types import RecordType, Type
from nnmagic.tinynn.parameters import ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo
from nnmagic.tinynn.types.annotations import Generator


@dataclass(frozen=True, slots=True)
class CompiledGlobal:
    """Compiled function: its name in its typed module, its parameters, the details of data types."""

    name: str
    module: Module
    parameters: tuple[ParameterInfo, ...]
    infos: Mapping[str, DataTypeInfo]


class FunctionTemplate(Protocol):
    """What compiles a function for the arguments of a call: the types of some, and the values of others."""

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Return the parameters as a caller sees them."""

    def specialize(self, types: Mapping[str, Type | Generator], values: Mapping[str, object]) -> object:
        """Return the compiled function. Raises CompileError."""


@dataclass(frozen=True, slots=True)
class CompiledType:
    """Data type of an earlier cell, with the types that its values hold and the details of their classes."""

    type: TypeData
    types: Mapping[str, TypeData]
    infos: Mapping[str, DataTypeInfo]

    @property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        """Return the field names of each constructor."""
        return self.infos[self.type.header.name].fields


def as_compiled_function(value: object) -> CompiledGlobal | None:
    """Return the compiled function that a value is, or None."""
    match _own_attribute(value, "__relay_global__"):
        case (str() as name, Module() as module) if name in module.functions:
            parameters = _own_attribute(value, "__relay_parameters__")
            infos = _own_attribute(value, "__relay_types__")
            return CompiledGlobal(
                name,
                module,
                parameters if isinstance(parameters, tuple) else (),
                infos if isinstance(infos, Mapping) else {},
            )
    return None


def as_template(value: object) -> FunctionTemplate | None:
    """Return the function with open types that a value is, or None."""
    template: FunctionTemplate | None = _own_attribute(value, "__relay_template__")  # type: ignore[assignment]  # ours alone have it
    return template


def as_compiled_type(value: object) -> CompiledType | None:
    """Return the data type of an earlier cell that a value is, or None."""
    data = _own_attribute(value, "__relay_type__")
    return data if isinstance(data, CompiledType) else None


def as_record_type(value: object) -> RecordType | None:
    """Return the record of an earlier cell that a value is, or None."""
    record = _own_attribute(value, "__relay_record__") if isinstance(value, type) else None
    return record if isinstance(record, RecordType) else None


def types_with(namespace: Mapping[str, object], constructor: str) -> dict[str, object]:
    """Return the data types of the notebook that have a constructor, each once, by its first name."""
    result: dict[str, object] = {}
    for name, value in namespace.items():
        data = as_compiled_type(value)
        if data is not None and constructor in data.fields and value not in result.values():
            result[name] = value
    return result


def _own_attribute(value: object, name: str) -> object:
    """Return an attribute from the class or the instance's dictionary, without running code."""
    nothing = object()
    if inspect.getattr_static(value, name, nothing) is nothing:
        return None
    attribute: object = getattr(value, name, None)
    return attribute
