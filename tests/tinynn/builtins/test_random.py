"""Random numbers of keys: reproducible, distributed as they should, and each function as it is documented."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import nnmagic
from tests.engine.relax.legalize.test_random import threefry
from tests.tinynn.cases import errors_of


@cache
def compiled(body: str, parameters: str = "seed: i64") -> Callable[..., np.ndarray]:
    return nnmagic.compile(f"def f({parameters}):\n    k = random.key(seed)\n    return {body}\n")


def draw(body: str, seed: int = 7) -> np.ndarray:
    return compiled(body)(seed)


def words_of(key: np.ndarray, blocks: int) -> list[int]:
    """The first words that a key draws, by the definition of Threefry."""
    words = [int(word) for word in key]
    mask = (1 << 64) - 1
    return [
        word
        for block in range(blocks)
        for word in threefry(words[:4], [each + block & mask for each in words[4:8]])
    ]


@pytest.mark.full
def test_the_bits_are_those_of_threefry() -> None:
    key, keys, bits, folded = draw("k, random.split(k, 3), random.bits(k, (2, 4)), random.fold_in(k, 5)", -2)
    assert key.tolist() == [2**64 - 2, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0]
    assert bits.ravel().tolist() == words_of(key, 2)
    right = key.copy()
    right[4] |= np.uint64(1 << 63)
    assert keys[:, :4].ravel().tolist() == words_of(right, 3)
    right[6:8] = 5, 1 << 62
    assert folded[:4].tolist() == words_of(right, 1)
    for made in (*keys, folded):
        assert made[4:].tolist() == [0, 0, 0, 0, 1 << 63, 0]


def test_a_seed_that_is_known_and_one_that_is_given_are_the_same() -> None:
    source = "def f():\n    return random.normal(random.key(12), (5,))\n"
    np.testing.assert_array_equal(nnmagic.compile(source)(), draw("random.normal(k, (5,))", 12))


@pytest.mark.full
def test_a_key_is_an_argument_and_a_shape_has_named_sizes() -> None:
    source = (
        'def f(key: Tensor[(10,), u64], x: Tensor[("n", 2), f32]):\n'
        "    a, b = random.split(key)\n"
        "    noise = random.normal(a, x.shape)\n"
        "    return noise, random.permutation(b, x), random.integers(b, len(x), shape=(len(x),))\n"
    )
    x = np.arange(8, dtype="float32").reshape(4, 2)
    noise, mixed, numbers = nnmagic.compile(source)(draw("k"), x)
    np.testing.assert_array_equal(noise, draw("random.normal(random.split(k)[0], (4, 2))"))
    assert sorted(map(tuple, mixed)) == sorted(map(tuple, x))
    assert set(numbers) <= set(range(4))


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "u8", "u32"])
def test_an_empty_range_that_only_the_call_knows_gives_its_start(dtype: str) -> None:
    source = (
        f"def f(low: {dtype}, high: {dtype}):\n"
        "    k = random.key(0)\n"
        f"    return random.integers(k, low, high, (3,), {dtype}), random.integers(k, high, shape=3)\n"
    )
    function, number = (
        nnmagic.compile(source, engine="numpy"),
        getattr(np, f"{'u' * (dtype[0] == 'u')}int{dtype[1:]}"),
    )
    for low, high in ((5, 5), (5, 4), (100, 0)):
        numbers, from_0 = function(number(low), number(high))
        assert numbers.tolist() == [low] * 3
        assert all(0 <= each < max(high, 1) for each in from_0)
    if dtype[0] == "i":
        assert function(number(3), number(-1))[1].tolist() == [0, 0, 0]
        least, most = (int(each) for each in (np.iinfo(number).min, np.iinfo(number).max))
        numbers, _ = function(number(least), number(most))  # as long as a range can be
        assert len(set(numbers.tolist())) > 1


@pytest.mark.full
def test_numbers_in_a_loop_with_a_key_for_each_round() -> None:
    source = (
        "def f(seed: i64, n: i64):\n"
        "    k, total = random.key(seed), 0.0\n"
        "    for i in range(n):\n"
        "        total += random.uniform(random.fold_in(k, i), dtype=f64)\n"
        "    return total\n"
    )
    each = [draw(f"random.uniform(random.fold_in(k, {i}), dtype=f64)", 3) for i in range(3)]
    np.testing.assert_allclose(nnmagic.compile(source)(3, 3), sum(map(float, each)), rtol=1e-15)


MOMENTS = [
    ("random.normal(k, (20000,))", "float32", 0, 1),
    ("random.normal(k, (20000,), f64, loc=3, scale=2)", "float64", 3, 2),
    ("random.uniform(k, (20000,))", "float32", 0.5, 12**-0.5),
    ("random.uniform(k, (20000,), low=-1, high=3)", "float32", 1, 4 / 12**0.5),
    ("random.exponential(k, (20000,), scale=2)", "float32", 2, 2),
    ("random.gumbel(k, (20000,), f64)", "float64", 0.5772, np.pi / 6**0.5),
    ("random.integers(k, 10, shape=(20000,))", "int64", 4.5, 8.25**0.5),
    ("random.integers(k, -5, 5, (20000,), i8)", "int8", -0.5, 8.25**0.5),
    ("random.bernoulli(k, 0.25, (20000,))", "bool", 0.25, (3 / 16) ** 0.5),
    ("random.bernoulli(k, full((20000,), f32(0.25)))", "bool", 0.25, (3 / 16) ** 0.5),
    ("random.choice(k, array([1.0, 4.0]), (20000,))", "float64", 2.5, 1.5),
    ("random.choice(k, 3, (20000,), p=array([0.5, 0.0, 0.5]))", "int64", 1, 1),
    ("random.categorical(k, zeros((20000, 4), f32))", "int64", 1.5, 1.25**0.5),
    ("random.categorical(k, broadcast_to(array([0.0, 1.0]), (20000, 2)))", "int64", 0.7311, 0.4434),
]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("body", "dtype", "mean", "deviation"), MOMENTS, ids=[each[0] for each in MOMENTS])
def test_numbers_are_distributed_as_they_should(body: str, dtype: str, mean: float, deviation: float) -> None:
    numbers = draw(body)
    assert (numbers.dtype, numbers.shape) == (np.dtype(dtype), (20000,))
    error = 5 * deviation / 20000**0.5
    np.testing.assert_allclose(numbers.mean(dtype="float64"), mean, atol=error)
    np.testing.assert_allclose(numbers.std(dtype="float64"), deviation, atol=5 * error)
    assert not np.array_equal(numbers, draw(body, 8))
    np.testing.assert_array_equal(numbers, draw(body))


@pytest.mark.full
def test_a_permutation_and_a_choice_without_replacement() -> None:
    order, chosen, weighted = draw(
        "random.permutation(k, 50), random.choice(k, 50, (7, 7), replace=False), "
        "random.choice(k, 4, 2, replace=False, p=array([0.0, 0.5, 0.5, 0.0]))"
    )
    assert sorted(order) == list(range(50))
    assert order.tolist() != list(range(50))
    assert len(set(chosen.ravel())) == 49
    assert sorted(weighted) == [1, 2]


@pytest.mark.full
def test_keys_are_independent() -> None:
    body = "random.normal(random.split(k)[0], (20000,)), random.normal(random.split(k)[1], (20000,)), "
    columns = np.array(
        draw(body + "random.normal(k, (20000,)), random.normal(random.fold_in(k, 0), (20000,))")
    )
    correlations = np.corrcoef(columns)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5 / 20000**0.5


EXACT = (
    "random.bits(k, (999,)), random.uniform(k, (999,)), random.integers(k, 10, shape=999), "
    "random.bernoulli(k, 0.3, (999,)), random.permutation(k, 999), random.choice(k, 9, (99,)), "
    "random.split(k, 9)"
)


@pytest.mark.full
def test_machines_without_vector_instructions_draw_the_same() -> None:
    body = "random.bits(k, (999,)), random.uniform(k, (999,)), random.permutation(k, 999)"
    source = f"def f(seed: i64):\n    k = random.key(seed)\n    return {body}\n"
    other = nnmagic.compile(source, target={"kind": "llvm", "mcpu": "x86-64"})
    for one, two in zip(draw(body), other(7), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.full
def test_threads_draw_the_same() -> None:
    from nnmagic.engine.threads import set_num_threads

    body = f"{EXACT}, random.normal(k, (99, 99)), random.exponential(k, (9999,))"
    drawn = []
    for threads in (1, 2):
        set_num_threads(threads)
        try:
            drawn.append(draw(body))
        finally:
            set_num_threads(None)
    for one, two in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one, two)


REFUSED = [
    ("random.normal(3, (2,))", "random.normal: `key` must be a key of random numbers, not the number 3"),
    ("random.normal(k, (2,), f16)", "random.normal: `dtype` must be f32 or f64, not f16"),
    ("random.normal(k, (2,), scale=x)", "random.normal: `scale` is f64, and the numbers are f32"),
    (
        "random.normal(k, (2,), f64, scale=x)",
        "random.normal: an argument of shape (3,) does not broadcast to (2,)",
    ),
    ("random.integers(k, 5, 5)", "random.integers: there is no integer from 5 to before 5"),
    ("random.integers(k, 300, dtype=u8)", "random.integers: u8 holds 0 to 255, not 0 to 299"),
    ("random.integers(k, 5, dtype=f32)", "random.integers: `dtype` must be an integer dtype, not f32"),
    (
        "random.integers(k, x)",
        "random.integers: the ends of the range must be integers, not a Tensor[(3,), f64]",
    ),
    ("random.choice(k, 3, 4, replace=False)", "random.choice: 4 different items cannot be chosen from 3"),
    ("random.choice(k, 0)", "random.choice: there is nothing to choose from"),
    ("random.choice(k, 4, p=x)", "random.choice: `p` has the shape (3,), not (4,)"),
    ("random.split(k, 0)", "random.split: `num` must be a number of keys, or a named size, not the number 0"),
    ("random.key(0.5)", "random.key: `seed` must be an integer, not the number 0.5"),
    ("random.nomal(k)", "unknown name `random.nomal`"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused(body: str, message: str) -> None:
    source = f"def f(x: Tensor[(3,), f64], n: i64):\n    k = random.key(n)\n    return {body}\n"
    (error,) = errors_of(source)
    assert error.message == message


LIBRARIES = [
    ("manual_seed(0)", "random.normal(key, (3,)), random.integers(key, 10), ..."),
    ("randn(3)", "random.normal(key, shape)"),
    ("dice.randint(1, 6)", "random.integers(key, low, high, shape)"),
    ("uniform(0, 1)", "random.uniform(key, shape, low=0, high=1)"),
]


@pytest.mark.parametrize(("body", "instead"), LIBRARIES, ids=[each[0] for each in LIBRARIES])
def test_the_random_numbers_of_libraries_name_those_of_a_cell(body: str, instead: str) -> None:
    namespace = {"dice": random, "uniform": random.uniform}
    (error,) = errors_of(f"def f():\n    return {body}\n", namespace)
    assert error.hint == f"random numbers come from a key: write key = random.key(seed), then {instead}"


@pytest.mark.numpy_engine
def test_what_is_written_instead_compiles() -> None:
    from nnmagic.tinynn.namespace.random_functions import INSTEAD

    for instead in set(INSTEAD.values()):
        code = instead if " = " in instead else f"drawn = {instead}"
        lines = [
            "key, low, high, shape, i = random.key(seed), 0, 5, (2,), 3",
            "p, logits = 0.5, x",
            code,
            "return x",
        ]
        source = "def f(x: Tensor[(3,), f32], seed: i64):\n" + "".join(f"    {line}\n" for line in lines)
        assert not errors_of(source), code


def test_what_hints_say_to_write_compiles() -> None:
    for text in ("random.normal(key, (3,)).astype(f16)", "random.normal(key, (len(x), 3))"):
        source = 'def f(x: Tensor[("n",), f32], key: Tensor[(10,), u64]):\n    return {}, x\n'
        assert not errors_of(source.format(text))


def test_the_operator_of_relay_has_its_defaults() -> None:
    source = "def f(k: Tensor[(10,), u64]):\n    return relay.random.normal(k, (3,))[1]\n"
    np.testing.assert_array_equal(nnmagic.compile(source)(draw("k")), draw("random.normal(k, (3,))"))


@pytest.mark.parametrize(
    "text",
    [
        "normal(k, S)",
        "normal(k, S, f64, scale=2)",
        "uniform(k, S, low=1)",
        "integers(k, 9, shape=S)",
        "choice(k, 9, S)",
    ],
)
def test_a_shape_may_have_sizes_of_the_call(text: str) -> None:
    """The numbers are those of the shape that is known, up to the last digits of logarithms."""
    source = f"def f(n: i64, seed: i64):\n    k = random.key(seed)\n    return random.{text}\n"
    measured = nnmagic.compile(source.replace("S", "(n, 3)"), engine="numpy", cache=False)
    known = nnmagic.compile(source.replace("S", "(40, 3)"), engine="numpy", cache=False)
    found, expected = measured(40, 7), known(40, 7)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4 if found.dtype == "f4" else 1e-13, atol=1e-6)


def test_machine_code_draws_as_many_paths_as_the_call_asks_for() -> None:
    source = "def f(paths: i64):\n    return random.normal(random.key(0), (paths,), f64)\n"
    expected = nnmagic.compile(source.replace("(paths,)", "(1000,)"), cache=False)(0)
    np.testing.assert_allclose(nnmagic.compile(source, cache=False)(1000), expected, rtol=1e-12)
