"""The view from source to assembly: which lines are linked, judged by numbers that only one line has."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import Source
from nnmagic.engine import EngineError
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.jupyter.cell_output import render_cell, render_function
from nnmagic.rendering.listing import Origins, relay_html

#: Each line has a number of its own, which no other line and no schedule has.
SOURCE = '''\
def foo(x: Tensor[(40, 30), f32], w: Tensor[(30, 20), f32]):
    """Compute."""
    a = x @ w + 3.25
    b = relu(a) * 5.75
    if b.sum() > 7.125:
        b = softmax(b, axis=-1) - 9.375
    c = b.mean(axis=0) / 11.5
    return c
'''
NUMBERS = {3: "3.25", 4: "5.75", 6: "9.375", 7: "11.5"}


def marked(page: ET.Element, name: str) -> list[tuple[set[str], str]]:
    """Return what a pane links: the classes of each line or kernel, and its text."""
    pane = next(each for each in page.iter("div") if each.get("aria-label") == name)
    parts = [each for each in pane.iter() if re.match("(line|code) ?", each.get("class", ""))]
    linked = [each for each in parts if each.tag != "pre"]
    return [({*each.attrib["class"].split()[1:]}, "".join(each.itertext())) for each in linked]


def page_of(html: str) -> ET.Element:
    return ET.fromstring(f"<page>{html}</page>")


@pytest.fixture(scope="module")
def foo() -> nnmagic.CompiledFunction:
    return nnmagic.compile(SOURCE, cache=False)


@pytest.mark.parametrize("pane", ["Relay", "TIR"])
def test_a_number_is_where_its_line_s_links_lead(foo: nnmagic.CompiledFunction, pane: str) -> None:
    page = page_of(render_function(foo, "linked").html())
    sources, others = marked(page, "source"), marked(page, pane)
    assert [text.strip().partition(" ")[0] for _, text in sources] == list("12345678")
    for line, number in NUMBERS.items():
        classes, text = sources[line - 1]
        assert number in text
        linked = [other for linked_to, other in others if classes & linked_to]
        unlinked = [other for linked_to, other in others if not classes & linked_to]
        # Relay writes 5.75f, TIR T.float32(5.75), and a division by a constant stays one.
        assert any(number in other for other in linked), (line, linked)
        assert not any(re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", other) for other in unlinked)


def test_a_kernel_s_assembly_is_linked_as_its_tir_is(foo: nnmagic.CompiledFunction) -> None:
    page = page_of(render_function(foo, "linked").html())
    tir = {text.split(",")[0]: classes for classes, text in marked(page, "TIR")}
    asm = {text.split(",")[0]: classes for classes, text in marked(page, "assembly")}
    assert tir
    assert tir.items() <= asm.items()
    (product,) = (name for name in tir if "matmul" in name)
    code = next(text for _, text in marked(page, "assembly") if text.startswith(product))
    assert re.search(r"fm(a|ul)|mul", code)
    assert ".loc" not in code


def test_the_text_has_the_numbers_of_the_source_lines(foo: nnmagic.CompiledFunction) -> None:
    text = foo.stages["linked"]
    assert text == str(render_function(foo, "linked"))
    relay = text.partition("\nrelay\n")[2].partition("\n\n")[0]
    lines = [line for line in relay.splitlines() if any(f"{number}f" in line for number in NUMBERS.values())]
    written = {int(line.split("|")[0]): line.partition("|")[2] for line in lines}
    assert all(number in written[line] for line, number in NUMBERS.items())
    (title,) = re.findall(r"tir: \w*matmul\w*, from (.*)", text)
    assert title == "lines 3, 4"
    bare = "\n".join(line.partition("|")[2].removeprefix(" ") for line in relay.splitlines())
    assert bare == foo.relay_text.rstrip("\n")


def test_the_values_of_relay_are_marked_by_name(foo: nnmagic.CompiledFunction) -> None:
    page = page_of(render_function(foo, "linked").html())
    found: dict[str, set[str]] = {}
    for element in page.iter():
        for name in re.findall(r"\bv\d+\b", element.get("class") or ""):
            found.setdefault(name, set()).add((element.text or "").strip())
    counts = Counter(re.findall(r"%\w+", foo.relay_text))
    assert sorted(name for (name,) in found.values()) == sorted(name for name in counts if counts[name] > 1)


@pytest.mark.parametrize("origins", ["beside", "hover", "none"])
def test_so_are_they_in_every_display(foo: nnmagic.CompiledFunction, origins: Origins) -> None:
    page = page_of(relay_html(foo.relay, origins))
    names = {}
    for element in page.iter("span"):
        for name in re.findall(r"\bv\d+\b", element.get("class") or ""):
            names.setdefault(name, []).append("".join(element.itertext()).strip())
    counts = Counter(re.findall(r"%\w+", foo.relay_text))
    expected = sorted([name] * n for name, n in counts.items() if n > 1)
    assert sorted(names.values()) == expected
    rules = page.find("style").text
    assert all(f".relay:has(.{name}:hover) .{name}" in rules for name in names)


def test_a_function_of_another_cell_is_shown_too() -> None:
    helper = nnmagic.compile("def helper(x: Tensor[(8,), f32]):\n    return tanh(x) * 2.5\n", cache=False)
    source = "def outer(x: Tensor[(8,), f32]):\n    return helper(x) + 1.5\n"
    outer = nnmagic.compile(source, namespace={"helper": helper}, cache=False)
    text = outer.stages["linked"]
    assert re.search(r"2 \|     return helper\(x\) \+ 1.5\n\nsource b: .*\n2b \|     return tanh", text)
    assert re.search(r"tir: \w+, from lines 2, 2b", text)


def test_a_number_alone_is_computed_in_the_entry() -> None:
    source = "def gcd(a: i64, b: i64):\n    while b != 0:\n        a, b = b, a % b\n    return a\n"
    gcd = nnmagic.compile(source, cache=False)
    assert gcd(np.int64(12), np.int64(18)) == 6
    text = gcd.stages["linked"]
    assert "tir:" not in text
    assert re.search(r"asm: \w+, from lines 2, 3\n\s+\S", text)


def test_relay_text_is_its_own_source() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) {\n  %0 = tanh(%x);\n  nn.relu(%0)\n}\n'
    cell = compile_cell(Source("<cell>", text), {}, Options(), language="relay")
    shown = str(render_cell(cell, ["linked"], None))
    assert "3 |   %0 = tanh(%x);" in shown
    assert re.search(r"tir: \w*tanh\w*, from lines 3, 4", shown)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_loaded_function_says_the_same(opt_level: int) -> None:
    source = "def bar(x: Tensor[(9,), f32]):\n    y = exp(x) + 1.25\n    return y.sum()\n"
    first = nnmagic.compile(source, opt_level=opt_level)
    first.build()
    again = nnmagic.compile(source, opt_level=opt_level)
    assert again.stages["linked"] == first.stages["linked"]


def test_another_engine_has_no_kernels_to_link() -> None:
    function = nnmagic.compile("def bar(x: Tensor[(9,), f32]): return exp(x)", engine="numpy")
    with pytest.raises(EngineError, match="does not say which kernels it makes"):
        function.stages["linked"]
