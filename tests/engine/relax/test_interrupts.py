"""Interrupts while TVM is imported, compiles, or hangs, in a child: what is compiled afterwards works."""

import _imp
import _thread
import ctypes
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from nnmagic.engine.relax.deferred_interrupts import run_interruptible
from nnmagic.engine.relax.runtime.prover_signals import keep_handler
from nnmagic.engine.relax.runtime.thread_pool import run_into, start_deep, wait_in_steps
from nnmagic.tracebacks import short_errors
from tests.child_process import PATIENCE
from tests.suites import FULL

#: For tests that send a signal.
SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="a signal sent by number ends a process there")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a child process."""
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300 * PATIENCE, check=False)


SCRIPT = """
import os, signal, threading
import numpy as np
import nnmagic

signal.signal(signal.SIGINT, signal.default_int_handler)
text = "def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n"
try:
    threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGINT)).start()
    nnmagic.compile(text, cache=False)
    threading.Event().wait()
except KeyboardInterrupt:
    print("stopped")
print(nnmagic.compile(text, cache=False)(np.ones(2, "f")))
"""


@pytest.mark.full
@SIGNALS
@pytest.mark.parametrize("delay", [0.3, 0.8, 1.4])
def test_the_compiler_can_be_loaded_again(delay):
    done = run(SCRIPT.format(delay=delay))
    assert done.stdout == "stopped\n[2. 2.]\n", done.stderr[-2000:]


MANY = """
import os, random, signal, threading, time
import numpy as np
import nnmagic

