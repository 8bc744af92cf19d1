"""Plan the merge of values at a join point: one value for each name, or the reason why there is none.

A plan says which parts of the values become expressions (as SSA's phi functions do), and which stay static.
Loops widen a plan from round to round until it no longer changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.lists_as_rows import meet_columns, rows_dtype
from nnmagic.tinynn.elaborate.merge_conversions import convert
from nnmagic.tinynn.elaborate.merge_plans import (
    NOWHERE,
    Choice,
    Expression,
    Items,
    MergePlan,
    Same,
    as_expressions,
    as_rows,
    expressions,
    is_choice,
    is_empty_list,
    rebuild,
    types_of,
)
from nnmagic.tinynn.elaborate.optional_values import NONE_MERGES, RECORDS, is_absent, may_be_none
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.syntax.unsupported_syntax import FILL_A_TENSOR
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import NATURAL_DTYPES, is_number, natural_dtype
from nnmagic.tinynn.values.promotion import common_dtype


class MergeConflictError(Exception):
    """Two values that cannot be merged: their positions in the sequence."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second


def plan_merge(values: Sequence[v.Value]) -> MergePlan:
    """Plan how values become one. Raises MergeConflictError, with the positions of two that cannot."""
    # Kept static as long as all values agree: `n = 3` in both branches needs no code after them.
    plan = plan_value(values[0], keep=True)
    for index, value in enumerate(values[1:], 1):
        wider = widen(plan, value)
        # Functions have no common expression: which of them it is becomes a number.
        if wider is None and (chosen := _choice(values)) is not None:
            return chosen
        if wider is None:
            raise MergeConflictError(_culprit(values, index), index)
        plan = wider
    return plan


def _choice(values: Sequence[v.Value]) -> MergePlan | None:
    """Return the plan of functions that differ, also in tuples of one length; None for other values."""
    if all(isinstance(value, v.TupleOf) and value.items for value in values):
        rows = [value.items for value in values if isinstance(value, v.TupleOf)]
        if len({len(row) for row in rows}) == 1 and all(
            getattr(each, "record", 0) is None for each in values
        ):
            try:
                return Items(tuple(plan_merge(column) for column in zip(*rows, strict=True)))
            except MergeConflictError:
                return None
    functions: list[v.Value] = []
    for value in values:
        own = [part.value for part in value.arguments] if is_choice(value) else [value]
        functions += [each for each in own if not any(each is other for other in functions)]
    return Choice(tuple(functions)) if all(isinstance(each, v.FUNCTIONS) for each in functions) else None


def _culprit(values: Sequence[v.Value], index: int) -> int:
    """Return the position of the first value that does not merge with the one at ``index``."""
    conflicts = (
        position
        for position in range(index)
        if widen(plan_value(values[position], keep=True), values[index]) is None
    )
    return next(conflicts, 0)


def plan_value(value: v.Value, *, keep: bool) -> MergePlan:
    """Plan for one value. Without ``keep``, numbers become dynamic."""
    match value:
        case v.Computed(type=type_, weak=weak, default_dtype=place):
            return Same(value) if keep else Expression(type_, weak, place)
        case v.Dimension(number=number) if not keep:
            return Expression(number.type, weak=True)
        case v.ListOfRows(rows, is_table, is_row, columns, is_shared):
            only = (plan_value(rows, keep=keep),)
            plan = Items(only, is_list=True, is_table=is_table, is_row=is_row, columns=columns)
            return replace(plan, is_shared=is_shared)
        case v.TableOf(parts=parts):
            return Items(tuple(plan_value(part, keep=keep) for part in parts), is_hashed=True)
        case v.TupleOf(items=items) if items:
            plans = tuple(plan_value(item, keep=keep) for item in items)
            return Items(plans, value.record, written=value.written)
        # A loop's counter must not stay the constant that it begins with.
        case v.Known(value=bool() | int() | float() | complex() as number) if not keep:
            return Expression(ty.TensorType((), natural_dtype(number)), weak=True)
    return Same(value)


