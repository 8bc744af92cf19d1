"""Differentiate compiled functions: a gradient is the text of a cell, compiled as any other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import TypeAlias, TypeVar, cast, overload

from nnmagic.diagnostics import Source, TinyNNWarning, kind_of
from nnmagic.functions.arguments.records import record_class, records_in
from nnmagic.functions.caching.build_or_load import Use
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import Definition
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.expr import Function
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.module import TypeData
from nnmagic.relay.signatures import format_type
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import AnyDim, Dim, RecordType, TensorType, TupleType, Type, VarDim
from nnmagic.tinynn.parameters import MISSING, ParameterInfo
from nnmagic.tinynn.types.annotations import OpenTensor
from nnmagic.tracebacks import short_errors, warn_caller

#: What is differentiated: the gradient of a function without types has none either.
_Differentiable = CompiledFunction | SpecializingFunction
_Function = TypeVar("_Function", bound=_Differentiable)

Argnums = int | str | Sequence[int | str]
Axes: TypeAlias = "int | tuple[Axes, ...] | None"


@short_errors
def grad(function: _Function, argnums: Argnums = 0, *, has_aux: bool = False) -> _Function:
    """Return the gradient of a compiled function, as a compiled function of the same parameters.

    Args:
        function: a compiled function that returns a float of rank 0.
        argnums: the number or the name of the parameter to differentiate by, or several, which give a
            tuple of gradients. Negative numbers count from the end.
        has_aux: the function returns ``(value, aux)``; the result is ``(gradient, aux)``.

    Returns:
        The compiled function. A gradient has the structure, shape and dtype of its parameter. Of a function
        without types it is one that is compiled for the types of each call.

    Raises:
        TinyNNError: what the function does has no gradient, or argnums do not fit.
        TypeError: for a wrong argument.

    """
    return _compile_text(function, "grad", _options(argnums, has_aux=has_aux))


@short_errors
def value_and_grad(function: _Function, argnums: Argnums = 0, *, has_aux: bool = False) -> _Function:
    """Return a compiled function that gives ``(value, gradient)``; see ``grad``.

    With ``has_aux`` it gives ``((value, aux), gradient)``.
    """
    return _compile_text(function, "value_and_grad", _options(argnums, has_aux=has_aux))


@overload
def vjp(function: CompiledFunction, argnums: Argnums | None = None) -> CompiledFunction: ...


@overload
def vjp(function: SpecializingFunction, argnums: Argnums | None = None) -> SpecializingFunction: ...


@short_errors
def vjp(function: _Differentiable, argnums: Argnums | None = None) -> _Differentiable:
    """Return a compiled function that gives ``(result, gradients)`` for a cotangent of the result.

    Its parameters are those of the function, then ``cotangent``, of the result's type (``cotangent_`` if the
    function has such a parameter itself). ``gradients`` is a
    tuple, one for each parameter of ``argnums``: by default, of each that is made of floats, or has no type.
    """
    return _compile_text(function, "vjp", "", argnums)


@overload
def jvp(function: CompiledFunction, argnums: Argnums | None = None) -> CompiledFunction: ...


@overload
def jvp(function: SpecializingFunction, argnums: Argnums | None = None) -> SpecializingFunction: ...


@short_errors
def jvp(function: _Differentiable, argnums: Argnums | None = None) -> _Differentiable:
    """Return a compiled function that gives ``(result, tangent)``: the directional derivative.

    Its parameters are those of the function, then ``tangent_NAME`` for each parameter of ``argnums``: by
    default, for each that is made of floats, or has no type.
    """
    return _compile_text(function, "jvp", "", argnums)


@short_errors
def jacobian(function: _Function, argnums: Argnums = 0) -> _Function:
    """Return a compiled function that gives the Jacobian: the derivative of each element of the result.

    Args:
        function: a compiled function that returns a tensor of floats, or a tuple of them.
        argnums: as in ``grad``.

    Returns:
        The compiled function. A Jacobian has the shape of the result, then that of the parameter.

    Raises:
        TinyNNError: what the function does has no gradient, or argnums do not fit.
        TypeError: for a wrong argument.

    """
    return _compile_text(function, "jacobian", _options(argnums, has_aux=False))


@short_errors
def hessian(function: _Function, argnums: Argnums = 0) -> _Function:
    """Return a compiled function that gives the second derivatives of a function to a float of rank 0.

    With one parameter of a shape the result has that shape twice; with several ``argnums`` it is a tuple of
    tuples, one for each pair. Raises as ``jacobian`` does.
    """
    return _compile_text(function, "hessian", _options(argnums, has_aux=False))


@short_errors
def vmap(function: _Function, in_axes: Axes = 0, out_axes: Axes = 0) -> _Function:
    """Return a compiled function that computes another for each element of an axis of its arguments.

    Args:
        function: a compiled function of tensors and tuples of tensors.
        in_axes: the axis of each parameter at which the examples stand; None for what all examples share.
            One int is for all parameters.
        out_axes: the axis of the result at which the examples stand, or a tuple with one for each item.

    Returns:
        The compiled function, for any number of examples.

    Raises:
        TinyNNError: what the function does cannot be batched, or the axes do not fit.
        TypeError: for a wrong argument.
        ValueError: in_axes has not one axis for each parameter.

    """
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not _are_axes(axes, optional=name == "in_axes"):
            kinds = "an int, None" if name == "in_axes" else "an int"
            raise TypeError(f"{name} must be {kinds} or a tuple of these, not {axes!r}")
    return _compile_text(function, "vmap", repr(out_axes), in_axes=in_axes)


def _are_axes(axes: object, *, optional: bool) -> bool:
    if isinstance(axes, tuple):
        return bool(axes) and all(_are_axes(axis, optional=optional) for axis in axes)
    return type(axes) is int or (optional and axes is None)


def _options(argnums: Argnums, *, has_aux: bool) -> str:
    if not isinstance(has_aux, bool):
        raise TypeError(f"has_aux must be True or False, not {has_aux!r}")
    numbers = _check_argnums(argnums)
    given = numbers[0] if isinstance(argnums, int | str) else tuple(numbers)
    return f", argnums={given!r}" + (", has_aux=True" if has_aux else "")


def _check_argnums(argnums: Argnums) -> list[int | str]:
    listed = [argnums] if isinstance(argnums, int | str) else argnums
    if not isinstance(listed, list | tuple) or any(type(number) not in (int, str) for number in listed):
        raise TypeError(f"argnums must be an int, a name or a tuple of these, not {argnums!r}")
    return list(listed)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter: its name in the text, its type, or what is written of it, and how a call gives it.

    What is written the text has as the value of a name.
    """

    name: str
    type: Type | OpenTensor | None
    info: ParameterInfo
    data_types: Mapping[str, TypeData] = field(default_factory=dict)

    @property
    def is_float(self) -> bool:
        if self.type is None or isinstance(self.type, OpenTensor):
            return True  # as far as is known before a call
        return any(map(DataTypes(self.data_types, str).flows, leaf_types(self.type)))

    @property
    def annotation(self) -> str:
        if self.type is None:
            return ""
        if isinstance(self.type, OpenTensor):
            return f": _type_{self.name}"
        return f": {format_type(self.type)}"


