"""Call functions whose parameters have open types: inlined in their own cell, specialized from later ones."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.diagnostics import CompileError, Note, Span
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import AnyDim, Dim, FuncType, RecordType, TensorType, TupleType, Type
from nnmagic.tinynn.calls.function_calls import (
    FunctionMaker,
    bind_arguments,
    call_function,
    fit_argument,
    match_dim_of_argument,
)
from nnmagic.tinynn.elaborate.annotation_types import parameter_type
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.namespace.capture import as_compiled_function
from nnmagic.tinynn.program import NumberType
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import OpenTensor
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import as_computed
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    Dimension,
    Environment,
    GlobalFunction,
    Known,
    LocalFunction,
    NotStaticError,
    Operand,
    RefusalError,
    SpecializableFunction,
    TupleOf,
    Value,
    as_value,
    is_failed,
    static_value,
    tuple_type,
)

#: What a parameter's annotation says: a type, a part of one, or nothing.
Pattern = Type | OpenTensor | None


def fit_template_arguments(
    ctx: Elaboration,
    function: LocalFunction,
    given: Mapping[str, Operand],
    span: Span,
    make_function: FunctionMaker,
) -> tuple[dict[str, Operand], dict[str, Dim]]:
    """Convert the arguments of a call that is inlined to what its annotations say. Raises RefusalError.

    Return the arguments, and what the named dimensions of the annotations are for the caller.
    """
    fitted, dims = dict(given), dict[str, tuple[Dim, Span]]()
    if any(formal.destination == "Out" for formal in function.parameters):
        refuse_destinations(function, span)
    for parameter in function.definition.params:
        if parameter.ty is None:
            continue
        pattern = _pattern(ctx, function.environment, parameter.ty)
        if is_failed(given[parameter.name].value) or isinstance(pattern, str):
            continue
        operand = given[parameter.name]
        value = fit_pattern(function.name, parameter.name, pattern, operand, dims, make_function)
        fitted[parameter.name] = Operand(value, operand.span)
    return fitted, {name: dim for name, (dim, _) in dims.items()}


def _pattern(ctx: Elaboration, environment: Environment, annotation: tree.Annotation) -> Pattern | str:
    """Return what an annotation says, as the scope of its function has it; "" where an error was reported."""
    outer, ctx.environment = ctx.environment, environment
    try:
        value = ctx.evaluate(annotation.expr)
    finally:
        ctx.environment = outer
    if is_failed(value):
        return ""
    return parameter_type(Operand(value, ctx.span(annotation.span)))[0]


def refuse_destinations(function: GlobalFunction | LocalFunction | SpecializableFunction, span: Span) -> None:
    """Raise RefusalError for a function that changes its arguments: only one with all its types can."""
    if any(formal.destination for formal in function.parameters):
        message = "one that changes its arguments is called from a cell only if all its types are written"
        raise RefusalError(message, span, hint="write the types of its other parameters")


def fit_pattern(
    function: str,
    parameter: str,
    pattern: Pattern,
    operand: Operand,
    dims: dict[str, tuple[Dim, Span]],
    make_function: FunctionMaker,
) -> Value:
    """Convert an argument to what an annotation says of it. Raises RefusalError."""
    if pattern is None:
        return operand.value
    if not isinstance(pattern, OpenTensor):
        fitted = fit_argument(function, parameter, pattern, operand, dims, make_function)
        return as_value(fitted.expr, fitted.type)
    operand = as_number(operand)
    if isinstance(operand.value, Known) and is_number(operand.value.value) and not pattern.shape:
        if pattern.dtype is None:
            return operand.value
        number = operand.value.value
        assert isinstance(number, bool | int | float)
        return number_constant(number, pattern.dtype.name, operand.span)
    wanted = f"`{parameter}` is {pattern!r}"
    try:
        tensor = as_computed(operand)
    except RefusalError:
        tensor = None
    if tensor is None or not isinstance(tensor.type, TensorType):
        raise RefusalError(f"{function}: {wanted}, not {describe(operand.value)}", operand.span)
    type_ = tensor.type
    if pattern.dtype is not None and pattern.dtype.name != type_.dtype:
        hint = f"convert it with .astype({pattern.dtype.short})"
        message = f"{function}: {wanted}, not a tensor of {dtype_short_name(type_.dtype)}"
        raise RefusalError(message, operand.span, hint=hint)
    if pattern.shape is not None and len(pattern.shape) != len(type_.shape):
        message = f"{function}: {wanted}, not a tensor of rank {len(type_.shape)}"
        raise RefusalError(message, operand.span)
    for dim, size in zip(pattern.shape or (), type_.shape, strict=False):
        match_dim_of_argument(
            function, parameter, AnyDim(dim) if isinstance(dim, str) else dim, size, operand, dims
        )
    return operand.value


def call_specialized(
    ctx: Elaboration,
    function: SpecializableFunction,
    operands: list[Operand],
    span: Span,
    make_function: FunctionMaker,
) -> Value:
    """Call a function of an earlier cell, compiled for the types of this call. Raises RefusalError."""
    written = function.written
    refuse_destinations(function, span)
    given = bind_arguments(written, function.parameters, operands, span)
    if any(is_failed(operand.value) for operand in given.values()):
        return FAILED
    defaults = {formal.name: formal.default for formal in function.parameters}
    types: dict[str, Type] = {}
    values: dict[str, object] = {}
    for name, operand in given.items():
        if operand.value is defaults[name] or _is_default(operand, span):
            continue
        try:
            values[name] = static_value(operand.value)
        except NotStaticError:
            types[name] = _argument_type(written, name, operand)
    try:
        compiled = as_compiled_function(function.specialize(types, values))
    except CompileError as error:
        first = error.diagnostics[0]
        notes = () if first.span is None else (Note(first.message, first.span),)
        shown = "" if notes else f": {first.message}"
        message = f"`{written}` cannot be compiled for these arguments{shown}"
        raise RefusalError(message, span, hint=first.hint, notes=notes) from None
    except TypeError as error:
        raise RefusalError(str(error), span) from None
    assert compiled is not None
    linked = ctx.resolver.linker.link_function(written, compiled, span)
    refuse_destinations(linked, span)
    left = [Operand(operand.value, operand.span, name) for name, operand in given.items() if name in types]
    names = {formal.name for formal in linked.parameters}
    left += [
        Operand(operand.value, operand.span, name)
        for name, operand in given.items()
        if name not in types and name in names
    ]
    return call_function(linked, left, span, make_function)


def _is_default(operand: Operand, span: Span) -> bool:
    """Return whether an argument is the default that a call leaves out: it has the span of the call."""
    return operand.span is span


def _argument_type(function: str, parameter: str, operand: Operand) -> Type:
    value = operand.value
    try:
        tensor = as_computed(as_number(operand))
    except RefusalError:
        tensor = None
    if tensor is None or isinstance(tensor.type, FuncType):
        message = (
            f"{function}: `{parameter}` is {describe(value)}, which an earlier cell's function cannot take"
        )
        hint = "define the function in this cell, or write the type of the parameter"
        raise RefusalError(message, operand.span, hint=hint)
    return _with_numbers(tensor.type, operand.value)


def _with_numbers(type_: Type, value: Value) -> Type:
    """Return the type of an argument, with that of a number where it is one of Python's."""
    match type_, value:
        case TupleType(fields=fields), TupleOf(items=items):
            record = type_ if isinstance(type_, RecordType) else None
            return tuple_type(map(_with_numbers, fields, items), record)
        case TensorType(shape=(), dtype=dtype), Known() | Dimension() | Computed(weak=True):
            return NumberType((), dtype)
    return type_