def widen(plan: MergePlan, value: v.Value) -> MergePlan | None:
    """Return a plan that takes ``value`` too; None where there is none."""
    if any(map(is_absent, (value, getattr(plan, "value", 0)))) or any(map(may_be_none, (plan, value))):
        with_none = _widen_with_none(plan, value)
        if with_none is not None:
            return with_none
    match plan:
        case Same(value=same):
            if _same_value(same, value):
                return plan
            if tables.is_dictionary(same):
                return _merge_dictionaries(same, value)
            if is_empty_list(same):
                return _widen_empty_list(value)
            expression = _of(same)
            return None if expression is None else widen(expression, value)
        case Items(items=items):
            if plan.is_hashed or _keys(plan.record) != _keys(getattr(value, "record", None)):
                return _widen_by_dictionary(plan, value)
            if plan.is_list is not isinstance(value, v.ListOfRows):
                return _widen_list(plan, value)
            given = (value.rows,) if isinstance(value, v.ListOfRows) else getattr(value, "items", ())
            if not isinstance(value, v.ListOfRows if plan.is_list else v.TupleOf):
                return None
            # Tuples of other lengths never merge; lists do, as rows whose number only the call
            # knows.
            if len(given) != len(items):
                if is_empty_list(value):
                    return _widen_empty_list(_rebuild(plan))
                rows = as_rows(value) if plan.written == "list" else None
                return None if rows is None else _widen_list(plan, rows)
            if isinstance(value, v.ListOfRows) and plan.columns != value.columns:
                columns = meet_columns(plan.columns, value.columns)
                if columns is None or rows_dtype(columns) != _dtype_of(value.rows.type):
                    return None
                plan = replace(plan, columns=columns)
            plan = replace(plan, is_shared=plan.is_shared or getattr(value, "is_shared", False))
            plans = tuple(map(widen, items, given))
            if getattr(value, "written", "") != plan.written:
                plan = replace(plan, written="")
            return replace(plan, items=plans) if None not in plans else None  # type: ignore[arg-type]  # none is None
        case Choice():
            return None
        case Expression():
            expression_of_value = _of(value)
            return None if expression_of_value is None else _common(plan, expression_of_value)


def _widen_with_none(plan: MergePlan, value: v.Value) -> MergePlan | None:
    """Return a plan that takes None, too; None where there is none, and where both are None."""
    own = plan.items[1] if isinstance(plan, Items) and may_be_none(plan) else plan
    held = value.items[1] if isinstance(value, v.TupleOf) and may_be_none(value) else value
    records: list[ty.RecordType] = [
        RECORDS[each] if is_absent(each) else each.record  # type: ignore[index, union-attr, misc]  # of one
        for each in (getattr(plan, "value", plan), value)
        if is_absent(each) or may_be_none(each)
    ]
    is_none = is_absent(getattr(own, "value", None)) if isinstance(own, Same) else False
    if len({record.names for record in records}) > 1 or (is_none and is_absent(held)):
        return None
    merges = NONE_MERGES.get()
    if own is plan and not merges.allowed:
        merges.met = True
        return None
    wider: MergePlan | None
    if is_none:
        wider = plan_value(held, keep=False)
    elif is_absent(held):
        wider = plan_value(own.value, keep=False) if isinstance(own, Same) else as_expressions(own)
    else:
        wider = widen(own, held)
        wider = plan_value(held, keep=False) if isinstance(wider, Same) else wider
    if wider is None or not _may_be_absent(wider):
        return None
    return Items((Expression(ty.scalar_type("bool"), weak=False), wider), records[0])


def _may_be_absent(plan: MergePlan) -> bool:
    """Return whether zeros can stand for the values of a plan."""
    match plan:
        case Items(items=items, record=None, is_list=False, is_hashed=False, written=written):
            is_list = not items or written == "list"  # which other names may show
            return not is_list and all(map(_may_be_absent, items))
        case Expression(type=ty.TensorType(shape=shape)):
            return all(isinstance(size, int) or size == ty.ANY for size in shape)
    return False


