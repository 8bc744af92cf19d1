"""Turn a typed Relay module into something that runs.

``relax`` and ``legacy_relay`` import TVM only when something must be built.
"""

from __future__ import annotations

from nnmagic.diagnostics import CompileError, Diagnostic, Span


class EngineError(CompileError):
    """A well-typed program that an engine cannot build or does not know how to build yet."""

    kind = "engine error"


class InternalError(EngineError):
    """A fault of nnmagic's own, told at the place of the program where it showed."""


def engine_error(message: str, span: Span | None = None, *, hint: str | None = None) -> EngineError:
    """Return an EngineError of one diagnostic."""
    return EngineError([Diagnostic(message, span, hint)])


def internal_error(what: str, error: Exception, span: Span | None = None) -> InternalError:
    """Return the error to raise from one that Python raised in nnmagic's own code."""
    message = f"internal error of nnmagic: {what}: {type(error).__name__}"
    hint = "please report it, with this cell and the traceback that NNMAGIC_TB=1 shows"
    return InternalError([Diagnostic(message, span, hint)])


__all__ = ["EngineError", "InternalError", "engine_error", "internal_error"]
