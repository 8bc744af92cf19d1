"""Outputs after the cleaning that JupyterLab does in an untrusted notebook, and GitHub in all notebooks.

The cleaners are by the allow-lists of what each keeps; none of them keeps the style sheet.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import bleach
import numpy as np
import pytest
from bleach.css_sanitizer import CSSSanitizer

import nnmagic
from nnmagic import relay
from nnmagic.diagnostics import Source
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.jupyter.cell_output import render_cell
from nnmagic.jupyter.commands import run
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.rendering.listing import relay_html
from nnmagic.rendering.output import Output
from nnmagic.rendering.sections import relay_section
from tests.relay.corpus import load_programs, models

SOURCE = '''\
def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):
    """A product, scaled where its sum is large."""
    d = a @ b
    if d.sum() > 1:
        d = d / d.sum()
    return d + c
'''
#: The elements that JupyterLab 4 and GitHub keep, of those that nnmagic writes.
_TAGS = {
    "b", "br", "code", "details", "div", "i", "p", "pre", "span", "summary",
    "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip


def in_jupyterlab(page: str) -> str:
    """Clean HTML as JupyterLab does; sanitize-html also drops attributes that are empty."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    page = re.sub(r' [\w-]+=""', "", page)
    attributes = {"*": ["class", "style", "title", "hidden"], "td": ["align", "valign", "width"]}
    styles = ["color", "width", "text-align", "vertical-align", "table-layout", "background-color"]
    sanitizer = CSSSanitizer(allowed_css_properties=styles)
    cleaned = bleach.clean(page, tags=_TAGS, attributes=attributes, css_sanitizer=sanitizer, strip=True)
    # The page hides such elements; sanitize-html has left the letters of a picture in them.
    return re.sub(r'<div class="graph" hidden="hidden">.*?</div>', "", cleaned, flags=re.DOTALL)


