"""Functions that call themselves once and go on afterwards are two loops: no stack, no limit for loops.

`engine/relax/codegen/aot/linear_recursion` finds them; `engine/relax/codegen/aot/linear_loops` and
`engine/relax/codegen/aot/functions` emit them.
"""

import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot import planner
from nnmagic.engine.relax.codegen.aot.linear_recursion import find_linear_recursion

#: Around the ends of the first pieces of a stack, of 1024, 8192, 16384, ... bytes.
ROUNDS = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130, 1000, 1151, 1152, 1153, 5000)


@pytest.fixture
def found(monkeypatch):
    """The functions that a compilation asks about, with what is found."""
    answers = {}

    def record(function):
        answers[function.name] = find_linear_recursion(function)
        return answers[function.name]

    monkeypatch.setattr(planner, "find_linear_recursion", record)
    return answers


def compile_new(source):
    return nnmagic.compile(textwrap.dedent(source), cache=False)


def test_a_function_of_numbers(found):
    f = compile_new(
        """
        def f(n: i64, x: f64) -> f64:
            if n <= 0:
                return x
            y = f(n - 1, x * 0.5)
            return y * 0.75 + x
        """
    )

    def reference(n, x):
        xs = [x * 0.5**k for k in range(max(n, 0) + 1)]
        y = xs[-1]
        for each in xs[-2::-1]:
            y = y * 0.75 + each
        return y

    assert found["f"] is not None
    for n in (-3, *ROUNDS, 99_000):
        np.testing.assert_allclose(f(n, 3.0), reference(n, 3.0), rtol=1e-12)


def test_branches_around_the_call_and_values_of_each_dtype(found):
    f = compile_new(
        """
        def f(n: i64, odd: bool_, low: f32) -> tuple[i64, f32]:
            total = 1
            if n > 0:
                if n % 3 == 0:
                    total = 2
                else:
                    a, b = f(n - 1, not odd, low + 1.0)
                    total = a + n if odd else a - n
                    low = b * 0.5 + low
            return total * 2 % 1000003, low
        """
    )

    def reference(n, odd, low):
        total = 1
        if n > 0:
            if n % 3 == 0:
                total = 2
            else:
                a, b = reference(n - 1, not odd, np.float32(low + np.float32(1)))
                total = a + n if odd else a - n
                low = np.float32(b * np.float32(0.5) + low)
        return total * 2 % 1000003, low

    assert found["f"] is not None
    for n in range(12):
        got, wanted = f(n, n % 2 == 0, 0.25), reference(n, n % 2 == 0, np.float32(0.25))
        assert int(got[0]) == wanted[0]
        np.testing.assert_allclose(got[1], wanted[1], rtol=1e-6)


def test_arrays_of_a_level_are_its_own(found):
    """Each level has its arrays on the stack, and its results are in those of the level before."""
    f = compile_new(
        """
        def f(n: i64, x: Tensor[("m",), f64]) -> Tensor[("m",), f64]:
            if n <= 0:
                return x
            y = sin(x) + 0.5
            z = f(n - 1, y * 0.5)
            return z * y + x
        """
    )

    def reference(n, x):
        levels = [x]
        for _ in range(n):
            levels.append((np.sin(levels[-1]) + 0.5) * 0.5)
        z = levels[-1]
        for x in levels[-2::-1]:
            z = z * (np.sin(x) + 0.5) + x
        return z

    assert found["f"] is not None
    for m in (0, 1, 7, 100):
        x = np.random.default_rng(m).random(m)
        for n in ROUNDS:
            np.testing.assert_allclose(f(n, x), reference(n, x), rtol=1e-12)


@pytest.mark.full
def test_the_gradient_of_a_loop_has_as_many_rounds_as_there_are():
    f = compile_new(
        """
        def f(decay: f64, x: Tensor[("n",), f64]):
            def loss(decay):
                state = 0.0
                total = 0.0
                for value in x:
                    if value > 0:
                        state = state * decay + value
                    else:
                        state = state * decay
                    total += state * state
                return total
            return value_and_grad(loss)(decay)
        """
    )

    def reference(decay, x):
        state = slope = total = gradient = 0.0
        for value in x:
            slope = slope * decay + state
            state = state * decay + max(value, 0.0)
            total += state * state
            gradient += 2 * state * slope
        return total, gradient

    for n in (*ROUNDS, 250_001):
        x = np.random.default_rng(n).standard_normal(n)
        np.testing.assert_allclose(f(0.9, x), reference(0.9, x), rtol=1e-9)


