"""Write the nodes and the constants of a graph, and of the graphs inside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nnmagic.importers.onnx.element_types import NUMBERS
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, TensorType, dtype_of_array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, ValueInfoProto

#: Constants with no more elements than this are written once for all that use the same.
_SMALL = 64


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """A tensor of the graph: its name and type."""

    name: str
    type: TensorType


@dataclass(slots=True)
class OnnxGraph:
    """A graph, or one inside a node, while it grows; ``made``: the names that its nodes give."""

    nodes: list[NodeProto] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


class Writer:
    """Write nodes to the innermost open graph; names are unique in the model."""

    def __init__(self) -> None:
        self.graph = OnnxGraph()
        #: The constants of the model by name.
        self.constants: dict[str, np.ndarray] = {}
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._by_array: dict[int, str] = {}
        self._taken: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """Return a name that nothing has yet."""
        count = self._taken.get(hint)
        if count is None:
            self._taken[hint] = 1
            return hint
        while (name := f"{hint}_{count}") in self._taken:
            count += 1
        self._taken[hint] = count + 1
        self._taken[name] = 1
        return name

    def node(self, op: str, *inputs: str, outputs: int, **attrs: object) -> list[str]:
        """Append a node and return the names of its outputs; an input that is left out is ""."""
        from onnx import helper

        names = [self.fresh(op.lower()) for _ in range(outputs)]
        operands = list(inputs)
        while operands and not operands[-1]:
            operands.pop()
        self.graph.nodes.append(helper.make_node(op, operands, names, **attrs))
        self.graph.made.update(names)
        return names

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        """Return the name of a constant."""
        if array.size <= _SMALL:
            key = (array.dtype.name, array.shape, array.tobytes())
            if key not in self._small:
                self._small[key] = self._new_constant(array, hint)
            return self._small[key]
        if id(array) not in self._by_array:  # the table of constants keeps it alive
            self._by_array[id(array)] = self._new_constant(array, hint)
        return self._by_array[id(array)]

    def _new_constant(self, array: np.ndarray, hint: str) -> str:
        assert dtype_of_array(array) in NUMPY_DTYPES
        name = self.fresh(hint)
        self.constants[name] = array
        return name

    @contextmanager
    def inner_graph(self) -> Iterator[OnnxGraph]:
        """Write to a new graph inside the open one."""
        outer, self.graph = self.graph, OnnxGraph()
        try:
            yield self.graph
        finally:
            self.graph = outer

    def own_outputs(self, tensors: Sequence[OnnxTensor]) -> list[OnnxTensor]:
        """Return tensors that the open graph makes itself, each once, as the outputs of a graph must be."""
        outputs: list[OnnxTensor] = []
        for tensor in tensors:
            name = tensor.name
            if name not in self.graph.made or any(name == other.name for other in outputs):
                (name,) = self.node("Identity", name, outputs=1)
            outputs.append(OnnxTensor(name, tensor.type))
        return outputs


def _value_info(tensor: OnnxTensor, *, sizes: bool = True) -> ValueInfoProto:
    """Return what a graph says of an input or output; without ``sizes`` the number of axes only."""
    from onnx import helper

    shape: list[int | str | None] = []
    for dim in tensor.type.shape:
        if not sizes:
            shape.append(None)
        elif isinstance(dim, AnyDim):
            shape.append(dim.label)
        else:
            shape.append(dim if isinstance(dim, int) else dim.name)
    return helper.make_tensor_value_info(tensor.name, NUMBERS[tensor.type.dtype], shape)


def graph_proto(
    graph: OnnxGraph,
    name: str,
    inputs: Sequence[OnnxTensor],
    outputs: Sequence[OnnxTensor],
    *,
    sizes: bool = True,
) -> GraphProto:
    """Return a graph as ONNX has it; without ``sizes`` it says only the number of axes of its tensors."""
    from onnx import helper

    ins = [_value_info(tensor, sizes=sizes) for tensor in inputs]
    return helper.make_graph(graph.nodes, name, ins, [_value_info(tensor, sizes=sizes) for tensor in outputs])
