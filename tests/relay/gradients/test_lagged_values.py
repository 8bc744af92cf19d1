"""Gradients of loops over what earlier rounds stored: one array for all rounds, elements on tapes.

`engine/relax/codegen/sinking` has arrays changed after they are read. The judge are differences of the
function itself.
"""

import textwrap

import numpy as np
import pytest

import nnmagic

LAGGED = {
    "the last item of a list": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            h = [1.0]
            for t in range(len(y)):
                h.append(p[0] * h[-1] + p[1] * y[t])
            return sum(h) / len(h)
    """,
    "a while loop": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            t = 1
            s = 0.0
            while t < len(y):
                e[t] = y[t] - p[0] * e[t - 1] - p[1]
                s += e[t] ** 2
                t += 1
            return s
    """,
    "rows of a matrix": """
        def f(p: Tensor[(2, 2), f64], y: Tensor[("n",), f64]) -> f64:
            x = zeros((len(y), 2))
            for t in range(1, len(y)):
                x[t] = tanh(p @ x[t - 1] + y[t])
            return sum(x * x)
    """,
    "a list of rows": """
        def f(p: Tensor[(2, 2), f64], y: Tensor[("n",), f64]) -> f64:
            xs = [zeros(2)]
            for t in range(1, len(y)):
                xs.append(tanh(p @ xs[-1] + y[t]))
            return sum(array(xs) ** 2)
    """,
    "branches": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            for t in range(1, len(y)):
                if y[t] > 0:
                    e[t] = p[0] * e[t - 1] + y[t]
                else:
                    e[t] = p[1] * e[t - 1] - y[t] ** 2
            return sum(e * e)
    """,
    "two arrays": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            a = zeros(len(y))
            b = zeros(len(y))
            for t in range(1, len(y)):
                a[t] = p[0] * b[t - 1] + y[t]
                b[t] = p[1] * a[t] - 0.1 * a[t - 1]
            return sum(a * b)
    """,
    "elements that are added to": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            out = zeros(len(y) + 3)
            for t in range(len(y)):
                out[t] += p[0] * y[t]
                out[t + 1] += p[1] * out[t]
            return sum(out * out)
    """,
    "an inner loop that reads": """
        def f(p: Tensor[(3,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            for t in range(3, len(y)):
                s = y[t]
                for k in range(3):
                    s -= p[k] * e[t - 1 - k]
                e[t] = s
            return sum(e * e)
    """,
    "two lists": """
        def f(p: Tensor[(3,), f64], y: Tensor[("n",), f64]) -> f64:
            S = [0.99]
            I = [0.01]
            loss = 0.0
            for t in range(len(y)):
                new = p[0] * S[t] * I[t]
                S.append(S[t] - new)
                I.append(I[t] + new - p[1] * I[t])
                loss += (I[t + 1] - p[2] * y[t]) ** 2
            return loss
    """,
    "an early end": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            s = 0.0
            for t in range(1, len(y)):
                e[t] = y[t] - p[0] * e[t - 1]
                if e[t] > 1e9:
                    break
                s += p[1] * e[t] * e[t]
            return s
    """,
    "small matrices": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            F = array([[1.0, 1.0], [0.0, 1.0]])
            Q = eye(2) * exp(p[0])
            x = zeros(2)
            P = eye(2)
            ll = 0.0
            for t in range(len(y)):
                x = F @ x
                P = F @ P @ F.T + Q
                s = P[0, 0] + exp(p[1])
                e = y[t] - x[0]
                k = P[:, 0] / s
                x = x + k * e
                P = P - outer(k, P[0])
                ll -= 0.5 * (log(s) + e * e / s)
            return ll
    """,
    "elements of a matrix": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            d = zeros((len(y), 4))
            for i in range(1, len(y)):
                for j in range(1, 4):
                    d[i, j] = p[0] * d[i - 1, j] + p[1] * d[i, j - 1] + y[i]
            return d[len(y) - 1, 3]
    """,
    "branches in branches": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = zeros(len(y))
            for t in range(2, len(y)):
                if y[t] > 0.5:
                    e[t] = p[0] * e[t - 1] * e[t - 2] + y[t]
                elif y[t] > 0.0:
                    if e[t - 1] > 0:
                        e[t] = p[1] * e[t - 1]
                    else:
                        e[t] = p[0] + e[t - 2] * e[t - 2]
                else:
                    e[t] -= y[t] * p[0]
            return sum(e * e)
    """,
    "an element that is read before it is replaced": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            e = ones(4)
            s = 0.0
            for t in range(len(y)):
                k = t % 4
                old = e[k]
                e[k] = p[0] * old * old + p[1] * y[t]
                s += old * e[(k + 1) % 4]
            return s
    """,
    "elements of elements": """
        def f(p: Tensor[(2,), f64], y: Tensor[("n",), f64]) -> f64:
            d = zeros((3, 2, 4))
            for t in range(len(y)):
                row = d[t % 3]
                d[t % 3, 1, t % 4] = p[0] * row[0][t % 4] + p[1] * row[1, (t + 1) % 4] + y[t]
                d[t % 3, 0, t % 4] += d[t % 3][1][t % 4]
            return sum(d * d)
    """,
}

SHAPES = {
    "rows of a matrix": (2, 2),
    "a list of rows": (2, 2),
    "an inner loop that reads": (3,),
    "two lists": (3,),
}


def compile_both(kind, engine):
    shape = SHAPES.get(kind, (2,))
    source = textwrap.dedent(LAGGED[kind])
    gradient = f"""
def gradient(p: Tensor[{shape}, f64], y: Tensor[("n",), f64]):
    return grad(f)(p, y)
"""
    f = nnmagic.compile(source, engine=engine, cache=False)
    return f, nnmagic.compile(source + gradient, engine=engine, cache=False), np.full(shape, 0.2)


def check(kind, engine, counts, scale=0.5):
    f, gradient, p = compile_both(kind, engine)
    for count in counts:
        y = np.random.default_rng(count).standard_normal(count) * scale
        wanted = np.zeros(p.shape)
        for place in np.ndindex(*p.shape):
            step = np.zeros(p.shape)
            step[place] = 1e-6
            wanted[place] = (f(p + step, y) - f(p - step, y)) / 2e-6
        np.testing.assert_allclose(gradient(p, y), wanted, rtol=1e-5, atol=1e-7 * (1 + abs(wanted).max()))


@pytest.mark.parametrize("kind", LAGGED)
def test_lagged_values(kind):
    check(kind, "numpy", (1, 2, 5, 13))


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("kind", LAGGED)
def test_lagged_values_as_machine_code(kind):
    check(kind, "auto", (1, 2, 5, 13))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "kind", ["branches", "an early end", "elements of a matrix", "a while loop", "an inner loop that reads"]
)
def test_no_round_copies_an_array(kind):
    # 30,000 rounds with one copy each would need 7 GB, and take a minute.
    check(kind, "auto", (30_000,), 0.1)


def gradient_of(source, engine, parameters="x: f64, n: i64", which="0"):
    source = textwrap.dedent(source)
    names = ", ".join(part.split(":")[0] for part in parameters.split(", ") if ":" in part)
    text = f"{source}\ndef gradient({parameters}):\n    return value_and_grad(f, {which})({names})\n"
    return nnmagic.compile(text, engine=engine, cache=False)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_a_loop_of_no_rounds_has_the_counter_of_its_beginning(engine):
    f = gradient_of(
        """
        def f(x: f64, n: i64):
            i = 0
            while i < n:
                x = x * 1.5
                i = i + 1
            return x * (i + 1)
        """,
        engine,
    )
    for rounds in (-3, -1, 0):
        assert f(2.0, rounds) == (2.0, 1.0)
    assert f(2.0, 2) == (2.0 * 1.5**2 * 3, 1.5**2 * 3)


def test_the_end_of_a_loop_may_be_a_narrow_integer():
    f = gradient_of(
        """
        def f(x: f64, n: Tensor[(), i32]):
            i = int32(0)
            while i < n:
                x = x * 1.5
                i = i + int32(1)
            return x
        """,
        "numpy",
        "x: f64, n: Tensor[(), i32]",
    )
    assert f(2.0, np.int32(3)) == (2.0 * 1.5**3, 1.5**3)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_loops_of_other_steps_have_tapes_of_their_own(engine):
    f = gradient_of(
        """
        def g(x: f64, n: i64, step: i64):
            i = 0
            while i < n:
                x = x * x * 0.9 + i * 0.1
                i += step
            return x

        def f(x: f64, n: i64):
            return g(x, 40, 8) + g(x, 60, 12)
        """,
        engine,
    )

    def reference(x):
        total = 0.0
        for n, step in ((40, 8), (60, 12)):
            y = x
            for i in range(0, n, step):
                y = y * y * 0.9 + i * 0.1
            total += y
        return total

    value, slope = f(0.3, 0)
    np.testing.assert_allclose(value, reference(0.3))
    np.testing.assert_allclose(slope, (reference(0.3 + 1e-7) - reference(0.3 - 1e-7)) / 2e-7, rtol=1e-5)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
@pytest.mark.parametrize(
    ("change", "wanted"), [("y = z * 2.0", np.zeros(6)), ("y = y[1:]", [0, 0, 0, 1, 1, 1])]
)
def test_arrays_whose_sizes_change_have_gradients_of_their_sizes(engine, change, wanted):
    f = nnmagic.compile(
        f"""def f(x: Tensor[("n",), f64], z: Tensor[("m",), f64], k: i64):
    y = x * 1.0
    for i in range(k):
        {change}
    return y.sum()

def gradient(x: Tensor[("n",), f64], z: Tensor[("m",), f64], k: i64):
    return grad(f, 0)(x, z, k)
""",
        engine=engine,
        cache=False,
    )
    np.testing.assert_array_equal(f(np.ones(6), np.ones(2), 3), wanted)
