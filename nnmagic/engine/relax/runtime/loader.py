"""Load TVM's runtime without its compiler, and link object files.

``import tvm`` loads the compiler, which is 80 times as large. Object files are linked in memory by
``tvm_ffi_orcjit``: no C compiler, no linker, no file on disk.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from nnmagic.engine.relax.runtime import lapack, numpy_random
from nnmagic.engine.relax.runtime.debug_files import debug_folder, load_library
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.installation import libraries
from nnmagic.engine.threads import cores, num_threads
from nnmagic.fork_safety import Lock


@cache
def ensure() -> ctypes.CDLL:
    """Load TVM's runtime, after setting the environment variables that it reads once, and return it.

    Raises RuntimeError if TVM is not installed.
    """
    os.environ["TVM_NUM_THREADS"] = str(max(num_threads(), len(cores())))
    os.environ["TVM_BIND_THREADS"] = "0"
    runtime: ctypes.CDLL
    runtime, _ = (  # what sorts is in the other
        tvm_ffi.libinfo.load_lib_ctypes("tvm", library, "RTLD_GLOBAL", extra_lib_paths=[libraries()])
        for library in ("tvm_runtime", "tvm_runtime_extra")
    )
    return runtime


def global_function(name: str) -> Callable[..., Any]:
    """Return a function of TVM's runtime."""
    ensure()
    function: Callable[..., Any] = tvm_ffi.get_global_func(name)
    return function


def runtime_function(name: str) -> Any:
    """Return a function of TVM's runtime for C."""
    return getattr(ensure(), name)


class _Linker:
    """The linker of object files: one per process; a forked child has another."""

    def __init__(self) -> None:
        self._session: Any = None

    def load(self, code: Sequence[bytes]) -> Any:
        """Return the functions of object files by name."""
        ensure()
        if (folder := debug_folder()) is not None:
            library = load_library(code, folder)
        else:
            library = self._load_in_memory(code)
        lapack.set_routines(library, code)
        lapack.set_routines(library, code, numpy_random.SETTER, numpy_random.address_of)
        return library

    def _load_in_memory(self, code: Sequence[bytes]) -> Any:
        import tvm_ffi_orcjit

        with _LINKING:
            if self._session is None:
                # None: no support for what runs when C++ is loaded, which our code does not have.
                self._session = tvm_ffi_orcjit.ExecutionSession(orc_rt=None)
            return self._session.load_module(list(code))


def load_objects(code: Sequence[bytes]) -> Any:
    """Link object files, which may call each other, and return their functions by name.

    Raises RuntimeError for anything but object files.
    """
    return _linker.load(code)


def _in_child() -> None:
    global _linker  # noqa: PLW0603 - the parent's may be at work just now
    _linker = _Linker()


#: One function is linked at a time.
_LINKING = Lock()
_linker = _Linker()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
