"""Hints can be followed: what a hint says to write is written here, compiles, and gives NumPy's numbers.

A case is a cell that is refused, its hint, and the cell after a user has done what the hint says. Tables of
hints generate their cases. A collector reads every hint out of the source: one that shows code needs a case.
"""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import ast
import functools
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

import nnmagic
from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.builtins import BUILTINS, IN_PLACE
from nnmagic.tinynn.builtins.python_names import PYTHON_ONLY
from nnmagic.tinynn.namespace import attributes, unsupported_functions
from nnmagic.tinynn.syntax import unsupported_syntax
from nnmagic.tinynn.types.annotations import DTypeKind, f32, f64
from tests.tinynn.cases import errors_of, program_of
from tests.tinynn.programs.snippets.cases import Accepted
from tests.tinynn.programs.snippets.runner import run, same

PACKAGE = Path(nnmagic.__file__).parent / "tinynn"

X = "x: Tensor[(3, 4), f32], y: Tensor[(3, 4), f32]"
N = 'x: Tensor[("n", 3), f32]'
V = "v: Tensor[(5,), f32]"
W = "x: Tensor[(5,), f32]"

#: As jaxtyping's.
FLOAT = DTypeKind("Float", (f32, f64))


@dataclass
class State:
    x: float
    v: float


class Moving:
    def __init__(self, x):
        self.x = x

    def twice(self):
        return self.x * 2


def plain(x):
    return x + 1


@functools.wraps(plain)
def decorated(x):
    return plain(x)


NOTEBOOK: dict[str, object] = {
    "np": np,
    "math": math,
    "special": special,
    "decorated": decorated,
    "state": {"0.weight": np.ones(4, np.float32), "1.weight": np.full(4, 2, np.float32)},
    "settings": {"rate": 2.0},
    "weights": [np.ones(4, np.float32), np.full(4, 2, np.float32)],
    "stacked": np.ones((2, 4), np.float32),
    "indices": np.array([0, 2], "int32"),
    "chosen": {2, 3},
    "chosen_sorted": (2, 3),
    "helper": lambda x: x + 1,
    "masked": np.ma.masked_array([1.0, 2.0]),
    "filled": np.array([1.0, 2.0]),
}


@dataclass(frozen=True)
class Case:
    """``refused`` is answered with ``hint``; ``followed`` is what a user writes then.

    judge: what NumPy gives for the arguments, where the source itself is not NumPy's.
    """

    refused: str
    hint: str
    followed: str
    judge: Callable[..., object] | None = None
    arguments: Sequence[object] = ()
    namespace: Mapping[str, object] = field(default_factory=lambda: NOTEBOOK)


def cell(parameters: str, body: str) -> str:
    """A cell with a function ``f``; an expression alone is returned. ``body`` may be a whole cell."""
    if not parameters or "def f(" in body:
        return body
    text = body if "\n" in body or "return" in body else f"return {body}"
    return f"def f({parameters}):\n{textwrap.indent(text, '    ')}\n"


def case(
    parameters: str,
    refused: str,
    hint: str,
    followed: str,
    judge: Callable[..., object] | None = None,
    *arguments: object,
) -> Case:
    """A case of two bodies with the same parameters."""
    return Case(cell(parameters, refused), hint, cell(parameters, followed), judge, arguments)


def _array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(math.prod(shape)).reshape(shape) % 7 - 2).astype(dtype)


Z = "z: Tensor[(4,), c128], x: f64"
DRAWN = "x: Tensor[(5,), f64], rng: np.random.Generator"
MAKE_RNG = "rng = np.random.default_rng(seed)"
TREE = "class Tree:\n    def Leaf(value: f32): ...\n    def Empty(): ...\n\n"
_COMPLEX = np.array([1j, 2, 3 - 4j, 0.25])


