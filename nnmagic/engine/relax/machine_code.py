"""The machine code of a Relax module: its stages as texts, and machines that run its functions. Knows TVM."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from nnmagic.engine.relax import pipeline

#: The texts that an executable can show, in the order in which they are made.
STAGES = ("relax", "tir", "llvm", "asm")


class MachineCode:
    """A Relax module, compiled."""

    def __init__(self, module: tvm.IRModule, target: tvm.target.Target, opt_level: int) -> None:
        self.module = module
        self._lowered = pipeline.kernels_and_calls(module, target, opt_level)
        self._program = relax.build(self._lowered, target=target, relax_pipeline=None)

    def start(self) -> Any:
        """A new virtual machine: it is not thread-safe, and gives functions by name."""
        with pipeline.COMPILING:
            # A pool of buffers would keep those of every size that was ever asked for.
            return relax.VirtualMachine(self._program, tvm.cpu(), memory_cfg="naive")

    def stage(self, name: str) -> str:
        """The text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for another name."""
        if name not in STAGES:
            raise KeyError(f"the relax engine has no stage {name!r}; it has {', '.join(STAGES)}")
        with pipeline.COMPILING:
            if name == "relax":
                return str(self.module.script(show_meta=False))
            if name == "tir":
                return pipeline.kernels_text(self._lowered)
            libraries = (library for library in self._program.mod.imports if library.kind == "llvm")
            return pipeline.code_text(libraries, name)
