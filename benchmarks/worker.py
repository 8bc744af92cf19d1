"""Measures rows in a process of its own, which is held to so many threads from its start.

``python -m benchmarks.worker JSON`` writes a line of JSON when it begins a row, and one when the row is done.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TextIO

import numpy as np

from benchmarks import peers
from benchmarks.case import CONTESTANTS, OURS, Case, Compilation, Memory, Program, Row
from benchmarks.measure import FULL, QUICK, SHORT, Settings, Timing, measure

_SEED = 20
Makers = Mapping[str, Callable[[peers.Problem], peers.Ready]]


def judge(result: np.ndarray, expected: np.ndarray, tolerance: float) -> str | None:
    """What is wrong with a result, if anything is."""
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, not {expected.shape}"
    if not result.size:
        return None
    scale = float(np.abs(expected).max()) or 1.0
    error = float(np.abs(result.astype("float64") - expected).max()) / scale
    return None if error <= tolerance else f"the error is {error:.1e}, allowed is {tolerance:.0e}"


@dataclass(slots=True)
class _Field:
    """Who takes part in a row. absent: why somebody does not; wrong: what is wrong with a result."""

    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def admit(
        self, name: str, make: Callable[[], peers.Ready], expected: np.ndarray, tolerance: float
    ) -> None:
        """Takes a contestant whose results are right, at the first call and at the second."""
        try:
            ready = make()
            results = [np.array(ready.read(ready.call())) for _ in range(2)]
        except peers.AbsentError as why:
            self.absent[name] = str(why)
        except Exception as error:  # noqa: BLE001 - a contestant that fails must not end the others' run
            failures = self.wrong if name == OURS else self.absent
            failures[name] = f"failed: {type(error).__name__}: {str(error)[:300]}"
        else:
            problems = [judge(each, expected, tolerance) for each in results]
            if any(problems):
                self.wrong[name] = next(filter(None, problems))
            else:
                self.calls[name] = ready.call


def row_result(
    row: Row,
    threads: int,
    wanted: tuple[str, ...] = CONTESTANTS,
    settings: Settings = FULL,
    makers: Makers = peers.MAKERS,
) -> dict[str, Any]:
    """A row: each contestant's timing, or why it has none; only who computes right is timed."""
    if isinstance(row, Memory):
        return _memory_result(row, threads, wanted)
    if isinstance(row, Case):
        taking_part = _field_of_case(row, threads, wanted, makers)
    elif isinstance(row, Program):
        taking_part = _field_of_program(row, threads, wanted)
    else:
        settings = replace(settings, rounds=(3, settings.rounds[1]))  # some take seconds
        taking_part = _field_of_compilation(row, wanted)
    timings = measure(taking_part.calls, settings) if taking_part.calls else {}
    return {
        "name": row.name,
        "family": row.family,
        "threads": threads,
        "timings": {name: asdict(timing) for name, timing in timings.items()},
        "absent": taking_part.absent,
        "wrong": taking_part.wrong,
    }


def _memory_result(row: Memory, threads: int, wanted: tuple[str, ...]) -> dict[str, Any]:
    """A row of bytes, which stand where others have seconds."""
    from benchmarks.memory import peak_bytes

    timings, absent = {}, {}
    for name in wanted:
        if name in row.peers:
            try:
                size = float(peak_bytes(row.of.name, name, threads))
            except peers.AbsentError as why:
                absent[name] = str(why)
            else:
                timings[name] = asdict(Timing(size, size, size, size, 1, 1, 1.0))
    return {
        "name": row.name,
        "family": row.family,
        "threads": threads,
        "unit": "bytes",
        "timings": timings,
        "absent": absent,
        "wrong": {},
    }


def _field_of_case(case: Case, threads: int, wanted: tuple[str, ...], makers: Makers) -> _Field:
    generator = np.random.default_rng(_SEED)
    arguments, constants = case.arguments(generator), case.constants(generator)
    arrays = (*arguments.values(), *constants.values())
    exact = [array.astype("float64") if array.dtype.kind == "f" else array for array in arrays]
    expected = peers.joined(case.numpy(*peers.numbers_of(exact)))
    dtype = next(iter(arguments.values())).dtype if expected.dtype.kind == "f" else expected.dtype
    problem = peers.Problem(case, arguments, constants, np.empty(expected.shape, dtype), threads)
    taking_part = _Field()
    for name in wanted:
        if name in case.peers:
            taking_part.admit(name, partial(makers[name], problem), expected, case.tolerance)
    return taking_part


def _field_of_program(row: Program, threads: int, wanted: tuple[str, ...]) -> _Field:
    arguments = row.arguments(np.random.default_rng(_SEED))
    taking_part = _Field()
    try:
        expected = row.expected(arguments)
    except peers.AbsentError as why:
        taking_part.absent |= {name: f"the judge: {why}" for name in wanted if name in row.runs}
        return taking_part
    for name in wanted:
        if name in row.runs:
            make = partial(row.runs[name], arguments, threads)
            taking_part.admit(name, make, expected, row.tolerance)
    return taking_part


def _field_of_compilation(row: Compilation, wanted: tuple[str, ...]) -> _Field:
    expected = row.expected()
    taking_part = _Field()
    for name in wanted:
        if name in row.runs:
            taking_part.admit(name, partial(_ready, row.runs[name]), expected, row.tolerance)
    return taking_part


def _ready(make: Callable[[], Callable[[], Any]]) -> peers.Ready:
    return peers.Ready(make(), np.asarray)


def _run(task: dict[str, Any], lines: TextIO) -> None:
    from benchmarks.cases import ROWS
    from benchmarks.peak import peak

    warnings.simplefilter("ignore")  # the peers' own
    wanted = tuple(task["peers"])

    def say(**what: object) -> None:
        print(json.dumps(what), file=lines, flush=True)

    rows = {row.name: row for row in ROWS}
    if task["peak"]:
        say(begun="peak")
        say(peak=peak(task["threads"], wanted))
    for name in task["rows"]:
        say(begun=name)
        usual = SHORT if rows[name].family in ("vocabulary", "programs") else FULL
        settings = QUICK if task["quick"] else usual
        say(row=row_result(rows[name], task["threads"], wanted, settings))


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w") as real_output:
        os.dup2(2, 1)  # whatever a peer prints is no line of ours
        _run(json.loads(sys.argv[1]), real_output)
