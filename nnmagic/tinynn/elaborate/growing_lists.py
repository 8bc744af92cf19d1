"""Elaborate lists that grow: ``rows.append(row)``, at compile time or as a row of a tensor."""

from __future__ import annotations

from dataclasses import replace

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_type
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, is_float
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.context import Elaboration, Growth
from nnmagic.tinynn.elaborate.dictionary_items import clear, held_by, remove_key
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.elaborate.list_items import check_holders
from nnmagic.tinynn.elaborate.lists_as_rows import (
    check_item,
    columns_of,
    leaves,
    meet_all,
    meet_columns,
    row_of,
    rows_dtype,
    with_columns,
)
from nnmagic.tinynn.elaborate.merge_plans import types_of
from nnmagic.tinynn.elaborate.merging import plan_value
from nnmagic.tinynn.elaborate.shared_memory import HOLD_COPIES, Tokens
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.element_assignment import set_elements
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.promotion import common_dtype
from nnmagic.tinynn.values.symbolic_sizes import full, size_along, weak_int


def elaborate_append(ctx: Elaboration, stmt: tree.Append) -> None:
    """Elaborate ``name.append(item)`` at compile time. Raises RefusalError."""
    target = stmt.lhs[0]
    value = _list_to_change(ctx, target, "append", ctx.span(stmt.span))
    if value is None:
        return
    item = ctx.evaluate(stmt.item)
    if isinstance(value, v.ListOfRows):
        new = _with_another(ctx, target.id.name, value, v.Operand(item, ctx.span(stmt.item.span)))
    else:
        new = v.TupleOf((*value.items, item), written="list")
    ctx.environment.bindings.bind(target.id.name, new, ctx.span(target.span))


def elaborate_change(ctx: Elaboration, stmt: tree.ChangeList) -> None:
    """Elaborate ``name.pop()`` and its kin at compile time. Raises RefusalError."""
    target = stmt.lhs[0]
    if (held := held_by(ctx, target)) is not None:
        _change_dictionary(ctx, stmt, held)
        return
    if (value := _list_to_change(ctx, target, "pop", ctx.span(stmt.span))) is not None:
        left = ctx.evaluate(stmt.rhs)
        left = replace(left, written="list") if isinstance(left, v.TupleOf) else left
        if isinstance(value, v.ListOfRows) and isinstance(left, v.ListOfRows):
            left = replace(left, columns=left.columns or value.columns)
        ctx.environment.bindings.bind(target.id.name, left, ctx.span(target.span))


def _change_dictionary(ctx: Elaboration, stmt: tree.ChangeList, held: v.TupleOf | v.TableOf) -> None:
    """Elaborate ``name.pop(key)`` and ``name.clear()`` of a dictionary or a set. Raises RefusalError."""
    name, span = stmt.lhs[0].id.name, ctx.span(stmt.span)
    match stmt.rhs:
        case ast.ArrayLiteral(values=[]):
            clear(ctx, name, held, span)
        case ast.Call(params=[ast.Call(params=[_, key, _])]):
            remove_key(ctx, name, held, "pop", ctx.operand(key), span)
        case ast.Call(params=[ast.Var(), ast.Tuple(values=[ast.Slice(start=ast.Constant(value=1))])]):
            remove_key(ctx, name, held, "pop", v.Operand(v.Known(0), span), span)
        case _:
            message = f"which item `pop` takes of {describe(held)} is Python's own choice"
            raise v.RefusalError(message, span, hint=f"take one by its key, as in {name}.pop(key)")


def _is_parameter(definition: object, name: str) -> bool:
    parameters = getattr(definition, "params", ())
    return any(parameter.name == name for parameter in parameters)


