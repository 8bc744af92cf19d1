"""Engines turn a typed Relay module into something that runs. An engine sees Relay and diagnostics only.

This file and ``arguments`` know no TVM; ``relax`` and ``native`` import it when something must be built.
"""

from __future__ import annotations

from nnmagic.diagnostics import CompileError, Diagnostic, Span


class EngineError(CompileError):
    """A well-typed program that an engine cannot build or does not know how to build yet."""

    kind = "engine error"


def engine_error(message: str, span: Span | None = None, *, hint: str | None = None) -> EngineError:
    """An EngineError of one diagnostic."""
    return EngineError([Diagnostic(message, span, hint)])


__all__ = ["EngineError", "engine_error"]
