"""Emit native functions as TIR, and kernels as they call them.

A native function takes the sizes of its dimensions, its arguments (single elements by value, other arrays by
address), the addresses of its results, and those of the call's state, of the table of constants and of its
workspace. It returns 0; another number if it failed, which the state tells more about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import tvm
from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot.bodies.ends import ASK, ask_function
from nnmagic.engine.relax.codegen.aot.bodies.registers import Variables, counts_levels, value_dtype
from nnmagic.engine.relax.codegen.aot.cell_memory import cell_functions
from nnmagic.engine.relax.codegen.aot.function_bodies import BodyEmitter
from nnmagic.engine.relax.codegen.aot.heap import POINTER_TO_WORDS, heap_functions
from nnmagic.engine.relax.codegen.aot.linear_loops import LinearLoopsEmitter
from nnmagic.engine.relax.codegen.aot.program import (
    FunctionCall,
    KernelCall,
    NativeFunction,
    kernel_sizes,
    with_callees,
)
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.interrupt_polls import POLLED
from nnmagic.engine.relax.codegen.shared_rounds import INTERNAL
from nnmagic.engine.relax.runtime.native_entry import ENTRY
from nnmagic.engine.relax.tir.builders import as_pointer, dtype_of, words_at
from nnmagic.engine.relax.tir.types import PrimFunc, Var

_INT32 = ir.PrimType("int32")

#: The most steps of a function that is written twice.
_SHORT = 64


def lower_to_pointer_args(kernel: PrimFunc, *, polled: bool = True) -> PrimFunc:
    """Return a kernel as a function of pointers to its buffers' data, and of the sizes that it takes.

    polled: whether it asks now and then if it is to stop.
    """
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    types = [ir.PointerType(ir.PrimType(dtype_of(buffer))) for buffer in buffers]
    pointers = [tirx.Var(f"{buffer.name}_data", type_) for buffer, type_ in zip(buffers, types, strict=True)]
    declared = [
        tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(buffers, pointers, strict=True)
    ]
    body = tirx.SeqStmt([*declared, kernel.body])  # `object_code._return_status` makes it return 0
    params = [*pointers, *kernel_sizes(kernel)]
    function = tirx.PrimFunc(params, body, _INT32, kernel.attrs).without_attr("global_symbol")
    return function.with_attr(POLLED, tirx.const(int(polled)))


def function_variables(program: AotProgram, symbol: str) -> Variables:
    """Return the TIR functions of a program; ``symbol`` is the entry's, by which several programs differ."""
    prefix = symbol.removeprefix(ENTRY)
    return {
        function: ir.GlobalVar(f"function{prefix}_{function.name}")
        for function in program.separate_functions()
    }


def emit_support(programs: Collection[AotProgram]) -> Iterator[tuple[ir.GlobalVar, PrimFunc]]:
    """Yield the functions that those of programs call: for memory, cells, and to be interrupted."""
    if any(program.has_cells for program in programs):
        yield from cell_functions()
    if any(program.uses_heap or program.entry.left for program in programs):
        yield from heap_functions()
    if any(program.functions for program in programs):
        yield ASK, ask_function()


def emit_functions(program: AotProgram, variables: Variables) -> Iterator[tuple[ir.GlobalVar, PrimFunc]]:
    """Yield the native functions of a program, without its entry."""
    for function in variables:
        own = variables
        if _is_written_twice(function):
            # LLVM puts no function into itself, but the other, with its test for the end, into this one.
            other = ir.GlobalVar(f"{variables[function].name_hint}_other")
            yield other, _emit_function(function, variables, program.clocked).with_attr(INTERNAL, 1)
            own = {**variables, function: other}
        emitted = _emit_function(function, own, program.clocked)
        is_shown = function.is_kernel or function.parallel is not None
        yield variables[function], emitted if is_shown else emitted.with_attr(INTERNAL, 1)


def _is_written_twice(function: NativeFunction) -> bool:
    """Return whether a function calls itself and is so short that its calls are worth writing out."""
    if not function.recursive or tvm.target.Target.current(allow_none=True) is None:
        return False
    parts = list(with_callees(function))
    every = [step for part in parts for step in part.steps()]
    calls_itself = any(isinstance(step, FunctionCall) and step.callee is function for step in every)
    loops = any(part.loops for part in parts if part is not function)
    return calls_itself and not loops and len(every) <= _SHORT


def _emit_function(
    function: NativeFunction, variables: Variables, clocked: Sequence[KernelCall] | None
) -> PrimFunc:
    params = [
        tirx.Var(f"argument{number}", value_dtype(param)) for number, param in enumerate(function.parameters)
    ]
    results = [_result_param(number, dtype) for number, dtype in enumerate(function.result_registers)]
    for number in function.measured_results():
        results[number] = tirx.Var(f"result{number}", POINTER_TO_WORDS)
    state, table, workspace = (tirx.Var(name, "int64") for name in ("state", "table", "workspace"))
    emitter_class = BodyEmitter if function.recursion is None else LinearLoopsEmitter
    emitter = emitter_class(function, variables, params, results, clocked=clocked)
    words, constants = words_at("state_words"), words_at("constants")
    emitter.use(words, constants, 0, (state, table, workspace))
    statements = [
        tirx.DeclBuffer(words, data=as_pointer(state)),
        tirx.DeclBuffer(constants, data=as_pointer(table)),
        *emitter.body(),
    ]
    sizes = [emitter.first_sizes.get(dim, dim) for dim in function.dims]
    measured = [] if emitter.result_sizes is None else [emitter.result_sizes]
    all_params = [*sizes, *params, *results, *measured, state, table, workspace]
    if counts_levels(function, variables):
        all_params.append(emitter.levels)
    if emitter.stop is not None:
        all_params.append(emitter.stop)
    body = tirx.SeqStmt([*statements, tirx.Return(tirx.const(0, "int32"))])
    return tirx.PrimFunc(all_params, body, _INT32)


def _result_param(number: int, dtype: str | None) -> Var:
    """Return the parameter for the address of a result: a pointer to an element of a dtype, or an int64."""
    if dtype is None:
        return tirx.Var(f"result{number}", "int64")
    stored = "int8" if dtype == "bool" else dtype
    return tirx.Var(f"result{number}", ir.PointerType(ir.PrimType(stored)))
