"""Functions that travel: files and pickles carry machine code, which runs where the compiler is not."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from multiprocessing import get_all_start_methods
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction
from nnmagic.cache import CacheWarning, Content, from_members, to_members
from nnmagic.engine import cpu
from nnmagic.functions.caching import build_or_load
from tests.child_process import run_python
from tests.systems import IS_WINE, POSIX

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


def compile_source(kind: str) -> CompiledFunction:
    return nnmagic.compile(SOURCES[kind], namespace=NAMES)


def to_lists(result: object) -> object:
    return [to_lists(part) for part in result] if isinstance(result, tuple) else np.asarray(result).tolist()


def child(code: str, *, compiler: bool = False) -> str:
    """What a fresh Python prints that has no cache on disk, and a compiler only where it is told."""
    runtime = {} if compiler else {"TVM_USE_RUNTIME_LIB": "1"}
    head = "import nnmagic, numpy as np\nx = np.array([0.5, 1, -1, 2], 'float32')\n"
    tail = (
        "\nprint('libtvm_compiler' in open('/proc/self/maps').read())"
        if sys.platform == "linux"
        else "\nprint(False)"
    )
    program = head + textwrap.dedent(code) + tail
    return run_python("-W", "error", "-c", program, NNMAGIC_CACHE_MB="0", **runtime).stdout


SHOWN = """
def shown(result):
    return [shown(part) for part in result] if isinstance(result, tuple) else np.asarray(result).tolist()
"""


@pytest.mark.full
@pytest.mark.parametrize("kind", SOURCES)
def test_a_saved_function_runs_without_the_compiler(kind: str, tmp_path: Path) -> None:
    f = compile_source(kind)
    f.save(tmp_path / "f.nnm")
    printed = child(
        SHOWN
        + f"f = nnmagic.load({str(tmp_path / 'f.nnm')!r})\n"
        + "print(shown(f(x)))\nprint(f.cache_info.why)\nprint(f.relay_text)"
    )
    result, why, *relay = printed.splitlines()
    assert result == str(to_lists(f(X)))
    assert why == f"loaded from {tmp_path / 'f.nnm'}"
    assert "\n".join(relay[:-1]) == f.relay_text
    assert relay[-1] == "False", "the compiler was loaded"


def rewritten(path: Path, **changes: object) -> None:
    """Changes the header's facts, or what it is made of, so that the sums agree."""
    with zipfile.ZipFile(path) as archive:
        content = from_members(archive.read)
    header = dict(content.header)
    for part, change in changes.items():
        name = part.replace("_", " ")
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
        f"for Plan9 pdp11, and this is {cpu.platform_name()}",
    ),
    "another TVM": ({"made_of": {"version of TVM": "0.1"}}, "it is for the version of TVM 0.1, and this is"),
    "another nnmagic": ({"made_of": {"version of nnmagic": "0.0"}}, "it is for the version of nnmagic 0.0"),
    "another format": ({"made_of": {"format": "0"}}, "it is for the format 0, and this is"),
    "other arrays": ({"made_of": {"layout of arrays": "none"}}, "it is for the layout of arrays none"),
}


@pytest.mark.sampled(every=3)
@pytest.mark.skipif(cpu.instruction_sets() is None, reason="nobody says what this processor can do")
@pytest.mark.parametrize("case", ELSEWHERE)
def test_code_of_elsewhere_is_compiled_again_where_there_is_a_compiler(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, why = ELSEWHERE[case]
    monkeypatch.setattr(build_or_load, "_warned", set())
    f, path = compile_source("direct"), tmp_path / "f"
    f.save(path)
    rewritten(path, **changes)
    of_another_version = "made_of" in changes
    with pytest.warns(CacheWarning, match=why) if of_another_version else contextlib.nullcontext():
        loaded = nnmagic.load(path)
    assert to_lists(loaded(X)) == to_lists(f(X))
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
    assert "install apache-tvm, or unset TVM_USE_RUNTIME_LIB" in printed


@pytest.mark.full
def test_without_the_compiler_nothing_is_compiled() -> None:
    code = """
        try:
            nnmagic.compile("def f(x: f32):\\n    return x + 1\\n")
        except nnmagic.EngineError as error:
            print(error)
    """
    assert "@f cannot be compiled: TVM's compiler is not here" in child(code)


def test_the_code_of_a_file_may_be_left_alone(tmp_path: Path) -> None:
    f, path = compile_source("direct"), tmp_path / "f"
    f.save(path)
    rewritten(path, facts={"machine": "Plan9 pdp11"})
    loaded = nnmagic.load(path, code=False)
    assert "cannot run here" not in loaded.cache_info.why
    assert to_lists(loaded(X)) == to_lists(f(X))


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    f, path = compile_source("direct"), tmp_path / "f"
    f.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["code0.o"] = bytes([members["code0.o"][0] ^ 1]) + members["code0.o"][1:]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match=r"holds no function that nnmagic saved: code0\.o was changed"):
        nnmagic.load(path)


