"""Run the Relax passes of an optimisation level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.codegen.assignment_conflicts import find_conflicts
from nnmagic.engine.relax.codegen.branch_outlining import inline_branches, outline_branches
from nnmagic.engine.relax.codegen.early_checks import check_early
from nnmagic.engine.relax.codegen.joined_updates import join_updates
from nnmagic.engine.relax.codegen.recomputed_broadcasts import recompute_broadcasts
from nnmagic.engine.relax.codegen.reduction_prologues import fuse_before_reductions
from nnmagic.engine.relax.codegen.sinking import sink_changes
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.legalize.kernel_cache import has_empty_buffer, is_huge, legalize_relax_ops
from nnmagic.engine.relax.legalize.kernel_calls import kernels_of, map_bindings, map_functions
from nnmagic.engine.relax.legalize.registry import OPAQUE
from nnmagic.engine.relax.lowering.origins import KernelOrigins
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import collect, rewrite
from nnmagic.fork_safety import Lock

#: A pass: a function of a module, or TVM's.
Pass: TypeAlias = Callable[[tvm.IRModule], tvm.IRModule]

#: TVM's builders keep process-wide state, so one compilation runs at a time.
COMPILING = Lock()

#: TVM would unroll a loop of so many rounds that their number, times the steps of each, wraps in 32 bits.
NO_CHOSEN_UNROLLING = {"tirx.UnrollLoop": {"auto_max_depth": -1}}

#: The longest chain that is fused into one kernel: TVM's fusion is super-linear in it.
MAX_FUSED = 48


def fuse_kernels(
    module: tvm.IRModule, target: tvm.target.Target, opt_level: int, origins: KernelOrigins | None = None
) -> tvm.IRModule:
    """Legalize every operator to a TIR function and fuse these; the loops stay as the operators have them.

    ``origins`` learns what each kernel computes.
    """
    transform = relax.transform
    grouping: Pass | None = _group_operators if opt_level else None
    if origins is not None:
        grouping = partial(origins.read_while, grouping)
    fusion: list[Pass] = [] if grouping is None else [grouping]
    if opt_level:
        before = [
            transform.AnnotateTIROpPattern(),
            join_updates,
            check_early,
            recompute_broadcasts,
            fuse_before_reductions,
        ]
        fusion = [*before, *fusion, _name_sizes_early, transform.FuseTIR()]
    passes: list[Pass] = [
        transform.ConvertToDataflow(1),
        legalize_relax_ops(),
        transform.DeadCodeElimination(),  # fusion fails on what nobody uses inside of a branch
        _keep_some_apart,
        *fusion,
        transform.DeadCodeElimination(),
    ]
    last = [transform.ToNonDataflow(), transform.RemovePurityChecking()]
    with target, tvm.transform.PassContext(config={"relax.FuseOps.max_depth": MAX_FUSED}):
        fused = inline_branches(run_passes(passes, outline_branches(module)))
        kernels = [function for function in fused.functions.values() if isinstance(function, tirx.PrimFunc)]
        if not any(is_huge(kernel) or has_empty_buffer(kernel) for kernel in kernels):
            last.insert(0, transform.RewriteDataflowReshape())
        return sink_changes(run_passes(last, fused))


def run_passes(passes: Iterable[Pass], module: tvm.IRModule) -> tvm.IRModule:
    """Run passes, TVM's and our own, one by one, so that an interrupt ends the work between two of them."""
    for pass_ in passes:
        interrupt_safepoint()
        is_tvms = isinstance(pass_, tvm.transform.Pass)
        module = tvm.transform.Sequential([pass_])(module) if is_tvms else pass_(module)
    return module


def _name_sizes_early(module: tvm.IRModule) -> tvm.IRModule:
    """Name the sizes of an array as soon as it is there.

    TVM's `FuseOps` follows arrays alone: what computes with such a name may come before it.
    """

    def name_early(sequence: relax.SeqExpr) -> relax.SeqExpr:
        return map_bindings(sequence, _in_order)

    return map_functions(module, lambda function: rewrite(function, [(relax.SeqExpr, name_early)]))


