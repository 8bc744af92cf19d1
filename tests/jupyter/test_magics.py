"""The magics in a shell: what a cell binds, shows and refuses."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from nnmagic.functions.cells.compile_cell import MEMORY
from nnmagic.jupyter.commands import COMMANDS
from nnmagic.jupyter.magics import TinyNNMagics

FOO = (
    "def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):\n"
    "    d = a @ b\n    e = d + c\n    return e\n"
)
FOO_RELAY = (  # the text that the issue of this cell shows
    "def @foo(%a: Tensor[(2, 3), float32], %b: Tensor[(3, 4), float32], %c: Tensor[(2, 4), float32])"
    " -> Tensor[(2, 4), float32] {\n  %0 = nn.matmul(%a, %b, units=None);\n  add(%0, %c)\n}"
)
X = np.array([1, 2], "float32")


def cell(body: str, options: str = "") -> str:
    return f"%%tinynn {options}\n{body}"


def function(name: str, result: str) -> str:
    return f"def {name}(x: Tensor[(2,), f32]):\n    return {result}\n"


@dataclass
class Shell:
    """A shell with the extension; ``run`` gives what a cell shows, or raises what the cell raised."""

    ip: InteractiveShell

    def run(self, text: str) -> str:
        with capture_output() as captured:
            result = self.ip.run_cell(text)
        result.raise_error()
        assert not captured.stderr
        return "\n".join(output.data["text/plain"] for output in captured.outputs)

    def __getitem__(self, name: str):
        return self.ip.user_ns[name]


@pytest.fixture(scope="module")
def shell(few_objects: None) -> Iterator[Shell]:
    config = Config()
    config.HistoryManager.enabled = False
    ip = InteractiveShell.instance(config=config)
    nnmagic.load_ipython_extension(ip)
    yield Shell(ip)
    nnmagic.unload_ipython_extension(ip)
    InteractiveShell.clear_instance()


@pytest.fixture(autouse=True)
def clean(shell: Shell, memory_only: None) -> None:
    MEMORY.clear()
    shell.ip.reset(new_session=False)


def test_a_cell_shows_relay_and_binds_its_function(shell: Shell) -> None:
    assert shell.run(cell(FOO)) == FOO_RELAY
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4), (2, 4)))
    np.testing.assert_allclose(shell["foo"](a, b, c), a @ b + c, rtol=1e-5)


@pytest.mark.usefixtures("memory_only")
def test_a_second_run_shows_the_same_and_compiles_nothing(shell: Shell) -> None:
    shell.run(cell(FOO))
    assert shell["foo"].cache_info.hit is None
    assert shell.run(cell(FOO)) == FOO_RELAY
    assert shell["foo"].cache_info.hit == "memory"
    shell.run(cell(FOO, "--force"))
    assert (shell["foo"].cache_info.hit, shell["foo"].cache_info.why) == (None, "forced")
    shell.run(cell(FOO, "--no-cache"))
    assert (shell["foo"].cache_info.hit, shell["foo"].cache_info.why) == (None, "the cache is off")
    shell.run(cell(FOO, "--opt-level 1"))
    assert shell["foo"].cache_info.why == "option opt_level changed"


def test_all_functions_are_bound_but_private_ones(shell: Shell) -> None:
    shown = shell.run(cell(function("_a", "x + 1") + function("b", "_a(x) * 2") + function("c", "b(x) - 1")))
    assert [line.split("(")[0] for line in shown.splitlines() if line.startswith("def")] == [
        "def @_a",
        "def @b",
        "def @c",
    ]
    assert "_a" not in shell.ip.user_ns
    np.testing.assert_array_equal(shell["b"](X), (X + 1) * 2)
    np.testing.assert_array_equal(shell["c"](X), (X + 1) * 2 - 1)
    shown = shell.run(cell(function("d", "c(x) + c(x)")))
    assert shown.count("def @") == 1, "only what this cell defines is shown"
    np.testing.assert_array_equal(shell["d"](X), 2 * ((X + 1) * 2 - 1))


def test_o_assigns_the_last_function(shell: Shell) -> None:
    shell.run(cell(function("a", "x + 1") + function("b", "x + 2"), "-o result"))
    np.testing.assert_array_equal(shell["result"](X), X + 2)
    assert shell["b"] is shell["result"]
    shell.run(
        "%%relay --output r\n"
        "def @main(%x: float32) -> float32 { %x }\ndef @other(%x: float32) -> float32 { @main(%x) }"
    )
    assert shell["r"] is shell["main"]


def test_captured_values_are_those_of_the_notebook(shell: Shell) -> None:
    shell.run("import numpy as np\nw0 = np.array([3, 4], 'float32')\nk = 2")
    shell.run(cell(function("f", "x * w0 + k"), "-q"))
    np.testing.assert_array_equal(shell["f"](X), X * [3, 4] + 2)
    shell.run("w0[0] = 10")
    np.testing.assert_array_equal(shell["f"](X), X * [3, 4] + 2)
    shell.run(cell(function("f", "x * w0 + k"), "-q"))
    assert shell["f"].cache_info.why == "captured array `w0` changed"
    np.testing.assert_array_equal(shell["f"](X), X * [10, 4] + 2)


def test_a_terminal_takes_a_cell_line_by_line(shell: Shell) -> None:
    for magic in ("%%tinynn", "%%tinynn -q", "%%relay"):
        lines = [magic, "def foo(x: Tensor[(2,), f32]):", "    return x"]
        for count in range(1, 4):
            assert shell.ip.check_complete("\n".join(lines[:count]))[0] == "incomplete"
        assert shell.ip.check_complete("\n".join([*lines, "", ""]))[0] == "complete"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (cell("def foo(x: Tensor[(2,), f32]):\n    return y\n"), nnmagic.TinyNNError, r"<tinynn>:3:12"),
        (cell("def foo(x: Tensor[(2,), f32]:\n"), nnmagic.TinyNNError, r"<tinynn>:2"),
        (cell(function("fine", "x") + function("foo", "x @")), nnmagic.TinyNNError, r"<tinynn>:5"),
        (cell(function("_foo", "x")), nnmagic.TinyNNError, "nothing here is bound"),
        (cell("x = 1\n"), nnmagic.TinyNNError, r"<tinynn>:2:1"),
        ("%%relay\ndef @foo(%x: float32) {\n  exp(%y) }", nnmagic.RelayError, r"<relay>:3:7"),
        ("%%relay\n", nnmagic.RelayError, "the text holds no function"),
        ("%%tinynn", nnmagic.TinyNNError, "the cell holds no function\n --> <tinynn>:2:1"),
        ("%%tinynn -q\n\n  \n", nnmagic.TinyNNError, "the cell holds no function"),
        (cell(FOO, "--show nope"), ValueError, "no stage 'nope'; the stages are source, tree, relay"),
        (cell(FOO, "--show ,"), ValueError, "no stage is named"),
        (cell(FOO, "--opt-level 4"), ValueError, "--opt-level must be one of 0, 1, 2, 3, not '4'"),
        (cell(FOO, "--opt-level x"), ValueError, "--opt-level must be one of"),
        (
            cell(FOO, "--engine x"),
            ValueError,
            "engine must be one of 'auto', 'relax', 'relay', 'numpy', 'python' or the name of a function",
        ),
        (cell(FOO, "--engine relay"), nnmagic.EngineError, "needs a TVM that has Relay"),
        (cell(FOO, "--target '{'"), ValueError, "the target is no JSON object"),
        (cell(FOO, "--target riscv9"), nnmagic.EngineError, "riscv9"),
        (cell(FOO, "-o 3x"), ValueError, "-o takes a variable's name, not '3x'"),
        (cell(FOO, "-o class"), ValueError, "-o takes a variable's name, not 'class'"),
        (cell(FOO, "-o"), ValueError, "expected one argument"),
        (cell(FOO, "--bogus"), ValueError, "unrecognized arguments: --bogus; %%tinynn\\? lists the options"),
        (cell(FOO, "'unclosed"), ValueError, "No closing quotation"),
        (
            "%%relay --show tree\ndef @foo(%x: float32) { %x }",
            ValueError,
            "from Relay text has no stage 'tree'",
        ),
    ],
)
def test_a_cell_that_fails_binds_nothing(shell: Shell, text: str, error: type, words: str) -> None:
    shell.run("foo = fine = r = 'as before'")
    before = dict(shell.ip.user_ns)
    with pytest.raises(error, match=words):
        shell.run(text)
    for name in ("foo", "fine", "r", "_foo"):
        assert shell.ip.user_ns.get(name) == before.get(name)


def test_an_interrupt_binds_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run("foo = 'as before'")
    from nnmagic.functions.compiled import CompiledFunction

    def interrupt(_self: CompiledFunction) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CompiledFunction, "build", interrupt)
    with pytest.raises(KeyboardInterrupt):
        shell.run(cell(FOO))
    assert shell["foo"] == "as before"
    monkeypatch.undo()
    shell.run(cell(FOO))
    assert shell["foo"].cache_info.hit != "memory", "what was interrupted is not in the cache"


def test_show_quiet_and_verbose(shell: Shell) -> None:
    assert shell.run(cell(FOO, "-q")) == ""
    assert "/* ty=" in shell.run(cell(FOO, "--show relay-typed"))
    both = shell.run(cell(FOO, "--show relay,tir"))
    assert both.startswith(f"# relay\n{FOO_RELAY}\n\n# foo: tir\n")
    assert "T.prim_func" in both
    several = shell.run(cell(function("a", "x") + function("b", "x"), "--show source"))
    assert several == f"# a: source\n{function('a', 'x')}\n# b: source\n{function('b', 'x').rstrip()}"
    assert "compiled (first time)" in shell.run(cell(function("c", "x"), "-v"))
    assert "found in memory" in shell.run(cell(function("c", "x"), "--verbose"))


LIST = "class List:\n    def Nil(): ...\n    def Cons(head: Tensor[(2,), f32], tail: List): ...\n"
TOTAL = (
    "def total(items: List) -> Tensor[(2,), f32]:\n    match items:\n        case List.Nil():\n"
    "            return zeros((2,), f32)\n        case Cons(head, tail):\n"
    "            return head + total(tail)\n"
)


def test_classes_are_bound_and_used_in_later_cells(shell: Shell) -> None:
    assert shell.run(cell(LIST)) == "type List {\n  Nil,\n  Cons(Tensor[(2), float32], List[]),\n}"
    shown = shell.run(cell(TOTAL, "-o result -v"))
    assert "def @total(%items: List[])" in shown
    assert "compiled (first time)" in shown
    total, List = shell["total"], shell["List"]
    np.testing.assert_array_equal(total(List.Cons(X, List.Cons(X * 2, List.Nil()))), X * 3)
    assert repr(List) == "<nnmagic type List: Nil(), Cons(head: Tensor[(2,), f32], tail: List)>"
    shell.run(cell(LIST + TOTAL, "-q"))
    np.testing.assert_array_equal(shell["total"](shell["List"].Nil()), [0, 0])
    shell.run(cell("class _Own:\n    def A(): ...\n" + function("f", "x"), "-q"))
    assert "_Own" not in shell.ip.user_ns
    info = shell.ip.object_inspect("List")
    assert info["found"]
    assert "List.Cons(head" in info["docstring"]
    with pytest.raises(ValueError, match="-o r: the cell has no function"):
        shell.run(cell(LIST, "-o r"))


def test_higher_order_functions_are_for_other_cells(shell: Shell) -> None:
    """Python cannot pass a function, so that only cells call them."""
    twice = "def twice(g: Callable[[f32], f32], x: f32) -> f32:\n    return g(g(x))\n"
    shell.run(cell(twice, "-q"))
    assert "g: Callable[[f32], f32], x: f32" in shell.ip.object_inspect("twice")["definition"]
    with pytest.raises(TypeError, match="cannot be passed from Python"):
        shell.run("twice(abs, 1.0)")
    shell.run(cell("def f(x: f32):\n    return twice(lambda a: a * 3, x)\n", "-q"))
    assert shell["f"](2.0) == 18


def test_warnings_are_shown_and_stop_nothing(shell: Shell) -> None:
    text = cell("def f(x: f32):\n    y = x\n    return x\n    x = 1\n", "-q")
    for _ in range(2):  # the second time it is found in the cache
        with capture_output() as captured:
            shell.ip.run_cell(text).raise_error()
        assert captured.stderr.count("\x1b[1;33mwarning: ") == 2
        assert "`y` is assigned, but nothing uses it" in captured.stderr
        assert "<tinynn>:3:5" in captured.stderr
        assert not captured.outputs
    assert shell["f"](2.0) == 2


def test_a_line_below_the_cell_says_what_made_floats_wider(shell: Shell) -> None:
    with capture_output() as captured:
        shell.ip.run_cell(cell(function("widened", "x * zeros(2)"), "-q")).raise_error()
    (line,) = captured.stderr.strip().split("\n")
    assert "`zeros(2)` is f64, and so is what is computed of it and of f32" in line
    assert ":3: " in line
    with pytest.raises(nnmagic.TinyNNError, match="which `promote=False` keeps apart"):
        shell.run(cell(function("refused", "x * zeros(2, f64)"), "--no-promote"))
    shell.run("%config TinyNNMagics.promote = False")
    with pytest.raises(nnmagic.TinyNNError, match="keeps apart"):
        shell.run(cell(function("refused", "x * zeros(2, f64)")))
    shell.run(cell(function("taken", "x * zeros(2, f64)"), "--promote -q"))
    shell.run("%config TinyNNMagics.promote = None")
    assert shell["taken"](X).dtype == np.float64


def test_text_is_escaped_in_html(shell: Shell) -> None:
    with capture_output() as captured:
        shell.ip.run_cell(
            cell('def f(x: Tensor[(2,), f32]):\n    """<b>&"""\n    return x\n', "--show source")
        )
    (output,) = captured.outputs
    assert "&lt;b&gt;&amp;" in output.data["text/html"]
    assert "<b>&" in output.data["text/plain"]


def test_relay_cells(shell: Shell) -> None:
    text = "def @main(%x: Tensor[(2), float32]) {\n  exp(%x)\n}"
    shown = shell.run(f"%%relay\n{text}")
    assert shown == "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {\n  exp(%x)\n}"
    np.testing.assert_allclose(shell["main"](X), np.exp(X), rtol=1e-6)
    assert shell.run(f'%%relay\n#[version = "0.0.5"]\n{text}') == shown
    assert shell.run(f"%%relay\n{shown}") == shown, "what is shown can be pasted"
    shell.run(f"%%relay\n{text}")
    assert shell["main"].cache_info.hit == "memory"


def test_targets_are_json(shell: Shell) -> None:
    shell.run(cell(FOO, """--target '{"kind": "llvm", "mcpu": "x86-64"}' -q"""))
    assert "zmm" not in shell["foo"].stages["asm"]


def test_lines_are_split_alike_on_all_systems(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython's own way to split them on Windows takes single quotation marks for letters."""
    monkeypatch.setattr("IPython.core.magic_arguments.arg_split", lambda line, **_: line.split())
    test_targets_are_json(shell)


