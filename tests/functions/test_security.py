"""What docs/security.md says of files from somebody else, with files that were made to break it."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, relay
from nnmagic.cache import Content, from_members, to_members
from nnmagic.functions.saving import to_bytes
from nnmagic.relay.text.metadata_arrays import load_array
from tests.child_process import run_python

REFUSED = "holds no function that nnmagic saved"

SOURCE = "def f(x: Tensor[(3,), f32]):\n    return x * table\n"
NAMES = {"table": np.arange(3, dtype=np.float32)}


class _Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.fixture(scope="module")
def function() -> CompiledFunction:
    function = nnmagic.compile(SOURCE, namespace=NAMES)
    function(NAMES["table"])
    return function


def with_files(function: CompiledFunction, **changes: bytes) -> bytes:
    """The function's file with other parts, and checksums that agree: these are no signature."""
    with zipfile.ZipFile(io.BytesIO(to_bytes(function))) as archive:
        content = from_members(archive.read)
    files = {name: changes.pop(name.replace(".", "_"), data) for name, data in content.files.items()}
    assert not changes
    return packed(to_members(Content({k: v for k, v in content.header.items() if k != "files"}, files)))


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return data.getvalue()


def test_without_code_no_machine_code_of_the_file_runs(function: CompiledFunction, tmp_path: Path) -> None:
    x, path = np.ones(3, np.float32), tmp_path / "f.nnm"
    other = nnmagic.compile(SOURCE.replace("*", "-"), namespace=NAMES)
    other(x)
    with zipfile.ZipFile(io.BytesIO(to_bytes(other))) as archive:
        path.write_bytes(with_files(function, code0_o=archive.read("code0.o")))
    np.testing.assert_array_equal(nnmagic.load(path)(x), other(x))  # it is run as it is
    np.testing.assert_array_equal(nnmagic.load(path, code=False)(x), function(x))


def npy(shape: str, data: bytes, dtype: str = "<f4") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def test_arrays_are_not_unpickled(function: CompiledFunction, tmp_path: Path) -> None:
    made = tmp_path / "made"
    path = tmp_path / "f.nnm"
    path.write_bytes(with_files(function, **{"0_npy": npy("()", pickle.dumps(_Payload(made)), "|O")}))
    with pytest.raises(ValueError, match=REFUSED):
        nnmagic.load(path)
    assert not made.exists()


