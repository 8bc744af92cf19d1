"""Say what a compiled program is, how deep it may call itself, and what its failures are for Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nnmagic.diagnostics import last_line
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.relax.runtime import callbacks

if TYPE_CHECKING:
    from nnmagic.engine.executable import KernelCode, Remark
    from nnmagic.engine.relax.artifact import Artifact
    from nnmagic.relay.failures import Failure

#: The name of the entry function in the Relax module.
ENTRY = "main"

#: Calls inside calls when the program runs: a native function takes up to 4 kB of C stack for each, of which
#: Windows' threads have less.
MAX_CALL_DEPTH = 25_000 if os.name == "nt" else 100_000

#: Calls of a function with data types that takes no C stack, as it is two loops: lists are long.
MAX_LEVELS = 1_000_000

#: What the program says when it calls itself more often.
TOO_DEEP = f"the recursion is deeper than {MAX_CALL_DEPTH} calls"


class CompiledProgram(Protocol):
    """A compiled program with the texts of its stages."""

    artifact: Artifact

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code, and what each computes."""

    def remarks(self) -> Sequence[Remark]:
        """Return how its loops and kernels run, if it is machine code alone."""


class StagesOfProgram:
    """What an executable tells of its program, which is compiled when it is asked for.

    compiled: returns the program.
    """

    compiled: Callable[[], CompiledProgram]

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        return self.compiled().stage(name)

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code, and what each computes."""
        return self.compiled().kernels()

    def remarks(self) -> Sequence[Remark]:
        """Return how its loops and kernels run, and what costs."""
        return self.compiled().remarks()


class CheckedExecutable(StagesOfProgram):
    """An executable that checks its arguments by its parameters, and runs what they are converted to."""

    _parameters: Sequence[Parameter]

    def __call__(self, arrays: Sequence[object]) -> Any:
        """Return the result for these arguments."""
        return self._run(self.convert(arrays))

    def fast_path(self, args: tuple[Any, ...]) -> Any:
        """Return the result for the arguments of a call as they are; None if one does not fit."""
        try:
            values = self.convert(args)
        except (TypeError, ValueError):
            return None
        return self._run(values)

    def convert(self, arrays: Sequence[object]) -> list[Any]:
        """Return the arguments of a call as the program takes them. Raises TypeError or ValueError."""
        dims: dict[str, int] = {}
        return [
            convert_argument(parameter, value, dims)
            for parameter, value in zip(self._parameters, arrays, strict=True)
        ]

    def _run(self, values: Sequence[Any]) -> Any:
        raise NotImplementedError


def reason_of(error: Exception, function: str, assertions: Sequence[Failure] = ()) -> BaseException:
    """Return what TVM raised as the built-in exception of the call."""
    if isinstance(error, callbacks.CheckError):
        return error.to_builtin(assertions)
    reason = last_line(error)
    if "bad_alloc" in reason or "out of memory" in reason.lower():
        return MemoryError(f"@{function}: a tensor of this call needs more memory than there is")
    return (RecursionError if reason == TOO_DEEP else ValueError)(reason)