def _with_another(ctx: Elaboration, name: str, rows: v.ListOfRows, item: v.Operand) -> v.Value:
    """Return a list that grew in a loop with one more item."""
    _check_kind(name, item, is_table=rows.is_table > 0)
    if rows.is_table:
        rows = replace(rows, is_shared=ctx.takes_named(item.value) or rows.is_shared)
    if rows.columns and not v.is_failed(item.value):
        columns = meet_columns(rows.columns, columns_of(item.value)) or rows.columns
        rows = with_columns(rows, columns, item.span)
        item = replace(item, value=row_of(item, columns))
    tensor = _as_tensor(name, item)
    if tensor is None:
        return v.FAILED
    assert isinstance(rows.rows.type, TensorType)
    assert isinstance(tensor.type, TensorType)
    check_item(f"`{name}`", rows.rows, item)
    wanted = rows.rows.type
    tensor = cast(tensor, wanted.dtype, item.span) if _is_weak(item.value) else tensor
    if tensor.type != TensorType(wanted.shape[1:], wanted.dtype):
        message = f"the items of `{name}` have different types"
        raise v.RefusalError(message, item.span, hint="give all of them one shape and one dtype")
    one = apply("expand_dims", item.span, tensor, axis=0)
    parts = TupleType((wanted, one.type))
    both = v.Computed(ir.Tuple((rows.rows.expr, one.expr), span=item.span), parts)
    joined = apply("concatenate", item.span, both, axis=0)
    return replace(rows, rows=joined, is_row=False)


def _list_to_change(
    ctx: Elaboration, target: ast.Var, word: str, span: Span
) -> v.TupleOf | v.ListOfRows | None:
    """Return the list of a name; None after an error. Raises RefusalError where it cannot change."""
    name = target.id.name
    owner = ctx.environment.owner(name)
    value = ctx.evaluate(target)
    if v.is_failed(value):
        ctx.environment.bindings.bind(name, v.FAILED)
        return None
    if owner is not ctx.environment:
        message = f"`{name}` belongs to the function around, and cannot be changed here"
        raise v.RefusalError(message, span, hint=f"return the item, and append it where `{name}` is")
    is_list = isinstance(value, v.TupleOf) and value.whole is None and value.record is None
    is_list = is_list and value.written != "tuple"  # type: ignore[union-attr]  # a TupleOf
    if not isinstance(value, v.ListOfRows | v.TupleOf) or not (is_list or isinstance(value, v.ListOfRows)):
        of_array = isinstance(value, v.Computed) and word == "append"
        hint = f"write {name} = append({name}, item)" if of_array else None
        raise v.RefusalError(f"`{word}` is for lists, and `{name}` is {describe(value)}", span, hint=hint)
    if isinstance(value, v.ListOfRows) and ctx.inlining and _is_parameter(ctx.inlining[-1].definition, name):
        message = f"`{name}` is a list of the caller, which Python would change there, too"
        raise v.RefusalError(message, span, hint="return the item, and append it where the list is")
    check_holders(ctx, name, value, span)
    return value


def elaborate_grow(ctx: Elaboration, stmt: tree.Grow) -> None:
    """Elaborate an append in a loop that is a function: assign a row. Raises RefusalError."""
    growth, span = growth_of(ctx, stmt.source), ctx.span(stmt.span)
    given = ctx.operand(stmt.item)
    if growth.is_tried:
        growth.columns = _columns_with(growth, given.value)
        if growth.columns:
            growth.type = _type_of_rows(growth, TensorType((), "int64"), span)
            ctx.environment.bindings.bind(growth.rows, example_of(ctx, growth, growth.type))
            return
    elif growth.columns and not v.is_failed(given.value):
        given = replace(given, value=row_of(given, growth.columns))
    if depth := depth_of_lists(given.value):
        growth.is_table = max(growth.is_table, depth)
        growth.is_shared = ctx.takes_named(given.value) or growth.is_shared
    for each in (given, *(v.Operand(value, span) for value in growth.before)):
        _check_kind(growth.name, each, is_table=growth.is_table > 0)
    item = _as_tensor(growth.name, given)
    if item is None:
        ctx.environment.bindings.bind(growth.rows, v.FAILED)
        return
    rows = v.rows_of_list(ctx.environment.bindings.locals[growth.rows])
    assert isinstance(item.type, TensorType)
    if growth.is_tried:
        growth.type = _type_of_rows(growth, item.type, span)
        ctx.environment.bindings.bind(growth.rows, example_of(ctx, growth, growth.type))
        return
    if isinstance(rows, v.Unassigned) and rows not in ctx.reported:  # what it holds was changed
        ctx.reported.add(rows)
        raise _changed_error(growth.name, rows, given, span)
    if v.is_failed(rows) or isinstance(rows, v.Unassigned):
        ctx.environment.bindings.bind(growth.rows, v.FAILED)
        ctx.environment.failed = True
        return
    assert isinstance(rows, v.Computed)
    assert isinstance(rows.type, TensorType)
    wanted = TensorType(rows.type.shape[1:], rows.type.dtype)
    item = _in_dtype(item, wanted.dtype, span)
    if item.type != wanted:
        message = f"the items of `{growth.name}` have different types"
        notes = (Note(f"this is {format_type(item.type)}, others are {format_type(wanted)}", span),)
        raise v.RefusalError(message, span, notes=notes, hint="give all of them one shape and one dtype")
    for other, value in ctx.environment.bindings.locals.items():
        if whole_list(ctx, growth) in ctx.identities(value):
            message = f"`{growth.name}` and `{other}` are one list here, which Python would change in both"
            raise v.RefusalError(message, span, hint=f"copy it before: {other} = list({growth.name})")
    place = v.Operand(ctx.evaluate(stmt.index), span)
    held = ctx.memory.of_value(rows) | _held_by(ctx, given.value)
    changed = set_elements(v.Operand(rows, span), [place], v.Operand(item, span), span)
    ctx.environment.bindings.bind(growth.rows, rows_as(growth, _hold(ctx, growth, changed, held)), span)


