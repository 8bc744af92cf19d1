"""Functions that travel: files and pickles carry machine code, which runs where the compiler is not."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction
from nnmagic.cache import Content, from_members, to_members
from nnmagic.engine import cpu

SOURCES = {
    "direct": "def f(x: Tensor[(4,), f32]):\n    return softmax(x * w)\n",
    "parallel": "def f(x: Tensor[(4,), f32]):\n    return (exp(large) * tanh(large)).sum() + x * w\n",
    "machine": 'def f(x: Tensor[("n",), f32]):\n    return softmax(x * 2), x.shape[0]\n',
    "evaluator": (
        "def f(x: Tensor[(4,), f32]):\n    assert x[0] < 9, 'small'\n    return x * w if x[1] > 0 else x\n"
    ),
}
NAMES = {
    "w": np.array([1, 2, 3, 4], "float32"),
    "large": np.linspace(-1, 1, 2**20, dtype="float32").reshape(1024, 1024),
}
X = np.array([0.5, 1, -1, 2], "float32")


def compiled(kind: str) -> CompiledFunction:
    return nnmagic.compile(SOURCES[kind], namespace=NAMES)


def shown(result: object) -> object:
    return [shown(part) for part in result] if isinstance(result, tuple) else np.asarray(result).tolist()


def child(code: str, *, compiler: bool = False) -> str:
    """What a fresh Python prints that has no cache on disk, and a compiler only where it is told."""
    environment = {**os.environ, "NNMAGIC_CACHE_MB": "0"}
    if not compiler:
        environment["TVM_USE_RUNTIME_LIB"] = "1"
    head = "import nnmagic, numpy as np\nx = np.array([0.5, 1, -1, 2], 'float32')\n"
    tail = (
        "\nprint('libtvm_compiler' in open('/proc/self/maps').read())"
        if sys.platform == "linux"
        else "\nprint(False)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", head + textwrap.dedent(code) + tail],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOWN = """
def shown(result):
    return [shown(part) for part in result] if isinstance(result, tuple) else np.asarray(result).tolist()
"""


@pytest.mark.parametrize("kind", SOURCES)
def test_a_saved_function_runs_without_the_compiler(kind: str, tmp_path: Path) -> None:
    f = compiled(kind)
    f.save(tmp_path / "f.nnm")
    printed = child(
        SHOWN
        + f"f = nnmagic.load({str(tmp_path / 'f.nnm')!r})\n"
        + "print(shown(f(x)))\nprint(f.cache_info.why)\nprint(f.relay_text)"
    )
    result, why, *relay = printed.splitlines()
    assert result == str(shown(f(X)))
    assert why == f"loaded from {tmp_path / 'f.nnm'}"
    assert "\n".join(relay[:-1]) == f.relay_text
    assert relay[-1] == "False", "the compiler was loaded"


def rewritten(path: Path, **changes: object) -> None:
    """Changes the header's facts, or what it is made of, so that the sums agree."""
    with zipfile.ZipFile(path) as archive:
        content = from_members(archive.read)
    header = dict(content.header)
    for place, change in changes.items():
        name = place.replace("_", " ")
        assert isinstance(change, Mapping)
        header[name] = {**header[name], **change}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in to_members(Content(header, content.files)).items():
            archive.writestr(name, data)
    path.write_bytes(packed.getvalue())


ELSEWHERE = {
    "another CPU": (
        {"facts": {"instruction sets": ["avx9000", "sse2"]}},
        "for a CPU with avx9000, which this one lacks",
    ),
    "another system": (
        {"facts": {"machine": "Plan9 pdp11"}},
        f"for Plan9 pdp11, and this is {cpu.machine()}",
    ),
    "another TVM": ({"made_of": {"version of TVM": "0.1"}}, "it is for the version of TVM 0.1, and this is"),
    "another format": ({"made_of": {"format": "0"}}, "it is for the format 0, and this is"),
    "other arrays": ({"made_of": {"layout of arrays": "none"}}, "it is for the layout of arrays none"),
}


