"""Lower the operators of cells, which `analysis.data_types` makes, to calls that the planner knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tvm import relax, tirx

from nnmagic.engine.relax.analysis.cell_layout import open_axes
from nnmagic.engine.relax.analysis.cell_operators import CLOSE
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.relay.expr import Call
from nnmagic.relay.types import ANY, TensorType


def lower_cell_operator(
    builder: relax.BlockBuilder, node: Call, name: str, operands: Sequence[RelaxExpr]
) -> RelaxExpr:
    """Bind a call of an operator of cells, and return its value; its numbers come after the operands."""
    type_ = node.inferred_tensor
    is_open = name == CLOSE or bool(open_axes(type_))
    shape = {"ndim": len(type_.shape)} if is_open else {"shape": type_.shape}
    result = relax.TensorType(dtype=type_.dtype, **shape)
    numbers = cast("Sequence[int]", node.attrs.get("numbers", ()))
    given = [tirx.const(number, "int64") for number in numbers]
    return builder.emit(relax.Call(relax.ExternFunc(name), [*operands, *given], ty_args=[result]))


def type_in_cell(type_: TensorType) -> TensorType:
    """Return the type of a field as a cell has it: sizes have no names, which nothing has checked."""
    return TensorType(tuple(dim if isinstance(dim, int) else ANY for dim in type_.shape), type_.dtype)
