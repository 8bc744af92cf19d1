"""Define what the rule of an operator gets: a call of Relay with the names of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.writer import OnnxTensor, Writer
from nnmagic.importers.onnx.element_types import NUMBERS
from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import NUMPY_DTYPES, Dim, TensorType, TupleType, Type

#: A size that is known, or the name of a vector that holds one.
Size = int | str


@dataclass(frozen=True, slots=True)
class ExportCall:
    """A call of an operator.

    ``tensors``: its operands, those of a tuple one by one. ``result``: the type of its result.
    """

    tensors: tuple[OnnxTensor, ...]
    attrs: Attrs
    result: Type
    writer: Writer

    # -- what is given -------------------------------------------------------------------------------

    @property
    def args(self) -> list[str]:
        """Return the names of the operands."""
        return [tensor.name for tensor in self.tensors]

    @property
    def dtype(self) -> str:
        """Return the dtype of the first operand."""
        return self.tensors[0].type.dtype

    @property
    def rank(self) -> int:
        """Return the number of axes of the first operand."""
        return len(self.tensors[0].type.shape)

    @property
    def type(self) -> TensorType:
        """Return the type of a result that is one tensor."""
        return cast("TensorType", self.result)

    @property
    def result_dtype(self) -> str:
        """Return the dtype of the result, or of the first of a tuple."""
        first = self.result.fields[0] if isinstance(self.result, TupleType) else self.result
        return cast("TensorType", first).dtype

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the shape of an operand."""
        return self.tensors[index].type.shape

    def static_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an operand; refuse the call if a size is known at run time only."""
        return static(self.shape(index))

    def known(self, index: int) -> np.ndarray | None:
        """Return what an operand holds, if it is a constant."""
        return self.writer.constants.get(self.tensors[index].name)

    def integer(self, name: str) -> int:
        """Return an attribute that is an integer."""
        return int(cast("int", self.attrs[name]))

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is an integer, or a sequence of integers."""
        value = self.attrs[name]
        return (
            tuple(int(item) for item in value) if isinstance(value, tuple | list) else (self.integer(name),)
        )

    def number(self, name: str) -> float:
        """Return an attribute that is a number."""
        return float(cast("float", self.attrs[name]))

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return an attribute that is an axis of an operand, counted from the first."""
        return self.integer(name) % max(len(self.shape(index)), 1)

    # -- what is written -----------------------------------------------------------------------------

    def node(self, op: str, *inputs: str, **attrs: object) -> str:
        """Write a node with one output and return its name."""
        return self.writer.node(op, *inputs, outputs=1, **attrs)[0]

    def nodes(self, op: str, *inputs: str, outputs: int, **attrs: object) -> list[str]:
        """Write a node with several outputs and return their names."""
        return self.writer.node(op, *inputs, outputs=outputs, **attrs)

    def constant(self, value: object, dtype: str | None = None) -> str:
        """Return the name of a constant; its dtype is that of the first operand if none is given."""
        with np.errstate(over="ignore"):
            return self.writer.constant(np.array(value, NUMPY_DTYPES[dtype or self.dtype]))

    def vector(self, sizes: Sequence[Size]) -> str:
        """Return the name of an int64 vector."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(list(sizes), "int64")
        entries = [size if isinstance(size, str) else self.constant([size], "int64") for size in sizes]
        return entries[0] if len(entries) == 1 else self.node("Concat", *entries, axis=0)

    def cast(self, name: str, dtype: str) -> str:
        """Convert to a dtype, which the tensor may have already."""
        return self.node("Cast", name, to=NUMBERS[dtype])

    def operand(self, index: int, dtype: str) -> str:
        """Return an operand in a dtype."""
        tensor = self.tensors[index]
        return tensor.name if tensor.type.dtype == dtype else self.cast(tensor.name, dtype)

    def to_result(self, name: str, dtype: str) -> str:
        """Convert a tensor of a dtype to that of the result."""
        return name if dtype == self.result_dtype else self.cast(name, self.result_dtype)

    def sizes(self, index: int = 0) -> list[Size]:
        """Return the sizes of an operand: numbers where they are known."""
        shape = self.shape(index)
        if all(isinstance(dim, int) for dim in shape):
            return [int(cast("int", dim)) for dim in shape]
        return [self.size(axis, index) for axis in range(len(shape))]

    def size(self, axis: int, index: int = 0) -> Size:
        """Return the size of an axis of an operand."""
        dim = self.shape(index)[axis]
        if isinstance(dim, int):
            return dim
        return self.node("Shape", self.args[index], start=axis, end=axis + 1)

    def reshape(self, name: str, sizes: Sequence[Size]) -> str:
        """Return a tensor in another shape."""
        return self.node("Reshape", name, self.vector(sizes), allowzero=int(0 in sizes))

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        """Return a tensor with its axes in another order."""
        return name if list(axes) == sorted(axes) else self.node("Transpose", name, perm=list(axes))

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Return a tensor with further axes of size 1."""
        return self.node("Unsqueeze", name, self.vector(axes)) if axes else name

    def along(self, name: str, axis: int, rank: int) -> str:
        """Return a vector that broadcasts along one axis of a tensor of a rank."""
        return self.unsqueeze(name, range(1, rank - axis))


def static(shape: Sequence[Dim]) -> tuple[int, ...]:
    """Return a shape of known sizes, or refuse the call."""
    if not all(isinstance(dim, int) for dim in shape):
        raise ExportRefusalError("its sizes must be known at compile time", "give the parameters fixed sizes")
    return tuple(cast("tuple[int, ...]", tuple(shape)))
