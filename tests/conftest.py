"""Options of the suites, which cases they make, what computes them, what a case may cost; a private cache."""

import ast
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

import nnmagic
from nnmagic.functions.caching.environment import environment
from tests.costs import Cost, spent
from tests.systems import POSIX_MODULES

#: Folders whose cases are about what programs mean.
_MEANING = (
    "tests/tinynn/",
    "tests/relay/gradients/",
    "tests/relay/batching/",
    "tests/importers/onnx/",
    "tests/exporters/",
)
#: One such case in so many runs as machine code in the default suite.
_MACHINE_CODE = 16
#: Of the machine code of one case in so many, LLVM optimises all: in the default suite, and in the full one,
#: which optimises all of what it has alone.
_OPTIMIZED, _OPTIMIZED_IN_FULL = 16, 4

#: What marks a test or a case, and what begins a test or a class of tests, in the text of a file.
_FULL, _TEST = re.compile(r"\bmark\.full\b"), re.compile(r"^(?:def|class) [tT]est", re.MULTILINE)

collect_ignore = [] if os.name == "posix" else list(POSIX_MODULES)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every case: the suite of `make test-full`")
    parser.addoption(
        "--default",
        action="store_true",
        help="make no case of the full suite alone, also of files that are named",
    )
    parser.addoption(
        "--without-default",
        action="store_true",
        help="with --full: leave out what the default suite, run before, asks by the same engine",
    )
    parser.addoption(
        "--part", metavar="K/N", help="make the K-th of N parts alone, from 0 on, as names of cases draw them"
    )
    parser.addoption(
        "--budget", action="store_true", help="fail cases that cost more than tests/costs.py allows"
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give today into tests/golden; read the difference before committing it",
    )


def pytest_configure(config):
    # Where modules are compiled anew in each process, the many that tests start take twice as long.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Child processes inherit it; nothing of the user's cache is read, written or dropped.
    config.cache_directory = os.environ["NNMAGIC_CACHE_DIR"] = tempfile.mkdtemp(prefix="nnmagic-cache-")
    if config.getoption("full"):  # workers and child processes inherit it
        os.environ["NNMAGIC_FULL_SUITE"] = "1"
    if os.name == "nt":  # pyzmq says that it starts a thread for sockets, which is what it should do
        config.addinivalue_line("filterwarnings", "ignore:Proactor event loop:RuntimeWarning")


def _named_files(config, *, with_tests=False):
    """Return the files that the command line names; ``with_tests``: those of which it names tests."""
    given = (argument.partition("::") for argument in config.args)
    return {
        Path(config.invocation_params.dir, file).resolve()
        for file, tests, _ in given
        if tests or not with_tests
    }


def _makes_every_case(config, path):
    """Return whether a file's cases are those of the full suite: also where it is named and has no others."""
    if config.getoption("full") or path in _named_files(config, with_tests=True):
        return True
    is_named = not config.getoption("default") and path in _named_files(config)
    return is_named and not _has_default_cases(path)


@cache
def _has_default_cases(path):
    """Return whether a file has a test, or a class of tests, that is not marked ``full`` as a whole."""
    text = path.read_text(encoding="utf-8")
    if "pytestmark" not in text and len(_FULL.findall(text)) < len(_TEST.findall(text)):
        return True  # which is quicker than a tree
    tree = ast.parse(text)
    marks = [node for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    if any(re.search(r"mark\.full\b(?!\()", ast.unparse(node)) for node in marks):
        return False
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test")
    ]
    return any("pytest.mark.full" not in map(ast.unparse, node.decorator_list) for node in tests)


