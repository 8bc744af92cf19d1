"""Write ONNX graphs as Python calls: ``graph.Relu(graph.Conv(x, w, pads=[1, 1, 1, 1]))``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Old enough for what is installed, new enough for Gelu and LayerNormalization.
OPSET = 20
#: The domain of classical machine learning, and the version of its operators.
ML = "ai.onnx.ml"
ML_OPSET = 3
IR_VERSION = 10


class Graph:
    """A graph under construction; calling an operator's name adds a node and gives its result's name."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []

    def constant(self, array: np.ndarray, name: str | None = None) -> str:
        """The name of a value that the model holds."""
        name = name or f"constant{len(self._initializers)}"
        self._initializers.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def __getattr__(self, operator: str) -> Callable[..., str]:
        def node(*values: str, **attributes: object) -> str:
            name = f"value{len(self._nodes)}"
            made = self._onnx.helper.make_node(operator, list(values), [name], **attributes)
            self._nodes.append(made)
            return name

        return node

    def model(self, arguments: Mapping[str, np.ndarray], result: str, like: np.ndarray) -> bytes:
        """The finished model, with arguments and a result of those shapes and dtypes."""
        helper = self._onnx.helper

        def info(name: str, array: np.ndarray) -> Any:
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, element, array.shape)

        inputs = [info(name, array) for name, array in arguments.items()]
        graph = helper.make_graph(self._nodes, "case", inputs, [info(result, like)], self._initializers)
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        return bytes(model.SerializeToString())