def _compile_text(
    function: _Function, kind: str, options: str, argnums: Argnums | None = None, in_axes: Axes = None
) -> _Function:
    """Compile the text of the gradient, which calls the function."""
    namespace: dict[str, object]
    target: object = function
    if isinstance(target, SpecializingFunction):
        template, result = target._template, None
        compile_options, cache = template.options, template.cache
        parameters = [
            _Parameter(parameter.name, template.info.open[parameter.name], parameter)
            for parameter in target.parameters
        ]
        changes = any(parameter.destination for parameter in target.parameters)
        namespace = {}
    elif isinstance(target, CompiledFunction):
        definition = target._definition
        compile_options, cache = definition.options, definition.use is not Use.NO
        own = definition.module.functions[target.name]
        parameters, result = _parameters(own, definition), own.ret_type
        changes = bool(definition.call.destinations)
        namespace = {**definition.types}
    else:
        hint = "compile it first, as with @nnmagic.function"
        raise TypeError(f"nnmagic.{kind} takes a compiled function, not {kind_of(target)}: {hint}")
    if isinstance(target, CompiledFunction) and target._definition.call.generators:
        hint = f"call {kind}({function.name}) in a cell, and give it the generator there"
        raise TypeError(f"{function.name}() draws from a generator of its caller: {hint}")
    if changes:
        raise TypeError(f"{function.name}() changes its arguments, and has no gradient: return the values")
    if kind == "vmap":
        parameters, options = _batch_parameters(parameters, in_axes, options)
    namespace["_function"] = function
    namespace |= {
        f"_type_{parameter.name}": parameter.type
        for parameter in parameters
        if isinstance(parameter.type, OpenTensor)
    }
    for type_ in (*(parameter.type for parameter in parameters), result):
        known = None if isinstance(type_, OpenTensor) else type_
        namespace |= {record.name: record_class(record) for record in records_in(known)}
    namespace |= {
        f"_default_{parameter.name}": parameter.info.default
        for parameter in parameters
        if parameter.info.default is not MISSING
    }
    name = f"{function.name}_{kind}" if function.name.isidentifier() else kind
    text = _text(kind, name, function.name, parameters, result, options, argnums)
    source = Source(f"<{kind} of {function.name}>", text)
    cell = compile_cell(source, namespace, compile_options, cache=cache, any_name=True)
    for warning in cell.warnings:
        warn_caller(warning.render(), TinyNNWarning)
    return cast(_Function, cell.result)


