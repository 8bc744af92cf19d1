"""Functions as values: nested ones, lambdas, recursion, defaults, keywords, unpacking."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Accepted, Case, accepted

S = "s: f32"
X = "x: Tensor[(3,), f32]"
XY = "x: Tensor[(3,), f32], y: Tensor[(3,), f32]"
ON_X = "Callable[[Tensor[(3,), f32]], Tensor[(3,), f32]]"


def _numbers(*numbers: int) -> list[tuple[np.ndarray]]:
    return [(np.asarray(number, np.int64),) for number in numbers]


CASES: list[Case] = [
    # -- nested functions and lambdas ------------------------------------------------------------------------
    accepted("a-nested-function", X, "def double(a: Tensor[(3,), f32]):\n    return a * 2\n\nreturn double(x) + double(x + 1)"),
    accepted("a-closure", XY, "def shifted(a: Tensor[(3,), f32]):\n    return a + y\n\nreturn shifted(x) * shifted(y)"),
    accepted("a-closure-over-a-number", X, "k = 3\n\ndef times(a: Tensor[(3,), f32]):\n    return a * k\n\nreturn times(times(x))"),
    accepted("a-closure-sees-the-last-value", X, "k = x\n\ndef g(a: Tensor[(3,), f32]):\n    return a + k\n\nk = x * 10\nreturn g(x)"),
    accepted("a-closure-sees-the-last-value-through-functions-in-a-tuple", X, "k = x\nt = (lambda a: a + k, 1)\n\ndef g(a: Tensor[(3,), f32]):\n    return t[0](a)\n\nk = x * 10\nreturn g(x)"),
    accepted("a-closure-sees-the-last-value-through-a-chain", X, "k = x\np = lambda a: a + k\nq = lambda a: p(a)\n\ndef g(a: Tensor[(3,), f32]):\n    return q(a)\n\nk = x * 10\nreturn g(x)"),
    accepted("a-closure-calls-what-reads-another-name-of-the-same-spelling", X, "k = x\n\ndef h(a):\n    return a + k\n\ndef make(k):\n    def g(a: Tensor[(3,), f32]):\n        return h(a) * k\n\n    return g\n\ng = make(2)\nk = x * 10\nreturn g(x)"),
    accepted("a-function-that-has-returned-reads-a-name-after-a-branch", X, "k = x\n\ndef make(q):\n    return lambda a: q(a)\n\ng = make(lambda a: a + k)\nif x[0] > 0:\n    k = x * 10\nreturn g(x)"),
    accepted("functions-that-have-returned-with-branches", X, "def outer(z):\n    q = z * 2\n\n    def mid(u):\n        def inner(a):\n            if a[0] > 0:\n                return a * q + u\n            return a * u\n\n        return inner\n\n    return mid(3)\n\nh = outer(x)\nif x[1] > 0:\n    y = h(x)\nelse:\n    y = h(-x)\nreturn y + h(x)"),
    accepted("composition-twice", X, "def compose(p, q):\n    return lambda a: p(q(a))\n\ng = lambda a: a + 1\nh = compose(compose(g, g), lambda a: a * 2)\nreturn h(x), compose(h, h)(x)"),
    accepted("a-function-that-is-given-its-own-definition", X, "def apply(g, n):\n    return lambda a: g(a) * n\n\nreturn apply(apply(apply(lambda a: a + 1, 2), 3), 4)(x)"),
    accepted("a-name-inside-that-is-the-functions-own", X, "def g(a: Tensor[(3,), f32]):\n    g = lambda b: b * 2\n    return g(a)\n\nreturn g(x)"),
    accepted("a-function-inside-of-the-same-name", X, "def g(a: Tensor[(3,), f32]):\n    def g(b):\n        return b + 1\n\n    return g(a) * 2\n\nreturn g(x)"),
    accepted("parameters-of-the-functions-name", X, "def g(g: Tensor[(3,), f32]):\n    return g + 1\n\ndef h(a: Tensor[(3,), f32]):\n    return (lambda h: h * 2)(a)\n\nreturn g(x) + h(x)"),
    accepted("a-nested-function-with-branches", X, "def g(a: Tensor[(3,), f32]):\n    if a.sum() > 0:\n        return a\n    return -a\n\nreturn g(x) + g(-x)"),
    accepted("nested-twice", X, "def g(a: Tensor[(3,), f32]):\n    def h(b: Tensor[(3,), f32]):\n        return b * a + x\n\n    return h(a) + h(x)\n\nreturn g(x + 1)"),
    accepted("a-nested-function-without-parameters", X, "def g():\n    return x * 2\n\nreturn g() + 1"),
    accepted("a-nested-function-of-several-results", X, "def g(a: Tensor[(3,), f32]):\n    return a + 1, a - 1\n\np, q = g(x)\nreturn p * q"),
    accepted("a-lambda", X, "g = lambda a: a * 2 + 1\nreturn g(x), g(g(x))"),
    accepted("a-lambda-that-captures", XY, "g = lambda a: a * y\nreturn g(x) - g(y)"),
    accepted("a-lambda-of-two", XY, "g = lambda a, b: a - b\nreturn g(x, y), g(b=x, a=y)"),
    accepted("a-lambda-called-at-once", X, "(lambda a: a + 1)(x)", everything=False),
    accepted("a-lambda-with-a-default", X, "g = lambda a, k=2: a * k\nreturn g(x), g(x, 3)"),
    accepted("lambdas-in-a-tuple", X, "total = x\nfor g in (lambda a: a + 1, lambda a: a * 2):\n    total = g(total)\nreturn total", everything=False),
    accepted("a-name-for-an-operator", X, "activation = relu\nreturn activation(x) + 1"),
    accepted("an-operator-chosen-while-compiling", X, "activation = tanh if x.ndim == 1 else relu\nreturn activation(x)", rtol=1e-5, why="single precision of tanh"),
    # -- functions as arguments ------------------------------------------------------------------------------
    Accepted("a-function-as-argument", f"def twice(g: {ON_X}, x: Tensor[(3,), f32]):\n    return g(g(x))\n\ndef one(x: Tensor[(3,), f32]):\n    return x * 2 + 1\n\ndef f({X}):\n    return twice(one, x)\n"),
    Accepted("a-lambda-as-argument", f"def twice(g: {ON_X}, x: Tensor[(3,), f32]):\n    return g(g(x))\n\ndef f({X}):\n    return twice(lambda a: a * 3, x)\n"),
    Accepted("a-closure-as-argument", f"def twice(g: {ON_X}, x: Tensor[(3,), f32]):\n    return g(g(x))\n\ndef f({XY}):\n    def g(a: Tensor[(3,), f32]):\n        return a * y\n\n    return twice(g, x)\n"),
    Accepted("an-operator-as-argument", f"def twice(g: {ON_X}, x: Tensor[(3,), f32]):\n    return g(g(x))\n\ndef f({X}):\n    return twice(tanh, x)\n", rtol=1e-5, why="single precision of tanh"),
    Accepted("two-functions-as-arguments", "def compose(g: Callable[[f32], f32], h: Callable[[f32], f32], x: f32):\n    return g(h(x)), h(g(x))\n\ndef f(x: f32):\n    return compose(lambda a: a + 1, lambda a: a * 2, x)\n", everything=False),
    Accepted("a-fold", "def fold(g: Callable[[f32, f32], f32], x: Tensor[(5,), f32], start: f32):\n    for each in x:\n        start = g(start, each)\n    return start\n\ndef f(x: Tensor[(5,), f32]):\n    return fold(lambda a, b: maximum(a, b), x, f32(-100)), fold(lambda a, b: a * 0.5 + b, x, f32(0))\n", everything=False),
    Accepted("a-function-that-makes-functions", "def adder(y: f32):\n    def add(a: f32):\n        return a + y\n\n    return add\n\ndef f(x: f32, y: f32):\n    return adder(y)(x), adder(x)(x)\n"),
    # -- recursion -------------------------------------------------------------------------------------------
    Accepted("factorial", "def f(n: i64) -> i64:\n    if n <= 1:\n        return i64(1)\n    return n * f(n - 1)\n", arguments=_numbers(0, 1, 5, 20)),
    Accepted("fibonacci-by-recursion", "def f(n: i64) -> i64:\n    return n if n < 2 else f(n - 1) + f(n - 2)\n", arguments=_numbers(0, 1, 2, 15), everything=False),
    Accepted("recursion-with-a-tensor", "def halve(x: Tensor[(3,), f32]) -> Tensor[(3,), f32]:\n    if (x * x).sum() > 1:\n        return halve(x / 2)\n    return x\n\ndef f(x: Tensor[(3,), f32]):\n    return halve(x * 100)\n"),
    Accepted("mutual-recursion", "def even(n: i64) -> bool_:\n    if n == 0:\n        return bool_(True)\n    return odd(n - 1)\n\ndef odd(n: i64) -> bool_:\n    if n == 0:\n        return bool_(False)\n    return even(n - 1)\n\ndef f(n: i64):\n    return even(n), odd(n)\n", arguments=_numbers(0, 1, 7, 10)),
    Accepted("tail-recursion-of-thousands", "def count(n: i64, total: i64) -> i64:\n    if n == 0:\n        return total\n    return count(n - 1, total + n)\n\ndef f(n: i64):\n    return count(n, i64(0))\n", arguments=_numbers(0, 3, 500)),
    Accepted("a-nested-recursive-function", "def f(n: i64):\n    def power(k: i64) -> i64:\n        if k == 0:\n            return i64(1)\n        return power(k - 1) * 2\n\n    return power(n)\n", arguments=_numbers(0, 1, 20)),
    Accepted("recursion-with-two-results", "def divide(a: i64, b: i64) -> tuple[i64, i64]:\n    if a < b:\n        return i64(0), a\n    q, r = divide(a - b, b)\n    return q + 1, r\n\ndef f(a: i64):\n    return divide(a, i64(7))\n", arguments=_numbers(0, 6, 7, 100)),
    # -- defaults and keywords -------------------------------------------------------------------------------
    Accepted("a-default", "def g(x: f32, k: f32 = 2.0):\n    return x * k\n\ndef f(x: f32):\n    return g(x), g(x, x), g(k=x, x=x)\n"),
    Accepted("a-default-known-while-compiling", "def g(x: Tensor[(3,), f32], k: f32 = scale * 2):\n    return x * k\n\ndef f(x: Tensor[(3,), f32]):\n    return g(x)\n", namespace={"scale": 0.25}),
    Accepted("keyword-only", "def g(x: f32, *, scale: f32, shift: f32 = 1.0):\n    return x * scale + shift\n\ndef f(x: f32):\n    return g(x, scale=x), g(x, shift=x, scale=x * 2)\n"),
    Accepted("positional-only", "def g(x: f32, /, y: f32):\n    return x - y\n\ndef f(x: f32):\n    return g(x, x * 2), g(x, y=x * 3)\n"),
    Accepted("star-arguments", "def g(a: f32, b: f32, c: f32):\n    return a - b * c\n\ndef f(x: f32):\n    t = (x, x + 1)\n    return g(*t, x), g(x, *t), g(*t, c=x)\n"),
    Accepted("star-arguments-of-a-tuple-parameter", "def g(a: f32, b: f32):\n    return a - b\n\ndef f(t: tuple[f32, f32]):\n    return g(*t)\n"),
    # -- walrus, unpacking -----------------------------------------------------------------------------------
    accepted("walrus", X, "y = (z := x * 2) + z\nreturn y, z"),
    accepted("walrus-in-a-condition", X, "if (total := x.sum()) > 0:\n    return x * total\nreturn x - total"),
    accepted("walrus-in-while", S, "count = i32(0)\nwhile (s := s / 2) > 1:\n    count += 1\nreturn count, s", arguments=[(np.float32(value),) for value in (1, 10, 1000)]),
    accepted("nested-unpacking", XY, "(a, (b, *c)), d = (x, (y, x, y)), x\nreturn a + b, c[0] * c[1], d"),
    accepted("unpacking-into-a-list", XY, "[a, b] = x, y\nreturn a - b"),
    accepted("stars-in-a-tuple", XY, "t = (x, y)\nu = (*t, x * 2)\nreturn u[2] + u[1], len(u) * x"),
    accepted("augmented-assignment-in-loops", X, "y = x.copy()\nfor i in range(3):\n    y += i\n    y *= 2\n    y -= x\nreturn x, y"),
]  # fmt: skip
