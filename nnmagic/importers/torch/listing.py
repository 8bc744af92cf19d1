"""Write a captured graph as text that people can read, a line for each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnmagic.importers.origins import Listing, make_listing, shown_value
from nnmagic.importers.torch.errors import source_line
from nnmagic.importers.torch.graphs import name_of

if TYPE_CHECKING:
    from torch.fx import GraphModule
    from torch.fx import Node as FxNode


def graph_listing(module: GraphModule, name: str) -> Listing:
    """Return the listing of a graph, with the lines of the module's source; its nodes are torch's."""
    computed = [node for node in module.graph.nodes if node.op != "placeholder"]
    nodes = [(node, str(node.name), f"  {_statement(node)}") for node in computed]
    inputs = [f"  {_with_types(node)}" for node in module.graph.nodes if node.op == "placeholder"]
    return make_listing(f"<torch {name}>", [f"{name}(", *inputs, "):"], nodes)


def _statement(node: FxNode) -> str:
    place = source_line(node)
    return "".join(_parts(node)) + (f"  # {place}" if place else "")


def _parts(node: FxNode) -> Iterator[str]:
    if node.op == "output":
        yield f"return {_argument(node.args[0])}"
        return
    yield f"{node.name} = "
    if node.op == "get_attr":
        yield str(node.target)
        return
    target = name_of(node.target) if callable(node.target) else str(node.target)
    keywords = (f"{name}={_argument(value)}" for name, value in node.kwargs.items())
    yield f"{target}({', '.join([*map(_argument, node.args), *keywords])})"


def _argument(value: Any) -> str:
    from torch.fx import Node

    match value:
        case Node():
            return str(value.name)
        case list() | tuple():
            return f"[{', '.join(map(_argument, value))}]"
        case _:
            return shown_value(value)


def _with_types(node: FxNode) -> str:
    traced = node.meta.get("val")
    shape = getattr(traced, "shape", None)
    if shape is None:
        return str(node.name)
    dtype = str(traced.dtype).removeprefix("torch.")
    return f"{node.name}: {dtype}[{', '.join(map(str, shape))}]"
