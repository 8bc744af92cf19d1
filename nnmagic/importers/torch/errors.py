"""Define the errors of an import, and collect those of a whole program."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from nnmagic.diagnostics import Diagnostic, RelayError
from nnmagic.importers.onnx.errors import Problems

if TYPE_CHECKING:
    from torch.fx import Node as FxNode

#: The nodes that an error names; of more only the number is given.
_NAMED = 3
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]*)')


class TorchError(RelayError):
    """A PyTorch program that cannot be imported; ``diagnostics`` holds every problem, in the nodes' order."""

    kind = "PyTorch error"


def program_error(message: str, hint: str | None = None) -> TorchError:
    """Return the error of a program that cannot be imported at all."""
    return TorchError([Diagnostic(message, None, hint)])


def place_of(node: FxNode) -> str:
    """Return the name of a node, with the line of the module's source that it comes from."""
    line = source_line(node)
    return f"{node.name!r} at {line}" if line else repr(node.name)


def source_line(node: FxNode) -> str:
    """Return the line of the module's source that a node comes from; "" if it is not known."""
    frames = _FRAME.findall(str(node.meta.get("stack_trace") or ""))
    if not frames:
        return ""
    filename, line, code = frames[-1]
    return f"{PurePath(filename).name}:{line}: {code.strip()}"


def torch_problems() -> Problems[str]:
    """Return what collects the problems of a program."""
    return Problems(TorchError, _describe)


def _describe(operator: str, reason: str, hint: str | None, places: list[str]) -> Diagnostic:
    return Diagnostic(f"{operator}: {reason} ({_name_nodes(places)})", None, hint)


def _name_nodes(places: list[str]) -> str:
    more = len(places) - _NAMED
    shown = "; ".join(places[:_NAMED])
    return f"node{'s' if len(places) > 1 else ''} {shown}" + (f"; and {more} more" if more > 0 else "")
