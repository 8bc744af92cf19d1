"""Find the standard's own definition of an operator as a function of simpler ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnmagic.importers.onnx.nodes import type_proto
from nnmagic.importers.onnx.values import TensorSequence, Value

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, NodeProto


def standard_body(
    schema: Any,
    node: NodeProto,
    inputs: Sequence[Value | TensorSequence | None],
    attributes: Mapping[str, AttributeProto],
    opset: int,
) -> FunctionProto | None:
    """Return the function body of an operator for a node; None if it has none."""
    from onnx import FunctionProto, NodeProto

    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        types = [type_proto(value).SerializeToString() for value in inputs]
        if versions:
            resolved = NodeProto()
            resolved.CopyFrom(node)
            del resolved.attribute[:]
            resolved.attribute.extend(attributes.values())
            text = schema.get_context_dependent_function_with_opset_version(
                max(versions), resolved.SerializeToString(), types
            )
            return _parse(text)
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        if versions:
            body: FunctionProto = FunctionProto()
            body.ParseFromString(schema.get_function_with_opset_version(max(versions)))
            return _with_attributes(body, schema)
    return None


def _parse(text: bytes) -> FunctionProto | None:
    from onnx import FunctionProto

    if not text:
        return None
    body = FunctionProto()
    body.ParseFromString(text)
    return body


def _with_attributes(body: FunctionProto, schema: Any) -> FunctionProto:
    """Give a body the defaults that its operator declares."""
    known = {item.name for item in body.attribute_proto}
    for name, declared in schema.attributes.items():
        if declared.default_value.name and name not in known:
            body.attribute_proto.append(declared.default_value)
    return body
