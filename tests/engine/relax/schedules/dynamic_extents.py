"""Run in a child process: kernels of named sizes, between guard pages, against NumPy.

``python -m tests.engine.relax.schedules.dynamic_extents DTYPE CPU`` prints what differs; a read or write
outside of an array ends the process.
"""

from __future__ import annotations

import faulthandler
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tests.engine.relax.schedules.guarded_kernels import NAMED, Kernel

DTYPES = ("float32", "float64", "int32", "int8")

#: Around the lanes of vectors, of several vectors, and of groups of these.
SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130)

#: Around the columns of a block, and around a chunk of a long sum.
WIDE = (127, 128, 129, 255, 257, 511, 512, 513, 1100)
LONG = (16383, 16384, 16385, 32768, 40001, 300001)

#: A length that gives several rows enough work for threads.
_MUCH = (40001,)

_NUMBERS = {name: number for number, name in NAMED.items()}
_N, _M = "n", "m"
Dim = int | str


@dataclass(frozen=True)
class Case:
    """A body of parameters %a, %b, ... of these shapes, and the same function of NumPy.

    constants: what else the kernel takes. more: more values of the last named dimension.
    """

    body: str
    shapes: tuple[tuple[Dim, ...], ...]
    function: Callable[..., np.ndarray]
    floats_only: bool = False
    constants: tuple[int, ...] = ()
    more: tuple[int, ...] = ()

    def names(self) -> list[str]:
        """The named dimensions."""
        return [name for name in (_N, _M) if any(name in shape for shape in self.shapes)]

    def text(self, dtype: str) -> str:
        """The Relay text, in which numbers stand for the names."""
        shapes = [", ".join(str(_NUMBERS.get(dim, dim)) for dim in shape) + "," for shape in self.shapes]
        given = ", ".join(
            f"%{name}: Tensor[({shape}), {dtype}]" for name, shape in zip("abc", shapes, strict=False)
        )
        return f"def @main({given}) {{ {self.body.replace('TWO', two(dtype))} }}"

    def sizes(self) -> Iterator[dict[str, int]]:
        """The sizes to run with."""
        names = self.names()
        for values in itertools.product(SIZES, repeat=len(names)):
            if len(values) < 2 or min(values) <= 17 or values[0] == values[1]:
                yield dict(zip(names, values, strict=True))
        for size, first in itertools.product(self.more, (1, 9, 70) if len(names) > 1 else (1,)):
            yield {**dict.fromkeys(names, first), names[-1]: size}


def two(dtype: str) -> str:
    """The number 2 of a dtype, as Relay's text."""
    return {"float32": "2f", "float64": "2f64", "int32": "2"}.get(dtype, f'cast(2, dtype="{dtype}")')


def _argument(name: str, axis: int) -> Callable[[np.ndarray], np.ndarray]:
    def find(x: np.ndarray) -> np.ndarray:
        if x.shape[axis] == 0:
            return np.full(np.delete(x.shape, axis), -1, "int32")
        return getattr(np, name)(x, axis).astype("int32")

    return find


def _reduced(name: str, *axes: int) -> Callable[[np.ndarray], np.ndarray]:
    def reduce(x: np.ndarray) -> np.ndarray:
        if name == "max":
            lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
            return x.max(axes, initial=lowest)
        wide = x.astype("f8") if x.dtype.kind == "f" else x
        return getattr(np, name)(wide, axes, dtype=wide.dtype).astype(x.dtype)

    return reduce


def _softmax(axis: int) -> Callable[[np.ndarray], np.ndarray]:
    def softmax(x: np.ndarray) -> np.ndarray:
        e = np.exp(x.astype("f8") - x.max(axis, keepdims=True, initial=-np.inf))
        return e / e.sum(axis, keepdims=True)

    return softmax


def _normalized(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    x = x.astype("f8")
    distance = x - x.mean(-1, keepdims=True)
    return distance / np.sqrt((distance**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


_ROWS: tuple[tuple[Dim, ...], ...] = ((_N, _M), (_N, 256), (_N, 5), (_N, 100), (200, _M), (5, _M))

CASES = [
    *(
        case
        for shape, axis in itertools.product(_ROWS, (0, 1))
        for case in (
            Case(f"sum(%a, axis=[{axis}])", (shape,), _reduced("sum", axis), more=WIDE),
            Case(f"max(%a, axis=[{axis}])", (shape,), _reduced("max", axis), more=WIDE),
            Case(f"argmax(%a, axis=[{axis}])", (shape,), _argument("argmax", axis), more=WIDE),
        )
    ),
    *(
        Case(f"nn.softmax(%a, axis={axis})", (shape,), _softmax(axis), floats_only=True, more=WIDE)
        for shape, axis in itertools.product(_ROWS, (0, 1))
    ),
    Case("nn.layer_norm(%a, %b, %c)", ((_N, _M), (_M,), (_M,)), _normalized, floats_only=True),
    Case("nn.layer_norm(%a, %b, %c)", ((_N, 100), (100,), (100,)), _normalized, floats_only=True),
    Case("sum(%a)", ((_N,),), _reduced("sum", 0), more=LONG),
    Case("argmin(%a, axis=[0])", ((_N,),), _argument("argmin", 0), more=LONG),
    Case("sum(%a)", ((_N, _M),), _reduced("sum", 0, 1), more=LONG),
    Case("sum(%a, axis=[0, 2])", ((_N, 6, _M),), _reduced("sum", 0, 2)),
    Case("sum(%a, axis=[1])", ((_N, 6, _M),), _reduced("sum", 1)),
    Case("max(%a, axis=[1, 2])", ((3, _N, _M),), _reduced("max", 1, 2)),
    Case("multiply(abs(%a), %a)", ((_N, _M),), lambda a: abs(a) * a, more=_MUCH),
    Case("multiply(abs(%a), %a)", ((_N, 7),), lambda a: abs(a) * a),
    Case(
        "maximum(multiply(%a, TWO), %b)", ((_N, _M), (_M,)), lambda a, b: np.maximum(a * a.dtype.type(2), b)
    ),
    Case("add(%a, %b)", ((_N, _M), (_N, 1)), lambda a, b: a + b),
    Case("add(%a, %b)", ((_N, 1), (_M,)), lambda a, b: a + b),
    Case("add(%a, %b)", ((_N, 40), (40,)), lambda a, b: a + b),
    Case(
        "where(less(%a, %b), %a, negative(%b))",
        ((_N, _M), (_M,)),
        lambda a, b: np.where(a < b, a, -b),
        more=_MUCH,
    ),
    Case("transpose(%a, axes=[1, 0])", ((_N, _M),), np.transpose, more=_MUCH),
    Case("transpose(%a, axes=[1, 0])", ((_N, 5),), np.transpose),
    Case("transpose(%a, axes=[1, 0])", ((40, _N),), np.transpose),
    Case("transpose(%a, axes=[0, 2, 1])", ((_N, 3, _M),), lambda a: a.transpose(0, 2, 1)),
    Case("transpose(%a, axes=[1, 0, 2])", ((_N, _M, 9),), lambda a: a.transpose(1, 0, 2)),
    Case("concatenate((%a, %b), axis=0)", ((_N, 4), (_M, 4)), lambda *parts: np.concatenate(parts)),
    Case("concatenate((%a, %b), axis=1)", ((5, _N), (5, _M)), lambda *parts: np.concatenate(parts, 1)),
    Case("concatenate((%a, %b, %c), axis=1)", ((_N, _M), (_N, 3), (_N, _M)), lambda *x: np.concatenate(x, 1)),
    Case("stack((%a, %b), axis=1)", ((_N, _M), (_N, _M)), lambda *parts: np.stack(parts, 1)),
    Case(
        "nn.pad(%a, TWO, pad_width=[[1, 0], [2, 17]])",
        ((_N, _M),),
        lambda a, two: np.pad(a, [(1, 0), (2, 17)], constant_values=two),
        constants=(2,),
    ),
    Case("repeat(%a, repeats=3, axis=1)", ((_N, _M),), lambda a: np.repeat(a, 3, 1)),
    Case("tile(%a, reps=[2, 3])", ((_N, _M),), lambda a: np.tile(a, (2, 3))),
    *(
        case
        for shape, axis in (((_N, _M), 0), ((_N, _M), 1), ((_N, 6, _M), 1), ((_N,), 0), ((_N, 20), 0))
        for case in (
            Case(f"sort(%a, axis={axis})", (shape,), partial(np.sort, axis=axis), more=WIDE),
            Case(
                f'argsort(%a, axis={axis}, dtype="int32")',
                (shape,),
                partial(np.argsort, axis=axis, kind="stable"),
                more=WIDE,
            ),
        )
    ),
    Case("reverse(%a, axis=1)", ((_N, _M),), lambda a: a[:, ::-1]),
]


def drawn(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Numbers of an array: the first of those of its dtype and seed."""
    size = math.prod(shape)
    return _numbers(1 << max(16, size.bit_length()), dtype, seed)[:size].reshape(shape)


@cache
def _numbers(size: int, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, size])
    return (rng.integers(-9, 10, size) if "int" in dtype else rng.standard_normal(size)).astype(dtype)


def check(case: Case, dtype: str, target: object) -> Iterator[str]:
    """Yields what is wrong with the kernel of a case."""
    kernel = Kernel(case.text(dtype), target)
    tolerance = {"float32": 2e-5, "float64": 1e-12}.get(dtype, 0)
    for number, sizes in enumerate(case.sizes()):
        shapes = [[sizes.get(dim, dim) for dim in shape] for shape in case.shapes]
        arrays = [drawn(shape, dtype, seed) for seed, shape in enumerate(shapes)]
        arrays += [np.array(constant, dtype) for constant in case.constants]
        with np.errstate(all="ignore"):
            expected = case.function(*arrays)
        (found, *_) = kernel(*arrays, at_end=number % 2 == 0)
        if found.size == expected.size:
            found = found.reshape(expected.shape)  # of a tile, the kernel's result has more axes
        scale = max(1, found.size and sum(array.size for array in arrays) / found.size) ** 0.5
        if not np.allclose(found, expected, rtol=tolerance, atol=10 * tolerance * scale, equal_nan=True):
            yield f"{case.body} of {case.shapes}, {dtype}, {sizes}:\n{found}\nand not\n{expected}"


def main() -> None:
    """Check all cases for a dtype and this CPU; for another CPU half of them, each for two of the dtypes."""
    faulthandler.enable()
    dtype, cpu = sys.argv[1:3]
    target = None if cpu == "native" else {"kind": "llvm", "mcpu": cpu}
    cases = CASES if target is None else CASES[DTYPES.index(dtype) % 2 :: 2]
    for case in cases:
        if case.floats_only and "int" in dtype:
            continue
        sys.stderr.write(f"{case.body} of {case.shapes}\n")
        for wrong in check(case, dtype, target):
            sys.stdout.write(f"{wrong}\n")


if __name__ == "__main__":
    main()
