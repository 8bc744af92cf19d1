"""Loops over elements: Python's results and errors, in machine code without checks and copies."""

from __future__ import annotations

import functools
import itertools
import random
import re
import textwrap
from collections.abc import Callable

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot.linear import BoundedSymbol, Facts, Linear

pytestmark = pytest.mark.sampled(every=2)

MATRIX = 'x: Tensor[("n", "n"), f64]'


def compiled(body: str, parameters: str = MATRIX) -> tuple[nnmagic.CompiledFunction, Callable[..., object]]:
    """The function of a cell, and the same source as Python."""
    size = ["n = len(x)"] if re.search(r"\bn\b", body) else []
    text = textwrap.indent("\n".join([*size, "y = x.copy()", body, "return y"]), "    ")
    source = f"def f({parameters}):\n{text}\n"
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    judge = namespace["f"]
    assert callable(judge)
    return nnmagic.compile(source, namespace={"np": np}, cache=False), judge


@pytest.mark.optimized
@pytest.mark.machine_code
@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    for j in range(n):\n        y[i, j] = x[j, i] + 1",
        "for i in range(1, n):\n    for j in range(i):\n        y[i, j] = x[i, j] + x[i - 1, j]",
        "for i in range(n):\n    for j in range(n - 1, i, -1):\n        y[i, j] = x[i, n - 1 - j] * 2",
        "for i in range(0, n, 3):\n    for j in range(i, n):\n        y[i, j] -= x[i, i] * x[i, j]",
    ],
    ids=["square", "triangle", "downwards", "steps"],
)
def test_loops_whose_bounds_keep_indices_in_range_are_vectorised(body: str) -> None:
    """A check in the loop, which might end it, would keep LLVM from that."""
    function, judge = compiled(body)
    assert re.search(r"store <\d+ x double>", function.stages["llvm"])
    for size in (0, 1, 2, 5, 67):
        x = np.random.default_rng(size).standard_normal((size, size))
        np.testing.assert_allclose(function(x), judge(x), rtol=1e-12)  # type: ignore[arg-type]


@pytest.mark.full("for i in range(n):\\n    for j in ran")
@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    y[i, i + k] = 1",
        "for i in range(k, n + k):\n    y[0, i] += x[i, 0]",
        "for i in range(n):\n    for j in range(i - k, i):\n        y[i, j] = x[j, i]",
        "for i in range(n - 1, -1 - k, -1):\n    y[i, 0] = x[i, 0] + i",
        "for i in range(0, n + k, 2):\n    y[i, i] = x[i, i] * 2",
        "i = 0\nwhile i <= n - 1 + k:\n    y[i, 0] = i\n    i += 1",
    ],
)
def test_indices_out_of_range_are_those_of_python(body: str) -> None:
    function, judge = compiled(body, f"{MATRIX}, k: i64")
    outcomes = set()
    for k in (-40, -2, -1, 0, 1, 2, 34, 40):
        x = np.random.default_rng(4).standard_normal((37, 37))
        try:
            wanted = judge(x, k)
        except IndexError:
            with pytest.raises(IndexError):
                function(x, k)
            outcomes.add("raises")
        else:
            np.testing.assert_allclose(function(x, k), wanted, rtol=1e-12)  # type: ignore[arg-type]
            outcomes.add("equal")
    assert outcomes == {"raises", "equal"}


@pytest.mark.parametrize("start", [-(2**63), 2**62, 2**63 - 2])
def test_counters_near_the_ends_of_64_bits(start: int) -> None:
    source = """
def f(start: i64, stop: i64, x: Tensor[("n",), f64]):
    y = x.copy()
    for i in range(start, stop):
        y[i - start] += 1
    for i in range(len(x)):
        y[i] = y[i] * 2
    return y
"""
    function = nnmagic.compile(source, cache=False)
    np.testing.assert_array_equal(function(start, start + 1, np.zeros(3)), [2, 0, 0])
    np.testing.assert_array_equal(function(start, start, np.zeros(3)), [0, 0, 0])


