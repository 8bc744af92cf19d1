"""Elaborate conditions in expressions: ``x if c else y``, ``and``, ``or``, chained comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.declaration import Trait, is_speculatable, traits_of
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import find_mentioned_names
from nnmagic.tinynn.elaborate.context import BranchNeededError, Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, CondBranch, ExitKind
from nnmagic.tinynn.elaborate.joins import merge_exits
from nnmagic.tinynn.elaborate.let_bindings import atomize, let_bind, let_bind_names
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type

#: The name under which the value of an expression is joined.
_RESULT = " result"


def elaborate_conditional(ctx: Elaboration, expr: tree.Conditional) -> v.Value:
    """Elaborate ``then if condition else other``."""
    condition = truth_of(ctx.condition(expr.condition), "if")
    if condition is None:
        ctx.evaluate(expr.then)
        ctx.evaluate(expr.other)
        return v.FAILED
    if isinstance(condition, bool):
        return ctx.evaluate(expr.then if condition else expr.other)
    let_bind_names(ctx, sorted(find_mentioned_names(expr.then) | find_mentioned_names(expr.other)))
    parts = ((expr.then, expr.then.span), (expr.other, expr.other.span))
    return _choose(
        ctx,
        condition,
        [lambda part=part: ctx.evaluate(part) for part, _ in parts],  # type: ignore[misc]  # one a part
        [ctx.span(span) for _, span in parts],
        ctx.span(expr.span),
    )


def _choose(
    ctx: Elaboration,
    condition: v.Computed,
    branches: Sequence[Callable[[], v.Value]],
    branch_spans: Sequence[Span],
    span: Span,
) -> v.Value:
    """Choose between two values, each computed in a branch of its own. Raises RefusalError."""
    if ctx.speculating:
        raise BranchNeededError
    ends: list[Block] = []
    values: list[v.Value] = []
    for branch, branch_span in zip(branches, branch_spans, strict=True):
        block = Block()
        with ctx.inside(block, ctx.environment.bindings.copy()) as bindings:
            values.append(branch())
            bindings.bind(_RESULT, values[-1], branch_span)
            block.end = BlockExit(ExitKind.GOES_ON, branch_span, bindings)
        ends.append(block)
    before, live = ctx.environment.bindings, ctx.live
    ctx.live = live | {_RESULT}
    try:
        merge_exits(ctx, CondBranch(condition.expr, ends[0], ends[1], span))
        result = before.locals.pop(_RESULT)
    finally:
        ctx.live = live
    if isinstance(result, v.Unassigned):
        lhs, rhs = (describe(value) for value in values)
        message = f"one side gives {lhs}, the other {rhs}"
        raise v.RefusalError(message, span, hint=_fill_hint(values) or result.hint, notes=result.notes)
    return result


def elaborate_logical(ctx: Elaboration, expr: tree.Logical) -> v.Value:
    """Elaborate ``a and b``, ``a or b`` as Python does: they give an operand and skip what is not needed."""
    return _fold_logical(ctx, expr.word, list(expr.values), ctx.span(expr.span))


def _fold_logical(ctx: Elaboration, word: str, values: Sequence[ast.Expr], span: Span) -> v.Value:
    first = ctx.operand(values[0])
    if len(values) == 1:
        return first.value
    truth = truth_of(first, word)
    if truth is None:
        for value in values[1:]:
            ctx.evaluate(value)
        return v.FAILED
    if isinstance(truth, bool):
        return first.value if truth is (word == "or") else _fold_logical(ctx, word, values[1:], span)
    for value in values[1:]:
        let_bind_names(ctx, sorted(find_mentioned_names(value)))
    operand = first.value
    if isinstance(operand, v.Computed) and operand.expr is not truth.expr:
        operand = let_bind(ctx, operand, "value")
        again = truth_of(v.Operand(operand, first.span), word)
        assert isinstance(again, v.Computed)
        truth = again
    return _short_circuit(
        ctx,
        word,
        v.Operand(operand, first.span),
        truth,
        lambda: _fold_logical(ctx, word, values[1:], span),
        span,
    )


def _short_circuit(
    ctx: Elaboration,
    word: str,
    first: v.Operand,
    truth: v.Computed,
    second: Callable[[], v.Value],
    span: Span,
) -> v.Value:
    """Return ``first and second()`` where ``first`` is dynamic. Raises RefusalError."""
    simple = _speculate_bool(ctx, second) if _is_bool(first.value) else None
    if simple is not None:
        return apply(f"logical_{word}", span, truth, simple)
    branches = [second, lambda: first.value]
    if word == "or":
        branches.reverse()
    return _choose(ctx, truth, branches, [span, span], span)


def elaborate_chain(ctx: Elaboration, expr: tree.Chain) -> v.Value:
    """Elaborate ``a < b < c`` as Python does: ``a < b and b < c`` with b evaluated once."""
    first = ctx.operand(expr.operands[0])
    return _compare_from(ctx, first, list(expr.operands[1:]), list(expr.ops), ctx.span(expr.span))


def _compare_from(
    ctx: Elaboration, lhs: v.Operand, operands: Sequence[ast.Expr], ops: Sequence[ast.Op], span: Span
) -> v.Value:
    rhs = ctx.operand(operands[0])
    if v.is_failed(lhs.value) or v.is_failed(rhs.value):
        for operand in operands[1:]:
            ctx.evaluate(operand)
        return v.FAILED
    if len(operands) > 1:
        for operand in operands[1:]:
            let_bind_names(ctx, sorted(find_mentioned_names(operand)))
        rhs = v.Operand(atomize(ctx, rhs.value, "value", set()), rhs.span)
    result = binary_operation(ctx, ops[0].name, lhs, rhs, lhs.span.to(rhs.span))
    if len(operands) == 1 or v.is_failed(result):
        return result
    first = v.Operand(result, lhs.span.to(rhs.span))
    if is_tensor(result) and any(dim != 1 for dim in tensor_type(first).shape):
        hint = "write (a < b) & (b < c)"
        message = f"a chained comparison needs one truth value, not {describe(result)}"
        raise v.RefusalError(message, span, hint=hint)
    truth = truth_of(first, "and")
    if truth is None:
        return v.FAILED
    if isinstance(truth, bool):
        return _compare_from(ctx, rhs, operands[1:], ops[1:], span) if truth else result
    return _short_circuit(
        ctx, "and", first, truth, lambda: _compare_from(ctx, rhs, operands[1:], ops[1:], span), span
    )


def _speculate_bool(ctx: Elaboration, evaluate: Callable[[], v.Value]) -> v.Computed | None:
    """Return a bool of rank 0 that may be computed though it is not needed; None where that is not safe.

    Inside another speculation it raises BranchNeededError instead.
    """
    if ctx.speculating:
        return _require_total(evaluate())
    with ctx.trial() as diagnostics:
        ctx.speculating = True
        try:
            versions = dict(ctx.environment.bindings.versions)
            simple = _require_total(evaluate())
            changed = bool(ctx.block.lets) or versions != ctx.environment.bindings.versions
        except BranchNeededError:
            return None
        finally:
            ctx.speculating = False
    return None if diagnostics.errors or changed else simple


def _require_total(value: v.Value) -> v.Computed:
    if _is_bool(value):
        if isinstance(value, v.Computed) and is_total(value.expr):
            return value
        if isinstance(value, v.Known) and isinstance(value.value, bool):
            return number_constant(value.value, "bool", Span("", 0, 0, 0, 0))
    raise BranchNeededError


#: Operators that are not computed for nothing: they cost too much, or sizes may not fit.
_TAKING_A_BRANCH = Trait.HEAVY | Trait.RESHAPES


def is_total(expr: ir.Expr) -> bool:
    """Return whether an expression may be computed though it is not needed: cheap, and it cannot fail."""
    work, seen = [expr], {expr}
    while work:
        node = work.pop()
        if isinstance(node, ir.Call):
            if not is_speculatable(node) or traits_of(node) & _TAKING_A_BRANCH:
                return False
        elif not isinstance(node, ir.Var | ir.Constant | ir.OpRef | ir.TupleGetItem | ir.GlobalVar):
            return False
        unseen = [child for child in ir.children(node) if child not in seen]
        seen.update(unseen)
        work += unseen
        if len(seen) > _MAX_TOTAL:
            return False
    return True


#: A condition with more nodes is worth a branch.
_MAX_TOTAL = 30


def _is_bool(value: v.Value) -> bool:
    if isinstance(value, v.Known):
        return isinstance(value.value, bool)
    return isinstance(value, v.Computed) and value.type == TensorType((), "bool")


def _fill_hint(values: Sequence[v.Value]) -> str | None:
    """Suggest the tensor that a number beside a tensor may be meant for."""
    match values:
        case ([v.Computed(type=TensorType() as type_), v.Known(value=int() | float() as number)]) | (
            [v.Known(value=int() | float() as number), v.Computed(type=TensorType() as type_)]
        ):
            if not all(isinstance(dim, int) for dim in type_.shape):
                return f"write full_like(x, {number}) for the number, with the tensor as x"
            dtype = dtype_short_name(type_.dtype)
            return f"write full({format_shape(type_.shape)}, {number}, {dtype}) for the number"
    return None
