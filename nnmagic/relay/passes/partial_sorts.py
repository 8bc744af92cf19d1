"""Fold sorts of which only the first elements are used into ``topk``, which need not sort the others.

A partition of which only the first few are used is such a sort, too: it allows the sorted order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnmagic.relay.expr import Call, Expr, OpRef, operator_of
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import fold_nodes, map_functions
from nnmagic.relay.types import Dim, TensorType

#: Which operators give an order, and whether they give the indices.
_SORTS = {"sort": False, "argsort": True, "numpy.partition": False, "numpy.argpartition": True}
#: Of a partition no more elements than these are selected one by one.
_FEW = 10


def fold_partial_sorts(module: Module) -> Module:
    """Fold ``argsort(x)[:k]`` and its kind into ``topk(x, k)``, if nothing else uses what is sorted.

    The results are equal. Types are kept.
    """
    return map_functions(module, lambda function: fold_nodes(function, _fold))


def _fold(node: Expr, uses: Mapping[Expr, int]) -> Call | None:
    """Return the ``topk`` of the first elements that are sliced from a sort, or None."""
    if not isinstance(node, Call) or operator_of(node) != "strided_slice":
        return None
    sort = node.args[0]
    if not isinstance(sort, Call) or operator_of(sort) not in _SORTS or uses[sort] != 1:
        return None
    data, attrs = sort.args[0], sort.attrs
    type_ = data.checked_type
    # `topk` has no axis None, the flattened tensor.
    if not isinstance(type_, TensorType) or type_.dtype == "bool" or not isinstance(attrs["axis"], int):
        return None
    axis = attrs["axis"] % len(type_.shape)
    count = _first_elements(node, axis, type_.shape)
    # A partition takes linear time for any number of elements; selecting one by one beats it for
    # few.
    if count is None or (len(sort.args) > 1 and count > _FEW):
        return None
    indices = _SORTS[operator_of(sort)]
    chosen = {
        "k": count,
        "axis": axis,
        "ret_type": "indices" if indices else "values",
        "is_ascend": attrs.get("is_ascend", True),
        "dtype": attrs.get("dtype", "int64") if indices else "int32",
    }
    return Call(OpRef("topk"), (data,), chosen, span=node.span, checked_type=node.checked_type)


def _first_elements(node: Call, axis: int, shape: Sequence[Dim]) -> int | None:
    """Return how many elements a slice takes from the beginning of an axis; None if it takes others."""
    attrs, type_ = node.attrs, node.checked_type
    sliced = tuple(attrs[name] for name in ("axes", "begin", "strides", "slice_mode"))
    if sliced != ((axis,), (0,), (1,), "end") or not isinstance(type_, TensorType):
        return None
    taken, size = type_.shape[axis], shape[axis]
    return taken if isinstance(taken, int) and isinstance(size, int) and 0 < taken < size else None
