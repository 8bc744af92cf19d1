"""A random program: its values as Relay has them and as NumPy computes them. Knows Relay only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.relay.expr import Expr, Function, Tuple, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.types import TensorType, TupleType, Type

Array = np.ndarray
#: An array, or a tuple of arrays.
Value = "Array | tuple[Array, ...]"

SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 130, 1000, 1030]
MOST_ELEMENTS = 5000
#: Up to where a dtype has every integer, floats every multiple of 1/256.
LIMITS = {"float32": 2**16, "float64": 2**40, "int8": 127, "uint8": 255, "int32": 2**31 - 1, "int64": 2**53}


class Unfit(Exception):
    """A choice that does not fit: NumPy's result is not exact, or there is nothing to choose from."""


@dataclass(eq=False)
class Node:
    """A value of a program: its expression and type, what NumPy makes of the arguments' values, and made."""

    expr: Expr
    type: Type
    value: Value
    args: tuple[Node, ...] = ()
    compute: Callable[..., Value] | None = None
    #: The greatest number that any order of the operations has in between, from the arguments' values.
    largest: Callable[..., float] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        assert isinstance(self.value, np.ndarray)
        return self.value.shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        assert isinstance(self.type, TensorType)
        return self.type.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")


@dataclass(frozen=True)
class Program:
    """Results of a graph, how it is compiled, and the sizes of the dimensions that only a call knows."""

    seed: int
    kind: str
    results: tuple[Node, ...]
    target: Mapping[str, object] | None
    level: int
    #: Label of a dimension -> its size, for each call.
    sizes: tuple[Mapping[str, int], ...]

    def nodes(self) -> list[Node]:
        """All nodes, arguments before what uses them."""
        seen: dict[Node, None] = {}

        def visit(node: Node) -> None:
            if node not in seen:
                for arg in node.args:
                    visit(arg)
                seen[node] = None

        for result in self.results:
            visit(result)
        return list(seen)

    @property
    def params(self) -> list[Node]:
        return [node for node in self.nodes() if isinstance(node.expr, Var)]

    def module(self) -> Module:
        body = self.results[0].expr if len(self.results) == 1 else Tuple(tuple(r.expr for r in self.results))
        params = tuple(node.expr for node in self.params)
        return infer_type(Module({"main": Function(params, body)}))  # type: ignore[arg-type]

    def __str__(self) -> str:
        text = self.module().astext(show_meta_data=False)
        return f"seed {self.seed}, target {self.target}, level {self.level}\n{text}"


def of_tuple(compute: Callable[..., Value], values: tuple[Array, ...]) -> Value:
    return compute(*values)


def item(index: int, values: tuple[Array, ...]) -> Array:
    return values[index]


def broadcasts(node: Node, other: Node) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(node.shape, other.shape))) <= MOST_ELEMENTS
    except ValueError:
        return False


def is_whole(value: Value) -> bool:
    return bool(np.all(value == np.trunc(value)))


def is_small(node: Node) -> bool:
    """Whether products with it are exact."""
    return (is_whole(node.value) and bool(np.abs(node.value).max(initial=0) <= 40)) or not node.is_float


def check_value(value: Value, type_: Type, kind: str) -> Value:
    """The value, where the dtype holds it exactly (or nearly enough). Raises Unfit."""
    if isinstance(value, tuple):
        assert isinstance(type_, TupleType)
        return tuple(check_value(v, t, kind) for v, t in zip(value, type_.fields, strict=True))  # type: ignore[misc]
    assert isinstance(type_, TensorType)
    value = np.asarray(value)
    if type_.dtype == "bool" or not value.size:
        return value
    if kind == "special" and type_.dtype.startswith("float"):
        return value
    if kind == "smooth":
        if not np.all(np.abs(value) < 200):
            raise Unfit
        return value
    low = 0 if type_.dtype == "uint8" else -LIMITS[type_.dtype]
    parts = value * 256 if type_.dtype.startswith("float") else value
    if not (np.all(value >= low) and np.all(value <= LIMITS[type_.dtype]) and is_whole(parts)):
        raise Unfit
    return value


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 3e38, -3e38, 2.5, 1e-38]


def random_values(rng: np.random.Generator, shape: Sequence[int], dtype: str, kind: str) -> Array:
    """Small integers, or what the kind has; in the widest dtype of the kind of number."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float") and kind == "special":
        return rng.choice(np.array(SPECIAL, "float32"), shape).astype("float64")
    if dtype.startswith("float") and kind == "smooth":
        return rng.uniform(-2, 2, shape).astype("float32").astype("float64")
    low, high = (0, 4) if dtype == "uint8" else (-4, 4) if rng.random() < 0.5 else (-1, 1)
    return rng.integers(low, high + 1, shape).astype("float64" if dtype.startswith("float") else "int64")
