"""Regions that are assigned while their new elements are computed from the same array, judged by NumPy."""

import random

import numpy as np
import pytest
from tvm import tirx

import nnmagic
from nnmagic.engine.relax.codegen.assignment_conflicts import find_conflicts
from nnmagic.engine.relax.schedules.overlaps import Positions

HEADER = 'def f(q: Tensor[(3, "n", "m"), f64], w: Tensor[("n", "m"), f64], rounds: i64):\n'


def test_what_may_be_read_where_a_region_is_written():
    i, j, n = (tirx.Var(name, "int64") for name in "ijn")
    positions = Positions([i, j], [(1, n - 2), (0, 4)])
    assert positions.is_safe([i, j])
    assert positions.is_safe([0, j + 1])  # the row before the region
    assert positions.is_safe([i, j + 4])
    assert not positions.is_safe([i - 1, j])
    assert not positions.is_safe([j, i])
    row = Positions([i, j], [(1, 1), (0, n)])
    assert row.is_safe([0, j])
    assert row.is_safe([2, j + 5])
    assert not row.is_safe([1, j + 1])


def draw_program(seed: int) -> str:
    rng = random.Random(seed)
    rows = {":": ":", "1:": ":-1", "1:-1": ":-2", "2:": "2:", ":-2": "1:-1"}

    def read(plane: object, rows_: str, columns: str) -> str:
        return f"q[{plane}, {rows_}, {columns}]"

    lines = []
    for _ in range(rng.randint(1, 4)):
        down, across = rng.choice(list(rows)), rng.choice(list(rows))
        plane = rng.choice([0, 1, 2, 2])
        shifted = [down, rows[down]], [across, rows[across]]
        terms = []
        for _ in range(rng.randint(1, 3)):
            factor, part = rng.choice(["0.5", "w[0, 0]"]), rng.randrange(3)
            terms.append(f"{factor} * {read(part, *map(rng.choice, shifted))}")
        sign = rng.choice(["=", "+=", "-=", "*="])
        lines.append(f"q[{plane}, {down}, {across}] {sign} {' + '.join(terms)}")
    if rng.random() < 0.5:
        lines.append("q *= 0.75")
    if rng.random() < 0.3:
        lines.append("w = w + q[0]")
    body = "".join(f"        {line}\n" for line in lines)
    return f"{HEADER}    q = q.copy()\n    for _ in range(rounds):\n{body}    return q, w\n"


def by_numpy(source: str, *args):
    scope = {}
    exec(source.replace(HEADER, "def f(q, w, rounds):\n"), scope)
    return scope["f"](*args)


@pytest.mark.sampled(every=30)
@pytest.mark.parametrize("seed", range(80))
def test_regions_computed_from_their_own_array(seed):
    source = draw_program(seed)
    f = nnmagic.compile(source, cache=False)
    for n, m in ((5, 7), (34, 21)):
        rng = np.random.default_rng(seed)
        q, w = rng.random((3, n, m)), rng.random((n, m))
        for ours, expected in zip(f(q, w, 3), by_numpy(source, q, w, 3), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-11, err_msg=source)


@pytest.mark.full
def test_updates_that_read_other_elements_are_kept_apart(monkeypatch):
    found = []

    def record(module):
        found.append(find_conflicts(module))
        return found[-1]

    monkeypatch.setattr("nnmagic.engine.relax.codegen.relax_pipeline.find_conflicts", record)
    for right, conflicts in (("q[0, 1:]", False), ("q[1, :-1]", False), ("q[1, 1:]", True)):
        found.clear()
        f = nnmagic.compile(
            f"{HEADER}    q = q.copy()\n    q[1, :-1] += 0.5 * {right}\n    return q\n", cache=False
        )
        q = np.arange(60.0).reshape(3, 4, 5)
        expected = q.copy()
        expected[1, :-1] += 0.5 * eval(right, {"q": q})
        np.testing.assert_array_equal(f(q, q[0], 1), expected)
        assert any(found) == conflicts
