"""The same call again: an operator with the same attributes, on arrays of the same types, is the same kernel.

To make a kernel's function costs TVM half a millisecond; only then would it see that it has an equal one.
Knows Relax only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import tvm
from tvm import relax

_CALL = tvm.ir.Op.get("relax.call_tir")


class KernelCache:
    """The kernels that calls were lowered to, in one module."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Any, list[int]]] = {}

    def find(self, key: Hashable | None, args: Sequence[Any]) -> Any:
        """The call with these arguments of what such a call was lowered to; None where none was."""
        if key not in self._known:
            return None
        call, places = self._known[key]
        fields = relax.Tuple([args[place] for place in places])
        return relax.Call(call.op, [call.args[0], fields], call.attrs, call.ty_args)

    def remember(self, key: Hashable | None, args: Sequence[Any], lowered: Any) -> None:
        """Keeps what a call was lowered to, if that is a call of one kernel with arguments of its own."""
        if (
            key is None
            or not isinstance(lowered, relax.Call)
            or lowered.op != _CALL
            or len(lowered.args) != 2
        ):
            return
        places = [_place(part, args) for part in lowered.args[1].fields]
        known = [place for place in places if place is not None]
        if len(known) == len(places):
            self._known[key] = lowered, known


def key_of(name: str, attrs: Mapping[str, object], args: Sequence[Any]) -> Hashable | None:
    """What calls of an operator have in common that become the same; None where that is not known."""
    parts = [*(_plain(value) for value in attrs.values()), *map(_type_of, args)]
    if None in parts:
        return None
    same = tuple(_place(arg, args) for arg in args)  # a kernel takes an array once that is given twice
    return (name, *attrs, *parts, same)


def _place(arg: Any, args: Sequence[Any]) -> int | None:
    return next((place for place, each in enumerate(args) if each.same_as(arg)), None)


def _plain(value: object) -> Hashable | None:
    """The value of an attribute, one that tells 1 and 1.0 apart, 0.0 and -0.0, too."""
    if isinstance(value, tuple):
        parts = tuple(map(_plain, value))
        return None if None in parts else parts
    return (type(value), repr(value)) if isinstance(value, bool | int | float | str | None) else None


def _type_of(arg: Any) -> Hashable | None:
    """A variable's dtype and shape, the dimensions of a shape, a constant's number; None for what is else."""
    if isinstance(arg, relax.ShapeExpr):
        return _dims(arg.values)
    if isinstance(arg, tvm.ir.GenericConst) and not arg.value.shape:
        return str(arg.value.dtype), arg.value.numpy().tobytes()
    if not isinstance(arg, relax.Var) or not isinstance(arg.ty, relax.TensorType):
        return None
    dims = _dims(arg.ty.shape.values) if isinstance(arg.ty.shape, relax.ShapeExpr) else None
    return None if dims is None else (str(arg.ty.dtype.dtype), dims)


def _dims(values: Sequence[Any]) -> tuple[int, ...] | None:
    dims = [value.value if isinstance(value, tvm.tirx.IntImm) else None for value in values]
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None


def legalization() -> tvm.transform.Pass:
    """TVM's pass that makes kernels of Relax's operators; of equal calls, without attributes, one."""
    repeats = KernelCache()

    def once(legalize: Callable[..., Any]) -> Callable[..., Any]:
        def legalized(builder: Any, call: Any) -> Any:
            key = key_of(call.op.name, {}, call.args) if call.attrs is None else None
            found = repeats.find(key, call.args)
            if found is None:
                found = legalize(builder, call)
                repeats.remember(key, call.args, found)
            return found

        return legalized

    return relax.transform.LegalizeOps({name: once(legalize) for name, legalize in _legalizations().items()})


@cache
def _legalizations() -> Mapping[str, Callable[..., Any]]:
    names = [name for name in tvm.ir.Op.list_op_names() if name.startswith("relax.")]
    return {name: found for name in names if (found := tvm.ir.Op.get(name).get_attr("FLegalize")) is not None}
