"""Every kernel of a program alone, on arrays between guarded pages."""

import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen import kernel_preparation, relax_pipeline
from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.lowering.module import lower_module
from nnmagic.engine.relax.runtime import loader
from nnmagic.engine.relax.runtime.compiled_program import ENTRY
from nnmagic.engine.relax.tir.visitors import visit
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.structure.callgraph import call_graph
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import AnyDim, TensorType
from tests.engine.programs import VERSION
from tests.engine.relax.schedules.guarded_kernels import Kernel


class ProgramKernel(Kernel):
    """One of the kernels of a program."""

    def __init__(self, function, target):
        self.buffers = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
        self.sizes = []
        for buffer in self.buffers:
            for dim in buffer.ty.shape:
                visit(dim, [(ir.Var, self._add_size)])
        self.function = function
        self.built = self._build(function, target)
        self._run = self.built["run"]

    def shapes(self):
        """The shapes and dtypes of the parameters, which are static; the last is the result's."""
        return [(tuple(int(dim) for dim in buffer.ty.shape), str(buffer.ty.dtype)) for buffer in self.buffers]


def program_kernels(typed, target=None, *, is_optimized=True):
    """The kernels of a typed module by name, in their order; LLVM need not optimise their loops."""
    loader.ensure()
    resolved = resolve_target(target, 3)
    with relax_pipeline.COMPILING, resolved, tvm.transform.PassContext():
        lowered = lower_module(typed, {ENTRY: "main"}, call_graph(typed))
        fused = relax_pipeline.fuse_kernels(lowered, resolved, 3)
        kernels = [each for each in fused.functions_items() if isinstance(each[1], tirx.PrimFunc)]
        prepared = list(kernel_preparation.prepare_kernels(kernels, resolved, 3))
    compiled_for = resolved if is_optimized else tvm.target.Target({**resolved.export(), "opt-level": 0})
    return {var.name_hint: ProgramKernel(function, compiled_for) for var, function in prepared}


def with_named_sizes(text, *names):
    """The typed module of a text whose ``?`` have these names, in order."""
    untyped = parse_module(VERSION + text)
    function = untyped.functions["main"]
    left = iter(names)
    params = {}
    for param in function.params:
        type_ = param.type_annotation
        dims = (AnyDim(next(left)) if isinstance(dim, AnyDim) else dim for dim in type_.shape)
        params[param] = Var(param.name_hint, TensorType(tuple(dims), type_.dtype))
    body = substitute(function.body, params)
    return infer_type(Module({"main": Function(tuple(params.values()), body, None)}))
