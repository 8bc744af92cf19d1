"""Names that share the memory of one array: rows, columns, slices of slices, other names of the whole.

Each is changed and read through the others, also in loops. It must give what Python gives, or raise what
Python raises.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tests.random_programs.program import Family, Program, Rules, seeded

_SLICES = (":", "1:", ":-1", "::2", "1:-1", "::-1", ":k", "k:", "1:3")
_OPERATORS = ("=", "+=", "*=")


@dataclass
class _Writer:
    """Writes a function line by line; ``ranks``: of the names that share the memory of ``q``."""

    chance: random.Random
    lines: list[str] = field(default_factory=lambda: ["q = x.copy()", "t = 0.25"])
    ranks: dict[str, int] = field(default_factory=lambda: {"q": 2})

    def name(self) -> str:
        return self.chance.choice(list(self.ranks))

    def slice(self) -> str:
        return self.chance.choice(_SLICES)

    def add_view(self) -> None:
        name, base = "abcdefgh"[len(self.ranks) - 1], self.name()
        index, rank = f"[{self.slice()}]", self.ranks[base]
        kind = self.chance.randrange(7)
        if kind == 0:
            index = ""
        elif self.ranks[base] == 2 and kind < 3:
            index, rank = f"[{self.chance.choice(('0', '-1', 'k'))}]", 1
        elif self.ranks[base] == 2 and kind < 5:
            index, rank = f"[{self.slice()}, {self.chance.choice(('0', '1', '-1'))}]", 1
        elif self.ranks[base] == 2:
            index = f"[{self.slice()}, {self.slice()}]"
        self.lines.append(f"{name} = {base}{index}")
        self.ranks[name] = rank

    def change_elements(self, indent: str = "") -> None:
        name = self.name()
        index = self.chance.choice((":", self.slice()))
        if self.ranks[name] == 2:
            forms = (":", "0", f"{self.slice()}, 0", f"{self.slice()}, {self.slice()}", f"1, {self.slice()}")
            index = self.chance.choice(forms)
        value = self.chance.choice(("1.5", "t", "2.0"))
        self.lines.append(f"{indent}{name}[{index}] {self.chance.choice(_OPERATORS)} {value}")

    def change_all(self, indent: str = "") -> None:
        operator, value = self.chance.choice(("+=", "*=")), self.chance.choice(("1.5", "t"))
        self.lines.append(f"{indent}{self.name()} {operator} {value}")

    def read(self, indent: str = "") -> None:
        self.lines.append(f"{indent}t = t * 0.5 + np.sum({self.name()})")

    def add_loop(self) -> None:
        self.lines.append(f"for i in range({self.chance.choice(('k', '2', '3'))}):")
        for _ in range(self.chance.randrange(1, 4)):
            step = self.chance.choice(
                (self.change_elements, self.change_elements, self.read, self.change_all)
            )
            step("    ")


def write(seed: int) -> Program:
    """Return the program of a seed."""
    writer = _Writer(seeded("views", seed))
    for _ in range(writer.chance.randrange(1, 4)):
        writer.add_view()
    steps = (writer.change_elements, writer.change_all, writer.read, writer.add_loop, writer.add_view)
    for step in writer.chance.choices(steps, weights=(7, 2, 3, 5, 3), k=writer.chance.randrange(3, 8)):
        step()
    body = "".join(f"    {line}\n" for line in writer.lines)
    head = 'def f(x: Tensor[("n", "m"), f64], k: i64):\n'
    values = np.random.default_rng(seed)
    calls = tuple((values.integers(-8, 8, shape) * 0.25, k) for shape, k in (((4, 5), 2), ((6, 4), 1)))
    return Program("views", seed, f"{head}{body}    return q, t, {writer.name()} * 1.0\n", calls, RULES)


RULES = Rules(rtol=1e-12, errors=(IndexError, ValueError), numpy=True)
FAMILY = Family("views", write, ("numpy", "relax"))
