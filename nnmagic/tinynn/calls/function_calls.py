"""Call functions, closures and constructors: match arguments to parameters, types and named dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.ops.dims import dim_names, match_dim, rename_dim
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.tinynn.calls.argument_binding import bind
from nnmagic.tinynn.calls.defaults import copy_default
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import DeclaredSizes
from nnmagic.tinynn.values.default_dtypes import convert_default_dtype
from nnmagic.tinynn.values.descriptions import describe, source_text, with_article
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import as_computed, cast, tensor_type
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import as_number

#: Converts anything that can be called to a Relay function of a type. Raises RefusalError.
FunctionMaker = Callable[[v.Operand, ty.FuncType], v.Computed]


def bind_arguments(
    function: str, parameters: Sequence[v.Formal], operands: Sequence[v.Operand], span: Span
) -> dict[str, v.Operand]:
    """Return arguments by parameter name, with defaults filled in. Raises RefusalError."""
    operands = _gather(parameters, operands, span)
    positional = [formal.name for formal in parameters if formal.kind != "KEYWORD_ONLY"]
    given = [operand for operand in operands if operand.keyword is None]
    if len(given) > len(positional) and len(positional) < len(parameters):
        names = ", ".join(formal.name for formal in parameters if formal.kind == "KEYWORD_ONLY")
        hint = f"give by name: {names}"
        message = f"{function} takes {len(positional)} positional arguments, but {len(given)} are given"
        raise v.RefusalError(message, given[len(positional)].span, hint=hint)
    positional_only = {formal.name for formal in parameters if formal.kind == "POSITIONAL_ONLY"}
    for operand in operands:
        if operand.keyword in positional_only:
            hint = "leave the name out"
            raise v.RefusalError(
                f"{function}: `{operand.keyword}` is given by its place only", operand.span, hint=hint
            )
    required = [formal.name for formal in parameters if formal.default is None]
    bound = bind(function, [formal.name for formal in parameters], required, operands, span)
    for formal in parameters:
        if formal.name not in bound and formal.default is not None:
            bound[formal.name] = v.Operand(copy_default(formal.default), span)
    return bound


def _gather(parameters: Sequence[v.Formal], operands: Sequence[v.Operand], span: Span) -> Sequence[v.Operand]:
    """Return the operands of a call with those that ``*args`` takes as one tuple."""
    names = [formal.name for formal in parameters if formal.kind == "VAR_POSITIONAL"]
    if not names:
        return operands
    place = [formal.name for formal in parameters].index(names[0])
    positional = [operand for operand in operands if operand.keyword is None]
    rest = v.TupleOf(tuple(operand.value for operand in positional[place:]), written="tuple")
    by_name = [operand for operand in operands if operand.keyword is not None]
    if len(positional) < place:  # those before it are given by name
        return [*positional, *by_name, v.Operand(rest, span, names[0])]
    return [*positional[:place], v.Operand(rest, span), *by_name]


def call_function(
    function: v.GlobalFunction | v.ClosureValue,
    operands: Sequence[v.Operand],
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    """Call a function whose type is known. Raises RefusalError where an argument does not fit."""
    written, type_, callee = _callee(function, span)
    bound = bind_arguments(written, function.parameters, operands, span)
    if type_ is None or any(v.is_failed(operand.value) for operand in bound.values()):
        return v.FAILED
    ordered = [(formal.name, bound[formal.name]) for formal in function.parameters]
    return _apply(written, callee, type_, ordered, span, make_function)


def _callee(
    function: v.GlobalFunction | v.ClosureValue, span: Span
) -> tuple[str, ty.FuncType | None, ir.Expr]:
    if isinstance(function, v.GlobalFunction):
        return function.written, function.type, ir.GlobalVar(function.name, span=span)
    assert isinstance(function.function.type, ty.FuncType)
    return function.name, function.function.type, function.function.expr


def call_value(
    function: v.Computed, operands: Sequence[v.Operand], span: Span, make_function: FunctionMaker
) -> v.Value:
    """Call a function that is a value: a parameter, the result of a call. Raises RefusalError."""
    assert isinstance(function.type, ty.FuncType)
    for operand in operands:
        if operand.keyword is not None:
            hint = "leave the name out: the type of a function names no parameters"
            raise v.RefusalError(
                "a function that is a value takes arguments by place only", operand.span, hint=hint
            )
    wanted = len(function.type.arg_types)
    if len(operands) != wanted:
        plural = "" if wanted == 1 else "s"
        raise v.RefusalError(
            f"{format_type(function.type)} takes {wanted} argument{plural}, not {len(operands)}", span
        )
    ordered = [(f"argument {index + 1}", operand) for index, operand in enumerate(operands)]
    return _apply("the function", function.expr, function.type, ordered, span, make_function)


def call_constructor(
    name: v.ConstructorName, operands: Sequence[v.Operand], span: Span, make_function: FunctionMaker
) -> v.Value:
    """Build a value of a data type. Raises RefusalError."""
    constructor = name.constructor
    formals = [
        v.Formal(field, "POSITIONAL_ONLY" if field.startswith("field") else "POSITIONAL_OR_KEYWORD")
        for field in name.fields
    ]
    bound = bind_arguments(constructor.name, formals, operands, span)
    if any(v.is_failed(operand.value) for operand in bound.values()):
        return v.FAILED
    type_ = ty.FuncType(constructor.inputs, ty.TypeCall(constructor.belong_to, ()))
    ordered = [(field, bound[field]) for field in name.fields]
    return _apply(constructor.name, constructor, type_, ordered, span, make_function)


def _apply(
    written: str,
    callee: ir.Expr,
    type_: ty.FuncType,
    arguments: Sequence[tuple[str, v.Operand]],
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    dims: dict[str, tuple[ty.Dim, Span]] = {}
    args = [
        fit_argument(written, parameter, wanted, operand, dims, make_function)
        for (parameter, operand), wanted in zip(arguments, type_.arg_types, strict=True)
    ]
    spans = (operand.span for _, operand in arguments)
    whats = (f"{written}: `{parameter}`" for parameter, _ in arguments)
    args = DeclaredSizes({}).check_all(zip(whats, args, type_.arg_types, spans, strict=True))
    call = ir.Call(callee, tuple(arg.expr for arg in args), span=span)
    solved = {name: dim for name, (dim, _) in dims.items()}
    for label, (dim, dim_span) in dims.items():  # arithmetic on names that later arguments told
        if dim_names(ty.AnyDim(label)) <= set(solved) and dims_differ(
            rename_dim(ty.AnyDim(label), solved), dim
        ):
            both = f"{format_dim(rename_dim(ty.AnyDim(label), solved))} and {format_dim(dim)}"
            raise v.RefusalError(f'{written}: the dimension "{label}" would be {both}', dim_span)
    return v.as_value(call, substitute_dims(type_.ret_type, solved, own=not isinstance(callee, ir.Var)))


def list_as_record(value: v.Value, span: Span) -> v.Value:
    """Return a list of rows as the record that a parameter of a function is; any other value as it is."""
    match value:
        case v.ListOfRows(rows=rows, is_table=is_table, columns=columns, is_shared=is_shared):
            words = list(_words_of(columns))
            if "" in words or is_table > 1:  # a record says of no lists in lists
                return value
            kind = "lists" if is_table else ty.NUMBERS if rows.weak else "scalars"
            kind = "shared" if is_shared else kind
            kind = " ".join(["tuples", *words]) if words else kind
            record = ty.RecordType((rows.type,), ty.LIST, (kind,))
            whole = v.Computed(ir.Tuple((rows.expr,), span=span), record)
            return v.TupleOf((v.Computed(rows.expr, rows.type),), whole, record, written="list")
        case v.TupleOf(items=items, whole=None, record=None, written="tuple"):
            return replace(value, items=tuple(list_as_record(item, span) for item in items))
    return value


def _words_of(columns: v.Columns) -> Iterator[str]:
    """Yield the dtypes of Python's numbers in tuples, those of tuples inside in brackets; "" of others."""
    for column in columns:
        if isinstance(column, tuple):
            yield from ("(", *_words_of(column), ")")
        else:
            yield column.dtype if column.weak else ""


