"""Pass kernels the memory for the arrays between their steps: a GPU's code allocates none.

The arrays become further results of the kernel, which its callers leave aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call
from nnmagic.engine.relax.tir.types import Buffer, Extent, RelaxExpr, Stmt
from nnmagic.engine.relax.tir.visitors import replace_vars, rewrite

#: Marks a kernel with the number of its last parameters that are such arrays.
_WORKSPACES = "nnmagic.workspaces"


def with_workspaces(kernel: tirx.PrimFunc, *, inner: bool = False) -> tirx.PrimFunc:
    """Return a kernel that takes the arrays between its steps as parameters, after its results.

    ``inner``: whether it takes those inside of its steps, too. These are a thread's own, so that one thread
    must run all of the kernel.
    """
    root = kernel.body.block
    buffers, steps = list(root.alloc_buffers), root.body
    if inner:
        steps = _without_allocations(kernel, steps, buffers)
    if not buffers:
        return kernel
    body = with_steps(kernel, steps, [])
    whole = tirx.PrimFunc([*kernel.params, *buffers], body, kernel.ret_type, kernel.attrs)
    return whole.with_attr(_WORKSPACES, len(buffers))


def with_steps(kernel: tirx.PrimFunc, steps: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    """Return the body of a kernel with other steps and other arrays between them."""
    root = kernel.body.block
    block = s_tir.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        steps,
        root.init,
        alloc_buffers=buffers,
        annotations=root.annotations,
    )
    return s_tir.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, block)


def _without_allocations(kernel: tirx.PrimFunc, steps: Stmt, buffers: list[Buffer]) -> Stmt:
    """Return steps without the arrays inside whose sizes the parameters say; append these to ``buffers``."""
    seen = set[Any]()
    for param in kernel.params:
        is_array = isinstance(param.ty, tirx.BufferType)
        seen.update(dim for dim in param.ty.shape) if is_array else seen.add(param)

    def lift(allocation: tirx.AllocBuffer) -> Stmt:
        buffer = allocation.buffer
        sizes = [tirx.Evaluate(dim) for dim in buffer.ty.shape]
        if not all(var in seen for size in sizes for var in tirx.analysis.undefined_vars(size)):
            return allocation
        buffers.append(buffer)
        return tirx.Evaluate(0)

    return rewrite(steps, [(tirx.AllocBuffer, lift)])


def pass_workspaces(module: tvm.IRModule) -> tvm.IRModule:
    """Return a Relax module in which calls of kernels allocate the arrays that these take."""
    kernels = {
        var: (tvm.ir.GlobalVar(var.name_hint), function)
        for var, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and _WORKSPACES in (function.attrs or {})
    }
    if not kernels:
        return module
    for new, kernel in kernels.values():
        relax.expr._update_type(new, kernel.ty)
    passed: dict[Any, Any] = dict(kernels.values())
    for var, function in module.functions_items():
        if var not in kernels:
            is_caller = isinstance(function, relax.Function)
            passed[var] = _Passing(module, kernels).visit_expr(function) if is_caller else function
    return tvm.IRModule(passed, attrs=module.attrs)


@mutator
class _Passing(PyExprMutator):  # type: ignore[misc]  # TVM is untyped
    """A rewriting of calls of kernels; TVM's class binds what they return to variables."""

    def __init__(
        self, module: tvm.IRModule, kernels: dict[Any, tuple[tvm.ir.GlobalVar, tirx.PrimFunc]]
    ) -> None:
        super().__init__(module)
        self._kernels = kernels

    def visit_call_(self, call: RelaxExpr) -> RelaxExpr:
        """Return the own results of a kernel's call."""
        found = self._kernels.get(call.args[0]) if is_kernel_call(call) else None
        if found is None:
            return super().visit_call_(call)
        var, kernel = found
        (type_arg,) = call.ty_args
        results = list(type_arg.fields) if isinstance(type_arg, relax.TupleType) else [type_arg]
        args = list(call.args[1].fields)
        sizes = _known_sizes(kernel, args, results)
        count = int(kernel.attrs[_WORKSPACES])
        spaces = [
            relax.TensorType([replace_vars(dim, sizes) for dim in param.ty.shape], str(param.ty.dtype))
            for param in kernel.params[-count:]
        ]
        passed = relax.call_tir(var, relax.Tuple(args), [*results, *spaces])
        whole = self.builder_.emit(passed)
        fields = [self.builder_.emit(relax.TupleGetItem(whole, number)) for number in range(len(results))]
        return relax.Tuple(fields) if isinstance(type_arg, relax.TupleType) else fields[0]


def _known_sizes(
    kernel: tirx.PrimFunc, args: list[RelaxExpr], results: list[RelaxExpr]
) -> dict[tirx.Var, Extent]:
    """Return the caller's sizes for the variables in the shapes of a kernel's parameters."""
    sizes: dict[tirx.Var, Extent] = {
        param: arg
        for param, arg in zip(kernel.params, args, strict=False)
        if not isinstance(param.ty, tirx.BufferType)
    }
    types = [*(arg.ty for arg in args), *results]
    for param, type_ in zip(kernel.params, types, strict=False):
        if isinstance(param.ty, tirx.BufferType) and isinstance(type_, relax.TensorType):
            pairs = zip(param.ty.shape, type_.shape.values, strict=True)
            sizes.update((dim, size) for dim, size in pairs if isinstance(dim, tirx.Var))
    return sizes
