"""The cache in one SQLite file, for Windows: judged by SQLite, under the rules of Windows' file system."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.cache import CacheWarning, Content, MissingEntry, database
from nnmagic.cache.database import FILE, DatabaseCache
from nnmagic.functions.cells.compile_cell import MEMORY
from tests.cache.stores import CONTENT, KEY, OTHER, make_content, use_in_threads
from tests.cache.windows import imitate_windows
from tests.systems import POSIX


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DatabaseCache:
    imitate_windows(monkeypatch)
    return DatabaseCache(tmp_path / "a folder, ä" / "cache", 1_000_000)


def change(cache: DatabaseCache, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(cache.directory / FILE)) as opened, opened:
        opened.execute(statement, values)


def test_an_entry_is_found_again_by_any_instance(cache: DatabaseCache) -> None:
    assert cache.get(KEY) == MissingEntry()
    assert not cache.directory.exists()
    cache.put(KEY, CONTENT)
    assert DatabaseCache(cache.directory, 10**6).get(KEY) == CONTENT
    assert cache.get(OTHER) == MissingEntry()
    assert cache.usage.entries == 1
    assert [path.name for path in cache.directory.iterdir()] == [FILE]


def test_a_function_is_compiled_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imitate_windows(monkeypatch)
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path))
    source = "def f(x: Tensor[(3,), f32]):\n    return x * 2.5\n"
    hits = []
    for _ in range(2):
        MEMORY.clear()
        function = nnmagic.compile(source)
        assert function(np.ones(3, "float32")).tolist() == [2.5, 2.5, 2.5]
        hits.append(function.cache_info.hit)
    assert hits == [None, "disk"]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE member SET data = x'00' WHERE name = 'code.o'", "code.o was changed"),
        ("UPDATE member SET data = 'text' WHERE name = 'header.json'", "header.json was changed"),
        ("UPDATE member SET data = x'' WHERE name = 'SHA256SUMS'", "header.json was changed"),
        ("DELETE FROM member WHERE name = 'constants'", "constants is missing"),
        ("DELETE FROM member WHERE name = 'header.json'", "header.json is missing"),
    ],
)
def test_a_damaged_entry_is_a_warned_miss_and_dropped(cache: DatabaseCache, statement: str, why: str) -> None:
    cache.put(KEY, CONTENT)
    change(cache, statement)
    cache.put(OTHER, CONTENT)
    with pytest.warns(CacheWarning, match=f"held a damaged entry, which was dropped: .*{why}"):
        result = cache.get(KEY)
    assert isinstance(result, MissingEntry)
    assert why in result.why
    assert cache.usage.entries == 1
    assert cache.get(OTHER) == CONTENT
    cache.put(KEY, CONTENT, replace=True)
    assert cache.get(KEY) == CONTENT


@pytest.mark.parametrize("data", [b"no database" * 100, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database_is_dropped(cache: DatabaseCache, data: bytes) -> None:
    cache.directory.mkdir(parents=True)
    (cache.directory / FILE).write_bytes(data)
    with pytest.warns(CacheWarning, match=r"cannot be read: .*; the file was dropped"):
        assert isinstance(cache.get(KEY), MissingEntry)
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_a_file_that_is_being_made_holds_nothing(cache: DatabaseCache) -> None:
    """SQLite makes an empty file, then its tables."""
    cache.directory.mkdir(parents=True)
    (cache.directory / FILE).touch()
    assert cache.get(KEY) == MissingEntry()
    assert cache.read_note("name") is None
    assert cache.usage.entries == 0
    cache.clear()
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_a_damaged_file_that_somebody_has_open_stays_and_is_a_warning(cache: DatabaseCache) -> None:
    cache.put(KEY, CONTENT)
    path = cache.directory / FILE
    path.write_bytes(b"no database" * 1000)
    with path.open("rb"), pytest.warns(CacheWarning, match="cannot be read"):
        assert isinstance(cache.get(KEY), MissingEntry)
    with pytest.warns(CacheWarning, match="cannot be read"):
        assert isinstance(cache.get(KEY), MissingEntry)
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_any_byte_of_the_file_may_be_wrong(cache: DatabaseCache) -> None:
    cache.put(KEY, CONTENT)
    whole = (cache.directory / FILE).read_bytes()
    rng = np.random.default_rng(0)
    for where in rng.integers(len(whole), size=200):
        data = bytearray(whole)
        data[where] ^= 1 << int(rng.integers(8))
        (cache.directory / FILE).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheWarning)
            assert isinstance(found := cache.get(KEY), MissingEntry) or found == CONTENT, where
            cache.put(OTHER, CONTENT)
            assert isinstance(found := cache.get(OTHER), MissingEntry) or found == CONTENT, where


def test_the_first_of_two_writers_stays_unless_told_otherwise(cache: DatabaseCache) -> None:
    cache.put(KEY, CONTENT)
    changed = Content({"made of": {"x": "2"}}, {})
    cache.put(KEY, changed)
    assert cache.get(KEY) == CONTENT
    cache.put(KEY, changed, replace=True)
    assert cache.get(KEY) == changed


def test_what_was_used_longest_ago_is_dropped_and_the_file_shrinks(cache: DatabaseCache) -> None:
    cache.max_bytes = 100_000
    keys = [f"{index:064x}" for index in range(30)]
    for key in keys:
        cache.put(key, make_content(9_000))
        assert cache.get(keys[0]) != MissingEntry(), "it is the one used last, each time"
        assert cache.usage.nbytes <= 100_000
    kept = [key for key in keys if cache.get(key) != MissingEntry()]
    assert kept == [keys[0], *keys[-len(kept) + 1 :]]
    assert len(kept) > 8
    assert (cache.directory / FILE).stat().st_size < 200_000
    cache.clear()
    assert (cache.directory / FILE).stat().st_size < 50_000


def test_what_is_larger_than_the_cache_is_not_kept(cache: DatabaseCache) -> None:
    cache.max_bytes = 100_000
    cache.put(OTHER, CONTENT)
    with pytest.warns(CacheWarning, match=r"too small: an entry has 0\.2 MB, and 0\.1 MB may be kept"):
        cache.put(KEY, make_content(200_000))
    assert cache.get(KEY) == MissingEntry()
    assert cache.get(OTHER) == CONTENT


def test_clearing_leaves_what_is_not_the_caches(cache: DatabaseCache) -> None:
    cache.put(KEY, CONTENT)
    cache.note("f", {"a": 1})
    (cache.directory / "mine.txt").write_text("mine")
    cache.clear()
    assert (cache.directory / "mine.txt").read_text() == "mine"
    assert cache.get(KEY) == MissingEntry()
    assert cache.read_note("f") is None
    DatabaseCache(cache.directory / "nothing", 1).clear()
    assert not (cache.directory / "nothing").exists()


def test_notes_are_kept_one_a_name_and_not_for_ever(
    cache: DatabaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.note("f", 1)
    cache.note("f", [2])
    assert cache.read_note("f") == [2]
    assert cache.read_note("g") is None
    change(cache, "UPDATE note SET data = '{'")
    assert cache.read_note("f") is None
    monkeypatch.setattr(database, "_NOTES", 3)
    for index in range(6):
        cache.note(f"f{index}", index)
    assert [cache.read_note(f"f{index}") for index in range(6)] == [None, None, None, 3, 4, 5]


def test_a_process_that_ends_while_it_writes_leaves_no_entry(cache: DatabaseCache) -> None:
    """Its half of an entry is larger than SQLite's own memory, so that it is in the file already."""
    cache.put(OTHER, CONTENT)
    code = f"""
        import os
        from pathlib import Path
        from nnmagic.cache import Content, database
        database._make_room = lambda *_: os._exit(9)
        content = Content({{}}, {{"code.o": os.urandom(20_000_000)}})
        database.DatabaseCache(Path({str(cache.directory)!r}), 10**8).put("a" * 64, content)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == 9
    assert cache.get(KEY) == MissingEntry()
    assert cache.get(OTHER) == CONTENT
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_the_error_that_undid_a_transaction_is_named(
    cache: DatabaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite rolls back by itself where a disk is full."""

    def insert(opened: sqlite3.Connection, *_: object) -> None:
        opened.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(database, "_insert", insert)
    with pytest.warns(CacheWarning, match="cannot be written to: .*database or disk is full") as seen:
        cache.put(KEY, CONTENT)
    assert [Path(warning.filename).name for warning in seen] == ["database.py"]


