"""Convolutions and pooling of images whose height and width only the call knows have their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

_RNG = np.random.default_rng(2)
X = _RNG.normal(size=(2, 4, 7, 6))

_POOLS = (
    "kernel_size=2",
    "kernel_size=3, stride=2, padding=1",
    "kernel_size=2, stride=3",
    "kernel_size=3, stride=2, padding=1, ceil_mode=True",
    "kernel_size=(2, 3), stride=1",
)
#: A computation with images `x` and weights `w`, and the shape of these.
CASES = [
    ("conv2d(x, w)", (3, 4, 3, 2)),
    ("conv2d(x, w, padding=1, stride=2)", (3, 4, 3, 3)),
    ("conv2d(x, w, padding=(1, 0), stride=(3, 2), dilation=(2, 1))", (3, 4, 2, 3)),
    ("conv2d(x, w, groups=2, padding=1)", (6, 2, 3, 3)),
    ("conv2d(x, w, stride=3)", (3, 4, 2, 2)),
    ("conv1d(x[:, :, :, 0], w, padding=1, stride=2)", (3, 4, 3)),
    (
        "relay.nn.conv2d_transpose(x, w, channels=3, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1),"
        " output_padding=(1, 1))",
        (4, 3, 3, 3),
    ),
    ("grad(lambda x: (conv2d(x, w, stride=2, padding=1) ** 3).sum())(x)", (3, 4, 3, 3)),
    *((f"max_pool2d(x, {form}) * w", ()) for form in _POOLS),
    *((f"avg_pool2d(x, {form}) * w", ()) for form in _POOLS),
    *((f"avg_pool2d(x, {form}, count_include_pad=False) * w", ()) for form in _POOLS),
    *((f"adaptive_{kind}_pool2d(x, {size}) * w", ()) for kind in ("avg", "max") for size in (1, 3, 5)),
]


def _gradients(text: str, sizes: str, shape: tuple[int, ...], engine: str) -> tuple[np.ndarray, np.ndarray]:
    signature = f"x: Tensor[({sizes}), f64], w: Tensor[{shape}, f64]"
    found = nnmagic.compile(
        f"def loss({signature}):\n    y = {text}\n    return (y ** 2).sum() + y[0].sum()\n"
        f"def main({signature}):\n    return grad(loss, argnums=(0, 1))(x, w)\n",
        engine=engine,
        cache=False,
        namespace={},
    )
    weights = np.random.default_rng(len(text)).normal(size=shape)
    first, second = found(X, np.asarray(weights))
    return first, second


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("text", "shape"), CASES)
def test_named_sizes_have_the_gradients_of_known_ones(text: str, shape: tuple[int, ...]) -> None:
    named = _gradients(text, "'n', 4, 'h', 'w'", shape, "numpy")
    known = _gradients(text, "2, 4, 7, 6", shape, "numpy")
    for one, other in zip(named, known, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize(("text", "shape"), [CASES[1], CASES[9]])
def test_machine_code_agrees(text: str, shape: tuple[int, ...]) -> None:
    for one, other in zip(
        _gradients(text, "'n', 4, 'h', 'w'", shape, "auto"),
        _gradients(text, "2, 4, 7, 6", shape, "numpy"),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
