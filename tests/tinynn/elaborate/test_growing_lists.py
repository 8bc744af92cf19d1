"""Lists that grow in loops and comprehensions: Python with NumPy is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(5)
X = RNG.standard_normal((70, 3))

#: Bodies of ``f(x)``, each computed for a static and for a named number of rows.
BODIES = {
    "joined": """
    out, s = [], np.zeros(3)
    for row in x:
        s = s * 0.9 + row
        out.append(s)
    return (
        np.array(out), np.stack(out, axis=1), np.stack(out, -1), np.concatenate(out), np.vstack(out),
        np.hstack(out), np.column_stack(out), np.mean(out, axis=0), out[-1], out[3], len(out),
        np.array(out[2:]),
    )
""",
    "numbers": """
    losses, total = [], 0.0
    for i, row in enumerate(x):
        total += row.sum()
        losses.append(total / (i + 1))
    return np.array(losses), sum(losses), max(losses), np.mean(losses), np.vstack(losses), np.hstack(losses)
""",
    "matrices": """
    out = []
    for row in x:
        out.append(np.outer(row, row))
    return np.concatenate(out, axis=1), np.concatenate(out, -2), np.hstack(out), np.vstack(out)
""",
    "last-item": """
    path, after = [x[0]], []
    for row in x:
        path.append(path[-1] * 0.5 + row)
        after.append(path[-1].sum() - 1)
    return np.array(path), np.array(after)
""",
    "begun-with-a-number": """
    path = [0.0, 1.0]
    for row in x:
        path.append(path[-1] * 0.5 + row[0])
    return np.array(path)
""",
    "length": """
    out, again = [1.0], []
    for row in x:
        out.append(row[0] + len(out))
        again.append(len(again) + len(out))
    else:
        out.append(out[-1] + len(out))
    return np.array(out), np.array(again)
""",
    "read-in-functions": """
    out, total = [1.0], 0.0
    for row in x:
        size = lambda: len(out)
        item = lambda k: out[k]
        out.append(row[0])
        total += size() * item(-1)
    return total, len(out)
""",
    "of-another-list": """
    places, values = [-1], []
    for i in range(len(x)):
        values.append(places[-1])
        if x[i, 0] > 0:
            places.append(i)
    return np.array(values), np.array(places)
""",
    "nested": """
    rows = []
    for a in x:
        row = []
        for b in x:
            row.append(np.abs(a - b).sum())
        rows.append(row)
    return np.array(rows)
""",
    "two-lists": """
    xs, ys = [], []
    for t in range(100):
        v = t * 0.1
        xs.append(v)
        ys.append([np.sin(v), np.cos(v)])
    return np.array(xs), np.array(ys), x
""",
    "gone-over": """
    out, largest = [], []
    for row in x:
        out.append(row * 2)
    for row in out[5:]:
        largest.append(row.max())
    return np.array(largest), np.array([p + q for p, q in zip(largest, out)])
""",
    "comprehensions": """
    made = 3.0
    return (
        np.array([np.sort(row)[1] * made for row in x]),
        np.array([[u * v for u in x[:, 0]] for v in x[:, 1]]),
        sum(row[0] for row in x),
    )
""",
    "after-a-branch": """
    out = []
    for row in x:
        if row[0] > 0:
            y = row
        else:
            y = -row
        out.append(y)
    return np.array(out)
""",
    "returned": """
    out = []
    for row in x:
        out.append(row + 1)
    return out
""",
}


def check(function, expected, *arguments):
    found = function(*arguments)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype


@pytest.mark.sampled(every=2)
@pytest.mark.full("nested-70", "comprehensions-70", "nested-'n'")
@pytest.mark.parametrize("rows", ["70", "'n'"])
@pytest.mark.parametrize("name", BODIES)
def test_a_list_that_grows(name, rows):
    head = f"def f(x: Tensor[({rows}, 3), f64]):"
    function = nnmagic.compile(head + BODIES[name], namespace={"np": np})
    names: dict[str, object] = {"np": np}
    exec("def f(x):" + BODIES[name], names)
    check(function, names["f"](X), X)


def test_a_number_of_rounds_that_the_call_decides():
    body = "    out = []\n    for t in range(n):\n        out.append(x[t] * 2)\n    return np.array(out)\n"
    function = nnmagic.compile(f"def f(x, n):\n{body}", namespace={"np": np})
    for rounds in (0, 1, 30, -2):
        np.testing.assert_array_equal(function(X, rounds), X[: max(rounds, 0)] * 2)


def test_an_unrolled_list_grows_twice():
    source = """
def f(x: Tensor[(70, 3), f64]):
    out = []
    for k in range(3):
        out.append(x[k])
    for k in range(3):
        out.append(x[k] + 1)
    return stack(out)
"""
    np.testing.assert_array_equal(nnmagic.compile(source)(X), [*X[:3], *(X[:3] + 1)])


LOOP = "    for row in x:\n        {}\n    return {}\n"
ALIAS = "    out = []\n    {}\n    out.append(x[0])\n    return x\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ALIAS.format("other = out"), "`other` holds the list `out`"),
        (ALIAS.format("pair = (out, 1)"), "`pair` holds the list `out`"),
        ("    out = x + 1\n    out.append(x[0])\n    return out\n", "`append` is for lists, and `out` is a"),
        (
            "    out = []\n" + LOOP.format("out.append((row, row[0]))", "stack(out)"),
            "the items have different shapes",
        ),
        ("    out = [x[0, 0]]\n" + LOOP.format("out.append(row)", "stack(out)"), "have different types"),
        (
            "    out, other = [], 0\n    other = out\n" + LOOP.format("out.append(row)", "other"),
            "`other` holds",
        ),
        ("    out = []\n    pair = (out, 1)\n" + LOOP.format("out.append(row)", "pair"), "`pair` holds"),
        ("    out = []\n" + LOOP.format("out.append(row + q)", "stack(out)"), "unknown name `q`"),
    ],
)
def test_a_mistake_is_located(body, message):
    with pytest.raises(nnmagic.TinyNNError) as error:
        nnmagic.compile(f'def f(x: Tensor[("n", 3), f64]):\n{body}')
    first = error.value.diagnostics[0]
    assert message in first.message
    assert first.span.line >= 2
