"""Elaborate ``match``: constructors become Relay's ``match``, numbers become ``if``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_CASES
from nnmagic.relay import expr as ir
from nnmagic.relay.infer.exhaustive import TooManyCasesError, find_unmatched_cases
from nnmagic.relay.types import TypeCall
from nnmagic.tinynn.analysis.bound_names import find_assigned_names
from nnmagic.tinynn.elaborate import sequencing
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    CondBranch,
    ExitKind,
    Switch,
    Terminator,
    exits_of,
)
from nnmagic.tinynn.elaborate.joins import finish_end
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind_names
from nnmagic.tinynn.elaborate.patterns import (
    check_subject,
    equals_pattern,
    expand_alternatives,
    is_native,
    resolve_constructor,
    split_sequence,
    to_relay_pattern,
)
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import as_computed


def elaborate_match(ctx: Elaboration, stmt: tree.MatchNode) -> Terminator | None:
    """Elaborate ``match``. Raises RefusalError."""
    subject = ctx.operand(stmt.subject)
    if v.is_failed(subject.value):
        return sequencing.elaborate_for_errors(ctx, stmt, [case.body.stmts for case in stmt.cases])
    alternatives = (alternative for case in stmt.cases for alternative in expand_alternatives(case))
    cases = list(islice(alternatives, MAX_CASES + 1))
    if len(cases) > MAX_CASES:
        message = f"a match has at most {MAX_CASES} cases, one for each alternative of `|`"
        raise v.RefusalError(message, ctx.span(stmt.subject.span))
    if _needs_code(subject.value) or any(case.guard is not None for case in cases):
        sequencing.let_bind_used_names(ctx, stmt)
        subject = v.Operand(atomize(ctx, subject.value, "subject", set()), subject.span)
    return _elaborate_cases(ctx, stmt, subject, cases, ())


def _elaborate_cases(
    ctx: Elaboration,
    stmt: tree.MatchNode,
    subject: v.Operand,
    cases: Sequence[tree.Case],
    covered: Sequence[ir.Pattern],
) -> Terminator | None:
    """Elaborate the remaining cases; ``covered``: the patterns of those before."""
    if not cases:
        raise _not_exhaustive(ctx, stmt, describe(subject.value))
    count = 0
    if _holds_data(subject.value):
        while count < len(cases) and cases[count].guard is None and is_native(ctx, cases[count].pattern):
            count += 1
    if count:
        end = _emit_switch(ctx, stmt, subject, cases[:count], cases[count:], covered)
    else:
        end = _test_case(ctx, stmt, subject, cases, covered)
    return finish_end(ctx, end)


def _not_exhaustive(ctx: Elaboration, stmt: tree.MatchNode, missing: str) -> v.RefusalError:
    hint = "add a case for it, or `case _:` for all that is left"
    return v.RefusalError(f"no case takes {missing}", ctx.span(stmt.subject.span), hint=hint)


def _test_case(
    ctx: Elaboration,
    stmt: tree.MatchNode,
    subject: v.Operand,
    cases: Sequence[tree.Case],
    covered: Sequence[ir.Pattern],
) -> Terminator | None:
    """Elaborate the first case, then the others where it does not match."""
    case, others = cases[0], cases[1:]
    span = ctx.span(case.span)
    block = Block()
    with ctx.inside(block, ctx.environment.bindings.copy()):
        _test_patterns(ctx, block, [(case.pattern, subject)], case, span)
    misses = [exit_ for exit_, _ in exits_of(block.end) if exit_.kind is ExitKind.FALLS_THROUGH]
    end = block.end
    assert end is not None
    if isinstance(end, BlockExit) and end.kind is ExitKind.FALLS_THROUGH:
        return _elaborate_cases(ctx, stmt, subject, others, covered)
    ctx.block.lets += block.lets
    if misses:
        end = sequencing.continue_after(
            ctx,
            end,
            iter([lambda: _elaborate_cases(ctx, stmt, subject, others, covered)]),
            ExitKind.FALLS_THROUGH,
        )
    return end


def _test_patterns(
    ctx: Elaboration, block: Block, work: list[tuple[ast.Node, v.Operand]], case: tree.Case, span: Span
) -> None:
    """Fill a block with the tests of the remaining patterns, then with the case's body."""
    while work:
        pattern, value = work.pop(0)
        match pattern:
            case tree.CapturePattern(name=name, pattern=inner):
                if name is not None:
                    ctx.environment.bindings.bind(name, value.value, ctx.span(pattern.span))
                if inner is not None:
                    work.insert(0, (inner, value))
            case tree.InvalidPattern(names=names):
                for name in names:
                    ctx.environment.bindings.bind(name, v.FAILED)
            case tree.ValuePattern():
                equal = equals_pattern(ctx, pattern, value)
                if equal is False:
                    block.end = BlockExit(ExitKind.FALLS_THROUGH, span, ctx.environment.bindings)
                    return
                if equal is not True:
                    _branch_on(ctx, block, equal, list(work), case, span)
                    return
            case tree.SequencePattern():
                sequence = split_sequence(ctx, pattern, value)
                if sequence is None:
                    block.end = BlockExit(ExitKind.FALLS_THROUGH, span, ctx.environment.bindings)
                    return
                work[:0] = sequence
            case tree.ConstructorPattern():
                _branch_on_constructor(ctx, block, pattern, value, work, case, span)
                return
            case _:
                raise v.RefusalError("this pattern is not part of TinyNN", ctx.span(pattern.span))
    _elaborate_case_body(ctx, block, case, span)


