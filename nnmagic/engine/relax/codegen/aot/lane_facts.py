"""Describe a loop whose rounds are computed together, one in each lane of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.loop_versions import Affine
from nnmagic.engine.relax.tir.builders import as_expr, collect_loads, dtype_of
from nnmagic.engine.relax.tir.types import Index, PrimExpr


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A counted loop in the rounds; ``carried``: registers with their first values, and with the next ones.

    ``results``: registers that get values at the end.
    """

    counter: aot.Register
    first: aot.Value
    limit: aot.Value
    carried: Sequence[tuple[aot.Register, aot.Value]]
    body: Sequence[LaneStep]
    following: Sequence[tuple[aot.Register, aot.Value]]
    end: Sequence[LaneStep]
    results: Sequence[tuple[aot.Register, aot.Value]]

    @property
    def is_innermost(self) -> bool:
        """Return whether its rounds have no loop."""
        return not any(isinstance(step, InnerLoop) for step in self.body)


LaneStep: TypeAlias = aot.ScalarCode | aot.StoreElement | InnerLoop


@dataclass(frozen=True, slots=True)
class LaneGuard:
    """That ``value`` is at least, or at most, ``bound`` in all lanes, as expressions of a step."""

    value: PrimExpr
    bound: PrimExpr
    is_least: bool
    step: aot.ScalarCode | aot.StoreElement


@dataclass(frozen=True, slots=True)
class Fact:
    """How an integer differs from lane to lane: by ``stride``, where the guards hold; None for any.

    affine: it as a sum of registers, if it is one. from_start: the sum that it is unless that is negative.
    """

    stride: int | None
    guards: tuple[LaneGuard, ...] = ()
    affine: Affine | None = None
    from_start: Affine | None = None

    @property
    def is_uniform(self) -> bool:
        """Return whether it is the same in all lanes."""
        return self.stride == 0


UNKNOWN, UNIFORM = Fact(None), Fact(0)


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """That an index is in ``range(size)`` in each round, and in each round of the ``loops`` inside."""

    index: Affine
    size: PrimExpr
    loops: tuple[InnerLoop, ...]