def _merge_dictionaries(one: v.Value, other: v.Value) -> MergePlan | None:
    """Return a plan for two dictionaries, or two sets, whose keys differ: a table."""
    both = (one, other)
    if v.is_set(one) is not v.is_set(other) or not all(map(tables.is_dictionary, both)):
        return None
    dictionaries = [tables.as_table(operand, NOWHERE) for operand in both if not tables.is_empty(operand)]
    known = [operand for operand in dictionaries if operand is not None]
    if len(known) < len(dictionaries) or not known:
        return None
    plan: MergePlan | None = plan_value(known[0], keep=False)
    for table in known[1:]:
        plan = None if plan is None else widen(plan, table)
    return plan


def _widen_by_dictionary(plan: Items, value: v.Value) -> MergePlan | None:
    """Widen the plan of a table, or of a dictionary that has other keys."""
    if not plan.is_hashed:
        return _merge_dictionaries(_rebuild(plan), value)
    if not tables.is_dictionary(value) or v.is_set(value) is not (plan.items[-1] == Same(v.Known(None))):
        return None
    if tables.is_empty(value):
        return as_expressions(plan)
    table = tables.as_table(value, NOWHERE)
    types = () if table is None else tuple(map(widen, plan.items, table.parts))
    return replace(plan, items=types) if types and None not in types else None  # type: ignore[arg-type]  # none is None


def _widen_list(plan: Items, value: v.Value) -> MergePlan | None:
    """Return a plan for a list of rows and one whose items are known.

    None where they hold lists: names that show these would not see what changes them.
    """
    if plan.is_table or getattr(value, "is_table", False):
        return None
    if plan.is_list:
        if is_empty_list(value):
            return of_any_length(plan)
        rows, types = as_rows(value), list(types_of(as_expressions(plan)))
        if rows is None or _dtype_of(rows.rows.type) != _dtype_of(types[0].type):
            return None
        return widen(as_expressions(plan), rows)
    own = as_rows(_rebuild(plan))
    assert isinstance(value, v.ListOfRows)
    if own is None or _dtype_of(own.rows.type) != _dtype_of(value.rows.type):
        return None
    return widen(plan_value(own, keep=False), value)


def _widen_empty_list(value: v.Value) -> MergePlan | None:
    """Return a plan for a list without items and another list."""
    rows = value if isinstance(value, v.ListOfRows) else as_rows(value)
    return None if rows is None or rows.is_table else of_any_length(plan_value(rows, keep=False))


def of_any_length(plan: MergePlan) -> MergePlan | None:
    """Return a plan for as many of the rows as only the call knows; None where their own sizes are open."""
    (rows,) = types_of(as_expressions(plan))
    assert isinstance(rows.type, ty.TensorType)
    _, *sizes = rows.type.shape
    # A list without items says nothing of their sizes: only static ones can be promised for it.
    if not all(isinstance(size, int) for size in sizes):
        return None
    assert isinstance(plan, Items)
    return replace(plan, items=(replace(rows, type=replace(rows.type, shape=(ty.AnyDim(), *sizes))),))


def _rebuild(plan: MergePlan) -> v.Value:
    """Return a value as it is where the values of a plan have merged."""
    return rebuild(plan, iter([ir.Var("value", part.type) for part in types_of(plan)]))


def _dtype_of(type_: ty.Type) -> str:
    """Return the dtype of the rows of a list: Python's lists convert no number."""
    assert isinstance(type_, ty.TensorType)
    return type_.dtype


