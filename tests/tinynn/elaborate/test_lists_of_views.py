"""Lists that grow in loops and hold views: what NumPy would show through them is computed, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

X = np.arange(480.0).reshape(120, 4) + 1

#: Of how many rows ``x`` is: named, and too many to unroll. Of the last, loops are unrolled.
SIZES = {'"n"': 5, "120": 120, "3": 3}

#: Bodies of ``f(x)`` that read what NumPy has changed through another name, with that name and what is read.
CHANGED = {
    "appended-and-changed": (
        "y, the list path",
        """y = np.zeros(2)
path = []
for e in x[:, 0]:
    y[0] += e
    path.append(y)
return np.array(path)""",
    ),
    "rows-of-a-comprehension": (
        "m, the list rows",
        """m = x.copy()
rows = [r for r in m]
m[0] = 5
return rows[0]""",
    ),
    "updated": (
        "m, the list rows",
        """m = x.copy()
rows = [r for r in m]
m += 1
return rows[0]""",
    ),
    "rows-by-their-numbers": (
        "m, the list rows",
        """m = x.copy()
rows = []
for i in range(len(m)):
    rows.append(m[i])
m[0] = 5
return rows[0]""",
    ),
    "reversed-rows": (
        "m, the list rows",
        """m = x.copy()
rows = [r[::-1] for r in m]
m[0] = 5
return rows[0]""",
    ),
    "map": (
        "m, the list rows",
        """m = x.copy()
rows = list(map(lambda r: r, m))
m[0] = 5
return rows[0]""",
    ),
    "the-array-is-read": (
        "a, y",
        """y = x.copy()
rows = [r for r in y]
a = rows[0]
a[0] = 9
return y""",
    ),
    "an-item-is-changed": (
        "a, the list rows",
        """y = x.copy()
rows = [r for r in y]
a = rows[0]
a[0] = 9
return rows[0]""",
    ),
    "the-first-item-and-all-others": (
        "y, the list path",
        """y = x[0].copy()
path = [y]
for i in range(len(x)):
    y += x[i]
    path.append(y)
return np.array(path)""",
    ),
    "changed-after-it-is-appended": (
        "y, the list rows",
        """y = x[0].copy()
rows = []
for i in range(len(x)):
    rows.append(y[1:])
    y[1] += 1
return np.stack(rows)""",
    ),
    "one-array-many-times": (
        "y, the list rows",
        """y = x[0].copy()
rows = [y for i in range(len(x))]
y[0] = 5
return np.stack(rows)""",
    ),
    "two-items-are-one-array": (
        "a, b",
        """y = x[0].copy()
rows = [y for r in x]
a, b = rows[0], rows[1]
for i in range(200):
    a[0] += 1
    b[1] += 1
return a, b""",
    ),
    "pairs": (
        "m, the list pairs",
        """m = x.copy()
pairs = [(r, r * 2) for r in m]
m[0] = 3
return pairs[0][0]""",
    ),
    "only-the-first-item-is-a-view": (
        "m, the list rows",
        """m = x.copy()
rows = [m[0]]
for r in m:
    rows.append(r * 2)
m[0] = 3
return rows[0]""",
    ),
    "some-rounds-append": (
        "m, the list rows",
        """m = x.copy()
rows = []
for r in m:
    if r.sum() > 11:
        rows.append(r)
m[-1] = 9
return rows[-1]""",
    ),
    "the-last-item": (
        "y, the list rows",
        """y = x[0].copy()
rows = []
for i in range(len(x)):
    y = y + x[i]
    rows.append(y)
y[0] = 9
return np.stack(rows)""",
    ),
    "the-last-item-in-the-loop": (
        "z, last",
        """last = x[0].copy()
rows = [last]
for r in x:
    last = last * 0.5 + r
    rows.append(last)
    z = rows[-1]
    z[0] = 4
return last""",
    ),
    "a-local-function": (
        "m, the list rows",
        """def g(a):
    return [r for r in a]
m = x.copy()
rows = g(m)
m[0] = 4
return rows[0]""",
    ),
    "a-part-of-the-list": (
        "m, the list rows",
        """m = x.copy()
