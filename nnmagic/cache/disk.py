"""Keep entries in a directory that outlives the process: shared by any number of processes, bounded, private.

An entry appears when its complete folder is renamed and disappears by renaming, so that no process sees half
of one; a lock on its folder keeps an entry that is being read from being dropped. Anything wrong with an
entry or with the directory is a warning and a miss. The directory must be the user's own, and nobody else may
write to it, because the entries are code.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

import numpy as np

from nnmagic.cache.entry import Content, DamagedError, Json, from_members, to_members
from nnmagic.cache.memory import digest
from nnmagic.cache.store import MissingEntry, Usage, describe_too_large, note_from_text, note_to_text, warn
from nnmagic.fork_safety import Lock

#: The names in the directory: entries by their keys, what is being written or deleted, notes.
_KEY, _PARTIAL, _TRASH, _NOTE = re.compile(r"[0-9a-f]{64}"), "partial-", "trash-", "note-"

#: The names that files of an entry may have.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

#: Files from this size on are read to the beginning of a page, so that arrays in them need no copy.
_LARGE = 1 << 20

#: After how many seconds an entry that is only half written is deleted.
_PATIENCE = 600

#: How many notes are kept.
_NOTES = 1000

#: Held while all entries are looked at.
_SCAN_LOCK = Lock()


class DiskCache:
    """The entries in a directory, at most ``max_bytes`` of them; any thread and any process may call it."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._nbytes: int | None = None  # of all entries at the last scan, plus those put since
        self._put_since = 0

    def get(self, key: str) -> Content | MissingEntry:
        """Return the entry of a key, and mark it as used last."""
        try:
            with self._open(create=False) as root:
                return self._read(root, key)
        except FileNotFoundError:
            return MissingEntry()
        except OSError as error:
            return MissingEntry(warn(self.directory, f"cannot be read: {_reason(error)}"))

    def _read(self, root: int, key: str) -> Content | MissingEntry:
        opened: tuple[int, int] | None = None
        try:
            # A shared lock keeps the entry while it is read; whoever drops entries needs an
            # exclusive one. All further files are opened relative to this descriptor, whatever
            # happens to the name.
            with _folder(key, root) as folder, _lock_folder(folder, exclusive=False) as is_locked:
                opened = _identity(os.fstat(folder))
                if not is_locked:  # another process is dropping it
                    return MissingEntry()
                content = from_members(lambda name: self._member(name, folder))
                with suppress(OSError):  # the directory is read-only
                    os.utime(folder)
                return content
        except FileNotFoundError as error:
            if error.filename == key:
                return MissingEntry()
            why = f"{error.filename} is missing"
        except DamagedError as error:
            why = str(error)
        except NotADirectoryError:
            why = "it is no folder"
        except OSError as error:
            if error.errno != errno.ELOOP:  # of a link, on macOS
                raise
            why = "it is no folder"
        # Damage that another process caused by replacing the entry is none: it must not drop the
        # new one.
        if opened is not None and not _is_still(opened, key, root):
            return MissingEntry()  # another process dropped or replaced it
        self._discard(root, key)
        warn(self.directory, f"held a damaged entry, which was dropped: {why}")
        return MissingEntry(f"the entry was damaged: {why}")

    def _member(self, name: str, folder: int) -> bytes | memoryview:
        """Return a file of an entry. Raises DamagedError unless it is a plain file of this user's."""
        if not _NAME.fullmatch(name):
            raise DamagedError(f"{name!r} is no name of a file")
        # Without NONBLOCK, opening a pipe that somebody put there would block.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise DamagedError(f"{name} is no file of this user's")
            if status.st_mode & 0o022:
                raise DamagedError(f"{name} could be written by others")
            return file.read() if status.st_size < _LARGE else _read_to_page(file, status.st_size)

    def put(self, key: str, content: Content, *, replace: bool = False) -> None:
        """Keep an entry, and drop the least recently used ones; ``replace``: even if the key has an entry."""
        members = to_members(content)
        size = sum(map(len, members.values()))
        if size > self.max_bytes:
            warn(self.directory, describe_too_large(size, self.max_bytes))
            return
        try:
            with self._open(create=True) as root:
                self._write(root, key, members, replace=replace)
                self._make_room(root, size)
        except OSError as error:
            warn(self.directory, f"cannot be written to: {_reason(error)}")

    def _write(
        self, root: int, key: str, members: Mapping[str, bytes | memoryview], *, replace: bool
    ) -> None:
        with _removed_after(f"{_PARTIAL}{os.urandom(8).hex()}", root) as name:
            os.mkdir(name, 0o700, dir_fd=root)
            with _folder(name, root) as folder:
                for member, data in members.items():
                    _create(member, data, folder)
            # rename(2) is atomic: a reader sees the whole entry or none. It fails on a folder that
            # holds files, which is what keeps the first of two writers.
            if not _rename_entry(name, key, root) and (replace or not _is_folder(key, root)):
                self._discard(root, key)
                _rename_entry(name, key, root)  # unless another process was quicker

    def note(self, name: str, data: Json) -> None:
        """Keep a small JSON value under a name, in place of the one before."""
        unique = f"{_PARTIAL}{os.urandom(8).hex()}"
        # Losing a note does no harm.
        with suppress(OSError), self._open(create=True) as root, _removed_after(unique, root) as partial:
            _create(partial, note_to_text(name, data).encode(), root)
            os.replace(partial, _note(name), src_dir_fd=root, dst_dir_fd=root)

    def read_note(self, name: str) -> Json | None:
        """Return the value last noted under a name, None if there is none or it cannot be read."""
        try:
            with self._open(create=False) as root:
                return note_from_text(name, bytes(self._member(_note(name), root)))
        except (OSError, ValueError, RecursionError):
            return None

    def clear(self) -> None:
        """Drop every entry; other files in the directory stay."""
        try:
            with self._open(create=False) as root:
                for name in _names(root):
                    if _is_ours(name):
                        self._discard(root, name)
        except FileNotFoundError:
            pass
        except OSError as error:
            warn(self.directory, f"cannot be emptied: {_reason(error)}")
        with _SCAN_LOCK:
            self._nbytes = None

    @property
    def usage(self) -> Usage:
        """The number of entries and the bytes they hold."""
        try:
            with self._open(create=False) as root:
                sizes = [size for _, size, _ in _entries(root)]
        except OSError:
            return Usage(0, 0)
        return Usage(len(sizes), sum(sizes))

    def _make_room(self, root: int, size: int) -> None:
        """Look at all entries now and then, and drop the least recently used ones."""
        with _SCAN_LOCK:
            self._put_since += size
            nbytes = None if self._nbytes is None else self._nbytes + self._put_since
            # Looking at all entries is linear in their number; other processes put some as well, so
            # it is done again after a sixteenth of the capacity.
            if nbytes is not None and nbytes <= self.max_bytes and self._put_since < self.max_bytes // 16:
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
        """Drop an entry that no process is reading, and return whether it is gone."""
        try:
            with _folder(name, root) as folder, _lock_folder(folder, exclusive=True) as is_locked:
                if is_locked and _is_still(_identity(os.fstat(folder)), name, root):
                    self._discard(root, name)
                return is_locked
        except OSError:
            return not _exists(name, root)

    def _discard(self, root: int, name: str) -> None:
        """Rename an entry out of sight, then delete it."""
        with suppress(OSError), _removed_after(f"{_TRASH}{os.urandom(8).hex()}", root) as trash:
            os.rename(name, trash, src_dir_fd=root, dst_dir_fd=root)

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[int]:
        """Open the directory: its name may change, the descriptor keeps naming it.

        Raises PermissionError for one that is not private.
        """
        if create:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The checks below are of what was opened, not of a name that may be exchanged after them
        # (CWE-367).
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to somebody else, and what it holds is code")
            if status.st_mode & 0o022:
                reason = "others may write to it, and what it holds is code; chmod 700 makes it private"
                raise PermissionError(errno.EPERM, reason)
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _removed_after(name: str, root: int) -> Iterator[str]:
    """Delete a file or folder at the end of a block, even where an interrupt comes as it is deleted."""
    try:
        try:
            yield name
        finally:
            _delete(name, root)
    # A KeyboardInterrupt may arrive inside of the first deletion.
    except BaseException:
        _delete(name, root)
        raise


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_still(opened: tuple[int, int], name: str, root: int) -> bool:
    """Return whether a name in the directory still means the folder that was opened by it."""
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
def _lock_folder(folder: int, *, exclusive: bool) -> Iterator[bool]:
    """Lock a folder without waiting, until the end of the block; yield whether that worked.

    On file systems without locks it always does.
    """
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
    with os.scandir(folder) as members:
        return [member.name for member in members]


