"""Passes of the notebook: the option --passes, what is shown, what errors say, when the caches know them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from nnmagic import relay
from nnmagic.functions.cells.compile_cell import MEMORY
from nnmagic.functions.passes import Passes
from nnmagic.jupyter.errors import MagicError
from nnmagic.jupyter.option_completion import complete_cell_options
from nnmagic.relay.patterns import Match, is_op, rewrite_pass, rule, wildcard

X = np.array([1, 2], "float32")
BODY = "def f(x: Tensor[(2,), f32]):\n    return exp(x) * 2.0 + exp(x)\n"
#: A pass that makes every multiplication an addition; FACTOR says how often.
SWAP = """
from nnmagic.relay.structure.traverse import rewrite_module
from nnmagic import relay

def swap(module):
    def change(old, new):
        match new:
            case relay.Call(op=relay.OpRef(name="multiply")):
                return relay.call(NAME, new.args, span=new.span)
        return new
    return rewrite_module(module, change)
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path / "cache"))
    MEMORY.clear()
    config = Config()
    config.HistoryManager.enabled = False
    ip = InteractiveShell.instance(config=config)
    nnmagic.load_ipython_extension(ip)
    yield ip
    nnmagic.unload_ipython_extension(ip)
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, text: str) -> dict[str, str]:
    with capture_output() as captured:
        result = shell.run_cell(text)
    result.raise_error()
    assert not captured.stderr
    return captured.outputs[-1].data if captured.outputs else {}


def test_a_pass_of_the_notebook_changes_what_is_computed_and_shown(shell: InteractiveShell) -> None:
    run(shell, f"NAME = 'add'\n{SWAP}")
    shown = run(shell, f"%%tinynn --passes swap,fold_constants\n{BODY}")["text/plain"]
    assert "multiply" not in shown
    f = shell.user_ns["f"]
    np.testing.assert_allclose(f(X), 2 * np.exp(X) + 2, rtol=1e-6)
    assert [each.name for each in f.passes][:2] == ["swap", "fold_constants"]


def test_the_display_is_a_coloured_diff_that_is_the_same_every_time(shell: InteractiveShell) -> None:
    first = run(shell, f"%%tinynn --show passes\n{BODY}")
    assert "=== eliminate_common_subexpr: 2 lines removed, 1 added" in first["text/plain"]
    assert "-  %2 = exp(%x);" in first["text/plain"]
    assert "=== no change: fold_constants" in first["text/plain"]
    assert 'class="del"' in first["text/html"]
    assert 'class="ins"' in first["text/html"]
    MEMORY.clear()
    assert run(shell, f"%%tinynn --show passes\n{BODY}") == first
    assert run(shell, "%tinynn show f passes")["text/plain"] == first["text/plain"]
    timed = run(shell, f"%%tinynn -v --show passes\n{BODY}")["text/plain"]
    assert "fold_constants" in timed
    assert " ms" in timed


def test_a_changed_pass_or_what_it_captured_compiles_anew(shell: InteractiveShell) -> None:
    cell = f"%%tinynn -q --passes swap\n{BODY}"
    run(shell, f"NAME = 'add'\n{SWAP}")
    run(shell, cell)
    run(shell, f"NAME = 'add'\n\n\n{SWAP}")  # the same code elsewhere
    run(shell, cell)
    assert shell.user_ns["f"].cache_info.hit == "memory"
    run(shell, "NAME = 'subtract'")
    run(shell, cell)
    assert shell.user_ns["f"].cache_info.hit is None
    assert "option passes changed" in shell.user_ns["f"].cache_info.why
    np.testing.assert_allclose(shell.user_ns["f"](X), np.exp(X) - 2 + np.exp(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("fold_constant", "did you mean fold_constants"),
        ("nothing_like_it_at_all", "the library's passes are"),
        (",", "names no pass"),
        ("X", "a pass is a function"),
    ],
)
def test_wrong_names_are_refused(shell: InteractiveShell, names: str, message: str) -> None:
    shell.user_ns["X"] = X
    with pytest.raises(MagicError, match=message):
        run(shell, f"%%tinynn --passes {names}\n{BODY}")


def test_an_error_of_a_pass_binds_nothing_and_shows_its_line(shell: InteractiveShell) -> None:
    run(shell, "def broken(module):\n    return module.function")
    with pytest.raises(nnmagic.RelayError) as caught:
        run(shell, f"%%tinynn --passes broken\n{BODY}")
    assert "the pass broken raised AttributeError" in str(caught.value)
    assert "return module.function" in str(caught.value)
    assert "f" not in shell.user_ns


def test_completion_knows_the_passes() -> None:
    assert "fold_constants" in complete_cell_options("tinynn", "%%tinynn --passes ")


# -- from Python ------------------------------------------------------------------------------------------


def test_the_decorator_takes_passes_and_a_saved_function_holds_their_result(tmp_path: Path) -> None:
    x = wildcard()

    @rule(is_op("tanh")(x))
    def to_relu(found: Match) -> relay.Expr:
        return relay.call("nn.relu", [found[x]])

    @nnmagic.function(passes=[rewrite_pass(to_relu)])
    def f(x: nnmagic.Tensor[(2,), nnmagic.f32]):  # type: ignore[no-untyped-def,valid-type]  # a cell's types
        return tanh(x) + 1.0  # noqa: F821  # a function of cells

    data = np.array([-2, 3], "float32")
    np.testing.assert_array_equal(f(data), np.array([1, 4], "float32"))
    f.save(tmp_path / "f.nnm")
    np.testing.assert_array_equal(nnmagic.load(tmp_path / "f.nnm")(data), np.array([1, 4], "float32"))


def test_a_pass_that_cannot_be_compared_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    held = object()
    for _ in range(2):
        f = nnmagic.compile(BODY, passes=[lambda module: module if held else relay.Module()])
        assert f.cache_info.hit != "memory"
        assert "the pass <lambda> depends on a value of type object" in f.cache_info.why


def test_passes_run_for_each_specialization() -> None:
    seen = []

    def note(module: relay.Module) -> relay.Module:
        seen.append(len(module.functions))
        return module

    f = nnmagic.compile("def f(x):\n    return exp(x)", passes=[note], cache=False)
    f(X)
    f(X.astype("float64"))
    assert seen == [1, 1]


def test_opt_level_says_which_passes_run() -> None:
    """The page has the table that the compiler runs by."""
    from nnmagic.engine.relax.analysis.pipeline import PASSES

    page = (Path(__file__).parent.parent.parent / "docs/passes.md").read_text(encoding="utf-8")
    for each in PASSES:
        row = next(line for line in page.split("\n") if line.startswith(f"| `{each.name}"))
        assert f"| {each.when} | {each.opt_level} |" in row
    for level in (0, 3):
        f = nnmagic.compile(BODY, opt_level=level)
        assert isinstance(f.passes, Passes)
        expected = [each.name for each in PASSES if each.opt_level <= level and each.when == "all programs"]
        assert [run.name for run in f.passes] == expected