def shuffled(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A copy of an array, shuffled in place."""
    copy = x.copy()
    rng.shuffle(copy)
    return copy


GROWING = f"a list keeps its length here: {unsupported_syntax.FILL_A_TENSOR}"
FIXED = 'write a number in place of "n" in the annotation: the size must be fixed'

CHANGING = """
def change(a: InOut[Tensor[(3,), f32]], b: Tensor[(3,), f32]):
    a[0] = b[1] + 1
    return b[2]
"""
USING = """
def f(x: Tensor[(3,), f32]):
    z = x.copy()
    CALL
    return z
"""

WALK = "def walk(k):\n    if k > 0:\n        walk(k - 1)\n    return k\n\n"
PRODUCT = "def f(a: f64, b: f64):\n    return grad(product, argnums=(0, 1))(a, b)\n"
RULE = """@custom_vjp
def product(a, b):
    return a * b

def forward(a, b):
    return a * b, (a, b)

def backward(saved, d):
    a, b = saved
    return {}

product.defvjp(forward, backward)

"""
CHAIN = """class Chain:
    def End(): ...
    def Link(head: f64, tail: Chain): ...

def total(c: Chain) -> f64:
    match c:
        case End(): return 0.0
        case Link(head, tail): return head * head + total(tail)

"""
RAGGED = """    rows = [[] for _ in range(n)]
    for u in range(n):
        rows[u // 3].append(u)
"""
ITEM = "def item(t, k):\n    if k <= 0:\n        return t[0]\n    return item(t, k - 1)\n\n"

CASES = [
    # gradients
    case(
        "a: Tensor[(3,), f32]",
        "grad(a.sum())(a)",
        "write grad(f)(x), with the function alone in the first brackets",
        "grad(lambda v: v.sum())(a)",
        np.ones_like,
        np.ones(3, np.float32),
    ),
    case(
        "a: Tensor[(3,), f32]",
        "vjp(lambda v: v * 2)[0]",
        "give the arguments of the function, as in vjp(f, x)",
        "vjp(lambda v: v * 2, a)[0]",
        lambda a: a * 2,
        np.ones(3, np.float32),
    ),
    case(
        "a: Tensor[(3,), f32]",
        "jvp(lambda v: v * 2, a, a)[1]",
        "write jvp(f, (x,), (t,))",
        "jvp(lambda v: v * 2, (a,), (a,))[1]",
        lambda a: a * 2,
        np.ones(3, np.float32),
    ),
    case(
        "i: Tensor[(3,), i32]",
        "grad(lambda v: (v * v).sum())(i)",
        "leave it out of argnums, or convert it, as in i.astype(f32)",
        "grad(lambda v: (v * v).sum())(i.astype(f32))",
        lambda i: (2 * i).astype(np.float32),
        np.arange(3, dtype=np.int32),
    ),
    case(
        "b: Tensor[(3,), bool_]",
        "gradient(b)",
        "convert them, as in b.astype(f32)",
        "gradient(b.astype(f32))",
        lambda b: np.gradient(b.astype(np.float32)),
        np.array([True, False, True]),
    ),
    case(
        "x: Tensor[(8,), f32], k: i64",
        "y = x.copy()\nfor i in unrolled(range(0, 8, k)):\n    y[i] += 1\nreturn y",
        "write range(start, stop, step)",
        "y = x.copy()\nfor i in range(0, 8, k):\n    y[i] += 1\nreturn y",
        lambda x, k: x + (np.arange(8) % k == 0).astype(np.float32),
        np.zeros(8, np.float32),
        3,
    ),
    case(
        "x: f64",
        "message = 'step ' + 3\nassert x > 0, message\nreturn x",
        "make a string of it: str(3)",
        "message = 'step ' + str(3)\nassert x > 0, message\nreturn x",
        lambda x: x,
        2.0,
    ),
    Case(
        "def f(x: f64):\n    return State(x, x + 1)\n",
        "declare it in the cell: class State: with a type for each field, as in x: f64",
        "class State:\n    x: f64\n    v: f64\n\ndef f(x: f64):\n    return State(x, x + 1)\n",
        lambda x: (x, x + 1),
        (2.0,),
        {"State": State},
    ),
    *(
        Case(
            f"def f(n: i64, a={made}):\n    {change}\n    return len(a)\n",
            f"write a=None as the default, and begin with: if a is None: a = {made}",
            f"def f(n: i64, a=None):\n    if a is None: a = {made}\n    {change}\n    return len(a)\n",
            lambda n: np.int64(1),
            (np.int64(3),),
        )
        for made, change in (("[]", "a.append(n)"), ("{}", "a[n] = 1"), ("set()", "a.add(n)"))
    ),
    Case(
        "def f(x: f64):\n    p = Moving(x)\n    return p.twice()\n",
        "move its definition into this cell, or compute what you need in another one",
        "class Moving:\n    def __init__(self, x):\n        self.x = x\n    def twice(self):\n        return self.x * 2\n"
        "def f(x: f64):\n    p = Moving(x)\n    return p.twice()\n",
        lambda x: 2 * x,
        (2.0,),
        {"Moving": Moving},
    ),
    # slips
    case(
        'x: Tensor[("n", "m"), f32], y: Tensor[("n", "m"), f32]',
        "x @ y",
        "transpose one, as in x @ y.T",
        "x @ y.T",
        lambda x, y: x @ y.T,
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        X,
        "x @ y",
        "transpose one, as in x @ y.T",
        "x @ y.T",
        lambda x, y: x @ y.T,
        _array(3, 4),
        _array(3, 4),
    ),
    Case(
        "def g(x: f64):\n    return x * x\n\ndef f(x: f64):\n    return grad(g)\n",
        "call it, as in grad(g)(x)",
        "def g(x: f64):\n    return x * x\n\ndef f(x: f64):\n    return grad(g)(x)\n",
        lambda x: 2 * x,
        (3.0,),
    ),
    *(
        case("x: i64", refused, hint, followed, lambda x: x + np.int64(1), np.int64(2))
        for refused, hint, followed in (
            ("x++\nreturn x", "write x += 1", "x += 1\nreturn x"),
            ("y = x + 2\ny--\nreturn y", "write x -= 1", "y = x + 2\ny -= 1\nreturn y"),
            (
                "if x > 0 && x < 9:\n    x = x + 1\nreturn x",
                "write `and`",
                "if x > 0 and x < 9:\n    x = x + 1\nreturn x",
            ),
            (
                "if x > 0 || x < 9:\n    x = x + 1\nreturn x",
                "write `or`",
                "if x > 0 or x < 9:\n    x = x + 1\nreturn x",
            ),
            (
                "if !(x > 9):\n    x = x + 1\nreturn x",
                "write `not`",
                "if not (x > 9):\n    x = x + 1\nreturn x",
            ),
            ("return x.^1 + 1", "write **", "return x ** 1 + 1"),
            (
                "if x > 9:\n    x = 0\nelse if x > 0:\n    x = x + 1\nreturn x",
                "write `elif`",
                "if x > 9:\n    x = 0\nelif x > 0:\n    x = x + 1\nreturn x",
            ),
            ("x = x + 1\nretrun x\n", "did you mean `return`?", "x = x + 1\nreturn x\n"),
            (
                "fro i in range(1):\n    x = x + 1\nreturn x",
                "did you mean `for`?",
                "for i in range(1):\n    x = x + 1\nreturn x",
            ),
        )
    ),
    *(
        Case(refused, hint, "def f(x: f32):\n    return x + 1\n", lambda x: x + 1, (np.float32(2),))
        for refused, hint in (
            ("function f(x: f32):\n    return x + 1\n", "write `def`"),
            ("deff f(x: f32):\n    return x + 1\n", "did you mean `def`?"),
            ("def f(f32 x):\n    return x + 1\n", "a type stands behind the name, as in x: f32"),
        )
    ),
    *(
        Case(
            f"def f(x: {refused}):\n    return x + 1\n",
            hint,
            f"def f(x: {followed}):\n    return x + 1\n",
            lambda x: x + 1,
            (np.ones((2, 3), "float32"),),
        )
        for refused, hint, followed in (
            (
                'Tensor(("n", 3), f32)',
                'a type has square brackets, as in Tensor[("n", 3), f32]',
                'Tensor[("n", 3), f32]',
            ),
            ("f32[2, 3]", 'for an array write Tensor[("n", 3), f32]', 'Tensor[("n", 3), f32]'),
            ("Array", "write np.ndarray", "np.ndarray"),
        )
    ),
    # memory of somebody else
    case(
        X,
        "x[1] = 0\nreturn x",
        "change a copy: write x = x.copy() before; or declare it as x: InOut[Tensor[(3, 4), f32]]",
        "x = x.copy()\nx[1] = 0\nreturn x",
    ),
    case(
        "",
        CHANGING.replace("a[0] =", "a =") + "\ndef f(x: Tensor[(3,), f32]):\n    return x\n",
        "write into it, as in a[...] = value, or use another name",
        CHANGING.replace("a[0] =", "a[...] =") + USING.replace("CALL", "change(z, x)"),
    ),
    case(
        "",
        CHANGING + USING.replace("CALL", "return change(z, x) + z.sum()"),
        "write change(a, b), or y = change(a, b), on a line before",
        CHANGING + USING.replace("CALL", "y = change(z, x)\n    z = z + y"),
    ),
    case(
        "",
        CHANGING + USING.replace("CALL", "change(*(z, x))"),
        "write its arguments one by one",
        CHANGING + USING.replace("CALL", "change(z, x)"),
    ),
    case(
        "",
        "def f(x: Tensor[(3,), f32]) -> Out[Tensor[(3,), f32]]:\n    return x + 1\n",
        "write the type of the tensor alone",
        "def f(x: Tensor[(3,), f32]) -> Tensor[(3,), f32]:\n    return x + 1\n",
    ),
    case(
        N,
        "y, rows = x[0].copy(), []\nfor row in x:\n    y[0] += row[0]\n    rows.append(y[:2])\nreturn np.array(rows)",
        "let the list hold copies, as in rows.append(y[:2].copy())",
        "y, rows = x[0].copy(), []\nfor row in x:\n    y[0] += row[0]\n    rows.append(y[:2].copy())\nreturn np.array(rows)",
    ),
    case(
        N,
        "y = x.copy()\nrows = [row for row in y]\ny[0] = 5\nreturn np.array(rows)",
        "let the list hold copies: write .copy() behind each item that it takes",
        "y = x.copy()\nrows = [row.copy() for row in y]\ny[0] = 5\nreturn np.array(rows)",
    ),
    case(
        N,
        "y = x.copy()\nrows = [row for row in y]\ny += 1\nreturn np.array(rows)",
        "let the list hold copies: write .copy() behind each item that it takes; or write y = y + value",
        "y = x.copy()\nrows = [row for row in y]\ny = y + 1\nreturn np.array(rows), y",
    ),
    case(
        X,
        "z = x.copy()\nrow = z.T[0]\nz[0, 1] = 5\nreturn z, row",
        "give it memory of its own before the change, as in row = row.copy()",
        "z = x.copy()\nrow = z.T[0]\nrow = row.copy()\nz[0, 1] = 5\nreturn z, row",
    ),
    case(
        X,
        "z = x.copy()\nz[0], z[1] = z[1], z[0]\nreturn z",
        "copy it first, or write one assignment after the other",
        "z = x.copy()\nfirst = z[0].copy()\nz[0] = z[1]\nz[1] = first\nreturn z",
    ),
    case(
        X,
        "def change(z):\n    z[0] = 1\n    return z\nw = x.copy()\nw = change(w)\nreturn w",
        "change a copy, as in z = z.copy(), and return it",
        "def change(z):\n    z = z.copy()\n    z[0] = 1\n    return z\nw = x.copy()\nw = change(w)\nreturn w",
    ),
    case(
        X,
        "z = x.copy()\ndef change():\n    z[0] = 1\n    return z\ng = change\nreturn z[0] + g()",
        "change a copy that is the function's own: z_ = z.copy()",
        "z = x.copy()\ndef change():\n    z_ = z.copy()\n    z_[0] = 1\n    return z_\ng = change\nreturn z[0] + g()",
    ),
    case(
        X,
        "t = (x, y)\nt[1] = x\nreturn stack(t)",
        "make a new one, as in t = t[:i] + (item,) + t[i + 1:]",
        "t = (x, y)\nt = t[:1] + (x,) + t[2:]\nreturn stack(t)",
    ),
    case(
        X,
        "z = x.copy()\nz[:2] = [x[1], x[2]]\nreturn z",
        "make a tensor of it, as in array([x[1], x[2]], f32)",
        "z = x.copy()\nz[:2] = array([x[1], x[2]], f32)\nreturn z",
    ),
    case(
        X,
        "z = x.copy()\nfor row, other in zip(z, x):\n    z[0] = row + other\nreturn z",
        "go over a copy: write .copy() behind it",
        "z = x.copy()\nfor row, other in zip(z.copy(), x):\n    z[0] = row + other\nreturn z",
    ),
    case(
        X,
        "z = x.copy()\nfor row in z:\n    z[0] = row + 1\nreturn z",
        "change its rows by their numbers, as in for i in range(len(z)): z[i] = value; "
        "to leave `z` as it is, go over z.copy()",
        "z = x.copy()\nfor row in z.copy():\n    z[0] = row + 1\nreturn z",
    ),
    case(
        W,
        "y = x + 1\nm = [y, x * 2]\nm[0] += 1\nreturn y + m[0]",
        "write name[i] = name[i] + value for a new array",
        "y = x + 1\nm = [y, x * 2]\nm[0] = m[0] + 1\nreturn y + m[0]",
        lambda x: (x + 1) + (x + 2),
        _array(5),
    ),
    case(
        W,
        "d = {'sum': x}\nd['sum'] += x\nreturn d['sum']",
        "assign a new one, as in d['key'] = d['key'] + value",
        "d = {'sum': x}\nd['sum'] = d['sum'] + x\nreturn d['sum']",
    ),
    # lists inside of lists
    case(
        "k: i64",
        "a = [[0, 1], [2, 3]]\nb = a + [[4, 5]]\na[k][0] = 5\nreturn b[2][0] + a[0][0]",
        "let it hold a new list before the change, as in b = list(b)",
        "a = [[0, 1], [2, 3]]\nb = [list(r) for r in a] + [[4, 5]]\na[k][0] = 5\nreturn b[2][0] + a[0][0]",
        lambda _: 9,
        0,
    ),
    case(
        "k: i64",
        "a = [[0, 1], [2, 3]]\nrow = a[k]\nrow[0] = 7\nreturn row[0]",
        "assign to the item of the outer list, as in rows[i][j] = value",
        "a = [[0, 1], [2, 3]]\na[k][0] = 7\nreturn a[0][0]",
        lambda _: 7,
        0,
    ),
    case(
        "k: i64",
        "a = [[0] * 2] * 2\na[0][0] = k\nreturn a[1][0]",
        "make each list of its own, as in [[0] * 2 for _ in range(3)]",
        "a = [[0] * 2 for _ in range(3)]\na[0][0] = k\nreturn a[1][0]",
        lambda _: 0,
        5,
    ),
    # dictionaries and sets
    case(
        "k: i64",
        "s = set()\ns.add(k)\ns[0] = 2\nreturn len(s)",
        "write s.add(value)",
        "s = set()\ns.add(k)\ns.add(2)\nreturn len(s)",
        lambda _: 2,
        5,
    ),
    case(
        "k: i64",
        "d = {}\nd[k] = 1\nx = d.pop()\nreturn x",
        "take one by its key, as in d.pop(key)",
        "d = {}\nd[k] = 1\nx = d.pop(k)\nreturn x",
        lambda _: 1,
        5,
    ),
    case(
        "k: i64, x: f64",
        "d = {}\nd[k] = 1\nreturn d[x]",
        "convert it, as in int(x) or float(x)",
        "d = {}\nd[k] = 1\nreturn d[int(x)]",
        lambda *_: 1,
        5,
        5.0,
    ),
    case(
        "k: i64",
        "d = {}\nd[k] = 1\nreturn d.get(k + 1)",
        "give a value of the same type, as in d.get(key, 0)",
        "d = {}\nd[k] = 1\nreturn d.get(k + 1, 0)",
        lambda _: 0,
        5,
    ),
    case(
        "z: Tensor[(4,), c128]",
        "np.real_if_close(z)",
        "write z.real, or test z.imag before",
        "z.real",
        np.real,
        _COMPLEX,
    ),
    # lists that grow
    case(
        X,
        "out = [[[x]], [[x]]]\nout[0][0].append(x)\nreturn stack(out[0][0])",
        "write items = items + [x]",
        "items = [x]\nitems = items + [x]\nreturn stack(items)",
    ),
    case(
        X,
        "x.append(x[0])\nreturn x",
        "write x = append(x, item)",
        "x = append(x, x[0])\nreturn x",
    ),
    case(
        N,
        "out = []\nfor row in x:\n    out.append(row * 2)\nreturn max(out)",
        "write np.stack(items).max(axis=0), or over all elements .max()",
        "out = []\nfor row in x:\n    out.append(row * 2)\nreturn stack(out).max(axis=0)",
    ),
    case(
        N,
        "out = []\nfor row in x:\n    out.append(row * 2)\nreturn stack(out, dtype=f64)",
        "convert the result, as in .astype(f32)",
        "out = []\nfor row in x:\n    out.append(row * 2)\nreturn stack(out).astype(f64)",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append([i, i])\nrows.append(k)\nreturn len(rows[0] * 2)",
        "append the same, as in rows.append(list(x))",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append([i, i])\nrows.append(list(k))\nreturn len(rows[0] * 2)",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "d = {}\nd[int(k[0])] = [n, 0]\nd[int(k[0])][1] += 2\nreturn sum(d[int(k[0])])",
        "assign a new list, as in a, b = d[key] and d[key] = [a + 1, b]",
        "d, key = {}, int(k[0])\nd[key] = [n, 0]\na, b = d[key]\nd[key] = [a, b + 2]\nreturn sum(d[key])",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "d, row = {}, [1, 2]\nd[int(k[0])] = row\nrow[0] = 3\nreturn d[int(k[0])][0]",
        "change a new list, as in row = list(row), and put that in",
        "d, row = {}, [1, 2]\nrow = list(row)\nrow[0] = 3\nd[int(k[0])] = row\nreturn d[int(k[0])][0]",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "row = [1, 2]\nrows = []\nfor i in range(n * 0 + 2):\n    rows.append(row)\nrows[0][0] = 3\nreturn sum(rows[0] * 2)",
        "let it hold lists of its own, as in rows.append(list(row)), or assign a new one",
        "row = [1, 2]\nrows = []\nfor i in range(n * 0 + 2):\n    rows.append(list(row))\nrows[0][0] = 3\nreturn sum(rows[0] * 2)",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "d, rows = {}, [[1, 2], [3, 4]]\nd[int(k[0])] = rows[0]\nrows[0][0] = 3\nreturn d[int(k[0])][0]",
        "let the dictionary hold a copy, as in d[key] = list(row)",
        "d, rows = {}, [[1, 2], [3, 4]]\nd[int(k[0])] = list(rows[0])\nrows[0][0] = 3\nreturn d[int(k[0])][0]",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append((i, i))\nreturn len(sum(rows, ()))",
        "join them in a loop, as in made += items",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append((i, i))\nmade = []\nfor items in rows:\n    made += items\nreturn len(made)",
    ),
    case(
        "n: i64, k: Tensor[(2,), i64]",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append([i, i])\nrows[0] = [1]\nreturn len(rows[0])",
        "hold lists of one length, or begin with rows = [[] for _ in range(n)] and append to rows[i]",
        "rows = []\nfor i in range(n * 0 + 2):\n    rows.append([i, i])\nrows[0] = [1, 1]\nreturn len(rows[0])",
    ),
    case(
        N,
        "out = []\nfor row in x:\n    out.append(row[0])\nreturn concatenate(out)",
        "write stack(items)",
        "out = []\nfor row in x:\n    out.append(row[0])\nreturn stack(out)",
    ),
    case(
        "x: Tensor[(3,), f32], n: i64",
        "y = 0\nfor i in range(n):\n    y = y + x\nreturn y",
        "begin with a tensor of the shape that it is to have, as in zeros((3,), f32)",
        "y = zeros((3,), f32)\nfor i in range(n):\n    y = y + x\nreturn y",
    ),
    case(
        "x: Tensor[(3,), f32], n: i64",
        "y = x\nfor i in range(n):\n    y = y.astype(i64) + 1\nreturn y",
        "give it one shape and one dtype in both, as in x.astype(f32)",
        "y = x\nfor i in range(n):\n    y = (y.astype(i64) + 1).astype(f32)\nreturn y",
        lambda x, n: x + np.float32(n),
        np.ones(3, np.float32),
        np.int64(3),
    ),
    case(
        "x: Tensor[(3,), f64]",
        "d = (0.5,) * 3\nd[1] = 4\nreturn x + d[1]",
        "make an array of the numbers: d = np.array(d)",
        "d = np.array((0.5,) * 3)\nd[1] = 4\nreturn x + d[1]",
        lambda x: x + 4,
        _array(3, dtype="f8"),
    ),
    case(
        f"{W}, k: i64",
        "rows = []\nfor i in range(k):\n    rows.append(x * i)\nrows[0][1] = 3\nreturn np.array(rows)",
        "assign the item, as in rows[i] = value, or make one array of all: rows = np.array(rows)",
        "rows = []\nfor i in range(k):\n    rows.append(x * i)\nrows = np.array(rows)\nrows[0][1] = 3\nreturn rows",
        lambda x, k: np.array([[0, 3, 0, 0, 0], x]).astype("f4"),
        _array(5),
        np.int64(2),
    ),
    case(
        f"{W}, k: i64",
        "m = [x, x.astype(f64)]\nm[k] = x\nreturn m[0]",
        "hold equal arrays in one, as in m = np.stack(m), and write m[i] = value",
        "m = [x, x.astype(f64)]\nm = np.stack(m)\nm[k] = x\nreturn m[0]",
        lambda x, k: x.astype("f8"),
        _array(5),
        np.int64(1),
    ),
    case(
        f"{W}, k: i64",
        "t = (x, x.astype(f64) + 1)\nreturn t[k]",
        "stack the items into one tensor, as in stack(items)[i]",
        "t = (x, x.astype(f64) + 1)\nreturn stack(t)[k]",
        lambda x, k: x.astype("f8") + 1,
        _array(5),
        np.int64(1),
    ),
    *(
        case(
            "n: i64",
            f"m = [{zero}] * n\nfor i in range(n):\n    m[i] = i * {step}\nreturn np.array(m)",
            f"begin with items of {dtype}, as in [{other}] * n",
            f"m = [{other}] * n\nfor i in range(n):\n    m[i] = i * {step}\nreturn np.array(m)",
            lambda n, step=step: np.arange(n) * eval(step),
            np.int64(4),
        )
        for zero, step, dtype, other in (
            ("0", "0.5", "f64", "0.0"),
            ("False", "2", "i64", "0"),
            ("0.0", "1j", "c128", "0j"),
        )
    ),
    case(
        f"{W}, k: i64",
        "items = [x, x + 1]\nreturn items.pop() * 2 if k > 0 else x",
        "take the item in a statement of its own, as in item = items.pop()",
        "items = [x, x + 1]\nitem = items.pop()\nreturn item * 2 if k > 0 else x",
        lambda x, k: (x + 1) * 2,
        _array(5),
        np.int64(1),
    ),
    # dtypes
    case("x: Tensor[(3,), i32]", "np.finfo(x.dtype).max - x", "write iinfo", "np.iinfo(x.dtype).max - x"),
    case("x: Tensor[(3,), f32]", "np.iinfo(x.dtype).max * x", "write finfo", "np.finfo(x.dtype).eps * x"),
    case(
        "a: Tensor[(3,), bf16], c: f16",
        "c + a.sum() * a[0]",
        "convert one of them, as in (a.sum() * a[0]).astype(f16)",
        "c + (a.sum() * a[0]).astype(f16)",
    ),
    case(
        "a: Tensor[(3,), bf16], b: Tensor[(3,), f16]",
        "b @ (a * 2)",
        "convert one of them, as in (a * 2).astype(f16)",
        "b @ (a * 2).astype(f16)",
    ),
    case(
        "a: Tensor[(3,), f32], b: Tensor[(3,), f64]",
        "relay.add(b, a)",
        "convert one of them, as in a.astype(f64)",
        "relay.add(b, a.astype(f64))",
        lambda a, b: a.astype("f8") + b,
        _array(3),
        _array(3, dtype="f8"),
    ),
    case(
        "a: Tensor[(3,), bf16], b: Tensor[(3,), f16]",
        "concatenate([a, b])",
        "convert the items to one dtype with .astype(bf16)",
        "concatenate([a, b.astype(bf16)])",
    ),
    case(
        "a: Tensor[(3,), f32], b: Tensor[(3,), f64]",
        "relay.concatenate([a, b], axis=0)",
        "convert the items to one dtype with .astype(f32)",
        "relay.concatenate([a, b.astype(f32)], axis=0)",
        lambda a, b: np.concatenate([a, b.astype("f4")]),
        _array(3),
        _array(3, dtype="f8"),
    ),
    case(
        "i: Tensor[(3,), i32]",
        "(i + 1) ** -1",
        "convert the base first: (i + 1).astype(f32)",
        "(i + 1).astype(f32) ** 2",
    ),
    case(
        "i: Tensor[(3,), i32]",
        "silu(i * 2)",
        "convert it first, as in (i * 2).astype(f32)",
        "silu((i * 2).astype(f32))",
        lambda i: (i * 2.0 / (1 + np.exp(-i * 2.0))).astype("f4"),
        np.arange(3, dtype="i4"),
    ),
    case(
        "i: Tensor[(3,), i32]",
        "relay.exp(i * 2)",
        "convert it first, as in (i * 2).astype(f32)",
        "relay.exp((i * 2).astype(f32))",
        lambda i: np.exp(i * 2).astype("f4"),
        np.arange(3, dtype="i4"),
    ),
    case(
        "i: Tensor[(3,), i32]",
        "reciprocal(i)",
        "convert it first, as in i.astype(f32)",
        "reciprocal(i.astype(f32))",
        lambda i: (1 / i).astype("f4"),
        np.arange(1, 4, dtype="i4"),
    ),
    case(
        "b: Tensor[(3,), bool_]", "round(b)", "convert it first, as in b.astype(i32)", "round(b.astype(i32))"
    ),
    case("b: Tensor[(3,), bool_]", "sign(b)", "convert it first, as in b.astype(f32)", "sign(b.astype(f32))"),
    case(
        "b: Tensor[(3,), bool_], c: Tensor[(3,), bool_]",
        "b - c",
        "write b ^ c, or convert both, as in b.astype(i32)",
        "b ^ c",
    ),
    case(
        "b: Tensor[(3,), bool_], c: Tensor[(3,), bool_]",
        "b - c",
        "write b ^ c, or convert both, as in b.astype(i32)",
        "b.astype(i32) - c.astype(i32)",
    ),
    case("b: Tensor[(3,), bool_]", "-b", "write ~b", "~b"),
    case("x: Tensor[(3,), f32]", "~x", "for a condition compare first, as in ~(x > 0)", "~(x > 0)"),
    case(
        "x: Tensor[(3,), f32]",
        "x << x",
        "convert it first, as in x.astype(i32)",
        "x.astype(i32) << abs(x).astype(i32)",
        lambda x: x.astype("i4") << x.astype("i4"),
        np.arange(3, dtype="f4"),
    ),
    case(
        "x: Tensor[(3,), f32]",
        "relay.logical_and(x, x)",
        "compare it first, as in x != 0",
        "relay.logical_and(x != 0, x != 0)",
        lambda x: x != 0,
        _array(3),
    ),
    case("x: Tensor[(3,), f32]", "x.sum(where=x)", "compare it first, as in x != 0", "x.sum(where=x != 0)"),
    case(
        "i: Tensor[(3,), i32]",
        "full_like(i, 0.5)",
        "write a whole number, or use a float dtype instead of i32",
        "full_like(i, 1)",
    ),
    case(
        "x: f32",
        "y: i32 = x * 2\nreturn y",
        "convert it, as in (x * 2).astype(i32)",
        "y: i32 = (x * 2).astype(i32)\nreturn y",
    ),
    case(
        "x: f32",
        "def g(x: f64):\n    return x\n\ndef f(x: f32):\n    return g(x)\n",
        "convert it, as in x.astype(f64)",
        "def g(x: f64):\n    return x\n\ndef f(x: f32):\n    return g(x.astype(f64))\n",
    ),
    case("x: Tensor[(3,), f32]", "float(x)", "write x.astype(f64) for every element", "x.astype(f64)"),
    case(
        "x: Tensor[(3,), f16], w: Tensor[(3,), bf16]",
        "average(x, weights=w)",
        "convert them, as in weights.astype(f16)",
        "average(x, weights=w.astype(f16))",
    ),
    case(
        "x: Tensor[(3,), f32]",
        "x[x]",
        "convert it, as in x.astype(i32)",
        "x[x.astype(i32)]",
        lambda x: x[x.astype("i4")],
        np.arange(3, dtype="f4"),
    ),
    case(
        "x: Tensor[(3,), f32], k: f32",
        "x[:k]",
        "make it an int with int(), or divide with // where / gave it",
        "x[:int(k)]",
        lambda x, k: x[: int(k)],
        np.arange(3, dtype="f4"),
        np.float32(2),
    ),
    case(
        "x: Tensor[(3,), f32], k: f32",
        "for i in range(k):\n    x = x * 2\nreturn x",
        "convert it, as in int(k)",
        "for i in range(int(k)):\n    x = x * 2\nreturn x",
        lambda x, k: x * 8,
        np.arange(3, dtype="f4"),
        np.float32(3),
    ),
    # shapes
    case(
        X,
        "x - x.mean(axis=1)",
        "write expand_dims(x.mean(axis=1), 1), or reduce with keepdims=True",
        "x - expand_dims(x.mean(axis=1), 1)",
    ),
    case(
        X,
        "x - x.mean(axis=1)",
        "write expand_dims(x.mean(axis=1), 1), or reduce with keepdims=True",
        "x - x.mean(axis=1, keepdims=True)",
    ),
    case(
        'x: Tensor[("n", "m"), f32]',
        "m = x.max(axis=1)\nreturn x / m",
        "write expand_dims(m, 1), or reduce with keepdims=True",
        "m = x.max(axis=1)\nreturn x - expand_dims(m, 1)",
    ),
    case(
        "x: Tensor[(3,), f16], y: Tensor[(3,), bf16]",
        "sum([x, y])",
        "convert them first, as in sum([item.astype(bf16) for item in [x, y]])",
        "sum([item.astype(bf16) for item in [x, y]])",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "max([x, x * 2])",
        "write stack([x, x * 2]).max(axis=0)",
        "stack([x, x * 2]).max(axis=0)",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "arcsinh([x, x])",
        "take one of them, as in result[0], or stack them: stack([x, x])",
        "arcsinh(stack([x, x]))",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "(x, x).mean()",
        "it is a tuple of tensors: write stack((x, x)).mean(...)",
        "stack((x, x)).mean()",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "x / x.shape.prod()",
        "it is a tuple: write prod(x.shape)",
        "x / prod(x.shape)",
        lambda x: x / np.float32(12),
        _array(3, 4),
    ),
    case(
        "x: Tensor[(3,), f32]",
        "out = []\nif x[0] > 0:\n    out.append([1, 2])\nreturn len(out)",
        GROWING,
        "out = zeros((1, 2), f32)\nif x[0] > 0:\n    out[0] = array([1, 2], f32)\nreturn out",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "maximum(x, [x[0], x[1], x[2]])",
        "make it a tensor first, as in stack([x[0], x[1], x[2]])",
        "maximum(x, stack([x[0], x[1], x[2]]))",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "if x > 0:\n    return x\nreturn x + 1",
        "write (x > 0).any() or (x > 0).all()",
        "if (x > 0).any():\n    return x\nreturn x + 1",
        lambda x: x,
        _array(3, 4),
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "x > 0 and x < 1",
        "element by element it is &; or write (x > 0).any()",
        "(x > 0) & (x < 1)",
    ),
    case("x: Tensor[(3, 4), f32]", "0 < x < 1", "write (a < b) & (b < c)", "(0 < x) & (x < 1)"),
    case(X, "max(x, y)", "write maximum(x, y)", "maximum(x, y)"),
    case(
        "x: Tensor[(3, 4), f32]",
        "zeros(3, 4)",
        "a shape goes in brackets, as in zeros((2, 3))",
        "zeros((3, 4))",
        lambda x: np.zeros((3, 4)),
        _array(3, 4),
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "sum(x, 0, 1)",
        "several axes go in brackets, as in axis=(0, 1)",
        "sum(x, axis=(0, 1))",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "reshape(x, 4, 3)",
        "put the numbers in brackets, as in reshape(a, (2, 3))",
        "reshape(x, (4, 3))",
    ),
    case(X, "concatenate(x, y)", "write them in brackets, as in concatenate([a, b])", "concatenate([x, y])"),
    case(X, "stack(x[0, 0])", "write them in brackets, as in stack([a, b])", "stack([x[0, 0], x[0, 1]])"),
    case(X, "x.item()", "index it, as in x[0], or reduce it, as in x.sum()", "x.sum()"),
    case("x: Tensor[(3, 4), f32]", "x[0].mT", "write .T", "x[0].T"),
    case("x: Tensor[(3, 4), f32]", "x @ 2", "write * instead", "x * 2"),
    case(
        "x: Tensor[(3, 4), f32]",
        "x.ndim(0)",
        "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]",
        "x * x.shape[0]",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "split(x, 2, axis=1) * 2",
        "it has several results: take one of them, as in result[0]",
        "split(x, 2, axis=1)[0] * 2",
    ),
    case("x: Tensor[(3, 4), f32]", "x(0)", "leave the brackets out, or index it, as in x[0]", "x[0]"),
    case(
        "x: Tensor[(3, 4), f32]",
        "x[True]",
        "write x[None] for a new axis, or where(condition, x, 0)",
        "x[None]",
    ),
    case("x: f32", "x == None", "write is None", "x is None", lambda x: np.bool_(False), np.float32(1)),
    case(
        "x: Tensor[(3, 4), f32]",
        "for i in range(x):\n    x = x * 2\nreturn x",
        "write range(len(x))",
        "for i in range(len(x)):\n    x = x * 2\nreturn x",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "for i in 3:\n    x = x * 2\nreturn x",
        "write range(3)",
        "for i in range(3):\n    x = x * 2\nreturn x",
    ),
    case(
        N,
        "for i in len(x):\n    x = x * 2\nreturn x",
        "write range(n) of it",
        "for i in range(len(x)):\n    x = x * 2\nreturn x",
    ),
    case(
        "x: f32",
        "for i in range(0, 1, 0.1):\n    x = x * i\nreturn x",
        "write a range of ints, and compute with them, as in i * 0.1",
        "for i in range(10):\n    x = x * (i * 0.1)\nreturn x",
    ),
    case(
        "x: f32",
        "for i in x:\n    x = x * 2\nreturn x",
        "go over range(n), or over the rows of a tensor of rank 1 or more",
        "for i in range(3):\n    x = x * 2\nreturn x",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "range(4)",
        "write arange(n)",
        "arange(4)",
        lambda x: np.arange(4),
        _array(3, 4),
    ),
    case("x: Tensor[(3, 4), f32]", "reversed(x)", "write x[::-1]", "x[::-1]"),
    case("x: Tensor[(3, 4), f32]", "x.sum", "call it, as in x.sum()", "x.sum()"),
    case("x: Tensor[(3, 4), f32]", "exp", "call it, as in exp(x)", "exp(x)"),
    case(
        "x: Tensor[(4,), f32]",
        "state",
        "take one of its items, as in d['key']",
        "state['0.weight']",
        lambda x: np.ones(4, "f4"),
        _array(4),
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "relay.take(x, [0, 2], axis=0)",
        "make it an array in another cell, as in indices = numpy.array([0, 2], 'int32')",
        "relay.take(x, indices, axis=0)",
        lambda x: x[[0, 2]],
        _array(3, 4),
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "x in (1, 2)",
        "compare with ==, as in (x == 1) | (x == 2)",
        "(x == 1) | (x == 2)",
    ),
    case(
        "x: Tensor[(3, 2), f32]",
        "(1, 2) in x",
        "write (x == value).any()",
        "(x == array((1, 2))).any()",
        lambda x: np.bool_((1, 2) in x),
        _array(3, 2),
    ),
    # sizes that only the call knows
    Case(
        cell(N, "vander(x[:, 0], x.shape[0])"),
        FIXED,
        cell("x: Tensor[(4, 3), f32]", "vander(x[:, 0], x.shape[0])"),
        lambda x: np.vander(x[:, 0], len(x)),
        (_array(4, 3),),
    ),
    case(
        'x: Tensor[("n", "m"), f32], labels: Tensor[("n",), i64]',
        "one_hot(labels, x.shape[1])",
        "write labels[..., None] == arange(x.shape[1])",
        "(labels[..., None] == arange(x.shape[1])).astype(f32)",
        lambda x, labels: np.eye(4, dtype="f4")[labels],
        _array(3, 4),
        np.array([0, 3, 1]),
    ),
    case(N, "x.reshape(n, 3)", 'the dimension "n" is x.shape[0]', "x.reshape(x.shape[0], 3)"),
    # types
    case(
        "",
        "def f(x: Tensor[(4,), cdouble]):\n    return x.real\n",
        "write c64 or c128",
        "def f(x: Tensor[(4,), c64]):\n    return x.real\n",
        lambda x: x.real,
        np.array([1j, 2, 3 - 4j, 5], "c8"),
    ),
    case(
        "",
        "def f(x: Tensor[(n, 2), f32]):\n    return x\n",
        'for a size known at the call, write "n"',
        'def f(x: Tensor[("n", 2), f32]):\n    return x\n',
    ),
    case(
        "",
        "def f(x: Tensor[2, 3, f32]):\n    return x\n",
        "put the shape in brackets, as in Tensor[(2, 3), f32]",
        "def f(x: Tensor[(2, 3), f32]):\n    return x\n",
    ),
    case(
        "",
        "def f(x: f32):\n    y: Tensor[(2, 3)] = x\n    return y\n",
        "write a type, as in Tensor[(2, 3), f32]",
        "def f(x: Tensor[(2, 3), f32]):\n    return x\n",
    ),
    case(
        "",
        "def f(x: f32):\n    y: Tensor = x\n    return y\n",
        "say its shape and its dtype, as in Tensor[(2, 3), f32]",
        "def f(x: Tensor[(2, 3), f32]):\n    return x\n",
    ),
    case(
        "",
        "def f(x: f32):\n    y: Tensor[..., f32] = x\n    return y\n",
        'name each dimension, as in Tensor[("n", "m"), f32]',
        "def f(x: f32) -> f32:\n    return x\n",
    ),
    case(
        "",
        'def f(x: Tensor[("n m", 2), f32]):\n    return x\n',
        'name the dimension with one word, as in "n", or compute it of names, as in "2*n + 1"',
        'def f(x: Tensor[("n", 2), f32]):\n    return x\n',
    ),
    case(
        "",
        'def f(x: Tensor[("2", 2), f32]):\n    return x\n',
        "write 2 without the quotes",
        "def f(x: Tensor[(2, 2), f32]):\n    return x\n",
    ),
    case(
        "",
        'def f(x: Tensor[("for", 2), f32]):\n    return x\n',
        'it is a keyword of Python: write another, as in "for_"',
        'def f(x: Tensor[("for_", 2), f32]):\n    return x\n',
    ),
    case(
        "",
        'def f(x: "Tensor[(2, 2), f32]"):\n    return x\n',
        "write it without the quotes",
        "def f(x: Tensor[(2, 2), f32]):\n    return x\n",
    ),
    case(
        "",
        "def f(x: (f32, f32)):\n    return x[0]\n",
        "write tuple[Tensor[(2, 3), f32], f32]",
        "def f(x: tuple[Tensor[(2, 3), f32], f32]):\n    return x[0]\n",
    ),
    *(
        Case(
            f"def f(x: {refused}):\n    return x\n",
            hint,
            f"def f(x: {followed}):\n    return x * 2\n",
            lambda x: x * 2,
            (_array(4, 3),),
            {**NOTEBOOK, "NDArray": NDArray, "Annotated": Annotated, "Float": FLOAT},
        )
        for refused, hint, followed in (
            ("Float[np.ndarray, 3]", 'write Float[np.ndarray, "n 3"]', 'Float[np.ndarray, "n 3"]'),
            ("np.floating[np.float32, 3]", "write NDArray[np.floating]", "NDArray[np.floating]"),
            (
                "np.ndarray[np.float32]",
                'write it as in Annotated[np.ndarray, Tensor[("n", 3), f32]]',
                'Annotated[np.ndarray, Tensor[("n", 3), f32]]',
            ),
            ("NDArray[3, np.float32]", "write it as in NDArray[np.float32]", "NDArray[np.float32]"),
            (
                "np.ndarray[Any, np.dtype[np.float32, 3]]",
                "write it as in np.dtype[np.float32]",
                "np.ndarray[Any, np.dtype[np.float32]]",
            ),
        )
    ),
    # strings
    case(
        "x: Tensor[(4,), f32]",
        "for i in range(2):\n    x = x * state['{}.weight'.format(i)]\nreturn x",
        unsupported_syntax.NO_STRINGS,
        "for i in range(2):\n    x = x * state[f'{i}.weight']\nreturn x",
        lambda x: x * 2,
        np.ones(4, np.float32),
    ),
    case(
        "x: Tensor[(4, 4), f32]",
        "x.transpose(0, 1)",
        "write x.T to swap them",
        "x.T",
        np.transpose,
        _array(4, 4),
    ),
    case(
        "x: Tensor[(4,), f32]",
        "x.masked_fill(x, 1)",
        "compare it, as in x != 0",
        "x.masked_fill(x != 0, 1)",
        lambda x: np.where(x != 0, np.float32(1), x),
        _array(4),
    ),
    case(
        "x: Tensor[(4,), f32]",
        "y = x + 1\nz = y.reshape(4)\ny += 1\nreturn z * y",
        "write y = y + value to change `y` alone, or copy it before: z.copy()",
        "y = x + 1\nz = y.reshape(4)\ny = y + 1\nreturn z * y",
        lambda x: (x + 1) * (x + 2),
        _array(4),
    ),
    case(
        "x: Tensor[(4,), f32]",
        "y = [x, x + 1]\ny.sort()\nreturn y",
        "write y = sort(stack(y), axis=0)",
        "y = [x, x + 1]\ny = sort(stack(y), axis=0)\nreturn y",
        lambda x: np.stack([x, x + 1]),
        _array(4),
    ),
    case(
        'x: Tensor[("n",), f32]',
        "random.choice(random.key(0), x, 2, replace=False)",
        "write random.permutation(key, x)[:k]",
        "sort(random.permutation(random.key(0), x)[:4])",
        np.sort,
        _array(4),
    ),
    case(
        "x: Tensor[(3,), f64]",
        "random.normal(random.key(0), (3,), scale=x)",
        "write dtype=f64",
        "random.normal(random.key(0), (3,), scale=0 * x, dtype=f64)",
        np.zeros_like,
        _array(3, dtype="float64"),
    ),
    case(
        "x: f32",
        "random.integers(random.key(0), 300, dtype=u8)",
        "write a wider dtype, as in dtype=i64",
        "(random.integers(random.key(0), 300, dtype=i64) // 300).astype(f32) + x",
        lambda x: x,
        np.float32(2),
    ),
    case(
        "x: Tensor[(4,), f32]",
        'x * state["0.weight".expandtabs()]',
        unsupported_syntax.NO_STRINGS,
        "x * weights[0]",
    ),
    case(
        "x: Tensor[(4,), f32]",
        'x * state["{}.weight".format(0)]',
        unsupported_syntax.NO_STRINGS,
        "x * weights[0]",
    ),
    case(
        "x: Tensor[(4,), f32]", 'x * state["%d.weight" % 0]', unsupported_syntax.NO_STRINGS, "x * weights[0]"
    ),
    case(
        "x: Tensor[(4,), f32], i: i64",
        "x * state[i]",
        "stack the values in another cell, as in weights = numpy.stack(list(state.values())), and write weights[i]",
        "x * stacked[i]",
        lambda x, i: x,
        _array(4),
        np.int64(1),
    ),
    case(
        "x: Tensor[(4,), f32]",
        "x * settings.rate",
        "index it with a key, as in settings['rate']",
        "x * settings['rate']",
    ),
    case(
        "x: Tensor[(4,), f32]",
        "assert x.sum() > -9, x + 1j\nreturn x",
        "write its real and its imaginary part",
        "assert x.sum() > -999, (x + 1j).real\nreturn x",
    ),
    case(
        "x: f32",
        "if x < 0:\n    raise ValueError(x, 'is negative')\nreturn x",
        "put what it says into one formatted string, as in raise ValueError(f'{x} is negative')",
        "if x < 0:\n    raise ValueError(f'{x} is negative')\nreturn x",
        lambda x: x,
        np.float32(2),
    ),
    case(
        "x: f32",
        "if x < 0:\n    raise ValueError(b'negative')\nreturn x",
        "write a plain string",
        "if x < 0:\n    raise ValueError('negative')\nreturn x",
        lambda x: x,
        np.float32(2),
    ),
    # other libraries
    case(
        "x: Tensor[(3, 3), i64]",
        "np.bincount(x)",
        "write bincount(x.ravel())",
        "bincount(x.ravel())",
        lambda x: np.bincount(x.ravel()),
        np.arange(9).reshape(3, 3) % 4,
    ),
    case(X, "cumulative_sum(x)", "give the axis, as in axis=0", "cumulative_sum(x, axis=0)"),
    case(X, "select([x], [x])", "compare them, as in x != 0", "select([x != 0], [x])"),
    case(
        "x: Tensor[(3,), f16]",
        "nextafter(x, x)",
        "convert both first, as in x.astype(f32)",
        "nextafter(x.astype(f32), x.astype(f32))",
    ),
    case(
        "x: Tensor[(3, 3), f32], n: i64",
        "for i in range(n):\n    x = np.busday_count()\nreturn x",
        unsupported_functions.ELSEWHERE,
        "x @ x",
    ),
    case(
        "x: Tensor[(3, 3), f32]",
        "cond(x, 1)",
        "write norm(x, p) * norm(inv(x), p)",
        "norm(x, 1) * norm(inv(x), 1)",
        lambda x: np.linalg.cond(x, 1),
        _array(3, 3),
    ),
    case(
        "x: Tensor[(6,), f32], i: i64",
        "np.insert(x, i, 1.0)",
        "write concatenate([x[:i], y, x[i:]])",
        "concatenate([x[:i], [1.0], x[i:]])",
        lambda x, i: np.insert(x, int(i), 1.0),
        _array(6),
        np.int64(2),
    ),
    case(
        "x: Tensor[(9,), f32], k: i64",
        "np.partition(x, (k, 2))",
        "write sort(x)",
        "sort(x)",
        lambda x, k: np.sort(x),
        _array(9),
        np.int64(1),
    ),
    case(
        "n: i64, k: i64",
        "special.comb(n, k, exact=True)",
        "write math.comb(n, k) or math.factorial(n) of single numbers",
        "math.comb(n, k), math.factorial(n)",
        lambda n, k: (math.comb(n, k), math.factorial(n)),
        np.int64(5),
        np.int64(2),
    ),
    case(
        W,
        "y = x * 2\nfor i in parallel(5):\n    if x[i] < -9:\n        raise ValueError(f'{x[i]} is low')\n    y[i] = x[i]\nreturn y",
        "leave the values out of the message, or write range(...)",
        "y = x * 2\nfor i in parallel(5):\n    if x[i] < -9:\n        raise ValueError('a number is low')\n    y[i] = x[i]\nreturn y",
        lambda x: x,
        _array(5),
    ),
    # random numbers of NumPy
    *(
        Case(
            cell(DRAWN, refused),
            hint,
            cell(DRAWN, followed),
            lambda x, rng, drawn=drawn: drawn(np.random.default_rng(3), x),
            (_array(5, dtype="f8"), np.random.default_rng(3)),
        )
        for refused, hint, followed, drawn in (
            (
                "np.random.seed(3)\nreturn x",
                f"write {MAKE_RNG}, or pass a generator as an argument: rng: np.random.Generator",
                "rng = np.random.default_rng(3)\nreturn x + rng.random(5)",
                lambda rng, x: x + rng.random(5),
            ),
            (
                "rng = np.random.default_rng()\nreturn x + rng.random(5)",
                "write np.random.default_rng(seed), or pass a generator as an argument: rng: np.random.Generator",
                "return x + rng.random(5)",
                lambda rng, x: x + rng.random(5),
            ),
            (
                "x + np.random.rand(5)",
                f"write {MAKE_RNG}, then rng.random(size)",
                "rng = np.random.default_rng(3)\nreturn x + rng.random(5)",
                lambda rng, x: x + rng.random(5),
            ),
            (
                "x + np.random.normal(size=5)",
                f"write {MAKE_RNG}, then rng.normal(...)",
                "rng = np.random.default_rng(3)\nreturn x + rng.normal(size=5)",
                lambda rng, x: x + rng.normal(size=5),
            ),
            (
                "rng.bytes(4)",
                "write rng.integers(0, 256, n, dtype=np.uint8)",
                "rng.integers(0, 256, 4, dtype=np.uint8)",
                lambda rng, x: rng.integers(0, 256, 4, dtype=np.uint8),
            ),
            (
                "y = rng.shuffle(x)\nreturn y",
                "write rng.shuffle(x) as a statement, or y = rng.permutation(x)",
                "z = x.copy()\nrng.shuffle(z)\ny = rng.permutation(x)\nreturn y + z",
                lambda rng, x: shuffled(rng, x) + rng.permutation(x),
            ),
            (
                "rng.integers(300, size=5, dtype=np.uint8)",
                "write a wider dtype, as in dtype=np.int64",
                "rng.integers(300, size=5, dtype=np.int64)",
                lambda rng, x: rng.integers(300, size=5, dtype=np.int64),
            ),
            (
                "y = x.copy()\nfor i in parallel(5):\n    y[i] = rng.random()\nreturn y",
                "write range(...), or draw an array before the loop",
                "y, drawn = x.copy(), rng.random(5)\nfor i in parallel(5):\n    y[i] = drawn[i]\nreturn y",
                lambda rng, x: rng.random(5),
            ),
            (
                "def g(rng: np.random.Generator):\n    return rng.random(5)\n\n"
                "def f(x: Tensor[(5,), f64]):\n    return g(x)\n",
                f"make one, as in {MAKE_RNG}",
                "def g(rng: np.random.Generator):\n    return rng.random(5)\n\n"
                "def f(x: Tensor[(5,), f64], _: np.random.Generator):\n"
                "    rng = np.random.default_rng(3)\n    return x + g(rng)\n",
                lambda rng, x: x + rng.random(5),
            ),
        )
    ),
    # arguments
    case(
        X,
        "zeros((3,), 'float128')",
        "write one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_",
        "zeros((3,), f64)",
        lambda x, y: np.zeros(3),
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        "",
        "def f(x: Tensor[(2, 3), 'flt']):\n    return x\n",
        "write one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_",
        "def f(x: Tensor[(2, 3), f32]):\n    return x\n",
    ),
    case(
        "x: Tensor[(1, 1, 4, 4), f32], w: Tensor[(1, 1, 3, 3), f32]",
        "conv2d(x, w, padding='SAME')",
        "write the numbers, as in padding=1 or padding=(1, 1)",
        "conv2d(x, w, padding=1)",
        lambda x, w: x,
        _array(1, 1, 4, 4),
        np.eye(9)[4].reshape(1, 1, 3, 3).astype("f4"),
    ),
    case(
        "i: Tensor[(3,), i64]",
        "one_hot(i)",
        "as in one_hot(indices, 10)",
        "one_hot(i, 10)",
        lambda i: np.eye(10, dtype="i8")[i],
        np.arange(3),
    ),
    case(X, "full((3, 4), x[0])", "write broadcast_to(x, shape)", "broadcast_to(x[0], (3, 4))"),
    case(
        X, "concatenate([x[0, 0], x[0, 1]])", "write stack([a, b]) for scalars", "stack([x[0, 0], x[0, 1]])"
    ),
    case(
        X,
        "pad(x, (1, 2, 3))",
        "write one number, (before, after), or a pair for each dimension",
        "pad(x, (1, 2))",
    ),
    case(
        X,
        "tensordot(x, y.T, axes='a')",
        "write a number, or two lists of axes: axes=([1], [0])",
        "tensordot(x, y.T, axes=([1], [0]))",
    ),
    case(
        "x: Tensor[(2, 3, 4), f32]",
        "permute_dims(x, (0, 1))",
        "list each axis once, or write swapaxes(0, 1), which exchanges these two",
        "x.swapaxes(0, 1)",
    ),
    case(
        'x: Tensor[("n", 4), f32]',
        "x.reshape(7, 3)",
        "its size is known only when the function is called: write -1 for one dimension",
        "x.reshape(-1, 2)",
    ),
    case(
        X,
        "relay.concatenate(x, axis=0)",
        "write them in brackets, as in concatenate([a, b], axis=0)",
        "relay.concatenate([x, y], axis=0)",
        lambda x, y: np.concatenate([x, y]),
        _array(3, 4),
        _array(3, 4),
    ),
    case(X, "relay.sum(x, **y)", "write each argument out as name=value", "sum(x, axis=0)"),
    case(
        X,
        "relay.zeros(('n', 4), f32)",
        'the size of the dimension "n" is that of a tensor, as in x.shape[0]',
        "zeros((x.shape[0], 4), f32)",
        lambda x, y: np.zeros((3, 4), "f4"),
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        "n: i64",
        "mgrid(n)[0]",
        "write mgrid[0:3, 0:4]",
        "mgrid[0:3, 0:4][0]",
        lambda n: np.mgrid[0:3, 0:4][0],
        np.int64(5),
    ),
    case(
        "n: i64",
        "mgrid()",
        "write mgrid[0:3, 0:4]",
        "mgrid[0:3, 0:n]",
        lambda n: np.mgrid[0:3, 0:n],
        np.int64(5),
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "x.shape = 4, 3\nreturn x",
        "write x = x.reshape(...)",
        "x = x.reshape(4, 3)\nreturn x",
        lambda x: x.reshape(4, 3),
        _array(3, 4),
    ),
    case("n: i64", "mgrid[1:]", "write 0:n", "mgrid[0:n]", lambda n: np.mgrid[0:n], np.int64(5)),
    case(
        "b: Tensor[(3,), bool_]",
        "z = b.copy()\nz[0] = 2\nreturn z",
        "write True or False",
        "z = b.copy()\nz[0] = False\nreturn z",
    ),
    case(
        "i: Tensor[(3,), i32]",
        "z = i.copy()\nz += 0.5\nreturn z",
        "write x = x + y for a new array, or convert x first",
        "z = i.copy()\nz = z + 0.5\nreturn z",
    ),
    case(
        "i: Tensor[(3,), i32]",
        "relay.divide(i, i)",
        "write a / b (NumPy's, gives f64), a // b, or trunc_divide(a, b)",
        "i // i",
        lambda i: i // i,
        np.arange(1, 4, dtype="i4"),
    ),
    case(
        "i: Tensor[(3,), i32]",
        "relay.mod(i, i)",
        "write a % b (floor_mod), or trunc_mod(a, b)",
        "i % i",
        lambda i: i % i,
        np.arange(1, 4, dtype="i4"),
    ),
    case(
        X,
        "x[[y, y]]",
        "make a tensor of them first: stack([a, b]), or numpy.array in another cell",
        "x[stack([0, 1])]",
        lambda x, y: x[[0, 1]],
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        X,
        "t = (1, 2)\nif x[0, 0] > 0:\n    t = [1, 2]\nreturn x[t]",
        "write the indices out, as in x[i, j]; or make a tensor of them, as in x[array(t)]",
        "t = (1, 2)\nreturn x[array(t)]",
        lambda x, y: x[[1, 2]],
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        "x: Tensor[(1, 1, 4), f32], w: Tensor[(1, 1, 3), f32]",
        "conv1d(x, w, strides=2, padding='same')",
        "give the numbers, as in padding=1",
        "conv1d(x, w, strides=2, padding=1)",
        lambda x, w: x[:, :, ::2],
        _array(1, 1, 4),
        np.array([[[0, 1, 0]]], "f4"),
    ),
    case(
        'x: Tensor[("n", 4), f32], y: Tensor[("n", 4), f32]',
        "kl_div(x, y, reduction='batchmean')",
        'write kl_div(input, target, reduction="sum") / len(input)',
        'kl_div(x, y, reduction="sum") / len(x)',
        lambda x, y: np.float32((y * (np.log(y) - x)).sum() / 3),
        _array(3, 4),
        np.ones((3, 4), "f4"),
    ),
    case(
        "x: Tensor[(5,), bool_]",
        "quantile(x, 0.5)",
        "convert it first, as in x.astype(f64)",
        "quantile(x.astype(f64), 0.5)",
        lambda x: np.quantile(x.astype("f8"), 0.5),
        np.array([True, False, True, True, False]),
    ),
    case(X, "einsum(2, x, y)", 'as in einsum("ij,jk->ik", a, b)', 'einsum("ij,kj->ik", x, y)'),
    case(
        'x: Tensor[(12,), f32], y: Tensor[("n",), f32]',
        "x.reshape(y.shape[0], 4)",
        "write -1 for one dimension, which follows from the others",
        "x.reshape(-1, 4)",
    ),
    case(
        "x: Tensor[(3, 4), f32]",
        "1.5 if x.sum() > 0 else x",
        "write full((3, 4), 1.5, f32) for the number",
        "full((3, 4), 1.5, f32) if x.sum() > 0 else x",
    ),
    case(
        N,
        "1.5 if x.sum() > 0 else x",
        "write full_like(x, 1.5) for the number, with the tensor as x",
        "full_like(x, 1.5) if x.sum() > 0 else x",
    ),
    case(
        "nn: f32, y: f32",
        "nn.relu(y)",
        "`nn` is a name of the function's own here: rename it, or write relay.nn.relu",
        "relay.nn.relu(y)",
        lambda nn, y: np.maximum(y, 0),
        np.float32(1),
        np.float32(-1),
    ),
    # numbers, tuples and members
    case(
        X,
        "a = 3\nreturn x * a.sqrt()",
        "it is a Python number: write sqrt(a)",
        "a = 3\nreturn x * sqrt(a)",
        lambda x, y: x * np.float32(np.sqrt(3)),
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        X,
        "a = [x]\nb = a.append(y)\nreturn stack(b)",
        "a list does not change: write a + [value]",
        "a = [x]\nb = a + [y]\nreturn stack(b)",
    ),
    case(
        X,
        "jnp.exp(x)",
        "run `import jax.numpy as jnp` in another cell, or write exp, which needs none",
        "exp(x)",
    ),
    case(
        X,
        "Linear(x)",
        "did you mean linear?",
        "linear(x, y)",
        lambda x, y: x @ y.T,
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        X,
        "nn.Linear(x)",
        "a cell has functions, no layers: write linear(x, ...)",
        "linear(x, y)",
        lambda x, y: x @ y.T,
        _array(3, 4),
        _array(3, 4),
    ),
    # functions
    case(
        "",
        "def f(x: tuple[f32, ...]):\n    return x\n",
        "write one type for each item",
        "def f(x: tuple[f32, f32]):\n    return x\n",
    ),
    case(
        "",
        "def g(h: Callable[f32, f32], x: f32):\n    return h(x)\n\ndef f(x: f32):\n    return g(exp, x)\n",
        "write Callable[[Tensor[(3,), f32]], Tensor[(3,), f32]]: parameters in brackets, then the result",
        "def g(h: Callable[[f32], f32], x: f32):\n    return h(x)\n\ndef f(x: f32):\n    return g(exp, x)\n",
    ),
    case(
        "",
        "def f(x: list[f32]):\n    return x[0]\n",
        'write tuple[f32, f32], a type for each item, or Tensor[("n",), f32]',
        'def f(x: Tensor[("n",), f32]):\n    return x.sum()\n',
    ),
    case(
        "",
        "def f(x: f32, y: f32 = None):\n    return x\n",
        "write a number, a string or a name of the notebook; or leave the default out",
        "def f(x: f32, y: f32 = 2.0):\n    return x\n",
        lambda x: x,
        np.float32(1),
    ),
    case(
        "",
        "def f(x: f32, y: Tensor[(2,), f64] = zeros((2,))):\n    return x + y[0].astype(f32)\n",
        "compute it in another cell, and write the name that holds it",
        "def f(x: f32, y: Tensor[(2,), f64] = filled):\n    return x + y[0].astype(f32)\n",
        lambda x: x + 1,
        np.float32(1),
    ),
    case(
        "",
        "def f(n: i64):\n    return f(n)\n",
        "write the type of its result, as in -> Tensor[(2, 3), f32], and let a branch end it",
        "def f(n: i64) -> i64:\n    return n if n <= 0 else f(n - 1)\n",
        lambda n: n * 0,
        np.int64(3),
    ),
    case(
        "x: f32",
        "def f(x: f32):\n    def g(a: f32, b):\n        return a * b\n    return g(x, x)\n",
        "write its type, as in b: Tensor[(2, 3), f32], or leave all types out",
        "def f(x: f32):\n    def g(a, b):\n        return a * b\n    return g(x, x)\n",
    ),
    case(
        "x: f32",
        "def f(x: f32):\n    def g(a: f32):\n        return g(a - 1) if a > 0 else a\n    return g(x)\n",
        "write it after the parameters, as in -> Tensor[(2, 3), f32]",
        "def f(x: f32):\n    def g(a: f32) -> f32:\n        return g(a - 1) if a > 0 else a\n    return g(x)\n",
    ),
    case(
        X,
        "z = [(lambda: t) for a in [1] if (t := a)]\nreturn x",
        "write a `for` with an assignment",
        "t = 0\nfor a in [1]:\n    t = a\nreturn x * t",
        lambda x, y: x,
        _array(3, 4),
        _array(3, 4),
    ),
    case(
        X,
        "match x:\n    case (a, b):\n        return a",
        "match a tuple, as in match (x, y):",
        "match (x, y):\n    case (a, b):\n        return a",
    ),
    case(
        "",
        "def f(self, x: f32):\n    return x\n",
        "a method cannot be compiled: write a function, and give it what it needs",
        "def f(x: f32):\n    return x\n",
    ),
    case(
        "",
        "def total(x, kind, n):\n    if n == 0:\n        return x\n    return total(x, 'b', n - 1)\n\n"
        "def f(x: f32, n: i64):\n    return total(x, 'a', n)\n",
        "write another function for the other value",
        "def total_b(x, n):\n    if n == 0:\n        return x\n    return total_b(x, n - 1)\n\n"
        "def f(x: f32, n: i64):\n    return x if n == 0 else total_b(x, n - 1)\n",
        lambda x, n: x,
        np.float32(2),
        np.int64(3),
    ),
    case(
        "",
        "def f(x: f32):\n    return decorated(x)\n",
        "put %%tinynn above its definition, or write callback(decorated, x, result=f32), which calls Python",
        "def decorated(x):\n    return x + 1\n\ndef f(x: f32):\n    return decorated(x)\n",
        lambda x: x + 1,
        np.float32(2),
    ),
    # classes
    case(
        "",
        "class P:\n    def P(x: f32): ...\n\ndef f(x: f32):\n    return P(x).x\n",
        "`match P(x):` takes it apart, as in case Cons(head, tail): ...",
        "class P:\n    def P(x: f32): ...\n\ndef f(x: f32):\n    match P(x):\n        case P(y):\n            return y\n",
        lambda x: x,
        np.float32(1),
    ),
    case(
        "",
        "class P:\n    x: f32\n    y: f32 = 0.0\n\ndef f(x: f32):\n    return x\n",
        "write a constructor that has them, as in def P(x: f32, y: f32): ...",
        "class P:\n    def P(x: f32, y: f32): ...\n\ndef f(x: f32):\n    return x\n",
    ),
    case(
        "",
        "class P:\n    def P(x: f32):\n        return x\n\ndef f(x: f32):\n    return x\n",
        "write `...` as its body; what is computed goes in a function",
        "class P:\n    def P(x: f32): ...\n\ndef f(x: f32):\n    return x\n",
    ),
    case(
        "",
        "class P(Module):\n    def P(x: f32): ...\n\ndef f(x: f32):\n    return x\n",
        "write a function, which captures arrays of the notebook: `return relu(x @ w + b)`",
        "def f(x: Tensor[(2, 4), f32]):\n    return relu(x @ stacked.T + 1)\n",
        lambda x: np.maximum(x @ np.ones((4, 2), "f4") + 1, 0),
        _array(2, 4),
    ),
    case(
        "",
        "class P:\n    pass\n\ndef f(x: f32):\n    return x\n",
        "declare constructors, as in def Leaf(value: Tensor[(3,), f32]): ...",
        "class P:\n    def Leaf(value: Tensor[(3,), f32]): ...\n\ndef f(x: f32):\n    return x\n",
    ),
    case(
        "",
        "x = len([1])\n",
        "compute it in another cell; a cell's functions can use the notebook's names",
        "def f(x: f32):\n    return x * settings['rate']\n",
    ),
    case(
        "",
        "# no function\n",
        "write one, as in def f(x: Tensor[(2, 3), f32]): return x + 1",
        "def f(x: Tensor[(2, 3), f32]): return x + 1\n",
    ),
    case(
        "",
        f"{TREE}def f(x: f32):\n    t = Leaf(x)\n    return x if isinstance(t, Leaf) else x + 1\n",
        "to ask which constructor made a value write match, as in case Leaf(value): ...",
        f"{TREE}def f(x: f32):\n    t = Leaf(x)\n    match t:\n        case Leaf(value):\n            return value\n"
        "        case Empty():\n            return x + 1\n",
        lambda x: x,
        np.float32(2),
    ),
    # what Python has and a cell has not
    case(X, "async def g(a):\n    return a\nreturn x", "write `def`", "def g(a):\n    return a\nreturn g(x)"),
    case(
        X,
        "if x.sum() > 999:\n    raise MyError\nreturn x",
        "raise a built-in exception with a message, as in raise ValueError('x must be positive')",
        "if x.sum() > 999:\n    raise ValueError('x must be positive')\nreturn x",
    ),
    case(
        X,
        "a = {x * k for k in (2, 3)}\nreturn x",
        "write a list instead, as in [x * 2, x * 3]",
        "a = [x * 2, x * 3]\nreturn stack(a)",
    ),
    case(
        "",
        "def f(x: Tensor[(2,), f64]):\n    return x * masked\n",
        "fill it in another cell, as in masked = masked.filled(0)",
        "def f(x: Tensor[(2,), f64]):\n    return x * filled\n",
    ),
    case(
        "",
        "def f(x: f32):\n    for k in chosen:\n        x = x * k\n    return x\n",
        "make it a tuple in another cell, as in chosen = tuple(sorted(chosen))",
        "def f(x: f32):\n    for k in chosen_sorted:\n        x = x * k\n    return x\n",
    ),
    # complex numbers
    case(
        Z,
        "abs(z < 1)",
        "compare sizes, as in abs(z), or parts, z.real",
        "abs(z) < 1",
        lambda z, x: abs(z) < 1,
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "floor(z)",
        "compare sizes, as in abs(z), or parts, z.real",
        "floor(z.real)",
        lambda z, x: np.floor(z.real),
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "erf(z)",
        "apply it to the parts, z.real and z.imag",
        "z.real + z.imag",
        lambda z, x: z.real + z.imag,
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "z.astype(f64)",
        "take the part that you want, as in z.real",
        "z.real",
        lambda z, x: z.real,
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "complex(z)",
        "write x.astype(c128) for every element",
        "z.astype(c128)",
        lambda z, x: z,
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "rfft(z)",
        "write fft",
        "fft(z)",
        lambda z, x: np.fft.fft(z),
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "w = z.real\nw[0] = 1j\nreturn w",
        "take its real part, or use a complex dtype instead of f64",
        "w = z.real.astype(c128)\nw[0] = 1j\nreturn w",
        lambda z, x: np.array([1j, *z.real[1:]]),
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        Z,
        "if x > 0:\n    r = complex(x)\nelse:\n    r = x\nreturn r",
        "make the other one complex, too, as in x.astype(c128)",
        "if x > 0:\n    r = complex(x)\nelse:\n    r = x.astype(c128)\nreturn r",
        lambda z, x: complex(x),
        _COMPLEX,
        np.array(0.5),
    ),
    case(
        "",
        "def g(x: f64):\n    return x\n\ndef f(x: f64):\n    y = complex(x)\n    return g(y)\n",
        "take its real part, as in y.real",
        "def g(x: f64):\n    return x\n\ndef f(x: f64):\n    y = complex(x)\n    return g(y.real)\n",
        lambda x: x,
        np.array(0.5),
    ),
    # what a notebook imports
    # what is pasted without types
    case(
        "x: Tensor[(3,), f64], k: i64",
        "from itertools import combinations\nt = 0.0\nfor a, b in combinations([0, 1, 2], k):\n    t += x[a] * x[b]\nreturn t",
        "give a number, as in combinations(items, 2)",
        "from itertools import combinations\nt = 0.0\nfor a, b in combinations([0, 1, 2], 2):\n    t += x[a] * x[b]\nreturn t",
        lambda x, _: x[0] * x[1] + x[0] * x[2] + x[1] * x[2],
        np.array([2.0, 3.0, 5.0]),
        2,
    ),
    case(
        "",
        WALK + "def f(n: i64):\n    walk(n)\n    return n\n",
        "let it fill an array, return what it finds, or write a loop with a stack: while stack:",
        "def f(n: i64):\n    total, stack = 0, [n]\n    while stack:\n        k = stack.pop()\n        total += k\n"
        "        if k > 0:\n            stack.append(k - 1)\n    return total\n",
        lambda _: 15,
        5,
    ),
    case(
        "x: Tensor[(4,), f64]",
        "last = 0.0\ny = [last := last + each for each in x if each > 0]\nreturn np.array(y)",
        "write it as a loop that appends",
        "last, y = 0.0, []\nfor each in x:\n    if each > 0:\n        last = last + each\n        y.append(last)\nreturn np.array(y)",
        lambda x: np.cumsum(x[x > 0]),
        np.array([1.0, -2.0, 3.0, 0.5]),
    ),
    case(
        'x: Tensor[("n",), f64]',
        "last = 0.0\ny = [last := last + each for each in x]\nreturn np.array(y)",
        f"compute on a whole tensor at once, as in x * 2 or arange(n) * 2; or write a `for` loop: {unsupported_syntax.FILL_A_TENSOR}",
        "last, out = 0.0, zeros((len(x), 2), f64)\nfor i in range(len(x)):\n    last = last + x[i]\n    out[i] = last\nreturn out[:, 0]",
        np.cumsum,
        np.array([1.0, -2.0, 3.0, 0.5]),
    ),
    case(
        "",
        RULE.format("d * b") + PRODUCT,
        "return one for each argument, as in return (d0, d1); None stands for zeros",
        RULE.format("(d * b, d * a)") + PRODUCT,
        lambda a, b: (b, a),
        2.0,
        3.0,
    ),
    case(
        "",
        "@custom_vjp\ndef product(a, b):\n    return a * b\n" + PRODUCT,
        "write product.defvjp(forward, backward)",
        RULE.format("(d * b, d * a)") + PRODUCT,
        lambda a, b: (b, a),
        2.0,
        3.0,
    ),
    case(
        "",
        "@custom_jvp\ndef product(a, b):\n    return a * b\n" + PRODUCT,
        "write product.defjvp(tangent), with a function of (primals, tangents)",
        "@custom_jvp\ndef product(a, b):\n    return a * b\n\ndef tangent(primals, tangents):\n    a, b = primals\n"
        "    return a * b, b * tangents[0] + a * tangents[1]\n\nproduct.defjvp(tangent)\n\n" + PRODUCT,
        lambda a, b: (b, a),
        2.0,
        3.0,
    ),
    case(
        "",
        CHAIN + "def f(x: f64):\n    return jacobian(total)(Link(x, End()))\n",
        "write grad(f) or vjp(f, x), whose results have the type of the parameter",
        CHAIN
        + "def f(x: f64):\n    match grad(total)(Link(x, End())):\n        case Link(d, _): return d\n        case End(): return x\n",
        lambda x: 2 * x,
        3.0,
    ),
    case(
        "k: i64",
        "rows = [[1], [2]]\nrow = rows[0]\nrows[0].append(k)\nreturn len(row), len(rows[0])",
        "write rows[i] = rows[i] + items for a new list",
        "rows = [[1], [2]]\nrow = rows[0]\nrows[0] = rows[0] + [k]\nreturn len(row), len(rows[0])",
        lambda _: (1, 2),
        5,
    ),
    case(
        "n: i64",
        "a, b = [1, 2], [1, 2, 3]\nfor p, q in zip(a, b):\n    if p < n:\n        a.append(q)\nreturn len(a)",
        "go over a copy, as in zip(list(a)), or count the items in a while loop",
        "a, b = [1, 2], [1, 2, 3]\nfor p, q in zip(list(a), b):\n    if p < n:\n        a.append(q)\nreturn len(a)",
        lambda _: 3,
        2,
    ),
    case(
        "s: f64",
        "np.r_[0:s:0.5]",
        "write np.arange(start, stop, step)",
        "np.arange(0, s, 0.5)",
        lambda s: np.r_[0:s:0.5],
        2.25,
    ),
    case(
        "",
        "def lists(n):\n" + RAGGED + "    return rows\n\ndef f(n: i64):\n    return len(lists(n)[0])\n",
        "use them in the function that makes them",
        "def f(n: i64):\n" + RAGGED + "    return len(rows[0])\n",
        lambda _: 3,
        5,
    ),
    case(
        "",
        ITEM + "def f(n: i64):\n    return item((n, 2), 3)\n",
        "give an array, as in np.array((n, 2)); or a function of this cell that does not call itself",
        ITEM + "def f(n: i64):\n    return item(np.array((n, 2)), 3)\n",
        lambda n: n,
        7,
    ),
    case(
        "",
        ITEM + "def f(n: i64):\n    return item([[n, 2], [3]], 1)\n",
        "a function of this cell that does not call itself takes anything",
        "def item(t):\n    return t[0][0]\n\ndef f(n: i64):\n    return item([[n, 2], [3]])\n",
        lambda n: n,
        7,
    ),
    case(
        "k: i64",
        "d = {}\nd[k] = 1\nvalue = d.setdefault(k + 1, 2) if k > 3 else 0\nreturn value, d.get(k, 0)",
        "write d.setdefault(key, value) on a line before, or d.get(key, 0), which adds none",
        "d = {}\nd[k] = 1\nd.setdefault(k + 1, 2)\nvalue = d.get(k + 1, 0) if k > 3 else 0\nreturn value, d.get(k, 0)",
        lambda _: (2, 1),
        5,
    ),
    case(
        "n: i64",
        "rows = []\nfor i in range(n):\n    rows.append((i, (i, i + 1)))\na, b = zip(*rows)\nreturn sum(a)",
        "write a loop over the rows",
        "rows = []\nfor i in range(n):\n    rows.append((i, (i, i + 1)))\na = []\nfor i, _ in rows:\n    a.append(i)\nreturn sum(a)",
        lambda n: sum(range(n)),
        5,
    ),
    case(
        "x: f32",
        "x + (1, 2)",
        "make it a tensor first, as in array((1, 2), f32)",
        "x + array((1, 2), f32)",
        lambda x: np.float32(x) + np.array((1, 2), np.float32),
        0.5,
    ),
    case(
        "j: i64, k: i64",
        "s, t = set(), set()\ns.add(j)\nt.add(k)\ns |= t\nreturn len(s)",
        "write s.update(t)",
        "s, t = set(), set()\ns.add(j)\nt.add(k)\ns.update(t)\nreturn len(s)",
        lambda *_: 2,
        3,
        4,
    ),
    case(
        "n: i64",
        "int(str(n)[-2])",
        "take its digits by numbers, as in n // 10 % 10",
        "n // 10 % 10",
        lambda n: int(str(n)[-2]),
        1234,
    ),
    case(
        "i: i64, j: i64",
        "lines = ['ab', 'abc']\nreturn ord(lines[i][j])",
        "pad them, as in line.ljust(n)",
        "lines = [line.ljust(3) for line in ['ab', 'abc']]\nreturn ord(lines[i][j])",
        lambda *_: ord("c"),
        1,
        2,
    ),
]
#: Cells below which a line stands, with a hint; there is none below the cell that follows it.
NOTES = [
    case(
        "x: Tensor[(8, 3, 3), f64]",
        "y = x.copy()\nfor i in prange(8):\n    y[i] = x[i] @ x[i]\nreturn y",
        "let a round compute single elements, or write range(...)",
        "y = x * 0\nfor i in prange(8):\n    for j in range(3):\n        for k in range(3):\n"
        "            for m in range(3):\n                y[i, j, k] += x[i, j, m] * x[i, m, k]\nreturn y",
        lambda x: x @ x,
        _array(8, 3, 3, dtype="f8"),
    ),
    case(
        W,
        "y = x.copy()\nfor i in prange(1, 5):\n    y[i] = y[i - 1] + x[i]\nreturn y",
        "write range(...) if that is meant",
        "y = x.copy()\nfor i in range(1, 5):\n    y[i] = y[i - 1] + x[i]\nreturn y",
    ),
    case(
        W, "x * np.ones(5)", "to compute in f32, write np.ones(5).astype(f32)", "x * np.ones(5).astype(f32)"
    ),
    case(
        "x: Tensor[(3,), u64], y: Tensor[(3,), i64]",
        "x + y",
        "convert one of them for another dtype, as in x.astype(i64)",
        "x.astype(i64) + y",
    ),
    case(
        "x: Tensor[(3,), f32], y: Tensor[(3,), f64]",
        "if x[0] > 0:\n    x = x * y\nreturn x",
        "give it one dtype, as in x.astype(f32)",
        "if x[0] > 0:\n    x = (x * y).astype(f32)\nreturn x",
    ),
]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("each", CASES, ids=lambda each: each.refused.split("\n", 1)[-1].strip()[:60])
def test_a_hint_can_be_followed(each: Case) -> None:
    errors = errors_of(each.refused, each.namespace)
    assert errors, "the cell is accepted"
    assert errors[0].hint == each.hint
    assert len({error.hint for error in errors}) == 1, "other errors follow"
    compiles_as_numpy(each)


@pytest.mark.parametrize("each", NOTES, ids=lambda each: each.hint[:60])
def test_a_line_below_a_cell_can_be_followed(each: Case) -> None:
    (note,) = program_of(each.refused, each.namespace).warnings
    assert note.hint == each.hint
    assert not program_of(each.followed, each.namespace).warnings
    compiles_as_numpy(each)


def compiles_as_numpy(each: Case) -> None:
    """Raises AssertionError unless the cell that follows a hint compiles and gives NumPy's numbers."""
    if each.judge is None:
        run(Accepted("followed", each.followed, namespace=each.namespace, everything=False))
        return
    function = nnmagic.compile(each.followed, namespace=each.namespace, cache=False)
    expected = each.judge(*each.arguments)
    expected = tuple(map(np.asarray, expected)) if isinstance(expected, tuple) else np.asarray(expected)
    same(function(*each.arguments), expected, "the result", None)


# -- tables of hints -----------------------------------------------------------------------------------

#: What the names in the hints of tables stand for.
PARAMETERS = (
    "x: Tensor[(3, 4), f32], y: Tensor[(3, 4), f32], x1: Tensor[(3, 4), f32], x2: Tensor[(3, 4), f32], "
    "condition: Tensor[(3, 4), bool_], c1: Tensor[(3, 4), bool_], c2: Tensor[(3, 4), bool_], mask: Tensor[(3, 4), bool_], "
    "value: f32, low: f32, high: f32, w: Tensor[(3,), f32], index: Tensor[(3, 4), i64], i: i64"
)
#: Names whose hints are about tensors of other types.
OTHER_PARAMETERS: dict[str, str] = {}
PLACEHOLDERS: dict[str, object] = {
    "n": 4,
    "shape": (4, 3),
    "start": 0,
    "stop": 2,
    "step": 1,
    "c": True,
    "items": [np.ones(4, np.float32), np.full(4, 2, np.float32)],
    "a": np.ones(3, np.float32),
    "b": np.ones(3, np.float32),
    "name": 1,
}


def read_hint(hint: str) -> list[str]:
    """What a hint says to write, as Python: alternatives are several; ``with n = 4`` comes before."""
    shown = hint.removeprefix("write ")
    shown, _, rest = shown.partition(", with ")
    before = re.split(r" and (?=\w+ = )", rest) if rest else []
    pieces = re.split(r", or |; or |; | or (?=[\w(])", shown)
    return ["\n".join([*before, piece]) for piece in pieces if _is_code(piece)]


def _is_code(text: str) -> bool:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return not all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Tuple) and " " in text and "(" not in text
        for node in tree.body
    )