def fit_argument(
    function: str,
    parameter: str,
    wanted: ty.Type,
    operand: v.Operand,
    dims: dict[str, tuple[ty.Dim, Span]],
    make_function: FunctionMaker,
) -> v.Computed:
    """Convert an argument to a value of the parameter's type. Raises RefusalError."""
    operand = as_number(operand)
    value = list_as_record(operand.value, operand.span)
    operand = replace(operand, value=value)
    match value, wanted:
        case v.Known(value=number), ty.TensorType(shape=(), dtype=dtype) if is_number(number):
            assert isinstance(number, bool | int | float | complex)
            return number_constant(number, dtype, operand.span)
        case v.Computed(weak=True, type=ty.TensorType(dtype=weak_dtype)), ty.TensorType(
            shape=(), dtype=dtype
        ):
            if weak_dtype == "complex128" and not ty.is_complex(dtype):
                message = f"{function}: `{parameter}` is {with_article(wanted)}, not a Python complex number"
                hint = f"take its real part, as in {source_text(operand.span)}.real"
                raise v.RefusalError(message, operand.span, hint=hint)
            if weak_dtype == "float64" and not dtype.startswith(("float", "bfloat", "complex")):
                raise v.RefusalError(
                    f"{function}: `{parameter}` is {with_article(wanted)}, not a Python float", operand.span
                )
            return cast(value, dtype, operand.span)
        case v.TupleOf(items=items), ty.TupleType(fields=fields) if len(items) == len(fields):
            if value.whole is None:
                parts = [
                    fit_argument(
                        function, parameter, field, v.Operand(item, operand.span), dims, make_function
                    )
                    for item, field in zip(items, fields, strict=True)
                ]
                expr = ir.Tuple(tuple(part.expr for part in parts), span=operand.span)
                return v.Computed(expr, v.tuple_type([part.type for part in parts], value.record))
        case _, ty.FuncType() if not isinstance(value, v.Computed):
            return make_function(operand, wanted)
        case v.ConstructorName(constructor=constructor), _ if not constructor.inputs:
            hint = f"write {constructor.name}()"
            raise v.RefusalError(
                f"{function}: `{parameter}` is {with_article(wanted)}, not {describe(value)}",
                operand.span,
                hint=hint,
            )
    if not isinstance(value, v.Computed | v.TupleOf):
        message = f"{function}: `{parameter}` is {with_article(wanted)}, not {describe(value)}"
        raise v.RefusalError(message, operand.span)
    has_default = isinstance(value, v.Computed) and value.default_dtype is not None
    if has_default and isinstance(wanted, ty.TensorType):
        dtype = tensor_type(operand).dtype
        if dtype != wanted.dtype and (ty.is_float(wanted.dtype) or not ty.is_float(dtype)):
            operand = v.Operand(convert_default_dtype(operand, wanted.dtype), operand.span)
    part = as_computed(operand)
    _match(function, parameter, wanted, part.type, operand, dims)
    return part


