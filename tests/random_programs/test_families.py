"""Programs of each family are right, by the judges of the family; ``make fuzz`` searches for longer.

A failure names the family and the seed: ``python -m tests.random_programs --shrink FAMILY:SEED`` makes the
program small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.child_process import run_python
from tests.engine.relax.legalize.test_rules_robust import checked_memory
from tests.random_programs.families import NAMES, family_of
from tests.random_programs.judges import judge
from tests.random_programs.search import Job, search

#: The judges that need no compiler, of each family.
INTERPRETED = {
    "assignments": ("numpy",),
    "changing_sizes": ("numpy",),
    "control_flow": ("numpy",),
    "gradients": ("differences of numpy",),
    "graphs": ("reference",),
    "language": ("module", "numpy"),
    "parallel_loops": ("races",),
    "python": ("numpy",),
    "relay": ("reference",),
    "sized_nests": ("numpy",),
    "tensors": ("steps of numpy",),
    "views": ("numpy",),
    "vocabulary": ("steps of numpy",),
}
#: How many programs of each family the full suite judges in processes of their own.
SEARCHED = {
    "assignments": 3,
    "changing_sizes": 2,
    "control_flow": 1,
    "gradients": 1,
    "graphs": 5,
    "language": 3,
    "parallel_loops": 10,
    "python": 3,
    "relay": 3,
    "sized_nests": 1,
    "tensors": 2,
    "views": 2,
    "vocabulary": 2,
}
#: How many programs of each family the interpreter runs in a usual run; others: 4.
DEFAULT = {
    "assignments": 10,
    "control_flow": 6,
    "gradients": 2,
    "language": 4,
    "parallel_loops": 50,
    "python": 2,
    "tensors": 8,
}
#: Programs that are compiled in less than a second of the processor.
COMPILED = [
    ("assignments", 7),
    ("changing_sizes", 0),
    ("control_flow", 0),
    ("language", 3),
    ("tensors", 10),
    ("views", 0),
    *(("graphs", seed) for seed in range(2)),
    ("relay", 0),
    ("vocabulary", 1),
    ("parallel_loops", 3),
]


def test_each_family_has_judges() -> None:
    assert set(INTERPRETED) == set(SEARCHED) == set(NAMES)
    assert all(family_of(name).judges for name in NAMES)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_a_seed_always_gives_the_same_program(name: str, seed: int) -> None:
    one, other = (family_of(name).write(seed) for _ in range(2))
    assert one.source == other.source
    assert repr(one.calls) == repr(other.calls)


@pytest.mark.full
def test_programs_do_not_depend_on_the_order_of_sets() -> None:
    code = f"""from tests.random_programs.families import family_of
for name in {NAMES}: print(family_of(name).write(7).source)"""
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for number in "12"
    }
    assert len(texts) == 1


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_programs_are_right_for_the_interpreter(name: str, part: int) -> None:
    for seed in range(part, DEFAULT.get(name, 4), 4):
        check(name, seed, INTERPRETED[name])


@pytest.mark.parametrize(("name", "seed"), COMPILED)
def test_programs_are_right_for_compiled_code(name: str, seed: int) -> None:
    check(name, seed, family_of(name).judges[-1:])


def check(name: str, seed: int, judges: tuple[str, ...]) -> None:
    program = family_of(name).write(seed)
    faults = judge(replace(program, calls=program.calls[:2]), judges).faults
    assert not faults, f"{name}:{seed} {faults[0]}"


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_a_search_finds_nothing(name: str) -> None:
    count = SEARCHED[name]
    report = search(Job((name,), 100), count)
    assert not report.shown, "\n\n".join(report.shown.values())
    assert report.programs == count


@pytest.mark.full
def test_no_race_is_taken() -> None:
    """The judge runs the nests and records which rounds use which elements."""
    counts = search(Job(("parallel_loops",), 0, ("races",)), 200).counts
    assert counts["taken: without a race"] >= 50
    assert counts["refused: races"] >= 50
    # What is refused without a race needs more than the source: an index that might be negative, `i // 2`.
    assert counts["refused: without a race"] <= 80


@pytest.mark.full
def test_graphs_write_no_memory_but_theirs() -> None:
    run_python("-m", "tests.random_programs", "graphs", "--seed", "1000", "--count", "16", **checked_memory())