def assert_compiles(code: str, parameters: str = PARAMETERS) -> None:
    """Raises AssertionError unless a function whose statements these are compiles."""
    tree = ast.parse(code)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        lines = [*code.split("\n")[:-1], f"return {code.rsplit(chr(10), maxsplit=1)[-1]}"]
    else:
        targets = last.targets[0] if isinstance(last, ast.Assign) else last.target
        lines = [*code.split("\n"), f"return {ast.unparse(targets)}"]
    errors = errors_of(cell(parameters, "\n".join(lines)), PLACEHOLDERS)
    assert not errors, "\n".join(error.render() for error in errors)


@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_what_replaces_a_method_in_place_compiles(name: str) -> None:
    (error,) = errors_of(cell(PARAMETERS, f"return x.{name}()"))
    assert error.hint == IN_PLACE[name]
    pieces = read_hint(IN_PLACE[name])
    assert pieces
    for piece in pieces:
        assert_compiles(piece)


@pytest.mark.parametrize("name", sorted(unsupported_functions._INSTEAD))
def test_what_replaces_a_function_of_a_library_compiles(name: str) -> None:
    instead = unsupported_functions._INSTEAD[name]
    if instead in BUILTINS or instead in OPERATORS:
        return
    pieces = read_hint(instead.partition(" for its type")[0].partition(": ")[0])
    assert pieces, instead
    for piece in pieces:
        if piece.startswith(("Tensor[", "f32", "f64", "i32", "i64")):
            assert not errors_of(f"def f(x: {piece}):\n    return x\n")
        else:
            assert_compiles(piece, OTHER_PARAMETERS.get(name, PARAMETERS))


