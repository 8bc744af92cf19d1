"""Stand for TVM's FFI where machine code is run without TVM: what the runtime's modules use of it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

from nnmagic_runtime import hooks


def _set_hook(name: bytes, address: ctypes.c_void_p) -> int:
    hooks.hooks()[name.decode()] = address.value or 0
    return 0


class _Library:
    """The functions of C."""

    TVMFFIEnvModRegisterContextSymbol = staticmethod(_set_hook)

    @property
    def TVMFFIFunctionCall(self) -> Any:  # noqa: N802 - TVM's name
        """The function that calls a handle."""
        return ctypes.c_void_p(hooks.hooks()["__TVMFFIFunctionCall"])


def take_error_kind() -> str:
    """Return the kind of the error that machine code was left with on this thread, once; "" for none."""
    error = hooks.take_error()
    return "" if error is None else type(error).__name__


tvm_ffi = SimpleNamespace(
    LIB=_Library(), register_global_func=hooks.register, register_error=lambda _name, _class: None
)
