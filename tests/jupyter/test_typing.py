"""Help while typing, over the protocol that JupyterLab speaks: completion and inspection of a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnmagic.jupyter.cursor_context import cursor_in, names_in
from nnmagic.relay import OPERATORS
from nnmagic.tinynn.editor.local_types import type_of_local
from tests.kernels import Kernel

SETUP = """
%load_ext nnmagic
import numpy as np
hidden, weights = 3, np.ones(3, 'float32')
class Settings: pass
settings = Settings()
"""
BAR = '%%tinynn -q\ndef bar(x: Tensor[(2,), f32], scale: f32):\n    """Scales x."""\n    return x * scale\n'
HEAD = "%%tinynn\ndef foo(first: Tensor[(2, 3), f32]):\n    local = first * 2\n    "


def begins_with(prefix: str) -> list[str]:
    return [name.removeprefix("nn.") for name in OPERATORS if name.startswith(f"nn.{prefix}")]


@pytest.fixture(scope="module")
def kernel(kernel: Kernel) -> Kernel:
    kernel.run(SETUP)
    kernel.run(BAR)
    return kernel


class TestKernel:
    def test_operators_and_their_attributes(self, kernel: Kernel) -> None:
        assert kernel.complete(f"{HEAD}y = nn.con|") == begins_with("con")
        assert kernel.complete(f"{HEAD}y = relay.nn.rel|") == begins_with("rel")
        assert kernel.complete(f"{HEAD}y = nn.conv2d(first, str|")[0] == "strides="
        offered = kernel.complete(f"{HEAD}y = nn.conv2d(first, first, (1, 1), groups=2, |")
        assert "padding=" in offered
        assert not {"data=", "weight=", "strides=", "groups="} & set(offered), "what is given already"

    def test_methods_and_attributes_of_tensors(self, kernel: Kernel) -> None:
        assert kernel.completions(f"{HEAD}y = first.sha|")[0] == ("shape", "property")
        assert ("softmax", "function") in kernel.completions(f"{HEAD}y = local.sof|")
        assert kernel.complete(f"{HEAD}y = local.sum(ax|") == ["axis="]

    def test_names_of_the_cell_and_of_the_notebook(self, kernel: Kernel) -> None:
        assert kernel.completions(f"{HEAD}y = loc|") == [("local", "instance")]
        assert kernel.completions(f"{HEAD}y = fir|") == [("first", "instance")]
        assert kernel.complete(f"{HEAD}y = hid|") == ["hidden"]
        assert kernel.complete(f"{HEAD}y = weig|") == ["weights"]
        offered = kernel.complete(f"{HEAD}y = se|")
        assert "sequence_mask" in offered
        assert "settings" not in offered, "what a cell cannot use"
        assert kernel.completions(f"{HEAD}y = bar|") == [("bar", "function"), ("bartlett", "function")]
        assert kernel.complete(f"{HEAD}y = bar(sc|")[0] == "scale="
        assert kernel.complete(f"{HEAD}y = np.linalg.no|") == ["norm"]
        assert "exp" in kernel.complete(f"{HEAD}y = np.ex|")

    def test_dtypes(self, kernel: Kernel) -> None:
        assert kernel.complete("%%tinynn\ndef f(a: Tensor[(2, 3), f|") == ["f16", "f32", "f64"]
        assert kernel.complete("%%tinynn\ndef f(a: Ten|") == ["Tensor"]
        assert kernel.complete(f"{HEAD}y = first.astype(dtype=i3|") == ["i32"]

    def test_options_and_commands(self, kernel: Kernel) -> None:
        assert kernel.complete("%%tinynn --en|") == ["--engine"]
        assert kernel.complete("%%relay --engine rel|\ndef @f() { 1 }") == ["relax", "relay"]
        assert kernel.complete("%%tinynn --show relay,gr|") == ["graph"]
        assert kernel.complete("%tinynn sh|") == ["show"]
        assert kernel.complete("%tinynn show ba|") == ["bar"]
        assert kernel.complete("%tinynn show bar ll|") == ["llvm"]
        assert kernel.complete("%tinynn ops nn.den|") == ["nn.dense"]

    def test_commands_and_their_words(self, kernel: Kernel) -> None:
        assert kernel.complete("%tinynn profile ba|") == ["bar"]
        assert kernel.complete("%tinynn profile |") == ["bar"]
        assert "weights" in kernel.complete("%tinynn profile bar(wei|")
        assert kernel.complete("%tinynn help pro|") == ["profile"]
        assert kernel.complete("%tinynn show bar relay,gr|") == ["graph"]
        assert kernel.complete("bar.stages['re|") == ["relay", "relay-typed", "relax"]
        assert "'source'" in kernel.complete("bar.stages[|")

    def test_nothing_is_offered_where_nothing_can_stand(self, kernel: Kernel) -> None:
        assert kernel.complete(f"{HEAD}# loc|") == []
        assert kernel.complete(f"{HEAD}'loc|") == []
        assert kernel.complete(f"{HEAD}first.shape.|") == []
        assert kernel.complete(f"{HEAD}first.shape[0].|") == []
        assert kernel.complete("%%tinynn\n|") == ["def", "class"]
        assert kernel.complete(f"{HEAD}return local\n\nde|") == ["def"]

    def test_members_of_an_expression(self, kernel: Kernel) -> None:
        for owner in ("(first * 2)", "first[0]", "local.T", "np.exp(first)"):
            assert kernel.complete(f"{HEAD}return {owner}.softma|") == ["softmax"], owner

    def test_a_dtype_comes_first_where_one_is_wanted(self, kernel: Kernel) -> None:
        for call in ("first.astype(|", "zeros((2,), |", "ones(3, dtype=|"):
            assert kernel.complete(f"{HEAD}{call}")[:4] == ["f16", "bf16", "f32", "f64"], call
        assert kernel.complete(f"{HEAD}nn.relu(|")[0] != "f16"

    def test_help_for_words_of_the_magics_lines(self, kernel: Kernel) -> None:
        assert "Compile the tensor functions of this cell" in kernel.inspect(
            "%%tin|ynn\ndef f(x: f32): return x"
        )
        assert "Compile the tensor functions of this cell" in kernel.inspect("%%tinynn\n|")
        assert "Compile the Relay functions of this cell" in kernel.inspect("%%rel|ay\n")
        assert "%tinynn profile CALL" in kernel.inspect("%tin|ynn show bar")
        assert "kernel by kernel" in kernel.inspect("%tinynn prof|ile bar(1)")
        shown = kernel.inspect("%%tinynn --sh|ow relay\n")
        assert "what to show, a comma-separated list; default: relay" in shown

    def test_what_the_notebook_holds(self, kernel: Kernel) -> None:
        kernel.run(
            "from types import SimpleNamespace\n"
            "config = SimpleNamespace(width=3, layers={'first': np.ones(2), 'größe': 2}, print=print)\n"
            "sizes = {'n': 2, 'm': 3}"
        )
        kernel.run("%%tinynn -q\nclass Branches:\n    def Branch(x: f32): ...")
        assert kernel.complete(f"{HEAD}return config.|") == ["width", "layers"], "no function"
        assert kernel.complete(f"{HEAD}return config.layers['|") == ["first", "größe"]
        assert kernel.complete(f'{HEAD}return config.layers["grö|') == ["größe"]
        assert kernel.complete(f"{HEAD}return sizes[|")[:2] == ["'n'", "'m'"]
        assert kernel.complete(f"{HEAD}return sizes.|") == ["items", "keys", "values"]
        assert kernel.complete(f"{HEAD}return siz|")[0] == "sizes"
        assert kernel.complete(f"{HEAD}return Bran|") == ["Branches", "Branch"], (
            "a constructor by its name alone"
        )
        assert kernel.complete(f"{HEAD}return Ou|") == ["Out"], "the annotation, not what IPython shows"
        assert kernel.complete("%%tinynn\ndef f(x: Tensor[(|") == ["hidden"]
        assert kernel.complete("%%tinynn\ndef f(x: Tensor[(hidden, hid|") == ["hidden"]

    @pytest.mark.parametrize(
        ("text", "offered"),
        [
            ("%%tinynn|", []),
            ("%%tinynn\n|", ["def", "class"]),
            ("%%tinynn --engine=re|", ["relax", "relay"]),
            ("%%tinynn --target |", []),
            ("\n\n%%tinynn\ndef f(x: f32):\n    return x.softma|", ["softmax"]),
            ("%%tinynn\r\ndef f(x: f32):\r\n    return x.softma|", ["softmax"]),
            ("%%tinynn\ndef f(größe: f32):\n\treturn '😀', größe.softma|", ["softmax"]),
            ("%%tinynn\ndef f(größe: f32):\n    return grö|", ["größe"]),
            ("%%tinynn\ndef f(x: f32):\n    y = x +* 3\n    z = [(\n    nn.rel|", ["relu"]),
            ("%%tinynn\ndef f(x: f32):\n    # nn.rel|", []),
            ('%%tinynn\ndef f(x: f32):\n    """nn.rel|', []),
            (f"%%tinynn\n{'(' * 3000}nn.rel|", ["relu"]),
            (f"%%tinynn\n{'x.' * 3000}softma|", ["softmax"]),
            ("%%relay\ndef @main(%größe: float32) { %grö|", ["%größe"]),
        ],
    )
    def test_odd_positions(self, kernel: Kernel, text: str, offered: list[str]) -> None:
        assert kernel.complete(text) == offered

    def test_relay_text(self, kernel: Kernel) -> None:
        head = "%%relay\ndef @main(%data: Tensor[(2), float32]) {\n  "
        assert kernel.complete(f"{head}nn.softm|") == ["nn.softmax"]
        assert kernel.complete(f"{head}nn.softmax(%da|") == ["%data"]
        assert kernel.complete(f"{head}nn.softmax(%data, ax|") == ["axis="]

    def test_other_cells_are_python_s(self, kernel: Kernel) -> None:
        assert kernel.complete("hidd|") == ["hidden"]
        assert "sigmoid" not in kernel.complete("sig|")

    def test_help_for_words_of_the_language(self, kernel: Kernel) -> None:
        for shown in (
            kernel.inspect("nn.conv2|d"),
            kernel.inspect(f"{HEAD}y = nn.conv2d(|"),
            kernel.pages("nn.conv2d?"),
        ):
            assert "strides=(1, 1)," in shown
            assert OPERATORS["nn.conv2d"].summary in shown
            assert "padding: 1, 2 or 4 ints" in shown
            assert "weight: a tensor" in shown
            assert "Relay: nn.conv2d" in shown
        inside, outside = kernel.inspect(f"{HEAD}y = su|m(local)"), kernel.inspect("su|m(local)")
        assert "NumPy: numpy.sum" in inside
        assert "axis=None," in inside
        assert "keepdims=False," in inside
        assert "axis: an int, or a tuple of ints" in inside
        assert "iterable" in outside, "Python's own"
        assert "exp(x) divided by its sum" in kernel.inspect(f"{HEAD}y = local.softm|ax()")
        assert kernel.inspect("nn.nothin|g") is None

    def test_help_for_a_name_of_the_cell_says_its_type(self, kernel: Kernel) -> None:
        assert "local: Tensor[(2, 3), f32]" in kernel.inspect(f"{HEAD}return loc|al")
        assert "first: Tensor[(2, 3), f32]" in kernel.inspect(f"{HEAD}return fir|st")
        shape = f"{HEAD}rows, columns = first.shape\n    both = (local, rows)\n    "
        assert "rows: int, known at compile time" in kernel.inspect(f"{shape}return ro|ws")
        assert "both: tuple[Tensor[(2, 3), f32], int]" in kernel.inspect(f"{shape}return bo|th")

    @pytest.mark.parametrize(
        "rest",
        [
            "wrong = first @ first\n    return loc|al",
            "return loc|al +",
            "loc|al\n    y = nn.conv2d(first, ",
            "loc|al.",
            "y = nothing(first)\n    loc|al\n    if first >",
            "for i in range(3):\n        loc|al",
            "loc|al\n    if x:",
        ],
    )
    def test_help_for_a_name_of_a_cell_that_is_not_right_yet(self, kernel: Kernel, rest: str) -> None:
        text = f"%%tinynn\ndef other(local: i32):\n    return local\n\n{HEAD.partition(chr(10))[2]}{rest}"
        page = kernel.inspect(text)
        assert page is not None
        assert "local: Tensor[(2, 3), f32]" in page
        assert "local: i32" not in page, "that of another function"

    def test_no_help_for_what_is_wrong(self, kernel: Kernel) -> None:
        assert kernel.inspect(f"{HEAD}bad = first @ first\n    return ba|d") is None
        text = "%%tinynn\ndef foo(first: Tensor[(2, 3), f32]):"
        assert type_of_local(text, "first", 2, {}) == "first: Tensor[(2, 3), f32]"

    def test_help_for_a_compiled_function(self, kernel: Kernel) -> None:
        for shown in (kernel.inspect("ba|r(1)"), kernel.pages("bar?")):
            assert "bar(x: Tensor[(2,), f32], scale: f32) -> Tensor[(2,), f32]" in shown
            assert "Scales x." in shown
            assert "multiply(%x, %scale)" in shown
            assert "Call signature" not in shown
            assert re.search(r"File: +Cell In\[2\], line 2\n", shown), "as IPython's tracebacks name it"
        assert "return x * scale" in kernel.pages("bar??")
        assert "return x * scale" in kernel.inspect("ba|r", detail=1)

    def test_help_for_functions_of_numpy_in_a_cell(self, kernel: Kernel) -> None:
        inside, outside = kernel.inspect(f"{HEAD}y = np.tan|h(local)"), kernel.inspect("np.tan|h")
        assert "Compute the hyperbolic tangent." in inside
        assert "Relay: tanh" in inside
        assert "NumPy: numpy.tanh" in inside
        assert "ufunc" not in inside
        assert "ufunc" in outside, "NumPy's own"
        assert "axis=None, keepdims=False" in kernel.inspect(f"{HEAD}y = np.linalg.nor|m(local)")
        assert "negative_slope=0.01" in kernel.inspect(f"{HEAD}y = leaky_rel|u(local)")
        assert "File:" not in inside

    def test_help_for_what_the_cell_itself_defines(self, kernel: Kernel) -> None:
        text = (
            '%%tinynn\nclass Shape:\n    """A shape."""\n'
            "    def Circle(r: f32): ...\n    def Empty(): ...\n\n"
            "def helper(a: Tensor[(hidden, 2), f32], /, k: f32 = 1.5, *, n: i32 = 2):\n"
            '    """Multiplies."""\n    return a * k\n\n'
            "def relu(x: f32):\n    return x\n\n"
            "def user(first: Tensor[(3, 2), f32]):\n    return "
        )
        page = kernel.inspect(f"{text}help|er(first)")
        assert "(a: Tensor[(3, 2), f32], /, k: f32 = 1.5, *, n: i32 = 2) -> Tensor[(3, 2), f32]" in page
        assert "Multiplies." in page
        assert "return a * k" in kernel.inspect(f"{text}help|er(first)", detail=1)
        for name in ("Cir|cle", "Shape.Cir|cle"):
            page = kernel.inspect(f"{text}{name}(1.0)")
            assert "Circle(r: f32) -> Shape" in page
            assert "Makes a value of Shape." in page
        page = kernel.inspect(f"{text}Sha|pe")
        assert "A shape." in page
        assert "  Circle(r: f32)\n  Empty()" in page
        assert "relu(x: f32) -> f32" in kernel.inspect(f"{text}rel|u(1.0)"), "not the operator of that name"

    def test_help_for_what_a_cell_defines_while_it_has_errors(self, kernel: Kernel) -> None:
        text = (
            "%%tinynn\ndef helper(a: Tensor[(2, nothing), f32], k: f32 = 1):\n    return a +\n\n"
            "def f(x: f32):\n    hel|per("
        )
        assert "helper(a: Tensor[(2, nothing), f32], k: f32 = 1)" in kernel.inspect(text)

    def test_help_for_data_types(self, kernel: Kernel) -> None:
        kernel.run(
            '%%tinynn -q\nclass Tree:\n    """A tree."""\n'
            "    def Leaf(x: f32): ...\n    def Fork(a: Tree, b: Tree): ..."
        )
        for page in (
            kernel.inspect("Tre|e"),
            kernel.pages("Tree?"),
            kernel.inspect("%%tinynn\ndef f(t: Tree) -> Tre|e:"),
        ):
            assert "A tree." in page
            assert "Tree.Fork(a: Tree, b: Tree)" in page
            assert "NoReturn" not in page
            assert "File:" not in page
        bare = "%%tinynn\ndef f(x: f32):\n    return Lea|f(x)"
        for page in (kernel.inspect("Tree.Lea|f"), kernel.pages("Tree.Leaf?"), kernel.inspect(bare)):
            assert "Leaf(x: f32) -> Tree" in page
            assert "Call signature" not in page

    def test_a_function_of_a_cell_or_a_file_says_where_it_is(self, kernel: Kernel, tmp_path: Path) -> None:
        kernel.run("import nnmagic\n\n@nnmagic.function\ndef decorated(x: nnmagic.f32):\n    return x * 2")
        assert re.search(r"File: +Cell In\[\d+\], line 4\n", kernel.inspect("decora|ted"))
        assert "return x * 2" in kernel.pages("decorated??")
        (tmp_path / "own_module.py").write_text(
            "import nnmagic\n\n\n@nnmagic.function\ndef own(x: nnmagic.f32):\n    return x * 3\n"
        )
        kernel.run(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom own_module import own")
        assert f"{tmp_path}/own_module.py:5" in kernel.inspect("ow|n").replace("~", str(Path.home()))
        kernel.run("given = nnmagic.compile('def given(x: f32): return x')")
        assert "File:" not in kernel.inspect("giv|en")

    def test_nothing_stays_when_it_is_unloaded(self, kernel: Kernel) -> None:
        state = (
            "shell = get_ipython()\n"
            "state = (len(shell.Completer.custom_matchers), '_ofind' in vars(shell),"
            " len(shell.input_transformers_cleanup), len(shell.configurables),"
            " 'info' in vars(shell.inspector))\n"
        )
        try:
            kernel.run("%unload_ext nnmagic")
            assert kernel.inspect("nn.conv2|d") is None
            assert kernel.complete("%tinynn sho|") == []
            kernel.run(f"{state}before = state\n%load_ext nnmagic\n%unload_ext nnmagic")
            kernel.run(f"{state}assert state == before")
        finally:
            kernel.run("%load_ext nnmagic")
        assert kernel.inspect("nn.conv2|d") is not None


def test_where_the_cursor_is() -> None:
    cursor = cursor_in("def f(x: Tensor[(2, 3), f32]):\n    y = nn.conv2d(x, g(1, 2), axis=1, st")
    assert cursor.path == ("st",)
    assert cursor.bracket is not None
    assert (cursor.bracket.callee, cursor.bracket.commas, cursor.bracket.keywords) == (
        "nn.conv2d",
        3,
        ("axis",),
    )
    assert cursor.expects_keyword()
    assert not cursor.expects_type()
    assert cursor_in("def f(x: Tensor[(2, 3), f").expects_type()
    assert cursor_in("def f(x: f").expects_type()
    assert cursor_in("def f(x: f32) -> f").expects_type()
    assert not cursor_in("y = x[a").expects_type()
    assert cursor_in("y = 1  # f(").quoted
    assert cursor_in("y = f('a").quoted
    assert not cursor_in("y = f('a', ").quoted
    assert not cursor_in('"""doc\n"""\ny').quoted
    assert cursor_in('"""doc (\n').quoted


def test_names_of_a_cell() -> None:
    body = (
        "class Shape:\n    Circle(f32)\n    Empty()\n\n"
        "def one(a: f32, b: Tensor[(2,), f32]):\n    c, d = a, b\n"
        "    for i in range(3):\n        e: f32 = c\n"
        "    def inner(z: f32):\n        return z\n    return "
    )
    text = f"{body}\n\ndef two(q: f32):\n    return q\n"
    names = names_in(text, body)
    assert names.classes == {"Shape": ("Circle", "Empty")}
    assert names.functions == {"one": ("a", "b"), "two": ("q",)}
    assert set(names.local) == {"a", "b", "c", "d", "i", "e", "z", "inner"}
