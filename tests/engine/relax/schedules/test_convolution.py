"""Convolutions as direct kernels on blocked channels: NumPy is the judge."""

import itertools

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay.expr import Constant, Function
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import substitute
from tests.engine.programs import compile_text, module
from tests.engine.relax.codegen.targets import OLDER

pytestmark = pytest.mark.sampled(every=6)

TARGETS = [None, OLDER]


@np.errstate(invalid="ignore")  # some data and weights are infinite
def convolve(x, w, stride, pad, step, groups):
    """A convolution in float64, tap by tap."""
    spatial = x.ndim - 2
    padded = np.pad(x.astype("f8"), [(0, 0), (0, 0), *[(p, p) for p in pad]])
    made = [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], w.shape[2:], stride, step, strict=True)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *made))
    own, each = w.shape[0] // groups, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, step, made, stride, strict=True)
        )
        seen = padded[(slice(None), slice(None), *cut)]
        for g in range(groups):
            weight = w[(slice(g * own, (g + 1) * own), slice(None), *tap)].astype("f8")
            part = np.tensordot(weight, seen[:, g * each : (g + 1) * each], axes=([1], [1]))
            result[:, g * own : (g + 1) * own] += np.moveaxis(part, 1, 0)
    assert result.ndim == 2 + spatial
    return result


@np.errstate(invalid="ignore")
def convolve_transpose(x, w, stride, pad, step, groups, extra):
    """A transposed convolution in float64: each element of the data is added to those that it reaches."""
    spatial = x.ndim - 2
    own, each = w.shape[1], x.shape[1] // groups
    full = [
        (size - 1) * s + (k - 1) * d + 1 + e
        for size, s, k, d, e in zip(x.shape[2:], stride, w.shape[2:], step, extra, strict=True)
    ]
    result = np.zeros((x.shape[0], own * groups, *full))
    for tap in itertools.product(*map(range, w.shape[2:])):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, step, x.shape[2:], stride, strict=True)
        )
        for g in range(groups):
            rows = slice(g * each, (g + 1) * each)
            part = np.tensordot(w[(rows, slice(None), *tap)].astype("f8"), x[:, rows], axes=([0], [1]))
            result[(slice(None), slice(g * own, (g + 1) * own), *cut)] += np.moveaxis(part, 1, 0)
    inner = tuple(slice(p, size - p) for p, size in zip(pad, full, strict=True))
    assert len(inner) == spatial
    return result[(slice(None), slice(None), *inner)]


def program(name, x, w, attributes, after="%0"):
    shapes = [", ".join(map(str, each.shape)) for each in (x, w)]
    return (
        f"def @main(%x: Tensor[({shapes[0]}), {x.dtype}], %w: Tensor[({shapes[1]}), {x.dtype}]) {{\n"
        f"  %0 = {name}(%x, %w, {attributes});\n  {after}\n}}"
    )


def with_constant_weight(text, w):
    """The program with its weight known when compiling."""
    function = module(text).functions["main"]
    data, weight = function.params
    body = substitute(function.body, {weight: Constant(w)})
    return infer_type(Module({"main": Function((data,), body, None)}))


def close(result, expected, dtype):
    np.testing.assert_allclose(
        result,
        expected,
        rtol=1e-4 if dtype == "float32" else 1e-10,
        atol=1e-4 if dtype == "float32" else 1e-11,
    )


