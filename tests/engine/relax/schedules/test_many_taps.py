"""Windows of many taps, which are loops: the engine ``numpy`` is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.schedules.convolution.windows import MOST_TAPS, UNROLLED_TAPS, group_taps

#: The call, and the shapes of the data and of the weights.
CASES = {
    "inside": ("conv2d(x, w)", (1, 2, 5, 260), (3, 2, 2, 101)),
    "padding": ("conv2d(x, w, padding=(0, 50))", (1, 2, 5, 130), (3, 2, 2, 101)),
    "padding, stride, dilation": (
        "conv2d(x, w, padding=(1, 70), strides=(1, 3), dilation=(1, 2))",
        (2, 2, 5, 150),
        (3, 2, 2, 70),
    ),
    "longer than the data": ("conv2d(x, w, padding=(0, 80))", (1, 2, 3, 20), (3, 2, 2, 101)),
    "groups": ("conv2d(x, w, groups=16, padding=(0, 33))", (1, 16, 3, 90), (16, 1, 1, 67)),
    "transposed": ("conv2d_transpose(x, w, strides=(1, 2), padding=(0, 3))", (1, 3, 3, 40), (3, 2, 1, 150)),
    "named": ("conv2d(x, w, padding=(0, 50))", (1, 2, 5, "n"), (3, 2, 2, 101)),
    "one dimension": ("conv1d(x, w, padding=33)", (1, 4, 300), (5, 4, 66)),
}


def array(shape: tuple[int | str, ...], seed: int) -> np.ndarray:
    sizes = [140 if isinstance(size, str) else size for size in shape]
    return np.random.default_rng(seed).standard_normal(sizes).astype("f4")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "is_finite"),
    # The judge multiplies zeros between the elements of what is transposed, as torch does not.
    [(name, is_finite) for name in CASES for is_finite in (True, False) if is_finite or name != "transposed"],
)
def test_a_convolution_of_many_taps(name: str, is_finite: bool) -> None:
    call, data, weights = CASES[name]
    shapes = [str(shape).replace("'", '"') for shape in (data, weights)]
    source = f"def f(x: Tensor[{shapes[0]}, f32], w: Tensor[{shapes[1]}, f32]):\n    return {call}\n"
    x, w = array(data, 1), array(weights, 2)
    if not is_finite:
        w[..., 5] = np.inf
    compiled, judge = (nnmagic.compile(source, engine=engine) for engine in ("relax", "numpy"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(compiled(x, w), judge(x, w), rtol=1e-3, atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_a_pool_of_many_taps(pool: str) -> None:
    call = f"{pool}(conv2d(x, w), pool_size=(1, 70), strides=(1, 1), padding=(0, 30))"
    source = f"def f(x: Tensor[(1, 8, 3, 200), f32], w: Tensor[(16, 8, 1, 1), f32]):\n    return {call}\n"
    x, w = array((1, 8, 3, 200), 3), array((16, 8, 1, 1), 4)
    compiled, judge = (nnmagic.compile(source, engine=engine) for engine in ("relax", "numpy"))
    np.testing.assert_allclose(compiled(x, w), judge(x, w), rtol=1e-4, atol=1e-4)


def test_groups_are_the_taps_in_order() -> None:
    for count in (1, MOST_TAPS, MOST_TAPS + 1, 3 * MOST_TAPS + 5):
        taps = [(k, 3 * k - 7) for k in range(count)]
        inside = [(0, 4)] * (count - 1) + [(1, 4)]
        grouped = [
            (group.first[0] + place * group.step[0], group.first[1] + place * group.step[1])
            for group in group_taps(taps, inside)
            for place in range(max(1, group.rounds * UNROLLED_TAPS))
        ]
        assert grouped == taps