@pytest.mark.parametrize("n", [1, 64, 3000])
def test_what_fails_on_a_level_fails_the_call_and_the_next_one_works(found, n):
    f = compile_new(
        """
        def f(n: i64, x: Tensor[("m",), f64], at: i64) -> f64:
            if n <= 0:
                return x[at]
            y = f(n - 1, x, at)
            return y + x[at + n]
        """
    )
    assert found["f"] is not None
    x = np.arange(n + 3.0)
    for at in (3, n + 3):  # out of range at the last level on the way up, at the first on the way down
        with pytest.raises(IndexError, match="out of range"):
            f(n, x, at)
        assert f(n, x, 0) == sum(range(n + 1))


def test_a_function_without_an_end_is_too_deep(found):
    f = compile_new(
        """
        def f(n: i64) -> i64:
            if n < 0:
                return 0
            return f(n + 1) + 1
        """
    )
    assert found["f"] is not None
    for _ in range(2):
        with pytest.raises(RecursionError, match="deeper than"):
            f(1)
    assert f(-1) == 0


def test_two_calls_are_no_loop(found):
    f = compile_new(
        """
        def f(n: i64) -> i64:
            if n < 2:
                return n
            return f(n - 1) + f(n - 2)
        """
    )
    assert found["f"] is None
    assert f(20) == 6765


LAGGED = {
    "an array": """
        def loss(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            total = 0.0
            t = 1
            while t < len(y):
                e[t] = y[t] - p[0] * y[t - 1] - p[1] * e[t - 1]
                total += e[t] * e[t]
                t += 1
            return total
    """,
    "an array that is read afterwards": """
        def loss(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            t = 1
            while t < len(y):
                e[t] = y[t] - p[0] * y[t - 1] - p[1] * e[t - 1]
                t += 1
            return sum(e * e)
    """,
}


@pytest.mark.parametrize("kept_in", LAGGED)
def test_what_all_levels_change_is_one_array(found, kept_in):
    # One copy a level would be 7 GB, which is refused.
    source = textwrap.dedent(LAGGED[kept_in]) + textwrap.dedent(
        """
        def slope(p: Tensor[(2,), f64], y: Tensor[("n",), f64]):
            return grad(loss)(p, y)
        """
    )
    f = compile_new(source)
    p, y = np.array([0.3, -0.2]), np.sin(np.arange(30_000.0))
    e, d_e, d_p = [0.0], 0.0, np.zeros(2)
    for t in range(1, len(y)):
        e.append(y[t] - p[0] * y[t - 1] - p[1] * e[t - 1])
    for t in range(len(y) - 1, 0, -1):
        d_e = 2 * e[t] - p[1] * d_e
        d_p -= d_e * np.array([y[t - 1], e[t - 1]])
    np.testing.assert_allclose(f(p, y), d_p, rtol=1e-9)
    is_taped = any(name.endswith("_rounds_taped") for name in found)
    assert is_taped or any(recursion is not None for recursion in found.values())


def test_a_parameter_that_levels_hand_on_and_one_returns():
    f = compile_new(
        """
        def fill(n: i64, x: Tensor[("m",), f64]) -> Tensor[("m",), f64]:
            if n <= 0:
                return x
            y = fill(n - 1, x).copy()
            y[n % len(y)] += n
            return y

        def both(n: i64, x: Tensor[("m",), f64]) -> tuple[Tensor[("m",), f64], Tensor[("m",), f64]]:
            return fill(n, x), x
        """
    )
    for n in ROUNDS:
        filled, given = f(n, np.zeros(5))
        numbers = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(filled, np.bincount(np.arange(1, n + 1) % 5, numbers, 5))
        np.testing.assert_array_equal(given, np.zeros(5))
