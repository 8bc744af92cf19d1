"""The default engine: Relay to Relax to machine code, by current TVM, which is imported to build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnmagic.relay.module import Module

if TYPE_CHECKING:
    from nnmagic.engine.relax.executable import Executable


def build(
    module: Module,
    entry: str,
    *,
    target: str | Mapping[str, object] | None = None,
    opt_level: int = 3,
) -> Executable:
    """Compiles the function ``entry`` of a typed module.

    ``target``: None for this machine's CPU, or TVM's dict of settings. ``opt_level``: 0 keeps one kernel an
    operator and lets LLVM do little; from 1 on operators are fused; LLVM works as hard as the level says.
    Raises EngineError where the program or the target cannot be compiled, ValueError for a bad level.
    """
    from nnmagic.engine.relax import pipeline
    from nnmagic.engine.relax.executable import Executable
    from nnmagic.engine.relax.lowering import lower_module

    if opt_level not in range(4):
        raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {opt_level!r}")
    with pipeline.COMPILING:
        resolved = pipeline.resolve_target(target, opt_level)
        return Executable(module.functions[entry], lower_module(module, entry), resolved, opt_level)


__all__ = ["build"]
