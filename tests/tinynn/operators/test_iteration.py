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


#: Bounds of a range in a loop over i, with r that only the call knows: their terms cancel, or some of them.
WINDOWS = [
    "i - 1, i + 2",
    "i - r, i + r + 1",
    "i + 2, i - 3, -1",
    "r - i, 2 * r - i",
    "i, i",
    "i + r, i - r",
    "i, i + 7, 3",
]


@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.machine_code)])
@pytest.mark.parametrize("bounds", WINDOWS)
def test_windows_whose_bounds_have_terms_in_common(bounds: str, engine: str) -> None:
    source = (
        "def f(n: i64, r: i64):\n"
        "    total = 0\n"
        "    for i in range(n):\n"
        f"        for k in range({bounds}):\n"
        "            total = total * 3 + k\n"
        "    return total\n"
    )
    scope: dict[str, object] = {}
    exec(source.replace(": i64", ""), scope)
    function = nnmagic.compile(source, engine=engine)
    for n, r in ((0, 2), (3, 0), (4, 2), (3, -1)):
        wanted = (scope["f"](n, r) + 2**63) % 2**64 - 2**63  # type: ignore[operator]
        assert int(function(n, r)) == wanted
