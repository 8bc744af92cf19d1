"""Branches and loops: what is decided while compiling, and what depends on the values of tensors."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Accepted, Case, Fails, accepted, function

S = "s: f32"
X = "x: Tensor[(3,), f32]"
XY = "x: Tensor[(3,), f32], y: Tensor[(3,), f32]"
ROWS = "x: Tensor[(4, 3), f32]"
N = 'x: Tensor[("n", 3), f32]'
SUMS = {"rtol": 1e-5, "why": "sums in another order"}


def _values(*numbers: float, dtype: type = np.float32) -> list[tuple[np.ndarray]]:
    """One call for each number."""
    return [(np.asarray(number, dtype),) for number in numbers]


CASES: list[Case] = [
    # -- if --------------------------------------------------------------------------------------------------
    accepted("returns-in-both-branches", X, "if x.sum() < 0:\n    return x + 1\nelse:\n    return x - 1"),
    accepted("an-early-return", X, "if x.sum() < 0:\n    return x + 1\nreturn x - 1"),
    accepted("assigned-in-both-branches", XY, "if x.sum() < y.sum():\n    z = x\nelse:\n    z = y * 2\nreturn z - x"),
    accepted("assigned-again-in-one-branch", X, "y = x * 2\nif x.sum() > 0:\n    y = y - 1\nreturn y"),
    accepted("elif", S, 'if s < -1:\n    y = s * 2\nelif s < 0:\n    y = s - 10\nelif s < 1:\n    y = s + 10\nelse:\n    y = s * s\nreturn y', arguments=_values(-2, -0.5, 0.5, 3)),
    accepted("elif-without-else", S, "y = s\nif s < -1:\n    y = s * 2\nelif s > 1:\n    y = -s\nreturn y", arguments=_values(-2, 0, 2)),
    accepted("several-names-exchanged-in-branches", XY, "if x.max() > y.max():\n    a, b = x, y\nelse:\n    a, b = y, x\nreturn a - b, a, b"),
    accepted("nested-branches", S, "if s > 0:\n    if s > 10:\n        y = s - 10\n    else:\n        y = s\nelse:\n    if s < -10:\n        y = s + 10\n    else:\n        y = s * 0\nreturn y", arguments=_values(20, 5, -5, -20)),
    accepted("early-returns-in-nested-branches", S, "if s > 0:\n    if s > 10:\n        return s - 10\n    s = s * 2\nelif s < -10:\n    return s + 10\nreturn s + 1", arguments=_values(20, 5, -5, -20)),
    accepted("a-branch-that-only-uses", X, "y = exp(x)\nif x.sum() < 0:\n    z = y + 1\nelse:\n    z = y * y\nreturn z + y"),
    accepted("a-branch-with-pass", X, "y = x\nif x.sum() < 0:\n    pass\nelse:\n    y = x * 3\nreturn y"),
    accepted("a-name-of-one-branch-alone", X, "y = x\nif x.sum() < 0:\n    t = x * 2\n    y = t + 1\nreturn y"),
    accepted("a-tuple-from-branches", XY, "if x.sum() < 0:\n    t = (x, y)\nelse:\n    t = (y, x)\na, b = t\nreturn a - b * 2"),
    accepted("a-bool-tensor-as-condition", "b: bool_, x: f32", "if b:\n    return x\nreturn -x", arguments=[(np.array(True), np.float32(2)), (np.array(False), np.float32(2))]),
    accepted("an-integer-tensor-as-condition", "i: i32, x: f32", "if i:\n    return x\nreturn -x", arguments=[(np.int32(3), np.float32(2)), (np.int32(0), np.float32(2))]),
    accepted("a-branch-decided-while-compiling", ROWS, "if x.shape[0] > 3:\n    y = x.sum(axis=0)\nelse:\n    y = nothing(x)\nreturn y", everything=False, **SUMS),
    accepted("a-branch-decided-by-the-notebook", X, "if training:\n    y = x * 2\nelse:\n    y = x\nreturn y", namespace={"training": False}, everything=False),
    accepted("a-static-branch-with-other-types", X, "if x.ndim == 1:\n    y = x.sum()\nelse:\n    y = (x, x)\nreturn y * 2", everything=False, **SUMS),
    accepted("a-static-early-return", X, "if len(x) == 3:\n    return x * 3\nreturn x.reshape(7)", everything=False),
    # -- conditional expressions, and, or, not ---------------------------------------------------------------
    accepted("conditional-expression", X, "x + 1 if x.sum() < 0 else x - 1", everything=False),
    accepted("conditional-expression-nested", S, "s * 2 if s < -1 else s if s < 1 else s * s", arguments=_values(-2, 0.5, 3)),
    accepted("conditional-expression-in-an-operand", XY, "x * (y if y.sum() > 0 else -y) + 1"),
    accepted("conditional-number", X, "x * (2 if x.shape[0] > 2 else 3)"),
    accepted("and-or-not", "s: f32, t: f32", "if s > 0 and t > 0:\n    return s + t\nif s < 0 or t < 0:\n    return s - t\nif not s < t:\n    return s * t\nreturn t", arguments=[(np.float32(a), np.float32(b)) for a, b in [(1, 2), (-1, 2), (1, -2), (0, 0), (0, 1)]]),
    accepted("logic-as-a-value", "s: f32, t: f32", "s > 0 and t > 0, s > 0 or t > 0, not s > 0, not (s > 0 and not t > 0)"),
    accepted("logic-of-three", "s: f32", "a = s > 0 and s < 5 and s != 3\nreturn a, s < 0 or s == 3 or s > 9", arguments=_values(-1, 1, 3, 7, 10)),
    accepted("chained-comparison", S, "if 0 < s <= 1:\n    return s\nreturn -s", arguments=_values(-1, 0, 0.5, 1, 2)),
    accepted("chained-comparison-as-a-value", "s: f32, t: f32", "0 < s < t, s < t < 9 <= 10, s == s == t", arguments=[(np.float32(a), np.float32(b)) for a, b in [(1, 2), (2, 1), (0, 1), (3, 3)]]),
    accepted("static-logic", X, "if x.ndim == 1 and 2 < x.shape[0] < 5 and not x.shape[0] == 4:\n    y = x\nelse:\n    y = nothing\nreturn y", everything=False),
    # -- for -------------------------------------------------------------------------------------------------
    accepted("for-over-a-range", X, "for i in range(4):\n    x = x * 0.5 + i\nreturn x"),
    accepted("for-over-a-range-with-steps", X, "y = x\nfor i in range(1, 10, 3):\n    y = y + i * x\nfor i in range(5, 0, -2):\n    y = y - i\nreturn y"),
    accepted("for-over-nothing", X, "y = x\nfor i in range(0):\n    y = y * 2\nreturn y", everything=False),
    accepted("a-sum-that-begins-as-a-number", X, "total = 0\nfor i in range(100):\n    total = total + x * i\nreturn total", **SUMS),
    accepted("for-over-a-tuple", XY, "z = x\nfor t in (x, y, 2):\n    z = z * t\nreturn z"),
    accepted("for-over-a-list-of-numbers", X, "for width in [1, 2, 3]:\n    x = x + width\nreturn x"),
    accepted("for-over-pairs", XY, "z = x\nfor i, t in ((1, x), (2, y)):\n    z = z + i * t\nreturn z"),
    accepted("for-over-a-shape", ROWS, "k = 0\nfor size in x.shape:\n    k = k + size\nreturn x * k"),
    accepted("for-over-the-notebooks-list", X, "for factor in factors:\n    x = x * factor\nreturn x", namespace={"factors": [0.5, 2.0, 3.0]}),
    accepted("for-over-rows", ROWS, "total = zeros((3,), f32)\nfor row in x:\n    total = total * 0.5 + row\nreturn total"),
    accepted("for-over-rows-of-any-number", N, "total = zeros((3,), f32)\nfor row in x:\n    total = total * 0.5 + row\nreturn total"),
    accepted("for-over-elements", "x: Tensor[(5,), f32]", "low = f32(0)\nfor each in x:\n    low = minimum(low, each)\nreturn low"),
    accepted("for-that-uses-the-index", ROWS, "y = x[0]\nfor i in range(1, 4):\n    y = y * x[i]\nreturn y"),
    accepted("for-with-enumerate", ROWS, "y = x[0]\nfor i, row in enumerate(x):\n    y = y + i * row\nreturn y"),
    accepted("for-with-zip", "x: Tensor[(4, 3), f32], y: Tensor[(4, 3), f32]", "z = x[0]\nfor a, b in zip(x, y):\n    z = z + a * b\nreturn z"),
    accepted("for-up-to-a-dimension", N, "y = x[0]\nfor i in range(x.shape[0]):\n    y = y * 0.5 + i\nreturn y"),
    accepted("for-up-to-a-tensor", "n: i32, x: f32", "for i in range(n):\n    x = x * 2 + i\nreturn x", arguments=[(np.int32(n), np.float32(1)) for n in (0, 1, 5)], everything=False),
    accepted("the-loop-variable-afterwards", X, "for i in range(3):\n    x = x + i\nreturn x * i"),
    accepted("a-thousand-steps", S, "for i in range(1000):\n    s = s * 0.5 + 1\nreturn s"),
    accepted("ten-thousand-steps", S, "for i in range(10000):\n    s = s * 0.5 + 1\nreturn s"),
    accepted("nested-loops", X, "for i in range(3):\n    for j in range(i):\n        x = x + i * j - 1\nreturn x"),
    accepted("nested-loops-over-elements", ROWS, "total = f32(0)\nfor row in x:\n    for each in row:\n        total = total * 0.5 + each\nreturn total", **SUMS),
    accepted("a-branch-in-a-loop", ROWS, "total = zeros((3,), f32)\nfor row in x:\n    if row.sum() > 0:\n        total = total + row\n    else:\n        total = total * 0.5\nreturn total", **SUMS),
    accepted("several-names-in-a-loop", X, "a, b = x, x * 2\nfor i in range(5):\n    a, b = b, a + b\nreturn a, b"),
    accepted("fibonacci", "n: i32", "a, b = i64(0), i64(1)\nfor _ in range(n):\n    a, b = b, a + b\nreturn a", arguments=[(np.int32(n),) for n in (0, 1, 2, 10, 60)]),
    accepted("a-list-that-grows-while-compiling", X, "parts = []\nfor i in range(3):\n    parts = parts + [x * i]\nreturn stack(parts)"),
    # -- while -----------------------------------------------------------------------------------------------
    accepted("while", S, "while s > 1:\n    s = s / 2\nreturn s", arguments=_values(0.5, 10, 1e6)),
    accepted("while-with-a-counter", S, "count = i32(0)\nwhile s > 1:\n    s = s / 2\n    count += 1\nreturn count, s", arguments=_values(0.5, 10, 1e6)),
    accepted("while-with-a-python-counter", S, "count = 0\nwhile s > 1:\n    s = s / 2\n    count += 1\nreturn count", arguments=_values(0.5, 10, 1e6)),
    accepted("while-decided-while-compiling", X, "k = 8\nwhile k > 1:\n    x = x + k\n    k //= 2\nreturn x"),
    accepted("while-over-tensors", X, "while (x * x).sum() > 1:\n    x = x / 2\nreturn x"),
    accepted("while-never", S, "while s > 100:\n    s = s - 1\nreturn s", everything=False),
    accepted("newtons-root", "a: f64", "x = a\nwhile abs(x * x - a) > 1e-9 * a:\n    x = (x + a / x) / 2\nreturn x", arguments=_values(2, 9, 1e6, dtype=np.float64), rtol=1e-9, why="the loop ends at that error"),
    accepted("collatz", "n: i64", "steps = 0\nwhile n != 1:\n    if n % 2 == 0:\n        n = n // 2\n    else:\n        n = 3 * n + 1\n    steps += 1\nreturn steps", arguments=_values(1, 6, 27, dtype=np.int64)),
    accepted("greatest-common-divisor", "a: i64, b: i64", "while b != 0:\n    a, b = b, a % b\nreturn a", arguments=[(np.int64(a), np.int64(b)) for a, b in [(12, 18), (7, 0), (1071, 462)]]),
    # -- break, continue, else -------------------------------------------------------------------------------
    accepted("break", ROWS, "total = zeros((3,), f32)\nfor row in x:\n    if row.sum() < 0:\n        break\n    total = total + row\nreturn total", everything=False),
    accepted("continue", ROWS, "total = zeros((3,), f32)\nfor row in x:\n    if row.sum() < 0:\n        continue\n    total = total + row\nreturn total"),
    accepted("break-out-of-while-true", S, "count = i32(0)\nwhile True:\n    s = s / 2\n    if s < 1:\n        break\n    count += 1\nreturn count", arguments=_values(0.5, 10, 100)),
    accepted("break-and-continue", "n: i32", "total = i32(0)\nfor i in range(n):\n    if i % 3 == 0:\n        continue\n    if i > 12:\n        break\n    total += i\nreturn total", arguments=[(np.int32(n),) for n in (0, 5, 50)]),
    accepted("else-of-a-loop", S, "for i in range(5):\n    if s < i:\n        s = s * 10\n        break\nelse:\n    s = -s\nreturn s", arguments=_values(-1, 2.5, 9)),
    accepted("else-of-while", S, "while s > 1:\n    s = s / 2\n    if s < 1.5:\n        break\nelse:\n    s = s + 100\nreturn s", arguments=_values(0.5, 10, 1)),
    accepted("return-out-of-a-loop", S, "for i in range(5):\n    if s < i:\n        return s * i\nreturn -s", arguments=_values(-1, 2.5, 9)),
    accepted("return-out-of-nested-loops", ROWS, "for row in x:\n    for each in row:\n        if each > 1:\n            return each\nreturn f32(0)", arguments=[(np.zeros((4, 3), np.float32),), (np.arange(12, dtype=np.float32).reshape(4, 3),)]),
    accepted("a-static-break", X, "for i in range(10):\n    if i == 3:\n        break\n    if i % 2:\n        continue\n    x = x + i\nreturn x"),
    # -- assert ----------------------------------------------------------------------------------------------
    accepted("a-static-assert", ROWS, 'assert x.shape[1] == 3\nassert x.ndim == 2, "a matrix"\nreturn x'),
    accepted("an-assert-that-holds", X, 'assert x.sum() < 1000, "too large"\nreturn x * 2'),
    # -- programs --------------------------------------------------------------------------------------------
    accepted("a-recurrent-network", 'x: Tensor[("t", 3), f32], w: Tensor[(3, 4), f32], u: Tensor[(4, 4), f32]', "h = zeros((4,), f32)\nfor step in x:\n    h = tanh(step @ w + h @ u)\nreturn h", **SUMS),
    accepted("power-iteration", "a: Tensor[(3, 3), f64]", "v = ones((3,), f64)\nfor i in range(20):\n    v = a @ v\n    v = v / sqrt((v * v).sum())\nreturn v", arguments=[(np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], np.float64),)]),
    accepted("gradient-descent-until-it-stands", "x: f64", "for i in range(1000):\n    step = 0.1 * 2 * (x - 3)\n    if abs(step) < 1e-6:\n        break\n    x = x - step\nreturn x, i", arguments=_values(0, 10, 3, dtype=np.float64)),
    Accepted("a-loop-in-a-callee", "def g(x: f32, n: i32):\n    for i in range(n):\n        x = x * 2\n    return x\n\ndef f(x: f32):\n    total = f32(0)\n    for i in range(3):\n        total = total + g(x, i32(2))\n    return total\n"),
    Fails("an-assert-that-fails", function(X, 'assert x.sum() > 0, "not positive"\nreturn x'), (np.array([-1, -2, -3], np.float32),), AssertionError, "not positive"),
]  # fmt: skip
