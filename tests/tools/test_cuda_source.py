"""CUDA source of the examples' functions, compiled by NVIDIA's compiler for a GPU that is not here."""

from __future__ import annotations

import ctypes
import site
from pathlib import Path
from typing import Any

import nbformat
import pytest

import nnmagic
from nnmagic.functions.caching.compile_options import Options

pytestmark = pytest.mark.full

EXAMPLES = Path(__file__).parents[2] / "examples"
NVIDIA = Path(site.getsitepackages()[0]) / "nvidia"
#: Notebooks that need nothing but nnmagic, with the functions that are for the interpreter.
NOTEBOOKS = {
    "quickstart": set(),
    "reading_relay": {"area"},
    "control_flow": {"total", "twice"},
    "stages": set(),
    "simulation": set(),
    "kernels": set(),
    "calculator": set(),
    "passes": set(),
}


class Compiler:
    """NVRTC, which compiles CUDA without a device."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(next((NVIDIA / "cuda_nvrtc" / "lib").glob("libnvrtc.so.*"))))
        folders = ("cuda_runtime/include", "cuda_cccl/include", "cuda_cccl/include/cccl")
        options = ["--gpu-architecture=sm_80", "--std=c++17", *(f"-I{NVIDIA / folder}" for folder in folders)]
        self._options = (ctypes.c_char_p * len(options))(*map(str.encode, options))

    def compile(self, source: str) -> None:
        """Raise AssertionError, with what the compiler says, if it refuses the source."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        text = source.encode()
        self._library.nvrtcCreateProgram(ctypes.byref(program), text, b"source.cu", 0, None, None)
        status = self._library.nvrtcCompileProgram(program, len(self._options), self._options)
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, log)
        self._library.nvrtcDestroyProgram(ctypes.byref(program))
        assert status == 0, log.value.decode()


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    if not (NVIDIA / "cuda_nvrtc").is_dir():
        pytest.skip("`make test-tools` installs NVIDIA's compiler, on Linux")
    return Compiler()


def functions_of(path: Path) -> list[nnmagic.CompiledFunction]:
    """Run a notebook's cells, and return the functions that they bind."""
    from IPython.testing.globalipapp import get_ipython, start_ipython

    shell: Any = start_ipython() or get_ipython()
    shell.reset()
    found: dict[int, nnmagic.CompiledFunction] = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", ()):
            assert shell.run_cell(cell.source).success, cell.source
            values = [each for each in shell.user_ns.values() if isinstance(each, nnmagic.CompiledFunction)]
            found |= {id(each): each for each in values}
    return list(found.values())


def source_of(function: nnmagic.CompiledFunction) -> str | None:
    """Return the CUDA source of a function; None if it is refused."""
    try:
        return Options(target="cuda").build(function.relay, function.name).stage("cuda")
    except nnmagic.EngineError:
        return None


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_nvidia_s_compiler_takes_the_source_of_an_example(
    compiler: Compiler, notebook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    functions = functions_of(EXAMPLES / f"{notebook}.ipynb")
    assert functions
    sources = {function.name: source_of(function) for function in functions}
    for source in filter(None, sources.values()):
        assert "__global__" in source
        compiler.compile(source)
    assert {name for name in sources if sources[name] is None} == NOTEBOOKS[notebook]