@POSIX
def test_a_full_disk_is_a_warning(cache: DatabaseCache) -> None:
    code = f"""
        import resource, signal, warnings
        from pathlib import Path
        from nnmagic.cache import Content
        from nnmagic.cache.database import DatabaseCache
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        cache = DatabaseCache(Path({str(cache.directory)!r}), 10**7)
        cache.put("b" * 64, Content({{}}, {{"code.o": bytes(9000)}}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cache.put("a" * 64, Content({{}}, {{"code.o": bytes(5_000_000)}}))
            print(len(seen), seen[0].message)
        print(cache.get("a" * 64), len(cache.get("b" * 64).files["code.o"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written to: " in done.stdout
    assert done.stdout.startswith("1 nnmagic's cache in")
    assert done.stdout.endswith("MissingEntry(why='') 9000\n")


def test_threads_read_write_and_drop_at_once(cache: DatabaseCache) -> None:
    cache.max_bytes = 60_000
    assert use_in_threads(cache) == []
    assert cache.usage.nbytes <= 60_000


def test_a_process_that_writes_for_long_is_a_warning(
    cache: DatabaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, CONTENT)
    monkeypatch.setattr(database, "_PATIENCE", 0.05)
    with closing(sqlite3.connect(cache.directory / FILE, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.warns(CacheWarning, match="cannot be read: database is locked"):
            assert isinstance(cache.get(KEY), MissingEntry)
        with pytest.warns(CacheWarning, match="cannot be written to: database is locked"):
            cache.put(OTHER, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_a_network_drive_is_bypassed(cache: DatabaseCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, CONTENT)
    monkeypatch.setattr(database, "_is_remote", lambda directory: directory == cache.directory)
    with pytest.warns(CacheWarning, match="cannot be read: it is on a network drive"):
        assert isinstance(cache.get(KEY), MissingEntry)
    with pytest.warns(CacheWarning, match="cannot be written to: it is on a network drive"):
        cache.put(OTHER, CONTENT)
    with pytest.warns(CacheWarning, match="cannot be emptied: it is on a network drive"):
        cache.clear()
