"""Machine code that draws NumPy's random numbers, by engine/relax/codegen/numpy_random_stubs.

They judge engine/relax/legalize/numpy_random_kernels, too.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen import ziggurats
from nnmagic.engine.relax.runtime import numpy_random
from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS
from tests.tinynn.builtins.test_generators import ARGUMENTS, PARAMETERS

#: Draws of a number each, as they stand in a loop: of 64 bits and of 32, which leave half of a word behind.
SCALARS = [
    *("rng.random()", "rng.standard_normal()", "rng.standard_exponential()", "rng.normal(0.5, 2.0)"),
    *("rng.random(dtype=np.float32)", "rng.standard_normal(dtype=np.float32)", "rng.uniform(-1.0, y)"),
    *("rng.standard_exponential(dtype=np.float32)", "rng.exponential(2.0)", "rng.gamma(y, 3.0)"),
    *(
        "rng.standard_gamma(0.5, dtype=np.float32)",
        "rng.beta(y, 1.5)",
        "rng.poisson(3.0)",
        "rng.poisson(40.0)",
    ),
    *("rng.binomial(20, 0.3)", "rng.binomial(200, 0.3)", "rng.integers(6)", "rng.integers(2**40)"),
    *("rng.integers(100, dtype=np.int8)", "rng.integers(1000, dtype=np.uint16)", "rng.geometric(0.2)"),
    *("rng.integers(7, dtype=np.int32)", "rng.integers(0, 2, dtype=bool)", "rng.choice(9)", "rng.zipf(3.0)"),
    *("rng.standard_t(4.0)", "rng.vonmises(0.0, y)", "rng.triangular(0.0, 0.5, 1.0)", "rng.logistic()"),
]


def in_a_loop(calls: list[str]) -> tuple[Any, Any]:
    """Return a function that fills a column of an array by each call, and what Python makes of its source."""
    lines = "".join(f"        made[i, {number}] = {call}\n" for number, call in enumerate(calls))
    text = (
        f"    made = np.zeros((n, {len(calls)}))\n    y = 0.25\n"
        f"    for i in range(n):\n{lines}        y = 0.75 - 0.5 * y\n    return made, y\n"
    )
    names: dict[str, Any] = {"np": np}
    exec(f"def f(rng, n):\n{text}", names)
    source = f"def f(rng: np.random.Generator, n: i64):\n{text}"
    return nnmagic.compile(source, namespace={"np": np}), names["f"]


def check(calls: list[str], rounds: int, seed: int) -> None:
    function, twin = in_a_loop(calls)
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    found, expected = function(ours, rounds), twin(theirs, rounds)
    np.testing.assert_array_equal(found[0], expected[0], err_msg=str(calls))
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.full
def test_numbers_that_are_drawn_in_turn_are_those_of_numpy() -> None:
    check(["rng.random()", "rng.integers(9, dtype=np.int32)", "rng.standard_normal()"], 2000, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_draw_what_numpy_draws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(list(rng.choice(SCALARS, 8)), 10_000, seed)


@pytest.mark.full
@pytest.mark.parametrize("call", SCALARS)
def test_many_numbers_are_those_of_numpy(call: str) -> None:
    check([call], 1_000_000 if "integers" in call or "random" in call else 300_000, 3)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["np.float64", "np.float32"])
@pytest.mark.parametrize(
    "call",
    ["random", "standard_normal", "standard_exponential", "standard_exponential inv", "standard_gamma"],
)
def test_many_numbers_of_both_floats(call: str, dtype: str) -> None:
    name, _, method = call.partition(" ")
    first = "1.5, " if name == "standard_gamma" else ""
    last = ', method="inv"' if method else ""
    text = f"rng.{name}({first}n, dtype={dtype}{last})"
    source = f"def f(rng: np.random.Generator, n: i64):\n    return rng.integers(3, dtype=np.int8), {text}\n"
    function = nnmagic.compile(source, namespace={"np": np})
    rng, ours = np.random.default_rng(8), np.random.default_rng(8)
    found = function(ours, 1_000_000)
    assert found[0] == rng.integers(3, dtype=np.int8)
    np.testing.assert_array_equal(found[1], eval(text, {"rng": rng, "np": np, "n": 1_000_000}), strict=True)
    assert ours.bit_generator.state == rng.bit_generator.state


@pytest.mark.full
@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
)
@pytest.mark.parametrize("form", ["one range", "many ranges"])
def test_many_integers_of_each_dtype(dtype: str, form: str) -> None:
    info = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    kind = "bool" if dtype == "bool" else f"np.{dtype}"
    text = f"rng.integers({info[0] // 3}, {info[1] // 2 + 1}, n, dtype={kind})"
    if form == "many ranges":
        text = f"rng.integers(low, {min(info[1], 1)}, (n // 2, 2), dtype={kind}, endpoint=True)"
    source = f"def f(rng: np.random.Generator, low: Tensor[(2,), i64], n: i64):\n    return {text}, {text}\n"
    function = nnmagic.compile(source, namespace={"np": np})
    low = np.array([0, 1])
    rng, ours = np.random.default_rng(8), np.random.default_rng(8)
    found = function(ours, low, 1_000_000)
    for one in found:
        wanted = eval(text, {"rng": rng, "np": np, "n": 1_000_000, "low": low})
        np.testing.assert_array_equal(one, wanted, strict=True)
    assert ours.bit_generator.state == rng.bit_generator.state


@pytest.mark.full
def test_choices_and_orders_of_many() -> None:
    calls = [
        *("rng.permutation(n)", "rng.choice(n, n // 2)", "rng.choice(n, n // 3, replace=False)"),
        *("rng.choice(n, n // 3, replace=False, shuffle=False)", "rng.choice(n, 7, replace=False)"),
        *("rng.choice(10, n, p=q)", "rng.choice(10, 9, replace=False, p=q)", "rng.choice(n // 60, 900)"),
    ]
    source = f"def f({PARAMETERS}, n: i64):\n    return {', '.join(calls)}\n"
    function = nnmagic.compile(source, namespace={"np": np})
    for n in (61, 2000, 10_001, 100_000):
        rng, ours = np.random.default_rng(n), np.random.default_rng(n)
        found = function(ours, *ARGUMENTS.values(), n)
        for call, one in zip(calls, found, strict=True):
            wanted = eval(call, {"rng": rng, "np": np, "n": n, **ARGUMENTS})
            np.testing.assert_array_equal(one, wanted, err_msg=f"{call} {n}", strict=True)
        assert ours.bit_generator.state == rng.bit_generator.state


#: Draws of ``n`` numbers by each method, in each dtype that it has.
ARRAYS = [
    *(
        f"rng.{method}n, dtype={dtype})"
        for method in ("random(", "standard_normal(", "standard_exponential(", "standard_gamma(1.5, ")
        for dtype in ("np.float64", "np.float32")
    ),
    *(
        f"rng.integers(0, 100, n, dtype=np.{dtype})"
        for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    ),
    "rng.normal(0.5, 2.0, n)",
    "rng.uniform(-1.0, 3.0, n)",
    "rng.exponential(2.0, n)",
    "rng.gamma(2.0, 3.0, n)",
    "rng.beta(0.5, 2.5, n)",
    "rng.chisquare(3.0, n)",
    "rng.noncentral_chisquare(3.0, 2.0, n)",
    "rng.f(3, 4, n)",
    "rng.noncentral_f(3, 4, 0.5, n)",
    "rng.standard_t(4.0, n)",
    "rng.standard_cauchy(n)",
    "rng.pareto(3.0, n)",
    "rng.vonmises(0.5, 2.0, n)",
    "rng.weibull(2.0, n)",
    "rng.power(2.0, n)",
    "rng.laplace(1.0, 2.0, n)",
    "rng.gumbel(1.0, 2.0, n)",
    "rng.logistic(1.0, 2.0, n)",
    "rng.lognormal(1.0, 0.5, n)",
    "rng.rayleigh(2.0, n)",
    "rng.wald(2.0, 1.5, n)",
    "rng.triangular(0.0, 1.0, 3.0, n)",
    "rng.binomial(10, 0.3, n)",
    "rng.binomial(100, 0.6, n)",
    "rng.negative_binomial(5, 0.4, n)",
    "rng.poisson(3.0, n)",
    "rng.poisson(50.0, n)",
    "rng.zipf(2.5, n)",
    "rng.geometric(0.35, n)",
    "rng.geometric(0.1, n)",
    "rng.hypergeometric(10, 20, 8, n)",
    "rng.hypergeometric(100, 200, 80, n)",
    "rng.logseries(0.6, n)",
    "rng.integers(0, 2, n, dtype=bool)",
    "rng.choice(n, n)",
    "rng.choice(n, n // 2, replace=False)",
    "rng.choice(10, n, p=q)",
    "rng.permutation(n)",
    "rng.permuted(np.arange(n))",
    "rng.multinomial(20, q, n // 10)",
    "rng.dirichlet(x, n // 3)",
    "rng.multivariate_hypergeometric([5, 6, 7], 6, n // 3)",
]


def test_each_method_is_among_those_that_draw_many() -> None:
    named = {call.removeprefix("rng.").partition("(")[0] for call in ARRAYS}
    drawn = {name for name, row in GENERATOR_METHODS.items() if not row.is_refused}
    assert drawn - named == {"multivariate_normal"}  # sums by LAPACK


@pytest.mark.full
@pytest.mark.parametrize("call", ARRAYS)
def test_a_million_numbers_interleaved_and_through_pickles(call: str) -> None:
    """Draw smaller ones in between, which leave half of a word; function and generator are pickled."""
    made = f"rng.integers(3, dtype=np.int8), {call}, rng.random(dtype=np.float32), rng.standard_normal()"
    source = f"def f({PARAMETERS}, n: i64):\n    return {made}\n"
    function = nnmagic.compile(source, namespace={"np": np})
    ours, theirs = np.random.default_rng(28), np.random.default_rng(28)
    for n in (100_001, 399_999, 500_000):
        found = function(ours, *ARGUMENTS.values(), n)
        expected = eval(made, {"rng": theirs, "np": np, "n": n, **ARGUMENTS})
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, strict=np.ndim(other) > 0)
        assert ours.bit_generator.state == theirs.bit_generator.state
        function, ours = pickle.loads(pickle.dumps((function, ours)))


def test_a_function_that_numpy_lacks() -> None:
    with pytest.raises(RuntimeError, match="the installed NumPy has no function random_of_tomorrow"):
        numpy_random.address_of("of_tomorrow")


def test_the_ziggurat_of_the_normal_distribution() -> None:
    found = ziggurats.ziggurat("standard_normal")
    assert found.limits[:3] == (0x000EF33D8025EF6A, 0, 0x000C08BE98FBC6A8)
    assert found.widths[0] == pytest.approx(3.910757959537090 / 2**52, rel=1e-12)
    assert len(found.widths) == len(found.limits) == 256
