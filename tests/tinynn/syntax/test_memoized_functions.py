"""Functions under lru_cache that call themselves mean what Python means.

They are written by tinynn/syntax/memoized_functions.
"""

from __future__ import annotations

from functools import cache, lru_cache

import pytest

import nnmagic
from nnmagic import TinyNNError
from nnmagic.tinynn.syntax import memoized_functions
from tests.tinynn.cases import assert_as_in_python

#: The body of a function `go`, how it is called, and the arguments of the function around it, `f(n, x)`.
PROGRAMS = {
    "fibonacci": ("go(k): return k if k < 2 else go(k - 1) + go(k - 2)", "go(n)", (20, [0])),
    "branches": (
        "go(i, left):\n    if left == 0:\n        return 1\n    if left < 0 or i == len(x):\n"
        "        return 0\n"
        "    return go(i, left - x[i]) + go(i + 1, left)",
        "go(0, n)",
        (7, [1, 2, 5]),
    ),
    "min of a generator": (
        "go(k):\n    if k == 0:\n        return 0\n"
        "    return min((go(k - c) + 1 for c in x if c <= k), default=99)",
        "go(n)",
        (8, [1, 4, 5]),
    ),
    "loop": (
        "go(k):\n    best = 0\n    for c in x:\n        if c <= k:\n"
        "            best = max(best, c * c % 7 + go(k - c))\n"
        "    return best",
        "go(n)",
        (8, [2, 3, 5]),
    ),
    "any": (
        "go(k):\n    if k == 0:\n        return True\n    return any(go(k - c) for c in x if c <= k)",
        "go(n), go(n - 1)",
        (10, [4, 6]),
    ),
    "all and a name outside": (
        "go(k):\n    c = k\n    return k < 2 or (all(go(k - c) for c in x if c <= k) and c % 2 == 0)",
        "go(n)",
        (4, [2, 3]),
    ),
    "and ends in time": (
        "go(k): return k if k < 1 else (k % 3 and go(k - 1)) + (k % 2 and go(k - 2))",
        "go(n)",
        (8, [0]),
    ),
    "chosen": (
        "go(k): return 1 if k < 3 else go(k - 1) if k % 2 else go(k // 2) + go(k - 3)",
        "go(n)",
        (12, [0]),
    ),
    "inside": ("go(k): return 1 if k < 1 else go(k - 1 - go(k - 1) % 2) + 1", "go(n)", (7, [0])),
    "floats": ("go(k): return 1.5 if k < 2 else go(k - 1) * 0.5 + go(k - 2)", "go(n)", (9, [0])),
    "tuples": (
        "go(k):\n    if k == 0:\n        return 0, 1\n    a, b = go(k - 1)\n    c, d = go(k // 2)\n"
        "    return a + d, b + c % 5",
        "go(n)",
        (9, [0]),
    ),
    "while": (
        "go(k):\n    t = 0\n    while k > 0 and go(k - 3) >= 0:\n        k -= 2\n"
        "        t += 1 + go(k // 2)\n    return t",
        "go(n)",
        (8, [0]),
    ),
    "texts": (
        "go(i, j):\n    if i == 0 or j == 0:\n        return i + j\n"
        "    if 'kitten'[i - 1] == 'sitting'[j - 1]:\n"
        "        return go(i - 1, j - 1)\n    return 1 + min(go(i - 1, j), go(i, j - 1), go(i - 1, j - 1))",
        "go(3, n)",
        (3, [0]),
    ),
    "deep": ("go(k): return 1 if k < 2 else (go(k - 1) + go(k - 2)) % 1009", "go(n)", (60, [0])),
}


def _text(body: str, call: str) -> str:
    lines = "".join(f"    {line}\n" for line in f"@lru_cache(None)\ndef {body}".split("\n"))
    return f"def f(n, x):\n{lines}    return {call}\n"


@pytest.mark.full("name", "branches", "min of", "loop", "all and", "and ends", "inside", "floats", "deep")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_pythons(name: str) -> None:
    body, call, args = PROGRAMS[name]
    assert_as_in_python(_text(body, call), *args, lru_cache=lru_cache)


@cache
def _steps(n: int) -> int:
    return 0 if n < 2 else 1 + min(_steps(n - 1), _steps(n // 2))


def test_a_function_of_the_notebook_keeps_its_results() -> None:
    f = nnmagic.compile(
        "def f(n):\n    return [steps(i) for i in range(n)]", namespace={"steps": _steps}, engine="numpy"
    )
    assert f(4).tolist() == [_steps(i) for i in range(4)]


def test_recursion_without_end_is_pythons_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memoized_functions, "_DRIVER", memoized_functions._DRIVER.replace("1000000", "20"))
    text = _text("go(k): return 1 if k < 0 else go(k + 1) + go(k + 2)", "go(n)")
    with pytest.raises(RecursionError):
        nnmagic.compile(text, namespace={"lru_cache": lru_cache}, engine="numpy", cache=False)(3, [0])


@pytest.mark.parametrize(
    "body",
    [
        "go(k):\n    nonlocal n\n    n += 1\n    return k if k < 2 else go(k - 1) + go(k - 2)",
        "go(k):\n    x.append(k)\n    return k if k < 2 else go(k - 1) + go(k - 2)",
        "go(k):\n    print(k)\n    return k if k < 2 else go(k - 1) + go(k - 2)",
        "go(k, m=1): return k if k < 2 else go(k - 1) + go(k - 2)",
    ],
)
def test_effects_are_refused(body: str) -> None:
    with pytest.raises(TinyNNError, match="decorator"):
        nnmagic.compile(_text(body, "go(n)"), namespace={"lru_cache": lru_cache}, engine="numpy")(5, [0])