def _same_value(lhs: v.Value, rhs: v.Value) -> bool:
    """Return whether two values are the same expression or function, or equal numbers of one Python type."""
    match lhs, rhs:
        case v.Computed(expr=one, type=ours), v.Computed(expr=other, type=theirs):
            return one is other and ours == theirs
        case v.TupleOf(items=ours), v.TupleOf(items=theirs):
            keys = _keys(lhs.record) == _keys(rhs.record)
            return len(ours) == len(theirs) and keys and all(map(_same_value, ours, theirs))
        case v.Dimension(dim=one, number=ours), v.Dimension(dim=other, number=theirs):
            return ours.expr is theirs.expr or (one == other and one.label is not None)
        case v.Known(value=one), v.Known(value=other):
            return type(one) is type(other) and repr(one) == repr(other)  # tells 0.0 from -0.0
        case ((v.LocalFunction() | v.ClosureValue() | v.Method()), _):
            return lhs is rhs
    return lhs == rhs


def _keys(record: ty.RecordType | None) -> tuple[str, ...] | None:
    """Return the kind and the keys of what merges by items with its like: a dictionary, a set, a string."""
    if record is None or record.name not in (ty.DICTIONARY, ty.SET, ty.KNOWN):
        return None
    return record.name, *record.names


def _of(value: v.Value) -> Expression | None:
    """Return the plan of a value as an expression; None for a value that is none."""
    match value:
        case v.Computed(type=type_, weak=weak, default_dtype=place):
            return Expression(type_, weak, place)
        case v.Dimension(number=v.Computed(type=type_, weak=weak)):
            return Expression(type_, weak)
        case v.Known(value=bool() | int() | float() | complex() as number):
            return Expression(ty.TensorType((), natural_dtype(number)), weak=True)
        case (
            v.GlobalFunction(type=ty.FuncType() as type_)
            | v.ClosureValue(function=v.Computed(type=ty.FuncType() as type_))
        ):
            return Expression(type_, weak=False)
    return None


def _common(lhs: Expression, rhs: Expression) -> Expression | None:
    if lhs.weak and rhs.weak:
        wider = lhs if _order(lhs) >= _order(rhs) else rhs
        return _with_common_sizes(wider, lhs.type, rhs.type)
    if lhs.weak or rhs.weak:
        strong = rhs if lhs.weak else lhs
        weak = lhs if lhs.weak else rhs
        if _is_of_floats(weak.type, strong.type):
            return replace(weak, type=ty.scalar_type("float64"))
        if getattr(weak.type, "shape", ()) and _dtype_of(weak.type) == getattr(strong.type, "dtype", ""):
            return _with_common_sizes(strong, lhs.type, rhs.type)  # lists of numbers
        shape = strong.type.shape if isinstance(strong.type, ty.TensorType) else None
        return strong if shape in ((), getattr(weak.type, "shape", ())) else None
    dtype = _common_dtype(lhs, rhs)
    values = [value if dtype is None else _in_dtype(value, dtype) for value in (lhs, rhs)]
    common = _common_type(values[0].type, values[1].type)
    # The parts that ask for the dtype; where none of them does, it is a default one.
    asking = [
        value for value in (lhs, rhs) if getattr(value.type, "dtype", None) == getattr(common, "dtype", 0)
    ]
    is_default = all(value.default_dtype is not None for value in asking)
    place = asking[0].default_dtype if asking and is_default else None
    return None if common is None else Expression(common, weak=False, default_dtype=place)


def _is_of_floats(weak: ty.Type, strong: ty.Type) -> bool:
    """Return whether a Python float and an integer of NumPy merge, which are one of them each in Python."""
    match weak, strong:
        case ty.TensorType(dtype="float64", shape=()), ty.TensorType(dtype=dtype, shape=()) if ty.is_integer(
            dtype
        ):
            NONE_MERGES.get().met = True
            return NONE_MERGES.get().allowed
    return False


def _with_common_sizes(wider: Expression, *types: ty.Type) -> Expression | None:
    """Return Python's numbers of one type; None where there are several of other ranks."""
    first, second = (type_.shape for type_ in types if isinstance(type_, ty.TensorType))
    if len(first) != len(second):
        return None
    assert isinstance(wider.type, ty.TensorType)
    return replace(wider, type=replace(wider.type, shape=tuple(map(_common_dim, first, second))))


