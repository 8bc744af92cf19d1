"""Define gradients by the names that JAX has for them.

Their reference: https://docs.jax.dev/en/latest/automatic-differentiation.html
"""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.relay.types import TensorType
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe

_CALLABLE = (
    v.GlobalFunction
    | v.LocalFunction
    | v.SpecializableFunction
    | v.ClosureValue
    | v.BuiltinName
    | v.OperatorName
    | v.GradientOf
    | v.Computed
)


def _function(call: Arguments) -> v.Operand:
    """Return the function to differentiate. Raises RefusalError."""
    function = call.given["f"]
    if not isinstance(function.value, _CALLABLE):
        raise call.mismatch("f", "a function", "give a function without calling it")
    if isinstance(function.value, v.Computed) and isinstance(function.value.type, TensorType):
        hint = f"write {call.name}(f)(x), with the function alone in the first brackets"
        raise call.mismatch("f", "a function", hint)
    return function


def _gradient(kind: str) -> Callable[[Arguments], v.Value]:
    def apply_to(call: Arguments) -> v.Value:
        function = _function(call)
        has_aux = call.static("has_aux", default=False)
        if not isinstance(has_aux, bool):
            raise call.refusal("has_aux", "`has_aux` must be True or False")
        return v.GradientOf(kind, function, _argnums(call), has_aux)

    return apply_to


def _argnums(call: Arguments) -> int | str | tuple[int | str, ...]:
    """Return the numbers or names of the parameters to differentiate by. Raises RefusalError."""
    argnums = call.static("argnums", 0)
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | str):
            span = call.at("argnums")
            message = f"{call.name}: `argnums` must be an int, a name or a tuple of these"
            raise v.RefusalError(message, span, hint="parameters are counted from 0")
    if not numbers:
        span = call.at("argnums")
        raise v.RefusalError(
            f"{call.name}: `argnums` names no parameter", span, hint="leave it out for the first"
        )
    return argnums if isinstance(argnums, int | str) else tuple(numbers)


def _jacobian(call: Arguments) -> v.Value:
    return v.GradientOf(call.name, _function(call), _argnums(call))


def _hessian(call: Arguments) -> v.Value:
    function, argnums = _function(call), _argnums(call)
    gradient = v.GradientOf("grad", function, argnums)
    return v.GradientOf("jacobian", v.Operand(gradient, function.span), argnums)


def _vmap(call: Arguments) -> v.Value:
    function = _function(call)
    axes = (call.static("in_axes", 0), call.static("out_axes", 0))
    for name, axis in zip(("in_axes", "out_axes"), axes, strict=True):
        if not _are_axes(axis, name == "in_axes"):
            span = call.at(name)
            kinds = "an int, None or a tuple of these" if name == "in_axes" else "an int or a tuple of ints"
            hint = "write an axis for each argument, as in vmap(f, in_axes=(0, None))"
            if name == "out_axes":
                hint = "write the axis of the result at which the examples stand"
            raise v.RefusalError(f"vmap: `{name}` must be {kinds}", span, hint=hint)
    return v.GradientOf("vmap", function, axes=axes)


def _are_axes(axes: object, optional: bool) -> bool:
    if isinstance(axes, tuple):
        return bool(axes) and all(_are_axes(axis, optional) for axis in axes)
    return (axes is None and optional) or (isinstance(axes, int) and not isinstance(axes, bool))


def _checkpoint(call: Arguments) -> v.Value:
    every = call.static("every", 0)
    if isinstance(every, bool) or not isinstance(every, int) or (every < 1 and "every" in call.given):
        message = "checkpoint: `every` must be a positive int, the number of rounds that are kept as one"
        raise v.RefusalError(message, call.at("every"), hint="leave it out for functions without long loops")
    return v.GradientOf("checkpoint", _function(call), every)


def _vjp(call: Arguments) -> v.Value:
    function, primals = _function(call), call.items("primals")
    if not primals:
        hint = "give the arguments of the function, as in vjp(f, x)"
        raise v.RefusalError("vjp: there is nothing to differentiate by", call.span, hint=hint)
    return v.GradientOf("vjp", function, arguments=tuple(primals))