def depth_of_lists(item: v.Value) -> int:
    """Return how deep an item of a list is a list, whose operators are those of lists; 0 of others."""
    if isinstance(item, v.TupleOf) and item.record is None and item.written != "tuple":
        return 1 + max(map(depth_of_lists, item.items), default=0)
    return 1 + item.is_table if isinstance(item, v.ListOfRows) else 0


def _check_kind(name: str, item: v.Operand, *, is_table: bool) -> None:
    """Check that an item of a list is a list as the others, or an array as these. Raises RefusalError."""
    if not v.is_failed(item.value) and bool(depth_of_lists(item.value)) is not is_table:
        holds, maker = ("lists", "list") if is_table else ("no lists", "np.array")
        message = f"`{name}` holds {holds}, and this is {describe(item.value)}"
        raise v.RefusalError(message, item.span, hint=f"append the same, as in {name}.append({maker}(x))")


def whole_list(ctx: Elaboration, growth: Growth) -> object:
    """Return the identity of a list that changes in a loop, until it does."""
    return growth.rows, ctx.environment.bindings.versions.get(growth.rows)


def rows_as(growth: Growth, rows: v.Computed) -> v.Computed | v.ListOfRows:
    """Return what the tensor of a list stands for in its loop: its rows may be tuples."""
    is_list = growth.columns or growth.is_table
    whole = v.ListOfRows(rows, growth.is_table, columns=growth.columns, is_shared=growth.is_shared)
    return whole if is_list else rows


def _columns_with(growth: Growth, item: v.Value) -> v.Columns:
    """Return the columns of a list that takes an item, too."""
    known = [growth.columns] if growth.columns else [columns_of(value) for value in growth.before]
    own = columns_of(item)
    return meet_all((own, *known)) or next(iter(known), ())


def growth_of(ctx: Elaboration, name: str) -> Growth:
    """Return the list of a name that changes in the loop at hand, of the function or of one around it."""
    keys = ((environment, name) for environment in ctx.environment.chain())
    return next(ctx.growing[key] for key in keys if key in ctx.growing)


def _type_of_rows(growth: Growth, type_: TensorType, span: Span) -> TensorType:
    """Return the type of rows for an item, which meets the floats before the loop as in NumPy."""
    if growth.columns:
        return TensorType((len(list(leaves(growth.columns))),), rows_dtype(growth.columns))
    before = [
        _as_tensor(growth.name, v.Operand(value, span)) for value in growth.before if not _is_weak(value)
    ]
    types = [type_, *(each.type for each in before if each is not None and isinstance(each.type, TensorType))]
    dtype = (
        common_dtype(each.dtype for each in types) if all(is_float(each.dtype) for each in types) else None
    )
    return type_ if dtype is None else replace(type_, dtype=dtype)


def _in_dtype(item: v.Computed, dtype: str, span: Span) -> v.Computed:
    """Return an item in the dtype of the rows; one that is no narrower float stays as it is."""
    assert isinstance(item.type, TensorType)
    is_narrower = (
        is_float(item.type.dtype) and is_float(dtype) and common_dtype([item.type.dtype, dtype]) == dtype
    )
    return cast(item, dtype, span) if is_narrower else item


