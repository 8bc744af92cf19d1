"""What holds a row back that misses its goal: what the profile says, and what was tried."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: (pattern of row names, threads or None for any, what holds it back); the first that fits counts.
NOTES: tuple[tuple[str, int | None, str], ...] = (
    (
        "dense+bias+relu 16x*",
        None,
        "the eight accumulators of the register tile are allocated on the heap at each call (stage llvm: "
        "__TVMBackendAllocWorkspace; getrusage: 8 page faults a call): 17 us and more, 5.5 where none occur",
    ),
    (
        "mlp * batch 1",
        None,
        "accumulators are allocated on the heap at each call (getrusage: 26 page faults a call): 55 us, 12 "
        "where none occur",
    ),
)


def note_of(name: str, threads: int) -> str | None:
    """The note of a row."""
    for pattern, count, note in NOTES:
        if count in (None, threads) and fnmatchcase(name, pattern):
            return note
    return None