def test_conversions_are_an_option_and_a_setting(shell: Shell) -> None:
    doubles, text = np.ones(2), cell(function("f", "x * 2"), "{} -q --engine numpy")
    for options, setting, takes in (
        ("", False, False),
        ("--convert", False, False),
        ("--convert same_kind", False, True),
        ("--convert=same_kind", False, True),
        ("", "same_kind", True),
        ("--convert", "same_kind", False),
    ):
        shell.run(f"%config TinyNNMagics.convert = {setting!r}")
        try:
            shell.run(text.format(options))
        finally:
            shell.run("%config TinyNNMagics.convert = False")
        assert shell["f"]([1, 2]).tolist() == [2, 4] if options or setting else True
        if takes:
            assert shell["f"](doubles).dtype == np.float32
        else:
            with pytest.raises(TypeError, match="must be Tensor"):
                shell["f"](doubles)


def test_arrays_of_rank_0_are_an_option_and_a_setting(shell: Shell) -> None:
    body = "def total(x: Tensor[(2,), f32]):\n    return x.sum()\n"
    x = np.ones(2, "f4")
    assert shell.run(f"{cell(body, '-q')}") == ""
    assert type(shell["total"](x)) is np.float32
    shell.run(cell(body, "-q --zero-d-arrays"))
    assert type(shell["total"](x)) is np.ndarray
    shell.run("%config TinyNNMagics.zero_d_arrays = True")
    try:
        shell.run(cell(body, "-q"))
        assert type(shell["total"](x)) is np.ndarray
    finally:
        shell.run("%config TinyNNMagics.zero_d_arrays = False")
    shell.run(cell(body, "-q"))
    assert type(shell["total"](x)) is np.float32


