"""Draw a graph as SVG: boxes by kind and family, types where the edges begin, regions as boxes around boxes.

Its colours hold on white and on black: boxes are light with dark letters, everything else is a grey between.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnmagic.rendering.graph_data import GraphNode, GraphRegion
from nnmagic.rendering.layout import GraphLayout, lay_out_graph

#: The colours of families of operators: fill and border.
_COLORS = {
    "arithmetic": ("#dbe7ff", "#4d78c9"),
    "weights": ("#ffdfc2", "#c9762b"),
    "activation": ("#d9f2d5", "#4c9a45"),
    "reduction": ("#f3ddfa", "#a05bbd"),
    "shape": ("#e9e6dc", "#8d8567"),
    "normalization": ("#d2f1ef", "#2f938d"),
    "pooling": ("#fff0b8", "#a3860f"),
    "data": ("#fbd9e0", "#c0506b"),
    "function": ("#e2e0f7", "#6a61bd"),
}
#: The family of operators in Relay's declarations -> the colour's name.
_FAMILIES = {
    "binary": "arithmetic",
    "unary": "arithmetic",
    "dense": "weights",
    "convolution": "weights",
    "nn": "activation",
    "reduction": "reduction",
    "sorting": "reduction",
    "shape": "shape",
    "indexing": "shape",
    "joining": "shape",
    "creation": "shape",
    "dynamic": "shape",
    "normalization": "normalization",
    "quantization": "normalization",
    "pooling": "pooling",
    "image": "pooling",
    "vision": "pooling",
    "signal": "pooling",
    "random": "reduction",
}
_KINDS = {
    "constructor": "data",
    "tuple": "data",
    "item": "data",
    "reference": "data",
    "call": "function",
    "function": "function",
}
#: Of letters and lines outside of the boxes: a contrast of 4.3 on white and on nearly black.
_GREY = "#767a81"
#: Widths of a character of the labels, and of the small text; heights of their lines.
_WIDE, _SMALL, _LINE, _SMALL_LINE = 7.23, 6.03, 17.0, 13.0
_PAD, _MARGIN, _TYPE_LINE, _DETAIL_LINES, _DETAIL_WIDTH = 9.0, 12.0, 17.0, 6, 34
#: Regions that would get wider than this stand one below the other: the output of a small window's notebook.
_PAGE_WIDTH = 640.0

#: A picture of more nodes has no marks, which are rules for each of them.
_MOST_MARKED = 400


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A region and its layout; ``inner`` has the same of the regions that its nodes hold."""

    region: GraphRegion
    layout: GraphLayout
    inner: dict[int, tuple[_Drawn, ...]]

    @property
    def size(self) -> tuple[float, float]:
        """The width and height with the margins and the title."""
        title = len(self.region.title) * _WIDE + 2 * _MARGIN
        head = _LINE if self.region.title else 0.0
        return max(self.layout.width + 2 * _MARGIN, title), self.layout.height + 2 * _MARGIN + head


def graph_svg(regions: Sequence[GraphRegion]) -> str:
    """Return an SVG document of a graph, the functions side by side as far as a page is wide.

    It is never wider than the page, which makes it smaller where it must.
    """
    drawn = [_lay_out(region) for region in regions]
    rows = _arrange(drawn, _MARGIN)
    body = [_marks(regions)]
    body += [shape for part, x, y in rows.positions for shape in _region(part, x, y, framed=len(drawn) > 1)]
    legend, legend_width = _legend(regions, rows.height)
    width, height = max(rows.width, legend_width), rows.height + (_LINE + 4 if legend else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
        f'viewBox="0 0 {_n(width)} {_n(height)}" style="max-width:100%;height:auto" font-size="12" '
        f'role="img" aria-label="{html.escape(_describe(regions), quote=True)}" '
        'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace">'
        f"{''.join(body)}{legend}</svg>"
    )


# Sizes


def _lay_out(region: GraphRegion) -> _Drawn:
    inner = {node.key: tuple(map(_lay_out, node.regions)) for node in region.nodes if node.regions}
    index = {node.key: position for position, node in enumerate(region.nodes)}
    sizes = [_size_with_type(node, _box(node, inner.get(node.key, ()))) for node in region.nodes]
    edges = [(index[edge.source], index[edge.target]) for edge in region.edges]
    return _Drawn(region, lay_out_graph(sizes, edges), inner)


@dataclass(frozen=True, slots=True)
class _RegionRows:
    """Regions in rows: each with its left and its top, and the size of all."""

    positions: tuple[tuple[_Drawn, float, float], ...]
    width: float
    height: float


