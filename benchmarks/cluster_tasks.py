"""What `benchmarks.cluster` computes: by nnmagic, by dask.array, by a loop over blocks by hand, and by JAX.

Each task has a method for each contestant, which prepares the data and returns what is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, HIDDEN, CLASSES = 32, 32, 10
ROWS_OF_BLOCK, FEATURES_OF_BLOCK = 250_000, 64

SCORES = f"""def scores(x: Tensor[("n", {FEATURES_OF_BLOCK}), f32],
           w: Tensor[({FEATURES_OF_BLOCK}, {CLASSES}), f32]):
    h = (x - x.mean(axis=1, keepdims=True)) / sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return softmax(h @ w)
"""
LOSSES = {
    "logistic": f"""def loss(w: Tensor[({FEATURES},), f32], b: f32,
         x: Tensor[("n", {FEATURES}), f32], y: Tensor[("n",), f32]):
    z = x @ w + b
    return (log1p(exp(-abs(z))) + maximum(z, 0) - y * z).mean()
""",
    "mlp": f"""def loss(v: Tensor[({FEATURES}, {HIDDEN}), f32], a: Tensor[({HIDDEN},), f32],
         w: Tensor[({HIDDEN},), f32], b: f32, x: Tensor[("n", {FEATURES}), f32], y: Tensor[("n",), f32]):
    z = tanh(x @ v + a) @ w + b
    return (log1p(exp(-abs(z))) + maximum(z, 0) - y * z).mean()
""",
}
RATE = np.float32(0.5)

#: What is timed: it returns arrays.
Run = Callable[[], list[np.ndarray]]


def add(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return [a + b for a, b in zip(one, other, strict=True)]


def add_all(results: Sequence[Sequence[Any]]) -> list[Any]:
    return list(reduce(add, results))


# -- what a process moves and takes -------------------------------------------------------------------

#: Bytes that this process has read from other ones.
_read = [0]


def count_bytes() -> None:
    """Count what this process reads from connections."""
    from tornado.iostream import IOStream

    plain = IOStream.read_from_fd

    def read_from_fd(stream: Any, buffer: Any) -> int | None:
        count = plain(stream, buffer)
        _read[0] += count or 0
        return count

    IOStream.read_from_fd = read_from_fd


def bytes_read() -> int:
    return _read[0]


def forget_peak() -> None:
    """Let the peak of this process's memory begin at what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the largest memory of this process since then, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


# -- 4 GB of blocks through a function ------------------------------------------------------------------


@cache
def _table() -> np.ndarray:
    shape = ROWS_OF_BLOCK, FEATURES_OF_BLOCK
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def make_block(number: int) -> np.ndarray:
    """Return a block of 64 MB, which takes no longer than a copy."""
    return _table() * np.float32(1 + 0.01 * number)


def _block_of(block_id: tuple[int, ...]) -> np.ndarray:
    return make_block(block_id[0])


def scores(xp: Any, x: Any, w: Any) -> Any:
    h = (x - x.mean(axis=1, keepdims=True)) / xp.sqrt(x.var(axis=1, keepdims=True) + np.float32(1e-5))
    s = h @ w
    e = xp.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def score_block(number: int, w: np.ndarray) -> list[np.ndarray]:
    return [scores(np, make_block(number), w).sum(axis=0)]


class Blocks:
    """The classes' probabilities of rows, summed over all rows of all blocks."""

    def __init__(self, gigabytes: float) -> None:
        self.blocks = max(round(gigabytes * 1e9 / (4 * ROWS_OF_BLOCK * FEATURES_OF_BLOCK)), 2)
        self.w = np.random.default_rng(1).standard_normal((FEATURES_OF_BLOCK, CLASSES), dtype=np.float32)

    def _lazy(self) -> Any:
        import dask.array as da

        chunks = ((ROWS_OF_BLOCK,) * self.blocks, (FEATURES_OF_BLOCK,))
        return da.map_blocks(_block_of, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))

    def nnmagic(self, _client: Any) -> Run:
        import nnmagic
        from nnmagic.dask import map_blocks

        f = nnmagic.compile(SCORES)
        f.build()
        return lambda: [map_blocks(f, self._lazy(), self.w).sum(axis=0).compute()]

    def dask(self, _client: Any) -> Run:
        import dask.array as da

        return lambda: [scores(da, self._lazy(), self.w).sum(axis=0).compute()]

    def hand(self, client: Any) -> Run:
        def run() -> list[np.ndarray]:
            w = client.scatter(self.w, broadcast=True)
            parts = client.map(score_block, range(self.blocks), w=w, pure=False)
            found: list[np.ndarray] = client.submit(add_all, parts, pure=False).result()
            return found

        return run

    def jax(self, _client: Any) -> Run:
        import jax
        import jax.numpy as jnp

        f = jax.jit(lambda x, w: scores(jnp, x, w).sum(axis=0))
        return lambda: [np.asarray(sum(f(make_block(number), self.w) for number in range(self.blocks)))]


# -- training -------------------------------------------------------------------------------------------


