"""Interrupts while TVM is imported, and while it compiles, in a child: what is compiled afterwards works."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.4])
def test_the_compiler_can_be_loaded_again(delay):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(delay=delay)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
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
for _ in range(100):
    timer = threading.Timer(chance.random() * most, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        nnmagic.compile(text, cache=False)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        stopped += 1
print(stopped > 30, np.array_equal(nnmagic.compile(text, cache=False)(x), expected))
"""


@pytest.mark.slow
def test_a_compilation_is_interrupted_anywhere():
    """A hundred times: one in a hundred ended the process while exceptions went through TVM's C++."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MANY], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr[-2000:]
