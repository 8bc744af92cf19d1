"""Find the first CUDA device with TVM's CUDA runtime, and copy arrays to it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.installation import libraries
from nnmagic.engine.relax.runtime.loader import ensure, global_function
from nnmagic.engine.relax.runtime.tensors import address_of

#: The first device, as DLPack numbers it.
CUDA, FIRST = 2, 0

#: TVM's numbers of what it knows about a device.
_EXISTS, _COMPUTE_VERSION, _NAME = 0, 4, 5

#: NVIDIA's libraries that TVM's CUDA runtime needs: the driver's, and CUDA's.
_DRIVER, _CUDA_RUNTIME = "libcuda.so.1", "libcudart.so.13"


def toolkits() -> Iterator[Path]:
    """Yield the folders of CUDA toolkits: those of NVIDIA's Python packages, then the system's."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from sorted(each for each in Path(folder).iterdir() if each.is_dir())
    named = [Path(os.environ[name]) for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
    yield from (folder for folder in (*named, Path("/usr/local/cuda")) if folder.is_dir())


def find_libraries(pattern: str) -> Iterator[Path]:
    """Yield the libraries of the toolkits whose file names match a pattern."""
    for folder in toolkits():
        for name in ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            yield from sorted((folder / name).glob(pattern))


@cache
def missing_runtime() -> str | None:
    """Load TVM's CUDA runtime; return what a call must be told if that fails, else None."""
    if sys.platform != "linux":
        return "there is no CUDA device here"
    ensure()
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:  # NVIDIA's driver brings it
        return "there is no CUDA device here"
    for library in (_CUDA_RUNTIME, *map(str, find_libraries(_CUDA_RUNTIME))):
        with suppress(OSError):
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
            break
    else:
        return f"{_CUDA_RUNTIME} of CUDA 13 is not here: pip install nvidia-cuda-runtime"
    try:
        tvm_ffi.libinfo.load_lib_ctypes(
            "tvm", "tvm_runtime_cuda", "RTLD_LOCAL", extra_lib_paths=[libraries()]
        )
    except (OSError, RuntimeError) as error:
        return f"TVM's CUDA runtime cannot be loaded: {error}"
    return None


@cache
def missing_device() -> str | None:
    """Return why no code can run on a CUDA device; None if it can."""
    reason = missing_runtime()
    if reason is None and not _attribute(_EXISTS):
        return "there is no CUDA device here"
    return reason


@cache
def device_architecture() -> str | None:
    """Return the architecture of the first device, such as ``sm_90``; None if there is no device."""
    return None if missing_device() else f"sm_{_attribute(_COMPUTE_VERSION).replace('.', '')}"


@cache
def device_name() -> str:
    """Return the name of the first device."""
    return str(_attribute(_NAME))


def _attribute(number: int) -> Any:
    return global_function("runtime.GetDeviceAttr")(CUDA, FIRST, number)


def to_device(array: np.ndarray) -> Any:
    """Return a tensor on the device with an array's values, which are copied before this returns."""
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    device = tvm_ffi.device("cuda", FIRST)
    allocate = global_function("runtime.TVMTensorAllocWithScope")
    tensor = allocate(tvm_ffi.Shape(array.shape), tvm_ffi.dtype(str(array.dtype)), device, None)
    if array.size:
        global_function("runtime.TVMTensorCopyFromBytes")(tensor, address_of(array), array.nbytes)
    return tensor
