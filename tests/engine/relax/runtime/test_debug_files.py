"""Machine code in a folder, for debuggers and profilers; `engine/relax/codegen/debug_lines` writes its lines.

What these show is asked in `tests/tools/test_debuggers.py`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.runtime.debug_files import VARIABLE

needs_linker = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("objdump") is None, reason="there is no linker here"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cells"))
    return tmp_path / "cells"


@needs_linker
@pytest.mark.full
@pytest.mark.parametrize("opt_level", [0, 3])
def test_functions_have_symbols_and_lines(opt_level: int, folder: Path) -> None:
    called = nnmagic.compile("def squared(x: f64):\n    return x * x")
    source = (
        'def ends(x: Tensor[("n",), f64], k: f64):\n'
        "    y = x.copy()\n"
        "    for i in range(1, len(x)):\n"
        "        y[i] = k * y[i - 1] + x[i]\n"
        "    if y[0] > k:\n"
        "        y = exp(y) + squared(k)\n"
        "    return y, sum(y)\n"
    )
    f = nnmagic.compile(source, opt_level=opt_level, namespace={"squared": called}, cache=False)
    x = np.arange(1.0, 6.0)
    y = x.copy()
    for i in range(1, 5):
        y[i] = 0.5 * y[i - 1] + x[i]
    y = np.exp(y) + 0.25
    got, total = f(x, 0.5)
    np.testing.assert_allclose(got, y)
    np.testing.assert_allclose(total, y.sum())
    (cell,) = (path for path in folder.glob("cell-*.py") if path.read_text() == source)
    shown = [
        subprocess.run(["objdump", "-dl", path], capture_output=True, text=True, check=True).stdout
        for path in folder.glob("*.so")
    ]
    (own,) = (text for text in shown if "<ends>:" in text)
    places = [line.rpartition(":")[2] for line in own.splitlines() if line.startswith(f"{cell}:")]
    lines = {int(place.split()[0]) for place in places}
    assert {3, 4, 6} <= lines
    assert lines <= set(range(1, 8))


@needs_linker
@pytest.mark.full
def test_a_function_of_a_file_has_the_lines_of_the_file(folder: Path) -> None:
    @nnmagic.function(cache=False)
    def f(x: nnmagic.Tensor[(5,), nnmagic.f64]) -> nnmagic.Array:
        return x * 2.0 + 1.0

    f.build()
    (library,) = folder.glob("*.so")
    shown = subprocess.run(["objdump", "-dl", library], capture_output=True, text=True, check=True).stdout
    assert f"{__file__}:{f.__wrapped__.__code__.co_firstlineno + 2}" in shown


@needs_linker
@pytest.mark.full
def test_a_function_may_have_the_name_of_one_of_c(folder: Path) -> None:
    sin = nnmagic.compile("def sin(x: f64):\n    return np.sin(x) + 1.0", namespace={"np": np}, cache=False)
    np.testing.assert_allclose(sin(2.0), np.sin(2.0) + 1.0, rtol=1e-15)
    assert list(folder.glob("*.so"))


def test_a_missing_linker_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(nnmagic.EngineError, match="NNMAGIC_DEBUG_FOLDER needs a C compiler that links"):
        nnmagic.compile("def f(x: f64): return x + 1.5", cache=False)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "taken"))
    with pytest.raises(nnmagic.EngineError, match="taken, which is no folder to write to: File exists"):
        nnmagic.compile("def f(x: f64): return x + 2.5", cache=False)
