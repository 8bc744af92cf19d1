"""Lists inside of others are lists, and change for all that show them: in rows, and in tables."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

#: What makes rows of as many lists as only the call knows.
_MAKERS = {
    "appended": "rows = []\n    for i in range(n):\n        rows.append([i, i + 1])",
    "comprehension": "rows = [[i, 2 * i] for i in range(n)]",
    "until": "rows = [[5, 6]]\n    while len(rows) < n:\n        a, b = rows[-1]\n"
    "        rows.append([a + 1, b * 2])",
}
_READERS = [
    "return rows[0] * 2, rows[0] + rows[1]",
    "return rows[0] == rows[1], rows[1] != [1, 2], rows[0] < rows[1], [1, 2] in rows",
    "return max(rows), min(rows), sum(rows, [])",
    "made = []\n    for row in rows:\n        made += row\n    return made",
    "rows[0], rows[2] = rows[2], rows[0]\n    return rows",
    "rows[1][0] += 7\n    rows[0][1] = 4\n    return rows",
    "other = list(rows)\n    other.append([0, 0])\n    return rows, other",
    "out = zeros((n, 2))\n    for i in range(n):\n        out[i] = rows[i]\n    return out",
]
#: Programs in which Python changes one list under two names, at two places, or to another length.
_SHARED = [
    "row = [1, 2]\n    table = {}\n    table[k] = row\n    row[0] = 9\n    return table[k][0]",
    "row = [1, 2]\n    table = {k: row}\n    for i in range(2):\n        row[i] = 9\n    return table[k][0]",
    "table = {k: [1, 2]}\n    row = table[k]\n    row += [3]\n    return len(table[k])",
    "table = {k: [1, 2]}\n    for row in table.values():\n        row *= 2\n    return len(table[k])",
    "row, table = [0, 0], {}\n    for i in range(n):\n        row[0] += 1\n        table[i] = row\n"
    "    return table[0][0]",
    "rows = []\n    for i in range(n):\n        row = [i, i]\n        rows.append(row)\n        row[0] = 7\n"
    "    return rows[0][0]",
    "rows = []\n    for i in range(n):\n        rows.append([i, i])\n    rows.append(rows[0])\n"
    "    rows[0][0] = 7\n    return rows[-1][0]",
    "rows = [[1, 2], [3, 4]]\n    row = rows[k - 2]\n    rows[1][0] = 7\n    return row[0]",
    "rows = [[1, 2], [3, 4]]\n    rows[k - 2] = [5]\n    return len(rows[1])",
    "row = [k, 2]\n    pair = (row, 3)\n    x[0] = 8\n    row[0] = 5\n    return pair[0][0]",
]


def _as_python(body: str, n: int = 4) -> tuple[object, object]:
    text = f"def f(x):\n    n, k = x.size, x[0]\n    {body}\n"
    space: dict[str, object] = {"zeros": np.zeros}
    exec(text, space)
    arguments = np.full(n, 3)
    expected = space["f"](arguments.copy())  # type: ignore[operator]
    return nnmagic.compile(text.replace("x.size", "x[0] + 1"), engine="numpy")(arguments), expected


def _plain(value: object) -> object:
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    return value


def test_lists_of_lists_of_lists() -> None:
    body = "rows = []\n    for i in range(n):\n        rows.append([[i, i], [0, 1]])\n"
    actual, expected = _as_python(
        f"{body}    return rows[0][0] * 2, rows[1][0] == [1, 1], rows[1][0] + rows[0][1]"
    )
    assert _plain(actual) == _plain(expected)


@pytest.mark.parametrize("body", _READERS)
@pytest.mark.parametrize("maker", _MAKERS)
def test_items_that_are_lists_are_lists(maker: str, body: str) -> None:
    actual, expected = _as_python(f"{_MAKERS[maker]}\n    {body}")
    assert _plain(actual) == _plain(expected)


@pytest.mark.filterwarnings("ignore::nnmagic.TinyNNWarning")
@pytest.mark.parametrize("body", _SHARED)
def test_a_list_of_two_names_is_refused_or_changes_for_both(body: str) -> None:
    try:
        actual, expected = _as_python(body)
    except nnmagic.TinyNNError:
        return
    assert actual == expected


@pytest.mark.parametrize(
    "body",
    [
        "rows = [i for i in range(n)]\n    return sum(rows, 5), sum([k, 2], start=1)",
        "return max(zip(x, x * 2)), min(enumerate(x))",
        "return list(zip(*[(k, 2)])), list(zip([k, 1]))",
    ],
)
def test_what_functions_of_iterables_give(body: str) -> None:
    actual, expected = _as_python(body)
    assert _plain(actual) == _plain(expected)


@pytest.mark.parametrize("word", ["max", "min"])
def test_the_extreme_of_a_list_without_items_is_an_error(word: str) -> None:
    text = f"def f(x):\n    return {word}([i for i in x if i > 9])\n"
    with pytest.raises(ValueError, match=r"iterable argument is empty"):
        nnmagic.compile(text, engine="numpy")(np.full(4, 3))


@pytest.mark.parametrize("change", ["reverse()", "sort()", "clear()", "extend([1])", "insert(0, 1)"])
def test_a_list_that_a_written_list_holds_does_not_change(change: str) -> None:
    source = (
        f'def f(y: Tensor[("n",), i64]):\n    w = [[1], [v for v in y]]\n    w[1].{change}\n    return w[1]\n'
    )
    with pytest.raises(nnmagic.TinyNNError, match=r"would change `w\[1\]` in place, which a cell cannot"):
        nnmagic.compile(source, engine="numpy", cache=False)
