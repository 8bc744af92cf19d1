"""What debuggers, profilers and coverage see of cells (docs/debuggers.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

PROGRAM = '''
import sys
import nnmagic
import numpy as np

smooth = nnmagic.compile("""def smooth(x: Tensor[("n",), f64], rate: f64):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = rate * y[i - 1] + (1.0 - rate) * x[i]
    if rate > 2.0:
        y = y * 0.5
    return y
""")
x = np.ones(1_000_000)
for _ in range(int(sys.argv[1])):
    smooth(x, 0.5)
'''
#: The number of the line that assigns an element.
LINE = 4


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(command: Sequence[object], program: Path, **variables: str) -> str:
    """Return what a command prints that runs the program with a folder for machine code."""
    environment = {**os.environ, "NNMAGIC_DEBUG_FOLDER": str(program.parent / "cells"), **variables}
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        cwd=program.parent,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def needs(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None or shutil.which("cc") is None:
        pytest.skip(f"{name} or a C compiler is not here")
    return path


def test_gdb_stops_in_a_line_of_a_cell(program: Path) -> None:
    gdb = needs("gdb")
    run([sys.executable, program, 1], program)
    (cell,) = (program.parent / "cells").glob("cell-*.py")
    commands = ["set breakpoint pending on", "set debuginfod enabled off", "break smooth", "run", "bt 1"]
    commands += ["delete", f"break {cell.name}:{LINE}", "continue", "bt 1", "kill"]
    options = [part for command in commands for part in ("-ex", command)]
    shown = run([gdb, "-q", "-batch", *options, "--args", sys.executable, program, 1], program)
    assert f"{cell}:1" in shown
    assert f"{cell}:{LINE}\n{LINE}\t        y[i] = rate * y[i - 1] + (1.0 - rate) * x[i]" in shown


def test_perf_names_the_functions(program: Path) -> None:
    perf = needs("perf")
    record = [perf, "record", "-q", "-o", "perf.data", sys.executable, program, 300]
    try:
        run(record, program)
    except AssertionError as error:
        if "Permission" in str(error) or "not supported" in str(error) or "No permission" in str(error):
            pytest.skip("perf may not measure here")
        raise
    shown = run([perf, "report", "-i", "perf.data", "--stdio", "--sort", "symbol"], program)
    assert re.search(r"^ +\d+\.\d+% +\[\.\] smooth\b", shown, re.MULTILINE), shown[:3000]


def test_py_spy_shows_machine_code_below_python(program: Path) -> None:
    spy = needs("py-spy")
    environment = {**os.environ, "NNMAGIC_DEBUG_FOLDER": str(program.parent / "cells")}
    running = subprocess.Popen([sys.executable, program, "100000"], env=environment)
    try:
        for _ in range(60):
            time.sleep(0.5)
            shown = run([spy, "dump", "--native", "--pid", running.pid], program)
            if "smooth (" in shown:
                break
    finally:
        running.kill()
        running.wait()
    below = shown[shown.index("smooth (") :]
    assert "<module> (program.py" in below or f"<module> ({program}" in below, shown


def test_coverage_counts_the_lines_of_cells(program: Path) -> None:
    pytest.importorskip("coverage")
    python = {"NNMAGIC_AS_PYTHON": "1", "COVERAGE_FILE": str(program.parent / "data")}
    small = program.with_name("small.py")
    small.write_text(PROGRAM.replace("1_000_000", "10"))
    run([sys.executable, "-m", "coverage", "run", "--branch", "--source=.", small, 1], program, **python)
    shown = run([sys.executable, "-m", "coverage", "report", "-m"], program, **python)
    (line,) = (line for line in shown.splitlines() if line.startswith("cells/cell-"))
    assert line.split()[-1] == "6", shown
