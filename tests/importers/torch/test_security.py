"""docs/security.md on PyTorch's programs: a module's Python is run, an exported program's is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


#: What the module's own Python has done.
_RUNS: list[str] = []


def _note(x: torch.Tensor) -> torch.Tensor:
    _RUNS.append(str(x.dtype))
    return x


#: The types of what the module's own Python has been run with.
_RUNS: list[str] = []


def _note(x: torch.Tensor) -> torch.Tensor:
    _RUNS.append(str(x.dtype))
    return x


class _Recorded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _note(x) * 2 + 1


def test_capturing_a_module_runs_its_python_and_calling_the_result_does_not() -> None:
    x = torch.arange(3.0)
    function = nnmagic.from_torch(_Recorded(), (x,))
    captured = len(_RUNS)
    assert captured > 0
    np.testing.assert_array_equal(function(x), [1.0, 3.0, 5.0])
    assert len(_RUNS) == captured


def test_an_exported_program_is_translated_where_its_module_cannot_be_imported(tmp_path: Path) -> None:
    source = tmp_path / "their_module.py"
    source.write_text(
        "import torch\n"
        "class Theirs(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.relu(x) - 1\n"
    )
    _python(
        "import torch, their_module\n"
        "program = torch.export.export(their_module.Theirs(), (torch.zeros(3),))\n"
        "torch.export.save(program, 'theirs.pt2')\n",
        tmp_path,
    )
    source.unlink()
    printed = _python(
        "import torch, nnmagic\n"
        "function = nnmagic.from_torch(torch.export.load('theirs.pt2'))\n"
        "print(function(torch.tensor([-1.0, 0.0, 2.0])).tolist())\n",
        tmp_path,
    )
    assert printed.strip() == "[-1.0, -1.0, 1.0]"


def _python(program: str, folder: Path) -> str:
    """Run a program in a folder, in a process of its own; return what it prints."""
    (folder / "program.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout
