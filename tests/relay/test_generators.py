"""The state of PCG64 as an array."""

from __future__ import annotations

import numpy as np

from nnmagic.relay.generators import draw, seeded, set_state, state_of


def test_a_state_goes_into_an_array_and_back() -> None:
    rng, other = np.random.default_rng(2**100), np.random.default_rng(1)
    for _ in range(5):
        rng.integers(10, dtype=np.int32)
        set_state(other, state_of(rng))
        assert other.bit_generator.state == rng.bit_generator.state
    np.testing.assert_array_equal(seeded(9), state_of(np.random.default_rng(9)))


def test_a_draw_leaves_the_state_that_it_is_given() -> None:
    state = seeded(4)
    after, numbers = draw("normal", state, np.zeros((2, 3)), (np.float64(1), np.float64(2)))
    rng = np.random.default_rng(4)
    np.testing.assert_array_equal(numbers, rng.normal(1, 2, (2, 3)))
    np.testing.assert_array_equal(after, state_of(rng))
    np.testing.assert_array_equal(state, seeded(4))
