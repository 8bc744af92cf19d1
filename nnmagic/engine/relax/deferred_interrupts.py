"""Run the compiler so that an interrupt ends the wait for it at once.

TVM and LLVM cannot be stopped from outside, and a Python exception that unwinds through C++ may corrupt
their state. So the main thread, which alone receives interrupts, has another thread compile, and waits. An
interrupt abandons that thread: it ends at its next safepoint, while the main thread goes on. Until then new
compilations run in another process (``compiler_process``).

Where ``prover_signals`` can do nothing, TVM's prover of theorems leaves a handler of SIGINT that lets system
calls go on after an interrupt: it is put right in the end.
"""

from __future__ import annotations

import _imp
import atexit
import contextlib
import contextvars
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from nnmagic.engine.relax.runtime.thread_pool import DEEP_STACK, run_into, start_deep, wait_in_steps

Result = TypeVar("Result")

#: The stack of a thread that compiles: TVM's passes and LLVM recurse over deep programs.
_STACK_BYTES = min(256 << 20, DEEP_STACK)

#: Most compilations reach a safepoint in this time.
_PATIENCE_SECONDS = 2.0


@dataclass(slots=True)
class _Job:
    """Work on a thread of its own."""

    is_abandoned: bool = False


_THREAD = threading.local()

#: Threads that work on, although nobody waits for them.
_abandoned: list[threading.Thread] = []

#: The threads but the main one that compile: the process may end meanwhile.
_others: list[threading.Thread] = []


def run_interruptible(work: Callable[[], Result]) -> Result:
    """Return ``work()``; an interrupt of the main thread is raised at once, and abandons the work."""
    own_thread = threading.current_thread()
    if own_thread is not threading.main_thread():
        _exit_without_destructors()
        _others.append(own_thread)
        try:
            return work()
        finally:
            _others.remove(own_thread)
            _let_interrupts_end_waits()
    job, context = _Job(), contextvars.copy_context()
    future: Future[Result] = Future()

    def run() -> None:
        _THREAD.job = job
        context.run(run_into, future, work)

    thread = None
    _release_import_lock()
    try:
        thread = start_deep(run, stack_bytes=_STACK_BYTES)
        wait_in_steps(future)
        return future.result()
    except BaseException:
        job.is_abandoned = True
        if thread is not None and not future.done():
            _exit_without_destructors()
            _abandoned.append(thread)
        raise
    finally:
        _let_interrupts_end_waits()


def _release_import_lock() -> None:
    """Release Python's import lock if an interrupt has left it with this thread: no other could import more.

    Python takes it in few places, in none of which this module runs. An interrupt just after that, before
    the ``try`` that follows, leaves it taken.
    """
    if _imp.lock_held():
        with contextlib.suppress(RuntimeError):  # another thread has it
            _imp.release_lock()


def _let_interrupts_end_waits() -> None:
    """Let SIGINT end system calls, as Python has it; Windows knows no such thing."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)  # noqa: FBT003 - it has no keywords


@cache
def _exit_without_destructors() -> None:
    """Let this process exit with its own status while a thread works with TVM's objects.

    C's ``exit`` must not destroy these. Python, as it ends, makes a thread that comes back to it exit, which
    C++ takes for a reason to abort: instead the thread sleeps until the process is gone. Windows ends all
    other threads before it destroys anything.
    """
    if sys.platform != "win32":
        atexit.register(_leave_threads_alone)


def _leave_threads_alone() -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit") and (_others or is_abandoned_work_running(patience_seconds=0)):
        libc.on_exit(libc._exit, None)  # glibc's; it passes the status on
        with contextlib.suppress(OSError, AttributeError):  # another library of C++
            ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(libc.pause)


def interrupt_safepoint() -> None:
    """End the work of this thread if it is abandoned. Call it only where no C++ frame waits for us."""
    job = getattr(_THREAD, "job", None)
    if job is not None and job.is_abandoned:
        raise KeyboardInterrupt


def is_abandoned_work_running(patience_seconds: float = _PATIENCE_SECONDS) -> bool:
    """Return whether abandoned work goes on, after a wait for its next safepoint."""
    deadline = time.monotonic() + patience_seconds
    for thread in list(_abandoned):
        thread.join(max(0.0, deadline - time.monotonic()))
        if not thread.is_alive():
            _abandoned.remove(thread)
    return bool(_abandoned)
