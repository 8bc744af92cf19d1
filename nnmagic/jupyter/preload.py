"""Import, while the user types the first cell, what that cell will need.

The front end and TVM's compiler are left out where compiled code is on disk: then the first cells of a
notebook will hardly be new ones. What finds and shows them and the run-time are imported anyway, and what
the names of files in the cache depend on is read.

A thread does it, so an interrupt cannot leave a library half imported. Python raises an error where one
thread imports a package and another one of its modules: while a cell runs, no import of nnmagic's begins,
and a cell waits for one that has begun. It does not wait for TVM's compiler, which takes half a second. A
fork ends the thread, since the child would find half of a library. At the end of the process what has not
begun is left out.
"""

from __future__ import annotations

import _thread
import contextlib
import logging  # noqa: F401 - what it does at a fork must not begin in one
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from nnmagic.engine import garbage_collection

if TYPE_CHECKING:
    from types import FrameType

    from IPython.core.interactiveshell import InteractiveShell

#: How long the shell is left alone after a cell, in seconds.
_PAUSE = 0.05

#: How long IPython takes from its event before a cell to the cell, in seconds.
_UNTIL_CELL_RUNS = 0.02

#: What tells whether anything is on disk.
_CACHE = "nnmagic.cache.settings"

#: What every cell imports.
_EVERY_CELL = (
    "nnmagic.functions.cells.compile_cell",
    "nnmagic.engine.legacy_relay",
    "nnmagic.engine.relax.runtime.cell_executable",
    "nnmagic.relay.compat.inference",
    "nnmagic.rendering.graph",
    "nnmagic.jupyter.commands",
)

#: What a cell imports besides that is not on disk.
_FRONT_END = ("nnmagic.functions.cells.type_cell", "nnmagic.engine.custom", "nnmagic.engine.tensor_types")


def _interrupt() -> None:
    """Interrupt the main thread, also where it waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


class _EndError(Exception):
    """The process ends, or will fork."""


class _Preload:
    """The thread of a process that imports; there is one at most."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._idle_since: float | None = None
        self._is_ending = threading.Event()
        self._importing = threading.Lock()

    def start(self, shell: InteractiveShell | None) -> None:
        """Start the thread, unless it was started before; it leaves the cells of a shell alone."""
        if self._thread is not None:
            return
        if shell is not None:
            shell.events.register("pre_execute", self._before_cell)
            shell.events.register("post_execute", self._after_cell)
        self._after_cell()
        self._thread = threading.Thread(target=self._run, name="nnmagic preload")
        self._thread.start()

    def _before_cell(self) -> None:
        """Wait for the end of an import, and let no other one begin."""
        self._idle_since = None
        try:
            with self._importing:
                pass
        except KeyboardInterrupt:  # IPython would show it, and run the cell
            threading.Timer(_UNTIL_CELL_RUNS, _interrupt).start()

    def _after_cell(self) -> None:
        if not _is_in_cell():  # one that another cell runs, as `%run` of a notebook does
            self._idle_since = time.monotonic()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # the cell will raise it
            self._do(_preload_runtime)
            self._do(partial(import_module, _CACHE))
            from nnmagic.engine import relax

            is_new = _is_nothing_on_disk()
            with ThreadPoolExecutor(1) as other_core:
                if is_new:
                    other_core.submit(relax.read_debugging_data)
                for name in (*_EVERY_CELL, *(_FRONT_END if is_new else ())):
                    self._do(partial(import_module, name))
                self._do(_read_own_files)
            if is_new and self._can_begin():
                relax.preload_compiler()

    def _do(self, work: Callable[[], object]) -> None:
        """Do a part of the work while no cell runs; without collecting garbage, of which it makes none.

        Raises _EndError instead if nothing more is to be imported.
        """
        while self._can_begin():
            with self._importing:
                if self._idle_since is not None:
                    with garbage_collection.pause():
                        work()
                    return
        raise _EndError

    def _can_begin(self) -> bool:
        """Wait until no cell has run for a while; return False if nothing more is to be imported."""
        while threading.main_thread().is_alive() and not self._is_ending.is_set():
            since = self._idle_since
            seconds = _PAUSE if since is None else since + _PAUSE - time.monotonic()
            if seconds <= 0:
                return True
            self._is_ending.wait(seconds)
        return False

    def end(self) -> None:
        """Wait for the end of what is being imported, and of the thread."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._is_ending.set()
            thread.join()


def _is_in_cell() -> bool:
    """Return whether a cell of IPython is what runs."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        is_named_so = frame.f_code.co_name == "run_code"
        if is_named_so and frame.f_globals.get("__name__") == "IPython.core.interactiveshell":
            return True
        frame = frame.f_back
    return False


def _is_nothing_on_disk() -> bool:
    from nnmagic.cache.settings import disk_cache

    cache = disk_cache()
    return cache is None or cache.usage.entries == 0


def _preload_runtime() -> None:
    """Import TVM's runtime, and all other libraries but its compiler: none can be loaded for a while."""
    import unicodedata  # noqa: F401 - the front end's

    from nnmagic.engine import relax

    relax.preload_runtime()


def _read_own_files() -> None:
    """Read what the keys of the cache depend on: it is kept for the life of the process."""
    from nnmagic.functions.caching.environment import environment, front_end

    environment()
    front_end()


_preload = _Preload()


def preload(shell: InteractiveShell | None = None) -> None:
    """Begin to import; another call does nothing."""
    _preload.start(shell)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_preload.end)
