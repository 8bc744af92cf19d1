"""Define Python's own functions that make sense for tensors, and the messages for the others.

Their reference: https://docs.python.org/3/library/functions.html
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_complex, is_float
from nnmagic.tinynn.builtins.argument_checks import static_int, static_value_or_none
from nnmagic.tinynn.builtins.itertools_functions import ITERTOOLS, REDUCE
from nnmagic.tinynn.builtins.sorted_lists import by_keys, known_order, sort_items
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.operators.iteration import as_weak_int
from nnmagic.tinynn.operators.strings import CHR, ORD, STR
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type
from nnmagic.tinynn.values.operator_restrictions import wider_dtype
from nnmagic.tinynn.values.symbolic_sizes import as_number, size_along

#: What goes over the items of an iterable, which are the keys of a dictionary.
OVER_ITEMS = frozenset(
    [
        "all",
        "any",
        "combinations",
        "combinations_with_replacement",
        "fsum",
        "max",
        "min",
        "permutations",
        "prod",
        "sum",
    ]
)


def _length(call: Arguments) -> v.Value:
    value = call.given["x"].value
    if isinstance(value, v.TupleOf | v.DictOf):
        return v.Known(len(value.items))
    if isinstance(static_value_or_none(value), str):
        return v.Known(len(str(static_value_or_none(value))))
    if isinstance(value, v.TableOf):
        return value.size
    if isinstance(value, v.ListOfRows):
        return size_along(value.rows, 0, call.span)
    if is_tensor(value) and call.type("x").shape:
        return size_along(call.tensor("x"), 0, call.span)
    raise v.RefusalError(f"{describe(value)} has no len()", call.at("x"))


def _number(name: str, dtype: str, kind: type[int | float | bool]) -> Builtin:
    """Declare a conversion: of a static number at compile time, of a tensor of rank 0 at run time."""

    def apply_to(call: Arguments) -> v.Value:
        operand = call.given["x"]
        if name == "int" and isinstance(operand.value, v.Dimension):
            return operand.value
        operand = as_number(operand)
        known = static_value_or_none(operand.value)
        if "base" in call and not isinstance(known, str):
            message = f"int takes a base with a string that is known, not with {describe(operand.value)}"
            raise v.RefusalError(message, operand.span)
        if isinstance(known, bool | int | float | str):
            try:
                if "base" in call:
                    return v.Known(int(str(known), static_int(call, "base")))
                return v.Known(kind(known))
            except (ValueError, OverflowError) as error:
                raise v.RefusalError(f"{name}: {error}", operand.span) from None
        if is_tensor(operand.value) and not tensor_type(operand).shape:
            tensor = operand.dynamic
            if dtype == "bool" and tensor_type(operand).dtype != "bool":
                return Formula(tensor, call.span).truth().value
            number = cast(tensor, dtype, call.span)
            return number if dtype == "bool" else v.Computed(number.expr, number.type, weak=True)
        hint = None
        if is_tensor(operand.value):
            short = {"int64": "i64", "float64": "f64", "bool": "bool_"}[dtype]
            hint = f"write x.astype({short}) for every element"
        raise v.RefusalError(f"{name}() of {describe(operand.value)}", operand.span, hint=hint)

    article = "an" if name == "int" else "a"
    signature = "x base?" if name == "int" else "x"
    return cell_function(
        name, signature, apply_to, f"Convert a number or a tensor of rank 0 to {article} {name}."
    )


def add_up_items(sum_of_tensor: Builtin) -> Builtin:
    """Return a ``sum`` that of a list with tensors or dynamic sizes is Python's: ``0 + a + b``."""

    def apply_to(call: Arguments) -> v.Value:
        items = call.given["a"]
        start = call.given.get("axis", v.Operand(v.Known(0), call.span))
        has_start = isinstance(start.value, v.TupleOf) or not any(
            isinstance(item, v.TupleOf) for item in getattr(items.value, "items", ())
        )
        is_plain = set(call.given) == {"a"} and not _is_static(items.value)
        is_started = set(call.given) == {"a", "axis"} and has_start and not start.keyword
        if not isinstance(items.value, v.TupleOf) or not (is_plain or is_started):
            return sum_of_tensor.apply(call)
        total = start.value
        try:
            for item in items.value.items:
                lhs, rhs = v.Operand(total, items.span), v.Operand(item, items.span)
                total = binary(NAMED["add"], "+", lhs, rhs, call.span)
        except v.RefusalError as refusal:  # its hint and notes would show all items where it means one
            raise v.RefusalError(
                refusal.diagnostic.message, items.span, hint=_same_dtype_hint(items)
            ) from None
        return total

    return replace(sum_of_tensor, apply=apply_to)