def pytest_ignore_collect(collection_path, config):
    """Import no module that has no case of the suite, except where it is named."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    is_left_out = is_test and not config.getoption("full") and collection_path not in _named_files(config)
    return True if is_left_out and not _has_default_cases(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make no case of a test, or of a class of tests, that is marked ``full`` outside of the full suite."""
    is_full = any(mark.name == "full" and not mark.args for mark in getattr(obj, "pytestmark", ()))
    is_left_out = is_full and name.lower().startswith("test")
    return [] if is_left_out and not _makes_every_case(collector.config, collector.path) else None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    """Draw the cases of the default suite: none that is marked ``full``, every N-th of a ``sampled`` test."""
    result = yield
    every, leaves_out = list(metafunc._calls), metafunc.config.getoption("without_default")
    if leaves_out or not _makes_every_case(metafunc.config, metafunc.definition.path):
        name, marker = metafunc.definition.nodeid, metafunc.definition.get_closest_marker("full")
        left_out = marker.args if marker else ()
        calls = [
            call
            for call in metafunc._calls
            if not call.id.startswith(left_out or ("\0",)) and all(mark.name != "full" for mark in call.marks)
        ]
        if marker := metafunc.definition.get_closest_marker("sampled"):
            drawn = sorted(calls, key=lambda call: crc32(f"{name}[{call.id}]".encode()))
            others = {call.id for call in drawn[-(-len(drawn) // marker.kwargs["every"]) :]}
            if _is_about_meaning(metafunc.definition):
                for call in calls:
                    if call.id in others:
                        call.marks.append(pytest.mark.numpy_engine.mark)
            else:
                calls = [call for call in calls if call.id not in others]
        assert calls or not metafunc._calls, f"{name}: mark the test itself, not all its cases"
        if leaves_out:
            drawn = {call.id for call in calls}
            for call in every:
                if call.id not in drawn:
                    call.marks.append(pytest.mark.full.mark)
        else:
            metafunc._calls[:] = calls
    return result


def _is_about_meaning(node):
    """Return whether a test asks what programs mean, which the engine `numpy` may answer."""
    return node.nodeid.startswith(_MEANING) and node.get_closest_marker("machine_code") is None


def pytest_collection_modifyitems(config, items):
    """Leave out what the default suite asks in the same way, or the other parts, where options say so."""
    if config.getoption("without_default"):
        items[:] = [item for item in items if _is_full(item) or _runs_on_numpy(item)]
    if part := config.getoption("part"):
        number, parts = map(int, part.split("/"))
        items[:] = [item for item in items if crc32(item.nodeid.encode()) % parts == number]


def _is_full(item):
    marker = item.get_closest_marker("full")
    return marker is not None and not marker.args


def _runs_on_numpy(item):
    """Return whether the default suite lets the engine `numpy` say what a case means."""
    is_chosen = crc32(item.nodeid.encode()) % _MACHINE_CODE or item.get_closest_marker("numpy_engine")
    return bool(is_chosen) and _is_about_meaning(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let the collector rest while cases are made, which takes a sixth less time so."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    """Spare the collector the thousands of cases, and call it less often: it takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note what a case costs."""
    start, modules = spent(), len(sys.modules)
    result = yield
    item.stash[Cost] = Cost(spent() - start, len(sys.modules) - modules)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where ``--budget`` is given, fail a case of the default suite that costs more than it allows."""
    report = yield
    if call.when == "call" and report.passed and item.config.getoption("budget"):
        marker = item.get_closest_marker("budget")
        excess = item.stash[Cost].excess(*(marker.args if marker else ()))
        if excess and item.get_closest_marker("full") is None:
            report.outcome, report.longrepr = "failed", excess
    return report


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def _engine(request):
    """Let the engine `numpy` say what most programs mean in the default suite: it takes milliseconds.

    The others, and all of a test that is marked ``machine_code``, run as machine code, as all do in the full
    suite. LLVM optimises it in a sample of them, and in what the full suite has alone.
    """
    with pytest.MonkeyPatch.context() as changes:  # a test that undoes its own leaves these
        if not request.config.getoption("full") and _runs_on_numpy(request.node):
            for function in (nnmagic.compile, nnmagic.from_onnx):
                changes.setitem(function.__wrapped__.__kwdefaults__, "engine", "numpy")
        if not _is_optimized(request.node):
            leave_unoptimized(changes)
        yield


def _is_optimized(item):
    """Return whether LLVM optimises the machine code of a case."""
    every = _OPTIMIZED
    if item.config.getoption("full"):
        every = 1 if _is_full(item) and not item.config.getoption("without_default") else _OPTIMIZED_IN_FULL
    is_drawn = not crc32(item.nodeid.encode()) // _MACHINE_CODE % every
    return is_drawn or item.get_closest_marker("optimized") is not None


def leave_unoptimized(changes):
    """Keep LLVM from optimising, which takes six sevenths of its time; its input stays the same."""
    made_of, compiler = environment(), "compiler of nnmagic"  # a key of the caches: they keep the kinds apart
    changes.setitem(made_of, compiler, f"{made_of[compiler]}, unoptimized")
    build = sys.modules.get("nnmagic.engine.relax.codegen.build")
    if build is None:  # the first case of a process that compiles is optimised: no case imports TVM for this
        return
    compile_parts, kind_of = build.compile_parts, sys.modules["tvm"].target.Target

    def compile_plainly(kernels, entry, target, *, apart):
        return compile_parts(kernels, entry, kind_of({**target.export(), "opt-level": 0}), apart=apart)

    changes.setattr(build, "compile_parts", compile_plainly)


@pytest.fixture(scope="module")
def few_objects():
    """Put what earlier tests left out of the collector's reach: a collection would take half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def memory_only(monkeypatch):
    """Compiles what is not in memory: tests that ask why something was compiled, or that it was."""
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "0")
