"""What is shown of compiled functions: each stage as a section, with its colours."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.listing import code_html, relay_html
from nnmagic.rendering.output import Section

if TYPE_CHECKING:
    from pygments.lexer import Lexer

    from nnmagic.relay.module import Module
    from nnmagic.rendering.graph import Graph

#: The name of a Pygments lexer of each stage's language.
_LANGUAGES = {
    "source": "python",
    "tree": "text",
    "relax": "python",
    "tir": "python",
    "llvm": "llvm",
    "asm": "gas",
}


def relay_section(module: Module, text: str, heads: Sequence[str], *, beside_source: bool) -> Section:
    """Typed Relay, shown without types, under the signatures of what is bound."""
    head = "".join(f'<div class="head">{each}</div>' for each in heads)
    return Section("relay", text, relay_html(module, beside_source=beside_source), head=head)


def stage_section(title: str, stage: str, text: str) -> Section:
    """The text of any other stage; closed in HTML."""
    return Section(title, text, code_html(text, _lexer(stage, text)), folded=True)


def graph_section(title: str, graph: Graph) -> Section:
    """A graph, as lines of text and as SVG."""
    return Section(title, str(graph), f'<div class="graph">{graph.svg}</div>')


def signature_head(name: str, signature: str, doc: str | None) -> str:
    """The HTML of a function's head: its name, its signature, the first line of its docstring."""
    first = (doc or "").strip().split("\n")[0]
    said = f" <i>{html.escape(first)}</i>" if first else ""
    return f"<b>{html.escape(name)}</b>{html.escape(signature)}{said}"


def _lexer(stage: str, text: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    if stage == "relay-typed":
        return RelayLexer()
    language = _LANGUAGES[stage]
    if stage == "source" and text.lstrip().startswith(("#[version", "def @", "type ")):
        return RelayLexer()
    return get_lexer_by_name(language)
