"""Calls of functions, closures and constructors: arguments to parameters, types and named dimensions.

Knows values and types; knows no syntax tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import dim_names, match_dim, rename_dim
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.relay.types import AnyDim, Dim, FuncType, TensorType, TupleType, Type, TypeCall
from nnmagic.tinynn.calls.argument_binding import bind
from nnmagic.tinynn.calls.defaults import renewed
from nnmagic.tinynn.values.operator_calls import cast, computed_part
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    FAILED,
    ClosureValue,
    Computed,
    ConstructorName,
    Formal,
    GlobalFunction,
    Known,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    computed,
    described,
    is_failed,
    is_number,
    number_constant,
    source_text,
    with_article,
)


class FunctionMaker(Protocol):
    """Makes a Relay function of anything that can be called."""

    def as_function(self, value: Operand, wanted: FuncType) -> Computed:
        """The value as a function of that type. Raises Refusal."""


def bound_arguments(
    function: str, parameters: Sequence[Formal], operands: Sequence[Operand], span: Span
) -> dict[str, Operand]:
    """Arguments by parameter name, defaults filled in. Raises Refusal."""
    positional = [formal.name for formal in parameters if formal.kind != "KEYWORD_ONLY"]
    given = [operand for operand in operands if operand.keyword is None]
    if len(given) > len(positional) and len(positional) < len(parameters):
        names = ", ".join(formal.name for formal in parameters if formal.kind == "KEYWORD_ONLY")
        hint = f"give by name: {names}"
        message = f"{function} takes {len(positional)} positional arguments, but {len(given)} are given"
        raise RefusalError(message, given[len(positional)].span, hint=hint)
    for operand in operands:
        kinds = [formal.kind for formal in parameters if formal.name == operand.keyword]
        if kinds == ["POSITIONAL_ONLY"]:
            hint = "leave the name out"
            raise RefusalError(
                f"{function}: `{operand.keyword}` is given by its place only", operand.span, hint=hint
            )
    required = [formal.name for formal in parameters if formal.default is None]
    bound = bind(function, [formal.name for formal in parameters], required, operands, span)
    for formal in parameters:
        if formal.name not in bound and formal.default is not None:
            bound[formal.name] = Operand(renewed(formal.default), span)
    return bound


def function_call(
    function: GlobalFunction | ClosureValue, operands: Sequence[Operand], span: Span, maker: FunctionMaker
) -> Value:
    """A call of a function whose type is known. Raises Refusal where an argument does not fit."""
    written, type_, callee = _callee(function, span)
    given = bound_arguments(written, function.parameters, operands, span)
    if type_ is None or any(is_failed(operand.value) for operand in given.values()):
        return FAILED
    ordered = [(formal.name, given[formal.name]) for formal in function.parameters]
    return _applied(written, callee, type_, ordered, span, maker)


def _callee(function: GlobalFunction | ClosureValue, span: Span) -> tuple[str, FuncType | None, ir.Expr]:
    if isinstance(function, GlobalFunction):
        return function.written, function.type, ir.GlobalVar(function.name, span=span)
    assert isinstance(function.function.type, FuncType)
    return function.name, function.function.type, function.function.expr


def value_call(function: Computed, operands: Sequence[Operand], span: Span, maker: FunctionMaker) -> Value:
    """A call of a function that is a value: a parameter, the result of a call. Raises Refusal."""
    assert isinstance(function.type, FuncType)
    for operand in operands:
        if operand.keyword is not None:
            hint = "leave the name out: the type of a function names no parameters"
            raise RefusalError(
                "a function that is a value takes arguments by place only", operand.span, hint=hint
            )
    wanted = len(function.type.arg_types)
    if len(operands) != wanted:
        plural = "" if wanted == 1 else "s"
        raise RefusalError(
            f"{format_type(function.type)} takes {wanted} argument{plural}, not {len(operands)}", span
        )
    ordered = [(f"argument {index + 1}", operand) for index, operand in enumerate(operands)]
    return _applied("the function", function.expr, function.type, ordered, span, maker)


def constructor_call(
    name: ConstructorName, operands: Sequence[Operand], span: Span, maker: FunctionMaker
) -> Value:
    """A value of a data type. Raises Refusal."""
    constructor = name.constructor
    formals = [
        Formal(field, "POSITIONAL_ONLY" if field.startswith("field") else "POSITIONAL_OR_KEYWORD")
        for field in name.fields
    ]
    given = bound_arguments(constructor.name, formals, operands, span)
    if any(is_failed(operand.value) for operand in given.values()):
        return FAILED
    type_ = FuncType(constructor.inputs, TypeCall(constructor.belong_to, ()))
    ordered = [(field, given[field]) for field in name.fields]
    return _applied(constructor.name, constructor, type_, ordered, span, maker)


def _applied(
    written: str,
    callee: ir.Expr,
    type_: FuncType,
    arguments: Sequence[tuple[str, Operand]],
    span: Span,
    maker: FunctionMaker,
) -> Value:
    dims: dict[str, tuple[Dim, Span]] = {}
    args = [
        fitted(written, parameter, wanted, operand, dims, maker)
        for (parameter, operand), wanted in zip(arguments, type_.arg_types, strict=True)
    ]
    call = ir.Call(callee, tuple(arg.expr for arg in args), span=span)
    known = {name: dim for name, (dim, _) in dims.items()}
    for label, (dim, place) in dims.items():  # arithmetic on names that later arguments told
        if dim_names(AnyDim(label)) <= set(known) and dims_differ(rename_dim(AnyDim(label), known), dim):
            both = f"{format_dim(rename_dim(AnyDim(label), known))} and {format_dim(dim)}"
            raise RefusalError(f'{written}: the dimension "{label}" would be {both}', place)
    return computed(call, with_dims(type_.ret_type, known, own=not isinstance(callee, ir.Var)))


def fitted(
    function: str,
    parameter: str,
    wanted: Type,
    operand: Operand,
    dims: dict[str, tuple[Dim, Span]],
    maker: FunctionMaker,
) -> Computed:
    """An argument as a value of the parameter's type. Raises Refusal."""
    operand = as_number(operand)
    value = operand.value
    match value, wanted:
        case Known(value=number), TensorType(shape=(), dtype=dtype) if is_number(number):
            assert isinstance(number, bool | int | float)
            return number_constant(number, dtype, operand.span)
        case Computed(weak=True, type=TensorType(dtype=given)), TensorType(shape=(), dtype=dtype):
            if given == "float64" and not dtype.startswith(("float", "bfloat")):
                raise RefusalError(
                    f"{function}: `{parameter}` is {with_article(wanted)}, not a Python float", operand.span
                )
            return cast(value, dtype, operand.span)
        case TupleOf(items=items), TupleType(fields=fields) if len(items) == len(fields):
            if value.whole is None:
                parts = [
                    fitted(function, parameter, field, Operand(item, operand.span), dims, maker)
                    for item, field in zip(items, fields, strict=True)
                ]
                expr = ir.Tuple(tuple(part.expr for part in parts), span=operand.span)
                return Computed(expr, TupleType(tuple(part.type for part in parts)))
        case _, FuncType() if not isinstance(value, Computed):
            return maker.as_function(operand, wanted)
        case ConstructorName(constructor=constructor), _ if not constructor.inputs:
            hint = f"write {constructor.name}()"
            raise RefusalError(
                f"{function}: `{parameter}` is {with_article(wanted)}, not {described(value)}",
                operand.span,
                hint=hint,
            )
    if not isinstance(value, Computed | TupleOf):
        message = f"{function}: `{parameter}` is {with_article(wanted)}, not {described(value)}"
        raise RefusalError(message, operand.span)
    part = computed_part(operand)
    _match(function, parameter, wanted, part.type, operand, dims)
    return part


