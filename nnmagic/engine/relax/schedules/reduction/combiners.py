"""Find the term that a reduction adds for one element, and combine two partial results."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import tirx

from nnmagic.engine.relax.schedules.reduction import argreduce
from nnmagic.engine.relax.schedules.reduction.analysis import ReductionStage, variables_of
from nnmagic.engine.relax.tir.builders import collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Node, PrimExpr
from nnmagic.engine.relax.tir.visitors import rewrite


def combine(stage: ReductionStage, lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Combine two partial results of a reduction; ``lhs`` is of elements before those of ``rhs``.

    The reduction must be one that ``is_supported``.
    """
    if stage.tie_rule:
        keep = argreduce.keeps_first(stage.tie_rule, lhs[0], lhs[1], rhs[0], rhs[1])
        return [tirx.Select(keep, a, b) for a, b in zip(lhs, rhs, strict=True)]
    (value,), (a,), (b,) = stage.values, lhs, rhs
    term = _find_term(stage)
    assert term is not None
    if isinstance(value, tirx.Select):
        return [_replace_operands(value, stage.buffer, a, term, b)]
    return [type(value)(a, b)]


def is_supported(stage: ReductionStage) -> bool:
    """Return whether partial results of a reduction can be combined."""
    return stage.tie_rule is not None or _find_term(stage) is not None


def decides(stage: ReductionStage, result: PrimExpr) -> PrimExpr | None:
    """Return whether a partial result is the result, whatever the other elements are; None for never.

    Truth values are reduced as bytes: any of them by the maximum, all by the minimum.
    """
    term = _find_term(stage)
    if not isinstance(term, tirx.Cast) or dtype_of(term) != "uint8" or dtype_of(term.value) != "bool":
        return None
    match stage.value:
        case tirx.Max():
            return tirx.NE(result, tirx.const(0, "uint8"))
        case tirx.Min():
            return tirx.EQ(result, tirx.const(0, "uint8"))
    return None


def _find_term(stage: ReductionStage) -> PrimExpr | None:
    """Return the term that a reduction of one value adds (multiplies, compares) for one element."""
    value, target = stage.value, stage.buffer
    match value:
        case tirx.Select():
            sides = [value.true_value, value.false_value]
        case tirx.Add() | tirx.Mul() | tirx.Max() | tirx.Min() | tirx.And() | tirx.Or():
            sides = [value.a, value.b]
        case _:
            return None
    # TVM writes the accumulator first, as in `acc + x`. Any other form is no reduction that we know
    # how to split.
    if [_is_load_of(side, target) for side in sides] != [True, False]:
        return None
    term = sides[1]
    # A term that reads the accumulator, as in `acc * (1 - acc * x)`, is not associative.
    if any(load.source.same_as(target) for load in collect_loads(term)):
        return None
    if isinstance(value, tirx.Select):
        a, b = (tirx.Var(name, dtype_of(term)) for name in "ab")
        # A choice that depends on the index, such as `i < 3`, cannot be repeated on partial
        # results, which have no index.
        if set(variables_of(_replace_operands(value, target, a, term, b))) & set(stage.axes):
            return None
    return term


def _is_load_of(node: Node, buffer: Buffer) -> bool:
    return isinstance(node, tvm.ir.TensorLoad) and bool(node.source.same_as(buffer))


def _replace_operands(value: PrimExpr, target: Buffer, a: PrimExpr, term: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the expression with ``a`` for loads of the target and ``b`` for the term."""

    def replace(node: Node) -> PrimExpr:
        if _is_load_of(node, target):
            return a
        return b if tvm_ffi.structural_equal(node, term) else node

    return rewrite(value, [(tvm.ir.Expr, replace)], before_parts=True)
