"""Functions as files and pickles: exact, without pickled code, and refused when they are something else.

They judge `functions/function_files`, and the defaults of `tinynn/parameters` in files.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, relay
from nnmagic.cache import CacheWarning, Content, from_members, to_members
from nnmagic.functions.saving import from_bytes, to_bytes

SOURCE = '''
def _part(x: Tensor[("n", 3), f32]):
    return x * third

def whole(x: Tensor[("n", 3), f32], y: Tensor[("n", 3), f32]):
    """Uses all that a text would round or lose."""
    h = nn.leaky_relu(_part(x) @ table, alpha=0.123456789)
    return h + y, half
'''
NAMES = {
    "third": 1 / 3,
    "table": np.random.default_rng(0).standard_normal((3, 3)).astype("float32"),
    "half": np.array([0.5, 1.5], ml_dtypes.bfloat16),
}


@pytest.fixture(scope="module")
def whole() -> CompiledFunction:
    return nnmagic.compile(SOURCE, namespace=NAMES, opt_level=2)


def assert_same(loaded: CompiledFunction, whole: CompiledFunction) -> None:
    rng = np.random.default_rng(1)
    for n in (1, 4):
        x, y = (rng.standard_normal((n, 3)).astype("float32") for _ in range(2))
        for ours, theirs in zip(loaded(x, y), whole(x, y), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match=r'\("n"\) is 1 elsewhere'):
        loaded(np.ones((1, 3), "float32"), np.ones((2, 3), "float32"))
    assert relay.structural_equal(loaded.relay, whole.relay)
    for name in ("source", "tree", "relay", "relay-typed"):
        assert loaded.stages[name] == whole.stages[name]
    assert repr(loaded) == repr(whole)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__signature__"):
        assert getattr(loaded, name) == getattr(whole, name)


def test_a_saved_function_is_the_same(whole: CompiledFunction, tmp_path: Path) -> None:
    path = tmp_path / "whole.nnm"
    whole.save(path)
    loaded = nnmagic.load(str(path))
    assert_same(loaded, whole)
    assert loaded.cache_info.hit is None
    assert loaded.cache_info.why == f"loaded from {path}"
    whole.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_pickled_function_is_the_same(whole: CompiledFunction) -> None:
    assert_same(pickle.loads(pickle.dumps(whole)), whole)


@pytest.mark.full
def test_another_process_loads_it(whole: CompiledFunction, tmp_path: Path) -> None:
    whole.save(tmp_path / "f")
    x = np.full((2, 3), 0.25, "float32")
    code = (
        "import nnmagic, numpy as np\nx = np.full((2, 3), 0.25, 'float32')\n"
        f"print(nnmagic.load({str(tmp_path / 'f')!r})(x, x)[0].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == whole(x, x)[0].tolist()


def test_a_file_holds_no_pickle(whole: CompiledFunction, tmp_path: Path) -> None:
    path = tmp_path / "f"
    whole.save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"header.json", "SHA256SUMS", "relay.txt", "code0.o"} <= {*names}
        json.loads(archive.read("header.json"))
        for name in names:
            if name.endswith(".npy"):
                np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
    globals_in_pickle = [
        str(argument)
        for opcode, argument, _ in pickletools.genops(pickle.dumps(whole))
        if opcode.name == "GLOBAL"
    ]
    assert globals_in_pickle in ([], ["nnmagic.functions.saving from_bytes"])


def test_a_loaded_function_is_captured_by_another(whole: CompiledFunction, tmp_path: Path) -> None:
    whole.save(tmp_path / "f")
    loaded = nnmagic.load(tmp_path / "f")
    source = 'def caller(x: Tensor[("n", 3), f32]):\n    h, _ = whole(x, x)\n    return h\n'
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(nnmagic.compile(source, namespace={"whole": loaded})(x), whole(x, x)[0])


def content(data: bytes) -> Content:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return from_members(archive.read)


def pack(edited: Content) -> bytes:
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name, member in to_members(edited).items():
            archive.writestr(name, member)
    return new.getvalue()


def with_changes(data: bytes, **changes: object) -> bytes:
    """The file with other entries in its JSON, and sums that agree."""
    original = content(data)
    definition = {**original.header["definition"], **changes}
    return pack(Content({**original.header, "definition": definition}, original.files))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 99},
        {"name": "nothing"},
        {"module": {}},
        {"module": {"types": [["Nope"]], "nodes": [], "functions": {}, "data_types": {}}},
        {"module": {"types": [], "nodes": [["Tuple", [5]]], "functions": {}, "data_types": {}}},
        {"module": {"types": [], "nodes": [["GlobalVar", "f"]], "functions": {"f": 0}, "data_types": {}}},
        {"dtypes": ["float32"] * 9},
        {"options": {"engine": "none"}},
        {"source": None},
    ],
)
def test_a_changed_file_is_refused(
    whole: CompiledFunction, tmp_path: Path, changes: dict[str, object]
) -> None:
    path = tmp_path / "f"
    whole.save(path)
    path.write_bytes(with_changes(path.read_bytes(), **changes))
    with pytest.raises(ValueError, match="holds no function that nnmagic saved"):
        nnmagic.load(path)


@pytest.mark.full
def test_a_damaged_file_is_refused_or_the_same(whole: CompiledFunction) -> None:
    """Bits turned in the last part's bytes, the first part's, and the whole directory of the archive."""
    data = to_bytes(whole)
    begin = data.index(b'"format"')
    offsets = [*range(begin, begin + 400, 7), *range(data.rindex(b"PK\x01\x02") - 150, len(data))]
    refused = 0
    for offset in offsets:
        for bits in (1, 0x80):
            damaged = bytearray(data)
            damaged[offset] ^= bits
            try:
                loaded = from_bytes(bytes(damaged))
            except ValueError:  # any other exception fails the test
                refused += 1
            else:
                assert loaded.relay_text == whole.relay_text
    assert refused > len(offsets)


def test_a_loaded_function_shows_what_was_written() -> None:
    """What type inference filled in is not taken for what the source says."""
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) {
  let %y = exp(%x);
  add(%y, %y)
}"""
    function = nnmagic.compile(relay.parse(text))
    assert "let %y = exp(%x);" in function.relay_text
    assert from_bytes(to_bytes(function)).relay_text == function.relay_text
    assert from_bytes(to_bytes(function)).stages["relay-typed"] == function.stages["relay-typed"]


