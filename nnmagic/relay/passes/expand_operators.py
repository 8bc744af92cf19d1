"""Write operators that TVM's Relay lacks with those that it has, by their expansions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nnmagic.relay.expr import Call, Expr, OpRef, constant
from nnmagic.relay.functions import bessel, gamma, normal_distribution, special
from nnmagic.relay.infer import infer_type
from nnmagic.relay.infer.erase import erase_types
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order, rewrite_module
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import Dim


def _det(x: TensorExpr) -> TensorExpr:
    both = x.op("linalg.slogdet")
    return both.item(1, x.dtype).op("exp") * both.item(0, x.dtype)


def _accumulate(name: str) -> Callable[..., TensorExpr]:
    """Return the expansion of an extreme so far, in as many steps as the size has bits."""

    def expand(x: TensorExpr, *, shape: Sequence[Dim], axis: int) -> TensorExpr:
        size, step = shape[axis], 1
        places = x.op("ones_like").cast("int64").op("cumsum", axis=axis) - 1
        while step < (size if isinstance(size, int) else _LONGEST):
            earlier = x.op("gather", (places - step).maximum(0), axis=axis)
            x, step = x.op(name, earlier), 2 * step
        return x

    return expand


def _window(
    x: TensorExpr, begin: TensorExpr, lengths: TensorExpr, *, shape: Sequence[Dim], sizes: Sequence[int]
) -> TensorExpr:
    steps = constant(np.ones(len(sizes), "int64"), "int64", span=x.span)
    part = x.op("dyn.strided_slice", begin, begin + lengths, steps)
    static_shape = [dim if isinstance(dim, int) else 0 for dim in shape]  # 0: as it is
    cut = [{-1: dim, -2: 0}.get(size, size) for size, dim in zip(sizes, static_shape, strict=False)]
    return part.op("reshape", newshape=[*cut, *static_shape[len(sizes) :]])


#: No axis of which only the call knows the size is longer.
_LONGEST = 1 << 40

#: What each operator that TVM's Relay lacks stands for, in terms of its operands and attributes. Some take
#: the ``shape`` of the first operand.
EXPANSIONS: Mapping[str, Callable[..., Any]] = {
    "linalg.det": _det,
    "numpy.arctan2": special.arctan2,
    "numpy.cbrt": special.cbrt,
    "numpy.copysign": special.copysign,
    "numpy.expm1": special.expm1,
    "numpy.hypot": special.hypot,
    "numpy.log1p": special.log1p,
    "numpy.logaddexp": special.logaddexp,
    "numpy.maximum.accumulate": _accumulate("maximum"),
    "numpy.minimum.accumulate": _accumulate("minimum"),
    "numpy.rint": special.rint,
    "numpy.signbit": special.signbit,
    "python.window": _window,
    "special.erfc": special.erfc,
    "special.erfcinv": normal_distribution.erfcinv,
    "special.erfinv": normal_distribution.erfinv,
    "special.gamma": gamma.gamma,
    "special.gammaln": gamma.gammaln,
    "special.i0": bessel.i0,
    "special.i0e": bessel.i0e,
    "special.i1": bessel.i1,
    "special.i1e": bessel.i1e,
    "special.log_ndtr": normal_distribution.log_ndtr,
    "special.ndtri": normal_distribution.ndtri,
    "special.polygamma": gamma.polygamma,
}


def has_expansions(module: Module, *, keep: Collection[str] = ()) -> bool:
    """Return whether a module has operators that `expand_operators` would expand."""
    return any(
        _expansion(node, keep) is not None
        for function in module.functions.values()
        for node in post_order(function)
    )


def expand_operators(module: Module, *, keep: Collection[str] = ()) -> Module:
    """Expand the operators that have an expansion, but those that ``keep`` names."""
    if not has_expansions(module, keep=keep):
        return module
    is_typed = all(function.checked_type is not None for function in module.functions.values())

    def expand(old: Expr, new: Expr) -> Expr:
        expansion = _expansion(old, keep)
        if expansion is None:
            return new
        assert isinstance(old, Call)
        assert isinstance(new, Call)
        operands = list[TensorExpr]()
        for before, after in zip(old.args, new.args, strict=True):
            operands.append(TensorExpr(after, before.inferred_tensor.dtype, new.span))
        attrs = dict(new.attrs)
        # A tensor expression knows no shape of its own: an expansion that needs one asks for it by name.
        if "shape" in inspect.signature(expansion).parameters:
            attrs["shape"] = old.args[0].inferred_tensor.shape
        expanded: TensorExpr = expansion(*operands, **attrs)
        return expanded.expr

    expanded = rewrite_module(module if is_typed else infer_type(module), expand)
    made = infer_type(expanded, look_into_callees=True) if is_typed else erase_types(expanded)
    return expand_operators(made, keep=keep)  # an expansion may be made of others


def _expansion(node: Expr, keep: Collection[str]) -> Callable[..., Any] | None:
    """Return the expansion of the operator that a node calls, if it has one that is wanted."""
    if not isinstance(node, Call) or not isinstance(node.op, OpRef) or node.op.name in keep:
        return None
    return EXPANSIONS.get(node.op.name)
