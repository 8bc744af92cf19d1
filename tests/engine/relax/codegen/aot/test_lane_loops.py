"""Rounds of a loop that have sums of their own are computed in lanes: Python is the judge.

They judge engine/relax/codegen/aot/lane_facts, too.
"""

from __future__ import annotations

import math
import re
import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.aot import function_bodies
from nnmagic.engine.relax.codegen.aot.lane_plans import plan_lanes

pytestmark = pytest.mark.sampled(every=4)

#: Loops over a matrix ``x`` of n rows and m columns, a vector ``v`` of m elements, integers r and k; their
#: rounds are computed in lanes.
LANES = {
    "product of a matrix and a vector": """
        out = np.zeros((n, m))
        for i in range(n):
            s = 0.0
            for j in range(m):
                s += x[i, j] * v[j]
            out[i, 0] = s
    """,
    "window with clamped indices": """
        out = np.zeros((n, m))
        for i in range(n):
            for j in range(m):
                s = 0.0
                for a in range(i - r, i + r + 1):
                    for b in range(j - r, j + r + 1):
                        s += x[min(max(a, 0), n - 1), min(max(b, 0), m - 1)]
                out[i, j] = s / (2 * r + 1)
    """,
    "weights": """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            w = 1e-9
            for i in range(n):
                g = math.exp(-abs(x[i, j] - v[j]))
                s += g * x[i, j]
                w += g
            out[0, j] = s / w
    """,
    "what is changed is read": """
        out = np.ones((n, m))
        for j in range(m):
            s = out[0, j]
            for i in range(n):
                s += x[i, j]
            out[0, j] += s
    """,
    "a sum in the array": """
        out = np.zeros((n, m))
        for i in range(n):
            for j in range(m):
                out[i, 0] += x[i, j] * v[j]
    """,
    "sums in the array": """
        out = np.ones((n, m))
        for j in range(m):
            for i in range(n):
                out[0, j] += x[i, j]
                out[n - 1, j] = max(out[n - 1, j], out[0, j] * v[j])
    """,
    "backwards": """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            for i in range(n):
                s -= x[n - 1 - i, m - 1 - j]
            out[n - 1, m - 1 - j] = s
    """,
    "a maximum": """
        out = np.zeros((n, m))
        for j in range(m):
            s = -9.0
            for i in range(n):
                s = max(s, x[i, j])
            out[0, j] = s
    """,
    "integers beside": """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            c = k
            for i in range(n):
                c = c * 3 + j
                s += x[i, j] * (c & 7)
            out[0, j] = s + (c & 3)
    """,
    "rounds at a time, from k on": """
        out = np.zeros((n, m))
        for j in range(k, m):
            s = 0.0
            for i in range(n):
                s += x[i, j - k]
            out[0, j] = s
    """,
}

#: Loops whose rounds depend on each other, or that LLVM makes vectors of.
IN_ORDER = {
    "each round reads the one before": """
        out = np.zeros((n, m))
        for j in range(1, m):
            s = 0.0
            for i in range(n):
                s += x[i, j] * out[0, j - 1]
            out[0, j] = s + 1.0
    """,
    "rounds meet in one element": """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            for i in range(n):
                s += x[i, j]
            out[0, j // 2] += s
    """,
    "the length of the loop inside differs": """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            for i in range(min(j, n)):
                s += x[i, j]
            out[0, j] = s
    """,
    "a sum of all": """
        out = np.zeros((n, m))
        t = 0.0
        for j in range(m):
            s = 0.0
            for i in range(n):
                s += x[i, j]
            t += s * s
        out[0, 0] = t
    """,
}


def source_of(body: str) -> str:
    body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    head = 'def f(x: Tensor[("n", "m"), f64], v: Tensor[("m",), f64], r: i64, k: i64):\n    n, m = x.shape\n'
    return f"{head}{body}\n    return out\n"


def reference(body: str, *args: object) -> np.ndarray:
    scope: dict[str, object] = {"np": np, "math": math}
    exec(re.sub(r": (Tensor\[[^]]*\]|i64)", "", source_of(body)), scope)
    return scope["f"](*args)  # type: ignore[operator]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that have a loop whose rounds are computed in lanes."""
    names: list[str] = []

    def record(function, counted, separate):
        plan = plan_lanes(function, counted, separate)
        names.extend([] if plan is None else [function.name])
        return plan

    monkeypatch.setattr(function_bodies, "plan_lanes", record)
    return names


@pytest.mark.machine_code
@pytest.mark.parametrize("name", [*LANES, *IN_ORDER])
def test_rounds_in_lanes_give_what_the_loop_gives(name: str, plans: list[str]) -> None:
    body = {**LANES, **IN_ORDER}[name]
    f = nnmagic.compile(source_of(body), namespace={"np": np, "math": math}, cache=False)
    assert bool(plans) is (name in LANES)
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (3, 15), (16, 16), (17, 33), (40, 5)):
        for r, k in ((0, 0), (2, 3)):
            x, v = rng.standard_normal((n, m)), rng.standard_normal(m)
            np.testing.assert_allclose(f(x, v, r, k), reference(body, x, v, r, k), rtol=1e-11, atol=1e-13)


@pytest.mark.machine_code
def test_an_index_out_of_range_is_an_error_of_its_round() -> None:
    body = """
        out = np.zeros((n, m))
        for j in range(m):
            s = 0.0
            for i in range(n):
                s += x[i, j + k]
            out[0, j] = s
    """
    f = nnmagic.compile(source_of(body), namespace={"np": np}, cache=False)
    x, v = np.ones((4, 20)), np.ones(20)
    assert f(x, v, 0, 0)[0].tolist() == [4.0] * 20
    with pytest.raises(IndexError, match="20"):
        f(x, v, 0, 1)


@pytest.mark.machine_code
def test_helpers_that_are_called_several_times_keep_their_bounds(plans: list[str]) -> None:
    helper = """
        def total(z: Tensor[("n", "m"), f64], r: i64):
            n, m = z.shape
            out = np.zeros((n, m))
            for i in range(n):
                for j in range(m):
                    s = 0.0
                    for a in range(i - r, i + r + 1):
                        s += z[min(max(a, 0), n - 1), j]
                    out[i, j] = s
            return out
        def f(x: Tensor[("n", "m"), f64], y: Tensor[("p", "m"), f64], r: i64):
            return total(x, r), total(y, r)
    """
    source = textwrap.dedent(helper)
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert plans
    x, y = (np.random.default_rng(2).standard_normal(shape) for shape in ((5, 18), (9, 18)))
    for z, found in zip((x, y), f(x, y, 2), strict=True):
        rows = [np.clip(np.arange(len(z)) + a, 0, len(z) - 1) for a in range(-2, 3)]
        np.testing.assert_allclose(found, sum(z[row] for row in rows), rtol=1e-13)
