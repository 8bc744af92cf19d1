"""The pool of threads: how many there are, from which threads it is used, and what a forked child does."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.thread_pool import run_into, run_on_pool, run_on_worker
from tests.child_process import PATIENCE
from tests.systems import POSIX

#: Large enough for parallel loops.
SOURCE = """
def f(x: Tensor[(1024, 1024), f32]):
    return exp(x) * sigmoid(x) + tanh(x)
"""


@pytest.fixture(autouse=True)
def as_many_as_cores():
    yield
    nnmagic.set_num_threads(None)


def child(code: str, **environment: str) -> str:
    """What a fresh Python prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300 * PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def tasks() -> int:
    """The threads of this process, TVM's among them; 0 where the system does not tell."""
    listed = Path("/proc/self/task")
    return len([*listed.iterdir()]) if listed.exists() else 0


def test_the_number_of_threads_is_chosen():
    nnmagic.set_num_threads(3)
    assert nnmagic.num_threads() == 3
    nnmagic.set_num_threads(None)
    assert nnmagic.num_threads() >= 1


@pytest.mark.parametrize(
    ("count", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_a_number_of_threads_that_makes_no_sense_is_refused(count, error):
    with pytest.raises(error, match="the number of threads must be"):
        nnmagic.set_num_threads(count)


def test_the_environment_says_how_many():
    show = "import nnmagic; print(nnmagic.num_threads())"
    assert child(show, NNMAGIC_NUM_THREADS="3") == "3\n"
    refused = """
    import nnmagic
    try:
        nnmagic.num_threads()
    except ValueError as error:
        print(error)
    """
    result = child(refused, NNMAGIC_NUM_THREADS="many")
    assert result == "the variable NNMAGIC_NUM_THREADS must be a positive whole number, not 'many'\n"


def test_results_do_not_depend_on_the_number_of_threads():
    f = nnmagic.compile(SOURCE)
    x = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    results = []
    for count in (1, 2, 4):
        nnmagic.set_num_threads(count)
        results.append(f(x))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_any_thread_may_call():
    f = nnmagic.compile(SOURCE)
    x = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    wanted = f(x)
    actual = []
    threads = [threading.Thread(target=lambda: actual.append(f(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        np.testing.assert_array_equal(f(x), wanted)
    for thread in threads:
        thread.join()
    assert len(actual) == 4
    for result in actual:
        np.testing.assert_array_equal(result, wanted)


def test_what_is_raised_on_another_thread_is_raised_by_the_call():
    def fail():
        raise ValueError("no")

    future = Future()

    def caller():
        run_into(future, run_on_pool(fail, run_on_worker(fail)))

    thread = threading.Thread(target=caller)
    thread.start()
    thread.join()
    with pytest.raises(ValueError, match="no"):
        future.result()


def test_threads_of_callers_leave_no_threads_behind():
    f = nnmagic.compile(SOURCE)
    x = np.zeros((1024, 1024), np.float32)

    def call():
        thread = threading.Thread(target=f, args=(x,))
        thread.start()
        thread.join()

    call()
    before = tasks()
    for _ in range(10):
        call()
    end = time.monotonic() + 300  # a thread that was joined is gone a little later
    while tasks() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert tasks() <= before


@pytest.mark.full
def test_the_process_is_bound_to_no_core():
    code = f"""
    import os, numpy as np, nnmagic
    before = os.sched_getaffinity(0)
    f = nnmagic.compile({SOURCE!r})
    f(np.zeros((1024, 1024), np.float32))
    assert os.sched_getaffinity(0) == before
    """
    if hasattr(os, "sched_getaffinity"):
        child(code, NNMAGIC_NUM_THREADS="2")


@pytest.mark.full
@POSIX
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_forked_child_computes_the_same(in_thread):
    code = f"""
    import os, signal, sys, threading, warnings, numpy as np, nnmagic
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
    f = nnmagic.compile({SOURCE!r})
    x = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    wanted = f(x)

    def fork():
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            same = np.array_equal(f(x), wanted) and nnmagic.num_threads() == 1
            nnmagic.set_num_threads(2)
            same = same and np.array_equal(f(x), wanted)
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert np.array_equal(f(x), wanted)

    if {in_thread}:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    else:
        fork()
    """
    child(code, NNMAGIC_NUM_THREADS="2")


@pytest.mark.full
@POSIX
def test_an_interrupt_in_a_forked_child_comes_after_the_machine_code_has_ended():
    """It runs in another thread there, and writes to an array that is free when the interrupt has come."""
    code = """
    import os, signal, time, warnings, numpy as np, nnmagic
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
    f = nnmagic.compile("def f(x: Tensor[(2048, 2048), f32]):\\n    return matmul(matmul(x, x), x)\\n")
    x = np.ones((2048, 2048), np.float32)

    class Late(Exception): pass
    def late(*_): raise Late

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, late)
        f(x)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            f(x)
        except Late:
            came = True
        time.sleep(0.5)
        os._exit(0 if came else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code
    """
    child(code, NNMAGIC_NUM_THREADS="2")
