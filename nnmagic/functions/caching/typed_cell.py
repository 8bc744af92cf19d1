"""Define the typed program of a cell, from which its functions are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnmagic.diagnostics import Diagnostic
    from nnmagic.functions.data_types import DataType
    from nnmagic.relay.module import Module
    from nnmagic.tinynn.parameters import ParameterInfo
    from nnmagic.tinynn.program import DataTypeInfo, FunctionInfo


@dataclass(frozen=True, slots=True)
class TypedCell:
    """What a source defines, before machine code is made of it.

    Attributes:
        module: typed Relay, with everything that the functions call.
        texts: the functions of the source with their texts, in source order.
        docs, parameters: their docstrings, and how they are called.
        captured: the fingerprints of what the free names stood for.
        values: what they stood for, with arrays as they were copied into the program.
        own_types: the names of the data types of the source.
        types: those of them, and the records, that are bound.
        infos: the declarations of all data types.
        open_functions: those that are compiled for the types of each call.
        free_names: the names that these mention.
        warnings: problems that do not stop it.

    """

    module: Module
    texts: Mapping[str, str]
    docs: Mapping[str, str | None] = field(default_factory=dict)
    parameters: Mapping[str, tuple[ParameterInfo, ...]] = field(default_factory=dict)
    captured: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict, repr=False)
    own_types: Sequence[str] = ()
    types: tuple[DataType | type, ...] = ()
    infos: Mapping[str, DataTypeInfo] = field(default_factory=dict)
    open_functions: tuple[FunctionInfo, ...] = ()
    free_names: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
