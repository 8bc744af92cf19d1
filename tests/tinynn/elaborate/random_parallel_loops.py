"""Random nests whose outermost loop is parallel, and Python that finds which of their rounds clash.

    python -m tests.tinynn.elaborate.random_parallel_loops FIRST LAST

compiles those that a cell accepts, and compares them with the same source run by Python. Which rounds use
which elements is found by running the source on arrays that record it.
"""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import nnmagic
from nnmagic.diagnostics import Source
from nnmagic.tinynn.compilation import compile_source

PARAMETERS = 'x: Tensor[("n", "m"), f64], y: InOut[Tensor[("n", "m"), f64]], k: i64'


@dataclass
class Nest:
    """A random function; ``adds``: whether it reduces floats, whose order then differs."""

    source: str
    adds: bool


def write_nest(seed: int) -> Nest:
    """Return the nest of a seed: it changes ``y``, and gives what it reduces to."""
    chance = random.Random(seed)
    outer = chance.choice(
        ("n", "n", "n - 1", "1, n", "0, n, 2", "n // 2", "n - 1, -1, -1", "k, n", "-1, n - 1", "5")
    )
    lines = ["n, m = x.shape", "s = 0.0", "t = -1.0", f"for i in parallel({outer}):"]
    inner = chance.choice((None, None, "m", "m - 1", "1, m", "i", "i, m", "2"))
    indent = "    "
    local = chance.random() < 0.3
    if local:
        value = chance.choice(("i", "i + 1", "2 * i", "i - 1", "i // 2", "i * i"))
        lines.append(f"{indent}p = {value}")
    rows = [
        "i",
        "i",
        "i",
        "i + 1",
        "i - 1",
        "2 * i",
        "2 * i + 1",
        "n - 1 - i",
        "0",
        "k",
        "i // 2",
        *(["p"] * 2 * local),
    ]
    if inner is not None:
        lines.append(f"{indent}for j in range({inner}):")
        indent *= 2
    columns = ["j", "j", "j + 1", "j - 1", "0", "i"] if inner is not None else ["0", "0", "1", "i", "m - 1"]
    common = chance.choice(rows), chance.choice(columns)
    total = chance.choice(("", "", "s += ", "s -= ", "t = max(t, ", "s = s * 0.5 + "))

    def position() -> str:
        if chance.random() < 0.6:
            return f"{common[0]}, {common[1]}"
        return f"{chance.choice(rows)}, {chance.choice(columns)}"

    for _ in range(chance.randint(1, 2)):
        sign = chance.choice(("=", "=", "+=", "*="))
        read = chance.choice(
            (f"x[{position()}]", f"y[{position()}] * 0.5", "1.0", "s" if chance.random() < 0.2 else "i")
        )
        lines.append(f"{indent}y[{position()}] {sign} {read}")
    if total:
        lines.append(f"{indent}{total}x[{position()}]{')' if '(' in total else ''}")
    lines.append("return s, t")
    body = "\n".join(f"    {line}" for line in lines)
    return Nest(f"def f({PARAMETERS}):\n{body}\n", total.startswith("s"))


def is_accepted(source: str) -> bool:
    """Return whether a cell takes the source; an error must name two places, or say why one is enough."""
    try:
        compile_source(Source("cell", source), {"np": np})
    except nnmagic.TinyNNError as error:
        (diagnostic, *_) = error.diagnostics
        assert diagnostic.span is not None
        assert diagnostic.hint
        return False
    return True


@dataclass
class _Traced:
    """An array that records which round uses which element; ``parallel`` begins the rounds."""

    data: np.ndarray
    reads: dict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    writes: dict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    round: int = -1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def _element(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(position % size for position, size in zip(index, self.shape, strict=True))

    def __getitem__(self, index: tuple[int, ...]) -> float:
        value = float(self.data[index])
        self.reads[self._element(index)].add(self.round)
        return value

    def __setitem__(self, index: tuple[int, ...], value: float) -> None:
        self.data[index] = value
        self.writes[self._element(index)].add(self.round)

    def clashes(self) -> bool:
        return any(len(rounds | self.reads[element]) > 1 for element, rounds in list(self.writes.items()))


def has_race(source: str, shape: tuple[int, int], k: int) -> bool:
    """Return whether different rounds use one element that one of them changes, for arrays of a shape."""
    y = _Traced(np.ones(shape))

    def parallel(*bounds: int) -> Iterator[int]:
        for number, value in enumerate(range(*bounds)):
            y.round = number
            yield value

    namespace: dict[str, object] = {"parallel": parallel, "np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    with contextlib.suppress(IndexError):
        namespace["f"](np.ones(shape), y, k)  # type: ignore[operator]
    return y.clashes()


def compare(nest: Nest, seed: int) -> None:
    """Compare the machine code of an accepted nest with Python."""
    function = nnmagic.compile(nest.source, namespace={"np": np}, cache=False)
    assert "parallel=" in function.relay_text
    namespace: dict[str, object] = {"parallel": range, "np": np}
    exec("from __future__ import annotations\n" + nest.source, namespace)
    for shape in ((7, 6), (0, 3), (200, 200), (1, 1), (65, 66)):
        random_numbers = np.random.default_rng(seed)
        x, y = random_numbers.normal(size=shape), random_numbers.normal(size=shape)
        for k in (0, 1, -1):
            expected, changed = y.copy(), y.copy()
            try:
                wanted = namespace["f"](x, expected, k)  # type: ignore[operator]
            except IndexError:
                try:
                    function(x, changed, k)
                except IndexError:
                    continue
                raise AssertionError(f"no IndexError for {shape}, {k}:\n{nest.source}") from None
            result = function(x, changed, k)
            np.testing.assert_array_equal(changed, expected, err_msg=nest.source)
            np.testing.assert_allclose(
                result[0], wanted[0], rtol=1e-9 if nest.adds else 0, err_msg=nest.source
            )
            np.testing.assert_array_equal(result[1], wanted[1], err_msg=nest.source)


if __name__ == "__main__":
    warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
    first, last = map(int, sys.argv[1:])
    accepted = 0
    for seed in range(first, last):
        nest = write_nest(seed)
        if is_accepted(nest.source):
            accepted += 1
            compare(nest, seed)
    sys.stdout.write(f"{accepted} of {last - first} nests accepted, all equal\n")
