"""Time a call, kernel by kernel, beside the limits of the machine."""

from __future__ import annotations

import concurrent.futures
import copy
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from nnmagic.engine.arguments import convert_argument
from nnmagic.engine.kernel_time import KernelTime
from nnmagic.engine.threads import cores, num_threads
from nnmagic.functions.arguments.complex_arrays import ComplexExecutable
from nnmagic.functions.arguments.generators import with_states
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.from_torch import TorchFunction
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import TensorType
from nnmagic.rendering.source_lines import Places

#: Sizes of what is measured: of a matrix, and of copies in and out of the caches, in bytes.
_MATRIX, _IN_CACHE, _IN_MEMORY = 1024, 1 << 21, 1 << 27
#: How long each of these is measured, and the shortest call of a kernel that is compared with them.
_SECONDS, _SHORTEST = 0.05, 2e-7


@dataclass(frozen=True, slots=True)
class Peak:
    """The measured limits of this machine: the most of products and copies, and of kernels that do more.

    dtype: of the matrix products. flops: operations per second of a matrix product. in_cache, in_memory:
    bytes read and written per second by copies.
    """

    dtype: str
    flops: float
    in_cache: float
    in_memory: float

    def seconds(self, kernel: KernelTime) -> float:
        """Return the roofline bound of a kernel's time, for its operations or its bytes."""
        moved = self.in_cache if _fits_cache(kernel) else self.in_memory
        return max(kernel.flops / self.flops, kernel.nbytes / moved)

    def with_kernels(self, kernels: Sequence[KernelTime]) -> Peak:
        """Return the limits where kernels reach more: their data may lie in a nearer cache than a copy's."""
        peak = self
        for kernel in filter(_can_be_compared, kernels):
            name = "in_cache" if _fits_cache(kernel) else "in_memory"
            most = {"flops": kernel.flops / kernel.seconds, name: kernel.nbytes / kernel.seconds}
            peak = replace(peak, **{key: max(getattr(peak, key), rate) for key, rate in most.items()})
        return peak


def _fits_cache(kernel: KernelTime) -> bool:
    return kernel.nbytes <= kernel.calls * _IN_CACHE


def _can_be_compared(kernel: KernelTime) -> bool:
    """Return whether the work of a kernel is known, and its time is long enough to be compared with it."""
    return kernel.exact and kernel.seconds > kernel.calls * _SHORTEST


@dataclass(frozen=True, slots=True)
class Profile:
    """A call and its kernels.

    seconds: of the whole call, the minimum of many; ``rest``: of it what is no kernel's. origins: by the
    name of a kernel, the names of the nodes of a model that it computes, or the lines of a cell; none of a
    function that was loaded from a file.
    """

    name: str
    seconds: float
    kernels: tuple[KernelTime, ...]
    peak: Peak
    origins: Mapping[str, tuple[str, ...]]

    @property
    def rest(self) -> float:
        """The seconds of loops, numbers, small kernels inside of loops, and the call itself."""
        seconds = self.seconds - sum(kernel.seconds for kernel in self.kernels)
        return seconds if seconds > 1e-10 else 0.0

    def fraction(self, kernel: KernelTime) -> float | None:
        """Return how close a kernel comes to the limit of the machine, 0 to 1; None if that is not known."""
        return min(self.peak.seconds(kernel) / kernel.seconds, 1.0) if _can_be_compared(kernel) else None


