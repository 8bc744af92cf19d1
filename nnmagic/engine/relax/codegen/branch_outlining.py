"""Make functions of branches while operators are fused: TVM fuses what is in no branch."""

from __future__ import annotations

import tvm
from tvm import ir, relax

from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import collect, replace_vars, rewrite

#: Marks the function of a branch.
_BRANCH = "nnmagic.branch"


def outline_branches(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with a function for each branch that computes more than one value."""
    outlined: dict[ir.GlobalVar, RelaxExpr] = {}
    functions = dict(module.functions_items())

    def outline(node: RelaxExpr) -> RelaxExpr:
        return _with_branches(node, [_call_branch(branch, outlined) for branch in _branches(node)])

    for var, function in functions.items():
        if isinstance(function, relax.Function) and collect(relax.If, function):
            functions[var] = rewrite(function, [(relax.If, outline)])
    return tvm.IRModule({**functions, **outlined}, attrs=module.attrs) if outlined else module


def inline_branches(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with what `outline_branches` made functions of back in the branches."""
    functions = dict(module.functions_items())
    outlined = {var: function for var, function in functions.items() if _BRANCH in (function.attrs or {})}

    def inline(node: RelaxExpr) -> RelaxExpr:
        branches = [_body_of_call(branch, outlined) for branch in _branches(node)]
        inner = [rewrite(branch, [(relax.If, inline)]) for branch in branches]
        return _with_branches(node, inner)

    if not outlined:
        return module
    kept = {
        var: rewrite(function, [(relax.If, inline)]) if isinstance(function, relax.Function) else function
        for var, function in functions.items()
        if var not in outlined
    }
    return tvm.IRModule(kept, attrs=module.attrs)


def _branches(node: RelaxExpr) -> tuple[RelaxExpr, RelaxExpr]:
    return node.true_branch, node.false_branch


def _with_branches(node: RelaxExpr, branches: list[RelaxExpr]) -> RelaxExpr:
    if all(new.same_as(old) for new, old in zip(branches, _branches(node), strict=True)):
        return node
    conditional = relax.If(node.cond, *branches)
    relax.expr._update_type(conditional, node.ty)
    return conditional


def _call_branch(branch: RelaxExpr, outlined: dict[ir.GlobalVar, RelaxExpr]) -> RelaxExpr:
    """Return a branch that calls a new function; a branch with fewer than two bindings as it is."""
    if not isinstance(branch, relax.SeqExpr) or sum(len(block.bindings) for block in branch.blocks) < 2:
        return branch
    args = [var for var in relax.analysis.free_vars(branch) if not isinstance(var.ty, ir.PrimType)]
    params = [relax.Var(arg.name, arg.ty) for arg in args]  # TVM's fusion wants variables of its own
    body = replace_vars(branch, dict(zip(args, params, strict=True)))
    alone = relax.Function(params, body, branch.ty, is_pure=False)
    dims = relax.analysis.free_symbolic_vars(alone)
    sizes = [relax.Var("dims", relax.ShapeType(dims))] if dims else []
    var = ir.GlobalVar(f"branch{len(outlined)}")
    function = relax.Function([*params, *sizes], body, branch.ty, is_pure=False)
    outlined[var] = function.with_attr(_BRANCH, 1)
    relax.expr._update_type(var, outlined[var].ty)
    call = relax.Call(var, [*args, relax.ShapeExpr(dims)] if dims else args)
    relax.expr._update_type(call, function.ret_ty)  # without the sizes that are defined in the branch
    result = relax.Var("result", function.ret_ty)
    return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, call)])], result)


def _body_of_call(branch: RelaxExpr, outlined: dict[ir.GlobalVar, RelaxExpr]) -> RelaxExpr:
    """Return the body of the function that a branch calls; the branch itself if it calls none."""
    calls = [
        binding.value
        for block in branch.blocks
        for binding in block.bindings
        if isinstance(binding.value, ir.Call) and isinstance(binding.value.op, ir.GlobalVar)
    ]
    if len(calls) != 1 or calls[0].op not in outlined:
        return branch
    function = outlined[calls[0].op]
    args = [arg for arg in calls[0].args if not isinstance(arg, relax.ShapeExpr)]
    return replace_vars(function.body, dict(zip(function.params, args, strict=False)))
