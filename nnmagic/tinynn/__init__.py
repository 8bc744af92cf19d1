"""Compile the language of a cell: source -> synr tree -> Relay. Names are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnmagic.tinynn.compilation import compile_source
    from nnmagic.tinynn.namespace.lookup import look_up
    from nnmagic.tinynn.parameters import MISSING
    from nnmagic.tinynn.program import FunctionInfo, Program

__all__ = ["MISSING", "FunctionInfo", "Program", "compile_source", "look_up"]

#: Where those names are that are not in `program`.
_MODULES = {"MISSING": "parameters", "compile_source": "compilation", "look_up": "namespace.lookup"}


def __getattr__(name: str) -> object:
    import importlib

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "program")
    globals()[name] = attribute = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return attribute
