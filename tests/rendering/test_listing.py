"""Coloured Relay text: the lexer, the ranges of expressions, tooltips, the source beside it."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from pygments.token import Error, Keyword, Name, Number

import nnmagic
from nnmagic import relay
from nnmagic.relay.text.source_map import text_with_ranges
from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.listing import relay_html
from tests.relay.corpus import load_programs, models

SOURCE = '''def foo(a: Tensor[("n", 3), f32], b: Tensor[(3, 4), f32]):
    """Two <b>branches</b> & a result."""
    d = a @ b
    if d.sum() > 0:
        e = nn.relu(d)
    else:
        e = d * 2
    return e
'''


@pytest.fixture(scope="module")
def foo() -> nnmagic.CompiledFunction:
    return nnmagic.compile(SOURCE)


def elements(page: str) -> ET.Element:
    """HTML that is well-formed XML, too, but for its style."""
    return ET.fromstring(f"<page>{page}</page>")


def texts() -> list[str]:
    programs = load_programs()
    return [record["text"] for record in programs if "text" in record] + [
        record["typed_text"] for record in programs
    ]


def test_the_lexer_knows_every_text_that_relay_printed() -> None:
    given = [*texts(), *models().values()]
    assert len(given) > 500
    for text in given:
        tokens = list(RelayLexer().get_tokens_unprocessed(text))
        assert "".join(token for _, _, token in tokens) == text
        assert not [token for _, kind, token in tokens if kind is Error]


def test_the_lexer_tells_the_kinds_apart() -> None:
    text = "def @f(%x: Tensor[(2, ?), float32]) { let %if = nn.dense(%x, meta[T][0], units=-3); %0 }"
    kinds = {token: kind for _, kind, token in RelayLexer().get_tokens_unprocessed(text)}
    assert kinds["def"] is kinds["let"] is Keyword
    assert kinds["@f"] is Name.Function
    assert kinds["%x"] is kinds["%if"] is kinds["%0"] is Name.Variable
    assert kinds["nn.dense"] is Name.Builtin
    assert kinds["Tensor"] is kinds["float32"] is Keyword.Type
    assert kinds["units"] is Name.Attribute
    assert kinds["-3"] is Number.Integer


def test_pygments_finds_the_lexer_by_its_name() -> None:
    declared = re.search(
        r'\[project\.entry-points\."pygments\.lexers"\]\nrelay = "(.*)"',
        (Path(__file__).parents[2] / "pyproject.toml").read_text(),
    )
    assert declared
    lexer = EntryPoint("relay", declared[1], "pygments.lexers").load()
    assert lexer is RelayLexer
    assert "relay" in lexer.aliases


@pytest.mark.full
def test_ranges_are_where_their_expressions_stand() -> None:
    seen = 0
    for text in [*texts()[:400], models()["resnet18"]]:
        module = relay.parse(text)
        shown, ranges = text_with_ranges(module)
        assert shown == str(module)
        for span in ranges:
            there = shown[span.start : span.end]
            match span.expr:
                case relay.Var():
                    assert there.startswith("%")
                case relay.OpRef(name=name):
                    assert there == name
                case relay.Call(op=relay.OpRef(name=name)):
                    assert there.startswith(f"{name}(") or re.fullmatch("%[0-9]+", there)
                    seen += 1
                case relay.If():
                    assert there.startswith(("if (", "%"))
    assert seen > 500


def test_text_that_looks_like_a_mark_is_text() -> None:
    x = relay.Var("x", relay.TensorType((2,)))
    strange = "".join(map(chr, range(0xFDD0, 0xFDD8)))
    module = relay.Module({"main": relay.Function((x,), relay.call("exp", [x]), attrs={"note": strange})})
    text, ranges = text_with_ranges(module)
    assert text == str(module)
    assert text[ranges[1].start : ranges[1].end] == "%x"


def test_hovering_shows_types_and_summaries(foo: nnmagic.CompiledFunction) -> None:
    page = elements(relay_html(foo.relay))
    titles = {(span.text, span.get("title")) for span in page.iter("span") if span.get("title")}
    assert ("%d", "Tensor[(?, 4), float32]") in titles
    (summary,) = {title for text, title in titles if text == "nn.matmul"}
    assert summary == f"nn.matmul -> Tensor[(?, 4), float32]\n{relay.OPERATORS['nn.matmul'].summary}"
    assert ("2f", "float32") in titles


def test_source_lines_stand_beside_what_came_from_them(foo: nnmagic.CompiledFunction) -> None:
    rows = []
    for row in elements(relay_html(foo.relay)).iter("tr"):
        if row.get("class") == "row":
            origin, lines = ("".join(part.itertext()) for part in row)
            rows.append((origin.strip(), lines.rstrip().split("\n")))
    beside = dict(rows)
    assert beside["3     d = a @ b"] == ["  let %d = nn.matmul(%a, %b, units=None);"]
    assert beside["4     if d.sum() > 0:"] == ["  %0 = sum(%d);", "  %1 = greater(%0, 0f);", "  if (%1) {"]
    assert beside["5         e = nn.relu(d)"][0] == "    nn.relu(%d)"
    assert beside["7         e = d * 2"][0] == "    multiply(%d, 2f)"
    everything = "\n".join(line for _, lines in rows for line in lines)
    signature = "def @foo(%a: Tensor[(?, 3), float32], %b: Tensor[(3, 4), float32])\n    -> "
    assert everything.startswith(signature)
    assert everything.replace("\n    ->", " ->") == foo.relay_text.rstrip()


def test_a_function_shows_itself(foo: nnmagic.CompiledFunction) -> None:
    bundle = foo._repr_mimebundle_()
    assert bundle["text/plain"] == foo.relay_text.rstrip()
    shown = bundle["text/html"]
    assert "<script" not in shown
    assert "<b>foo</b>(a: Tensor[(&#x27;n&#x27;, 3), f32]" in shown
    assert "Two &lt;b&gt;branches&lt;/b&gt; &amp; a result." in shown
    text = html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", shown, flags=re.DOTALL))
    assert "nn.matmul(%a, %b, units=None);" in text


def test_everything_is_escaped() -> None:
    x = relay.Var("x", relay.TensorType((2,)))
    evil = '"><script>alert(1)</script>&'
    function = relay.Function((x,), relay.call("exp", [x]), attrs={"note": evil})
    page = relay_html(relay.infer_type(relay.Module({"main": function})))
    assert "<script" not in page
    assert evil.replace('"', '\\"') in "".join(elements(page).itertext())


@pytest.mark.full
def test_the_same_bytes_on_every_run(foo: nnmagic.CompiledFunction) -> None:
    code = f"import nnmagic\nprint(nnmagic.compile({SOURCE!r})._repr_mimebundle_()['text/html'], end='')"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {foo._repr_mimebundle_()["text/html"]}
