"""Declared sizes that only the call knows are checked by each call, whatever is declared."""

import re

import numpy as np
import pytest

import nnmagic

X = np.arange(4.0)
SIZED = "f(n: i64, m: i64)"
RECORD = """
class Pair:
    a: Tensor[("k",), f64]
    b: Tensor[("k",), f64]
"""

#: Functions beside `f`, its signature and its body, arguments that fit and some that do not, what the error
#: says is declared, and the sizes in it.
CASES = {
    "result": (
        "",
        "f(n: i64) -> Tensor[(3,), f64]",
        "return zeros(n)",
        (3,),
        (4,),
        "the result of `f`",
        4,
        3,
    ),
    "result of a path": (
        "",
        "f(n: i64) -> Tensor[(3,), f64]",
        "if n > 3:\n        return zeros(n)\n    return ones(n)",
        *((3,), (4,), "the result of `f`", 4, 3),
    ),
    "grown": (
        "",
        "f(n: i64) -> Tensor[(3,), f64]",
        "x = zeros(1)\n    for i in range(n):\n        x = concatenate([x, x[:1]])\n    return x",
        *((2,), (3,), "the result of `f`", 4, 3),
    ),
    "named result": (
        "",
        'f(x: Tensor[("n",), f64]) -> Tensor[("n",), f64]',
        "return x[x >= 0]",
        *((X,), (X - 1,), "the result of `f`", 3, 4),
    ),
    "arithmetic on names": (
        "",
        'f(x: Tensor[("n",), f64]) -> Tensor[("n // 2 + 1",), f64]',
        "return concatenate([x[x > 1], x[:1]])",
        *((X,), (X - 1,), "the result of `f`", 2, 3),
    ),
    "slice": (
        "",
        'f(x: Tensor[("n",), f64], k: i64) -> Tensor[("n",), f64]',
        "return x[k:]",
        *((X, 0), (X, 1), "the result of `f`", 3, 4),
    ),
    "broadcast": (
        "",
        'f(x: Tensor[("n",), f64], k: i64) -> Tensor[("n",), f64]',
        "return zeros(k) + x",
        *((X, 1), (X[:1], 3), "the result of `f`", 3, 1),
    ),
    "item": (
        "",
        f"{SIZED} -> tuple[Tensor[(3,), f64], Tensor[(3,), f64]]",
        "return zeros(n), zeros(m)",
        *((3, 3), (3, 4), "the result of `f`", 4, 3),
    ),
    "a new name twice": (
        "",
        f'{SIZED} -> Tensor[("k", "k"), f64]',
        "return zeros((n, m))",
        *((3, 3), (3, 4), "the result of `f`", 4, 3),
    ),
    "local": ("", "f(n: i64)", "x: Tensor[(3,), f64] = zeros(n)\n    return x + 1", (3,), (1,), "`x`", 1, 3),
    "round": (
        "",
        "f(n: i64)",
        "s = zeros(n)\n    for i in range(5000):\n"
        "        y: Tensor[(3,), f64] = s + 1\n        s = y\n    return s",
        *((3,), (4,), "`y`", 4, 3),
    ),
    "argument": (
        "def g(x: Tensor[(3,), f64]):\n    return x.sum()",
        *("f(n: i64)", "return g(ones(n))", (3,), (4,), "g: `x`", 4, 3),
    ),
    "arguments of one size": (
        'def g(x: Tensor[("m",), f64], y: Tensor[("m",), f64]):\n    return x + y',
        *(SIZED, "return g(ones(n), ones(m))", (3, 3), (3, 1), "g: `y`", 1, 3),
    ),
    "an open argument": (
        'def g(x: Tensor[("m",), f64], y: Tensor[("2*m",)], z) -> Tensor[("m",)]:\n    return x * y.sum()',
        *(SIZED, "return g(ones(n), ones(m), 1)", (3, 6), (3, 3), "g: `y`", 3, 6),
    ),
    "nested function": (
        "",
        'f(x: Tensor[("n",), f64])',
        'def g(t: Tensor[("n",), f64]) -> Tensor[("n",), f64]:\n        return t[t >= 0]\n    return g(x)',
        *((X,), (X - 1,), "the result of `g`", 3, 4),
    ),
    "function that is a value": (
        "def g(h: Callable[[i64], Tensor[(3,), f64]], n: i64):\n    return h(n).sum()",
        *("f(n: i64)", "return g(lambda t: ones(t), n)", (3,), (4,), "the result of a lambda", 4, 3),
    ),
    "itself": (
        "",
        "f(x: Tensor[(4,), f64], k: i64) -> f64",
        "if k == 0:\n        return x.sum()\n    return f(x[k:], k - 1)",
        *((X, 0), (X, 1), "f: `x`", 3, 4),
    ),
    "record": (RECORD, SIZED, "return Pair(ones(n), ones(m)).b", (3, 3), (3, 4), "the field `b`", 4, 3),
    "constructor": (
        "class Tree:\n    def Leaf(x: Tensor[(3,), f64]): ...\n    def Nil(): ...",
        "f(n: i64)",
        "t = Leaf(ones(n))\n    match t:\n        case Leaf(x):\n            return x.sum()\n"
        "        case Nil():\n            return 0.0",
        *((3,), (4,), "Leaf: `x`", 4, 3),
    ),
    "complex": (
        "",
        'f(x: Tensor[("n",), c128]) -> Tensor[("n",), c128]',
        "return x[abs(x) >= 1]",
        *((X + 1j,), (X * 1j,), "the result of `f`", 3, 4),
    ),
    "gradient": (
        "def g(x: Tensor[(3,), f64]):\n    return (x * x).sum()",
        'f(x: Tensor[("n",), f64])',
        "return grad(lambda t: g(t[t > 0]))(x)",
        *((X,), (X + 1,), "g: `x`", 4, 3),
    ),
    "batch": (
        "def g(x: Tensor[(3,), f64]):\n    return 2 * x",
        'f(x: Tensor[("b", "n"), f64], m: i64)',
        "return vmap(lambda r: g(r[:m]))(x)",
        *((np.ones((2, 4)), 3), (np.ones((2, 4)), 4), "g: `x`", 4, 3),
    ),
}


