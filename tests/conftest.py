"""Options of the whole suite, and a cache on disk that is its own."""

import gc
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from zlib import crc32

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.systems import POSIX_MODULES

collect_ignore = [] if os.name == "posix" else list(POSIX_MODULES)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give today into tests/golden; read the difference before committing it",
    )


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Child processes inherit it; nothing of the user's cache is read, written or dropped.
    config.cache_directory = os.environ["NNMAGIC_CACHE_DIR"] = tempfile.mkdtemp(prefix="nnmagic-cache-")
    if os.name == "nt":  # pyzmq says that it starts a thread for sockets, which is what it should do
        config.addinivalue_line("filterwarnings", "ignore:Proactor event loop:RuntimeWarning")


def pytest_collection_modifyitems(config, items):
    """Of a test that is marked ``sampled``, keep a part of the cases, by the digests of their names."""
    if EXHAUSTIVE or any("::" in argument for argument in config.args):
        return
    cases = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0], marker.kwargs["every"]].append(item)
    left_out = set()
    for (_, every), of_test in cases.items():
        ordered = sorted(of_test, key=lambda item: crc32(item.nodeid.encode()))
        left_out.update(ordered[-(-len(ordered) // every) :])
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session):
    """Spare the collector the thousands of cases, which would make it slow, and the tests with it."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_directory, ignore_errors=True)


@pytest.fixture
def memory_only(monkeypatch):
    """Compiles what is not in memory: tests that ask why something was compiled, or that it was."""
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "0")
