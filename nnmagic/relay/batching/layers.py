"""Batch products of matrices, and layers, whose own batch axis the new one joins."""

from __future__ import annotations

from typing import cast

from nnmagic.relay.batching.registry import rule, rules
from nnmagic.relay.batching.site import BatchCall, is_unknown
from nnmagic.relay.expr import Expr, Tuple, TupleGetItem
from nnmagic.relay.types import Dim, TensorType, TupleType


@rule("nn.matmul")
def _matmul(site: BatchCall) -> Expr | None:
    flags = (bool(site.attrs[name]) for name in ("transpose_a", "transpose_b"))
    transpose_a, transpose_b = flags
    return _product(site, transpose_a=transpose_a, transpose_b=transpose_b)


def _product(site: BatchCall, *, transpose_a: bool, transpose_b: bool) -> Expr | None:
    if site.only(0) and not transpose_a:
        return site.again()  # the first operand may have more axes
    if site.rank(0) != 2 or site.rank(1) != 2:
        if site.rank(0) == 1 and site.rank(1) == 2 and not transpose_a:
            row = site.op("expand_dims", site.args[0], axis=int(site.is_batched(0)))
            made = _pairs(site, row, site.args[1], transpose_a=False, transpose_b=transpose_b)
            return site.op("squeeze", made, axis=[1])
        return None
    return _pairs(site, site.args[0], site.args[1], transpose_a=transpose_a, transpose_b=transpose_b)


def _pairs(site: BatchCall, a: Expr, b: Expr, *, transpose_a: bool, transpose_b: bool) -> Expr:
    """Multiply matrices pair by pair; one without a batch axis is multiplied with each."""
    if not site.is_batched(0):
        a = site.op("expand_dims", a, axis=0)
    if not site.is_batched(1):
        b = site.op("expand_dims", b, axis=0)
    out_dtype = site.attrs["out_dtype"]
    return site.op(
        "nn.batch_matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b, out_dtype=out_dtype
    )


@rule("nn.batch_matmul")
def _batch_matmul(site: BatchCall) -> Expr | None:
    """Join the new axis with the operands' own; a pile of one matrix that all share stays as it is."""
    sizes = [site.shape(index)[0] for index in (0, 1)]
    is_same = sizes[0] == sizes[1] and not is_unknown(sizes[0])
    if is_same and all(isinstance(dim, int) and dim for dim in site.out_shape):
        return _fold(site, (0, 1))
    shared = [sizes[index] == 1 and not site.is_batched(index) for index in (0, 1)]
    wide = [site.args[index] if shared[index] else site.full(index) for index in (0, 1)]
    if not is_same and not any(shared):
        wide = [_with_piles(site, wide[index], wide[1 - index]) for index in (0, 1)]
    args = [
        matrix if is_shared else site.op("reshape", matrix, newshape=[-3, -2])
        for matrix, is_shared in zip(wide, shared, strict=True)
    ]
    like = wide[1] if shared[0] else wide[0]
    return site.op("reshape_like", site.again(*args), like, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)


def _with_piles(site: BatchCall, value: Expr, other: Expr) -> Expr:
    """Broadcast the first two axes of a pile of matrices with those of another."""
    zeros = site.op("sum", site.op("zeros_like", other), axis=[2, 3], keepdims=True)
    return site.broadcast(value, zeros)


@rule("einsum")
def _einsum(site: BatchCall) -> Expr | None:
    equation = str(site.attrs["equation"]).replace(" ", "")
    (type_,) = site.types
    if "->" not in equation or "..." in equation or not isinstance(type_, TupleType):
        return None
    inputs, output = equation.split("->")
    letter = next(
        free for free in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if free not in equation
    )
    flags = site.batched[0] if isinstance(site.batched[0], list) else [site.batched[0]] * len(type_.fields)
    parts = [(letter if flag else "") + part for part, flag in zip(inputs.split(","), flags, strict=True)]
    return site.again(equation=f"{','.join(parts)}->{letter}{output}")


@rule("nn.layer_norm", "nn.l2_normalize")
def _along_axis(site: BatchCall) -> Expr | None:
    if site.name == "nn.l2_normalize":
        axes = site.attrs["axis"]
        if not isinstance(axes, tuple | list):
            return None
        return site.again(axis=[int(cast("int", axis)) % site.rank() + 1 for axis in axes])
    return site.again(axis=site.axis()) if site.only(0) else None


#: Operators whose axis of examples the new one joins: the arguments that have it, and the layout's attribute.
_LAYERS: dict[str, tuple[tuple[int, ...], str]] = {
    **{f"nn.conv{n}d": ((0,), "data_layout") for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": ((0,), "data_layout") for n in (1, 2, 3)},
    **{f"nn.{kind}_pool{n}d": ((0,), "layout") for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{n}d": ((0,), "layout") for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.global_{kind}_pool2d": ((0,), "layout") for kind in ("max", "avg")},
    **{f"nn.{kind}_pool2d_grad": ((0, 1), "layout") for kind in ("max", "avg")},
    **{f"image.resize{n}d": ((0,), "layout") for n in (1, 2, 3)},
    "nn.upsampling": ((0,), "layout"),
    "nn.upsampling3d": ((0,), "layout"),
    "nn.depth_to_space": ((0,), "layout"),
    "nn.space_to_depth": ((0,), "layout"),
    **dict.fromkeys(("nn.batch_norm", "nn.lrn", "nn.instance_norm", "nn.group_norm"), ((0,), "")),
}


@rule(*_LAYERS)
def _layer(site: BatchCall) -> Expr | None:
    joined, layout = _LAYERS[site.name]
    if not site.only(*joined) or (layout and not str(site.attrs.get(layout, "N")).startswith("N")):
        return None
    if site.name == "nn.batch_norm" and site.attrs["axis"] == 0:
        return None
    return _fold(site, joined)


def _fold(site: BatchCall, joined: tuple[int, ...]) -> Expr | None:
    """Join the new axis with the operator's own of examples, and part them in the result."""
    types = site.out_type.fields[:1] if isinstance(site.out_type, TupleType) else (site.out_type,)
    (type_,) = types
    assert isinstance(type_, TensorType)
    sizes: list[Dim] = [type_.shape[0], *type_.shape[1:]]
    if not all(isinstance(dim, int) and dim for dim in sizes):
        return None
    args = list(site.args)
    for index in joined:
        args[index] = site.op("reshape", site.full(index), newshape=[-3, -2])
    folded = site.again(*args)
    if isinstance(site.out_type, TupleType):
        statistics_types = site.out_type.fields[1:]
        fields = [TupleGetItem(folded, index, span=site.span) for index in range(len(statistics_types) + 1)]
        spread = [
            site.size.spread(part, own, site.span)
            for part, own in zip(fields[1:], statistics_types, strict=True)
        ]
        return Tuple((_part(site, fields[0], sizes), *spread), span=site.span)
    return _part(site, folded, sizes)


def _part(site: BatchCall, value: Expr, sizes: list[Dim]) -> Expr:
    return site.op("reshape", value, newshape=[-1, *sizes])


rules(
    {
        "nn.bias_add": lambda site: site.again(axis=site.axis()) if site.only(0) else None,
        "nn.dense": lambda site: _product(site, transpose_a=False, transpose_b=True),
    }
)