def on_github(page: str) -> str:
    """Clean HTML as GitHub does: no styles, no classes, no pictures."""
    page = re.sub(r"<(style|svg|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return bleach.clean(page, tags=_TAGS, attributes={"td": ["align", "valign"]}, strip=True)


def by_letters(page: str) -> str:
    """Clean HTML by a page that keeps the letters of pictures, and nothing but elements."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return bleach.clean(page, tags=_TAGS, attributes={}, strip=True)


CLEANERS = pytest.mark.parametrize("clean", [in_jupyterlab, on_github, by_letters])
Cleaner = Callable[[str], str]


def elements(page: str) -> ET.Element:
    return ET.fromstring(f"<page>{page.replace('&nbsp;', ' ')}</page>")


def pre_texts(page: str) -> list[str]:
    """Return what each ``pre`` shows."""
    return ["".join(pre.itertext()) for pre in elements(page).iter("pre")]


def outside_pre(page: str) -> str:
    """Return the letters that are not in a ``pre``."""
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<pre\b.*?</pre>", "", page, flags=re.DOTALL)))


def cell_output(show: list[str]) -> str:
    cell = compile_cell(Source("<cell>", SOURCE, 2), {}, Options())
    return render_cell(cell, show, None).html()


def as_words(text: str) -> str:
    return " ".join(text.split())


@CLEANERS
def test_each_statement_of_a_cell_has_its_line(clean: Cleaner) -> None:
    page = clean(cell_output(["relay"]))
    (text,) = pre_texts(page)
    assert text.split("\n") == [
        "def @foo(%a: Tensor[(2, 3), float32], %b: Tensor[(3, 4), float32],",
        "    %c: Tensor[(2, 4), float32]) -> Tensor[(2, 4), float32] {",
        "  let %d = nn.matmul(%a, %b, units=None);",
        "  %0 = sum(%d);",
        "  %1 = greater(%0, 1f);",
        "  %3 = if (%1) {",
        "    %2 = sum(%d);",
        "    divide(%d, %2)",
        "  } else {",
        "    %d",
        "  };",
        "  add(%3, %c)",
        "}",
        "",
    ]
    assert not outside_pre(page).strip()


def test_jupyterlab_keeps_colours_and_what_hovering_shows() -> None:
    page = elements(in_jupyterlab(cell_output(["relay"])))
    colors = {element.get("style") for element in page.iter() if element.get("style")}
    assert len(colors) >= 4
    titles = {element.get("title") for element in page.iter() if element.get("title")}
    assert "line 4: d = a @ b" in titles
    assert "Tensor[(2, 4), float32]" in titles


@CLEANERS
def test_a_source_line_and_its_relay_are_cells_of_one_row(clean: Cleaner) -> None:
    foo = nnmagic.compile(SOURCE)
    page = clean(foo._repr_mimebundle_()["text/html"])
    rows = [["".join(cell.itertext()) for cell in row] for row in elements(page).iter("tr")]
    assert [len(row) for row in rows] == [2] * 5
    assert ["3     d = a @ b\n", "  let %d = nn.matmul(%a, %b, units=None);\n"] in rows
    assert all(cell.find("pre") is not None for cell in elements(page).iter("td"))
    assert as_words("".join(relay for _, relay in rows)) == as_words(foo.relay_text)
    assert outside_pre(page).startswith("foo(a: Tensor[(2, 3), f32], b:")


@CLEANERS
def test_a_graph_leaves_its_lines_of_text(clean: Cleaner) -> None:
    foo = nnmagic.compile(SOURCE)
    page = clean(foo.graph._repr_mimebundle_()["text/html"])
    shown = "".join(pre_texts(page))
    assert shown.rstrip("\n") == str(foo.graph)
    if clean is by_letters:
        assert "\nnn.matmul\n" in outside_pre(page), "what is left of the picture has a line a label"
    else:
        assert re.fullmatch(r"\s*([0-9]+ more lines of the graph)?\s*", outside_pre(page))


@CLEANERS
def test_stages_keep_their_titles_and_lines(clean: Cleaner) -> None:
    page = clean(cell_output(["relay", "tir"]))
    details = elements(page).find("div/details")
    assert details.findtext("summary") == "foo: tir"
    text = "".join("".join(pre.itertext()) for pre in details.iter("pre"))
    assert text.rstrip("\n") == nnmagic.compile(SOURCE).stages["tir"].rstrip("\n")


@CLEANERS
def test_linked_texts_keep_the_numbers_of_their_source_lines(clean: Cleaner) -> None:
    page = clean(cell_output(["linked"]))
    source, relay, *kernels = pre_texts(page)
    assert "\n4     d = a @ b\n" in f"\n{source}"
    assert "\n4   let %d = nn.matmul(%a, %b, units=None);\n" in relay
    titles = [details.findtext("summary") for details in elements(page).iter("details")]
    assert len(titles) == len(kernels)
    assert all(re.fullmatch(r"\w+, from lines? [0-9, ]+", title) for title in titles)


@CLEANERS
def test_commands_keep_their_tables_and_lines(clean: Cleaner) -> None:
    namespace = {"foo": nnmagic.compile(SOURCE), "x": np.ones((2, 3), "float32")}
    assert "time a call" in pre_texts(clean(run("help profile", namespace).html()))[0]
    operators = elements(clean(run("ops nn.conv2d", namespace).html()))
    assert [header.text for header in operators.iter("th")] == ["function or operator", "what it does"]
    assert sum(1 for _ in operators.iter("tr")) >= 2


def long_lines(page: str) -> list[str]:
    return [line for text in pre_texts(page) for line in text.split("\n") if len(line) > 78]


@pytest.mark.full
def test_long_lines_break_and_the_text_stays_relay() -> None:
    texts = [*[record["typed_text"] for record in load_programs()][::4], models()["resnet18"]]
    broken = 0
    for text in texts:
        if "meta[" in text:
            continue
        try:
            module = relay.infer_type(relay.parse(text))
        except nnmagic.RelayError:
            continue
        page = relay_html(module, "none")
        shown = "".join(pre_texts(page))
        read = relay.parse(f'#[version = "0.0.5"]\n{shown}')
        assert structural_equal(relay.infer_type(read), module)
        assert not long_lines(page)
        broken += as_words(shown) == as_words(str(relay.erase_types(module))) != shown
    assert broken > 20


def test_a_long_listing_is_folded_after_its_first_lines() -> None:
    module = relay.infer_type(relay.parse(models()["resnet18"]))
    page = elements(relay_html(module, "hover"))
    first, rest = page.find("div")
    assert rest.tag == "details"
    assert 10 <= "".join(first.itertext()).count("\n") <= 16
    shown = "".join(rest.find("pre").itertext())
    assert rest.findtext("summary") == f"{shown.count(chr(10)):,} more lines of Relay"


def test_plain_text_has_no_breaks_and_no_folds() -> None:
    module = relay.infer_type(relay.parse(models()["resnet18"]))
    text = str(relay.erase_types(module))
    assert Output((relay_section(module, text, origins="hover"),)).bundle()["text/plain"] == text.rstrip("\n")
