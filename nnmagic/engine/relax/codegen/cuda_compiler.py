"""Compile CUDA source with NVIDIA's NVRTC, or else with nvcc, which TVM calls for its CUDA modules.

TVM's own way to call them switches approximate arithmetic on (``--use_fast_math``). Here numbers are as
IEEE 754 has them, and products are not contracted with sums except where a kernel says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import tvm_ffi

from nnmagic.engine.relax.runtime.cuda_device import find_libraries, toolkits

#: What a compilation needs, in the words of whoever must install it.
NEEDED = "NVIDIA's compiler is not here: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"

_OPTIONS = ("--std=c++17", "--fmad=false")

#: The function of TVM that compiles the source of a module.
_CALLBACK = "tvm_callback_cuda_compile"

#: What stands in for machine code where the source alone is wanted. TVM takes it for PTX.
_NO_CODE = b"//"

_Compile = Callable[[str], bytes]


class CudaCompilerError(Exception):
    """NVIDIA's compiler refused the source; its argument is what it said."""


def source_alone(_source: str) -> bytes:
    """Compile nothing: for whoever wants the source of a module."""
    return _NO_CODE


@contextmanager
def compiling_by(compile_source: _Compile) -> Iterator[None]:
    """Have TVM compile CUDA source by a function; one thread at a time, as TVM knows one for all."""
    usual = tvm_ffi.get_global_func(_CALLBACK)
    tvm_ffi.register_global_func(_CALLBACK, compile_source, override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(_CALLBACK, usual, override=True)


def find_compiler(architecture: str, device: str) -> _Compile | None:
    """Return a function that compiles the code of an architecture for a device; None without a compiler.

    Code of the device's own architecture is machine code, that of another one is PTX, which NVIDIA's driver
    translates. The function raises CudaCompilerError.
    """
    arch = architecture if architecture == device else architecture.replace("sm_", "compute_")
    library, nvcc = _nvrtc(), _nvcc()
    if library is not None and _headers():
        return lambda source: _by_nvrtc(library, source, arch)
    return None if nvcc is None else lambda source: _by_nvcc(nvcc, source, arch)


@cache
def _nvrtc() -> Any:
    """Return NVRTC, of the toolkits or of the system; None if there is none."""
    paths = (path for path in find_libraries("libnvrtc.so.*") if path.name.count(".") == 2)
    for name in (*map(str, paths), "libnvrtc.so.13", "libnvrtc.so.12"):
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None


@cache
def _nvcc() -> str | None:
    """Return the path of nvcc; None if there is none."""
    inside = (shutil.which("nvcc", path=str(folder / "bin")) for folder in toolkits())
    return shutil.which("nvcc") or next(filter(None, inside), None)


@cache
def _headers() -> tuple[Path, ...]:
    """Return the folders of CUDA's headers."""
    names = ("include", "include/cccl", "targets/x86_64-linux/include", "targets/x86_64-linux/include/cccl")
    folders = [folder / name for folder in toolkits() for name in names if (folder / name).is_dir()]
    nvcc = _nvcc()
    if nvcc is not None:
        root = Path(nvcc).resolve().parent.parent
        folders += [root / name for name in names if (root / name).is_dir()]
    return tuple(folders) if any((folder / "cuda_fp16.h").exists() for folder in folders) else ()


def _by_nvrtc(library: Any, source: str, arch: str) -> bytes:
    options = [f"--gpu-architecture={arch}", *_OPTIONS, *(f"-I{folder}" for folder in _headers())]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        texts = (ctypes.c_char_p * len(options))(*map(str.encode, options))
        status = library.nvrtcCompileProgram(program, len(options), texts)
        if status:
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            raise CudaCompilerError(log.value.decode(errors="replace") or f"NVRTC's error {status}")
        kind = "CUBIN" if arch.startswith("sm_") else "PTX"
        getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{kind}")(program, code)
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _by_nvcc(nvcc: str, source: str, arch: str) -> bytes:
    kind = "--cubin" if arch.startswith("sm_") else "--ptx"
    with tempfile.TemporaryDirectory() as folder:
        source_file, binary_file = Path(folder) / "kernels.cu", Path(folder) / "kernels.bin"
        source_file.write_text(source, encoding="utf-8")
        files = ("-o", os.fspath(binary_file), os.fspath(source_file))
        command = [nvcc, kind, f"--gpu-architecture={arch}", *_OPTIONS, *files]
        run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if run.returncode:
            raise CudaCompilerError(run.stderr or run.stdout)
        return binary_file.read_bytes()
