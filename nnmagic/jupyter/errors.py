"""The error of a magic's line: bad options, unknown commands. Knows nothing else."""

from __future__ import annotations


class MagicError(ValueError):
    """A magic's line that makes no sense. The cell fails, and a notebook shows one line.

    IPython's own UsageError lets the cell succeed, so that nothing that runs a notebook notices.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a Python traceback."""
        return [f"{type(self).__name__}: {self}"]
