"""Test the shape that several tensors of a cell broadcast to."""

from __future__ import annotations

from itertools import permutations

import pytest

from nnmagic.relay.types import ANY, AnyDim, Dim
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape

N, M = AnyDim("n"), AnyDim("m")


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([(3, 1), (4,)], (3, 4)),
        ([(), (2,), (5, 1)], (5, 2)),
        ([(1,), (N,), (N,)], (N,)),
        ([(ANY,), (3,), (1,)], (3,)),
        ([(ANY,), (N,), (1,)], (N,)),
        ([(ANY,), (1,)], (ANY,)),
        ([(3,), (4,)], None),
        ([(N,), (M,), (1,)], None),
        ([(ANY,), (N,), (3,)], None),
    ],
)
def test_a_size_that_says_more_wins_in_any_order(
    shapes: list[tuple[Dim, ...]], result: tuple[Dim, ...] | None
) -> None:
    assert all(broadcast_shape(order) == result for order in permutations(shapes))
