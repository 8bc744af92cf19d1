"""Import ``tvm_ffi``, and TVM, without torch.

If torch is installed, both import it, which takes a second or more: one because of a conflict of symbols that
was seen on Windows, the other for a class that we do not use. Here they are told that there is none, but for
Windows. Torch can be imported afterwards as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from threading import get_ident


class _TorchHider(MetaPathFinder):
    """Answer that torch is not installed, to the thread that made this object."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        """Raise ModuleNotFoundError for torch; leave other modules to others."""
        if name == "torch" and get_ident() == self._thread:
            raise ModuleNotFoundError("hidden from TVM", name=name)


@contextmanager
def torch_hidden() -> Iterator[None]:
    """Have this thread's imports not find torch, unless it was imported before."""
    hider = _TorchHider()
    hides = sys.platform != "win32" and "torch" not in sys.modules
    if hides:
        sys.meta_path.insert(0, hider)
    try:
        yield
    finally:
        if hides:
            sys.meta_path.remove(hider)


with torch_hidden():
    import tvm_ffi

__all__ = ["torch_hidden", "tvm_ffi"]
