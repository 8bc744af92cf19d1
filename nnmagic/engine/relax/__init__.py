"""The default engine: Relay to Relax to machine code, by current TVM, which is imported to build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnmagic.diagnostics import CompileError
from nnmagic.engine import engine_error
from nnmagic.relay.module import Module

if TYPE_CHECKING:
    from tvm.target import Target

    from nnmagic.engine.relax.direct import Direct
    from nnmagic.engine.relax.evaluator import Evaluator
    from nnmagic.engine.relax.executable import Executable


def build(
    module: Module,
    entry: str,
    *,
    target: str | Mapping[str, object] | None = None,
    opt_level: int = 3,
) -> Direct | Executable | Evaluator:
    """Compiles the function ``entry`` of a typed module.

    ``target``: None for this machine's CPU, or TVM's dict of settings. ``opt_level``: 0 keeps one kernel an
    operator and lets LLVM do little; from 1 on operators are fused; LLVM works as hard as the level says.
    Raises EngineError where the program or the target cannot be compiled, ValueError for a bad level.
    """
    from nnmagic.engine.relax import pipeline, pool
    from nnmagic.engine.relax.direct import Direct
    from nnmagic.engine.relax.executable import Executable
    from nnmagic.engine.relax.first_order import first_order
    from nnmagic.engine.relax.lowering import ENTRY, lower_module, refuse_unknown_operators
    from nnmagic.engine.relax.plain import plain_functions
    from nnmagic.engine.relax.straight import straight
    from nnmagic.engine.relax.target import resolve_target
    from nnmagic.relay.passes.batch_norm import fold_batch_norm

    if opt_level not in range(4):
        raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {opt_level!r}")
    refuse_unknown_operators(module, entry)
    plain = plain_functions(module)
    if entry not in plain:
        module = first_order(module, entry)
        plain = plain_functions(module)
    if opt_level:
        module = fold_batch_norm(module)
    pool.prepare()
    with pipeline.COMPILING:
        resolved = resolve_target(target, opt_level)
        try:
            if entry not in plain:
                return _evaluator(module, entry, plain, resolved, opt_level)
            with resolved:
                lowered = lower_module(module, {ENTRY: entry})
            fused = pipeline.fused(lowered, resolved, opt_level)
            program = straight(fused, ENTRY)
            if program is not None:
                return Direct(entry, module.functions[entry], program, lowered, fused, resolved)
            return Executable(entry, module.functions[entry], lowered, fused, resolved)
        except CompileError:
            raise
        except Exception as error:  # TVM raises nearly every kind
            reason = str(error).strip().rsplit("\n", maxsplit=1)[-1]
            message = f"TVM cannot build the function @{entry}: {reason}"
            raise engine_error(message, module.functions[entry].span) from error


def _evaluator(
    module: Module, entry: str, plain: frozenset[str], target: Target, opt_level: int
) -> Evaluator:
    from nnmagic.engine.relax import pipeline
    from nnmagic.engine.relax.constants import as_tensor
    from nnmagic.engine.relax.crossing import parameters_of
    from nnmagic.engine.relax.evaluator import Evaluator
    from nnmagic.engine.relax.lowering import lower_module
    from nnmagic.engine.relax.machine_code import MachineCode
    from nnmagic.engine.relax.skeleton import Program

    parameters = parameters_of(module, entry)
    program = Program(module, plain, as_tensor)
    code = program.compiled(entry)
    kernels = {kernel.name: kernel.function for kernel in program.kernels}
    called = {name: function for name, function in module.functions.items() if name in plain}
    with target:
        lowered = lower_module(Module({**called, **kernels}, module.types), {name: name for name in kernels})
    machine_code = MachineCode(lowered, pipeline.fused(lowered, target, opt_level), target)
    return Evaluator(code, parameters, machine_code, [(each.name, each.deep) for each in program.kernels])


__all__ = ["build"]
