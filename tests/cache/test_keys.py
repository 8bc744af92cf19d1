"""What a compiled object depends on: each field of its key alone makes a miss, what is no field a hit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.cache import CacheWarning
from nnmagic.diagnostics import RelayError, Source
from nnmagic.engine import cpu
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.functions.caching import build_or_load
from nnmagic.functions.caching import environment as surroundings
from nnmagic.functions.caching.build_or_load import key_fields, key_of
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.environment import environment
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.cells.compile_cell import MEMORY, compile_cell
from nnmagic.progress import listen
from tests.child_process import PATIENCE
from tests.systems import POSIX

SOURCE = "def foo(x: Tensor[(2,), f32]):\n    return exp(x) * w0\n"
W0 = np.array([1, 2], "float32")
X = np.array([0.5, -1], "float32")
PACKAGE = Path(nnmagic.__file__).parent


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache on disk of its own; each compilation is as one of a new kernel."""
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Has the next compilation look again at what it depends on, as that of a new kernel does."""
    for known in (cpu.processor, cpu.instruction_sets, environment):
        known.cache_clear()
    surroundings._AT_IMPORT = surroundings._files_of_compilers()
    surroundings._looked_at.clear()


def hit(source: str = SOURCE, *, expected: np.ndarray | None = None, **options: object) -> bool:
    """Whether a new kernel finds it on disk, and builds nothing; the result must be right in any case."""
    MEMORY.clear()
    stages: list[str] = []
    namespace = options.pop("namespace", {"w0": W0})
    with listen(lambda stage, *_: stages.append(stage)):
        function = nnmagic.compile(source, namespace=namespace, **options)  # type: ignore[arg-type]
    assert ("machine code" in stages) is (function.cache_info.hit is None)
    wanted = np.exp(X) * W0 if expected is None else expected
    np.testing.assert_allclose(function(X), wanted, rtol=1e-5)
    assert function.cache_info.hit in (None, "disk")
    return function.cache_info.hit == "disk"


def test_the_fields_are_those_that_are_tested_here() -> None:
    module = relay.infer_type(nnmagic.compile(SOURCE, namespace={"w0": W0}).relay)
    assert [*key_fields(module, "foo", Options())] == [
        *("format", "program", "constants", "engine", "option target", "option opt_level"),
        *("version of nnmagic", "version of TVM", "compiler library", "version of TVM's FFI"),
        *("version of NumPy", "compiler of nnmagic", "layout of arrays", "processor"),
    ]


def test_each_field_alone_makes_another_key() -> None:
    module = relay.infer_type(nnmagic.compile(SOURCE, namespace={"w0": W0}).relay)
    result = key_fields(module, "foo", Options())
    for name in result:
        assert key_of({**result, name: f"{result[name]}x"}) != key_of(result), name


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(SOURCE.replace("* w0", "+ w0"), {"expected": np.exp(X) + W0}, id="program"),
        pytest.param(SOURCE.replace("* w0", "* w0 * 1"), {}, id="program-of-the-same-meaning"),
        pytest.param(SOURCE, {"namespace": {"w0": W0 * 2}, "expected": np.exp(X) * W0 * 2}, id="constants"),
        pytest.param(
            SOURCE,
            {"namespace": {"w0": np.nextafter(W0, np.float32(9))}},
            id="constants-in-the-last-bit",
        ),
        pytest.param(SOURCE, {"opt_level": 2}, id="opt_level"),
        pytest.param(SOURCE, {"target": {"kind": "llvm", "mcpu": "x86-64"}}, id="target"),
    ],
)
@pytest.mark.skipif(cpu.platform_name() != "Linux x86_64", reason="the target is of this architecture")
def test_what_is_compiled_and_how_are_fields(source: str, options: dict[str, object]) -> None:
    assert not hit()
    assert hit()
    assert not hit(source, **options)
    assert hit(source, **options)
    assert hit(), "the one from before is still there"


def test_the_engine_is_a_field() -> None:
    module = relay.infer_type(nnmagic.compile(SOURCE, namespace={"w0": W0}).relay)
    assert key_fields(module, "foo", Options())["engine"] == "relax"
    assert key_fields(module, "foo", Options(engine="relay"))["engine"] == "relay"


def test_the_format_is_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hit()
    monkeypatch.setattr(build_or_load, "FORMAT", build_or_load.FORMAT + 1)
    assert not hit()
    assert hit()


def test_the_layout_of_arrays_is_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hit()
    monkeypatch.setattr(numpy_abi, "WORDS", numpy_abi.WORDS + 1)  # reads one more, which is there
    forget()
    assert not hit()


def test_the_processor_is_a_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system tells it, by another instruction set alone."""
    if sys.platform != "linux":
        pytest.skip("this system does not list its processors")
    told = tmp_path / "cpuinfo"
    told.write_text(Path(cpu.CPUINFO).read_text())
    monkeypatch.setattr(cpu, "CPUINFO", told)
    forget()
    assert not hit()
    assert hit()
    told.write_text(told.read_text().replace("cpu MHz\t\t: ", "cpu MHz\t\t: 1"))
    forget()
    assert hit(), "its speed is no field"
    told.write_text(
        told.read_text()
        .replace("flags\t\t: ", "flags\t\t: avx9000 ")
        .replace("Features\t: ", "Features\t: sve9 ")
    )
    forget()
    assert not hit()


