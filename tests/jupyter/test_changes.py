"""A function says when it is older than what it captured, and `%tinynn rerun` compiles it again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from nnmagic.functions.cells.compile_cell import MEMORY

SCALED = "%%tinynn -q\ndef scaled(x: Tensor[(2,), f32]):\n    return x * scale + w\n"
TWICE = "%%tinynn -q\ndef twice(x: Tensor[(2,), f32]):\n    return scaled(scaled(x))\n"
CALL = "y = scaled(np.ones(2, 'float32'))"
HELP = (
    "help: run its cell again, or `%tinynn rerun`; "
    "`%config TinyNNMagics.warn_changed = False` turns this off\n"
)
TOLD = "warning: `{}` was compiled before `{}` has been assigned anew, and computes with what it was\n" + HELP


class Notebook:
    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    def run(self, text: str) -> str:
        """Run a cell; return what it writes to stderr."""
        with capture_output() as captured:
            self.ip.run_cell(text).raise_error()
        self.shown = "\n".join(output.data["text/plain"] for output in captured.outputs)
        return captured.stderr

    def __getitem__(self, name: str) -> np.ndarray:
        return self.ip.user_ns[name]


@pytest.fixture
def notebook(memory_only: None) -> Iterator[Notebook]:
    config = Config()
    config.HistoryManager.enabled = False
    ip = InteractiveShell.instance(config=config)
    nnmagic.load_ipython_extension(ip)
    MEMORY.clear()
    made = Notebook(ip)
    made.run("import numpy as np\nscale = 2.0\nw = np.zeros(2, 'float32')")
    made.run(SCALED)
    yield made
    nnmagic.unload_ipython_extension(ip)
    InteractiveShell.clear_instance()


def test_a_call_after_a_change_warns_once(notebook: Notebook) -> None:
    assert notebook.run(CALL) == ""
    assert notebook.run("scale = 3.0") == ""
    assert notebook.run(CALL) == TOLD.format("scaled", "scale")
    np.testing.assert_array_equal(notebook["y"], [2, 2])
    assert notebook.run(CALL) == ""
    assert notebook.run("w = np.ones(2, 'float32')\n" + CALL) == TOLD.format("scaled", "w")


def test_changes_are_told_in_the_order_of_the_alphabet(notebook: Notebook) -> None:
    names = [f"v{number}" for number in range(6)]
    notebook.run("\n".join(f"{name} = 1.0" for name in names))
    notebook.run(f"%%tinynn -q\ndef total():\n    return {' + '.join(reversed(names))}\n")
    warned = notebook.run("".join(f"{name} = 2.0\n" for name in names) + "y = total()")
    assert re.findall(r"`(v\d)`", warned) == names[:3]


def test_the_same_value_again_is_no_change(notebook: Notebook) -> None:
    assert notebook.run("scale = 1.0 + 1.0\nw = np.zeros(2, 'float32')\n" + CALL) == ""


def test_what_a_cell_means_by_a_name_is_no_change_where_it_is_imported(notebook: Notebook) -> None:
    notebook.run("%%tinynn -q\ndef positive(x: Tensor[(2,), f32]):\n    return relu(x)\n")
    assert notebook.run("from nnmagic import f32\nfrom nnmagic.numpy import relu\npositive") == ""
    assert notebook.run("relu = 3\npositive") == TOLD.format("positive", "relu")


def test_a_value_of_the_cell_itself_is_no_value_of_the_notebook(notebook: Notebook) -> None:
    notebook.run("%%tinynn -q\nfactor = 3.0\ndef scaled(x):\n    return x * factor\n")
    notebook.run(CALL)
    assert notebook.run(f"factor = 10.0\n{CALL}") == ""
    np.testing.assert_array_equal(notebook["y"], np.full(2, 3.0))


def test_the_cell_run_again_knows_the_new_value(notebook: Notebook) -> None:
    notebook.run("scale = 3.0")
    assert notebook.run(SCALED) == ""
    assert notebook.run(CALL) == ""
    np.testing.assert_array_equal(notebook["y"], [3, 3])


def test_a_function_that_is_linked(notebook: Notebook) -> None:
    notebook.run(TWICE)
    call = "y = twice(np.ones(2, 'float32'))"
    assert notebook.run(call) == ""
    notebook.run("scale = 3.0")
    assert notebook.run(call) == TOLD.format("twice", "scale")
    notebook.run(SCALED)
    assert notebook.run(call) == TOLD.format("twice", "scaled")
    np.testing.assert_array_equal(notebook["y"], [4, 4])


def test_words_of_cells_that_are_imported_later_change_nothing(notebook: Notebook) -> None:
    assert notebook.run("from nnmagic import Tensor, f32\n" + CALL) == ""
    notebook.run("Tensor = 3")
    assert notebook.run(CALL) == TOLD.format("scaled", "Tensor")


def test_rerun_compiles_what_depends_on_it(notebook: Notebook) -> None:
    notebook.run(TWICE)
    notebook.run("%tinynn rerun")
    assert notebook.shown == "nothing has changed since it was compiled"
    notebook.run("scale = 3.0")
    assert notebook.run("%tinynn rerun") == ""
    assert notebook.shown == "compiled again: scaled, twice"
    assert notebook.run("y = twice(np.ones(2, 'float32'))") == ""
    np.testing.assert_array_equal(notebook["y"], [9, 9])


def test_rerun_shows_the_error_of_a_cell_and_changes_nothing(notebook: Notebook) -> None:
    notebook.run("scale = 'a'")
    with pytest.raises(nnmagic.TinyNNError):
        notebook.run("%tinynn rerun")
    notebook.run("%config TinyNNMagics.warn_changed = False")
    assert notebook.run(CALL) == ""
    np.testing.assert_array_equal(notebook["y"], [2, 2])


def test_the_setting_turns_it_off(notebook: Notebook) -> None:
    notebook.run("%config TinyNNMagics.warn_changed = False\nscale = 3.0")
    assert notebook.run(CALL) == ""
