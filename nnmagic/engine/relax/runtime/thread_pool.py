"""Where machine code with parallel loops runs: on the thread that TVM's pool belongs to, a call at a time.

TVM's pool belongs to the thread that first runs a parallel loop, is never given back, and is lost in a forked
child. So the main thread has one, and one thread of our own has another, for the calls of all other threads:
each call has all cores anyway. In a forked child only the latter has. Knows TVM's runtime.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from nnmagic.engine.relax.runtime.loader import global_function
from nnmagic.engine.threads import cores, num_threads

#: The stack of the thread that runs the calls of others: virtual memory, of which only what is used is real.
DEEP_STACK = 1 << 30

#: TVM's mode of a pool whose threads may run on any core; the others bind threads, and the process, to cores.
_ON_ANY_CORE = -3


def run_on_pool(
    run: Callable[..., Any], *, deep: bool = False, to_the_end: bool = False
) -> Callable[..., Any]:
    """The function, run where a pool of threads is; it may be called from any thread.

    ``deep``: it needs much of the C stack. ``to_the_end``: an interrupt of its caller waits until it has
    ended, as it is given addresses, of memory that the caller keeps.
    """

    def call(*args: Any) -> Any:
        pools = _pools
        if pools.of_main_thread and not deep and threading.current_thread() is threading.main_thread():
            return pools.here(run, args)
        return pools.on_own_thread(run, args).wait(to_the_end=to_the_end)

    return call


_Job = tuple[Callable[..., Any], tuple[Any, ...], "Outcome"]


class _Pools:
    """The pools of a process; ``of_main_thread``: whether the main thread may have one."""

    def __init__(self, *, of_main_thread: bool) -> None:
        self.of_main_thread = of_main_thread
        self._turn = threading.Lock()  # held by whoever uses a pool
        self._sizes: dict[int, int] = {}
        self._starting = threading.Lock()
        self._jobs: SimpleQueue[_Job] | None = None
        self._configure = global_function("runtime.config_threadpool")

    def here(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """``run(*args)`` on this thread, with its pool."""
        with self._turn:
            thread, size = threading.get_ident(), num_threads()
            if self._sizes.get(thread) != size:
                self._configure(_ON_ANY_CORE, size, [str(core) for core in cores()])
                self._sizes[thread] = size
            return run(*args)

    def on_own_thread(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
        """``run(*args)`` on the thread that has a pool for all threads but the main one."""
        with self._starting:
            if self._jobs is None:
                self._jobs = SimpleQueue()
                start_deep(self._serve, self._jobs)
        outcome = Outcome()
        self._jobs.put((run, args, outcome))
        return outcome

    def _serve(self, jobs: SimpleQueue[_Job]) -> None:
        while True:
            run, args, outcome = jobs.get()
            outcome.take(self.here, run, args)
            del run, args, outcome  # what a call was given is not kept until the next one


class Outcome:
    """What a call on another thread comes to."""

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def take(self, function: Callable[..., Any], *args: Any) -> None:
        """Calls the function and notes what comes of it."""
        try:
            self._result = function(*args)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._error = error
        self._done.release()

    def wait(self, *, to_the_end: bool = False) -> Any:
        """What came of it. ``to_the_end``: an interrupt is raised after it has come."""
        interrupt: BaseException | None = None
        while True:
            try:
                self._done.acquire()
                break
            except BaseException as error:
                if not to_the_end:
                    raise
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._error is not None:
            raise self._error
        return self._result


def start_deep(target: Callable[..., Any], *args: Any) -> threading.Thread:
    """Starts a thread with a C stack for programs that call themselves."""
    with _STACK_SIZE:
        before = threading.stack_size(DEEP_STACK)
        try:
            thread = threading.Thread(target=target, args=args, name="nnmagic", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread


def _in_child() -> None:
    global _pools, _STACK_SIZE
    _pools, _STACK_SIZE = _Pools(of_main_thread=False), threading.Lock()


_STACK_SIZE = threading.Lock()  # the size is the whole process's
_pools = _Pools(of_main_thread=True)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
