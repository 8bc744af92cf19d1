"""Represent a random program: its text, the arguments of its calls, and what its judges allow."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from nnmagic.relay.values import AdtValue

if TYPE_CHECKING:
    from tests.random_programs.steps import Steps

#: What a function is called with.
Arguments = tuple[object, ...]


@dataclass(frozen=True)
class Rules:
    """What the judges of a program allow.

    Args:
        rtol: how far floats may be from what Python gives, relative to the largest of their array.
        errors: what a call may raise, where Python raises the same.
        refusals: words of the messages with which a cell may be refused.
        numpy: whether the text says ``np``; otherwise the names are those of a cell.
        changes: whether a function changes its arguments, which are compared, too.
        largest: results with larger numbers are not compared, nor are those with NaN.
        agrees: whether a cell that only raises in Python may be refused.

    """

    rtol: float = 0.0
    errors: tuple[type[Exception], ...] = ()
    refusals: tuple[str, ...] = ()
    numpy: bool = False
    changes: bool = False
    largest: float = math.inf
    agrees: bool = False


@dataclass(frozen=True)
class Program:
    """A cell, or Relay text, and the arguments of its calls.

    Args:
        family: the name of the family that wrote it.
        seed: from which the family writes it again.
        source: the text; the last function of a cell is called, ``@main`` of Relay text.
        calls: the arguments of each call.
        rules: what the judges allow.
        steps: its statements, of programs that NumPy computes as they are written.

    """

    family: str
    seed: int
    source: str
    calls: tuple[Arguments, ...]
    rules: Rules = field(default_factory=Rules)
    steps: Steps | None = None

    def with_source(self, source: str) -> Program:
        """Return another program for the same calls."""
        return replace(self, source=source)

    def record(self) -> dict[str, object]:
        """Return the program as JSON has it."""
        calls = [[_to_json(each) for each in arguments] for arguments in self.calls]
        return {"family": self.family, "seed": self.seed, "calls": calls, "source": self.source}

    @classmethod
    def of_record(cls, record: dict, rules: Rules) -> Program:
        """Return the program of a record."""
        calls = tuple(tuple(map(_of_json, arguments)) for arguments in record["calls"])
        return cls(record["family"], record["seed"], record["source"], calls, rules)


def _to_json(value: object) -> object:
    if isinstance(value, AdtValue):
        return {"constructor": value.constructor, "fields": [_to_json(each) for each in value.fields]}
    if isinstance(value, np.ndarray):
        return {
            "dtype": value.dtype.name,
            "shape": value.shape,
            "data": value.astype(object).ravel().tolist(),
        }
    return value


def _of_json(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if "fields" in value:
        return AdtValue(value["constructor"], tuple(map(_of_json, value["fields"])))
    dtype = ml_dtypes.bfloat16 if value["dtype"] == "bfloat16" else np.dtype(value["dtype"])
    return np.array(value["data"]).astype(dtype).reshape(value["shape"])


@dataclass(frozen=True)
class Family:
    """Programs of one kind.

    Args:
        name: on the command line.
        write: returns the program of a seed.
        judges: the names of the judges that a search asks.

    """

    name: str
    write: Callable[[int], Program]
    judges: tuple[str, ...]


def seeded(family: str, seed: int) -> random.Random:
    """Return the source of a program's choices, the same on every machine."""
    return random.Random(f"{family} {seed}")


def choose(chance: random.Random, shape: Sequence[int], dtype: object, values: Sequence[float]) -> np.ndarray:
    """Return an array whose elements are some of the values."""
    elements = chance.choices(values, k=math.prod(shape))
    wide = np.array(elements, None if len(elements) else np.float64)
    return wide.astype(dtype).reshape(shape)


def uniform(
    chance: random.Random, shape: Sequence[int], dtype: object = "f8", most: float = 2.0
) -> np.ndarray:
    """Return an array of floats between ``-most`` and ``most``."""
    numbers = [chance.uniform(-most, most) for _ in range(math.prod(shape))]
    return np.array(numbers, "f8").astype(dtype).reshape(shape)