def _in_order(bindings: Sequence[RelaxExpr]) -> list[RelaxExpr]:
    """Return bindings in which each cast of an array follows what defines that, or comes first."""
    moved: dict[RelaxExpr | None, list[RelaxExpr]] = {}
    defined = {binding.var for binding in bindings}
    for binding in bindings:
        if isinstance(binding, relax.MatchCast) and not isinstance(binding.ty, relax.ShapeType):
            source = binding.value
            while isinstance(source, relax.TupleGetItem):
                source = source.tuple_value
            if isinstance(source, relax.Var):
                moved.setdefault(source if source in defined else None, []).append(binding)
    early = {binding.var for each in moved.values() for binding in each}
    ordered: list[RelaxExpr] = []
    work = [*moved.get(None, ()), *(binding for binding in bindings if binding.var not in early)][::-1]
    while work:
        binding = work.pop()
        ordered.append(binding)
        work += moved.get(binding.var, ())[::-1]
    return ordered


def _keep_some_apart(module: tvm.IRModule) -> tvm.IRModule:
    """Keep kernels apart that make arrays of sizes alone, or read what they assign.

    Of the first, TVM would define the sizes that are their parameters twice in a fused kernel, and refuse it.
    """
    kernels = kernels_of(module).items()
    made_of_sizes = [name for name, kernel in kernels if _is_made_of_sizes(kernel)]
    return _keep_apart(module, [*made_of_sizes, *find_conflicts(module)])


def _keep_apart(module: tvm.IRModule, kernels: list[tvm.ir.GlobalVar]) -> tvm.IRModule:
    """Return a module in which kernels are fused with no other."""
    if kernels:
        module = module.clone()
        for kernel in kernels:
            module.update_func(kernel, module[kernel].with_attr("op_pattern", OPAQUE))
    return module


def _group_operators(module: tvm.IRModule) -> tvm.IRModule:
    """Run TVM's `FuseOps`, and leave kernels out of groups of which TVM would define sizes twice."""
    fuse = relax.transform.FuseOps()
    grouped = fuse(module)
    groups = [function for function in grouped.functions.values() if isinstance(function, relax.Function)]
    unfit = [
        kernel for group in groups if group.attrs and "Primitive" in group.attrs for kernel in _unfit(group)
    ]
    return fuse(_keep_apart(module, unfit)) if unfit else grouped


def _unfit(group: relax.Function) -> list[tvm.ir.GlobalVar]:
    """Return the kernels of a group that TVM could not fuse: a size of no argument would be defined twice.

    Such a size is a parameter, among several of a shape. Where a kernel has no argument, it must not be the
    result's; nor may a kernel have another number as an argument, unless it is the size of an array.
    """
    shapes = [param.ty for param in group.params if isinstance(param.ty, relax.ShapeType)]
    if not shapes:
        return []
    bindings = group.body.blocks[0].bindings
    calls = [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]
    sizes_of = relax.analysis.tir_vars_in_type
    given = [size for shape in shapes for size in shape.values]
    is_given = any(_is_one_of(size, given) for size in sizes_of(group.ret_ty))
    arrays = [param.ty for param in group.params if isinstance(param.ty, relax.TensorType)]
    sizes = [*given, *(size for array in arrays for size in array.shape.values)]
    own = [size for size in sizes if not _is_one_of(size, group.params)]
    return [
        call.args[0]
        for call in calls
        for args in (call.args[1].fields,)
        if (is_given and not args)
        or any(isinstance(arg.ty, tvm.ir.PrimType) and not _is_one_of(arg, own) for arg in args)
    ]


def _is_one_of(var: RelaxExpr, others: Sequence[RelaxExpr]) -> bool:
    return any(var.same_as(other) for other in others)


def _is_made_of_sizes(kernel: tirx.PrimFunc) -> bool:
    """Return whether a kernel has one array, its result, and numbers as parameters."""
    arrays = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    return len(arrays) == 1 and len(kernel.params) > 1


def for_virtual_machine(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Lower every call of a fused module for TVM's virtual machine."""
    transform = relax.transform
    # The plan reuses memory across branches as if both had run: freed storage is written to, and TVM crashes.
    planning = [] if _has_branches(module) else [transform.StaticPlanBlockMemory()]
    passes = [
        transform.CallTIRRewrite(),
        *planning,
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    ]
    with target:
        return run_passes(passes, module)


def _has_branches(module: tvm.IRModule) -> bool:
    functions = (each for each in module.functions.values() if isinstance(each, relax.Function))
    return any(collect(relax.If, function) for function in functions)
