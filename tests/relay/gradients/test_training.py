"""What layers do in training, against NumPy and torch: dropout, batch normalization, losses, optimisers."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def dropped() -> nnmagic.CompiledFunction:
    return nnmagic.compile(
        'def f(x: Tensor[("n", 50), f64], key: i64):\n'
        "    y, pull = vjp(lambda v: dropout(v, 0.3, key=key), x)\n    return y, pull(ones_like(x))[0]\n"
    )


def test_dropout_drops_a_share_and_scales_the_rest(dropped: nnmagic.CompiledFunction) -> None:
    x = RNG.normal(size=(400, 50))
    y, gradient = dropped(x, 7)
    kept = y != 0
    assert abs(kept.mean() - 0.7) < 0.01
    assert np.abs(kept.mean(axis=0) - 0.7).max() < 0.1
    assert np.abs(kept.mean(axis=1) - 0.7).max() < 0.3
    np.testing.assert_allclose(y, np.where(kept, x / 0.7, 0), rtol=1e-12)
    np.testing.assert_allclose(gradient, np.where(kept, 1 / 0.7, 0), rtol=1e-12)


def test_a_key_gives_the_same_numbers_and_another_gives_others(dropped: nnmagic.CompiledFunction) -> None:
    x = np.ones((400, 50))
    masks = [dropped(x, key)[0] != 0 for key in (1, 2, 1 + 2**32, -1)]
    np.testing.assert_array_equal(dropped(x, 1)[0] != 0, masks[0])
    for index, mask in enumerate(masks):
        for other in masks[:index]:
            assert abs((mask == other).mean() - 0.58) < 0.02  # 0.7 ** 2 + 0.3 ** 2: they are independent


def test_dropout_by_a_key_of_jax_and_in_inference() -> None:
    function = nnmagic.compile(
        "def f(x: Tensor[(2, 3, 4), f32], key: Tensor[(2,), u32]):\n"
        "    return dropout(x, 1.0, key=key), dropout(x, 0.0, key=key), "
        "dropout(x, 0.5, training=False, key=key), dropout(x, 0.5, key=key)\n"
    )
    x = np.ones((2, 3, 4), "float32")
    nothing, everything, inference, half = function(x, np.array([0, 42], "uint32"))
    np.testing.assert_array_equal(nothing, 0 * x)
    np.testing.assert_array_equal(everything, x)
    np.testing.assert_array_equal(inference, x)
    assert 0 < np.count_nonzero(half) < 24
    assert set(np.unique(half)) == {0, 2}


BATCH_NORM = """
def f(x: Tensor[("n", 3, 4), f64], m: Tensor[(3,), f64], v: Tensor[(3,), f64], w: Tensor[(3,), f64],
      b: Tensor[(3,), f64], d: Tensor[("n", 3, 4), f64]):
    def loss(x, w, b):
        y, mean, var = batch_norm(x, m, v, weight=w, bias=b, training=True, momentum=0.3)
        return (y * d).sum(), (y, mean, var)
    return value_and_grad(loss, (0, 1, 2), has_aux=True)(x, w, b)
"""


def test_batch_norm_in_training_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, d = RNG.normal(2, 3, size=(5, 3, 4)), RNG.normal(size=(5, 3, 4))
    m, v, w, b = RNG.normal(size=3), RNG.uniform(0.5, 2, 3), RNG.normal(size=3), RNG.normal(size=3)
    (_, (y, mean, var)), gradients = nnmagic.compile(BATCH_NORM)(x, m, v, w, b, d)
    running = torch.tensor(m), torch.tensor(v)
    given = [torch.tensor(each, requires_grad=True) for each in (x, w, b)]
    expected = torch.nn.functional.batch_norm(
        given[0], *running, given[1], given[2], training=True, momentum=0.3
    )
    (expected * torch.tensor(d)).sum().backward()
    np.testing.assert_allclose(y, expected.detach(), rtol=1e-9)
    np.testing.assert_allclose(mean, running[0], rtol=1e-9)
    np.testing.assert_allclose(var, running[1], rtol=1e-9)
    for found, each in zip(gradients, given, strict=True):
        np.testing.assert_allclose(found, each.grad, rtol=1e-8, atol=1e-9)


@pytest.mark.full
def test_batch_norm_in_training_is_numpys() -> None:
    """The same without torch: the values, and that the gradient of a shift is the sum of cotangents."""
    x, d = RNG.normal(2, 3, size=(5, 3, 4)), RNG.normal(size=(5, 3, 4))
    m, v, w, b = RNG.normal(size=3), RNG.uniform(0.5, 2, 3), RNG.normal(size=3), RNG.normal(size=3)
    (_, (y, mean, var)), (of_x, of_w, of_b) = nnmagic.compile(BATCH_NORM)(x, m, v, w, b, d)
    own, spread = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    normal = (x - own) / np.sqrt(spread + 1e-5)
    np.testing.assert_allclose(y, normal * w[:, None] + b[:, None], rtol=1e-9)
    np.testing.assert_allclose(mean, 0.7 * m + 0.3 * x.mean((0, 2)), rtol=1e-9)
    np.testing.assert_allclose(var, 0.7 * v + 0.3 * x.var((0, 2)) * 20 / 19, rtol=1e-9)
    np.testing.assert_allclose(of_b, d.sum((0, 2)), rtol=1e-9)
    np.testing.assert_allclose(of_w, (d * normal).sum((0, 2)), rtol=1e-9)
    np.testing.assert_allclose(of_x.sum((0, 2)), 0, atol=1e-12)  # a shift of the batch changes nothing