signal.signal(signal.SIGINT, signal.default_int_handler)
chance = random.Random(0)
steps = ["tanh(x)", "x @ x", "softmax(x)", "x - x.mean(axis=1, keepdims=True)", "sqrt(abs(x)) + 1", "x.T * 2"]
lines = "".join(f"    x = {each}\\n" for each in steps * 4)
text = f"def f(x: Tensor[(16, 16), f32]):\\n{lines}    return x\\n"
x = np.ones((16, 16), "f")
expected = nnmagic.compile(text, cache=False)(x)
begin = time.monotonic()
nnmagic.compile(text, cache=False)
most = time.monotonic() - begin
stopped = 0
for _ in range(ROUNDS):
    timer = threading.Timer(chance.random() * most, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        nnmagic.compile(text, cache=False)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        stopped += 1
print(stopped > ROUNDS // 4, np.array_equal(nnmagic.compile(text, cache=False)(x), expected))
"""


@SIGNALS
@pytest.mark.full
def test_a_compilation_is_interrupted_anywhere():
    """In an exhaustive run a hundred times: one in a hundred once ended the process, in TVM's C++."""
    script = MANY.replace("ROUNDS", "100" if FULL else "40")
    done = run(script)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr[-2000:]


AFTER = """
import faulthandler, os, signal, threading
import nnmagic
from nnmagic.engine.relax import deferred_interrupts
from nnmagic.progress import listen
from tests.child_process import PATIENCE

faulthandler.dump_traceback_later(120 * PATIENCE, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
lines = "".join(f"    x = tanh(x @ x[:, :{size}] @ x[:{size}]).cumsum(axis=0)\\n" for size in range(3, 9))
text = f"def f(x: Tensor[('n', 'n'), f32]):\\n{lines}    return x\\n"


def interrupt_soon(stage="Relax", *_):
    if stage == "Relax":
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()


def is_interrupted(work):
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


nnmagic.compile("def f(x: Tensor[('n',), f32]):\\n    return x[x > 0]\\n", cache=False)
interrupt_soon()
print(is_interrupted(threading.Event().wait))
with listen(interrupt_soon):
    print(is_interrupted(lambda: nnmagic.compile(text, cache=False)))
print(deferred_interrupts.is_abandoned_work_running(0))
"""


@pytest.mark.full
@SIGNALS
def test_an_interrupt_ends_waits_after_a_compilation_and_in_the_next_one() -> None:
    done = run(AFTER)
    assert done.stdout == "True\n" * 3, done.stderr[-2000:]


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="Z3's handler is used"
)
def test_a_proof_about_sizes_leaves_the_handler_of_interrupts() -> None:
    """Z3 installed one that swallowed them, and restored one that does not end waits."""
    from tvm import sym, tirx

    def handler() -> bytes:
        action = ctypes.create_string_buffer(256)
        assert ctypes.CDLL(None).sigaction(signal.SIGINT, None, action) == 0
        return action.raw[:16] + action.raw[136:140]  # its address, signals that it blocks, flags

    assert keep_handler()
    signal.siginterrupt(signal.SIGINT, True)
    before = handler()
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    assert sym.Analyzer().can_prove(n * n + n * m >= n * m, sym.ProofStrength.SYMBOLIC_BOUND)
    assert handler() == before


def test_libraries_are_left_alone_that_are_not_as_expected() -> None:
    assert not keep_handler("libc.so.6")
    assert not keep_handler("libabsent.so")


def on_another_thread(function: Callable[..., object], *args: object) -> None:
    future: Future[object] = Future()
    start_deep(run_into, future, function, *args)
    wait_in_steps(future)


def test_an_interrupt_ends_the_wait_for_a_call_that_another_thread_runs() -> None:
    """One that ended no system call was lost, as where it came just before the wait."""
    released, ended = threading.Event(), []

    def work() -> None:
        _thread.interrupt_main()
        ended.append(released.wait(20))

    try:
        with pytest.raises(KeyboardInterrupt):
            on_another_thread(work)
        assert not ended
    finally:
        released.set()


def test_what_an_interrupted_import_holds_is_released_for_the_compiler() -> None:
    """Between two instructions of Python's import system, an interrupt leaves its lock taken."""
    _imp.acquire_lock()
    try:
        assert not run_interruptible(_imp.lock_held)
    finally:
        if _imp.lock_held():
            _imp.release_lock()


ANYWHERE = """
import _thread, sys, threading
import numpy as np
import nnmagic
from nnmagic.engine.relax import deferred_interrupts
from nnmagic.progress import listen

def interrupt_soon(stage, *_):
    if stage == "Relax":
        threading.Timer(0.3, _thread.interrupt_main).start()

lines = "".join(f"    x = tanh(x @ x[:, :{size}] @ x[:{size}]).cumsum(axis=0)\\n" for size in range(3, 9))
nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n", cache=False)
try:
    with listen(interrupt_soon):
        nnmagic.compile(f"def f(x: Tensor[('n', 'n'), f32]):\\n{lines}    return x\\n", cache=False)
except KeyboardInterrupt:
    print("stopped", deferred_interrupts.is_abandoned_work_running(0))
print(nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 5\\n", cache=False)(np.ones(2, "f")))
sys.exit(7)
"""


@pytest.mark.full
def test_a_compilation_is_interrupted_on_all_systems() -> None:
    """As Windows interrupts: without a signal that ends waits."""
    done = run(ANYWHERE)
    assert (done.returncode, done.stdout) == (7, "stopped True\n[6. 6.]\n"), done.stderr[-2000:]


STUCK = """
import ctypes, faulthandler, os, signal, sys, threading
import numpy as np
import nnmagic
from nnmagic.engine.relax.codegen import relax_pipeline
from tests.child_process import PATIENCE

faulthandler.dump_traceback_later(120 * PATIENCE, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
begun = threading.Event()


def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)


def hang(*_):
    begun.set()
    ctypes.CDLL(None).sleep(1000)  # as TVM: in C, without Python's lock


usual, relax_pipeline.fuse_kernels = relax_pipeline.fuse_kernels, hang
threading.Thread(target=interrupt).start()
try:
    nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n", cache=False)
except KeyboardInterrupt:
    print("stopped")
relax_pipeline.fuse_kernels = usual
source = "def f(x: Tensor[('n',), f32]):\\n    return x + constant\\n"
f = nnmagic.compile(source, namespace={"constant": np.float32(5)}, cache=False)
print(f(np.ones(2, "f")))
source = "def f(n: i32) -> i32:\\n    return 1 if n < 2 else f(n - 1) + f(n - 2)\\n"
print(nnmagic.compile(source, cache=False)(np.int32(9)))

import subprocess
started = subprocess.Popen


def start(*args, **options):
    process = started(*args, **options)
    os.kill(os.getpid(), signal.SIGINT)
    return process


subprocess.Popen = start
try:
    nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 3\\n", cache=False)
except KeyboardInterrupt:
    print("stopped again")
subprocess.Popen = started
try:
    nnmagic.compile(source, namespace={"constant": 2.0}, target={"kind": "rocm"}, cache=False)
except nnmagic.EngineError as error:
    print(type(error).__name__)
sys.exit(7)
"""


@pytest.mark.full
@SIGNALS
def test_a_compilation_that_hangs_is_left_and_others_go_on():
    """They run in another process, as long as the thread that hangs is there."""
    done = run(STUCK)
    expected = "stopped\n[6. 6.]\n55\nstopped again\nEngineError\n"
    assert (done.returncode, done.stdout) == (7, expected), done.stderr[-2000:]


LONG = """
import faulthandler, os, signal, threading
import numpy as np
import nnmagic
from tests.child_process import PATIENCE

faulthandler.dump_traceback_later(200 * PATIENCE, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
text = "def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n"
nnmagic.compile(text, cache=False)
threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    nnmagic.compile({source!r}, cache=False)
    threading.Event().wait()
except KeyboardInterrupt:
    print("stopped")
print(nnmagic.compile(text.replace("1", "5"), cache=False)(np.ones(2, "f")))
"""

SOURCES = {
    "many parts": "def f(x: Tensor[(5000,), f32]):\n    return split(x, 5000)[3]\n",
    "a large window": (
        "def f(x: Tensor[(1, 1, 600, 600), f32], w: Tensor[(1, 1, 512, 512), f32]):\n"
        "    return conv2d(x, w)\n"
    ),
    "a grid of named sizes": (
        'def f(x: Tensor[("n",), f32], y: Tensor[("m",), f32], z: Tensor[("k",), f32]):\n'
        "    return meshgrid(x, y, z)\n"
    ),
}


@SIGNALS
@pytest.mark.full
@pytest.mark.parametrize("name", SOURCES)
def test_long_compilations_are_interrupted(name):
    done = run(LONG.format(source=SOURCES[name]))
    assert (done.returncode, done.stdout) == (0, "stopped\n[6. 6.]\n"), done.stderr[-2000:]


def test_an_interrupt_in_the_making_of_a_class_is_an_interrupt():
    class Interrupted:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    @short_errors
    def load():
        return type("Loaded", (), {"field": Interrupted()})

    with pytest.raises(KeyboardInterrupt):
        load()


ENDING = """
import sys, threading, time
import nnmagic
from nnmagic.progress import listen

begun = threading.Event()


def tell(stage, *_):
    if stage == sys.argv[1]:
        begun.set()


def compile():
    lines = "".join(f"    x = tanh(x @ x[:, :{size}] @ x[:{size}]).cumsum(axis=0)\\n" for size in range(3, 9))
    with listen(tell):
        nnmagic.compile(f"def f(x: Tensor[('n', 'n'), f32]):\\n{lines}    return x\\n", cache=False)


threading.Thread(target=compile, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


@pytest.mark.full
@pytest.mark.parametrize(("stage", "delay"), [("Relax", "0.1"), ("Relax", "0.5"), ("machine code", "0.2")])
def test_the_interpreter_ends_while_another_thread_compiles(stage: str, delay: str) -> None:
    """The thread comes back to Python from C++ meanwhile, and sleeps until the process is gone."""
    done = run(ENDING, stage, delay)
    assert (done.returncode, done.stderr) == (7, "")


def test_an_interrupt_that_python_ignores_is_raised_in_the_end() -> None:
    """What it calls as objects are freed, it ignores exceptions of: an interrupt that came there was lost."""

    class Freed:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    released = threading.Event()

    @short_errors
    def work() -> None:
        Freed()

    @short_errors
    def work_and_wait() -> None:
        Freed()
        on_another_thread(released.wait, 20)

    try:
        for each in (work, work_and_wait):
            with pytest.raises(KeyboardInterrupt):
                each()
        assert not released.is_set()
    finally:
        released.set()
