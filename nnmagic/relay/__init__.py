"""Relay: IR, text, types and operators, in pure Python. Knows no TVM, no Python source, no notebook.

Names are loaded when first used, so that importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnmagic.relay.equal import structural_equal
    from nnmagic.relay.expr import (
        Call,
        Constant,
        Constructor,
        Function,
        GlobalVar,
        If,
        Let,
        Match,
        OpRef,
        RefCreate,
        RefRead,
        RefWrite,
        Tuple,
        TupleGetItem,
        Var,
        constant,
    )
    from nnmagic.relay.infer import erase_types, infer_type
    from nnmagic.relay.module import Module, TypeData
    from nnmagic.relay.ops import OPERATORS
    from nnmagic.relay.ops.calls import call
    from nnmagic.relay.types import (
        ANY,
        AnyDim,
        FuncType,
        GlobalTypeVar,
        RefType,
        TensorType,
        TupleType,
        TypeCall,
        TypeVar,
        scalar_type,
    )
    from nnmagic.relay.values import AdtValue

#: Where each public name stands.
_MODULES = {
    "equal": "structural_equal",
    "expr": (
        "Call Constant Constructor Function GlobalVar If Let Match OpRef RefCreate RefRead RefWrite Tuple "
        "TupleGetItem Var constant"
    ),
    "infer": "erase_types infer_type",
    "module": "Module TypeData",
    "ops": "OPERATORS",
    "ops.calls": "call",
    "types": "ANY AnyDim FuncType GlobalTypeVar RefType TensorType TupleType TypeCall TypeVar scalar_type",
    "values": "AdtValue",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ANY",
    "OPERATORS",
    "AdtValue",
    "AnyDim",
    "Call",
    "Constant",
    "Constructor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "If",
    "Let",
    "Match",
    "Module",
    "OpRef",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "Var",
    "call",
    "constant",
    "erase_types",
    "infer_type",
    "parse",
    "scalar_type",
    "structural_equal",
]


def parse(text: str, *, filename: str = "from_string") -> Module:
    """Reads a module's text and infers its types. Raises RelayError, which points at the text."""
    from nnmagic.relay.infer import infer_type
    from nnmagic.relay.text.parser import parse_module

    return infer_type(parse_module(text, filename))


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
