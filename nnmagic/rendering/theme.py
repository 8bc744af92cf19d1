"""Define the colours of code, which follow the page's theme, and the style sheet of all outputs.

Text takes the theme's own colours where the page has them (JupyterLab, Notebook and nbconvert: ``--jp-``;
VS Code: ``--vscode-``). Elsewhere ``light-dark()`` asks the page, not the reader's system: a page that is
white whatever the system says gets dark letters.
"""

from __future__ import annotations

from pygments.token import Comment, Generic, Keyword, Name, Number, String, _TokenType

#: The class of a kind of token, and its colour: the theme's variables, then the one on white and on black.
_TOKENS: dict[_TokenType, tuple[str, str, str, str, str]] = {
    Keyword.Type: (
        "t",
        "--jp-mirror-editor-variable-3-color",
        "symbolIcon-classForeground",
        "#00696f",
        "#5cd6c0",
    ),
    Keyword: ("k", "--jp-mirror-editor-keyword-color", "debugTokenExpression-name", "#8a2b9b", "#d7a0ea"),
    Name.Builtin: (
        "o",
        "--jp-mirror-editor-def-color",
        "symbolIcon-functionForeground",
        "#1f5fbf",
        "#82b7ff",
    ),
    Name.Function: ("g", "--jp-mirror-editor-def-color", "symbolIcon-methodForeground", "#6a39c0", "#c9a8ff"),
    Name.Class: ("t", "", "", "", ""),
    Name.Attribute: ("a", "--jp-content-font-color2", "descriptionForeground", "#5f6570", "#a3abb8"),
    Number: ("n", "--jp-mirror-editor-number-color", "debugTokenExpression-number", "#8a5100", "#e0af68"),
    String: ("s", "--jp-mirror-editor-string-color", "debugTokenExpression-string", "#a33a24", "#e8957c"),
    Generic.Inserted: (
        "ins",
        "--jp-success-color0",
        "gitDecoration-addedResourceForeground",
        "#1a6e2e",
        "#7ed491",
    ),
    Generic.Deleted: (
        "del",
        "--jp-error-color0",
        "gitDecoration-deletedResourceForeground",
        "#a8302a",
        "#f09a94",
    ),
    Comment: ("c", "--jp-mirror-editor-comment-color", "descriptionForeground", "#5f6b74", "#98a3ad"),
}

#: Colours of the classes for pages that drop the style sheet: each has a contrast of 4 on white and on black.
INLINE_COLORS = {
    "t": "#078883",
    "k": "#b847d1",
    "o": "#2878e0",
    "g": "#915edd",
    "a": "#6e7a8c",
    "n": "#b06809",
    "s": "#cd5138",
    "c": "#6b7c88",
    "ins": "#268a3e",
    "del": "#cd5138",
}


def token_class(kind: _TokenType) -> str:
    """Return the class of a token in HTML; "" if it keeps the colour of the text around it."""
    at: _TokenType | None = kind
    while at is not None:
        if at in _TOKENS:
            return _TOKENS[at][0]
        at = at.parent
    return ""


def _token_rules() -> str:
    rules = []
    for name, notebook, code, light, dark in _TOKENS.values():
        if light:
            themed = f"var({notebook}, var(--vscode-{code}, light-dark({light}, {dark})))"
            rules.append(f".nnmagic .{name} {{ color: {themed} !important; }}")
    return "\n".join(rules)


