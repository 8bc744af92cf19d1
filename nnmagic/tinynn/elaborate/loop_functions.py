"""Elaborate scan, apply_along_axis, gcd and their kin as functions of the language that are inlined.

Their bodies are written here in the language itself, and every place in them is that of the call.
"""

from __future__ import annotations

import ast as py
import math
import re
from collections.abc import Callable, Sequence

from synr import ast

from nnmagic.diagnostics import Diagnostics, Source, Span
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.generators import is_state
from nnmagic.tinynn.syntax.cell import CellCompiler
from nnmagic.tinynn.syntax.source_spans import SpanMap
from nnmagic.tinynn.syntax.tree import DefinitionNode
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]

#: The elements of arrays whose divisors are computed together: vectors, and few rounds that only one needs.
_BLOCK = 128

#: What is written in the language as it stands. Divisors of numbers are found by Euclid's algorithm, those of
#: arrays by halves and differences, which vectors have (Stein, J. Comput. Phys. 1, 1967): ``power`` is the
#: greatest power of two that divides both, ``x`` is an odd multiple of it, and each round takes a bit off
#: ``y``. Its last bit is asked for twice, in two ways: a mask that two kernels read would be an array.
_TEXTS = {
    "gcd": "def gcd(a, b):\n    while b != 0:\n        a, b = b, remainder(a, b)\n    return a\n",
    "gcd of a block": (
        "def block(a, b):\n"
        "    either = a | b\n"
        "    power = either & (~either + 1)\n"
        "    first = (a & power) != 0\n"
        "    x, y = where(first, a, b), where(first, b, a)\n"
        "    while any(y != 0):\n"
        "        taken = where((y & power) != 0, x, 0)\n"
        "        rest = maximum(y, taken) - minimum(y, taken)\n"
        "        x, y = where((power & y) != 0, minimum(x, y), x), rest >> 1\n"
        "    return x\n"
    ),
    "gcd of arrays": (
        "def gcd(a, b):\n"
        "    size = len(ravel(a))\n"
        f"    blocks = (size + {_BLOCK - 1}) // {_BLOCK}\n"
        f"    rest = (0, blocks * {_BLOCK} - size)\n"
        f"    x = pad(ravel(a), rest).reshape(blocks, {_BLOCK})\n"
        f"    y = pad(ravel(b), rest).reshape(blocks, {_BLOCK})\n"
        "    found = zeros_like(x)\n"
        "    for i in range(blocks):\n"
        "        found[i] = block(x[i], y[i])\n"
        "    return ravel(found)[:size].reshape(a.shape)\n"
    ),
    "lcm": (
        "def lcm(a, b):\n"
        "    common = gcd(a, b)\n"
        "    return multiply(floor_divide(a, where(common == 0, 1, common)), b)\n"
    ),
    "delete": (
        "def delete(x, k):\n"
        "    place, i = arange(len(x))[k], arange(len(x) - 1)\n"
        "    return take(x, where(i < place, i, i + 1), axis=0, mode='clip')\n"
    ),
    "delete of several": (
        "def delete(x, k):\n    kept = ones(len(x), dtype=bool)\n    kept[k] = False\n    return x[kept]\n"
    ),
}


