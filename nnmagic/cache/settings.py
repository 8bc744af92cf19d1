"""Decide where the cache on disk is and how large it may be: by the environment, or by ``set_cache``."""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path

from nnmagic.cache.disk import DiskCache
from nnmagic.cache.store import CacheWarning, Store
from nnmagic.tracebacks import short_errors

#: The environment variables that ``set_cache`` overrides; the second in MB, 0 for no cache on disk.
DIRECTORY, MEGABYTES = "NNMAGIC_CACHE_DIR", "NNMAGIC_CACHE_MB"

#: The size in MB without a setting.
DEFAULT_MEGABYTES = 512


class _CacheSettings:
    directory: Path | None = None
    megabytes: int | None = None


_chosen = _CacheSettings()


@short_errors
def set_cache(directory: str | os.PathLike[str] | None = None, megabytes: int | None = None) -> None:
    """Put the cache on disk into a directory and bound its size; None: as the environment says.

    A relative path is resolved against the working directory as it is now; ``~`` is the user's home.
    Raises TypeError unless the directory is a path, TypeError or ValueError unless the size is a whole number
    from 0 on, NotADirectoryError for a file.
    """
    path = _check_directory(directory)
    if megabytes is not None:
        if isinstance(megabytes, bool) or not isinstance(megabytes, int):
            raise TypeError(f"the size of the cache must be a whole number of MB, not {megabytes!r}")
        if megabytes < 0:
            raise ValueError(f"the size of the cache must be at least 0 MB, not {megabytes}")
    _chosen.directory = path
    _chosen.megabytes = megabytes


def _check_directory(directory: object) -> Path | None:
    """Return the absolute path of a directory that a caller passed."""
    if directory is None:
        return None
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"the directory of the cache must be a path or None, not {directory!r}")
    path = _absolute(directory, "the directory of the cache")
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"the cache needs a directory, and {str(path)!r} is a file")
    return path


def _absolute(path: str | os.PathLike[str], what: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # of pathlib
        reason = f"cannot expand '~' in {os.fspath(path)!r}: no such home directory; give an absolute path"
        raise ValueError(f"{what}: {reason}") from None


def disk_cache() -> Store | None:
    """Return the cache on disk, None if its size is 0 or the user has no home.

    Raises ValueError unless ``NNMAGIC_CACHE_MB`` is a whole number from 0 on, and the path a path.
    """
    megabytes = _megabytes() if _chosen.megabytes is None else _chosen.megabytes
    if megabytes == 0:
        return None
    directory = _chosen.directory or _directory()
    if directory is None:
        message = f"there is no home directory, so nothing is kept on disk; set {DIRECTORY} to a directory"
        warnings.warn(message, CacheWarning, stacklevel=2)
        return None
    cache = _in_directory(directory)
    cache.max_bytes = megabytes * 1_000_000
    return cache


def _megabytes() -> int:
    setting = os.environ.get(MEGABYTES, "").strip()
    if not setting:
        return DEFAULT_MEGABYTES
    if not setting.isascii() or not setting.isdigit():
        raise ValueError(f"the variable {MEGABYTES} must be a whole number from 0 on, not {setting!r}")
    return int(setting)


def _directory() -> Path | None:
    """Return the directory that the environment names; None without a home directory."""
    variable = os.environ.get(DIRECTORY, "")
    if variable:
        return _absolute(variable, f"the variable {DIRECTORY}")
    import platformdirs

    try:
        path = platformdirs.user_cache_path("nnmagic", appauthor=False)
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older versions do not expand the ~


@functools.cache
def _in_directory(directory: Path) -> Store:
    if os.name == "posix":
        return DiskCache(directory, DEFAULT_MEGABYTES * 1_000_000)
    from nnmagic.cache.database import DatabaseCache

    return DatabaseCache(directory, DEFAULT_MEGABYTES * 1_000_000)
