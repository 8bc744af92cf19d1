"""Link object files without TVM: see ``nnmagic_runtime.objects``."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from nnmagic.engine.relax.runtime import lapack, numpy_random
from nnmagic_runtime import hooks
from nnmagic_runtime.objects import Linked

#: What the symbol of a function begins with that takes values of TVM's.
_PREFIX = "__tvm_ffi_"

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)

#: The kind of values that are given: ints.
_INT = 1


class _Entry:
    """A function of machine code: takes ints, and returns one."""

    def __init__(self, address: int, linked: Linked) -> None:
        self._address, self._linked = address, linked
        self._run = _FUNCTION(address)

    def __chandle__(self) -> int:
        return self._address

    def __call__(self, *words: int) -> int:
        given = _values(len(words)).pack(*[part for word in words for part in (_INT, word)])
        result = ctypes.create_string_buffer(hooks.VALUE.size)
        if self._run(None, given, len(words), ctypes.addressof(result)):
            raise hooks.take_error() or RuntimeError("the machine code failed")
        return int(hooks.VALUE.unpack(result.raw)[1])


@cache
def _values(count: int) -> struct.Struct:
    return struct.Struct(f"<{2 * count}q")


class _Library:
    """The functions of linked object files by name."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked

    def __getitem__(self, name: str) -> _Entry:
        return _Entry(self._linked.addresses[_PREFIX + name], self._linked)


def load_objects(code: Sequence[bytes]) -> Any:
    """Link object files, which may call each other, and return their functions by name.

    Raises RuntimeError for anything but object files, OSError without memory for machine code.
    """
    library = _Library(Linked(code, hooks.hooks()))
    lapack.set_routines(library, code)
    lapack.set_routines(library, code, numpy_random.SETTER, numpy_random.address_of)
    return library


def runtime_function(name: str) -> Any:
    """Return a function that stands for one of TVM's runtime, for C."""
    return ctypes.c_void_p(hooks.hooks()[f"__{name}"])


def global_function(name: str) -> Callable[..., Any]:
    """Return what stands for a function of TVM's runtime. Raises RuntimeError for others."""
    if name != "runtime.config_threadpool":
        raise RuntimeError(f"{name} of TVM is needed, which the runtime does not have")
    return hooks.set_pool_size
