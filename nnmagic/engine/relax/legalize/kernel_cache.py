"""Reuse kernels: equal calls of an operator, on tensors of the same types, share one.

Creating the function of a kernel costs TVM half a millisecond, and only then would it notice an equal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.legalize.registry import Value
from nnmagic.engine.relax.tir.types import PrimExpr, RelaxExpr

_CALL, _RESHAPE = tvm.ir.Op.get("relax.call_tir"), tvm.ir.Op.get("relax.reshape")

#: Marks a kernel that copies an array as it lies in memory. TVM does not fuse what is opaque.
IS_RESHAPE = "nnmagic.is_reshape"
_OPAQUE = 8

#: Lowers a call of a Relax operator: ``FLegalize`` in TVM.
_Legalize: TypeAlias = Callable[[relax.BlockBuilder, RelaxExpr], RelaxExpr]


class KernelCache:
    """The kernels of one module, by the calls that were lowered to them."""

    def __init__(self) -> None:
        #: The call of the kernel, and which argument of the operator each of its arguments is.
        self._calls: dict[Hashable, tuple[RelaxExpr, list[int]]] = {}

    def find(self, key: Hashable | None, args: Sequence[Value]) -> RelaxExpr | None:
        """Return a call of the kernel for ``key`` with these arguments, or None if there is no kernel."""
        if key not in self._calls:
            return None
        call, positions = self._calls[key]
        fields = relax.Tuple([args[position] for position in positions])
        return relax.Call(call.op, [call.args[0], fields], call.attrs, call.ty_args)

    def remember(self, key: Hashable | None, args: Sequence[Value], lowered: Value) -> None:
        """Keep what a call was lowered to if that calls one kernel, with the tensors of the call alone.

        It has to read all of them: of another, the rule has seen where it comes from.
        """
        if (
            key is None
            or not isinstance(lowered, relax.Call)
            or lowered.op != _CALL
            or len(lowered.args) != 2
        ):
            return
        fields = lowered.args[1].fields
        positions = [position for field in fields if (position := _position(field, args)) is not None]
        read = all(_position(arg, args) in positions for arg in args if isinstance(arg, relax.Var))
        if read and len(positions) == len(fields):
            self._calls[key] = lowered, positions


def key_of(name: str, attrs: Mapping[str, object], args: Sequence[Value]) -> Hashable | None:
    """Return a key that calls have in common if one kernel can serve them, or None if that is not clear."""
    parts = [*(_hashable(value) for value in attrs.values()), *map(_type_key, args)]
    if None in parts:
        return None
    # A kernel has one parameter for an array that is passed twice.
    repeats = tuple(_position(arg, args) for arg in args)
    return (name, *attrs, *parts, repeats)


def _position(arg: Value, args: Sequence[Value]) -> int | None:
    return next((position for position, other in enumerate(args) if other.same_as(arg)), None)


def _hashable(value: object) -> Hashable | None:
    """Return an attribute in a form that tells 1 from 1.0, and 0.0 from -0.0."""
    if isinstance(value, tuple):
        parts = tuple(map(_hashable, value))
        return None if None in parts else parts
    return (type(value), repr(value)) if isinstance(value, bool | int | float | str | None) else None


def _type_key(arg: Value) -> Hashable | None:
    """Return a variable's dtype and shape, a shape's dimensions, or a scalar constant's value; else None."""
    if isinstance(arg, relax.ShapeExpr):
        return _dims_key(arg.values)
    if isinstance(arg, tvm.ir.GenericConst) and not arg.value.shape:
        return str(arg.value.dtype), arg.value.numpy().tobytes()
    if not isinstance(arg, relax.Var) or not isinstance(arg.ty, relax.TensorType):
        return None
    dims = _dims_key(arg.ty.shape.values) if isinstance(arg.ty.shape, relax.ShapeExpr) else None
    return None if dims is None else (str(arg.ty.dtype.dtype), dims)


def _dims_key(dims: Sequence[PrimExpr]) -> tuple[Hashable, ...] | None:
    """Return the dimensions, of which a name is known by its address while its kernel is; None for others."""
    known = (tirx.IntImm, tirx.Var)
    named = (dim.value if isinstance(dim, tirx.IntImm) else (hash(dim),) for dim in dims)
    return tuple(named) if all(isinstance(dim, known) for dim in dims) else None


def legalize_relax_ops() -> tvm.transform.Pass:
    """Return TVM's pass that lowers Relax's operators to kernels, one for equal calls without attributes."""
    kernels = KernelCache()

    def add_cache(legalize: _Legalize) -> _Legalize:
        def legalize_once(builder: relax.BlockBuilder, call: RelaxExpr) -> RelaxExpr:
            key = key_of(call.op.name, {}, call.args) if call.attrs is None else None
            lowered = kernels.find(key, call.args)
            if lowered is None:
                lowered = legalize(builder, call)
                if call.op == _RESHAPE:
                    _keep_reshape_apart(builder, lowered)
                kernels.remember(key, call.args, lowered)
            is_call = isinstance(lowered, relax.Call) and lowered.span is None
            return with_span(lowered, call.span) if is_call else lowered

        return legalize_once

    functions = {name: add_cache(legalize) for name, legalize in _legalize_functions().items()}
    return relax.transform.LegalizeOps(functions)


def with_span(call: RelaxExpr, span: tvm.ir.Span | None) -> RelaxExpr:
    """Return a call with a span."""
    return relax.Call(call.op, call.args, call.attrs, call.ty_args, span=span)


def _keep_reshape_apart(builder: relax.BlockBuilder, call: RelaxExpr) -> None:
    """Mark a reshape's kernel in which TVM cannot see the order; fused, it would divide for each element."""
    if call.op != _CALL:
        return
    kernel = builder.get()[call.args[0]]
    if not has_reshape_order(kernel):
        marked = kernel.with_attr({IS_RESHAPE: True, "op_pattern": _OPAQUE})
        builder.update_func(call.args[0], marked)


def has_reshape_order(kernel: tirx.PrimFunc) -> bool:
    """Return whether TVM sees that a kernel copies elements in order, which it counts in 32 bits."""
    if is_huge(kernel):
        return False
    try:
        return bool(relax.analysis.has_reshape_pattern(kernel))
    except tvm.error.InternalError:  # it cannot divide by each size that is a difference, as n - 14
        return False


def is_huge(kernel: tirx.PrimFunc) -> bool:
    """Return whether the known dimensions of an argument of a kernel have a product of 2**31 or more."""
    return any(size >= 2**31 for size in _known_sizes(kernel))


def has_empty_buffer(kernel: tirx.PrimFunc) -> bool:
    """Return whether an argument of a kernel certainly has no elements: TVM may take it for a reshape."""
    return 0 in _known_sizes(kernel)


def _known_sizes(kernel: tirx.PrimFunc) -> list[int]:
    """Return the products of the known dimensions of a kernel's arguments."""
    shapes = [param.ty.shape for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    return [math.prod(int(dim.value) for dim in shape if isinstance(dim, tirx.IntImm)) for shape in shapes]


@cache
def _legalize_functions() -> Mapping[str, _Legalize]:
    names = [name for name in tvm.ir.Op.list_op_names() if name.startswith("relax.")]
    functions = {name: tvm.ir.Op.get(name).get_attr("FLegalize") for name in names}
    return {name: legalize for name, legalize in functions.items() if legalize is not None}
