"""Whether the shapes of a call's operands fit together: asked when compiling, else when the program runs.

Knows Relay's operators and TVM's calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.ir import StringImm

from nnmagic.engine.relax.analysis.shape_constraints import (
    CHECKED_BY_THEIR_RULES,
    check,
    is_empty,
    of_shapes,
    tensors_of,
)
from nnmagic.engine.relax.analysis.tuple_flattening import flatten, rebuild
from nnmagic.engine.relax.legalize.registry import OpCall, shape_of
from nnmagic.engine.relax.runtime.callbacks import SHAPES_FIT, encode_check
from nnmagic.relay.types import TensorType, TupleType, Type


def emit_shape_check(site: OpCall) -> None:
    """Has a call refused whose operands do not fit: now if their shapes are known, else when it runs."""
    types = [arg.checked_type for arg in site.call.args]
    if not all(isinstance(type_, TensorType | TupleType) for type_ in types):
        return
    shapes = [shape_of(value) for value in flatten(site.args)]
    known: list[Type] = [type_ for type_ in types if type_ is not None]
    if _is_known(site.args):
        items = iter([tuple(shape) for shape in shapes])
        try:
            check(site.name, [of_shapes(type_, items) for type_ in known], site.attrs)
        except ValueError as error:
            site.refuse(str(error).removeprefix(f"{site.name}: "))
    elif site.name not in CHECKED_BY_THEIR_RULES:
        key = StringImm(encode_check(site.name, known, site.attrs))
        site.emit(
            relax.Call(
                relax.ExternFunc(SHAPES_FIT),
                [key, *map(relax.ShapeExpr, shapes)],
                ty_args=[relax.TupleType([])],
            )
        )


def _is_known(values: Sequence[Any]) -> bool:
    return all(isinstance(dim, int) for value in flatten(tuple(values)) for dim in shape_of(value))


def empty_result(site: OpCall) -> Any:
    """The result of a call that is known to be without elements; None where that is not known."""
    type_ = site.call.checked_type
    if type_ is None or not all(isinstance(type_, TensorType | TupleType) for type_ in [type_]):
        return None
    if site.name in ("strided_set", "topk") or (
        site.name in CHECKED_BY_THEIR_RULES and not _is_known(site.args)
    ):
        return None  # the rule has something to check
    tensors = list(tensors_of(type_))
    if not tensors or not all(is_empty(tensor.shape) for tensor in tensors):
        return None
    if not all(isinstance(dim, int) for tensor in tensors for dim in tensor.shape):
        return None
    made = (
        site.emit(relax.op.full(list(tensor.shape), relax.const(0, tensor.dtype), tensor.dtype))
        for tensor in tensors
    )
    return rebuild(type_, made)
