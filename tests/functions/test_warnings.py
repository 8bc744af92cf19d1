"""Warnings of a source that compiles: what warns, what never does, and where they are shown."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNWarning
from nnmagic.diagnostics import Source
from nnmagic.tinynn import compile_source

HEAD = "def f(x: f32, unread: f32 = 1):\n"


def warnings_of(body: str) -> list[tuple[str, int, int]]:
    """The warnings of a function's body: words, line of the body, column."""
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    given = compile_source(Source("cell", text), {"n": 3}).warnings
    assert all(each.severity == "warning" for each in given)
    assert all(each.span.source.line(each.span.line) for each in given)
    return [(each.message.split(",")[0], each.span.line - 1, each.span.column - 4) for each in given]


UNUSED = [
    ("y = x\nreturn x", [("`y` is assigned", 1, 1)]),
    ("y = x\ny = x * 2\nreturn x", [("`y` is assigned", 1, 1)]),
    ("y = 0\ny += 1\nreturn x", [("`y` is assigned", 1, 1)]),
    ("z = y = x\nreturn z", [("`y` is assigned", 1, 5)]),
    ("y: f32 = x\nreturn x", [("`y` is assigned", 1, 1)]),
    ("return (y := x) * 2", [("`y` is assigned", 1, 9)]),
    ("if x > 0:\n    y = x\nreturn x", [("`y` is assigned", 2, 5)]),
    ("def g(a):\n    y = a\n    return a\nreturn g(x)", [("`y` is assigned", 2, 5)]),
    ("a = b = x\nreturn x", [("`a` is assigned", 1, 1), ("`b` is assigned", 1, 5)]),
]
UNREACHED = [
    ("return x\ny = x", [("this is never reached", 2, 1)]),
    ("return x\nreturn x\nreturn x", [("this is never reached", 2, 1)]),
    ("if x > 0:\n    return x\nelse:\n    return -x\nreturn x", [("this is never reached", 5, 1)]),
    (
        "for i in range(3):\n    if x > i:\n        break\n        x = x + 1\nreturn x",
        [("this is never reached", 4, 9)],
    ),
    (
        "for i in range(3):\n    x = x + 1\n    continue\n    x = x - 1\nreturn x",
        [("this is never reached", 4, 5)],
    ),
    (
        "while True:\n    x = x + 1\n    if x > 9:\n        return x\nx = x + 2",
        [("this is never reached", 5, 1)],
    ),
]
QUIET = [
    "y = x\nreturn y",
    "_y = x\n_ = x\nreturn x",
    "a, b = (x, x)\nreturn a",
    "(a, *b), c = ((x, x), x)\nreturn c",
    "for i in range(3):\n    x = x + 1\nreturn x",
    "y = [x for i in range(3)]\nreturn y[0]",
    "y = x\ng = lambda a: a + y\nreturn g(x)",
    "y = x\ndef g(a):\n    return a + y\nreturn g(x)",
    "size = 2 * n\ny: Tensor[(size,), f32] = zeros(size, f32) + x\nreturn y",
    "match (x, 1):\n    case (a, b):\n        return x",
    "while x < 10:\n    x = x + 1\n    if x > 5:\n        break\nelse:\n    x = x + 100\nreturn x",
    "while True:\n    x = x + 1\n    if x > 9:\n        break\nreturn x",
    "if n == 3:\n    return x\nreturn -x",
    "return x\npass",
    "y = x\nif n == 4:\n    x = y\nreturn x",
]


@pytest.mark.parametrize(("body", "expected"), UNUSED + UNREACHED)
def test_what_warns(body: str, expected: list[tuple[str, int, int]]) -> None:
    assert warnings_of(body) == expected


@pytest.mark.parametrize("body", QUIET)
def test_what_never_warns(body: str) -> None:
    assert warnings_of(body) == []


def test_a_warning_is_drawn_as_an_error_is() -> None:
    with pytest.warns(TinyNNWarning) as record:
        f = nnmagic.compile("def f(x: f32):\n    ü = x\n    return x\n    x = 2\n", cache=False)
    assert f(2.0) == 2
    assert [str(each.message) for each in record] == [
        "warning: `ü` is assigned, but nothing uses it\n --> <tinynn>:2:5\n  |\n2 |     ü = x\n  |     ^\n"
        "help: leave it out, or begin its name with `_`",
        "warning: this is never reached\n --> <tinynn>:4:5\n  |\n3 |     return x\n"
        "  |     ^^^^^^^^ nothing goes on after this\n4 |     x = 2\n  |     ^^^^^\nhelp: leave it out",
    ]
    assert record[0].filename == __file__, "the caller's line is the one that warns"
    assert issubclass(TinyNNWarning, UserWarning)


