"""Random cells that compute with tensors of dimensions that only a call knows. Knows Python's text only.

A value is its text, its dtype (``f``: f32, ``i``: i64, ``b``: truth values) and the names of its dimensions;
equal names are equal lengths. Numbers stay small integers, so that every order of operations gives the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

ANNOTATIONS = {"f": "f32", "i": "i64", "b": "bool_"}
DTYPES = {"f": np.float32, "i": np.int64, "b": np.bool_}
#: The sizes of the dimensions n and m, call by call.
SIZES = [(3, 5), (1, 1), (0, 4), (4, 0), (17, 2), (1, 33), (8, 64)]


@dataclass(frozen=True)
class Value:
    text: str
    dtype: str
    dims: tuple[str, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass
class Generator:
    """Writes one cell: a function ``f`` of some tensors."""

    random: random.Random
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *dtypes: str, rank: int = 0, dims: Sequence[str] | None = None) -> Value | None:
        """A value of one of the dtypes, of that rank or more, newer ones more often."""
        fit = [
            value
            for value in self.values
            if value.dtype in dtypes and value.rank >= rank and dims in (None, value.dims)
        ]
        return self.random.choice(fit[-4:] if self.chance(0.6) else fit) if fit else None

    def assign(self, text: str, dtype: str, dims: Sequence[str], indent: int = 1) -> None:
        name = f"v{len(self.values)}"
        self.lines.append(f"{'    ' * indent}{name} = {text}")
        self.values.append(Value(name, dtype, tuple(dims)))

    def step(self) -> None:
        """One more value, where the choice fits."""
        steps = [
            self.arithmetic,
            self.arithmetic,
            self.arithmetic,
            self.compare,
            self.choose,
            self.reduce,
            self.reduce,
            self.find_extreme,
            self.index,
            self.index,
            self.move,
            self.join,
            self.product,
            self.branch,
            self.loop,
            self.rows,
        ]
        self.random.choice(steps)()

    def partner(self, value: Value) -> str:
        """What broadcasts with a value: one of its dims, a part of it, or a number."""
        fit = [
            other.text
            for other in self.values
            if other.dtype == value.dtype
            and other.rank <= value.rank
            and all(a in (b, "1") for a, b in zip(other.dims[::-1], value.dims[::-1], strict=False))
        ]
        return self.random.choice(fit) if fit and self.chance(0.8) else str(self.random.randint(-2, 3))

    def arithmetic(self) -> None:
        if value := self.pick("f", "i"):
            a, b = value.text, self.partner(value)
            form = self.random.choice(
                [
                    "{a} + {b}",
                    "{b} - {a}",
                    "({a} * {b}) % 5",
                    "maximum({a}, {b})",
                    "minimum({b}, {a})",
                    "-{a}",
                    "abs({a})",
                    "{a} // 2",
                    "{a} % 3 - 1",
                    "clip({a}, -2, 2)",
                    "({a} + {b}) % 7 - {a}",
                ]
            )
            self.assign(form.format(a=a, b=b), value.dtype, value.dims)

    def compare(self) -> None:
        if value := self.pick("f", "i"):
            sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
            text = f"{value.text} {sign} {self.partner(value)}"
            self.assign(f"~({text})" if self.chance(0.3) else text, "b", value.dims)

    def choose(self) -> None:
        value = self.pick("f", "i")
        condition = value and self.pick("b", dims=value.dims)
        if value and condition:
            self.assign(
                f"where({condition.text}, {value.text}, {self.partner(value)})", value.dtype, value.dims
            )

    def reduce(self) -> None:
        if not (value := self.pick("f", "i", "b", rank=1)):
            return
        name = self.random.choice(["any", "all"] if value.dtype == "b" else ["sum", "max", "min", "sum"])
        mod = " % 11" if name == "sum" else ""
        if self.chance(0.2):
            self.assign(f"{value.text}.{name}(){mod}", value.dtype, ())
            return
        axis = self.random.randrange(value.rank)
        dims = list(value.dims)
        written = axis - value.rank if self.chance(0.5) else axis
        if name == "sum" and self.chance(0.3):
            self.assign(f"cumsum({value.text}, axis={written}) % 11", value.dtype, dims)
        elif self.chance(0.4):
            dims[axis] = "1"
            self.assign(f"{value.text}.{name}(axis={written}, keepdims=True){mod}", value.dtype, dims)
        else:
            del dims[axis]
            self.assign(f"{value.text}.{name}(axis={written}){mod}", value.dtype, dims)

    def find_extreme(self) -> None:
        if value := self.pick("f", "i", "b", rank=1):
            axis = self.random.randrange(value.rank)
            name = self.random.choice(["argmax", "argmin"])
            dims = [dim for at, dim in enumerate(value.dims) if at != axis]
            self.assign(f"{name}({value.text}, axis={axis})", "i", dims)

    def index(self) -> None:
        if not (value := self.pick("f", "i", "b", rank=1)):
            return
        axis = self.random.randrange(value.rank)
        before, dim, after = value.dims[:axis], value.dims[axis], value.dims[axis + 1 :]
        part = self.random.choice(["0", "-1", "::-1", "1:", ":-1", "::2", "-2:", "2:0:-1", "None", "::-2"])
        text = f"{value.text}[{':, ' * axis}{part}]"
        if part == "None":
            dims = (*before, "1", dim, *after)
        elif ":" in part:
            dims = (*before, dim if part == "::-1" else f"{dim}[{part}]", *after)
        else:
            dims = (*before, *after)
        self.assign(text, value.dtype, dims)

    def move(self) -> None:
        if not (value := self.pick("f", "i", "b", rank=1)):
            return
        match self.random.randrange(4):
            case 0:
                self.assign(f"{value.text}.T", value.dtype, value.dims[::-1])
            case 1:
                self.assign(f"{value.text}.reshape(-1)", value.dtype, ["*".join(value.dims)])
            case 2:
                self.assign(f"flip({value.text}, 0)", value.dtype, value.dims)
            case _:
                dims = [f"2{value.dims[0]}", *value.dims[1:]]
                self.assign(f"repeat({value.text}, 2, axis=0)", value.dtype, dims)

    def join(self) -> None:
        value = self.pick("f", "i", "b", rank=1)
        other = value and self.pick(value.dtype, dims=value.dims)
        if value and other:
            pair = f"({value.text}, {other.text})"
            if self.chance(0.5):
                self.assign(f"stack({pair}, 0)", value.dtype, ["2", *value.dims])
            else:
                dims = [f"2{value.dims[0]}", *value.dims[1:]]
                self.assign(f"concatenate({pair}, 0)", value.dtype, dims)

    def product(self) -> None:
        left = self.pick("f", rank=2)
        fit = [
            v for v in self.values if left and v.dtype == "f" and v.rank == 2 and v.dims[0] == left.dims[-1]
        ]
        if left and left.rank == 2 and fit:
            right = self.random.choice(fit)
            text = f"((({left.text}) % 3) @ ({right.text} % 3)) % 7"
            self.assign(text, "f", (left.dims[0], right.dims[1]))
        elif left and left.rank == 2:
            self.assign(f"((({left.text}) % 3) @ ({left.text} % 3).T) % 7", "f", (left.dims[0], left.dims[0]))

    def branch(self) -> None:
        value, asked = self.pick("f", "i"), self.pick("f", "i")
        if value and asked:
            name = f"v{len(self.values)}"
            self.lines += [
                f"    if {asked.text}.sum() > {self.random.randint(-3, 3)}:",
                f"        {name} = {value.text} + {self.random.randint(1, 3)}",
                "    else:",
                f"        {name} = {value.text} - {self.partner(value)}",
            ]
            self.values.append(Value(name, value.dtype, value.dims))

    def loop(self) -> None:
        if value := self.pick("f", "i"):
            name = f"v{len(self.values)}"
            self.lines += [
                f"    {name} = {value.text}",
                f"    for k in range({self.random.randint(1, 4)}):",
                f"        {name} = ({name} * {self.random.randint(1, 2)} + {self.partner(value)}) % 5 - k",
            ]
            self.values.append(Value(name, value.dtype, value.dims))

    def rows(self) -> None:
        """A loop over the rows of a tensor, of which only the call knows how many there are."""
        value = self.pick("f", "i", rank=1)
        start = value and self.pick(value.dtype, dims=value.dims[1:])
        if value and start:
            name = f"v{len(self.values)}"
            self.lines += [
                f"    {name} = {start.text}",
                f"    for k in range({value.text}.shape[0]):",
                f"        {name} = ({name} + {value.text}[k]) % 9",
            ]
            self.values.append(Value(name, value.dtype, value.dims[1:]))


def program(seed: int) -> tuple[str, list[tuple[np.ndarray, ...]]]:
    """A cell and the arguments of its calls."""
    made = Generator(random.Random(seed))
    for _ in range(made.random.randint(1, 3)):
        dtype = made.random.choice("fffib")
        rank = made.random.randint(1, 3)
        dims = tuple(made.random.choice(["n", "m", "n", "m", "3", "1"]) for _ in range(rank))
        made.values.append(Value(f"v{len(made.values)}", dtype, dims))
    params = list(made.values)
    for _ in range(made.random.randint(3, 14)):
        made.step()
    written = ", ".join(f"{p.text}: Tensor[({_shape(p)}), {ANNOTATIONS[p.dtype]}]" for p in params)
    results = [value.text for value in made.values[-made.random.randint(1, 3) :]]
    source = "\n".join([f"def f({written}):", *made.lines, f"    return {', '.join(results)}", ""])
    rng = np.random.default_rng(seed)
    return source, [_arguments(params, {"n": n, "m": m, "3": 3, "1": 1}, rng) for n, m in SIZES]


def _shape(value: Value) -> str:
    return "".join(f"{dim}, " if dim.isdigit() else f'"{dim}", ' for dim in value.dims)


def _arguments(
    params: Sequence[Value], sizes: Mapping[str, int], rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    return tuple(
        rng.integers(-2, 3, [sizes[dim] for dim in param.dims]).astype(DTYPES[param.dtype])
        for param in params
    )
