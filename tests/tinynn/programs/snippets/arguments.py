"""Arguments for a snippet, drawn from its annotations: ``Tensor[("n", 3), f32]``, ``f32``, ``tuple[...]``."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Sequence
from types import GenericAlias

import numpy as np

from tests.tinynn.programs.snippets.cases import Accepted
from tests.tinynn.python_twin.tensor import DTYPES, Dtype

CALLS = 3


class Tensor:
    """Stands for the annotation: ``Tensor[shape, dtype]`` gives the pair."""

    def __class_getitem__(cls, item: tuple[object, Dtype]) -> tuple[tuple[object, ...], Dtype]:
        shape, dtype = item
        return (tuple(shape) if isinstance(shape, tuple | list) else (shape,)), dtype


def arguments_of(case: Accepted) -> Sequence[tuple[object, ...]]:
    """The arguments of each call of a case."""
    if case.arguments:
        return case.arguments
    last = [node for node in ast.parse(case.source).body if isinstance(node, ast.FunctionDef)][-1]
    parameters = [*last.args.posonlyargs, *last.args.args]
    names = {**DTYPES, "Tensor": Tensor, "tuple": tuple, **case.namespace}
    calls = []
    for call in range(CALLS if parameters else 1):
        rng = np.random.default_rng(zlib.crc32(case.id.encode()) + call)
        sizes: dict[str, int] = {}
        drawn = []
        for parameter in parameters:
            assert parameter.annotation is not None, f"{case.id}: {parameter.arg} has no annotation"
            text = ast.unparse(parameter.annotation)
            annotation = eval(text, {}, names)
            drawn.append(_draw(annotation, rng, sizes, case.within.get(parameter.arg), call))
        calls.append(tuple(drawn))
    return calls


def _draw(
    annotation: object,
    rng: np.random.Generator,
    sizes: dict[str, int],
    within: tuple[float, float] | None,
    call: int,
) -> object:
    match annotation:
        case GenericAlias(__args__=parts):
            return tuple(_draw(part, rng, sizes, within, call) for part in parts)
        case Dtype() as dtype:
            return _array((), dtype.dtype, rng, within, call)
        case (tuple() as shape, Dtype() as dtype):
            return _array(tuple(_size(dim, rng, sizes) for dim in shape), dtype.dtype, rng, within, call)
    raise AssertionError(f"give the arguments: nothing can be drawn for {annotation!r}")


def _size(dim: object, rng: np.random.Generator, sizes: dict[str, int]) -> int:
    """A number as it is; a name, or arithmetic on names, by the sizes that the names get."""
    if isinstance(dim, int):
        return dim
    text = str(dim)
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name):
            sizes.setdefault(node.id, int(rng.integers(1, 6)))
    return int(eval(text, {}, sizes))


def _array(
    shape: tuple[int, ...],
    dtype: np.dtype,
    rng: np.random.Generator,
    within: tuple[float, float] | None,
    call: int,
) -> np.ndarray:
    """Numbers about zero; more are positive in one call, more negative in another."""
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape), dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = within or (0 if np.issubdtype(dtype, np.unsignedinteger) else -9, 9)
        return np.asarray(rng.integers(int(low), int(high) + 1, shape), dtype)
    if within is not None:
        return np.asarray(rng.uniform(*within, shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape) + (0, 1, -1)[call % 3]).astype(dtype)
