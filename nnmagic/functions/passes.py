"""Show what the passes of a compiled function did: ``f.passes``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import overload

from nnmagic.relay.passes.pipeline import PassRun


class Passes(Sequence[PassRun]):
    """The runs of passes on one function, in order; ``str`` is a table that says which changed it."""

    def __init__(self, runs: Sequence[PassRun]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> PassRun: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PassRun]: ...
    def __getitem__(self, index: int | slice) -> PassRun | Sequence[PassRun]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        width = max((len(run.name) for run in self._runs), default=0)
        lines = [
            f"{run.name.ljust(width)}  {'changed it' if run.changed else 'no change'}" for run in self._runs
        ]
        return "\n".join(lines) or "no passes"

    def times(self) -> str:
        """Return how long each run took, in one line."""
        return ", ".join(f"{run.name} {run.seconds * 1e3:.2g} ms" for run in self._runs)

    def text(self) -> str:
        """Return what each pass changed, as a diff of the Relay text; unchanged ones share a line."""
        lines: list[str] = []
        for changed, group in itertools.groupby(self._runs, lambda run: run.changed):
            runs = list(group)
            if changed:
                lines += [run.diff() for run in runs]
            else:
                lines.append(f"=== no change: {', '.join(run.name for run in runs)}\n")
        return "\n".join(lines).rstrip()