def _arrange(parts: Sequence[_Drawn], gap: float) -> _RegionRows:
    """Place regions from left to right, in a new row where they would get wider than a page."""
    positions: list[tuple[_Drawn, float, float]] = []
    x = y = row_height = total_width = 0.0
    for drawn in parts:
        width, height = drawn.size
        if x and x + width > _PAGE_WIDTH:
            x, y, row_height = 0.0, y + row_height + gap, 0.0
        positions.append((drawn, x, y))
        total_width, row_height = max(total_width, x + width), max(row_height, height)
        x += width + gap
    return _RegionRows(tuple(positions), total_width, y + row_height)


def _box(node: GraphNode, inner: tuple[_Drawn, ...]) -> tuple[float, float]:
    """Return the size of a node's box."""
    width, height = len(_label(node)) * _WIDE, _LINE
    for line in _detail_lines(node):
        width, height = max(width, len(line) * _SMALL), height + _SMALL_LINE
    if inner:
        rows = _arrange(inner, _PAD)
        width, height = max(width, rows.width), height + rows.height + 4
    return max(width + 2 * _PAD, 34.0), height + 8


def _size_with_type(node: GraphNode, size: tuple[float, float]) -> tuple[float, float]:
    """Return the size with the type below the box."""
    width, height = size
    return max(width, len(_type(node)) * _SMALL + 4), height + (_TYPE_LINE if node.type else 0)


def _label(node: GraphNode) -> str:
    return _short(node.label, 40)


def _type(node: GraphNode) -> str:
    return _short(node.type, 44)


def _detail_lines(node: GraphNode) -> list[str]:
    """Return the details in lines: a weight has its own, attributes share theirs."""
    lines: list[str] = []
    shared = False
    for detail in node.details:
        text, attribute = _short(detail, _DETAIL_WIDTH + 10), "=" in detail
        if attribute and shared and len(lines[-1]) + len(text) < _DETAIL_WIDTH:
            lines[-1] += f", {text}"
        else:
            lines.append(text)
        shared = attribute
    return lines if len(lines) <= _DETAIL_LINES else [*lines[: _DETAIL_LINES - 1], "…"]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# Shapes


def _region(drawn: _Drawn, x: float, y: float, *, framed: bool) -> Iterator[str]:
    """Yield the shapes of a region whose top left corner is at (x, y)."""
    width, height = drawn.size
    if framed:
        yield (
            f'<rect x="{_n(x + 0.5)}" y="{_n(y + 0.5)}" width="{_n(width - 1)}" height="{_n(height - 1)}" '
            f'rx="6" fill="{_GREY}" fill-opacity="0.07" stroke="{_GREY}" stroke-opacity="0.55"/>'
        )
    x0 = x + (width - drawn.layout.width) / 2
    top = y + _MARGIN
    if drawn.region.title:
        yield _text(x + _MARGIN, y + _MARGIN + 3, drawn.region.title, fill=_GREY, anchor="start", bold=True)
        top += _LINE
    for edge, route in zip(drawn.region.edges, drawn.layout.routes, strict=True):
        yield _edge([(x0 + px, top + py) for px, py in route], f"s{_key(edge.source)} t{_key(edge.target)}")
    classes = _classes(drawn.region)
    for node, (cx, cy) in zip(drawn.region.nodes, drawn.layout.centers, strict=True):
        near = " ".join(classes[node.key])
        yield from _node(node, x0 + cx, top + cy, drawn.inner.get(node.key, ()), near)


def _classes(region: GraphRegion) -> dict[int, dict[str, None]]:
    """Return the classes of each node: its own number, those of what it uses, and of what uses it."""
    classes = {node.key: {f"n{_key(node.key)}": None} for node in region.nodes}
    for edge in region.edges:
        classes[edge.target][f"u{_key(edge.source)}"] = None
        classes[edge.source][f"d{_key(edge.target)}"] = None
    return classes


def _key(key: int) -> str:
    """Return a node's number as a part of a class; a part's results have negative ones."""
    return str(key) if key >= 0 else f"r{-key}"


def _marks(regions: Sequence[GraphRegion]) -> str:
    """Return the rules that mark what a node uses, and what uses it, where the pointer is on the node."""
    keys = [_key(node.key) for node in _all_nodes(regions)]
    if len(keys) > _MOST_MARKED:
        return ""
    rules = [
        f"svg:has(.n{key}:hover) :is(.s{key},.u{key}>rect:first-of-type)"
        "{stroke:#d9480f;stroke-width:2.6}"
        f"svg:has(.n{key}:hover) :is(.t{key},.d{key}>rect:first-of-type)"
        "{stroke:#1971c2;stroke-width:2.6}"
        for key in keys
    ]
    return f"<style>{''.join(rules)}</style>"


def _describe(regions: Sequence[GraphRegion]) -> str:
    """Return what the picture shows in a few words, for those who do not see it."""
    counts = [f"{region.title or 'a part'}: {len(region.nodes)} nodes" for region in regions]
    return f"Dataflow graph of {', '.join(counts)}"