def test_other_files_are_refused(whole: CompiledFunction, tmp_path: Path) -> None:
    path = tmp_path / "f"
    whole.save(path)
    data = path.read_bytes()
    for other in (b"", b"text", data[: len(data) // 2], pickle.dumps([1])):
        path.write_bytes(other)
        with pytest.raises(ValueError, match="holds no function that nnmagic saved"):
            nnmagic.load(path)
    with pytest.raises(FileNotFoundError):
        nnmagic.load(tmp_path / "missing")


def test_a_pickle_that_is_loaded_again_is_the_same_function(whole: CompiledFunction) -> None:
    data = pickle.dumps(whole)
    first = pickle.loads(data)
    assert pickle.loads(data) is first
    other = nnmagic.compile(SOURCE, namespace={**NAMES, "third": 0.5}, opt_level=2)
    assert pickle.loads(pickle.dumps(other)) is not first


def test_code_of_another_version_says_so_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program is compiled again, which `cache_info.why` and one warning say."""
    from nnmagic.functions.caching import build_or_load

    f = nnmagic.compile("def f(x: f32):\n    return x * 3 + 1\n")
    g = nnmagic.compile("def g(x: f32):\n    return x * 5 + 1\n")
    f.save(tmp_path / "f.nnm")
    pickled = [pickle.dumps(each) for each in (f, g)]
    here = dict(build_or_load.environment())
    monkeypatch.setattr(build_or_load, "environment", lambda: {**here, "version of nnmagic": "99.9"})
    monkeypatch.setattr(build_or_load, "_warned", set())
    loaded = [pickle.loads(data) for data in pickled]

    def run_all() -> None:
        assert [each(np.float32(1)) for each in loaded] == [4, 6]
        assert nnmagic.load(tmp_path / "f.nnm")(np.float32(1)) == 4

    with pytest.warns(CacheWarning, match=r"@f cannot run here: .*version of nnmagic .*99\.9") as caught:
        run_all()
    assert len(caught) == 1
    for each in loaded:
        assert "its machine code cannot run here: it is for the version of nnmagic" in each.cache_info.why
