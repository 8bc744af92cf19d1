"""Measure functions on a Dask cluster of two worker processes of 2 GB: `python -m benchmarks.cluster`.

Three tasks: 4 GB of blocks go through a function; 20 steps of logistic regression, and of a network with a
hidden layer, over 8 million examples. Each contestant has a process and a cluster of its own: `nnmagic.dask`,
dask.array with NumPy, a loop over the blocks by hand, and JAX in one process without a cluster. nnmagic
runs again, and one worker is killed in the middle. At last the overhead: functions of next to no work over
10, 100 and 1,000 blocks.

It wants dask[array], distributed and jax beside nnmagic.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from threading import Timer
from typing import Any

import numpy as np

from benchmarks.cluster_tasks import Blocks, Training, bytes_read, count_bytes, forget_peak, peak

CONTESTANTS = ("nnmagic", "dask", "hand", "jax")
TASKS = ("blocks", "logistic", "mlp")
WORKERS, MEMORY = 2, "2GB"
GROWTH, REPEATS = (10, 100, 1000), 5


@contextmanager
def cluster() -> Any:
    """Start the workers, and return a client of theirs."""
    import dask
    from distributed import Client, LocalCluster

    memory = {f"distributed.worker.memory.{what}": False for what in ("spill", "target")}
    dask.config.set({**memory, "distributed.scheduler.work-stealing": False})  # blocks stay where they are
    options = {"threads_per_worker": 1, "memory_limit": MEMORY, "host": "127.0.0.1"}
    os.environ["NNMAGIC_NUM_THREADS"] = "1"  # the workers inherit it
    with LocalCluster(n_workers=WORKERS, dashboard_address=None, **options) as made, Client(made) as client:
        yield client


def kill_one(client: Any) -> None:
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def task_of(name: str, options: argparse.Namespace) -> Any:
    if name == "blocks":
        return Blocks(options.gigabytes)
    return Training(name, options.rows, options.blocks, options.steps)


def measure(name: str, contestant: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a contestant, which has this process to itself."""
    if contestant == "jax":
        run = task_of(name, options).jax(None)
        forget_peak()
        begin = time.process_time()
        seconds, found = timed(run)
        work = time.process_time() - begin
        return {"seconds": seconds, "work": work, "client": peak(), "result": as_lists(found)}
    with cluster() as client:
        count_bytes()
        client.run(count_bytes)
        if name == "blocks":
            getattr(Blocks(0), contestant)(client)()  # code is loaded, and tables are made
        run = getattr(task_of(name, options), contestant)(client)
        client.run(forget_peak)
        forget_peak()
        before = totals(client)
        seconds, found = timed(run)
        moved, work = (after - each for after, each in zip(totals(client), before, strict=True))
        figures = {"seconds": seconds, "work": work, "moved": moved, "result": as_lists(found)}
        figures |= {"worker": max(client.run(peak).values()), "client": peak()}
        if contestant != "nnmagic":
            return figures
        timer = Timer(seconds / 2, kill_one, [client])
        timer.start()
        figures["seconds, one killed"], again = timed(run)
        timer.join()
        same = all(map(np.array_equal, found, again))
        apart = max(float(np.abs(a - b).max()) for a, b in zip(found, again, strict=True))
        return {**figures, "same bits": same, "apart": apart}


def totals(client: Any) -> tuple[float, float]:
    """Return the bytes that all processes have read, and the seconds that they have worked."""
    read = bytes_read() + sum(client.run(bytes_read).values())
    return read, time.process_time() + sum(client.run(time.process_time).values())


def timed(run: Callable[[], list[np.ndarray]]) -> tuple[float, list[np.ndarray]]:
    begin = time.perf_counter()
    found = run()
    return time.perf_counter() - begin, found


def as_lists(arrays: list[np.ndarray]) -> list[Any]:
    return [array.tolist() for array in arrays]