def _is_static(value: v.Value) -> bool:
    """Return whether a value is a number, or nested tuples of numbers, at compile time."""
    return all(map(_is_static, value.items)) if isinstance(value, v.TupleOf) else isinstance(value, v.Known)


def _same_dtype_hint(items: v.Operand) -> str | None:
    """Suggest one dtype for items that are tensors of several."""
    assert isinstance(items.value, v.TupleOf)
    operands = [v.Operand(item, items.span) for item in items.value.items if is_tensor(item)]
    dtypes = {tensor_type(operand).dtype for operand in operands}
    if len(operands) < len(items.value.items) or len(dtypes) < 2:
        return None
    short = dtype_short_name(reduce(wider_dtype, sorted(dtypes)))
    return f"convert them first, as in sum([item.astype({short}) for item in {source_text(items.span)}])"


_CHOSEN = """
def {name}(keys, {items}):
    keys = asarray(keys)
    if len(keys) == 0:
        raise ValueError("{name}() iterable argument is empty")
    if keys.ndim == 2:
        {place}
    else:
        place = arg{name}(keys)
    return {item}
"""
#: The same of items of any types, one by one.
_CHOSEN_OF_FEW = """
def {name}(keys, items):
    chosen, key = items[0], keys[0]
    for i in range(1, {count}):
        if keys[i] {sign} key:
            chosen, key = items[i], keys[i]
    return chosen
"""
_FEW = 32
_PLACES = {
    "min": "place = lexsort(transpose(keys)[::-1])[0]",
    "max": "place = len(keys) - 1 - lexsort(transpose(flip(keys, 0))[::-1])[-1]",
}


def _tuples_in(call: Arguments) -> v.Operand | None:
    """Return tuples or lists of which a call takes the least or the greatest; None where it takes others."""
    items = call.given["a"]
    other = call.given["axis"].value if "axis" in call.given else None
    is_list = isinstance(items.value, v.ListOfRows) or (
        isinstance(items.value, v.TupleOf) and items.value.written
    )
    if is_list and isinstance(other, v.TupleOf | v.ListOfRows):
        more = call.given["more"].value if "more" in call.given else None
        rest = more.items if isinstance(more, v.TupleOf) else ()
        items = v.Operand(v.TupleOf((items.value, other, *rest)), items.span)
    if isinstance(items.value, v.ListOfRows):
        return items if items.value.columns or items.value.is_table else None
    own = items.value.items if isinstance(items.value, v.TupleOf) and items.value.record is None else ()
    are_tuples = bool(own) and all(
        isinstance(each, v.ListOfRows) or (isinstance(each, v.TupleOf) and each.written) for each in own
    )
    return items if are_tuples else None


def choose_by_key(extreme: Builtin) -> Builtin:
    """Return ``max`` or ``min`` that takes Python's ``key`` and ``default``, too."""

    def apply_to(call: Arguments) -> v.Value:
        items = call.given["a"]
        if "key" in call and "axis" in call:
            more = call.given["more"].value
            rest = more.items if isinstance(more, v.TupleOf) else ()
            items = v.Operand(v.TupleOf((items.value, call.given["axis"].value, *rest)), items.span)
        if "default" in call:
            chosen = f"{call.name}(items{', key=key' if 'key' in call else ''})"
            text = f"def f(items, default, key):\n    return {chosen} if len(items) else default\n"
            key = call.given.get("key", v.Operand(v.Known(None), call.span))
            return v.LoopCall("text", (items, call.given["default"], key), text=text)
        if "key" in call:
            return by_keys(call, items, "")
        if isinstance(items.value, v.Zipped) and not {"axis", "keys"} & set(call.given):
            text = f"def f(items):\n    return {call.name}([item for item in items])\n"
            return v.LoopCall("text", (items,), text=text)
        if "keys" not in call and (tuples := _tuples_in(call)) is not None:
            return apply_to(replace(call, given={"a": tuples, "keys": tuples}))
        if "keys" not in call:
            return extreme.apply(call)
        known = known_order(call, items, reverse=call.name == "max")
        if known:
            return known[0]
        parts: tuple[v.Operand, ...] = (items,)
        item = "list(x0)[place]"
        if isinstance(items.value, v.Zipped):
            parts = items.value.parts
            item = f"({', '.join(f'x{number}[place]' for number in range(len(parts)))})"
            item = f"(place, {item[1:-1]})" if items.value.word == "enumerate" else item
        names = ", ".join(f"x{number}" for number in range(len(parts)))
        if (entries := v.entries_of(items.value)) is not None:
            items = v.Operand(v.TupleOf(tuple(map(v.known_value, entries))), items.span)
        if isinstance(items.value, v.TupleOf) and 0 < len(items.value.items) <= _FEW:
            sign = ">" if call.name == "max" else "<"
            text = _CHOSEN_OF_FEW.format(name=call.name, sign=sign, count=len(items.value.items))
            return v.LoopCall("text", (call.given["keys"], items), text=text)
        text = _CHOSEN.format(name=call.name, place=_PLACES[call.name], items=names, item=item)
        return v.LoopCall("text", (call.given["keys"], *parts), text=text)

    return replace(extreme, apply=apply_to, signature=f"{extreme.signature} key? default? keys?")


