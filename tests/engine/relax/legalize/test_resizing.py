"""Resized images whose pixels float32 does not hold, against the formulas in float64 and in integers."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import relay


def _matrix(size: int, wanted: int, *, corners: bool) -> np.ndarray:
    """The weights of linear interpolation along an axis, as PyTorch documents them."""
    matrix = np.zeros((wanted, size))
    for row in range(wanted):
        half = max((row + 0.5) * size / wanted - 0.5, 0.0)
        at = row * (size - 1) / max(wanted - 1, 1) if corners else half
        first = min(int(at), size - 1)
        matrix[row, first] += 1 - (at - first)
        matrix[row, min(first + 1, size - 1)] += at - first
    return matrix


@pytest.mark.machine_code
@pytest.mark.parametrize("dims", ["5, 7", "'h', 'w'"])
@pytest.mark.parametrize("corners", [False, True])
def test_bilinear_interpolation_of_float64(corners: bool, dims: str) -> None:
    source = (
        f"def h(x: Tensor[(1, 2, {dims}), f64]):\n"
        f"    return interpolate(x, (9, 3), mode='bilinear', align_corners={corners})\n"
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 7))
    rows, columns = _matrix(5, 9, corners=corners), _matrix(7, 3, corners=corners)
    np.testing.assert_allclose(nnmagic.compile(source)(x), rows @ x @ columns.T, rtol=1e-13, atol=1e-14)
    if dims == "5, 7":
        source += f"def f(x: Tensor[(1, 2, {dims}), f64], d: Tensor[(1, 2, 9, 3), f64]):\n"
        source += "    return grad(lambda y: (h(y) * d).sum())(x)\n"
        d = np.random.default_rng(1).standard_normal((1, 2, 9, 3))
        gradient = nnmagic.compile(source, engine="numpy")(x, d)
        np.testing.assert_allclose(gradient, rows.T @ d @ columns, rtol=1e-13, atol=1e-14)


CALLS = [
    ("image.resize1d", (1, 2, 5), {"size": (8,), "method": "linear"}),
    ("image.resize2d", (1, 5, 7, 2), {"size": (3, 9), "method": "cubic", "layout": "NHWC"}),
    ("image.resize2d", (1, 2, 5, 7), {"size": (8, 4), "method": "cubic", "cubic_exclude": 1}),
    ("image.resize3d", (1, 2, 3, 5, 4), {"size": (6, 3, 4), "method": "linear"}),
    ("nn.upsampling", (1, 2, 3, 4), {"scale_h": 1.5, "scale_w": 2.0, "method": "bilinear"}),
    ("nn.upsampling", (1, 2, 3, 4), {"scale_h": 1.5, "scale_w": 2.0, "method": "bicubic"}),
    ("nn.upsampling3d", (1, 1, 2, 3, 4), {"scale_d": 2.0, "scale_h": 1.5, "scale_w": 2.0}),
    *(
        (
            "image.resize2d",
            (1, 2, 4, 5),
            {"size": (7, 3), "method": method, "coordinate_transformation_mode": mode},
        )
        for method in ("linear", "nearest_neighbor")
        for mode in (
            "half_pixel",
            "align_corners",
            "asymmetric",
            "pytorch_half_pixel",
            "tf_half_pixel_for_nn",
        )
    ),
    *(
        (
            "image.resize2d",
            (1, 2, 4, 5),
            {"size": (7, 3), "method": "nearest_neighbor", "rounding_method": rounding},
        )
        for rounding in ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    (
        "image.resize2d",
        (1, 2, 4, 5),
        {
            "size": (7, 3),
            "method": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "roi": (0.1, -0.2, 0.7, 1.3),
            "extrapolation_value": 2.0,
        },
    ),
]


@pytest.mark.machine_code
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(("name", "shape", "attrs"), CALLS)
def test_every_mode_computes_in_float64(name: str, shape: tuple[int, ...], attrs: dict[str, object]) -> None:
    param = relay.Var("x", relay.TensorType(shape, "float64"))
    module = relay.Module({"main": relay.Function((param,), relay.call(name, [param], **attrs))})
    x = np.random.default_rng(0).standard_normal(shape)
    found, expected = (nnmagic.compile(module, engine=engine)(x) for engine in ("auto", "numpy"))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_the_nearest_integers_keep_their_bits(dtype: str) -> None:
    param = relay.Var("x", relay.TensorType((1, 1, 2), dtype))
    call = relay.call("image.resize1d", [param], size=(4,), method="nearest_neighbor")
    function = nnmagic.compile(relay.Module({"main": relay.Function((param,), call)}))
    x = np.array([[[2**31 - 1, 2**24 + 1]]], dtype)
    assert sorted(set(function(x).ravel().tolist())) == [2**24 + 1, 2**31 - 1]
