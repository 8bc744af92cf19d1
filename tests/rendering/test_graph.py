"""The dataflow graph: what it holds, where it is drawn, its lines of text."""

from __future__ import annotations

import itertools
import re
import textwrap
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnmagic
from nnmagic import relay
from nnmagic.relay.structure.traverse import post_order
from nnmagic.rendering.graph import Graph, GraphNode, GraphRegion, graph_of
from nnmagic.rendering.layout import lay_out_graph
from tests.relay.corpus import load_programs, models
from tests.work import count_calls

BRANCHES = """
def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32]):
    d = a @ b
    if d.sum() > 0:
        e = nn.relu(d)
    else:
        e = d * 2
    return e, d
"""
BRANCHES_TEXT = """
@foo
○ %a  (2, 3) float32
│ ○ %b  (3, 4) float32
├─╯
● nn.matmul(units=None)  (2, 4) float32
├─╮
│ ● sum  float32
│ ● greater(rhs: 0f)  bool
├─┤
│ ▼ if  (2, 4) float32
│ │  ┌ then
│ │  │ ◌ %d  (2, 4) float32
│ │  │ ● nn.relu  (2, 4) float32
│ │  │ ■ result
│ │  └
│ │  ┌ else
│ │  │ ◌ %d  (2, 4) float32
│ │  │ ● multiply(rhs: 2f)  (2, 4) float32
│ │  │ ■ result
│ │  └
├─╯
● tuple  ((2, 4) float32, (2, 4) float32)
■ result
"""
TREE = """
type Tree { Leaf(float32), Branch(Tree, Tree), }
def @total(%t: Tree[]) -> float32 {
  match (%t) {
    Leaf(%x) => { %x },
    Branch(%l, %r) => { %0 = @total(%l); %1 = @total(%r); add(%0, %1) },
  }
}
"""


def regions(graph: Graph) -> Iterator[GraphRegion]:
    work = list(graph.regions)
    while work:
        region = work.pop()
        yield region
        work += [inner for node in region.nodes for inner in node.regions]


def nodes(graph: Graph) -> list[GraphNode]:
    return [node for region in regions(graph) for node in region.nodes]


def test_a_small_graph() -> None:
    source = """
    def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):
        return a @ b + c * 2
    """
    (region,) = nnmagic.compile(textwrap.dedent(source)).graph.regions
    label = {node.key: node.label for node in region.nodes}
    assert region.title == "@foo"
    assert {(label[edge.source], label[edge.target]) for edge in region.edges} == {
        ("%a", "nn.matmul"),
        ("%b", "nn.matmul"),
        ("%c", "multiply"),
        ("nn.matmul", "add"),
        ("multiply", "add"),
        ("add", "result"),
    }
    by_label = {node.label: node for node in region.nodes}
    assert by_label["%a"].kind == "parameter"
    assert by_label["nn.matmul"].type == "(2, 4) float32"
    assert by_label["multiply"].details == ("rhs: 2f",), "a number stands in the operator"
    assert by_label["multiply"].summary == relay.OPERATORS["multiply"].summary


def test_its_lines_of_text() -> None:
    assert str(nnmagic.compile(BRANCHES).graph) == BRANCHES_TEXT.strip()


def test_branches_are_regions_and_values_enter_them() -> None:
    (region,) = nnmagic.compile(BRANCHES).graph.regions
    (branch,) = [node for node in region.nodes if node.kind == "if"]
    assert [inner.title for inner in branch.regions] == ["then", "else"]
    assert [[node.label for node in inner.nodes] for inner in branch.regions] == [
        ["%d", "nn.relu", "result"],
        ["%d", "multiply", "result"],
    ]
    into = [edge for edge in region.edges if edge.target == branch.key]
    label = {node.key: node.label for node in region.nodes}
    assert sorted((label[edge.source], edge.role) for edge in into) == [
        ("greater", "condition"),
        ("nn.matmul", ""),
    ]


def test_a_match_shows_its_patterns() -> None:
    module = relay.infer_type(relay.parse(f'#[version = "0.0.5"]\n{TREE}'))
    (region,) = graph_of(module).regions
    (match,) = [node for node in region.nodes if node.kind == "match"]
    assert [inner.title for inner in match.regions] == ["Leaf(%x)", "Branch(%l, %r)"]
    labels = [(node.kind, node.label) for node in match.regions[1].nodes]
    assert labels[:2] == [("parameter", "%l"), ("parameter", "%r")]
    assert labels.count(("call", "@total")) == 2
    assert "Branch(%l, %r)" in texts(graph_of(module).svg)


