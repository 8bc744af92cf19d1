"""Differentiate compiled functions: a gradient is the text of a cell, compiled as any other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from keyword import iskeyword

from nnmagic.diagnostics import Source, TinyNNWarning, kind_of
from nnmagic.functions.build_or_load import Use
from nnmagic.functions.compile_cell import compile_cell
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.relay.expr import Function
from nnmagic.relay.gradients.trees import float_leaves, leaves
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type, VarDim
from nnmagic.tinynn.program import MISSING, ParameterInfo
from nnmagic.tracebacks import short_errors

Argnums = int | Sequence[int]


@short_errors
def grad(function: CompiledFunction, argnums: Argnums = 0, *, has_aux: bool = False) -> CompiledFunction:
    """Return the gradient of a compiled function, as a compiled function of the same parameters.

    Args:
        function: a compiled function that returns a float of rank 0.
        argnums: the number of the parameter to differentiate by, or several, which give a tuple of
            gradients. Negative numbers count from the end.
        has_aux: the function returns ``(value, aux)``; the result is ``(gradient, aux)``.

    Returns:
        The compiled function. A gradient has the structure, shape and dtype of its parameter.

    Raises:
        TinyNNError: what the function does has no gradient, or argnums do not fit.
        TypeError: for a wrong argument.

    """
    return _compiled(function, "grad", _options(argnums, has_aux=has_aux))


@short_errors
def value_and_grad(
    function: CompiledFunction, argnums: Argnums = 0, *, has_aux: bool = False
) -> CompiledFunction:
    """Return a compiled function that gives ``(value, gradient)``; see ``grad``.

    With ``has_aux`` it gives ``((value, aux), gradient)``.
    """
    return _compiled(function, "value_and_grad", _options(argnums, has_aux=has_aux))


@short_errors
def vjp(function: CompiledFunction, argnums: Argnums | None = None) -> CompiledFunction:
    """Return a compiled function that gives ``(result, gradients)`` for a cotangent of the result.

    Its parameters are those of the function, then ``cotangent``, of the result's type. ``gradients`` is a
    tuple, one for each parameter of ``argnums``: by default, of each that is made of floats.
    """
    return _compiled(function, "vjp", "", argnums)


@short_errors
def jvp(function: CompiledFunction, argnums: Argnums | None = None) -> CompiledFunction:
    """Return a compiled function that gives ``(result, tangent)``: the directional derivative.

    Its parameters are those of the function, then ``tangent_NAME`` for each parameter of ``argnums``: by
    default, for each that is made of floats.
    """
    return _compiled(function, "jvp", "", argnums)


def _options(argnums: Argnums, *, has_aux: bool) -> str:
    if not isinstance(has_aux, bool):
        raise TypeError(f"has_aux must be True or False, not {has_aux!r}")
    numbers = _check_argnums(argnums)
    given = numbers[0] if isinstance(argnums, int) else tuple(numbers)
    return f", argnums={given!r}" + (", has_aux=True" if has_aux else "")


def _check_argnums(argnums: Argnums) -> list[int]:
    listed = [argnums] if isinstance(argnums, int) else argnums
    if not isinstance(listed, list | tuple) or any(type(number) is not int for number in listed):
        raise TypeError(f"argnums must be an int or a tuple of ints, not {argnums!r}")
    return list(listed)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter: its name in the text, its type, and how a call gives it."""

    name: str
    type: Type
    info: ParameterInfo

    @property
    def is_float(self) -> bool:
        floats = leaves(float_leaves(self.type), self.type)
        return bool(floats) and all(floats)


def _compiled(function: object, kind: str, options: str, argnums: Argnums | None = None) -> CompiledFunction:
    """Compile the text of the gradient, which calls the function."""
    if not isinstance(function, CompiledFunction):
        hint = "compile it first, as with @nnmagic.function"
        raise TypeError(f"nnmagic.{kind} takes a compiled function, not {kind_of(function)}: {hint}")
    definition = function._definition
    if definition.call.destinations:
        raise TypeError(f"{function.name}() changes its arguments, and has no gradient: return the values")
    own = definition.module.functions[function.name]
    parameters = _parameters(own, definition.parameters)
    namespace: dict[str, object] = {"_function": function, **definition.types}
    namespace |= {
        f"_default_{each.name}": each.info.default for each in parameters if each.info.default is not MISSING
    }
    name = f"{function.name}_{kind}" if function.name.isidentifier() else kind
    text = _TEXTS[kind](name, function.name, parameters, own, options, argnums)
    source = Source(f"<{kind} of {function.name}>", text)
    cell = compile_cell(source, namespace, definition.options, cache=definition.use is not Use.NO)
    for warning in cell.warnings:
        warnings.warn(warning.render(), TinyNNWarning, stacklevel=4)
    result = cell.result
    assert isinstance(result, CompiledFunction)  # the text has all types
    return result