def _common_dtype(lhs: Expression, rhs: Expression) -> str | None:
    """Return the dtype in which two tensors meet that one name stands for; None where they do not."""
    match lhs.type, rhs.type:
        case ty.TensorType(dtype=ours), ty.TensorType(dtype=theirs) if ours != theirs:
            if ty.is_float(ours) and ty.is_float(theirs):
                return common_dtype([ours, theirs])
            if (lhs.default_dtype is None) is not (rhs.default_dtype is None):
                given, dtype = (ours, theirs) if rhs.default_dtype is None else (theirs, ours)
                return None if ty.is_float(given) else dtype
    return None


def _in_dtype(expr: Expression, dtype: str) -> Expression:
    assert isinstance(expr.type, ty.TensorType)
    return replace(expr, type=replace(expr.type, dtype=dtype))


def _order(weak: Expression) -> int:
    """Rank Python's numbers: complex numbers take floats, these ints, and ints bools."""
    assert isinstance(weak.type, ty.TensorType)
    return NATURAL_DTYPES.index(weak.type.dtype)


def _common_type(lhs: ty.Type, rhs: ty.Type) -> ty.Type | None:
    match lhs, rhs:
        case ty.TensorType(), ty.TensorType():
            dims = tuple(map(_common_dim, lhs.shape, rhs.shape))
            is_common = lhs.dtype == rhs.dtype and len(lhs.shape) == len(rhs.shape)
            return ty.TensorType(dims, lhs.dtype) if is_common else None
        case ty.TupleType(fields=ours), ty.TupleType(fields=theirs) if len(ours) == len(theirs):
            fields = tuple(map(_common_type, ours, theirs))
            record = lhs if isinstance(lhs, ty.RecordType) else None
            known = [field for field in fields if field is not None]
            return v.tuple_type(known, record) if None not in fields else None
    return lhs if lhs == rhs else None


def _common_dim(lhs: ty.Dim, rhs: ty.Dim) -> ty.Dim:
    return lhs if lhs == rhs else ty.AnyDim()


def keep_outer_values(plan: MergePlan, outside: Set[int]) -> MergePlan:
    """Return the plan with a value that all branches share kept only if it is computed outside of them.

    ``outside``: the identities of the expressions that the names outside stand for.
    """
    match plan:
        case Items(items=items):
            return replace(plan, items=tuple(keep_outer_values(item, outside) for item in items))
        case Same(value=v.Computed() as value) if not _stands_outside(value.expr, outside):
            return Expression(value.type, value.weak, value.default_dtype)
        case Same(value=v.Dimension(number=number)) if not _stands_outside(number.expr, outside):
            return Expression(number.type, weak=True)
        case Choice(functions=functions) if not all(_is_outside(each, outside) for each in functions):
            raise MergeConflictError(0, 1)
        case Same(value=v.ClosureValue(function=function)) if not _stands_outside(function.expr, outside):
            return Expression(function.type, weak=False)
    return plan


def _is_outside(value: v.Value, outside: Set[int]) -> bool:
    """Return whether a function captures nothing that was computed in a branch."""
    match value:
        case v.LocalFunction(environment=environment) | v.ClosureValue(environment=environment):
            return id(value) in outside or (
                id(environment) in outside
                and all(
                    formal.default is None or isinstance(formal.default, v.Known)
                    for formal in value.parameters
                )
            )
        case v.GradientOf(kind=kind, function=function, arguments=arguments) if kind != "pullback":
            operands = (function, *arguments)
            return id(value) in outside or all(_is_outside(operand.value, outside) for operand in operands)
        case v.Computed(expr=expr):
            return _stands_outside(expr, outside)
        case v.TupleOf(items=items):
            return all(_is_outside(item, outside) for item in items)
    return not isinstance(value, v.GradientOf | v.Method)