def texts(svg: str) -> list[str]:
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.full
def test_every_call_of_every_program_is_there_once() -> None:
    programs = [record["typed_text"] for record in load_programs()]
    seen = 0
    for text in [*programs[::3], *models().values()]:
        try:
            module = relay.infer_type(relay.parse(text))
        except nnmagic.RelayError:
            continue
        graph = graph_of(module)
        calls = Counter(
            node.op.name
            for function in module.functions.values()
            for node in post_order(function)
            if isinstance(node, relay.Call) and isinstance(node.op, relay.OpRef)
        )
        assert Counter(node.label for node in nodes(graph) if node.kind == "operator") == calls
        seen += sum(calls.values())
        for region in regions(graph):
            position = {node.key: index for index, node in enumerate(region.nodes)}
            assert all(position[edge.source] < position[edge.target] for edge in region.edges)
            used = {edge.target for edge in region.edges}
            assert all(node.key in used for node in region.nodes if node.kind == "result")
        ET.fromstring(graph.svg)
        assert str(graph).count("\n") >= len(nodes(graph))
    assert seen > 150


@pytest.mark.full
def test_a_graph_is_laid_out_in_linear_time() -> None:
    def work(blocks: int) -> int:
        skips = "".join(f"  let %y{i} = add(%y{i - 1}, exp(tanh(%y{i - 1})));\n" for i in range(1, blocks))
        text = f"def @main(%x: float32) {{\n  let %y0 = %x;\n{skips}  %y{blocks - 1}\n}}"
        module = relay.infer_type(relay.parse(f'#[version = "0.0.5"]\n{text}'))
        return count_calls(lambda: graph_of(module).svg)

    assert work(200) < 3 * work(100)


def test_resnet_is_laid_out_and_its_weights_stand_in_its_operators() -> None:
    module = relay.infer_type(relay.parse(models()["resnet18"]))
    graph = graph_of(module)
    svg = graph.svg
    assert [node.label for node in nodes(graph) if node.kind == "parameter"] == ["%data"]
    convolution = next(node for node in nodes(graph) if node.label == "nn.conv2d")
    assert convolution.details[0] == "weight: %conv0_weight (64, 3, 7, 7) float32"
    width = float(ET.fromstring(svg).get("width"))
    assert width < 1000, "it fits a notebook"


def test_the_picture_is_safe_and_the_same_each_time() -> None:
    x = relay.Var('<script>"&', relay.TensorType((2,)))
    module = relay.infer_type(relay.Module({"main": relay.Function((x,), relay.call("exp", [x]))}))
    svg = graph_of(module).svg
    assert "<script" not in svg
    assert svg == graph_of(module).svg
    assert '%<script>"&' in texts(svg)


def test_a_notebook_gets_all_forms() -> None:
    graph = nnmagic.compile(BRANCHES).graph
    bundle = graph._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}, "to write SVG as LaTeX, nbconvert needs Inkscape"
    assert bundle["text/plain"] == BRANCHES_TEXT.strip()
    assert re.sub(r"<style>.*?</style>", "", graph.svg) in bundle["text/html"]


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(0, 25))
    size = st.tuples(st.integers(1, 200), st.integers(1, 90))
    sizes = draw(st.lists(size, min_size=count, max_size=count))
    pairs = list(itertools.combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=40)) if pairs else []
    return [(float(width), float(height)) for width, height in sizes], edges


@pytest.mark.full
@given(dags())
@settings(max_examples=150, deadline=None)
def test_a_layout_keeps_nodes_apart_and_edges_downwards(
    dag: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, edges = dag
    layout = lay_out_graph(sizes, edges)
    boxes = [
        (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for (width, height), (x, y) in zip(sizes, layout.centers, strict=True)
    ]
    for left, top, right, bottom in boxes:
        assert left >= -1e-6
        assert top >= -1e-6
        assert right <= layout.width + 1e-6
        assert bottom <= layout.height + 1e-6
    for one, other in itertools.combinations(boxes, 2):
        apart = (
            one[2] <= other[0] + 1e-6
            or other[2] <= one[0] + 1e-6
            or one[3] <= other[1] + 1e-6
            or other[3] <= one[1] + 1e-6
        )
        assert apart
    for (source, target), route in zip(edges, layout.routes, strict=True):
        assert route[0] == pytest.approx((layout.centers[source][0], boxes[source][3]))
        assert route[-1][1] == pytest.approx(boxes[target][1])
        assert boxes[target][0] <= route[-1][0] <= boxes[target][2]
        heights = [y for _, y in route]
        assert heights == sorted(heights)
