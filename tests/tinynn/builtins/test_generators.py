"""The methods of NumPy's generator: the numbers are NumPy's, to the bit, and what it refuses is refused.

They judge tinynn/builtins/distributions, too.

They judge tinynn/builtins/random_orders, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS
from tests.tinynn.cases import errors_of

#: Calls of all methods, each with what its arguments are below.
CALLS = [
    "rng.random()",
    "rng.random(3)",
    "rng.random((2, 3), dtype=np.float32)",
    "rng.random(dtype=np.float32)",
    "rng.standard_normal(dtype=np.float32)",
    "rng.standard_normal((3, 2), np.float32)",
    "rng.standard_normal((50,))",
    "rng.standard_exponential()",
    'rng.standard_exponential(5, method="inv")',
    "rng.standard_exponential(5, dtype=np.float32)",
    'rng.standard_exponential(5, np.float32, "inv")',
    'rng.standard_exponential(method="inv")',
    "rng.standard_gamma(2.5, 4)",
    "rng.standard_gamma(0.5)",
    "rng.standard_gamma(2.5, 4, dtype=np.float32)",
    "rng.standard_gamma(x, dtype=np.float32)",
    "rng.standard_gamma(x)",
    "rng.normal()",
    "rng.normal(1, 2)",
    "rng.normal(x, 0.5)",
    "rng.normal(0.5, x, (2, 3))",
    "rng.normal(size=4)",
    "rng.normal(loc=x.reshape(3, 1), scale=x)",
    "rng.uniform()",
    "rng.uniform(-1, 1, 4)",
    "rng.uniform(x, 5)",
    "rng.exponential()",
    "rng.exponential(2.0, 3)",
    "rng.exponential(x)",
    "rng.gamma(2.0)",
    "rng.gamma(2.0, 3.0, 4)",
    "rng.gamma(x, x)",
    "rng.beta(0.5, 0.5, 4)",
    "rng.beta(2, 3)",
    "rng.chisquare(3, 4)",
    "rng.noncentral_chisquare(3, 2.0, 4)",
    "rng.f(3, 4, 5)",
    "rng.noncentral_f(3, 4, 0.5, 5)",
    "rng.standard_t(4, 3)",
    "rng.standard_cauchy(3)",
    "rng.standard_cauchy()",
    "rng.vonmises(0.5, 2.0, 3)",
    "rng.pareto(3, 3)",
    "rng.weibull(2.0, 3)",
    "rng.power(2.0, 3)",
    "rng.laplace(size=3)",
    "rng.laplace(1, 2)",
    "rng.gumbel(1, 2, 3)",
    "rng.logistic(1, 2, 3)",
    "rng.lognormal(1, 0.5, 3)",
    "rng.rayleigh(2.0, 3)",
    "rng.wald(2.0, 1.5, 3)",
    "rng.triangular(0, 1, 3, 4)",
    "rng.binomial(10, 0.3)",
    "rng.binomial(100, 0.6, 5)",
    "rng.binomial(k, 0.4)",
    "rng.negative_binomial(5, 0.4, 4)",
    "rng.poisson(3.0, 5)",
    "rng.poisson(50.0)",
    "rng.poisson(x)",
    "rng.zipf(2.5, 4)",
    "rng.geometric(0.35, 4)",
    "rng.geometric(0.1)",
    "rng.hypergeometric(10, 20, 8, 4)",
    "rng.hypergeometric(100, 200, 80)",
    "rng.logseries(0.6, 4)",
    "rng.integers(10)",
    "rng.integers(3, 10, 5)",
    "rng.integers(-5, 5, (2, 2))",
    "rng.integers(0, 2**62, 3)",
    "rng.integers(100, size=5, dtype=np.int32)",
    "rng.integers(100, size=5, dtype=np.uint32)",
    "rng.integers(100, size=5, dtype=np.int16)",
    "rng.integers(-100, 100, size=7, dtype=np.int8)",
    "rng.integers(0, 256, size=7, dtype=np.uint8)",
    "rng.integers(0, 65536, size=3, dtype=np.uint16)",
    "rng.integers(0, 2, size=40, dtype=bool)",
    "rng.integers(0, 2, dtype=bool)",
    "rng.integers(0, 200, dtype=np.uint8)",
    "rng.integers(0, 18446744073709551616, size=3, dtype=np.uint64)",
    "rng.integers(5, 5, endpoint=True)",
    "rng.integers(0, 5, size=4, endpoint=True)",
    "rng.integers(-2**63, 2**63, size=3)",
    "rng.integers(0, k)",
    "rng.integers(k, 50, dtype=np.int8)",
    "rng.integers(k, 50, dtype=np.int16)",
    "rng.integers(k, 50, dtype=np.uint32)",
    "rng.integers([1, 2, 3], [[10], [20]])",
    "rng.integers(0, k, size=(2, 3))",
    "rng.choice(5)",
    "rng.choice(5, 3)",
    "rng.choice(x)",
    "rng.choice(x, 4)",
    "rng.choice(x, (2, 2))",
    "rng.choice(m, 2)",
    "rng.choice(m, 2, axis=1)",
    "rng.choice(10, 4, replace=False)",
    "rng.choice(10, 4, replace=False, shuffle=False)",
    "rng.choice(20000, 500, replace=False)",
    "rng.choice(20000, 5, replace=False)",
    "rng.choice(x, 3, replace=False)",
    "rng.choice(50, (2, 3), replace=False)",
    "rng.choice(3, 5, p=[0.2, 0.5, 0.3])",
    "rng.choice(x, p=[0.2, 0.5, 0.3])",
    "rng.choice(3, 2, replace=False, p=[0.2, 0.5, 0.3])",
    "rng.choice(10, 6, replace=False, p=q)",
    "rng.permutation(6)",
    "rng.permutation(x)",
    "rng.permutation(m)",
    "rng.permutation(m, axis=1)",
    "rng.permuted(m)",
    "rng.permuted(m, axis=1)",
    "rng.permuted(m, axis=0)",
    "rng.choice([k[0], k[1], 7])",
    "rng.choice(2, 3, p=[x[0], 1 - x[0]])",
    "rng.permutation([3, 4, 5])",
    "rng.normal([1.0, x[0]], 2)",
    "rng.multinomial(20, [0.2, 0.3, 0.5])",
    "rng.multinomial(20, [0.2, 0.3, 0.5], size=3)",
    "rng.multinomial(200, q, (2, 2))",
    "rng.dirichlet([1.0, 2.0, 3.0])",
    "rng.dirichlet(x, 3)",
    "rng.dirichlet([0.01, 0.02, 0.05], (2, 2))",
    "rng.multivariate_hypergeometric([5, 6, 7], 6)",
    "rng.multivariate_hypergeometric([5, 6, 7], 6, size=3)",
    'rng.multivariate_hypergeometric([5, 6, 7], 6, size=2, method="count")',
    "",
][1:-1]

PARAMETERS = (
    "rng: np.random.Generator, x: Tensor[(3,), f64], m: Tensor[(3, 4), f64], k: Tensor[(3,), i64], "
    "q: Tensor[(10,), f64]"
)
ARGUMENTS = {
    "x": np.array([0.5, 1.5, 2.5]),
    "m": np.arange(12.0).reshape(3, 4),
    "k": np.array([5, 10, 20]),
    "q": np.arange(1, 11) / 55,
}

#: So many calls are compiled together.
_TOGETHER = 6
GROUPS = [CALLS[start : start + _TOGETHER] for start in range(0, len(CALLS), _TOGETHER)]
IDS = [group[0].removeprefix("rng.") for group in GROUPS]


def drawn(calls: list[str], engine: str) -> Callable[..., Any]:
    text = ",\n        ".join(calls)
    source = f"def f({PARAMETERS}):\n    return (\n        {text},\n    )\n"
    return nnmagic.compile(source, namespace={"np": np}, engine=engine)


def check(calls: list[str], engine: str, rounds: int) -> None:
    function = drawn(calls, engine)
    ours, theirs = np.random.default_rng(len(calls[0])), np.random.default_rng(len(calls[0]))
    for _ in range(rounds):
        found = function(ours, *ARGUMENTS.values())
        expected = [eval(call, {"np": np, "rng": theirs, **ARGUMENTS}) for call in calls]
        for call, one, other in zip(calls, found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=call, strict=np.ndim(other) > 0)
        assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("calls", GROUPS, ids=IDS)
def test_the_numbers_are_those_of_numpy(calls: list[str]) -> None:
    check(calls, "numpy", 2)


@pytest.mark.full
@pytest.mark.parametrize("calls", GROUPS, ids=IDS)
def test_the_numbers_of_machine_code_are_those_of_numpy(calls: list[str]) -> None:
    check(calls, "relax", 200)


@pytest.mark.parametrize("size", ["", ", 4", ", (2, 1)"])
@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_vectors_of_the_multivariate_normal_distribution(method: str, size: str) -> None:
    call = f"rng.multivariate_normal([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]{size}, method={method!r})"
    source = f"def f(rng: np.random.Generator):\n    return {call}, rng.random()\n"
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    vectors, number = function(np.random.default_rng(3))
    rng = np.random.default_rng(3)
    np.testing.assert_allclose(vectors, eval(call, {"rng": rng}), rtol=1e-13)
    assert number == rng.random()


def test_every_method_is_drawn_from() -> None:
    names = {call.removeprefix("rng.").partition("(")[0] for call in CALLS} | {"multivariate_normal"}
    refused = {name for name, row in GENERATOR_METHODS.items() if row.is_refused}
    assert set(GENERATOR_METHODS) - refused == names
    public = {name for name in dir(np.random.Generator) if name[0] != "_"}
    assert public - set(GENERATOR_METHODS) == {"bit_generator"}


REFUSED = [
    ("rng.normal(0, -1)", "normal: scale < 0"),
    ("rng.normal(size=-1)", "normal: negative dimensions are not allowed"),
    ("rng.normal(x, 1, 4)", "normal: the size (4,) is not compatible with (3,), the shape of a parameter"),
    ("rng.uniform(1, 0)", "uniform: high - low < 0"),
    ("rng.triangular(0, 3, 2)", "triangular: mode > right"),
    ("rng.binomial(10, 1.5)", "binomial: p < 0, p > 1 or p is NaN"),
    ("rng.binomial(x, 0.5)", "binomial: `n` must be an integer, not a Tensor[(3,), f64]"),
    ("rng.integers(5, 3)", "integers: low >= high"),
    ("rng.integers(5, 4, endpoint=True)", "integers: low > high"),
    ("rng.integers(300, dtype=np.int8)", "integers: high is out of bounds for int8"),
    ("rng.integers(3, dtype=f32)", "integers: `dtype` must be an integer dtype or bool_, not f32"),
    ("rng.integers(x)", "integers: the ends of the range must be integers, not a Tensor[(3,), f64]"),
    ("rng.random(dtype=f16)", "random: `dtype` must be f32 or f64, not f16"),
    ("rng.choice(0)", "choice: a must be a positive integer unless no samples are taken"),
    (
        "rng.choice(3, 4, replace=False)",
        "choice: Cannot take a larger sample than population when replace is False",
    ),
    ("rng.choice(4, p=x)", "choice: a and p must have same size"),
    ("rng.rand(3)", "a generator of random numbers has no method `rand` in a cell"),
    ("rng.spawn(2)", "`spawn` of a generator is not supported in a cell"),
    ("rng + 1", "`+` of a generator of random numbers and the number 1"),
    ("np.random.default_rng()", "default_rng: without a seed, a cell would give other numbers in each call"),
    ("np.random.default_rng(-1)", "default_rng: expected non-negative integer"),
    ("np.random.default_rng(0.5)", "default_rng: `seed` must be an integer, not the number 0.5"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused(call: str, message: str) -> None:
    source = f"def f({PARAMETERS}):\n    drawn = {call}\n    return x\n"
    (error, *_) = errors_of(source, {"np": np})
    assert error.message == message


#: Parameters that only the call knows, and NumPy's message.
FAILING = [
    ("rng.normal(0, s)", -1.0, "normal: scale < 0"),
    ("rng.gamma(s)", -1.0, "gamma: shape < 0"),
    ("rng.beta(s, 1)", 0.0, "beta: a <= 0"),
    ("rng.uniform(s, 0)", 1.0, "uniform: high - low < 0"),
    ("rng.poisson(s)", -1.0, "poisson: lam < 0"),
    ("rng.geometric(s)", 0.0, "geometric: p <= 0, p > 1"),
    ("rng.zipf(s)", 1.0, "zipf: a <= 1"),
    ("rng.integers(int(s))", 0.0, "integers: low >= high"),
    ("rng.integers(0, int(s), dtype=np.int8)", 300.0, "integers: high is out of bounds for int8"),
    ("rng.choice(int(s))", 0.0, "choice: a must be a positive integer"),
    ("rng.choice(2, p=[s, 0.5])", 0.25, "choice: Probabilities do not sum to 1"),
    ("rng.random(int(s))", -1.0, "random: negative dimensions are not allowed"),
    ("np.random.default_rng(int(s)).random()", -1.0, "default_rng: expected non-negative integer"),
]


@pytest.mark.parametrize(("call", "s", "message"), FAILING, ids=[each[0] for each in FAILING])
def test_what_numpy_refuses_raises_value_error(call: str, s: float, message: str) -> None:
    source = f"def f(rng: np.random.Generator, s: f64):\n    return {call}\n"
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy")
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        function(rng, s)
    assert rng.bit_generator.state == before


@cache
def seeded(engine: str) -> Callable[..., Any]:
    source = "def f(seed: u64):\n    return np.random.default_rng(seed).random(3)\n"
    return nnmagic.compile(source, namespace={"np": np}, engine=engine)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_a_seed_that_the_call_knows(engine: str) -> None:
    for seed in (0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1):
        np.testing.assert_array_equal(
            seeded(engine)(np.uint64(seed)), np.random.default_rng(seed).random(3), err_msg=str(seed)
        )


SEEDS = ["12", "2**62 + 1", "[1, 2, 3]", "np.random.default_rng(5)", "seed", "(seed, 2)"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", ["default_rng({})", "np.random.Generator(np.random.PCG64({}))"])
def test_a_seed_that_is_known(make: str, seed: str) -> None:
    if "PCG64" in make and "default_rng" in seed:
        pytest.skip("a bit generator has no other one as seed")
    call = make.format(seed)
    namespace = {"np": np, "default_rng": np.random.default_rng, "seed": 77}
    source = f"def f():\n    rng = {call}\n    return rng.random(), rng.integers(9, size=2, dtype=np.int16)\n"
    number, numbers = nnmagic.compile(source, namespace=namespace, engine="numpy")()
    rng = eval(call, namespace)
    assert number == rng.random()
    np.testing.assert_array_equal(numbers, rng.integers(9, size=2, dtype=np.int16))


HIDDEN = [
    ("np.random.seed(0)", "rng = np.random.default_rng(seed), or pass a generator as an argument"),
    ("np.random.rand(3)", "rng = np.random.default_rng(seed), then rng.random(size)"),
    ("np.random.randn(3)", "rng = np.random.default_rng(seed), then rng.standard_normal(size)"),
    ("np.random.randint(3)", "rng = np.random.default_rng(seed), then rng.integers(low, high, size)"),
    ("np.random.normal(0, 1)", "rng = np.random.default_rng(seed), then rng.normal(...)"),
    ("np.random.RandomState(0)", "rng = np.random.default_rng(seed), or pass a generator as an argument"),
    ("drawn(3)", "rng = np.random.default_rng(seed), then rng.standard_normal(size)"),
    ("rng.random()", "with a parameter rng: np.random.Generator"),
]


@pytest.mark.parametrize(("call", "hint"), HIDDEN, ids=[each[0] for each in HIDDEN])
def test_what_has_a_hidden_state_names_the_generator(call: str, hint: str) -> None:
    namespace = {"np": np, "drawn": np.random.randn, "rng": np.random.default_rng(0)}
    (error,) = errors_of(f"def f():\n    x = {call}\n    return x\n", namespace)
    assert error.hint is not None
    assert hint in error.hint
