"""Build bindings of Relax and the values that they bind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax

from nnmagic.engine.relax.analysis.dim_labels import label_of
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, leaves
from nnmagic.engine.relax.legalize import Value
from nnmagic.engine.relax.lowering.symbolic_dims import SymbolicDims
from nnmagic.engine.relax.tir.types import Extent, RelaxExpr
from nnmagic.relay import expr as ir
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import Dim, TensorType, TupleType


def remove_unused_bindings(module: tvm.IRModule) -> tvm.IRModule:
    """Remove what is computed and not used."""
    transform = relax.transform
    passes = [transform.ConvertToDataflow(1), transform.DeadCodeElimination(), transform.ToNonDataflow()]
    return tvm.transform.Sequential(passes)(module)


def parameter(var: ir.Var, dims: SymbolicDims) -> Value:
    """Lower a parameter to Relax variables, one for each tensor."""
    type_ = type_of(var)
    names = flat_names(var.name_hint, type_)
    flat = [
        relax.Var(name, dims.tensor_type(leaf))
        for name, leaf in zip(names, leaves(type_, var.span), strict=True)
    ]
    return rebuild(type_, iter(flat))


def position(flat: Sequence[RelaxExpr], param: Value) -> int:
    """Return the position of a parameter among the values of a call."""
    (leaf,) = flatten(param)
    return next(number for number, other in enumerate(flat) if other.same_as(leaf))


def labels_of(params: Sequence[ir.Var], args: Sequence[Value]) -> Iterator[tuple[str, Extent]]:
    """Yield the dimensions that a function's parameters name, with the sizes that the arguments have."""
    work = [(var.checked_type or var.type_annotation, arg) for var, arg in zip(params, args, strict=True)]
    while work:
        type_, arg = work.pop(0)
        if isinstance(type_, TupleType):
            work[:0] = zip(type_.fields, arg, strict=True)
        elif isinstance(type_, TensorType):  # and not a type variable
            for dim, value in zip(type_.shape, arg.ty.shape.values, strict=True):
                label = label_of(dim)
                if label is not None:
                    yield label, value


def pack(tensors: Sequence[RelaxExpr]) -> RelaxExpr:
    """Return the result of a Relax function or branch: the only tensor, or a tuple of the tensors."""
    return tensors[0] if len(tensors) == 1 else relax.Tuple(list(tensors))


def nest_like(value: Value, tensors: Iterator[RelaxExpr]) -> Value:
    """Nest the tensors in tuples like those of ``value``."""
    if isinstance(value, tuple):
        return tuple(nest_like(part, tensors) for part in value)
    return next(tensors)


def may_be_equal(lowered: Sequence[Extent], shape: Sequence[Dim]) -> bool:
    """Return whether two shapes have the same rank, and the same sizes where both are static."""
    if len(lowered) != len(shape):
        return False
    pairs = zip(lowered, shape, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
