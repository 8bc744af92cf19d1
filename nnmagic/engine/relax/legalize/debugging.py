"""Legalize what looks at values as a program computes them.

``print`` is a kernel that calls Python with the addresses and the sizes of its arrays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tvm import te, tirx

from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, assertion, shape_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import PRINT, RAISE_EXCEPTION
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of, sequence
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr, PrimFunc, Stmt
from nnmagic.relay.failures import RAISE

#: The attribute of kernels that print.
_PRINTS = "nnmagic.prints"


def _callback_kernel(call: OpCall, callee: str, *more: PrimExpr | str) -> Value:
    """Return a kernel that calls Python with its arrays, after what else the function takes; it is true."""
    (values,) = call.args

    def compute(*tensors: Tensor) -> Tensor:
        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            arrays = [[dtype_of(buffer), len(buffer.ty.shape)] for buffer in ins]
            numbers: list[PrimExpr] = []
            for buffer in ins:
                numbers.append(tirx.address_of(tirx.BufferLoad(buffer, [as_expr(0)] * len(buffer.ty.shape))))
                numbers += [as_expr(dim).astype("int64") for dim in buffer.ty.shape]
            called = tirx.call_packed(callee, str(call.attrs["layout"]), json.dumps(arrays), *more, *numbers)
            return sequence([tirx.Evaluate(called), tirx.BufferStore(outs[0], tirx.const(1, "bool"), [])])

        return te.extern([()], list(tensors), emit, dtype=["bool"], name="called")

    return call.te(compute, *values, primfunc_attrs={"op_pattern": OPAQUE, _PRINTS: True})


def _print(call: OpCall) -> Value:
    return _callback_kernel(call, PRINT)


def _raise(call: OpCall) -> Value:
    number = tirx.const(int(str(call.attrs["number"])), "int64")
    return _callback_kernel(call, RAISE_EXCEPTION, str(call.attrs["kind"]), number)


def _require(call: OpCall) -> Value:
    data, condition = call.args
    if shape_of(condition):
        condition = call.holds_of_all(condition, lambda holds: holds)
    call.emit(assertion(condition, str(call.attrs["message"]), call.name))
    return data


def prints(kernel: PrimFunc) -> bool:
    """Return whether a kernel prints."""
    return kernel.attrs is not None and bool(kernel.attrs.get(_PRINTS))


RULES["python.print"] = _print
RULES[RAISE] = _raise
RULES["python.require"] = _require
RULES["python.sized"] = lambda call: call.args[0]