@dataclass(slots=True)
class LanePlan:
    """The rounds of a loop as steps of registers and arrays of its function.

    checks: what must hold of all rounds, which have no checks then. repeatable: whether a round may be
    computed twice. facts: of the registers that the rounds define. summands: the registers that LLVM must not
    fuse with the sums that they are part of.
    """

    counter: aot.Register
    steps: list[LaneStep] = field(default_factory=list)
    facts: dict[aot.Register, Fact] = field(default_factory=dict)
    summands: set[aot.Register] = field(default_factory=set)
    checks: list[RangeCheck] = field(default_factory=list)
    repeatable: bool = True
    #: The sums of which truth values say whether they are negative.
    tested: dict[aot.Value | None, Affine] = field(default_factory=dict)

    def place(self, indices: Sequence[Index], step: aot.ScalarCode | aot.StoreElement) -> Fact:
        """Return how the position of an element in memory differs between lanes."""
        facts = [self.of_expression(as_expr(index), step) for index in indices]
        if not facts or all(fact.is_uniform for fact in facts):
            return Fact(0)
        return facts[-1] if all(fact.is_uniform for fact in facts[:-1]) else Fact(None)

    def fact(self, value: aot.Value) -> Fact:
        """Return how a value differs between lanes: not at all, if no round defines it."""
        if isinstance(value, aot.Immediate):
            is_integer = isinstance(value.value, int) and not isinstance(value.value, bool)
            return Fact(0, (), Affine({}, int(value.value)) if is_integer else None)
        assert isinstance(value, aot.Register)
        return self.facts.get(value, Fact(0, (), Affine({value: 1})))

    def of_expression(self, expr: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> Fact:
        """Return how an expression of a step differs between lanes."""
        if dtype_of(expr) == "int64":
            match expr:
                case tirx.IntImm():
                    return Fact(0, (), Affine({}, int(expr.value)))
                case ir.expr.TensorLoad() if not isinstance(step.values.get(expr.source), aot.Storage):
                    return self.fact(step.values[expr.source])
                case tirx.Cast() if dtype_of(expr.value) == "int64":
                    return self.of_expression(expr.value, step)
                case tirx.Add() | tirx.Sub():
                    sign = 1 if isinstance(expr, tirx.Add) else -1
                    return _sum(self.of_expression(expr.a, step), self.of_expression(expr.b, step), sign)
                case tirx.Mul():
                    return _product(self.of_expression(expr.a, step), self.of_expression(expr.b, step))
                case tirx.Max() | tirx.Min():
                    return self._limit(expr.a, expr.b, isinstance(expr, tirx.Max), step)
                case tirx.Select():
                    return self._from_start(expr, step)
        loads = collect_loads(expr)
        uniform = all(
            all(self.of_expression(index, step).is_uniform for index in load.indices)
            if isinstance(value := step.values.get(load.source), aot.Storage)
            else value is None or self.fact(value).is_uniform
            for load in loads
        )
        return UNIFORM if uniform else UNKNOWN

    def _limit(
        self, a: PrimExpr, b: PrimExpr, is_least: bool, step: aot.ScalarCode | aot.StoreElement
    ) -> Fact:
        """Return the fact of a maximum or minimum: that of the part that it is, where all lanes say so."""
        facts = [self.of_expression(part, step) for part in (a, b)]
        if all(fact.is_uniform for fact in facts):
            return UNIFORM
        for value, bound, fact, other in ((a, b, *facts), (b, a, *facts[::-1])):
            if other.is_uniform and fact.stride is not None and fact.stride > 0:
                return Fact(fact.stride, (*fact.guards, LaneGuard(value, bound, is_least, step)))
        return UNKNOWN

    def _from_start(self, expr: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> Fact:
        """Return the fact of a choice between an index and the one that counts from the end."""
        last, first = (self.of_expression(part, step) for part in (expr.true_value, expr.false_value))
        tested = self.tested_by(expr.condition, step)
        if tested is not None and tested == first.affine:
            if any(check.index == tested for check in self.checks):
                return first
            if first.stride == 0:
                return Fact(0, (), None, tested)
            if first.stride is not None and first.stride > 0:
                guard = LaneGuard(expr.false_value, tirx.const(0, "int64"), is_least=True, step=step)
                return Fact(first.stride, (*first.guards, guard), None, tested)
            return Fact(None, (), None, tested)
        if all(fact.is_uniform for fact in (last, first, self.of_expression(expr.condition, step))):
            return UNIFORM
        return UNKNOWN

    def tested_by(self, condition: PrimExpr, step: aot.ScalarCode | aot.StoreElement) -> Affine | None:
        """Return the sum of which a condition says whether it is negative."""
        match condition:
            case ir.expr.TensorLoad():
                return self.tested.get(step.values.get(condition.source))
            case tirx.LT(b=tirx.IntImm(value=0)):
                return self.of_expression(condition.a, step).affine
        return None


def _sum(lhs: Fact, rhs: Fact, sign: int) -> Fact:
    affine = None
    if lhs.affine is not None and rhs.affine is not None:
        affine = lhs.affine.plus(rhs.affine, sign)
    if lhs.stride is None or rhs.stride is None:
        return UNKNOWN
    return Fact(lhs.stride + sign * rhs.stride, (*lhs.guards, *rhs.guards), affine)


def _product(lhs: Fact, rhs: Fact) -> Fact:
    for value, factor in ((lhs, rhs), (rhs, lhs)):
        if factor.affine is not None and not factor.affine.terms and value.stride is not None:
            number = factor.affine.constant
            affine = None if value.affine is None else Affine({}).plus(value.affine, number)
            return Fact(value.stride * number, value.guards, affine)
    return UNIFORM if lhs.is_uniform and rhs.is_uniform else UNKNOWN
