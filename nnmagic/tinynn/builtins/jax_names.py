"""Define what JAX has beside NumPy's names: control flow that takes functions, and transformations.

A loop of ``jax.lax`` is a function in the language, which is inlined: its rounds may be differentiated in
reverse mode, `while_loop`'s too.

Their reference: https://docs.jax.dev/en/latest/jax.lax.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values import values as v

#: The functions by name: parameters, text, summary.
_TEXTS = {
    "fori_loop": (
        "lower upper body_fun init_val",
        "def fori_loop(lower, upper, f, value):\n"
        "    for i in range(lower, upper):\n"
        "        value = f(i, value)\n"
        "    return value\n",
        "Call value = f(i, value) for each i of a range.",
    ),
    "while_loop": (
        "cond_fun body_fun init_val",
        "def while_loop(holds, f, value):\n"
        "    while holds(value):\n"
        "        value = f(value)\n"
        "    return value\n",
        "Call value = f(value) as long as a condition holds.",
    ),
    "map": (
        "f xs",
        "def map(f, xs):\n    return vmap(f)(xs)\n",
        "Call a function for each item of an array along its first axis.",
    ),
}


def _by_text(name: str) -> Builtin:
    signature, text, summary = _TEXTS[name]

    def apply_to(call: Arguments) -> v.Value:
        return v.LoopCall("text", tuple(call.given[each] for each in signature.split()), text=text)

    return cell_function(name, signature, apply_to, summary)


def _choose(call: Arguments, condition: str, chosen: Sequence[v.Operand]) -> v.Value:
    """Return the call of one of several functions, the first whose condition holds, with the operands.

    ``chosen``: the index, of which the condition of each number asks, and the functions.
    """
    passed = call.items("operands")
    names = ", ".join(f"a{number}" for number in range(len(passed)))
    functions = [f"f{number}" for number in range(len(chosen) - 1)]
    lines = [f"def {call.name}({', '.join(('index', *functions, *([names] if names else [])))}):\n"]
    for number, function in enumerate(functions[:-1]):
        lines.append(f"    if {condition.format(number)}:\n        return {function}({names})\n")
    lines.append(f"    return {functions[-1]}({names})\n")
    return v.LoopCall("text", (*chosen, *passed), text="".join(lines))


def _switch(call: Arguments) -> v.Value:
    """Return a call of ``branches[index]``; as in JAX, an index beyond an end is that of the end."""
    branches = call.given["branches"]
    if not isinstance(branches.value, v.TupleOf) or not branches.value.items:
        raise call.mismatch("branches", "functions in a list or a tuple")
    return _choose(call, "index <= {}", [call.given["index"], *call.items("branches")])


_CONTROL_FLOW = (
    *(_by_text(name) for name in _TEXTS),
    cell_function(
        "cond",
        "pred true_fun false_fun *operands",
        lambda call: _choose(call, "index", [call.given[name] for name in ("pred", "true_fun", "false_fun")]),
        "Call one of two functions with the operands.",
    ),
    cell_function(
        "switch", "index branches *operands", _switch, "Call one of several functions with the operands."
    ),
)

#: Functions of one array or of two that ``jax.lax`` has under NumPy's names.
_ELEMENTWISE = (
    "abs acos acosh asin asinh atan atanh atan2 cbrt ceil cos cosh erf exp exp2 expm1 floor log log1p "
    "rsqrt sign sin sinh sqrt square tan tanh stop_gradient"
)
#: Those of other names.
_RENAMED = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
    "neg": "negative",
    "logistic": "sigmoid",
}


def jax_functions(builtins: Mapping[str, Builtin]) -> dict[str, Builtin]:
    """Return the functions of ``jax`` itself: transformations."""
    named = "grad value_and_grad vjp jvp jacfwd jacrev hessian vmap checkpoint custom_vjp custom_jvp"
    return {name: builtins[name] for name in named.split()}


def lax_functions(builtins: Mapping[str, Builtin]) -> dict[str, Builtin]:
    """Return the functions of ``jax.lax``."""
    functions = {name: builtins[name] for name in _ELEMENTWISE.split() if name in builtins}
    functions |= {name: builtins[own] for name, own in _RENAMED.items()}
    return (
        functions
        | {"scan": builtins["scan"], "select": builtins["where"]}
        | {row.name: row for row in _CONTROL_FLOW}
    )
