"""Keep values in a bounded cache in memory, whose keys include captured values that only the work finds.

The request (``parts``: source, options, versions) is known before the work; what the work looked at besides
(``captured``: names and the fingerprints of their values) only after it. An entry is found when its parts are
equal and every name that it captured still has its fingerprint. For a miss, a sentence says why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nnmagic.fork_safety import Lock

Value = TypeVar("Value")

#: Fingerprints by name: texts that are equal only for equal values.
Fingerprints = Mapping[str, str]


def digest(parts: Fingerprints) -> str:
    """Return a hash of names and texts, the same in every process and on every machine."""
    state = hashlib.blake2b(digest_size=20)
    for name in sorted(parts):
        for text in (name, parts[name]):
            data = text.encode("utf-8", "surrogatepass")
            state.update(len(data).to_bytes(8, "little"))
            state.update(data)
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry(Generic[Value]):
    """A cached value with what it was made from, the names it goes by, and its size in bytes.

    key: the hash of everything that the value depends on.
    """

    names: tuple[str, ...]
    parts: Fingerprints
    captured: Fingerprints
    value: Value
    nbytes: int
    key: str = field(init=False)

    def __post_init__(self) -> None:
        key = digest({"parts": digest(self.parts), "captured": digest(self.captured)})
        object.__setattr__(self, "key", key)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The fill and the lookups of a cache."""

    entries: int
    nbytes: int
    hits: int
    misses: int
    evictions: int


class MemoryCache(Generic[Value]):
    """A least-recently-used cache of at most ``max_entries`` and ``max_bytes``; any thread may call it."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._entries: dict[str, Entry[Value]] = {}  # by key, the one used last at the end
        self._reset_counts()

    def find(self, parts: Fingerprints, fingerprint: Callable[[str], str]) -> Entry[Value] | None:
        """Return the entry of these parts whose captured names all still have their ``fingerprint``."""
        seen: dict[str, str] = {}

        def current(name: str) -> str:
            if name not in seen:
                seen[name] = fingerprint(name)
            return seen[name]

        for entry in self._with_parts(parts):
            if all(current(name) == was for name, was in entry.captured.items()):
                with self._lock:
                    self._hits += 1
                    if self._entries.pop(entry.key, None) is not None:
                        self._entries[entry.key] = entry
                return entry
        with self._lock:
            self._misses += 1
        return None

    def why_not(self, names: Sequence[str], parts: Fingerprints, fingerprint: Callable[[str], str]) -> str:
        """Say why ``find`` returns nothing: what differs from the nearest entry that shares a name."""
        with self._lock:
            entries = list(reversed(self._entries.values()))
            dropped = self._evictions
        related = [entry for entry in entries if set(entry.names) & set(names)]
        nearest = min(related, key=lambda entry: _distance(entry, parts), default=None)
        if nearest is None:
            return "first time, or dropped since" if dropped else "first time"
        return (
            explain_changes(nearest.parts, nearest.captured, parts, fingerprint) or "dropped in the meantime"
        )

    def put(self, entry: Entry[Value]) -> None:
        """Keep an entry in place of one with its key, and drop the least recently used ones."""
        with self._lock:
            self._entries.pop(entry.key, None)
            self._entries[entry.key] = entry
            nbytes = sum(kept.nbytes for kept in self._entries.values())
            while len(self._entries) > self._max_entries or (
                nbytes > self._max_bytes and len(self._entries) > 1
            ):
                oldest = self._entries.pop(next(iter(self._entries)))
                nbytes -= oldest.nbytes
                self._evictions += 1

    def clear(self) -> None:
        """Drop every entry, and reset the statistics."""
        with self._lock:
            self._entries.clear()
            self._reset_counts()

    @property
    def statistics(self) -> Statistics:
        """The fill now, and the lookups since the cache was cleared."""
        with self._lock:
            nbytes = sum(entry.nbytes for entry in self._entries.values())
            return Statistics(len(self._entries), nbytes, self._hits, self._misses, self._evictions)

    def entries(self) -> list[Entry[Value]]:
        """Return the entries, the one used last first."""
        with self._lock:
            return list(reversed(self._entries.values()))

    def _with_parts(self, parts: Fingerprints) -> list[Entry[Value]]:
        return [entry for entry in self.entries() if entry.parts == parts]

    def _reset_counts(self) -> None:
        self._hits = self._misses = self._evictions = 0


def explain_changes(
    were: Fingerprints, captured: Fingerprints, parts: Fingerprints, fingerprint: Callable[[str], str]
) -> str:
    """Say what differs between an earlier compilation and one that is asked for; empty if nothing does.

    were and captured: the parts and captured names of the earlier one; parts and fingerprint: those of now.
    """
    changed = [name for name in parts if were.get(name) != parts[name]]
    if not changed:
        changed = [
            f"captured {was.split(' ', 1)[0]} `{name}`"
            for name, was in captured.items()
            if fingerprint(name) != was
        ]
    return f"{', '.join(changed)} changed" if changed else ""


def _distance(entry: Entry[Value], parts: Fingerprints) -> int:
    """Return the number of parts in which an entry differs from those asked for."""
    return sum(entry.parts.get(name) != parts[name] for name in parts)
