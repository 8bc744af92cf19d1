"""Draws of random numbers in programs: the same numbers as Python draws with NumPy, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import errors_of

PROGRAMS = {
    "while": """
def f(rng: np.random.Generator):
    n = 0
    while rng.random() < 0.9:
        n += 1
    return n, rng.random()
""",
    "branches": """
def f(rng: np.random.Generator):
    x = 0.0
    for i in range(50):
        if rng.random() < 0.5:
            x += rng.normal()
        elif rng.integers(3) == 1:
            x -= rng.exponential()
        else:
            continue
        if x > 5:
            break
    return x, rng.random()
""",
    "cond": """
def f(rng: np.random.Generator):
    a = rng.normal() if rng.random() < 0.5 else rng.exponential() + rng.random()
    b = rng.random() < 0.5 and rng.random() < 0.5 or rng.random() < 0.1
    return a, b, rng.random() - rng.random() - rng.random()
""",
    "nested": """
def f(rng: np.random.Generator):
    def step():
        if rng.random() < 0.5:
            return rng.normal()
        return rng.exponential()
    total = 0.0
    for i in range(20):
        total += step() + step()
    g = lambda: rng.random() + rng.random()
    return total, g(), g() if rng.random() < 0.5 else 0.0
""",
    "alias": """
def f(rng: np.random.Generator):
    other = rng
    both = (rng, other)
    return other.random(), rng.random(), both[1].random(), [r.random() for r in both]
""",
    "comprehension": """
def f(rng: np.random.Generator, n: i64):
    a = [rng.normal() for _ in range(3)]
    b = np.array([rng.random() + rng.random() for _ in range(100)])
    c = np.array([rng.normal() for _ in range(n)])
    return a, b, c
""",
    "append": """
def f(rng: np.random.Generator, n: i64):
    rows = []
    for i in range(n):
        rows.append(rng.random(2))
    kept = []
    for i in range(n):
        y = rng.random()
        if y < 0.5:
            kept.append(y)
    return np.array(rows), np.array(kept), rng.random()
""",
    "functions": """
def draw(rng: np.random.Generator, scale: f64):
    return scale * rng.normal()
def fill(rng: np.random.Generator, a: InOut[Tensor[("n",), f64]]):
    for i in range(len(a)):
        a[i] += rng.random()
def both(rng: np.random.Generator, a: InOut[Tensor[("n",), f64]]):
    a[0] = rng.random()
    return rng.normal()
def f(rng: np.random.Generator):
    y = np.zeros(4)
    fill(rng, y)
    z = both(rng, y)
    return draw(rng, 2.0) + draw(scale=3.0, rng=rng), y, z, rng.random()
""",
    "templates": """
def pick(rng, items):
    return items[rng.integers(len(items))]
def noise(rng, x, scale=0.1):
    if rng.random() < 0.5:
        return x + rng.normal(0.0, scale, x.shape)
    return x
def jitter(rng, x):
    for i in range(len(x)):
        x[i] = x[i] + rng.random()
def f(rng: np.random.Generator):
    x = np.arange(5.0)
    a = noise(rng, x)
    y = x.copy()
    jitter(rng, y)
    return pick(rng, x), a, noise(rng, a, 2.0), y, rng.random()
""",
    "shuffle": """
def f(rng: np.random.Generator):
    x = np.arange(10)
    rng.shuffle(x)
    m = np.arange(12.0).reshape(4, 3)
    rng.shuffle(m)
    rng.shuffle(m, axis=1)
    return x, m, rng.random()
""",
    "elements": """
def f(rng: np.random.Generator):
    a = np.zeros(5)
    for i in range(20):
        a[rng.integers(5)] += rng.random()
    a[rng.integers(5)] = rng.random()
    a[1], a[2] = rng.random(), rng.random()
    return a
""",
    "seeded": """
def f(rng: np.random.Generator):
    own = np.random.default_rng(12)
    third = np.random.default_rng(5 * 7)
    fourth = np.random.default_rng([1, 2, 3])
    first = own.random(), rng.random(), own.normal(), third.random()
    return first, np.random.default_rng(7).random(), fourth.random()
""",
    "inloop": """
def f(rng: np.random.Generator):
    total = 0.0
    for i in range(10):
        own = np.random.default_rng(i)
        total += own.random() - rng.random()
    return total
""",
    "dims": """
