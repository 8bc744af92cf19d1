"""Elaborate changes of the dictionaries and sets of a function, whose keys are known or not."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Terminator
from nnmagic.tinynn.elaborate.list_items import check_inner_list
from nnmagic.tinynn.elaborate.operations import binary_operation
from nnmagic.tinynn.elaborate.shared_memory import Foreign
from nnmagic.tinynn.elaborate.tables import put, remove, update
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.operators.mixed_operands import AnyOp
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import subscript
from nnmagic.tinynn.syntax.unsupported_syntax import CHANGE_A_LIST
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type


def key_of(ctx: Elaboration, index: Sequence[ast.Expr], span: Span) -> v.Operand:
    """Return the key that a subscript gives: of several items a tuple."""
    operands = [ctx.operand(each) for each in index]
    if len(operands) == 1:
        return operands[0]
    return v.Operand(v.TupleOf(tuple(each.value for each in operands), written="tuple"), span)


def has_keys(ctx: Elaboration, target: ast.Call) -> bool:
    """Return whether what is assigned is an item of a dictionary of the function."""
    return isinstance(target.params[0], ast.Var) and held_by(ctx, target.params[0]) is not None


def held_by(ctx: Elaboration, variable: ast.Var) -> v.TupleOf | v.TableOf | None:
    """Return the dictionary, or the set, of the function that a name stands for; None for anything else."""
    owner = ctx.environment.owner(variable.id.name)
    held = None if owner is None else owner.bindings.locals.get(variable.id.name)
    return held if tables.is_dictionary(held) else None  # type: ignore[arg-type,return-value]  # it says so


def assign_key(ctx: Elaboration, target: ast.Call, value: v.Operand, op: AnyOp | None, span: Span) -> bool:
    """Elaborate ``name[key] = value``, or with an operator; False where the name stands for no dictionary.

    Raises RefusalError.
    """
    held = held_by(ctx, target.params[0]) if isinstance(target.params[0], ast.Var) else None
    if held is None:
        return False
    name, place = target.params[0].id.name, ctx.span(target.span)
    _check_own(ctx, name, held, place)
    if v.is_set(held):
        raise v.RefusalError("a set has no items to assign", place, hint=f"write {name}.add(value)")
    key = key_of(ctx, target.params[1].values, place)
    if v.is_failed(key.value) or v.is_failed(value.value):
        ctx.environment.bindings.bind(name, v.FAILED)
        return True

    def combine(before: v.Operand) -> v.Operand:
        assert op is not None
        if is_tensor(before.value) and tensor_type(before).shape:
            hint = "assign a new one, as in d['key'] = d['key'] + value"
            raise v.RefusalError("an array that a dictionary holds is not changed in place", place, hint=hint)
        check_inner_list(ctx, name, held, before.value, place)
        return v.Operand(binary_operation(ctx, op, before, value, span), span)

    static_key = tables.key_or_missing(key)
    if isinstance(held, v.TableOf) or static_key is tables.MISSING:
        if op is None:
            put(ctx, name, held, key, value, place)
        else:
            update(ctx, name, held, key, combine, place)
        return True
    entries = v.entries_of(held)
    assert entries is not None
    if op is not None and static_key not in entries:
        raise v.RefusalError(f"the dictionary has no key {static_key!r}", place)
    new = value.value if op is None else combine(v.Operand(entries[static_key], place)).value
    changed = v.FAILED if v.is_failed(new) else v.dictionary_of({**entries, static_key: new})
    ctx.environment.bindings.bind(name, changed, place)
    return True


def elaborate_change_table(ctx: Elaboration, stmt: tree.ChangeTable) -> Terminator | None:
    """Elaborate ``name.add(key)`` and its kin, and ``del name[key]``. Raises RefusalError."""
    name, span = stmt.name.id.name, ctx.span(stmt.span)
    held = held_by(ctx, stmt.name)
    if stmt.word == "update_by" and held is not None:
        _update_by(ctx, stmt, held)
        return None
    if held is None:
        word = stmt.word.removesuffix("_by")
        if word in CHANGE_A_LIST and not _has_other_methods(ctx, name):
            message = f"`.{word}` would change `{name}` in place, which a cell cannot"
            raise v.RefusalError(message, span, hint=CHANGE_A_LIST[word].format(name, "i", "x"))
        if stmt.word == "del":
            hint = f"of a list take the item away: {name}.pop(i)"
            raise v.RefusalError("`del` is for the entries of dictionaries", span, hint=hint)
        return ctx.execute(tree.CallStatement(stmt.span, stmt.call))
    of_keys = stmt.word in ("del", "discard_key")
    if v.is_set(held) is of_keys:
        what = "dictionaries" if of_keys else "sets"
        raise v.RefusalError(f"`{stmt.word}` is for {what}, and `{name}` is {describe(held)}", span)
    remove_key(ctx, name, held, stmt.word, ctx.operand(stmt.key), span)
    return None


def _has_other_methods(ctx: Elaboration, name: str) -> bool:
    """Return whether a name stands for an array, a module, as in ``os.remove(path)``, or nothing."""
    owner = ctx.environment.owner(name)
    if owner is None:
        value = ctx.resolver.look_up_notebook(name)
        return value is MISSING or isinstance(value, ModuleType)
    return is_tensor(owner.bindings.locals[name])


def _update_by(ctx: Elaboration, stmt: tree.ChangeTable, held: v.TupleOf | v.TableOf) -> None:
    """Add a key of another dictionary with its value, or a member of another set. Raises RefusalError."""
    name, span = stmt.name.id.name, ctx.span(stmt.span)
    if v.is_set(held):
        remove_key(ctx, name, held, "add", ctx.operand(stmt.key), span)
        return
    value = ctx.operand(subscript(stmt.span, stmt.call.params[1], [stmt.key]))
    assign_key(ctx, subscript(stmt.span, stmt.name, [stmt.key]), value, None, span)


def remove_key(
    ctx: Elaboration, name: str, held: v.TupleOf | v.TableOf, word: str, key: v.Operand, span: Span
) -> None:
    """Let a name stand for a dictionary or a set without a key, or with it by the word "add".

    Raises RefusalError.
    """
    _check_own(ctx, name, held, span)
    if v.is_failed(key.value):
        ctx.environment.bindings.bind(name, v.FAILED)
        return
    static_key = tables.key_or_missing(key)
    if isinstance(held, v.TableOf) or static_key is tables.MISSING:
        if word == "add":
            put(ctx, name, held, key, v.Operand(v.Known(None), span), span)
        else:
            remove(ctx, name, held, key, span, must=not word.startswith("discard"))
        return
    entries = dict(v.entries_of(held) or {})
    if word == "add":
        entries[static_key] = v.Known(None)
    elif static_key in entries:
        del entries[static_key]
    elif not word.startswith("discard"):
        raise v.RefusalError(f"{describe(held)} has no key {static_key!r}", key.span)
    kind = ty.SET if v.is_set(held) else ty.DICTIONARY
    ctx.environment.bindings.bind(name, v.dictionary_of(entries, kind), span)


def clear(ctx: Elaboration, name: str, held: v.Value, span: Span) -> None:
    """Let a name stand for a dictionary or a set without entries. Raises RefusalError."""
    _check_own(ctx, name, held, span)
    empty = v.dictionary_of({}, ty.SET if v.is_set(held) else ty.DICTIONARY)
    ctx.environment.bindings.bind(name, empty, span)


def _check_own(ctx: Elaboration, name: str, held: v.Value, span: Span) -> None:
    """Raise RefusalError for a dictionary that is not the function's own, or that has another name, too."""
    what, noun = ("set", "set") if v.is_set(held) else ("dict", "dictionary")
    if ctx.environment.owner(name) is not ctx.environment:
        hint = f"change a copy that is the function's own: {name}_ = {what}({name})"
        message = f"`{name}` belongs to the function around, and cannot be changed here"
        raise v.RefusalError(message, span, hint=hint)
    if isinstance(held, v.TableOf):
        foreign = [each for each in ctx.memory.of_value(held) if isinstance(each, Foreign)]
        if foreign:
            message = f"`{name}` is the caller's {noun}, which Python would change"
            raise v.RefusalError(
                message, span, hint=f"change a copy: begin with {name} = {what}({name}), and return it"
            )
        return  # its other names lose their values
    for environment in (*ctx.environment.chain(), *ctx.callers):
        for other, value in environment.bindings.locals.items():
            is_other = environment is not ctx.environment or other != name
            if is_other and other.isidentifier() and ctx.holds(value, held):
                message = f"`{other}` is the same {noun} as `{name}`, and would not see it change"
                raise v.RefusalError(message, span, hint=f"make a copy: {name} = {what}({other})")
