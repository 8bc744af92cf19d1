"""How long Relay's text takes: parsing, type inference and printing of the measured models.

Prints milliseconds, and the ratio to a fixed pure-Python yardstick timed in the same run, which tells a slow
machine from a slow program. Real Relay's C++ takes 55 ms to parse and infer resnet18, and 10 ms to print it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nnmagic.relay import infer_type
from nnmagic.relay.text.parser import parse_module

MODELS = Path(__file__).parent.parent / "tests" / "relay_corpus" / "models"
ROUNDS = 15


def yardstick() -> int:
    """100,000 steps of what an interpreter does all day: a call, a dictionary, a tuple, a comparison."""
    table: dict[tuple[int, int], int] = {}
    total = 0
    for step in range(100_000):
        key = divmod(step, 317)
        total += table.setdefault(key, len(table)) if step % 3 else -1
    return total


def time_step(step: Callable[[], object]) -> float:
    """Milliseconds of one run."""
    begin = time.perf_counter()
    step()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Times every step and prints the best of its rounds."""
    steps: dict[str, Callable[[], object]] = {"yardstick": yardstick}
    for path in sorted(MODELS.glob("*.relay")):
        text = path.read_text()
        parsed = parse_module(text)
        typed = infer_type(parsed)
        steps[f"{path.stem}: parse"] = lambda text=text: parse_module(text)  # type: ignore[misc]
        steps[f"{path.stem}: infer"] = lambda parsed=parsed: infer_type(parsed)  # type: ignore[misc]
        steps[f"{path.stem}: print"] = typed.__str__
    best = {name: min(time_step(step) for _ in range(ROUNDS)) for name, step in steps.items()}
    for name, milliseconds in best.items():
        print(f"{name:18} {milliseconds:8.2f} ms {milliseconds / best['yardstick']:8.2f} yardsticks")


if __name__ == "__main__":
    main()
