"""Call functions whose parameters have open types: inlined in their own cell, specialized from later ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace

from nnmagic.diagnostics import CompileError, Note, Span
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ANY, LIST, AnyDim, Dim, FuncType, RecordType, TensorType, TupleType, Type
from nnmagic.tinynn.calls import function_calls
from nnmagic.tinynn.elaborate.annotation_types import is_python_number, parameter_type
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.generators import call_with_generators, require_generator
from nnmagic.tinynn.elaborate.lists_as_rows import as_list_of_rows
from nnmagic.tinynn.namespace.compiled_values import CompiledGlobal, as_compiled_function
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.program import NumberType, Specialization
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import GENERATOR as GENERATOR_ANNOTATION
from nnmagic.tinynn.types.annotations import Generator, OpenTensor, OpenType
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import DeclaredSizes
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import NATURAL_DTYPES, is_number, natural_dtype, number_constant
from nnmagic.tinynn.values.operator_calls import as_computed, is_computed
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.weak_types import as_weak

#: What is behind the name of a function where it calls itself with other arguments than those it has.
ANEW = " anew"

#: Whether a function is compiled for texts in another order than those that it was given.
_REORDERED: ContextVar[bool] = ContextVar("reordered", default=False)

#: What a parameter's annotation says: a type, a part of one, or nothing.
Pattern = Type | OpenTensor | None


def fit_template_arguments(
    ctx: Elaboration,
    function: v.LocalFunction,
    arguments: Mapping[str, v.Operand],
    span: Span,
    make_function: function_calls.FunctionMaker,
) -> tuple[dict[str, v.Operand], dict[str, Dim]]:
    """Convert the arguments of a call that is inlined to what its annotations say. Raises RefusalError.

    Return the arguments, and what the named dimensions of the annotations are for the caller.
    """
    fitted, dims = dict(arguments), dict[str, tuple[Dim, Span]]()
    declared: dict[str, Pattern] = {}
    if any(formal.destination == "Out" for formal in function.parameters):
        refuse_destinations(function, span)
    for parameter in function.definition.params:
        if parameter.ty is None:
            continue
        pattern, destination = _pattern(ctx, function.environment, parameter.ty)
        if v.is_failed(arguments[parameter.name].value) or isinstance(pattern, str):
            continue
        operand = arguments[parameter.name]
        if destination == v.GENERATOR:
            require_generator(function.name, parameter.name, operand)
            continue
        value = fit_pattern(function.name, parameter.name, pattern, operand, dims, make_function)
        if is_python_number(parameter.ty):
            value = as_weak(value)
        fitted[parameter.name] = v.Operand(value, operand.span)
        declared[parameter.name] = pattern
    names = _check_sizes(function.name, fitted, declared)
    return fitted, {**dict.fromkeys(names, ANY), **{name: dim for name, (dim, _) in dims.items()}}


def _check_sizes(
    function: str, fitted: dict[str, v.Operand], declared: Mapping[str, Pattern]
) -> Iterable[str]:
    """Let the call check sizes of arguments that only it knows; return the names of the declared ones."""
    tensors, sizes = {}, DeclaredSizes({})
    for name, pattern in declared.items():
        operand = fitted[name]
        if pattern is not None and isinstance(operand.value, v.Computed | v.TupleOf):
            tensor = as_computed(operand)
            type_ = tensor.type
            if not isinstance(pattern, OpenTensor):
                type_ = pattern
            elif isinstance(type_, TensorType):
                type_ = pattern.relay_type(type_)
            tensors[name] = (f"{function}: `{name}`", tensor, type_, operand.span)
    for name, checked in zip(tensors, sizes.check_all(tensors.values()), strict=True):
        if checked is not tensors[name][1]:
            is_tensor = isinstance(checked.type, TensorType)
            value = checked if is_tensor else v.as_value(checked.expr, checked.type)
            fitted[name] = replace(fitted[name], value=value)
    return sizes.known


def _pattern(
    ctx: Elaboration, environment: v.Environment, annotation: tree.Annotation
) -> tuple[Pattern | str, str]:
    """Return what `parameter_type` does, in the scope of its function; two "" where an error was reported."""
    outer, ctx.environment = ctx.environment, environment
    try:
        value = ctx.evaluate(annotation.expr)
    finally:
        ctx.environment = outer
    if v.is_failed(value):
        return "", ""
    pattern, destination = parameter_type(v.Operand(value, ctx.span(annotation.span)))
    return (None if isinstance(pattern, OpenType) else pattern), destination


def refuse_destinations(
    function: v.GlobalFunction | v.LocalFunction | v.SpecializableFunction, span: Span
) -> None:
    """Raise RefusalError for a function that changes its arguments: only one with all its types can."""
    if any(formal.changes_array for formal in function.parameters):
        message = "one that changes its arguments is called from a cell only if all its types are written"
        raise v.RefusalError(message, span, hint="write the types of its other parameters")


def fit_pattern(
    function: str,
    parameter: str,
    pattern: Pattern,
    operand: v.Operand,
    dims: dict[str, tuple[Dim, Span]],
    make_function: function_calls.FunctionMaker,
) -> v.Value:
    """Convert an argument to what an annotation says of it. Raises RefusalError."""
    if pattern is None:
        return operand.value
    if not isinstance(pattern, OpenTensor):
        fitted = function_calls.fit_argument(function, parameter, pattern, operand, dims, make_function)
        return v.as_value(fitted.expr, fitted.type)
    operand = as_number(operand)
    if isinstance(operand.value, v.Known) and is_number(operand.value.value) and pattern.dims(0) is not None:
        if pattern.dtype is None:
            return operand.value
        number = operand.value.value
        assert isinstance(number, bool | int | float | complex)
        dtype = pattern.own_dtype
        if dtype is not None:
            return number_constant(number, dtype.name, operand.span)
        if pattern.allows(natural_dtype(number)):
            return operand.value
    wanted = f"`{parameter}` is {pattern!r}"
    tensor = as_computed(operand) if is_computed(operand.value) else None
    if tensor is None or not isinstance(tensor.type, TensorType):
        raise v.RefusalError(f"{function}: {wanted}, not {describe(operand.value)}", operand.span)
    type_ = tensor.type
    if not pattern.allows(type_.dtype):
        dtype = pattern.own_dtype
        hint = None if dtype is None else f"convert it with .astype({dtype.short})"
        message = f"{function}: {wanted}, not a tensor of {dtype_short_name(type_.dtype)}"
        raise v.RefusalError(message, operand.span, hint=hint)
    written = pattern.dims(len(type_.shape))
    if written is None:
        raise v.RefusalError(f"{function}: {wanted}, not a tensor of rank {len(type_.shape)}", operand.span)
    for dim, size in zip(written, type_.shape, strict=True):
        if dim is not None:
            own_dim = AnyDim(dim) if isinstance(dim, str) else dim
            function_calls.match_dim_of_argument(function, parameter, own_dim, size, operand, dims)
    return operand.value


def is_template(ctx: Elaboration, function: v.LocalFunction) -> bool:
    """Return whether a function is one of the cell whose parameters have no types."""
    template = ctx.resolver.templates.get(function.name)
    return template is not None and template.definition is function.definition


def _compile_instance(
    ctx: Elaboration, name: str, types: Mapping[str, Type | Generator], values: Mapping[str, object]
) -> CompiledGlobal:
    """Return a function of the cell, compiled for the types of a call. Raises TinyNNError."""
    name = name.removesuffix(ANEW)
    key = (name, tuple(types.items()), tuple((item, repr(value)) for item, value in values.items()))
    if key not in ctx.instances:
        assert ctx.specialize is not None
        program = ctx.specialize(Specialization(name, types, values))
        (info,) = (item for item in program.functions if item.name == name)
        ctx.instances[key] = CompiledGlobal(name, program.module, info.parameters, program.known_types)
        ctx.resolver.looked_up.update(program.captured)
        ctx.warnings |= {
            (item.message, item.span): item for item in program.warnings if item.span is not None
        }
    return ctx.instances[key]


def without_static(
    ctx: Elaboration, function: v.GlobalFunction, operands: Sequence[v.Operand], span: Span
) -> list[v.Operand]:
    """Return the arguments that a function gives itself without those that it is compiled for.

    Raises RefusalError for another value of these.
    """
    left_out = v.Known(None)
    formals = [
        v.Formal(name, default=parameter or left_out) for name, parameter in ctx.own_parameters.items()
    ]
    given = function_calls.bind_arguments(function.written, formals, operands, span)
    left = []
    for name, parameter in ctx.own_parameters.items():
        operand = given[name]
        if parameter is None and operand.value is not left_out:
            left.append(replace(operand, keyword=name))
        elif parameter is not None and not v.is_failed(operand.value) and operand.value != parameter:
            message = f"{function.written}: `{name}` is {describe(parameter)} here, and cannot change"
            raise v.RefusalError(message, operand.span, hint="write another function for the other value")
    return left


def call_for_other_texts(
    ctx: Elaboration,
    function: v.GlobalFunction,
    operands: list[v.Operand],
    span: Span,
    make_function: function_calls.FunctionMaker,
) -> v.Value | None:
    """Return a call of a function by itself with shorter texts, or the same in another order; else None.

    It is compiled for these, too. That ends, since the order alone changes once. Raises RefusalError.
    """
    again = ctx.resolver.templates.get(f"{function.name}{ANEW}")
    if again is None:
        return None
    formals = [v.Formal(name, default=known or v.Known(None)) for name, known in ctx.own_parameters.items()]
    given = function_calls.bind_arguments(function.written, formals, operands, span)
    own, other = list[str](), list[str]()
    for name, parameter in ctx.own_parameters.items():
        value = given[name].value
        if parameter is None or value == parameter:
            continue
        if not isinstance(parameter, v.Known) or not isinstance(value, v.Known):
            return None
        if not isinstance(parameter.value, str) or not isinstance(value.value, str):
            return None
        own.append(parameter.value)
        other.append(value.value)
    is_order = sorted(own) == sorted(other) and not _REORDERED.get()
    if sum(map(len, other)) >= sum(map(len, own)) and not is_order:
        return None
    token = _REORDERED.set(is_order or _REORDERED.get())
    try:
        return call_specialized(ctx, again, operands, span, make_function)
    finally:
        _REORDERED.reset(token)


def varies(ctx: Elaboration, function: v.GlobalFunction, operands: Sequence[v.Operand], span: Span) -> bool:
    """Return whether a function that is compiled for arguments calls itself with others than these.

    What varies is recorded: sizes of arrays, and whether a number is an int or a float.
    """
    if any(v.is_failed(each.value) for each in operands):
        return False
    before = dict(ctx.varying)
    for name, operand in function_calls.bind_arguments(
        function.written, function.parameters, operands, span
    ).items():
        argument = ctx.varying.get(name, ctx.own_arguments.get(name))
        try:
            passed = _argument_type(function.written, name, operand)
        except v.RefusalError:
            continue
        if argument is not None and (wider := _wider(argument, passed)) not in (None, argument):
            assert wider is not None
            ctx.varying[name] = wider
    return ctx.varying != before


def _wider(type_: Type, passed: Type | Generator) -> Type | None:
    """Return the type of a parameter that takes two arguments of different sizes, or an int and a float."""
    match type_, passed:
        case NumberType(dtype=dtype), NumberType(dtype=other):
            is_wider = NATURAL_DTYPES.index(dtype) >= NATURAL_DTYPES.index(other)
            return type_ if is_wider else passed
        case TensorType(shape=shape), TensorType(shape=other_shape, dtype=dtype) if (
            len(shape) == len(other_shape) and dtype == type_.dtype
        ):
            dims = zip(shape, other_shape, strict=True)
            sizes = (AnyDim(f"n{a}") if isinstance(a, int) and a != b else a for a, b in dims)
            return replace(type_, shape=tuple(sizes))
        case RecordType(name="list", fields=(rows,)), RecordType(name="list", fields=(other_rows,)):
            wider = _wider(rows, other_rows)
            return None if wider is None else replace(type_, fields=(wider,))
    return None


def call_specialized(
    ctx: Elaboration,
    function: v.LocalFunction | v.SpecializableFunction,
    operands: list[v.Operand],
    span: Span,
    make_function: function_calls.FunctionMaker,
) -> v.Value:
    """Call a function compiled for the types of this call: of an earlier cell, or one that calls itself.

    Raises RefusalError.
    """
    refuse_destinations(function, span)
    operands = list(map(_list_as_rows, operands))
    written = function.name if isinstance(function, v.LocalFunction) else function.written
    arguments = function_calls.bind_arguments(written, function.parameters, operands, span)
    if any(v.is_failed(operand.value) for operand in arguments.values()):
        return v.FAILED
    linked = specialized(ctx, function, arguments, span)
    refuse_destinations(linked, span)
    names = [formal.name for formal in linked.parameters]
    left = [v.Operand(arguments[name].value, arguments[name].span, name) for name in names]
    if v.takes_generators(linked):
        return call_with_generators(ctx, linked, left, span, make_function)
    return function_calls.call_function(linked, left, span, make_function)


def _list_as_rows(operand: v.Operand) -> v.Operand:
    """Return a list of numbers as one of rows; any other operand as it is."""
    value = operand.value
    if not isinstance(value, v.TupleOf) or value.written != "list" or value.record is not None:
        return operand
    if not all(
        isinstance(item, v.Known | v.Dimension) or getattr(item, "weak", False) for item in value.items
    ):
        return operand
    rows = as_list_of_rows(value, operand.span)
    return operand if rows is None else replace(operand, value=rows)


def specialized(
    ctx: Elaboration,
    function: v.LocalFunction | v.SpecializableFunction,
    given: Mapping[str, v.Operand],
    span: Span,
) -> v.GlobalFunction:
    """Return a function compiled for the arguments of a call, of which it takes those that are not known.

    Raises RefusalError.
    """
    is_own = isinstance(function, v.LocalFunction)
    written = function.name if isinstance(function, v.LocalFunction) else function.written
    written = written.removesuffix(ANEW)
    defaults = {formal.name: formal.default for formal in function.parameters}
    types: dict[str, Type | Generator] = {}
    values: dict[str, object] = {}
    for name, operand in given.items():
        if not is_own and operand.value is defaults[name]:
            continue
        known = v.static_or(as_number(operand).value, MISSING)
        if known is MISSING or (is_own and is_number(known)):  # a number changes from call to call
            type_ = _argument_type(written, name, operand)
            types[name] = _with_named_sizes(type_, name) if is_own else type_
        else:
            values[name] = known
    try:
        compiled = (
            _compile_instance(ctx, function.name, types, values)
            if isinstance(function, v.LocalFunction)
            else as_compiled_function(function.specialize(types, values))
        )
    except CompileError as error:
        first = error.diagnostics[0]
        notes = () if first.span is None else (Note(first.message, first.span),)
        shown = "" if notes else f": {first.message}"
        message = f"`{written}` cannot be compiled for these arguments{shown}"
        raise v.RefusalError(message, span, hint=first.hint, notes=notes) from None
    except TypeError as error:
        raise v.RefusalError(str(error), span) from None
    assert compiled is not None
    return ctx.resolver.linker.link_function(written, compiled, span)


def _argument_type(function: str, parameter: str, operand: v.Operand) -> Type | Generator:
    value = operand.value
    if isinstance(value, v.GeneratorOf):
        return GENERATOR_ANNOTATION
    if isinstance(value, v.Known) and is_number(value.value):
        assert isinstance(value.value, bool | int | float | complex)
        return NumberType((), natural_dtype(value.value))
    operand = as_number(operand)
    operand = replace(operand, value=function_calls.list_as_record(operand.value, operand.span))
    value = operand.value
    tensor = as_computed(operand) if is_computed(value) else None
    if tensor is None or isinstance(tensor.type, FuncType):
        message = (
            f"{function}: `{parameter}` is {describe(value)}, for which no function is compiled by itself"
        )
        other = "a function of this cell that does not call itself"
        hint = f"{other} takes anything"
        items = value.items if isinstance(value, v.TupleOf) else ()
        lengths = {len(item.items) if isinstance(item, v.TupleOf) else -1 for item in items}
        if isinstance(value, v.ListOfRows) or len(lengths) == 1:
            text = source_text(operand.span, as_argument=True)
            hint = f"give an array, as in np.array({text}); or {other}"
        raise v.RefusalError(message, operand.span, hint=hint)
    return _with_numbers(tensor.type, value)


def _with_named_sizes(type_: Type | Generator, parameter: str) -> Type | Generator:
    """Return the type of an argument with names for sizes without one: a result may have the same."""
    if isinstance(type_, RecordType) and type_.name == LIST:
        (rows,) = type_.fields
        named = _with_named_sizes(rows, parameter)
        assert isinstance(named, TensorType)
        return replace(type_, fields=(named,))
    if not isinstance(type_, TensorType) or AnyDim() not in type_.shape:
        return type_
    dims = (AnyDim(f"{parameter}_{axis}") if dim == AnyDim() else dim for axis, dim in enumerate(type_.shape))
    return replace(type_, shape=tuple(dims))


def _with_numbers(type_: Type, value: v.Value) -> Type:
    """Return the type of an argument, with that of a number where it is one of Python's."""
    match type_, value:
        case TupleType(fields=fields), v.TupleOf(items=items):
            record = type_ if isinstance(type_, RecordType) else None
            return v.tuple_type(map(_with_numbers, fields, items), record)
        case TensorType(shape=(), dtype=dtype), v.Known() | v.Dimension() | v.Computed(weak=True):
            return NumberType((), dtype)
    return type_
