"""Options of the whole suite, and a cache on disk that is its own."""

import os
import shutil
import tempfile

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give today into tests/golden; read the difference before committing it",
    )


def pytest_configure(config):
    # Child processes inherit it; nothing of the user's cache is read, written or dropped.
    config.cache_directory = os.environ["NNMAGIC_CACHE_DIR"] = tempfile.mkdtemp(prefix="nnmagic-cache-")


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_directory, ignore_errors=True)


@pytest.fixture
def memory_only(monkeypatch):
    """Compiles what is not in memory: tests that ask why something was compiled, or that it was."""
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "0")
