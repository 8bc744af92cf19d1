"""Import the operators of optional values, of which there are only tensors that are given or not.

The standard: https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
"""

from __future__ import annotations

from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, constant


@operator("OptionalHasElement", note="of tensors")
def _optional_has_element(node: OnnxNode) -> Value:
    return constant(node.get(0) is not None, "bool")


@operator("OptionalGetElement", note="of tensors")
def _optional_get_element(node: OnnxNode) -> Value:
    return node[0]
