"""Values that meet where branches come together: one value for each name, or the reason why there is none.

Knows values and types; knows no syntax tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_shape, format_type
from nnmagic.relay.types import AnyDim, Dim, FuncType, TensorType, TupleType, Type
from nnmagic.tinynn.elaborate.annotation_types import relay_value
from nnmagic.tinynn.syntax.unsupported import FILL_A_TENSOR
from nnmagic.tinynn.values.operator_calls import cast, computed_part
from nnmagic.tinynn.values.values import (
    FAILED,
    ClosureValue,
    Computed,
    Dimension,
    GlobalFunction,
    Known,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    Value,
    computed,
    described,
    is_failed,
    is_number,
    natural_dtype,
    number_constant,
    same_value,
)


@dataclass(frozen=True, slots=True)
class Same:
    """All are one value that needs no code."""

    value: Value


@dataclass(frozen=True, slots=True)
class One:
    """Each becomes a Relay expression of one type."""

    type: Type
    weak: bool


@dataclass(frozen=True, slots=True)
class Several:
    """Tuples of one length, item by item."""

    items: tuple[Plan, ...]


Plan = Same | One | Several


class MergeConflictError(Exception):  # a question answered with no
    """Two values that cannot be one: their places in the sequence."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second


def merge_plan(values: Sequence[Value]) -> Plan:
    """How values become one. Raises Clash, with the places of two that cannot."""
    plan = atomize(values[0], keep=True)
    for index, value in enumerate(values[1:], 1):
        wider = widened(plan, value)
        if wider is None:
            raise MergeConflictError(_culprit(values, index), index)
        plan = wider
    return plan


def _culprit(values: Sequence[Value], index: int) -> int:
    """The first value that does not go with the one at ``index``."""
    found = (
        other for other in range(index) if widened(atomize(values[other], keep=True), values[index]) is None
    )
    return next(found, 0)


def atomize(value: Value, *, keep: bool) -> Plan:
    """A plan for one value. Not ``keep``: numbers become what is known when the function runs."""
    match value:
        case Computed(type=type_, weak=weak):
            return Same(value) if keep else One(type_, weak)
        case Dimension(number=number) if not keep:
            return One(number.type, weak=True)
        case TupleOf(items=items) if items:
            return Several(tuple(atomize(item, keep=keep) for item in items))
        case Known(value=bool() | int() | float() as number) if not keep:
            return One(TensorType((), natural_dtype(number)), weak=True)
    return Same(value)


def widened(plan: Plan, value: Value) -> Plan | None:
    """A plan that takes ``value`` too; None where there is none."""
    match plan:
        case Same(value=known):
            if same_value(known, value):
                return plan
            one = _of(known)
            return None if one is None else widened(one, value)
        case Several(items=items):
            if not isinstance(value, TupleOf) or len(value.items) != len(items):
                return None
            parts = tuple(map(widened, items, value.items))
            return Several(parts) if None not in parts else None  # type: ignore[arg-type]  # none is None
        case One():
            other = _of(value)
            return None if other is None else _common(plan, other)


def _of(value: Value) -> One | None:
    """A value as an expression of some type; None for one that has none."""
    match value:
        case Computed(type=type_, weak=weak) | Dimension(number=Computed(type=type_, weak=weak)):
            return One(type_, weak)
        case Known(value=bool() | int() | float() as number):
            return One(TensorType((), natural_dtype(number)), weak=True)
        case (
            GlobalFunction(type=FuncType() as type_)
            | ClosureValue(function=Computed(type=FuncType() as type_))
        ):
            return One(type_, weak=False)
    return None


def _common(left: One, right: One) -> One | None:
    if left.weak and right.weak:
        return left if _order(left) >= _order(right) else right
    if left.weak or right.weak:
        strong = right if left.weak else left
        return strong if isinstance(strong.type, TensorType) and not strong.type.shape else None
    common = _common_type(left.type, right.type)
    return None if common is None else One(common, weak=False)


def _order(weak: One) -> int:
    """Which of Python's numbers take others: floats ints, ints bools."""
    assert isinstance(weak.type, TensorType)
    return ("bool", "int64", "float64").index(weak.type.dtype)


def _common_type(left: Type, right: Type) -> Type | None:
    match left, right:
        case TensorType(), TensorType():
            dims = tuple(map(_common_dim, left.shape, right.shape))
            if left.dtype != right.dtype or len(left.shape) != len(right.shape) or None in dims:
                return None
            return TensorType(tuple(dim for dim in dims if dim is not None), left.dtype)
        case TupleType(fields=ours), TupleType(fields=theirs) if len(ours) == len(theirs):
            fields = tuple(map(_common_type, ours, theirs))
            return (
                TupleType(tuple(each for each in fields if each is not None)) if None not in fields else None
            )
    return left if left == right else None


def _common_dim(left: Dim, right: Dim) -> Dim | None:
    if left == right:
        return left
    return AnyDim() if isinstance(left, AnyDim) and isinstance(right, AnyDim) else None


def anchored(plan: Plan, outside: Set[int]) -> Plan:
    """The plan, where what is one value in all branches stays only if it stands outside of them.

    ``outside``: the identities of the expressions that the names outside stand for.
    """
    match plan:
        case Several(items=items):
            return Several(tuple(anchored(item, outside) for item in items))
        case Same(value=Computed() as value) if not _stands_outside(value.expr, outside):
            return One(value.type, value.weak)
        case Same(value=Dimension(number=number)) if not _stands_outside(number.expr, outside):
            return One(number.type, weak=True)
        case Same(value=ClosureValue(function=function)) if not _stands_outside(function.expr, outside):
            return One(function.type, weak=False)
    return plan


