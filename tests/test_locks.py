"""Locks in a process that forks: the child waits for nobody who is not there."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

HEAD = """
    import os, threading
    from nnmagic.locks import Lock

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
        begun, go = threading.Event(), threading.Event()
        def hold():
            with lock:
                begun.set()
                go.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        begun.wait()
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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HEAD) + textwrap.dedent(CASES[case])],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True 0\n", "")