def _stands_outside(expr: ir.Expr, outside: Set[int]) -> bool:
    return isinstance(expr, ir.Constant | ir.GlobalVar | ir.Constructor) or id(expr) in outside


def expressions_in(value: v.Value) -> Iterator[int]:
    """Yield the identities of the expressions and functions that a value stands for."""
    match value:
        case v.LocalFunction() | v.GradientOf():
            yield id(value)
        case (
            v.Computed(expr=expr)
            | v.ClosureValue(function=v.Computed(expr=expr))
            | v.Dimension(number=v.Computed(expr=expr))
        ):
            yield id(expr)
        case v.ListOfRows(rows=rows):
            yield id(rows.expr)
        case v.TupleOf(items=items) | v.TableOf(parts=items):
            for item in items:
                yield from expressions_in(item)


# -- carrying a plan out -------------------------------------------------------------------------------


def merge_conflict(
    name: str, values: Sequence[tuple[v.Value, Span]], conflict: MergeConflictError, words: str
) -> v.Unassigned | v.Value:
    """Explain a name that branches leave with values that cannot be merged."""
    pair = [values[conflict.first], values[conflict.second]]
    if any(v.is_failed(value) for value, _ in pair):
        return v.FAILED
    for value, _ in pair:
        if isinstance(value, v.Unassigned):
            return value
    first, second = (describe(value) for value, _ in pair)
    hint = None
    if all(isinstance(value, v.Known) and not is_number(value.value) for value, _ in pair):
        words = f"{words}, and it must be known at compile time"
    if any(isinstance(value, v.Known) and is_number(value.value) for value, _ in pair):
        types = [value.type for value, _ in pair if isinstance(value, v.Computed)]
        example = _zeros(types[0]) if types else "zeros((3,), f32)"
        hint = f"begin with a tensor of the shape that it is to have, as in {example}"
    elif all(isinstance(value, v.FUNCTIONS) for value, _ in pair):
        hint = "make the functions before the branch, which then chooses one of them"
    elif all(isinstance(value, v.TupleOf) for value, _ in pair):
        alike = len({len(value.items) for value, _ in pair if isinstance(value, v.TupleOf)}) == 1
        hint = f"a list keeps its length here: {FILL_A_TENSOR}"
        hint = "give each item one shape and one dtype in both" if alike else hint
    elif all(isinstance(value, v.Computed) for value, _ in pair):
        hint = "give it one shape and one dtype in both, as in x.astype(f32)"
    notes = tuple(
        Note(f"here it is {text}", span) for text, (_, span) in zip((first, second), pair, strict=True)
    )
    return v.Unassigned(f"`{name}` is {first} or {second} here: {words}", hint, notes)


def _zeros(type_: ty.Type) -> str:
    """Write a tensor of a type, as a cell begins with it."""
    if not isinstance(type_, ty.TensorType) or not all(isinstance(dim, int) for dim in type_.shape):
        return "zeros((3,), f32)"
    return f"zeros({format_shape(type_.shape)}, {dtype_short_name(type_.dtype)})"


def to_planned_type(plan: MergePlan, value: v.Operand) -> v.Computed:
    """Convert a value to one expression of the plan's type. Raises RefusalError."""
    match plan:
        case Expression(type=type_):
            return v.Computed(convert(value.value, type_, value.span), type_)
        case Items() if plan.is_hashed or plan.is_list or may_be_none(plan):
            return to_relay(replace(value, value=rebuild(plan, expressions(plan, value.value, value.span))))
        case Items(items=items):
            assert isinstance(value.value, v.TupleOf)
            pairs = zip(items, value.value.items, strict=True)
            computed = [to_planned_type(item, v.Operand(exprs, value.span)) for item, exprs in pairs]
            node = ir.Tuple(tuple(exprs.expr for exprs in computed), span=value.span)
            return v.Computed(node, v.tuple_type([exprs.type for exprs in computed], plan.record))
    return to_relay(value)