CASES = [
    # data, channels made, window, stride, padding, dilation, groups
    ((1, 3, 21, 30), 17, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((1, 16, 14, 14), 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 20, 9, 13), 33, (3, 2), (1, 2), (2, 0), (1, 3), 1),
    ((1, 40, 7, 7), 64, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 16, 1, 1), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 1, 5, 60), 1, (5, 5), (1, 1), (2, 2), (2, 2), 1),
    ((1, 32, 15, 16), 32, (3, 3), (1, 1), (1, 1), (1, 1), 32),
    ((1, 20, 15, 16), 20, (5, 3), (2, 2), (2, 1), (1, 1), 20),
    ((1, 8, 10, 10), 24, (3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((1, 12, 8, 9), 18, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((1, 64, 8, 9), 64, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((1, 9, 6, 7), 48, (3, 2), (2, 1), (1, 0), (1, 2), 3),
    ((2, 32, 7, 5), 6, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((1, 5, 50), 19, (3,), (2,), (1,), (2,), 1),
    ((1, 6, 5, 6, 7), 20, (3, 2, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 2),
]


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("constant", [False, True], ids=["argument", "constant"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[0])) + f"-{case[6]}")
def test_convolution(case, dtype, constant, target):
    shape, made, window, stride, pad, step, groups = case
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape).astype(dtype)
    w = generator.standard_normal((made, shape[1] // groups, *window)).astype(dtype)
    attributes = (
        f"strides={list(stride)}, padding={list(pad + pad)}, dilation={list(step)}, groups={groups}, "
        f"channels={made}, kernel_size={list(window)}"
    )
    text = program(f"nn.conv{len(window)}d", x, w, attributes, "nn.relu(%0)")
    if constant:
        result = build(with_constant_weight(text, w), "main", target=target)([x])
    else:
        result = compile_text(text, target=target)([x, w])
    close(result, np.maximum(convolve(x, w, stride, pad, step, groups), 0), dtype)


#: Sizes of images, also smaller than a tile of a row, and of a single element.
SIZES = [(21, 30), (6, 7), (1, 64), (9, 2), (1, 1)]


def of_any_size(text, shape):
    """The program with only the number of channels of its data known."""
    sizes, dynamic = ", ".join(map(str, shape)), ", ".join("?" * (len(shape) - 2))
    return text.replace(f"({sizes})", f"(?, {shape[1]}, {dynamic})", 1)


@pytest.mark.full
@pytest.mark.sampled(every=18)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("constant", [False, True], ids=["argument", "constant"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[0])) + f"-{case[6]}")
def test_a_convolution_of_images_of_any_size(case, constant, target):
    shape, made, window, stride, pad, step, groups = case
    generator = np.random.default_rng(0)
    w = generator.standard_normal((made, shape[1] // groups, *window)).astype("float32")
    attributes = (
        f"strides={list(stride)}, padding={list(pad + pad)}, dilation={list(step)}, groups={groups}, "
        f"channels={made}, kernel_size={list(window)}"
    )
    text = program(f"nn.conv{len(window)}d", np.empty(shape, "f"), w, attributes, "nn.relu(%0)")
    text = of_any_size(text, shape)
    if constant:
        built = build(with_constant_weight(text, w), "main", target=target)
    else:
        built = compile_text(text, target=target)
    for size in SIZES:
        image = (size[0], *size, *size)[-len(window) :]
        fits = all(n + 2 * p > (k - 1) * d for n, p, k, d in zip(image, pad, window, step, strict=True))
        if not fits:
            continue
        x = generator.standard_normal((2, shape[1], *image)).astype("float32")
        expected = np.maximum(convolve(x, w, stride, pad, step, groups), 0)
        close(built([x] if constant else [x, w]), expected, "float32")


TRANSPOSED = [
    # data, channels made by a group, window, stride, padding, dilation, groups, added at the end
    ((1, 16, 6, 7), 17, (3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 1)),
    ((1, 5, 9, 4), 16, (4, 2), (2, 3), (1, 0), (1, 1), 1, (0, 2)),
    ((1, 6, 5, 5), 4, (3, 3), (1, 1), (1, 1), (2, 2), 2, (0, 0)),
    ((1, 4, 11), 9, (4,), (3,), (2,), (1,), 1, (0,)),
    ((1, 3, 3, 4, 5), 5, (2, 3, 3), (2, 2, 1), (0, 1, 1), (1, 1, 1), 1, (1, 0, 0)),
]


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", TRANSPOSED, ids=lambda case: "-".join(map(str, case[0])))
def test_transposed_convolution(case, dtype, target):
    shape, made, window, stride, pad, step, groups, extra = case
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape).astype(dtype)
    w = generator.standard_normal((shape[1], made, *window)).astype(dtype)
    attributes = (
        f"strides={list(stride)}, padding={list(pad + pad)}, dilation={list(step)}, groups={groups}, "
        f"channels={made * groups}, kernel_size={list(window)}, output_padding={list(extra)}"
    )
    text = program(f"nn.conv{len(window)}d_transpose", x, w, attributes)
    result = compile_text(text, target=target)([x, w])
    close(result, convolve_transpose(x, w, stride, pad, step, groups, extra), dtype)


@pytest.mark.full
@pytest.mark.sampled(every=15)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("case", TRANSPOSED, ids=lambda case: "-".join(map(str, case[0])))
def test_a_transposed_convolution_of_images_of_any_size(case, target):
    """No weight reaches the padding, not even an infinite one."""
    shape, made, window, stride, pad, step, groups, extra = case
    generator = np.random.default_rng(0)
    w = generator.standard_normal((shape[1], made, *window)).astype("float32")
    w[0, 0].flat[0] = np.inf
    attributes = (
        f"strides={list(stride)}, padding={list(pad + pad)}, dilation={list(step)}, groups={groups}, "
        f"channels={made * groups}, kernel_size={list(window)}, output_padding={list(extra)}"
    )
    text = program(f"nn.conv{len(window)}d_transpose", np.empty(shape, "f"), w, attributes)
    built = compile_text(of_any_size(text, shape), target=target)
    for size in SIZES:
        image = (size[0], *size, *size)[-len(window) :]
        made_size = [
            (n - 1) * s + (k - 1) * d + 1 + e - 2 * p
            for n, s, k, d, e, p in zip(image, stride, window, step, extra, pad, strict=True)
        ]
        if min(made_size) < 1:
            continue
        x = generator.standard_normal((2, shape[1], *image)).astype("float32")
        expected = convolve_transpose(x, w, stride, pad, step, groups, extra)
        close(built([x, w]), expected, "float32")


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("channels", [3, 16, 20])
def test_not_finite_data_reaches_what_it_should(channels, target):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, channels, 9, 20)).astype("float32")
    x[0, 1, 4, 5], x[0, 2, 0, 19], x[0, 0, 8, 0] = np.nan, np.inf, 1e-42
    w = generator.standard_normal((18, channels, 3, 3)).astype("float32")
    text = program("nn.conv2d", x, w, "padding=[1, 1, 1, 1], channels=18, kernel_size=[3, 3]")
    result = compile_text(text, target=target)([x, w])
    with np.errstate(invalid="ignore"):
        expected = convolve(x, w, (1, 1), (1, 1), (1, 1), 1)
    close(result, expected, "float32")


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("constant", [False, True], ids=["argument", "constant"])
@pytest.mark.parametrize("groups", [1, 20])
def test_not_finite_weights_reach_the_padding(constant, groups, target):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 20, 9, 20)).astype("float32")
    w = generator.standard_normal((20, 20 // groups, 3, 3)).astype("float32")
    w[3, 0, 0, 1], w[17, 0, 2, 2], w[5, 0, 1, 0] = np.inf, np.nan, -np.inf
    attributes = f"padding=[1, 1, 1, 1], groups={groups}, channels=20, kernel_size=[3, 3]"
    text = program("nn.conv2d", x, w, attributes)
    if constant:
        result = build(with_constant_weight(text, w), "main", target=target)([x])
    else:
        result = compile_text(text, target=target)([x, w])
    with np.errstate(invalid="ignore"):
        expected = convolve(x, w, (1, 1), (1, 1), (1, 1), groups)
    close(result, expected, "float32")
