"""A bounded cache in memory whose entries depend on values that are known only after the work is done.

What was asked for (``parts``: source, options, versions) is known before the work; what the work looked at
besides (``captured``: names and the fingerprints of their values) only after it. An entry is found when its
parts are equal and every name it captured still has the fingerprint it had. Where nothing is found, a
sentence says why. Knows nothing of what it keeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nnmagic.fork_safety import Lock

Value = TypeVar("Value")

#: Names to fingerprints: what a name stood for, as text that is equal for equal values only.
Fingerprints = Mapping[str, str]


def digest(parts: Fingerprints) -> str:
    """A hash of names and texts, the same in every process and on every machine."""
    state = hashlib.blake2b(digest_size=20)
    for name in sorted(parts):
        for text in (name, parts[name]):
            data = text.encode("utf-8", "surrogatepass")
            state.update(len(data).to_bytes(8, "little"))
            state.update(data)
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry(Generic[Value]):
    """One thing kept: what it was made from, the names it goes by, how many bytes it holds, and itself.

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
    """How full a cache is, and how often it was asked."""

    entries: int
    nbytes: int
    hits: int
    misses: int
    evictions: int


class MemoryCache(Generic[Value]):
    """Keeps what was used last, at most ``max_entries`` of it and ``max_bytes``; any thread may call it."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._entries: dict[str, Entry[Value]] = {}  # by key; the one used last stands last
        self._reset_counts()

    def find(self, parts: Fingerprints, fingerprint: Callable[[str], str]) -> Entry[Value] | None:
        """The entry made from these parts whose captured names all still have their ``fingerprint``."""
        seen: dict[str, str] = {}

        def now(name: str) -> str:
            if name not in seen:
                seen[name] = fingerprint(name)
            return seen[name]

        for entry in self._with_parts(parts):
            if all(now(name) == was for name, was in entry.captured.items()):
                with self._lock:
                    self._hits += 1
                    if self._entries.pop(entry.key, None) is not None:
                        self._entries[entry.key] = entry
                return entry
        with self._lock:
            self._misses += 1
        return None

    def why_not(self, names: Sequence[str], parts: Fingerprints, fingerprint: Callable[[str], str]) -> str:
        """Why ``find`` gives nothing, in words: what differs from the nearest entry that shares a name."""
        with self._lock:
            entries = list(reversed(self._entries.values()))
            dropped = self._evictions
        related = [entry for entry in entries if set(entry.names) & set(names)]
        nearest = min(related, key=lambda entry: _distance(entry, parts), default=None)
        if nearest is None:
            return "first time, or dropped since" if dropped else "first time"
        return what_changed(nearest.parts, nearest.captured, parts, fingerprint) or "dropped in the meantime"

    def put(self, entry: Entry[Value]) -> None:
        """Keeps an entry in place of one with its key; drops what was used longest ago if it is too much."""
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
        """Forgets everything."""
        with self._lock:
            self._entries.clear()
            self._reset_counts()

    @property
    def statistics(self) -> Statistics:
        """How full it is now and how often it was asked since it was cleared."""
        with self._lock:
            nbytes = sum(entry.nbytes for entry in self._entries.values())
            return Statistics(len(self._entries), nbytes, self._hits, self._misses, self._evictions)

    def entries(self) -> list[Entry[Value]]:
        """What is kept, the one used last first."""
        with self._lock:
            return list(reversed(self._entries.values()))

    def _with_parts(self, parts: Fingerprints) -> list[Entry[Value]]:
        return [entry for entry in self.entries() if entry.parts == parts]

    def _reset_counts(self) -> None:
        self._hits = self._misses = self._evictions = 0


def what_changed(
    were: Fingerprints, captured: Fingerprints, parts: Fingerprints, fingerprint: Callable[[str], str]
) -> str:
    """What differs between a compilation before and one that is asked for, in words; empty where all agrees.

    were and captured: the parts and captured names of the one before; parts and fingerprint: those of now.
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
    """In how many parts an entry differs from what was asked for."""
    return sum(entry.parts.get(name) != parts[name] for name in parts)
