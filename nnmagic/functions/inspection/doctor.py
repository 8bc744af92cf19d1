"""Say what nnmagic finds on this machine, and what is missing: ``python -m nnmagic``."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from nnmagic._version import __version__
from nnmagic.diagnostics import CompileError
from nnmagic.engine import cpu, threads

#: The packages that nnmagic is made of, by their names on an index.
_NEEDED = (
    *("apache-tvm", "apache-tvm-ffi", "apache-tvm-ffi-orcjit", "synr", "numpy", "ml_dtypes", "xxhash"),
    *("platformdirs", "pygments", "ipython", "ipykernel"),
)
#: Those that it can do without, and what they give.
_OPTIONAL = {
    "scipy": "np.linalg in cells, by its LAPACK: pip install nnmagic[linalg]",
    "onnx": "%onnx, from_onnx and f.to_onnx: pip install nnmagic[onnx]",
    "torch": "from_torch, torch.compile, tensors as arguments: pip install nnmagic[torch]",
}
#: A program with a loop, a product and what an engine must do for them.
_PROGRAM = """
def probe(x: Tensor[("n", 8), f32]):
    total = 0.0
    for i in range(len(x)):
        total += x[i, 0]
    return x @ x.T, total
"""
#: Instruction sets that decide how fast code is, as the processor's own list has them.
_VECTORS = ("sse42", "avx", "fma", "avx2", "avx512f", "avx512vl", "amxtile", "asimd", "sve", "sme")


def examine() -> tuple[str, bool]:
    """Return what there is, a line each, and whether functions can be compiled and run."""
    works = True
    sections: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
        "versions": _versions,
        "processor": _processor,
        "cache on disk": _cache,
        "engines": _engines,
        "optional packages": _packages,
    }
    lines: list[str] = []
    for title, find in sections.items():
        rows = list(_rows_of(find))
        works &= not any(text.startswith("FAILS") for _, text in rows)
        lines += [title, *(f"  {name:<22} {text}" for name, text in rows), ""]
    return "\n".join(lines).rstrip(), works


def _rows_of(find: Callable[[], Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a section; the last one says which package is missing, if one is."""
    try:
        yield from find()
    except ImportError as error:
        yield error.name or "import", f"FAILS: {error}"


def _versions() -> Iterator[tuple[str, str]]:
    yield "nnmagic", __version__
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    yield "system", platform.platform()
    for name in _NEEDED:
        yield name, _version_of(name) or "FAILS: is not installed"


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> Iterator[tuple[str, str]]:
    yield "model", cpu.model_name() or platform.machine()
    sets = cpu.instruction_sets()
    if sets is not None:
        yield "instruction sets", " ".join(name for name in _VECTORS if name in sets) or "no vectors"
    count = os.environ.get(threads.VARIABLE)
    said = f"{threads.VARIABLE}={count}" if count else f"{threads.VARIABLE} is not set"
    try:
        yield "threads", f"{threads.num_threads()}, on {len(threads.cores())} cores; {said}"
    except ValueError as error:
        yield "threads", f"FAILS: {error}"


def _cache() -> Iterator[tuple[str, str]]:
    from nnmagic.cache import disk_cache

    try:
        disk = disk_cache()
        if disk is None:
            yield "functions", "none are kept: NNMAGIC_CACHE_MB is 0, or the directory cannot be written"
            return
        usage = disk.usage
        yield "directory", str(disk.directory)
        yield "functions", f"{usage.entries}, {usage.nbytes / 1e6:.1f} of {disk.max_bytes / 1e6:.0f} MB"
    except (OSError, ValueError) as error:
        yield "directory", f"FAILS: {error}"


def _engines() -> Iterator[tuple[str, str]]:
    from nnmagic.functions.caching.compile_options import engine_names

    for name in engine_names():
        if name in ("relax", "numpy"):
            yield name, _try(name)
        elif name == "relay":
            yield name, "compares with real Relay; needs a TVM of 0.19 or older"
        elif name != "auto":
            yield name, "registered by a package"


def _try(engine: str) -> str:
    """Return how an engine compiles and runs a program."""
    import numpy as np

    from nnmagic.functions.compile import compile as compiled

    begin = time.perf_counter()
    x = np.ones((3, 8), "float32")
    try:
        product, total = compiled(_PROGRAM, engine=engine, cache=False)(x)
    except (CompileError, ImportError, OSError, RuntimeError, ValueError) as error:
        return f"FAILS: {textwrap.shorten(str(error), 200)}"
    took = time.perf_counter() - begin
    right = total == 3 and np.array_equal(product, x @ x.T)
    return f"works: compiled and ran a program in {took:.1f} s" if right else "FAILS: a wrong result"


def _packages() -> Iterator[tuple[str, str]]:
    for name, gives in _OPTIONAL.items():
        found = _version_of(name)
        yield name, found or f"missing; it gives {gives}"
    if importlib.util.find_spec("scipy") is not None:
        yield "LAPACK", _lapack()


def _lapack() -> str:
    from nnmagic.engine.relax.runtime.lapack import address_of

    try:
        address_of("dgesv")
    except RuntimeError as error:
        return f"FAILS: {error}"
    return "SciPy's, which machine code calls"