def _parameters(function: Function, definition: Definition) -> list[_Parameter]:
    known = {info.name: info for info in definition.parameters}
    unnamed = iter(range(1_000_000))
    parameters: list[_Parameter] = []
    for index, param in enumerate(function.params):
        hint = param.name_hint
        name = hint if hint.isidentifier() and not iskeyword(hint) and hint != "_function" else f"x{index}"
        while name in {parameter.name for parameter in parameters}:
            name += "_"
        assert param.type_annotation is not None
        type_ = _name_sizes(param.type_annotation, unnamed)
        parameters.append(
            _Parameter(name, type_, known.get(hint, ParameterInfo(name)), definition.module.types)
        )
    return parameters


def _name_sizes(type_: Type, unnamed: Iterator[int]) -> Type:
    """Return the type with a name for each size that has none."""

    def name(dim: Dim) -> Dim:
        if isinstance(dim, AnyDim) and dim.label is None:
            return AnyDim(f"size_{next(unnamed)}")
        return AnyDim(dim.name) if isinstance(dim, VarDim) else dim

    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(tuple(map(name, shape)), dtype)
        case TupleType(fields=fields):
            return replace(type_, fields=tuple(_name_sizes(field, unnamed) for field in fields))
    return type_


def _signature(parameters: Sequence[_Parameter], more: Sequence[str] = ()) -> str:
    """Return the parameters of a definition."""
    words: list[str] = []
    kinds = [parameter.info.kind for parameter in parameters]
    for index, parameter in enumerate(parameters):
        if parameter.info.kind == "KEYWORD_ONLY" and (index == 0 or kinds[index - 1] != "KEYWORD_ONLY"):
            words += [*more, "*"]
        # The cotangent comes behind them without a default, so Python allows none before it.
        is_required = bool(more) and parameter.info.kind != "KEYWORD_ONLY"
        is_required |= parameter.info.default is MISSING
        default = "" if is_required else f" = _default_{parameter.name}"
        words.append(f"{parameter.name}{parameter.annotation}{default}")
        last = index + 1 == len(parameters) or kinds[index + 1] != "POSITIONAL_ONLY"
        if parameter.info.kind == "POSITIONAL_ONLY" and last:
            words.append("/")
    return ", ".join(words if "KEYWORD_ONLY" in kinds else [*words, *more])


def _arguments(parameters: Sequence[_Parameter]) -> str:
    return ", ".join(
        f"{parameter.name}={parameter.name}" if parameter.info.kind == "KEYWORD_ONLY" else parameter.name
        for parameter in parameters
    )


def _chosen(parameters: Sequence[_Parameter], argnums: Argnums | None) -> list[_Parameter]:
    """Return the parameters to differentiate by."""
    if argnums is None:
        return [parameter for parameter in parameters if parameter.is_float]
    chosen_parameters = []
    named = {parameter.name: number for number, parameter in enumerate(parameters)}
    for argnum in _check_argnums(argnums):
        number = named.get(argnum) if isinstance(argnum, str) else argnum
        if number is None:
            raise ValueError(f"argnums has {argnum!r}, but the parameters are {', '.join(named)}")
        if not -len(parameters) <= number < len(parameters):
            raise ValueError(f"argnums has {number}, but there are {len(parameters)} parameters")
        chosen_parameters.append(parameters[number])
    return chosen_parameters


def _batch_parameters(
    parameters: Sequence[_Parameter], in_axes: Axes, out_axes: str
) -> tuple[list[_Parameter], str]:
    """Return the parameters with the axis of the examples, and the axes for the text."""
    count = len(parameters)
    axis_specs = in_axes if isinstance(in_axes, tuple) else (in_axes,) * count
    if len(axis_specs) != count:
        raise ValueError(f"in_axes has {len(axis_specs)} axes, but there are {count} parameters")
    words = {name for parameter in parameters for name in re.findall(r"\w+", parameter.annotation)}
    # Not the name of a size of the parameters, which would have to be equal.
    name = next(name for n in range(len(words) + 1) if (name := f"batch{n or ''}") not in words)
    batched_parameters = []
    for parameter, axes in zip(parameters, axis_specs, strict=True):
        type_: Type | OpenTensor | None
        if parameter.type is None or isinstance(parameter.type, OpenTensor):
            type_ = _open_with_axis(parameter.type, axes, name)
        else:
            type_ = _with_axis(parameter, parameter.type, axes, name)
        # A default is that of one example, without the axis.
        info = parameter.info if axes is None else replace(parameter.info, default=MISSING)
        batched_parameters.append(_Parameter(parameter.name, type_, info))
    return batched_parameters, f"in_axes={axis_specs!r}, out_axes={out_axes}"


