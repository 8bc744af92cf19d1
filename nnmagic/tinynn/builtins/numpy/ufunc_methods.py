"""Define the methods of NumPy's universal functions, such as ``add.outer`` and ``maximum.reduce``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnmagic.tinynn.builtins.argument_checks import formula
from nnmagic.tinynn.builtins.numpy.elementwise import BINARY
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import Known, Operand, Value

_BINARY_NAMES = frozenset(row.name for row in BINARY)
#: What each method of a function is called in a cell; ``outer`` is a method of all functions of two tensors.
_SAME_AS: Mapping[str, Mapping[str, str]] = {
    "reduce": {
        "add": "sum",
        "multiply": "prod",
        "maximum": "max",
        "minimum": "min",
        "logical_and": "all",
        "logical_or": "any",
    },
    "accumulate": {"add": "cumsum", "multiply": "cumprod"},
}


def ufunc_method(builtin: Builtin, name: str, builtins: Mapping[str, Builtin]) -> Builtin | None:
    """Return a method of a function, ``builtins`` being those of a cell; None if it has no such method."""
    if name == "outer" and builtin.name in _BINARY_NAMES:
        return _outer(builtin)
    same = _SAME_AS.get(name, {}).get(builtin.name)
    return None if same is None else _along_first_axis(builtins[same], f"{builtin.name}.{name}")


def _outer(builtin: Builtin) -> Builtin:
    """Declare the function of each element of one tensor with each of another."""

    def apply_to(call: Arguments) -> Value:
        left, right = formula(call, "A"), formula(call, "B")
        if left.rank and right.rank:
            left = left.op("expand_dims", axis=left.rank, num_newaxis=right.rank)
        pairs = zip((left, right), ("A", "B"), strict=True)
        return builtin.call([Operand(side.value, call.given[name].span) for side, name in pairs], call.span)

    summary = f"Apply {builtin.name} to every pair of elements."
    return Builtin(f"{builtin.name}.outer", "A B", apply_to, summary, method=False)


def _along_first_axis(builtin: Builtin, name: str) -> Builtin:
    """Declare a function along axes whose default is the first axis, not all."""

    def apply_to(call: Arguments) -> Value:
        given = {"axis": Operand(Known(0), call.span), **call.given}
        operands = [given.pop("array"), *(replace(each, keyword=key) for key, each in given.items())]
        return builtin.call(operands, call.span)

    has = [word for word in ("dtype", "keepdims") if word in builtin.parameters]
    signature = " * ".join(filter(None, ["array axis?=0", " ".join(f"{word}?" for word in has)]))
    return Builtin(
        name, signature, apply_to, f"Apply {name} along an axis, by default the first.", method=False
    )
