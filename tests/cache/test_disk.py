"""The directory of entries: private, atomic, bounded; whatever is wrong with it is a warning and a miss."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nnmagic.cache import CacheWarning, Content, DiskCache, MissingEntry, disk_cache, set_cache
from tests.cache.stores import CONTENT, KEY, OTHER, make_content, use_in_threads


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 1_000_000)


def leftover_files(cache: DiskCache) -> list[str]:
    """What lies in the directory besides entries and notes."""
    return [path.name for path in cache.directory.iterdir() if path.name.startswith(("partial-", "trash-"))]


def test_an_entry_is_found_again_by_any_instance(cache: DiskCache) -> None:
    assert cache.get(KEY) == MissingEntry()
    cache.put(KEY, CONTENT)
    assert DiskCache(cache.directory, 10**6).get(KEY) == CONTENT
    assert cache.get(OTHER) == MissingEntry()
    assert cache.usage.entries == 1
    assert leftover_files(cache) == []


def test_an_entry_is_private_and_can_be_checked_by_hand(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    folder = cache.directory / KEY
    assert {path.name for path in folder.iterdir()} == {"header.json", "SHA256SUMS", "code.o", "constants"}
    for path in (cache.directory, folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def damage(name: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: change(folder / name) and None


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def folder_of_that_name(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    f"{change.__name__} {name}": (name, change)
    for name in ("header.json", "SHA256SUMS", "code.o")
    for change in (flip, truncate, Path.unlink, pipe, link, folder_of_that_name)
}
DAMAGE["empty code.o"] = ("code.o", lambda path: path.write_bytes(b""))
DAMAGE["a header of another form"] = ("header.json", lambda path: path.write_text('["no", "header"]'))
DAMAGE["a header that names what is not there"] = (
    "header.json",
    lambda path: path.write_text(json.dumps({"files": ["../../secret"]})),
)


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_entry_is_a_warned_miss_and_dropped(cache: DiskCache, case: str) -> None:
    name, change = DAMAGE[case]
    cache.put(KEY, CONTENT)
    cache.put(OTHER, CONTENT)
    change(cache.directory / KEY / name)
    with pytest.warns(CacheWarning, match=r"held a damaged entry|cannot be read"):
        result = cache.get(KEY)
    assert isinstance(result, MissingEntry)
    assert result.why
    assert cache.get(OTHER) == CONTENT
    cache.put(KEY, CONTENT, replace=True)
    assert cache.get(KEY) == CONTENT


def open_as_on_macos(path: object, flags: int, *args: int, dir_fd: int | None = None) -> int:
    """A link that is not followed is ELOOP there, even where a folder is wanted."""
    is_link = stat.S_ISLNK(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    if flags & os.O_NOFOLLOW and is_link:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return REAL_OPEN(path, flags, *args, dir_fd=dir_fd)


REAL_OPEN = os.open


@pytest.mark.parametrize("what", ["file", "link", "link on macOS"])
def test_an_entry_that_is_no_folder_is_replaced(
    cache: DiskCache, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(OTHER, CONTENT)
    path = cache.directory / KEY
    path.write_bytes(b"text") if what == "file" else path.symlink_to(OTHER)
    if what == "link on macOS":
        monkeypatch.setattr(os, "open", open_as_on_macos)
    with pytest.warns(CacheWarning):
        assert isinstance(cache.get(KEY), MissingEntry)
    monkeypatch.undo()
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT
    assert cache.get(OTHER) == CONTENT


def test_a_folder_inside_an_entry_is_dropped_with_it(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    outside = cache.directory.with_name("outside")
    outside.write_text("stays")
    (cache.directory / KEY / "deep" / "er").mkdir(parents=True)
    (cache.directory / KEY / "deep" / "link").symlink_to(outside)
    cache.clear()
    assert [*cache.directory.iterdir()] == []
    assert outside.read_text() == "stays"


@pytest.mark.full
def test_folders_however_deep_are_dropped(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    folder = os.open(cache.directory / KEY, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=folder)
        below = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    cache.clear()
    assert [*cache.directory.iterdir()] == []


def test_a_smaller_cache_reads_what_a_larger_one_put(cache: DiskCache) -> None:
    large = make_content(500_000)
    cache.put(KEY, large)
    assert DiskCache(cache.directory, 100_000).get(KEY) == large


def test_the_first_of_two_writers_stays_unless_told_otherwise(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    changed = Content({"made of": {"x": "2"}}, {})
    cache.put(KEY, changed)
    assert cache.get(KEY) == CONTENT
    cache.put(KEY, changed, replace=True)
    assert cache.get(KEY) == changed
    assert leftover_files(cache) == []


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_directory_that_others_may_write_to_is_bypassed(cache: DiskCache, mode: int) -> None:
    cache.put(KEY, CONTENT)
    cache.directory.chmod(mode)
    with pytest.warns(CacheWarning, match="others may write to it.*chmod 700"):
        assert isinstance(cache.get(KEY), MissingEntry)
    with pytest.warns(CacheWarning, match="others may write to it"):
        cache.put(OTHER, CONTENT)
    with pytest.warns(CacheWarning, match="cannot be emptied"):
        cache.clear()
    assert not (cache.directory / OTHER).exists()
    cache.directory.chmod(0o700)
    assert cache.get(KEY) == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_bypassed(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    os.chown(cache.directory, 65534, 65534)
    with pytest.warns(CacheWarning, match="belongs to somebody else"):
        assert isinstance(cache.get(KEY), MissingEntry)
    os.chown(cache.directory, 0, 0)
    os.chown(cache.directory / KEY / "code.o", 65534, 65534)
    with pytest.warns(CacheWarning, match="no file of this user's"):
        assert isinstance(cache.get(KEY), MissingEntry)


def as_nobody(code: str, **environment: str) -> str:
    """What a child prints that is not root: root may write everywhere."""
    become = "import os\nif os.geteuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
    script = "import fcntl, tempfile, warnings, nnmagic.cache\n" + become + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


USED = """
    from pathlib import Path
    from nnmagic.cache import Content, DiskCache
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cache = DiskCache(Path({path!r}), 10**6)
        cache.put("a" * 64, Content({{}}, {{"code.o": b"x"}}))
        cache.note("f", 1)
        print(cache.get("a" * 64))
    print(*(str(each.message) for each in seen))
