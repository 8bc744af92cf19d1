"""What holds a row back that misses its goal: what the profile says, and what was tried."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: (pattern of row names, threads or None for any, what holds it back); the first that fits counts.
NOTES: tuple[tuple[str, int | None, str], ...] = ()


def note_of(name: str, threads: int) -> str | None:
    """The note of a row."""
    for pattern, count, note in NOTES:
        if count in (None, threads) and fnmatchcase(name, pattern):
            return note
    return None