def _changed_error(name: str, rows: v.Unassigned, item: v.Operand, span: Span) -> v.RefusalError:
    """Return the error of a list that takes an item after what it holds was changed."""
    hint = rows.hint
    if hint is not None and hint.startswith(HOLD_COPIES) and isinstance(item.value, v.Computed):
        text = source_text(item.span)
        if text.isidentifier() or (text[:1].isidentifier() and text.endswith("]")):
            hint = f"let the list hold copies, as in {name}.append({text}.copy())"
    notes = [note for note in rows.notes if note.span != span]
    return v.RefusalError(rows.message, span, hint=hint, notes=notes)


def _held_by(ctx: Elaboration, item: v.Value) -> Tokens:
    """Return the memory that a list shares when it takes an item."""
    return ctx.memory.of_value(item, ctx.environment.chain())


def _hold(ctx: Elaboration, growth: Growth, rows: v.Computed, held: Tokens) -> v.Computed:
    """Bind the tensor of a list, whose items may share memory with others."""
    bound = let_bind(ctx, rows, growth.rows)
    ctx.memory.hold(bound.expr, held | {bound.expr})
    return bound


def _as_tensor(name: str, item: v.Operand) -> v.Computed | None:
    """Return an item of a list as a tensor; None after an error. Raises RefusalError."""
    value = item.value
    if v.is_failed(value):
        return None
    if isinstance(value, v.ListOfRows):
        value = value.rows
    if isinstance(value, v.TupleOf) and value.record is None:
        value = BUILTINS["array"].call([v.Operand(value, item.span)], item.span)
    if isinstance(value, v.Dimension):
        value = value.number
    if isinstance(value, v.Known) and isinstance(value.value, bool | int | float | complex):
        (part,) = types_of(plan_value(value, keep=False))
        assert isinstance(part.type, TensorType)
        value = number_constant(value.value, part.type.dtype, item.span)
    if isinstance(value, v.Computed) and isinstance(value.type, TensorType):
        return v.Computed(value.expr, value.type)
    message = f"`{name}` grows in a loop, and its items must be tensors or numbers, not {describe(value)}"
    raise v.RefusalError(message, item.span, hint="keep a list for each of the parts")


# -- rows --------------------------------------------------------------------------------------------------


def room_for_rounds(iterable: v.Operand, rounds: int | v.Computed, times: int) -> v.Value:
    """Return how many items the rounds of a loop append at most, if each appends ``times``."""
    span, over = iterable.span, iterable.value
    if isinstance(rounds, int):
        return v.Known(rounds * times)
    if times == 1:  # as many as the loop goes over, which may have a name
        while isinstance(over, v.Zipped) and len(over.parts) == 1:
            over = over.parts[0].value
        return size_along(over, 0, span) if isinstance(over, v.Computed) else number_of_rounds(rounds, span)
    product = binary(BuiltinOp.Mul, "*", v.Operand(rounds, span), v.Operand(v.Known(times), span), span)
    assert isinstance(product, v.Computed)
    return number_of_rounds(product, span)


def number_of_rounds(rounds: v.Computed, span: Span) -> v.Value:
    """Return a number as a size, which is 0 at least."""
    least = apply("maximum", span, v.Computed(rounds.expr, rounds.type), number_constant(0, "int64", span))
    return v.Dimension(AnyDim(), weak_int(least))


def grown(ctx: Elaboration, growth: Growth, rows: v.Value) -> v.Value:
    """Return what a list is after the loop in which it grew; ``rows``: its tensor."""
    ctx.memory.shown.pop(growth.rows, None)
    if isinstance(rows, v.Unassigned):
        return rows
    tensor = v.rows_of_list(rows)
    if not isinstance(tensor, v.Computed):
        return v.FAILED
    ctx.memory.hold(tensor.expr, ctx.memory.of_expr(tensor.expr))
    return v.ListOfRows(tensor, growth.is_table, columns=growth.columns, is_shared=growth.is_shared)


