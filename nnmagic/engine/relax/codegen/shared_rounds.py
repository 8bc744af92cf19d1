"""Compile the rounds of a loop once that threads share only if the call has enough work for them.

A schedule writes one parallel loop, and the condition around it. When all loops are final, the rounds become
a function of their own, which the threads call, and the one loop of a core where the condition does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.interrupt_polls import POLLED
from nnmagic.engine.relax.schedules.thread_choice import THREADS
from nnmagic.engine.relax.tir.builders import FAIL, as_expr, as_pointer, sequence
from nnmagic.engine.relax.tir.types import Buffer, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite, visit

#: Marks a function that only its module calls, as that of such a loop's rounds.
INTERNAL = "nnmagic.internal"

#: The attributes of a loop's function that its rounds have, too.
_ATTRS = ("target", "tirx.noalias", POLLED)


def outline_rounds(module: tvm.IRModule) -> tvm.IRModule:
    """Make a function of the rounds of each loop that threads share on a condition, and both loops of it."""
    functions: dict[ir.GlobalVar, tirx.PrimFunc] = {}
    for var, function in module.functions_items():
        outlining = _Outlining(var.name_hint, function, functions, _roots(function))
        functions[var] = rewrite(function, [(tirx.AttrStmt, outlining.split)])
    return tvm.IRModule(functions, attrs=module.attrs)


@dataclass(frozen=True, slots=True)
class _Outlining:
    """Outline the rounds of a function's loops; ``roots``: the pointer parameters behind its buffers."""

    name: str
    function: tirx.PrimFunc
    functions: dict[ir.GlobalVar, tirx.PrimFunc]
    roots: dict[Buffer, Var]

    def split(self, statement: tirx.AttrStmt) -> Stmt:
        """Return the loops of threads and of one core for parallel loops with a condition."""

        def both(loop: tirx.For) -> Stmt:
            if loop.kind != tirx.ForKind.PARALLEL:
                return loop
            status = self._call_rounds(loop.body)
            round_ = tirx.IfThenElse(tirx.NE(status, tirx.const(0, "int32")), FAIL, None)
            kinds = tirx.ForKind.PARALLEL, tirx.ForKind.SERIAL
            return tirx.IfThenElse(statement.value, *(_loop_of(loop, kind, round_) for kind in kinds))

        if statement.attr_key != THREADS:
            return statement
        return rewrite(statement.body, [(tirx.For, both)])

    def _call_rounds(self, body: Stmt) -> PrimExpr:
        """Make a function of a loop's body; return a call of it.

        Arrays of the loop's function are passed as addresses: of parameters that are pointers, LLVM knows
        that nobody else changes what they point to, and the threads share some words by which they stop.
        """
        params: list[Var] = []
        args: list[PrimExpr] = []
        names: dict[Var, Node] = {}
        declared: list[Stmt] = []

        def pass_value(value: PrimExpr, name: str, kind: Any) -> Var:
            params.append(tirx.Var(name, kind))
            args.append(value)
            return params[-1]

        used = tirx.analysis.undefined_vars(body, [])
        for var in used:
            if not isinstance(var.ty, tirx.BufferType):
                names[var] = pass_value(var, var.name, var.ty)
        for buffer in used:
            if not isinstance(buffer.ty, tirx.BufferType):
                continue
            if (root := self.roots.get(buffer)) is None:
                data = as_pointer(pass_value(_address_of(buffer), buffer.name, "int64"))
            elif root in names:
                data = names[root]
            else:
                data = names[root] = pass_value(root, root.name, root.ty)
            declared.append(tirx.DeclBuffer(buffer, data=data))
        whole = replace_vars(sequence([*declared, body]), names)
        attrs = {key: self.function.attrs[key] for key in _ATTRS if key in self.function.attrs}
        symbol = ir.GlobalVar(f"{self.name}_rounds{len(self.functions)}")
        function = tirx.PrimFunc(params, whole, ir.PrimType("int32"))
        self.functions[symbol] = function.with_attr({**attrs, INTERNAL: 1})
        return ir.Call(symbol, args, ret_ty=ir.PrimType("int32"))


def _address_of(buffer: Buffer) -> PrimExpr:
    first = tirx.BufferLoad(buffer, [as_expr(0)] * len(buffer.ty.shape))
    return tirx.reinterpret("int64", tirx.call_intrin("handle", "tirx.address_of", first))


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
