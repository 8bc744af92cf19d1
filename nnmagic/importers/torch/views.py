"""Let torch make the views among a graph's results, which share memory as those of eager torch do.

The compiled function computes what owns memory. The traced tensors of a graph say which results share a
storage, and how each lies in it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.torch.tensors import dim_of
from nnmagic.relay.ops.dims import as_polynomial
from nnmagic.relay.polynomials import evaluate
from nnmagic.relay.types import ANY, Dim

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph
    from torch.fx import Node as FxNode


def storages_of(traced: Any) -> set[int]:
    """Return the storages of a traced tensor, or of several."""
    import torch

    if isinstance(traced, list | tuple):
        return set().union(*map(storages_of, traced))
    if not isinstance(traced, torch.Tensor) or traced.layout != torch.strided:
        return set()
    return {traced.untyped_storage()._cdata}


def is_view(node: FxNode) -> bool:
    """Return whether a node's result lies in the memory of an operand, or is one of several that do."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    own = storages_of(node.meta.get("val"))
    return node.op == "call_function" and any(
        own & storages_of(operand.meta.get("val")) for operand in node.all_input_nodes
    )


def split_views(graph: Graph) -> Callable[..., list[Any]] | None:
    """Have a graph return what owns the memory of its results; return what makes the results of that.

    None where the graph's results are no views, and each another one. The views are no part of the graph any
    more, unless it computes with them.
    """
    import torch
    from torch.fx import Graph, GraphModule
    from torch.nn import Module

    end = next(node for node in graph.nodes if node.op == "output")
    outputs = end.args[0]
    wanted = [node for node in outputs if hasattr(node, "all_input_nodes")]
    views: set[FxNode] = set()
    open_nodes = list(wanted)
    owners: dict[FxNode, None] = {}
    while open_nodes:
        node = open_nodes.pop(0)
        # torch makes what `as_strided` has changed: it keeps eager's place in its storage.
        if not is_view(node) and node.target is not torch.ops.aten.as_strided_scatter.default:
            owners[node] = None
        elif node not in views:
            views.add(node)
            open_nodes.extend(node.all_input_nodes)
    if not views and len(owners) == len(wanted):
        return None
    view_graph = Graph()
    copies = {owner: view_graph.placeholder(owner.name) for owner in owners}
    for node in graph.nodes:
        if node in views:
            copies[node] = view_graph.node_copy(node, copies.__getitem__)
    results: list[Any] = []
    for output in outputs:  # the second of two results that are one node is another tensor in the same memory
        result = copies.get(output, output)
        if result is not None and result in results and storages_of(output.meta.get("val")):
            result = view_graph.call_function(torch.ops.aten.alias.default, (result,))
        results.append(result)
    view_graph.output(results)
    end.args = (list(owners),)
    for node in reversed(graph.nodes):
        if node in views and not node.users:
            graph.erase_node(node)
    return GraphModule(Module(), view_graph).forward  # type: ignore[no-any-return]


def name_storages(graph: Graph) -> list[int]:
    """Have `as_strided` take the tensor that owns a storage, or a new input: the storage of an argument.

    Returns the numbers of the arguments whose storages the new inputs are; these are behind all others.
    """
    import torch

    owners: dict[int, FxNode] = {}
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    added: dict[FxNode, FxNode] = {}
    for node in list(graph.nodes):
        if isinstance(node.meta.get("val"), torch.Tensor):
            for storage in storages_of(node.meta["val"]):
                owners.setdefault(storage, node)
        if node.target is not torch.ops.aten.as_strided.default:
            continue
        (own,) = storages_of(node.args[0].meta["val"])
        owner = owners[own]
        if owner.op == "placeholder" and not _is_whole(owner.meta["val"]):
            if owner not in added:
                with graph.inserting_after([*placeholders, *added.values()][-1]):
                    added[owner] = graph.placeholder(f"{owner.name}_storage")
            owner = added[owner]
        node.replace_input_with(node.args[0], owner)
    for owner, storage in added.items():
        traced, places = owner.meta["val"], [node.meta["val"] for node in storage.users]
        length = _reach(places)
        if length is None:
            length = traced.untyped_storage().nbytes() // traced.element_size()
        storage.meta["val"] = traced.new_empty(length)
    return [placeholders.index(owner) for owner in added]


def _reach(tensors: Sequence[torch.Tensor]) -> int | None:
    """Return how many elements of a storage some tensors reach; None where only the call knows that."""
    reach = 0
    for traced in tensors:
        sizes, strides, offset = traced.shape, traced.stride(), traced.storage_offset()
        if not all(isinstance(item, int) for item in (*sizes, *strides, offset)):
            return None
        last = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
        reach = max(reach, last + 1 if 0 not in sizes else 0)
    return reach


def _is_whole(traced: torch.Tensor) -> bool:
    """Return whether a tensor is certainly all of its storage."""
    sizes = [*traced.shape, traced.storage_offset(), traced.untyped_storage().nbytes()]
    if not all(isinstance(size, int) for size in sizes):
        return False
    return bool(traced.untyped_storage().nbytes() == traced.numel() * traced.element_size())