_POWER = """
def pow(base, exponent, modulus):
    if modulus == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    if abs(modulus) > 3037000499:
        raise OverflowError("the products of pow() with this modulus are beyond 64 bits")
    result = 1 % modulus
    base = base % modulus
    if exponent < 0:
        rest, inverse, following = modulus, 0, 1
        while base != 0:
            quotient = rest // base
            rest, base = base, rest - quotient * base
            inverse, following = following, inverse - quotient * following
        if abs(rest) != 1:
            raise ValueError("base is not invertible for the given modulus")
        base = rest * inverse % modulus
        result, exponent = base, -(exponent + 1)
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent = exponent >> 1
    return result
"""


def power_with_modulus(power: Builtin) -> Builtin:
    """Return ``pow`` that takes Python's modulus, too."""

    def apply_to(call: Arguments) -> v.Value:
        if "mod" not in call:
            return power.apply(call)
        operands = tuple(as_number(call.given[name]) for name in ("x1", "x2", "mod"))
        known = [static_value_or_none(operand.value) for operand in operands]
        if all(isinstance(each, int) for each in known):
            try:
                return v.Known(pow(*known))  # type: ignore[call-overload]  # of ints
            except ValueError as error:
                raise v.RefusalError(f"pow: {error}", call.span) from None
        return v.LoopCall("text", operands, text=_POWER)

    return replace(power, apply=apply_to, signature=f"{power.signature} mod?")


_COUNTED = """
def Counter(items):
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts
"""
_FOUND = """
def bisect(items, value):
    return searchsorted(asarray(items), value, side={side!r})
"""


def _bisect(name: str, side: str) -> Builtin:
    return cell_function(
        name,
        "a x",
        lambda call: v.LoopCall("text", (call.given["a"], call.given["x"]), text=_FOUND.format(side=side)),
        "Return where to insert a value in a list that is in order.",
    )


def _of_heap(name: str) -> Builtin:
    """Return a function of `heapq`; the statement in which it stands is written out (syntax/heaps)."""

    def apply_to(call: Arguments) -> v.Value:
        place = call.given["heap"]
        if "item" in call or not (isinstance(place.value, v.Known) or as_weak_int(place) is not None):
            hint = "write it alone, as in item = heappop(heap)"
            message = f"{name} changes a list that has a name, in a statement that computes it always"
            raise v.RefusalError(message, call.span, hint=hint)
        return place.value  # of a statement that is written out

    return cell_function(name, "heap item?", apply_to, f"Do what Python's heapq.{name} does.")


def _first_of_sorted(name: str, *, reverse: bool) -> Builtin:
    """Return ``nsmallest`` or ``nlargest``."""

    def apply_to(call: Arguments) -> v.Value:
        key = ", key=key" if "key" in call else ""
        text = f"def {name}(n, items, key):\n    return sorted(items{key}, reverse={reverse})[:max(n, 0)]\n"
        function = call.given.get("key", v.Operand(v.Known(None), call.span))
        return v.LoopCall("text", (call.given["n"], call.given["iterable"], function), text=text)

    summary = f"Return what Python's heapq.{name} does."
    return cell_function(name, "n iterable key?", apply_to, summary)


def _counter(call: Arguments) -> v.Value:
    return v.LoopCall("text", (call.given["iterable"],), text=_COUNTED)


def _partial(call: Arguments) -> v.Value:
    """Return a function with its first arguments, and those by keyword, which are given beside it."""
    return v.GradientOf("bound", call.given["func"], arguments=tuple(call.items("args")))


#: ``functools.partial``.
PARTIAL = cell_function("partial", "func *args", _partial, "Give a function some of its arguments.")

