"""Keep entries in one SQLite file, on systems where a file that is open can be neither renamed nor deleted.

SQLite locks the file, and takes back what a process that was killed had half written. Anything wrong with an
entry or with the file is a warning and a miss. The directory must not be on a network drive: SQLite's locks
do not hold there, and others may write to it, and the entries are code.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from nnmagic.cache.entry import Content, DamagedError, Json, from_members, to_members
from nnmagic.cache.store import MissingEntry, Usage, describe_too_large, note_from_text, note_to_text, warn

#: The file in the directory; its name changes with its tables.
FILE = "entries-1.sqlite"

#: For how many seconds other processes that write are waited for.
_PATIENCE = 10.0

#: The most bytes of one file of an entry, SQLite's limit.
_LARGEST = 1_000_000_000

#: How many notes are kept.
_NOTES = 1000

#: What GetDriveTypeW answers for a network drive.
_REMOTE = 4

_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entry (key TEXT PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS member (key TEXT, name TEXT, data BLOB NOT NULL, PRIMARY KEY (key, name));
CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, data TEXT NOT NULL, changed INTEGER NOT NULL);
COMMIT;
"""

#: The casts are for rows that were changed: SQLite's values are of any type.
_MEMBERS = "SELECT CAST(name AS TEXT), CAST(data AS BLOB) FROM member WHERE key = ?"


class DatabaseCache:
    """The entries in a directory's SQLite file; any thread and any process may call it."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self.max_bytes = max_bytes

    def get(self, key: str) -> Content | MissingEntry:
        """Return the entry of a key, and mark it as used last."""
        try:
            with self._open(create=False) as database:
                return self._read(database, key)
        except FileNotFoundError:
            return MissingEntry()
        except (OSError, sqlite3.Error) as error:
            return MissingEntry(warn(self.directory, f"cannot be read: {self._reason(error)}"))

    def _read(self, database: sqlite3.Connection, key: str) -> Content | MissingEntry:
        members = dict(database.execute(_MEMBERS, (key,)).fetchall())
        if not members:
            return MissingEntry()
        try:
            content = from_members(members.__getitem__)
        except (DamagedError, KeyError) as error:
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        else:
            with suppress(sqlite3.Error):  # the file is read-only
                database.execute("UPDATE entry SET used = ? WHERE key = ?", (time.time_ns(), key))
            return content
        with _transaction(database):
            _drop(database, key)
        warn(self.directory, f"held a damaged entry, which was dropped: {why}")
        return MissingEntry(f"the entry was damaged: {why}")

    def put(self, key: str, content: Content, *, replace: bool = False) -> None:
        """Keep an entry, and drop the least recently used ones; ``replace``: even if the key has an entry."""
        members = to_members(content)
        size = sum(map(len, members.values()))
        largest = max(map(len, members.values()))
        if size > self.max_bytes or largest > _LARGEST:
            warn(self.directory, describe_too_large(size, min(self.max_bytes, _LARGEST)))
            return
        try:
            with self._open(create=True) as database, _transaction(database):
                if replace:
                    _drop(database, key)
                is_kept = database.execute("SELECT 1 FROM entry WHERE key = ?", (key,)).fetchone()
                if is_kept is None:
                    _insert(database, key, members, size)
                    _make_room(database, self.max_bytes)
        except (OSError, sqlite3.Error) as error:
            warn(self.directory, f"cannot be written to: {self._reason(error)}")

    def note(self, name: str, data: Json) -> None:
        """Keep a small JSON value under a name, in place of the one before."""
        row = (name, note_to_text(name, data), time.time_ns())
        oldest = "DELETE FROM note WHERE name NOT IN (SELECT name FROM note ORDER BY changed DESC LIMIT ?)"
        lost = suppress(OSError, sqlite3.Error)  # which does no harm
        with lost, self._open(create=True) as database, _transaction(database):
            database.execute("REPLACE INTO note VALUES (?, ?, ?)", row)
            database.execute(oldest, (_NOTES,))

    def read_note(self, name: str) -> Json | None:
        """Return the value last noted under a name, None if there is none or it cannot be read."""
        try:
            with self._open(create=False) as database:
                row = database.execute("SELECT data FROM note WHERE name = ?", (name,)).fetchone()
                return None if row is None else note_from_text(name, row[0])
        except (OSError, sqlite3.Error, ValueError, TypeError, RecursionError):
            return None

    def clear(self) -> None:
        """Drop every entry; other files in the directory stay."""
        try:
            with self._open(create=False) as database, _transaction(database):
                for table in ("entry", "member", "note"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - the names are ours
        except FileNotFoundError:
            pass
        except (OSError, sqlite3.Error) as error:
            warn(self.directory, f"cannot be emptied: {self._reason(error)}")

    @property
    def usage(self) -> Usage:
        """The number of entries and the bytes they hold."""
        try:
            with self._open(create=False) as database:
                entries, nbytes = database.execute("SELECT COUNT(*), SUM(size) FROM entry").fetchone()
        except (OSError, sqlite3.Error):
            return Usage(0, 0)
        return Usage(entries, nbytes or 0)

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        """Open the file.

        Raises FileNotFoundError, PermissionError for a network drive, and SQLite's errors.
        """
        if _is_remote(self.directory):
            reason = "it is on a network drive, where others may write to it, and what it holds is code"
            raise PermissionError(errno.EPERM, reason)
        path = self.directory / FILE
        if create:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as database:
            # A crash of the system may damage the file, which is noticed; writing through would take longer.
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA auto_vacuum = FULL")  # the file shrinks; said before there are tables
            if create:
                database.executescript(_TABLES)
            elif database.execute("PRAGMA schema_version").fetchone() == (0,):  # others are making the tables
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            yield database

    def _reason(self, error: OSError | sqlite3.Error) -> str:
        """Return what went wrong; a file that is no database is deleted, or left where it is in use."""
        if isinstance(error, OSError):
            return error.strerror or str(error)
        if type(error) is not sqlite3.DatabaseError:  # its subclasses are about one statement
            return str(error)
        with suppress(OSError):
            (self.directory / FILE).unlink()
            (self.directory / f"{FILE}-journal").unlink()
        return f"{error}; the file was dropped"


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    with database:  # SQLite may have rolled back already, as where the disk is full
        yield


def _insert(
    database: sqlite3.Connection, key: str, members: dict[str, bytes | memoryview], size: int
) -> None:
    rows = [(key, name, data) for name, data in members.items()]
    database.executemany("REPLACE INTO member VALUES (?, ?, ?)", rows)
    database.execute("INSERT INTO entry VALUES (?, ?, ?)", (key, size, time.time_ns()))


def _make_room(database: sqlite3.Connection, max_bytes: int) -> None:
    """Drop the least recently used entries until the others fit."""
    entries = database.execute("SELECT key, size FROM entry ORDER BY used DESC").fetchall()
    total = 0
    for key, size in entries:
        total += size
        if total > max_bytes:
            _drop(database, key)


def _drop(database: sqlite3.Connection, key: str) -> None:
    database.execute("DELETE FROM member WHERE key = ?", (key,))
    database.execute("DELETE FROM entry WHERE key = ?", (key,))


def _is_remote(directory: Path) -> bool:
    """Return whether a directory of Windows is on another machine."""
    if os.name != "nt":
        return False
    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 # Windows' own
    return directory.drive.startswith("\\\\") or kernel.GetDriveTypeW(f"{directory.drive}\\") == _REMOTE