def _parameters(function: Function, infos: Sequence[ParameterInfo]) -> list[_Parameter]:
    known = {info.name: info for info in infos}
    unnamed = iter(range(1_000_000))
    found: list[_Parameter] = []
    for index, param in enumerate(function.params):
        hint = param.name_hint
        name = hint if hint.isidentifier() and not iskeyword(hint) and hint != "_function" else f"x{index}"
        while name in {each.name for each in found}:
            name += "_"
        assert param.type_annotation is not None
        type_ = _named(param.type_annotation, unnamed)
        found.append(_Parameter(name, type_, known.get(hint, ParameterInfo(name))))
    return found


def _named(type_: Type, unnamed: Iterator[int]) -> Type:
    """Return the type with a name for each size that has none."""

    def name(dim: Dim) -> Dim:
        if isinstance(dim, AnyDim) and dim.label is None:
            return AnyDim(f"size_{next(unnamed)}")
        return AnyDim(dim.name) if isinstance(dim, VarDim) else dim

    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(tuple(map(name, shape)), dtype)
        case TupleType(fields=fields):
            return TupleType(tuple(_named(field, unnamed) for field in fields))
    return type_


def _signature(parameters: Sequence[_Parameter], more: Sequence[str] = ()) -> str:
    """Return the parameters of a definition."""
    words: list[str] = []
    kinds = [each.info.kind for each in parameters]
    for index, each in enumerate(parameters):
        if each.info.kind == "KEYWORD_ONLY" and (index == 0 or kinds[index - 1] != "KEYWORD_ONLY"):
            words += [*more, "*"]
        default = "" if each.info.default is MISSING or more else f" = _default_{each.name}"
        words.append(f"{each.name}: {format_type(each.type)}{default}")
        last = index + 1 == len(parameters) or kinds[index + 1] != "POSITIONAL_ONLY"
        if each.info.kind == "POSITIONAL_ONLY" and last:
            words.append("/")
    return ", ".join(words if "KEYWORD_ONLY" in kinds else [*words, *more])


def _arguments(parameters: Sequence[_Parameter]) -> str:
    return ", ".join(
        f"{each.name}={each.name}" if each.info.kind == "KEYWORD_ONLY" else each.name for each in parameters
    )


def _gradient_text(
    name: str,
    of: str,
    parameters: Sequence[_Parameter],
    own: Function,
    options: str,
    argnums: Argnums | None,
) -> str:
    del own, argnums
    kind = name.removeprefix(f"{of}_")
    what = "The value and the gradient" if kind == "value_and_grad" else "The gradient"
    return (
        f"def {name}({_signature(parameters)}):\n"
        f'    """{what} of {of}."""\n'
        f"    return {kind}(_function{options})({_arguments(parameters)})\n"
    )


def _chosen(parameters: Sequence[_Parameter], argnums: Argnums | None) -> list[_Parameter]:
    """Return the parameters to differentiate by."""
    if argnums is None:
        return [each for each in parameters if each.is_float]
    found = []
    for number in _check_argnums(argnums):
        if not -len(parameters) <= number < len(parameters):
            raise ValueError(f"argnums has {number}, but there are {len(parameters)} parameters")
        found.append(parameters[number])
    return found


def _lambda(chosen: Sequence[_Parameter], parameters: Sequence[_Parameter]) -> str:
    return f"lambda {', '.join(each.name for each in chosen)}: _function({_arguments(parameters)})"


def _vjp_text(
    name: str,
    of: str,
    parameters: Sequence[_Parameter],
    own: Function,
    options: str,
    argnums: Argnums | None,
) -> str:
    del options
    chosen = _chosen(parameters, argnums)
    assert own.ret_type is not None
    result = format_type(_named(own.ret_type, iter(range(10_000, 20_000))))
    return (
        f"def {name}({_signature(parameters, [f'cotangent: {result}'])}):\n"
        f'    """The result of {of}, and the gradients for a cotangent of it."""\n'
        f"    result, pull = vjp({_lambda(chosen, parameters)}, {', '.join(each.name for each in chosen)})\n"
        f"    return result, pull(cotangent)\n"
    )


def _jvp_text(
    name: str,
    of: str,
    parameters: Sequence[_Parameter],
    own: Function,
    options: str,
    argnums: Argnums | None,
) -> str:
    del own, options
    chosen = _chosen(parameters, argnums)
    tangents = [f"tangent_{each.name}: {format_type(each.type)}" for each in chosen]
    primals = "".join(f"{each.name}, " for each in chosen)
    directions = "".join(f"tangent_{each.name}, " for each in chosen)
    return (
        f"def {name}({_signature(parameters, tangents)}):\n"
        f'    """The result of {of}, and its directional derivative."""\n'
        f"    return jvp({_lambda(chosen, parameters)}, ({primals}), ({directions}))\n"
    )


_TEXTS: dict[str, Callable[..., str]] = {
    "grad": _gradient_text,
    "value_and_grad": _gradient_text,
    "vjp": _vjp_text,
    "jvp": _jvp_text,
}
