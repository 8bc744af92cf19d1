"""Define a compiled cell, as engines take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nnmagic.diagnostics import Diagnostic, Span

if TYPE_CHECKING:
    from synr import ast

    from nnmagic.relay.module import Module


class _MissingName:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "<missing>"


#: Stands for a name that was looked up in the namespace and was not there.
MISSING: Final = _MissingName()


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter as a caller sees it.

    kind: its name in ``inspect.Parameter``. default: a number, a bool, an array, an AdtValue or a tuple of
    them; MISSING where there is none. destination: ``"Out"`` or ``"InOut"`` if a call changes the argument.
    """

    name: str
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: object = MISSING
    destination: str = ""


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function as the source has it: ``span`` covers the whole definition, ``source`` is its text."""

    name: str
    docstring: str | None
    span: Span
    source: str
    parameters: tuple[ParameterInfo, ...]


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
    ``look_up`` looks a name up in the same way. tree: synr's module. warnings: what does not stop the cell.
    """

    module: Module
    functions: tuple[FunctionInfo, ...]
    types: tuple[DataTypeInfo, ...]
    known_types: Mapping[str, DataTypeInfo]
    captured: Mapping[str, object] = field(repr=False)
    tree: ast.Module = field(repr=False)
    warnings: tuple[Diagnostic, ...] = ()
