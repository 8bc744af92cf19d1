"""Measure networks under `torch.compile`, nnmagic's backend beside inductor.

``python -m benchmarks.torch_networks [name ...]`` in the environment of `make test-torch`. The networks are
those of ``tests.importers.torch.models``, for inference on one thread; the times are of the processor,
medians of calls in turns.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings

import torch

from tests.importers.torch import models

NAMES = ("bert", "gpt2", "llama", "vit", "resnet18", "mobilenet_v2", "squeezenet1_1", "efficientnet_b0")
BACKENDS = ("nnmagic", "inductor")
ROUNDS, BATCH = 9, 0.05


def compare(name: str) -> dict[str, float]:
    """Return the seconds of a call by backend, once their results agree."""
    module, data = models.make(name)
    calls, found = {}, {}
    for backend in BACKENDS:
        torch._dynamo.reset()
        calls[backend] = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
        found[backend] = calls[backend](data)
    torch.testing.assert_close(found["nnmagic"], found["inductor"], rtol=1e-3, atol=1e-3)
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for _ in range(ROUNDS):
        for backend, call in calls.items():
            begin, count = time.process_time(), 0
            while count == 0 or time.process_time() - begin < BATCH:
                call(data)
                count += 1
            times[backend].append((time.process_time() - begin) / count)
    return {backend: statistics.median(seconds) for backend, seconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ratios = []
    for name in parser.parse_args().names or NAMES:
        with torch.no_grad():
            seconds = compare(name)
        ratios.append(seconds["inductor"] / seconds["nnmagic"])
        shown = ", ".join(f"{backend} {1e3 * each:.2f} ms" for backend, each in seconds.items())
        print(f"{name}: {shown}, {ratios[-1]:.2f}x", flush=True)
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x inductor")


if __name__ == "__main__":
    main()