rows = [r for r in m]
rows = rows[1:]
m[1] = 4
return rows[0]""",
    ),
    "lists-in-a-list": (
        "m, the list rows",
        """m = x.copy()
rows = [[r for r in m] for k in range(100)]
m[0] = 1
return np.array(rows[0])""",
    ),
    "carried-by-a-loop": (
        "m, the list kept",
        """m = x.copy()
rows = [r for r in m]
kept = [r for r in x]
for k in range(100):
    kept = rows
m[0] = 1
return kept[0]""",
    ),
    "chosen-by-a-branch": (
        "m, the list kept",
        """m = x.copy()
rows = [r for r in m]
if x[0, 0] > 0:
    kept = rows
else:
    kept = [r for r in x]
m[0] = 1
return kept[0]""",
    ),
}

#: Bodies of ``f(x)`` in which no list holds what is changed.
COPIED = {
    "new-items": """y = x[0].copy()
rows = []
for i in range(len(x)):
    rows.append(x[i] * 2)
    y[0] += 1
y[1] = 4
return np.array(rows), y""",
    "copies": """y = x[0].copy()
rows = [y.copy()]
for i in range(len(x)):
    y[0] += 1
    y += x[i]
    rows.append(y.copy())
y[1] = 4
return np.array(rows), y, rows[0]""",
    "changed-before": """m = x.copy()
m[0] = 4
rows = [r for r in m]
return np.array(rows), rows[0], m""",
    "arrays-of-a-list": """m = x.copy()
rows = [r for r in m]
t, s, v = np.array(rows), np.stack(rows), np.vstack(rows)
h, c, q = np.hstack(rows), np.concatenate(rows), np.mean(rows, axis=0)
m[0] = 3
t[0] = 7
s[1] = 8
v[-1] = 6
return t, s, v, h, c, q, m""",
    "arrays-beside-the-list": """rows = [r * 2 for r in x]
t, s = np.array(rows), np.array(rows)
t[0] = 7
s[1] = 8
return t, s, rows[0], np.array(rows)""",
    "numbers": """m = x.copy()
rows = []
for i in range(len(m)):
    rows.append(m[i, 0])
    m[i, 0] = 5
t, s = np.array(rows), np.array(rows)
t[0] = 7
return t, s, rows[0], sum(rows), m""",
    "new-in-each-round": """y = x[0].copy()
rows = []
for i in range(len(x)):
    y = y * 0.5
    y[0] = i
    rows.append(y)
return np.stack(rows), y""",
    "zeros-in-each-round": """rows = []
for i in range(len(x)):
    z = np.zeros(3)
    z[0] = i
    rows.append(z)
a = rows[0].copy()
a[0] = 8
return np.stack(rows), a""",
    "an-item-of-new-zeros": """rows = []
for i in range(len(x)):
    rows.append(np.zeros(3))
a = rows[0]
a[0] = 8
return a""",
    "from-the-last-item": """m = x.copy()
rows = [0 * m[0]]
for i in range(len(m)):
    rows.append(rows[-1] + m[i])
m[0] = 3
return np.array(rows), m""",
    "some-rounds-append": """m = x.copy()
rows = []
for r in m:
    if r.sum() > 11:
        rows.append(r * 2)
m[-1] = 9
return np.array(rows), m""",
    "a-buffer": """rows, kept = [], []
q = np.zeros(4)
for i in range(len(x)):
    q[:] = x[i]
    rows.append(np.sort(q))
    kept.append([q.sum(), q[0]])
return np.array(rows), np.array(kept)""",
    "another-array-is-changed": """y = np.zeros_like(x)
rows = [r for r in x]
for i in range(len(rows)):
    y[i] = rows[-1 - i] + rows[i]
return y, np.array(rows)""",
    "anew-in-each-round": """y = x.copy()
for k in range(200):
    rows = [r for r in y]
    y[0] = rows[-1] - rows[0]
return y""",
    "a-function-of-copies": """def h(q):
    rows = [r for r in q]
    return np.array(rows)
