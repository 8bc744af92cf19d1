"""Kernels that run alone, on arrays between pages that nobody may read or write."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen import kernel_preparation, object_code, relax_pipeline
from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.lowering.module import lower_module
from nnmagic.engine.relax.runtime import loader
from nnmagic.engine.relax.runtime.compiled_program import ENTRY
from nnmagic.engine.relax.tir.visitors import rewrite, visit
from nnmagic.relay.expr import Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.passes import fold_constants
from nnmagic.relay.structure.callgraph import call_graph
from nnmagic.relay.structure.traverse import rewrite_module
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import AnyDim, TensorType
from tests.engine.programs import VERSION

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)


def guarded(array, *, at_end):
    """A copy of an array whose last element (or first one) touches a page without access."""
    size = -(-max(array.nbytes, 1) // _PAGE) * _PAGE
    memory = mmap.mmap(-1, size + 2 * _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + _PAGE + size):
        if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = _PAGE + (size - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy


#: Sizes in a text that stand for dynamic dimensions, by name.
NAMED = {1009: "n", 2003: "m"}


def with_named_sizes(text):
    """The typed module of a text, in which some sizes of parameters have become named dimensions."""

    def named(_, node):
        if not isinstance(node, Var) or not isinstance(node.type_annotation, TensorType):
            return node
        type_ = node.type_annotation
        shape = [AnyDim(NAMED[dim]) if dim in NAMED else dim for dim in type_.shape]
        return replace(node, type_annotation=TensorType(tuple(shape), type_.dtype))

    return fold_constants(infer_type(rewrite_module(parse_module(VERSION + text), named)))


def kernels_of(text, target=None):
    """The scheduled kernels of the Relay text's @main, and the target."""
    loader.ensure()
    resolved = resolve_target(target, 3)
    typed = with_named_sizes(text)
    with relax_pipeline.COMPILING, resolved, tvm.transform.PassContext():
        lowered = lower_module(typed, {ENTRY: "main"}, call_graph(typed))
        fused = relax_pipeline.fuse_kernels(lowered, resolved, 3)
        kernels = [each for each in fused.functions_items() if isinstance(each[1], tirx.PrimFunc)]
        # A reshape that is left is a view; indices are counted in 64 bits and then cast to Relay's type.
        beside = ("reshape", "cast", "astype")
        kernels = [each for each in kernels if not each[0].name_hint.startswith(beside)] or kernels
        return [kernel for _, kernel in kernel_preparation.prepare_kernels(kernels, resolved, 3)], resolved


class Kernel:
    """The one kernel of a program, compiled by the passes of an AOT program; its sizes are arguments."""

    def __init__(self, text: str, target: object = None) -> None:
        (kernel,), resolved = kernels_of(text, target)
        self.buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
        self.sizes: list[tirx.Var] = []
        for buffer in self.buffers:
            for dim in buffer.ty.shape:
                visit(dim, [(ir.Var, self._add_size)])
        self.function = kernel
        self.built = self._build(kernel, resolved)
        self._run = self.built["run"]

    def _add_size(self, var: tirx.Var) -> None:
        if not any(var.same_as(other) for other in self.sizes):
            self.sizes.append(var)

    def _build(self, kernel: tirx.PrimFunc, target: tvm.target.Target) -> tvm.runtime.Module:
        int32 = ir.PrimType("int32")
        pointers = [
            tirx.Var(f"{buffer.name}_data", ir.PointerType(ir.PrimType(str(buffer.ty.dtype))))
            for buffer in self.buffers
        ]
        declared = [
            tirx.DeclBuffer(buffer, data=pointer)
            for buffer, pointer in zip(self.buffers, pointers, strict=True)
        ]
        body = tirx.SeqStmt([*declared, kernel.body])
        inner = tirx.PrimFunc([*pointers, *self.sizes], body, int32).with_attr("tirx.noalias", True)
        name = ir.GlobalVar("kernel")
        addresses = [tirx.Var(f"address{number}", "int64") for number in range(len(pointers))]
        sizes = [tirx.Var(size.name, "int64") for size in self.sizes]
        call = ir.Call(
            name, [*(tirx.reinterpret("handle", each) for each in addresses), *sizes], ret_ty=int32
        )
        outer = tirx.PrimFunc([*addresses, *sizes], tirx.Return(call), int32).with_attr(
            "global_symbol", "run"
        )
        with relax_pipeline.COMPILING, tvm.transform.PassContext():
            lowered = object_code._lower({name: inner, ir.GlobalVar("run"): outer}, target)
            return tvm.get_global_func("target.build.llvm")(lowered, target)

    def sizes_of(self, arrays: Sequence[np.ndarray]) -> dict[str, int]:
        """The sizes of a call, by name."""
        return {
            dim: size
            for buffer, array in zip(self.buffers, arrays, strict=False)
            for dim, size in zip(buffer.ty.shape, array.shape, strict=True)
            if isinstance(dim, ir.Var)
        }

    def __call__(self, *arrays: np.ndarray, at_end: bool = True) -> list[np.ndarray]:
        """The results for the arrays, all between guard pages."""
        sizes = self.sizes_of(arrays)
        values = {size: tirx.const(value, "int64") for size, value in sizes.items()}
        known = [(ir.Var, lambda var: values.get(var, var))]
        given = [guarded(array, at_end=at_end) for array in arrays]
        for buffer in self.buffers[len(arrays) :]:
            shape = [int(tvm.sym.Analyzer().simplify(rewrite(dim, known))) for dim in buffer.ty.shape]
            junk = np.full(shape, 77).astype(str(buffer.ty.dtype))
            given.append(guarded(junk, at_end=at_end))
        status = self._run(*(array.ctypes.data for array in given), *(sizes[size] for size in self.sizes))
        assert status == 0
        return given[len(arrays) :]
