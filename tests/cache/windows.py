"""Take away what Windows' file system refuses: links, owners, renaming and deleting a file that is open."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from pathlib import Path

import pytest

from nnmagic.cache import settings
from nnmagic.cache.database import DatabaseCache

_LACKING = (
    "link",
    "symlink",
    "mkfifo",
    "geteuid",
    "getuid",
    "chown",
    "O_NOFOLLOW",
    "O_DIRECTORY",
    "O_NONBLOCK",
)


def imitate_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the cache as on Windows, in a process where its file system's rules hold."""
    if os.name == "nt":
        return
    for name in _LACKING:
        monkeypatch.delattr(os, name, raising=False)
    use_no_descriptors_of_directories()
    for name in ("rename", "replace", "unlink", "remove"):
        checked = _refusing(getattr(os, name))
        monkeypatch.setattr(os, name, checked)
        if sys.version_info < (3, 11) and name != "remove":  # pathlib keeps them as they were
            monkeypatch.setattr(pathlib._NormalAccessor, name, staticmethod(checked))
    monkeypatch.setattr(settings, "_in_directory", lambda directory: DatabaseCache(directory, 10**9))


def use_no_descriptors_of_directories() -> None:
    """Let ``shutil.rmtree`` walk by paths, as it does where directories cannot be opened."""
    shutil._use_fd_functions = False
    if hasattr(shutil, "_rmtree_impl"):  # from Python 3.14 on
        shutil._rmtree_impl = shutil._rmtree_unsafe


def _refusing(real):
    def checked(path, *others, **options):
        for each in (path, *others):
            if _is_open(Path(each)):
                raise PermissionError(13, "The process cannot access the file because it is being used", each)
        return real(path, *others, **options)

    return checked


def _is_open(path: Path) -> bool:
    """Return whether any process of this user has a file open."""
    opened = Path("/proc").glob("[0-9]*/fd/*")
    return any(_target(each) == path.absolute() for each in opened)


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:  # it was closed, or is somebody else's
        return None
