"""Calls of every differentiable operator: attributes, shapes, broadcasting, sizes of zero.

A case is (operator, arguments, attributes). An argument is a shape (of float64 numbers), an array that is
not differentiated, or ``Numbers``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Numbers:
    """Floats of a shape between two bounds; ``apart``: all differ by at least a hundredth."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    apart: bool = False


@dataclass(frozen=True)
class Parts:
    """An argument that is a tuple."""

    items: tuple[Any, ...]


def index(*values: object, dtype: str = "int64") -> np.ndarray:
    return np.array(values if len(values) != 1 else values[0], dtype)


POSITIVE = Numbers((2, 3), 0.3, 2.5)
UNIT = Numbers((2, 3), -0.8, 0.8)
POSITIVE_UNIT = Numbers((2, 3), 0.1, 0.9)
APART = Numbers((3, 4), apart=True)
TENSOR = (2, 3)

_UNARY = {
    "abs": TENSOR, "acos": UNIT, "acosh": Numbers(TENSOR, 1.2, 3), "asin": UNIT, "asinh": TENSOR,
    "atan": TENSOR, "atanh": UNIT, "copy": TENSOR, "cos": TENSOR, "cosh": TENSOR, "erf": TENSOR,
    "exp": TENSOR, "log": POSITIVE, "log10": POSITIVE, "log2": POSITIVE, "negative": TENSOR,
    "nn.relu": APART, "rsqrt": POSITIVE, "sigmoid": TENSOR, "sin": TENSOR, "sinh": TENSOR, "sqrt": POSITIVE,
    "tan": UNIT, "tanh": TENSOR, "nn.batch_flatten": (2, 3, 2),
    "numpy.cbrt": POSITIVE, "numpy.expm1": TENSOR, "numpy.log1p": UNIT, "special.erfc": TENSOR,
    "special.erfcinv": POSITIVE_UNIT, "special.erfinv": UNIT, "special.gamma": POSITIVE,
    "special.gammaln": POSITIVE, "special.i0": TENSOR, "special.i0e": TENSOR,
    "special.i1": TENSOR, "special.i1e": TENSOR,
    "special.log_ndtr": TENSOR, "special.ndtri": POSITIVE_UNIT,
}  # fmt: skip
_POOL = {"pool_size": (2, 3), "strides": (2, 2), "padding": (1, 1, 0, 1)}

CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, [spec], {}) for name, spec in _UNARY.items()),
    ("nn.leaky_relu", [APART], {"alpha": 0.3}),
    *(("special.polygamma", [POSITIVE], {"n": order}) for order in (0, 2)),
    ("clip", [APART], {"a_min": -0.7, "a_max": 0.9}),
    ("cast", [TENSOR], {"dtype": "float64"}),
    ("cast_like", [TENSOR, np.zeros(2)], {}),
    # -- several operands
    *((name, [(2, 3), (3,)], {}) for name in ("add", "subtract", "multiply")),
    *((name, [(2, 1), (4, 1, 3)], {}) for name in ("add", "subtract", "multiply")),
    ("add", [(), (2, 3)], {}),
    ("multiply", [(0, 3), (1, 3)], {}),
    ("divide", [(2, 3), Numbers((3,), 0.5, 2)], {}),
    ("divide", [(3,), Numbers((2, 1), 0.5, 2)], {}),
    ("floor_mod", [Numbers((2, 3), 0.1, 0.9), Numbers((3,), 1.1, 2)], {}),
    ("mod", [Numbers((2, 3), 5.1, 5.4), Numbers((1,), 2.1, 2.4)], {}),
    ("trunc_mod", [Numbers((2, 3), -5.4, -5.1), Numbers((1,), 2.1, 2.4)], {}),
    ("power", [POSITIVE, Numbers((3,), -2, 2)], {}),
    ("power", [Numbers((2, 1), 0.3, 2), (4, 1, 3)], {}),
    *((f"numpy.{name}", [APART, Numbers((4,), 0.3, 2.5)], {}) for name in ("arctan2", "copysign", "hypot")),
    ("numpy.logaddexp", [TENSOR, Numbers((3,), -1.0, 1.0)], {}),
    ("maximum", [Numbers((2, 3), apart=True), Numbers((3,), 0.003, 1.8, apart=True)], {}),
    ("minimum", [Numbers((2, 3), apart=True), Numbers((2, 1), 0.003, 1.8, apart=True)], {}),
    ("where", [np.array([[True], [False]]), (2, 3), (3,)], {}),
    ("where", [np.array([True, False, True]), (), (2, 1)], {}),
    # -- reductions
    *((name, [(2, 3, 4)], attrs) for name in ("sum", "mean", "prod") for attrs in (
        {}, {"axis": 1}, {"axis": (0, -1), "keepdims": True}, {"axis": (1,), "exclude": True})),
    *((name, [Numbers((2, 3, 4), apart=True)], attrs) for name in ("max", "min") for attrs in (
        {}, {"axis": 1}, {"axis": (0, 2), "keepdims": True})),
    ("sum", [(2, 0, 3)], {"axis": 0}),
    ("mean", [(0, 3)], {"axis": 1}),
    ("variance", [(2, 3, 4), (2, 1, 4)], {"axis": 1}),
    ("variance", [(2, 3), (1, 1)], {"unbiased": True}),
    ("variance", [(2, 3), (2, 1)], {"axis": 1, "keepdims": True, "unbiased": True}),
    *(("cumsum", [(2, 3)], attrs) for attrs in ({"axis": 1}, {"axis": 0, "exclusive": True}, {})),
    *(("cumprod", [(2, 3, 2)], attrs) for attrs in ({"axis": 1}, {"axis": 1, "exclusive": True}, {})),
    # -- shapes
    ("reshape", [(2, 6)], {"newshape": (3, -1)}),
    ("contrib_reverse_reshape", [(2, 6)], {"newshape": (-1, 3)}),
    ("reshape_like", [(2, 6), np.zeros((3, 4))], {}),
    ("squeeze", [(2, 1, 3, 1)], {"axis": (1,)}),
    ("expand_dims", [(2, 3)], {"axis": 1, "num_newaxis": 2}),
    ("transpose", [(2, 3, 4)], {}),
    ("transpose", [(2, 3, 4)], {"axes": (1, -1, 0)}),
    ("reverse", [(2, 3)], {"axis": 1}),
    ("reverse_sequence", [(3, 2), index(1, 3)], {"seq_axis": 0, "batch_axis": 1}),
    ("layout_transform", [(1, 4, 2, 3)], {"src_layout": "NCHW", "dst_layout": "NHWC"}),
    ("layout_transform", [(1, 4, 2, 3)], {"src_layout": "NCHW", "dst_layout": "NCHW2c"}),
    ("collapse_sum_like", [(4, 2, 3), np.zeros((2, 1))], {}),
    ("collapse_sum_to", [(4, 2, 3)], {"shape": (2, 1)}),
    ("broadcast_to", [(2, 1)], {"shape": (4, 2, 3)}),
    ("broadcast_to_like", [(3,), np.zeros((2, 3))], {}),
    ("full", [()], {"shape": (2, 3), "dtype": "float64"}),
    ("full_like", [np.zeros((2, 3)), ()], {}),
    ("concatenate", [Parts(((2, 3), (2, 1), (2, 2)))], {"axis": 1}),
    ("stack", [Parts(((2, 3), (2, 3)))], {"axis": 1}),
    ("split", [(2, 6)], {"indices_or_sections": (1, 4), "axis": 1}),
    ("split", [(4, 2)], {"indices_or_sections": 2, "axis": 0}),
    ("tile", [(2, 3)], {"reps": (2, 1, 2)}),
    ("tile", [(2, 3)], {"reps": (3,)}),
    ("repeat", [(2, 3)], {"repeats": 3, "axis": 1}),
    ("repeat", [(2, 3)], {"repeats": 2, "axis": 0}),
    ("meshgrid", [Parts(((2,), (3,), (2,)))], {"indexing": "xy"}),
    ("meshgrid", [Parts(((2,), (3,)))], {"indexing": "ij"}),
    ("sliding_window", [(2, 5, 6)], {"axis": 1, "window_shape": (3, 2), "strides": (1, 2)}),
    # -- indices
    ("take", [(4, 3), index([0, 2, 2])], {"axis": 0}),
    ("take", [(2, 4, 3), index([[0, 2], [2, 9]])], {"axis": 1, "mode": "clip"}),
    ("take", [(2, 4), index([[-1, 5]])], {"axis": -1, "mode": "wrap"}),
    ("take", [(2, 4), index([1, 1, 7])], {}),
    ("take", [(4, 3), index(2)], {"axis": 0}),
    ("gather", [(3, 4), index([[0, 0], [3, 1], [2, 2]])], {"axis": 1}),
    ("gather_nd", [(3, 4, 2), index([[0, 0, 2], [1, 1, 3]])], {"index_rank": 2}),
    ("adv_index", [Parts(((3, 4, 2), index([0, 2, 0]), index([[1], [3]])))], {}),
    ("strided_slice", [(4, 6)], {"begin": (1, 4), "end": (4, 0), "strides": (2, -2)}),
    ("strided_slice", [(4, 6)], {"begin": (-3,), "end": (2**40,), "strides": (1,), "axes": (1,)}),
    ("strided_slice", [(4, 6)], {"begin": (1, 2), "end": (2, -1), "slice_mode": "size"}),
    ("strided_slice", [(4, 3)], {"begin": (4,), "end": (4,), "strides": (1,), "axes": (0,)}),
    ("slice_like", [(4, 3), np.zeros((2, 3))], {}),
    ("slice_like", [(4, 3), np.zeros((9, 2))], {"axes": (1,)}),
    ("sequence_mask", [(3, 2), index(1, 2)], {}),
    ("scatter_elements", [(3, 4), index([[0, 0], [3, 1]]), (2, 2)], {"axis": 1}),
    ("scatter_elements", [(3, 4), index([[0, 0], [2, 1]]), (2, 2)], {"axis": 0, "reduction": "add"}),
    ("scatter_nd", [(3, 4), index([[0, 2, 0], [1, 3, 1]]), (3,)], {"mode": "update"}),
    ("scatter_nd", [(3, 4), index([[0, 2, 0]]), (3, 4)], {"mode": "add"}),
    ("scatter_nd", [(3, 4), index([[1], [2]]), (1,)], {"mode": "update"}),
    ("strided_set", [(4, 5), (2, 3), index(1, 0), index(4, 5), index(2, 2)], {}),
    ("sparse_to_dense", [index([[0, 1], [1, 2]]), (2,), ()], {"output_shape": (2, 3)}),
    ("matrix_set_diag", [(2, 3, 4), (2, 3)], {"k": 1}),
    ("matrix_set_diag", [(3, 3), (2,)], {"k": -1}),
    ("trilu", [(3, 4), index(1, dtype="int32")], {"upper": False}),
    ("one_hot", [index([0, 2]), (), ()], {"depth": 3, "axis": -1, "dtype": "float64"}),
    ("sort", [APART], {"axis": 0, "is_ascend": False}),
    ("topk", [APART], {"k": 2, "axis": 1, "ret_type": "values"}),
    ("topk", [APART], {"k": 2, "axis": 0, "ret_type": "both"}),
    # -- products
    ("nn.dense", [(2, 3), (4, 3)], {}),
    ("nn.dense", [(2, 5, 3), (4, 3)], {}),
    *(("nn.matmul", [(3, 2) if a else (2, 3), (4, 3) if b else (3, 4)], {"transpose_a": a, "transpose_b": b})
      for a in (False, True) for b in (False, True)),
    *(("nn.matmul", [(5, 3, 2) if a else (5, 2, 3), (4, 3) if b else (3, 4)],
       {"transpose_a": a, "transpose_b": b}) for a in (False, True) for b in (False, True)),
    *(("nn.batch_matmul", [(batch, 3, 2) if a else (batch, 2, 3), (2, 4, 3) if b else (2, 3, 4)],
       {"transpose_a": a, "transpose_b": b}) for a in (False, True) for b in (False, True)
      for batch in (1, 2)),
    ("einsum", [Parts(((2, 3), (3, 4)))], {"equation": "ij,jk->ik"}),
    ("einsum", [Parts(((2, 3), (2, 3)))], {"equation": "ij,ij->"}),
    ("einsum", [Parts(((2, 3, 4),))], {"equation": "ijk->kj"}),
    ("einsum", [Parts(((5, 2, 3), (5, 3, 4)))], {"equation": "...ij,...jk->...ik"}),
    # -- convolutions
    ("nn.conv1d", [(2, 3, 7), (4, 3, 3)], {"strides": 2, "padding": (1, 0), "dilation": 2}),
    ("nn.conv2d", [(2, 3, 6, 5), (4, 3, 3, 2)], {"padding": (1, 1)}),
    ("nn.conv2d", [(2, 4, 7, 6), (6, 2, 3, 2)],
     {"strides": (2, 3), "padding": (1, 0, 2, 1), "dilation": (2, 1), "groups": 2}),
    ("nn.conv2d", [(1, 3, 5, 5), (3, 1, 3, 3)], {"groups": 3, "padding": 1}),
    ("nn.conv2d", [(1, 5, 6, 3), (3, 3, 3, 2)], {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    ("nn.conv2d", [(1, 2, 3, 3), (2, 2, 1, 1)], {"padding": (2, 2), "strides": (2, 2)}),
    ("nn.conv3d", [(1, 2, 4, 3, 4), (2, 2, 2, 2, 2)], {"strides": (2, 1, 1), "padding": (1, 0, 0)}),
    ("nn.conv1d_transpose", [(2, 3, 4), (3, 2, 3)], {"strides": 2, "padding": 1, "output_padding": 1}),
    ("nn.conv2d_transpose", [(1, 4, 3, 3), (4, 2, 3, 2)],
     {"strides": (2, 2), "padding": (1, 0), "output_padding": (1, 0), "groups": 2, "channels": 4,
      "kernel_size": (3, 2)}),
    ("nn.conv3d_transpose", [(1, 2, 2, 3, 2), (2, 2, 2, 2, 2)], {"strides": (2, 1, 1)}),
    # -- pooling
    ("nn.max_pool1d", [Numbers((2, 2, 7), apart=True)], {"pool_size": 3, "strides": 2, "padding": (1, 0)}),
    ("nn.max_pool2d", [Numbers((2, 2, 6, 7), apart=True)], _POOL),
    ("nn.max_pool2d", [Numbers((1, 2, 6, 7), apart=True)], {**_POOL, "ceil_mode": True, "dilation": (2, 1)}),
    ("nn.max_pool2d", [Numbers((1, 6, 5, 2), apart=True)], {"pool_size": (2, 2), "layout": "NHWC"}),
    ("nn.max_pool1d", [Numbers((2, 2, 7), apart=True)], {"pool_size": 3, "strides": 3, "padding": (1, 1)}),
    ("nn.max_pool2d", [Numbers((2, 2, 4, 6), apart=True)], {"pool_size": (2, 3), "strides": (2, 3)}),
    ("nn.max_pool2d", [Numbers((1, 5, 7, 2), apart=True)], {"pool_size": 2, "strides": 2, "layout": "NHWC"}),
    ("nn.max_pool3d", [Numbers((1, 1, 4, 4, 3), apart=True)], {"pool_size": (2, 2, 2), "strides": (2, 1, 1)}),
    ("nn.avg_pool1d", [(2, 2, 7)], {"pool_size": 3, "strides": 2, "padding": (1, 0)}),
    ("nn.avg_pool2d", [(2, 2, 6, 7)], _POOL),
    ("nn.avg_pool2d", [(1, 2, 6, 7)], {**_POOL, "count_include_pad": True}),
    ("nn.avg_pool2d", [(1, 2, 6, 7)], {**_POOL, "ceil_mode": True}),
    ("nn.avg_pool2d", [(1, 2, 6, 7)], {**_POOL, "ceil_mode": True, "count_include_pad": True}),
    ("nn.avg_pool3d", [(1, 1, 4, 4, 3)], {"pool_size": (2, 2, 2), "strides": (2, 1, 1)}),
    ("nn.global_avg_pool2d", [(2, 3, 4, 5)], {}),
    ("nn.global_max_pool2d", [Numbers((2, 3, 4, 5), apart=True)], {}),
    ("nn.adaptive_avg_pool1d", [(1, 2, 7)], {"output_size": 3}),
    ("nn.adaptive_avg_pool2d", [(1, 2, 7, 6)], {"output_size": (3, 2)}),
    ("nn.adaptive_avg_pool3d", [(1, 1, 4, 3, 4)], {"output_size": (2, 1, 4)}),
    ("nn.adaptive_max_pool1d", [Numbers((1, 2, 7), apart=True)], {"output_size": 3}),
    ("nn.adaptive_max_pool2d", [Numbers((1, 2, 7, 6), apart=True)], {"output_size": (3, 2)}),
    ("nn.adaptive_max_pool3d", [Numbers((1, 1, 4, 3, 4), apart=True)], {"output_size": (2, 1, 4)}),
    # -- networks
    *((name, [(2, 3, 4)], {"axis": axis}) for name in ("nn.softmax", "nn.log_softmax") for axis in (-1, 1)),
    ("nn.bias_add", [(2, 3, 4), (3,)], {"axis": 1}),
    ("nn.prelu", [Numbers((2, 3, 2), apart=True), (3,)], {"axis": 1}),
    ("nn.dropout", [(2, 3)], {"rate": 0.5}),
    ("nn.layer_norm", [(2, 3, 4), (4,), (4,)], {"axis": -1}),
    ("nn.layer_norm", [(2, 3, 4), (3,), (3,)], {"axis": 1, "scale": False}),
    ("nn.instance_norm", [(2, 3, 4), (3,), (3,)], {}),
    ("nn.group_norm", [(2, 4, 3), (4,), (4,)], {"num_groups": 2}),
    ("nn.batch_norm", [(2, 3, 2), (3,), (3,), (3,), Numbers((3,), 0.5, 2)], {}),
    ("nn.l2_normalize", [(2, 3)], {"eps": 1e-6, "axis": (1,)}),
    ("nn.lrn", [(1, 5, 2, 2)], {"size": 3, "axis": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75}),
    ("nn.cross_entropy", [POSITIVE, (2, 3)], {}),
    ("nn.cross_entropy_with_logits", [(2, 3), (2, 3)], {}),
    *(("nn.nll_loss", [(4, 3), index([0, 2, 1, -100]), Numbers((3,), 0.5, 2)],
       {"reduction": how, "ignore_index": -100}) for how in ("mean", "sum", "none")),
    ("nn.nll_loss", [(2, 3, 2), index([[0, 2], [1, 1]]), Numbers((3,), 0.5, 2)],
     {"reduction": "mean", "ignore_index": -100}),
    ("nn.pad", [(2, 3), ()], {"pad_width": ((1, 2), (0, 1))}),
    ("nn.pad", [(2, 3), np.array(0.0)], {"pad_width": ((1, 1), (2, 1)), "pad_mode": "reflect"}),
    ("nn.pad", [(2, 3), np.array(0.0)], {"pad_width": ((1, 3), (2, 0)), "pad_mode": "edge"}),
    ("nn.mirror_pad", [(2, 3)], {"mode": "SYMMETRIC", "pad_width": ((1, 2), (2, 1))}),
    ("nn.dilate", [(2, 3)], {"strides": (1, 3), "dilation_value": 0.5}),
    ("nn.depth_to_space", [(1, 8, 2, 3)], {"block_size": 2, "mode": "DCR"}),
    ("nn.depth_to_space", [(1, 8, 2, 3)], {"block_size": 2, "mode": "CRD"}),
    ("nn.space_to_depth", [(1, 2, 4, 6)], {"block_size": 2}),
    ("nn.space_to_batch_nd", [(1, 3, 4, 2)], {"block_shape": (2, 2), "paddings": ((1, 0), (0, 0))}),
    ("nn.batch_to_space_nd", [(4, 2, 2, 2)], {"block_shape": (2, 2), "crops": ((1, 0), (0, 0))}),
    # -- linear algebra
    ("linalg.solve", [Numbers((3, 3), apart=True), (3, 2)], {}),
    ("linalg.solve", [Numbers((2, 3, 3), apart=True), (2, 3, 1)], {}),
    ("linalg.det", [Numbers((2, 3, 3), apart=True)], {}),
    ("linalg.inv", [Numbers((3, 3), apart=True)], {}),
    ("numpy.maximum.accumulate", [Numbers((4, 6), apart=True)], {"axis": 1}),
    ("numpy.minimum.accumulate", [Numbers((4, 6), apart=True)], {"axis": 0}),
    ("numpy.partition", [Numbers((3, 5), apart=True), np.array([1, 3])], {"axis": 1}),
    ("linalg.slogdet", [Numbers((2, 3, 3), apart=True)], {}),
    ("linalg.lstsq", [Numbers((4, 3), apart=True), (4, 2)], {}),
    ("linalg.lstsq", [Numbers((2, 3), apart=True), (2, 2)], {}),
    ("linalg.qr", [Numbers((2, 4), apart=True)], {}),
    ("linalg.qr", [Numbers((4, 2), apart=True)], {"mode": "r"}),
    ("linalg.solve", [Numbers((3, 3, 2), apart=True), (3, 2, 2)], {"pairs": True}),
    ("linalg.inv", [Numbers((2, 3, 3, 2), apart=True)], {"pairs": True}),
    ("linalg.slogdet", [Numbers((3, 3, 2), apart=True)], {"pairs": True}),
    ("linalg.svd", [Numbers((3, 2, 2), apart=True)], {"compute_uv": False, "pairs": True}),
    ("linalg.qr", [Numbers((3, 2, 2), apart=True)], {"mode": "r", "pairs": True}),
    ("linalg.eig", [Numbers((3, 3), apart=True)], {"compute_v": False}),
    ("linalg.eig", [Numbers((3, 3, 2), apart=True)], {"compute_v": False, "pairs": True}),
    # -- images and transforms
    ("image.grid_sample", [(2, 2, 4, 3), (2, 2, 3, 2)], {}),
    ("image.grid_sample", [(1, 2, 4, 3), (1, 2, 3, 2)],
     {"method": "bicubic", "padding_mode": "reflection", "align_corners": False}),
    ("image.grid_sample", [(1, 1, 3, 4, 3), (1, 3, 2, 2, 2)],
     {"layout": "NCDHW", "padding_mode": "border"}),
    ("image.affine_grid", [(2, 2, 3)], {"target_shape": (3, 4)}),
    ("image.resize1d", [(1, 2, 5)], {"size": (8,), "method": "linear"}),
    ("image.resize2d", [(1, 2, 4, 5)], {"size": (7, 3), "method": "linear"}),
    ("image.resize2d", [(1, 4, 5, 2)], {"size": (7, 8), "method": "cubic", "layout": "NHWC"}),
    ("image.resize2d", [(1, 2, 4, 5)],
     {"size": (7, 3), "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric",
      "rounding_method": "floor"}),
    ("image.resize2d", [(1, 2, 4, 5)],
     {"size": (7, 9), "method": "linear", "coordinate_transformation_mode": "align_corners"}),
    ("nn.upsampling", [(1, 2, 3, 4)], {"scale_h": 2.0, "scale_w": 3.0}),
    ("nn.upsampling", [(1, 2, 3, 4)], {"scale_h": 2.0, "scale_w": 2.0, "method": "bilinear",
                                       "align_corners": True}),
    *(("vision.roi_align", [(2, 2, 6, 5), np.array([[0, 1.3, 0.4, 7.1, 9.2], [1, -3.5, 2.2, 4.9, 3.1]])],
       {"pooled_size": (2, 3), "spatial_scale": 0.5, "sample_ratio": 2, "mode": mode})
      for mode in ("avg", "max")),
    ("stft", [(2, 11), (4,)], {"n_fft": 4, "hop_length": 3, "win_length": 4}),
    ("stft", [(9,), (3,)],
     {"n_fft": 5, "hop_length": 2, "win_length": 3, "normalized": True, "onesided": False}),
    ("dft", [(2, 5), (2, 5)], {}),
    ("dft", [(2, 4), (2, 4)], {"inverse": True}),
    ("numpy.fft", [(2, 5, 2)], {"axis": 1, "pairs": True}),
    ("numpy.fft", [(3, 4, 2)], {"axis": 0, "inverse": True, "norm": "ortho", "pairs": True}),
    ("numpy.rfft", [(2, 5)], {"pairs": True}),
    ("numpy.rfft", [(4, 3)], {"axis": 0, "norm": "forward", "pairs": True}),
    ("numpy.irfft", [(2, 3, 2)], {"n": 5, "axis": 1, "pairs": True}),
    ("numpy.irfft", [(3, 2, 2)], {"axis": 0, "norm": "ortho", "pairs": True}),
]  # fmt: skip
