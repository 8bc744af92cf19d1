"""Present a node to the rule of its operator: arguments by ATen's names, and the results' types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import normalize_axis
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.tensors import dtype_of
from nnmagic.relay.types import ANY, ARRAY_DTYPES, NUMPY_DTYPES, Dim, is_complex

if TYPE_CHECKING:
    from nnmagic.importers.onnx.blocks import OnnxBlock
    from nnmagic.importers.torch.graphs import TorchGraphImporter


@dataclass(slots=True)
class AtenCall:
    """A call of an operator.

    ``arguments``: tensors and symbolic sizes are Values, the latter of rank 0 with ``sizes``.
    ``results``: what torch says of each result; ``originals``: the arguments as torch traced them.
    """

    name: str
    overload: str
    arguments: Mapping[str, Any]
    results: Sequence[Any]
    originals: Mapping[str, Any]
    importer: TorchGraphImporter
    block: OnnxBlock

    @property
    def own_name(self) -> str:
        """Return the operator's name without that of its namespace."""
        return self.name.rpartition(".")[2]

    def __getitem__(self, name: str) -> Value:
        value = self.arguments.get(name)
        if not isinstance(value, Value):
            raise UnsupportedError(f"the argument {name!r} must be a tensor")
        return value

    def get(self, name: str) -> Value | None:
        """Return an optional tensor."""
        value = self.arguments.get(name)
        return value if isinstance(value, Value) else None

    def values(self, name: str) -> list[Value]:
        """Return a list of tensors."""
        return [cast(Value, item) for item in self.arguments[name]]

    def argument(self, name: str, default: object = None) -> Any:
        """Return an argument as it is."""
        value = self.arguments.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an argument that is an int. Raises UnsupportedError for one known only at the call."""
        return self.whole(self.argument(name, default), name)

    def whole(self, value: Any, name: str) -> int:
        """Return an argument, or an item of one, as an int."""
        if isinstance(value, Value):
            if value.known is None:
                raise UnsupportedError(
                    f"the argument {name!r} must be known when the program is captured",
                    "give the inputs that it depends on fixed sizes",
                )
            return int(value.known)
        return int(value)

    def ints(self, name: str) -> list[int]:
        """Return an argument that is a list of ints; a missing one is empty."""
        numbers = self.argument(name, ())
        return [
            self.whole(item, name) for item in (numbers if isinstance(numbers, list | tuple) else (numbers,))
        ]

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an argument that is a number."""
        value = self.argument(name, default)
        if isinstance(value, Value):
            if value.known is None:
                raise UnsupportedError(f"the argument {name!r} must be known when the program is captured")
            return float(value.known)
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return an argument that is a bool."""
        return bool(self.argument(name, default))

    def axis(self, name: str, rank: int, default: int = 0) -> int:
        """Return an axis counted from the front; a tensor of rank 0 counts as one of rank 1."""
        return normalize_axis(self.integer(name, default), max(rank, 1))

    def axes(self, name: str, rank: int) -> list[int]:
        """Return axes counted from the front; none given are all."""
        value = self.argument(name)
        if value is None or value == []:
            return list(range(rank))
        return sorted({normalize_axis(axis, max(rank, 1)) for axis in self.ints(name)})

    def dims(self, name: str) -> list[Dim]:
        """Return a list of sizes, which may be symbolic."""
        return [self.dim(item) for item in self.argument(name, ())]

    def dim(self, item: Any) -> Dim:
        """Return a size as a dimension."""
        if not isinstance(item, Value):
            return int(item)
        if item.known is not None:
            return int(item.known)
        return item.sizes[0] if item.sizes else ANY

    def number_value(self, name: str, dtype: str) -> Value:
        """Return an argument that is a number or a tensor, in a dtype."""
        item = self.arguments[name]
        if isinstance(item, Value):
            return convert(item, dtype)
        return scalar_constant(item, dtype)

    @property
    def dtype(self) -> str:
        """Return the dtype of the first result."""
        return dtype_of(self.results[0].dtype)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Return the shape of the first result."""
        return self.importer.shape_of(self.results[0])

    def promote(self, *names: str) -> tuple[str, list[Value]]:
        """Return the dtype to which torch promotes operands, and the operands in it."""
        import torch

        lhs, rhs = (self.originals[name] for name in names)
        dtype = dtype_of(torch.result_type(lhs, rhs))
        return dtype, [self.number_value(name, dtype) for name in names]

    def reshape(self, data: Value, shape: Sequence[Dim]) -> Value:
        """Return a tensor in another shape of as many elements."""
        try:
            return shapes.reshape(data, shape)
        except UnsupportedError:
            return shapes.reshape(data, shape, vector=self.vector(shape))

    def expand(self, data: Value, shape: Sequence[Dim]) -> Value:
        """Broadcast a tensor to a shape."""
        if tuple(shape) == data.shape and ANY not in shape:
            return data
        if shapes.is_static(shape):
            return shapes.expand_to(data, shape)
        return shapes.expand_to(data, shape, vector=self.vector(shape))

    def full(self, shape: Sequence[Dim], fill: Value) -> Value:
        """Return a tensor of one value."""
        if shapes.is_static(shape):
            return shapes.full(shape, fill)
        return shapes.full(shape, fill, vector=self.vector(shape))

    def vector(self, shape: Sequence[Dim]) -> Value:
        """Return a shape as an int64 vector."""
        return self.importer.vector(shape)

    def size(self, dim: Dim) -> Value:
        """Return a dimension as an int64 of rank 0."""
        return self.importer.size(dim)

    def static(self, value: Value) -> list[int]:
        """Return the shape of a tensor. Raises UnsupportedError where it is known only at the call."""
        return _known(value.shape, "its sizes")

    def image(self, value: Value, rank: int) -> list[int]:
        """Return the last sizes of a tensor. Raises UnsupportedError where only the call knows them."""
        return _known(value.shape[-rank:], "the sizes of the image")


def _known(sizes: Sequence[Dim], what: str) -> list[int]:
    if not shapes.is_static(sizes):
        raise UnsupportedError(
            f"{what} must be known when the program is captured", "leave them out of dynamic_shapes"
        )
    return [int(cast(int, dim)) for dim in sizes]


def scalar_constant(number: Any, dtype: str) -> Value:
    """Return a Python number in a dtype; ints wrap around as C's do."""
    if is_complex(dtype):
        return constant(np.asarray(number, ARRAY_DTYPES[dtype]))
    if isinstance(number, complex):
        raise UnsupportedError(f"{number} is no number of {dtype}")
    if dtype == "bool":
        return constant(np.bool_(number))
    if isinstance(number, float) and not dtype.startswith(("float", "bfloat")):
        number = int(number)
    if isinstance(number, int) and not dtype.startswith(("float", "bfloat")):
        return constant(np.array(number).astype(NUMPY_DTYPES[dtype]))
    with np.errstate(over="ignore"):  # what is too large is infinite
        return constant(np.asarray(number, NUMPY_DTYPES[dtype]))


def over_elements(data: Value) -> Value:
    """Return a tensor of rank 0 as one of rank 1."""
    return op("expand_dims", data, axis=0) if not data.rank else data
