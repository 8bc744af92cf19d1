"""`nnmagic.dask`: functions over blocks; calls on whole arrays are the judge."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import nnmagic

da = pytest.importorskip("dask.array")
import dask  # noqa: E402 - it may be missing

from nnmagic.dask import map_blocks, reduce, value_and_grad  # noqa: E402

RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(103, 3)), RNG.normal(size=(3, 2))
Y = X @ [1.0, 2.0, 3.0] + 0.5


def compiled(source: str) -> Any:
    return nnmagic.compile(source, engine="numpy")


@pytest.fixture(scope="module")
def loss() -> Any:
    return compiled(
        'def loss(w: Tensor[(3,), f64], b: f64, x: Tensor[("n", 3), f64], y: Tensor[("n",), f64]):\n'
        "    return ((x @ w + b - y) ** 2).mean()\n"
    )


def test_the_types_say_dtype_chunks_and_new_axes() -> None:
    f = compiled(
        'def f(x: Tensor[("n", 3), f64], w: Tensor[(3, "m"), f64], *, k: f64 = 2.0):\n    return x @ w * k'
    )
    mapped = map_blocks(f, da.from_array(X, chunks=(20, 3)), W, k=3.0)
    assert (mapped.shape, mapped.dtype, mapped.chunks[0][-1]) == ((103, 2), np.float64, 3)
    np.testing.assert_allclose(mapped.compute(), X @ W * 3)
    both = map_blocks(f, da.from_array(X, chunks=(50, 3)), da.from_array(W, chunks=(3, 1)))
    assert both.numblocks == (3, 2)
    np.testing.assert_allclose(both.compute(), X @ W * 2)


def test_several_results_arithmetic_on_sizes_and_sizes_that_values_decide() -> None:
    f = compiled(
        'def f(x: Tensor[("n",), f64], y: Tensor[("n",), f64]):\n'
        "    return x[x > 0.0], concatenate([x, y]), x[1:] - x[:-1]\n"
    )
    x, y = da.from_array(X[:, 0], chunks=30), da.from_array(X[:, 1], chunks=25)
    positive, joined, steps = map_blocks(f, x, y)
    assert np.isnan(positive.shape[0])
    assert joined.shape == (206,)
    cut = da.core.unify_chunks(x, "n", y, "n")[0]["n"]
    assert steps.numblocks == (len(cut),)
    edges = [0, *np.cumsum(cut)]
    parts = [(X[a:b, 0], X[a:b, 1]) for a, b in pairwise(edges)]
    found = dask.compute(positive, joined, steps)
    np.testing.assert_array_equal(found[0], X[X[:, 0] > 0, 0])
    np.testing.assert_array_equal(found[1], np.concatenate([part for pair in parts for part in pair]))
    np.testing.assert_array_equal(found[2], np.concatenate([np.diff(x) for x, _ in parts]))


def test_reductions_and_gradients_are_those_of_the_whole(loss: Any) -> None:
    moments = compiled('def f(x: Tensor[("n", 3), f64]):\n    return x.sum(axis=0), x.shape[0]')
    x, y = da.from_array(X, chunks=(10, 3)), da.from_array(Y, chunks=17)
    total, count = reduce(moments, lambda a, b: (a[0] + b[0], a[1] + b[1]), x).compute()
    np.testing.assert_allclose(total, X.sum(0))
    assert count == 103
    start = np.ones(3), 0.1
    value, gradients = value_and_grad(loss, (0, 1), average=True)(*start, x, y)
    expected, slopes = nnmagic.value_and_grad(loss, (0, 1))(*start, X, Y)
    np.testing.assert_allclose(value, expected)
    for ours, theirs in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_what_does_not_fit_is_refused_with_the_way_out(loss: Any) -> None:
    x = da.from_array(X, chunks=(20, 2))
    with pytest.raises(ValueError, match=r"'x' is cut along axis 1, .*rechunk\(\{1: -1\}\)"):
        value_and_grad(loss)(np.ones(3), 0.0, x, Y)
    total = compiled('def total(x: Tensor[("n",), f64]): return x.sum()')
    with pytest.raises(ValueError, match=r"n is cut into 6 blocks, .*nnmagic.dask.reduce"):
        map_blocks(total, da.from_array(X[:, 0], chunks=20))
    with pytest.raises(TypeError, match=r"types say how arrays are cut, and f\(\) has none"):
        map_blocks(compiled("def f(x): return x"), x)
    with pytest.raises(TypeError, match="changes its arguments"):
        map_blocks(compiled('def f(x: InOut[Tensor[("n",), f64]]):\n    x[0] = 1.0'), x[:, 0])


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
@pytest.mark.full
def test_pools_of_one_machine_run_the_blocks(pool: Any) -> None:
    total = nnmagic.compile('def total(x: Tensor[("n",), f64]): return x.sum()')
    scheduler = "threads" if pool is ThreadPoolExecutor else "processes"
    options = {} if pool is ThreadPoolExecutor else {"mp_context": multiprocessing.get_context("spawn")}
    with pool(2, **options) as made, dask.config.set(scheduler=scheduler, pool=made):
        assert reduce(total, np.add, da.arange(100.0, chunks=10)).compute() == 4950.0


@pytest.mark.full
def test_training_survives_the_loss_of_a_worker(loss: Any) -> None:
    distributed = pytest.importorskip("distributed")
    native = nnmagic.compile(loss.__dsl_code__)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        versions = client.get_versions(check=True, packages=["nnmagic"])["workers"].values()
        assert {each["packages"]["nnmagic"] for each in versions} == {nnmagic.__version__}
        x, y = da.from_array(X, chunks=(10, 3)), da.from_array(Y, chunks=10)
        x, y = client.persist([x, y])
        step = value_and_grad(native, (0, 1), average=True)
        w, b, values = np.zeros(3), 0.0, []
        for number in range(6):
            if number == 3:  # with the blocks that it holds
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            value, (by_w, by_b) = step(w, b, x, y)
            w, b = w - 0.1 * by_w, b - 0.1 * by_b
            values.append(float(value))
    gradient = nnmagic.value_and_grad(loss, (0, 1))
    w, b = np.zeros(3), 0.0
    for value in values:
        expected, (by_w, by_b) = gradient(w, b, X, Y)
        np.testing.assert_allclose(value, expected)
        w, b = w - 0.1 * by_w, b - 0.1 * by_b
