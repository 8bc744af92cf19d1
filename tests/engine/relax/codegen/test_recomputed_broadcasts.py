"""Broadcasts over pairs are computed where they are used, and not stored: NumPy is the judge."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nnmagic

#: Bodies over n points of two or three coordinates, and masses: the kernels whose results have a row a pair.
BODIES = {
    "d = x[:, None] - x[None]\n    return (d * d).sum(axis=-1)": 0,
    "d = x[:, None] - x[None]\n    r = m / ((d ** 2).sum(2) + 1)\n    return (r[:, :, None] * d).sum(1)": 0,
    "d = x[None] - x[:, None]\n    return ((d ** 2).sum(axis=2) ** 1.5, np.abs(d).max(axis=2))": 0,
    "d = x[:, None] - x[None]\n    return d, d.sum(axis=2)": None,
    "d = x[:, None] + x[None]\n    return np.sort(d, axis=0), d.prod(axis=2)": None,
}


@pytest.mark.machine_code
@pytest.mark.parametrize("points", ["n", 9])
@pytest.mark.parametrize("body", BODIES)
def test_pairs(body: str, points: object) -> None:
    size = repr(points) if points == "n" else points
    source = f"def f(x: Tensor[({size}, 3), f64], m: Tensor[({size},), f64]):\n    {body}\n"
    scope: dict[str, object] = {"np": np}
    exec(re.sub(r": Tensor\[[^]]*\]", "", source), scope)
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    rng = np.random.default_rng(3)
    for n in (1, 4, 9, 30) if points == "n" else (9,):
        args = rng.standard_normal((n, 3)), rng.uniform(1, 2, n)
        found, wanted = f(*args), scope["f"](*args)  # type: ignore[operator]
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    if BODIES[body] is not None:
        kernels = re.findall(r"def (subtract\w*)\(", f.stages["tir"])
        assert len(kernels) == BODIES[body]