"""


@pytest.mark.full
def test_a_directory_that_cannot_be_written_to_is_bypassed() -> None:
    for path in ("/", "/nnmagic-no-such", "/dev/null/cache", "/proc/cache"):
        printed = as_nobody(USED.format(path=path))
        assert printed.startswith("MissingEntry(")
        assert f"nnmagic's cache in {path} cannot be" in printed


def test_a_directory_that_can_only_be_read_is_read(tmp_path: Path) -> None:
    """By its owner, who took the right to write away."""
    code = """
        from pathlib import Path
        from nnmagic.cache import Content, DiskCache
        warnings.simplefilter("error")
        cache = DiskCache(Path(tempfile.mkdtemp()) / "cache", 10**6)
        cache.put("a" * 64, Content({}, {"code.o": b"x"}))
        cache.directory.chmod(0o500)
        print(cache.get("a" * 64).files)
        warnings.simplefilter("always")
        cache.put("b" * 64, Content({}, {"code.o": b"x"}))
        cache.directory.chmod(0o700)
        cache.clear()
    """
    assert as_nobody(code) == "{'code.o': b'x'}\n"


def test_a_full_disk_is_a_warning(cache: DiskCache) -> None:
    """No file may grow beyond a limit that the system sets: what is written fails in the middle."""
    code = f"""
        import resource, signal
        from pathlib import Path
        from nnmagic.cache import Content, DiskCache
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cache = DiskCache(Path({str(cache.directory)!r}), 10**6)
            cache.put("a" * 64, Content({{}}, {{"code.o": bytes(9000)}}))
            print(len(seen), seen[0].message, cache.get("a" * 64))
            print(list(cache.directory.iterdir()))
    """
    done = subprocess.run(
        [sys.executable, "-c", "import warnings\n" + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 nnmagic's cache in" in done.stdout
    assert os.strerror(errno.EFBIG) in done.stdout
    assert done.stdout.endswith("MissingEntry(why='')\n[]\n")
    assert resource.getrlimit(resource.RLIMIT_FSIZE) != (5000, 5000)


@pytest.mark.parametrize("call", ["mkdir", "open", "rename", "unlink", "rmdir", "close", "replace"])
def test_an_interrupt_anywhere_leaves_nothing_half_written(
    call: str, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after a call of the system, whichever it is, once."""
    usual = getattr(os, call)
    left: list[int] = []

    def interrupted(*args: Any, **keywords: Any) -> Any:
        result = usual(*args, **keywords)
        left.append(1)
        if len(left) == number:
            raise KeyboardInterrupt
        return result

    for number in range(1, 12):
        left.clear()
        cache.put(KEY, CONTENT, replace=True)
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(os, call, interrupted)
            cache.put(KEY, make_content(10), replace=True)
            cache.note("f", 1)
            cache.clear()
        assert leftover_files(cache) == [], number
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.get(KEY)


