"""Long compilations and calls in a live notebook: what they show meanwhile, what an interrupt leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_client.win_interrupt import send_interrupt
from jupyter_core.utils import ensure_event_loop

import nnmagic

#: Many kernels, each of other shapes: some seconds of work for TVM.
FUNCTIONS = "\n".join(
    f"def g{size}(x: Tensor[({size}, 7), f32]):\n    return (x @ x.T).softmax(axis=-1).sum(axis=0)\n"
    for size in range(3, 36)
)
LOOP = (
    "%%tinynn -q\ndef loop(x: f32, n: i32):\n"
    "    while n > 0:\n        x = x.sin() + 1\n        n = n - 1\n    return x"
)
#: How the path of a file of nnmagic's own shows in a traceback.
FRAMES = os.path.join(*Path(nnmagic.__file__).parts[-3:-1], "")  # noqa: PTH118 - with a separator at its end
pytestmark = pytest.mark.full


class Kernel:
    """A kernel with a front end, in which somebody could type."""

    def __init__(self) -> None:
        self.manager: KernelManager
        self.manager, self.client = start_new_kernel(startup_timeout=300, kernel_name="python3")
        self.pid = self.manager.provisioner.pid

    def interrupt(self) -> None:
        """Do what a front end's button for it does."""
        if sys.platform == "win32":
            send_interrupt(self.manager.provisioner.process.win32_interrupt_event)
        else:
            os.kill(self.pid, signal.SIGINT)

    def run(
        self, code: str, *, interrupt_after: float | None = None, live: bool = True
    ) -> tuple[Any, list[Any]]:
        """The reply, and the messages in between."""
        messages: list[Any] = []
        timer = threading.Timer(interrupt_after or 0.0, self.interrupt)

        def note(message: Any) -> None:
            if message["msg_type"] == "execute_input" and interrupt_after is not None:
                timer.start()  # the kernel begins to run the cell
            messages.append(message)

        try:
            reply = self.client.execute_interactive(code, timeout=300, allow_stdin=live, output_hook=note)
        finally:
            timer.cancel()
        return reply["content"], messages

    def value(self, expression: str) -> str:
        reply = self.client.execute("", user_expressions={"value": expression}, reply=True, timeout=300)
        return reply["content"]["user_expressions"]["value"]["data"]["text/plain"]


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    try:
        made.run("%load_ext nnmagic\nfrom nnmagic.functions.compile_cell import MEMORY")
        made.run("%%tinynn -q\ndef g3(x: f32):\n    return x + 1")
        yield made
    finally:
        made.client.stop_channels()
        made.manager.shutdown_kernel(now=True)
        ensure_event_loop().close()  # which the client has made


def traceback_of(reply: Any) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))


def kinds(messages: list[Any]) -> list[str]:
    return [each["msg_type"] for each in messages if each["msg_type"] not in ("status", "execute_input")]


def test_an_interrupt_leaves_all_names_and_the_cache(kernel: Kernel) -> None:
    before = kernel.value("g3.__relay_key__, MEMORY.statistics.entries")
    for seconds in (0.3, 0.6, 0.9):
        reply, _ = kernel.run(f"%%tinynn -q --no-cache\n{FUNCTIONS}", interrupt_after=seconds)
        assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
        assert traceback_of(reply) == "KeyboardInterrupt: the %%tinynn cell was stopped; it has bound nothing"
        assert kernel.value("g3.__relay_key__, MEMORY.statistics.entries") == before
        assert kernel.value("'g4' in globals(), g3(1.0).item()") == "(False, 2.0)"


def test_an_interrupt_ends_a_call(kernel: Kernel) -> None:
    kernel.run(LOOP)
    reply, _ = kernel.run("result = loop(1.0, 2_000_000_000)", interrupt_after=0.5)
    assert reply["ename"] == "KeyboardInterrupt"
    assert "----> 1 result = loop(1.0, 2_000_000_000)" in traceback_of(reply)
    assert ".py" not in traceback_of(reply), "no frame below the user's"
    assert kernel.value("'result' in globals(), loop(0.0, 1).item()") == "(False, 1.0)"


def test_developers_see_where_an_interrupt_came(kernel: Kernel) -> None:
    reply, _ = kernel.run(f"%%tinynn -q --no-cache --tb\n{FUNCTIONS}", interrupt_after=0.6)
    assert "magics.py" in traceback_of(reply)
    kernel.run(LOOP)
    kernel.run("%config TinyNNMagics.tb = True")
    try:
        reply, _ = kernel.run("loop(1.0, 2_000_000_000)", interrupt_after=0.5)
        assert "native_entry" in traceback_of(reply)
    finally:
        kernel.run("%config TinyNNMagics.tb = False")


def test_a_mistake_in_what_is_to_be_profiled_shows_no_frames(kernel: Kernel) -> None:
    kernel.run(LOOP)
    for call, words in (
        ("nothing(1.0)", "NameError: name 'nothing' is not defined"),
        ("loop(1 / 0, 1)", "ZeroDivisionError: division by zero"),
        ("loop('x', 1)", "TypeError: loop() argument 'x' must be"),
    ):
        reply, _ = kernel.run(f"%tinynn profile {call}")
        assert words in traceback_of(reply)
        assert FRAMES not in traceback_of(reply), "no frame of its own"


def test_progress_is_shown_and_taken_away(kernel: Kernel) -> None:
    reply, messages = kernel.run(f"%%tinynn --no-cache --show relay\n{FUNCTIONS}")
    assert reply["status"] == "ok", reply
    sent = kinds(messages)
    assert sent[0] == "display_data"
    assert sent[-2:] == ["clear_output", "display_data"], "the text of the cell comes after it"
    assert set(sent[1:-2]) <= {"update_display_data"}
    first = next(each for each in messages if each["msg_type"] == "display_data")
    assert first["content"]["data"]["text/plain"].startswith("compiling: ")
    assert "<progress" in first["content"]["data"]["text/html"]


def test_the_first_cell_says_that_it_loads_the_compiler() -> None:
    code = (
        "import sys, nnmagic\nfrom nnmagic.progress import listen\n"
        "def note(stage, done, total):\n    print(stage, 'tvm' in sys.modules)\n"
        "for _ in range(2):\n    with listen(note):\n"
        "        nnmagic.compile('def f(x: f32):\\n    return x + 1', cache=False).build()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    first = ["types False", "loading the compiler False", "Relax True", "machine code True", "kernels True"]
    again = ["types True", "Relax True", "machine code True", "kernels True"]
    assert ran.stdout.splitlines() == first + again


def test_no_progress_where_nobody_looks_on(kernel: Kernel) -> None:
    reply, messages = kernel.run(f"%%tinynn -q --no-cache\n{FUNCTIONS}", live=False)
    assert reply["status"] == "ok", reply
    assert kinds(messages) == []
