"""Where control flow, functions in functions and loops meet: each was wrong once."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Accepted, Case, accepted, refused

N = "n: i64"
COUNTS = [(np.int64(number),) for number in (-3, 2, 5)]
_CLOSURE = "a = n * 2\ndef g(y: i64):\n    return y + a\n"


def _count_case(name: str, lines: str) -> Case:
    return accepted(name, N, lines, arguments=COUNTS, everything=False)


CASES: list[Case] = [
    # -- functions in functions see what names stand for when they are called -------------------------------------
    _count_case(
        "a-function-calls-one-whose-names-changed",
        _CLOSURE + "a = 7\ndef h(y: i64):\n    return g(y)\nreturn h(n)",
    ),
    _count_case(
        "a-lambda-calls-one-whose-names-changed", _CLOSURE + "a = 7\nh = lambda y: g(y)\na = 8\nreturn h(n)"
    ),
    _count_case(
        "names-change-between-two-functions",
        _CLOSURE + "def h(y: i64):\n    return g(y) * 2\na = 7\nb = h(n)\na = n\nreturn h(b) - g(n)",
    ),
    _count_case(
        "a-function-that-a-function-returned",
        "a = n * 2\ndef make():\n    def g(y: i64):\n        return y + a\n    return g\nk = make()\na = a + 5\nreturn k(n)",
    ),
    _count_case(
        "what-a-function-uses-changes-in-a-branch",
        "def g(y: i64):\n    return y + n\nif n > 1:\n    n = n * 2\nreturn g(1)",
    ),
    _count_case(
        "what-a-lambda-uses-changes-in-a-branch", "u = lambda y: y + n\nif n > 1:\n    n = n * 2\nreturn u(1)"
    ),
    _count_case(
        "what-a-function-uses-changes-in-a-loop",
        _CLOSURE + "for i in range(70):\n    a = (a + g(i)) % 97\nreturn g(a)",
    ),
    refused(
        "one-of-two-functions-whose-names-change",
        "def f(n: i64):\n    a = n * 2\n    if n > 1:\n        def «g»(y: i64):\n            return y + a\n    else:\n        def g(y: i64):\n            return y\n    a = a + 5\n    return g(n)\n",
        "`g` is one of several functions here, and uses `a`, which may change later",
        hint="give `a` to `g` as a parameter",
    ),
    _count_case(
        "one-of-two-functions",
        "a = n * 2\ndef g(y: i64):\n    return y + a\ndef h(y: i64):\n    return y - a\nk = g if n > 1 else h\nreturn k(n)",
    ),
    # -- bodies that are put in their calls ------------------------------------------------------------------------
    _count_case(
        "a-body-with-branches-twice",
        "a = n * 3\ndef u(y):\n    if y > a:\n        return a\n    for i in range(n % 4):\n        y = y + a\n    return y\nreturn u(n), u(a) + a",
    ),
    _count_case(
        "a-body-with-an-assertion-in-a-function",
        "def g(y: i64):\n    def u(z):\n        b = n // 3\n        assert b < 100\n        return z + b\n    return u(u(y))\nreturn g(n)",
    ),
    _count_case(
        "a-loop-in-a-body-that-is-given-up",
        "a = n * 3\ndef u(y):\n    for i in range(60):\n        for j in range(60):\n            y = (y + a * j) % 97\n    return y\nreturn u(n) + a",
    ),
    # -- loops -----------------------------------------------------------------------------------------------------
    _count_case(
        "a-loop-variable-that-is-assigned",
        "s = 0\nfor i in range(100):\n    s += i\n    i = i * 2\nreturn s + i",
    ),
    _count_case(
        "a-loop-variable-of-before-that-is-assigned",
        "s, i = 0, n\nfor i in range(100):\n    s += i\n    i = i + n\nreturn s + i",
    ),
    _count_case(
        "a-loop-without-end-in-a-loop-over-a-tuple",
        "s = 0\nfor k in (n, 2, n + 1):\n    m = n % 5\n    while True:\n        if m <= 0:\n            break\n        m -= 1\n        s += k\nreturn s",
    ),
    _count_case(
        "long-loops-in-a-loop-over-a-tuple",
        "s = 0\nfor k in (n, 2, n + 1):\n    for i in range(60):\n        for j in range(60):\n            s += k * j\nreturn s",
    ),
    _count_case(
        "a-break-in-the-else-of-a-loop",
        "k = 0\nfor i in range(n % 4):\n    for j in [1, n]:\n        k += j\n    else:\n        k += 1\n        break\nreturn k",
    ),
    _count_case(
        "a-continue-in-the-else-of-a-long-loop",
        "k = 0\nfor i in range(70):\n    for j in range(n % 3 + 70):\n        k += j\n    else:\n        continue\n    k = 0\nreturn k",
    ),
    _count_case(
        "a-break-in-one-branch-of-three",
        "m = n\nfor i in reversed(range(2)):\n    if n > 4:\n        pass\n    elif n // 2 > 0:\n        break\n    elif i:\n        m += 1\nreturn m",
    ),
    _count_case(
        "a-loop-variable-that-an-unfinished-round-leaves-open",
        "k = 0\nfor i in range(70):\n    for j in range(3):\n        if n > j + i:\n            continue\n        for m in range(70):\n            pass\n        k += m\nreturn k",
    ),
    _count_case(
        "types-that-wander-through-eight-names",
        "a, b, c, d, e, g, h, k = 0, 0, 0, 0, 0, 0, 0, 0\nfor i in range(100):\n    a, b, c, d, e, g, h, k = b, c, d, e, g, h, k, n\nreturn a, h, k",
    ),
    refused(
        "an-error-that-a-loop-carries",
        "def f(n: i64):\n    for i in range(100):\n        m = 3\n        for j in range(100):\n            m = m + «foo»(n)\n            n = m\n    return n\n",
        "unknown name `foo`",
    ),
    # -- Relay's text: no let for the value of a let, no match without a function that it ends ------------------------
    Accepted(
        "a-match-and-more",
        "class Kind:\n    def Small(): ...\n    def Large(by: i64): ...\n\ndef f(n: i64):\n    kind = Large(n) if n > 2 else Small()\n    match kind:\n        case Large(by):\n            m = by * 2\n        case Small():\n            m = n\n    return m + 1",
        arguments=COUNTS,
    ),
    # -- assignments in expressions ----------------------------------------------------------------------------------
    _count_case("assigned-in-both-sides-of-a-choice", "return ((a := n + 1) if n > 3 else (a := 2)) + a"),
    # -- Python's numbers that are known later -----------------------------------------------------------------------
    accepted(
        "float-of-a-tensor-is-a-number",
        "x: Tensor[(3,), f32], s: f32, i: i32",
        "return x * float(s) + int(i), i + int(s * 4)",
    ),
    accepted(
        "a-constant-tensor-is-no-number",
        "s: f32",
        "return maximum(1, f32(3)), max(1, f32(2)), sqrt(f32(2)) * s",
        everything=False,
    ),
]
