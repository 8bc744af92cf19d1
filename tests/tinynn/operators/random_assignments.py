"""Random functions that assign elements; as a program: compare them with Python on NumPy.

    python -m tests.tinynn.operators.random_assignments FIRST LAST

Each function changes arrays of one shape by indices, slices, masks, index arrays and calls, in straight code,
loops and branches, in nests of loops with any bounds and steps, adds up slices whose lengths loops decide,
collects numbers in lists, and gives some of the arrays other names. One in three changes an array of the
caller. It must give what Python gives, raise IndexError where Python does, or be refused for the names.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter

import numpy as np

import nnmagic

_SIZES = (4, 4, 5, 3, 1, 0, 37)


_HELPER = [
    "def change(p, q, v):",
    "    p[1:] = q[:-1] * v",
    "    if v > 0:",
    "        p[:1] += q[-1:]",
    "        p *= 0.5",
    "    return p.sum() * 0.1",
    "",
]


class _Writer:
    """Writes the statements of one function."""

    def __init__(self, chance: random.Random, size: int, *, is_matrix: bool) -> None:
        self.chance, self.size, self.is_matrix = chance, size, is_matrix
        self.arrays = ["y"]
        self.counters: list[str] = []

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self.chance.randint(1, 3)) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        chance, indent = self.chance, "    " * depth
        name, sign = chance.choice(self.arrays), chance.choice(("=", "=", "=", "+=", "*=", "-="))
        kind = chance.randrange(20)
        if not self.size and not self.counters:  # there is no element but in loops without rounds
            kind = chance.choice((4, 10, 14))
        if kind >= 16 and self.size:
            return self.call(indent, name, kind)
        if kind >= 14:
            return self.nest(depth, name) if depth == 1 else [f"{indent}c = c * 0.5"]
        if kind < 4:
            return [f"{indent}{name}[{self.position()}] {sign} {self.number()}"]
        if kind < 6:
            index = self.cut()
            same = f"{chance.choice(self.arrays)}[{index}]"
            values = [self.number(), f"{same} * 0.5 + 1", same]
            return [f"{indent}{name}[{index}] {sign} {chance.choice(values)}"]
        if kind == 6:
            mask = f"{chance.choice(self.arrays)} {chance.choice('<>')} {self.number()}"
            return [f"{indent}{name}[{mask}] {sign} {self.number()}"]
        if kind == 7:
            value = chance.choice((self.number(), f"{chance.choice(self.arrays)}[k]"))
            return [f"{indent}{name}[k] {sign} {value}"]
        if kind == 8:
            return self.new_name(indent, name, depth)
        if kind == 9 and depth < 4:
            lines = [f"{indent}if {self.number()} > {self.number()}:", *self.block(depth + 1)]
            if chance.random() < 0.5:
                lines += [f"{indent}else:", *self.block(depth + 1)]
            return lines
        if kind in (10, 11) and depth < 4:
            return self.loop(indent, depth)
        if kind == 12:
            other = chance.choice(self.arrays)
            if self.is_matrix or chance.random() < 0.5:
                return [f"{indent}{name}, {other} = {other}, {name}"]
            targets = f"{name}[{self.position()}], {other}[{self.position()}]"
            return [f"{indent}{targets} = {self.number()}, {self.number()}"]
        return [f"{indent}c = {self.number()} + y.sum() * 0"]

    def call(self, indent: str, name: str, kind: int) -> list[str]:
        """Return a call that changes an array, or a loop that appends in some of its rounds."""
        chance, number = self.chance, self.number()
        if kind == 16:
            function = chance.choice(("add", "subtract", "multiply", "maximum", "minimum"))
            return [f"{indent}np.{function}.at({name}, k, {number})"]
        if kind == 17:
            mask = f"{name} {chance.choice('<>')} {number}"
            calls = (f"{name}.fill({number})", f"np.putmask({name}, {mask}, 0.5)", f"np.copyto({name}, x)")
            return [f"{indent}{chance.choice(calls)}"]
        if kind == 18:
            other = chance.choice(("x", f"{chance.choice(self.arrays)}.copy()"))
            return [f"{indent}{chance.choice(('', 'c = '))}change({name}, {other}, {number})"]
        room = f"{chance.choice(self.arrays)}.ravel()"
        return [
            f"{indent}kept = [c]",
            f"{indent}for e in range({chance.choice(('n', '3'))}):",
            f"{indent}    if {room}[e % n] > {number}:",
            f"{indent}        kept.append(kept[-1] * 0.5 + {room}[e % n])",
            f"{indent}        {chance.choice(('continue', 'break', 'c = c * 0.5'))}",
            f"{indent}c = c * 0.5 + np.array(kept).sum() * 0.1 + len(kept)",
        ]

    def new_name(self, indent: str, name: str, depth: int) -> list[str]:
        new = self.chance.choice("uvw")
        sources = [name, f"{name}[::-1]", f"{name}[:]", f"({name} if c > 0 else {name} * 2)"]
        sources += [f"{name}.copy()", f"{name}.copy()", f"{name} + 1", f"{name} * 0.5", "np.zeros_like(x)"]
        if depth == 1 and new not in self.arrays:
            self.arrays.append(new)
        return [f"{indent}{new} = {self.chance.choice(sources)}"]

    def loop(self, indent: str, depth: int) -> list[str]:
        counter, chance = f"i{depth}", self.chance
        end = chance.choice([str(chance.randint(0, 4)), "n", "n", *self.counters[-1:]])
        lines = [f"{indent}for {counter} in range({chance.choice(('', '', '1, '))}{end}):"]
        self.counters.append(counter)
        lines += self.block(depth + 1)
        if chance.random() < 0.2:
            lines.append(f"{indent}    if {self.number()} > 1:")
            lines.append(f"{indent}        {chance.choice(('break', 'continue'))}")
            lines.append(f"{indent}    c += 0.25")  # without it, the last round's condition decides nothing
        self.counters.pop()
        return lines

    def nest(self, depth: int, name: str) -> list[str]:
        """Return loops around assignments to single elements, which a compiler may reorder or vectorise."""
        chance, before = self.chance, len(self.counters)
        lines: list[str] = []
        for level in range(chance.randint(1, 3)):
            counter = f"j{level}"
            lines.append(f"{'    ' * (depth + level)}for {counter} in range({self.bounds()}):")
            self.counters.append(counter)
        indent = "    " * (depth + len(lines))
        if chance.random() < 0.4:
            lines.insert(0, f"{'    ' * depth}s = c")
            lines.append(f"{indent}s {chance.choice('+-')}= {self.number()}")
            lines.append(f"{indent}{name}[{self.position()}] = s")
        for _ in range(chance.randint(1, 2)):
            sign = chance.choice(("=", "+=", "-="))
            lines.append(f"{indent}{name}[{self.position()}] {sign} {self.number()} * 0.5")
        del self.counters[before:]
        return lines

    def bounds(self) -> str:
        """Return the arguments of a ``range``, often in the array and in terms of the loops around."""
        chance = self.chance
        inner = [text for name in self.counters for text in (name, f"{name} + 1")]
        step = chance.choice((1, 1, 1, 2, 3, -1, -1, -2))
        low = chance.choice(["0", "0", "1", *inner])
        high = chance.choice(["n", "n", "n - 1", "len(x)", *inner])
        if step == 1:
            return high if low == "0" else f"{low}, {high}"
        return f"{low}, {high}, {step}" if step > 0 else f"{high} - 1, {low} - 1, {step}"

    def number(self, depth: int = 0) -> str:
        chance = self.chance
        kind = chance.randrange(7 if self.size or self.counters else 2)
        if kind == 0:
            return f"{chance.uniform(-2, 2):.2f}"
        if kind == 1:
            return "c"
        if kind == 2 and depth < 2:
            return f"({self.number(depth + 1)} {chance.choice('+-*')} {self.number(depth + 1)})"
        if kind == 3 and depth < 2:
            return self.reduction()
        return f"{chance.choice(self.arrays)}[{self.position()}]"

    def reduction(self) -> str:
        """Return a number made of a slice, whose length may be another one in each round."""
        row = f"{self.index()}, " if self.is_matrix else ""
        index, first, second = self.slice(), *self.chance.choices(self.arrays, k=2)
        part = f"{first}[{row}{index}]"
        column = f"{second}[{index}, {self.index()}]" if self.is_matrix else f"{second}[{index}]"
        forms = (f"{part}.sum()", f"({part} @ {column})", f"({part} * {column} + 1).sum()")
        return f"{self.chance.choice(forms)} * 0.1"

    def position(self) -> str:
        return f"{self.index()}, {self.index()}" if self.is_matrix else self.index()

    def index(self) -> str:
        counted = [text for name in self.counters for text in (name, name, f"{name} - 1", f"n - 1 - {name}")]
        fixed = self.chance.randint(-self.size, max(self.size - 1, 0))
        return self.chance.choice([str(fixed), "0", "-1", *counted])

    def cut(self) -> str:
        if not self.is_matrix:
            return self.slice()
        parts = [(self.slice, self.slice), (self.index, self.slice), (self.slice, self.index), (self.slice,)]
        return ", ".join(part() for part in self.chance.choice(parts))

    def slice(self) -> str:
        ends = (self.chance.choice(["", "", str(self.chance.randint(-5, 5)), *self.counters]) for _ in "ab")
        return ":".join(ends) + self.chance.choice(("", "", "", "", ":2", ":-1", ":-2"))


def write_program(seed: int) -> tuple[str, tuple[np.ndarray, ...]]:
    """Return the source of ``f``, and arguments for it, which end with an array that it may change."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    size = chance.choice(_SIZES)
    writer = _Writer(chance, size, is_matrix=chance.random() < 0.5)
    shape = (size, size) if writer.is_matrix else (size,)
    written = str(shape if size and chance.random() < 0.5 else ("n", "n")[: len(shape)]).replace("'", '"')
    destination = f", y: InOut[Tensor[{written}, f32]]" if seed % 3 == 0 else ""
    header = [f"def f(x: Tensor[{written}, f32], k: Tensor[(2,), i64]{destination}):", "    n = len(x)"]
    lines = [*header, f"    c = {'x.ravel()[0]' if size else 'x.sum()'} + 0"]
    if not destination:
        lines.append("    y = x.copy()")
    for _ in range(chance.randint(2, 7)):
        lines += writer.statement(1)
    lines.append(f"    return ({', '.join(writer.arrays)}, c)")
    if any("change(" in line for line in lines):
        lines[:0] = _HELPER
    x, k = numbers.uniform(-2, 2, shape).astype("float32"), numbers.integers(-1, 1, 2)
    return "\n".join(lines), (x, k, x[::-1].copy()) if destination else (x, k)


