"""The extension in a real kernel and in a fresh interpreter, as a notebook's user meets it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

from tests.kernels import Kernel, error, plain, traceback_text

FUNCTION = "def foo(x: Tensor[(2,), f32]):\n    return x * w0\n"
CELLS = {
    "load": "%load_ext nnmagic\nimport numpy as np\nw0 = np.array([1, 2], 'float32')",
    "first": f"%%tinynn\n{FUNCTION}",
    "call": "foo(np.ones(2, 'float32')).tolist()",
    "again": f"%%tinynn\n{FUNCTION}",
    "info": "foo.cache_info.hit, foo.cache_info.why",
    "wrong": "%%tinynn\ndef foo(x: Tensor[(2,), f32]):\n    é = x\n    return é + y",
    "wrong option": f"%%tinynn --engine gpu\n{FUNCTION}",
    "survives": "foo.name, foo(np.ones(2, 'float32')).tolist()",
    "wrong call": "foo(np.ones(3, 'float32'))",
    "nested call": "def user():\n    return foo(nope=1)\nuser()",
    "wrong path": "foo.save('/no/such/directory/x.nnm')",
    "wrong stage": "foo.stages['nope']",
    "wrong attribute": "foo.name = 'bar'",
    "wrong source": "import nnmagic\nnnmagic.compile(3)",
    "wrong argument of an array": (
        "class Broken:\n    def __array__(self, dtype=None, copy=None):\n        raise ValueError('mine')\n"
        "foo(Broken())"
    ),
    "wrong expression": "def helper():\n    return 1 / 0",
    "wrong expression of a profile": "%tinynn profile foo(helper())",
    "wrong call of a profile": "%tinynn profile foo(np.ones(3, 'float32'))",
    "wrong function": "@nnmagic.function\ndef f(x: nnmagic.f32):\n    return z",
    "assertion": "%%tinynn -q\ndef positive(x: f32):\n    assert x > 0, 'not positive'\n    return x",
    "false": "positive(-1.0)",
    "caught": (
        "try:\n    positive(-1.0)\nexcept AssertionError as error:\n    print(type(error).__name__, error)"
    ),
    "warning": "%%tinynn -q\ndef warned(x: f32):\n    é = 1\n    return x",
    "frames": "%%tinynn --tb\ndef foo(x: f32):\n    return x + y",
    "frames of the engine": '%%tinynn --tb --target \'{"kind": "rocm"}\'\ndef foo(x: f32):\n    return x',
    "frames of calls": "%config TinyNNMagics.tb = True\nfoo(np.ones(3, 'float32'))",
    "no frames again": "%config TinyNNMagics.tb = False\nfoo(np.ones(3, 'float32'))",
    "several": "%%tinynn\ndef foo(x: f32):\n    a = x + y\n    b = x + z\n    return a",
    "empty": "%%tinynn",
    "help": "%%tinynn?",
    "reload": "%reload_ext nnmagic",
    "after reload": f"%%tinynn\n{FUNCTION}",
    "info after reload": "foo.cache_info.hit",
    "interrupt": (
        "import nnmagic.functions.compiled as compiled, signal\n"
        "build = compiled.CompiledFunction.build\n"
        "def interrupted(self):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return build(self)\n"
        "compiled.CompiledFunction.build = interrupted"
    ),
    "interrupted": f"%%tinynn\n{FUNCTION.replace('*', '+')}",
    "after interrupt": "compiled.CompiledFunction.build = build\nfoo(np.ones(2, 'float32')).tolist()",
    "unload": "%unload_ext nnmagic\nget_ipython().find_cell_magic('tinynn') is None",
}


@pytest.fixture(scope="module")
def outputs(kernel: Kernel) -> dict[str, list[nbformat.NotebookNode]]:
    """Return what each cell gives, by the cell's name."""
    return {name: kernel.run(source, allow_errors=True) for name, source in CELLS.items()}


