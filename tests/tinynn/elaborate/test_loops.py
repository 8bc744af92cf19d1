"""Loops: the form that they get, and that every form of every length means what Python means.

They judge tinynn/elaborate/loop_emission and tinynn/elaborate/loop_forms, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from tests.tinynn.cases import assert_as_in_python, errors_of, messages_of, program_of, text_of
from tests.tinynn.python_twin import plain, twin

HEAD = "def f(x: Tensor[(40, 6), f32], v: Tensor[(6,), f32]):\n"

#: Bodies of `f`, where `count` is the number of rounds.
PROGRAMS = {
    "a-tensor-as-state": (
        "for i in range(count):\n    v = tanh(x[i % 40] + v * 0.5) - 0.25 * v + i / 100\nreturn v"
    ),
    "numbers-and-tuples-as-state": (
        "a, b, pair = 0, 1, (v, 1.0)\n"
        "for i in range(count):\n"
        "    a, b = b, (a + b) % 1000\n"
        "    pair = (tanh(pair[0] + b * 0.001) * 0.9, pair[1] * 0.5 + a)\n"
        "return a, b, pair"
    ),
    "break-continue-else": (
        "seen = 0\n"
        "for i in range(count):\n"
        "    if i % 3 == 1:\n        continue\n"
        "    v = tanh(v + x[i % 40]) * 0.5 + sigmoid(v)\n"
        "    seen += 1\n"
        "    if v.sum() > 1e6 or i > 900:\n        break\n"
        "else:\n    v = v + 100\n"
        "return v, seen, seen * 2"
    ),
    "return-inside": (
        "for row in range(count):\n"
        "    v = exp(-abs(v)) + tanh(v * 2) * 0.5 + x[row % 40] * 0.1\n"
        "    if row == 62:\n        return v * 2\n"
        "return v"
    ),
    "nested": (
        "total = 0\n"
        "for i in range(count):\n"
        "    for j in range(i % 3):\n"
        "        v = tanh(v + x[(i + j) % 40]) * 0.5 + v * 0.25 + j\n"
        "        if j == 1:\n            break\n"
        "    else:\n        total += i\n"
        "return v, total"
    ),
    "a-while": (
        "i = 0\n"
        "while i < count:\n"
        "    i += 1\n"
        "    v = tanh(v + x[i % 40]) * 0.5 + sigmoid(v * 2) - v / 7\n"
        "return v, i"
    ),
    "while-true": (
        "i = 0\n"
        "while True:\n"
        "    if i >= count:\n        break\n"
        "    v = tanh(v + x[i % 40]) * 0.5 + sigmoid(v * 2) - v / 7\n"
        "    i += 1\n"
        "return v, i"
    ),
    "names-of-the-head": (
        "i = -1\n"
        "for i, j in zip(range(count), range(1, 2 * count + 2, 2)):\n"
        "    v = tanh(v + x[i % 40]) * 0.5 + sigmoid(v * 2) - v / 7 + j / 1000\n"
        "return v, i"
    ),
    "the-head-assigned-inside": (
        "n = 0\n"
        "for i in range(count):\n"
        "    v = tanh(v + x[i % 40]) * 0.5 + sigmoid(v * 2) - v / 7\n"
        "    i = i * 2\n"
        "    n += i\n"
        "return v, n"
    ),
}
COUNTS = (0, 1, 2, 3, 63, 64, 65, 1000)


def source_of(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.split("\n"))


def arguments() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 6), "float32"), rng.standard_normal(6, "float32")


def check(source: str, count: int, *values: np.ndarray) -> None:
    result = nnmagic.compile(source, namespace={"count": count}, cache=False)(*values)
    python = twin(source, {"count": count})
    expected = plain(python.call(python.last, *values))
    results = result if isinstance(result, tuple) else (result,)
    expecteds = expected if isinstance(expected, tuple) else (expected,)
    for part, right in zip(flat(results), flat(expecteds), strict=True):
        np.testing.assert_allclose(part, right, rtol=1e-4, atol=1e-5)


def flat(values: object) -> list[object]:
    if isinstance(values, tuple):
        return [part for value in values for part in flat(value)]
    return [values]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_means_what_python_means(name: str, count: int) -> None:
    check(source_of(PROGRAMS[name]), count, *arguments())


@pytest.mark.machine_code
@pytest.mark.sampled(every=4)
@pytest.mark.full("body3-1000")
@pytest.mark.parametrize("count", [1, 2, 65, 1000])
@pytest.mark.parametrize(
    "body",
    [
        "for i in range(count):\n    y = tanh(x[i % 40] + v) * 2\n    z = y + i\nreturn z",
        "total = 0\nfor i in range(count):\n    total += tanh(x[i % 40] * v) * 2 - 1\nreturn total, i",
        "t = 1\nfor i in range(count):\n    t = t * tanh(v + x[i % 40]) + v / 3\n"
        "    if i == 70:\n        break\nelse:\n    t = t * 2\nreturn t",
        "for i in range(count):\n    for j in range(40):\n        y = tanh(x[(i + j) % 40] + v) * 2\n"
        "return y, i, j",
        "t = 1\nfor i in range(count):\n    for j in range(30):\n        t = tanh(t + x[(i + j) % 40] * v)\n"
        "return t",
    ],
)
def test_a_name_that_the_first_round_gives_its_type_has_it_at_every_length(body: str, count: int) -> None:
    check(source_of(body), count, *arguments())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_of_a_loop_is_as_long_for_ten_rounds_as_for_ten_million(name: str) -> None:
    source = source_of(PROGRAMS[name])
    lengths = {len(text_of(source, {"count": count}).splitlines()) for count in (40, 64, 65, 10_000_000)}
    assert len(lengths) == 1


def is_unrolled(body: str) -> bool:
    return "loop" not in text_of(source_of(body))


@pytest.mark.parametrize(
    ("body", "unrolled"),
    [
        ("for i in range(4):\n    v = tanh(v) * 2 + i\nreturn v", True),
        ("for i in range(30):\n    v = v + 1\nreturn v", True),
        ("for i in range(40):\n    v = v + 1\nreturn v", False),
        ("for i in range(20):\n    v = tanh(v) * 2 + i\nreturn v", False),
        ("n = 0\nfor i in range(60):\n    n += i * i\nreturn v * n", True),
        ("for t in (1, 2) * 20:\n    v = tanh(v * t)\nreturn v", True),
        ("rows = []\nfor row in x:\n    rows += [tanh(row + v) * 2 + v]\nreturn stack(rows)", True),
        ("for i in range(1, 8):\n    v = v + x[:i, 0].sum() * x[i:, 1].max()\nreturn v", True),
        ("for i in range(1, 30):\n    v = v + x[:i, 0].sum() * x[i:, 1].max()\nreturn v", False),
        (
            "t = [v * k for k in range(16)]\nfor i in range(16):\n    v = tanh(v + t[i]) * exp(v)\nreturn v",
            True,
        ),
    ],
)
def test_a_loop_is_unrolled_where_that_is_cheap_or_needed(body: str, unrolled: bool) -> None:
    assert is_unrolled(body) is unrolled


@pytest.mark.parametrize("count", [40, 100])
def test_only_the_loop_that_needs_its_index_is_unrolled(count: int) -> None:
    text = text_of(
        source_of(
            "t = (v, v * 2, v * 3)\n"
            "for i in range(3):\n"
            "    for j in range(count):\n"
            "        v = tanh(v + t[i] + j) * 2\n"
            "return v"
        ),
        {"count": count},
    )
    assert text.count("let %for_loop") == 3


@pytest.mark.parametrize("rounds", [2, 100])
def test_the_text_of_nested_loops_grows_with_their_number(rounds: int) -> None:
    def length(depth: int) -> int:
        heads = [f"{'    ' * level}for i{level} in range({rounds}):" for level in range(depth)]
        indices = " + ".join(f"i{level}" for level in range(depth))
        body = "\n".join([*heads, f"{'    ' * depth}v = v * 0.5 + {indices}"])
        return len(text_of(source_of(f"{body}\nreturn v")).splitlines())

    assert length(18) < 4 * length(9)


def test_a_number_that_a_shape_needs_stays_known() -> None:
    body = (
        "n = 0\nfor i in range(20):\n    v = tanh(v * 2 + i) + 1\n    n += 1\n"
        "return zeros((n, 6), f32) + v, x.reshape(n * 12).sum() + zeros((n,), f32)"
    )
    program = program_of(source_of(body))
    assert str(program.module.functions["f"].ret_type).count("20") == 2


def test_a_mistake_in_a_loop_is_reported_once() -> None:
    assert len(errors_of(source_of("for i in range(3):\n    v = v + x[i + 40]\nreturn v"))) == 1
    assert len(errors_of(source_of("for i in range(30):\n    v = tanh(v) + x[i, i + 6] * 2\nreturn v"))) <= 1
    assert len(errors_of(source_of("for i in range(30):\n    v = tanh(v) + nothing\nreturn v"))) == 1
    bodies = [
        f"for i in range({count}):\n    v = tanh(v * 2) + x[i % 40, :3] + 1\nreturn v"
        for count in (3, 30, 300)
    ]
    messages = [[message for *_, message in messages_of(source_of(body))] for body in bodies]
    assert messages[0] == messages[1] == messages[2]
    assert len(messages[0]) == 1


def test_two_mistakes_of_one_round_are_both_reported() -> None:
    assert (
        len(errors_of(source_of("for i in range(3):\n    v = v + x[i + 40]\n    w = nothing\nreturn v"))) == 2
    )


def test_a_row_is_taken_before_its_slice() -> None:
    body = "for i in range(100):\n    v = v + x[i % 40, : i % 6].sum()\nreturn v"
    nodes = list(post_order(program_of(source_of(body)).module.functions["f"]))
    calls = [node for node in nodes if isinstance(node, ir.Call)]
    takes = [call for call in calls if getattr(call.op, "name", "") == "take"]
    of_rows = [node.attrs["mode"] for node in takes if isinstance(node.args[0], ir.Var)]
    assert (of_rows, len(takes)) == (["fast"], 1)
    (cut,) = [call for call in calls if getattr(call.op, "name", "") == "dyn.strided_slice"]
    assert cut.args[0] is takes[0]


FILLED = """def f(grid):
    h, w = grid.shape
    seen = np.zeros_like(grid, dtype=bool)
    best = 0
    for i in range(h):
        for j in range(w):
            if grid[i, j] and not seen[i, j]:
                todo, size = [(i, j)], 0
                seen[i, j] = True
                while todo:
                    y, x = todo.pop()
                    size += 1
                    for dy, dx in [(-1, 0), (1, 0), (0, -1), (0, 1)]:
                        a, b = y + dy, x + dx
                        if 0 <= a < h and 0 <= b < w and grid[a, b] and not seen[a, b]:
                            seen[a, b] = True
                            todo.append((a, b))
                best = max(best, size)
    return best
