"""Infer the types of calls: of operators, by their declarations, and of functions and constructors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from nnmagic.diagnostics import Note
from nnmagic.relay.complex_numbers.operators import COMPLEX_OPERATORS
from nnmagic.relay.expr import Call, Expr, GlobalVar, OpRef
from nnmagic.relay.infer.context import TOO_DEEP, Context, callee_name, close_name, note
from nnmagic.relay.infer.unify import UNKNOWN, Hole, NestingError, describe_type, map_leaves, type_parts
from nnmagic.relay.ops import OPERATORS, Operator, RelationError
from nnmagic.relay.ops.dims import dim_names, match_dim, rename_dim
from nnmagic.relay.ops.relations import at_most, identity
from nnmagic.relay.types import AnyDim, Dim, FuncType, TensorType, TupleType, Type

_DIM_LIMIT: Final = 2**63


def infer_call(context: Context, call: Call) -> Type:
    """Return the type of a call whose callee and arguments have been visited."""
    if isinstance(call.op, OpRef):
        return _operator_call(context, call, call.op.name)
    return _function_call(context, call)


# --- operators --------------------------------------------------------------------------------------------


def _operator_call(context: Context, call: Call, name: str) -> Type:
    operator = OPERATORS.get(name) or COMPLEX_OPERATORS.get(name)
    if operator is None:
        context.error(call, f"there is no operator {name}", hint=close_name(name, OPERATORS))
        return _give_up(context, call)
    try:
        attrs = operator.complete_attrs(call.attrs)
        if len(call.args) != len(operator.args):
            operator.result_type([UNKNOWN] * len(call.args), attrs)  # raises: the count is wrong
    except RelationError as error:
        return _report_refusal(context, call, error)
    context.attrs[call] = attrs
    if operator.relation is identity:
        # Relay unifies the two types, so that what is known of the result is known of the argument, too.
        return context.type_of(call.args[0])
    result = _result_or_hole(context, call, operator)
    return _wait(context, call, operator, result) if isinstance(result, Hole) else result


def _result_or_hole(context: Context, call: Call, operator: Operator) -> Type:
    """Return the result's type, or the first hole that it depends on."""
    solver, attrs = context.solver, context.attrs[call]
    types = [context.type_of(arg) for arg in call.args]
    if any(map(context.is_broken, types)):
        return UNKNOWN
    holes = [solver.hole_in(type_) for type_ in types]
    try:
        if operator.assume is not None:
            solver.widened = solver.widened or any(map(_has_unknown_dim, types))
        if any(holes) and operator.assume is not None:
            inputs = [None if hole else type_ for hole, type_ in zip(holes, types, strict=True)]
            for arg, hole, assumed in zip(call.args, holes, operator.assume(inputs, attrs), strict=True):
                if hole is not None and assumed is not None:
                    context.agree(context.type_of(arg), assumed, arg, f"an argument of {operator.name}")
            types = [context.type_of(arg) for arg in call.args]
            holes = [solver.hole_in(type_) for type_ in types]
        first = next((hole for hole in holes if hole is not None), None)
        return (
            first if first is not None else _check_representable(operator, operator.result_type(types, attrs))
        )
    except RelationError as error:
        return _report_refusal(context, call, error)


def _has_unknown_dim(type_: Type) -> bool:
    return isinstance(type_, TensorType) and any(isinstance(dim, AnyDim) for dim in type_.shape)


def _check_representable(operator: Operator, result: Type) -> Type:
    """Return the type of a result.

    Raises RelationError if a dimension needs more than 64 bits, or if there are more than a type may have.
    """
    shape: Sequence[Dim] = result.shape if isinstance(result, TensorType) else ()
    at_most(len(shape), f"{operator.name}: the number of the result's axes")
    for dim in shape:
        if isinstance(dim, int) and not -_DIM_LIMIT <= dim < _DIM_LIMIT:
            raise RelationError(f"{operator.name}: the result {describe_type(result)} is too large")
    if isinstance(result, TupleType):
        for field in result.fields:
            _check_representable(operator, field)
    return result


def _wait(context: Context, call: Call, operator: Operator, hole: Hole) -> Type:
    """Return a hole for the result, filled once the argument types are known."""
    result = Hole()
    context.waiting[call] = None

    def retry() -> None:
        try:
            outcome = _result_or_hole(context, call, operator)
            if isinstance(outcome, Hole):
                context.solver.wait(outcome, retry)
                return
            context.agree(result, outcome, call, f"the result of {operator.name}")
        except NestingError:
            context.error(call, TOO_DEEP)
        context.waiting.pop(call, None)

    context.solver.wait(hole, retry)
    return result


def _report_refusal(context: Context, call: Call, error: RelationError) -> Type:
    """Report why an operator refuses a call, with notes at the operands that it blames."""
    notes: list[Note] = []
    for index in error.operands:
        if index < len(call.args):
            arg = call.args[index]
            notes += note(arg, context.type_of(arg), "this operand")
    context.error(call, error.message, hint=error.hint, notes=notes)
    return _give_up(context, call)


def _give_up(context: Context, call: Call) -> Type:
    """Silence errors about the arguments' unknown types: the call's own error may explain them."""
    for arg in call.args:
        if not isinstance(arg, OpRef):
            context.give_up(context.type_of(arg))
    return UNKNOWN


# --- functions and constructors ---------------------------------------------------------------------------


