"""Elaborate lists that grow: ``rows.append(row)``, at compile time or in a loop that is a function.

In a loop that is not unrolled, a list to which every round appends one item is a tensor with a row for each
round. It is made before the loop, and its rows are assigned in it. After the loop the list is a `ListOfRows`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_type
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, is_float
from nnmagic.tinynn.analysis.bound_names import (
    find_assigned_names,
    find_mentioned_names,
    names_bound,
    walk,
)
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.context import Elaboration, Growth
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, Terminator
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.elaborate.list_items import holds
from nnmagic.tinynn.elaborate.merging import plan_value, types_of
from nnmagic.tinynn.elaborate.sequencing import run_steps
from nnmagic.tinynn.elaborate.shared_memory import HOLD_COPIES, Tokens
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.operators.element_assignment import set_elements
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast
from nnmagic.tinynn.values.promotion import common_dtype
from nnmagic.tinynn.values.symbolic_sizes import full, size_along, weak_int
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Dimension,
    Known,
    ListOfRows,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    Value,
    Zipped,
    is_failed,
)


def elaborate_append(ctx: Elaboration, stmt: tree.Append) -> None:
    """Elaborate ``name.append(item)`` at compile time. Raises RefusalError."""
    target = stmt.lhs[0]
    value = _list_to_change(ctx, target, "append", ctx.span(stmt.span))
    if value is None:
        return
    item = ctx.evaluate(stmt.item)
    if isinstance(value, ListOfRows):
        new = _with_another(target.id.name, value, Operand(item, ctx.span(stmt.item.span)))
    else:
        new = TupleOf((*value.items, item))
    ctx.environment.bindings.bind(target.id.name, new, ctx.span(target.span))


def elaborate_change(ctx: Elaboration, stmt: tree.ChangeList) -> None:
    """Elaborate ``name.pop()`` and its kin at compile time. Raises RefusalError."""
    target = stmt.lhs[0]
    if _list_to_change(ctx, target, "pop", ctx.span(stmt.span)) is not None:
        ctx.environment.bindings.bind(target.id.name, ctx.evaluate(stmt.rhs), ctx.span(target.span))


def _is_parameter(definition: object, name: str) -> bool:
    parameters = getattr(definition, "params", ())
    return any(each.name == name for each in parameters)


def _with_another(name: str, rows: ListOfRows, item: Operand) -> Value:
    """Return a list that grew in a loop with one more item."""
    tensor = _as_tensor(name, item)
    if tensor is None:
        return FAILED
    assert isinstance(rows.rows.type, TensorType)
    assert isinstance(tensor.type, TensorType)
    wanted = rows.rows.type
    tensor = cast(tensor, wanted.dtype, item.span) if _is_weak(item.value) else tensor
    if tensor.type != TensorType(wanted.shape[1:], wanted.dtype):
        message = f"the items of `{name}` have different types"
        raise RefusalError(message, item.span, hint="give all of them one shape and one dtype")
    one = apply("expand_dims", item.span, tensor, axis=0)
    parts = TupleType((wanted, one.type))
    both = Computed(ir.Tuple((rows.rows.expr, one.expr), span=item.span), parts)
    return ListOfRows(apply("concatenate", item.span, both, axis=0))


def _list_to_change(ctx: Elaboration, target: ast.Var, word: str, span: Span) -> TupleOf | ListOfRows | None:
    """Return the list of a name; None after an error. Raises RefusalError where it cannot change."""
    name = target.id.name
    owner = ctx.environment.owner(name)
    value = ctx.evaluate(target)
    if is_failed(value):
        ctx.environment.bindings.bind(name, FAILED)
        return None
    if owner is not ctx.environment:
        message = f"`{name}` belongs to the function around, and cannot be changed here"
        raise RefusalError(message, span, hint=f"return the item, and append it where `{name}` is")
    is_list = isinstance(value, TupleOf) and value.whole is None and value.record is None
    if not isinstance(value, ListOfRows | TupleOf) or not (is_list or isinstance(value, ListOfRows)):
        of_array = isinstance(value, Computed) and word == "append"
        hint = f"write {name} = append({name}, item)" if of_array else None
        raise RefusalError(f"`{word}` is for lists, and `{name}` is {describe(value)}", span, hint=hint)
    if isinstance(value, ListOfRows) and ctx.inlining and _is_parameter(ctx.inlining[-1][0], name):
        message = f"`{name}` is a list of the caller, which Python would change there, too"
        raise RefusalError(message, span, hint="return the item, and append it where the list is")
    for environment in dict.fromkeys((*ctx.environment.chain(), *ctx.callers)):
        for other, held in environment.bindings.locals.items():
            if (environment, other) != (ctx.environment, name) and holds(held, value):
                message = f"`{other}` holds the list `{name}`, which Python would change there, too"
                raise RefusalError(message, span, hint=f"make a new list: {name} = {name} + [item]")
    return value


def elaborate_grow(ctx: Elaboration, stmt: tree.Grow) -> None:
    """Elaborate an append in a loop that is a function: assign a row. Raises RefusalError."""
    growth, span = ctx.growing[id(stmt)], ctx.span(stmt.span)
    given = ctx.operand(stmt.item)
    item = _as_tensor(growth.name, given)
    if item is None:
        ctx.environment.bindings.bind(growth.rows, FAILED)
        return
    rows = ctx.environment.bindings.locals[growth.rows]
    assert isinstance(item.type, TensorType)
    if growth.is_tried:
        growth.type = _type_of_rows(growth, item.type, span)
        ctx.environment.bindings.bind(growth.rows, example_of(ctx, growth, growth.type))
        return
    if isinstance(rows, Unassigned) and rows not in ctx.reported:  # what it holds was changed
        ctx.reported.add(rows)
        raise _changed_error(growth.name, rows, given, span)
    if is_failed(rows) or isinstance(rows, Unassigned):
        ctx.environment.bindings.bind(growth.rows, FAILED)
        ctx.environment.failed = True
        return
    assert isinstance(rows, Computed)
    assert isinstance(rows.type, TensorType)
    wanted = TensorType(rows.type.shape[1:], rows.type.dtype)
    item = _in_dtype(item, wanted.dtype, span)
    if item.type != wanted:
        message = f"the items of `{growth.name}` have different types"
        notes = (Note(f"this is {format_type(item.type)}, others are {format_type(wanted)}", span),)
        raise RefusalError(message, span, notes=notes, hint="give all of them one shape and one dtype")
    place = Operand(ctx.evaluate(stmt.index), span)
    if growth.before and not growth.is_counted:
        first = Operand(Known(len(growth.before)), span)
        place = Operand(binary(BuiltinOp.Add, "+", place, first, span), span)
    held = ctx.memory.of_value(rows) | _held_by(ctx, given.value)
    changed = set_elements(Operand(rows, span), [place], Operand(item, span), span)
    ctx.environment.bindings.bind(growth.rows, _hold(ctx, growth, changed, held), span)


def _type_of_rows(growth: Growth, type_: TensorType, span: Span) -> TensorType:
    """Return the type of rows for an item, which meets the floats before the loop as in NumPy."""
    before = [_as_tensor(growth.name, Operand(value, span)) for value in growth.before if not _is_weak(value)]
    types = [type_, *(each.type for each in before if each is not None and isinstance(each.type, TensorType))]
    dtype = (
        common_dtype(each.dtype for each in types) if all(is_float(each.dtype) for each in types) else None
    )
    return type_ if dtype is None else replace(type_, dtype=dtype)


def _in_dtype(item: Computed, dtype: str, span: Span) -> Computed:
    """Return an item in the dtype of the rows; one that is no narrower float stays as it is."""
    assert isinstance(item.type, TensorType)
    is_narrower = (
        is_float(item.type.dtype) and is_float(dtype) and common_dtype([item.type.dtype, dtype]) == dtype
    )
    return cast(item, dtype, span) if is_narrower else item


def _changed_error(name: str, rows: Unassigned, item: Operand, span: Span) -> RefusalError:
    """Return the error of a list that takes an item after what it holds was changed."""
    hint = rows.hint
    if hint is not None and hint.startswith(HOLD_COPIES) and isinstance(item.value, Computed):
        text = source_text(item.span)
        if text.isidentifier() or (text[:1].isidentifier() and text.endswith("]")):
            hint = f"let the list hold copies, as in {name}.append({text}.copy())"
    notes = [note for note in rows.notes if note.span != span]
    return RefusalError(rows.message, span, hint=hint, notes=notes)


def _held_by(ctx: Elaboration, item: Value) -> Tokens:
    """Return the memory that a list shares when it takes an item."""
    return ctx.memory.of_value(item, ctx.environment.chain())


def _hold(ctx: Elaboration, growth: Growth, rows: Computed, held: Tokens) -> Computed:
    """Bind the tensor of a list, whose items may share memory with others."""
    bound = let_bind(ctx, rows, growth.rows)
    ctx.memory.hold(bound.expr, held | {bound.expr})
    return bound


def _as_tensor(name: str, item: Operand) -> Computed | None:
    """Return an item of a list as a tensor; None after an error. Raises RefusalError."""
    value = item.value
    if is_failed(value):
        return None
    if isinstance(value, ListOfRows):
        value = value.rows
    if isinstance(value, TupleOf) and value.record is None:
        value = BUILTINS["array"].call([Operand(value, item.span)], item.span)
    if isinstance(value, Dimension):
        value = value.number
    if isinstance(value, Known) and isinstance(value.value, bool | int | float | complex):
        (part,) = types_of(plan_value(value, keep=False))
        assert isinstance(part.type, TensorType)
        value = number_constant(value.value, part.type.dtype, item.span)
    if isinstance(value, Computed) and isinstance(value.type, TensorType):
        return Computed(value.expr, value.type)
    message = f"`{name}` grows in a loop, and its items must be tensors or numbers, not {describe(value)}"
    raise RefusalError(message, item.span, hint="keep a list for each of the parts")


# -- loops ---------------------------------------------------------------------------------------------

#: Elaborates a loop over an operand: `loops.elaborate_for_over`.
Over = Callable[[Elaboration, tree.For, Operand], "Terminator | None"]


def find_growing(ctx: Elaboration, stmt: tree.For) -> dict[str, tree.Append]:
    """Return the lists to which each round of a loop appends one item, and nothing else changes."""
    found = {each.lhs[0].id.name: each for each in stmt.body.stmts if isinstance(each, tree.Append)}
    if not found or _may_skip(stmt):
        return {}
    bound = [name for part in walk(stmt, into_functions=False) for name in names_bound(part)]
    locals_ = ctx.environment.bindings.locals
    return {
        name: each
        for name, each in found.items()
        if bound.count(name) == 1 and isinstance(locals_.get(name), TupleOf)
    }


def _may_skip(stmt: tree.For) -> bool:
    """Return whether a round may end before its last statement."""
    leaving = ast.Return | tree.Break | tree.Continue
    return any(isinstance(part, leaving) for part in walk(stmt.body, into_functions=False))


def grow_in_loop(
    ctx: Elaboration, stmt: tree.For, iterable: Operand, rounds: int | Computed, over: Over
) -> Terminator | None:
    """Elaborate a loop in which lists grow, as a function. Raises RefusalError."""
    loop, counted, growing = _rewrite(ctx, stmt, iterable)
    bindings = ctx.environment.bindings
    for growth in growing:
        bindings.bind(growth.rows, first_example(ctx, growth, iterable.span))
        bindings.bind(_before(growth.rows), Known(len(growth.before)))
        bindings.bind(growth.name, unreadable(growth.name, ctx.span(stmt.span)))
    ctx.live |= {growth.rows for growth in growing}
    with ctx.trial() as diagnostics:
        over(ctx, loop, counted)
    span = ctx.span(stmt.span)
    if any(growth.type is None for growth in growing):  # the loop has errors
        for diagnostic in diagnostics.errors:
            ctx.diagnostics.add(diagnostic)
        for name in (*find_assigned_names(loop), *(growth.name for growth in growing)):
            bindings.bind(name, FAILED)
        ctx.environment.failed = True
        return None
    for growth in growing:
        growth.is_tried = False
        bindings.bind(growth.rows, make_rows(ctx, growth, rounds, iterable, span))

    def leave() -> None:
        bound = ctx.environment.bindings
        for growth in growing:
            rows = bound.locals.get(growth.rows, FAILED)
            bound.bind(growth.name, grown(ctx, growth, rows), ctx.span(stmt.span))
            bound.forget(growth.rows)
            bound.forget(_before(growth.rows))

    block, live, ctx.block = ctx.block, ctx.live, Block(ctx.block.lets)
    try:
        run_steps(ctx, [lambda: over(ctx, loop, counted), leave])
        return ctx.block.end
    finally:
        ctx.block, ctx.live = block, live


def grown(ctx: Elaboration, growth: Growth, rows: Value) -> Value:
    """Return what a list is after the loop in which it grew; ``rows``: its tensor."""
    ctx.memory.shown.pop(growth.rows, None)
    if isinstance(rows, Unassigned):
        return rows
    if not isinstance(rows, Computed):
        return FAILED
    ctx.memory.hold(rows.expr, ctx.memory.of_expr(rows.expr))
    return ListOfRows(rows)


def first_example(ctx: Elaboration, growth: Growth, span: Span) -> Value:
    """Return what the rows stand for before a trial: numbers are as weak in it as Python's."""
    if not growth.before:
        return Known(None)
    item = _as_tensor(growth.name, Operand(growth.before[0], span))
    if item is None:
        return FAILED
    assert isinstance(item.type, TensorType)
    return example_of(ctx, growth, item.type, weak=_is_weak(growth.before[0]))