@pytest.mark.skipif(cpu.instruction_sets() is None, reason="nobody says what this processor can do")
@pytest.mark.parametrize("case", ELSEWHERE)
def test_code_of_elsewhere_is_compiled_again_where_there_is_a_compiler(case: str, tmp_path: Path) -> None:
    changes, why = ELSEWHERE[case]
    f, path = compiled("direct"), tmp_path / "f"
    f.save(path)
    rewritten(path, **changes)
    loaded = nnmagic.load(path)
    assert shown(loaded(X)) == shown(f(X))
    assert loaded.cache_info.why.startswith(f"loaded from {path}; its machine code cannot run here: ")
    assert why in loaded.cache_info.why
    printed = child(
        f"""
        try:
            nnmagic.load({str(path)!r})
        except nnmagic.EngineError as error:
            print(error)
        """
    )
    assert why in printed
    assert "load it where TVM's compiler is" in printed


def test_without_the_compiler_nothing_is_compiled() -> None:
    code = """
        try:
            nnmagic.compile("def f(x: f32):\\n    return x + 1\\n")
        except nnmagic.EngineError as error:
            print(error)
    """
    assert "@f cannot be compiled: TVM's compiler is not here" in child(code)


def test_the_code_of_a_file_may_be_left_alone(tmp_path: Path) -> None:
    f, path = compiled("direct"), tmp_path / "f"
    f.save(path)
    rewritten(path, facts={"machine": "Plan9 pdp11"})
    loaded = nnmagic.load(path, code=False)
    assert "cannot run here" not in loaded.cache_info.why
    assert shown(loaded(X)) == shown(f(X))


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    f, path = compiled("direct"), tmp_path / "f"
    f.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["code.o"] = bytes([members["code.o"][0] ^ 1]) + members["code.o"][1:]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match=r"holds no function that nnmagic saved: code\.o was changed"):
        nnmagic.load(path)


def test_saving_leaves_the_old_file_or_a_whole_new_one(tmp_path: Path) -> None:
    """No file may grow beyond a limit that the system sets: what is written fails in the middle."""
    f, path = compiled("direct"), tmp_path / "f"
    f.save(path)
    before = path.read_bytes()
    code = f"""
        import resource, signal
        f = nnmagic.load({str(path)!r})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        try:
            f.save({str(path)!r})
        except OSError as error:
            print(error.strerror)
    """
    assert child(code).startswith(os.strerror(27))
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_copies_are_the_function_itself() -> None:
    f = compiled("direct")
    assert copy.copy(f) is f
    assert copy.deepcopy([f])[0] is f


def run_in_worker(function: CompiledFunction, x: np.ndarray) -> tuple[object, bool]:
    """The result in another process, and whether TVM was imported there."""
    return shown(function(x)), "tvm" in sys.modules


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that threads are lost, which is known
@pytest.mark.parametrize("method", sorted(multiprocessing.get_all_start_methods()))
def test_processes_get_functions(method: str) -> None:
    functions = [compiled(kind) for kind in SOURCES]
    for f in functions:
        f(X)
    wanted = [shown(f(X)) for f in functions]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap_async(run_in_worker, [(f, X) for f in functions]).get(100)
    assert [result for result, _ in found] == wanted
    if method == "spawn":
        assert not any(imported for _, imported in found)


@pytest.mark.slow
def test_joblib_gets_functions() -> None:
    joblib = pytest.importorskip("joblib")
    f = compiled("parallel")
    rows = [X * scale for scale in range(1, 7)]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(f)(row) for row in rows)
    for ours, row in zip(found, rows, strict=True):
        np.testing.assert_array_equal(ours, f(row))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of Dask's own sockets
def test_a_dask_cluster_gets_functions() -> None:
    array = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    f = nnmagic.compile('def f(x: Tensor[("n", 4), f32]):\n    return softmax(x * w)\n', namespace=NAMES)
    rows = np.random.default_rng(0).standard_normal((1000, 4)).astype("float32")
    blocks = array.from_array(rows, chunks=(300, 4))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = blocks.map_blocks(f, dtype="float32").compute()
        assert not any(client.run(lambda: "tvm" in __import__("sys").modules).values())
    np.testing.assert_array_equal(found, f(rows))


def test_dask_tells_functions_apart() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    f = compiled("direct")
    assert tokenize(f) == tokenize(compiled("direct")) == tokenize(f)
    assert tokenize(f) != tokenize(compiled("machine"))
    assert pickle.loads(pickle.dumps(f)).name == "f"