def test_settings(shell: Shell) -> None:
    defaults = {
        "show": "relay",
        "quiet": False,
        "cache": True,
        "cache_mb": None,
        "cache_dir": None,
        "opt_level": 3,
        "engine": "auto",
        "target": None,
    }
    try:
        shell.run("%config TinyNNMagics.show = 'source'")
        assert shell.run(cell(FOO)) == FOO.rstrip()
        assert shell.run(cell(FOO, "--show relay")) == FOO_RELAY
        shell.run("%config TinyNNMagics.quiet = True")
        assert shell.run(cell(FOO)) == ""
        shell.run("%config TinyNNMagics.cache = False")
        shell.run(cell(FOO))
        assert shell["foo"].cache_info.why == "the cache is off"
    finally:
        for name, value in defaults.items():
            shell.run(f"%config TinyNNMagics.{name} = {value!r}")
    assert shell.run(cell(FOO)) == FOO_RELAY


class TestLineMagic:
    def test_show(self, shell: Shell) -> None:
        shell.run(cell(FOO, "-q"))
        assert shell.run("%tinynn show foo") == FOO_RELAY
        assert shell.run("%tinynn show foo source") == FOO.rstrip()
        with pytest.raises(ValueError, match="foo has no stage 'nope'; the stages are source, tree"):
            shell.run("%tinynn show foo nope")
        with pytest.raises(ValueError, match="'bar' is not defined; the compiled functions are foo"):
            shell.run("%tinynn show bar")
        shell.run("bar = 3")
        with pytest.raises(ValueError, match="'bar' is of type int, not a compiled function; the"):
            shell.run("%tinynn show bar")
        for line, words in (
            ("show", r"usage: %tinynn show NAME \[STAGE,...\]; the compiled functions are foo"),
            ("show fooo", "'fooo' is not defined; did you mean foo"),
            ("show foo relya", "foo has no stage 'relya'; did you mean relay"),
            ("show foo, bar", "one function, and a list of stages after it: %tinynn show foo relay,graph"),
            ("foo", "has no command 'foo'; did you mean %tinynn show foo"),
        ):
            with pytest.raises(ValueError, match=words):
                shell.run(f"%tinynn {line}")

    def test_show_takes_what_holds_a_function(self, shell: Shell) -> None:
        shell.run(cell(FOO, "-q"))
        shell.run("class Model: pass\nmodel = Model()\nmodel.layer = foo")
        assert shell.run("%tinynn show model.layer") == FOO_RELAY
        with pytest.raises(ValueError, match=r"'model\.nope' is not defined; the compiled functions are foo"):
            shell.run("%tinynn show model.nope")

    def test_why(self, shell: Shell) -> None:
        shell.run(cell(FOO, "-q"))
        shown = shell.run("%tinynn why foo").splitlines()
        assert shown[0] == "foo: machine code alone"
        assert shown[2].split()[:2] == ["line", "of"]
        shell.run("%%tinynn -q\ndef bar(x):\n    return x + 1")
        with pytest.raises(ValueError, match="bar is compiled by its first call, for its types: call it"):
            shell.run("%tinynn why bar")
        shell.run("bar(1.0)")
        assert shell.run("%tinynn why bar").startswith("bar: machine code alone")

    def test_a_cell_runs_as_python(self, shell: Shell) -> None:
        shown = shell.run("%%tinynn --engine python\ndef half(x: f64):\n    return softmax(zeros(2)) * x")
        assert shown == "functions of Python, for pdb, which nothing has checked: half"
        half = shell.ip.user_ns["half"]
        assert isinstance(half, types.FunctionType)
        assert half(4.0).tolist() == [2.0, 2.0]
        with pytest.raises(ValueError, match="the engine python runs cells of %%tinynn"):
            shell.run("%%relay --engine python\ndef @f() { 1 }")

    def test_ops(self, shell: Shell) -> None:
        from nnmagic.relay import OPERATORS

        every = shell.run("%tinynn ops").splitlines()
        written = {line.partition("(")[0] for line in every}
        assert {name for name in OPERATORS if "." in name} <= written
        assert {"softmax", "math.floor", "scan", "rfft", "special.erf", "random.key"} <= written
        assert max(map(len, every)) <= 120
        dense = shell.run("%tinynn ops nn.dense")
        assert "nn.dense(data, weight, units=None, out_dtype='')" in dense
        conv2d = shell.run("%tinynn ops nn.conv2d").split("nn.conv2d_transpose")[0]
        assert "strides=(1, 1), padding=(0, 0)," in conv2d
        assert "out_layout=''," in conv2d
        assert len(shell.run("%tinynn ops nn.*pool2d").splitlines()) > 3
        assert "nn.conv2d(" in shell.run("%tinynn ops convolution"), "its summary has it"
        both = shell.run("%tinynn ops pool2d avg")
        assert "nn.avg_pool2d(" in both
        assert "nn.max_pool2d(" not in both
        for pattern in ("scan", "cumulative", "cum*", "cumulative reduction", "*sum"):
            assert "cumsum(" in shell.run(f"%tinynn ops {pattern}"), pattern
        assert "nn.conv2d(" in shell.run("%tinynn ops conv*"), "a pattern fits a name without its namespace"
        assert "exp(" in shell.run("%tinynn ops exponentials")
        with pytest.raises(ValueError, match="has 'nosuchthing'; %tinynn ops lists all"):
            shell.run("%tinynn ops nosuchthing")
        with pytest.raises(ValueError, match="has 'poolingly'; %tinynn ops pooling finds some"):
            shell.run("%tinynn ops poolingly")
        with pytest.raises(ValueError, match=r"no name or summary has 'nn\.dence'; did you mean nn\.dense"):
            shell.run("%tinynn ops nn.dence")

    def test_cache(self, shell: Shell) -> None:
        shell.run(cell(FOO))
        assert "foo" in shell.run("%tinynn cache")
        assert shell.run("%tinynn cache --clear") == "the cache is empty now"
        assert "cells in memory: 0" in shell.run("%tinynn cache")
        with pytest.raises(ValueError, match=r"usage: %tinynn cache \[--clear\]"):
            shell.run("%tinynn cache --nope")

    def test_help_and_what_is_unknown(self, shell: Shell) -> None:
        shown = shell.run("%tinynn help")
        assert shell.run("%tinynn") == shown
        for name in ("show", "ops", "cache", "profile", "help"):
            assert f"%tinynn {name}" in shown
        with pytest.raises(
            ValueError,
            match=r"no command 'nope'; its commands are show, ops, cache, profile, step, why, rerun, help",
        ):
            shell.run("%tinynn nope")

    @pytest.mark.full
    def test_profile(self, shell: Shell) -> None:
        shell.run("import numpy as np\nw = np.ones((3, 4), 'float32')")
        shell.run(cell(FOO, "-q"))
        shown = shell.run("%tinynn profile foo(np.ones((2, 3), 'float32'), w, c=w[:2])").splitlines()
        assert shown[0].startswith("foo: ")
        assert "GFLOP/s (float32)" in shown[0]
        assert shown[2].split() == ["kernel", "from", "calls", "time", "share", "bytes", "work", "of", "peak"]
        assert shown[4].startswith("nn.matmul + add")

    @pytest.mark.full
    def test_a_function_without_types_is_profiled(self, shell: Shell) -> None:
        shell.run("import numpy as np\na = np.ones((2, 3))")
        shell.run(cell("def doubled(x):\n    x += x.sum(axis=0)\n", "-q"))
        assert shell.run("%tinynn profile doubled(a)").startswith("doubled: ")
        np.testing.assert_array_equal(shell.ip.user_ns["a"], np.full((2, 3), 3.0))  # called once

    def test_what_cannot_be_profiled(self, shell: Shell) -> None:
        shell.run("import numpy as np\nw = np.ones((3, 4), 'float32')")
        shell.run(cell(FOO, "-q"))
        for wrong, words in (
            ("foo", "takes a call, as in profile foo"),
            ("foo(", "is no call"),
            ("len(w)", "'len' is of type builtin_function_or_method, not a compiled function"),
            ("", r"usage: %tinynn profile CALL"),
        ):
            with pytest.raises(ValueError, match=words):
                shell.run(f"%tinynn profile {wrong}")
        with pytest.raises(NameError, match="nope"):
            shell.run("%tinynn profile foo(nope, w, w)")
        with pytest.raises(ValueError, match="argument 'a' must be"):
            shell.run("%tinynn profile foo(w, w, w)")


