"""Present a node to the rule of its operator: inputs, attributes, and what is declared of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.values import TensorSequence, Value, constant, op
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType

if TYPE_CHECKING:
    from onnx import GraphProto, TypeProto

    from nnmagic.importers.onnx.blocks import OnnxBlock
    from nnmagic.importers.onnx.graphs import GraphImporter, Scope


@dataclass(slots=True)
class OnnxNode:
    """A node with its inputs.

    ``since``: the opset of the operator's form. ``declared``: the shapes that the model states for the
    outputs, with None for an unknown size. ``input_names``: the operator's own names of its inputs.
    """

    op_type: str
    since: int
    inputs: Sequence[Value | TensorSequence | None]
    attributes: Mapping[str, object]
    output_count: int
    declared: Sequence[tuple[int | None, ...] | None]
    input_names: Sequence[str]
    importer: GraphImporter
    scope: Scope

    @property
    def block(self) -> OnnxBlock:
        """Return the statements of the function that the node is in."""
        return self.scope.block

    def __getitem__(self, index: int) -> Value:
        value = self.get(index)
        if value is None:
            raise UnsupportedError(f"the input {self.input_name(index)!r} is missing")
        return value

    def get(self, index: int) -> Value | None:
        """Return an optional input, None if it is not given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, TensorSequence):
            raise UnsupportedError(f"the input {self.input_name(index)!r} is a sequence, not a tensor")
        return value

    def sequence(self, index: int) -> TensorSequence:
        """Return an input that is a sequence."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, TensorSequence):
            raise UnsupportedError(f"the input {self.input_name(index)!r} must be a sequence")
        return value

    def input_name(self, index: int) -> str:
        """Return the operator's own name of an input."""
        return self.input_names[index] if index < len(self.input_names) else str(index)

    def attr(self, name: str, default: object = None) -> object:
        """Return an attribute, or its default."""
        return self.attributes.get(name, default)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an int."""
        return int(cast(int, self.attributes.get(name, default)))

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a float."""
        return float(cast(float, self.attributes.get(name, default)))

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a string."""
        return str(self.attributes.get(name, default))

    def ints(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of ints; None if it is not given."""
        value = self.attributes.get(name)
        return None if value is None else [int(item) for item in cast("Sequence[int]", value)]

    def floats(self, name: str) -> list[float] | None:
        """Return an attribute that is a list of floats; None if it is not given."""
        value = self.attributes.get(name)
        return None if value is None else [float(item) for item in cast("Sequence[float]", value)]

    def graph(self, name: str) -> GraphProto:
        """Return an attribute that is a graph."""
        return cast("GraphProto", self.attributes[name])

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """Return an attribute that is an axis, counted from the front. Raises UnsupportedError."""
        return normalize_axis(self.integer(name, default), rank)

    def output_shape(self) -> tuple[int, ...] | None:
        """Return the shape that the model declares for the first output, if all of it is known."""
        shape = self.declared[0] if self.declared else None
        return None if shape is None or None in shape else cast("tuple[int, ...]", shape)

    def static(
        self, index: int, guess: Callable[[], Sequence[int] | int | np.ndarray | None] | None = None
    ) -> list[int]:
        """Return the integers of an input. Raises UnsupportedError if they are not known.

        ``guess`` returns what follows from the declared shapes: the call checks that it is right.
        """
        return [int(item) for item in self.static_array(index, guess).reshape(-1)]

    def static_array(
        self, index: int, guess: Callable[[], Sequence[int] | int | np.ndarray | None] | None = None
    ) -> np.ndarray:
        """Return what an input holds, as `static` does."""
        value = self[index]
        if value.known is not None:
            return value.known
        guessed = guess() if guess is not None else None
        if guessed is None:
            raise self.unknown(index)
        array = np.asarray(guessed, np.dtype(value.dtype))
        if len(value.shape) != array.ndim:
            array = array.reshape([int(cast(int, dim)) for dim in value.shape])
        self.block.require(value, array, f"{self.op_type}: {self.input_name(index)}")
        return array

    def unknown(self, index: int) -> UnsupportedError:
        """Return the error for an input that must be known while importing."""
        return UnsupportedError(
            f"the input {self.input_name(index)!r} must be a constant or follow from the declared shapes",
            "export the model with this input as a constant, or with fixed sizes",
        )

    def choose(
        self, index: int, candidates: Sequence[object], build: Callable[[object], Value], what: str = ""
    ) -> Value:
        """Build a result for each value that an input may have; the call takes the right one.

        ``candidates`` are arrays or numbers of the input's shape; ``build`` gives results of one type.
        """
        value = self[index]
        if not candidates:
            raise self.unknown(index)
        arrays = [
            np.asarray(candidate, np.dtype(value.dtype)).reshape(_ints(value.shape))
            for candidate in candidates
        ]
        tests: list[Value] = []
        for array in arrays:
            equal = value.equal(constant(array))
            tests.append(op("all", equal) if equal.rank else equal)
        allowed = tests[0]
        for test in tests[1:]:
            allowed = op("logical_or", allowed, test)
        shown = ", ".join(str(array.tolist()) for array in arrays[:8])
        what = what or self.input_name(index)
        self.block.check(allowed, f"{self.op_type}: {what} must be one of {shown} for the declared shapes")
        result = build(candidates[-1])
        for candidate, test in zip(candidates[-2::-1], tests[-2::-1], strict=True):
            branch = build(candidate)
            result = Value(ir.If(test.expr, branch.expr, result.expr), merge(branch.type, result.type))
        return result


def merge(lhs: TensorType, rhs: TensorType) -> TensorType:
    """Return the type of what is one of two tensors. Raises UnsupportedError for ranks that differ."""
    from nnmagic.relay.types import ANY

    if lhs.dtype != rhs.dtype or len(lhs.shape) != len(rhs.shape):
        raise UnsupportedError(
            f"one branch gives {lhs}, the other {rhs}",
            "they must be of one rank and dtype, or fixed sizes decide the condition: shapes={...}",
        )
    shape = tuple(a if a == b else ANY for a, b in zip(lhs.shape, rhs.shape, strict=True))
    return TensorType(shape, lhs.dtype)


def _ints(shape: Sequence[object]) -> list[int]:
    return [int(cast(int, dim)) for dim in shape]


def normalize_axis(axis: int, rank: int) -> int:
    """Count a negative axis from the front. Raises UnsupportedError if there is no such axis."""
    if not -rank <= axis < rank:
        raise UnsupportedError(f"axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


def type_proto(value: Value | TensorSequence | None) -> TypeProto:
    """Return a tensor's type as ONNX writes it."""
    from onnx import TypeProto, helper

    from nnmagic.importers.onnx.element_types import NUMBERS

    if not isinstance(value, Value):
        return TypeProto()
    shape = [int(dim) if isinstance(dim, int) else None for dim in value.shape]
    return helper.make_tensor_type_proto(NUMBERS[value.dtype], shape)