def call_in_loop(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    """Return the value of a call of scan, apply_along_axis or piecewise. Raises RefusalError."""
    if loop.kind == "map":
        return _map(ctx, loop, span, apply)
    with ctx.frozen_generators(is_state):  # some calls are there for the types of their results alone
        return _call_in_loop(ctx, loop, span, apply)


def _call_in_loop(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    match loop.kind:
        case "scan":
            return _scan(ctx, loop, span, apply)
        case "apply_along_axis":
            return _along_axis(ctx, loop, span, apply)
        case "vectorize":
            return _elementwise(ctx, loop, span, apply)
        case "gcd" | "lcm":
            return _divisor(ctx, loop, span, apply)
        case "text":
            return _inline(ctx, loop.text, loop.operands, span, apply)
        case "delete" | "delete of several":
            return _delete(ctx, loop, span, apply)
    return _piecewise(ctx, loop, span, apply)


def _scan(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    function, init, xs, length = loop.operands
    has_xs = xs.value != v.Known(None)
    row = "None"
    if isinstance(xs.value, v.TupleOf):
        row = f"({' '.join(f'xs[{number}][i],' for number in range(len(xs.value.items)))})"
    elif has_xs:
        row = "xs[i]"
    first = "xs" if not isinstance(xs.value, v.TupleOf) else "xs[0]"
    count = f"len({first})" if has_xs else "length"
    head = f"def scan(f, init, xs, length):\n    rounds = {count}\n"
    results = _results_of_round(ctx, head + f"    i = 0\n    return f(init, {row})\n", loop, span, apply)
    if results is None:
        return v.FAILED
    names = [f"y{number}" for number in range(results[1])]
    text = ", ".join(names) + ("," if results[0] == "tuple" else "")
    text = {"tuple": f"({text})", "one": "y0", "none": "nothing"}[results[0]]
    lines = [head, f"    i = 0\n    carry, {text} = f(init, {row})\n"]
    lines += [f"    {name} = asarray({name})\n" for name in names]
    lines += [f"    s{name} = zeros((rounds, *{name}.shape), dtype={name}.dtype)\n" for name in names]
    lines.append(f"    carry = init\n    for i in range(rounds):\n        carry, {text} = f(carry, {row})\n")
    lines += [f"        s{name}[i] = {name}\n" for name in names]
    stacked = ", ".join(f"s{name}" for name in names) + ("," if results[0] == "tuple" else "")
    stacked = {"tuple": f"({stacked})", "one": "sy0", "none": "None"}[results[0]]
    lines.append(f"    return carry, {stacked}\n")
    return _inline(ctx, "".join(lines), [function, init, xs, length], span, apply)


def _results_of_round(
    ctx: Elaboration, text: str, loop: v.LoopCall, span: Span, apply: Apply
) -> tuple[str, int] | None:
    """Return of what kind a round's second result is, and how many tensors it has; None after an error."""
    with ctx.trial():
        value = _inline(ctx, text, list(loop.operands), span, apply)
    if v.is_failed(value):
        _inline(ctx, text, list(loop.operands), span, apply)  # reports the errors
        return None
    if not isinstance(value, v.TupleOf) or len(value.items) != 2:
        message = f"scan: the function must return (carry, y), not {describe(value)}"
        raise v.RefusalError(message, loop.operands[0].span, hint="return (carry, None) if there is no y")
    result = value.items[1]
    if result == v.Known(None):
        return "none", 0
    return ("tuple", len(result.items)) if isinstance(result, v.TupleOf) else ("one", 1)


def _along_axis(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    function, rows, *extra = loop.operands
    names = [f"e{number}" for number in range(len(extra))]
    arguments = "".join(f", {name}" for name in names)
    assert isinstance(rows.value, v.Computed)
    assert isinstance(rows.value.type, TensorType)
    others = len(rows.value.type.shape) - 1
    if not others:
        alone = f"def alone(f, row{arguments}):\n    return asarray(f(row{arguments}))\n"
        return _inline(ctx, alone, [function, rows, *extra], span, apply)
    text = (
        f"def along(f, rows, shape{arguments}):\n"
        f"    first = asarray(f(rows[0]{arguments}))\n"
        "    made = zeros((len(rows), *first.shape), dtype=first.dtype)\n"
        "    for i in range(len(rows)):\n"
        f"        made[i] = f(rows[i]{arguments})\n"
        "    return made.reshape(*shape, *first.shape)\n"
    )
    count = " * ".join(f"shape[{number}]" for number in range(others))  # -1 says nothing of no elements
    flat = (
        f"def flat(f, rows{arguments}):\n    shape = rows.shape[:-1]\n"
        f"    return along(f, rows.reshape({count}, rows.shape[-1]), shape{arguments})\n"
    )
    along = _local(text, span)
    result = _inline(ctx, flat, [function, rows, *extra], span, apply, {"along": along})
    if not isinstance(result, v.Computed):
        return result
    made = Formula(result, span)
    order = [*range(loop.number), *range(others, made.rank), *range(loop.number, others)]
    return made.transpose(order).value


def _piecewise(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    data, *rest = loop.operands
    conditions, functions = rest[: loop.number], rest[loop.number :]
    masks = [f"c{number}" for number in range(len(conditions))]
    pieces = [f"f{number}" for number in range(len(functions))]
    lines = [f"def piecewise({', '.join(['x', *masks, *pieces])}):\n    y = zeros_like(x)\n"]
    if len(functions) > len(conditions):
        lines.append(f"    rest = ~({' | '.join(masks) or 'False'})\n")
        masks.append("rest")
    for mask, piece, function in zip(masks, pieces, functions, strict=True):
        is_number = isinstance(function.value, v.Known)
        value = piece if is_number else f"{piece}(x[{mask}])"
        lines.append(f"    y[{mask}] = {value}\n")
    lines.append("    return y\n")
    return _inline(ctx, "".join(lines), [data, *conditions, *functions], span, apply)


def _divisor(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    gcd = _local(_TEXTS["gcd"], span)
    left = loop.operands[0].value
    if isinstance(left, v.Computed) and (shape := Formula(left, span).shape):
        gcd = _local(_TEXTS["gcd of a block"], span)
        sizes = [size for size in shape if isinstance(size, int)]
        if len(sizes) < len(shape) or math.prod(sizes) > 8 * _BLOCK:
            gcd = _local(_TEXTS["gcd of arrays"], span, {"block": gcd})
    function = gcd if loop.kind == "gcd" else _local(_TEXTS["lcm"], span, {"gcd": gcd})
    result = apply(ctx, v.Operand(function, span), list(loop.operands), span)
    return Formula(result, span).cast(loop.dtypes[0]).value if isinstance(result, v.Computed) else v.FAILED


def _delete(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    result = _inline(ctx, _TEXTS[loop.kind], loop.operands, span, apply)
    if not isinstance(result, v.Computed):
        return v.FAILED
    made = Formula(result, span)
    return made.transpose([*range(1, loop.number + 1), 0, *range(loop.number + 1, made.rank)]).value


def _elementwise(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    """Map a function over the elements of tensors that are broadcast together."""
    function, *arrays = loop.operands
    names = ", ".join(f"a{number}" for number in range(len(arrays)))
    flat = ", ".join(f"ravel({name})" for name in names.split(", "))
    together = f"    {names} = broadcast_arrays({names})\n" if len(arrays) > 1 else ""
    text = f"def shaped({names}):\n{together}    return a0\n"
    whole = _inline(ctx, text, arrays, span, apply)
    text = f"def elementwise(f, {names}):\n{together}    return vmap(f)({flat})\n"
    results = _inline(ctx, text, [function, *arrays], span, apply)
    if not isinstance(whole, v.Computed) or v.is_failed(results):
        return v.FAILED
    like = Formula(whole, span)
    values = list(results.items) if isinstance(results, v.TupleOf) else [results]
    if loop.dtypes and len(loop.dtypes) != len(values):
        raise v.RefusalError(f"vectorize: {len(loop.dtypes)} dtypes for {len(values)} results", span)
    shaped = []
    for number, part in enumerate(values):
        assert isinstance(part, v.Computed)
        made = Formula(part, span).reshape(like.shape, like)
        shaped.append(made.cast(loop.dtypes[number]).value if loop.dtypes else made.value)
    return v.TupleOf(tuple(shaped)) if isinstance(results, v.TupleOf) else shaped[0]


def _map(ctx: Elaboration, loop: v.LoopCall, span: Span, apply: Apply) -> v.Value:
    names = ", ".join(f"x{number}" for number in range(len(loop.operands) - 1))
    over = f"zip({names.replace('x', 'xs')})" if len(loop.operands) > 2 else "xs0"
    text = f"def map(f, {names.replace('x', 'xs')}):\n    return [f({names}) for {names} in {over}]\n"
    return _inline(ctx, text, list(loop.operands), span, apply)


# -- functions that are written here -------------------------------------------------------------------------


class _OnePlace(SpanMap):
    """Every span of a source is the place of one call."""

    def __init__(self, source: Source, place: Span) -> None:
        super().__init__(source)
        self._place = ast.Span(place.filename, place.line, place.column, place.end_line, place.end_column)

    def span(self, line: int, start: int, end_line: int, end: int) -> ast.Span:  # noqa: ARG002
        """Return the place."""
        return self._place


def _local(text: str, span: Span, more: dict[str, v.Value] | None = None) -> v.LocalFunction:
    """Return a function of the language from its source."""
    diagnostics = Diagnostics()
    spans = _OnePlace(Source("<nnmagic>", text), span)
    cell = CellCompiler(spans, diagnostics).compile_module(py.parse(text))
    (definition,) = cell.funcs.values()
    assert isinstance(definition, DefinitionNode)
    bindings = v.Bindings()
    for name in sorted(BUILTINS.keys() & set(re.findall(r"\w+", text))):  # nothing in the notebook hides them
        bindings.bind(name, v.BuiltinName(BUILTINS[name]), span)
    for name, value in (more or {}).items():
        bindings.bind(name, value, span)
    environment = v.Environment("<nnmagic>", frozenset(bindings.locals), bindings=bindings)
    formals = tuple(v.Formal(param.name, param.kind, None) for param in definition.params)
    return v.LocalFunction(definition.name, definition, formals, environment, {})


def _inline(
    ctx: Elaboration,
    text: str,
    operands: Sequence[v.Operand],
    span: Span,
    apply: Apply,
    more: dict[str, v.Value] | None = None,
) -> v.Value:
    function = _local(text, span, more)
    by_position = [v.Operand(operand.value, operand.span) for operand in operands]
    return apply(ctx, v.Operand(function, span), by_position, span)