def test_a_small_file_takes_little_memory(function: CompiledFunction, tmp_path: Path) -> None:
    """What it claims to hold is compared with its size before memory is allocated."""
    path = tmp_path / "f.nnm"
    path.write_bytes(with_files(function, **{"0_npy": npy("(1099511627776, 3)", b"")}))
    with pytest.raises(ValueError, match="an array's size does not fit its shape"):
        nnmagic.load(path)
    with zipfile.ZipFile(io.BytesIO(to_bytes(function))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path.write_bytes(packed({**members, "more": bytes(1 << 24)}, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match="its parts are larger than the file"):
        nnmagic.load(path)


def test_a_changed_part_is_noticed(function: CompiledFunction, tmp_path: Path) -> None:
    """By accident: whoever changes a file on purpose changes its checksums, too."""
    with zipfile.ZipFile(io.BytesIO(to_bytes(function))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path = tmp_path / "f.nnm"
    path.write_bytes(packed({**members, "code0.o": members["code0.o"] + b"\0"}))
    with pytest.raises(ValueError, match=r"code0.o was changed"):
        nnmagic.load(path)


def test_a_pickle_names_only_our_reader(function: CompiledFunction) -> None:
    """As every pickle it runs what it names; of ours, that is one function."""

    def named() -> Iterator[str]:
        strings: list[str] = []
        for opcode, argument, _ in pickletools.genops(pickle.dumps(function)):
            if opcode.name == "STACK_GLOBAL":
                yield ".".join(strings[-2:])
            if isinstance(argument, str):
                strings.append(argument)

    assert list(named()) == ["nnmagic.functions.saving.from_pickle"]


def test_relay_text_is_data(tmp_path: Path) -> None:
    """The text is parsed and checked; the metadata holds numbers, whose size must fit their shape."""
    text = f"""#[version = "0.0.5"]
def @main() {{
  __import__("os").mkdir("{tmp_path / "made"}")
}}"""
    with pytest.raises(nnmagic.RelayError):
        relay.parse(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "AAAA", "P6G0lvBA3f0=", "no base64!"])
def test_metadata_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a saved TVM array"):
        load_array(text)


def test_compiling_runs_nothing_of_the_notebook() -> None:
    class Trap:
        @property
        def x(self) -> object:
            raise AssertionError("a property was read")

    def helper() -> None:
        raise AssertionError("it was called")

    scope = {"trap": Trap(), "helper": helper}
    with pytest.raises(nnmagic.TinyNNError):
        nnmagic.compile("def f(x: f32):\n    return helper() + trap.x\n", namespace=scope)


ENGINES = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, nnmagic
from nnmagic.engine.custom import registered_engines

source = "def f(x: Tensor[(3,), f32]): return x + 1.0"
x = numpy.zeros(3, "float32")
assert {"toy", "auto"} <= set(registered_engines())
nnmagic.compile(source, cache=False)(x)
nnmagic.compile(source, cache=False, engine="numpy")(x)
nnmagic.compile(source, cache=False, engine="auto")(x)
try:
    nnmagic.compile(source, cache=False, engine="toyy")(x)
except ValueError as error:
    assert "'toy'" in str(error)
assert "toy_engine" not in sys.modules
nnmagic.compile(source, cache=False, engine="toy")(x)
assert "toy_engine" in sys.modules
"""


@pytest.mark.full
def test_an_engine_of_a_package_is_imported_when_it_is_named(tmp_path: Path) -> None:
    built = "    return nnmagic.compile(module, engine='numpy', cache=False)\n"
    (tmp_path / "toy_engine.py").write_text(f"import nnmagic\ndef build(module):\n{built}")
    info = tmp_path / "toy_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nnmagic.engines]\ntoy = toy_engine:build\nauto = toy_engine:build\nnumpy = toy_engine:build\n"
    )
    run_python("-c", ENGINES, str(tmp_path))


def test_an_onnx_model_has_no_operators_of_its_own(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    tensor = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
    for domain, operator in [("com.example", "Run"), ("ai.onnx.contrib", "PyOp"), ("", "PythonOp")]:
        node = helper.make_node(operator, ["x"], ["y"], domain=domain, code="__import__('os').abort()")
        graph = helper.make_graph([node], "g", [tensor], [result])
        imports = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 1)] if domain else [])]
        path = tmp_path / "net.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=imports).SerializeToString())
        with pytest.raises(nnmagic.RelayError, match=operator):
            nnmagic.from_onnx(path)


def test_results_are_escaped_text() -> None:
    compiled = nnmagic.compile(
        "def f(x: Tensor[(3,), f32]):\n    assert x.sum() < 9, '<script>1</script>'\n    return x\n",
        cache=False,
    )
    html = compiled._repr_mimebundle_()["text/html"]
    assert "&lt;script&gt;1&lt;" in html
    assert "<script" not in html


#: The definition in a file, as JSON.
Head = dict[str, Any]


def at(*path: str | int, to: object) -> Callable[[Head], object]:
    """A change of a definition: the part at a path is another."""

    def change(head: Any) -> None:
        for step in path[:-1]:
            head = head[step]
        head[path[-1]] = to

    return change


@pytest.fixture(scope="module")
def changing() -> CompiledFunction:
    return nnmagic.compile("def f(a: InOut[Tensor[('n',), f32]], x: f32):\n    a[0] = x\n")


def forged(function: CompiledFunction, path: Path, change: Callable[[Head], object]) -> Path:
    """Write the function's file with a changed definition, and checksums that agree."""
    with zipfile.ZipFile(io.BytesIO(to_bytes(function))) as archive:
        content = from_members(archive.read)
    header = json.loads(json.dumps({name: part for name, part in content.header.items() if name != "files"}))
    change(header["definition"])
    path.write_bytes(packed(to_members(Content(header, content.files))))
    return path


#: Settings of a target that reach LLVM's command line, make LLVM abort, or have a wrong type.
TARGETS: list[object] = [
    *({"kind": "llvm", "cl-opt": [f"-{option}"]} for option in ("stop-after:string=x", "time-passes:bool=1")),
    {"kind": "llvm", "cl-opt": ["-unroll-count:string=" + "A" * 40]},
    {"kind": "cuda", "host": {"kind": "llvm", "cl-opt": ["-stop-after:string=x"]}},
    {"kind": "llvm", "opt-level": 99},
    {"kind": "llvm", "num-cores": -1},
    {"kind": "llvm", "vector-width": 7},
    {"kind": "llvm", "jit": "mcjit"},
    {"kind": "llvm", "mcpu": ["native"]},
    {"kind": "llvm", "mattr": "+avx"},
    {"kind": "llvm", "mattr": [3]},
    {"kind": "llvm", "mtriple": 3},
    {"kind": ["llvm"]},
    {},
    "llvm -cl-opt=-stop-after:string=x",
    '{"kind": "llvm", "cl-opt": ["-stop-after:string=x"]}',
]

LOAD = """
import sys, nnmagic
for path in sys.argv[1:]:
    try:
        nnmagic.load(path, code=False)
    except (ValueError, nnmagic.EngineError) as error:
        print("refused:", str(error).splitlines()[0])
    else:
        print(path, "was loaded")
"""


@pytest.mark.full
def test_no_setting_of_a_target_reaches_llvm_unchecked(function: CompiledFunction, tmp_path: Path) -> None:
    paths = [
        str(forged(function, tmp_path / f"{number}.nnm", at("options", "target", to=target)))
        for number, target in enumerate(TARGETS)
    ]
    lines = run_python("-c", LOAD, *paths).stdout.splitlines()
    assert len(lines) == len(TARGETS)
    assert [line for line in lines if not line.startswith("refused:")] == []


INTERFACES = {
    "a kind that is none": (at("parameters", 0, 1, to="VAR_KEYWORD"), "not a parameter"),
    "a name that is code": (
        at("parameters", 0, 0, to="x=print()"),
        r"'x=print\(\)' is not a valid ",
    ),
    "a name twice": (at("parameters", 1, 0, to="a"), "duplicate parameter name"),
    "an order that is none": (at("parameters", 0, 1, to="KEYWORD_ONLY"), "wrong parameter order"),
    "one too many": (
        lambda head: head["parameters"].append(head["parameters"][0]),
        "it has 3 parameters, and f takes 2 values",
    ),
    "one that is changed, and no result for it": (
        at("parameters", 1, 3, to="Out"),
        r"a call changes the arrays Tensor\[\(\"n\",\), f32\], f32, and the last results are of",
    ),
    "a destination that is none": (at("parameters", 0, 3, to="Into"), "not a parameter"),
    "a docstring that is a number": (at("doc", to=3), "its doc is an int"),
    "a source of a billion lines": (at("source", 2, to=1 << 40), "not a source"),
    "a source that is indented for ever": (at("source", 3, to=1 << 40), "not a source"),
    "options that are a list": (at("options", to=[]), "its options is a list"),
}


@pytest.mark.parametrize("change", INTERFACES)
def test_what_contradicts_the_program_is_refused(
    change: str, changing: CompiledFunction, tmp_path: Path
) -> None:
    forge, message = INTERFACES[change]
    path = forged(changing, tmp_path / "f.nnm", forge)
    with pytest.raises(ValueError, match=f"f.nnm {REFUSED}: {message}"):
        nnmagic.load(path, code=False)


SHAPE = """class Shape:
    def Circle(r: f32): ...
    def Box(w: f32, h: f32): ...

def f(s: Shape):
    match s:
        case Shape.Circle(r):
            return r
        case Shape.Box(w, h):
            return w * h
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (at("classes", "Shape", 1, "Box", to=["w"]), "zip"),
        (at("classes", "Shape", 1, "Box", to=["w", "w"]), "duplicate parameter name"),
        (at("classes", "Shape", 1, to={}), "it lacks 'Circle'"),
    ],
)
def test_a_class_that_contradicts_its_data_type_is_refused(
    change: Callable[[Head], object], message: str, tmp_path: Path
) -> None:
    path = forged(nnmagic.compile(SHAPE), tmp_path / "f.nnm", change)
    with pytest.raises(ValueError, match=f"{REFUSED}: {message}"):
        nnmagic.load(path, code=False)


def test_a_loop_that_nothing_proves_to_be_parallel_is_refused(tmp_path: Path) -> None:
    """A file that is data cannot prove it; what is loaded as code is believed, as its machine code is."""
    source = (
        "def f(y: InOut[Tensor[('n',), f32]]):\n    for i in parallel(len(y)):\n        y[i] = y[i] * 2\n"
    )
    function = nnmagic.compile(source)
    path = forged(function, tmp_path / "f.nnm", lambda _head: None)
    with pytest.raises(ValueError, match="only a cell proves that the rounds of a loop are independent"):
        nnmagic.load(path, code=False)
    y = np.ones(3, np.float32)
    nnmagic.load(path)(y)
    assert y.tolist() == [2, 2, 2]
