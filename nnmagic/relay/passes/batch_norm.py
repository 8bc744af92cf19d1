"""Fold batch normalisation that follows a convolution into the convolution's weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, OpRef, TupleGetItem, operator_of
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.passes.rewriting import fold_nodes, map_functions


def fold_batch_norm(module: Module) -> Module:
    """Fold each convolution followed by a batch normalisation into one convolution and a ``bias_add``.

    Its weight and the statistics must be constants and finite, and nothing else may use either call. The
    result differs by rounding only. Types are kept.
    """
    return map_functions(module, lambda function: fold_nodes(function, _fold))


def _fold(node: Expr, uses: Mapping[Expr, int]) -> Expr | None:
    """Return the normalised convolution that a node gives; None if it gives none, or it cannot be folded."""
    if not isinstance(node, TupleGetItem) or node.index != 0:
        return None
    norm = node.tuple_value
    if not isinstance(norm, Call) or operator_of(norm) != "nn.batch_norm" or uses[norm] != 1:
        return None
    convolution, *statistics = norm.args
    if not isinstance(convolution, Call) or Trait.CONVOLVES not in traits_of(convolution):
        return None
    data, weight = convolution.args
    layout, kernel = (str(convolution.attrs[name]) for name in ("data_layout", "kernel_layout"))
    axis = norm.attrs["axis"]
    assert isinstance(axis, int)
    # Digits in a layout, as in NCHW16c, are blocks of channels, whose axis is not found by its
    # letter alone.
    if uses[convolution] != 1 or not isinstance(weight, Constant) or not (layout + kernel).isalpha():
        return None
    if layout.index("C") != axis % len(layout) or weight.data.dtype.kind != "f":
        return None
    arrays = [constant.data for constant in statistics if isinstance(constant, Constant)]
    if len(arrays) != 4 or str(convolution.attrs["out_dtype"]) not in ("", str(weight.data.dtype)):
        return None
    # In double precision: the weight is rounded once, when it is scaled.
    gamma, beta, mean, variance = (array.astype("float64") for array in arrays)
    with np.errstate(all="ignore"):
        epsilon = norm.attrs["epsilon"]
        assert isinstance(epsilon, float | int)
        scale = (gamma if norm.attrs["scale"] else 1.0) / np.sqrt(variance + epsilon)
        bias = (beta if norm.attrs["center"] else 0.0) - mean * scale
        shape = [-1 if letter == "O" else 1 for letter in kernel]
        if weight.data.shape[kernel.index("O")] != len(scale):
            return None
        scaled = (weight.data * scale.reshape(shape)).astype(weight.data.dtype)
        shift = bias.astype(weight.data.dtype)
    # A weight of 0 times an infinite scale is NaN, where the separate operators may give a number.
    if not (np.isfinite(scaled).all() and np.isfinite(shift).all() and np.isfinite(weight.data).all()):
        return None
    new = replace(convolution, args=(data, replace(weight, data=scaled)))
    center = statistics[2]
    assert isinstance(center, Constant)
    vector = replace(center, data=shift)
    return Call(
        OpRef("nn.bias_add"), (new, vector), {"axis": axis}, span=norm.span, checked_type=node.checked_type
    )
