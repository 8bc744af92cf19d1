"""An interrupt while TVM is imported, in a child: what is compiled afterwards works."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, threading
import numpy as np
import nnmagic

signal.signal(signal.SIGINT, signal.default_int_handler)
text = "def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n"
threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    nnmagic.compile(text, cache=False)
    threading.Event().wait(5)
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
        timeout=120,
        check=False,
    )
    assert done.stdout == "stopped\n[2. 2.]\n", done.stderr[-2000:]
