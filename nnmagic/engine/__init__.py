"""Turn a typed Relay module into something that runs.

``relax`` and ``legacy_relay`` import TVM only when something must be built.
"""

from __future__ import annotations

from nnmagic.diagnostics import CompileError, Diagnostic, Span


class EngineError(CompileError):
    """A well-typed program that an engine cannot build or does not know how to build yet."""

    kind = "engine error"


def engine_error(message: str, span: Span | None = None, *, hint: str | None = None) -> EngineError:
    """Return an EngineError of one diagnostic."""
    return EngineError([Diagnostic(message, span, hint)])


__all__ = ["EngineError", "engine_error"]
