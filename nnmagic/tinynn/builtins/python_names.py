"""Define Python's own functions that make sense for tensors, and the messages for the others.

Their reference: https://docs.python.org/3/library/functions.html
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import static_value_or_none
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import NAMED, binary
from nnmagic.tinynn.operators.strings import ORD
from nnmagic.tinynn.syntax.unsupported_syntax import NO_STRINGS
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.operator_restrictions import wider_dtype
from nnmagic.tinynn.values.symbolic_sizes import as_number, size_along


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
        if isinstance(known, bool | int | float | str):
            try:
                return v.Known(kind(known))
            except (ValueError, OverflowError) as error:
                raise v.RefusalError(f"{name}: {error}", operand.span) from None
        if is_tensor(operand.value) and not tensor_type(operand).shape:
            assert isinstance(operand.value, v.Computed)
            tensor = operand.value
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
    return Builtin(
        name,
        "x",
        apply_to,
        f"Convert a number or a tensor of rank 0 to {article} {name}.",
        None,
        method=False,
    )


def add_up_items(sum_of_tensor: Builtin) -> Builtin:
    """Return a ``sum`` that of a list with tensors or dynamic sizes is Python's: ``0 + a + b``."""

    def apply_to(call: Arguments) -> v.Value:
        items = call.given["a"]
        if not isinstance(items.value, v.TupleOf) or set(call.given) != {"a"} or _is_static(items.value):
            return sum_of_tensor.apply(call)
        total: v.Value = v.Known(0)
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


_ORDER = """
    order = lexsort(transpose(keys)[::-1]) if keys.ndim == 2 else argsort(keys)
"""
_BACK = """
    keys = flip(keys, 0)
    back = lexsort(transpose(keys)[::-1]) if keys.ndim == 2 else argsort(keys)
    order = (len(keys) - 1 - back)[::-1]
"""


def _sorted(call: Arguments) -> v.Value:
    """Return the items in ascending order, or in that of what a function gives for each; equal ones stay."""
    operand, reverse = call.given["iterable"], call.static("reverse", default=False) is True
    static = static_value_or_none(operand.value)
    if isinstance(static, tuple) and "key" not in call:
        try:
            order = sorted(range(len(static)), key=static.__getitem__, reverse=reverse)
        except TypeError as error:
            raise v.RefusalError(f"sorted: {error}", operand.span) from None
        own = operand.value.items if isinstance(operand.value, v.TupleOf) else [*map(v.known_value, static)]
        return v.TupleOf(tuple(own[place] for place in order), written="list")  # lists stay the same objects
    zipped = isinstance(operand.value, v.Zipped) and operand.value.word == "zip"
    parts = operand.value.parts if isinstance(operand.value, v.Zipped) and zipped else (operand,)
    names = [f"x{number}" for number in range(len(parts))]
    every = f"zip({', '.join(names)})" if zipped else names[0]
    key = "[key(item) for item in everything]" if "key" in call else "everything"
    if zipped and "key" not in call:
        key = "[item for item in everything]"
    taken = [f"take(asarray({name}), order, axis=0)" for name in names]
    result = f"zip({', '.join(taken)})" if zipped else f"list({taken[0]})"
    text = (
        f"def sorted(key, {', '.join(names)}):\n    everything = {every}\n    keys = asarray({key})"
        f"{_BACK if reverse else _ORDER}    return {result}\n"
    )
    function = call.given.get("key", v.Operand(v.Known(None), call.span))
    return v.LoopCall("text", (function, *parts), text=text)


PYTHON = (
    Builtin(
        "sorted",
        "iterable * key? reverse?=False",
        _sorted,
        "Return a list of the items in ascending order.",
        None,
        method=False,
    ),
    Builtin(
        "len",
        "x",
        _length,
        "Return the length of a tuple or the first dimension of a tensor.",
        None,
        method=False,
    ),
    ORD,
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
    "str": ("`str` is not a TinyNN type", NO_STRINGS),
    "super": ("`super` is not part of TinyNN", "call a function of the cell"),
    "Optional": ("`Optional` is not part of TinyNN", "give the parameter one type"),
    "List": ("`List` is not part of TinyNN", "write tuple[Tensor[(2, 3), f32], f32]"),
    "Any": ("`Any` is not part of TinyNN", "write the type, as in Tensor[(2, 3), f32]"),
}
