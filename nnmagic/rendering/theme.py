"""Colours: of text, which follow the page's theme, and of the families of operators. Knows no page.

Text takes the theme's own colours where the page has them (JupyterLab, Notebook and nbconvert: ``--jp-``;
VS Code: ``--vscode-``). Elsewhere ``light-dark()`` asks the page, not the reader's system: a page that is
white whatever the system says gets dark letters.
"""

from __future__ import annotations

from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

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
    Comment: ("c", "--jp-mirror-editor-comment-color", "descriptionForeground", "#5f6b74", "#98a3ad"),
}


def token_class(kind: _TokenType) -> str:
    """The class of a token in HTML; "" where it keeps the colour of the text around it."""
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
            rules.append(f".nnmagic .{name} {{ color: {light}; color: {themed}; }}")
    return "\n".join(rules)


_LAYOUT = """\
.nnmagic { font-size: 13px; line-height: 1.45; color: var(--jp-content-font-color1, \
var(--vscode-editor-foreground, currentColor)); }
.nnmagic .code, .nnmagic .head { font-family: var(--jp-code-font-family, var(--vscode-editor-font-family, \
ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace)); }
.nnmagic .head { padding: 2px 0 4px; white-space: pre-wrap; overflow-wrap: anywhere; }
.nnmagic .head b { font-weight: 700; }
.nnmagic .head i { opacity: 0.75; font-family: var(--jp-content-font-family, system-ui, sans-serif); }
.nnmagic .code { display: block; overflow-x: auto; margin: 0 0 4px; }
.nnmagic .beside { display: grid; grid-template-columns: max-content max-content; }
.nnmagic .code span { white-space: pre; }
.nnmagic .code .row { display: contents; }
.nnmagic .code .line { display: block; white-space: pre; min-height: 1.45em; }
.nnmagic .code .from, .nnmagic .code .to { display: block; border-top: 1px solid transparent; \
border-top-color: color-mix(in srgb, currentColor 14%, transparent); }
.nnmagic .code .from { max-width: 34em; overflow: hidden; text-overflow: ellipsis; white-space: pre; \
padding-right: 1.5em; user-select: none; opacity: 0.72; }
.nnmagic .code .from .no { display: inline-block; min-width: 2.2em; text-align: right; margin-right: 1em; \
opacity: 0.75; }
.nnmagic .code [title] { cursor: help; }
.nnmagic details { margin: 2px 0; }
.nnmagic summary { cursor: pointer; font-weight: 600; }
.nnmagic table.rows { display: block; overflow-x: auto; border-collapse: collapse; font-size: 12px; \
margin: 2px 0; }
.nnmagic table.rows th, .nnmagic table.rows td { text-align: left; vertical-align: top; \
padding: 2px 12px 2px 0; white-space: pre-wrap; border: 0; background: none; color: inherit; }
.nnmagic table.rows .right { text-align: right; white-space: nowrap; }
.nnmagic table.rows svg { display: block; max-width: none; margin-top: 3px; }
.nnmagic table.rows th { font-weight: 600; }
.nnmagic .graph { overflow: auto; max-height: 46em; }
.nnmagic .graph svg { display: block; height: auto; max-width: none; }
@media (max-width: 760px) {
.nnmagic .code .from { display: none; }
.nnmagic .beside { grid-template-columns: max-content; }
}
"""

#: The style sheet of everything that nnmagic shows; all its rules are under the class ``nnmagic``.
STYLE = f"{_LAYOUT}{_token_rules()}"
