"""Names inside of expressions as small arrays: ``x[i] = let a = v in f(a)`` as ``a[0] = v; x[i] = f(a[0])``.

Passes of TVM put what a name stands for in its place, each time that they simplify: of functions of functions
the cost is exponential. They leave alone what an array holds, and LLVM keeps the arrays in registers. Knows
TVM only.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.builders import is_choice, ramp, sequence, spread, vector_type
from nnmagic.engine.relax.tir.visitors import rewrite

_BOOL = tvm.DataType("bool").type_code


def let_to_buffers(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function of loops without names where elements are stored, but for those of one case of a choice."""

    def wide(loop: tirx.For) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED:
            return loop
        names = _Names(loop.loop_var, int(loop.extent))
        body = rewrite(loop.body, [(tirx.BufferStore, names.before)])
        if not names.arrays:
            return loop
        whole = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
        return sequence([*map(tirx.AllocBuffer, names.arrays), whole])

    def single(store: tirx.BufferStore) -> Any:
        names = _Names(tirx.const(0, "int64"), 1)
        found = names.before(store)
        return sequence([*map(tirx.AllocBuffer, names.arrays), found]) if names.arrays else store

    body = rewrite(function.body, [(tirx.For, wide)])
    return function.with_body(rewrite(body, [(tirx.BufferStore, single)]))


class _Names:
    """The names in the values that one loop stores: an array each, with an element for each ``lane``."""

    def __init__(self, lane: Any, lanes: int) -> None:
        self._lane = lane
        self._lanes = lanes
        self._read: dict[Any, Any] = {}
        self._chosen: dict[Any, Any] = {}
        self._stores: list[Any] = []
        self.arrays: list[Any] = []

    def before(self, store: tirx.BufferStore) -> Any:
        """The statements that store what is named, then the value."""
        self._stores = []
        value = self._without(store.value)
        if not self._stores:
            return store
        found = sequence([*self._stores, tirx.BufferStore(store.buffer, value, list(store.indices))])
        return rewrite(found, [(tvm.ir.Var, lambda var: self._chosen.get(var, var))])

    def _without(self, expr: Any) -> Any:
        """The expression without names."""
        callbacks = [
            (tirx.Let, self._let),
            (tvm.ir.Var, lambda var: self._read.get(var, var)),
            (tvm.ir.Call, self._choice),
        ]
        return rewrite(expr, callbacks, before_parts=True)

    def _let(self, expr: Any) -> Any:
        while isinstance(expr, tirx.Let):
            value = self._without(expr.value)
            self._read[expr.var] = self._stored(value, expr.var.name)
            expr = expr.body
        return self._without(expr)

    def _stored(self, value: Any, name: str) -> Any:
        """Stores a value; what reads it again."""
        dtype = tvm.DataType(str(value.ty.dtype))
        if dtype.type_code == _BOOL:  # TVM has no arrays of these
            number = self._stored(value.astype(vector_type("int8", dtype.lanes)), name)
            return tirx.NE(number, spread(tirx.const(0, "int8"), dtype.lanes))
        array = tirx.decl_buffer((self._lanes * dtype.lanes,), str(dtype).split("x")[0], name, scope="local")
        place = ramp(self._lane * dtype.lanes, dtype.lanes)
        self.arrays.append(array)
        self._stores.append(tirx.BufferStore(array, value, [place]))
        return tirx.BufferLoad(array, [place])

    def _choice(self, call: Any) -> Any:
        """What is computed in one case only stays there, with its names."""
        if not is_choice(call):
            return call
        chosen = rewrite(call, [(tvm.ir.Var, lambda var: self._read.get(var, var))])
        # What a callback gives is looked through again: a variable stands for it until the end.
        var = tirx.Var("chosen", chosen.ty)
        self._chosen[var] = chosen
        return var
