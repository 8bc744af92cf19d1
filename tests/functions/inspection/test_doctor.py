"""The doctor says what is missing, what it would give, and what fails."""

from __future__ import annotations

import pytest

import nnmagic
from nnmagic.functions.inspection import doctor


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let engines work without a try: `tests/test___main__.py` has that."""
    monkeypatch.setattr(doctor, "_try", lambda _engine: "works")


def test_what_is_missing_says_what_it_would_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda _name: None)
    text, works = doctor.examine()
    assert not works
    assert "apache-tvm             FAILS: is not installed" in text
    assert "missing; it gives %onnx, from_onnx and f.to_onnx: pip install nnmagic[onnx]" in text


def test_a_setting_that_makes_no_sense_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNMAGIC_NUM_THREADS", "many")
    nnmagic.set_num_threads(None)
    try:
        text, works = doctor.examine()
    finally:
        monkeypatch.undo()
        nnmagic.set_num_threads(None)
    assert not works
    assert "threads                FAILS: the variable NNMAGIC_NUM_THREADS must be" in text


def test_an_engine_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(doctor, "_PROGRAM", "def f(x): return y")
    assert doctor._try("numpy").startswith("FAILS: error: unknown name `y`")


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'platformdirs'", name="platformdirs")

    monkeypatch.setattr(nnmagic.cache, "disk_cache", fail)
    text, works = doctor.examine()
    assert not works
    assert "platformdirs           FAILS: No module named 'platformdirs'\n\nengines\n" in text
