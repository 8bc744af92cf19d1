"""A notebook's process that is interrupted: it reads what to do line by line, and tells what came of it."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from IPython.core.interactiveshell import InteractiveShell

import nnmagic
from nnmagic.cache import disk_cache
from nnmagic.functions.cells.compile_cell import MEMORY
from tests.interrupts.programs import PROGRAMS, Program

#: Names that IPython changes with each cell, and that of a result.
_HISTORY = ("In", "Out", "exit", "quit", "result")


class Notebook:
    """A shell with one of the programs."""

    def __init__(self, answers: io.TextIOBase) -> None:
        self.answers = answers
        self.shell = InteractiveShell.instance()
        self.shell.run_cell("%load_ext nnmagic\nimport numpy as np, nnmagic")
        self.shell.push({"large": np.random.default_rng(0).random(1 << 26, "f")})
        self.program: Program | None = None
        self.expected: Any = None
        self.defined: set[str] = set()
        self.cells = 0

    def run(self, code: str) -> None:
        """Run a cell, and raise what ends it; nothing is shown."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.shell.run_cell(code, store_history=False).raise_error()

    def define(self) -> None:
        """Compile the program anew."""
        assert self.program is not None
        if self.program.load:
            self.run(f"f = {self.program.load}")
        else:
            self.run(f"%%tinynn -q {self.program.options}\n{self.program.cell}")

    def forget(self) -> None:
        MEMORY.clear()
        cache = disk_cache()
        assert cache is not None
        cache.clear()

    def names(self) -> dict[str, int]:
        return {
            name: id(value)
            for name, value in self.shell.user_ns.items()
            if not name.startswith("_") and name not in _HISTORY
        }

    def take(self, number: int) -> None:
        """Compile and call a program undisturbed."""
        for name in self.defined:
            self.shell.user_ns.pop(name, None)
        self.program = PROGRAMS[number]
        self.run(self.program.setup or "None")
        self.forget()
        before, begin = {*self.names()}, time.monotonic()
        self.define()
        self.defined = {"f"} | ({*self.names()} - before)
        self.run("f.build()" if "specialized" not in self.program.name else "None")
        seconds = time.monotonic() - begin
        self.run(f"result = {self.program.short}")
        self.expected = self.shell.user_ns["result"]
        self.run(f"arguments = {self.program.long}")
        self.tell(compile=seconds)

    def interrupted(self, kind: str) -> None:
        """Compile or call, until an interrupt comes."""
        assert self.program is not None
        before, finished, faults = self.names(), False, list[str]()
        if kind == "compile":
            self.forget()
            before = self.names()
        self.tell(begin=True)
        try:
            if kind == "compile":
                self.define()
            else:
                self.run("while True:\n    result = f(*arguments)")
            finished = True
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            stopped = time.monotonic()
        except Exception as error:  # noqa: BLE001 - it is told
            stopped = time.monotonic()
            faults.append(f"it raises {error!r}"[:500])
        changed = {name for name, _ in {*before.items()} ^ {*self.names().items()}}
        finished = finished or (kind == "compile" and changed == self.defined)  # it came after the last step
        if not finished and changed:
            faults.append(f"names have changed: {sorted(changed)}")
        cache = Path(os.environ["NNMAGIC_CACHE_DIR"])
        rest = [path.name for path in cache.glob("*") if path.name.startswith(("partial-", "trash-"))]
        if rest:
            faults.append(f"in the cache: {rest}")
        idle = self.idle_after(stopped)
        following = self.next_cell(faults)
        self.tell(stopped=stopped, finished=finished, idle=idle, next=following, faults=faults)

    def idle_after(self, stopped: float) -> float:
        """Return the seconds from a time until this process works no more."""
        while True:
            before, begin = time.process_time(), time.monotonic()
            time.sleep(0.03)
            if time.process_time() - before < 0.01 or begin - stopped > 60:
                return begin - stopped

    def next_cell(self, faults: list[str]) -> float:
        """Compile a new cell, call it and the program; return how long the cell takes."""
        assert self.program is not None
        self.cells += 1
        begin = time.monotonic()
        try:
            self.run(f"%%tinynn -q\ndef after(x: Tensor[(2,), f32]):\n    return x * 2 + {self.cells}")
            self.run("shown = after(np.ones(2, 'f')).tolist()")
            seconds = time.monotonic() - begin
            if self.shell.user_ns["shown"] != [2 + self.cells] * 2:
                faults.append("the next cell computes something else")
            if self.cells % 4 == 0:
                self.define()
            self.run(f"result = {self.program.short}")
            np.testing.assert_equal(self.shell.user_ns["result"], self.expected)
        except BaseException as error:  # noqa: BLE001 - it is told
            faults.append(f"after the interrupt: {error!r}"[:500])
            return time.monotonic() - begin
        return seconds

    def tell(self, **answer: object) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()


def main() -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    notebook = Notebook(answers)
    nnmagic.compile("def f(x: f32):\n    return x + 1", cache=False).build()
    notebook.tell(ready=True)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        getattr(notebook, command)(*arguments)


if __name__ == "__main__":
    main()
