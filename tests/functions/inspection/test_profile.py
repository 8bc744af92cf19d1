"""The profile of a call: its kernels, what they move and compute, how near the machine's peak they are."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax import profiling
from nnmagic.functions.inspection.profile import Profile, least_time, measure_peak, operators_of, profile
from nnmagic.jupyter.commands import profile_section
from tests.tinynn.programs.snippets.arguments import arguments_of
from tests.tinynn.programs.snippets.cases import Accepted

SNIPPETS = "tests.tinynn.programs.snippets"

RNG = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def profile_source(source: str, *args: object, **keywords: object) -> Profile:
    return profile(nnmagic.compile(source), args, keywords)


@pytest.mark.full
def test_a_product_computes_what_the_formula_says_and_moves_its_arrays_once() -> None:
    m, k, n = 48, 64, 80
    source = f"def f(a: Tensor[({m}, {k}), f32], b: Tensor[({k}, {n}), f32]):\n    return a @ b"
    (kernel,) = profile_source(source, array(m, k), array(k, n)).kernels
    assert kernel.calls == 1
    assert kernel.flops == 2 * m * k * n
    assert kernel.nbytes == 4 * (m * k + k * n + m * n)
    assert kernel.seconds > 0


@pytest.mark.full
def test_a_choice_between_elements_is_no_operation() -> None:
    (kernel,) = profile_source(
        "def f(x: Tensor[(40,), f32]):\n    return where(x > 0, x + 1, -1)", array(40)
    ).kernels
    assert kernel.flops == 40
    (kernel,) = profile_source("def f(x: Tensor[(40,), f32]):\n    return pad(x, 1)", array(40)).kernels
    assert kernel.flops == 0


@pytest.mark.full
def test_lengths_that_only_the_call_knows_are_counted() -> None:
    source = 'def f(x: Tensor[("n", 4), f32]):\n    return (x * 2 + 1).sum(axis=1)'
    kernels = profile_source(source, array(10, 4)).kernels
    assert sum(kernel.flops for kernel in kernels) == 3 * 40
    more = profile_source(source, array(20, 4)).kernels
    assert sum(kernel.flops for kernel in more) == 3 * 80


@pytest.mark.full
def test_a_loop_s_kernels_are_counted_each_time() -> None:
    source = (
        "def f(x: Tensor[(100,), f32], n: i32):\n"
        "    while n > 0:\n        x = x.sin() + 1\n        n = n - 1\n"
        "    return x"
    )
    kernels = {kernel.name: kernel for kernel in profile_source(source, array(100), n=7).kernels}
    (sine,) = [kernel for name, kernel in kernels.items() if "sin" in name]
    assert sine.calls == 7
    assert sine.nbytes == 7 * 800


@pytest.mark.full
def test_a_profile_is_of_the_call_that_is_asked_for() -> None:
    source = 'def f(a: Tensor[("n", "n"), f32]):\n    return a @ a'
    for size in (16, 512):
        of = profile_source(source, array(size, size))
        assert of.seconds > 0
        (kernel,) = of.kernels
        assert (kernel.calls, kernel.flops, kernel.nbytes) == (1, 2 * size**3, 3 * 4 * size**2)
        assert 0 < (of.fraction(kernel) or 1) <= 1
        assert of.peak.flops > 0
        assert of.peak.seconds(kernel) >= kernel.flops / of.peak.flops


@pytest.mark.full
def test_each_step_of_a_program_is_timed() -> None:
    source = (
        "def f(x: Tensor[(64, 64), f32], w: Tensor[(64, 64), f32]):\n"
        "    return softmax(nn.relu(x @ w) @ w, axis=1), x + 1"
    )
    profiled = profile_source(source, array(64, 64), array(64, 64))
    assert sum(kernel.calls for kernel in profiled.kernels) == 4
    assert sum(kernel.flops for kernel in profiled.kernels) > 4 * 64**3
    assert all(kernel.seconds > 0 for kernel in profiled.kernels)


@pytest.mark.budget(3)
def test_a_kernel_says_the_lines_that_it_computes() -> None:
    source = (
        "def f(a: Tensor[(32, 24), f32], b: Tensor[(24, 16), f32]):\n"
        "    c = a @ b\n"
        "    d = nn.relu(c) + 1\n"
        "    e = softmax(d, axis=1)\n"
        "    e[3] = 4\n"
        "    return e"
    )
    profiled = profile_source(source, array(32, 24), array(24, 16))
    of_product, of_softmax, of_assignment = (
        profiled.origins[next(each.name for each in profiled.kernels if name in each.name)]
        for name in ("matmul", "softmax", "scatter")
    )
    assert of_product == ("line 2", "line 3")
    assert of_softmax == ("line 4",)
    assert of_assignment == ("line 5",)


@pytest.mark.full
def test_the_lines_of_a_function_that_is_called_have_a_letter() -> None:
    helper = nnmagic.compile("def helper(x: Tensor[(8,), f32]):\n    y = x + 1\n    return cumsum(y)\n")
    source = "def f(x: Tensor[(8,), f32]):\n    return sort(helper(x) * 2)"
    compiled = nnmagic.compile(source, namespace={"helper": helper})
    profiled = profile(compiled, (array(8),), {})
    told = {line for lines in profiled.origins.values() for line in lines}
    assert {"line 2", "line 3b"} <= told <= {"line 2", "line 2b", "line 3b"}
    assert "3b |     return cumsum(y)" in compiled.stages["linked"]


@pytest.mark.full
def test_a_loop_s_kernels_say_their_lines() -> None:
    source = (
        "def f(x: Tensor[(100,), f32], n: i32):\n"
        "    while n > 0:\n        x = sort(x.sin())\n        n = n - 1\n"
        "    return x.sum()"
    )
    profiled = profile_source(source, array(100), n=3)
    lines = {kernel.name: profiled.origins[kernel.name] for kernel in profiled.kernels}
    assert all(told == ("line 3",) for name, told in lines.items() if "sum" not in name)
    assert all(told == ("line 5",) for name, told in lines.items() if "sum" in name)


@pytest.mark.full
def test_a_function_from_a_file_does_not_know_its_lines(tmp_path: Path) -> None:
    compiled = nnmagic.compile("def f(x: Tensor[(8,), f32]):\n    return sort(x)")
    compiled.save(tmp_path / "f.nnm")
    profiled = profile(nnmagic.load(tmp_path / "f.nnm"), (array(8),), {})
    assert set(profiled.origins.values()) == {()}
    assert "-" in str(profile_section(profiled)).split()


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("fused_nn_matmul_add_nn_relu", ["nn.matmul", "add", "nn.relu"]),
        ("nn_conv2d1", ["nn.conv2d"]),
        ("fused_nn_conv2d_transpose2_log2_expand_dims10", ["nn.conv2d_transpose", "log2", "expand_dims"]),
        ("fused_tir_sin_add", ["sin", "add"]),
        ("unblocked", ["unblocked"]),
        ("scatter_nd1_in_place_main", ["scatter_nd"]),
    ],
)
def test_a_kernel_is_named_by_its_operators(kernel: str, operators: list[str]) -> None:
    assert list(operators_of(kernel)) == operators


@pytest.mark.parametrize(
    ("seconds", "least", "runs"), [(0, 5, 5), (0, 1, 1), (7, 1, 3), (7, 5, 5), (100, 3, 25)]
)
def test_the_least_time_is_that_of_one_run(
    seconds: float, least: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that only the runs move."""
    took = (3.0, 2.0, 5.0, 4.0, 6.0) * 5
    now, done = [0.0], []
    monkeypatch.setattr(
        "nnmagic.functions.inspection.profile.time", SimpleNamespace(perf_counter=lambda: now[0])
    )

    def run() -> None:
        done.append(took[len(done)])
        now[0] += done[-1]

    assert least_time(run, seconds=seconds, least=least) == min(took[:runs])
    assert len(done) == runs


