"""Check that operands which were read before a call have not been changed in place by it, as NumPy would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnmagic.diagnostics import Note
from nnmagic.relay import expr as ir
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.shared_memory import A_CONSTANT, ANY_MEMORY
from nnmagic.tinynn.values.descriptions import source_text
from nnmagic.tinynn.values.values import Computed, Environment, Method, Operand, RefusalError, Value


def shares_memory(ctx: Elaboration, changed: Computed, value: Value, chain: Sequence[Environment]) -> bool:
    """Return whether an array and a value share memory that is known, and are no disjoint parts of it.

    Of two values that a loop carries it says whether they may share any.
    """
    tokens = ctx.memory.of_expr(changed.expr) - {ANY_MEMORY, A_CONSTANT}
    tokens &= ctx.memory.of_value(value, chain)
    if isinstance(value, Computed) and value.expr is not changed.expr:
        if _is_carried(ctx, changed.expr) and _is_carried(ctx, value.expr):
            return any(isinstance(token, frozenset) for token in tokens)
        return bool(tokens) and not ctx.memory.are_disjoint(changed, value)
    return bool(tokens)


def _is_carried(ctx: Elaboration, expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Var) and expr not in ctx.memory.bound


def check_operands(ctx: Elaboration, operands: Iterable[Operand], since: int) -> None:
    """Check that no call has changed an operand that was read before it. Raises RefusalError.

    ``since``: how many arrays calls had changed when the first operand was read.
    """
    if len(ctx.changed_by_calls) == since:
        return
    chain = ctx.environment.chain()
    for operand in operands:
        for before, name, place in ctx.changed_by_calls[since:]:
            if shares_memory(ctx, before, operand.value, chain):
                span = operand.value.receiver.span if isinstance(operand.value, Method) else operand.span
                message = "a call after this array changes it, and NumPy uses the changed one"
                hint = f"call the function on a line before, or copy the array: {source_text(span)}.copy()"
                raise RefusalError(message, span, hint=hint, notes=[Note(f"`{name}` is changed here", place)])