def growth() -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of functions of next to no work by their numbers of blocks, and the processor's."""
    import dask.array as da
    from distributed import wait

    import nnmagic
    from nnmagic.dask import map_blocks, reduce, value_and_grad

    twice = nnmagic.compile('def twice(x: Tensor[("n",), f64]): return x * 2.0')
    total = nnmagic.compile('def total(x: Tensor[("n",), f64]): return x.sum()')
    loss = nnmagic.compile('def loss(w: f64, x: Tensor[("n",), f64]): return ((x - w) ** 2).mean()')
    step = value_and_grad(loss, average=True)
    calls = {
        "map_blocks": lambda x: wait(map_blocks(twice, x).persist()),
        "dask: x * 2": lambda x: wait((x * 2.0).persist()),
        "reduce": lambda x: reduce(total, np.add, x).compute(),
        "dask: x.sum()": lambda x: x.sum().compute(),
        "a step of value_and_grad": lambda x: step(1.0, x),
        "dask: ((x - w) ** 2).mean(), and the gradient": lambda x: da.compute(
            ((x - 1.0) ** 2).mean(), (2 * (1.0 - x)).mean()
        ),
    }
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    with cluster() as client:
        for blocks in GROWTH:
            x = client.persist(da.ones(8 * blocks, chunks=8))
            wait(x)
            for name, call in calls.items():
                call(x)
                before = totals(client)[1]
                times = [timed(lambda call=call, x=x: call(x))[0] for _ in range(REPEATS)]
                work = (totals(client)[1] - before) / REPEATS
                rows[name].append((statistics.median(times), work))
    return rows


def in_process(name: str, contestant: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a contestant measures in a process of its own."""
    given = [f"--{key}={getattr(options, key)}" for key in ("gigabytes", "rows", "blocks", "steps")]
    command = [sys.executable, "-m", "benchmarks.cluster", *given, "--measure", name, contestant]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}, {contestant}:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    shown = {key: value for key, value in figures.items() if key != "result"}
    print(f"{name}, {contestant}: {shown}", file=sys.stderr, flush=True)
    return figures


def report(name: str, figures: dict[str, dict[str, Any]]) -> None:
    """Print the table of a task."""
    heads = (
        "contestant",
        "s",
        "processor's s",
        "peak of a worker, GB",
        "of the client, GB",
        "moved, MB",
        "one killed, s",
    )
    print(f"\n{name}\n\n| {' | '.join(heads)} |")
    print("|---" * len(heads) + "|")
    for contestant, each in figures.items():
        cells = [contestant, f"{each['seconds']:.2f}", f"{each['work']:.2f}"]
        cells.append(f"{each['worker'] / 1e9:.2f}" if "worker" in each else "-")
        cells.append(f"{each['client'] / 1e9:.2f}")
        cells.append(f"{each['moved'] / 1e6:.1f}" if "moved" in each else "-")
        killed = "-"
        if "same bits" in each:
            same = "same bits" if each["same bits"] else f"{each['apart']:.1g} apart"
            killed = f"{each['seconds, one killed']:.2f}, {same}"
        print("| " + " | ".join([*cells, killed]) + " |")
    first, *others = (each["result"] for each in figures.values())
    for contestant, other in zip(list(figures)[1:], others, strict=True):
        pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(first, other, strict=True)]
        largest = max(float(np.abs(a).max()) for a, _ in pairs)
        apart = max(float(np.abs(a - b).max()) for a, b in pairs) / largest
        print(f"{contestant} is {apart:.1g} from {next(iter(figures))}, relative to the largest number")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4, help="of the blocks")
    parser.add_argument("--rows", type=int, default=8_000_000, help="examples of the training")
    parser.add_argument("--blocks", type=int, default=32, help="their blocks")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tasks", nargs="*", default=[*TASKS, "growth"], choices=[*TASKS, "growth"])
    parser.add_argument("--contestants", nargs="*", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--measure", nargs=2, metavar=("TASK", "CONTESTANT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure, options)))
        return
    for name in options.tasks:
        if name == "growth":
            print(
                "\nmilliseconds, and the processor's\n\n| blocks | "
                + " | ".join(f"{count:,}" for count in GROWTH)
                + " |"
            )
            print("|---" * (1 + len(GROWTH)) + "|")
            for what, times in growth().items():
                print(
                    f"| {what} | "
                    + " | ".join(f"{1e3 * each:.0f}, {1e3 * work:.0f}" for each, work in times)
                    + " |"
                )
        else:
            report(name, {each: in_process(name, each, options) for each in options.contestants})


if __name__ == "__main__":
    main()
