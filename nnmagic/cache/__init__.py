"""What was compiled, kept: in memory for the life of a process (``memory``), on disk for all (``disk``).

Knows nothing of what it keeps and of nnmagic only its locks.
"""

from nnmagic.cache.disk import CacheWarning, DiskCache, MissingEntry, Usage
from nnmagic.cache.entry import Content, DamagedError, Json, from_members, to_members
from nnmagic.cache.memory import Entry, Fingerprints, MemoryCache, Statistics, digest, what_changed
from nnmagic.cache.settings import disk_cache, set_cache

__all__ = [
    "CacheWarning",
    "Content",
    "DamagedError",
    "DiskCache",
    "Entry",
    "Fingerprints",
    "Json",
    "MemoryCache",
    "MissingEntry",
    "Statistics",
    "Usage",
    "digest",
    "disk_cache",
    "from_members",
    "set_cache",
    "to_members",
    "what_changed",
]
