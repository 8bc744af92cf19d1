"""Windows and what is made of them, against NumPy's sliding windows."""

import dataclasses

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.numpy import Interpreter
from nnmagic.importers.onnx.values import Value, constant
from nnmagic.relay.expr import Function
from nnmagic.relay.functions import pooling
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module

SHAPE = (2, 3, 7, 6)
PADS = 1, 0
PLACING = pooling.Placing((3, 2), (2, 1), (1, 1), PADS, PADS)


def evaluate(value: Value) -> np.ndarray:
    return Interpreter(infer_type(Module({"main": Function((), value.expr)}))).run("main", [])


def padded_windows(images: np.ndarray, fill: float) -> np.ndarray:
    padded = np.pad(images, [(0, 0), (0, 0), *((pad, pad) for pad in PADS)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, PLACING.kernel, (2, 3))[:, :, ::2].reshape(
        2, 3, 4, 5, -1
    )


def windows() -> list[np.ndarray]:
    assert PLACING.count(SHAPE[2:]) == [4, 5]
    return PLACING.windows([4, 5])


def test_sums_and_sizes_of_windows() -> None:
    images = np.random.default_rng(0).standard_normal(SHAPE)
    expected = padded_windows(images, 0)
    np.testing.assert_allclose(evaluate(pooling.window_sums(constant(images), windows())), expected.sum(-1))
    for padded, inside in ((True, np.ones(SHAPE)), (False, padded_windows(np.ones(SHAPE), 0))):
        counts = pooling.count_elements(windows(), PLACING.ranges(SHAPE[2:], padded=padded))
        assert np.array_equal(counts, inside[0, 0].sum(-1) if not padded else np.full((4, 5), 6))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_maxima_have_the_index_of_the_first_or_of_the_last_nan(dtype: str, order: str) -> None:
    images = np.random.default_rng(1).integers(-3, 3, SHAPE).astype(dtype)
    if dtype == "float32":
        images[0, 0, 2, 3] = images[0, 0, 2, 4] = np.nan
    values, indices = map(evaluate, pooling.window_maxima(constant(images), windows(), order))
    if dtype == "float32":
        assert np.array_equal(values, padded_windows(images, -np.inf).max(-1), equal_nan=True)
    flat = images.reshape(2, 3, -1) if order == "C" else images.transpose(0, 1, 3, 2).reshape(2, 3, -1)
    picked = np.take_along_axis(flat, indices.reshape(2, 3, -1), 2).reshape(indices.shape)
    assert np.array_equal(picked, values, equal_nan=dtype == "float32")
    if dtype == "float32" and order == "C":
        assert indices[0, 0, 1, 3] == 2 * 6 + 4


@pytest.mark.parametrize("size", range(3, 12))
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("pad", [0, 1, 2])
def test_padding_behind_gives_the_windows_of_rounding_up(size: int, stride: int, pad: int) -> None:
    up = pooling.Placing([3], [stride], [1], [pad], [pad], ceil=True)
    counts = up.count([size])
    assert dataclasses.replace(up, after=up.padding_behind([size]), ceil=False).count([size]) == counts
    assert up.windows(counts)[0][-1, 0] < size


def test_adaptive_windows_divide_an_axis() -> None:
    assert pooling.adaptive_windows(7, 3).tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert pooling.adaptive_windows(5, 3).tolist() == [[0, 1, -1], [1, 2, 3], [3, 4, -1]]


def test_cells_give_the_indices_of_maxima() -> None:
    source = "def f(x: Tensor[(1, 1, 3, 4), f32]):\n    return max_pool2d(x, {}return_indices=True)\n"
    images = np.array([0, 5, 2, 2, 1, 5, 0, 2, 9, 0, np.nan, np.nan], "float32").reshape(1, 1, 3, 4)
    values, indices = nnmagic.compile(source.format("2, "), cache=False)(images)
    assert (values.tolist(), indices.tolist()) == ([[[[5, 2]]]], [[[[1, 2]]]])
    values, indices = nnmagic.compile(source.format("2, ceil_mode=True, "), cache=False)(images)
    assert indices.tolist() == [[[[1, 2], [8, 11]]]]
    with pytest.raises(nnmagic.TinyNNError, match="indices are given in the layout NCHW only"):
        nnmagic.compile(source.format("1, layout='NHWC', "), cache=False)
