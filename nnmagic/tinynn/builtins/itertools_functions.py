"""Define ``itertools`` and ``functools.reduce``, written in the language: lists stand for iterators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from nnmagic.limits import MAX_ITEMS
from nnmagic.tinynn.builtins.argument_checks import known_without_sizes, static_value_or_none
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.operators.iteration import count
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe

#: How many items a combination has at most.
_MOST = 12

_ACCUMULATED = """
def accumulate(items, func, initial):
    items = list(items)
    if initial is not None:
        items = [initial] + items
    totals = items[:1]
    total = items[0]
    for item in items[1:]:
        total = {total}
        totals.append(total)
    return totals
"""
_GROUPED = """
def groupby(items, key):
    groups, group, last = [], [], None
    for item in items:
        own = {own}
        if group and own != last:
            groups = groups + [(last, group)]
            group = []
        group = group + [item]
        last = own
    return groups + [(last, group)] if group else groups
"""
_REDUCED = """
def reduce(func, items, total):
    for item in items:
        total = func(total, item)
    return total
"""
_FIRST_REDUCED = """
def reduce(func, items):
    items = list(items)
    total = items[0]
    for item in items[1:]:
        total = func(total, item)
    return total
"""


def _parts_of(call: Arguments, name: str) -> list[v.Operand]:
    """Return the arguments that ``*name`` takes."""
    given = call.given.get(name)
    items = given.value.items if given is not None and isinstance(given.value, v.TupleOf) else ()
    return [v.Operand(item, call.span) for item in items]


def _text(name: str, operands: Mapping[str, v.Operand], result: str) -> v.LoopCall:
    text = f"def {name}({', '.join(operands)}):\n    return {result}\n"
    return v.LoopCall("text", tuple(operands.values()), text=text)


def _accumulate(call: Arguments) -> v.Value:
    nothing = v.Operand(v.Known(None), call.span)
    total = "func(total, item)" if "func" in call else "total + item"
    given = (call.given["iterable"], call.given.get("func", nothing), call.given.get("initial", nothing))
    return v.LoopCall("text", given, text=_ACCUMULATED.format(total=total))


def _groupby(call: Arguments) -> v.Value:
    items, nothing = call.given["iterable"], v.Operand(v.Known(None), call.span)
    key = call.given.get("key", nothing)
    if static_value_or_none(items.value) is None and not isinstance(items.value, v.TupleOf):
        message = f"groupby takes items that are known at compile time, not {describe(items.value)}"
        hint = "go over them in a loop, and compare each with the one before: x[i] != x[i - 1]"
        raise v.RefusalError(message, items.span, hint=hint)
    own = "item" if key.value == v.Known(None) else "key(item)"
    return v.LoopCall("text", (items, key), text=_GROUPED.replace("{own}", own))


def _reduce(call: Arguments) -> v.Value:
    given = (call.given["function"], call.given["iterable"])
    if "initial" in call:
        return v.LoopCall("text", (*given, call.given["initial"]), text=_REDUCED)
    return v.LoopCall("text", given, text=_FIRST_REDUCED)


def _chain(call: Arguments) -> v.Value:
    parts = {f"x{number}": part for number, part in enumerate(_parts_of(call, "iterables"))}
    return _text("chain", parts, " + ".join(f"list({name})" for name in parts) or "[]")


def _product(call: Arguments) -> v.Value:
    repeat = call.static("repeat") if "repeat" in call else 1
    parts = _parts_of(call, "iterables")
    if not isinstance(repeat, int) or not 0 < repeat * len(parts) <= _MOST:
        raise v.RefusalError(f"product takes 1 to {_MOST} iterables", call.span)
    given = {f"x{number}": part for number, part in enumerate(parts)}
    numbers = range(repeat * len(parts))
    names = ", ".join(f"i{number}" for number in numbers)
    loops = " ".join(f"for i{number} in x{number % len(parts)}" for number in numbers)
    return _text("product", given, f"[({names},) {loops}]")


def _choices(name: str, condition: Callable[[int], str], start: Callable[[int], str]) -> Builtin:
    """Return a function of tuples whose items are at places in some order."""

    def apply_to(call: Arguments) -> v.Value:
        items = call.given["iterable"]
        number = static_value_or_none(call.given["r"].value) if "r" in call else count(items)
        if not isinstance(number, int):
            message = f"{name}: how many items each tuple has must be known at compile time"
            hint = f"give a number, as in {name}(items, 2)"
            raise v.RefusalError(message, call.at("r") if "r" in call else items.span, hint=hint)
        known = known_without_sizes(items.value)
        if isinstance(known, str | tuple | range):
            made = list(
                itertools.islice(getattr(itertools, name)(known, number), MAX_ITEMS // max(number, 1))
            )
            if len(made) * number < MAX_ITEMS - number:
                rows = (v.TupleOf(tuple(map(v.known_value, row)), written="tuple") for row in made)
                return v.TupleOf(tuple(rows), written="list")
        if not 0 < number <= _MOST:
            raise v.RefusalError(f"{name} of {number} items (1 to {_MOST} can be)", call.span)
        places = range(number)
        loops = " ".join(
            f"for i{place} in range({start(place)}, len(x)){condition(place)}" for place in places
        )
        row = ", ".join(f"x[i{place}]" for place in places)
        text = f"def {name}(x):\n    x = list(x)\n    return [({row},) {loops}]\n"
        return v.LoopCall("text", (items,), text=text)

    signature = "iterable r?" if name == "permutations" else "iterable r"
    return cell_function(name, signature, apply_to, f"Return a list of what Python's itertools.{name} gives.")


def _differs(place: int) -> str:
    return "".join(f" if i{place} != i{other}" for other in range(place))


def _written(module: str, name: str, signature: str, result: str) -> Builtin:
    """Return a function that is an expression of its parameters."""
    names = [part.rstrip("?").partition("?")[0] for part in signature.split()]

    def apply_to(call: Arguments) -> v.Value:
        nothing = v.Operand(v.Known(None), call.span)
        return _text(name, {each: call.given.get(each, nothing) for each in names}, result)

    return cell_function(name, signature, apply_to, f"Return what Python's {module}.{name} gives, as a list.")


def _islice(call: Arguments) -> v.Value:
    given = _parts_of(call, "bounds")
    names = [f"b{number}" for number in range(len(given))]
    operands = {"items": call.given["iterable"], **dict(zip(names, given, strict=True))}
    return _text("islice", operands, f"list(items)[{':'.join(names if names[1:] else ['', *names])}]")


CHAIN = cell_function("chain", "*iterables", _chain, "Return the items of all iterables in one list.")
#: ``itertools.chain.from_iterable``.
FROM_ITERABLE = _written(
    "itertools", "from_iterable", "iterables", "[item for items in iterables for item in items]"
)

ITERTOOLS: dict[str, Builtin] = {
    "accumulate": cell_function(
        "accumulate", "iterable func? * initial?", _accumulate, "Return the list of all partial sums."
    ),
    "chain": CHAIN,
    "product": cell_function(
        "product", "*iterables * repeat?", _product, "Return the tuples of items, one of each iterable."
    ),
    "combinations": _choices(
        "combinations", lambda _: "", lambda place: f"i{place - 1} + 1" if place else "0"
    ),
    "combinations_with_replacement": _choices(
        "combinations_with_replacement", lambda _: "", lambda place: f"i{place - 1}" if place else "0"
    ),
    "permutations": _choices("permutations", _differs, lambda _: "0"),
    "groupby": cell_function("groupby", "iterable key?", _groupby, "Return pairs of a key and its items."),
    "islice": cell_function("islice", "iterable *bounds", _islice, "Return a part of the items as a list."),
    "pairwise": _written(
        "itertools", "pairwise", "iterable", "list(zip(list(iterable)[:-1], list(iterable)[1:]))"
    ),
    "repeat": _written("itertools", "repeat", "object times", "[object] * times"),
    "starmap": _written(
        "itertools", "starmap", "function iterable", "[function(*items) for items in iterable]"
    ),
    "compress": _written(
        "itertools", "compress", "data selectors", "[item for item, kept in zip(data, selectors) if kept]"
    ),
    "filterfalse": _written(
        "itertools", "filterfalse", "function iterable", "[item for item in iterable if not function(item)]"
    ),
}
REDUCE = cell_function(
    "reduce", "function iterable initial?", _reduce, "Apply a function to a result and each item."
)
