"""Lists inside of lists are one object under several names: a cell gives what Python gives, or refuses it.

They judge `tinynn/elaborate/carried_memory`, too.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import InternalError

TABLE = "a = [[0, 1], [2, 3]]\n"
ROWS = "a = [[0] * 2 for _ in range(3)]\na[k][1] = 1\n"

#: Bodies of functions of ``k``, which is 0. What is True is computed; the others may be refused.
PROGRAMS = {
    "an item": (TABLE + "b = a[0]\na[0][0] = 5\nreturn b[0]", True),
    "an item at a place of the call": (TABLE + "a[k][0] = 4\nb = a[0]\na[0][0] = 5\nreturn b[0]", True),
    "a slice": (TABLE + "b = a[:]\na[0][0] = 5\nreturn b[0][0]", True),
    "a slice of rows": (ROWS + "b = a[:]\na[k][0] = 5\nreturn b[0][0]", True),
    "a sum": (TABLE + "b = a + [[1, 2]]\na[0][0] = 5\nreturn b[0][0]", False),
    "a sum of rows": (ROWS + "b = a + [[1, 2]]\na[k][0] = 5\nreturn b[0][0]", False),
    "a list of rows": (ROWS + "b = list(a)\na[k][0] = 5\nreturn b[0][0]", False),
    "a comprehension": (ROWS + "b = [r for r in a]\na[k][0] = 5\nreturn b[0][0]", False),
    "a loop changes rows": (
        "a = [[0] * 3 for _ in range(3)]\nb = a[0]\nfor i in range(k + 1):\n    a[i][0] = 1\nreturn b[0]",
        True,
    ),
    "one list twice": ("a = [[0] * 2] * 2\na[0][0] = 1\nreturn a[1][0]", False),
    "a list that was put in": (TABLE + "r = [8, 9]\na[0] = r\nr[0] = 7\nreturn a[0][0]", False),
    "an exchange": (TABLE + "a[0], a[1] = a[1], a[0]\na[0][0] = 9\nreturn a[0][0] + a[1][0]", True),
    "an exchange, by another name": (
        TABLE + "a[0], a[1] = a[1], a[0]\nr = a[0]\na[0][0] = 9\nreturn r[0] + a[1][0]",
        True,
    ),
    "an item is changed": (TABLE + "row = a[0]\nrow[0] = 7\nreturn a[0][0]", False),
    "an item of the call is changed": (TABLE + "row = a[k]\nrow[0] = 7\nreturn a[0][0]", False),
    "rows are changed": (TABLE + "for r in a:\n    r[0] = 9\nreturn a[1][0]", False),
    "rows of the call are changed": (
        TABLE + "for i in range(k + 2):\n    r = a[i]\n    r[0] = 5 + i\nreturn a[1][0]",
        False,
    ),
    "added in place": ("a = [1]\nb = a\na += [2]\nreturn len(b)", False),
    "added": ("a = [1]\nb = a\na = a + [2]\nreturn len(b)", True),
    "read before": (TABLE + "row = a[0]\na[0][0] = row[1] + 1\nreturn a[0][0]", True),
    "read before, at a place of the call": (
        TABLE + "row = a[k]\na[k][0] = row[1] + 1\nreturn a[0][0]",
        True,
    ),
    "copies by slices": (ROWS + "b = [r[:] for r in a]\na[k][0] = 5\nreturn b[0][0]", True),
    "copies by list": (ROWS + "b = [list(r) for r in a]\na[k][0] = 5\nreturn b[0][0]", True),
    "copies by copy": (ROWS + "b = [r.copy() for r in a]\na[k][0] = 5\nreturn b[0][0]", True),
    "rows are joined": (TABLE + "a[k][0] = 4\nr = a[k]\nreturn len(r + r)", True),
    "rows are joined in a loop": (
        TABLE + "a[k][0] = 4\nt = 0\nfor r in a:\n    t += len(r + [1])\nreturn t",
        True,
    ),
    "a row is repeated": (TABLE + "a[k][0] = 4\nr = a[k] * 2\nreturn len(r) + r[0]", True),
    "a row grows": (TABLE + "a[k][0] = 4\nr = a[k][:]\nr.append(3)\nreturn len(r)", True),
    "functions of a row": (
        TABLE + "a[k][0] = 4\nreturn sum(a[k]) + max(a[k]) * 10 + len(a[k]) * 100 + (4 in a[k]) * 1000",
        True,
    ),
    "a board": (
        "a = [[0] * 3 for _ in range(3)]\nfor i in range(k + 2):\n    for j in range(3):\n"
        "        a[i][j] = i * 3 + j\ns = 0\nfor row in a:\n    for x in row:\n        s += x\nreturn s",
        True,
    ),
    "an array of a list, chosen by the call": (
        "a = [np.zeros(2) for _ in range(3)]\nm = a[k]\nm[0] = 7.0\nreturn a[k][0]",
        False,
    ),
    "sorted": ("a = [[2, 1], [0, 3]]\nb = sorted(a)\na[0][0] = 9\nreturn b[1][0]", False),
    "sorted rows": (TABLE + "a[k][0] = 7\nb = sorted(a)\na[1][0] = 9\nreturn b[0][0]", False),
    "count and index": ("a = [1.5, 2.5]\na[k] = 3.5\nreturn a.count(2.5) + a.index(3.5)", True),
    "a copy of a range": ("a = list(range(k + 3))\nb = a.copy()\nb[0] = 9\nreturn a[0] + b[0]", True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_name_shows_what_python_would_not(name: str) -> None:
    body, is_computed = PROGRAMS[name]
    text = f"def f(k):\n{textwrap.indent(body, '    ')}\n"
    scope: dict[str, object] = {"np": np}
    exec(text, scope)
    expected = scope["f"](0)  # type: ignore[operator]
    source = text.replace("def f(k)", "def f(k: i64)")
    if is_computed:
        assert nnmagic.compile(source, namespace={"np": np}, engine="numpy")(0) == expected
        return
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    assert not isinstance(caught.value, InternalError)
    assert "list" in str(caught.value) or "memory" in str(caught.value)


def test_what_is_not_in_a_list() -> None:
    function = nnmagic.compile("def f(x: i64):\n    return [1, 2].index(x)\n", engine="numpy")
    assert function(2) == 1
    with pytest.raises(ValueError, match="not in the list"):
        function(3)
