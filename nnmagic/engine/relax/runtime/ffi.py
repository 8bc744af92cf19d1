"""Import ``tvm_ffi``, and TVM, without what takes them long and we do not use.

If torch is installed, both import it, which takes a second or more: one because of a conflict of symbols that
was seen on Windows, the other for a class. Here they are told that there is none, but for Windows. Torch can
be imported afterwards as ever. TVM also tries whether its library has Disco, its distributed run-time; the
error that says no takes 0.15 s, because it reads the debugging data of the library.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from threading import get_ident


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
def importing_tvm() -> Iterator[None]:
    """Have this thread's imports not find what TVM does not need, and collect no garbage: there is none."""
    hider, collects = _Hider(), gc.isenabled()
    sys.meta_path.insert(0, hider)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        sys.meta_path.remove(hider)


with importing_tvm():
    import tvm_ffi

__all__ = ["importing_tvm", "tvm_ffi"]
