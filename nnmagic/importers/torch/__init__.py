"""Import PyTorch programs as Relay modules; the package torch is imported when a program is."""

from __future__ import annotations

from nnmagic.importers.torch.errors import TorchError
from nnmagic.importers.torch.programs import TorchProgram, import_program
from nnmagic.tracebacks import short_errors

__all__ = ["TorchError", "TorchProgram", "from_torch"]

from_torch = short_errors(import_program)
