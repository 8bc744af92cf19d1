"""Turn lets into small arrays: ``x[i] = let a = v in f(a)`` becomes ``a[0] = v; x[i] = f(a[0])``.

TVM's passes substitute a let's value each time that they simplify, which takes exponential time for functions
of functions. They leave the contents of arrays alone, and LLVM keeps the arrays in registers.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.types import Buffer, Call, PrimExpr, Stmt
from nnmagic.engine.relax.tir.visitors import VarMap, collect, rewrite

_BOOL = tvm.DataType("bool").type_code


def let_to_buffers(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace the lets in stored values by arrays; a let in one case of a conditional stays."""

    def rewrite_loop(loop: tirx.For) -> Stmt:
        if loop.kind != tirx.ForKind.VECTORIZED:
            return loop
        lets = _LetBuffers(loop.loop_var, int(loop.extent))
        body = rewrite(loop.body, [(tirx.BufferStore, lets.rewrite_store)])
        if not lets.arrays:
            return loop
        whole = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
        return builders.sequence([*map(tirx.AllocBuffer, lets.arrays), whole])

    def rewrite_single_store(store: tirx.BufferStore) -> Stmt:
        lets = _LetBuffers(tirx.const(0, "int64"), 1)
        statement = lets.rewrite_store(store)
        return builders.sequence([*map(tirx.AllocBuffer, lets.arrays), statement]) if lets.arrays else store

    if not collect(tirx.Let, function.body):
        return function
    vectors = rewrite(function, [(tirx.For, rewrite_loop)])
    return rewrite(vectors, [(tirx.BufferStore, rewrite_single_store)])


class _LetBuffers:
    """Arrays for the lets in the values that one loop stores, with an element for each lane."""

    def __init__(self, lane: PrimExpr, lanes: int) -> None:
        self._lane = lane
        self._lanes = lanes
        self._loads = VarMap()
        self._conditionals = VarMap()
        self._stores: list[Stmt] = []
        self.arrays: list[Buffer] = []

    def rewrite_store(self, store: tirx.BufferStore) -> Stmt:
        """Return statements that store the bound values, then the value itself."""
        self._stores = []
        value = self._remove_lets(store.value)
        if not self._stores:
            return store
        statements = builders.sequence(
            [*self._stores, tirx.BufferStore(store.buffer, value, list(store.indices))]
        )
        return rewrite(statements, [(tvm.ir.Var, self._conditionals.replace)])

    def _remove_lets(self, expr: PrimExpr) -> PrimExpr:
        """Return the expression with loads in place of the variables that lets bind."""
        callbacks = [
            (tirx.Let, self._rewrite_let),
            (tvm.ir.Var, self._loads.replace),
            (tvm.ir.Call, self._rewrite_conditional),
        ]
        return rewrite(expr, callbacks, before_parts=True)

    def _rewrite_let(self, expr: PrimExpr) -> PrimExpr:
        while isinstance(expr, tirx.Let):
            value = self._remove_lets(expr.value)
            self._loads[expr.var] = self._store(value, expr.var.name)
            expr = expr.body
        return self._remove_lets(expr)

    def _store(self, value: PrimExpr, name: str) -> PrimExpr:
        """Store a value in a new array, and return the load that reads it."""
        dtype = tvm.DataType(builders.dtype_of(value))
        if dtype.type_code == _BOOL:  # TVM has no arrays of these
            number = self._store(value.astype(builders.vector_type("int8", dtype.lanes)), name)
            return tirx.NE(number, builders.broadcast(tirx.const(0, "int8"), dtype.lanes))
        array = builders.local_array(self._lanes * dtype.lanes, str(dtype).split("x")[0], name)
        index = builders.ramp(self._lane * dtype.lanes, dtype.lanes)
        self.arrays.append(array)
        self._stores.append(tirx.BufferStore(array, value, [index]))
        return tirx.BufferLoad(array, [index])

    def _rewrite_conditional(self, call: Call) -> PrimExpr:
        """Keep the lets of one case inside of it: the other case must not compute them."""
        if not builders.is_conditional(call):
            return call
        if self._lanes > 1 and builders.is_library_fallback(call):
            return self._rewrite_library_fallback(call)
        conditional = rewrite(call, [(tvm.ir.Var, self._loads.replace)])
        # The visitor descends into a callback's result, so a variable stands for it until the end.
        var = tirx.Var("chosen", conditional.ty)
        self._conditionals[var] = conditional
        return var

    def _rewrite_library_fallback(self, call: Call) -> PrimExpr:
        """Compute all lanes as a vector; then call the C library for those that need it, if there are any."""
        condition, library, value = call.args
        name, *arguments = library.args
        rare = self._store(self._remove_lets(condition.astype("int8")), "rare").source
        operands = [self._store(self._remove_lets(argument), "argument").source for argument in arguments]
        result = self._store(self._remove_lets(value), "result")
        lane = tirx.Var("lane", "int64")
        zero = tirx.const(0, "int8")
        exact = tirx.call_pure_extern(
            builders.dtype_of(call), name, *(tirx.BufferLoad(operand, [lane]) for operand in operands)
        )
        store = tirx.BufferStore(result.source, exact, [lane])
        choice = tirx.IfThenElse(tirx.BufferLoad(rare, [lane]) != zero, store, None)
        lanes = tirx.For(
            lane, builders.as_expr(0), builders.as_expr(self._lanes), tirx.ForKind.SERIAL, choice
        )
        # One test of all lanes: the loop over single ones is skipped where, as usual, none needs
        # the library.
        every = tirx.BufferLoad(rare, [builders.ramp(0, self._lanes)])
        any_rare = tirx.call_llvm_pure_intrin("int8", "llvm.vector.reduce.or", every)
        self._stores.append(tirx.IfThenElse(any_rare != zero, lanes, None))
        return result
