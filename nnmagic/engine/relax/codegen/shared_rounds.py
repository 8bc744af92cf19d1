"""Compile once what kernels need several times: rounds of loops, and statements that are marked.

A schedule writes one parallel loop, and the condition under which threads share it. When all loops are final,
the rounds become a function of their own, which the threads call, and the one loop of a core where the
condition does not hold. Marked statements become functions before that, equal ones the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.interrupt_polls import POLLED
from nnmagic.engine.relax.schedules.thread_choice import THREADS
from nnmagic.engine.relax.tir.builders import (
    FAIL,
    SHARED,
    as_expr,
    as_pointer,
    dtype_of,
    local_array,
    sequence,
)
from nnmagic.engine.relax.tir.types import Buffer, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite, visit

#: Marks a function that only its module calls, as that of such a loop's rounds.
INTERNAL = "nnmagic.internal"

#: The attributes of a function that what is made of its parts has, too.
_ATTRS = ("target", "tirx.noalias", POLLED)


#: Keeps LLVM from writing a function out where it is called: TVM says that what is accessed by several names,
#: as the arrays of both functions are, lies apart, and what one function stores would be lost to the other.
_NEVER_INLINED = tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.localescape"))

#: The size of an array in a function that does not know it.
_ANY_SIZE = 1 << 40


def outline_shared(functions: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> dict[ir.GlobalVar, tirx.PrimFunc]:
    """Make functions of the statements that are marked as shared; equal ones become the same function."""
    outlined: dict[ir.GlobalVar, tirx.PrimFunc] = {}
    made: dict[ir.GlobalVar, tirx.PrimFunc] = {}
    for var, function in functions.items():
        outlining = _Outlining(var.name_hint, function, made, _roots(function))
        outlined[var] = rewrite(function, [(tirx.AttrStmt, outlining.share)])
    return {**outlined, **made}


def outline_rounds(module: tvm.IRModule) -> tvm.IRModule:
    """Make a function of the rounds of each loop that threads share on a condition, and both loops of it."""
    functions: dict[ir.GlobalVar, tirx.PrimFunc] = {}
    for var, function in module.functions_items():
        outlining = _Outlining(var.name_hint, function, functions, _roots(function))
        functions[var] = rewrite(function, [(tirx.AttrStmt, outlining.split)])
    return tvm.IRModule(functions, attrs=module.attrs)


@dataclass(frozen=True, slots=True)
class _Outlining:
    """Outline parts of a function; ``roots``: the pointer parameters behind its buffers."""

    name: str
    function: tirx.PrimFunc
    functions: dict[ir.GlobalVar, tirx.PrimFunc]
    roots: dict[Buffer, Var]

    def split(self, statement: tirx.AttrStmt) -> Stmt:
        """Return the loops of threads and of one core for parallel loops with a condition."""

        def both(loop: tirx.For) -> Stmt:
            if loop.kind != tirx.ForKind.PARALLEL:
                return loop
            round_ = self._call(loop.body, for_threads=True)
            kinds = tirx.ForKind.PARALLEL, tirx.ForKind.SERIAL
            return tirx.IfThenElse(statement.value, *(_loop_of(loop, kind, round_) for kind in kinds))

        if statement.attr_key != THREADS:
            return statement
        return rewrite(statement.body, [(tirx.For, both)])

    def share(self, statement: tirx.AttrStmt) -> Stmt:
        """Return a call of what a marked statement becomes."""
        return self._call(statement.body) if statement.attr_key == SHARED else statement

    def _call(self, body: Stmt, *, for_threads: bool = False) -> Stmt:
        """Make a function of statements, or find one that does the same; return a call of it.

        Arrays of the function around them are passed to threads as addresses: of parameters that are
        pointers, LLVM knows that nobody else changes what they point to, and threads share some words by
        which they stop.
        """
        params: list[Var] = []
        args: list[PrimExpr] = []
        names: dict[Var, Node] = {}
        declared: list[Stmt] = []

        def pass_value(value: PrimExpr, name: str, kind: Any) -> Var:
            params.append(tirx.Var(name, kind))
            args.append(value)
            return params[-1]

        kept: list[Stmt] = []
        used = tirx.analysis.undefined_vars(body, [])
        for var in used:
            if not isinstance(var.ty, tirx.BufferType):
                is_final = for_threads or not isinstance(var.ty, ir.PrimType)
                names[var] = pass_value(var if is_final else _keep(var, kept), var.name, var.ty)
        for buffer in used:
            if not isinstance(buffer.ty, tirx.BufferType):
                continue
            if (root := self.roots.get(buffer)) is None:
                pointer = tirx.address_of(tirx.BufferLoad(buffer, [as_expr(0)] * len(buffer.ty.shape)))
                if for_threads:
                    data = as_pointer(pass_value(tirx.reinterpret("int64", pointer), buffer.name, "int64"))
                else:
                    data = pass_value(pointer, buffer.name, pointer.ty)
            elif root in names:
                data = names[root]
            else:
                data = names[root] = pass_value(root, root.name, root.ty)
            if (
                len(buffer.ty.shape) == 1 and not for_threads
            ):  # its size may be of variables that are not passed
                names[buffer] = _of_any_size(buffer)
            declared.append(tirx.DeclBuffer(names.get(buffer, buffer), data=data))
        apart = [] if for_threads else [_NEVER_INLINED]
        whole = replace_vars(sequence([*apart, *declared, body]), names)
        attrs = {key: self.function.attrs[key] for key in _ATTRS if key in self.function.attrs}
        function = tirx.PrimFunc(params, whole, ir.PrimType("int32")).with_attr({**attrs, INTERNAL: 1})
        symbol = self._symbol_of(function, "rounds" if for_threads else "shared")
        status = ir.Call(symbol, args, ret_ty=ir.PrimType("int32"))
        return sequence([*kept, tirx.IfThenElse(tirx.NE(status, tirx.const(0, "int32")), FAIL, None)])

    def _symbol_of(self, function: tirx.PrimFunc, kind: str) -> ir.GlobalVar:
        """Return the name of a function, which is kept if none of those so far is equal.

        ``kind`` is a part of it: what is shared is outlined first, and its threads' rounds afterwards.
        """
        for symbol, other in self.functions.items():
            if INTERNAL in (other.attrs or {}) and tvm_ffi.structural_equal(function, other):
                return symbol
        symbol = ir.GlobalVar(f"{self.name}_{kind}{len(self.functions)}")
        self.functions[symbol] = function
        return symbol


def _keep(number: Var, statements: list[Stmt]) -> PrimExpr:
    """Return a number from memory: variables of loops get fewer bits later, and parameters do not."""
    word, first = local_array(1, dtype_of(number), number.name), [as_expr(0)]
    statements += [tirx.AllocBuffer(word), tirx.BufferStore(word, number, first)]
    return tirx.BufferLoad(word, first)


def _of_any_size(buffer: Buffer) -> Buffer:
    type_ = buffer.ty
    scope, alignment = type_.storage_scope, type_.data_alignment
    dtype = dtype_of(buffer)
    return tirx.decl_buffer((_ANY_SIZE,), dtype, buffer.name, scope=scope, data_alignment=alignment)


def _loop_of(loop: tirx.For, kind: int, body: Stmt) -> Stmt:
    var = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    return replace_vars(tirx.For(loop.loop_var, loop.min, loop.extent, kind, body), {loop.loop_var: var})


def _roots(function: tirx.PrimFunc) -> dict[Buffer, Var]:
    """Return the pointer parameter of each buffer that is a view of one."""
    roots: dict[Buffer, Var] = {}

    def declare(statement: tirx.DeclBuffer) -> None:
        if isinstance(statement.data, ir.Var):
            roots[statement.buffer] = statement.data

    visit(function.body, [(tirx.DeclBuffer, declare)])
    return roots