def test_text_warns_at_the_callers_line() -> None:
    source = "def f(x: f32):\n    y = x\n    return x\n"
    line = inspect.currentframe().f_lineno  # type: ignore[union-attr]  # CPython has frames
    with pytest.warns(TinyNNWarning) as record:
        nnmagic.compile(source, cache=False)
    assert [(each.filename, each.lineno) for each in record] == [(__file__, line + 2)]


def test_a_python_function_warns_at_its_own_line() -> None:
    def f(x: nnmagic.f32):
        y = x  # noqa: F841 - what warns
        return x

    with pytest.warns(TinyNNWarning, match="`y` is assigned") as record:
        compiled = nnmagic.function(f)
    assert compiled(3.0) == 3
    (warning,) = record
    assert warning.filename == __file__
    assert warning.lineno == f.__code__.co_firstlineno + 1


def test_a_warning_made_an_error_stops_nothing_for_good() -> None:
    source = "def f(x: f32):\n    y = x\n    return x\n"
    with pytest.raises(TinyNNWarning):
        nnmagic.compile(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TinyNNWarning)
        np.testing.assert_array_equal(nnmagic.compile(source)(1.0), 1)
    with pytest.warns(TinyNNWarning):  # found in the cache, it warns again
        assert nnmagic.compile(source).cache_info.hit == "memory"


ARRAY = 'def f(x: Tensor[("n",), f64]):\n    {}\n'


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (
            "x -= x.mean()\n    return x",
            "`x -=` changes the caller's array in NumPy; in a cell `x` is a new array",
            "write x = x - value for a new array; to change the caller's, "
            'declare x: InOut[Tensor[("n",), f64]]',
        ),
        (
            "y = x[::2]\n    for _ in range(3):\n        y *= 2\n    return y",
            "`y *=` changes the array of the parameter `x` in NumPy; in a cell `y` is a new array",
            "write y = y * value for a new array",
        ),
    ],
)
def test_an_update_of_the_callers_array_warns_once(body: str, message: str, hint: str) -> None:
    (warning,) = compile_source(Source("cell", ARRAY.format(body)), {}).warnings
    assert (warning.message, warning.hint) == (message, hint)
    with pytest.warns(TinyNNWarning) as caught:
        function = nnmagic.compile(ARRAY.format(body))
    assert len(caught) == 1
    given = np.arange(5.0)
    space = {}
    exec(f"def f(x):\n    {body}\n", space)
    np.testing.assert_array_equal(function(given), space["f"](given.copy()))
    np.testing.assert_array_equal(given, np.arange(5.0))


def test_what_the_warning_says_to_write_does_not_warn() -> None:
    assert not compile_source(Source("cell", ARRAY.format("x = x - x.mean()\n    return x")), {}).warnings
    declared = 'def f(x: InOut[Tensor[("n",), f64]]):\n    x -= x.mean()\n'
    assert not compile_source(Source("cell", declared), {}).warnings
    given = np.arange(5.0)
    nnmagic.compile(declared)(given)
    np.testing.assert_array_equal(given, np.arange(-2.0, 3.0))


def test_a_function_without_types_warns_at_its_first_call() -> None:
    function = nnmagic.compile("def f(x):\n    return x * zeros(3)\n")
    with pytest.warns(TinyNNWarning, match=r"`zeros\(3\)` is f64, and so is"):
        function(np.zeros(3, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(np.ones(3, np.float32))
        assert function(3).tolist() == [0, 0, 0]


def test_an_attribute_of_an_object_is_no_name_that_is_unused(recwarn: pytest.WarningsRecorder) -> None:
    text = "class Walk:\n    def __init__(self, x):\n        self.x = x\n        self.name = 1\n"
    use = "def f(x: f64):\n    w = Walk(x)\n    w.last = x\n    return w.x * 2\n"
    f = nnmagic.compile(text + use, cache=False, engine="numpy")
    assert (f(2.0), [str(each.message) for each in recwarn]) == (4, [])
