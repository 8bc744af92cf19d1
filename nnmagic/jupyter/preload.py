"""Import, while the user types the first cell, what that cell will need.

The front end and TVM's compiler are left out where compiled code is on disk: then the first cells of a
notebook will hardly be new ones. What finds and shows them and the run-time are imported anyway.

A thread does it, so an interrupt cannot leave a library half imported. A fork waits for its end, since the
child would find half of a library. At the end of the process what has not begun is left out.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - what it and logging do at a fork must not begin in one
import contextlib
import logging  # noqa: F401
import os
import threading
from importlib import import_module

#: How long the shell is left alone after the extension has been loaded, in seconds.
_PAUSE = 0.2

#: What every cell imports.
_EVERY_CELL = ("nnmagic.functions.compile_cell", "nnmagic.rendering.graph")

#: What a cell imports besides that is not on disk.
_FRONT_END = "nnmagic.functions.type_cell"


class _Preload:
    """The thread of a process that imports; there is one at most."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nnmagic preload")
            self._thread.start()

    def _run(self) -> None:
        main = threading.main_thread()
        main.join(_PAUSE)
        for step in (_import_every_cell, _import_compilers):
            if main.is_alive():
                with contextlib.suppress(Exception):  # the cell will raise it
                    step()

    def wait(self) -> None:
        """Wait for the thread's end."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _import_every_cell() -> None:
    for name in _EVERY_CELL:
        import_module(name)


def _import_compilers() -> None:
    from nnmagic.cache.settings import disk_cache
    from nnmagic.engine import relax

    cache = disk_cache()
    is_new = cache is None or cache.usage.entries == 0
    if is_new:
        import_module(_FRONT_END)
    relax.preload(compiler=is_new)


_preload = _Preload()


def preload() -> None:
    """Begin to import; another call does nothing."""
    _preload.start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_preload.wait)