@pytest.mark.full
def test_a_profile_says_the_least_time_of_three_calls_or_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(run: Callable[[], object], seconds: float = 0.2, least: int = 3) -> float:
        run()
        asked.append(least)
        return 1e-9

    monkeypatch.setattr("nnmagic.functions.inspection.profile.least_time", note)
    monkeypatch.setattr(
        "nnmagic.functions.inspection.profile.measure_peak", measure_peak.__wrapped__
    )  # keeps nothing
    assert profile_source("def f(x: f32):\n    return x + 1", 1.0).seconds == 1e-9
    assert min(asked) >= 3


PROGRAMS = {
    "a loop over elements": """def f(x: Tensor[("n",), f64]):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + x[i]
    return y""",
    "small kernels in a loop": """def f(x: Tensor[("n",), f64]):
    p, h = np.eye(2), np.array([1.0, 0.5])
    for i in range(len(x)):
        p = p + x[i] * np.outer(h, h) - 0.1 * p @ p
    return p""",
    "rows of a table": """def f(x: Tensor[("n",), f64]):
    t = np.zeros((len(x), 4))
    for i in range(1, len(x)):
        t[i] = t[i - 1] * 0.5 + x[i]
    return t.sum(axis=0)""",
}


@pytest.mark.sampled(every=3)
@pytest.mark.budget(4)
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_the_figures_of_a_profile_do_not_contradict_each_other(source: str) -> None:
    consistent(nnmagic.compile(source, namespace={"np": np}), RNG.standard_normal(200))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::nnmagic.TinyNNWarning")