def f(rng: np.random.Generator, x: Tensor[("n", 3), f32]):
    n = len(x)
    z = rng.standard_normal(x.shape, dtype=np.float32)
    w = rng.normal(size=(n, 2))
    i = rng.integers(0, n, n)
    orders = rng.permutation(n), rng.permutation(x), rng.choice(n, 2, replace=False)
    return x + z, w, x[i], orders, rng.uniform(x, x + 1)
""",
    "weak": """
def f(rng: np.random.Generator, x: Tensor[("n", 3), f32]):
    return x * rng.random(), x + rng.normal(), x + rng.poisson(2.0)
""",
    "walrus": """
def f(rng: np.random.Generator):
    n = 0
    while (u := rng.random()) < 0.8:
        n += 1
    return n, u
""",
    "match_loop": """
def f(rng: np.random.Generator):
    counts = np.zeros(6, dtype=np.int64)
    for _ in range(1000):
        counts[rng.integers(6)] += 1
    best = -1.0
    for i in range(30):
        for j in range(i):
            best = max(best, rng.random())
            if best > 0.999:
                return counts, best
    return counts, best
""",
    "return_early": """
def f(rng: np.random.Generator, n: i64):
    for i in range(n):
        x = rng.random()
        if x > 0.9:
            return x
    return -1.0
""",
    "assert": """
def f(rng: np.random.Generator):
    x = rng.random()
    assert x < 2
    return x + rng.random()
""",
    "sizes": """
def f(rng: np.random.Generator, n: i64):
    nothing = rng.normal(size=0), rng.integers(5, size=0), rng.permutation(0), rng.random(n - n)
    some = rng.choice(n, 3, replace=False), rng.binomial(n, 0.5, n), rng.integers(n, n + 5, (2, n))
    return nothing, some, rng.permutation(10)[:3], rng.random(None), rng.random(()), rng.choice(5, 0)
""",
    "without end": """
def f(rng: np.random.Generator, n: i64):
    while True:
        u = rng.random()
        if u > 0.7:
            break
    total, hits = 0.0, 0
    for v in rng.random(5):
        total += v
    for i in range(n):
        x, y = rng.random(), rng.random()
        hits += x + y < 1
    return u, total, hits
""",
    "two": """
def f(rng: np.random.Generator, other: np.random.Generator):
    x = 0.0
    for i in range(10):
        x += rng.random() if i % 2 else other.normal()
    return x
""",
    "none": """
def f(rng, n):
    if rng is None:
        rng = np.random.default_rng(0)
    return rng.random(n)
""",
    "map": """
def f(rng: np.random.Generator):
    return list(map(lambda i: rng.random() * i, range(3))), sum(rng.random() for _ in range(4))
""",
    "lambda_in_comp": """
def f(rng: np.random.Generator):
    fs = [(lambda: i + rng.random()) for i in range(3)]
    return [g() for g in fs]
""",
    "walk2d": """
def f(rng: np.random.Generator, n: i64):
    path = np.zeros((n, 2))
    for t in range(1, n):
        d = rng.integers(4)
        path[t] = path[t - 1]
        if d == 0:
            path[t, 0] += 1
        elif d == 1:
            path[t, 0] -= 1
        elif d == 2:
            path[t, 1] += 1
        else:
            path[t, 1] -= 1
    return path
