"""Loops contain the small kernels that they call, as those of state-space models: NumPy is the judge."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import nnmagic

#: Rounds over a matrix ``a`` of 2 x 2, a vector ``v`` of 2, the samples ``y``, and results ``out`` of n x 2.
BODIES = {
    "products": "v = a @ v\nout[t] = v",
    "a filter": "v = a @ v + y[t]\na = a - np.outer(v, v) / (1 + v @ v)\nout[t] = a @ v",
    "an inverse": "a = np.linalg.inv(a + np.eye(2) * (2 + y[t] ** 2))\nout[t] = a[0] + v",
    "rows that are read back": "out[t] = v * y[t]\nv = out[t] + out[t - 1]",
    "exchanged": "v = v[::-1] * 0.5\na = a.T + y[t]\nout[t] = a.sum(axis=0) + v",
    "elements": "v[t % 2] += y[t]\nout[t] = np.where(v > 0, v, a[1])",
    "a loop inside": "for i in range(2):\n    v = v + a[i] * y[t]\nout[t] = v / (1 + np.abs(v).max())",
    "a branch": "if y[t] > 0:\n    v = a @ v\nelse:\n    v = v - y[t]\nout[t] = v",
    "large arrays beside": "out = out * 0.5\nout[t] = a @ v + out[0]",
}


@pytest.mark.machine_code
@pytest.mark.parametrize("name", BODIES)
def test_rounds_of_small_arrays(name: str) -> None:
    head = 'def f(a: Tensor[(2, 2), f64], v: Tensor[(2,), f64], y: Tensor[("n",), f64]):\n'
    body = textwrap.indent(BODIES[name], "        ")
    start = "    a, v = a.copy(), v.copy()\n    out = np.zeros((len(y), 2))\n    for t in range(len(y)):\n"
    source = f"{head}{start}{body}\n    return out, a, v\n"
    scope: dict[str, object] = {"np": np}
    exec(re.sub(r": Tensor\[[^]]*\]", "", source), scope)
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    for n in (0, 1, 5, 40):
        rng = np.random.default_rng(n)
        args = 0.3 * rng.standard_normal((2, 2)), rng.standard_normal(2), rng.standard_normal(n)
        for one, other in zip(f(*args), scope["f"](*args), strict=True):  # type: ignore[operator]
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.machine_code
def test_the_time_of_small_kernels_can_be_asked_for() -> None:
    source = (
        "def f(a: Tensor[(2, 2), f64], v: Tensor[(2,), f64]):\n"
        "    for t in range(9):\n        v = a @ v\n    return v\n"
    )
    f = nnmagic.compile(source, cache=False)
    a, v = np.full((2, 2), 0.5), np.array([1.0, 3.0])
    np.testing.assert_allclose(f(a, v), [2.0, 2.0])
    assert "matmul" in f.stages["tir"]
