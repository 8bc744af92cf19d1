"""Strings that a call gives, and sets of what a loop has seen (tinynn/syntax/sets)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)

PROGRAMS: list[tuple[str, tuple[Any, ...]]] = [
    (
        """def f(s, t):
    d = np.zeros((len(s) + 1, len(t) + 1), dtype=np.int64)
    d[:, 0] = np.arange(len(s) + 1)
    d[0] = np.arange(len(t) + 1)
    for i in range(1, len(s) + 1):
        for j in range(1, len(t) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (s[i - 1] != t[j - 1]))
    return d[-1, -1]
""",
        ("kitten", "sitting"),
    ),
    (
        """def f(s):
    counts = np.zeros(26, dtype=np.int64)
    for c in s.lower():
        k = ord(c) - ord("a")
        if 0 <= k < 26:
            counts[k] += 1
    return counts
""",
        ("The quick brown fox " * 9,),
    ),
    (
        """def f(s):
    i, j = 0, len(s) - 1
    while i < j:
        if s[i] != s[j]:
            return False
        i += 1
        j -= 1
    return True
""",
        ("abcba" * 9,),
    ),
    (
        """def f(s, k):
    n = 0
    for i in range(len(s)):
        if s[i] in "aeiou" and s[i] != "e" and "a" < s[i]:
            n += 1
    parts = len(s.split(","))
    return n, s.count("a"), s[::-1] == s, s[k] == s[-1], s[2:4].upper() == "LO", parts, s[k] == ","
""",
        ("hello,abracadabra", 3),
    ),
]

SETS: list[tuple[str, tuple[Any, ...]]] = [
    (
        """def f(x):
    seen = set()
    for v in x:
        if v in seen:
            return v
        seen.add(v)
    return -1
""",
        (RNG.integers(0, 20, 30),),
    ),
    (
        """def f(n):
    visited = set()
    while n != 1 and n not in visited:
        visited.add(n)
        t = 0
        while n > 0:
            t += (n % 10) ** 2
            n //= 10
        n = t
    return n == 1, len(visited)
""",
        (4,),
    ),
    (
        """def f(x):
    known, n = {1, 2, 3, 3}, 0
    for v in x:
        if v in known or v in {7, 8}:
            n += 1
        known.add(v * 2)
    return n, len(known), len(set(x))
""",
        (RNG.integers(0, 9, 30),),
    ),
    (
        """def f(grid):
    seen, stack = set(), [(0, 0)]
    while stack:
        r, c = stack.pop()
        if min(r, c) < 0 or max(r, c) >= 5 or grid[r % 5, c % 5] or (r, c) in seen:
            continue
        seen.add((r, c))
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            stack.append((r + dr, c + dc))
    return len(seen)
""".replace("seen, stack = set(), [(0, 0)]", "seen = set()\n    stack = [(0, 0)]"),
        (RNG.random((5, 5)) < 0.3,),
    ),
]


@pytest.mark.parametrize(("source", "args"), [*PROGRAMS, *SETS])
def test_what_python_computes(source: str, args: tuple[Any, ...]) -> None:
    names: dict[str, Any] = {"np": np}
    source = source.replace("known, n = {1, 2, 3, 3}, 0", "known = {1, 2, 3, 3}\n    n = 0")
    exec(source, names)
    got, expected = nnmagic.compile(source, engine="numpy")(*args), names["f"](*args)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return s[0] + 1", "`+` of"),
        (
            "n, i = 0, 0\n    while i < n + 9:\n        n += s[i] + 1\n        i += 1\n    return n",
            "`+` of",
        ),
        ("return s[199] == s[0]", "out of range for a string"),
        ("return s.encode()", "no attribute `encode`"),
    ],
)
def test_what_a_cell_has_not_is_refused(body: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(f"def f(s):\n    {body}\n", engine="numpy")("hello" * 20)
    assert message in str(error.value)