def _jvp(call: Arguments) -> v.Value:
    function = _function(call)
    pair = []
    for name in ("primals", "tangents"):
        value = call.given[name].value
        if not isinstance(value, v.TupleOf):
            hint = "write jvp(f, (x,), (t,))"
            raise v.RefusalError(f"jvp: `{name}` must be a tuple", call.at(name), hint=hint)
        pair.append([v.Operand(item, call.at(name)) for item in value.items])
    primals, tangents = pair
    if len(primals) != len(tangents) or not primals:
        message = f"jvp: there are {len(primals)} primals, and {len(tangents)} tangents"
        raise v.RefusalError(message, call.at("tangents"), hint="give a tangent for each primal")
    return v.GradientOf("jvp", function, arguments=(*primals, *tangents))


def _custom(call: Arguments) -> v.Value:
    """Return a function with a gradient rule. Raises RefusalError."""
    function, nondiff = _function(call), call.static("nondiff_argnums", ())
    numbers = nondiff if isinstance(nondiff, tuple) else (nondiff,)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        message = f"{call.name}: `nondiff_argnums` must be an int or a tuple of ints"
        raise v.RefusalError(message, call.at("nondiff_argnums"), hint="arguments are counted from 0")
    names = ("forward", "backward") if call.name == "custom_vjp" else ("tangent",)
    rules = tuple(call.given[name] for name in names)
    each_argument = call.name == "custom_jvp" and bool(call.static("each", default=False))
    if each_argument and isinstance(rules[0].value, v.TupleOf):
        rules = tuple(v.Operand(item, rules[0].span) for item in rules[0].value.items)
    for rule in rules:
        if not isinstance(rule.value, _CALLABLE) and not (each_argument and rule.value == v.Known(None)):
            message = f"{call.name}: a rule is made of functions, not {describe(rule.value)}"
            raise v.RefusalError(message, rule.span, hint="give functions without calling them")
    return v.GradientOf(call.name, function, tuple(numbers), has_aux=each_argument, arguments=rules)


def _tree_map(call: Arguments) -> v.Value:
    trees = (call.given["tree"], *call.items("rest"))
    return v.GradientOf("tree_map", _function(call), arguments=trees)


def _stop_gradient(call: Arguments) -> v.Value:
    return v.GradientOf("stop", call.given["x"])


GRADIENTS = (
    cell_function(
        "grad",
        "f argnums?=0 has_aux?=False",
        _gradient("grad"),
        "Return a function that gives the gradient of a scalar function.",
    ),
    cell_function(
        "value_and_grad",
        "f argnums?=0 has_aux?=False",
        _gradient("value_and_grad"),
        "Return a function that gives (value, gradient) of a scalar function.",
    ),
    cell_function(
        "vjp",
        "f *primals",
        _vjp,
        "Return (f(*primals), pullback); the pullback maps a cotangent to those of the primals.",
        form="f, *primals",
    ),
    cell_function(
        "jvp", "f primals tangents", _jvp, "Return (f(*primals), tangent): the directional derivative."
    ),
    cell_function(
        "jacobian",
        "f argnums?=0",
        _jacobian,
        "Return a function that gives the derivative of each element of f's result.",
    ),
    cell_function(
        "jacfwd",
        "f argnums?=0",
        _jacobian,
        "Return jacobian(f), by a directional derivative for each element of the parameters.",
    ),
    cell_function(
        "jacrev",
        "f argnums?=0",
        _jacobian,
        "Return jacobian(f), by a pullback for each element of the result.",
    ),
    cell_function(
        "hessian",
        "f argnums?=0",
        _hessian,
        "Return a function that gives the second derivatives of a scalar function.",
    ),
    cell_function(
        "vmap",
        "f in_axes?=0 out_axes?=0",
        _vmap,
        "Return a function that computes f for each element of an axis of its arguments.",
    ),
    cell_function(
        "checkpoint",
        "f every?",
        _checkpoint,
        "Return f; its gradient computes values of f again, or every so many rounds of its loops.",
    ),
    cell_function(
        "custom_vjp",
        "f forward backward nondiff_argnums?=()",
        _custom,
        "Return f with a gradient rule: forward gives (result, residuals), backward the gradients.",
    ),
    cell_function(
        "custom_jvp",
        "f tangent nondiff_argnums?=() each?=False",
        _custom,
        "Return f with a rule for tangents: (primals, tangents) to (result, tangent).",
    ),
    cell_function(
        "tree_map",
        "f tree *rest",
        _tree_map,
        "Apply f to each tensor of nested tuples and records, or to those at the same place of several.",
        form="f, tree, *rest",
    ),
    Builtin("stop_gradient", "x", _stop_gradient, "Return x; no gradient flows through it."),
    Builtin("detach", "x", _stop_gradient, "Return x; no gradient flows through it."),
)