def check(name: str, engine: str) -> None:
    beside, signature, body, fits, differs, what, given, wanted = CASES[name]
    f = nnmagic.compile(f"{beside}\n\ndef {signature}:\n    {body}\n", engine=engine)
    function = f["f"] if isinstance(f, dict) else f
    function(*fits)
    sizes = f"its size along axis -1 is {given}, not {wanted}"
    with pytest.raises(
        ValueError, match=f"^{re.escape(what)} is declared as .*, but {re.escape(sizes)}\n --> "
    ):
        function(*differs)


@pytest.mark.numpy_engine
@pytest.mark.filterwarnings("ignore:note")
@pytest.mark.parametrize("name", CASES)
def test_a_size_that_is_not_the_declared_one_is_refused(name: str) -> None:
    check(name, "numpy")


@pytest.mark.machine_code
@pytest.mark.sampled(every=5)
@pytest.mark.filterwarnings("ignore:note")
@pytest.mark.parametrize("name", CASES)
def test_machine_code_refuses_it(name: str) -> None:
    check(name, "relax")


@pytest.mark.numpy_engine
def test_a_function_of_an_earlier_cell_keeps_its_sizes() -> None:
    g = nnmagic.compile("def g(x: Tensor[(3,), f64], y):\n    return x.sum() * y\n")
    f = nnmagic.compile("def f(n: i64):\n    return g(ones(n), 2.0)\n", namespace={"g": g})
    assert f(3) == 6
    with pytest.raises(ValueError, match=r"^g: `x` is declared as .* axis -1 is 4, not 3\n"):
        f(4)
