"""Define the errors of an export, and collect those of a whole module."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnmagic.diagnostics import Diagnostic, Note, RelayError, Span
from nnmagic.limits import MAX_ERRORS

#: The further places that an error points at; of more only the number is given.
_NOTES = 2


class ExportError(RelayError):
    """A Relay module that ONNX cannot express; ``diagnostics`` holds every reason."""

    kind = "ONNX export error"


class ExportRefusalError(Exception):
    """An expression that cannot be exported: why, and what would help."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(slots=True)
class ExportProblems:
    """Collect the problems of a module: one entry for each operator and reason, with its places."""

    places: dict[tuple[str, str, str | None], list[Span | None]] = field(default_factory=dict)

    def add(self, what: str, span: Span | None, error: ExportRefusalError) -> None:
        """Record why an expression cannot be exported."""
        places = self.places.setdefault((what, error.reason, error.hint), [])
        if span is None or span not in places:
            places.append(span)

    def raise_if_any(self) -> None:
        """Raise ExportError with all problems, if there is one."""
        if not self.places:
            return
        diagnostics = [_diagnostic(*key, spans) for key, spans in self.places.items()]
        if len(diagnostics) > MAX_ERRORS:
            diagnostics = [
                *diagnostics[:MAX_ERRORS],
                Diagnostic(f"{len(diagnostics) - MAX_ERRORS} more errors are left out"),
            ]
        raise ExportError(diagnostics)


def _diagnostic(what: str, reason: str, hint: str | None, spans: list[Span | None]) -> Diagnostic:
    located = [span for span in spans if span is not None]
    more = len(spans) - 1 - len(located[1 : 1 + _NOTES])
    notes = tuple(Note("also here", span) for span in located[1 : 1 + _NOTES])
    counted = f" (and {more} more)" if more > 0 else ""
    return Diagnostic(f"{what}: {reason}{counted}", located[0] if located else None, hint, notes)
