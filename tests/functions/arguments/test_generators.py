"""Generators of random numbers as arguments: their states afterwards, their locks, what is no generator."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic

SOURCE = "def f(rng: np.random.Generator, scale: f64):\n    return scale * rng.standard_normal(3)\n"


def compiled(source: str = SOURCE, **namespace: Any) -> Any:
    return nnmagic.compile(source, namespace={"np": np, **namespace}, engine="numpy")


def pair(seed: int = 5) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng(seed), np.random.default_rng(seed)


@pytest.mark.parametrize("copied", [False, True])
def test_a_call_leaves_the_state_that_numpy_would(copied: bool) -> None:
    function, (ours, theirs) = compiled(), pair()
    if copied:
        function, ours = pickle.loads(pickle.dumps((function, ours)))
    for scale in (1.0, 2.0):
        np.testing.assert_array_equal(function(rng=ours, scale=scale), scale * theirs.standard_normal(3))
        assert ours.bit_generator.state == theirs.bit_generator.state


def test_a_saved_function_draws(tmp_path: Path) -> None:
    nnmagic.compile(SOURCE, namespace={"np": np}).save(tmp_path / "f.nnm")
    ours, theirs = pair()
    np.testing.assert_array_equal(nnmagic.load(tmp_path / "f.nnm")(ours, 2.0), 2 * theirs.standard_normal(3))
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_a_parameter_without_a_type_takes_a_generator() -> None:
    function = compiled("def f(rng, n, scale=2.0):\n    return scale * rng.normal(size=n)\n")
    ours, theirs = pair()
    np.testing.assert_array_equal(function(ours, 3), 2 * theirs.normal(size=3))
    assert function.annotated == ("f(rng: numpy.random.Generator, n: i64) -> Tensor[(?,), f64]",)
    later = compiled(
        "def g(rng: np.random.Generator):\n    return f(rng, 3), h(rng, 0.5), rng.random()\n",
        f=function,
        h=compiled(),
    )
    first, second, third = later(ours)
    np.testing.assert_array_equal(first, 2 * theirs.normal(size=3))
    np.testing.assert_array_equal(second, 0.5 * theirs.standard_normal(3))
    assert third == theirs.random()


def test_a_decorated_function_takes_a_generator() -> None:
    @nnmagic.function(engine="numpy")
    def drawn(rng: np.random.Generator, n: nnmagic.i64):  # type: ignore[no-untyped-def]  # the cell infers it
        return rng.integers(n, size=4, dtype=np.int8)

    ours, theirs = pair()
    np.testing.assert_array_equal(drawn(ours, 9), theirs.integers(9, size=4, dtype=np.int8))  # type: ignore[arg-type]  # an int
    assert "rng: numpy.random.Generator" in str(drawn.__signature__)


def test_a_call_that_raises_leaves_the_generator_as_it_was() -> None:
    source = (
        "def f(rng: np.random.Generator, n: i64):\n"
        "    x = rng.random()\n"
        "    assert n > 0, 'too few'\n"
        "    return x\n"
    )
    rng, other = pair()
    with pytest.raises(AssertionError, match="too few"):
        compiled(source)(rng, 0)
    assert rng.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be a numpy.random.Generator, not None"),
        (7, "must be a numpy.random.Generator, not an int"),
        (np.zeros(6, np.uint64), "must be a numpy.random.Generator, not a"),
        (np.random.RandomState(1), "must be a numpy.random.Generator, not a RandomState"),
        (np.random.Generator(np.random.MT19937(1)), "must draw from a PCG64, not from a MT19937"),
        (np.random.Generator(np.random.PCG64DXSM(1)), "must draw from a PCG64, not from a PCG64DXSM"),
    ],
    ids=["none", "int", "array", "legacy", "mt19937", "dxsm"],
)
def test_what_is_no_generator_of_pcg64(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compiled()(value, 1.0)


def test_two_generators_differ() -> None:
    source = "def f(a: np.random.Generator, b: np.random.Generator):\n    return a.random() - b.random()\n"
    function, (ours, theirs) = compiled(source), pair()
    assert function(ours, theirs) == 0
    with pytest.raises(ValueError, match="a generator that the call takes twice"):
        function(ours, np.random.Generator(ours.bit_generator))


def test_a_call_holds_the_lock_of_the_generator() -> None:
    function, (ours, theirs) = compiled(), pair()
    done = threading.Event()
    thread = threading.Thread(target=lambda: (function(ours, 1.0), done.set()))
    with ours.bit_generator.lock:
        thread.start()
        assert not done.wait(0.05)
    thread.join()
    theirs.standard_normal(3)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_gradients_from_python_are_asked_for_in_a_cell() -> None:
    with pytest.raises(TypeError, match="in a cell, and give it the generator there"):
        nnmagic.grad(compiled())


def test_arguments_go_by_name_and_results_into_out() -> None:
    source = (
        "class Pair:\n    a: f64\n    b: f64\n"
        "def f(n: i64, /, p: Pair, *, rng: np.random.Generator):\n"
        "    return Pair(p.a + rng.random(), p.b * n), rng.random(3)\n"
    )
    function, (ours, theirs) = compiled(source), pair()
    out = {"a": np.zeros(()), "b": np.zeros(())}, np.zeros(3)
    function(2, rng=ours, p={"a": 1.0, "b": 2.0}, out=out)
    assert out[0] == {"a": 1 + theirs.random(), "b": 4}
    np.testing.assert_array_equal(out[1], theirs.random(3))
    record, _ = function(2, {"a": 1.0, "b": 2.0}, rng=ours)
    assert record["a"] == 1 + theirs.random()


def test_an_error_shows_no_frame_of_nnmagic() -> None:
    for rng, scale in ((None, 1.0), (np.random.default_rng(0), "1")):
        with pytest.raises(TypeError) as caught:
            compiled()(rng, scale)
        assert len(caught.traceback) == 1 or sys.version_info < (3, 11)


def test_an_array_of_the_caller_is_shuffled() -> None:
    source = 'def f(a: InOut[Tensor[("n",), f64]], rng: np.random.Generator):\n    rng.shuffle(a)\n'
    ours, theirs = pair()
    a, b = np.arange(9.0), np.arange(9.0)
    compiled(source)(a, ours)
    theirs.shuffle(b)
    np.testing.assert_array_equal(a, b)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_an_array_and_a_generator_change() -> None:
    source = (
        'def f(a: InOut[Tensor[("n",), f64]], rng: np.random.Generator):\n'
        "    for i in range(len(a)):\n"
        "        a[i] += rng.random()\n"
        "    assert a[0] < 100\n"
    )
    ours, theirs = pair()
    a = np.zeros(4)
    assert compiled(source)(a, ours) is None
    np.testing.assert_array_equal(a, theirs.random(4))
    with pytest.raises(AssertionError, match=r"`a`|No array was changed"):
        compiled(source)(a + 100, ours)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.full
def test_a_step_and_a_profile_leave_the_generator() -> None:
    from nnmagic.functions.inspection.profile import profile

    function = nnmagic.compile(SOURCE, namespace={"np": np})
    ours, theirs = pair()
    steps = nnmagic.step(function, ours, 2.0)
    np.testing.assert_array_equal(steps.result[0], 2 * np.random.default_rng(5).standard_normal(3))
    assert profile(function, (ours, 2.0), {}).kernels
    assert ours.bit_generator.state == theirs.bit_generator.state
