"""Items of lists are assigned, as in Python: in unrolled loops, branches and loops that are functions."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError

X = np.arange(3.0)
ADAM = """def f(w, b, gw, gb):
    params, grads = [w, b], [gw, gb]
    m = [np.zeros_like(p) for p in params]
    v = [np.zeros_like(p) for p in params]
    for t in range({rounds}):
        for i in range(len(params)):
            m[i] = 0.9 * m[i] + 0.1 * grads[i]
            v[i] = 0.99 * v[i] + 0.01 * grads[i] ** 2
            params[i] = params[i] - 0.1 * m[i] / (np.sqrt(v[i]) + 1e-8)
    return params[0], params[1]
"""
GRADIENTS = (np.ones((2, 3)), X, np.full((2, 3), 0.5), X)

PROGRAMS: dict[str, tuple[str, tuple[object, ...]]] = {
    "a few rounds": (ADAM.format(rounds=3), GRADIENTS),
    "many rounds": (ADAM.format(rounds=60), GRADIENTS),
    "rounds that the call knows": (
        "def f(w, g, n):\n    m = [w * 0, w + 1]\n    for t in range(n):\n        for i in range(2):\n"
        "            m[i] = 0.9 * m[i] + g\n    return m[0], m[1]\n",
        (X, X + 1, 5),
    ),
    "updates": (
        "def f(x):\n    m = [x * 1, x * 2]\n    m[1] += x\n    m[0] *= 2\n    return m[0], m[1]\n",
        (X,),
    ),
    "numbers": (
        "def f(x, k):\n    c = [0.0] * 3\n    for i in range(k):\n"
        "        c[0] += x[0]\n        c[-1] = c[0] + 1\n"
        "    return c[0] + c[2]\n",
        (X + 1, 4),
    ),
    "a copy": (
        "def f(x):\n    m = [x, x + 1]\n    n = list(m)\n    n[0] = x * 5\n    return m[0] + n[0]\n",
        (X,),
    ),
    "an exchange": (
        "def f(x):\n    m = [x, x + 1]\n    m[0], m[1] = m[1], m[0]\n    return m[0], m[1]\n",
        (X,),
    ),
    "a branch": (
        "def f(x, k):\n    m = [x, x + 1]\n    if k > 0:\n        m[0] = x * 5\n    return m[0]\n",
        (X, 1),
    ),
    "layers": (
        "def f(x):\n    h = [x] * 4\n    for i in range(1, 4):\n        h[i] = np.tanh(h[i - 1] * 0.5)\n"
        "    return h[3]\n",
        (X,),
    ),
    "a list that grew": (
        "def f(x, k):\n    rows = []\n    for i in range(100):\n        rows.append(x * i)\n    rows[k] = x\n"
        "    return rows[3] + rows[4]\n",
        (X, 3),
    ),
    "items by numbers of the call are updated": (
        "def f(x, k):\n    rows, c, d = [x + 1, x * 2, x - 1], [1.0, 2.0], [x[0], x[1]]\n    rows[k] += x\n"
        "    rows[k - 1] *= 2\n    c[k] += x[1]\n    d[k] -= 1\n"
        "    return np.stack(rows), c[0], c[1], d[1]\n",
        (X, 1),
    ),
    **{
        f"a list of {repeated}": (
            f"def f(x, n):\n    m = {repeated}\n    for i in range(1, 3):\n        m[i] = m[i - 1] + {step}\n"
            "    m[n] += 1\n    return np.array(m), len(m), m[2]\n",
            (X, 2),
        )
        for repeated, step in (
            ("[0] * (n + 1)", "i"),
            ("(n + 1) * [0.0]", "x[i]"),
            ("[1, 2.5] * len(x)", "0.5"),
            ("[x[0], x[1]] * n", "x[1]"),
            ("[0j] * (n + 3)", "1j * i"),
            ("[0j, 1] * 2", "2j"),
            ("[0] * 20_000", "i"),
        )
    },
    "a sieve": (
        "def f(n):\n    is_prime = [True] * (n + 1)\n    for i in range(2, n + 1):\n        if is_prime[i]:\n"
        "            for j in range(i * i, n + 1, i):\n                is_prime[j] = False\n"
        "    return sum(is_prime), np.array(is_prime)\n",
        (30,),
    ),
    "none of a list": ("def f(n):\n    m = [1, 2] * (n - 4)\n    return len(m), np.array(m + [3])\n", (2,)),
    "a copy of a list whose length the call knows": (
        "def f(n):\n    m = [0] * n\n    other = list(m)\n    m[0] = 5\n    other[n - 1] = 7\n"
        "    return np.array(m), np.array(other)\n",
        (3,),
    ),
    "arrays in arrays": (
        "def f(x):\n    return x in x, x + 9 in x, x[:1] in x, np.ones((2, 1)) not in x\n",
        (X,),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_python(name: str) -> None:
    source, arguments = PROGRAMS[name]
    names: dict[str, object] = {"np": np}
    exec(source, names)
    expected = names["f"](*arguments)  # type: ignore[operator]
    results = nnmagic.compile(source, namespace={"np": np}, engine="numpy")(*arguments)
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "m = [x, x + 1]\n    n = m\n    n[0] = x",
            "`m` holds the list `n`, which Python would change there, too",
        ),
        ("m = [x, x + 1]\n    m[2] = x", "the index 2 is out of range for a list of 2"),
        ("m = [x, x[:1]]\n    m[k] = x", "the index of an item must be known at compile time"),
        ("m = (x, x + 1)\n    m[0] = x", "the items of a tuple or a list cannot be assigned"),
        ("y = x + 1\n    m = [y, x]\n    m[0] += 1", "may share memory with `y`, which Python would change"),
        ("m = [x, x + 1]\n    m[0] += 1", "this item may share memory with `x`"),
        ("m = [x + 1] * 2\n    m[0] += 1", "may share memory with another item"),
        ("m = [x + 1] * 2\n    m[k] += 1", "may share memory with another item"),
        (
            "y = x + 1\n    m = [x * 2, y]\n    m[k] += 1",
            "may share memory with `y`, which Python would change",
        ),
    ],
)
def test_what_python_would_show_elsewhere_is_refused(body: str, message: str) -> None:
    source = f"def f(x: Tensor[(3,), f64], k: i64):\n    {body}\n    return m[0]\n"
    with pytest.raises(TinyNNError, match=message.replace("(", r"\(")):
        nnmagic.compile(source)


@pytest.mark.parametrize(
    "change", ["r[0] = 9", "r[i] += 1", "r.append(3)", "r.pop()", "r += [1]", "r.sort()"]
)
@pytest.mark.parametrize("given", [[[2, 1], [3]], [[2, 1], [3, 4]]])
def test_lists_inside_of_the_callers_change_under_no_other_name(change: str, given: object) -> None:
    source = f"def f(a, i):\n    r = a[0]\n    {change}\n    return r\n"
    with pytest.raises(TinyNNError, match="Python would change"):
        nnmagic.compile(source, engine="numpy")(given, 0)


@pytest.mark.parametrize("made", ["[r, [3]]", "(r, 5)", "[[1], r]"])
def test_an_item_whose_number_the_call_knows_changes_in_no_list_that_others_hold(made: str) -> None:
    source = f"def f(i):\n    r = [1, 2]\n    q = {made}\n    r[i] += 2\n    return q\n"
    with pytest.raises(TinyNNError, match="`q` holds the list `r`"):
        nnmagic.compile(source, engine="numpy")(0)


def test_bytes_are_arrays_of_their_numbers() -> None:
    source = "def f(x):\n    s = 0\n    for c in x:\n        s = s * 31 + c\n    return s\n"
    expected = 0
    for number in b"hello":
        expected = expected * 31 + number
    for given in (b"hello", bytearray(b"hello")):
        assert nnmagic.compile(source, engine="numpy")(given) == expected
        typed = nnmagic.compile('def f(x: Tensor[("n",), u8]):\n    return x + 1\n', engine="numpy")
        np.testing.assert_array_equal(typed(given), np.frombuffer(b"ifmmp", np.uint8))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("arguments", ["n, d", "n", "8, d", "n, 1 / n", "7, d=d", "len(x), d"])
def test_frequencies_of_numbers_that_the_call_knows(name: str, arguments: str) -> None:
    source = f"def f(x, n, d):\n    return np.fft.{name}({arguments})\n"
    f = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    for n, d in ((8, 0.5), (7, 2.0), (1, 1.0)):
        expected = eval(f"np.fft.{name}({arguments})", {"np": np, "x": X, "n": n, "d": d})
        result = f(X, n, d)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_einsum_takes_the_argument_optimize() -> None:
    source = "def f(x):\n    return np.einsum('i,i->', x, x, optimize=True)\n"
    np.testing.assert_allclose(nnmagic.compile(source, namespace={"np": np}, engine="numpy")(X), X @ X)
