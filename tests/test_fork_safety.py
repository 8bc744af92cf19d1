"""A process that forks: its child waits for no thread that it does not have."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.child_process import PATIENCE
from tests.list_cell import LIST

HEAD = """
    import os, threading
    from nnmagic.fork_safety import Lock

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
    import os, sys, threading, traceback
    import nnmagic

    begun, go = threading.Event(), threading.Event()

    def stop(frame, event, _argument):
        begins = event == "call" and frame.f_code.co_name == "<module>"
        if begins and frame.f_globals.get("__name__") == "{name}":
            begun.set()
            go.wait()

    def work():
        sys.setprofile(stop)
        nnmagic.compile(text, cache=False)(1.0)

    text = "def f(x: f32):\\n    return x + 1\\n"
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        try:
            print(nnmagic.compile(text, cache=False)(1.0), flush=True)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = ended(child)
    go.set()
    thread.join()
    print(nnmagic.compile(text, cache=False)(1.0), code)
"""


@pytest.mark.full
@pytest.mark.parametrize("name", ["nnmagic.functions.compile", "numpy", "synr", "tvm"])
def test_a_child_imports_what_another_thread_was_importing(name: str) -> None:
    assert _run(HEAD, IMPORTS.replace("{name}", name)) == ("2.0\n2.0 0\n", "")


@pytest.mark.full
@pytest.mark.parametrize("name", ["numpy.linalg", "tvm.relax"])
def test_a_child_that_has_half_of_a_library_fails_after_a_warning(name: str) -> None:
    """It would wait for ever, or compute with half of it."""
    shown, errors = _run(HEAD, IMPORTS.replace("{name}", name), options=("-W", "default::RuntimeWarning"))
    assert shown == "2.0 1\n"
    assert '"spawn" or "forkserver"' in errors
    assert "Error: " in errors


IMPORTED_BY_OTHERS = """
    import os, sys, threading
    import nnmagic

    begun, go = threading.Event(), threading.Event()

    def stop(frame, event, _argument):
        begins = event == "call" and frame.f_code.co_name == "<module>"
        if begins and frame.f_globals.get("__name__") == "wave":
            begun.set()
            go.wait()

    def work():
        sys.setprofile(stop)
        import wave

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    before = {*sys.modules}
    child = os.fork()
    if child == 0:
        locks = sys.modules["_frozen_importlib"]._module_locks
        os._exit(0 if before == {*sys.modules} and "wave" in locks else 1)
    code = ended(child)
    go.set()
    thread.join()
    print(code)
"""


def test_what_others_import_is_left_alone() -> None:
    assert _run(HEAD, IMPORTED_BY_OTHERS) == ("0\n", "")


WARNS = """
    def forked():
        child = os.fork()
        if child == 0:
            os._exit(0)
        return ended(child)

    print(forked())
    with lock:
        print(forked())
    thread, go = held_by_another()
    print(forked(), forked())
    go.set()
    thread.join()
"""


def test_a_fork_while_another_thread_compiles_warns_once() -> None:
    shown, warned = _run(HEAD, WARNS, options=("-W", "default::RuntimeWarning"))
    assert shown == "0\n0\n0 0\n"
    assert warned.count("RuntimeWarning") == 1
    assert warned.startswith("<string>:"), "the line that forks"
    assert '"spawn" or "forkserver"' in warned


INTERRUPTED = """
    import signal

    def handler(*_):
        interrupts.append(True)

    interrupts, seen = [], []
    signal.signal(signal.SIGINT, handler)
    os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
    os.register_at_fork(after_in_parent=lambda: seen.append(signal.getsignal(signal.SIGINT) is handler))
    thread, go = held_by_another()
    child = os.fork()
    if child == 0:
        os._exit(0 if taken_by_another() else 1)
    print(ended(child), seen, interrupts)
    go.set()
    thread.join()
"""


def test_interrupts_are_left_to_their_handler() -> None:
    assert _run(HEAD, INTERRUPTED) == ("0 [True] [True]\n", "")


def _run(*parts: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
    """What a process of this code says."""
    code = "".join(map(textwrap.dedent, parts))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=300 * PATIENCE,
        check=False,
    )
    return done.stdout, done.stderr


STORM = """
    import faulthandler, random, select, signal, textwrap, time
    import numpy as np
    import nnmagic

    text = '''
    def build(n: i32) -> List:
        return List.Nil() if n == 0 else List.Cons(1.0, build(n - 1))

    def f(n: i32, x: Tensor[("n", "n"), f32]):
        return total(build(n)), x @ x
    '''
    depth, x = np.int32(3000), np.ones((300, 300), "f4")
    f = nnmagic.compile(list_cell + textwrap.dedent(text), cache=False)
    other = "def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n"
    expected = f(depth, x)
    state = {"calls": False}

    def interrupt(*_):
        if state["calls"]:
            state["calls"] = False
            raise KeyboardInterrupt

    def work():
        return [f(depth, x), nnmagic.compile(other, cache=False)(x[0, :2])]

    def weather_the_storm():
        stopped = 0
        while not select.select([end], [], [], 0)[0]:
            try:
                state["calls"] = True
                work()
                state["calls"] = False
            except KeyboardInterrupt:
                stopped += 1
        return stopped

    end, write_end = os.pipe()
    begin, write_begin = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(200, exit=True)
        signal.signal(signal.SIGINT, interrupt)
        os.write(write_begin, b".")
        stopped = weather_the_storm()
        (deep, product), small = work()
        right = deep == expected[0] and np.array_equal(product, expected[1]) and list(small) == [2, 2]
        os._exit(0 if right and stopped else 1)
    os.read(begin, 1)
    chance = random.Random(0)
    for _ in range(200):
        os.kill(child, signal.SIGINT)
        time.sleep(chance.random() / 50)
    os.write(write_end, b".")
    print(ended(child))
"""


@pytest.mark.full
def test_a_storm_of_interrupts_leaves_a_forked_child_working() -> None:
    shown, _ = _run(HEAD, f"list_cell = {LIST!r}\n", STORM)  # Python writes of interrupts that it ignores
    assert shown == "0\n"
