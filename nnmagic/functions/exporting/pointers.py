"""Give compiled functions to C code in this process: addresses, ctypes functions, capsules for SciPy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.exporting.export import source_of

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.export import CPointer
    from nnmagic.engine.relax.codegen.c.functions import CFunction

#: What holds the machine code of capsules, which may live as long as the process.
_HELD: list[object] = []


def pointer(function: CompiledFunction, kind: str, signature: str | None = None) -> CPointer:
    """Return a function for C, compiled once.

    ``kind`` is ``"numbers"`` for C's own numbers in and out if there are no arrays, else the function as it
    is exported; ``"scipy"`` for one of SciPy's signatures.
    """
    from nnmagic.engine.relax.codegen.c.adapter_code import choose_signature
    from nnmagic.engine.relax.codegen.c.export import load_c_function

    def choose(compiled: CFunction) -> str:
        if kind == "scipy":
            return choose_signature(compiled, signature)
        return "" if _is_of_numbers(compiled) else "c"

    pointers: dict[Any, CPointer] = function._definition.__dict__.setdefault("_c_pointers", {})
    key = kind, signature
    if key not in pointers:
        pointers[key] = load_c_function(source_of(function, exported=False), choose)
    return pointers[key]


def _is_of_numbers(function: CFunction) -> bool:
    """Return whether a function gives a float for numbers: NaN says that a call failed."""
    *given, result = function.arguments
    is_float = result.shape == () and result.dtype in ("float32", "float64")
    return is_float and all(argument.role == "in" and argument.shape is None for argument in given)


def ctypes_function(function: CompiledFunction) -> Any:
    """Return a function of ctypes, which holds the machine code."""
    c_pointer = pointer(function, "numbers")
    arguments = [
        _ctype(argument.dtype, argument.shape, argument.role) for argument in c_pointer.function.arguments
    ]
    if c_pointer.signature == "c":
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)
    else:
        *arguments, _ = arguments
        prototype = ctypes.CFUNCTYPE(_ctype(c_pointer.function.arguments[-1].dtype, None, "in"), *arguments)
    callable_: Any = prototype(c_pointer.address)
    callable_.held = c_pointer
    callable_.__name__, callable_.__doc__ = function.name, function.__doc__
    return callable_


def _ctype(dtype: str, shape: object, role: str) -> Any:
    if dtype in ("float16", "bfloat16"):
        dtype = "uint16"
    plain = np.ctypeslib.as_ctypes_type(np.dtype(dtype))
    if shape is None:
        return plain
    return ctypes.POINTER(ctypes.POINTER(plain)) if role == "made" else ctypes.POINTER(plain)


def capsule(function: CompiledFunction, signature: str | None) -> object:
    """Return a capsule that ``scipy.LowLevelCallable`` takes."""
    c_pointer = pointer(function, "scipy", signature)
    _HELD.append(c_pointer)
    name = ctypes.create_string_buffer(c_pointer.signature.encode())
    _HELD.append(name)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(c_pointer.address, ctypes.cast(name, ctypes.c_char_p), None)
