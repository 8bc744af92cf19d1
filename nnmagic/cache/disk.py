"""A directory of entries that outlives the process: shared by any number of processes, bounded, private.

An entry appears by the renaming of a complete folder and disappears by renaming, so that nobody sees half of
one; a lock on its folder keeps what is being read from being dropped. Whatever is wrong, with an entry or
with the directory, is a warning and a miss. The directory must be the user's own and nobody else's to write,
because what is kept is code. Knows nothing of what it keeps.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nnmagic.cache.entry import Content, DamagedError, Json, from_members, to_members
from nnmagic.cache.memory import digest
from nnmagic.fork_safety import Lock

#: What lies in the directory: entries by their keys, what is being written or thrown away, notes.
_KEY, _PARTIAL, _TRASH, _NOTE = re.compile(r"[0-9a-f]{64}"), "partial-", "trash-", "note-"

#: The names that files of an entry may have.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

#: For how many seconds what somebody left half written is left alone.
_PATIENCE = 600

#: How many notes are kept.
_NOTES = 1000


#: Held by who looks at all entries.
_LOOKING = Lock()


class CacheWarning(UserWarning):
    """The cache on disk could not be used, or something in it; the work was done without."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No entry was found; ``why`` is empty where there is none, else what is wrong with it."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the directory holds."""

    entries: int
    nbytes: int


class DiskCache:
    """The entries in a directory, at most ``max_bytes`` of them; any thread and any process may call it."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._nbytes: int | None = None  # of all entries at the last look, with what was put since
        self._put_since = 0

    def get(self, key: str) -> Content | Missing:
        """The entry of a key, which is then the one that was used last."""
        try:
            with self._opened(create=False) as root:
                return self._read(root, key)
        except FileNotFoundError:
            return Missing()
        except OSError as error:
            return Missing(self._warn(f"cannot be read: {_reason(error)}"))

    def _read(self, root: int, key: str) -> Content | Missing:
        opened: tuple[int, int] | None = None
        try:
            with _folder(key, root) as folder, _held(folder, exclusive=False) as held:
                opened = _identity(os.fstat(folder))
                if not held:  # it is being dropped
                    return Missing()
                content = from_members(lambda name: self._member(name, folder))
                with suppress(OSError):  # a directory that can only be read
                    os.utime(folder)
                return content
        except FileNotFoundError as error:
            if error.filename == key:
                return Missing()
            why = f"{error.filename} is missing"
        except DamagedError as error:
            why = str(error)
        except NotADirectoryError:
            why = "it is no folder"
        if opened is not None and not _is_still(opened, key, root):
            return Missing()  # it was dropped or replaced meanwhile
        self._discard(root, key)
        self._warn(f"held a damaged entry, which was dropped: {why}")
        return Missing(f"the entry was damaged: {why}")

    def _member(self, name: str, folder: int) -> bytes:
        """A file of an entry. Raises DamagedError for what is no plain file of this user's."""
        if not _NAME.fullmatch(name):
            raise DamagedError(f"{name!r} is no name of a file")
        # Without NONBLOCK, a pipe that somebody put there would be waited for.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise DamagedError(f"{name} is no file of this user's")
            if found.st_mode & 0o022:
                raise DamagedError(f"{name} could be written by others")
            return file.read()

    def put(self, key: str, content: Content, *, replace: bool = False) -> None:
        """Keeps an entry; ``replace``: also where there is one. Drops what was used longest ago."""
        members = to_members(content)
        size = sum(map(len, members.values()))
        if size > self.max_bytes:
            self._warn(
                f"is too small: an entry has {size / 1e6:.1f} MB, and {self.max_bytes / 1e6:g} MB may be kept"
            )
            return
        try:
            with self._opened(create=True) as root:
                self._write(root, key, members, replace=replace)
                self._make_room(root, size)
        except OSError as error:
            self._warn(f"cannot be written to: {_reason(error)}")

    def _write(self, root: int, key: str, members: dict[str, bytes], *, replace: bool) -> None:
        name = f"{_PARTIAL}{os.urandom(8).hex()}"
        os.mkdir(name, 0o700, dir_fd=root)
        try:
            with _folder(name, root) as folder:
                for member, data in members.items():
                    _create(member, data, folder)
            if not _renamed(name, key, root) and (replace or not _is_folder(key, root)):
                self._discard(root, key)
                _renamed(name, key, root)  # or somebody else was quicker
        finally:
            _delete(name, root)

    def note(self, name: str, data: Json) -> None:
        """Keeps a few words under a name, in place of those before."""
        partial = f"{_PARTIAL}{os.urandom(8).hex()}"
        with suppress(OSError), self._opened(create=True) as root:  # a note is nothing to worry about
            try:
                _create(partial, json.dumps(data).encode(), root)
                os.replace(partial, _note(name), src_dir_fd=root, dst_dir_fd=root)
            except OSError:
                _delete(partial, root)

    def noted(self, name: str) -> Json | None:
        """What was noted last under a name; None where nothing was, or it cannot be read."""
        try:
            with self._opened(create=False) as root:
                return json.loads(self._member(_note(name), root))
        except (OSError, ValueError, RecursionError):
            return None

    def clear(self) -> None:
        """Drops every entry; what else lies in the directory stays."""
        try:
            with self._opened(create=False) as root:
                for name in _names(root):
                    if _is_ours(name):
                        self._discard(root, name)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn(f"cannot be emptied: {_reason(error)}")
        with _LOOKING:
            self._nbytes = None

    @property
    def usage(self) -> Usage:
        """How many entries there are and how many bytes they hold."""
        try:
            with self._opened(create=False) as root:
                sizes = [size for _, size, _ in _entries(root)]
        except OSError:
            return Usage(0, 0)
        return Usage(len(sizes), sum(sizes))

    def _make_room(self, root: int, size: int) -> None:
        """Looks at all entries now and then, and drops those that were used longest ago."""
        with _LOOKING:
            self._put_since += size
            known = None if self._nbytes is None else self._nbytes + self._put_since
            if known is not None and known <= self.max_bytes and self._put_since < self.max_bytes // 16:
                return
            self._put_since = 0
            entries = sorted(_entries(root))
            total = sum(size for _, size, _ in entries)
            for _, nbytes, name in entries:
                if total <= self.max_bytes:
                    break
                if self._drop(root, name):
                    total -= nbytes
            self._nbytes = total
            _sweep(root)

    def _drop(self, root: int, name: str) -> bool:
        """Drops an entry that nobody is reading; whether it is gone."""
        try:
            with _folder(name, root) as folder, _held(folder, exclusive=True) as held:
                if held and _is_still(_identity(os.fstat(folder)), name, root):
                    self._discard(root, name)
                return held
        except OSError:
            return not _exists(name, root)

    def _discard(self, root: int, name: str) -> None:
        """Takes an entry out of sight, then apart."""
        trash = f"{_TRASH}{os.urandom(8).hex()}"
        with suppress(OSError):
            os.rename(name, trash, src_dir_fd=root, dst_dir_fd=root)
            _delete(trash, root)

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[int]:
        """The directory; what it is called may change, what is open does not.

        Raises PermissionError for one that is not private.
        """
        if create:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to somebody else, and what it holds is code")
            if found.st_mode & 0o022:
                reason = "others may write to it, and what it holds is code; chmod 700 makes it private"
                raise PermissionError(errno.EPERM, reason)
            yield descriptor
        finally:
            os.close(descriptor)

    def _warn(self, what: str) -> str:
        warnings.warn(f"nnmagic's cache in {self.directory} {what}", CacheWarning, stacklevel=2)
        return f"the cache {what}"


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_still(opened: tuple[int, int], name: str, root: int) -> bool:
    """Whether a name in the directory means what was opened by it before."""
    try:
        return opened == _identity(os.stat(name, dir_fd=root, follow_symlinks=False))
    except OSError:
        return False


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _note(name: str) -> str:
    return f"{_NOTE}{digest({'name': name})}"


