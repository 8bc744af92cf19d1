"""Write an ONNX model as text that people can read, a line for each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nnmagic.importers.onnx.element_types import element_type_name
from nnmagic.importers.origins import Listing, make_listing, shown_name, shown_value

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

#: The short names of element types that have another one in Relay.
_DTYPES = {"float": "float32", "double": "float64"}


def model_listing(proto: ModelProto) -> Listing:
    """Return the listing of a model; its nodes are known by their numbers."""
    opsets = ", ".join(f"{item.domain or 'ai.onnx'} {item.version}" for item in proto.opset_import)
    producer = f", written by {proto.producer_name}" if proto.producer_name else ""
    name = shown_name(proto.graph.name) if proto.graph.name else "graph"
    head = [f"# {opsets}{producer}", *_head(proto.graph, name)]
    nodes = [(number, _name(node), f"  {_node(node)}") for number, node in enumerate(proto.graph.node)]
    return make_listing(f"<onnx {name}>", head, nodes)


def _head(graph: GraphProto, name: str) -> Iterator[str]:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = ", ".join(_info(info) for info in graph.input if info.name not in constants)
    yield f"{name}({inputs}) -> ({', '.join(map(_info, graph.output))}):"
    for tensor in graph.initializer:
        yield f"  {shown_name(tensor.name)}: {_tensor(tensor)}"


def _info(info: ValueInfoProto) -> str:
    kind = str(info.type.WhichOneof("value"))
    if kind != "tensor_type":
        return f"{shown_name(info.name)}: {kind.removesuffix('_type')}"
    tensor = info.type.tensor_type
    dims = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
    ]
    shape = f"[{', '.join(dims)}]" if tensor.HasField("shape") else "[…]"
    return f"{shown_name(info.name)}: {_dtype(tensor.elem_type)}{shape}"


def _dtype(number: int) -> str:
    name = element_type_name(number)
    return _DTYPES.get(name, name)


def _tensor(tensor: TensorProto) -> str:
    return f"{_dtype(tensor.data_type)}[{', '.join(map(str, tensor.dims))}]"


def _name(node: NodeProto) -> str:
    """Return the name of a node; one without a name has that of its first output."""
    return shown_name(node.name or next(filter(None, node.output), node.op_type))


def _node(node: NodeProto) -> str:
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    attributes = [f"{attribute.name}={_attribute(attribute)}" for attribute in node.attribute]
    inputs = [shown_name(name) if name else "_" for name in node.input]
    outputs = ", ".join(shown_name(name) if name else "_" for name in node.output)
    label = f"  # {shown_name(node.name)}" if node.name else ""
    return f"{outputs} = {domain}{node.op_type}({', '.join([*inputs, *attributes])}){label}"


def _attribute(attribute: AttributeProto) -> str:
    from onnx import AttributeProto as Attribute

    if attribute.ref_attr_name:
        return str(attribute.ref_attr_name)
    match attribute.type:
        case Attribute.TENSOR:
            return _tensor(attribute.t)
        case Attribute.GRAPH:
            return f"<{len(attribute.g.node)} nodes>"
        case Attribute.STRING:
            return shown_value(attribute.s.decode("utf-8", "replace"))
        case Attribute.STRINGS:
            return shown_value([item.decode("utf-8", "replace") for item in attribute.strings])
        case Attribute.INTS:
            return shown_value(list(attribute.ints))
        case Attribute.FLOATS:
            return shown_value(list(attribute.floats))
        case Attribute.INT:
            return str(attribute.i)
        case Attribute.FLOAT:
            return shown_value(float(attribute.f))
    return f"<{Attribute.AttributeType.Name(attribute.type).lower()}>"