def test_the_processor_of_windows_is_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it describes itself, by another instruction set alone."""
    sets = {"sse2", "avx2"}
    described = cpu._describe_windows
    monkeypatch.setattr(cpu, "_description", lambda: described("A model", sets, lambda _: True))
    forget()
    assert not hit()
    assert hit()
    sets.add("avx9000")
    forget()
    assert not hit()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for TVM's compiler."""
    path = tmp_path / "libtvm_compiler.so"
    path.write_bytes(b"one")
    monkeypatch.setattr(surroundings, "_libraries", lambda: [path])
    forget()
    return path


@pytest.mark.parametrize("change", ["size", "time"])
def test_the_compiler_library_is_a_field(library: Path, change: str) -> None:
    assert not hit()
    assert hit()
    library.write_bytes(b"other") if change == "size" else os.utime(library, (1, 1))
    forget()
    assert not hit()
    assert hit()


def test_what_a_compiler_makes_that_was_changed_meanwhile_is_not_kept(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key would be that of the compiler as this process began; a part may have been imported since."""
    assert not hit()
    library.write_bytes(b"upgraded")
    monkeypatch.setitem(sys.modules, "a_part_that_is_imported_now", surroundings)
    other = SOURCE.replace("*", "/")
    for _ in range(2):
        with pytest.warns(CacheWarning, match="files have changed since this process began.*restart"):
            assert not hit(other, expected=np.exp(X) / W0)
    assert hit(), "what was there is used still"


MEMORY_FIELDS: dict[str, dict[str, object]] = {
    "source": {"source": Source("<tinynn>", f"# why\n{SOURCE}", first_line=2)},
    "location of the source: file": {"source": Source("<other>", SOURCE, first_line=2)},
    "location of the source: line": {"source": Source("<tinynn>", SOURCE, first_line=3)},
    "option engine": {"options": Options(engine="relax")},
    "option target": {"options": Options(target={"kind": "llvm", "mcpu": "x86-64"})},
    "option opt_level": {"options": Options(opt_level=2)},
    "option convert": {"options": Options(convert=True)},
    "option convert, of NumPy": {"options": Options(convert="same_kind")},
    "option zero_d_arrays": {"options": Options(zero_d_arrays=True)},
    "captured array": {"namespace": {"w0": np.nextafter(W0, np.float32(9))}},
    "captured type": {"namespace": {"w0": W0.astype("float64").astype("float32").reshape(1, 2)}},
}


def is_in_memory(**changes: object) -> bool:
    given: dict[str, object] = {
        "source": Source("<tinynn>", SOURCE, first_line=2),
        "namespace": {"w0": W0},
        "options": Options(),
    }
    cell = compile_cell(**(given | changes))  # type: ignore[arg-type]
    return cell.cache_info.hit == "memory"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("what", MEMORY_FIELDS)
@pytest.mark.skipif(cpu.platform_name() != "Linux x86_64", reason="a target is of this architecture")
def test_each_field_of_the_key_in_memory_alone_makes_a_miss(what: str) -> None:
    MEMORY.clear()
    assert not is_in_memory()
    assert is_in_memory()
    assert not is_in_memory(**MEMORY_FIELDS[what])
    assert is_in_memory(**MEMORY_FIELDS[what])
    assert is_in_memory(), "the one from before is still there"


def test_the_language_is_a_field_of_the_key_in_memory() -> None:
    MEMORY.clear()
    assert not is_in_memory()
    with pytest.raises(RelayError):
        is_in_memory(language="relay")


def test_versions_are_fields_of_the_key_in_memory(library: Path) -> None:
    MEMORY.clear()
    assert not is_in_memory()
    library.write_bytes(b"other")
    forget()
    assert not is_in_memory()


def test_what_was_not_captured_and_where_arrays_lie_are_no_fields_of_the_key_in_memory() -> None:
    MEMORY.clear()
    assert not is_in_memory()
    assert is_in_memory(namespace={"w0": np.repeat(W0, 2)[::2].astype(">f4"), "unused": 3})


def test_an_element_that_is_written_to_is_never_missed() -> None:
    """Of a large array, in each order of axes; and back again."""
    weights = np.ones((300, 200), "float32")
    for array in (weights, np.asfortranarray(weights), weights[::-1, ::2], weights.T):
        array.setflags(write=True)
        before = fingerprint(array)
        for index in [(0, 0), (array.shape[0] - 1, array.shape[1] - 1), (17, 3)]:
            array[index] = 2
            assert fingerprint(array) != before
            array[index] = 1
            assert fingerprint(array) == before
    assert fingerprint(weights) == fingerprint(np.asfortranarray(weights).astype(">f4"))
    assert fingerprint(weights) != fingerprint(weights.T)
    assert fingerprint(weights) != fingerprint(weights.view("int32"))


def test_a_constant_does_not_change_when_its_array_does() -> None:
    given = np.ones(3, "float32")
    behind = given.view()
    behind.flags.writeable = False
    for array in (given, behind):
        constant = relay.Constant(array)
        given[...] = 2
        assert constant.data.tolist() == [1, 1, 1]
        given[...] = 1


CHILD = """
    import sys
    import numpy as np, nnmagic
    f = nnmagic.compile({source!r}, namespace={{"w0": np.array([1, 2], "float32")}})
    assert np.allclose(f(np.zeros(2, "float32")), [1, 2])
    print(f.cache_info.hit, "|", f.cache_info.why, "|", "tvm" in sys.modules)
"""


def in_child(path: Path | None = None, **environment: str) -> list[str]:
    """What a fresh Python finds: the hit, the reason, whether TVM was imported; ``path``: of its modules."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(CHILD.format(source=SOURCE))],
        env={**os.environ, **environment, **({"PYTHONPATH": str(path)} if path else {})},
        capture_output=True,
        text=True,
        check=False,
        cwd=path,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split(" | ")


def other_version(package: str) -> Callable[[Path], None]:
    """Has Python's metadata say another version of a package."""

    def change(path: Path) -> None:
        folder = path / f"{package.replace('-', '_')}-99.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 99.0\n")

    return change


