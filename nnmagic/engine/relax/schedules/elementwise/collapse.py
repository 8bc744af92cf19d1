"""Collapse loops of a nest into one where all memory that they touch is contiguous."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.sym.pattern import detect_linear_equation

from nnmagic.engine.relax.schedules.elementwise.nests import Nest
from nnmagic.engine.relax.tir.types import Index, Load, PrimExpr, Var
from nnmagic.engine.relax.tir.visitors import rewrite, visit


def collapse_loops(nest: Nest) -> Nest:
    """Make one loop of those through which every access runs contiguously."""
    variables = [var for var, _ in nest.loops]
    groups = _group_loops(nest, variables)
    if len(groups) == len(nest.loops):
        return nest
    loops = []
    for group in groups:
        extents = [nest.loops[number][1] for number in group]
        extent = math.prod(extents[1:], start=extents[0])
        loops.append((variables[group[0]] if len(group) == 1 else tirx.Var("i", "int64"), extent))

    def collapse_index(offset: Index) -> Index:
        coefficients = detect_linear_equation(offset, variables)
        if not coefficients:
            return offset
        terms = [var * coefficients[group[-1]] for (var, _), group in zip(loops, groups, strict=True)]
        return sum(terms, start=coefficients[-1])

    local = {step.local for step in nest.steps}

    def collapse_load(load: Load) -> PrimExpr:
        if load.source in local:
            return load
        return tirx.BufferLoad(load.source, [collapse_index(load.indices[0])])

    steps = tuple(
        replace(step, value=rewrite(step.value, [(ir.expr.TensorLoad, collapse_load)])) for step in nest.steps
    )
    return replace(nest, loops=tuple(loops), steps=steps, offset=collapse_index(nest.offset))


def _group_loops(nest: Nest, variables: Sequence[Var]) -> list[list[int]]:
    """Group the numbers of neighbouring loops that can become one."""
    parts = [detect_linear_equation(offset, list(variables)) for offset in nest.offsets()]
    linear = [factors for factors in parts if factors]
    separate = _nonlinear_variables(nest, variables)
    groups: list[list[int]] = []
    for number, (var, extent) in enumerate(nest.loops):
        last = groups[-1][-1] if groups else None
        contiguous = (
            last is not None
            # A variable that is used elsewhere, in a condition or as a number, still needs its own
            # value.
            and not {var, nest.loops[last][0]} & separate
            # i * (n * s) + j * s is (i * n + j) * s: the outer step is the inner step times the
            # inner extent, in every access. A broadcast operand has the outer step 0 and keeps the
            # loops apart.
            and all(_are_equal(factors[last], factors[number] * extent) for factors in linear)
        )
        if contiguous:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _are_equal(lhs: Index, rhs: Index) -> bool:
    return lhs is rhs or bool(sym.Analyzer().can_prove_equal(lhs, rhs))


def _nonlinear_variables(nest: Nest, variables: Sequence[Var]) -> set[Var]:
    """Return the loop variables that have other uses than linear ones in the index of a load."""
    used: set[Var] = set()

    def skip_linear(load: Load) -> tvm_ffi.WalkResult:
        linear = len(load.indices) == 1 and detect_linear_equation(load.indices[0], list(variables))
        return tvm_ffi.WalkResult.SKIP if linear else tvm_ffi.WalkResult.ADVANCE

    for step in nest.steps:
        visit(step.value, [(ir.expr.TensorLoad, skip_linear), (ir.Var, used.add)], before_parts=True)
    return used & set(variables)