def labels_of(x: np.ndarray) -> np.ndarray:
    return (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3] > 0).astype(np.float32)


def make_examples(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a block of examples and their labels."""
    rng = np.random.default_rng(number + 100)
    x = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    return x, labels_of(x)


def _x_of(block_id: tuple[int, ...], rows: int) -> np.ndarray:
    return make_examples(block_id[0], rows)[0]


def first_parameters(model: str) -> list[Any]:
    if model == "logistic":
        return [np.full(FEATURES, 0.01, np.float32), np.float32(0)]
    rng = np.random.default_rng(2)
    v = rng.standard_normal((FEATURES, HIDDEN), dtype=np.float32) / np.float32(FEATURES**0.5)
    w = rng.standard_normal(HIDDEN, dtype=np.float32) / np.float32(HIDDEN**0.5)
    return [v, np.zeros(HIDDEN, np.float32), w, np.float32(0)]


def sum_loss(xp: Any, params: Sequence[Any], x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the loss of examples, summed, its derivative by their scores, and the hidden layer if any."""
    *hidden, w, b = params
    h = xp.tanh(x @ hidden[0] + hidden[1]) if hidden else x
    z = h @ w + b
    loss = (xp.log1p(xp.exp(-abs(z))) + xp.maximum(z, 0) - y * z).sum()
    return loss, 1 / (1 + xp.exp(-z)) - y, h


def gradient_by_hand(xp: Any, params: Sequence[Any], x: Any, y: Any) -> list[Any]:
    """Return the loss of examples and its gradient, both summed over them."""
    loss, d, h = sum_loss(xp, params, x, y)
    if len(params) == 2:
        return [loss, x.T @ d, d.sum()]
    by_hidden = d[:, None] * params[2] * (1 - h * h)
    return [loss, x.T @ by_hidden, by_hidden.sum(axis=0), h.T @ d, d.sum()]


def gradient_of_block(params: Sequence[Any], examples: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    return gradient_by_hand(np, params, *examples)


class Training:
    """Steps down the gradient of a loss that is an average over all examples."""

    def __init__(self, model: str, rows: int, blocks: int, steps: int) -> None:
        self.model, self.rows, self.blocks, self.steps = model, rows // blocks, blocks, steps

    def _descend(self, step: Callable[[list[Any]], Sequence[Any]]) -> Run:
        """Return the training: ``step`` returns the gradients of the average loss."""
        step(first_parameters(self.model))  # which compiles

        def run() -> list[np.ndarray]:
            params = first_parameters(self.model)
            for _ in range(self.steps):
                params = [p - RATE * g for p, g in zip(params, step(params), strict=True)]
            return [np.asarray(p) for p in params]

        return run

    def _persisted(self, client: Any) -> Any:
        import dask.array as da
        from distributed import wait

        chunks = ((self.rows,) * self.blocks, (FEATURES,))
        meta = np.empty((0, 0), np.float32)
        x = da.map_blocks(_x_of, chunks=chunks, dtype=np.float32, meta=meta, rows=self.rows)
        y = da.map_blocks(labels_of, x, dtype=np.float32, drop_axis=1, meta=np.empty(0, np.float32))
        x, y = client.persist([x, y])
        wait([x, y])
        return x, y

    def nnmagic(self, client: Any) -> Run:
        import nnmagic
        import nnmagic.dask

        x, y = self._persisted(client)
        loss = nnmagic.compile(LOSSES[self.model])
        step = nnmagic.dask.value_and_grad(
            loss, tuple(range(len(first_parameters(self.model)))), average=True
        )
        return self._descend(lambda params: step(*params, x, y)[1])

    def dask(self, client: Any) -> Run:
        import dask
        import dask.array as da

        x, y = self._persisted(client)
        count = np.float32(self.rows * self.blocks)

        def step(params: list[Any]) -> list[Any]:
            _, *gradients = dask.compute(*gradient_by_hand(da, params, x, y))
            return [g / count for g in gradients]

        return self._descend(step)

    def hand(self, client: Any) -> Run:
        examples = [client.submit(make_examples, number, self.rows) for number in range(self.blocks)]
        count = np.float32(self.rows * self.blocks)

        def step(params: list[Any]) -> list[Any]:
            (sent,) = client.scatter([params], broadcast=True)
            parts = [client.submit(gradient_of_block, sent, each, pure=False) for each in examples]
            _, *gradients = client.submit(add_all, parts, pure=False).result()
            return [g / count for g in gradients]

        return self._descend(step)

    def jax(self, _client: Any) -> Run:
        import jax
        import jax.numpy as jnp

        examples = [
            tuple(map(jnp.asarray, make_examples(number, self.rows))) for number in range(self.blocks)
        ]
        gradient = jax.jit(jax.grad(lambda params, x, y: sum_loss(jnp, params, x, y)[0]))
        count = np.float32(self.rows * self.blocks)

        def step(params: list[Any]) -> list[Any]:
            return [g / count for g in add_all([gradient(params, *each) for each in examples])]

        return self._descend(lambda params: jax.block_until_ready(step(params)))