# JupyterLab's own rules for ``pre`` and ``code`` name two classes: ours need more. Errors are text in ANSI
# colours; lines above carets, whose gutter is blue, must not be broken.
_LAYOUT = """\
.jp-OutputArea-child:has(> .jp-RenderedHTML > link:only-child), .jp-Cell-outputWrapper:has(\
.jp-RenderedHTML > link:only-child):not(:has(.jp-OutputArea-child ~ .jp-OutputArea-child)) { display: none; }
.jp-RenderedText pre:has(> .ansi-bold + .ansi-blue-fg):has(> .ansi-blue-fg + .ansi-red-fg) { \
white-space: pre; overflow-x: auto; }
.jp-RenderedText[data-mime-type$="stderr"]:has(> pre > .ansi-yellow-intense-fg:first-child + .ansi-bold + \
.ansi-blue-fg) { background: none !important; border-left: 3px solid #d9a514; }
.nnmagic { font-size: 13px; line-height: 1.45; color: var(--jp-content-font-color1, \
var(--vscode-editor-foreground, currentColor)); container-type: inline-size; position: relative; }
.nnmagic.nnmagic pre, .nnmagic.nnmagic.nnmagic code { font-family: \
var(--jp-code-font-family, var(--vscode-editor-font-family, \
ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace)); font-size: 13px; line-height: 1.45; \
color: inherit; background: none; border: 0; margin: 0; padding: 0; }
.nnmagic.nnmagic pre { white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; \
overflow: visible; }
.nnmagic.nnmagic .head { padding: 2px 0 4px; margin: 0; }
.nnmagic .head i { opacity: 0.75; }
.nnmagic.nnmagic pre.code { position: relative; padding: 2px 0; }
.nnmagic .line { display: block; line-height: 1.45; min-height: 1.45em; padding-left: 6ch; \
text-indent: -6ch; }
.nnmagic .from, .nnmagic .no, .nnmagic summary { user-select: none; }
.nnmagic.nnmagic pre:has(> [data-line]) { padding-left: 2.7em; }
.nnmagic .line[data-line]::before { content: attr(data-line); position: absolute; left: 0; width: 1.9em; \
text-align: right; text-indent: 0; opacity: 0.72; }
.nnmagic [title] { cursor: help; }
.nnmagic details { margin: 2px 0; }
.nnmagic summary { cursor: pointer; font-weight: 600; }
.nnmagic pre + details > summary, .nnmagic table + details > summary { font-weight: 400; opacity: 0.8; }
.nnmagic table.code { table-layout: fixed; width: 100%; border-collapse: collapse; margin: 0; \
border: 0; font-size: 13px; }
.nnmagic table.code tr, .nnmagic table.code tr:hover { background: none; }
.nnmagic table.code td { vertical-align: top; text-align: left; padding: 0; background: none; \
color: inherit; border: 0; border-top: 1px solid transparent; \
border-top-color: color-mix(in srgb, currentColor 14%, transparent); }
.nnmagic table.code td.from { padding-right: 1.5em; opacity: 0.8; }
.nnmagic.nnmagic .from pre { padding-left: 3.2em; text-indent: -3.2em; }
.nnmagic .from .no { display: inline-block; min-width: 2.2em; text-align: right; margin-right: 0.4em; \
text-indent: 0; opacity: 0.9; }
.nnmagic table.rows { display: block; overflow-x: auto; border-collapse: collapse; font-size: 12px; \
margin: 2px 0; }
.nnmagic table.rows th, .nnmagic table.rows td { text-align: left; vertical-align: top; \
padding: 2px 12px 2px 0; white-space: pre-wrap; border: 0; background: none; color: inherit; }
.nnmagic table.rows .short { white-space: nowrap; }
.nnmagic table.rows .right { text-align: right; white-space: nowrap; }
.nnmagic table.rows .call { font-family: var(--jp-code-font-family, \
var(--vscode-editor-font-family, monospace)); padding-left: 2em; text-indent: -2em; }
.nnmagic table.rows svg { display: block; max-width: none; margin-top: 3px; }
.nnmagic table.rows th { font-weight: 600; }
.nnmagic .graph, .nnmagic .graph[hidden] { display: block !important; \
overflow: hidden auto; max-height: 90em; }
.nnmagic .graph svg { display: block; height: auto; max-width: 100%; }
.nnmagic .graph .quiet { fill: currentColor; opacity: 0.75; }
.nnmagic .fallback:not(:focus-within) { position: absolute; width: 1px; height: 1px; overflow: hidden; \
clip-path: inset(50%); }
.nnmagic.nnmagic .fallback:not(:focus-within) pre { white-space: pre; width: max-content; }
.nnmagic table.rows .fallback { display: none; }
@container (max-width: 700px) {
.nnmagic table.code td.from, .nnmagic table.rows :is(th:empty, td:has(> svg)) { display: none; }
.nnmagic table.rows td.call span { display: none; }
.nnmagic table.rows td.short:first-child { white-space: pre-wrap; }
}
"""

_LINKED = """\
.nnmagic .linked { display: flex; gap: 10px; overflow-x: auto; scroll-snap-type: x proximity; }
.nnmagic .linked .pane { flex: 1 0 min(26em, 92%); max-height: 40em; overflow: auto; padding: 0 6px; \
scroll-snap-align: start; resize: horizontal; border-right: 1px solid; \
border-color: color-mix(in srgb, currentColor 20%, transparent); }
.nnmagic.nnmagic .linked details pre { white-space: pre; width: max-content; min-width: 100%; \
box-sizing: border-box; padding-left: 6px; }
.nnmagic .linked .line { padding-left: 9ch; text-indent: -9ch; }
.nnmagic .linked .no { display: inline-block; min-width: 2em; text-align: right; margin-right: 0.5em; \
text-indent: 0; opacity: 0.72; }
.nnmagic .linked summary { padding-left: 6px; font-weight: 400; }
.nnmagic .linked :focus-visible { outline: 2px solid #1971c2; outline-offset: -2px; }
"""

#: The style sheet of everything that nnmagic shows; its rules are under the class ``nnmagic``, but for
#: those of errors and warnings, and for one that hides the output which is the style sheet alone.
STYLE_SHEET = f"{_LAYOUT}{_LINKED}{_token_rules()}"