def other_source(name: str, line: str = "# changed\n") -> Callable[[Path], None]:
    """Adds a line to a file of nnmagic."""

    def change(path: Path) -> None:
        with (path / "nnmagic" / name).open("a") as file:
            file.write(line)

    return change


ELSEWHERE = {
    "version of TVM": other_version("apache-tvm"),
    "version of TVM's FFI": other_version("apache-tvm-ffi"),
    "version of NumPy": other_version("numpy"),
    "compiler of nnmagic": other_source("engine/relax/schedules/reduction/row_loops.py"),
    "version of nnmagic": other_source("_version.py", '__version__ = "99"\n'),
    "compiler of nnmagic (Relay)": other_source("relay/passes/batch_norm.py"),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of nnmagic, and the cache of a kernel, in which another one finds what it compiled."""
    path = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, path / "copy" / "nnmagic")
    environment = {"NNMAGIC_CACHE_DIR": str(path / "cache")}
    assert in_child(path / "copy", **environment)[0] == "None"
    assert in_child(path / "copy", **environment) == ["disk", "found on disk", "False"]
    return path


@pytest.mark.full
@pytest.mark.parametrize("what", ELSEWHERE)
def test_versions_are_fields_and_a_miss_names_them(what: str, installed: Path, tmp_path: Path) -> None:
    """In another kernel, with another version installed, or another source of nnmagic's compiler."""
    shutil.copytree(installed, tmp_path, dirs_exist_ok=True)
    ELSEWHERE[what](tmp_path / "copy")
    assert in_child(tmp_path / "copy")[:2] == ["None", f"{what.partition(' (')[0]} changed"]


@pytest.mark.full
def test_what_makes_no_code_is_no_field(tmp_path: Path) -> None:
    """The notebook's part of nnmagic, the number of threads, the location of the cell."""
    copy = tmp_path / "copy"
    shutil.copytree(PACKAGE, copy / "nnmagic")
    assert in_child(copy)[0] == "None"
    other_source("jupyter/magics.py")(copy)
    assert in_child(copy)[0] == "disk"
    assert in_child(copy, NNMAGIC_NUM_THREADS="1")[0] == "disk"
    assert in_child(copy, NNMAGIC_NUM_THREADS="3")[0] == "disk"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("# why\n" + SOURCE.replace("return", "# how\n    return"), id="comment"),
        pytest.param(SOURCE.replace("x", "y").replace("ey", "ex"), id="parameter's-name"),
        pytest.param(
            "def foo(x: Tensor[(2,), f32]):\n    h = exp(x)\n    return h * w0\n", id="a-local-name"
        ),
        pytest.param(
            "def foo(x: Tensor[(2,), f32]):\n    other = exp(x)\n    return other * w0\n", id="another"
        ),
        pytest.param(SOURCE.replace("):", "):\n    'what it does'"), id="docstring"),
        pytest.param(SOURCE.replace("    return", "\n\n    return"), id="lines"),
        pytest.param("def bar(x: Tensor[(3,), i32]):\n    return x\n\n" + SOURCE, id="other-functions"),
        pytest.param(SOURCE.replace("(2,)", "(n,)"), id="a-captured-size"),
        pytest.param(
            "def foo(x: Tensor[(2,), f32]) -> Tensor[(2,), f32]:\n    return np.exp(x) * w0\n", id="spelling"
        ),
    ],
)
def test_what_a_source_calls_things_is_no_field(source: str) -> None:
    assert not hit()
    assert hit(source, namespace={"w0": W0, "n": 2, "np": np})


