"""Sizes that differ from call to call get names (nnmagic/functions/cells/varying_sizes.py); NumPy judges."""

import pickle

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)

#: What is written, how arguments are made of a size, and of how many sizes code of their own is made.
PROGRAMS = {
    "a sum": ("x", "return x.sum() * len(x)", lambda n: [RNG.random(n)]),
    "operands": ("x, y", "return x + y * 2", lambda n: [RNG.random(n), RNG.random(n)]),
    "products": ("a, b", "return a @ b", lambda n: [RNG.random((3, n)), RNG.random((n, n + 1))]),
    "a loop": (
        "x, k",
        "s = 0.0\n    for i in range(0, len(x), k):\n        s += x[i] * i\n    return s",
        lambda n: [RNG.random(n), n // 2 + 1],
    ),
    "an axis": ("x, axis", "return x.mean(axis)", lambda n: [RNG.random((n, 4)), n % 2]),
    "a default": ("x, times=3", "return np.tile(x, times)", lambda n: [RNG.random(n)]),
    "a list": ("x", "return sum(x) + len(x)", lambda n: [list(range(n))]),
    "rows of a list": ("x", "return sum([a * b for a, b in x])", lambda n: [[[i, i + 1] for i in range(n)]]),
    "sizes that decide": (
        "x",
        "if len(x) % 2:\n        return x\n    return x[:, None]",
        lambda n: [RNG.random(n)],
    ),
    "a name of its own": ("x", "x_0 = 5\n    return x * x_0 + x.shape[0]", lambda n: [RNG.random(n)]),
    "none and one": ("x, y", "return x + y", lambda n: [RNG.random((n - 4) % 7), RNG.random((n - 4) % 7)]),
    "broadcast at last": ("x, y", "return x * y", lambda n: [RNG.random(1 if n > 9 else n), RNG.random(n)]),
    "rows and a table": ("x, t", "return t[x]", lambda n: [RNG.integers(0, 3, n), RNG.random(3)]),
}


def _both(name, **options):
    head, body, make = PROGRAMS[name]
    names = {"np": np}
    source = f"def f({head}):\n    {body}\n"
    exec(source, names)
    return nnmagic.compile(source, namespace={"np": np}, engine="numpy", **options), names["f"], make


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_size_gives_what_python_gives(name):
    f, wanted, make = _both(name)
    for size in [*range(3, 13), 6, 3]:
        arguments = make(size)
        given, right = f(*arguments), wanted(*arguments)
        assert np.shape(given) == np.shape(right)
        np.testing.assert_allclose(given, right)


@pytest.mark.parametrize("name", ["a sum", "operands", "products", "a loop", "a default", "a list"])
def test_a_few_compilations_serve_all_sizes(name):
    f, _, make = _both(name)
    for size in range(3, 15):
        f(*make(size))
    assert len(f.specializations) == 5
    again = pickle.loads(pickle.dumps(f))
    again(*make(40))
    assert len(again.specializations) in (5, 6)


def test_sizes_that_are_equal_in_each_call_get_one_name():
    f, _, make = _both("products")
    for size in range(3, 8):
        f(*make(size))
    assert "Tensor[(3, 'a_1'), f64]" in f.annotated[-1]
    assert "Tensor[('a_1', 'b_1'), f64]" in f.annotated[-1]


def test_machine_code_of_named_sizes():
    f = nnmagic.compile("def f(x, y):\n    return (x * y).sum() - len(y)\n")
    for size in (2, 3, 4, 5, 6, 1, 0, 1000):
        x, y = RNG.random(size), RNG.random(size)
        np.testing.assert_allclose(f(x, y), (x * y).sum() - size)
    assert len(f.specializations) == 6


def test_calls_of_known_types_check_their_arguments():
    f = nnmagic.compile("def f(x, n, by=2):\n    return x * n + by\n", engine="numpy")
    x = RNG.random((3, 2))
    for _ in range(3):
        np.testing.assert_allclose(f(x, 3), x * 3 + 2)
        np.testing.assert_allclose(f(x.T, 3.5), x.T * 3.5 + 2)
        np.testing.assert_allclose(f(x[::-1], True), x[::-1] + 2)
        np.testing.assert_allclose(f(x, 3, 4), x * 3 + 4)
        np.testing.assert_array_equal(f(x.astype("int32"), 3), x.astype("int32") * 3 + 2)
        np.testing.assert_allclose(f(x.view(np.recarray), 3), x * 3 + 2)
        np.testing.assert_allclose(f(x, np.float32(3)), x * np.float32(3) + 2)
        np.testing.assert_allclose(f(x, np.int8(-3)), x * -3 + 2)
        out = np.empty((3, 2))
        assert f(x, 3, out=out) is out
        with pytest.raises(TypeError, match="missing"):
            f(x)
        with pytest.raises(ValueError, match="is outside"):
            f(x, 2**70)


def test_arguments_that_change_are_those_of_each_call():
    f = nnmagic.compile("def f(x, y):\n    x += y\n    return x.sum()\n", engine="numpy")
    for size in range(2, 9):
        for _ in range(2):
            x, y = np.ones(size), np.ones(size)
            assert f(x, y) == 2 * size
            assert x.tolist() == [2] * size
        with pytest.raises(ValueError, match="shares memory"):
            f(x, x)


@pytest.mark.parametrize("what", ["x.max()", "np.argmin(x)", "min(x)"])
def test_arrays_of_no_elements_keep_their_errors(what):
    f = nnmagic.compile(f"def f(x):\n    return {what}\n", engine="numpy")
    for size in range(1, 8):
        f(np.arange(float(size)))
    with pytest.raises(nnmagic.TinyNNError, match="of no elements"):
        f(np.zeros(0))
