"""Types as they are written: aliases of the notebook, tuples, functions, and what is no type."""

# ruff: noqa: E501  # a case reads best on one line

import collections.abc
import typing

import numpy as np

import nnmagic
from nnmagic import Tensor, f32
from tests.tinynn.programs.snippets.cases import Accepted, Case, function, refused

Image = Tensor[(1, 3, 4, 4), f32]
Row = Tensor[("n",), f32]
IMAGE = [(np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4),)]
ROWS = [(np.arange(size, dtype=np.float32),) for size in (1, 4)]
PAIRS = [((np.arange(size, dtype=np.float32), np.ones(size, np.float32)),) for size in (1, 4)]
EXAMPLE = "write a type, as in Tensor[(2, 3), f32]"
APPLIED = "def applied(g: {0}, x: Row):\n    return g(x) + 1\ndef f(x: Row):\n    return applied(lambda t: t * 2, x)\n"


def accept(name: str, source: str, arguments: object, **namespace: object) -> Accepted:
    """A case whose notebook has these names."""
    return Accepted(name, source, arguments, namespace)  # type: ignore[arg-type]  # a list of tuples


CASES: list[Case] = [
    accept("an-alias-of-a-tensor", "def f(x: Image) -> Image:\n    return x * 2\n", IMAGE, Image=Image),
    accept("an-alias-of-a-tuple", "def f(p: Pair) -> Pair:\n    a, b = p\n    return b, a * 2\n", PAIRS, Pair=tuple[Row, Row]),
    accept("an-alias-of-typings-tuple", "def f(p: Pair):\n    return p[0] - p[1]\n", PAIRS, Pair=typing.Tuple[Row, Row]),  # noqa: UP006  # what a notebook may hold
    accept("an-alias-of-nested-tuples", "def f(p: Nested):\n    (a, b), c = p\n    return a * b + c\n", [((pair[0], pair[0][0]),) for pair in PAIRS], Nested=tuple[tuple[Row, Row], Row]),
    accept("tuples-of-aliases", "def f(p: tuple[Row, Row]) -> tuple[Row, Row]:\n    return p[1], p[0]\n", PAIRS, Row=Row),
    accept("tuples-of-named-dimensions", 'def f(p: tuple[Tensor[("n",), f32], Tensor[("2*n",), f32]]):\n    return concatenate([p[0], p[0]]) + p[1]\n', [((np.ones(3, np.float32), np.arange(6, dtype=np.float32)),)]),
    accept("an-alias-of-a-function", APPLIED.format("Fn"), ROWS, Row=Row, Fn=typing.Callable[[Row], Row]),
    accept("an-alias-of-a-function-of-abc", APPLIED.format("Fn"), ROWS, Row=Row, Fn=collections.abc.Callable[[Row], Row]),
    accept("callable-by-itself", APPLIED.format("Callable[[Row], Row]"), ROWS, Row=Row),
    accept("callable-of-typing", APPLIED.format("Callable[[Row], Row]"), ROWS, Row=Row, Callable=typing.Callable),
    accept("callable-of-abc", APPLIED.format("Callable[[Row], Row]"), ROWS, Row=Row, Callable=collections.abc.Callable),
    accept("typing-by-its-module", APPLIED.format("typing.Callable[[Row], Row]"), ROWS, Row=Row, typing=typing),
    accept("tensor-by-its-module", "def f(x: nnmagic.Tensor[(2,), nnmagic.f32]):\n    return x * 2\n", [(np.ones(2, np.float32),)], nnmagic=nnmagic),
    accept("a-size-of-the-notebook", 'def f(x: Tensor[(SIZE, "n"), f32]):\n    return x * SIZE\n', [(np.ones((4, 2), np.float32),)], SIZE=4),
    accept("a-shape-of-the-notebook", "def f(x: Tensor[SHAPE, DTYPE]):\n    return x * 2\n", [(np.ones((4, 6), np.float32),)], SHAPE=(4, "2*n"), DTYPE=np.float32),
    accept("shapes-put-together", 'def f(x: Tensor[("n",) + TAIL, f32]):\n    return x.sum(axis=0)\n', [(np.ones((4, 2, 3), np.float32),)], TAIL=(2, 3)),
    # -- refused ------------------------------------------------------------------------------------------
    refused("a-list-type", "def f(x: «P»):\n    return x\n", "`P` is a GenericAlias, which a cell cannot use", namespace={"P": list[Row]}),
    refused("a-tuple-that-holds-no-type", "def f(x: «P»):\n    return x\n", "`P` is a type that holds `str`, which a cell cannot use", "name types of a cell in it, as in tuple[Tensor[(2, 3), f32], f32]", namespace={"P": tuple[str, Row]}),
    refused("a-number-as-a-type", "def f(x: «P»):\n    return x\n", "the number 3 is no type", EXAMPLE, namespace={"P": 3}),
    refused("a-tuple-as-a-type", "def f(x: «P»):\n    return x\n", "a tuple is no type", "write tuple[Tensor[(2, 3), f32], f32]", namespace={"P": (Row, Row)}),
    refused("tensor-alone", "def f(x: f32):\n    y: «Tensor» = x\n    return y\n", "`Tensor` alone is no type", "say its shape and its dtype, as in Tensor[(2, 3), f32]"),
    refused("a-tuple-of-any-length", "def f(x: tuple[f32, «...»]):\n    return x\n", "a tuple's length must be known", "write one type for each item"),
    accept("pythons-int-in-a-tuple", "def f(x: tuple[int, Row]):\n    return x[1], x[0] + 1\n", [((3, row),) for (row,) in ROWS], Row=Row),
    accept("an-alias-that-type-checkers-read", "def f(p: P) -> P:\n    return p[0] * 2, p[1]\n", [((row, 3.0),) for (row,) in ROWS], P=tuple[typing.Annotated[np.ndarray, Row], typing.Annotated[float, "metres"]]),
    accept("an-alias-with-pythons-float", "def f(p: P) -> P:\n    return p[0] + 0.5, p[1]\n", [((3.0, row),) for (row,) in ROWS], P=tuple[float, Row]),
    refused("callable-without-a-result", "def f(x: «Callable[[f32]]»):\n    return x\n", "Callable takes the parameters' types and the result's"),
    refused("a-type-in-quotes", 'def f(x: «"f32"»):\n    return x\n', "a type in quotes is not supported", "write it without the quotes"),
    refused("a-dimension-that-is-a-float", "def f(x: Tensor[(2, «1.5»), f32]):\n    return x\n", "a dimension must be an int or a name, not the number 1.5"),
    refused("a-dimension-below-zero", "def f(x: Tensor[(2, «-1»), f32]):\n    return x\n", "a dimension cannot be -1", 'for a size known at the call, write its name in quotes, as in "n"'),
    refused("a-dimension-without-quotes", "def f(x: Tensor[(«n», 3), f32]):\n    return x\n", "unknown name `n`", 'for a size known at the call, write "n"'),
    refused("a-result-of-another-name", 'def f(x: Tensor[("n",), f32]) -> Tensor[("m",), f32]:\n    return «x»\n', 'the result of `f` is declared as Tensor[("m",), f32], but is Tensor[("n",), f32]'),
    refused("an-argument-of-another-dtype", function('x: Tensor[("n",), f64]', "g = lambda t: t\nreturn h(«x»)") + "def h(x: Row):\n    return x\n", 'h: `x` is a Tensor[("n",), f32], not a Tensor[("n",), f64]', "convert it, as in x.astype(f32)", namespace={"Row": Row}),
]  # fmt: skip
