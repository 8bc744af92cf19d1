"""What the tests of both ways to keep a cache on disk share."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

from nnmagic.cache import Content, MissingEntry, Store
from nnmagic.cache.database import FILE

CONTENT = Content({"made of": {"x": "1"}}, {"code.o": b"machine code", "constants": bytes(range(256))})
KEY, OTHER = "a" * 64, "b" * 64


def make_content(size: int) -> Content:
    return Content({}, {"code.o": os.urandom(size)})


def use_in_threads(cache: Store) -> list[object]:
    """Read, write and drop entries in four threads; return what was wrong. More is put than may be kept."""
    contents = {f"{index:064x}": make_content(10_000) for index in range(9)}
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for turn in range(60):
                key = f"{(seed + turn * 5) % 9:064x}"
                result = cache.get(key)
                if isinstance(result, MissingEntry):
                    cache.put(key, contents[key], replace=turn % 7 == 0)
                elif result != contents[key]:
                    wrong.append(key)
        except BaseException as error:  # noqa: BLE001 - it is returned
            wrong.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    return [*wrong, *(thread for thread in threads if thread.is_alive())]


class Inside:
    """What a cache keeps in a directory, in folders or in one SQLite file, read and changed from outside."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def _is_database(self) -> bool:
        return (self.directory / FILE).exists()

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.directory / FILE)) as opened, opened:
            return opened.execute(statement, values).fetchall()

    @property
    def keys(self) -> list[str]:
        """The keys of all entries."""
        if self._is_database:
            return [key for (key,) in self._execute("SELECT key FROM entry")]
        return [path.name for path in self.directory.iterdir() if path.is_dir()]

    @property
    def is_empty(self) -> bool:
        """Whether there is neither an entry nor a note, nor a part of one."""
        if self._is_database:
            tables = ("entry", "member", "note")
            return not any(self._execute(f"SELECT * FROM {table}") for table in tables)
        return not any(self.directory.iterdir())

    def drop(self, key: str) -> None:
        """Delete an entry."""
        if self._is_database:
            self._execute("DELETE FROM member WHERE key = ?", key)
            self._execute("DELETE FROM entry WHERE key = ?", key)
        else:
            shutil.rmtree(self.directory / key)

    def rename(self, key: str, to: str) -> None:
        """Put an entry where that of another key should be."""
        if self._is_database:
            self._execute("UPDATE member SET key = ? WHERE key = ?", to, key)
            self._execute("UPDATE entry SET key = ? WHERE key = ?", to, key)
        else:
            (self.directory / key).rename(self.directory / to)

    def write(self, key: str, name: str, data: bytes) -> None:
        """Change a file of an entry."""
        if self._is_database:
            self._execute("UPDATE member SET data = ? WHERE key = ? AND name = ?", data, key, name)
        else:
            (self.directory / key / name).write_bytes(data)

    @property
    def notes(self) -> dict[str, bytes]:
        """The notes, by the names that they have inside."""
        if self._is_database:
            return dict(self._execute("SELECT name, CAST(data AS BLOB) FROM note"))
        return {path.name: path.read_bytes() for path in self.directory.glob("note-*")}

    def write_note(self, name: str, data: bytes) -> None:
        """Change a note."""
        if self._is_database:
            self._execute("UPDATE note SET data = CAST(? AS TEXT) WHERE name = ?", data, name)
        else:
            (self.directory / name).write_bytes(data)
