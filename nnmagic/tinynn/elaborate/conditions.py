"""Conditions in expressions: ``x if c else y``, ``and``, ``or``, ``not``, chained comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.analysis.bound_names import mentioned_names
from nnmagic.tinynn.elaborate.branches import Branches
from nnmagic.tinynn.elaborate.context import NotSimpleError
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, CondBranch, ExitKind
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Known,
    Operand,
    RefusalError,
    Unassigned,
    Value,
    described,
    is_failed,
    number_constant,
)

#: The name under which the value of an expression is joined.
_RESULT = " result"


class Conditions(Branches):
    """Values that depend on a condition."""

    def conditional(self, expr: tree.Conditional) -> Value:
        """``then if condition else other``."""
        condition = self.truth(self.operand(expr.condition), "if")
        if condition is None:
            self.transform_expr(expr.then)
            self.transform_expr(expr.other)
            return FAILED
        if isinstance(condition, bool):
            return self.transform_expr(expr.then if condition else expr.other)
        self.settle(sorted(mentioned_names(expr.then) | mentioned_names(expr.other)))
        parts = ((expr.then, expr.then.span), (expr.other, expr.other.span))
        return self.chosen(
            condition,
            [lambda part=part: self.transform_expr(part) for part, _ in parts],  # type: ignore[misc]  # one a part
            [self.place(span) for _, span in parts],
            self.place(expr.span),
        )

    def chosen(
        self,
        condition: Computed,
        makers: Sequence[Callable[[], Value]],
        places: Sequence[Span],
        span: Span,
    ) -> Value:
        """One of two values that are made in branches of their own. Raises Refusal."""
        if self.simple_only:
            raise NotSimpleError
        ends: list[Block] = []
        values: list[Value] = []
        for make, place in zip(makers, places, strict=True):
            block = Block()
            with self.inside(block, self.frame.env.copy()) as env:
                values.append(make())
                env.bind(_RESULT, values[-1], place)
                block.end = BlockExit(ExitKind.GOES_ON, place, env)
            ends.append(block)
        before, live = self.frame.env, self.live
        self.live = live | {_RESULT}
        try:
            self.merged(CondBranch(condition.expr, ends[0], ends[1], span))
            result = before.locals.pop(_RESULT)
        finally:
            self.live = live
        if isinstance(result, Unassigned):
            one, other = (described(value) for value in values)
            message = f"one side gives {one}, the other {other}"
            raise RefusalError(message, span, hint=_filled(values) or result.hint, notes=result.notes)
        return result

    def logical(self, expr: tree.Logical) -> Value:
        """``a and b``, ``a or b``: Python's, which gives an operand and leaves out what is not needed."""
        return self._logical(expr.word, list(expr.values), self.place(expr.span))

    def _logical(self, word: str, values: Sequence[ast.Expr], span: Span) -> Value:
        first = self.operand(values[0])
        if len(values) == 1:
            return first.value
        held = self.truth(first, word)
        if held is None:
            for value in values[1:]:
                self.transform_expr(value)
            return FAILED
        if isinstance(held, bool):
            return first.value if held is (word == "or") else self._logical(word, values[1:], span)
        for value in values[1:]:
            self.settle(sorted(mentioned_names(value)))
        kept = first.value
        if isinstance(kept, Computed) and kept.expr is not held.expr:
            kept = self.bound(kept, "value")
            again = self.truth(Operand(kept, first.span), word)
            assert isinstance(again, Computed)
            held = again
        return self.both(
            word, Operand(kept, first.span), held, lambda: self._logical(word, values[1:], span), span
        )

    def both(
        self, word: str, first: Operand, held: Computed, second: Callable[[], Value], span: Span
    ) -> Value:
        """``first and second()`` where ``first`` is known only when the function runs. Raises Refusal."""
        simple = self.simple_bool(second) if _is_bool(first.value) else None
        if simple is not None:
            return apply(f"logical_{word}", span, held, simple)
        makers = [second, lambda: first.value]
        if word == "or":
            makers.reverse()
        return self.chosen(held, makers, [span, span], span)

    def chain(self, expr: tree.Chain) -> Value:
        """``a < b < c``: Python's ``a < b and b < c`` with b computed once."""
        first = self.operand(expr.operands[0])
        return self._chain_from(first, list(expr.operands[1:]), list(expr.ops), self.place(expr.span))

    def _chain_from(
        self, left: Operand, operands: Sequence[ast.Expr], ops: Sequence[ast.Op], span: Span
    ) -> Value:
        right = self.operand(operands[0])
        if is_failed(left.value) or is_failed(right.value):
            for operand in operands[1:]:
                self.transform_expr(operand)
            return FAILED
        if len(operands) > 1:
            for operand in operands[1:]:
                self.settle(sorted(mentioned_names(operand)))
            right = Operand(self.settled(right.value, "value", set()), right.span)
        held = self.compare(ops[0], left, right, left.span.to(right.span))
        if len(operands) == 1 or is_failed(held):
            return held
        first = Operand(held, left.span.to(right.span))
        if is_tensor(held) and any(dim != 1 for dim in tensor_type(first).shape):
            hint = "write (a < b) & (b < c)"
            message = f"a chained comparison needs one truth value, not {described(held)}"
            raise RefusalError(message, span, hint=hint)
        truth = self.truth(first, "and")
        if truth is None:
            return FAILED
        if isinstance(truth, bool):
            return self._chain_from(right, operands[1:], ops[1:], span) if truth else held
        return self.both(
            "and", first, truth, lambda: self._chain_from(right, operands[1:], ops[1:], span), span
        )

    def negated(self, operand: Operand, span: Span) -> Value:
        """``not x``. Raises Refusal."""
        held = self.truth(operand, "not")
        if held is None:
            return FAILED
        return Known(not held) if isinstance(held, bool) else apply("logical_not", span, held)

    def simple_bool(self, make: Callable[[], Value]) -> Computed | None:
        """A bool of rank 0 that may be computed whether it is needed or not; None where that is not sure.

        Raises NotSimple, too, inside of another that is being tried.
        """
        if self.simple_only:
            return self._simple(make())
        with self.trial() as found:
            self.simple_only = True
            try:
                versions = dict(self.frame.env.versions)
                simple = self._simple(make())
                changed = bool(self.block.lets) or versions != self.frame.env.versions
            except NotSimpleError:
                return None
            finally:
                self.simple_only = False
        return None if found.found or changed else simple

    def _simple(self, value: Value) -> Computed:
        if _is_bool(value):
            if isinstance(value, Computed) and is_total(value.expr):
                return value
            if isinstance(value, Known) and isinstance(value.value, bool):
                return number_constant(value.value, "bool", Span("", 0, 0, 0, 0))
        raise NotSimpleError


