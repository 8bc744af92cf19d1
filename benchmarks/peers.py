"""How each contestant is called: the same treatment for all. Imports each peer only where it is installed.

Everyone takes arrays that are ready in the form that it likes best (NumPy arrays, torch's and jax's tensors,
onnxruntime's OrtValues, each in its own memory) and makes a new result at each call; a call is over when the
result is there. A case may say ``through_numpy``: then everyone takes and gives NumPy arrays.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

import numpy as np

from benchmarks.case import Arrays, Case
from benchmarks.graph import Graph

#: What cells find in their notebook.
SCOPE = {"np": np, "math": math}


class AbsentError(Exception):
    """This peer has no part in this case; the message says why."""


@dataclass(frozen=True, slots=True)
class Ready:
    """call: computes once and waits for the result. read: that result as a NumPy array."""

    call: Callable[[], Any]
    read: Callable[[Any], np.ndarray]


@dataclass(frozen=True, slots=True)
class Problem:
    """A case with its arrays. expected: the judge's result. threads: how many each may use."""

    case: Case
    arguments: Arrays
    constants: Arrays
    expected: np.ndarray
    threads: int


def module(name: str) -> Any:
    """An installed module. Raises AbsentError."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise AbsentError("not installed") from None


def nnmagic(problem: Problem) -> Ready:
    """A cell, compiled by the public interface; it captures the constants."""
    return _cell(problem.case.source, problem)


def known_sizes(problem: Problem) -> Ready:
    """The same cell with numbers for its named sizes."""
    if problem.case.known is None:
        raise AbsentError("no size is named")
    return _cell(problem.case.known, problem)


def _cell(source: str, problem: Problem) -> Ready:
    compiled = module("nnmagic").compile(source, namespace={**SCOPE, **problem.constants}, cache=False)
    arguments = numbers_of(problem.arguments.values())
    return Ready(lambda: compiled(*arguments), joined)


def compilation(
    source: str, arguments: Iterable[Any], namespace: Mapping[str, Any] | None = None, *, cache: bool = False
) -> Callable[[], Any]:
    """Return what compiles a cell and calls it; the compiler is loaded before."""
    nnmagic, given = module("nnmagic"), list(arguments)
    nnmagic.compile("def warm(x: Tensor[(1,), f32]):\n    return x + 1\n", cache=False)
    return lambda: joined(nnmagic.compile(source, namespace=dict(namespace or {}), cache=cache)(*given))


def joined(result: Any) -> np.ndarray:
    """Return a result as one array: that of a tuple are the elements of all its parts."""
    if isinstance(result, tuple | list):
        return np.concatenate([np.ravel(joined(part)) for part in result])
    return np.asarray(result)


def numbers_of(arrays: Iterable[np.ndarray]) -> list[Any]:
    """Return the arguments as one gives them: a number for an array of rank 0."""
    return [array if array.ndim else array.item() for array in arrays]


def numpy(problem: Problem) -> Ready:
    """NumPy as one writes it."""
    function = problem.case.numpy
    arguments = numbers_of([*problem.arguments.values(), *problem.constants.values()])
    return Ready(lambda: function(*arguments), joined)


def onnxruntime(problem: Problem) -> Ready:
    """A model with the constants as its weights, optimised by all that onnxruntime has."""
    if problem.case.onnx is None:
        raise AbsentError("no such operator")
    graph = Graph(onnx_package())
    held = [graph.constant(array, name) for name, array in problem.constants.items()]
    result = problem.case.onnx(graph, *problem.arguments, *held)
    session = onnx_session(graph.model(problem.arguments, result, problem.expected), problem.threads)
    if problem.case.through_numpy:
        given = dict(problem.arguments)
        return Ready(lambda: session.run(None, given), lambda results: np.asarray(results[0]))
    return onnx_ready(session, problem.arguments)


def onnx_package() -> Any:
    """The package onnx. Raises AbsentError."""
    onnx = module("onnx")
    importlib.import_module("onnx.numpy_helper")
    return onnx


def onnx_session(model: bytes, threads: int, *, optimised: bool = True) -> Any:
    """Return a session of onnxruntime, with all of its graph optimisations or with none."""
    runtime = module("onnxruntime")
    runtime.set_default_logger_severity(3)
    levels = runtime.GraphOptimizationLevel
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.force_spinning_stop", "1")  # or it slows whoever comes next
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnx_ready(session: Any, arguments: Arrays) -> Ready:
    """A call of a session on OrtValues of its own."""
    values = module("onnxruntime").OrtValue
    feeds = {name: values.ortvalue_from_numpy(array) for name, array in arguments.items()}
    return Ready(
        lambda: session.run_with_ort_values(None, feeds), lambda results: np.asarray(results[0].numpy())
    )


def torch(problem: Problem) -> Ready:
    """Eager torch without gradients."""
    return _torch(problem, lambda function: function)


def torch_compile(problem: Problem) -> Ready:
    """torch.compile by its defaults."""
    installed = module("torch")
    installed._dynamo.reset()

    def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
        whole: Callable[..., Any] = installed.compile(function, fullgraph=True, dynamic=False)
        return whole

    with contextlib.redirect_stderr(io.StringIO()):
        return _torch(problem, compile_function)


def _torch(problem: Problem, prepared: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Ready:
    if problem.case.torch is None:
        raise AbsentError("no such operator")
    installed = module("torch")
    installed.set_num_threads(problem.threads)
    installed.set_grad_enabled(False)
    written = problem.case.torch
    held = [installed.tensor(array) for array in problem.constants.values()]
    function = prepared(lambda *tensors: written(installed, *tensors, *held))
    if problem.case.through_numpy:
        arrays = list(problem.arguments.values())
        return Ready(lambda: function(*map(installed.from_numpy, arrays)).numpy(), np.asarray)
    tensors = [installed.tensor(array) for array in problem.arguments.values()]
    return Ready(lambda: function(*tensors), joined)


def jax_jit(problem: Problem) -> Ready:
    """A jitted function; a call is over when block_until_ready says so."""
    if problem.case.jax is None:
        raise AbsentError("no such operator")
    jax = module("jax")
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - its own interface; without it f64 becomes f32
    written = problem.case.jax
    held = [jax.device_put(array) for array in problem.constants.values()]
    function = jax.jit(lambda *tensors: written(jax, *tensors, *held))
    if problem.case.through_numpy:
        arrays = list(problem.arguments.values())
        return Ready(lambda: np.asarray(function(*arrays)), np.asarray)
    tensors = [jax.device_put(array) for array in problem.arguments.values()]
    return Ready(lambda: jax.block_until_ready(function(*tensors)), joined)


#: What lets numba make sums and fused multiply-adds quick and still keeps NaN and infinity.
_NUMBA_MATH = {"reassoc", "contract", "nsz", "arcp"}


def numba(problem: Problem) -> Ready:
    """Loops as one writes them for numba, over all threads where there is work for them."""
    if problem.case.numba is None:
        raise AbsentError("no loops written")
    installed = module("numba")
    installed.set_num_threads(problem.threads)
    loops = importlib.import_module("benchmarks.loops")
    written = problem.case.numba
    is_loop = written.__module__ == loops.__name__  # a program computes as NumPy does, on one thread
    parallel = is_loop and written.__name__ not in loops.SERIAL
    fastmath = _NUMBA_MATH if is_loop and written.__name__ not in loops.STRICT else False
    function = jitted(written, parallel=parallel, fastmath=fastmath)
    arguments = numbers_of([*problem.arguments.values(), *problem.constants.values()])
    return Ready(lambda: function(*arguments), joined)


def jitted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a function that numba compiles anew, with the functions of its module that it calls."""
    njit = module("numba").njit
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        helper = scope.get(name)
        is_own = isinstance(helper, FunctionType) and helper.__module__ == function.__module__
        if is_own and helper is not function:
            scope[name] = jitted(helper, **options)
    alone = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    scope[function.__name__] = njit(**options)(alone)  # it may call itself
    return cast("Callable[..., Any]", scope[function.__name__])


MAKERS: dict[str, Callable[[Problem], Ready]] = {
    "nnmagic": nnmagic,
    "numpy": numpy,
    "known sizes": known_sizes,
    "onnxruntime": onnxruntime,
    "torch": torch,
    "torch.compile": torch_compile,
    "jax.jit": jax_jit,
    "numba": numba,
}


def thread_settings(threads: int) -> dict[str, str]:
    """Environment variables that hold every contestant to so many threads; read when each is loaded.

    XLA has no flag that holds, but takes its pool's size from NPROC.
    """
    names = (
        "NNMAGIC_NUM_THREADS TVM_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS "
        "NUMBA_NUM_THREADS NPROC PJRT_NPROC"
    )
    return dict.fromkeys(names.split(), str(threads)) | {
        "JAX_PLATFORMS": "cpu",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


def all_threads() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
