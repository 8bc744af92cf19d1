"""Draw a graph as text: a line for each node, a rail for each value from its definition to its last use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nnmagic.rendering.graph_data import GraphNode, GraphRegion

_MARKS = {
    "parameter": "○",
    "outer": "◌",
    "constant": "◇",
    "result": "■",
    "if": "▼",
    "match": "▼",
    "closure": "▼",
}


def graph_text(regions: Iterable[GraphRegion]) -> str:
    """Return the functions of a graph, one below the other."""
    return "\n\n".join("\n".join([region.title, *_region(region)]) for region in regions)


def _region(region: GraphRegion) -> Iterator[str]:
    rails: list[int | None] = []
    starts = Counter(edge.source for edge in region.edges)  # how often each value is still used
    taken: dict[int, list[int]] = {node.key: [] for node in region.nodes}
    for edge in region.edges:
        taken[edge.target].append(edge.source)
    for node in region.nodes:
        joined = {rails.index(source) for source in taken[node.key]}
        starts.subtract(taken[node.key])
        ended = {rail for rail in joined if not starts[rails[rail]]}  # type: ignore[index]  # a rail with a value
        own = min(ended) if ended else _free(rails)
        if joined - {own}:
            yield _crossing(rails, own, joined, ended)
        for rail in ended:
            rails[rail] = None
        if own == len(rails):
            rails.append(None)
        rails[own] = node.key
        while rails and rails[-1] is None:
            rails.pop()
        mark = _MARKS.get(node.kind, "●")
        lanes = " ".join(mark if rail == own else _lane(value) for rail, value in enumerate(rails))
        yield f"{lanes} {_line(node)}"
        if not starts[node.key]:
            rails[own] = None
        below = " ".join(map(_lane, rails))
        for inner in node.regions:
            yield f"{below}  ┌ {inner.title}".rstrip()
            yield from (f"{below}  │ {line}" for line in _region(inner))
            yield f"{below}  └"
        while rails and rails[-1] is None:
            rails.pop()


def _line(node: GraphNode) -> str:
    details = f"({', '.join(node.details)})" if node.details else ""
    type_ = f"  {node.type}" if node.type else ""
    return f"{node.label}{details}{type_}"


def _lane(value: int | None) -> str:
    return " " if value is None else "│"


def _free(rails: list[int | None]) -> int:
    """Return the first rail without a value."""
    return rails.index(None) if None in rails else len(rails)


def _crossing(rails: list[int | None], lane: int, joined: set[int], ended: set[int]) -> str:
    """Return the line in which rails join at ``lane``; a rail that only crosses stays whole."""
    first, last = min(joined | {lane}), max(joined | {lane})
    line = ""
    for rail in range(max(len(rails), lane + 1)):
        inside = first <= rail <= last
        up = rail < len(rails) and rails[rail] is not None
        if inside and (rail in joined or rail == lane):
            down = rail == lane or rail not in ended
            line += _JOINTS[up and rail in joined, down, rail > first, rail < last]
        elif up:
            line += "│"
        else:
            line += "─" if inside else " "
        line += "─" if inside and rail < last else " "
    return line.rstrip()


#: The sign that leads up, down, left, right.
_JOINTS = {
    (True, True, True, True): "┼",
    (True, True, True, False): "┤",
    (True, True, False, True): "├",
    (True, True, False, False): "│",
    (True, False, True, True): "┴",
    (True, False, True, False): "╯",
    (True, False, False, True): "╰",
    (False, True, True, True): "┬",
    (False, True, True, False): "╮",
    (False, True, False, True): "╭",
}
