"""Damage Relay text, then parse it and compile it; test_mutations.py starts this process."""

from __future__ import annotations

import random
import sys
import warnings

import nnmagic
from nnmagic import relay
from tests.mutations import damaged_text, run
from tests.relay.corpus import load_programs

#: The longest texts that are damaged.
_LONGEST = 1500


def texts() -> list[str]:
    """The short measured programs."""
    found = [record["text"] for record in load_programs()]
    return [text for text in found if len(text) < _LONGEST]


def main() -> None:
    """Compile damaged texts for an engine; the arguments are the engine, the seed and the count of cases."""
    warnings.simplefilter("ignore")
    engine, seed, count = sys.argv[1:]
    known = texts()

    def attempt(draw: random.Random) -> None:
        text = draw.choice(known)
        for _ in range(draw.choice((1, 1, 2, 3))):
            text = damaged_text(text, draw)
        module = relay.parse(text)
        if len(module.functions) == 1 or "main" in module.functions:
            nnmagic.compile(module, engine=engine, cache=False)

    run(attempt, [nnmagic.CompileError], seed=int(seed), count=int(count))


if __name__ == "__main__":
    main()
