"""Assignments to nearly all of an array, one after the other: NumPy is the judge."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import nnmagic

#: Changes of ``q``, a copy of ``u``, of which one kernel computes each run of assignments.
BODIES = {
    "shifted sums": "q[1:] += u[:-1]\nq[:-1] += u[1:]\nq[:, 1:] += u[:, :-1]\nq[:, :-1] -= u[:, 1:]",
    "an interior": "q[1:-1, 1:-1] *= 2\nq[1:-1, 1:-1] += u[2:, 1:-1]\nq[1:-1, 1:-1] -= u[:-2, 1:-1]",
    "sums of the array itself": "q[1:] += q[:-1]\nq[:-1] += q[1:]\nq[2:] = q[2:] * q[2:]",
    "read in between": "q[1:] += u[:-1]\ns = q[1:].sum()\nq[:-1] += u[1:] * s",
    "a few rows": "q[1:3] += u[1:3]\nq[:-2] += u[2:]\nq[0] += 1",
}


@pytest.mark.machine_code
@pytest.mark.parametrize("name", BODIES)
def test_assignments_to_nearly_all_of_an_array(name: str) -> None:
    head = 'def f(u: Tensor[("n", "m"), f64]):\n    q = u.copy()\n'
    source = f"{head}{textwrap.indent(BODIES[name], '    ')}\n    return q\n"
    scope: dict[str, object] = {"np": np}
    exec(re.sub(r": Tensor\[[^]]*\]", "", source), scope)
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    for n in (4, 9, 40) if name == "a few rows" else (0, 1, 2, 3, 9, 40):
        for m in (0, 1, 2, 3, 17):
            u = np.random.default_rng(n).standard_normal((n, m))
            np.testing.assert_allclose(f(u), scope["f"](u), rtol=1e-13)  # type: ignore[operator]


def test_assignments_are_one_kernel() -> None:
    source = """
def f(h: Tensor[("n", "m"), f64], t: Tensor[("n", "m"), f64]):
    h = h.copy()
    h[1:] += t[:-1]
    h[:-1] += t[1:]
    h[:, 1:] += t[:, :-1]
    return h
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert function.stages["tir"].count("T.prim_func") == 1
