"""Lay out a directed acyclic graph in layers, from the sizes of its nodes and its edges.

The method is Sugiyama's: layers, an order in each layer with few crossings, then coordinates. A node is as
near to the middle of its neighbours as the widths allow, which is an isotonic regression for each layer. A
long edge has a point of its own in each layer between, and pulls harder, which makes it straight.

Sugiyama, Tagawa, Toda (1981), Methods for visual understanding of hierarchical system structures.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: The gaps between neighbours in a layer (of nodes, of edges that pass), and between layers.
_GAP, _EDGE_GAP, _LAYER_GAP = 22.0, 14.0, 26.0

#: How often the orders and the x positions are improved.
_ORDER_SWEEPS, _X_SWEEPS, _LAST_SWEEPS = 12, 20, 16


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Coordinates of a drawing: y grows downwards.

    centers: the middle of each node. routes: the points of each edge, from the bottom of its source to the
    top of its target.
    """

    width: float
    height: float
    centers: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]


@dataclass(slots=True)
class _Layers:
    """The graph with a point in each layer that an edge passes; the points follow the nodes."""

    widths: list[float]
    heights: list[float]
    layer: list[int]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    chains: list[list[int]] = field(default_factory=list)
    nodes: int = 0

    def is_point(self, node: int) -> bool:
        return node >= self.nodes


