"""Run machine code with parallel loops on a thread that has a TVM thread pool, one call at a time.

A TVM pool belongs to the thread that first runs a parallel loop, is never released, and is lost in a forked
child. So the main thread has one pool, and one worker thread has another for the calls of all other threads:
each call has all cores anyway. A forked child has the worker only.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from nnmagic.engine.threads import cores, num_threads
from nnmagic.tracebacks import raise_ignored_interrupt

#: The stack of the thread that runs the calls of others: virtual memory, of which only what is used is real.
#: Windows' threads of Python have less than 256 MB.
DEEP_STACK = (1 << 28) - (1 << 16) if os.name == "nt" else 1 << 30

#: How long a thread waits in one go, in seconds. An interrupt ends no wait that begins just after it, none if
#: another thread receives it, and none on Windows.
_LONGEST_WAIT = 0.05

#: TVM's mode of a pool whose threads may run on any core; the others bind threads, and the process, to cores.
_ON_ANY_CORE = -3


def run_on_pool(run: Callable[..., Any], elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs where a thread pool is, from whichever thread it is called.

    ``elsewhere`` is called on any thread but the main one.
    """

    def call(*args: Any) -> Any:
        pools = _pools
        if get_ident() != pools.main_thread:
            return elsewhere(*args)
        with pools.turn:
            size = num_threads()
            if pools.main_size != size:
                pools.resize(size)
                pools.main_size = size
            return run(*args)

    return call


def run_on_worker(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs on the worker thread, which has a thread pool and a deep stack.

    An interrupt of the caller waits for the end: the function was given addresses of memory that the caller
    keeps alive.
    """
    return lambda *args: wait_without_interrupts(_pools.on_own_thread, run, args)


if TYPE_CHECKING:
    from concurrent.futures import Future

    class PoolWork(Future[Any]):
        """What a thread runs for another one, and whether it is to end soon, because that was interrupted."""

        is_stopping: bool


_Job = tuple[Callable[..., Any], tuple[Any, ...], "PoolWork"]


class _Running(threading.local):
    """What this thread runs for another one."""

    future: Future[Any] | None = None


_running = _Running()


@cache
def _work_class() -> type[PoolWork]:
    """Return the class PoolWork: its base takes 4 ms to import, and few programs need threads."""
    from concurrent.futures import Future

    return type("PoolWork", (Future,), {"is_stopping": False})


def is_stopping() -> bool:
    """Return whether this thread is to end what it runs for another one."""
    return getattr(_running.future, "is_stopping", False)


class _Pools:
    """The thread pools of a process; ``main_thread``: the main thread if it may have one, else None."""

    def __init__(self, main_thread: int | None) -> None:
        self.main_thread = main_thread
        self.main_size = 0  # of the main thread's pool
        self.turn = threading.Lock()  # held by whoever uses a pool
        self._worker_size = 0
        self._starting = threading.Lock()
        self._jobs: SimpleQueue[_Job] | None = None

    @staticmethod
    def resize(size: int) -> None:
        """Set how many threads the pool of this thread has."""
        from nnmagic.engine.relax.runtime.loader import global_function

        global_function("runtime.config_threadpool")(_ON_ANY_CORE, size, [str(core) for core in cores()])

    def _run_on_worker(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call ``run(*args)`` on the worker thread, this one, with its pool."""
        with self.turn:
            size = num_threads()
            if self._worker_size != size:
                self.resize(size)
                self._worker_size = size
            return run(*args)

    def on_own_thread(self, run: Callable[..., Any], args: tuple[Any, ...]) -> PoolWork:
        """Submit ``run(*args)`` to the worker thread, whose pool serves all threads but the main one."""
        with self._starting:
            if self._jobs is None:
                jobs: SimpleQueue[_Job] = SimpleQueue()
                start_deep(self._serve, jobs)
                self._jobs = jobs
        future = _work_class()()
        self._jobs.put((run, args, future))
        return future

    def _serve(self, jobs: SimpleQueue[_Job]) -> None:
        while True:
            run, args, future = jobs.get()
            run_into(future, self._run_on_worker, run, args)
            del run, args, future  # what a call was given is not kept until the next one


def run_into(future: Future[Any], function: Callable[..., Any], *args: Any) -> None:
    """Call a function and set its result or exception on ``future``."""
    _running.future = future
    try:
        result = function(*args)
    except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
        _running.future = None
        future.set_exception(error)
        del future, args  # breaks the cycle with the traceback
    else:
        _running.future = None
        future.set_result(result)


def wait_without_interrupts(start: Callable[..., PoolWork], *args: Any) -> Any:
    """Return the result of the future that ``start(*args)`` returns.

    What the handler of an interrupt raises meanwhile is raised after the end, which it hastens: no moment is
    left in which the caller could go on while the other thread uses the caller's memory.
    """
    handler = signal.getsignal(signal.SIGINT)
    is_deferred = get_ident() == threading.main_thread().ident and callable(handler)
    interrupts: list[BaseException] = []
    futures: list[PoolWork] = []

    def defer(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)  # type: ignore[operator,misc]  # it is callable
        except BaseException as error:  # noqa: BLE001 - raised below
            interrupts.append(error)
            _stop(futures)

    if is_deferred:
        signal.signal(signal.SIGINT, defer)
    try:
        futures.append(start(*args))
        if interrupts:
            _stop(futures)
        _wait_for_end(futures, interrupts)
    finally:
        if is_deferred:
            signal.signal(signal.SIGINT, handler)
    if interrupts:
        raise interrupts[0]
    return futures[0].result()


def _wait_for_end(futures: list[PoolWork], interrupts: list[BaseException]) -> None:
    """Wait; what the handlers of other signals raise meanwhile joins the interrupts."""
    while True:
        try:
            for future in futures:
                wait_in_steps(future)
        except BaseException as error:  # noqa: BLE001, PERF203 - raised by the caller
            interrupts.append(error)
            _stop(futures)
        else:
            return


def _stop(futures: list[PoolWork]) -> None:
    for future in futures:
        future.is_stopping = True


def wait_in_steps(future: Future[Any]) -> None:
    """Wait for a future; an interrupt of the main thread ends it, whenever and wherever it arrives."""
    from concurrent.futures import wait

    while not future.done():
        wait([future], _LONGEST_WAIT)
        if get_ident() == threading.main_thread().ident:
            raise_ignored_interrupt()


def on_deep_stack(run: Callable[..., Any], *args: Any) -> Any:
    """Call ``run(*args)`` on a thread with a C stack for deep recursion, and wait for its end."""

    def start() -> PoolWork:
        future = _work_class()()
        start_deep(run_into, future, run, *args)
        return future

    return wait_without_interrupts(start)


def start_deep(target: Callable[..., Any], *args: Any, stack_bytes: int = DEEP_STACK) -> threading.Thread:
    """Start a thread with a C stack for deep recursion."""
    with _STACK_SIZE:
        before = threading.stack_size(stack_bytes)
        try:
            thread = threading.Thread(target=target, args=args, name="nnmagic", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread


def _in_child() -> None:
    global _pools, _STACK_SIZE
    _pools, _STACK_SIZE = _Pools(None), threading.Lock()


_STACK_SIZE = threading.Lock()  # the size is the whole process's
_pools = _Pools(threading.main_thread().ident)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
