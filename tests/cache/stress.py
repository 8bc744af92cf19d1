"""A process of the stress test: ``python -m tests.cache.stress SEED COUNT`` compiles COUNT functions.

It writes a line for each that was right, so that whoever ends it knows how far it was.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np

import nnmagic
from nnmagic.cache import CacheWarning
from nnmagic.functions.compile import MEMORY

#: How many functions all processes share; their constants together are more than the cache may hold.
FUNCTIONS, ELEMENTS = 24, 20_000

SOURCES = [
    "def f(x: Tensor[({n},), f32]):\n    return x * w + {k}\n",
    'def f(x: Tensor[("n",), f32]):\n    return x * 2 + {k}\n',
    "def f(x: Tensor[({n},), f32]):\n    assert x[0] > 0, 'positive'\n    return x * w + {k}\n",
    "def f(x: Tensor[({n},), f32]):\n    return x * w + {k} if x[0] > 0 else x\n",
]


def right(number: int, rng: random.Random) -> str | None:
    """Compiles one of the functions; how it was come by, if its result is NumPy's."""
    w = np.random.default_rng(number).standard_normal(ELEMENTS).astype("float32")
    x = np.random.default_rng(rng.randrange(1000)).random(ELEMENTS).astype("float32") + 0.5
    source = SOURCES[number % len(SOURCES)]
    wanted = x * (2 if '"n"' in source else w) + np.float32(number)
    MEMORY.clear()
    text = source.format(n=ELEMENTS, k=number)
    function = nnmagic.compile(f"# {rng.random()}\n{text}", namespace={"w": w})
    close = np.allclose(function(x), wanted, rtol=1e-5, atol=1e-5)
    return str(function.cache_info.hit) if close else None


def main(seed: int, count: int) -> int:
    rng = random.Random(seed)
    for _ in range(count):
        number = rng.randrange(FUNCTIONS)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            how = right(number, rng)
        if how is None or any(warning.category is not CacheWarning for warning in seen):
            sys.stdout.write(f"wrong {number} {[str(warning.message) for warning in seen]}\n")
            return 1
        sys.stdout.write(f"right {how} {len(seen)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
