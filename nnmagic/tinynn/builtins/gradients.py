"""Define gradients by the names that JAX has for them."""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.relay.types import TensorType, is_float
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.values import (
    BuiltinName,
    ClosureValue,
    Computed,
    GlobalFunction,
    GradientOf,
    Known,
    LocalFunction,
    Operand,
    OperatorName,
    RefusalError,
    TupleOf,
    Value,
)

_CALLABLE = GlobalFunction | LocalFunction | ClosureValue | BuiltinName | OperatorName | GradientOf | Computed


def _function(call: Arguments) -> Operand:
    """Return the function to differentiate. Raises RefusalError."""
    function = call.given["f"]
    if not isinstance(function.value, _CALLABLE):
        message = f"{call.name}: `f` must be a function, not {describe(function.value)}"
        raise RefusalError(message, function.span, hint="give a function without calling it")
    if isinstance(function.value, Computed) and isinstance(function.value.type, TensorType):
        message = f"{call.name}: `f` must be a function, not {describe(function.value)}"
        hint = f"write {call.name}(f)(x), with the function alone in the first brackets"
        raise RefusalError(message, function.span, hint=hint)
    return function


def _gradient(kind: str) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        function = _function(call)
        has_aux = call.static("has_aux", default=False)
        if not isinstance(has_aux, bool):
            span = call.given["has_aux"].span
            raise RefusalError(f"{call.name}: `has_aux` must be True or False", span)
        return GradientOf(kind, function, _argnums(call), has_aux)

    return apply_to


def _argnums(call: Arguments) -> int | tuple[int, ...]:
    """Return the numbers of the parameters to differentiate by. Raises RefusalError."""
    given = call.static("argnums", 0)
    numbers = given if isinstance(given, tuple) else (given,)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            span = call.given["argnums"].span
            message = f"{call.name}: `argnums` must be an int or a tuple of ints"
            raise RefusalError(message, span, hint="parameters are counted from 0")
    if not numbers:
        span = call.given["argnums"].span
        raise RefusalError(
            f"{call.name}: `argnums` names no parameter", span, hint="leave it out for the first"
        )
    return given if isinstance(given, int) else tuple(int(number) for number in numbers)


def _vjp(call: Arguments) -> Value:
    function, primals = _function(call), call.given["primals"]
    assert isinstance(primals.value, TupleOf)
    if not primals.value.items:
        hint = "give the arguments of the function, as in vjp(f, x)"
        raise RefusalError("vjp: there is nothing to differentiate by", call.span, hint=hint)
    arguments = tuple(Operand(item, primals.span) for item in primals.value.items)
    return GradientOf("vjp", function, arguments=arguments)


def _jvp(call: Arguments) -> Value:
    function = _function(call)
    parts = []
    for name in ("primals", "tangents"):
        value = call.given[name].value
        if not isinstance(value, TupleOf):
            hint = "write jvp(f, (x,), (t,))"
            raise RefusalError(f"jvp: `{name}` must be a tuple", call.given[name].span, hint=hint)
        parts.append([Operand(item, call.given[name].span) for item in value.items])
    primals, tangents = parts
    if len(primals) != len(tangents) or not primals:
        message = f"jvp: there are {len(primals)} primals, and {len(tangents)} tangents"
        raise RefusalError(message, call.given["tangents"].span, hint="give a tangent for each primal")
    return GradientOf("jvp", function, arguments=(*primals, *tangents))


def _stop_gradient(call: Arguments) -> Value:
    return _stopped(call.given["x"].value, call)


def _stopped(value: Value, call: Arguments) -> Value:
    """Return the value itself, through which nothing flows back: its bits, read as what they are."""
    match value:
        case Computed(type=TensorType(dtype=dtype)) if is_float(dtype):
            made = apply("reinterpret", call.span, value, dtype=dtype)
            return Computed(made.expr, value.type, value.weak)
        case TupleOf(items=items):
            return TupleOf(tuple(_stopped(item, call) for item in items))
        case Known() | Computed():
            return value
    return value


GRADIENTS = (
    Builtin(
        "grad",
        "f argnums?=0 has_aux?=False",
        _gradient("grad"),
        "Return a function that gives the gradient of a scalar function.",
        None,
        method=False,
    ),
    Builtin(
        "value_and_grad",
        "f argnums?=0 has_aux?=False",
        _gradient("value_and_grad"),
        "Return a function that gives (value, gradient) of a scalar function.",
        None,
        method=False,
    ),
    Builtin(
        "vjp",
        "f *primals",
        _vjp,
        "Return (f(*primals), pullback); the pullback maps a cotangent to those of the primals.",
        None,
        method=False,
        form="f, *primals",
    ),
    Builtin(
        "jvp",
        "f primals tangents",
        _jvp,
        "Return (f(*primals), tangent): the directional derivative.",
        None,
        method=False,
    ),
    Builtin(
        "stop_gradient",
        "x",
        _stop_gradient,
        "Return x; no gradient flows through it.",
        None,
    ),
    Builtin(
        "detach",
        "x",
        _stop_gradient,
        "Return x; no gradient flows through it.",
        None,
    ),
)