def _rename_entry(name: str, key: str, root: int) -> bool:
    """Rename an entry to its key, and return whether that worked; it does not where the key has an entry."""
    try:
        os.rename(name, key, src_dir_fd=root, dst_dir_fd=root)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _is_folder(name: str, root: int) -> bool:
    try:
        status = os.stat(name, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode)


def _read_to_page(file: BufferedReader, size: int) -> memoryview:
    """Read a file of this size to memory that begins at a page. Raises DamagedError if it has changed."""
    room = np.empty(size + mmap.PAGESIZE, np.uint8)
    # The offset to the next page boundary is -address modulo the size of a page.
    page = room[-room.ctypes.data % mmap.PAGESIZE :][:size]
    if file.readinto(page.data) != size or file.read(1):
        raise DamagedError("its size changed while it was read")
    return page.data


def _create(name: str, data: bytes | memoryview, folder: int) -> None:
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
    """Yield the time of last use (ns), the bytes and the name of each entry."""
    for name in _names(root):
        if _KEY.fullmatch(name):
            with suppress(OSError), _folder(name, root) as folder, os.scandir(folder) as members:
                size = sum(member.stat(follow_symlinks=False).st_size for member in members)
                yield os.fstat(folder).st_mtime_ns, size, name


def _sweep(root: int) -> None:
    """Delete the oldest notes and what processes that were killed left behind."""
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
    """Delete a file, or a folder with its contents, if it still exists; links are not followed."""
    waiting = [name]
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            if not _is_folder(name, root):
                os.unlink(name, dir_fd=root)
                continue
            with _folder(name, root) as folder:
                for member in _names(folder):
                    if _is_folder(member, folder):  # moved up: folders may be nested deeper than Python calls
                        waiting.append(f"{_TRASH}{os.urandom(8).hex()}")
                        os.rename(member, waiting[-1], src_dir_fd=folder, dst_dir_fd=root)
                    else:
                        os.unlink(member, dir_fd=folder)
            os.rmdir(name, dir_fd=root)