@pytest.mark.parametrize("name", sorted({*unsupported_syntax.CHANGE_A_LIST} - {"append"}))
def test_what_replaces_a_change_of_a_list_compiles(name: str) -> None:
    given = {"remove": "x[0]", "update": "x"}[name]
    made = "first, *parts = [x[0], x[0], x[1]]" if name == "remove" else "parts = [x[0], x[1]]"
    errors = errors_of(cell(PARAMETERS, f"{made}\nparts.{name}({given})\nreturn stack(parts)"))
    (hint,) = {error.hint for error in errors}
    assert hint is not None
    code = hint.partition(": ")[2] or hint.removeprefix("write ")
    if name != "update":
        assert_compiles(f"parts = [x[0], x[1]]\n{code}\nresult = stack([x[0], *parts])")


@pytest.mark.parametrize("name", sorted(attributes._OTHER_NAMES))
def test_another_name_of_an_attribute_is_one(name: str) -> None:
    other = attributes._OTHER_NAMES[name]
    if other.startswith("the operator "):
        assert_compiles(f"x {other[-1]} {'x.T' if other[-1] == '@' else 'y'}")
    elif ": " in other:
        assert_compiles(other.partition(": ")[0])
    elif other not in BUILTINS:
        assert_compiles(f"x.{other}")


