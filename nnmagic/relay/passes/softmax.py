"""Fold a softmax that is written with exponentials into ``nn.softmax``."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay.expr import Call, Expr, OpRef, call_of
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import fold_nodes, map_functions
from nnmagic.relay.types import TensorType


def fold_softmax(module: Module) -> Module:
    """Fold ``e / sum(e)`` of ``e = exp(x - max(x))`` into ``nn.softmax(x)``.

    The maximum and the sum are along one axis, and nothing else uses what is computed on the way. The result
    differs by rounding only. Types are kept.
    """
    return map_functions(module, lambda function: fold_nodes(function, _fold))


def _fold(node: Expr, uses: Mapping[Expr, int]) -> Expr | None:
    """Return the softmax that a division computes, or None."""
    quotient = call_of(node, "divide")
    powers = None if quotient is None else call_of(quotient.args[0], "exp")
    distance = None if powers is None else call_of(powers.args[0], "subtract")
    if quotient is None or powers is None or distance is None:
        return None
    data = distance.args[0]
    type_ = data.checked_type
    if not isinstance(type_, TensorType) or type_.dtype not in ("float32", "float64"):
        return None
    axis = _reduced_axis(quotient.args[1], "sum", powers, uses)
    if axis is None or axis != _reduced_axis(distance.args[1], "max", data, uses):
        return None
    # The numerator and the sum: a third use would need the exponentials in memory anyway.
    if uses[powers] != 2 or uses[distance] != 1:
        return None
    attrs = {"axis": -1 if axis == len(type_.shape) - 1 else axis}
    return Call(OpRef("nn.softmax"), (data,), attrs, span=node.span, checked_type=node.checked_type)


def _reduced_axis(node: Expr, name: str, data: Expr, uses: Mapping[Expr, int]) -> int | None:
    """Return the axis along which a node reduces the data, if it broadcasts to the data and is used once."""
    type_, added = data.checked_type, None
    if uses[node] == 1 and (expanded := call_of(node, "expand_dims")) and expanded.attrs["num_newaxis"] == 1:
        added, node = expanded.attrs["axis"], expanded.args[0]
    call = call_of(node, name)
    if call is None or uses[call] != 1 or call.args[0] is not data or call.attrs["exclude"]:
        return None
    assert isinstance(type_, TensorType)
    rank, axes = len(type_.shape), call.attrs["axis"]
    if axes is None and rank == 1:
        axes = 0
    axes = axes if isinstance(axes, tuple) else (axes,)
    if len(axes) != 1 or not isinstance(axes[0], int):
        return None
    axis = axes[0] % rank
    if call.attrs["keepdims"] or (axis == 0 and added is None):
        return axis if added is None else None
    return axis if isinstance(added, int) and added % rank == axis else None
