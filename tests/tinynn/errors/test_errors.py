"""Errors of a cell: what is said, and exactly where. The span is marked with « and » in the source."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest

from nnmagic.relay.types import NUMPY_DTYPES
from nnmagic.tinynn.namespace.unsupported_functions import ELSEWHERE
from tests.tinynn.cases import errors_of

X = "x: Tensor[(2, 3), f32], y: Tensor[(2, 3), f32]"


def body(text: str, parameters: str = X) -> str:
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    return f"def f({parameters}):\n{lines}"


def strip_marks(marked: str) -> tuple[str, list[tuple[int, int, int, int]]]:
    """The source without the marks, and the spans that they stood around, in source order."""
    spans, opened, out = [], [], ""
    line, column = 2, 1
    for char in marked:
        if char == "«":
            opened.append((line, column))
        elif char == "»":
            spans.append((*opened.pop(), line, column))
        else:
            out += char
            line, column = (line + 1, 1) if char == "\n" else (line, column + 1)
    return out, sorted(spans)


class Layer:
    def __call__(self, x: object) -> object:
        raise AssertionError("nothing of the notebook runs")

    def __getattr__(self, name: str) -> object:
        raise AssertionError("nothing of the notebook runs")


def helper(x: object) -> object:
    raise AssertionError("nothing of the notebook runs")


NOTEBOOK: dict[str, object] = {
    "np": np,
    "math": math,
    "helper": helper,
    "exp": helper,
    "layer": Layer(),
    "Layer": Layer,
    "settings": {"a": 1},
    "weights": [np.ones(3), np.ones(4)],
    "words": np.array(["a"]),
    "thing": object(),
    "masked": np.ma.masked_array([1.0, 2.0]),
    "f64_array": np.ones(3),
    "mixed": np.array([1, "a"], object),
    "spectrum": np.ones(3, np.clongdouble),
    "width": 3,
    "rate": 0.5,
    "hidden": np.ones((3, 4), np.float32),
}

#: (source, messages in source order)
CASES: list[tuple[str, list[str]]] = [
    # shapes and dtypes
    (body("return «x @ y»"), ["`@`: the inner dimensions of (2, 3) and (2, 3) differ (3 and 2)"]),
    (body("return «x + y[:, 1:]»"), ["`+`: the shapes (2, 3) and (2, 2) do not broadcast (3 against 2)"]),
    (body("return «x.astype(f16) * y.astype(bf16)»"), ["`*` of f16 and bf16, which have no common dtype"]),
    (body("return «x.astype(bf16) @ y.T.astype(f16)»"), ["`@` of bf16 and f16, which have no common dtype"]),
    (body("return «relay.add(x, y.astype(f64))»"), ["add of f32 and f64: an operator of Relay takes one dtype"]),
    (body("return x.astype(i8) + «300»"), ["300 does not fit in i8 (-128 to 127)"]),
    (body("return x.astype(u8) - «-1»"), ["-1 does not fit in u8 (0 to 255)"]),
    (body("return x.astype(f16) * «1e6»"), ["1000000.0 does not fit in f16"]),
    (body("return «(x > 0) - (y > 0)»"), ["`-` is not defined for bools"]),
    (body("return -(«x > 0»)"), ["`-` is defined for numbers, not bool_"]),
    (body("return ~«x»"), ["`~` is defined for integers and bools, not f32"]),
    (body("return «x» & y"), ["`&` is defined for integers or bools, not f32"]),
    (body("return clip(x.astype(u8), 0, «300»)"), ["300 does not fit in u8 (0 to 255)"]),
    (body("return «clip(x, (1, 2), 1)»"), ["clip: the shapes (2, 3) and (2,) do not broadcast"]),
    (body("return clip(x, «(x, x)», 1)"), ["clip: `a_min` must be a number or a tensor, not a tuple of 2"]),
    (body("return relay.clip(«x > 0», 0, 1)"), ["clip is defined for numbers, not bool_"]),
    (body("return x.astype(i32) << «-1»"), ["a shift by -1 of i32"]),
    (body("return x.astype(i32) // «0»"), ["division by zero"]),
    (body("return x.astype(i32) ** «-1»"), ["an integer to a negative power"]),
    (body("return «x + (1, 2)»"), ["`+`: the shapes (2, 3) and (2,) do not broadcast (3 against 2)"]),
    (body("return x @ «1»"), ["`@` takes tensors, not the number 1"]),
    (body("return «x.sum()» @ y"), ["`@` takes tensors of rank 1 or more, not a scalar"]),
    # what real Relay takes though it is odd
    (body("return «nn.matmul(x, y)»"), ["nn.matmul: the inner dimensions of (2, 3) and (2, 3) differ (3 and 2)"]),
    (
        body("return «nn.dense(x, hidden)»"),
        ["nn.dense: the inner dimensions of (2, 3) and (3, 4) differ (3 and 4)"],
    ),
    (body("return broadcast_to(x, shape=«(2, 4)»)"), ["broadcast_to: (2, 3) cannot become the shape (2, 4)"]),
    (body("return nn.relu(«(x, y)»)"), ["nn.relu: `data` must be a tensor, not a tuple of 2"]),
    (body("return relay.logical_and(«x», y)"), ["logical_and is defined for bools, not f32"]),
    (body("return left_shift(«x», y)"), ["`left_shift` is defined for integers, not f32"]),
    (
        body("return nn.l2_normalize(x, eps=1e-5, axis=«[9]»)"),
        ["nn.l2_normalize: axis 9 is out of range for a tensor of rank 2"],
    ),
    (
        body('return cast(x, dtype=«"float99"»)'),
        [f"cast: attribute 'dtype' must be one of the dtypes {', '.join(NUMPY_DTYPES)}, not 'float99'"],
    ),
    (body("return relay.exp(«x.astype(i32)»)"), ["exp is defined for floats, not i32"]),
    (body("return «relay.divide(x.astype(i32), y.astype(i32))»"), ["divide of integers would be truncated, unlike NumPy's"]),
    (body("return relay.where(«x», x, y)"), ["where takes a condition of bools, not f32"]),
    (body("return «where(x > 0, x, y.T)»"), ["where: the shapes (2, 3) and (3, 2) do not broadcast (3 against 2)"]),
    (body("return concatenate(«[x, y.T]», axis=0)"), ["concatenate: the shapes (2, 3) and (3, 2) do not fit together"]),
    (body("return concatenate(«[x.astype(f16), y.astype(bf16)]»)"), ["concatenate of f16 and bf16, which have no common dtype"]),
    # named dimensions
    (
        body("return «x + y»", 'x: Tensor[("n",), f32], y: Tensor[("m",), f32]'),
        ['`+`: the shapes ("n",) and ("m",) do not broadcast ("n" against "m")'],
    ),
    (
        body("return «x + y»", 'x: Tensor[("n",), f32], y: Tensor[(4,), f32]'),
        ['`+`: the shapes ("n",) and (4,) do not broadcast ("n" against 4)'],
    ),
    (
        body("k = x.shape[0] * 3\nreturn x.reshape(«k»)", 'x: Tensor[("n", 2), f32]'),
        ['reshape: ("n", 2) cannot become ("3*n",)'],
    ),
    # names
    (body("return «rleu»(x)"), ["unknown name `rleu`"]),
    (body("return «nn.reluu»(x)"), ["unknown operator `nn.reluu`"]),
    (body("return «x.smu»()"), ["a Tensor[(2, 3), f32] has no attribute `smu`"]),
    (body("a = «a» + x\nreturn a"), ["`a` is used before it is assigned"]),
    (body("width = «width» + 1\nreturn x * width"), ["`width` is used before it is assigned"]),
    # the notebook
    (body("return «thing» * x"), ["`thing` is an object, which a cell cannot use"]),
    (body("return «layer.weight» @ x"), ["`layer` (a Layer) holds no `weight`"]),
    (body("return «Layer»()(x)"), ["`Layer` is the class Layer, which a cell cannot use"]),
    (body("return settings[«\"b\"»] * x"), ["the dictionary has no key 'b'"]),
    (body("return «words» + x"), ["`words` is a NumPy array of <U1, which a cell cannot use"]),
    (body("return «masked» + x"), ["`masked` is a masked array, which a cell cannot use"]),
    (body("return «np» * x"), ["`np` is the module numpy, which a cell cannot use"]),
    (body("return «np.busday_count»(x)"), ["`np.busday_count` is not supported in a cell"]),
    (body("return «math.pie» * x"), ["the module math has no pie"]),
    (body("return np.pi * x + «np.no_such_name»"), ["the module numpy has no no_such_name"]),
    # calls
    (body("return nn.relu(x, «y»)"), ["nn.relu takes 1 argument (data), but 2 are given"]),
    (body("return sum(x, axs=«1»)"), ["sum has no parameter `axs`"]),
    (body("return sum(x, data=«y»)"), ["sum: `data` is given twice"]),
    (body("return «nn.conv2d(x)»"), ["nn.conv2d: missing argument `weight`"]),
    (body("return softmax(x, axis=«x»)"), ["softmax: `axis` must be known at compile time, not a Tensor[(2, 3), f32]"]),
    (body("return softmax(x, axis=«\"a\"»)"), ["softmax: `axis` must be an int, not the string 'a'"]),
    (body("return concatenate(«x»)"), ["concatenate takes a list of tensors, not a Tensor[(2, 3), f32]"]),
    (body("return «x»(y)"), ["a Tensor[(2, 3), f32] cannot be called"]),
    (body("return x.reshape(«4, -1»)"), ["reshape: (2, 3) cannot become (4, -1)"]),
    # indexing and unpacking
    (body("return x[«2»]"), ["index 2 is out of range for axis 0 of size 2"]),
    (body("return «x[0, 0, 0]»"), ["3 indices for a Tensor[(2, 3), f32]"]),
    (body("return x[«y»]"), ["an index must be an int or a slice, not a Tensor[(2, 3), f32]"]),
    (body("return x[«::0»]"), ["the step of a slice cannot be zero"]),
    (body("«a, b, c» = x\nreturn a"), ["2 values for 3 names"]),
    (body("a, «(b, *c)» = x, ()\nreturn a"), ["0 values for at least 1 names"]),
    (body("«x[0]» = y[0]\nreturn x"), ["the parameter `x` belongs to the caller, and cannot be changed"]),
    (body("z = x.copy()\nw = z.T\nz[0] = 1\nreturn «w»"), ["`w` may share memory with `z`, which was changed"]),
    (body("z = x.copy()\nz[«9»] = 1\nreturn z"), ["index 9 is out of range for axis 0 of size 2"]),
    (body("z = x.copy()\nz[0] = «y»\nreturn z"), ["a Tensor[(2, 3), f32] does not fit into a Tensor[(3,), f32]"]),
    (body("z = x.copy()\nz[0], z[1] = «z[1], z[0]»\nreturn z"), ["the right side shares memory with what is assigned, and has several targets"]),
    (body("z = x.copy()\nz[0, 0] = «1j»\nreturn z"), ["the complex number 1j cannot become f32"]),
    (body("z = zeros((3,), i32)\nz[0] = «0.5»\nreturn z"), ["the float 0.5 cannot become i32"]),
    (body("z = (x, y)\n«z»[0] = x\nreturn z"), ["the items of a tuple or a list cannot be assigned"]),
    # functions
    ("def «f»(x: f32):\n    y = x + 1\n    z = y\n", ["`f` returns nothing"]),
    ("def «f»(x: f32):\n    pass\n", ["`f` returns nothing"]),
    (body("«return»"), ["`return` without a value"]),
    ("def f(x: f32) -> f64:\n    return «x»\n", ["the result of `f` is declared as f64, but is f32"]),
    (
        body("d: Tensor[(3, 2), f32] = «x»\nreturn d"),
        ["`d` is declared as Tensor[(3, 2), f32], but is Tensor[(2, 3), f32]"],
    ),
    ("class A:\n    def A(«x»): ...\n", ["parameter `x` has no type"]),
    (body("return gelu(«x.astype(i32)»)"), ["gelu is defined for floats, not i32"]),
    ("def f(x: f32):\n    return x\n\ndef «f»(x: f32):\n    return x\n", ["`f` is defined twice"]),
    (
        "def g(x: Tensor[(3,), f32]):\n    return x\n\ndef f(y: Tensor[(4,), f32]):\n    return g(«y»)\n",
        ["g: `x` is a Tensor[(3,), f32], not a Tensor[(4,), f32]"],
    ),
    (
        'def g(a: Tensor[("n",), f32], b: Tensor[("n",), f32]):\n    return a + b\n\n'
        "def f(y: Tensor[(4,), f32], z: Tensor[(3,), f32]):\n    return g(y, «z»)\n",
        ['g: the dimension "n" would be 4 and 3'],
    ),
    # types
    ("def f(x: f32):\n    y: «Tensor[..., f32]» = x\n    return y\n", ["a tensor's rank must be known here"]),
    ("def f(x: Tensor[(2, «-1»), f32]):\n    return x\n", ["a dimension cannot be -1"]),
    ('def f(x: Tensor[(«"n / 2"»,), f32]):\n    return x\n', ["'n / 2' is no name of a dimension"]),
    ("def f(x: «slice»):\n    return x\n", ["`slice` is not part of TinyNN"]),
    ("def f(x: f32):\n    y: «Tensor[(2, 3)]» = x\n    return y\n", ["the tensor's dtype is missing"]),
    ('def f(x: «"f32"»):\n    return x\n', ["a type in quotes is not supported"]),
    # syntax, with characters of several bytes before the error
    ("def f(ü: f32):\n    é = '🎉🎉'; return ü + «nothing»\n", ["unknown name `nothing`"]),
    ("def f(ü: f32, x: f32, «x: f32»):\n    return x\n", ["duplicate argument 'x' in function definition"]),
    (
        "def copy(x: Tensor[(3,), f32], y: Out[Tensor[(3,), f32]], «y: Out[Tensor[(3,), f32]]»):\n    y[...] = x\n"
        "def f(x: Tensor[(3,), f32]):\n    y = zeros_like(x)\n    copy(x, y)\n    return y\n",
        ["duplicate argument 'y' in function definition"],
    ),
    ("def f(x: f32):\n    '''é'''; «break»\n    return x\n", ["'break' outside loop"]),
    ("def «f»(x: f32):\n    return f(x)\n", ["`f` calls itself, and no branch says what it returns"]),
    ("def f(x: f32):\r\n    y = x # é\r\n    return «q»\r\n", ["unknown name `q`"]),
    ("def f(x: f32):\n\ty = x;\treturn «q»\n", ["unknown name `q`"]),
    ("def f(x: f32):\n    # \x0c \u2028\n    return «q»\n", ["unknown name `q`"]),
    ("def f(x: f32):\n    return x «x»\n", ["invalid syntax"]),
    ("@«cached»\ndef f(x: f32):\n    return x\n", ["a function of a cell takes no decorator"]),
    ("«y = len('a')»\ndef f(x: f32):\n    return x\n", ["a cell holds functions and constants, such as n = 3, no other assignments"]),
    ("«if» True:\n    x = 1\n", ["a cell holds functions only, not `if`"]),
    # several errors, and none that follows from another one
    (
        body("a = «rleu»(x)\nb = a + y\nc = «b2» @ a\nd, e = c\nreturn d + «y @ y»"),
        ["unknown name `rleu`", "unknown name `b2`", "`@`: the inner dimensions of (2, 3) and (2, 3) differ (3 and 2)"],
    ),
    (
        "def f(x: «slice», y: f32) -> «iter»:\n    return x + «q»\n\ndef g(z: f32):\n    return f(z, z) + «q»\n",
        ["`slice` is not part of TinyNN", "`iter` is not part of TinyNN", "unknown name `q`", "unknown name `q`"],
    ),
    (body("return (x + «a») * («b» - y)"), ["unknown name `a`", "unknown name `b`"]),
    (body("return nn.relu(«a», «b»)"), ["unknown name `a`", "unknown name `b`"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("marked", "messages"), CASES, ids=[re.sub(r"\s+", " ", case[0][-60:]) for case in CASES]
)
def test_message_and_span(marked: str, messages: list[str]) -> None:
    text, expected = strip_marks(marked)
    errors = errors_of(text, NOTEBOOK)
    spans = []
    for error in errors:
        assert error.span is not None
        spans.append((error.span.line, error.span.column, error.span.end_line, error.span.end_column))
    assert [error.message for error in errors] == messages
    assert spans == expected


#: (source, hint of its first error)
HINTS = [
    (body("q = y.astype(bf16)\nreturn x.astype(f16) + q"), "convert one of them, as in q.astype(f16)"),
    (body("return x * mixed"), "if it holds numbers, convert it in another cell: mixed = mixed.astype('float32')"),
    (body("return x * spectrum"), "convert it in another cell: spectrum = spectrum.astype('complex128')"),
    (body("return x * masked"), "fill it in another cell, as in masked = masked.filled(0)"),
    (body("return x * words"), "a cell computes with numbers: give each string a number"),
    # sizes
    ("def f(x: Tensor[(n, 2), f32]):\n    return x\n", 'for a size known at the call, write "n"'),
    ("def f(x: Tensor[(widht, 2), f32]):\n    return x\n", 'did you mean width? For a size known at the call, write "widht"'),
    ("def f(x: Tensor[(None, 2), f32]):\n    return x\n", 'for a size known at the call, write its name in quotes, as in "n"'),
    ("def f(x: Tensor[(-1, 2), f32]):\n    return x\n", 'for a size known at the call, write its name in quotes, as in "n"'),
    (body("return x.reshape(n, 3)", 'x: Tensor[("n", 3), f32]'), 'the dimension "n" is x.shape[0]'),
    (body('return relay.zeros(("n", 3), f32)'), 'the size of the dimension "n" is that of a tensor, as in x.shape[0]'),
    # what other libraries write
    (body("return max(x, y)"), "write maximum(x, y)"),
    (body("return std(x, dim=1)"), "did you mean `axis`?"),
    (body("return x.ndim(0)"), "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]"),
    (body("return x.foo"), None),
    (body("return relay.take(x, [0, 1])"), "make it an array in another cell, as in indices = numpy.array([0, 2], 'int32')"),
    (body("return conv2d(x, y, padding='SAME')"), "write the numbers, as in padding=1 or padding=(1, 1)"),
    (body("return glu(x, axis=0)", 'x: Tensor[("n", 4), f32]'), 'write a number in place of "n" in the annotation: the size must be fixed'),
    (body("return split(x, 2) * 2"), "it has several results: take one of them, as in result[0]"),
    ("def f(nn: f32, y: f32):\n    return nn.relu(y)\n", "`nn` is a name of the function's own here: rename it, or write relay.nn.relu"),
    ("def f(self, x: f32):\n    return x\n", "a method cannot be compiled: write a function, and give it what it needs"),
    (body("return rleu(x)"), "did you mean relu?"),
    (body("return nn.reluu(x)"), "did you mean nn.relu?"),
    (body("return sum(x, axs=1)"), "did you mean `axis`?"),
    (body("return x.smu()"), "did you mean .sum?"),
    (body("return widht * x"), "did you mean width?"),
    (body("return math.pie * x"), "did you mean math.pi?"),
    ("def f(x: Tensor[(2,), f32]):\n    return x\n", "for the language's own write nnmagic.Tensor, or rename the notebook's"),
    (body("return np.busday_count()"), ELSEWHERE),
    (body("width = width + 1\nreturn x"), "the function assigns `width`, which hides the notebook's `width`: rename one of them"),
    ("def f(x: f32):\n    y = x + 1\n    z = y\n", "add `return z` at its end"),
    ("class A:\n    def A(x): ...\n", "write its type, as in x: Tensor[(2, 3), f32]"),
    ("", "write one, as in def f(x: Tensor[(2, 3), f32]): return x + 1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_hint(text: str, hint: str | None) -> None:
    namespace = {**NOTEBOOK, "Tensor": Layer} if "nnmagic.Tensor" in (hint or "") else NOTEBOOK
    assert errors_of(text, namespace)[0].hint == hint


def test_a_shape_error_points_at_both_operands() -> None:
    text, expected = strip_marks(body("return «x» + «y.T»"))
    (error,) = errors_of(text)
    assert [
        (note.span.line, note.span.column, note.span.end_line, note.span.end_column) for note in error.notes
    ] == expected
    assert [note.message for note in error.notes] == [
        "this is a Tensor[(2, 3), f32]",
        "this is a Tensor[(3, 2), f32]",
    ]


def test_an_error_is_drawn_under_its_line() -> None:
    (error,) = errors_of(body("é = x  # ü\nreturn é + nothing"))
    assert error.render() == (
        "error: unknown name `nothing`\n"
        " --> cell:4:16\n"
        "  |\n"
        "4 |     return é + nothing\n"
        "  |                ^^^^^^^\n"
        "help: assign it first, or define it in another cell"
    )


def test_columns_of_an_indented_source() -> None:
    from nnmagic.diagnostics import Source, TinyNNError
    from nnmagic.tinynn import compile_source

    with pytest.raises(TinyNNError) as caught:
        compile_source(Source("file.py", "def f(x: f32):\n    return q\n", first_line=10, indent=4), {})
    (error,) = caught.value.diagnostics
    assert str(error.span) == "file.py:11:16"
    assert "11 |         return q\n   |                ^" in error.render()


def test_a_function_that_fails_in_each_of_its_calls_is_told_of_once() -> None:
    text = body(
        "def last(y):\n    for i in range(n):\n        y = x[0]\n    return y\nreturn last(x), last(x * 2)",
        "x: Tensor[(3,), f32], n: i32",
    )
    first, *rest = errors_of(text)
    assert not rest
    assert first.message == "`y` is a Tensor[(3,), f32] or an f32 here: it changes from round to round"


@pytest.mark.parametrize("name", ["sign", "positive"])
def test_functions_of_numbers_are_none_of_bools_known_while_compiling(name: str) -> None:
    of_known, of_tensor = (errors_of(body(f"return x * {name}({each})")) for each in ("True", "x > 0"))
    assert [error.message for error in of_known] == [error.message for error in of_tensor]


def test_a_part_of_numpy_that_is_not_loaded_yet_is_no_unknown_name():
    """NumPy loads `numpy.polynomial` when somebody asks for it; a cell does not."""
    program = (
        "import sys, numpy as np, nnmagic\n"
        "try:\n"
        "    nnmagic.compile('def f(x: Tensor[(4,), f32]):\\n    return np.polynomial.polyval(x)', namespace={'np': np})\n"
        "except nnmagic.TinyNNError as error:\n"
        "    sys.stdout.write(f\"{'numpy.polynomial' in sys.modules} {error}\")\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout.startswith("False error: `np.polynomial` is not supported in a cell"), run.stdout