CALLS = """\
def _half(x: Tensor[("n",), f32]):
    return x / 2 if x[0] > -9 else x

def _scaled(x: Tensor[("n",), f32]):
    return x * 4 if x[0] < 99 else x

def foo(x: Tensor[("n",), f32]):
    assert x[0] < 99, "small"
    return _scaled(_half(exp(x)))
"""
TYPES = """\
class Pair:
    def Of(first: Tensor[(2,), f32], second: f32): ...
    def Nothing(): ...

def foo(x: Tensor[(2,), f32]):
    pair = Of(exp(x), 2.0) if x[0] > -9 else Nothing()
    match pair:
        case Of(first, second):
            return first * w0
        case Nothing():
            return x
"""


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("source", "changed"),
    [
        pytest.param(SOURCE, SOURCE.replace("foo", "bar"), id="function"),
        pytest.param(CALLS, CALLS.replace("_half", "_other"), id="helper"),
        pytest.param(CALLS, CALLS.replace("_half", "main"), id="a-helper's-name-that-TVM-uses"),
        pytest.param(CALLS, CALLS.replace("_half", "foo_kernel0"), id="a-helper's-name-as-of-a-kernel"),
        pytest.param(CALLS, CALLS.replace('"n"', '"rows"'), id="dimension"),
        pytest.param(CALLS, CALLS.replace('"n"', '"m"', 1), id="dimension-of-one-function"),
        pytest.param(
            CALLS,
            "\n\n".join([*(parts := CALLS.split("\n\n"))[1::-1], parts[2]]),
            id="swapped-helpers",
        ),
        pytest.param(
            CALLS,
            CALLS.replace("_half", "*")
            .replace("_scaled", "_half")
            .replace("*", "_scaled")
            .replace("x _scaled", "x *"),
            id="helpers-that-swapped-names",
        ),
        pytest.param(CALLS, f"class Unused:\n    def Made(x: f32): ...\n\n{CALLS}", id="unused-class"),
        pytest.param(TYPES, TYPES.replace("Pair", "Two"), id="class"),
        pytest.param(TYPES, TYPES.replace("Of", "Both"), id="constructor"),
        pytest.param(TYPES, TYPES.replace("first", "left"), id="field"),
        pytest.param(
            'def foo(x: Tensor[("n",), f32]):\n    return concatenate([x, exp(x) * 2])[x.shape[0]:]\n',
            'def foo(x: Tensor[("rows",), f32]):\n    return concatenate([x, exp(x) * 2])[x.shape[0]:]\n',
            id="dimension-that-is-computed-with",
        ),
    ],
)
def test_what_a_program_calls_its_parts_is_no_field(source: str, changed: str) -> None:
    assert source != changed
    expected = np.exp(X) * (W0 if "w0" in source else 2)
    assert not hit(source, expected=expected)
    assert hit(changed, expected=expected)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(CALLS.replace("_scaled(_half(", "_half(_scaled("), np.exp(X) * 2, id="order-of-calls"),
        pytest.param(CALLS.replace("x / 2", "x / 8"), np.exp(X) / 2, id="a-helper's-body"),
        pytest.param(CALLS.replace('("n",)', "(2,)"), np.exp(X) * 2, id="types"),
    ],
)
def test_what_a_program_does_is_a_field(changed: str, expected: np.ndarray) -> None:
    assert not hit(CALLS, expected=np.exp(X) * 2)
    assert not hit(changed, expected=expected)
    assert hit(changed, expected=expected)


