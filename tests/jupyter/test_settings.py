"""The settings of a kernel: what cannot be is told where it is set, and changes nothing."""

from __future__ import annotations

import subprocess
import sys

import nbformat
import pytest

from tests.kernels import Kernel

#: A setting, a value that it cannot have, what it had, and words of what is said of it.
WRONG = [
    ("show", "'nope'", "'relay'", "there is no stage 'nope'; the stages are source, tree, relay,"),
    ("show", "['relay']", "'relay'", "it must be text, as in 'relay,graph'"),
    ("show", "''", "'relay'", "no stage is named"),
    ("engine", "'tpu'", "'auto'", "it must be one of 'auto', 'relax', 'relay'"),
    ("opt_level", "7", "1", "it must be 0, 1, 2 or 3"),
    ("opt_level", "True", "1", "it must be 0, 1, 2 or 3"),
    ("opt_level", "'two'", "1", "it must be 0, 1, 2 or 3"),
    ("num_threads", "0", "None", "it must be a whole number from 1 on, or None"),
    ("num_threads", "'two'", "None", "it must be a whole number from 1 on, or None"),
    ("cache_mb", "-1", "None", "it must be a whole number from 0 on, or None"),
    ("cache_mb", "0.5", "None", "it must be a whole number from 0 on, or None"),
    ("cache_dir", "'/dev/null'", "None", "it must be a directory"),
    ("quiet", "1", "False", "it must be True or False"),
    ("zero_d_arrays", "1", "False", "it must be True or False"),
    ("convert", "'unsafe'", "False", "it must be True, False or 'same_kind'"),
    ("convert", "1", "False", "it must be True, False or 'same_kind'"),
    ("target", "3", "None", "it must be a JSON object in quotes"),
    ("target", "'{'", "None", "the target is no JSON object"),
    ("target", "'rocm'", "None", "the target 'rocm' is another GPU's"),
    ("target", """'{"kind": "llvm", "mcpu": "x"}'""", "None", "LLVM does not know the CPU 'x'"),
]


@pytest.fixture(scope="module")
def cells(kernel: Kernel) -> list[list[nbformat.NotebookNode]]:
    """Return what each cell gives: wrong settings, each with what stands after it, and then the rest."""
    sources = ["%load_ext nnmagic\n%config TinyNNMagics.opt_level = 1"]
    for name, value, _, _ in WRONG:
        sources += [f"%config TinyNNMagics.{name} = {value}", f"%config TinyNNMagics.{name}"]
    sources += [
        "%config TinyNNMagics.nope = 3",
        "%reload_ext nnmagic\n%config TinyNNMagics.opt_level",
        "%%tinynn\ndef f(x: f32):\n    return x + 1",
    ]
    return [kernel.run(source, allow_errors=True) for source in sources]


@pytest.mark.parametrize("case", range(len(WRONG)), ids=[f"{name} = {value}" for name, value, _, _ in WRONG])
def test_a_setting_that_cannot_be_is_told_and_stays(
    cells: list[list[nbformat.NotebookNode]], case: int
) -> None:
    name, value, before, words = WRONG[case]
    (told,) = cells[1 + 2 * case]
    assert told.name == "stderr"
    assert f"TinyNNMagics.{name} cannot be {value}: " in told.text
    assert words in told.text
    assert told.text.rstrip().endswith(f" (it stays {before})")
    shown = [output.data["text/plain"] for output in cells[2 + 2 * case]]
    assert shown == ([] if before == "None" else [before])


def test_the_extension_loads_again_and_cells_run(cells: list[list[nbformat.NotebookNode]]) -> None:
    unknown, again, ran = cells[-3:]
    assert "Config option `nope` not recognized" in unknown[0].text
    assert [output.data["text/plain"] for output in again] == ["1", ""], "what could be is kept; the sheet"
    assert ran[0].data["text/plain"].startswith("def @f(%x: float32) -> float32 {")


def test_settings_of_a_command_line_that_cannot_be() -> None:
    code = "%load_ext nnmagic\nshow = %config TinyNNMagics.show\nprint(show)\n%reload_ext nnmagic"
    words = [sys.executable, "-m", "IPython", "--HistoryManager.enabled=False", "--colors=NoColor"]
    words += ["--TinyNNMagics.opt_level=9", "--TinyNNMagics.show=graph", "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout == "graph\n"
    told = "TinyNNMagics.opt_level cannot be 9: it must be 0, 1, 2 or 3 (it stays 3)"
    assert ran.stderr.count(told) == 1, "once: a second loading finds the setting as it stays"
