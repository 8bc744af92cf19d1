"""Define what a cache on disk does, whichever way it keeps its entries."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nnmagic.cache.entry import Content, Json


class CacheWarning(UserWarning):
    """The cache on disk, or an entry of it, could not be used; the work was done without it."""


@dataclass(frozen=True, slots=True)
class MissingEntry:
    """The answer where no entry was found; ``why`` is empty, or says what is wrong with the entry."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of entries in the directory, and their size."""

    entries: int
    nbytes: int


class Store(Protocol):
    """Entries of at most ``max_bytes`` in a directory; any thread and any process may call it.

    Whatever is wrong with the directory or an entry is a CacheWarning and a miss.
    """

    directory: Path
    max_bytes: int

    def get(self, key: str) -> Content | MissingEntry:
        """Return the entry of a key, and mark it as used last."""

    def put(self, key: str, content: Content, *, replace: bool = False) -> None:
        """Keep an entry, and drop the least recently used ones; ``replace``: even if the key has an entry."""

    def note(self, name: str, data: Json) -> None:
        """Keep a small JSON value under a name, in place of the one before."""

    def read_note(self, name: str) -> Json | None:
        """Return the value last noted under a name, None if there is none or it cannot be read."""

    def clear(self) -> None:
        """Drop every entry; other files in the directory stay."""

    @property
    def usage(self) -> Usage:
        """The number of entries and the bytes they hold."""


def note_to_text(name: str, data: Json) -> str:
    """Return what is kept of a note: it says whose it is, because files of a directory may be exchanged."""
    return json.dumps({"name": name, "note": data})


def note_from_text(name: str, text: str | bytes) -> Json | None:
    """Return the value of a note; None if it is that of another name. Raises what ``json.loads`` raises."""
    match json.loads(text):
        case {"name": str() as own, "note": data} if own == name:
            return data
    return None


def warn(directory: Path, what: str) -> str:
    """Warn of the cache in a directory, and return the reason for a miss; called by a store's methods."""
    warnings.warn(f"nnmagic's cache in {directory} {what}", CacheWarning, stacklevel=2)
    return f"the cache {what}"


def describe_too_large(size: int, max_bytes: int) -> str:
    """Return the warning for an entry of more bytes than the cache may hold."""
    return f"is too small: an entry has {size / 1e6:.1f} MB, and {max_bytes / 1e6:g} MB may be kept"
