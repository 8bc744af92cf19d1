"""``a, (b, *c) = value``: which name gets which part. Knows the tree's targets and values."""

from __future__ import annotations

from collections.abc import Callable

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.tinynn.analysis.bound_names import names_of
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.values import FAILED, Known, Operand, RefusalError, TupleOf, Value, described

PublicSpan = Callable[[ast.Span], Span]
#: At most this many rows of a tensor are taken apart by an assignment.
_MAX_ROWS = 1000


def unpack(target: ast.Expr, value: Operand, place: PublicSpan, bind: Callable[[str, Value], None]) -> None:
    """Binds every name of a target. Raises Refusal; what stands before the fault is bound."""
    if isinstance(target, ast.Var):
        bind(target.id.name, value.value)
        return
    assert isinstance(target, ast.Tuple)
    span = place(target.span)
    parts = _parts(value, span)
    targets = list(target.values)
    starred = [index for index, part in enumerate(targets) if isinstance(part, tree.Starred)]
    fixed = len(targets) - len(starred)
    if len(parts) < fixed or (not starred and len(parts) != fixed):
        wanted = f"at least {fixed}" if starred else str(fixed)
        raise RefusalError(f"{len(parts)} values for {wanted} names", span)
    if starred:
        first = starred[0]
        end = len(parts) - (len(targets) - first - 1)
        gathered = TupleOf(tuple(parts[first:end]))
        targets[first] = targets[first].value
        parts = [*parts[:first], gathered, *parts[end:]]
    for inner, part in zip(targets, parts, strict=True):
        unpack(inner, Operand(part, value.span), place, bind)


def _parts(value: Operand, span: Span) -> list[Value]:
    """The items of a tuple; the rows of a tensor."""
    if isinstance(value.value, TupleOf):
        return list(value.value.items)
    if not is_tensor(value.value):
        raise RefusalError(f"{described(value.value)} cannot be unpacked", value.span)
    shape = tensor_type(value).shape
    if not shape or not isinstance(shape[0], int) or shape[0] > _MAX_ROWS:
        raise RefusalError(f"{described(value.value)} cannot be unpacked", value.span)
    return [subscript(value, [Operand(Known(row), span)], value.span) for row in range(int(shape[0]))]


def fail_all(target: ast.Expr, bind: Callable[[str, Value], None]) -> None:
    """Binds every name of a target silently: its value's error was reported."""
    for name in names_of(target):
        bind(name, FAILED)
