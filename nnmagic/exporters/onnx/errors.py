"""Define the errors of an export, and collect those of a whole module."""

from __future__ import annotations

from nnmagic.diagnostics import Diagnostic, Note, RelayError, Span
from nnmagic.importers.onnx.errors import Problems, UnsupportedError

#: The further places that an error points at; of more only the number is given.
_NOTES = 2


class ExportError(RelayError):
    """A Relay module that ONNX cannot express; ``diagnostics`` holds every reason."""

    kind = "ONNX export error"


class ExportRefusalError(UnsupportedError):
    """An expression that cannot be exported: why, and what would help."""


def export_problems() -> Problems[Span | None]:
    """Return what collects the problems of a module, with the places of its expressions."""
    return Problems(ExportError, _diagnostic)


def _diagnostic(what: str, reason: str, hint: str | None, spans: list[Span | None]) -> Diagnostic:
    located = [span for span in spans if span is not None]
    more = len(spans) - 1 - len(located[1 : 1 + _NOTES])
    notes = tuple(Note("also here", span) for span in located[1 : 1 + _NOTES])
    counted = f" (and {more} more)" if more > 0 else ""
    return Diagnostic(f"{what}: {reason}{counted}", located[0] if located else None, hint, notes)