""",
}


class _Annotation:
    def __class_getitem__(cls, item: object) -> type:
        return cls


def twin_of(source: str) -> Any:
    """Return the function `f` of a source as Python runs it."""
    names = {"np": np, "Tensor": _Annotation, "InOut": _Annotation, "f64": float, "f32": float, "i64": int}
    exec(source, names)
    return names["f"]


def arguments_of(source: str) -> list[Any]:
    more = [np.random.default_rng(99)] if "other: np.random" in source else []
    more += [7] if "n: i64" in source or "def f(rng, n)" in source else []
    return more + ([np.arange(12, dtype="f4").reshape(4, 3)] if "x: Tensor" in source else [])


def check_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_equal(one, other)
    else:
        np.testing.assert_array_equal(found, expected, strict=np.ndim(expected) > 0)


def check(source: str, engine: str) -> None:
    function, twin = nnmagic.compile(source, namespace={"np": np}, engine=engine), twin_of(source)
    for seed in range(3):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        check_equal(function(ours, *arguments_of(source)), twin(theirs, *arguments_of(source)))
        assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_draws_what_python_draws(source: str) -> None:
    check(source, "numpy")


@pytest.mark.full
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_machine_code_draws_what_python_draws(source: str) -> None:
    check(source, "relax")


HEAD = "def f(rng: np.random.Generator, x: Tensor[(3,), f64]):\n"
REFUSED = {
    "vmap(lambda y: y + rng.random())(x)": "draw the numbers before, and give them to the function",
    "scan(lambda c, y: (c + rng.random(), y), 0.0, x)": "draw the numbers before, and give them to the "
    "function",
    "rng": None,
}


@pytest.mark.parametrize(("result", "hint"), REFUSED.items(), ids=REFUSED)
def test_what_a_generator_cannot_be(result: str, hint: str | None) -> None:
    (error,) = errors_of(f"{HEAD}    return {result}\n", {"np": np})
    assert error.hint == hint


def test_a_nested_function_with_types_cannot_draw() -> None:
    source = f"{HEAD}    def g(y: f64):\n        return y + rng.random()\n    return g(1.0)\n"
    (error,) = errors_of(source, {"np": np})
    assert error.hint == "leave out the types of its parameters, or give it the generator"
    assert not errors_of(source.replace("y: f64", "y"), {"np": np})


def test_the_rounds_of_a_parallel_loop_cannot_draw() -> None:
    source = f"{HEAD}    y = x.copy()\n    for i in parallel(3):\n        y[i] = rng.random()\n    return y\n"
    (error,) = errors_of(source, {"np": np})
    assert error.message == "numbers are drawn in a loop whose rounds have no order"


def test_one_name_has_one_generator() -> None:
    source = (
        "def f(c: bool_):\n"
        "    rng = np.random.default_rng(1)\n"
        "    if c:\n"
        "        rng = np.random.default_rng(2)\n"
        "    return rng.random()\n"
    )
    (error,) = errors_of(source, {"np": np})
    assert error.message.startswith("`rng` is a generator of random numbers")


#: Functions of two parameters that move and stretch the numbers of a distribution, or of one.
DIFFERENTIABLE = [
    "normal",
    "uniform",
    "laplace",
    "gumbel",
    "logistic",
    "lognormal",
    "exponential",
    "rayleigh",
]


@pytest.mark.filterwarnings("ignore:.*no gradient flows to `b`")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_gradient_moves_and_stretches_the_numbers(name: str) -> None:
    given = "a" if name in ("exponential", "rayleigh") else "a, b"
    source = (
        "def total(a, b, rng):\n"
        f"    return rng.{name}({given}, 5).sum() + rng.{name}({given})\n"
        "def f(rng: np.random.Generator, a: f64, b: f64):\n"
        "    value, gradient = value_and_grad(total, argnums=(0, 1))(a, b, rng)\n"
        "    return value, gradient, rng.random()\n"
    )
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")

    def total(*parameters: float) -> float:
        rng = np.random.default_rng(3)
        values = parameters[: given.count(",") + 1]
        return float(getattr(rng, name)(*values, 5).sum() + getattr(rng, name)(*values))

    a, b, step = 0.25, 0.75, 1e-6
    ours = np.random.default_rng(3)
    value, gradient, after = function(ours, a, b)
    assert value == pytest.approx(total(a, b), rel=1e-14)
    expected = [
        (total(a + step, b) - total(a - step, b)) / (2 * step),
        (total(a, b + step) - total(a, b - step)) / (2 * step),
    ]
    np.testing.assert_allclose(gradient, expected, rtol=1e-7)
    theirs = np.random.default_rng(3)
    for _ in range(6):
        getattr(theirs, name)()
    assert after == theirs.random()


def test_numbers_without_a_gradient_are_refused_where_it_is_asked_for() -> None:
    source = (
        "def f(rng: np.random.Generator, a: f64):\n"
        "    return grad(lambda a: a * rng.gamma(2.0) + rng.{call})(a)\n"
    )
    (error,) = errors_of(source.replace("{call}", "gamma(a)"), {"np": np})
    assert "`gamma`" in error.message
    function = nnmagic.compile(source.replace("{call}", "poisson(3.0)"), namespace={"np": np}, engine="numpy")
    assert function(np.random.default_rng(1), 1.5) == np.random.default_rng(1).gamma(2.0)