def test_two_dimensions_of_one_name_are_not_two_of_two_names() -> None:
    source = 'def foo(x: Tensor[("n", "m"), f32], y: Tensor[("n", "m"), f32]):\n    return x * y.sum()\n'
    one, other, third = (
        nnmagic.compile(text).relay
        for text in (source, source.replace('"m"', '"k"'), source.replace('"m"', '"n"'))
    )
    keys = [key_of(key_fields(module, "foo", Options())) for module in (one, other, third)]
    assert keys[0] == keys[1] != keys[2]


def test_the_place_of_a_constant_and_its_name_are_no_fields() -> None:
    assert not hit()
    assert hit(SOURCE.replace("w0", "weights"), namespace={"weights": np.repeat(W0, 2)[::2]})
    assert hit(namespace={"w0": W0.astype(">f4")})


def test_the_order_of_cells_is_no_field() -> None:
    first = "def half(x: Tensor[(2,), f32]):\n    return x / 2\n"
    second = "def foo(x: Tensor[(2,), f32]):\n    return half(exp(x))\n"
    for once in (False, True):
        MEMORY.clear()
        half = nnmagic.compile(first)
        cells = [(second, {"half": half}), (SOURCE, {"w0": W0})]
        for source, namespace in reversed(cells) if once else cells:
            assert (nnmagic.compile(source, namespace=namespace).cache_info.hit == "disk") is once


def test_relay_text_and_a_cell_find_the_same_object() -> None:
    assert not hit()
    text = nnmagic.compile(SOURCE, namespace={"w0": W0}).relay
    assert nnmagic.compile(text).cache_info.hit == "disk"


def test_functions_of_the_same_text_but_other_floats_are_told_apart() -> None:
    """Relay's text rounds attributes; the key does not."""
    for alpha in (0.1234567890123, 0.1234567890124):
        MEMORY.clear()
        result = nnmagic.compile(
            f"def foo(x: Tensor[(2,), f32]):\n    return nn.leaky_relu(x, alpha={alpha})\n"
        )
        assert result.cache_info.hit is None


