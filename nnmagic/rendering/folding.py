"""Fold a large graph into parts: an overview of a few nodes, each of which opens to a graph of its own.

A region is cut where one value alone goes from what is computed before to what is computed after. A part
begins where the values branch, as a residual block does, and ends before the next one. Equal parts are found
by their operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from nnmagic.rendering.graph_data import Edge, GraphNode, GraphRegion

#: A region with more computing nodes than this is folded.
_MOST_NODES = 30

#: A part without a branch is cut after so many nodes, or earlier after a pooling.
_CHAIN = 12

#: Parts of fewer nodes are joined with the next one.
_FEW = 3

#: Parts beyond this number are joined two by two.
_MOST_PARTS = 16

#: Kinds of nodes that are inputs: they are computed nowhere in the region.
_INPUTS = frozenset({"parameter", "constant", "outer"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a region; ``like``: the number of the first part of the same operators, counted from 1."""

    number: int
    region: GraphRegion
    output: GraphNode
    counts: tuple[tuple[str, int], ...]
    like: int | None

    @property
    def title(self) -> str:
        """Say what the part computes, as in ``2: 2 nn.conv2d, add``, and which part before it is like it."""
        shown = _count(self.counts)
        more = f", {len(shown) - 4} more" if len(shown) > 4 else ""
        like = "" if self.like is None else f" (as {self.like})"
        return f"{self.number}: {', '.join(shown[:4])}{more}{like}"


@dataclass(frozen=True, slots=True)
class Folded:
    """The overview of a region, and its parts."""

    overview: GraphRegion
    parts: tuple[Part, ...]


def fold(region: GraphRegion) -> Folded | None:
    """Return the overview and the parts of a region; None if it is small, or has nowhere to be cut."""
    computed = [node for node in region.nodes if node.kind not in _INPUTS and node.kind != "result"]
    if len(computed) <= _MOST_NODES:
        return None
    groups = _join(_split_equal(_groups(region, computed)))
    if len(groups) < 2:
        return None
    parts = tuple(_parts(region, groups))
    return Folded(_overview(region, groups, parts), parts)


def _groups(region: GraphRegion, computed: Sequence[GraphNode]) -> list[list[GraphNode]]:
    """Return the nodes in groups: each begins where values branch, or after a chain that is long enough."""
    place = {node.key: index for index, node in enumerate(computed)}
    last = list(range(len(computed)))
    for edge in region.edges:
        if edge.source in place and edge.target in place:
            last[place[edge.source]] = max(last[place[edge.source]], place[edge.target])
    alive: set[int] = set()
    segments: list[list[GraphNode]] = [[]]
    for index, node in enumerate(computed):
        alive = {each for each in alive if last[each] > index}
        if last[index] > index:
            alive.add(index)
        segments[-1].append(node)
        if len(alive) == 1:
            segments.append([])
    groups: list[list[GraphNode]] = [[]]
    for segment in filter(None, segments):
        current = groups[-1]
        is_long = len(current) >= _CHAIN or (len(current) > 3 and current[-1].family == "pooling")
        if current and (len(segment) > 1 or is_long):
            groups.append([])
        groups[-1] += segment
    return groups


def _signature(nodes: Sequence[GraphNode]) -> tuple[str, ...]:
    return tuple(node.label for node in nodes)


def _split_equal(groups: Sequence[list[GraphNode]]) -> list[list[GraphNode]]:
    """Cut a group that begins like two others or more after that beginning: the head of a network."""
    counts = Counter(_signature(group) for group in groups)
    blocks = sorted((each for each, count in counts.items() if count > 1), key=len, reverse=True)
    result: list[list[GraphNode]] = []
    for group in groups:
        signature = _signature(group)
        begin = next((len(each) for each in blocks if signature[: len(each)] == each), len(group))
        result += [part for part in (list(group[:begin]), list(group[begin:])) if part]
    return result


def _join(groups: list[list[GraphNode]]) -> list[list[GraphNode]]:
    """Join groups of a few nodes with the next one, and neighbours until there are few enough."""
    counts = Counter(_signature(group) for group in groups)
    joined: list[list[GraphNode]] = []
    for group in groups:
        if joined and len(joined[-1]) < _FEW and counts[_signature(group)] == 1:
            joined[-1] = [*joined[-1], *group]
        else:
            joined.append(group)
    while len(joined) > _MOST_PARTS:
        joined = [[*chain.from_iterable(joined[at : at + 2])] for at in range(0, len(joined), 2)]
    return joined


def _count(counts: Sequence[tuple[str, int]]) -> list[str]:
    return [name if count == 1 else f"{count} {name}" for name, count in counts]


def _parts(region: GraphRegion, groups: Sequence[Sequence[GraphNode]]) -> Iterator[Part]:
    owner = {node.key: number for number, group in enumerate(groups, 1) for node in group}
    nodes = {node.key: node for node in region.nodes}
    first: dict[tuple[str, ...], int] = {}
    for number, group in enumerate(groups, 1):
        inside = {node.key for node in group}
        inputs = dict.fromkeys(
            edge.source for edge in region.edges if edge.target in inside and edge.source not in inside
        )
        entering = [_entering(nodes[key], owner) for key in inputs]
        used = {edge.source for edge in region.edges if edge.target not in inside}
        outputs = [node for node in group if node.key in used] or [group[-1]]
        edges = [edge for edge in region.edges if edge.target in inside]
        results: list[GraphNode] = []
        for index, output in enumerate(outputs):
            key = -1 - index
            results.append(GraphNode(key, "result", "result"))
            edges.append(Edge(output.key, key))
        counts = Counter(node.label for node in group)
        signature = _signature(group)
        like = first.setdefault(signature, number)
        yield Part(
            number,
            GraphRegion("", (*entering, *group, *results), tuple(edges)),
            outputs[-1],
            tuple(counts.items()),
            None if like == number else like,
        )


def _entering(node: GraphNode, owner: dict[int, int]) -> GraphNode:
    """Return the node for a value that enters a part."""
    if node.key not in owner:
        return node
    return GraphNode(node.key, "outer", f"from {owner[node.key]}", node.type)


def _overview(
    region: GraphRegion, groups: Sequence[Sequence[GraphNode]], parts: Sequence[Part]
) -> GraphRegion:
    """Return the region with a node for each part."""
    key_of = {node.key: parts[number].output.key for number, group in enumerate(groups) for node in group}
    made = {
        section.output.key: replace(
            section.output,
            kind="call",
            label=f"part {section.number}"
            if section.like is None
            else f"part {section.number}, as {section.like}",
            family="",
            details=(", ".join(_count(section.counts)),),
            summary="open it below",
            regions=(),
        )
        for section in parts
    }
    edges = dict.fromkeys(
        Edge(key_of.get(edge.source, edge.source), key_of.get(edge.target, edge.target))
        for edge in region.edges
        if key_of.get(edge.source, edge.source) != key_of.get(edge.target, edge.target)
    )
    nodes = [made.get(node.key, node) for node in region.nodes if node.key in made or node.key not in key_of]
    taken = {edge.source for edge in edges} | {edge.target for edge in edges}
    return GraphRegion(region.title, tuple(node for node in nodes if node.key in taken), tuple(edges))
