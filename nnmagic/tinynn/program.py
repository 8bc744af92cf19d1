"""Define a compiled cell, as engines take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnmagic.diagnostics import Diagnostic, Span
from nnmagic.relay.types import TensorType

if TYPE_CHECKING:
    from synr import ast

    from nnmagic.relay.module import Module
    from nnmagic.relay.types import RecordType, Type
    from nnmagic.tinynn.parameters import ParameterInfo
    from nnmagic.tinynn.types.annotations import Generator, OpenTensor


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function as the source has it: ``span`` covers the whole definition, ``source`` is its text.

    ``open``: for a function that is specialized for the arguments of each call, what the annotation of each
    parameter says: a Relay type, an OpenTensor, or None where there is none. Empty for any other function.
    """

    name: str
    docstring: str | None
    span: Span
    source: str
    parameters: tuple[ParameterInfo, ...]
    open: Mapping[str, Type | OpenTensor | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumberType(TensorType):
    """The type of a Python number among arguments, which takes the dtype of the tensor beside it."""


@dataclass(frozen=True, slots=True)
class Specialization:
    """The arguments that a function is compiled for.

    types: those of the parameters that each call gives a value; that of a number is a NumberType, that of a
    generator of random numbers its annotation. values: the compile-time values of others:
    None, numbers, strings and tuples of them. A parameter that is in neither has its default.
    """

    name: str
    types: Mapping[str, Type | Generator]
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataTypeInfo:
    """A class as the source has it; ``fields``: by constructor, the names of its fields."""

    name: str
    docstring: str | None
    fields: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """The functions of a cell.

    module: typed Relay, with everything that the functions call. functions and types: in source order.
    known_types: these types by name, and those of earlier cells that the functions use. captured: every
    free name that was looked up in the namespace (dotted for a module's member, as in ``np.pi``) and what was
    found there, MISSING where nothing was, with arrays and lists as they were copied into the program;
    ``look_up`` looks a name up in the same way. free_names: the names that functions with open types mention,
    which may be those of the namespace. tree: synr's module. warnings: what does not stop the
    cell. records: the record classes of the cell.
    """

    module: Module
    functions: tuple[FunctionInfo, ...]
    types: tuple[DataTypeInfo, ...]
    known_types: Mapping[str, DataTypeInfo]
    captured: Mapping[str, object] = field(repr=False)
    tree: ast.Module = field(repr=False)
    free_names: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    records: tuple[RecordType, ...] = ()