def compare(seed: int) -> tuple[str, str]:
    """Return what came of a program, ``wrong`` if it is not what Python gives, and the program."""
    source, arguments = write_program(seed)
    namespace: dict[str, object] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    wanted, error = _run(namespace["f"], arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
            compiled = nnmagic.compile(source, namespace={"np": np}, cache=False)
    except nnmagic.TinyNNError as refusal:
        message = str(refusal)
        words = ("share memory", "out of range", "the caller's array")
        known = any(word in message for word in words) or error is not None
        return ("refused" if known else "wrong"), f"{source}\n{message}"
    except nnmagic.EngineError as failure:
        return "wrong", f"{source}\n{failure}"
    found, raised = _run(compiled, arguments)
    if error is not None or raised is not None:
        same = type(error) is type(raised) or isinstance(error, UnboundLocalError)
        return ("raises" if same else "wrong"), f"{source}\n{error!r}\n{raised!r}"
    large = any(np.abs(part).max(initial=0) > 1e6 or not np.isfinite(part).all() for part in wanted)
    pairs = zip(found, wanted, strict=True)
    close = all(np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)
    return ("equal" if close or large else "wrong"), f"{source}\n{arguments}\n{wanted}\n{found}"


def _run(function: object, arguments: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], Exception | None]:
    assert callable(function)
    copies = [each.copy() for each in arguments]
    try:
        with np.errstate(all="ignore"):
            results = function(*copies)
        return [np.asarray(part) for part in (*results, *copies)], None
    except (IndexError, UnboundLocalError) as error:
        return [], error


def main(first: int, last: int) -> None:
    """Compare programs, and say what came of them; end at the first that is wrong."""
    outcomes = Counter[str]()
    for seed in range(first, last):
        outcome, program = compare(seed)
        outcomes[outcome] += 1
        if outcome == "wrong":
            sys.exit(f"seed {seed}:\n{program}")
    sys.stdout.write(f"{dict(outcomes)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
