"""Judge many programs in processes of their own, so that a crash or a hang is a fault like others."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.random_programs.families import family_of
from tests.random_programs.judges import judge
from tests.random_programs.program import Program
from tests.random_programs.shrink import shrink

ROOT = Path(__file__).parents[2]
#: A program that has not ended by then waits for something that does not come.
_PATIENCE = 300
#: After so many programs a process ends, and its memory with it.
_PROGRAMS_OF_A_PROCESS = 150
#: How long a new fault is made small.
_SECONDS_TO_SHRINK = 20.0


@dataclass(frozen=True)
class Job:
    """Which programs are judged: those of some families, in turn, from a seed on."""

    families: tuple[str, ...]
    first: int
    judges: tuple[str, ...] = ()

    def program(self, number: int) -> Program:
        """Return the program of a number. Raises what its family raises."""
        name = self.families[number % len(self.families)]
        return family_of(name).write(self.first + number // len(self.families))

    def name(self, number: int) -> str:
        """Return how the program of a number is named."""
        return f"{self.families[number % len(self.families)]}:{self.first + number // len(self.families)}"

    def judges_of(self, number: int) -> tuple[str, ...]:
        return self.judges or family_of(self.families[number % len(self.families)]).judges

    @property
    def arguments(self) -> list[str]:
        """The job as arguments of the command."""
        judges = [text for name in self.judges for text in ("--judge", name)]
        return [*self.families, "--seed", str(self.first), *judges]


@dataclass
class Report:
    """What a search has found: the first program of each fault, and how often there is one like it."""

    log: TextIO | None = None  # where each new fault is shown at once
    programs: int = 0
    shown: dict[str, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, line: Mapping[str, object]) -> None:
        """Add what one process tells of one program."""
        self.programs += 1
        self.counts.update(line.get("counts", {}))  # type: ignore[arg-type]
        for kind, shown in line.get("faults", []):  # type: ignore[attr-defined]
            self.faults[kind] += 1
            if kind not in self.shown:
                self.shown[kind] = f"{line['name']}\n{shown}"
                self.note(f"## {kind}\n{self.shown[kind]}\n")

    def note(self, text: str) -> None:
        if self.log is not None:
            self.log.write(f"{text}\n")
            self.log.flush()

    def write(self, out: TextIO) -> int:
        """Write faults and counts; return the number of different faults."""
        for kind, count in self.faults.most_common():
            out.write(f"## {kind} ({count})\n{self.shown[kind]}\n\n")
        out.writelines(f"{count:7} {what}\n" for what, count in self.counts.most_common())
        out.write(f"## {self.programs} programs; {len(self.faults)} different faults\n")
        return len(self.faults)


def work(job: Job, first: int, count: int) -> None:
    """Judge programs and tell of each in a line of JSON, before and after."""
    known: set[str] = set()
    for number in range(first, first + count):
        name = job.name(number)
        _tell({"begin": number, "name": name})
        judges = job.judges_of(number)
        try:
            verdict = judge(job.program(number), judges)
        except Exception as error:  # noqa: BLE001  # a type or a value that the writer cannot believe
            faults = [[f"not written: {type(error).__name__}", str(error)]]
            _tell({"number": number, "name": name, "faults": faults, "counts": {}})
            continue
        faults = []
        for fault in verdict.faults:
            shown = fault if fault.kind in known else shrink(fault, judges, _SECONDS_TO_SHRINK)
            known.add(fault.kind)
            faults.append([fault.kind, str(shown)])
        counts = {f"{outcome}: {what}": n for (outcome, what), n in verdict.counts.items()}
        _tell({"number": number, "name": name, "faults": faults, "counts": counts})


def _tell(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def search(job: Job, count: int, seconds: float = float("inf"), log: TextIO | None = None) -> Report:
    """Judge so many programs of each family, as many as there is time for."""
    report, end, number = Report(log), time.monotonic() + seconds, 0
    total = count * len(job.families)
    while number < total and time.monotonic() < end:
        most = min(_PROGRAMS_OF_A_PROCESS, total - number)
        number = _search_in_process(report, job, number, most, end)
        report.note(f"{report.programs} programs, {len(report.faults)} different faults")
    return report


def _search_in_process(report: Report, job: Job, first: int, count: int, end: float) -> int:
    """Judge programs in one process; return the next number."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.random_programs", *job.arguments]
    command += ["--work", str(first), "--count", str(count)]
    lines: queue.Queue[str | None] = queue.Queue()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        errors: list[str | None] = []
        threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True).start()
        threading.Thread(target=_read, args=(process.stderr, errors.append), daemon=True).start()
        number, ended = first, False
        while True:
            try:
                text = lines.get(timeout=_PATIENCE)
            except queue.Empty:
                process.kill()
                continue
            if text is None:
                break
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            number, ended = (line["begin"], False) if "begin" in line else (line["number"], True)
            if ended:
                report.add(line)
                if time.monotonic() > end:
                    process.kill()
                    break
    if not ended:
        last = "".join(filter(None, errors))[-1500:]
        kind = f"the process ends with {process.returncode}"
        report.add({"name": job.name(number), "faults": [[kind, f"{job.program(number).source}{last}"]]})
    return number + 1


def _read(stream: TextIO | None, put: Callable[[str | None], None]) -> None:
    assert stream is not None
    for line in stream:
        put(line)
    put(None)


def shrink_named(name: str, judges: Sequence[str]) -> list[str]:
    """Return the faults of ``FAMILY:SEED``, each with a program from which nothing can be left out."""
    family_name, _, seed = name.partition(":")
    family = family_of(family_name)
    asked = judges or family.judges
    faults = judge(family.write(int(seed)), asked).faults
    return [str(shrink(fault, asked, seconds=600)) for fault in faults]
