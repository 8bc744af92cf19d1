"""What people type who know NumPy and numba: imports, decorators, ``*args``, dictionaries, membership."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNWarning

X = np.random.default_rng(0).random(12)

#: A cell as it is pasted, with its decorators and imports, and the arguments of a call.
PASTED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "njit": (
        """
import math
import numpy as np
from numba import njit, prange

@njit
def square(x):
    return x * x

@njit(parallel=True, fastmath=True)
def f(x):
    out = np.empty(len(x))
    for i in prange(len(x)):
        out[i] = math.sqrt(square(x[i]) + 1)
    return out
""",
        (X,),
    ),
    "other-compilers": (
        "import jax\n@jax.jit\ndef g(x):\n    return x + 1\n\n@torch.compile\ndef f(x):\n    return g(x)\n",
        (X,),
    ),
    "vectorize": (
        "@vectorize(['float64(float64, float64)'])\ndef f(x, y):\n    if x > y:\n        return x - y\n"
        "    return 0.0\n",
        (X, X[::-1].copy()),
    ),
    "rows-in-a-helper": (
        """
def inside(row):
    if row[0] > 0.5:
        return True
    for v in row:
        if v > 0.9:
            return True
    return False

def f(x):
    out = np.empty(len(x), dtype=bool)
    for i in prange(len(x)):
        out[i] = inside(x[i])
    return out
""",
        (X.reshape(4, 3),),
    ),
    "star": (
        "def g(x, *rest, k=1):\n    for y in rest:\n        x = x + y * k\n    return x\n\n"
        "def f(*xs):\n    return g(*xs) + g(xs[0], k=2) + g(xs[0], xs[1], xs[2], k=3) + len(xs)\n",
        (X, X, X),
    ),
    "star-of-an-array": ("def f(x):\n    return np.subtract(*np.percentile(x, [75, 25]))\n", (X,)),
    "a-range-as-index": (
        "def f(x):\n    y = x.copy()\n    y[range(2, 9, 3)] -= 1\n    return y, x[range(4)]\n",
        (X,),
    ),
    "membership": (
        "def f(x, k):\n    found = k in (2, 3), k not in (2, 4), k in range(4)\n"
        "    return *found, k in np.arange(3), x[1] in x, 2.0 in x\n",
        (X, 3),
    ),
    "lists": (
        "def f(x, k):\n    w = [1.0, 2.5, 4.0]\n    t = list(range(k))\n"
        "    return w[k % 3] * x, t[k - 1], sum(t)\n",
        (X, 5),
    ),
    "an-array-is-copied": ("def f(x):\n    y = np.array(x)\n    y[0] = 5\n    return x[0] + y\n", (X,)),
    "calls-in-expressions": (
        """
def bump(a, i):
    a[i] += 1
    return a[i]

def f(x):
    a = np.zeros(4)
    total = bump(a, 0) * 10 + bump(a, 1)
    total += bump(a, 0)
    if bump(a, 2) > 0.5:
        total += 100
    first, second = bump(a, 0), bump(a, 2)
    return total, first, second, a, x[0]
