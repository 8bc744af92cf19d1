"""Render the stages of compiled functions as sections of an output."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnmagic.rendering.lexer import RelayLexer
from nnmagic.rendering.listing import Origins, code_listing, relay_html, text_html
from nnmagic.rendering.output import Section
from nnmagic.rendering.style_sheets import marks

if TYPE_CHECKING:
    from pygments.lexer import Lexer

    from nnmagic.relay.module import Module

#: The name of a Pygments lexer of each stage's language.
_LANGUAGES = {
    "source": "python",
    "tree": "text",
    "passes": "diff",
    "relax": "python",
    "tir": "python",
    "llvm": "llvm",
    "asm": "gas",
    "cuda": "cuda",
}


def relay_section(module: Module, text: str, heads: Sequence[str] = (), *, origins: Origins) -> Section:
    """Return typed Relay, shown without types, under the signatures of what is bound."""
    head = "".join(f'<p class="head">{head}</p>' for head in heads)
    return Section("relay", text, relay_html(module, origins), head=head)


def stage_section(title: str, stage: str, text: str) -> Section:
    """Return the text of any other stage, which its title closes where it is one of several sections."""
    listing = code_listing(text, _lexer(stage, text), stage, relay=stage == "relay-typed")
    return Section(title, text, listing.folded, closes=True)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a part of a graph, which opens by its title; ``text``: the same as lines of text."""

    title: str
    svg: str
    text: str = ""
    parts: tuple[Picture, ...] = ()

    def html(self) -> str:
        """Return the picture, closed if it has a title."""
        parts = "".join(part.html() for part in self.parts)
        rules = "".join(re.findall(r"<style>(.*?)</style>", self.svg))
        svg = re.sub(r"<style>.*?</style>", "", self.svg)
        shown = f'{marks(rules)}<div class="graph" hidden="hidden">{svg}</div>{parts}'
        if not self.title:
            return shown
        fallback = f'<div class="fallback"><pre>{html.escape(self.text, quote=False)}</pre></div>'
        return f"<details><summary>{html.escape(self.title)}</summary>{shown}{fallback}</details>"


def graph_section(title: str, text: str, pictures: Sequence[Picture]) -> Section:
    """Return a graph as SVG, with lines of text for a page that drops the pictures or the style sheet.

    The pictures' elements are ``hidden`` until the style sheet shows them: JupyterLab takes the elements of a
    picture out of a notebook that is not trusted, and leaves the letters.
    """
    fallback = f'<div class="fallback">{text_html(text, "the graph")}</div>'
    return Section(title, text, "".join(picture.html() for picture in pictures) + fallback)


def signature_head(name: str, signature: str, doc: str | None) -> str:
    """Return the HTML of a function's head: its name, its signature, the first line of its docstring."""
    first = (doc or "").strip().split("\n")[0]
    said = f" <i>{html.escape(first)}</i>" if first else ""
    return f"<code><b>{html.escape(name)}</b>{html.escape(signature)}</code>{said}"


def _lexer(stage: str, text: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    if stage == "relay-typed":
        return RelayLexer()
    language = _LANGUAGES[stage]
    if stage == "source" and text.lstrip().startswith(("#[version", "def @", "type ")):
        return RelayLexer()
    return get_lexer_by_name(language)
