"""Judge many random cells in processes of their own, so that a crash or a hang is a fault like others."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.tinynn.random_vocabulary.generator import program
from tests.tinynn.random_vocabulary.judge import Fault, judge_both, minimal

ROOT = Path(__file__).parents[3]
#: A program that has not ended by then waits for something that does not come.
_PATIENCE = 300
#: After so many programs a process ends, and its memory with it.
_PROGRAMS_OF_A_PROCESS = 150
_COUNTERS = ("refusals", "call_errors", "agreed", "compared")


@dataclass
class Report:
    """What a search has found: the first program of each fault, and how often there is one like it."""

    log: TextIO | None = None  # where each new fault is shown at once
    programs: int = 0
    shown: dict[str, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    call_errors: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)

    def add(self, line: Mapping[str, object]) -> None:
        """Add what one process tells of one program."""
        self.programs += 1
        for name in _COUNTERS:
            getattr(self, name).update(line.get(name, {}))
        for signature, shown in line.get("faults", []):  # type: ignore[attr-defined]
            self.faults[signature] += 1
            if signature not in self.shown:
                self.shown[signature] = f"seed {line['seed']}: {shown}"
                self.note(f"## {signature}\n{self.shown[signature]}\n")

    def note(self, text: str) -> None:
        if self.log is not None:
            self.log.write(f"{text}\n")
            self.log.flush()

    def report(self, out: TextIO) -> int:
        """Print faults and tables; return the number of different faults."""
        for signature, count in self.faults.most_common():
            out.write(f"## {signature} ({count})\n{self.shown[signature]}\n\n")
        titles = {
            "refusals": "What nnmagic refuses and NumPy computes",
            "call_errors": "What a call refuses and NumPy computes",
            "agreed": "What both refuse",
        }
        for name, title in titles.items():
            out.write(f"## {title}\n")
            out.writelines(f"{count:6} {key}\n" for key, count in getattr(self, name).most_common())
        out.write(
            f"## {self.programs} programs, {sum(self.compared.values())} results compared, of "
            f"{len(self.compared)} functions; {len(self.faults)} different faults\n"
        )
        return len(self.faults)


def show(fault: Fault) -> str:
    """The program of a fault and what is wrong, as text."""
    return f"\n{fault.program.source}{fault.detail}"


def work(first: int, count: int) -> None:
    """Judge programs and tell of each in a line of JSON, before and after."""
    signatures: set[str] = set()
    for seed in range(first, first + count):
        _tell({"begin": seed})
        verdict = judge_both(program(seed))
        faults = []
        for fault in verdict.faults:
            known = fault.signature in signatures
            signatures.add(fault.signature)
            faults.append([fault.signature, show(fault if known else minimal(fault))])
        counters = {
            name: {
                key if isinstance(key, str) else ": ".join(key): n
                for key, n in getattr(verdict, name).items()
            }
            for name in _COUNTERS
        }
        _tell({"seed": seed, "faults": faults, **counters})


def _with_text_keys(counts: Counter[str] | Counter[tuple[str, str]]) -> dict[str, int]:
    return {key if isinstance(key, str) else ": ".join(key): count for key, count in counts.items()}


def _tell(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def search(first: int, count: int, seconds: float = float("inf"), log: TextIO | None = None) -> Report:
    """Judge the programs of ``count`` seeds, as many as there is time for."""
    report, end, seed = Report(log), time.monotonic() + seconds, first
    while seed < first + count and time.monotonic() < end:
        most = min(_PROGRAMS_OF_A_PROCESS, first + count - seed)
        seed = _search_in_process(report, seed, most, end)
        report.note(f"{report.programs} programs, {len(report.faults)} different faults")
    return report


def _search_in_process(report: Report, first: int, count: int, end: float) -> int:
    """Judge programs in one process; return the next seed."""
    command = [sys.executable, "-m", "tests.tinynn.random_vocabulary", str(first), str(count), "--work"]
    lines: queue.Queue[str | None] = queue.Queue()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        errors: list[str | None] = []
        threading.Thread(target=_read, args=(process.stdout, lines.put), daemon=True).start()
        threading.Thread(target=_read, args=(process.stderr, errors.append), daemon=True).start()
        seed, ended = first, False
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
            seed, ended = (line["begin"], False) if "begin" in line else (line["seed"], True)
            if ended:
                report.add(line)
                if time.monotonic() > end:
                    process.kill()
                    break
    if not ended:
        last = "".join(filter(None, errors))[-1500:]
        crash = f"the process ends with {process.returncode}"
        report.add({"seed": seed, "faults": [[crash, f"\n{program(seed).source}{last}"]]})
    return seed + 1


def _read(stream: TextIO | None, put: Callable[[str | None], None]) -> None:
    assert stream is not None
    for line in stream:
        put(line)
    put(None)
