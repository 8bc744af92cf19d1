"""The machine code of a Relax module for TVM's virtual machine, and the texts of its stages. Knows TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm
from tvm import relax

from nnmagic.engine.relax import pipeline

#: The texts that an executable can show, in the order in which they are made.
STAGES = ("relax", "tir", "llvm", "asm")


class Texts:
    """The stages of a module as texts: as it was lowered, its kernels, LLVM's and the assembler's code."""

    def __init__(
        self, module: tvm.IRModule, kernels: tvm.IRModule, libraries: Callable[[], Iterable[Any]]
    ) -> None:
        self.lowered = module
        self._kernels = kernels
        self._libraries = libraries

    def stage(self, name: str) -> str:
        """The text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for another name."""
        if name not in STAGES:
            raise KeyError(f"the relax engine has no stage {name!r}; it has {', '.join(STAGES)}")
        with pipeline.COMPILING:
            if name == "relax":
                return str(self.lowered.script(show_meta=False))
            if name == "tir":
                return pipeline.kernels_text(self._kernels)
            return pipeline.code_text(self._libraries(), name)


class MachineCode(Texts):
    """A fused Relax module, compiled for the virtual machine; ``lowered`` is what it was before fusion."""

    def __init__(self, lowered: tvm.IRModule, fused: tvm.IRModule, target: tvm.target.Target) -> None:
        self.parallel = pipeline.has_parallel_loops(fused)
        module = pipeline.for_virtual_machine(fused, target)
        self._program = relax.build(module, target=target, relax_pipeline=None)
        super().__init__(lowered, module, self._llvm)

    def start(self, watch: Callable[..., Any] | None = None) -> Any:
        """A new virtual machine: it is not thread-safe, and gives functions by name.

        ``watch`` is called before and after each step of it, as TVM's ``set_instrument`` says.
        """
        with pipeline.COMPILING:
            # A pool of buffers would keep those of every size that was ever asked for.
            machine = relax.VirtualMachine(self._program, tvm.cpu(), memory_cfg="naive")
        if watch is not None:
            machine.set_instrument(watch)
        return machine

    def _llvm(self) -> Iterable[Any]:
        return (library for library in self._program.mod.imports if library.kind == "llvm")
