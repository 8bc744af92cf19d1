"""Short ways to write ONNX graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node


def info(name: str, shape: Sequence[object] | None = (2, 3), dtype: str = "float32") -> onnx.ValueInfoProto:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, number, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto | str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 19,
) -> onnx.ModelProto:
    """A model; an output may be a name, whose shape is not stated."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    stated = [info(each, None) if isinstance(each, str) else each for each in outputs]
    graph = helper.make_graph(list(nodes), "net", list(inputs), stated, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def judge(proto: onnx.ModelProto, *args: np.ndarray) -> list[np.ndarray]:
    """What the standard's own evaluator gives."""
    names = [each.name for each in proto.graph.input]
    return ReferenceEvaluator(proto).run(None, dict(zip(names, args, strict=True)))