def _open_with_axis(pattern: OpenTensor | None, axes: Axes, name: str) -> OpenTensor | None:
    """Return what is written of a type with the axis of the examples; axes that do not fit a call refuses."""
    if pattern is None or pattern.shape is None or axes is None:
        return pattern
    if Ellipsis in pattern.shape:
        return replace(pattern, shape=None)
    rank = len(pattern.shape) + 1
    if isinstance(axes, tuple) or not -rank <= axes < rank:
        return None
    shape = list(pattern.shape)
    shape.insert(axes % rank, name)
    return replace(pattern, shape=tuple(shape))


def _with_axis(parameter: _Parameter, type_: Type, axes: Axes, name: str) -> Type:
    """Return a type with the axis of the examples. Raises ValueError for axes that it cannot have."""
    if axes is None:
        return type_
    if isinstance(type_, TupleType):
        field_axes = axes if isinstance(axes, tuple) else (axes,) * len(type_.fields)
        if len(field_axes) != len(type_.fields):
            raise ValueError(
                f"in_axes has {len(field_axes)} axes for `{parameter.name}`, of {format_type(type_)}"
            )
        rows = zip(type_.fields, field_axes, strict=True)
        fields = tuple(_with_axis(parameter, own, axis, name) for own, axis in rows)
        if isinstance(type_, RecordType):
            return RecordType(fields, f"{type_.name}_{name}", type_.names)
        return TupleType(fields)
    if not isinstance(type_, TensorType) or isinstance(axes, tuple):
        raise ValueError(f"`{parameter.name}`, of {format_type(type_)}, has no axes {axes!r} to map over")  # noqa: TRY004 - the axes do not fit
    rank = len(type_.shape) + 1
    if not -rank <= axes < rank:
        raise ValueError(f"`{parameter.name}` has rank {rank} with its examples, and so no axis {axes}")
    shape = list(type_.shape)
    shape.insert(axes % rank, AnyDim(name))
    return TensorType(tuple(shape), type_.dtype)


def _free_name(name: str, parameters: Sequence[_Parameter]) -> str:
    """Return the name with underscores until no parameter has it: there are gradients of gradients."""
    while name in {parameter.name for parameter in parameters}:
        name += "_"
    return name


def _text(
    kind: str,
    name: str,
    of: str,
    parameters: Sequence[_Parameter],
    result: Type | None,
    options: str,
    argnums: Argnums | None,
) -> str:
    """Return the cell that differentiates or maps ``_function``, which is named ``of``."""
    chosen = _chosen(parameters, argnums) if kind in ("vjp", "jvp") else parameters
    names = ", ".join(parameter.name for parameter in chosen)
    function, more = f"lambda {names}: _function({_arguments(parameters)})", list[str]()
    match kind:
        case "vmap":
            what, body = f"{of} of each example", f"return vmap({function}, {options})({names})"
        case "vjp":
            shown = (
                "" if result is None else f": {format_type(_name_sizes(result, iter(range(10_000, 20_000))))}"
            )
            what = f"The result of {of}, and the gradients for a cotangent of it"
            cotangent = _free_name("cotangent", parameters)
            more = [f"{cotangent}{shown}"]
            body = f"result, pull = vjp({function}, {names})\n    return result, pull({cotangent})"
        case "jvp":
            what = f"The result of {of}, and its directional derivative"
            tangents = [_free_name(f"tangent_{parameter.name}", parameters) for parameter in chosen]
            more = [
                f"{tangent}{parameter.annotation}"
                for tangent, parameter in zip(tangents, chosen, strict=True)
            ]
            directions = "".join(f"{tangent}, " for tangent in tangents)
            body = f"return jvp({function}, ({names}, ), ({directions}))"
        case _:
            shown = {"value_and_grad": "value and the gradient", "grad": "gradient"}.get(kind, kind)
            what = f"The {shown} of {of}"
            body = f"return {kind}(_function{options})({_arguments(parameters)})"
    return f'def {name}({_signature(parameters, more)}):\n    """{what}."""\n    {body}\n'
