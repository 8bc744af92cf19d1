"""The state of PCG64 as an array."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from nnmagic.relay import generators
from nnmagic.relay.generators import draw, seeded, set_state, state_of


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_state_goes_into_an_array_and_back(monkeypatch: pytest.MonkeyPatch, *, in_memory: bool) -> None:
    """It is read and written where it lies in memory, where that is as expected."""
    assert generators._is_plain_memory() or sys.platform != "linux"
    monkeypatch.setattr(generators, "_is_plain_memory", lambda: in_memory)
    rng, other = np.random.default_rng(2**100), np.random.default_rng(1)
    for _ in range(5):
        rng.integers(10, dtype=np.int32)
        set_state(other, state_of(rng))
        described = rng.bit_generator.state
        assert other.bit_generator.state == described
        words = state_of(rng).tolist()
        assert [words[0] | words[1] << 64, words[2] | words[3] << 64] == list(described["state"].values())
        assert words[4:] == [described["has_uint32"], described["uinteger"]]
    np.testing.assert_array_equal(seeded(9), state_of(np.random.default_rng(9)))


def test_a_draw_leaves_the_state_that_it_is_given() -> None:
    state = seeded(4)
    after, numbers = draw("normal", state, np.zeros((2, 3)), (np.float64(1), np.float64(2)))
    rng = np.random.default_rng(4)
    np.testing.assert_array_equal(numbers, rng.normal(1, 2, (2, 3)))
    np.testing.assert_array_equal(after, state_of(rng))
    np.testing.assert_array_equal(state, seeded(4))
