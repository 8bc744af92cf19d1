"""Pooling of what a convolution gives, on blocked channels: NumPy is the judge."""

import itertools
import math

import numpy as np
import pytest

from tests.engine.programs import compile_text
from tests.engine.relax.codegen.targets import OLDER

pytestmark = pytest.mark.sampled(every=3)

TARGETS = [None, OLDER]


def pool(kind, x, size, stride, pad, step, *, counted, ceil):
    """Windows over the axes from 2 on."""
    spatial = len(size)
    spans = [(k - 1) * d + 1 for k, d in zip(size, step, strict=True)]
    room = [dim + 2 * p - span for dim, p, span in zip(x.shape[2:], pad, spans, strict=True)]
    made = [(math.ceil if ceil else math.floor)(r / s) + 1 for r, s in zip(room, stride, strict=True)]
    result = np.empty((*x.shape[:2], *made), x.dtype)
    for at in itertools.product(*map(range, made)):
        taps = [[o * stride[i] - pad[i] + k * step[i] for k in range(size[i])] for i, o in enumerate(at)]
        inside = [[t for t in taps[i] if 0 <= t < x.shape[2 + i]] for i in range(spatial)]
        window = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
        axes = tuple(range(2, 2 + spatial))
        count = math.prod(size) if counted else math.prod(map(len, inside))
        actual = window.max(axes) if kind == "max" else window.sum(axes) / x.dtype.type(count)
        result[(..., *at)] = actual
    return result


def program(name, x, attributes):
    """A convolution that multiplies by 1, so that its result is blocked, and the pool."""
    spatial = x.ndim - 2
    shape = ", ".join(map(str, x.shape))
    ones = ", ".join(["1"] * spatial)
    channels = x.shape[1]
    return (
        f"def @main(%x: Tensor[({shape}), {x.dtype}], %w: Tensor[({channels}, 1, {ones}), {x.dtype}]) "
        f"{{ {name}(nn.conv{spatial}d(%x, %w, padding=[{', '.join(['0'] * 2 * spatial)}], groups={channels}, "
        f"channels={channels}, kernel_size=[{ones}]), {attributes}) }}"
    )


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize(
    ("shape", "kind", "size", "stride", "pad", "step", "counted", "ceil"),
    [
        ((1, 20, 9, 11), "max", [3, 3], [2, 2], [1, 1], [1, 1], False, False),
        ((2, 3, 7, 6), "max", [2, 2], [2, 2], [0, 0], [1, 1], False, True),
        ((1, 16, 40, 33), "max", [3, 2], [1, 2], [0, 1], [2, 1], False, False),
        ((1, 33, 9, 11), "avg", [3, 3], [2, 2], [1, 1], [1, 1], False, False),
        ((1, 8, 9, 12), "avg", [3, 3], [1, 1], [1, 1], [1, 1], True, False),
        ((1, 16, 9, 10), "avg", [3, 3], [2, 2], [1, 1], [1, 1], False, True),
        ((1, 5, 17), "max", [3], [2], [1], [1], False, False),
        ((1, 5, 17), "avg", [4], [3], [2], [1], False, False),
        ((1, 17, 5, 6, 7), "max", [2, 3, 3], [2, 1, 2], [0, 1, 1], [1, 1, 1], False, False),
        ((1, 17, 5, 6, 7), "avg", [2, 3, 3], [2, 1, 2], [1, 1, 1], [1, 1, 1], False, False),
        ((1, 2, 1, 1), "max", [1, 1], [1, 1], [0, 0], [1, 1], False, False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pooling(target, dtype, shape, kind, size, stride, pad, step, counted, ceil):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    if kind == "max":
        x.ravel()[::7] = -np.inf
        x.ravel()[::31] = np.nan
    name = f"nn.{kind}_pool{len(size)}d"
    attributes = f"pool_size={size}, strides={stride}, padding={pad + pad}, dilation={step}, ceil_mode={ceil}"
    if kind == "avg":
        attributes += f", count_include_pad={counted}"
    w = np.ones((shape[1], *[1] * (len(shape) - 1)), dtype)
    result = compile_text(program(name, x, attributes), target=target)([x, w])
    expected = pool(kind, x, size, stride, pad, step, counted=counted, ceil=ceil)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("shape", [(1, 20, 7, 7), (2, 16, 1, 1), (1, 3, 30, 41)])
def test_global_pooling(target, kind, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    w = np.ones((shape[1], 1, 1, 1), "float32")
    result = compile_text(program(f"nn.global_{kind}_pool2d", x, 'layout="NCHW"'), target=target)([x, w])
    expected = x.max((2, 3), keepdims=True) if kind == "max" else x.mean((2, 3), keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
