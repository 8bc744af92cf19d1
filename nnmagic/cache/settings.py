"""Where the cache on disk is and how large it may be: as the environment says, or as was set since."""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path

from nnmagic.cache.disk import CacheWarning, DiskCache
from nnmagic.frames import short_errors

#: The variables that say so where nothing else does; the second in MB, 0 for no cache on disk.
DIRECTORY, MEGABYTES = "NNMAGIC_CACHE_DIR", "NNMAGIC_CACHE_MB"

#: How many MB there are where nobody says.
DEFAULT_MEGABYTES = 512


class _CacheSettings:
    directory: Path | None = None
    megabytes: int | None = None


_chosen = _CacheSettings()


@short_errors
def set_cache(directory: str | os.PathLike[str] | None = None, megabytes: int | None = None) -> None:
    """Puts the cache on disk into a directory and bounds it; None: as the environment says.

    A relative path is one of the working directory as it is now; ``~`` is the user's home.
    Raises TypeError for what is no path, TypeError or ValueError for a size that is no whole number from 0
    on, NotADirectoryError for a file.
    """
    place = _checked(directory)
    if megabytes is not None:
        if isinstance(megabytes, bool) or not isinstance(megabytes, int):
            raise TypeError(f"the size of the cache must be a whole number of MB, not {megabytes!r}")
        if megabytes < 0:
            raise ValueError(f"the size of the cache must be at least 0 MB, not {megabytes}")
    _chosen.directory = place
    _chosen.megabytes = megabytes


def _checked(directory: object) -> Path | None:
    """The absolute path of a directory that somebody has given."""
    if directory is None:
        return None
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"the directory of the cache must be a path or None, not {directory!r}")
    place = _absolute(directory, "the directory of the cache")
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"the cache needs a directory, and {str(place)!r} is a file")
    return place


def _absolute(path: str | os.PathLike[str], what: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # of pathlib
        raise ValueError(
            f"{what} is {os.fspath(path)!r}, and nobody knows that home: write the path"
        ) from None


def disk_cache() -> DiskCache | None:
    """The cache on disk; None where its size is 0, the system is not POSIX, or a user without home has none.

    Raises ValueError where ``NNMAGIC_CACHE_MB`` is no whole number from 0 on, or the path no path.
    """
    megabytes = _megabytes() if _chosen.megabytes is None else _chosen.megabytes
    if megabytes == 0 or os.name != "posix":
        return None
    directory = _chosen.directory or _directory()
    if directory is None:
        told = f"nobody knows the user's home, so nothing is kept on disk; {DIRECTORY} says where else to"
        warnings.warn(told, CacheWarning, stacklevel=2)
        return None
    found = _in_directory(directory)
    found.max_bytes = megabytes * 1_000_000
    return found


def _megabytes() -> int:
    given = os.environ.get(MEGABYTES, "").strip()
    if not given:
        return DEFAULT_MEGABYTES
    if not given.isascii() or not given.isdigit():
        raise ValueError(f"the variable {MEGABYTES} must be a whole number from 0 on, not {given!r}")
    return int(given)


def _directory() -> Path | None:
    """As the environment says; None where nobody knows the user's home."""
    given = os.environ.get(DIRECTORY, "")
    if given:
        return _absolute(given, f"the variable {DIRECTORY}")
    import platformdirs

    try:
        found = platformdirs.user_cache_path("nnmagic", appauthor=False)
    except RuntimeError:
        return None
    return found if found.is_absolute() else None  # older versions leave the ~ where it is


@cache
def _in_directory(directory: Path) -> DiskCache:
    return DiskCache(directory, DEFAULT_MEGABYTES * 1_000_000)
