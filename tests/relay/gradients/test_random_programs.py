"""Gradients of random programs with control flow, and of forms that were once wrong, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.values import AdtValue
from tests.relay.gradients.random_programs import check, differences

FORMS = """class List:
    def Nil(): ...
    def Cons(head: i64, tail: List): ...

def f(s: f64, m: Tensor[("n", 3), f64], k: i64, items: List, unused: List):
    while s ** 2 > 0.06:
        s = s * 0.7
        for i in range(k % 3, k):
            match items:
                case Cons(head, _):
                    s = s * head
                case Nil():
                    s = s * 0.9 + (m[::-1] * m).sum() * 0.01
            if s > 0.6:
                return s * m[0, 0]
    return sin(s) + m[:, ::-1][0, 0]
"""


def test_loops_that_call_each_other_and_values_of_data_types() -> None:
    """Loops that a `return` leaves call each other in a circle; data types are passed on."""
    function = nnmagic.compile(FORMS, namespace={})
    gradient = nnmagic.grad(function, (0, 1))
    rng = np.random.default_rng(1)
    m, items = rng.normal(size=(4, 3)), AdtValue("Cons", (np.asarray(2), AdtValue("Nil")))
    for s, k, list_ in (
        (0.4, 5, AdtValue("Nil")),
        (0.3, 5, items),
        (-2.0, 3, AdtValue("Nil")),
        (0.1, 0, items),
    ):
        given: list[object] = [s, m, k, list_, items]
        for number, found in enumerate(gradient(*given)):
            way = rng.normal(size=found.shape)
            expected = differences(function, given, number, way)
            assert expected is not None
            np.testing.assert_allclose((found * way).sum(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled(every=20)
@pytest.mark.parametrize("seed", range(20))
def test_the_gradient_of_a_random_program(seed: int) -> None:
    assert not check(seed)


@pytest.mark.sampled(every=10)
@pytest.mark.parametrize("seed", range(10))
def test_the_second_derivative_of_a_random_program(seed: int) -> None:
    assert not check(seed, second=True)
