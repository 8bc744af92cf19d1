"""Random loop nests over arrays whose sizes are given; as a program: compare them with Python on NumPy.

    python -m tests.tinynn.elaborate.random_sized_nests FIRST COUNT

Each function takes two integers, which decide the sizes of the arrays that it makes, and a vector. Nests of
loops with all kinds of bounds read and write elements, choose between them, take slices and rows, and make
arrays anew in each round. It must give what Python gives, or raise what Python raises.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np

import nnmagic

_ERRORS = (IndexError, ValueError, MemoryError)


class _Writer:
    """Writes the statements of one function."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.matrices = ["a", "b"]
        self.counters: list[str] = []

    def size(self) -> str:
        """Return the text of a size."""
        return self.chance.choice(
            ("n", "n + m", "m + n + 1", "n + m + 2", "2 * n + m", "(n + 1) * (m + 1)", "(3 * n + 3 * m) // 2")
        )

    def index(self) -> str:
        """Return the text of an index, which may be out of range."""
        chance = self.chance
        if not self.counters or chance.random() < 0.1:
            return chance.choice(("0", "-1", "n - 1", "m"))
        name = chance.choice(self.counters)
        return chance.choice(
            (name, name, name, f"{name} - 1", f"{name} + 1", f"({name} + 1) % 3", f"-{name}")
        )

    def element(self) -> str:
        """Return the text of a number that is read."""
        chance = self.chance
        name = chance.choice(self.matrices)
        return chance.choice(
            (
                f"{name}[{self.index()}, {self.index()}]",
                f"{name}[{self.index()}, {self.index()}]",
                f"x[{self.index()}]",
                "c",
                "0.5",
                f"np.sum({name}[{self.index()}])",
                f"np.sum({name}[{self.index()}, :{self.index()}])",
            )
        )

    def statement(self, depth: int) -> list[str]:
        """Return the lines of a statement."""
        chance, indent = self.chance, "    " * depth
        name = chance.choice(self.matrices)
        kind = chance.randrange(12)
        if kind < 4 and depth < 4:
            counter = "ijk"[len(self.counters)] if len(self.counters) < 3 else None
            if counter is not None:
                return self.loop(depth, counter)
        if kind < 7:
            sign = chance.choice(("=", "+=", "-="))
            target = f"{name}[{self.index()}, {self.index()}]"
            return [f"{indent}{target} {sign} {self.element()} * 0.5 + {self.element()}"]
        if kind == 7:
            return [f"{indent}c = c * 0.5 + {self.element()}"]
        if kind == 8:
            test = f"{self.element()} > {self.element()}"
            lines = [f"{indent}if {test}:", *self.statement(depth + 1)]
            return [*lines, f"{indent}else:", *self.statement(depth + 1)] if chance.random() < 0.4 else lines
        if kind == 9:
            return [f"{indent}{name}[{self.index()}, :] = {name}[{self.index()}, :] * 0.5 + c"]
        if kind == 10:
            other = chance.choice(self.matrices)
            return [f"{indent}{name}[{self.index()}, 1:] += {other}[{self.index()}, :-1]"]
        other = chance.choice(self.matrices)
        value = chance.choice((f"np.zeros({self.shapes[name]})", f"{name} + 1", f"{name}.copy()"))
        lines = [f"{indent}new = {value}"]
        if self.counters:
            lines.append(
                f"{indent}new[{self.index()}, {self.index()}] = {other}[{self.index()}, {self.index()}]"
            )
        return [*lines, f"{indent}{name} = new"]

    def loop(self, depth: int, counter: str) -> list[str]:
        """Return the lines of a loop, whose bounds may depend on those around it."""
        chance, indent = self.chance, "    " * depth
        bounds = ["n", "m", "1, n", "n - 1, -1, -1", "0, m, 2", "a.shape[0]", "b.shape[1]"]
        if self.counters:
            outer = self.counters[-1]
            bounds += [outer, f"{outer} + 1, n", f"{outer}, -1, -1"]
        self.counters.append(counter)
        body = [line for _ in range(chance.randint(1, 3)) for line in self.statement(depth + 1)]
        self.counters.pop()
        return [f"{indent}for {counter} in range({chance.choice(bounds)}):", *body]

    def function(self) -> str:
        """Return the source of a function, without annotations."""
        chance = self.chance
        square = chance.random() < 0.4
        first, second = self.size(), self.size()
        shape = f"({first}, {first if square else second})"
        self.shapes = {"a": shape, "b": shape if chance.random() < 0.5 else f"({self.size()}, {self.size()})"}
        lines = [
            "def f(n, m, x):",
            f"    a = np.zeros({self.shapes['a']})",
            f"    b = np.ones({self.shapes['b']})",
        ]
        lines.append("    c = 0.25")
        for _ in range(chance.randint(1, 3)):
            lines += self.loop(1, "i")
        return "\n".join([*lines, "    return a, b, c", ""])


def write_program(seed: int) -> str:
    """Return the source of a random function."""
    return _Writer(random.Random(seed)).function()


def _outcome(function: object, args: tuple[object, ...]) -> list[np.ndarray] | type[Exception]:
    assert callable(function)
    try:
        with np.errstate(all="ignore"):
            return list(map(np.asarray, function(*args)))
    except _ERRORS as error:
        return type(error)


def judge(seed: int) -> str:
    """Return how a random function differs from Python's; nothing if it does not, ``refused`` if it is."""
    source = write_program(seed)
    values: dict[str, object] = {"np": np}
    exec(source, values)
    cell = source.replace("(n, m, x)", '(n: i64, m: i64, x: Tensor[("k",), f64])', 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = nnmagic.compile(cell, namespace={"np": np}, cache=False)
    except nnmagic.TinyNNError as error:
        return f"refused: {error}"
    for n, m in ((3, 4), (1, 1), (5, 2), (0, 3), (2, 0), (-1, 2)):
        args = (n, m, np.arange(12.0))
        expected, ours = _outcome(values["f"], args), _outcome(function, args)
        if isinstance(expected, type) or isinstance(ours, type):
            if not (isinstance(expected, type) and isinstance(ours, type)):
                return f"n={n} m={m}: {ours} instead of {expected}\n{source}"
            continue
        for left, right in zip(ours, expected, strict=True):
            if left.shape != right.shape or not np.allclose(left, right, 1e-10, 1e-10, equal_nan=True):
                return f"n={n} m={m}: {left} instead of {right}\n{source}"
    return ""


def main(first: int, count: int) -> None:
    """Judge programs, and write those that differ."""
    refused = 0
    for seed in range(first, first + count):
        difference = judge(seed)
        refused += difference.startswith("refused")
        if difference:
            sys.stdout.write(f"{seed}: {difference}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} programs, {refused} refused\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