@pytest.mark.parametrize(
    "source",
    [
        'def foo(x: Tensor[("n",), f32]):\n    return exp(x) * scale\n',
        "def foo(x: Tensor[(2,), f32]):\n    assert x[0] > 0, 'positive'\n    return exp(x) * w0\n",
        "def foo(x: Tensor[(2,), f32]):\n    return exp(x) * w0 if x[0] > 0 else exp(x) * w0\n",
        "def foo(x: Tensor[(2,), f32]):\n    while x[0] > 2:\n        x = x / 2\n    return exp(x) * w0\n",
    ],
    ids=["open dimension", "assertion", "branch", "loop"],
)
def test_every_kind_of_program_is_kept(source: str) -> None:
    options = {"namespace": {"w0": W0, "scale": 2}, "expected": np.exp(X) * (2 if "scale" in source else W0)}
    assert not hit(source, **options)
    assert hit(source, **options)
    assert hit(f"# why\n{source}", **options)


def test_an_assertion_that_was_loaded_tells_of_this_source() -> None:
    """The message and the location of a failure are this cell's, though the code is another's."""
    source = "def foo(x: Tensor[(2,), f32]):\n    assert x[0] > 0, 'positive'\n    return x\n"
    nnmagic.compile(source)
    MEMORY.clear()
    loaded = nnmagic.compile(f"# one more line\n{source}")
    assert loaded.cache_info.hit == "disk"
    with pytest.raises(AssertionError, match=r"(?s)positive.*<tinynn>:3:"):
        loaded(-X[:1].repeat(2))


def test_numbers_that_the_text_rounds_tell_functions_apart():
    def leaky(alpha: str) -> nnmagic.CompiledFunction:
        source = f"def g(x: Tensor[(2,), f32]):\n    return nn.leaky_relu(x, alpha={alpha})\n"
        return nnmagic.compile(nnmagic.compile(source, cache=False).relay, cache=False)

    one, other = leaky("0.1234567"), leaky("0.1234567890124")
    assert one.relay_text == other.relay_text
    assert one.__relay_key__ != other.__relay_key__


def test_captured_strings_are_not_joined():
    one, other = ("a", "b\0string builtins.str c"), ("a\0string builtins.str b", "c")
    assert fingerprint(one) != fingerprint(other)


def test_settings_of_tvms_passes_around_a_build_change_nothing():
    import tvm

    source = "def f(x: Tensor[(64,), f32]):\n    return tanh(x) + x.sum()\n"
    plain = nnmagic.compile(source, cache=False)
    with tvm.transform.PassContext(opt_level=0, config={"tirx.UnrollLoop": {"auto_max_step": 1000}}):
        inside = nnmagic.compile(source, cache=False)
        assert inside.stages["asm"] == plain.stages["asm"]


def output_of(script: str) -> str:
    """What a process prints that runs this; it must end well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=300 * PATIENCE,
        check=True,
    )
    return done.stdout


@pytest.mark.full
@POSIX
def test_a_child_forked_while_another_thread_compiles_compiles():
    """Really compiles: what it holds meanwhile is not for the test to know."""
    script = """
        import os, sys, threading
        import numpy as np
        import nnmagic
        from nnmagic.progress import listen

        SOURCE = "def f(x: Tensor[(2,), f32]):\\n    return x + {}\\n"
        nnmagic.compile(SOURCE.format(1), cache=False)
        begun, go = threading.Event(), threading.Event()

        def stopped(stage, *_):
            if stage == "machine code":
                begun.set()
                go.wait()

        def compile_beside():
            with listen(stopped):
                nnmagic.compile(SOURCE.format(2), cache=False)

        thread = threading.Thread(target=compile_beside)
        thread.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            print(nnmagic.compile(SOURCE.format(3), cache=False)(np.ones(2, "f")), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        go.set()
        thread.join()
        """
    assert output_of(script) == "[4. 4.]\n"


@pytest.mark.full
@POSIX
def test_a_child_forked_during_a_build_builds():
    script = """
        import os, sys, threading, time
        import numpy as np
        import nnmagic
        from nnmagic.functions import definition

        held, go = threading.Event(), threading.Event()

        def hold():
            with definition._BUILDING:
                held.set()
                go.wait()

        nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 1\\n", cache=False)
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        child = os.fork()
        if child == 0:
            f = nnmagic.compile("def f(x: Tensor[(2,), f32]):\\n    return x + 2\\n", cache=False)
            print(f(np.ones(2, "f")), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        go.set()
        """
    assert output_of(script) == "[3. 3.]\n"
