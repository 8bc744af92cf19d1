"""Softmax, normalisations and rows of primitive operators, against NumPy in float64."""

import numpy as np
import pytest

from tests.engine.relax.schedules.test_reductions import TARGETS, normal, run

pytestmark = pytest.mark.sampled(every=6)

SHAPES = [
    (1, 1),
    (1, 7),
    (9, 1),
    (5, 16),
    (33, 100),
    (17, 1000),
    (4, 6, 5),
    (3, 50, 70),
    (2, 4, 9, 9),
    (2, 70000),
]


def softmax(x, axis):
    x = x.astype("f8")
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def standardize(x, axes, epsilon=1e-5):
    x = x.astype("f8")
    distance = x - x.mean(axes, keepdims=True)
    return distance / np.sqrt((distance**2).mean(axes, keepdims=True) + epsilon)


@pytest.mark.sampled(every=6)
@pytest.mark.full("(2, 70000)-this", "(2, 4, 9, 9)-avx2", "(2, 70000)-avx2", "(2, 4, 9, 9)-this")
@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_along_every_axis(shape, target):
    x = normal(shape) * 5
    for axis in range(len(shape)):
        result = run(f"nn.softmax(%x, axis={axis})", x, target=target)
        np.testing.assert_allclose(result, softmax(x, axis), rtol=1e-5, atol=1e-37)
        result = run(f"nn.log_softmax(%x, axis={axis})", x, target=target)
        np.testing.assert_allclose(result, np.log(softmax(x, axis)), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_softmax_of_other_dtypes(dtype):
    x = normal((11, 37), dtype)
    tolerance = {"float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for axis in (0, 1):
        result = run(f"nn.softmax(%x, axis={axis})", x).astype("f8")
        np.testing.assert_allclose(result, softmax(x, axis), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_what_is_not_finite(axis):
    x = normal((40, 50))
    x[0, 0], x[1, 5], x[2, 6], x[:, 7], x[8, :] = np.nan, np.inf, -np.inf, -np.inf, 1e30
    x[9, :] = np.linspace(-110, 0, 50)
    with np.errstate(invalid="ignore"):
        expected = softmax(x, axis)
    result = run(f"nn.softmax(%x, axis={axis})", x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[-1] > 1], ids=str)
def test_layer_norm(shape, target):
    x, gamma, beta = normal(shape) + 3, normal(shape[-1:], seed=1), normal(shape[-1:], seed=2)
    result = run("nn.layer_norm(%x, %y, %z)", x, gamma, beta, target=target)
    np.testing.assert_allclose(result, standardize(x, (-1,)) * gamma + beta, rtol=1e-4, atol=1e-4)


def test_layer_norm_along_another_axis():
    x, gamma, beta = normal((5, 37, 70)), normal((37,), seed=1), normal((37,), seed=2)
    result = run("nn.layer_norm(%x, %y, %z, axis=1)", x, gamma, beta)
    expected = standardize(x, (1,)) * gamma[:, None] + beta[:, None]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 6, 7, 7), (1, 4, 33), (3, 8, 1, 5), (2, 12, 40, 40)], ids=str)
def test_instance_and_group_norm(shape):
    x, gamma, beta = normal(shape), normal(shape[1:2], seed=1), normal(shape[1:2], seed=2)
    wide = (slice(None), *(None for _ in shape[2:]))
    spatial = tuple(range(2, len(shape)))
    expected = standardize(x, spatial) * gamma[wide] + beta[wide]
    result = run("nn.instance_norm(%x, %y, %z)", x, gamma, beta)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    grouped = x.reshape(shape[0], 2, -1)
    expected = standardize(grouped, (2,)).reshape(shape) * gamma[wide] + beta[wide]
    result = run("nn.group_norm(%x, %y, %z, num_groups=2)", x, gamma, beta)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_l2_normalize(axis):
    x = normal((35, 130))
    result = run(f"nn.l2_normalize(%x, eps=1e-12f, axis=[{axis}])", x)
    expected = x / np.sqrt((x.astype("f8") ** 2).sum(axis, keepdims=True))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(33, 100), (300, 17), (1, 5), (4, 1)], ids=str)
def test_rows_of_primitive_operators(shape):
    x = normal(shape)
    body = (
        "let %m = max(%x, axis=[1], keepdims=True); let %e = exp(%x - %m); "
        "%e / sum(%e, axis=[1], keepdims=True)"
    )
    np.testing.assert_allclose(run(body, x), softmax(x, 1), rtol=1e-5)
    body = (
        "let %d = %x - mean(%x, axis=[1], keepdims=True); "
        "%d / sqrt(mean(%d * %d, axis=[1], keepdims=True) + 0.00001f)"
    )
    np.testing.assert_allclose(run(body, x), standardize(x, (1,)), rtol=1e-4, atol=1e-5)
    body = "let %m = max(%x, axis=[1], keepdims=True); log(sum(exp(%x - %m), axis=[1], keepdims=True)) + %m"
    expected = np.log(np.exp(x.astype("f8")).sum(1, keepdims=True))
    np.testing.assert_allclose(run(body, x), expected, rtol=1e-5, atol=1e-6)
