"""Keep what was compiled: in memory for the life of a process, on disk for all processes."""

from nnmagic.cache.disk import DiskCache
from nnmagic.cache.entry import Content, DamagedError, Json, from_members, to_members
from nnmagic.cache.memory import Entry, Fingerprints, MemoryCache, Statistics, digest, explain_changes
from nnmagic.cache.settings import disk_cache, set_cache
from nnmagic.cache.store import CacheWarning, MissingEntry, Store, Usage

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
    "Store",
    "Usage",
    "digest",
    "disk_cache",
    "explain_changes",
    "from_members",
    "set_cache",
    "to_members",
]