def profile(
    function: CompiledFunction | SpecializingFunction | TorchFunction,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Profile:
    """Call the function many times, then each of its kernels alone.

    Of a PyTorch program the function of flat arrays is profiled, which does the work.

    Raises what the call raises, and EngineError for an engine that does not show its kernels.
    """
    if isinstance(function, TorchFunction):
        return _profile_program(function, args, keywords)
    if isinstance(function, SpecializingFunction):
        function, args, keywords = function.specialize_for(args, keywords)
    definition = function._definition
    if definition.call.destinations:  # not the caller's arrays, many times
        args = list(map(_copy, args))
        keywords = {name: _copy(arg) for name, arg in keywords.items()}
    function(*args, **keywords)
    seconds = least_time(lambda: function(*args, **keywords))
    dims: dict[str, int] = {}
    call = definition.call
    bound = call.bind(tuple(args), dict(keywords))
    values = [
        convert_argument(parameter, value, dims)
        for parameter, value in zip(call.parameters, with_states(bound), strict=True)
    ]
    run = function.build()
    if isinstance(run, ComplexExecutable):
        run, values = run.without_views(values)
    kernels, with_clock = definition.options.kernel_times(function.relay, function.name, run, values)
    seconds = min(seconds, with_clock)  # another process may have slowed the calls
    nodes = [node for body in function.relay.functions.values() for node in post_order(body)]
    dtypes = {node.checked_type.dtype for node in nodes if isinstance(node.checked_type, TensorType)}
    dtype = "float64" if "float64" in dtypes and "float32" not in dtypes else "float32"
    spans = {node.span: node.span for node in nodes if node.span is not None and node.span.source is not None}
    places = Places(definition.source, definition.lines, spans)
    origins = {
        kernel.name: tuple(places.names(spans[span] for span in kernel.origins if span in spans))
        for kernel in kernels
    }
    kernels = _parts_of(kernels, seconds)
    peak = measure_peak(dtype, num_threads()).with_kernels(kernels)
    return Profile(function.name, seconds, tuple(kernels), peak, origins)


def _parts_of(kernels: Sequence[KernelTime], seconds: float) -> list[KernelTime]:
    """Return kernels as parts of a call: those of one that the clock has slowed are that much shorter."""
    total = sum(kernel.seconds for kernel in kernels)
    factor = min(seconds / total, 1.0) if total else 1.0
    return [replace(kernel, seconds=kernel.seconds * factor) for kernel in kernels]


def _copy(value: Any) -> Any:
    """Return a copy of what a call may change."""
    return copy.deepcopy(value) if isinstance(value, np.ndarray | np.random.Generator) else value


def _profile_program(function: TorchFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> Profile:
    profiles: list[Profile] = []

    def run(*arrays: Any) -> Any:
        profiles.append(profile(function.function, arrays, {}))
        return function.function(*arrays)

    function._run(run, tuple(args), keywords)
    return profiles[0]


@cache
def operators_of(kernel: str) -> tuple[str, ...]:
    """Return the operators that the engine fused into a kernel, by the kernel's name.

    TVM joins their names, numbers those that it has already taken, and ends a long name with a hash.
    """
    names = {name.replace(".", "_"): name for name in OPERATORS}
    kernel = kernel.removeprefix("fused_").partition("_in_place_")[0]
    kernel_name = re.sub(r"(?<=.{60})_[0-9a-f]{10,}_?\d*$", "_…", kernel)
    operators: list[str] = []
    while kernel_name:
        longest = next(
            (
                end
                for end in range(len(kernel_name), 0, -1)
                if kernel_name[:end] in names and _ends(kernel_name, end)
            ),
            0,
        )
        end = longest or kernel_name.find("_") % (len(kernel_name) + 1)
        operators.append(names.get(kernel_name[:end], kernel_name[:end]))
        kernel_name = re.sub(r"^\d*_?", "", kernel_name[end:])
    return tuple(operator for operator in operators if operator and operator != "tir")


def _ends(text: str, end: int) -> bool:
    """Return whether a word of a kernel's name ends there, but for a number."""
    return re.match(r"\d*(_|$)", text[end:]) is not None


def least_time(run: Callable[[], object], seconds: float = 0.2, least: int = 3) -> float:
    """Return the minimum time of a run, over as many as fit into ``seconds``."""
    best, spent, runs = math.inf, 0.0, 0
    while runs < least or spent < seconds:
        begin = time.perf_counter()
        run()
        took = time.perf_counter() - begin
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


@cache
def measure_peak(dtype: str, threads: int) -> Peak:
    """Return the limits of this machine with so many threads, measured once in a process."""
    from nnmagic.functions.compile import compile as compiled

    short = {"float32": "f32", "float64": "f64"}[dtype]
    matrix = f"Tensor[({_MATRIX}, {_MATRIX}), {short}]"
    product = compiled(f"def product(a: {matrix}, b: {matrix}):\n    return a @ b\n", cache=False)
    a = np.ones((_MATRIX, _MATRIX), dtype)
    best = least_time(lambda: product(a, a), _SECONDS)
    if threads == len(cores()):  # NumPy takes all cores
        best = min(best, least_time(lambda: a @ a, _SECONDS))
    return Peak(
        dtype, 2 * _MATRIX**3 / best, _measure_copy(_IN_CACHE, threads), _measure_copy(_IN_MEMORY, threads)
    )


def _measure_copy(nbytes: int, threads: int) -> float:
    """Return the bytes read and written per second by a copy on each thread."""
    half = nbytes // 2 // threads
    parts = [(np.ones(half, np.uint8), np.ones(half, np.uint8)) for _ in range(threads)]
    rounds = max(1, _IN_MEMORY // nbytes)

    def copy(part: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(rounds):
            np.copyto(part[0], part[1])

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        best = least_time(lambda: list(pool.map(copy, parts)), _SECONDS)
        return 2.0 * half * threads * rounds / best
