"""Options of the suites, which cases they make, what a case may cost, and a cache on disk of their own."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from zlib import crc32

import pytest

from tests.costs import Cost, spent
from tests.systems import POSIX_MODULES

collect_ignore = [] if os.name == "posix" else list(POSIX_MODULES)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every case: the suite of `make test-full`")
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
    if config.getoption("full"):  # workers and child processes inherit it
        os.environ["NNMAGIC_FULL_SUITE"] = "1"
    if any("::" in argument for argument in config.args):
        os.environ["NNMAGIC_EVERY_CASE"] = "1"
    if os.name == "nt":  # pyzmq says that it starts a thread for sockets, which is what it should do
        config.addinivalue_line("filterwarnings", "ignore:Proactor event loop:RuntimeWarning")


def _every_case():
    from tests.suites import EVERY_CASE  # once pytest_configure has decided it

    return EVERY_CASE


def _is_full(definition):
    """Whether a test or a module is marked ``full``."""
    marks = getattr(definition, "pytestmark", [])
    return any(mark.name == "full" for mark in (marks if isinstance(marks, list) else [marks]))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make no case of a test that is marked ``full`` outside of the full suite."""
    if name.startswith("test") and not _every_case() and (_is_full(obj) or _is_full(collector.obj)):
        return []
    return None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    """Draw the cases of the default suite: none marked ``full``, every N-th one of a ``sampled`` test."""
    result = yield
    if not _every_case():
        calls = [call for call in metafunc._calls if all(mark.name != "full" for mark in call.marks)]
        name = metafunc.definition.nodeid
        if marker := metafunc.definition.get_closest_marker("sampled"):
            drawn = sorted(calls, key=lambda call: crc32(f"{name}[{call.id}]".encode()))
            drawn = {call.id for call in drawn[: -(-len(drawn) // marker.kwargs["every"])]}
            calls = [call for call in calls if call.id in drawn]
        assert calls or not metafunc._calls, f"{name}: mark the test itself, not all its cases"
        metafunc._calls[:] = calls
    return result


def pytest_collection_finish(session):
    """Spare the collector the thousands of cases, which would make it slow, and the tests with it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note what a case costs."""
    start, modules = spent(), len(sys.modules)
    result = yield
    item.stash[Cost] = Cost(spent() - start, len(sys.modules) - modules)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a case of the default suite that passes, but costs more than the budget."""
    report = yield
    if call.when == "call" and report.passed and not _every_case():
        excess = item.stash[Cost].excess()
        if excess:
            report.outcome, report.longrepr = "failed", excess
    return report


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_directory, ignore_errors=True)


@pytest.fixture
def memory_only(monkeypatch):
    """Compiles what is not in memory: tests that ask why something was compiled, or that it was."""
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "0")