@pytest.mark.parametrize("exchange", ["y, z = z, y", "y, z, w = z, w, y"])
def test_arrays_that_take_turns(exchange: str) -> None:
    loop = f"for t in range(k):\n    z[0, t] = y[t, 0] + 1\n    {exchange}"
    body = f"z = x * 2\nw = x * 3\n{loop}\ny = y + z * 7 + w"
    function, judge = compiled(body, f"{MATRIX}, k: i64")
    x = np.random.default_rng(1).standard_normal((6, 6))
    before = x.copy()
    for rounds in range(6):
        np.testing.assert_allclose(function(x, rounds), judge(x, rounds), rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_array_equal(x, before)


@pytest.mark.full("named")
@pytest.mark.parametrize("parameters", [MATRIX, "x: Tensor[(6, 6), f64]"], ids=["named", "fixed"])
def test_rows_and_columns_in_loops(parameters: str) -> None:
    body = (
        "for t in range(k):\n    y[0] = y[-1] + t\n    y[:, -1] = y[:, -2]\n    y[2:3, ::2] = t\ny[:, 0] += 1"
    )
    function, judge = compiled(body, f"{parameters}, k: i64")
    x = np.random.default_rng(2).standard_normal((6, 6))
    for rounds in (0, 1, 5):
        np.testing.assert_allclose(function(x, rounds), judge(x, rounds), rtol=1e-12)  # type: ignore[arg-type]


def test_slices_of_unknown_length_in_branches() -> None:
    body = "if k > 2:\n    y[:k] = y[1 : k + 1] * 2\nelse:\n    y[k:] = 5"
    function, judge = compiled(body, 'x: Tensor[("m",), f64], k: i64')
    x = np.arange(7.0)
    for k in (0, 2, 3, 6):
        np.testing.assert_array_equal(function(x, k), judge(x, k))  # type: ignore[arg-type]


def test_what_is_proved_holds() -> None:
    """Compared with all integers in the bounds of some random facts."""
    chance = random.Random(3)
    proved = 0
    for _ in range(400):
        symbols = [BoundedSymbol(chance.randint(-4, 0), chance.randint(1, 4)) for _ in range(3)]

        def draw(symbols: list[BoundedSymbol] = symbols) -> Linear:
            terms = {symbol: chance.randint(-2, 2) for symbol in symbols}
            return Linear(
                {symbol: factor for symbol, factor in terms.items() if factor}, chance.randint(-3, 5)
            )

        facts, goal = [draw() for _ in range(3)], draw()
        known = Facts()
        known.add(facts)
        if not known.prove(goal):
            continue
        proved += 1
        for values in itertools.product(*(range(symbol.low, symbol.high + 1) for symbol in symbols)):
            given = dict(zip(symbols, values, strict=True))

            def value(sum_: Linear, given: dict[BoundedSymbol, int] = given) -> int:
                return sum_.constant + sum(factor * given[symbol] for symbol, factor in sum_.terms.items())

            if all(value(fact) >= 0 for fact in facts):
                assert value(goal) >= 0
    assert proved > 40


@pytest.mark.optimized
@pytest.mark.machine_code
@pytest.mark.parametrize("size", ['"n"', "500"])
def test_an_array_that_a_loop_fills_is_not_copied(size: str) -> None:
    """The array is in the memory of the result from the beginning."""
    source = textwrap.dedent(
        f"""
        def f(x: Tensor[({size},), f64]):
            y = np.zeros(len(x))
            for i in range(1, len(x)):
                y[i] = y[i - 1] * x[i] + 1
            return y
        """
    )
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    function, judge = nnmagic.compile(source, namespace={"np": np}, cache=False), namespace["f"]
    assert not re.search("kernel_copy|memcpy", function.stages["llvm"])
    x = np.random.default_rng(0).standard_normal(500)
    np.testing.assert_allclose(function(x), judge(x), rtol=1e-12)  # type: ignore[operator]


@pytest.mark.parametrize(
    "returned", ["z, z", "y, z", "z, y, z", "y, y + z", "z if k > 0 else y, y", "y[0], z", "x, z"]
)
def test_results_of_loops_share_no_memory(returned: str) -> None:
    """A loop of no rounds returns what it was given."""
    source = textwrap.dedent(
        f"""
        def f(x: Tensor[(3, 4), f64], k: i64):
            y = x * 2
            z = y.copy()
            for i in range(k):
                z[i, 0] = z[i - 1, 0] + y[i, 1]
            return {returned}
        """
    )
    namespace: dict[str, object] = {}
    exec("from __future__ import annotations\n" + source, namespace)
    function, judge = nnmagic.compile(source, cache=False), namespace["f"]
    x = np.arange(12.0).reshape(3, 4)
    for k in (0, 2):
        results = function(x, k)
        for result, wanted in zip(results, judge(x, k), strict=True):  # type: ignore[operator]
            np.testing.assert_array_equal(result, wanted)
        for left, right in itertools.combinations((*results, x), 2):
            assert not np.shares_memory(left, right)


@pytest.mark.optimized
@pytest.mark.machine_code
@pytest.mark.parametrize(
    "sum_", ["a * x[i] + b * y[i - 1]", "b * y[i - 1] - a * x[i]", "a * x[i] - b * y[i - 1]"]
)
def test_a_round_waits_for_one_operation_of_the_round_before(sum_: str) -> None:
    """The product that needs no earlier round is not fused with the sum; the other one can be."""
    source = textwrap.dedent(
        f"""
        def f(x: Tensor[("n",), f64], a: f64, b: f64):
            y = np.zeros(len(x))
            for i in range(1, len(x)):
                y[i] = {sum_}
            return y
        """
    )
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    function, judge = nnmagic.compile(source, namespace={"np": np}, cache=False), namespace["f"]
    assert function.stages["llvm"].count("@llvm.arithmetic.fence.f64(") >= 2  # a call and its declaration
    x = np.random.default_rng(0).standard_normal(100)
    np.testing.assert_allclose(function(x, 0.1, 0.9), judge(x, 0.1, 0.9), rtol=1e-12)  # type: ignore[operator]


def test_loops_of_a_few_rounds() -> None:
    """Loops with constant bounds inside others: none, some and nested rounds, and an index out of range."""
    source = """
def windows(x: Tensor[("n", "m"), f64], reach: i64):
    y = np.zeros_like(x)
    none = 0
    for i in range(2, x.shape[0] - reach):
        for j in range(2, x.shape[1] - 2):
            for di in range(-2, 3):
                for dj in range(1, -2, -1):
                    if di != dj:
                        y[i, j] += x[i + di, j + dj]
            for k in range(3, 3):
                none += 1
    return y, none
"""
    plain = source.replace('x: Tensor[("n", "m"), f64], reach: i64', "x, reach")
    values: dict[str, object] = {"np": np}
    exec(plain, values)
    judge = values["windows"]
    assert callable(judge)
    cell = nnmagic.compile(source, namespace={"np": np}, cache=False)
    for shape in ((9, 7), (4, 9), (5, 5), (0, 3)):
        x = np.random.default_rng(700062).random(shape)
        ours, expected = cell(x, 2), judge(x, 2)
        np.testing.assert_allclose(ours[0], expected[0], rtol=1e-13)
        assert ours[1] == expected[1] == 0
    with pytest.raises(IndexError):
        cell(np.ones((9, 7)), 1)


def dynamic_program(choice: str, dtype: str) -> str:
    """A cell in which ``d[i, j]`` is chosen; ``up``, ``corner`` and ``left`` are its neighbours."""
    lines = [
        f'def f(x: Tensor[("n", "m"), {dtype}]):',
        "    d = x.copy()",
        "    for i in range(1, x.shape[0]):",
        *(["        left = d[i, 0]"] if "left" in choice else []),
        "        for j in range(1, x.shape[1]):",
        "            up, _corner = d[i - 1, j], d[i - 1, j - 1]",
        f"            d[i, j] = {choice.replace('corner', '_corner')}",
        *(["            left = d[i, j]"] if "left" in choice else []),
        "    return d",
    ]
    return "\n".join(lines)


@pytest.mark.full("min(max(left, up, 3), 7 * corner, le", "np.minimum(3, left) + x[i, j] * 2")
@pytest.mark.parametrize(
    "choice",
    [
        "x[i, j] + min(up, d[i, j - 1], corner)",
        "max(d[i, j - 1] + 1, min(d[i, j - 1], up), corner, up)",
        "min(max(left, up, 3), 7 * corner, left + 2, x[i, j])",
        "np.minimum(np.maximum(left, np.maximum(corner, up)), up)",
        "np.minimum(3, left) + x[i, j] * 2",
        "np.maximum(left, np.minimum(left, up)) + (np.minimum(up, left) + left)",
    ],
)
def test_minima_of_what_the_round_before_computed(choice: str) -> None:
    """They are computed in another order, which changes neither integers nor floats, nor what NaN does."""
    chance = np.random.default_rng(5)
    for dtype in ("f64", "f32", "u8"):
        source = dynamic_program(choice, dtype)
        namespace: dict[str, object] = {"np": np, "min": np_min, "max": np_max}
        exec("from __future__ import annotations\n" + source, namespace)
        function = nnmagic.compile(source, namespace={"np": np}, cache=False)
        for shape in ((9, 12), (1, 4), (4, 1), (2, 2)):
            x = (chance.standard_normal(shape) * 9).astype(np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}"))
            if dtype[0] == "f":
                x[chance.random(shape) < 0.05] = np.nan
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(function(x), namespace["f"](x))  # type: ignore[operator]


def np_min(*values: object) -> object:
    """The least of some numbers as cells have it: NaN if one is."""
    return functools.reduce(np.minimum, values)


def np_max(*values: object) -> object:
    """The largest of some numbers as cells have it: NaN if one is."""
    return functools.reduce(np.maximum, values)


@pytest.mark.optimized
@pytest.mark.machine_code
@pytest.mark.parametrize("choice", ["left, up, corner", "up, left, corner"])
def test_a_round_waits_for_one_comparison_with_the_round_before(choice: str) -> None:
    """What is stored is the smaller of two values, of which one is that of the round before."""
    function = nnmagic.compile(dynamic_program(f"min({choice})", "i64"), namespace={"np": np}, cache=False)
    text = function.stages["llvm"]
    least = dict(re.findall(r"(\S+) = (?:tail )?call i64 @llvm\.smin\.i64\((.*)\)", text))
    stored = [name for name in re.findall(r"store i64 (\S+), ", text) if name in least]
    operands = {operand.split()[1] for name in stored for operand in least[name].split(", ")}
    assert operands & {*stored, *re.findall(r"(\S+) = phi i64", text)}


@pytest.mark.optimized
@pytest.mark.machine_code
@pytest.mark.parametrize(
    "condition",
    ["j >= 0 and y[j] > key", "not (j < 0 or y[j] <= key)", "not (j == -1) and y[j] > key"],
)
def test_conditions_before_an_index_keep_it_in_range(condition: str) -> None:
    """An insertion sort needs no check: j only shrinks, to -1 at last."""
    source = textwrap.dedent(
        f"""
        def f(x: Tensor[("n",), f64]):
            y = x.copy()
            for i in range(1, len(y)):
                key = y[i]
                j = i - 1
                while {condition}:
                    y[j + 1] = y[j]
                    j -= 1
                y[j + 1] = key
            return y
        """
    )
    function = nnmagic.compile(source, cache=False)
    for size in (0, 1, 2, 30):
        x = np.random.default_rng(size).standard_normal(size)
        np.testing.assert_array_equal(function(x), np.sort(x))
    assert not re.findall(r" = icmp ugt i64 ", function.stages["llvm"])  # nor after the loop: j is -1 or more