def _match(
    function: str,
    parameter: str,
    wanted: Type,
    found: Type,
    operand: Operand,
    dims: dict[str, tuple[Dim, Span]],
) -> None:
    """The argument's type against the parameter's; named dimensions of the function take the argument's."""

    def refuse(hint: str | None = None, notes: tuple[Note, ...] = ()) -> RefusalError:
        message = f"{function}: `{parameter}` is {with_article(wanted)}, not {with_article(found)}"
        return RefusalError(message, operand.span, hint=hint, notes=notes)

    match wanted, found:
        case TupleType(fields=ours), TupleType(fields=theirs) if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                _match(function, parameter, one, other, operand, dims)
        case TensorType(), TensorType() if len(wanted.shape) == len(found.shape):
            if wanted.dtype != found.dtype:
                short = format_type(TensorType((), wanted.dtype))
                raise refuse(hint=f"convert it, as in {source_text(operand.span)}.astype({short})")
            for ours_, theirs_ in zip(wanted.shape, found.shape, strict=True):
                if isinstance(ours_, AnyDim) and ours_.label is not None:
                    _match_dim(function, ours_, theirs_, operand, dims)
                elif dims_differ(ours_, theirs_):
                    raise refuse()
        case _ if wanted != found:
            raise refuse()


def _match_dim(
    function: str, wanted: AnyDim, given: Dim, operand: Operand, dims: dict[str, tuple[Dim, Span]]
) -> None:
    """What a named dimension of the function, or arithmetic on some, is by this argument."""
    known = {name: dim for name, (dim, _) in dims.items()}
    learned = match_dim(wanted, given, known)
    if learned is not None:
        dims[learned] = known[learned], operand.span
        return
    here = rename_dim(wanted, known)
    if dims_differ(here, given):
        places = [
            (name, *dims[name]) for name in sorted({wanted.label or "", *dim_names(wanted)} & set(dims))
        ]
        notes = [Note(f'here "{name}" is {format_dim(dim)}', place) for name, dim, place in places]
        both = f"{format_dim(here)} and {format_dim(given)}"
        message = f'{function}: the dimension "{wanted.label}" would be {both}'
        raise RefusalError(message, operand.span, notes=notes)


def with_dims(type_: Type, dims: Mapping[str, Dim], *, own: bool = True) -> Type:
    """The type with a callee's named dimensions as the caller knows them.

    Others are ``?`` where they are the callee's ``own``, and stay where they are of the function around it.
    """
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(tuple(_with_names(dim, dims, own=own) for dim in shape), dtype)
        case TupleType(fields=fields):
            return TupleType(tuple(with_dims(field, dims, own=own) for field in fields))
    return type_


def _with_names(dim: Dim, dims: Mapping[str, Dim], *, own: bool) -> Dim:
    if own or not isinstance(dim, AnyDim) or dim.label is None:
        return rename_dim(dim, dims)
    outer: dict[str, Dim] = {name: AnyDim(name) for name in dim_names(dim)}
    return rename_dim(dim, {**outer, **dims})
