"""Import ``tvm_ffi``, and TVM, without what takes them long and we do not use.

If torch is installed, both import it, which takes a second or more: one because of a conflict of symbols that
was seen on Windows, the other for a class. Here they are told that there is none, but for Windows. Torch can
be imported afterwards as ever.

TVM tries operators that only a GPU has, and has errors for an answer. For the first one in a process its
library reads the debugging data of Python, which takes 0.2 s where Python has any: ``read_debugging_data``
does that beforehand. TVM also lists all its functions for each of its fifty modules, which takes 3 ms each
time: here again only when there are new ones.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from threading import get_ident
from typing import Any

from nnmagic.engine import garbage_collection

#: TVM's function that returns another one: of a number, the name of a function; of -1, how many there are.
_NAMES = "ffi.FunctionListGlobalNamesFunctor"

#: Where an error object of TVM's has the address and the length of the text of its kind.
_KIND = 24


class _Hider(MetaPathFinder):
    """Answer that modules are not installed, to the thread that made this object."""

    def __init__(self) -> None:
        self._thread = get_ident()
        self._hides_torch = sys.platform != "win32" and "torch" not in sys.modules

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for what is hidden; leave other modules to others."""
        if get_ident() == self._thread and (
            (name == "torch" and self._hides_torch) or (name == "tvm.runtime.disco" and not _has_disco())
        ):
            raise ModuleNotFoundError("hidden from TVM", name=name)


def _has_disco() -> bool:
    return "runtime.disco.DRef" in tvm_ffi.get_global_func("ffi.GetRegisteredTypeKeys")()


@contextmanager
def _hidden() -> Iterator[None]:
    """Have this thread's imports not find what TVM does not need, and collect no garbage: there is none."""
    hider = _Hider()
    sys.meta_path.insert(0, hider)
    try:
        with garbage_collection.pause():
            yield
    finally:
        sys.meta_path.remove(hider)


with _hidden():
    import tvm_ffi


@contextmanager
def importing_tvm() -> Iterator[None]:
    """Make TVM's import, on this thread, as short as it can be."""
    registry: Any = tvm_ffi.registry
    list_names = registry.list_global_func_names
    registry.list_global_func_names = _lister_of_functions(list_names)
    try:
        with _hidden():
            yield
    finally:
        registry.list_global_func_names = list_names


def take_error_kind() -> str:
    """Return the kind of the error that TVM holds for this thread, once; "" if it has none."""
    handle = ctypes.c_void_p()
    tvm_ffi.LIB.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
    if handle.value is None:
        return ""
    kind = (ctypes.c_size_t * 2).from_address(handle.value + _KIND)
    name = ctypes.string_at(*kind).decode(errors="replace")
    tvm_ffi.LIB.TVMFFIObjectDecRef(handle)
    return name


def read_debugging_data() -> None:
    """Raise TVM's first error, without Python's lock, so that a later one is cheap.

    Meanwhile no thread can load a library.
    """
    with suppress(TypeError):
        tvm_ffi.get_global_func(_NAMES)("takes no arguments")


def _lister_of_functions(list_names: Callable[[], list[str]]) -> Callable[[], list[str]]:
    """Return a function that calls another one only if there are more functions than before."""
    names: list[str] = []

    def names_if_new() -> list[str]:
        nonlocal names
        if tvm_ffi.get_global_func(_NAMES)()(-1) != len(names):
            names = list_names()
        return names

    return names_if_new


__all__ = ["importing_tvm", "read_debugging_data", "take_error_kind", "tvm_ffi"]