def _fall_through_block(ctx: Elaboration, span: Span) -> Block:
    """Return a block that goes on with the next case."""
    return Block(end=BlockExit(ExitKind.FALLS_THROUGH, span, ctx.environment.bindings.copy()))


def _elaborate_case_body(ctx: Elaboration, block: Block, case: tree.Case, span: Span) -> None:
    guard = None if case.guard is None else truth_of(ctx.operand(case.guard), "if")
    if case.guard is not None and guard is None:
        ctx.environment.failed = True
    if guard is False:
        block.end = BlockExit(ExitKind.FALLS_THROUGH, span, ctx.environment.bindings)
    elif isinstance(guard, v.Computed):
        assert case.guard is not None
        let_bind_names(ctx, find_assigned_names(case.guard))
        then, other = Block(), _fall_through_block(ctx, span)
        with ctx.inside(then, ctx.environment.bindings.copy()):
            sequencing.fill_block(ctx, then, sequencing.steps_of(ctx, case.body.stmts), span)
        block.end = CondBranch(guard.expr, then, other, span)
    else:
        sequencing.fill_block(ctx, block, sequencing.steps_of(ctx, case.body.stmts), span)


def _branch_on(
    ctx: Elaboration,
    block: Block,
    condition: v.Computed,
    work: list[tuple[ast.Node, v.Operand]],
    case: tree.Case,
    span: Span,
) -> None:
    then, other = Block(), _fall_through_block(ctx, span)
    with ctx.inside(then, ctx.environment.bindings.copy()):
        _test_patterns(ctx, then, work, case, span)
    block.end = CondBranch(condition.expr, then, other, span)


def _branch_on_constructor(
    ctx: Elaboration,
    block: Block,
    pattern: tree.ConstructorPattern,
    value: v.Operand,
    work: list[tuple[ast.Node, v.Operand]],
    case: tree.Case,
    span: Span,
) -> None:
    constructor, subpatterns = resolve_constructor(ctx, pattern)
    data = check_subject(ctx, value, constructor, pattern)
    names = [
        subpattern.name if isinstance(subpattern, tree.CapturePattern) else None for subpattern in subpatterns
    ]
    fields = [
        ir.Var(name or f"field{index}", type_, span=ctx.span(subpattern.span))
        for index, (name, type_, subpattern) in enumerate(
            zip(names, constructor.inputs, subpatterns, strict=True)
        )
    ]
    then, other = Block(), _fall_through_block(ctx, span)
    with ctx.inside(then, ctx.environment.bindings.copy()):
        inner = [
            (subpattern, v.Operand(v.as_value(field, type_), ctx.span(subpattern.span)))
            for subpattern, field, type_ in zip(subpatterns, fields, constructor.inputs, strict=True)
        ]
        _test_patterns(ctx, then, [*inner, *work], case, span)
    arms: list[tuple[ir.Pattern, Block]] = [
        (ir.PatternConstructor(constructor, tuple(map(ir.PatternVar, fields))), then)
    ]
    if len(ctx.resolver.types()[constructor.belong_to.name].constructors) > 1:
        arms.append((ir.PatternWildcard(), other))
    block.end = Switch(data.expr, arms, complete=True, span=span)


def _emit_switch(
    ctx: Elaboration,
    stmt: tree.MatchNode,
    subject: v.Operand,
    cases: Sequence[tree.Case],
    others: Sequence[tree.Case],
    covered: Sequence[ir.Pattern],
) -> Terminator | None:
    """Emit cases that Relay's ``match`` can take, then the others where it has no arm."""
    data = as_computed(subject)
    arms: list[tuple[ir.Pattern, Block]] = []
    for case in cases:
        block = Block()
        with ctx.inside(block, ctx.environment.bindings.copy()):
            lhs = to_relay_pattern(ctx, case.pattern, data.type)
            sequencing.fill_block(ctx, block, sequencing.steps_of(ctx, case.body.stmts), ctx.span(case.span))
        arms.append((lhs, block))
    conditions = [lhs for lhs, _ in arms]
    missing = _missing_cases(ctx, [*covered, *conditions])
    if missing and not others:
        raise _not_exhaustive(ctx, stmt, " or ".join(missing[:3]))
    end = Switch(data.expr, arms, not _missing_cases(ctx, conditions), ctx.span(stmt.span))
    if missing:
        arms.append((ir.PatternWildcard(), _fall_through_block(ctx, ctx.span(stmt.span))))
        end.complete = True
        further = [*covered, *conditions]
        return sequencing.continue_after(
            ctx,
            end,
            iter([lambda: _elaborate_cases(ctx, stmt, subject, others, further)]),
            ExitKind.FALLS_THROUGH,
        )
    return end


def _missing_cases(ctx: Elaboration, patterns: Sequence[ir.Pattern]) -> list[str]:
    """Return values that no pattern matches, as text."""
    try:
        return find_unmatched_cases(patterns, ctx.resolver.types())
    except TooManyCasesError:
        return ["some value"]


def _needs_code(value: v.Value) -> bool:
    """Return whether anything in a value is dynamic."""
    if isinstance(value, v.TupleOf):
        return any(map(_needs_code, value.items))
    return isinstance(value, v.Computed) and not isinstance(value.expr, ir.Constant)


def _holds_data(value: v.Value) -> bool:
    """Return whether Relay can match the value: one of a data type, or a tuple that holds one."""
    if isinstance(value, v.TupleOf):
        relay = all(isinstance(item, v.Computed | v.TupleOf) for item in value.items)
        return relay and any(map(_holds_data, value.items))
    return isinstance(value, v.Computed) and isinstance(value.type, TypeCall)
