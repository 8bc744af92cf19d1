"""Name the TIR types that signatures mention.

TVM has no type information that mypy can use, so each name stands for ``Any``. It tells the reader what a
parameter holds.
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: A scalar or vector expression: ``tvm.ir.PrimExpr``.
PrimExpr: TypeAlias = Any

#: A variable: a loop's, an axis of a block, or one that a ``Let`` or ``Bind`` binds.
Var: TypeAlias = Any

#: A tensor in memory: ``tirx.Buffer``.
Buffer: TypeAlias = Any

#: A read of a buffer at indices: ``tirx.BufferLoad``, which is ``tvm.ir.TensorLoad``.
Load: TypeAlias = Any

#: A call of a function or an intrinsic: ``tvm.ir.Call``.
Call: TypeAlias = Any

#: A statement: a store, a loop, an allocation, a sequence of these.
Stmt: TypeAlias = Any

#: A block of TVM's schedulable TIR: ``s_tir.SBlock``.
Block: TypeAlias = Any

#: A function of TIR: ``tirx.PrimFunc``.
PrimFunc: TypeAlias = Any

#: A node of any kind, as visitors meet it.
Node: TypeAlias = Any

#: A variable or expression of Relax.
RelaxExpr: TypeAlias = Any

#: The length of a loop or a dimension: an ``int`` where it is static, else an int64 ``PrimExpr``.
Extent: TypeAlias = Any

#: A position along an axis or in memory: an ``int`` where it is static, else an int64 ``PrimExpr``.
Index: TypeAlias = Any