"""
HULL = """def f(points):
    lower = []
    for p in sorted(points.tolist()):
        while len(lower) > 1 and lower[-2][0] * p[1] > lower[-1][0] * p[0]:
            lower.pop()
        lower.append(p)
    return np.array(lower)
"""
TOTALS = """def f(x):
    out = []
    for i, v in enumerate(sorted(x[:, 0].tolist())):
        t = 0.0
        while t < v:
            t += 0.3
        out.append(t + i)
    return np.array(out)
"""


@pytest.mark.parametrize("text", [pytest.param(FILLED, marks=pytest.mark.full), HULL, TOTALS])
def test_a_loop_that_holds_a_while_loop_is_not_written_out(text: str) -> None:
    x = np.random.default_rng(0).random((20 if text is TOTALS else 8, 2 if text is HULL else 7))
    x = x > 0.4 if text is FILLED else x
    assert_as_in_python(text, x)
    found = nnmagic.compile(text, namespace={"np": np}, engine="numpy")
    found(x)
    assert found.specializations[0].relay_text.count("let %while_loop") == 1


def test_a_name_that_only_a_loop_with_a_break_assigns() -> None:
    text = "def f(x, n=100):\n    last = 0.0\n    for k in range(n):\n        value = x.sum() / (k + 1)\n"
    text += (
        "        if abs(value - last) < 1e-3:\n            break\n        last = value\n    return value, k\n"
    )
    assert_as_in_python(text, np.arange(4.0))


#: Items of a costly loop over known tuples that its rows would not give back as they are, and its last lines.
KNOWN_TUPLES = {
    "ints beside floats in a column": ("(2, 1.5), (1, 1), (0, 7)", "kept = b"),
    "truth values": ("(1, True), (2, False), (3, True)", "kept = b"),
    "ints of more bits than a float": ("(2**60 + 1, 0.5), (2**60 + 3, 1.5)", "kept = a"),
    "negative powers": ("(1, 1), (2, -1), (0, -2)", "kept = 2**b"),
}


@pytest.mark.parametrize("case", KNOWN_TUPLES)
def test_costly_loops_over_known_tuples_keep_the_types_of_their_items(case: str) -> None:
    items, last = KNOWN_TUPLES[case]
    costly = "".join(f"        s = s * 0.5 + x[{k % 4}] * {k}\n" for k in range(48))
    loop = f"    for a, b in ({items}):\n{costly}        {last}\n"
    text = f"def f(x):\n    s, kept = 0.0, 0\n{loop}    return s, kept\n"
    scope: dict[str, Any] = {}
    exec(text, scope)
    x = np.arange(4.0)
    found, expected = nnmagic.compile(text, engine="numpy", cache=False)(x), scope["f"](x)
    for one, other in zip(found, expected, strict=True):
        assert (one, np.asarray(one).dtype) == (other, np.asarray(other).dtype)