m = x.copy()
t = h(m)
m[0] = 3
return t, m""",
}


def compile_body(body: str, rows: str) -> Any:
    lines = "\n    ".join(body.split("\n"))
    source = f"def f(x: Tensor[({rows}, 4), f64]):\n    {lines}\n"
    return source, lambda: nnmagic.compile(source, namespace={"np": np})


def in_python(source: str, *arguments: Any) -> Any:
    names: dict[str, Any] = {"np": np}
    exec("from __future__ import annotations\n" + source, names)
    return names["f"](*arguments)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", CHANGED)
def test_a_list_of_changed_views_is_refused(name, rows):
    words, body = CHANGED[name]
    changed, read = words.split(", ")
    _, compiled = compile_body(body, rows)
    with pytest.raises(nnmagic.TinyNNError) as error:
        compiled()
    first = error.value.diagnostics[0]
    *_, reader = read.split()
    assert f"`{reader}` " in first.message
    assert "memory with" in first.message
    assert f"`{changed}`, which " in first.message
    assert f"`{changed}` is changed here" in [note.message for note in first.notes]
    if read != reader and rows == '"n"':
        assert first.message.startswith(f"the list `{reader}` ")
        assert first.hint.startswith("let the list hold copies")


@pytest.mark.machine_code
@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", COPIED)
def test_a_list_of_other_arrays_is_as_in_numpy(name, rows):
    source, compiled = compile_body(COPIED[name], rows)
    x = X[: SIZES[rows]]
    found, expected = compiled()(x), in_python(source, x.copy())
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_loop_over_the_list_does_not_change_its_items():
    source = """
def f(x: Tensor[("n", 4), f64]):
    y = x.copy()
    rows = [r for r in y]
    t = 0.0
    for r in rows:
        y[0, 0] += 1
        t += r.sum()
    return t
"""
    with pytest.raises(nnmagic.TinyNNError, match="a loop goes over an array that it changes"):
        nnmagic.compile(source)
    copied = nnmagic.compile(source.replace("[r for", "[r.copy() for"))
    assert copied(X[:5]) == X[:5].sum()


def test_rows_of_the_callers_array():
    head = 'def f(m: Tensor[("n", "n"), f64], y: InOut[Tensor[("n", "n"), f64]]):\n'
    body = """    rows = [{} for r in {}]
    for i in range(len(rows)):
        y[i] = rows[-1 - i] + rows[i]
"""
    with pytest.raises(nnmagic.TinyNNError, match="the list `rows` may share memory with `y`"):
        nnmagic.compile(head + body.format("r", "y"))
    for item, over in (("r", "m"), ("r.copy()", "y")):
        source = head + body.format(item, over)
        ours, theirs = X[:4].copy(), X[:4].copy()
        nnmagic.compile(source)(X[:4], ours)
        in_python(source, X[:4], theirs)
        np.testing.assert_array_equal(ours, theirs)


def test_an_item_of_a_parameter_is_not_changed():
    source = 'def f(x: Tensor[("n", 4), f64]):\n    rows = [r for r in x]\n    a = rows[0]\n    a[0] = 9\n'
    with pytest.raises(nnmagic.TinyNNError, match="`a` may share memory with the parameter `x`"):
        nnmagic.compile(source + "    return a\n")


def test_the_rows_of_another_function_of_the_cell():
    source = """
def split(a):
    return [r for r in a]

def f(x: Tensor[("n", 4), f64]):
    m = x.copy()
    rows = split(m)
    m[0] = 4
    return rows[0]
"""
    with pytest.raises(nnmagic.TinyNNError, match="`rows` may share memory with `m`, which was changed"):
        nnmagic.compile(source)
    source = source.replace("[r for", "[r + 1 for")
    np.testing.assert_array_equal(nnmagic.compile(source)(X[:3]), X[0] + 1)


def test_the_hint_copies_the_item():
    source = """
def f(x: Tensor[("n", 4), f64]):
    y = np.zeros(4)
    rows = []
    for r in x:
        y[0] += r[0]
        rows.append({})
    return np.array(rows)
"""
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(source.format("y[1:]"), namespace={"np": np})
    (problem,) = error.value.diagnostics
    assert problem.hint == "let the list hold copies, as in rows.append(y[1:].copy())"
    nnmagic.compile(source.format("y[1:].copy()"), namespace={"np": np})
