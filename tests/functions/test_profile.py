"""The profile of a call: its kernels, what they move and compute, how near the machine's peak they are."""

from __future__ import annotations

import time

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.profile import Profile, least_time, operators_of, profile

RNG = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def found(source: str, *args: object, **keywords: object) -> Profile:
    return profile(nnmagic.compile(source), args, keywords)


def test_a_product_computes_what_the_formula_says_and_moves_its_arrays_once() -> None:
    m, k, n = 48, 64, 80
    source = f"def f(a: Tensor[({m}, {k}), f32], b: Tensor[({k}, {n}), f32]):\n    return a @ b"
    (kernel,) = found(source, array(m, k), array(k, n)).kernels
    assert kernel.calls == 1
    assert kernel.flops == 2 * m * k * n
    assert kernel.nbytes == 4 * (m * k + k * n + m * n)
    assert kernel.seconds > 0


def test_lengths_that_only_the_call_knows_are_counted() -> None:
    source = 'def f(x: Tensor[("n", 4), f32]):\n    return (x * 2 + 1).sum(axis=1)'
    kernels = found(source, array(10, 4)).kernels
    assert sum(kernel.flops for kernel in kernels) == 3 * 40
    more = found(source, array(20, 4)).kernels
    assert sum(kernel.flops for kernel in more) == 3 * 80


def test_a_loop_s_kernels_are_counted_each_time() -> None:
    source = (
        "def f(x: Tensor[(100,), f32], n: i32):\n"
        "    while n > 0:\n        x = x.sin() + 1\n        n = n - 1\n"
        "    return x"
    )
    kernels = {kernel.name: kernel for kernel in found(source, array(100), n=7).kernels}
    (sine,) = [kernel for name, kernel in kernels.items() if "sin" in name]
    assert sine.calls == 7
    assert sine.nbytes == 7 * 800


def test_a_profile_is_of_the_call_that_is_asked_for() -> None:
    source = 'def f(a: Tensor[("n", "n"), f32]):\n    return a @ a'
    for size in (16, 512):
        begin = time.perf_counter()
        of = found(source, array(size, size))
        passed = time.perf_counter() - begin
        assert 0 < 3 * of.seconds < passed, "the least of three calls or more"
        (kernel,) = of.kernels
        assert (kernel.calls, kernel.flops, kernel.nbytes) == (1, 2 * size**3, 3 * 4 * size**2)
        assert 0 < of.fraction(kernel) <= 1
        assert of.peak.flops > 0
        assert of.peak.seconds(kernel) >= kernel.flops / of.peak.flops


def test_the_kernels_are_those_of_the_call() -> None:
    """Code of another program takes twenty times as long here: its loops would call libm's tanh."""
    profiled = found("def f(x: Tensor[(100000,), f32]):\n    return (x * 2 + 1).tanh()", array(100000))
    (kernel,) = profiled.kernels
    assert kernel.seconds < 5 * profiled.seconds


def test_each_step_of_a_program_is_timed() -> None:
    source = (
        "def f(x: Tensor[(64, 64), f32], w: Tensor[(64, 64), f32]):\n"
        "    return softmax(nn.relu(x @ w) @ w, axis=1), x + 1"
    )
    profiled = found(source, array(64, 64), array(64, 64))
    assert sum(kernel.calls for kernel in profiled.kernels) == 4
    assert sum(kernel.flops for kernel in profiled.kernels) > 4 * 64**3
    assert all(0 < kernel.seconds < 5 * profiled.seconds for kernel in profiled.kernels)


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("fused_nn_matmul_add_nn_relu", ["nn.matmul", "add", "nn.relu"]),
        ("nn_conv2d1", ["nn.conv2d"]),
        ("fused_nn_conv2d_transpose2_log2_expand_dims10", ["nn.conv2d_transpose", "log2", "expand_dims"]),
        ("fused_tir_sin_add", ["sin", "add"]),
        ("unblocked", ["unblocked"]),
    ],
)
def test_a_kernel_is_named_by_its_operators(kernel: str, operators: list[str]) -> None:
    assert list(operators_of(kernel)) == operators


def test_the_least_time_is_that_of_one_run() -> None:
    """However loaded the machine is: a sleep is never shorter than asked for."""
    pauses = iter((0.03, 0.02, 0.01, 0.02, 0.03))
    runs = []

    def run() -> None:
        runs.append(pause := next(pauses))
        time.sleep(pause)

    begin = time.perf_counter()
    least = least_time(run, seconds=0, least=5)
    assert len(runs) == 5
    assert 0.01 <= least <= (time.perf_counter() - begin) / 5


def test_a_wrong_call_is_refused_as_ever() -> None:
    with pytest.raises(ValueError, match="argument 'x' must be"):
        found("def f(x: Tensor[(2,), f32]):\n    return x + 1", array(3))