def _stands_outside(expr: ir.Expr, outside: Set[int]) -> bool:
    return isinstance(expr, ir.Constant | ir.GlobalVar | ir.Constructor) or id(expr) in outside


def expressions_in(value: Value) -> Iterator[int]:
    """The identities of the expressions that a value stands for."""
    match value:
        case (
            Computed(expr=expr)
            | ClosureValue(function=Computed(expr=expr))
            | Dimension(number=Computed(expr=expr))
        ):
            yield id(expr)
        case TupleOf(items=items):
            for item in items:
                yield from expressions_in(item)


# -- carrying a plan out -------------------------------------------------------------------------------


def expressions(plan: Plan, value: Value, span: Span) -> Iterator[ir.Expr]:
    """What a value contributes where it goes into a plan. Raises Refusal for a number that does not fit."""
    match plan:
        case Several(items=items):
            assert isinstance(value, TupleOf)
            for item, part in zip(items, value.items, strict=True):
                yield from expressions(item, part, span)
        case One(type=type_):
            yield convert(value, type_, span)


def convert(value: Value, type_: Type, span: Span) -> ir.Expr:
    """A value as an expression of a type that it was found to fit. Raises Refusal."""
    match value:
        case Dimension(number=number_later):
            return convert(number_later, type_, span)
        case Known(value=bool() | int() | float() as number):
            assert isinstance(type_, TensorType)
            if isinstance(number, bool) and type_.dtype != "bool":
                number = int(number)
            return number_constant(number, type_.dtype, span).expr
        case Computed(weak=True, type=TensorType(dtype=dtype)):
            assert isinstance(type_, TensorType)
            if dtype == "float64" and not type_.dtype.startswith(("float", "bfloat")):
                hint = "convert it, as in int(x), or give both the same dtype"
                raise RefusalError(f"a Python float cannot become {format_type(type_)}", span, hint=hint)
            return cast(value, type_.dtype, span).expr
        case GlobalFunction(name=name):
            return ir.GlobalVar(name, span=span)
        case ClosureValue(name=name, changing=(other, *_)):
            hint = f"give `{other}` to `{name}` as a parameter"
            message = f"`{name}` is one of several functions here, and uses `{other}`, which may change later"
            raise RefusalError(message, span, hint=hint)
        case ClosureValue(function=function):
            return function.expr
    return computed_part(Operand(value, span)).expr


def types_of(plan: Plan) -> Iterator[One]:
    """The types of the expressions of a plan, in order."""
    match plan:
        case One():
            yield plan
        case Several(items=items):
            for item in items:
                yield from types_of(item)


def rebuild(plan: Plan, parts: Iterator[ir.Expr]) -> Value:
    """The joined value, from the expressions that hold it."""
    match plan:
        case Same(value=value):
            return value
        case Several(items=items):
            return TupleOf(tuple(rebuild(item, parts) for item in items))
        case One(type=type_, weak=weak):
            expr = next(parts)
            return Computed(expr, type_, weak=True) if weak else computed(expr, type_)


def merge_conflict(
    name: str, values: Sequence[tuple[Value, Span]], found: MergeConflictError, words: str
) -> Unassigned | Value:
    """What a name is after branches that leave it with values that cannot be one."""
    pair = [values[found.first], values[found.second]]
    if any(is_failed(value) for value, _ in pair):
        return FAILED
    for value, _ in pair:
        if isinstance(value, Unassigned):
            return value
    one, other = (described(value) for value, _ in pair)
    hint = None
    if all(isinstance(value, Known) and not is_number(value.value) for value, _ in pair):
        words = f"{words}, and it must be known while compiling"
    if any(isinstance(value, Known) and is_number(value.value) for value, _ in pair):
        types = [value.type for value, _ in pair if isinstance(value, Computed)]
        example = _zeros(types[0]) if types else "zeros((3,), f32)"
        hint = f"begin with a tensor of the shape that it is to have, as in {example}"
    elif all(isinstance(value, TupleOf) for value, _ in pair):
        hint = f"a list keeps its length here: {FILL_A_TENSOR}"
    elif all(isinstance(value, Computed) for value, _ in pair):
        hint = "give it one shape and one dtype in both, as in x.astype(f32)"
    notes = tuple(
        Note(f"here it is {text}", span) for text, (_, span) in zip((one, other), pair, strict=True)
    )
    return Unassigned(f"`{name}` is {one} or {other} here: {words}", hint, notes)


def _zeros(type_: Type) -> str:
    """A tensor of a type, as a cell begins with it."""
    if not isinstance(type_, TensorType) or not all(isinstance(dim, int) for dim in type_.shape):
        return "zeros((3,), f32)"
    return f"zeros({format_shape(type_.shape)}, {dtype_short_name(type_.dtype)})"


def whole(plan: Plan, value: Operand) -> Computed:
    """A value as one expression of the plan's type. Raises Refusal."""
    match plan:
        case One(type=type_):
            return Computed(convert(value.value, type_, value.span), type_)
        case Several(items=items):
            assert isinstance(value.value, TupleOf)
            pairs = zip(items, value.value.items, strict=True)
            parts = [whole(item, Operand(part, value.span)) for item, part in pairs]
            node = ir.Tuple(tuple(part.expr for part in parts), span=value.span)
            return Computed(node, TupleType(tuple(part.type for part in parts)))
    return relay_value(value)
