"""Long compilations and calls in a live notebook: what they show meanwhile, what an interrupt leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import nnmagic
from tests.kernels import Kernel, Message, error, traceback_text

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


@pytest.fixture(scope="module")
def kernel(kernel: Kernel) -> Kernel:
    kernel.run("%load_ext nnmagic\nfrom nnmagic.functions.cells.compile_cell import MEMORY")
    kernel.run("%%tinynn -q\ndef g3(x: f32):\n    return x + 1")
    return kernel


def interrupted(kernel: Kernel, code: str, seconds: float) -> list[nbformat.NotebookNode]:
    """Return the outputs of a cell that somebody stops so many seconds after it has begun."""
    return kernel.run(code, allow_errors=True, live=True, interrupt_after=seconds)


def kinds(messages: list[Message]) -> list[str]:
    return [each["msg_type"] for each in messages if each["msg_type"] not in ("status", "execute_input")]


def test_an_interrupt_leaves_all_names_and_the_cache(kernel: Kernel) -> None:
    before = kernel.value("g3.__relay_key__, MEMORY.statistics.entries")
    for seconds in (0.3, 0.6, 0.9):
        stopped = error(interrupted(kernel, f"%%tinynn -q --no-cache\n{FUNCTIONS}", seconds))
        assert stopped.ename == "KeyboardInterrupt"
        assert (
            traceback_text(stopped)
            == "KeyboardInterrupt: the %%tinynn cell was stopped; it has bound nothing"
        )
        assert kernel.value("g3.__relay_key__, MEMORY.statistics.entries") == before
        assert kernel.value("'g4' in globals(), g3(1.0).item()") == "(False, 2.0)"


def test_an_interrupt_ends_a_call(kernel: Kernel) -> None:
    kernel.run(LOOP)
    stopped = error(interrupted(kernel, "result = loop(1.0, 2_000_000_000)", 0.5))
    assert stopped.ename == "KeyboardInterrupt"
    assert "----> 1 result = loop(1.0, 2_000_000_000)" in traceback_text(stopped)
    assert ".py" not in traceback_text(stopped), "no frame below the user's"
    assert kernel.value("'result' in globals(), loop(0.0, 1).item()") == "(False, 1.0)"


def test_an_interrupt_after_names_are_bound_says_so(kernel: Kernel) -> None:
    kernel.run(
        "from nnmagic.jupyter.changes import Changes\nusual = Changes.remember\n"
        "def stop(*_):\n    raise KeyboardInterrupt\nChanges.remember = stop"
    )
    try:
        cell = "%%tinynn -q\ndef bound(x: f32):\n    return x + 1"
        stopped = error(kernel.run(cell, allow_errors=True))
    finally:
        kernel.run("Changes.remember = usual")
    text = traceback_text(stopped)
    assert text == "KeyboardInterrupt: the %%tinynn cell was stopped; it has bound its names"
    assert kernel.value("bound(1.0).item()") == "2.0"


@pytest.mark.full
def test_developers_see_where_an_interrupt_came(kernel: Kernel) -> None:
    stopped = error(interrupted(kernel, f"%%tinynn -q --no-cache --tb\n{FUNCTIONS}", 0.6))
    assert "magics.py" in traceback_text(stopped)
    kernel.run(LOOP)
    kernel.run("%config TinyNNMagics.tb = True")
    try:
        stopped = error(interrupted(kernel, "loop(1.0, 2_000_000_000)", 0.5))
        assert "native_entry" in traceback_text(stopped)
    finally:
        kernel.run("%config TinyNNMagics.tb = False")


def test_a_mistake_in_what_is_to_be_profiled_shows_no_frames(kernel: Kernel) -> None:
    kernel.run(LOOP)
    for call, words in (
        ("nothing(1.0)", "NameError: name 'nothing' is not defined"),
        ("loop(1 / 0, 1)", "ZeroDivisionError: division by zero"),
        ("loop('x', 1)", "TypeError: loop() argument 'x' must be"),
    ):
        text = traceback_text(error(kernel.run(f"%tinynn profile {call}", allow_errors=True)))
        assert words in text
        assert FRAMES not in text, "no frame of its own"


@pytest.mark.full
def test_progress_is_shown_and_taken_away(kernel: Kernel) -> None:
    messages: list[Message] = []
    kernel.run(f"%%tinynn --no-cache --show relay\n{FUNCTIONS}", live=True, listen=messages.append)
    sent = kinds(messages)
    assert sent[0] == "display_data"
    assert sent[-2:] == ["clear_output", "display_data"], "the text of the cell comes after it"
    assert set(sent[1:-2]) <= {"update_display_data"}
    first = next(each for each in messages if each["msg_type"] == "display_data")
    assert first["content"]["data"]["text/plain"].startswith("compiling: ")
    assert "<progress" in first["content"]["data"]["text/html"]


@pytest.mark.full
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


@pytest.mark.full
def test_no_progress_where_nobody_looks_on(kernel: Kernel) -> None:
    messages: list[Message] = []
    kernel.run(f"%%tinynn -q --no-cache\n{FUNCTIONS}", live=False, listen=messages.append)
    assert kinds(messages) == []