def test_a_process_that_ends_while_it_writes_leaves_no_entry(cache: DiskCache) -> None:
    cache.put(OTHER, CONTENT)
    code = f"""
        import os
        from pathlib import Path
        from nnmagic.cache import Content, disk, DiskCache
        disk._rename_entry = lambda *_: os._exit(9)
        DiskCache(Path({str(cache.directory)!r}), 10**6).put("a" * 64, Content({{}}, {{"code.o": b"x"}}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert done.returncode == 9
    assert cache.get(KEY) == MissingEntry()
    (partial,) = leftover_files(cache)
    cache.put("c" * 64, CONTENT)
    assert leftover_files(cache) == [partial], "it may still be at work"
    os.utime(cache.directory / partial, (0, 0))
    DiskCache(cache.directory, 10**6).put("d" * 64, CONTENT)
    assert leftover_files(cache) == []


def test_what_was_used_longest_ago_is_dropped(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100_000)
    keys = [f"{index:064x}" for index in range(12)]
    for index, key in enumerate(keys):
        cache.put(key, make_content(9_000))
        if (cache.directory / key).exists():
            os.utime(cache.directory / key, (index, index))
        assert cache.get(keys[0]) != MissingEntry(), "it is the one used last, each time"
        assert cache.usage.nbytes <= 100_000
    kept = [key for key in keys if (cache.directory / key).exists()]
    assert kept == [keys[0], *keys[-len(kept) + 1 :]]
    assert len(kept) > 8


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100_000)
    cache.put(OTHER, CONTENT)
    with pytest.warns(CacheWarning, match=r"too small: an entry has 0\.2 MB, and 0\.1 MB may be kept"):
        cache.put(KEY, make_content(200_000))
    assert cache.get(KEY) == MissingEntry()
    assert cache.get(OTHER) == CONTENT


def test_an_entry_that_is_being_read_is_not_dropped(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 30_000)
    cache.put(KEY, make_content(10_000))
    os.utime(tmp_path / KEY, (0, 0))
    descriptor = os.open(tmp_path / KEY, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        for index in range(5):
            cache.put(f"{index:064x}", make_content(10_000))
        assert cache.get(KEY) != MissingEntry()
    finally:
        os.close(descriptor)
    os.utime(tmp_path / KEY, (0, 0))
    cache.put(OTHER, make_content(10_000))
    assert cache.get(KEY) == MissingEntry()


def test_clearing_leaves_what_is_not_the_caches(cache: DiskCache) -> None:
    cache.put(KEY, CONTENT)
    cache.note("f", {"a": 1})
    (cache.directory / "mine.txt").write_text("mine")
    cache.clear()
    assert [path.name for path in cache.directory.iterdir()] == ["mine.txt"]
    assert cache.read_note("f") is None
    DiskCache(cache.directory / "nothing", 1).clear()


def test_notes_are_kept_one_a_name_and_not_for_ever(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.note("f", 1)
    cache.note("f", [2])
    cache.note("é / ..", None)
    assert cache.read_note("f") == [2]
    assert cache.read_note("g") is None
    (note,) = (path for path in cache.directory.iterdir() if b"2" in path.read_bytes())
    note.write_bytes(b"{")
    assert cache.read_note("f") is None
    monkeypatch.setattr("nnmagic.cache.disk._NOTES", 3)
    for index in range(6):
        cache.note(f"f{index}", index)
        time.sleep(0.002)
    DiskCache(cache.directory, 10**6).put(KEY, CONTENT)
    assert [cache.read_note(f"f{index}") for index in range(6)] == [None, None, None, 3, 4, 5]


def test_threads_read_write_and_drop_at_once(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 60_000)
    assert use_in_threads(cache) == []
    cache.put("f" * 64, make_content(10_000))  # what was being read at the last look could not be dropped
    assert cache.usage.nbytes <= 60_000


@pytest.fixture
def as_it_was() -> Iterator[None]:
    yield
    set_cache()


@pytest.mark.usefixtures("as_it_was")
def test_the_environment_and_settings_say_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path / "one"))
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "7")
    result = disk_cache()
    assert result is not None
    assert (result.directory, result.max_bytes) == (tmp_path / "one", 7_000_000)
    set_cache(tmp_path / "two", 9)
    result = disk_cache()
    assert result is not None
    assert (result.directory, result.max_bytes) == (tmp_path / "two", 9_000_000)
    for given, path in (("~/three", Path.home() / "three"), ("four", Path.cwd() / "four")):
        set_cache(given)
        result = disk_cache()
        assert result is not None
        assert result.directory == path
    set_cache(megabytes=0)
    assert disk_cache() is None
    set_cache()
    monkeypatch.delenv("NNMAGIC_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    result = disk_cache()
    assert result is not None
    assert sys.platform != "linux" or result.directory == tmp_path / "home" / "nnmagic"
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "much")
    with pytest.raises(ValueError, match="NNMAGIC_CACHE_MB must be a whole number from 0 on, not 'much'"):
        disk_cache()
    for wrong, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="the size of the cache must be"):
            set_cache(megabytes=wrong)
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "1")
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", "~nobody-of-this-name/cache")
    with pytest.raises(ValueError, match="CACHE_DIR: cannot expand '~' in '~nobody-of-this-name/cache'"):
        disk_cache()
    with pytest.raises(ValueError, match="of the cache: cannot expand '~' in '~nobody-of-this-name'"):
        set_cache("~nobody-of-this-name")


HOMELESS = """
import os, pwd, sys

def unknown(_user):
    raise KeyError

pwd.getpwuid = unknown  # as in a container that is run as a user whom it does not know
for name in ("HOME", "XDG_CACHE_HOME", "NNMAGIC_CACHE_DIR"):
    os.environ.pop(name, None)
from nnmagic.cache import disk_cache
print(disk_cache(), os.listdir())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders for caches")
def test_a_user_without_home_has_no_cache_and_no_folder_of_that_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "None []\n"
    assert "there is no home directory, so nothing is kept on disk; set NNMAGIC_CACHE_DIR" in done.stderr