def test_a_cell_and_its_second_run(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    (sheet,) = outputs["load"]
    link = r'<link rel="stylesheet" href="data:text/css;base64,[\w+/=]+">'
    assert re.fullmatch(link, sheet.data["text/html"])
    assert (sheet.data["text/plain"], sheet.data["text/latex"]) == ("", "")
    assert "<style" not in outputs["first"][0].data["text/html"], "one sheet is enough for a notebook"
    assert plain(outputs["first"]).startswith("def @foo(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {")
    assert plain(outputs["call"]) == "[1.0, 2.0]"
    assert outputs["again"] == outputs["first"], "a hit shows the same"
    assert plain(outputs["info"]) == "('memory', 'found in memory')"


def test_an_error_shows_the_cell_and_no_frames(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    output = error(outputs["wrong"])
    assert output.ename == "TinyNNError"
    assert output.evalue.startswith("error: unknown name `y`\n --> <tinynn>:4:16")
    assert "4 |     return é + y\n  |                ^" in traceback_text(output)
    assert ".py" not in traceback_text(output)
    option = error(outputs["wrong option"])
    assert option.ename == "MagicError"
    known = "'auto', 'relax', 'relay', 'numpy', 'python' or the name of a function of the notebook"
    assert traceback_text(option) == f"MagicError: engine must be one of {known}, not 'gpu'"
    assert plain(outputs["survives"]) == "('foo', [1.0, 2.0])"


def test_a_wrong_call_is_an_ordinary_error(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    output = error(outputs["wrong call"])
    assert output.ename == "ValueError"
    assert output.evalue.startswith("foo() argument 'x' must be Tensor[(2,), f32], not of shape (3,)")
    text = traceback_text(output)
    assert ".py" not in text, "no frame below the user's"
    assert "----> 1 foo(np.ones(3, 'float32'))" in text
    assert text.endswith(f"\nValueError: {output.evalue}")
    nested = error(outputs["nested call"])
    text = traceback_text(nested)
    assert nested.ename == "TypeError"
    assert ".py" not in text
    assert "----> 2     return foo(nope=1)" in text
    assert "----> 3 user()" in text


@pytest.mark.parametrize(
    ("cell", "kind", "line", "words"),
    [
        (
            "wrong path",
            "FileNotFoundError",
            "foo.save('/no/such/directory/x.nnm')",
            repr(str(Path("/no/such/directory/x.nnm"))),
        ),
        (
            "wrong stage",
            "KeyError",
            "foo.stages['nope']",
            "there is no stage 'nope'; the stages are source, tree",
        ),
        (
            "wrong attribute",
            "AttributeError",
            "foo.name = 'bar'",
            "name",
        ),
        (
            "wrong source",
            "TypeError",
            "nnmagic.compile(3)",
            "a Python function or a relay.Module, not an int",
        ),
        ("wrong argument of an array", "TypeError", "foo(Broken())", "a Broken gave no array: mine"),
        ("wrong expression of a profile", "ZeroDivisionError", "return 1 / 0", "division by zero"),
        ("wrong call of a profile", "ValueError", "profile foo(np.ones(3", "dimension 0 must be 2, not 3"),
    ],
)
def test_an_error_ends_in_the_user_s_line(
    outputs: dict[str, list[nbformat.NotebookNode]], cell: str, kind: str, line: str, words: str
) -> None:
    output = error(outputs[cell])
    assert output.ename == kind
    assert words in output.evalue
    text = traceback_text(output)
    if "%tinynn" in CELLS[cell] and sys.version_info < (3, 11):
        return  # IPython shows its own frames on Python 3.10
    assert ".py" not in text, "no frame of nnmagic's, nor of what it calls"
    assert "hidden" not in text
    assert re.search(rf"^-+> \d+ .*{re.escape(line)}", text, flags=re.MULTILINE)


def test_an_error_of_a_decorated_function_names_its_cell(
    outputs: dict[str, list[nbformat.NotebookNode]],
) -> None:
    output = error(outputs["wrong function"])
    number = list(CELLS).index("wrong function") + 1
    assert output.evalue.startswith(f"error: unknown name `z`\n --> Cell In[{number}]:3:12\n")


def test_developers_see_the_frames(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    output = error(outputs["frames"])
    assert output.ename == "TinyNNError"
    assert "compilation.py" in traceback_text(output)
    assert "error: unknown name `y`" in traceback_text(output)
    assert "target.py" in traceback_text(error(outputs["frames of the engine"]))
    assert "arguments.py" in traceback_text(error(outputs["frames of calls"]))
    assert ".py" not in traceback_text(error(outputs["no frames again"]))


def test_all_errors_are_shown_at_once_in_colour(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    output = error(outputs["several"])
    assert "3 |     a = x + y\n  |             ^" in traceback_text(output)
    assert "4 |     b = x + z\n  |             ^" in traceback_text(output)
    assert traceback_text(output).endswith("TinyNNError: unknown name `y` (and 1 more error)")
    assert "\x1b[31merror: \x1b[0m" in "\n".join(output.traceback)


def test_a_failed_assertion_shows_the_line_of_its_cell(
    outputs: dict[str, list[nbformat.NotebookNode]],
) -> None:
    output = error(outputs["false"])
    assert output.ename == "AssertionError"
    text = "not positive\n --> <tinynn>:3:12\n  |\n3 |     assert x > 0, 'not positive'\n  |            ^^^^^"
    assert output.evalue == text
    assert traceback_text(output).endswith(f"AssertionError: {text}")
    assert ".py" not in traceback_text(output)
    (caught,) = outputs["caught"]
    assert caught.text == f"AssertionError {text}\n"


def test_a_warning_goes_to_stderr(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    (output,) = outputs["warning"]
    assert (output.output_type, output.name) == ("stream", "stderr")
    assert output.text.startswith("\x1b[1;33mwarning: \x1b[0m")
    assert "3 |\x1b[0m     é = 1\n" in output.text


def test_an_empty_cell_says_what_it_lacks(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    output = error(outputs["empty"])
    assert output.ename == "TinyNNError"
    assert "error: the cell holds no function\n --> <tinynn>:2:1" in traceback_text(output)


def test_reload_keeps_what_was_compiled(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    assert outputs["after reload"] == outputs["first"]
    assert plain(outputs["info after reload"]) == "'memory'"
    assert plain(outputs["unload"]) == "True"


def test_an_interrupt_leaves_the_old_function(outputs: dict[str, list[nbformat.NotebookNode]]) -> None:
    assert error(outputs["interrupted"]).ename == "KeyboardInterrupt"
    assert plain(outputs["after interrupt"]) == "[1.0, 2.0]"


def test_loading_the_extension_is_cheap() -> None:
    """Measured in modules: none is heavy, and few are loaded that IPython has not loaded before."""
    code = textwrap.dedent(
        """
        import sys
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.core import magic_arguments
        import IPython.display
        ip = InteractiveShell.instance()
        before = {*sys.modules}
        ip.extension_manager.load_extension("nnmagic")
        added = {*sys.modules} - before
        heavy = {"numpy", "tvm", "tvm_ffi", "synr", "matplotlib"} & added
        assert not heavy, heavy
        own = {name for name in added if name.partition(".")[0] == "nnmagic"}
        assert len(own) < 40, own
        assert {name.partition(".")[0] for name in added - own} <= sys.stdlib_module_names, added - own
        assert len(added - own) < 20, added - own
        assert ip.find_cell_magic("tinynn") and ip.find_cell_magic("relay") and ip.find_line_magic("tinynn")
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.full
def test_a_terminal_shows_the_same_errors() -> None:
    lines = (
        "%load_ext nnmagic\nget_ipython().run_cell_magic('tinynn', '', 'def f(x: f32):\\n    return z\\n')\n"
    )
    command = [sys.executable, "-m", "IPython", "--colors=NoColor", "--no-banner", "--simple-prompt"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=300)
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert "error: unknown name `z`\n --> <tinynn>:3:12\n" in output
    assert "TinyNNError: unknown name `z`" in output
    assert "Traceback" not in output
