"""Large graphs: an overview, and parts that hold every node once."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import nnmagic
from nnmagic import relay
from nnmagic.relay.structure.traverse import post_order
from nnmagic.rendering.folding import Folded, fold
from nnmagic.rendering.graph import graph_of
from nnmagic.rendering.graph_data import GraphRegion
from tests.relay.corpus import models
from tests.rendering.networks import resnet18

INPUTS = {"parameter", "constant", "outer"}


def computed(region: GraphRegion) -> list[int]:
    return [node.key for node in region.nodes if node.kind not in INPUTS and node.kind != "result"]


def check(region: GraphRegion, folded: Folded) -> None:
    """Every node and every edge is in one part, and the overview joins what the edges join."""
    held = [computed(part.region) for part in folded.parts]
    assert Counter(key for keys in held for key in keys) == Counter(computed(region))
    part_of = {key: number for number, keys in enumerate(held) for key in keys}
    wanted = {(edge.source, edge.target) for edge in region.edges if edge.target in part_of}
    found = [
        (edge.source, edge.target) for part in folded.parts for edge in part.region.edges if edge.target >= 0
    ]
    assert set(found) == wanted
    assert len(found) == len(set(found))
    numbers = {
        node.key: int(node.label.split()[1].rstrip(",")) - 1
        for node in folded.overview.nodes
        if node.kind == "call"
    }
    crossing = {
        (part_of[edge.source], part_of[edge.target])
        for edge in region.edges
        if edge.source in part_of and edge.target in part_of and part_of[edge.source] != part_of[edge.target]
    }
    joined = {
        (numbers[edge.source], numbers[edge.target])
        for edge in folded.overview.edges
        if edge.source in numbers and edge.target in numbers
    }
    assert joined == crossing


def test_the_blocks_of_resnet18_are_its_parts() -> None:
    region = graph_of(resnet18(), "resnet18").regions[0]
    folded = fold(region)
    assert folded is not None
    check(region, folded)
    counts = [dict(part.counts) for part in folded.parts]
    assert [count.get("nn.conv2d", 0) for count in counts] == [1, 2, 2, 3, 2, 3, 2, 3, 2, 0]
    assert [count.get("add", 0) for count in counts] == [0, *[1] * 8, 0]
    assert [part.like for part in folded.parts] == [None, None, 2, None, 2, 4, 2, 4, 2, None]
    assert folded.parts[2].title == "3: 2 nn.conv2d, 2 nn.bias_add, 2 nn.relu, add (as 2)"
    assert len(folded.overview.nodes) == 12  # the image, the parts and the result


@pytest.mark.parametrize("name", models())
def test_a_measured_model_keeps_its_nodes(name: str) -> None:
    module = relay.infer_type(relay.parse(models()[name]))
    for region in graph_of(module, "main").regions:
        folded = fold(region)
        if folded is not None:
            check(region, folded)
            assert 2 <= len(folded.parts) <= 16


def test_a_small_graph_is_one_picture() -> None:
    graph = nnmagic.compile("def f(x: f32):\n    return exp(x) + x\n").graph
    assert fold(graph.regions[0]) is None
    html = graph._repr_mimebundle_()["text/html"]
    assert html.count("<svg") == 1
    assert "<details" not in html


def test_an_output_has_a_picture_and_a_text_for_each_part() -> None:
    graph = graph_of(resnet18(), "resnet18")
    html = graph._repr_mimebundle_()["text/html"]
    titles = re.findall(r"<summary>(.*?)</summary>", html)
    assert [title.split(":")[0] for title in titles[:-1]] == [str(number) for number in range(1, 11)]
    assert titles[-1].endswith("more lines of the graph"), "the text of all"
    assert html.count("<svg") == 11
    assert len(re.findall(r'role="img" aria-label="Dataflow graph of [^"]+"', html)) == 11
    texts = re.findall(r'</div><div class="fallback"><pre>(.*?)</pre></div></details>', html, flags=re.DOTALL)
    assert len(texts) == 10
    assert texts[3].count("nn.conv2d") == 3
    assert texts[3].startswith("◌ from 3")


def test_many_functions_have_pictures_of_their_own() -> None:
    helpers = "".join(f"def f{i}(x: f32):\n    return {'exp(' * 12}x{')' * 12}\n" for i in range(8))
    calls = "".join(f"f{i}(" for i in range(8)) + "x" + ")" * 8
    graph = nnmagic.compile(f"{helpers}def main(x: f32):\n    return {calls}\n").graph
    html = graph._repr_mimebundle_()["text/html"]
    assert re.findall(r"<summary>(.*?)</summary>", html)[:-1] == [f"@f{i}" for i in range(8)]
    assert sum(1 for function in graph.regions for _ in function.nodes) > 80


def test_marks_are_of_what_a_node_uses_and_of_what_uses_it() -> None:
    source = "def f(x: f32, y: f32):\n    z = x * y\n    return exp(z), z + x\n"
    function = nnmagic.compile(source)
    svg, (region,) = function.graph.svg, function.graph.regions
    assert len(list(post_order(function.relay.functions["f"].body))) > 3
    key = {node.label: node.key for node in region.nodes}
    groups = {
        title.split(" ")[0]: classes.split()
        for classes, title in re.findall(r'<g class="([^"]*)"><title>([^\n<]*)', svg)
    }
    product = key["multiply"]
    assert {label for label, classes in groups.items() if f"u{product}" in classes} == {"exp", "add"}
    assert {label for label, classes in groups.items() if f"d{product}" in classes} == {"%x", "%y"}
    assert f"svg:has(.n{product}:hover)" in svg
