"""nnmagic: typed tensor functions in a notebook cell, shown as Relay, compiled for the CPU by TVM.

Names are loaded when first used: importing nnmagic costs milliseconds and imports neither NumPy nor TVM nor
IPython.
"""

from __future__ import annotations

from nnmagic import fork_safety as fork_safety
from nnmagic._version import __version__

TYPE_CHECKING = (
    False  # type checkers take it for typing's, whose import would be most of the cost of this one
)
if TYPE_CHECKING:
    from nnmagic import relay
    from nnmagic.cache import CacheWarning, set_cache
    from nnmagic.diagnostics import CompileError, Diagnostic, RelayError, Span, TinyNNError, TinyNNWarning
    from nnmagic.engine import EngineError
    from nnmagic.engine.threads import num_threads, set_num_threads
    from nnmagic.functions.compile import compile, function  # noqa: A004 - the public name
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.definition import CacheInfo
    from nnmagic.functions.derivatives.rules import custom_jvp, custom_vjp
    from nnmagic.functions.exporting.export import export
    from nnmagic.functions.from_onnx import from_onnx
    from nnmagic.functions.from_torch import TorchFunction, from_torch
    from nnmagic.functions.inspection.stepping import step
    from nnmagic.functions.saving import load
    from nnmagic.functions.specializing import SpecializingFunction
    from nnmagic.jupyter import load_ipython_extension, unload_ipython_extension
    from nnmagic.numpy import (
        Array,
        InOut,
        Out,
        Tensor,
        bf16,
        bool_,
        c64,
        c128,
        f16,
        f32,
        f64,
        grad,
        hessian,
        i8,
        i16,
        i32,
        i64,
        jacobian,
        jvp,
        u8,
        u16,
        u32,
        u64,
        value_and_grad,
        vjp,
        vmap,
    )

#: Where each public name stands.
_MODULES = {
    "nnmagic.cache": "CacheWarning set_cache",
    "nnmagic.diagnostics": "CompileError Diagnostic RelayError Span TinyNNError TinyNNWarning",
    "nnmagic.engine": "EngineError",
    "nnmagic.engine.threads": "num_threads set_num_threads",
    "nnmagic.functions.compile": "compile function",
    "nnmagic.functions.compiled": "CompiledFunction",
    "nnmagic.functions.definition": "CacheInfo",
    "nnmagic.functions.exporting.export": "export",
    "nnmagic.functions.from_onnx": "from_onnx",
    "nnmagic.functions.from_torch": "TorchFunction from_torch",
    "nnmagic.functions.derivatives.rules": "custom_jvp custom_vjp",
    "nnmagic.functions.derivatives.transformations": "grad hessian jacobian jvp value_and_grad vjp vmap",
    "nnmagic.functions.saving": "load",
    "nnmagic.functions.specializing": "SpecializingFunction",
    "nnmagic.functions.inspection.stepping": "step",
    "nnmagic.numpy": "Array",
    "nnmagic.jupyter": "load_ipython_extension unload_ipython_extension",
    "nnmagic.tinynn.types.annotations": (
        "InOut Out Tensor f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool_ c64 c128"
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Array",
    "CacheInfo",
    "CacheWarning",
    "CompileError",
    "CompiledFunction",
    "Diagnostic",
    "EngineError",
    "InOut",
    "Out",
    "RelayError",
    "Span",
    "SpecializingFunction",
    "Tensor",
    "TinyNNError",
    "TinyNNWarning",
    "TorchFunction",
    "__version__",
    "bf16",
    "bool_",
    "c64",
    "c128",
    "compile",
    "custom_jvp",
    "custom_vjp",
    "export",
    "f16",
    "f32",
    "f64",
    "from_onnx",
    "from_torch",
    "function",
    "grad",
    "hessian",
    "i8",
    "i16",
    "i32",
    "i64",
    "jacobian",
    "jvp",
    "load",
    "load_ipython_extension",
    "num_threads",
    "relay",
    "set_cache",
    "set_num_threads",
    "step",
    "u8",
    "u16",
    "u32",
    "u64",
    "unload_ipython_extension",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> object:
    import importlib
    import sys

    if name == "relay":
        return importlib.import_module("nnmagic.relay")
    if name not in _HOME:
        raise AttributeError(
            f"module 'nnmagic' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
