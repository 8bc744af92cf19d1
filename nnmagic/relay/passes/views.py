"""Fold what only arranges elements into what reads them: transposes into products and reductions, chains of
reshapes into one.

What selects along one axis comes before what slices others, which then copies less.
"""

from __future__ import annotations

from dataclasses import replace

from nnmagic.relay.expr import Call, Expr, Function, OpRef, operator_of
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.passes.rewriting import map_functions
from nnmagic.relay.structure.traverse import rewrite
from nnmagic.relay.types import TensorType

#: The attributes of products that may take their operands transposed.
_TRANSPOSES = ("transpose_a", "transpose_b")


def fold_views(module: Module) -> Module:
    """Let products and reductions read a transposed array where it is; make chains of reshapes one, or none.

    A row is taken before its columns are sliced, as in ``x[i, 1:]``. Results are the same to the bit, but for
    the order in which the elements of a transposed array are added. A reshape must have a known shape. Types
    are kept.
    """
    return map_functions(module, _fold_function)


def _fold_function(function: Function) -> Function:
    return rewrite(function, _fold)


def _fold(_old: Expr, new: Expr) -> Expr:
    if not isinstance(new, Call):
        return new
    traits = traits_of(new)
    # `nn.dense` is a product that takes its weight transposed always: it has no such attributes.
    if Trait.PRODUCT in traits and new.attrs.keys() >= {*_TRANSPOSES}:
        return _fold_transposes(new)
    if Trait.KEEPS_ORDER in traits:
        return _fold_reshapes(new)
    if operator_of(new) == "take":
        return _fold_selection(new)
    if Trait.REDUCES in traits:
        return _fold_reduction(new)
    return new


def _fold_reduction(reduction: Call) -> Call:
    """Reduce what was transposed along its own axes, if the others keep their order."""
    (data,) = reduction.args
    if not isinstance(data, Call) or operator_of(data) != "transpose" or reduction.attrs["exclude"]:
        return reduction
    type_ = data.checked_type
    if not isinstance(type_, TensorType):
        return reduction
    rank = len(type_.shape)
    order = [axis % rank for axis in _integers(data.attrs["axes"])] or list(reversed(range(rank)))
    reduced = {axis % rank for axis in _integers(reduction.attrs["axis"])} or set(range(rank))
    quotient = [axis for number, axis in enumerate(order) if number not in reduced]
    if quotient != sorted(quotient) or (quotient and reduction.attrs["keepdims"]):
        return reduction
    axes = tuple(sorted(order[number] for number in reduced))
    return replace(reduction, args=data.args, attrs={**reduction.attrs, "axis": axes})


def _integers(axes: object) -> list[int]:
    """Return the integers of an attribute, none where it is None."""
    return [axis for axis in axes if isinstance(axis, int)] if isinstance(axes, tuple) else []


def _fold_selection(take: Call) -> Call:
    """Select one position along an axis before other axes are sliced."""
    data, index = take.args
    type_ = index.checked_type
    if not isinstance(type_, TensorType) or type_.shape or not isinstance(data, Call):
        return take
    before = data.args[0].checked_type if operator_of(data) == "strided_slice" else None
    if not isinstance(before, TensorType) or take.attrs["batch_dims"] != 0:
        return take
    axis, axes = take.attrs["axis"], data.attrs["axes"]
    if not isinstance(axis, int) or not isinstance(axes, tuple):
        return take
    rank = len(before.shape)
    axis, sliced = axis % rank, [sliced_axis % rank for sliced_axis in axes if isinstance(sliced_axis, int)]
    if axis in sliced:
        return take
    row = TensorType((*before.shape[:axis], *before.shape[axis + 1 :]), before.dtype)
    attrs = {**take.attrs, "axis": axis}
    first = _fold_selection(replace(take, args=(data.args[0], index), attrs=attrs, checked_type=row))
    attrs = {**data.attrs, "axes": tuple(sliced_axis - (sliced_axis > axis) for sliced_axis in sliced)}
    return replace(data, args=(first,), attrs=attrs, checked_type=take.checked_type)


def _fold_transposes(product: Call) -> Call:
    for index, flag in enumerate(_TRANSPOSES):
        flipped = _flip(product.args[index])
        if flipped is not None:
            args = (*product.args[:index], flipped, *product.args[index + 1 :])
            product = replace(product, args=args, attrs={**product.attrs, flag: not product.attrs[flag]})
    return product


def _flip(arg: Expr) -> Expr | None:
    """Return what a transpose of rows and columns was made of, also if a reshape of the batch follows."""
    if not isinstance(arg, Call):
        return None
    if _swaps_last_axes(arg):
        return arg.args[0]
    inner = arg.args[0] if operator_of(arg) == "reshape" and not arg.attrs["allowzero"] else None
    if not isinstance(inner, Call) or not _swaps_last_axes(inner):
        return None
    type_, before = arg.checked_type, inner.checked_type
    newshape = arg.attrs["newshape"]
    assert isinstance(type_, TensorType)
    assert isinstance(before, TensorType)
    assert isinstance(newshape, tuple)
    if not _keeps_last_axes(newshape, before) or len(type_.shape) < 2:
        return None
    *outer, rows, columns = newshape
    *batch, first, second = type_.shape
    attrs = {**arg.attrs, "newshape": (*outer, columns, rows)}
    flipped = TensorType((*batch, second, first), type_.dtype)
    return replace(arg, args=inner.args, attrs=attrs, checked_type=flipped)


def _keeps_last_axes(newshape: tuple[object, ...], before: TensorType) -> bool:
    """Return whether a reshape to this shape clearly only merges or splits the axes before the last two."""
    if len(newshape) < 2:
        return False
    *outer, rows, columns = newshape
    if outer == [-3] and len(before.shape) == 4:
        kept = (0, before.shape[-2]), (0, before.shape[-1])
        return all(size in names for size, names in zip((rows, columns), kept, strict=True))
    static = [dim for dim in before.shape if isinstance(dim, int) and dim > 0]
    return (
        len(static) == len(before.shape)
        and all(isinstance(size, int) and size > 0 for size in newshape)
        and list(before.shape[-2:]) == [rows, columns]
    )


def _swaps_last_axes(call: Call) -> bool:
    """Return whether a call exchanges rows and columns, and nothing else."""
    type_ = call.checked_type
    if operator_of(call) != "transpose" or not isinstance(type_, TensorType) or len(type_.shape) < 2:
        return False
    rank, axes = len(type_.shape), call.attrs["axes"]
    if not axes:
        return rank == 2
    assert isinstance(axes, tuple)
    expected = [*range(rank - 2), rank - 1, rank - 2]
    return [axis % rank for axis in axes if isinstance(axis, int)] == expected


def _fold_reshapes(outer: Call) -> Expr:
    inner, type_ = outer.args[0], outer.checked_type
    if not isinstance(type_, TensorType):
        return outer
    if not all(isinstance(dim, int) and dim > 0 for dim in type_.shape):
        return outer
    if inner.checked_type == type_:
        return inner
    if not isinstance(inner, Call) or Trait.KEEPS_ORDER not in traits_of(inner):
        return outer
    if inner.args[0].checked_type == type_:
        return inner.args[0]
    attrs = {"newshape": type_.shape, "allowzero": False}
    return Call(OpRef("reshape"), inner.args, attrs, span=outer.span, checked_type=type_)
