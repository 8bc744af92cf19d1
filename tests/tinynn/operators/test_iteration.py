"""Rounds of `for` loops over ranges, beside Python's own."""

from __future__ import annotations

import itertools

import pytest

import nnmagic

#: Around the ends of 64 bits, their halves, and nothing.
ENDS = (0, 1, -1, 2**61, 2**61 + 1, -(2**61), 2**62, -(2**62), 2**63 - 1, -(2**63))
STEPS = (2**31, -(2**31), 2**32 + 1, -3 * 2**40, 2**61, -(2**61), 2**62, 2**63 - 1, 1 - 2**63)
_MOST_ROUNDS = 2000

COUNT = """
def count(start: i64, stop: i64):
    rounds, last = 0, 0
    for i in range(START, stop, STEP):
        rounds, last = rounds + 1, i
    return rounds, last
"""


@pytest.mark.machine_code
@pytest.mark.parametrize("step", STEPS)
def test_a_range_longer_than_63_bits_has_pythons_rounds(step: int) -> None:
    for start in ("start", "5"):
        function = nnmagic.compile(COUNT.replace("START", start).replace("STEP", str(step)))
        for first, stop in itertools.product(ENDS, repeat=2):
            numbers = range(first if start == "start" else 5, stop, step)
            if len(numbers) <= _MOST_ROUNDS:
                last = numbers[-1] if numbers else 0
                assert tuple(map(int, function(first, stop))) == (len(numbers), last), (first, stop)
