"""Time functions on a CUDA device beside torch's, and print a table: `python -m benchmarks.cuda`.

Of each function the best of many calls is taken: first with arguments and results on the device, then with
arrays of the host, which are copied there and back. The error is relative to torch's result, as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import nnmagic
from nnmagic.engine.relax.runtime.cuda_device import device_name, missing_device, to_device
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.loader import global_function

#: Name, source, shapes, and the same in torch.
CASES: list[tuple[str, str, list[tuple[int, ...]], Callable[..., Any]]] = [
    (
        "matmul 4096, f32",
        "def f(x: Tensor[(4096, 4096), f32], y: Tensor[(4096, 4096), f32]):\n    return x @ y\n",
        [(4096, 4096), (4096, 4096)],
        lambda x, y: x @ y,
    ),
    (
        "matmul 4096, f16",
        "def f(x: Tensor[(4096, 4096), f16], y: Tensor[(4096, 4096), f16]):\n    return x @ y\n",
        [(4096, 4096), (4096, 4096)],
        lambda x, y: x @ y,
    ),
    (
        "softmax of 8192 rows of 4096",
        "def f(x: Tensor[(8192, 4096), f32]):\n    return softmax(x, axis=-1)\n",
        [(8192, 4096)],
        lambda x: torch.softmax(x, -1),
    ),
    (
        "chain of 5 elementwise, 2**26",
        "def f(x: Tensor[(67108864,), f32]):\n    return tanh(x * 2.0 + 1.0) * exp(-x)\n",
        [(1 << 26,)],
        lambda x: torch.tanh(x * 2 + 1) * torch.exp(-x),
    ),
    (
        "sum of rows, 8192 of 4096",
        "def f(x: Tensor[(8192, 4096), f32]):\n    return x.sum(axis=1)\n",
        [(8192, 4096)],
        lambda x: x.sum(1),
    ),
    (
        "maximum of rows, 8192 of 4096",
        "def f(x: Tensor[(8192, 4096), f32]):\n    return x.max(axis=1)\n",
        [(8192, 4096)],
        lambda x: x.amax(1),
    ),
    (
        "layer_norm, 8192 of 1024",
        "def f(x: Tensor[(8192, 1024), f32], g: Tensor[(1024,), f32], b: Tensor[(1024,), f32]):\n"
        "    return layer_norm(x, g, b)\n",
        [(8192, 1024), (1024,), (1024,)],
        lambda x, g, b: torch.nn.functional.layer_norm(x, (1024,), g, b),
    ),
    (
        "conv2d 3x3, 16x64x56x56",
        "def f(x: Tensor[(16, 64, 56, 56), f32], w: Tensor[(64, 64, 3, 3), f32]):\n"
        "    return conv2d(x, w, padding=1)\n",
        [(16, 64, 56, 56), (64, 64, 3, 3)],
        lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
    ),
    (
        "sort, 2**16",
        "def f(x: Tensor[(65536,), f32]):\n    return sort(x)\n",
        [(1 << 16,)],
        lambda x: torch.sort(x)[0],
    ),
    (
        "x + 1, 8 elements",
        "def f(x: Tensor[(8,), f32]):\n    return x + 1.0\n",
        [(8,)],
        lambda x: x + 1,
    ),
]


def best_time(
    run: Callable[[], object], wait: Callable[[], object], seconds: float = 0.4, row: int = 10
) -> float:
    """The time of a run, of so many in a row, in seconds."""
    run()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(row):
            run()
        wait()
        best = min(best, (time.perf_counter() - begin) / row)
    return best


def measure(source: str, shapes: list[tuple[int, ...]], same: Callable[..., Any]) -> list[float]:
    """The times of nnmagic and torch on the device and with arrays of the host, in ms; then the error."""
    dtype = "float16" if "f16" in source else "float32"
    arrays = [np.random.default_rng(0).standard_normal(shape).astype(dtype) for shape in shapes]
    there = [torch.from_numpy(array).cuda() for array in arrays]
    function = nnmagic.compile(source, target="cuda", cache=False)
    own, other = function(*arrays).astype("f8"), same(*there).cpu().numpy().astype("f8")
    executable: Any = function._definition.executable
    run, tensors = executable._start(), list(map(to_device, arrays))
    device, synchronize = tvm_ffi.device("cuda", 0), global_function("runtime.Device_StreamSync")

    def by_torch() -> object:
        return same(*(torch.from_numpy(each).cuda() for each in arrays)).cpu()

    times = [
        best_time(lambda: executable.run_on_device(run, tensors), lambda: synchronize(device, 0)),
        best_time(lambda: same(*there), torch.cuda.synchronize),
        best_time(lambda: function(*arrays), lambda: None, 0.05, 2),
        best_time(by_torch, lambda: None, 0.05, 2),
    ]
    return [*(1e3 * each for each in times), float(np.linalg.norm(own - other) / np.linalg.norm(other))]


def main() -> None:
    """Print the table."""
    if missing_device():
        raise SystemExit(missing_device())
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{device_name()}, torch {torch.__version__}; ms")
    print(f"| {'function':30} | nnmagic | torch | ratio | from the host | torch | ratio | error |")
    print("|---|---|---|---|---|---|---|---|")
    for name, source, shapes, same in CASES:
        try:
            own, other, host, other_host, error = measure(source, shapes, same)
        except Exception as failure:  # noqa: BLE001 - the others are still of interest
            print(f"| {name:30} | {type(failure).__name__}: {str(failure)[:300]} |")
            continue
        there = f"{own:.4f} | {other:.4f} | {own / other:.2f}"
        here = f"{host:.3f} | {other_host:.3f} | {host / other_host:.2f}"
        print(f"| {name:30} | {there} | {here} | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