def _edge(points: list[tuple[float, float]], marked: str) -> str:
    """Return a line that leaves and arrives vertically, with an arrow's head."""
    (x, y), *rest = points
    path = f"M{_n(x)} {_n(y)}"
    for px, py in rest:
        if px == x:
            path += f"V{_n(py)}"
        else:
            middle = (y + py) / 2
            path += f"C{_n(x)} {_n(middle)} {_n(px)} {_n(middle)} {_n(px)} {_n(py)}"
        x, y = px, py
    head = f"M{_n(x - 3)} {_n(y - 5.5)}L{_n(x)} {_n(y)}L{_n(x + 3)} {_n(y - 5.5)}"
    return f'<path class="{marked}" d="{path}{head}" fill="none" stroke="{_GREY}" stroke-width="1.1"/>'


def _node(node: GraphNode, cx: float, cy: float, inner: tuple[_Drawn, ...], near: str) -> Iterator[str]:
    width, height = _box(node, inner)
    _, whole = _size_with_type(node, (width, height))
    x, y = cx - width / 2, cy - whole / 2
    yield f'<g class="{near}"><title>{html.escape(_title(node))}</title>\n'
    yield _shape(node, x, y, width, height)
    ink = _GREY if node.kind in ("outer", "result") or inner else "#1b1d21"
    yield _text(cx, y + 16, _label(node), fill=ink, bold=node.kind == "operator" or bool(inner))
    at = y + 16
    for line in _detail_lines(node):
        at += _SMALL_LINE
        yield _text(cx, at, line, fill="#4a4e57", size=10)
    if inner:
        rows = _arrange(inner, _PAD)
        for part, left, top in rows.positions:
            yield from _region(part, cx - rows.width / 2 + left, at + 8 + top, framed=True)
    if node.type:
        yield _text(cx, y + height + 12.5, _type(node), fill=_GREY, size=10)
    yield "</g>"


def _shape(node: GraphNode, x: float, y: float, width: float, height: float) -> str:
    """Return the box of a node, by its kind."""
    box = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    match node.kind:
        case "parameter":
            return f'<rect {box} rx="{_n(height / 2)}" fill="#ffffff" stroke="{_GREY}" stroke-width="1.4"/>'
        case "constant":
            return f'<rect {box} fill="#f1f1f1" stroke="{_GREY}" stroke-dasharray="3 2"/>'
        case "outer" | "result":
            dashes = ' stroke-dasharray="4 3"' if node.kind == "outer" else ""
            return f'<rect {box} rx="{_n(height / 2)}" fill="none" stroke="{_GREY}"{dashes}/>'
        case "if" | "match" | "closure":
            return f'<rect {box} rx="8" fill="{_GREY}" fill-opacity="0.08" stroke="{_GREY}"/>'
    fill, border = _COLORS[_color(node)]
    return f'<rect {box} rx="4" fill="{fill}" stroke="{border}"/>'


def _color(node: GraphNode) -> str:
    if node.kind == "operator":
        return _FAMILIES.get(node.family, "shape")
    return _KINDS[node.kind]


def _title(node: GraphNode) -> str:
    """Return what hovering a node shows."""
    lines = [node.label if not node.type else f"{node.label} -> {node.type}", node.summary, *node.details]
    return "\n".join(line for line in lines if line)


def _text(
    x: float, y: float, text: str, *, fill: str, size: int = 12, anchor: str = "middle", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    small = "" if size == 12 else f' font-size="{size}"'
    quiet = ' class="quiet"' if fill == _GREY else ""
    where = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="{fill}"{quiet}'
    return f"<text {where}{small}{weight}>{html.escape(text)}</text>\n"


def _legend(regions: Sequence[GraphRegion], y: float) -> tuple[str, float]:
    """Return the legend of the colours that the graph has, and its width."""
    present = dict.fromkeys(_color(node) for node in _all_nodes(regions) if _is_colored(node))
    x, entries = _MARGIN, []
    for name in (name for name in _COLORS if name in present):
        fill, border = _COLORS[name]
        box = f'x="{_n(x)}" y="{_n(y + 4)}" width="10" height="10" rx="2"'
        entries.append(f'<rect {box} fill="{fill}" stroke="{border}"/>')
        entries.append(_text(x + 15, y + 13, name, fill=_GREY, size=10, anchor="start"))
        x += 15 + len(name) * _SMALL + 14
    return ("", 0.0) if len(entries) <= 2 else ("".join(entries), x)


def _is_colored(node: GraphNode) -> bool:
    return node.kind == "operator" or node.kind in _KINDS


def _all_nodes(regions: Sequence[GraphRegion]) -> Iterator[GraphNode]:
    work = list(regions)
    while work:
        region = work.pop()
        yield from region.nodes
        work += [inner for node in region.nodes for inner in node.regions]


def _n(number: float) -> str:
    """Format a number with at most one digit after the point."""
    return f"{number:.1f}".removesuffix(".0")