def example_of(ctx: Elaboration, growth: Growth, type_: TensorType, *, weak: bool = False) -> Computed:
    """Return what the rows of a list stand for in a trial."""
    whole = TensorType((AnyDim(), *type_.shape), type_.dtype)
    variable = ir.Var(growth.rows, whole)
    ctx.memory.own(variable)
    return Computed(variable, whole, weak=weak)


def _is_weak(value: Value) -> bool:
    return isinstance(value, Known) or (isinstance(value, Computed) and value.weak)


def unreadable(name: str, span: Span) -> Unassigned:
    """Return what the name of a list stands for in a loop in which it grows."""
    message = f"`{name}` grows in this loop, and cannot be read in it"
    hint = f"keep what a round needs of the one before in a name of its own; {name}[-1] can be read"
    return Unassigned(message, hint, (Note("this loop is a function, not unrolled", span),))


def _rewrite(ctx: Elaboration, stmt: tree.For, iterable: Operand) -> tuple[tree.For, Operand, list[Growth]]:
    """Return the loop that counts its rounds and assigns rows, what it goes over, and its lists."""
    appends = find_growing(ctx, stmt)
    locals_ = ctx.environment.bindings.locals
    begun = frozenset(name for name in appends if getattr(locals_[name], "items", ()))
    if ctx.begun.get(id(stmt)) != (frozenset(appends), begun):
        taken = set(find_mentioned_names(stmt) | ctx.environment.assigned) | {*ctx.environment.names()}
        counter = ast.Var(
            stmt.target.span, ast.Id(stmt.target.span, free_name(f"step{len(ctx.rewritten)}", taken))
        )
        names = {name: free_name(f"{name}_rows", taken) for name in appends}
        body = ast.Block(stmt.body.span, list(_statements(stmt, names, begun, counter)))
        target = ast.Tuple(stmt.target.span, [counter, stmt.target])
        ctx.rewritten[id(stmt)] = tree.For(stmt.span, target, stmt.iterable, body, stmt.orelse)
        ctx.rewritten_sources += [stmt, ctx.rewritten[id(stmt)]]
        ctx.begun[id(stmt)] = frozenset(appends), begun
    loop = ctx.rewritten[id(stmt)]
    assert isinstance(loop, tree.For)
    growing = list[Growth]()
    for old, new in zip(stmt.body.stmts, loop.body.stmts, strict=True):
        if isinstance(new, tree.Grow):
            name = old.lhs[0].id.name
            before = ctx.environment.bindings.locals[name]
            assert isinstance(before, TupleOf)
            growing.append(Growth(name, new.rows.id.name, before.items))
            ctx.growing[id(new)] = growing[-1]
    return loop, Operand(Zipped("enumerate", (iterable,)), iterable.span), growing