def _match(
    function: str,
    parameter: str,
    wanted: ty.Type,
    argument: ty.Type,
    operand: v.Operand,
    dims: dict[str, tuple[ty.Dim, Span]],
) -> None:
    """Match the argument's type with the parameter's, whose named dimensions take the argument's."""

    def refuse(hint: str | None = None, notes: tuple[Note, ...] = ()) -> v.RefusalError:
        message = f"{function}: `{parameter}` is {with_article(wanted)}, not {with_article(argument)}"
        return v.RefusalError(message, operand.span, hint=hint, notes=notes)

    match wanted, argument:
        case ty.TupleType(fields=ours), ty.TupleType(fields=theirs) if len(ours) == len(theirs):
            for our_field, their_field in zip(ours, theirs, strict=True):
                _match(function, parameter, our_field, their_field, operand, dims)
        case ty.TensorType(), ty.TensorType() if len(wanted.shape) == len(argument.shape):
            if wanted.dtype != argument.dtype:
                short = format_type(ty.TensorType((), wanted.dtype))
                raise refuse(hint=f"convert it, as in {source_text(operand.span)}.astype({short})")
            for ours_, theirs_ in zip(wanted.shape, argument.shape, strict=True):
                if isinstance(ours_, ty.AnyDim) and ours_.label is not None:
                    _match_dim(function, ours_, theirs_, operand, dims)
                elif dims_differ(ours_, theirs_):
                    raise refuse()
        case _ if wanted != argument:
            raise refuse()


def _match_dim(
    function: str, wanted: ty.AnyDim, dim: ty.Dim, operand: v.Operand, dims: dict[str, tuple[ty.Dim, Span]]
) -> None:
    """Solve a named dimension of the function, or check arithmetic on some, by this argument."""
    solved = {name: dim for name, (dim, _) in dims.items()}
    label = match_dim(wanted, dim, solved)
    if label is not None:
        dims[label] = solved[label], operand.span
        return
    here = rename_dim(wanted, solved)
    if dims_differ(here, dim):
        solved_by = [
            (name, *dims[name]) for name in sorted({wanted.label or "", *dim_names(wanted)} & set(dims))
        ]
        notes = [Note(f'here "{name}" is {format_dim(dim)}', span) for name, dim, span in solved_by]
        both = f"{format_dim(here)} and {format_dim(dim)}"
        message = f'{function}: the dimension "{wanted.label}" would be {both}'
        raise v.RefusalError(message, operand.span, notes=notes)


def match_dim_of_argument(
    function: str,
    parameter: str,
    wanted: ty.Dim,
    dim: ty.Dim,
    operand: v.Operand,
    dims: dict[str, tuple[ty.Dim, Span]],
) -> None:
    """Match one dimension of an argument with that of an annotation. Raises RefusalError."""
    if isinstance(wanted, ty.AnyDim):
        _match_dim(function, wanted, dim, operand, dims)
    elif dims_differ(wanted, dim):
        both = f"{format_dim(wanted)}, not {format_dim(dim)}"
        raise v.RefusalError(f"{function}: a dimension of `{parameter}` is {both}", operand.span)


def substitute_dims(type_: ty.Type, dims: Mapping[str, ty.Dim], *, own: bool = True) -> ty.Type:
    """Return the type with a callee's named dimensions as the caller knows them.

    Others are ``?`` where they are the callee's ``own``, and stay where they belong to an outer function.
    """
    match type_:
        case ty.TensorType(shape=shape, dtype=dtype):
            return ty.TensorType(tuple(_with_names(dim, dims, own=own) for dim in shape), dtype)
        case ty.TupleType(fields=fields):
            return replace(type_, fields=tuple(substitute_dims(field, dims, own=own) for field in fields))
    return type_


def _with_names(dim: ty.Dim, dims: Mapping[str, ty.Dim], *, own: bool) -> ty.Dim:
    if own or not isinstance(dim, ty.AnyDim) or dim.label is None:
        return rename_dim(dim, dims)
    outer: dict[str, ty.Dim] = {name: ty.AnyDim(name) for name in dim_names(dim)}
    return rename_dim(dim, {**outer, **dims})