@pytest.mark.parametrize("topic", ["control_flow", "numpy_functions", "nn_functions"])
def test_the_figures_of_fifty_programs_do_not_contradict_each_other(topic: str) -> None:
    cases = [
        case for case in importlib.import_module(f"{SNIPPETS}.{topic}").CASES if isinstance(case, Accepted)
    ]
    for case in cases[:: len(cases) // 17]:
        compiled = nnmagic.compile(case.source, namespace=case.namespace)
        consistent(compiled, *arguments_of(case)[0])


def consistent(compiled: nnmagic.CompiledFunction, *args: object) -> None:
    """Assert that parts add up, that no kernel does more than the machine can, and that it takes no while."""
    began = time.process_time()
    profiled = profile(compiled, args, {})
    assert time.process_time() - began < 2
    peak, kernels = profiled.peak, profiled.kernels
    assert sum(kernel.seconds for kernel in kernels) + profiled.rest == pytest.approx(profiled.seconds)
    for kernel in kernels:
        fraction = profiled.fraction(kernel)
        if fraction is not None:
            assert kernel.flops / kernel.seconds <= peak.flops * 1.0001
            assert kernel.nbytes / kernel.seconds <= max(peak.in_cache, peak.in_memory) * 1.0001
            assert fraction == pytest.approx(peak.seconds(kernel) / kernel.seconds)


def test_a_wrong_call_is_refused_as_ever() -> None:
    with pytest.raises(ValueError, match="argument 'x' must be"):
        profile_source("def f(x: Tensor[(2,), f32]):\n    return x + 1", array(3))


@pytest.mark.full
def test_kernels_of_a_program_of_data_types_are_timed() -> None:
    source = """class List:
    def Nil(): ...
    def Cons(head: Tensor[(40,), f32], tail: List): ...

def total(l: List) -> Tensor[(40,), f32]:
    match l:
        case Nil():
            return zeros(40, f32)
        case Cons(head, tail):
            return exp(head) + total(tail)

def f(x: Tensor[(40,), f32], n: i64):
    l = Nil()
    for i in range(n):
        l = Cons(x * 2, l)
    return total(l)
"""
    timed = profile_source(source, array(40), 7)
    assert {7} == {kernel.calls for kernel in timed.kernels if "exp" in kernel.name}
    shared = f"{source[: source.index('def f')]}def f(l: List):\n    return total(l), l\n"
    function = nnmagic.compile(shared)
    items = function.types["List"].Nil()
    for _ in range(3):
        items = function.types["List"].Cons(array(40), items)
    assert {3} == {kernel.calls for kernel in profile(function, (items,), {}).kernels if "exp" in kernel.name}


def test_kernels_between_which_the_interpreter_runs_are_timed() -> None:
    source = """def f(x: Tensor[(40,), f32], n: i64):
    for i in range(n):
        x = callback(twice, exp(x), result=Tensor[(40,), f32])
    return x
"""
    function = nnmagic.compile(source, namespace={"twice": lambda x: 2 * x})
    timed = profile(function, (array(40) - 9, 3), {})
    assert {3} == {kernel.calls for kernel in timed.kernels if "exp" in kernel.name}
    assert all(kernel.seconds > 0 for kernel in timed.kernels)
    assert sum(kernel.seconds for kernel in timed.kernels) <= timed.seconds * 1.5


def test_the_parts_are_those_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least time of each kernel, of different runs, would be less than any run took."""
    fastest, parts = profiling._fastest, itertools.cycle([(9000, 1000), (1000, 9000)])
    monkeypatch.setattr(profiling, "_SECONDS", 0.0)

    def with_parts(run: Callable[[], list[tuple[int, np.ndarray]]]) -> Any:
        def run_with_parts() -> list[tuple[int, np.ndarray]]:
            ((number, table),) = run()
            table = table.copy()
            table[:, 0] = 0
            table[:2, 0] = next(parts)
            return [(number, table)]

        return fastest(run_with_parts)

    monkeypatch.setattr(profiling, "_fastest", with_parts)
    source = "def f(x: Tensor[(40,), f32]):\n    return cumsum(x), cumsum(x[:7])"
    first, second = (kernel.seconds for kernel in profile_source(source, array(40)).kernels)
    assert max(first, second) == pytest.approx(9 * min(first, second))
