"""Interrupt compilations and calls at random moments: ``python -m tests.interrupts --seed 0 --count 1000``.

Each interrupt must end what runs within a second, leave the notebook's names and the cache as they were, and
leave nothing running. The times that are told are true ones; a busy machine makes them longer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interrupts.programs import PROGRAMS

_ROOT = Path(__file__).parents[2]
#: After how many seconds a process counts as one that hangs, and an interrupt as lost.
_HANG, _LOST = 90.0, 20.0
#: How many seconds after its begin a call is interrupted at the latest.
_LATEST_CALL = 0.6


class HangError(Exception):
    """A process does not answer, or has ended."""


class Child:
    """A process with a notebook."""

    def __init__(self, folder: Path) -> None:
        self.errors = (folder / "errors").open("w+")
        environment = {**os.environ, "NNMAGIC_CACHE_DIR": str(folder / "cache"), "PYTHONFAULTHANDLER": "1"}
        command = [sys.executable, "-W", "ignore", "-m", "tests.interrupts.child"]
        self.process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self.answer()

    def ask(self, *command: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self, seconds: float = _HANG) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise HangError(self.last_words(hangs=not ready))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def interrupt(self) -> tuple[float, dict[str, Any]]:
        """Send an interrupt, again if it is lost, and return when it was sent first, and the answer."""
        sent = time.monotonic()
        for _ in range(4):
            self.process.send_signal(signal.SIGINT)
            ready, _, _ = select.select([self.process.stdout], [], [], _LOST)
            if ready:
                break
        return sent, self.answer()

    def last_words(self, *, hangs: bool) -> str:
        if hangs:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
        else:
            self.process.wait(10)
        self.errors.seek(0)
        status = "hangs" if hangs else f"ended with {self.process.returncode}"
        return f"{status}\n{self.errors.read()[-6000:]}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()


@dataclass
class Report:
    """What became of the interrupts."""

    sent: Counter[str] = field(default_factory=Counter)
    latencies: list[tuple[float, str]] = field(default_factory=list)
    idles: list[tuple[float, str]] = field(default_factory=list)
    nexts: list[tuple[float, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def note(self, where: str, sent: float, answer: dict[str, Any]) -> None:
        if answer["stopped"] - sent > _LOST:
            self.faults.append(f"{where}: an interrupt was lost")
        self.sent["late" if answer["finished"] else where.partition(" ")[0]] += 1
        self.latencies.append((answer["stopped"] - sent, where))
        self.idles.append((answer["idle"], where))
        self.nexts.append((answer["next"], where))
        self.faults += [f"{where}: {fault}" for fault in answer["faults"]]

    def text(self) -> str:
        lines = [f"interrupts: {self.sent.total()} ({dict(self.sent)}), faults: {len(self.faults)}"]
        for name, times in (
            ("until the interrupt is raised", self.latencies),
            ("until nothing runs", self.idles),
            ("the next cell", self.nexts),
        ):
            ordered = sorted(times, reverse=True)
            middle = ordered[len(ordered) // 2][0] if ordered else 0.0
            lines.append(f"{name}: median {middle:.3f} s, over 1 s: {sum(each > 1 for each, _ in times)}")
            lines += [f"    {seconds:.3f} s {where}" for seconds, where in ordered[:5]]
        return "\n".join([*lines, *self.faults])


def interrupt(seed: int, count: int, names: list[str], *, is_told: bool = False) -> Report:
    """Send so many interrupts, to each program in turn."""
    chance, report = random.Random(seed), Report()
    chosen = [number for number, each in enumerate(PROGRAMS) if not names or each.name in names]
    chance.shuffle(chosen)
    rounds = [count // len(chosen) + (place < count % len(chosen)) for place in range(len(chosen))]
    with tempfile.TemporaryDirectory() as folder:
        child: Child | None = None
        try:
            for number, times in zip(chosen, rounds, strict=True):
                child = _interrupt_program(
                    child, Path(folder), number, times, chance, report, is_told=is_told
                )
        finally:
            if child is not None:
                child.end()
    return report


def _interrupt_program(
    child: Child | None,
    folder: Path,
    number: int,
    times: int,
    chance: random.Random,
    report: Report,
    *,
    is_told: bool,
) -> Child | None:
    name = PROGRAMS[number].name
    taken, seconds = False, 0.0
    for turn in range(times):
        kind = "compile" if turn % 2 == 0 else "call"
        where = f"{kind} {name}"
        try:
            child = child or Child(folder)
            if not taken:
                seconds, taken = child.ask("take", number)["compile"], True
            child.ask("interrupted", kind)
            delay = chance.random() * (seconds * 1.1 if kind == "compile" else _LATEST_CALL)
            time.sleep(delay)
            sent, answer = child.interrupt()
        except HangError as error:
            report.faults.append(f"{where}: {error}")
            if child is not None:
                child.end()
            child, taken = None, False
            continue
        report.note(f"{where} (after {delay:.3f} s)", sent, answer)
        if is_told:
            told = (
                f"{where}: {answer['stopped'] - sent:.3f} idle {answer['idle']:.3f} next {answer['next']:.3f}"
            )
            sys.stdout.write(f"{told} {answer['faults'] or ''}\n")
            sys.stdout.flush()
    return child


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--program", action="append", default=[], help="only the program of this name")
    parser.add_argument("--tell", action="store_true", help="write a line for each interrupt")
    given = parser.parse_args()
    report = interrupt(given.seed, given.count, given.program, is_told=given.tell)
    sys.stdout.write(report.text() + "\n")
    return int(bool(report.faults))


if __name__ == "__main__":
    sys.exit(main())