#: The functions of other modules of Python's library that cells know, by these modules.
OF_THE_LIBRARY: dict[str, dict[str, Builtin]] = {
    "bisect": {
        "bisect_left": _bisect("bisect_left", "left"),
        "bisect_right": _bisect("bisect_right", "right"),
        "bisect": _bisect("bisect", "right"),
    },
    "functools": {"partial": PARTIAL, "reduce": REDUCE},
    "itertools": ITERTOOLS,
    "heapq": {
        **{name: _of_heap(name) for name in ("heappush", "heappop", "heapify", "heapreplace", "heappushpop")},
        "nsmallest": _first_of_sorted("nsmallest", reverse=False),
        "nlargest": _first_of_sorted("nlargest", reverse=True),
    },
    "collections": {"Counter": cell_function("Counter", "iterable", _counter, "Count equal items.")},
}


def _to_list(call: Arguments) -> v.Value:
    """Return an array as a list of Python's numbers, or of lists of these."""
    dtype = call.type("a").dtype
    wide = "float64" if is_float(dtype) else dtype if dtype == "bool" or is_complex(dtype) else "int64"
    rows = replace(cast(apply("copy", call.span, call.tensor("a")), wide, call.span), weak=True)
    rank = len(call.type("a").shape)
    if rank > 2:
        message = f"tolist() of an array of rank {rank}: lists in a cell nest twice"
        raise v.RefusalError(message, call.at("a"), hint="leave .tolist() out")
    return v.ListOfRows(rows, is_table=rank == 2) if rank else rows


TO_LIST = Builtin("tolist", "a", _to_list, "Return a list of numbers, or of lists of numbers.")

PYTHON = (
    cell_function(
        "sorted",
        "iterable * key? reverse?=False keys?",
        sort_items,
        "Return a list of the items in ascending order.",
    ),
    cell_function("len", "x", _length, "Return the length of a tuple or the first dimension of a tensor."),
    CHR,
    ORD,
    STR,
    _number("int", "int64", int),
    _number("float", "float64", float),
    _number("bool", "bool", bool),
)

#: Python's built-in names that a cell lacks: (message, hint).
PYTHON_ONLY: dict[str, tuple[str, str]] = {
    "print": ("`print` has no value", "write it as a statement"),
    "list": ("`list` is not part of TinyNN", "write [a, b]"),
    "dict": ("`dict` is not a value here", "write {} or dict(name=value)"),
    "set": ("`set` is not part of TinyNN", "use a tuple; of a tensor np.unique(x) has the distinct elements"),
    "open": ("`open` is not part of TinyNN", "read the file in another cell and use what it gave"),
    "input": ("`input` is not part of TinyNN", "read it in another cell and use what it gave"),
    "eval": ("`eval` is not part of TinyNN", "compute it in another cell"),
    "exec": ("`exec` is not part of TinyNN", "compute it in another cell"),
    "isinstance": (
        "`isinstance` is not part of TinyNN",
        "to ask which constructor made a value write match, as in case Leaf(value): ...; "
        "the types of tensors are known from the annotations",
    ),
    "type": ("`type` is not part of TinyNN", "write x.dtype or x.shape"),
    "getattr": ("`getattr` is not part of TinyNN", "write x.name"),
    "slice": ("`slice` is not part of TinyNN", "write x[start:stop:step]"),
    "filter": ("`filter` is not part of TinyNN", "write [x for x in items if c], or x[mask] of a tensor"),
    "hasattr": ("`hasattr` is not part of TinyNN", "what a value has is known from its type"),
    "setattr": ("`setattr` is not part of TinyNN", "return the value instead"),
    "iter": ("`iter` is not part of TinyNN", "write for x in items:"),
    "next": ("`next` is not part of TinyNN", "write items[0], or for x in items:"),
    "format": ("`format` is not part of TinyNN", "return the value and write it in another cell"),
    "id": ("`id` is not part of TinyNN", "values have no identity: compare with =="),
    "repr": ("`repr` is not part of TinyNN", "return the value and write it in another cell"),
    "frozenset": ("`frozenset` is not part of TinyNN", "use a tuple"),
    "super": ("`super` is not part of TinyNN", "call a function of the cell"),
    "Optional": ("`Optional` is not part of TinyNN", "give the parameter one type"),
    "List": ("`List` is not part of TinyNN", "write tuple[Tensor[(2, 3), f32], f32]"),
    "Any": ("`Any` is not part of TinyNN", "write the type, as in Tensor[(2, 3), f32]"),
}
