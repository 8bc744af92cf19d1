"""Locks in a process that forks: the child waits for nobody who is not there."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

HEAD = """
    import os, threading
    from nnmagic.forks import Lock

    lock = Lock()

    def taken_by_another():
        done = []
        def take():
            with lock:
                done.append(True)
        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        thread.join(0.3)
        return bool(done)

    def held_by_another():
        begun, go = threading.Event(), threading.Event()
        def hold():
            with lock:
                begun.set()
                go.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        begun.wait()
        return thread, go

    def ended(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
CASES = {
    "nobody holds it": """
        child = os.fork()
        free = taken_by_another()
        if child == 0:
            os._exit(0 if free else 1)
        print(free, ended(child))
    """,
    "the forking thread holds it, twice": """
        with lock, lock:
            child = os.fork()
            held = not taken_by_another()
        free = taken_by_another()
        if child == 0:
            os._exit(0 if held and free else 1)
        print(held and free, ended(child))
    """,
    "another thread holds it": """
        thread, go = held_by_another()
        child = os.fork()
        if child == 0:
            os._exit(0 if taken_by_another() else 1)
        code = ended(child)
        go.set()
        thread.join()
        print(taken_by_another(), code)
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_a_lock_after_a_fork(case: str) -> None:
    assert _run(HEAD, CASES[case]) == ("True 0\n", "")


IMPORTS = """
    import os, sys, threading, time
    import nnmagic

    thread = threading.Thread(target=lambda: nnmagic.compile)
    thread.start()
    while "nnmagic.functions.compile" not in sys.modules:
        time.sleep(0.0001)
    child = os.fork()
    if child == 0:
        nnmagic.compile
        os._exit(0)
    thread.join()
    print(ended(child))
"""


def test_a_fork_waits_until_nnmagic_is_imported() -> None:
    assert _run(HEAD, IMPORTS) == ("0\n", "")


WANTS_WHAT_A_FORK_TAKES = """
    import time
    from concurrent.futures import ThreadPoolExecutor

    begun, forking = threading.Event(), threading.Event()
    def work():
        with lock, ThreadPoolExecutor() as pool:
            begun.set()
            forking.wait()
            time.sleep(0.2)
            pool.submit(int).result()
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    forking.set()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(0)
    print(0.1 < time.monotonic() - begin < 3, ended(child))
"""


def test_a_fork_takes_nothing_while_it_waits_that_a_compilation_wants() -> None:
    """Pools of threads have a lock, which forks take and who gives them work."""
    assert _run(HEAD, WANTS_WHAT_A_FORK_TAKES) == ("True 0\n", "")


INTERRUPTED = """
    import signal, time

    thread, go = held_by_another()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if taken_by_another() else 1)
        time.sleep(20)
    except KeyboardInterrupt:
        print(0.2 < time.monotonic() - begin < 4, ended(child))
    go.set()
    thread.join()
    print(taken_by_another(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_ends_the_wait_of_a_fork_and_comes_after_it() -> None:
    assert _run(HEAD, INTERRUPTED) == ("True 0\nTrue True\n", "")


def _run(*parts: str) -> tuple[str, str]:
    """What a process of this code says."""
    code = "".join(map(textwrap.dedent, parts))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout, done.stderr
