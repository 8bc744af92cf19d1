"""Random programs of branches, loops, calls and recursion over named sizes mean what Python means by them.

NNMAGIC_CONTROL_FLOW_PROGRAMS makes the search longer, NNMAGIC_CONTROL_FLOW_SEED another one. A failure says
the seed; ``random_control_flow.write_program(seed)`` is the cell.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.suites import FULL

PROGRAMS = int(os.environ.get("NNMAGIC_CONTROL_FLOW_PROGRAMS", "16" if FULL else "8"))
SEED = int(os.environ.get("NNMAGIC_CONTROL_FLOW_SEED", "0"))
#: A child process judges so many: a crash says which program it was.
BATCH = 8


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEED, SEED + PROGRAMS, BATCH))
def test_programs_run_as_python_runs(first: int) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.engine.relax.codegen.aot.random_control_flow",
        str(first),
        str(BATCH),
    ]
    child = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert child.returncode == 0, f"{child.stdout[-6000:]}\n{child.stderr[-2000:]}"