@dataclass(frozen=True, slots=True)
class StridedLayout:
    """How a result lies in memory.

    ``order``: its axes, the one with the largest stride first. ``strides``: ``?`` where the call decides;
    they are then those of a tensor without gaps. ``gaps``: its offset, and the elements of its storage, where
    the storage has more elements than the result; its strides are then known, as functions of sizes.
    """

    order: tuple[int, ...]
    strides: tuple[Dim, ...]
    gaps: tuple[Dim, Dim] | None = None

    def arrange(self, dense: torch.Tensor, sizes: Mapping[str, int]) -> torch.Tensor:
        """Return a contiguous tensor with the axes in this order as torch's result."""
        import torch

        shape, strides, step = [0] * dense.ndim, [0] * dense.ndim, 1
        for axis, size in zip(reversed(self.order), reversed(dense.shape), strict=True):
            stride = self.strides[axis]
            shape[axis], strides[axis] = size, step if stride == ANY else size_at_call(stride, sizes)
            step *= max(size, 1)
        result = torch.empty(0, dtype=dense.dtype)  # no view of another tensor, which torch may not change
        if self.gaps is not None:
            offset, length = (size_at_call(dim, sizes) for dim in self.gaps)
            result.set_(torch.zeros(length, dtype=dense.dtype).untyped_storage(), offset, shape, strides)
            return result.copy_(dense.permute(sorted(range(dense.ndim), key=self.order.__getitem__)))
        return result.set_(dense.untyped_storage(), 0, shape, strides)


def offset_of(node: FxNode) -> Any:
    """Return where a node's tensor begins in its storage under eager torch.

    What `select_scatter` and its kind give begins where the operand does; the traced copy begins at 0.
    """
    import torch

    aten = torch.ops.aten

    traced = node.meta["val"].storage_offset()
    if node.target in (
        aten.select_scatter.default,
        aten.slice_scatter.default,
        aten.diagonal_scatter.default,
    ):
        return offset_of(node.args[0])
    if not is_view(node) or node.target is operator.getitem:
        return traced
    base = node.all_input_nodes[0]
    return traced + offset_of(base) - base.meta["val"].storage_offset()


def layout_of(traced: torch.Tensor, labels: dict[str, str], offset: Any = None) -> StridedLayout | None:
    """Return how a traced tensor lies in memory; None if as arrays do. Raises UnsupportedError.

    ``offset``: where it begins in its storage, if that is not as it was traced.
    """
    offset = traced.storage_offset() if offset is None else offset
    sizes, strides = _hints(traced)
    known = tuple(item if isinstance(item, int) else ANY for item in traced.stride())
    if None in sizes or None in strides or 0 in sizes:
        return StridedLayout(tuple(range(traced.ndim)), known) if 0 in sizes and ANY not in known else None
    order = tuple(sorted(range(traced.ndim), key=lambda axis: -strides[axis]))
    steps, step = {}, 1
    for axis in reversed(order):
        steps[axis] = step
        step *= sizes[axis]
    differ = {axis for axis, step in steps.items() if strides[axis] != step}
    if not _hint(offset) and all(sizes[axis] == 1 for axis in differ):
        return StridedLayout(order, known) if differ or order != (*range(traced.ndim),) else None
    length = traced.untyped_storage().nbytes() // traced.element_size()
    length += offset - traced.storage_offset()
    offset, length, *steps_of = (dim_of(item, labels) for item in (offset, length, *traced.stride()))
    if ANY in (offset, length, *steps_of):
        raise UnsupportedError(
            "a result with gaps in its memory must have fixed sizes", "call .contiguous() on the result"
        )
    return StridedLayout(order, tuple(steps_of), (offset, length))


def overlaps(traced: torch.Tensor) -> bool:
    """Return whether elements of a traced tensor may lie in one place of memory, other than by expansion.

    torch's functional operators write to a copy with the same strides then, and to a dense one of what is
    expanded, whose changes torch sums.
    """
    sizes, strides = _hints(traced)
    if None in sizes or None in strides or 0 in sizes:
        return False
    steps = sorted((stride, size) for stride, size in zip(strides, sizes, strict=True) if size > 1)
    reach, is_beyond = 0, True
    for stride, size in steps:
        is_beyond &= stride > reach
        reach += (size - 1) * stride
    return not is_beyond and all(stride for stride, _ in steps)


def _hints(traced: torch.Tensor) -> tuple[list[Any], list[Any]]:
    """Return a tensor's sizes and strides as they were when the program was captured."""
    return [_hint(size) for size in traced.shape], [_hint(stride) for stride in traced.stride()]


def _hint(size: Any) -> Any:
    """Return a size as it was when the program was captured; None if it was not known."""
    return size if isinstance(size, int) else size.node.hint


def size_at_call(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Return a dimension, which is a polynomial of sizes with names, for the sizes of a call."""
    polynomial = as_polynomial(dim)
    assert polynomial is not None  # by layout_of
    return int(evaluate(polynomial, sizes))