def _function_call(context: Context, call: Call) -> Type:
    callee, arg_types = context.type_of(call.op), [context.type_of(arg) for arg in call.args]
    if isinstance(call.op, GlobalVar):
        callee = context.signatures.get(call.op.name, callee)  # with its labels
    name = callee_name(call.op)
    if callee is UNKNOWN:
        return _give_up(context, call)
    if call.attrs and "attrs_type_key" not in call.attrs:
        context.error(
            call,
            f"{name} takes no attributes, found {', '.join(call.attrs)}",
            hint="only operators have attributes",
        )
        return _give_up(context, call)
    if isinstance(callee, Hole):
        function = FuncType(tuple(arg_types), Hole())
        context.agree(callee, function, call, f"the type of {name}")
        return function.ret_type
    if not isinstance(callee, FuncType):
        context.error(
            call,
            f"only a function can be called, found {describe_type(callee)}",
            notes=note(call.op, callee, name),
        )
        return _give_up(context, call)
    if len(call.args) != len(callee.arg_types):
        wanted = f"{len(callee.arg_types)} argument" + "s" * (len(callee.arg_types) != 1)
        context.error(call, f"{name} takes {wanted}, got {len(call.args)}", notes=note(call.op, callee, name))
        return _give_up(context, call)
    if len(call.type_args) > len(callee.type_params):
        counts = f"{len(callee.type_params)} type arguments, got {len(call.type_args)}"
        context.error(call, f"{name} takes {counts}")
        return _give_up(context, call)
    return _instantiate_call(context, call, callee, arg_types)


def _instantiate_call(context: Context, call: Call, callee: FuncType, arg_types: Sequence[Type]) -> Type:
    """Return the result of a call with as many arguments as the function takes."""
    name = callee_name(call.op)
    if callee.type_params:
        written = [context.annotation(type_, call) for type_ in call.type_args]
        type_args = (*written, *(Hole() for _ in callee.type_params[len(written) :]))
        context.type_args[call] = type_args
        callee = context.solver.instantiate(callee, type_args)
    params, result = callee.arg_types, callee.ret_type
    if isinstance(call.op, GlobalVar):
        labels = _labels(context, call, params, arg_types)
        params, result = tuple(_relabel(param, labels) for param in params), _relabel(result, labels)
    failed = False
    for index, (param, arg, arg_type) in enumerate(zip(params, call.args, arg_types, strict=True)):
        what = f"argument {index + 1} of {name}"
        agreed = context.agree(param, arg_type, call, what, note(arg, arg_type, "this argument"))
        failed = failed or agreed is None
    if failed:
        for arg_type in (*arg_types, result):
            context.give_up(arg_type)
    return result


# --- labelled dimensions ----------------------------------------------------------------------------------
# A label such as "n" belongs to the function that it is written in. At a call, the callee's labels stand for
# the dimensions of the arguments; a label that no argument determines is `?` to the caller.


def _labels(context: Context, call: Call, params: Sequence[Type], args: Sequence[Type]) -> dict[str, Dim]:
    """Return the dimensions that the callee's labels stand for; report arguments that disagree."""
    labels: dict[str, Dim] = {}
    where: dict[str, int] = {}
    pairs = list(_dim_pairs(params, args))
    for index, dim, label in sorted(pairs, key=lambda pair: len(dim_names(pair[1]))):
        assert isinstance(dim, AnyDim)
        learned = match_dim(dim, label, labels)
        if learned is not None:
            where[learned] = index
            continue
        dim_value = rename_dim(dim, labels)
        if isinstance(dim_value, int) and isinstance(label, int) and dim_value != label:
            first = where.get(str(dim.label), index)
            notes = note(call.args[first], args[first])
            if first != index:
                notes += note(call.args[index], args[index])
            wrong = f"the dimension {dim.label!r} cannot be both {dim_value} and {label}"
            context.error(call, f"{callee_name(call.op)}: {wrong}", notes=notes)
            return {}
        if isinstance(label, int) and dim.label in labels and not isinstance(dim_value, int):
            labels[dim.label], where[dim.label] = label, index
    return labels


def _dim_pairs(params: Sequence[Type], args: Sequence[Type]) -> Iterator[tuple[int, Dim, Dim]]:
    """Yield the argument's index, each labelled dimension of its parameter, and the argument's dimension."""
    for index, (param, arg) in enumerate(zip(params, args, strict=True)):
        work = [(param, arg)]
        while work:
            lhs, rhs = work.pop()
            work.extend(zip(type_parts(lhs), type_parts(rhs), strict=False))
            if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType):
                continue
            for dim, given in zip(lhs.shape, rhs.shape, strict=False):
                if isinstance(dim, AnyDim) and dim.label is not None:
                    yield index, dim, given


def _relabel(type_: Type, labels: Mapping[str, Dim]) -> Type:
    """Replace the labels in a type of the callee."""

    def leaf(part: Type) -> Type:
        if not isinstance(part, TensorType) or not any(isinstance(dim, AnyDim) for dim in part.shape):
            return part
        return replace(part, shape=tuple(rename_dim(dim, labels) for dim in part.shape))

    return map_leaves(type_, leaf)


def without_labels(type_: Type) -> Type:
    """Return the type of a global function used as a value: its callers do not know its labels."""
    return _relabel(type_, {})


def find_unresolved_argument(context: Context, call: Call) -> tuple[Expr, str] | None:
    """Return the first argument, with its name, whose unknown type blocks an operator call."""
    assert isinstance(call.op, OpRef)
    for arg, name in zip(call.args, OPERATORS[call.op.name].args, strict=True):
        if context.solver.hole_in(context.type_of(arg)) is not None:
            return arg, name
    return None
