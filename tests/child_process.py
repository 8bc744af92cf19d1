"""Run Python in a process of its own, from the root of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]

#: How many times as long as usual tests wait for other processes: more than 1 on an emulated machine.
PATIENCE = float(os.environ.get("NNMAGIC_TEST_PATIENCE") or 1)


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter with these arguments and changes of the environment; it must end well.

    If it does not, the error shows its last lines, of which a child that may crash prints one for each case.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900 * PATIENCE,
        check=False,
    )
    last = done.stdout.strip().rsplit("\n", maxsplit=1)[-1]
    assert done.returncode == 0, f"exit status {done.returncode}, the last was {last}\n{done.stderr[-3000:]}"
    return done