#: Operators that may fail when they run, or that cost too much to compute for nothing.
_PARTIAL = re.compile(
    r"take|gather|scatter|adv_index|unravel|invert_perm|divide|mod|shift|power|reshape|random|conv|dense|matmul|dyn\."
)


def is_total(expr: ir.Expr) -> bool:
    """Whether an expression may be computed though it is not needed: cheap operators that cannot fail."""
    work, seen = [expr], {expr}
    while work:
        node = work.pop()
        if isinstance(node, ir.Call):
            if not isinstance(node.op, ir.OpRef) or _PARTIAL.search(node.op.name):
                return False
        elif not isinstance(node, ir.Var | ir.Constant | ir.OpRef | ir.TupleGetItem | ir.GlobalVar):
            return False
        new = [part for part in ir.children(node) if part not in seen]
        seen.update(new)
        work += new
        if len(seen) > _MAX_TOTAL:
            return False
    return True


#: A condition with more nodes is worth a branch.
_MAX_TOTAL = 30


def _is_bool(value: Value) -> bool:
    if isinstance(value, Known):
        return isinstance(value.value, bool)
    return isinstance(value, Computed) and value.type == TensorType((), "bool")


def _filled(values: Sequence[Value]) -> str | None:
    """Where one of two values is a number, the tensor of the other's type that may be meant."""
    match values:
        case ([Computed(type=TensorType() as type_), Known(value=int() | float() as number)]) | (
            [Known(value=int() | float() as number), Computed(type=TensorType() as type_)]
        ):
            dtype = dtype_short_name(type_.dtype)
            return f"write full({format_shape(type_.shape)}, {number}, {dtype}) for the number"
    return None