def _before(rows: str) -> str:
    """Return the name, which no cell can write, of the number of items before the loop."""
    return f"items before {rows}"


def free_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@dataclass(frozen=True, slots=True)
class _LastItems:
    """Replaces ``rows[-1]`` in a piece of a loop by the row that was assigned last.

    ``names``: those of the tensors; ``begun``: the lists that have items before the loop; ``appended``:
    those to which the round has appended.
    """

    names: dict[str, str]
    begun: frozenset[str]
    counter: ast.Var
    appended: set[str]

    def replace(self, node: object) -> object:
        """Return the piece with all of them replaced."""
        if isinstance(node, list | tuple):
            return type(node)(map(self.replace, node))
        if isinstance(node, dict):
            return {key: self.replace(part) for key, part in node.items()}
        if not isinstance(node, ast.Node) or not find_mentioned_names(node) & self.names.keys():
            return node
        name = read_last(node)
        if name in self.names and name in self.begun | self.appended:
            return self._last(name, node.span)
        changed = copy.copy(node)
        for field, part in vars(node).items():
            object.__setattr__(changed, field, self.replace(part))
        return changed

    def _last(self, name: str, span: ast.Span) -> ast.Expr:
        rows_before = ast.Var(span, ast.Id(span, _before(self.names[name])))
        place = ast.Call(span, ast.Op(span, BuiltinOp.Add), [self.counter, rows_before], {})
        if name not in self.appended:
            place = ast.Call(span, ast.Op(span, BuiltinOp.Sub), [place, ast.Constant(span, 1)], {})
        rows = ast.Var(span, ast.Id(span, self.names[name]))
        return tree.subscript(span, rows, [place])


