"""Axes that are rolled or padded are read where they are, at sizes of the call, also below the shift."""

import numpy as np
import pytest

import nnmagic

_SHAPES = [(0, 3), (1, 1), (1, 5), (2, 2), (3, 4), (9, 17), (33, 40)]

_PROGRAMS = {
    "neighbours": "np.roll(x, 1, 0) - 2 * np.roll(x, -1, 0) - 3 * np.roll(x, 1, 1) - 4 * np.roll(x, -1, 1)",
    "diagonals": "np.roll(np.roll(x, 1, 0), -1, 1) + 2 * np.roll(x, (-1, 2), (0, 1))",
    "far": "np.roll(x, 7, 1) - np.roll(x * 2, -100, 0)",
    "wrap": "np.pad(x + 1, ((3, 1), (0, 5)), mode='wrap') * 2",
    "edge": "np.pad(x + 1, ((3, 1), (0, 5)), mode='edge') * 2",
    "run time": "np.roll(x, k, 1) + np.roll(x, -k, 0)",
    "padded at run time": "np.pad(x, ((k, 1), (2, k)), mode='edge') - 1",
}

#: Those that take more than a second.
_LONG = ("neighbours", "diagonals", "padded at run time")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name in _LONG)) for name in _PROGRAMS]
)
def test_rolled_and_extended_axes(name):
    rng = np.random.default_rng(0)
    expression = _PROGRAMS[name]
    f = nnmagic.compile(
        f'def f(x: Tensor[("n", "m"), f64], k: i64):\n    return {expression}', namespace={"np": np}
    )
    for shape in _SHAPES[bool("pad" in expression) :]:
        for k in (1, 3):
            x = rng.standard_normal(shape)
            expected = eval(expression, {"np": np, "x": x, "k": k})
            np.testing.assert_allclose(f(x, k), expected, rtol=1e-12, atol=1e-12)
