"""Run passes of TVM only on the functions that need them, and shorten the work of its code generator."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from nnmagic.engine.relax.tir.builders import local_array
from nnmagic.engine.relax.tir.types import Stmt
from nnmagic.engine.relax.tir.visitors import collect

#: Marks an array that LLVM has on the stack, or in registers.
ON_STACK = tvm_ffi.Map({"disable_lower_builtin": tirx.IntImm("bool", 1)})


def count_stores(function: tirx.PrimFunc) -> int:
    """Estimate the work of LLVM by the number of stores."""
    return len(collect(tirx.BufferStore, function.body))


#: The stores of the largest function of which TVM finds common subexpressions before LLVM does. TVM's time
#: grows with the square of their number: of a transform, it would be a third of what the compiler takes.
_COMMON_STORES = 1000


def name_common_subexpressions(module: tvm.IRModule) -> tvm.IRModule:
    """Name common subexpressions of functions that are not too large for TVM's pass."""
    small = {var: each for var, each in module.functions_items() if count_stores(each) <= _COMMON_STORES}
    named = tirx.transform.CommonSubexprElim()(tvm.IRModule(small))
    return tvm.IRModule({**dict(module.functions_items()), **dict(named.functions_items())}, module.attrs)


def hoist_conditions(module: tvm.IRModule) -> tvm.IRModule:
    """Move conditions out of loops; TVM's pass simplifies a function first, which a few only need."""
    some = {var: function for var, function in module.functions_items() if _has_invariant_condition(function)}
    if not some:
        return module
    moved = s_tir.transform.HoistIfThenElse()(tvm.IRModule(some))
    return tvm.IRModule({**dict(module.functions_items()), **dict(moved.functions_items())}, module.attrs)


def _has_invariant_condition(function: tirx.PrimFunc) -> bool:
    """Return whether a loop contains a branch whose condition does not read the loop's variable."""
    return any(
        all(not var.same_as(loop.loop_var) for var in collect(tvm.ir.Var, branch.condition))
        for loop in collect(tirx.For, function.body)
        for branch in collect(tirx.IfThenElse, loop.body)
    )


def bind_memory(statement: tirx.Bind) -> Stmt:
    """Bind a variable to what a small array holds, which LLVM keeps in a register.

    TVM's code generator simplifies what it binds, with the values of the variables bound before in their
    places, and makes no use of it: of a kernel with a hundred variables, that takes longer than LLVM.
    """
    value = statement.value
    type_ = getattr(value.ty, "dtype", None)
    if type_ is None or isinstance(value, (tvm.ir.Var, tirx.IntImm, tirx.FloatImm, tvm.ir.TensorLoad)):
        return statement
    dtype = tvm.DataType(str(type_))
    if dtype.lanes != 1 or str(dtype) in ("bool", "handle", "void"):
        return statement
    memory, first = local_array(1, str(dtype), "value"), [tirx.const(0, "int64")]
    return tirx.SeqStmt(
        [
            tirx.AllocBuffer(memory, ON_STACK),
            tirx.BufferStore(memory, value, first),
            tirx.Bind(statement.var, tirx.BufferLoad(memory, first)),
        ]
    )