def _statements(
    stmt: tree.For, names: dict[str, str], begun: frozenset[str], counter: ast.Var
) -> Iterator[ast.Stmt]:
    """Yield the statements of a round, with rows in place of items."""
    last = _LastItems(names, begun, counter, set())
    for each in stmt.body.stmts:
        if isinstance(each, tree.Append) and each.lhs[0].id.name in names:
            name = each.lhs[0].id.name
            rows = ast.Var(each.span, ast.Id(each.span, names[name]))
            yield tree.Grow(each.span, rows, counter, last.replace(each.item), name)
            last.appended.add(name)
        else:
            yield last.replace(each)


def read_last(node: ast.Node) -> str:
    """Return the name in ``name[-1]``; an empty string for anything else."""
    match node:
        case ast.Call(
            func_name=ast.Op(name=BuiltinOp.Subscript), params=[ast.Var() as owner, ast.Tuple(values=[index])]
        ) if _is_minus_one(index):
            return str(owner.id.name)
    return ""


def _is_minus_one(index: ast.Expr) -> bool:
    match index:
        case ast.Constant(value=-1):
            return True
        case ast.Call(func_name=ast.Op(name=BuiltinOp.USub), params=[ast.Constant(value=1)]):
            return True
    return False


def make_rows(
    ctx: Elaboration, growth: Growth, rounds: int | Computed, iterable: Operand, span: Span
) -> Computed:
    """Return the tensor of zeros that the rows are assigned in, with the items before the loop."""
    assert growth.type is not None
    count = Known(rounds) if isinstance(rounds, int) else _number_of_rounds(rounds, iterable, span)
    if growth.before:
        more = Operand(Known(len(growth.before)), span)
        count = binary(BuiltinOp.Add, "+", Operand(count, span), more, span)
        if isinstance(count, Computed):
            count = Dimension(AnyDim(), count)
    sizes = [count, *(_size(ctx, dim, growth.name, span) for dim in growth.type.shape)]
    zero = number_constant(False if growth.type.dtype == "bool" else 0, growth.type.dtype, span)
    if all(isinstance(size, Known) for size in sizes):
        shape = tuple(size.value for size in sizes if isinstance(size, Known))
        rows = apply("broadcast_to", span, zero, shape=shape)
    else:
        rows = full(zero, sizes, span)
    held = frozenset[object]()
    for place, value in enumerate(growth.before):
        held |= _held_by(ctx, value)
        item = _as_tensor(growth.name, Operand(value, span))
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
            raise RefusalError(message, span, notes=(Note(shown, span),), hint=f"begin with one of {short}")
        rows = set_elements(Operand(rows, span), [Operand(Known(place), span)], Operand(item, span), span)
    ctx.memory.shown[growth.rows] = growth.name
    return _hold(ctx, growth, rows, held)


def _number_of_rounds(rounds: Computed, iterable: Operand, span: Span) -> Value:
    """Return how many rounds a loop has as a size, with the name that it has if it goes over a tensor."""
    over = iterable.value
    while isinstance(over, Zipped) and len(over.parts) == 1:
        over = over.parts[0].value
    if isinstance(over, Computed):
        return size_along(over, 0, span)
    least = apply("maximum", span, Computed(rounds.expr, rounds.type), number_constant(0, "int64", span))
    return Dimension(AnyDim(), weak_int(least))


def _size(ctx: Elaboration, dim: Dim, name: str, span: Span) -> Value:
    """Return a size of the items as a value. Raises RefusalError."""
    if isinstance(dim, int):
        return Known(dim)
    for environment in ctx.environment.chain():
        for value in environment.bindings.locals.values():
            if isinstance(value, Computed) and isinstance(value.type, TensorType):
                for axis, each in enumerate(value.type.shape):
                    if each == dim and isinstance(dim, AnyDim) and dim.label is not None:
                        return size_along(value, axis, span)
    message = f"`{name}` grows in a loop, and its items have a size that only a round knows"
    raise RefusalError(message, span, hint="fill out = zeros((n, m), f32) by out[i] = row")
