"""Resampling, against NumPy's interpolation and known properties of the kernels."""

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.importers.onnx.values import Value, constant
from nnmagic.relay.expr import Function
from nnmagic.relay.functions import resizing
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module

OLD, NEW = 6, 9
ROWS = np.random.default_rng(0).standard_normal((2, OLD, 3))


def evaluate(value: Value) -> np.ndarray:
    return Interpreter(infer_type(Module({"main": Function((), value.expr)}))).run("main", [])


def number(value: float) -> Value:
    return constant(value, "float64")


def places(mode: str, new: int = NEW, region: tuple[float, float] | None = None) -> np.ndarray | None:
    ends = None if region is None else (number(region[0]), number(region[1]))
    x = constant(np.arange(float(new)))
    found = resizing.find_places(mode, x, number(OLD), number(new), number(new / OLD), ends)
    return None if found is None else evaluate(found)


def test_places_of_new_elements() -> None:
    half = (np.arange(NEW) + 0.5) * OLD / NEW - 0.5
    for mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"):
        np.testing.assert_allclose(places(mode), half, atol=1e-12)
    np.testing.assert_allclose(places("asymmetric"), np.arange(NEW) * OLD / NEW)
    np.testing.assert_allclose(places("align_corners"), np.linspace(0, OLD - 1, NEW))
    np.testing.assert_allclose(places("tf_crop_and_resize", region=(0.2, 0.8)), np.linspace(1, 4, NEW))
    assert (places("pytorch_half_pixel", 1), places("align_corners", 1)) == (-0.5, 0)
    assert places("tf_crop_and_resize", 1, (0.2, 0.8)) == 2.5
    assert places("tf_crop_and_resize") is None
    assert places("anything") is None


@pytest.mark.parametrize("a", [None, -0.5, -0.75])
@pytest.mark.parametrize("exclude", [False, True])
def test_elements_are_between_their_neighbours(a: float | None, exclude: bool) -> None:
    x = np.linspace(0, OLD - 1, NEW)
    given = constant(ROWS), 1, constant(x), number(OLD), a
    if exclude:
        found = evaluate(resizing.interpolate_with_unit_sum(*given, number(1), exclude=True))
    else:
        found = evaluate(resizing.interpolate(*given))
    if a is None:
        expected = [[np.interp(x, np.arange(OLD), row) for row in image.T] for image in ROWS]
        np.testing.assert_allclose(found, np.transpose(expected, (0, 2, 1)), atol=1e-12)
    np.testing.assert_allclose(found[:, [0, -1]], ROWS[:, [0, -1]], atol=1e-12)


def test_kernels_as_wide_as_new_elements_pass_over_what_is_farther() -> None:
    rows = np.concatenate([ROWS, np.full((2, 6, 3), np.nan)], 1)
    x, shrink = constant((np.arange(4) + 0.5) * 3 - 0.5), number(1 / 3)
    given = constant(rows), 1, x, number(12), None, shrink
    found = evaluate(resizing.interpolate_with_unit_sum(*given, widest=3.0, exclude=True))
    weights = np.array([2, 3, 2, 1]) / 8
    np.testing.assert_allclose(found[:, 0], np.tensordot(weights, ROWS[:, :4], (0, 1)))
    assert np.isnan(found[:, 1:]).all()


def test_the_cubic_kernel_interpolates() -> None:
    for a in (-0.5, -0.75):
        kernel = evaluate(resizing.cubic(constant(np.array([0.0, 1, 2, 3])), a))
        np.testing.assert_allclose(kernel, [1, 0, 0, 0], atol=1e-12)
