"""The cache explains itself: why a cell was compiled, what was found where, what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from nnmagic import CompiledFunction
from nnmagic.cache import CacheWarning, Content, disk_cache, set_cache
from nnmagic.functions.cells.compile_cell import MEMORY
from tests.cache.stores import Inside
from tests.cache.windows import imitate_windows

SOURCE = "def foo(x: Tensor[(2,), f32]):\n    return x * w0\n"
W0 = np.array([1, 2], "float32")
X = np.array([3, 4], "float32")


@pytest.fixture(autouse=True, params=["on POSIX", "on Windows"] if os.name == "posix" else ["on Windows"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    if request.param == "on Windows":
        imitate_windows(monkeypatch)
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path / "cache"))
    MEMORY.clear()
    yield tmp_path / "cache"
    set_cache()


def in_new_kernel(source: str = SOURCE, w0: np.ndarray = W0, **options: object) -> CompiledFunction:
    """As a kernel that has compiled nothing yet."""
    MEMORY.clear()
    return nnmagic.compile(source, namespace={"w0": w0}, **options)  # type: ignore[arg-type]


def test_a_miss_says_what_changed_since_another_kernel() -> None:
    assert in_new_kernel().cache_info.why == "first time"
    assert in_new_kernel().cache_info.why == "found on disk"
    assert in_new_kernel(w0=W0 * 2).cache_info.why == "captured array `w0` changed"
    assert in_new_kernel(SOURCE.replace("*", "+"), W0 * 2).cache_info.why == "source changed"
    assert in_new_kernel(opt_level=1).cache_info.why == "source, option opt_level changed"
    assert in_new_kernel(SOURCE.replace("foo", "bar")).cache_info.why == "found on disk"
    assert in_new_kernel(SOURCE.replace("foo", "other").replace("*", "-")).cache_info.why == "first time"


def test_a_miss_says_that_the_entry_was_dropped(directory: Path) -> None:
    in_new_kernel()
    inside = Inside(directory)
    for key in inside.keys:
        inside.drop(key)
    assert in_new_kernel().cache_info.why == "no longer on disk"
    in_new_kernel()
    cache = disk_cache()
    assert cache is not None
    cache.clear()
    assert in_new_kernel().cache_info.why == "first time"


def test_a_miss_says_that_the_entry_was_damaged(directory: Path) -> None:
    in_new_kernel()
    (key,) = Inside(directory).keys
    Inside(directory).write(key, "code0.o", b"")
    with pytest.warns(CacheWarning, match="damaged entry"):
        result = in_new_kernel()
    assert result.cache_info.why == "the entry was damaged: code0.o was changed"
    np.testing.assert_array_equal(result(X), X * W0)
    assert in_new_kernel().cache_info.hit == "disk"


def test_an_entry_of_something_else_is_a_warned_miss(directory: Path) -> None:
    """It is whole, and lies where another should."""
    first = in_new_kernel()
    inside = Inside(directory)
    (one,) = inside.keys
    in_new_kernel(SOURCE.replace("*", "-"))
    (other,) = {*inside.keys} - {one}
    inside.drop(one)
    inside.rename(other, to=one)
    with pytest.warns(CacheWarning, match="an entry cannot be used: it is that of something else"):
        result = in_new_kernel()
    assert result.cache_info.hit is None
    np.testing.assert_array_equal(result(X), first(X))
    assert in_new_kernel().cache_info.hit == "disk"


OTHERS = {
    "another CPU's": (
        {"facts": {"instruction sets": ["avx9000"]}},
        {},
        "a CPU with avx9000, which this one lacks",
    ),
    "another system's": ({"facts": {"machine": "Plan9 pdp11"}}, {}, "was compiled for Plan9 pdp11"),
    "another version's": ({"made of": {"version of TVM": "0.1"}}, {}, "it is that of something else"),
    "of another kind": ({"facts": {"kind": "machine"}}, {}, "an entry cannot be used"),
    "of a kind that is none": ({"facts": {"kind": "magic"}}, {}, "none of this function's"),
    "without its facts": ({"facts": None}, {}, "an entry cannot be used"),
    "with too many constants": (
        {"facts": {"constants": [8, 8]}},
        {},
        "the constants have 64 bytes, not 128",
    ),
    "that is no object file": ({}, {"code0.o": b"text"}, "an entry cannot be used"),
    "that is half an object file": ({}, {"code0.o": None}, "an entry cannot be used"),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("case", OTHERS)
def test_a_whole_entry_that_cannot_be_used_is_a_warned_miss(case: str, directory: Path) -> None:
    """Its sums agree: somebody wrote it so, or another nnmagic did."""
    changes, files, why = OTHERS[case]
    in_new_kernel()
    cache = disk_cache()
    assert cache is not None
    (key,) = Inside(directory).keys
    content = cache.get(key)
    assert isinstance(content, Content)
    header, members = dict(content.header), dict(content.files)
    for part, change in changes.items():
        header[part] = None if change is None else {**header[part], **change}
    for name, data in files.items():
        members[name] = members[name][: len(members[name]) // 2] if data is None else data
    cache.put(key, Content(header, members), replace=True)
    with pytest.warns(CacheWarning, match=why):
        result = in_new_kernel()
    assert result.cache_info.hit is None
    assert why in result.cache_info.why
    np.testing.assert_array_equal(result(X), X * W0)
    assert in_new_kernel().cache_info.hit == "disk"


def test_functions_of_a_cell_are_found_one_by_one() -> None:
    in_new_kernel()
    MEMORY.clear()
    source = f"{SOURCE}\ndef bar(x: Tensor[(2,), f32]):\n    return x - w0\n"
    shell = InteractiveShell.instance(config=quiet())
    try:
        nnmagic.load_ipython_extension(shell)
        shell.user_ns["w0"] = W0
        assert run(shell, f"%%tinynn -q\n{source}") == ""
        assert shell.user_ns["foo"].cache_info.hit == "disk"
        assert shell.user_ns["bar"].cache_info.hit is None
    finally:
        nnmagic.unload_ipython_extension(shell)
        InteractiveShell.clear_instance()


def quiet() -> Config:
    config = Config()
    config.HistoryManager.enabled = False
    return config


def run(shell: InteractiveShell, cell: str) -> str:
    with capture_output() as captured:
        shell.run_cell(cell).raise_error()
    return "\n".join([captured.stdout, *(each.data["text/plain"] for each in captured.outputs)]).strip()


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    result = InteractiveShell.instance(config=quiet())
    nnmagic.load_ipython_extension(result)
    result.user_ns["w0"] = W0
    yield result
    nnmagic.unload_ipython_extension(result)
    InteractiveShell.clear_instance()


def info(shell: InteractiveShell) -> tuple[str | None, str]:
    result = shell.user_ns["foo"].cache_info
    return result.hit, result.why


def test_options_of_a_cell(shell: InteractiveShell, directory: Path) -> None:
    run(shell, f"%%tinynn -q\n{SOURCE}")
    MEMORY.clear()
    run(shell, f"%%tinynn -q --force\n{SOURCE}")
    assert info(shell) == (None, "forced")
    run(shell, f"%%tinynn -q\n{SOURCE}")
    assert info(shell) == ("memory", "found in memory")
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    MEMORY.clear()
    run(shell, f"%%tinynn -q --no-cache\n{SOURCE}")
    assert info(shell) == (None, "the cache is off")
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before
    run(shell, f"%%tinynn -q\n{SOURCE}")
    assert info(shell) == ("disk", "found on disk")
    MEMORY.clear()
    assert "found on disk" in run(shell, f"%%tinynn -v\n{SOURCE}")


def test_force_replaces_what_is_there(shell: InteractiveShell, directory: Path) -> None:
    run(shell, f"%%tinynn -q\n{SOURCE}")
    cache = disk_cache()
    assert cache is not None
    (key,) = Inside(directory).keys
    written = cache.get(key)
    assert isinstance(written, Content)
    cache.put(key, Content({**written.header, "of the one before": True}, written.files), replace=True)
    run(shell, f"%%tinynn -q -f\n{SOURCE}")
    replaced = cache.get(key)
    assert isinstance(replaced, Content)
    assert {*replaced.header} == {*written.header}
    assert {*replaced.files} == {*written.files}


def test_the_cache_tells_what_it_holds(shell: InteractiveShell, directory: Path) -> None:
    run(shell, f"%%tinynn -q\n{SOURCE}")
    shown = run(shell, "%tinynn cache")
    assert "functions on disk: 1, 0.0 of 512 MB, in" in shown
    assert str(directory) in shown
    assert "seconds of compiling that both saved in this kernel" in shown
    MEMORY.clear()
    run(shell, f"%%tinynn -q\n{SOURCE}")
    before, after = (
        int(text.partition("functions on disk")[2].partition("hits: ")[2].partition(",")[0])
        for text in (shown, run(shell, "%tinynn cache"))
    )
    assert after == before + 1
    assert run(shell, "%tinynn cache --clear") == "the cache is empty now"
    assert "functions on disk: 0," in run(shell, "%tinynn cache")
    assert Inside(directory).is_empty


def test_settings_of_a_notebook(
    shell: InteractiveShell, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(shell, f"%config TinyNNMagics.cache_dir = {str(tmp_path / 'other')!r}")
    run(shell, f"%%tinynn -q\n{SOURCE}")
    assert [*(tmp_path / "other").iterdir()]
    run(shell, "%config TinyNNMagics.cache_mb = 0")
    assert "functions on disk: none are kept" in run(shell, "%tinynn cache")
    MEMORY.clear()
    run(shell, f"%%tinynn -q\n{SOURCE}")
    assert info(shell)[0] is None
    run(shell, "%config TinyNNMagics.cache_mb = -3")
    assert "cache_mb cannot be -3: it must be a whole number from 0 on, or None (it stays 0)" in caplog.text
    run(shell, "%config TinyNNMagics.cache_mb = None")
    run(shell, "%config TinyNNMagics.cache_dir = None")
    run(shell, f"%%tinynn -q\n{SOURCE}")


def test_a_stage_of_a_function_that_was_found_is_compiled_when_asked_for() -> None:
    stages = {name: in_new_kernel().stages[name] for name in ("relax", "tir", "llvm", "asm")}
    result = in_new_kernel()
    assert result.cache_info.hit == "disk"
    assert {name: result.stages[name] for name in stages} == stages