@pytest.mark.parametrize("magic", ["tinynn", "relay"])
def test_the_help_lists_the_options(shell: Shell, magic: str) -> None:
    text = shell.ip.find_cell_magic(magic).__doc__
    assert f"%%{magic} " in text
    for option in (
        "-o",
        "--engine",
        "--target",
        "--opt-level",
        "--show",
        "--quiet",
        "--force",
        "--no-cache",
        "-v",
    ):
        assert option in text
    assert "@main" in text
    for part in ("options:", "the cell:", "examples:", "see also:"):
        assert f"\n{part}\n" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("magic", ["tinynn", "relay"])
def test_an_option_for_help_shows_the_page_alone(shell: Shell, magic: str, option: str) -> None:
    page = shell.run(f"%%{magic} {option}\nnothing that is looked at")
    assert page.lstrip().startswith(f"%%{magic} [-o NAME]")
    for part in ("options:", "the cell:", "examples:", "0 to 3; default: 3"):
        assert part in page
    assert shell.run(f"%%{magic} {option}") == page, "an empty cell, too"


def test_help_of_a_command(shell: Shell) -> None:
    listed = shell.run("%tinynn help")
    assert shell.run("%tinynn") == shell.run("%tinynn -h") == shell.run("%tinynn --help") == listed
    page = shell.run("%tinynn help show")
    assert shell.run("%tinynn show -h") == page
    assert page.startswith("%tinynn show NAME [STAGE,...]\n  show a function's Relay")
    for name, command in COMMANDS.items():
        assert f"%tinynn {command.usage}" in listed
        assert f"%tinynn {command.usage}" in shell.run(f"%tinynn help {name}")
        assert f"%tinynn {command.usage} " in (TinyNNMagics.tinynn_line.__doc__ or "")
    with pytest.raises(ValueError, match="has no command 'shw'; did you mean %tinynn show"):
        shell.run("%tinynn help shw")