@pytest.mark.parametrize("name", sorted(PYTHON_ONLY))
def test_what_replaces_a_name_of_python_compiles(name: str) -> None:
    _, hint = PYTHON_ONLY[name]
    if not hint.startswith("write "):
        return
    for piece in read_hint(hint.replace(" of a tensor", "")):
        if piece in ("x.name", "x.dtype"):
            continue  # any attribute; no tensor
        if re.fullmatch(r"(f|i)(32|64)|bool_|c(64|128)|(Tensor|tuple)\[.*\]", piece):
            assert not errors_of(f"def f(x: {piece}):\n    return x\n")
        else:
            assert_compiles(piece.replace("[f(", "[exp("))


# -- every hint ----------------------------------------------------------------------------------------

#: What makes a hint one that shows what to write.
_SHOWS_CODE = re.compile(r"\b(write|as in|use)\b")
#: Outside of docstrings.
_IN_A_STRING = re.compile(rf"^(?! *\"\"\").*[\"'].*{_SHOWS_CODE.pattern}", re.MULTILINE)


def hints_of_the_source() -> Iterator[tuple[str, str]]:
    """Every hint in the source that shows code: where it stands, and its text with {} for what is computed."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        nodes = ast.walk(ast.parse(source)) if _IN_A_STRING.search(source) else ()
        for node in nodes:
            for text in _hints_at(node) if isinstance(node, _WITH_HINTS) else ():
                if _SHOWS_CODE.search(text):
                    yield f"{path.relative_to(PACKAGE)}", text


#: What `_hints_at` looks at.
_WITH_HINTS = (ast.keyword, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Call, ast.FunctionDef)


def _hints_at(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.keyword(arg="hint", value=value):
            yield from _texts(value)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AugAssign(target=ast.Name(id=name), value=value)
        ):
            if "hint" in name.lower() or name in ("instead", "leave_out"):
                yield from _texts(value)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if name.isupper() and name not in TABLES:
            yield from _texts(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *more]) if name in (
            "refuse",
            "NotCapturableError",
        ):
            for each in more:
                yield from _texts(each)
        case ast.FunctionDef(name=name, body=body) if "hint" in name:
            for inner in ast.walk(ast.Module(body, [])):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield from _texts(inner.value)


#: Tables of hints whose entries are followed above, and texts that are no hints.
TABLES = {"IN_PLACE", "_INSTEAD", "CHANGE_A_LIST", "_OTHER_NAMES", "PYTHON_ONLY"}


def _texts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in values)  # type: ignore[misc]  # a string's
        case ast.Compare():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _texts(child)


def _pattern(text: str) -> str:
    return "[^\0]*".join(re.escape(part) for part in re.split(r"\{\w*\}|\{\{\}\}", text))


def collect_hints() -> set[str]:
    """The hints of all cases."""
    return {each.hint for each in (*CASES, *NOTES)}


def test_every_hint_that_shows_code_is_followed() -> None:
    followed = "\0".join(collect_hints())
    hints = dict.fromkeys(hints_of_the_source())
    missing = [
        (where, text)
        for where, text in hints
        if text not in NOT_FOLLOWED and not re.search(_pattern(text), followed)
    ]
    assert not missing, "\n".join(f"{where}: {text}" for where, text in missing)
    assert NOT_FOLLOWED.keys() <= {text for _, text in hints}, "no hint of the source"


#: Hints that show nothing to compile, or that other tests follow.
NOT_FOLLOWED: dict[str, str] = {
    "write {} = {} {} value for a new array": "a warning: tests/functions/test_warnings.py",
    **dict.fromkeys(
        (
            "write callback(function, x, result=Tensor[(3,), f32]), with the function's name",
            "define the function in a cell of its own, and write its name",
            "write range(...), or call it outside of the loop",
            "give its arguments by position, as in {}",
            "write {}",
            "write result=Tensor[(3,), f32]",
            "use its result, or declare none: callback(function, x, effects=True)",
        ),
        "tests/functions/test_callbacks.py",
    ),
    **dict.fromkeys(
        (
            "write {}[i] where it is read, as in for x in {}[i], or list({}[i]) for a copy",
            "change lists that the function makes, as in new = [[] for _ in range(n)]",
        ),
        "tests/tinynn/syntax/test_nested_parameters.py",
    ),
    "write an axis for each argument, as in vmap(f, in_axes=(0, None))": "tests/relay/gradients/test_jacobians.py",
    "write the axis of the result at which the examples stand": "tests/relay/gradients/test_jacobians.py",
    "write the axis of the examples for one of the arguments": "tests/relay/gradients/test_jacobians.py",
    "write an axis, or None, for each": "tests/relay/gradients/test_jacobians.py",
    "write one axis": "tests/relay/gradients/test_jacobians.py",
    "write None for it in in_axes": "tests/relay/gradients/test_jacobians.py",
    "write None in in_axes for what all examples share": "tests/relay/gradients/test_jacobians.py",
    "write an axis, or None, for each item": "tests/relay/gradients/test_jacobians.py",
    "write one axis, or one for each item": "tests/relay/gradients/test_jacobians.py",
    "map over axes of one size, or write None in in_axes": "tests/relay/gradients/test_jacobians.py",
    "write a loop, or leave `@kernel` out": "test_kernels.py",
    "write a loop over elements, or leave `@kernel` out": "test_kernels.py",
    **dict.fromkeys(
        (
            "write range(...), or fewer statements",
            "give each round elements of its own, as y[i] with the loop's i, or write range(...)",
            "{}, or write range(...)",
            "write range(...), or keep what is needed in an array",
            "nest two loops, as in for i in {}(n): and for j in range(m):",
            "give it `{}` as an argument, or write range(...)",
            "keep it in an element of an array, or write grid(...)",
            "write range(...), or compute in all rounds",
            "write what follows behind the loop",
            "write for {} in {}(...)",
            "write grid(...)",
            "write range(...)",
            "write range(...), and unroll a loop inside it",
            "write grid(n, m)",
            "write tiled(n, m, 32, 32)",
        ),
        "test_parallel_loops.py",
    ),
    "write // for a whole number, as in {}": "test_newcomers.py",
    "change its rows by their numbers, as in for i in range(len({})): {}[i] = value": "test_newcomers.py",
    "say what is meant, as in {}.astype({})": "test_default_dtypes.py",
    "write the types of its other parameters": "test_specializing.py",
    "call it in another cell, and pass its result as an argument or use it by its name": "code of the notebook",
    "write it alone, as in item = heappop(heap)": "test_heaps.py",
    "begin with a tuple that holds all, as in [(0.0, 0)]": "test_lists_of_tuples.py",
    "use it in Relay text": "data types of Relay text",
    "write the alias in another cell, as in Image = Tensor[(3, 224, 224), f32]": "syntax of Python 3.12",
    "convert the numbers, as in {}(...).astype({})": "test_random_keys.py",
    "give a number, or the size of an argument, as in x.shape or (len(x), 3)": "test_random_keys.py",
    "write .mT, or .transpose(1, 2) with the two dimensions": "test_newcomers.py",
    "loop over numbers that are known then, as in for i in range(4)": "test_newcomers.py",
    "write what it computes with functions, as in linear(x, layer.weight, layer.bias)": "test_torch_modules.py",
    "write embedding(i, w)": "of torch's layers",
    "its loops are written out too often: use fewer rounds, or operators on whole tensors": "no code",
    "convert it, as in int(x), or give both the same dtype": "of a Python number of a recursion",
    "name types of a cell in it, as in tuple[Tensor[(2, 3), f32], f32]": "code of the notebook",
    "compute what you need in another cell and use that": "code of the notebook",
    "give one of them another name, and run again the cells that use it": "code of the notebook",
    "if code makes it, give it a name in another cell, as in {} = {}": "code of the notebook",
    "give it a name in another cell, as in {} = {}": "code of the notebook",
    "for the language's own write nnmagic.{}, or rename the notebook's": "test_errors.py",
    "for the operator write relay.{}, or rename the notebook's `{}`": "test_errors.py",
    "write {}: the operator of that name": "test_errors.py",
    "give its dtype, as in dtype=f32": "Relay's operators without a dtype",
    "write a constructor of a class of the cell, a number, a name or `_`": "patterns: no single form",
    "write name: type, as in value: Tensor[(3,), f32]": "Python's own syntax of a field",
    "name them: running_mean=, running_var=, weight=, bias= as in PyTorch, or gamma=, beta=, moving_mean=, "
    "moving_var= as in Relay; or write relay.nn.batch_norm": "snippets/nn_functions.py",
}
