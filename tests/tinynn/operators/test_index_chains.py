"""Chains of subscripts, as in ``y[1:-1][i]``: read, assigned and updated as NumPy does."""

import random

import numpy as np
import pytest

import nnmagic

NUMBERS = {"i": 1, "j": -2, "k": 0, "far": 9, "two": 2, "back": -1}
SHAPE = (4, 5, 6)


def draw_item(rng: random.Random) -> str:
    def bound() -> str:
        return rng.choice(["", "", "1", "2", "-1", "-2", "i", "j", "k", "far"])

    kind = rng.randrange(6)
    if kind < 2:
        return rng.choice(["0", "1", "-1", "i", "i", "j", "k"])
    if kind == 2:
        return ":"
    return f"{bound()}:{bound()}{rng.choice(['', '', ':2', ':-1', ':-2', ':two', ':back'])}"


def draw_chain(rng: random.Random) -> str:
    indices = [[draw_item(rng) for _ in range(rng.randint(1, 2))] for _ in range(rng.choice([2, 2, 2, 3]))]
    if rng.randrange(4) == 0:
        indices[-1] = [rng.choice(["...", "np.array([1, 0])", "np.array([[True, False], [True, True]])"])]
    return "".join(f"[{', '.join(index)}]" for index in indices)


def draw_program(seed: int) -> str:
    rng = random.Random(seed)
    statement = rng.choice(
        ["y{0} = 7.0", "y{0} += 0.5", "y{0} *= y{0} + 1", "y{0} = y{0} * 2", "part = y{0}"]
    )
    named = rng.random() < 0.5
    shape = '("n", "m", 6)' if named else str(SHAPE)
    return (
        f"def f(x: Tensor[{shape}, f64], {', '.join(f'{name}: i64' for name in NUMBERS)}):\n"
        f"    y = x.copy()\n    part = y\n    {statement.format(draw_chain(rng))}\n    return y, part * 1.0\n"
    )


def by_numpy(source: str, *args):
    body = source.split("\n", 1)[1]
    scope = {"np": np}
    exec(f"def f(x, {', '.join(NUMBERS)}):\n{body}", scope)
    return scope["f"](*args)


def outcome(call):
    """The result of a call; the kind of error where there is none: a cell may find it at compile time."""
    try:
        return call()
    except (nnmagic.CompileError, IndexError, TypeError, ValueError) as error:
        return f"refused: {error}"


def check(seed: int, engine: str) -> None:
    source = draw_program(seed)
    arguments = np.random.default_rng(seed).random(SHAPE), *NUMBERS.values()
    expected = outcome(lambda: by_numpy(source, *arguments))
    compiled = {"namespace": {"np": np}, "engine": engine, "cache": False}
    result = outcome(lambda: nnmagic.compile(source, **compiled)(*arguments))
    if isinstance(expected, str) or isinstance(result, str):
        assert isinstance(expected, str), f"{source}\n{result}"
        assert isinstance(result, str), f"{source}\n{expected}"
        return
    for ours, numpys in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours, numpys, err_msg=source)


@pytest.mark.parametrize("seed", range(120))
def test_random_chains(seed):
    check(seed, "numpy")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_random_chains_in_machine_code(seed):
    check(seed, "relax")


def test_targets_of_one_statement():
    f = nnmagic.compile(
        "def f(x: Tensor[(3, 4), f64]):\n"
        "    y = x.copy()\n"
        "    y[1:][0], (y[0][1:][-1], k) = x[0], (7.0, 2)\n"
        "    return y * k\n",
        engine="numpy",
    )
    x = np.arange(12.0).reshape(3, 4)
    expected = x.copy()
    expected[1:][0], (expected[0][1:][-1], k) = x[0], (7.0, 2)
    np.testing.assert_array_equal(f(x), expected * k)


def test_elements_of_views_in_loops():
    source = (
        "def f(q: Tensor[(2, 'n', 'm'), f64], rounds: i64):\n"
        "    q = q.copy()\n"
        "    inner, edge = q[0, 1:-1, ::2], q[1, :, 1]\n"
        "    for _ in range(rounds):\n"
        "        for i in range(inner.shape[0]):\n"
        "            for j in range(1, inner.shape[1]):\n"
        "                inner[i, j] -= 0.5 * (inner[i, j - 1] - edge[i])\n"
        "        edge[-1] = inner[-1, 0]\n"
        "        q *= 0.9\n"
        "    return q\n"
    )
    scope = {}
    exec(source.replace(": Tensor[(2, 'n', 'm'), f64], rounds: i64", ", rounds"), scope)
    q = np.random.default_rng(0).random((2, 6, 7))
    result = nnmagic.compile(source, cache=False)(q, 3)
    np.testing.assert_allclose(result, scope["f"](q, 3), rtol=1e-13)
