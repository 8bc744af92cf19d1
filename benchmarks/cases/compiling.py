"""From a program to its first result: what waiting for a compiler costs, and what is left with a cache."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import layers
from benchmarks.case import Compilation, Growth, Ratio, Within
from benchmarks.cases.calls import FOO
from benchmarks.peers import compilation, module

_SIDE = 32

#: A cell that captures an array, all of which is read to see whether it has changed.
WEIGHTED = "def weighted(x: Tensor[(1,), f32]):\n    return x + weights[0, :1]\n"


def _weights() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((11250, 1000)).astype("float32")


def _foo_arguments() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4), (2, 4))]


def _jit(function: Callable[..., Any], arguments: list[np.ndarray]) -> Callable[[], Any]:
    """A new function at each call, which jax has never seen."""
    jax = module("jax")
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - its own interface
    jax.jit(lambda x: x + 1)(np.ones(1, "float32")).block_until_ready()
    return lambda: np.asarray(jax.jit(lambda *given: function(jax, *given))(*arguments))


def _foo(*, cache: bool = False) -> Callable[[], Any]:
    return compilation(FOO, _foo_arguments(), cache=cache)


def _on_disk(text: str, arguments: list[np.ndarray], namespace: dict[str, np.ndarray]) -> Callable[[], Any]:
    """Each call is as the first of a new kernel, once everything is imported: the machine code is on disk."""
    folder = tempfile.TemporaryDirectory(prefix="nnmagic-bench-")  # removed when the process ends
    module("nnmagic").set_cache(folder.name)
    memory = importlib.import_module("nnmagic.functions.cells.compile_cell").MEMORY
    cell = compilation(text, arguments, namespace, cache=True)
    cell()

    def run(_folder: object = folder) -> Any:
        memory.clear()
        return cell()

    return run


def _resnet() -> tuple[layers.Network, list[np.ndarray], dict[str, np.ndarray]]:
    network, generator = layers.resnet18(), np.random.default_rng(0)
    return network, list(network.draw_input(generator).values()), network.draw_weights(generator)


def _resnet_cell() -> Callable[[], Any]:
    network, arguments, weights = _resnet()
    return compilation(network.cell("network"), arguments, weights)


def _resnet_on_disk() -> Callable[[], Any]:
    network, arguments, weights = _resnet()
    return _on_disk(network.cell("network"), arguments, weights)


def _resnet_jitted() -> Callable[[], Any]:
    network, arguments, weights = _resnet()
    run = network.function(layers.in_jax)
    return _jit(lambda jax, x: run(jax, x, *weights.values()), arguments)


def _expected_resnet() -> np.ndarray:
    network, arguments, weights = _resnet()
    return np.asarray(network.function(layers.in_numpy)(None, *arguments, *weights.values()))


#: Operators that keep numbers small and the shape (32, 32): as a cell, jax and NumPy write them.
_MIXED: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("x @ x * 0.03125", lambda lib, x: x @ x * lib.float32(0.03125)),
    ("x + 0.5", lambda lib, x: x + lib.float32(0.5)),
    ("tanh(x)", lambda lib, x: lib.tanh(x)),
    ("maximum(x, 0.0)", lambda lib, x: lib.maximum(x, lib.float32(0.0))),
    ("x - x.mean(axis=1, keepdims=True)", lambda _, x: x - x.mean(axis=1, keepdims=True)),
    ("x.T", lambda _, x: x.T),
    ("exp(-x * x)", lambda lib, x: lib.exp(-x * x)),
    ("x * x.sum(axis=0) * 0.03125", lambda lib, x: x * x.sum(axis=0) * lib.float32(0.03125)),
    ("x.reshape(16, 64).reshape(32, 32)", lambda _, x: x.reshape(16, 64).reshape(32, 32)),
    ("sqrt(abs(x))", lambda lib, x: lib.sqrt(lib.abs(x))),
)


def _repeat_cell(count: int) -> Callable[[], Any]:
    """A cell of small operators that is run again, whose call takes next to no time."""
    steps = (("exp", 1), ("tanh", 2), ("sigmoid", 3), ("nn.relu", 4))
    lines = "".join(f"    x = {name}(x) + {number}\n" for name, number in (steps * count)[: count // 2])
    text = f"def long(x: Tensor[(2, 4), f32]):\n{lines}    return x\n"
    return compilation(text, [np.zeros((2, 4), "float32")], cache=True)


def _expected_repeated(count: int) -> np.ndarray:
    x = np.zeros((2, 4), "float32")
    steps = (np.exp, np.tanh, lambda x: 1 / (1 + np.exp(-x)), lambda x: np.maximum(x, 0))
    for index in range(count // 2):
        x = steps[index % 4](x) + np.float32(index % 4 + 1)
    return x


def _order(count: int) -> list[int]:
    return [int(each) for each in np.random.default_rng(count).integers(len(_MIXED), size=count)]


def _square() -> list[np.ndarray]:
    return [np.random.default_rng(0).standard_normal((_SIDE, _SIDE)).astype("float32")]


def _cell_of_mixed_operators(count: int) -> Callable[[], Any]:
    lines = "".join(f"    x = {_MIXED[each][0]}\n" for each in _order(count))
    text = f"def mixed(x: Tensor[({_SIDE}, {_SIDE}), f32]):\n{lines}    return x\n"
    return compilation(text, _square())


def _mixed(library: Any, count: int, x: Any) -> Any:
    for each in _order(count):
        x = _MIXED[each][1](library, x)
    return x


def _operators(count: int, *goals: Any) -> Compilation:
    return Compilation(
        f"compile {count} mixed operators",
        "compiling",
        goals,
        {
            "nnmagic": lambda: _cell_of_mixed_operators(count),
            "jax.jit": lambda: _jit(lambda jax, x: _mixed(jax.numpy, count, x), _square()),
        },
        expected=lambda: np.asarray(_mixed(np, count, _square()[0])),
        tolerance=1e-3,
    )


def _loop(rounds: int) -> Compilation:
    """A loop of so many rounds that ends in the first one: what is measured is the compiler."""
    text = (
        "def loop(x: f32, enough: bool_):\n"
        f"    for i in range({rounds}):\n"
        "        x = 2.8 * x * (1 - x)\n"
        "        if enough:\n"
        "            break\n"
        "    return x\n"
    )
    goals = (Growth(of=_loop_name(10), at_most=1.1),) if rounds > 10 else ()
    return Compilation(
        _loop_name(rounds),
        "compiling",
        goals,
        {"nnmagic": lambda: compilation(text, [np.float32(0.5), np.True_])},
        expected=lambda: np.asarray(0.7, "float32"),
    )


def _loop_name(rounds: int) -> str:
    return f"compile a loop of {rounds:,} rounds"


def _expected_foo() -> np.ndarray:
    a, b, c = _foo_arguments()
    return np.asarray(a @ b + c)


ROWS = (
    Compilation(
        "compile foo",
        "compiling",
        (Within(0.060), Ratio("jax.jit", 1.0)),
        {
            "nnmagic": _foo,
            "jax.jit": lambda: _jit(lambda _, a, b, c: a @ b + c, _foo_arguments()),
        },
        expected=_expected_foo,
    ),
    Compilation(
        "a repeated cell: foo",
        "compiling",
        (Within(0.001),),
        {"nnmagic": lambda: _foo(cache=True)},
        expected=_expected_foo,
    ),
    Compilation(
        "a repeated cell: 100 operators",
        "compiling",
        (Within(0.001),),
        {"nnmagic": lambda: _repeat_cell(100)},
        expected=lambda: _expected_repeated(100),
        tolerance=1e-4,
    ),
    Compilation(
        "a repeated cell: 45 MB of weights",
        "compiling",
        (Within(0.010),),
        {
            "nnmagic": lambda: compilation(
                WEIGHTED, [np.ones(1, "float32")], {"weights": _weights()}, cache=True
            )
        },
        expected=lambda: np.ones(1, "float32") + _weights()[0, :1],
    ),
    Compilation(
        "a cell found on disk: foo",
        "compiling",
        (Within(0.050),),
        {"nnmagic": lambda: _on_disk(FOO, _foo_arguments(), {})},
        expected=_expected_foo,
    ),
    Compilation(
        "a cell found on disk: resnet-18",
        "compiling",
        (),
        {"nnmagic": _resnet_on_disk},
        expected=_expected_resnet,
        tolerance=1e-4,
    ),
    Compilation(
        "compile resnet-18",
        "compiling",
        (Within(2.5),),
        {"nnmagic": _resnet_cell, "jax.jit": _resnet_jitted},
        expected=_expected_resnet,
        tolerance=1e-4,
    ),
    _operators(100, Within(0.4)),
    _operators(1000, Within(4.0), Growth("compile 100 mixed operators", 12.0)),
    _loop(10),
    _loop(10_000_000),
)
