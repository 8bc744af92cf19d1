"""Fold batch normalisation that follows a convolution into the convolution's weight."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, Function, OpRef, TupleGetItem, children
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import map_functions, substitute
from nnmagic.relay.traverse import post_order

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


def fold_batch_norm(module: Module) -> Module:
    """Fold each convolution followed by a batch normalisation into one convolution and a ``bias_add``.

    Its weight and the statistics must be constants and finite, and nothing else may use either call. The
    result differs by rounding only. Types are kept.
    """
    return map_functions(module, _fold_function)


def _fold_function(function: Function) -> Function:
    order = list(post_order(function))
    uses = Counter(part for node in order for part in children(node))
    replaced: dict[Expr, Expr] = {}
    for node in order:
        if isinstance(node, TupleGetItem) and node.index == 0 and uses[node.tuple_value] == 1:
            new = _fold_call(node, node.tuple_value, uses)
            if new is not None:
                replaced[node] = new
    if not replaced:
        return function
    new = substitute(function, replaced)
    assert isinstance(new, Function)
    return new


def _name(call: Call) -> str | None:
    return call.op.name if isinstance(call.op, OpRef) else None


def _fold_call(node: TupleGetItem, norm: Expr, uses: Counter[Expr]) -> Expr | None:
    """Return the expression of the normalised convolution; None if it cannot be folded."""
    if not isinstance(norm, Call) or _name(norm) != "nn.batch_norm":
        return None
    convolution, *statistics = norm.args
    if not isinstance(convolution, Call) or _name(convolution) not in _CONVOLUTIONS:
        return None
    data, weight = convolution.args
    layout, kernel = (str(convolution.attrs[name]) for name in ("data_layout", "kernel_layout"))
    axis = norm.attrs["axis"]
    assert isinstance(axis, int)
    if uses[convolution] != 1 or not isinstance(weight, Constant) or not (layout + kernel).isalpha():
        return None
    if layout.index("C") != axis % len(layout) or weight.data.dtype.kind != "f":
        return None
    arrays = [constant.data for constant in statistics if isinstance(constant, Constant)]
    if len(arrays) != 4 or str(convolution.attrs["out_dtype"]) not in ("", str(weight.data.dtype)):
        return None
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
    if not (np.isfinite(scaled).all() and np.isfinite(shift).all() and np.isfinite(weight.data).all()):
        return None
    new = replace(convolution, args=(data, replace(weight, data=scaled)))
    center = statistics[2]
    assert isinstance(center, Constant)
    vector = replace(center, data=shift)
    return Call(
        OpRef("nn.bias_add"),
        (new, vector),
        {"axis": axis},
        span=norm.span,
        checked_type=node.checked_type,
    )