def test_a_file_whose_compressed_parts_were_changed_is_refused(tmp_path: Path) -> None:
    f, path = compile_source("direct"), tmp_path / "f"
    f.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        begin = archive.getinfo("code0.o").header_offset + 30 + len("code0.o")
    data = bytearray(path.read_bytes())
    data[begin : begin + 50] = b"\xff" * 50
    path.write_bytes(data)
    with pytest.raises(ValueError, match="holds no function that nnmagic saved"):
        nnmagic.load(path)


@POSIX
def test_saving_leaves_the_old_file_or_a_whole_new_one(tmp_path: Path) -> None:
    """No file may grow beyond a limit that the system sets: what is written fails in the middle."""
    f, path = compile_source("direct"), tmp_path / "f"
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
    f = compile_source("direct")
    assert copy.copy(f) is f
    assert copy.deepcopy([f])[0] is f


#: A program of its own: what starts processes runs its file again in each.
PROGRAM = """
import sys

import nnmagic
import numpy as np

def load():
    return nnmagic.load({path!r})

def in_worker(function, x):
    return function(x), "tvm" in sys.modules

def same(found, wanted):
    if isinstance(wanted, tuple):
        return all(map(same, found, wanted))
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)

x = np.array([0.5, 1, -1, 2], "float32")
if __name__ == "__main__":
"""


def run_program(body: str, folder: Path, function: CompiledFunction) -> None:
    """Runs the body with the function; it has a cache on disk of its own, which is empty."""
    function.save(folder / "f.nnm")
    program = folder / "program.py"
    program.write_text(
        PROGRAM.format(path=str(folder / "f.nnm")) + textwrap.indent(textwrap.dedent(body), "    ")
    )
    done = run_python(str(program), NNMAGIC_CACHE_DIR=str(folder / "cache"))
    assert done.stdout.endswith("done\n")
    assert not (folder / "cache").exists(), "nothing was compiled"


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *(("spawn", kind) for kind in SOURCES),
        *((method, "parallel") for method in sorted({"fork", "forkserver"} & {*get_all_start_methods()})),
    ],
)
def test_processes_get_functions(method: str, kind: str, tmp_path: Path) -> None:
    body = f"""
        import multiprocessing
        f = load()
        wanted = f(x)
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            found = pool.starmap_async(in_worker, [(f, x)] * 4).get(100)
        assert all(same(result, wanted) for result, _ in found), (found, wanted)
        assert not any(imported for _, imported in found)
        print("done")
    """
    run_program(body, tmp_path, compile_source(kind))


@pytest.mark.skipif(IS_WINE, reason="Wine's pipes lose empty messages, by which joblib wakes its processes")
@pytest.mark.full
def test_joblib_gets_functions(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    body = """
        import joblib
        f = load()
        rows = [x * scale for scale in range(1, 7)]
        found = joblib.Parallel(n_jobs=2)(joblib.delayed(in_worker)(f, row) for row in rows)
        assert all(same(result, f(row)) for (result, _), row in zip(found, rows))
        assert not any(imported for _, imported in found)
        print("done")
    """
    run_program(body, tmp_path, compile_source("parallel"))


@pytest.mark.skipif(IS_WINE, reason="Dask waits for the ticks of Windows' clock, and Wine's has none")
@pytest.mark.full
def test_a_dask_cluster_gets_functions(tmp_path: Path) -> None:
    pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    body = """
        import dask.array
        from distributed import Client, LocalCluster
        f = load()
        rows = np.random.default_rng(0).standard_normal((1000, 4)).astype("float32")
        blocks = dask.array.from_array(rows, chunks=(300, 4))
        cluster = LocalCluster(n_workers=2, threads_per_worker=2, host="127.0.0.1", dashboard_address=None)
        with cluster, Client(cluster) as client:
            found = blocks.map_blocks(f, dtype="float32").compute()
            assert not any(client.run(lambda: "tvm" in sys.modules).values())
        assert np.array_equal(found, f(rows))
        print("done")
    """
    source = 'def f(x: Tensor[("n", 4), f32]):\n    return softmax(x * w)\n'
    run_program(body, tmp_path, nnmagic.compile(source, namespace=NAMES))


@pytest.mark.full
def test_dask_tells_functions_apart() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    f = compile_source("direct")
    assert tokenize(f) == tokenize(compile_source("direct")) == tokenize(f)
    assert tokenize(f) != tokenize(compile_source("machine"))
    assert pickle.loads(pickle.dumps(f)).name == "f"