""",
        (X,),
    ),
}


@pytest.mark.parametrize("name", PASTED)
def test_what_is_pasted_runs(name: str) -> None:
    source, args = PASTED[name]
    names: dict[str, Any] = {"np": np, "prange": range}
    plain = "\n".join(
        line for line in source.split("\n") if not line.startswith(("@", "from numba", "import jax"))
    )
    exec(plain, names)
    f = np.vectorize(names["f"]) if "@vectorize" in source else names["f"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TinyNNWarning)
        got = nnmagic.compile(source, engine="numpy")(*args)
    expected = f(*args)
    got, expected = (each if isinstance(each, tuple) else (each,) for each in (got, expected))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_decorator_of_another_compiler_is_named() -> None:
    with pytest.warns(TinyNNWarning, match="`@numba.njit` is left out"):
        nnmagic.compile("@numba.njit(cache=True)\ndef f(x: f64):\n    return x\n", engine="numpy")


@pytest.mark.parametrize("decorator", ["cached", "stencil"])
def test_other_decorators_say_what_to_do(decorator: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match="takes no decorator") as error:
        nnmagic.compile(f"@{decorator}\ndef f(x: f64):\n    return x\n")
    assert error.value.diagnostics[0].hint


def test_rounds_that_threads_cannot_share_run_in_order() -> None:
    source, args = PASTED["rows-in-a-helper"]
    names: dict[str, Any] = {"np": np, "prange": range}
    exec(source, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TinyNNWarning)
        got = nnmagic.compile(source)(*args)
    np.testing.assert_array_equal(got, names["f"](*args))


def test_dictionaries_are_arguments() -> None:
    @nnmagic.function(engine="numpy")
    def step(params, x):
        params = dict(params)
        loss = ((x @ params["w"] + params["layer"]["b"]) ** 2).sum()
        params["w"] = params["w"] * 0.5
        return params, loss, len(params)

    params = {"w": np.ones((3, 2)), "layer": {"b": np.zeros(2)}, "rate": 0.1}
    changed, loss, size = step(params, np.ones((4, 3)))
    assert list(changed) == list(params)
    np.testing.assert_array_equal(changed["w"], np.full((3, 2), 0.5))
    np.testing.assert_array_equal(params["w"], np.ones((3, 2)))
    assert (loss, size) == (72.0, 3)


def test_a_dictionary_of_the_caller_is_not_changed() -> None:
    @nnmagic.function(engine="numpy")
    def step(params):
        for k in params:
            params[k] = params[k] - 1.0
        return params

    with pytest.raises(nnmagic.TinyNNError, match="`params` is the caller's dictionary"):
        step({"w": np.ones(3)})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array(["2020-01-01"], "M8[D]"), r"x.astype\('int64'\)"),
        (np.array([1.0, None]), r"x.astype\('float64'\)"),
    ],
)
def test_other_arrays_say_what_to_give(value: np.ndarray, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        nnmagic.function(engine="numpy")(lambda_free)(value)


def lambda_free(x):
    return x * 2


def test_the_signature_shows_the_star() -> None:
    import inspect

    def total(*arrays, scale=1.0):
        return sum(a.sum() for a in arrays) * scale

    compiled = nnmagic.function(engine="numpy")(total)
    assert str(inspect.signature(compiled)) == "(*arrays, scale=1.0)"
    assert compiled(X, X, scale=2.0) == pytest.approx(4 * X.sum())
    with pytest.raises(TypeError, match="unexpected keyword"):
        compiled(X, other=1)


@pytest.mark.parametrize("n", [6, 7, 15, 20])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_of_a_length_of_the_call(name: str, n: int) -> None:
    data = X.reshape(3, 4) + (0 if name == "rfft" else 1j * X.reshape(4, 3).T)
    source = f"def f(x: Tensor[(3, 4), {'f64' if name == 'rfft' else 'c128'}], n: i64):\n"
    source += f"    return np.fft.{name}(x, n), np.fft.{name}(x, n=n, axis=0, norm='ortho')\n"
    got = nnmagic.compile(source, engine="numpy")(data, n)
    function = getattr(np.fft, name)
    for one, other in zip(got, (function(data, n), function(data, n, axis=0, norm="ortho")), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("k", [-3, 0, 4])
def test_a_partition_at_a_place_of_the_call(k: int) -> None:
    source = (
        "def f(x: Tensor[('n',), f64], k: i64):\n    return np.partition(x, k), x[np.argpartition(x, k)]\n"
    )
    for got in nnmagic.compile(source.replace("'", '"'), engine="numpy")(X, k):
        assert got[k] == np.sort(X)[k]
        assert (got[: k % 12] <= got[k]).all()
        assert (got[k % 12 :] >= got[k]).all()


def test_a_function_of_another_compiler_is_compiled_from_its_source() -> None:
    class Dispatcher:
        __module__ = "numba.core.registry"

        def __init__(self, py_func: Any) -> None:
            self.py_func = py_func

        def __call__(self, x: Any) -> Any:
            raise AssertionError

    compiled = nnmagic.function(engine="numpy")(Dispatcher(lambda_free))
    np.testing.assert_array_equal(compiled(X), X * 2)
    with pytest.raises(TypeError, match="takes a Python function"):
        nnmagic.function(engine="numpy")(np.sin)