def first_example(ctx: Elaboration, growth: Growth, span: Span) -> v.Value:
    """Return what the rows stand for before a trial: numbers are as weak in it as Python's."""
    if not growth.before:
        return v.Known(None)
    growth.columns = growth.columns or _columns_with(growth, growth.before[0])
    growth.is_table = max(growth.is_table, depth_of_lists(growth.before[0]))
    if growth.columns:
        return example_of(ctx, growth, _type_of_rows(growth, TensorType((), "int64"), span))
    item = _as_tensor(growth.name, v.Operand(growth.before[0], span))
    if item is None:
        return v.FAILED
    assert isinstance(item.type, TensorType)
    return example_of(ctx, growth, item.type, weak=_is_weak(growth.before[0]))


def example_of(
    ctx: Elaboration, growth: Growth, type_: TensorType, *, weak: bool = False
) -> v.Computed | v.ListOfRows:
    """Return what the rows of a list stand for in a trial."""
    whole = TensorType((AnyDim(), *type_.shape), type_.dtype)
    variable = ir.Var(growth.rows, whole)
    ctx.memory.own(variable)
    return rows_as(growth, v.Computed(variable, whole, weak=weak))


def _is_weak(value: v.Value) -> bool:
    return isinstance(value, v.Known) or (isinstance(value, v.Computed) and value.weak)


def unreadable(name: str, span: Span) -> v.Unassigned:
    """Return what the name of a list stands for in a loop in which it grows."""
    message = f"`{name}` grows in this loop, and cannot be read in it"
    hint = f"keep what a round needs of the one before in a name of its own; {name}[-1] can be read"
    return v.Unassigned(message, hint, (Note("this loop is a function, not unrolled", span),))


def make_rows(ctx: Elaboration, growth: Growth, count: v.Value, span: Span) -> v.Computed | v.ListOfRows:
    """Return the tensor of zeros that the rows are assigned in, with the items before the loop.

    ``count``: how many rows it has room for beside these.
    """
    assert growth.type is not None
    if growth.before:
        more = v.Operand(v.Known(len(growth.before)), span)
        count = binary(BuiltinOp.Add, "+", v.Operand(count, span), more, span)
        if isinstance(count, v.Computed):
            count = v.Dimension(AnyDim(), count)
    sizes = [count, *(_size(ctx, dim, growth.name, span) for dim in growth.type.shape)]
    zero = number_constant(False if growth.type.dtype == "bool" else 0, growth.type.dtype, span)
    if all(isinstance(size, v.Known) for size in sizes):
        shape = tuple(size.value for size in sizes if isinstance(size, v.Known))
        rows = apply("broadcast_to", span, zero, shape=shape)
    else:
        rows = full(zero, sizes, span)
    held = frozenset[object]()
    for place, value in enumerate(growth.before):
        held |= _held_by(ctx, value)
        item = (
            row_of(v.Operand(value, span), growth.columns)
            if growth.columns
            else _as_tensor(growth.name, v.Operand(value, span))
        )
        if item is None:
            continue
        item = (
            cast(item, growth.type.dtype, span)
            if _is_weak(value)
            else _in_dtype(item, growth.type.dtype, span)
        )
        if item.type != growth.type:
            short = dtype_short_name(growth.type.dtype)
            message = f"the items of `{growth.name}` have different types"
            shown = f"it begins with {describe(value)}, and the loop appends {format_type(growth.type)}"
            raise v.RefusalError(message, span, notes=(Note(shown, span),), hint=f"begin with one of {short}")
        rows = set_elements(
            v.Operand(rows, span), [v.Operand(v.Known(place), span)], v.Operand(item, span), span
        )
    ctx.memory.shown[growth.rows] = growth.name
    return rows_as(growth, _hold(ctx, growth, rows, held))


def _size(ctx: Elaboration, dim: Dim, name: str, span: Span) -> v.Value:
    """Return a size of the items as a value. Raises RefusalError."""
    if isinstance(dim, int):
        return v.Known(dim)
    for environment in ctx.environment.chain():
        for value in environment.bindings.locals.values():
            if isinstance(value, v.Computed) and isinstance(value.type, TensorType):
                for axis, each in enumerate(value.type.shape):
                    if each == dim and isinstance(dim, AnyDim) and dim.label is not None:
                        return size_along(value, axis, span)
    message = f"`{name}` grows in a loop, and its items have a size that only a round knows"
    raise v.RefusalError(message, span, hint="fill out = zeros((n, m), f32) by out[i] = row")