def _is_ours(name: str) -> bool:
    return _KEY.fullmatch(name) is not None or name.startswith((_PARTIAL, _TRASH, _NOTE))


@contextmanager
def _folder(name: str, root: int) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _held(folder: int, *, exclusive: bool) -> Iterator[bool]:
    """Whether the folder could be locked, without waiting: until the end. Some systems have no locks."""
    import fcntl  # POSIX has it

    try:
        fcntl.flock(folder, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    except OSError:
        yield True
    else:
        yield True  # closing the folder unlocks it


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return [each.name for each in found]


def _renamed(name: str, key: str, root: int) -> bool:
    """Whether an entry could be put in its place; not where there is one."""
    try:
        os.rename(name, key, src_dir_fd=root, dst_dir_fd=root)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _is_folder(name: str, root: int) -> bool:
    try:
        found = os.stat(name, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode)


def _create(name: str, data: bytes, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)


def _exists(name: str, root: int) -> bool:
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return True


def _entries(root: int) -> Iterator[tuple[int, int, str]]:
    """When each entry was used last (in ns), its bytes and its name."""
    for name in _names(root):
        if _KEY.fullmatch(name):
            with suppress(OSError), _folder(name, root) as folder, os.scandir(folder) as members:
                size = sum(member.stat(follow_symlinks=False).st_size for member in members)
                yield os.fstat(folder).st_mtime_ns, size, name


def _sweep(root: int) -> None:
    """Deletes what processes left behind that were ended in the middle, and the oldest notes."""
    notes = []
    for name in _names(root):
        with suppress(OSError):
            changed = os.stat(name, dir_fd=root, follow_symlinks=False).st_mtime
            if name.startswith((_PARTIAL, _TRASH)) and changed < time.time() - _PATIENCE:
                _delete(name, root)
            elif name.startswith(_NOTE):
                notes.append((changed, name))
    for _, name in sorted(notes)[:-_NOTES]:
        _delete(name, root)


def _delete(name: str, root: int) -> None:
    """Deletes a file, or a folder with all that is in it, where it is still there; links are not followed."""
    waiting = [name]
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            if not _is_folder(name, root):
                os.unlink(name, dir_fd=root)
                continue
            with _folder(name, root) as folder:
                for member in _names(folder):
                    if _is_folder(member, folder):  # taken out: folders may be nested deeper than calls may
                        waiting.append(f"{_TRASH}{os.urandom(8).hex()}")
                        os.rename(member, waiting[-1], src_dir_fd=folder, dst_dir_fd=root)
                    else:
                        os.unlink(member, dir_fd=folder)
            os.rmdir(name, dir_fd=root)