def lay_out_graph(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Lay out nodes of the given widths and heights; an edge goes from an earlier node to a later one."""
    layers = _add_points(sizes, edges, _layer_numbers(len(sizes), edges))
    rows = _order_layers(layers)
    x = _assign_x(layers, rows)
    tops: list[float] = []
    y = 0.0
    for row in rows:
        tops.append(y)
        y += max(layers.heights[node] for node in row) + _LAYER_GAP
    height = y - _LAYER_GAP if rows else 0.0
    lhs = min((x[node] - layers.widths[node] / 2 for row in rows for node in row), default=0.0)
    rhs = max((x[node] + layers.widths[node] / 2 for row in rows for node in row), default=0.0)
    bottoms = [top + max(layers.heights[node] for node in row) for top, row in zip(tops, rows, strict=True)]
    centers = tuple((x[node] - lhs, _middle(node, layers, tops, bottoms)) for node in range(len(sizes)))
    ports = _ports(layers, edges, x)
    routes = tuple(
        _route(index, layers, centers, [position - lhs for position in x], (tops, bottoms), ports[index])
        for index in range(len(edges))
    )
    return GraphLayout(rhs - lhs, height, centers, routes)


def _middle(node: int, layers: _Layers, tops: Sequence[float], bottoms: Sequence[float]) -> float:
    """Return the y of a node's middle: at the top of its layer, or at the bottom if nothing is above it."""
    layer, half = layers.layer[node], layers.heights[node] / 2
    return tops[layer] + half if layers.above[node] else bottoms[layer] - half


def _layer_numbers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node: below its operands, or just above its first user if it has none."""
    layer = [0] * count
    sources = set(range(count))
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layer[target] = max(layer[target], layer[source] + 1)
        sources.discard(target)
    users: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        users[source].append(layer[target])
    for node in sources:
        if users[node]:
            layer[node] = min(users[node]) - 1
    return layer


def _add_points(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], layer: list[int]
) -> _Layers:
    layers = _Layers(
        [width for width, _ in sizes], [height for _, height in sizes], list(layer), nodes=len(sizes)
    )
    passing: dict[tuple[int, int], int] = {}  # edges from one source share their points
    for source, target in edges:
        chain = [source]
        for between in range(layer[source] + 1, layer[target]):
            point = passing.get((source, between))
            if point is None:
                point = passing[source, between] = len(layers.widths)
                layers.widths.append(0.0)
                layers.heights.append(0.0)
                layers.layer.append(between)
            chain.append(point)
        chain.append(target)
        for upper, lower in itertools.pairwise(chain):
            if lower not in layers.below[upper] or lower == target:
                layers.below[upper].append(lower)
                layers.above[lower].append(upper)
        layers.chains.append(chain)
    return layers


def _order_layers(layers: _Layers) -> list[list[int]]:
    """Order the nodes of each layer from left to right, with the fewest crossings of all orders tried."""
    rows: list[list[int]] = [[] for _ in range(max(layers.layer, default=-1) + 1)]
    for node in _depth_first(layers):
        rows[layers.layer[node]].append(node)
    best, fewest = [list(row) for row in rows], _crossings(rows, layers)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        neighbours = layers.above if down else layers.below
        for index in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            fixed = {node: position for position, node in enumerate(rows[index - 1 if down else index + 1])}
            rows[index] = _by_barycenter(rows[index], neighbours, fixed)
        crossings = _crossings(rows, layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _depth_first(layers: _Layers) -> list[int]:
    """Return every node in depth-first order from the top, so that connected nodes begin side by side."""
    seen: dict[int, None] = {}
    tops = [node for node in range(len(layers.widths)) if not layers.above[node]]
    stack = list(reversed(tops))
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(reversed(layers.below[node]))
    return list(seen)


def _by_barycenter(
    row: list[int], neighbours: Mapping[int, Sequence[int]], fixed: Mapping[int, int]
) -> list[int]:
    """Sort a layer by the mean position of each node's neighbours; a node without any keeps its position."""
    weights = {}
    for position, node in enumerate(row):
        around = [fixed[other] for other in neighbours[node]]
        weights[node] = sum(around) / len(around) if around else float(position)
    return sorted(row, key=weights.__getitem__)


def _crossings(rows: list[list[int]], layers: _Layers) -> int:
    """Count the pairs of edges that cross."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        position = {node: index for index, node in enumerate(lower)}
        ends: list[int] = []
        for node in upper:
            new = sorted(position[other] for other in layers.below[node])
            total += sum(len(ends) - bisect_right(ends, end) for end in new)
            for end in new:
                insort(ends, end)
    return total


def _assign_x(layers: _Layers, rows: list[list[int]]) -> list[float]:
    """Return the x of each node: sweeps move each layer as near to its neighbours as the gaps allow."""
    x = [0.0] * len(layers.widths)
    for row in rows:
        for node, offset in zip(row, _offsets(layers, row), strict=True):
            x[node] = offset - _offsets(layers, row)[-1] / 2
    for sweep in range(_X_SWEEPS + _LAST_SWEEPS):
        last = sweep >= _X_SWEEPS
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted, weights = [], []
            for node in row:
                around = _neighbours(layers, node, both=last, down=sweep % 2 == 0)
                if last:  # what is nearly straight becomes straight: the nearer, the harder it pulls
                    around = [(other, pull / (abs(x[other] - x[node]) + 1)) for other, pull in around]
                weight = sum(pull for _, pull in around)
                wanted.append(sum(x[other] * pull for other, pull in around) / weight if around else x[node])
                weights.append(weight or 0.1)
            for node, position in zip(row, _separate(wanted, weights, _offsets(layers, row)), strict=True):
                x[node] = position
    return x


def _neighbours(layers: _Layers, node: int, *, both: bool, down: bool) -> list[tuple[int, float]]:
    """Return the nodes that pull at a node, and how hard."""
    above = [(other, _pull(layers, node, other)) for other in layers.above[node]]
    below = [(other, _pull(layers, node, other)) for other in layers.below[node]]
    if both or not (above and below):
        return above + below
    return above if down else below


def _pull(layers: _Layers, node: int, other: int) -> float:
    points = layers.is_point(node) + layers.is_point(other)
    return (1.0, 2.0, 8.0)[points]


def _offsets(layers: _Layers, row: list[int]) -> list[float]:
    """Return the least distance of each node of a layer from the first one."""
    offsets = [0.0]
    for lhs, rhs in itertools.pairwise(row):
        points = layers.is_point(lhs) or layers.is_point(rhs)
        gap = _EDGE_GAP if points else _GAP
        offsets.append(offsets[-1] + (layers.widths[lhs] + layers.widths[rhs]) / 2 + gap)
    return offsets


def _separate(wanted: list[float], weights: list[float], offsets: list[float]) -> list[float]:
    """Return the positions nearest to the wanted ones that keep the offsets (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, many = blocks.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many  # noqa: PLW2901 - the block grows
        blocks.append((mean, weight, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _ports(layers: _Layers, edges: Sequence[tuple[int, int]], x: list[float]) -> list[float]:
    """Return how far from the middle of its target each edge arrives, in the order of their sources."""
    arriving: dict[int, list[int]] = defaultdict(list)
    for index, (_, target) in enumerate(edges):
        arriving[target].append(index)
    ports = [0.0] * len(edges)
    for target, indices in arriving.items():
        step = min(14.0, layers.widths[target] * 0.6 / len(indices))
        indices.sort(key=lambda index: x[layers.chains[index][-2]])
        for number, index in enumerate(indices):
            ports[index] = (number - (len(indices) - 1) / 2) * step
    return ports


def _route(
    index: int,
    layers: _Layers,
    centers: Sequence[tuple[float, float]],
    x: Sequence[float],
    spans: tuple[Sequence[float], Sequence[float]],
    port: float,
) -> tuple[tuple[float, float], ...]:
    """Return the points of an edge: straight down through the layers that it passes."""
    tops, bottoms = spans
    source, *points, target = layers.chains[index]
    route = [(x[source], centers[source][1] + layers.heights[source] / 2)]
    if points or route[0][1] < bottoms[layers.layer[source]]:
        route.append((x[source], bottoms[layers.layer[source]]))
    for point in points:
        route += [(x[point], tops[layers.layer[point]]), (x[point], bottoms[layers.layer[point]])]
    end = (x[target] + port, centers[target][1] - layers.heights[target] / 2)
    if end[1] > tops[layers.layer[target]]:
        route.append((end[0], tops[layers.layer[target]]))
    return (*route, end)
