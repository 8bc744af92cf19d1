"""Elaborate operators, comparisons and subscripts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.annotation_types import (
    callable_annotation,
    destination_annotation,
    is_type,
    tensor_annotation,
    tuple_annotation,
)
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.expressions import evaluate_index, evaluate_operands, range_as_array
from nnmagic.tinynn.elaborate.foreign_annotations import foreign_subscript, kind_subscript
from nnmagic.tinynn.elaborate.list_comparisons import compare_lists
from nnmagic.tinynn.elaborate.lists_as_rows import (
    as_list_of_rows,
    is_run_time,
    meet_all,
    repeated_list,
    with_columns,
)
from nnmagic.tinynn.elaborate.loop_functions import Apply, call_in_loop
from nnmagic.tinynn.elaborate.operand_memory import check_operands
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, kept, may_be_none
from nnmagic.tinynn.elaborate.truth import negate
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.operators.arithmetic import binary, unary
from nnmagic.tinynn.operators.index_chains import read_chain
from nnmagic.tinynn.operators.iteration import ITERATION, count
from nnmagic.tinynn.operators.membership import identity, membership
from nnmagic.tinynn.operators.sets import operate
from nnmagic.tinynn.operators.strings import compare_characters, index_texts
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.syntax.tree_building import subscripts_of
from nnmagic.tinynn.types.annotations import DESTINATIONS, DTypeKind, OpenType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type


def elaborate_operation(ctx: Elaboration, expr: ast.Call, apply: Apply) -> v.Value:
    """Elaborate a unary or binary operator, or a subscript; ``apply``: `calls.apply_value`."""
    op = expr.func_name
    if op.name is ast.BuiltinOp.Subscript:
        return _elaborate_subscript(ctx, expr)
    if len(expr.params) == 1:
        span = ctx.span(expr.span)
        if op.name is ast.BuiltinOp.Not:
            return negate(ctx.condition(expr.params[0]), span)
        operand = ctx.operand(expr.params[0])
        return v.FAILED if v.is_failed(operand.value) else unary(op.name, SIGNS[op.name], operand, span)
    return _elaborate_binary(ctx, expr, apply)


_IDENTITY = (tree.ExtraOp.Is, tree.ExtraOp.IsNot)
_EQUALITY = (ast.BuiltinOp.Eq, ast.BuiltinOp.NotEq)


def _refuse_identity(span: Span) -> NoReturn:
    message = "nothing says whether a value that may be None is one object with another"
    raise v.RefusalError(message, span, hint="ask whether it is None, and compare with ==")


def _asks_for_none(expr: ast.Call) -> bool:
    """Return whether an operation is ``a is b``, or ``a == None``."""
    is_none = any(isinstance(part, ast.Constant) and part.value is None for part in expr.params)
    return expr.func_name.name in _IDENTITY or (expr.func_name.name in _EQUALITY and is_none)


def _elaborate_binary(ctx: Elaboration, expr: ast.Call, apply: Apply) -> v.Value:
    """Elaborate a binary operator; down the left side in a loop, so that a long sum needs no recursion."""
    chain: list[ast.Call] = []
    node: ast.Expr = expr
    while _is_binary(node):
        chain.append(node)
        node = node.params[0]
    if chain and _asks_for_none(chain[-1]):
        ctx.none_kept |= kept(node) | kept(chain[-1].params[1])
    lhs = ctx.operand(node)
    for call in reversed(chain):
        since = len(ctx.changed_by_calls)
        rhs = ctx.operand(call.params[1])
        check_operands(ctx, [lhs], since)
        span = ctx.span(call.span)
        op, in_place = call.func_name.name, call is ctx.updating
        value = operate(SIGNS[op], lhs, rhs, span, in_place=in_place)
        if value is None:
            value = binary_operation(ctx, op, lhs, rhs, span, in_place=in_place)
        elif isinstance(value, v.LoopCall):
            value = call_in_loop(ctx, value, span, apply)
        lhs = v.Operand(value, span)
    return lhs.value


def binary_operation(
    ctx: Elaboration,
    op: ast.BuiltinOp | tree.ExtraOp,
    lhs: v.Operand,
    rhs: v.Operand,
    span: Span,
    *,
    in_place: bool = False,
) -> v.Value:
    """Return the value of a binary operator; an error is reported here and gives FAILED."""
    if v.is_failed(lhs.value) or v.is_failed(rhs.value):
        return v.FAILED
    if (
        op is ast.BuiltinOp.BitOr
        and is_type(lhs.value)
        and (is_type(rhs.value) or rhs.value == v.Known(None))
    ):
        return v.Known(OpenType())
    try:
        compared = compare_characters(op, SIGNS[op], lhs, rhs, span)
    except v.RefusalError as refusal:
        ctx.report(refusal)
        return v.FAILED
    if compared is not None:
        return compared
    NONE_MERGES.get().met |= v.Known(None) in (lhs.value, rhs.value)
    texts = [each.value.value for each in (lhs, rhs) if isinstance(each.value, v.Known)]
    if len(texts) == 2 and _is_of_text(op, *texts):
        return v.Known(_OF_TEXTS[op](*texts))
    if op is ast.BuiltinOp.Mul and (rows := repeated_list(lhs, rhs, span)) is not None:
        return rows
    kinds = {type(lhs.value), type(rhs.value)}
    if op is ast.BuiltinOp.Add and v.ListOfRows in kinds and kinds <= {v.ListOfRows, v.TupleOf}:
        return _join_lists(ctx, lhs, rhs, span)
    try:
        if op in _IDENTITY or op in _EQUALITY:
            for operand, other in ((lhs, rhs), (rhs, lhs)):
                may_be = isinstance(operand.value, v.TupleOf) and may_be_none(operand.value)
                if may_be and other.value == v.Known(None):
                    given = replace(operand, value=operand.value.items[0])  # type: ignore[union-attr]  # a tuple
                    is_asked = op in (tree.ExtraOp.Is, ast.BuiltinOp.Eq)
                    return negate(given, span) if is_asked else given.value
                if may_be:
                    _refuse_identity(span)
        if op in _IDENTITY:
            return identity(SIGNS[op], lhs, rhs, span)
        if op in (tree.ExtraOp.In, tree.ExtraOp.NotIn):
            if (is_member := tables.membership(rhs, lhs, span)) is not None:
                return is_member if op is tree.ExtraOp.In else negate(v.Operand(is_member, span), span)
            return membership(SIGNS[op], lhs, rhs, span)
        if (of_lists := compare_lists(op, SIGNS[op], lhs, rhs, span)) is not None:
            return of_lists
        if any(is_tensor(each.value) and tensor_type(each).shape for each in (lhs, rhs)):
            lhs, rhs = map(_list_as_array, (lhs, rhs))
        return binary(op, SIGNS[op], lhs, rhs, span, in_place=in_place)
    except v.RefusalError as refusal:
        ctx.report(refusal)
        return v.FAILED


def _list_as_array(operand: v.Operand) -> v.Operand:
    """Return a list or a tuple beside an array as the array that NumPy makes of it. Raises RefusalError."""
    value = v.rows_of_list(operand.value)
    if isinstance(value, v.TupleOf) and value.record is None:
        value = BUILTINS["array"].call([operand], operand.span)
    return replace(operand, value=value)


#: What is computed of known strings.
_OF_TEXTS: dict[object, Callable[[Any, Any], object]] = {
    ast.BuiltinOp.Add: operator.add,
    ast.BuiltinOp.Mul: operator.mul,
    ast.BuiltinOp.LT: operator.lt,
    ast.BuiltinOp.LE: operator.le,
    ast.BuiltinOp.GT: operator.gt,
    ast.BuiltinOp.GE: operator.ge,
}


def _is_of_text(op: object, left: object, right: object) -> bool:
    """Return whether an operator joins, repeats or compares known strings."""
    if op is ast.BuiltinOp.Mul:
        text, times = (left, right) if isinstance(left, str) else (right, left)
        return isinstance(text, str) and type(times) is int and len(text) * times <= MAX_TUPLE_SIZE
    return op in _OF_TEXTS and isinstance(left, str) and isinstance(right, str)


def _join_lists(ctx: Elaboration, lhs: v.Operand, rhs: v.Operand, span: Span) -> v.Value:
    """Return the items of two lists, of which one grew in a loop, in one list. Raises RefusalError."""
    lists = [items_ for items_ in (lhs, rhs) if items_.value != v.TupleOf(())]
    rows = [
        items_.value if isinstance(items_.value, v.ListOfRows) else as_list_of_rows(items_.value, span)  # type: ignore[arg-type]  # a list
        for items_ in lists
    ]
    known = [items_ for items_ in rows if items_ is not None]
    columns = meet_all(items_.columns for items_ in known)
    if columns:
        known = [with_columns(items_, columns, span) for items_ in known]
    row_counts = [items_.rows for items_ in known]
    if len(row_counts) < len(rows) or columns is None:
        message = f"`+` of {describe(lhs.value)} and {describe(rhs.value)}"
        raise v.RefusalError(message, span, hint="give all items one shape and one dtype")
    is_table = max((items_.is_table for items_ in known), default=0)
    taken = [ctx.takes_named(item) for each in lists for item in getattr(each.value, "items", ())]
    is_shared = any(taken) or any(items_.is_shared for items_ in known)
    if len(row_counts) == 1:
        return v.ListOfRows(row_counts[0], is_table, columns=columns, is_shared=is_shared)
    parts = v.TupleOf(tuple(row_counts))
    joined = v.dynamic(BUILTINS["concatenate"].call([v.Operand(parts, span)], span))
    if is_table:
        chain = ctx.environment.chain()
        first, second = ctx.memory.of_value(lhs.value, chain), ctx.memory.of_value(rhs.value, chain)
        is_shared |= not first.isdisjoint(second)
        ctx.memory.hold(joined.expr, first | second | {joined.expr})
    weak = all(items_.weak for items_ in row_counts)
    return v.ListOfRows(replace(joined, weak=weak), is_table, columns=columns, is_shared=is_shared)


def _is_binary(expr: ast.Expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func_name, ast.Op)
        and expr.func_name.name is not ast.BuiltinOp.Subscript
        and len(expr.params) == 2
    )


def _numbers_of(owner: v.Operand) -> v.Value:
    """Return the numbers of a range as a list."""
    if isinstance(count(owner), int):
        return ITERATION["list"].call([owner], owner.span)
    numbers = v.dynamic(range_as_array(owner).value)
    return v.ListOfRows(replace(numbers, weak=True))


def _elaborate_subscript(ctx: Elaboration, expr: ast.Call) -> v.Value:
    root, chain = subscripts_of(expr)
    owner = ctx.operand(root)
    indices: list[tuple[Sequence[v.Operand], Span]] = []
    for link in chain:
        span = ctx.span(link.span)
        if not indices and (special := _of_name(ctx, owner, link, span)) is not None:
            owner = v.Operand(special, span)
            continue
        since = len(ctx.changed_by_calls)
        indices.append((evaluate_index(ctx, link.params[1].values), span))
        check_operands(ctx, [owner], since)
    if any(v.is_failed(item.value) for item in (owner, *(item for index, _ in indices for item in index))):
        return v.FAILED
    if isinstance(owner.value, v.RangeOf):
        owner = replace(owner, value=_numbers_of(owner))
    while indices and (character := index_texts(owner, [index for index, _ in indices], indices[0][1])):
        owner = v.Operand(character[0], indices[0][1])
        del indices[: character[1]]
    if indices and (dictionary := _read_dictionary(ctx, owner, *indices[0])) is not None:
        owner = v.Operand(dictionary, indices.pop(0)[1])
    is_fixed = isinstance(root, ast.Var) and ctx.environment.owner(root.id.name) is None
    may_be_rows = is_fixed or ctx.items_as_rows or not ctx.rounds
    known = owner.value
    if isinstance(known, v.TupleOf) and may_be_rows and indices and is_run_time(indices[0][0]):
        owner = replace(owner, value=_as_rows(ctx, owner) or owner.value)
    value = owner.value
    for value, index in read_chain(owner, indices) if indices else ():
        if isinstance(value, v.Computed) and any(_is_array(item.value) for item in index):
            ctx.memory.own(value.expr)  # NumPy copies what arrays choose
    if isinstance(known, v.TupleOf) and isinstance(value, v.ListOfRows):
        ctx.note_merged_lists(value, known.items)  # the item is one of these
    return value


def _read_dictionary(
    ctx: Elaboration, owner: v.Operand, index: Sequence[v.Operand], span: Span
) -> v.Value | None:
    """Return the value of a key that only the call knows; None of anything else. Raises RefusalError."""
    if not tables.is_dictionary(owner.value):
        return None
    whole = v.TupleOf(tuple(each.value for each in index), written="tuple")
    key = index[0] if len(index) == 1 else v.Operand(whole, span)
    entry = tables.read_key(owner, key, span)
    if entry is not None:
        if tables.key_or_missing(key) is tables.MISSING:  # which of the lists it is only the call knows
            ctx.hold_lists(owner.value)
        ctx.memory.share(entry, ctx.memory.of_value(owner.value, ctx.environment.chain()))
    return entry


def _as_rows(ctx: Elaboration, owner: v.Operand) -> v.ListOfRows | None:
    """Return a list as one of rows, which share the memory of its items."""
    assert isinstance(owner.value, v.TupleOf)
    rows = as_list_of_rows(owner.value, owner.span)
    if rows is not None and (tokens := ctx.memory.of_value(owner.value, ctx.environment.chain())):
        ctx.memory.hold(rows.rows.expr, tokens)
    return rows


def _of_name(ctx: Elaboration, owner: v.Operand, part: ast.Call, span: Span) -> v.Value | None:
    """Return what the subscript of a name of cells is: a type, or a grid; None for other owners."""
    index = part.params[1].values
    if isinstance(owner.value, v.TupleConstructor):
        return _elaborate_type_subscript(ctx, owner.value, index, span)
    if isinstance(owner.value, v.Known) and isinstance(owner.value.value, DTypeKind):
        return kind_subscript(ctx, owner.value.value, index, span)
    if not isinstance(owner.value, v.BuiltinName):
        return None
    if owner.value.builtin.name == "ndarray":
        return foreign_subscript(ctx, "ndarray", index, span)
    if owner.value.builtin.name == "list":
        hint = 'write tuple[f32, f32], a type for each item, or Tensor[("n",), f32]'
        raise v.RefusalError("`list[...]` is no type of a cell", span, hint=hint)
    if owner.value.builtin.name not in _INDEXED:
        return None
    items = evaluate_index(ctx, index)
    if any(v.is_failed(item.value) for item in items):
        return v.FAILED
    if owner.value.builtin.name in ("c_", "r_"):
        items = list(map(_slice_as_array, items))
    return owner.value.builtin.call(items, span)


def _slice_as_array(operand: v.Operand) -> v.Operand:
    """Return the numbers of a slice, as ``np.r_`` has them; any other value as it is. Raises RefusalError."""
    if not isinstance(operand.value, v.SliceOf):
        return operand
    start, stop, step = operand.value.start, operand.value.stop, operand.value.step
    start = v.Known(0) if start == v.Known(None) else start
    step = v.Known(1) if step == v.Known(None) else step
    name = "arange"
    if isinstance(step, v.Known) and isinstance(step.value, complex):
        name, step = "linspace", v.Known(int(abs(step.value)))
    made = BUILTINS[name].call([v.Operand(each, operand.span) for each in (start, stop, step)], operand.span)
    if not isinstance(made, v.Computed):
        hint = "write np.arange(start, stop, step)"
        raise v.RefusalError("a slice in `r_` has floats that only the call knows", operand.span, hint=hint)
    return replace(operand, value=made)


#: The functions of NumPy that are called by indexing them.
_INDEXED = frozenset(("mgrid", "ogrid", "c_", "r_"))


def _is_array(value: v.Value) -> bool:
    if isinstance(value, v.Computed) and isinstance(value.type, TensorType):
        return bool(value.type.shape)
    return isinstance(value, v.TupleOf)


def _elaborate_type_subscript(
    ctx: Elaboration, owner: v.TupleConstructor, index: list[ast.Expr], span: Span
) -> v.Value:
    if owner.name in ("ndarray", "NDArray", "dtype", "Annotated", "Literal", "Any", "Optional", "Union"):
        return foreign_subscript(ctx, owner.name, index, span)
    if owner.name == "Callable":
        items = evaluate_operands(ctx, index)
        return (
            v.FAILED if any(v.is_failed(item.value) for item in items) else callable_annotation(items, span)
        )
    if owner.name in DESTINATIONS:
        items = evaluate_operands(ctx, index)
        failed = any(v.is_failed(item.value) for item in items)
        return v.FAILED if failed else destination_annotation(owner.name, items, span)
    if owner.name != "Tensor":
        items = evaluate_operands(ctx, index)
        return v.FAILED if any(v.is_failed(item.value) for item in items) else tuple_annotation(items)
    ctx.in_shape = True
    try:
        items = evaluate_operands(ctx, index[:1])
    finally:
        ctx.in_shape = False
    items += evaluate_operands(ctx, index[1:])
    if any(v.is_failed(item.value) for item in items):
        return v.FAILED
    shape = index[0] if index else None  # `Tensor[()]`
    parts: list[v.Operand] = []
    if isinstance(shape, ast.Tuple | ast.ArrayLiteral) and items and isinstance(items[0].value, v.TupleOf):
        spans = [ctx.span(value.span) for value in shape.values]
        if len(spans) == len(items[0].value.items):
            parts = list(map(v.Operand, items[0].value.items, spans))
    return tensor_annotation(items, parts, span)
