"""Names of views are written out where one memory has several names; Python on NumPy is the judge."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import nnmagic

#: Bodies of a function of a matrix ``x`` and an int ``k``, which change memory by one name and read another.
VIEWS = {
    "another name": "y = x.copy()\nz = y\ny[0] = 1\nreturn z",
    "another name is changed": "y = x.copy()\nz = y\nz[0] = 1\nreturn y",
    "a row is read": "y = x.copy()\nrow = y[0]\ny[0, 1] = 1\nreturn row",
    "a row is changed": "y = x.copy()\nrow = y[0]\nrow[1] = 1\nreturn y",
    "rows from behind": "y = x.copy()\nz = y[::-1]\ny[0] = 1\nreturn z",
    "in a branch": "y = x.copy()\nz = y\nif x[0, 0] > 0:\n    y[0] = 1\nreturn z",
    "in a loop": "y = x.copy()\nz = y\nfor i in range(100):\n    y[0] = i\nreturn z",
    "fields of one array": """
        q = np.zeros((3, *x.shape))
        p, u, v = q[0], q[1], q[2]
        p[:] = x
        for _ in range(k):
            u[:, :-1] -= 0.5 * (p[:, 1:] - p[:, :-1])
            v[:-1] -= 0.5 * (p[1:] - p[:-1])
            p[:, 1:-1] -= 0.5 * (u[:, 1:-1] - u[:, :-2])
            q *= 0.99
        return q, np.abs(p).max()
    """,
    "rows of a loop": """
        m = x.copy()
        for i in range(1, len(m)):
            above, row = m[i - 1], m[i]
            row[1:] -= above[:-1] * 0.5
            above += row[0]
        return m
    """,
    "slices of slices": """
        y = x.copy()
        part = y[:, ::2]
        even, odd = part[::2], part[1::2]
        odd[:1] -= 0.5 * even[:1]
        even[1:] += 0.25 * odd[:1]
        part[0, 0] = 7.0
        return y, even, odd
    """,
    "the middle of an array": """
        u = x.copy()
        centre = u[1:-1, 1:-1]
        for _ in range(k):
            centre += 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] - 2.0 * centre)
            centre[0] = 0.0
        return u
    """,
    "bounds of the call": "y = x.copy()\nz = y[k:]\nz[0] = 3.0\ny += 1\nreturn z, y",
    "in a local function": """
        def change(y):
            row = y[1]
            row[0] = 5.0
            y[:, 1] += row[0]
            return y, row

        return change(x.copy())
    """,
    "one name twice": """
        y = x.copy()
        for i in range(2):
            row = y[i]
            row *= 2.0
        for j in range(k):
            row = y[j]
            row[0] += y[0, 1]
        return y
    """,
}

X = np.arange(1.0, 31.0).reshape(5, 6)


def of_numpy(body: str) -> object:
    names: dict = {"np": np}
    exec(f"def f(x, k):\n{textwrap.indent(body, '    ')}", names)
    return names["f"](X.copy(), 3)


@pytest.mark.parametrize("name", VIEWS)
def test_all_names_show_the_same_memory(name: str) -> None:
    body = textwrap.dedent(VIEWS[name]).strip()
    source = f'def f(x: Tensor[("n", "m"), f64], k: i64):\n{textwrap.indent(body, "    ")}\n'
    result = nnmagic.compile(source, namespace={"np": np}, cache=False)(X, 3)
    expected = of_numpy(body)
    pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_views_of_an_array_of_the_caller() -> None:
    source = """
def f(q: InOut[Tensor[("n", "m"), f64]], c: f64):
    p, u = q[0], q[1]
    for i in range(3):
        u[:-1] -= c * (p[1:] - p[:-1])
        p[1:] -= c * u[:-1]
    return p.sum()
"""
    q, expected = X[:2].copy(), X[:2].copy()
    p, u = expected
    for _ in range(3):
        u[:-1] -= 0.1 * (p[1:] - p[:-1])
        p[1:] -= 0.1 * u[:-1]
    assert nnmagic.compile(source)(q, 0.1) == pytest.approx(p.sum(), rel=1e-13)
    np.testing.assert_allclose(q, expected, rtol=1e-13)


@pytest.mark.parametrize(
    "body",
    [
        "y = x.copy()\nz = y[i]\ny[0] = 1.0\ni = 1\nreturn z",  # the index is another one then
        "y = x.copy()\nz = y[0]\ny[0] = 1.0\ny = x * 2.0\nreturn z, y",  # the name is another array's
        "y = x.copy()\nz = y[0]\ng = lambda w: w + z\ny[0] = 1.0\nreturn g(1.0)",
    ],
)
def test_what_cannot_be_written_out_is_refused_in_the_words_of_the_cell(body: str) -> None:
    text = textwrap.indent(f"i = 0\n{body}", "    ")
    with pytest.raises(nnmagic.TinyNNError, match="may share memory with `y`, which was changed"):
        nnmagic.compile(f'def f(x: Tensor[("n", "m"), f64]):\n{text}\n')