def test_several_stages_of_a_function(shell: Shell) -> None:
    shell.run(cell(FOO, "-q"))
    both = shell.run("%tinynn show foo source,relay")
    assert FOO.rstrip() in both
    assert FOO_RELAY in both
    assert shell.run("%tinynn show foo source, relay") == both
    for written in ("relay, graph", "relay graph"):
        with pytest.raises(ValueError, match="a list has no blanks: --show relay,graph"):
            shell.run(cell(FOO, f"--show {written}"))


def test_unloading_and_loading(shell: Shell) -> None:
    ip = shell.ip
    try:
        nnmagic.load_ipython_extension(ip)
        nnmagic.load_ipython_extension(ip)
        assert sum(type(configurable).__name__ == "TinyNNMagics" for configurable in ip.configurables) == 1
        nnmagic.unload_ipython_extension(ip)
        assert ip.find_cell_magic("tinynn") is None
        assert ip.find_line_magic("tinynn") is None
        assert ip.find_cell_magic("relay") is None
        assert not any(type(configurable).__name__ == "TinyNNMagics" for configurable in ip.configurables)
        nnmagic.unload_ipython_extension(ip)
        ip.register_magic_function(lambda line, cell: "mine", "cell", "relay")
        nnmagic.unload_ipython_extension(ip)
        assert ip.find_cell_magic("relay") is not None, "another's magic of that name stays"
    finally:
        nnmagic.load_ipython_extension(ip)
    assert shell.run(cell(FOO)) == FOO_RELAY


@pytest.mark.parametrize("cell", ["%tinynn\ndef f(x: f64):\n    return x\n", "%tinynn def f(x): return x"])
def test_one_percent_sign_is_named(cell: str, shell: Shell) -> None:
    with pytest.raises(ValueError, match="write %%tinynn"):
        shell.ip.run_cell(cell, store_history=True).raise_error()
