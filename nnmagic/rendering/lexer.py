"""Tokenise Relay text for Pygments, which knows the lexer as ``relay``."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

_DTYPES = r"(?:bool|(?:u?int|float|bfloat)[0-9]+(?:x[0-9]+)?)\b"
_IDENTIFIER = r"[^\W\d][\w/]*"


class RelayLexer(RegexLexer):  # type: ignore[misc]  # Pygments is untyped
    """The lexer of Relay's text format, for whole modules and for parts of them."""

    name = "Relay"
    aliases: ClassVar = ["relay"]
    filenames: ClassVar = ["*.relay"]
    mimetypes: ClassVar = ["text/x-relay"]
    url = "https://tvm.apache.org"

    tokens: ClassVar = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"//[^\r\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r'#\[\s*version\s*=\s*"[^"]*"\s*\]', Comment.Preproc),
            (r"#\[\s*metadata\s*\]", Comment.Preproc, "metadata"),
            (r'"(?:[^"\\\r\n]|\\.)*"', String),
            (
                words(
                    ("def", "fn", "let", "if", "else", "match", "type", "extern", "free_var"),
                    prefix=r"(?<![\w.])",
                    suffix=r"\b(?!\s*=[^>=])",
                ),
                Keyword,
            ),
            (r"(?:True|False|None)\b", Keyword.Constant),
            (r"(?:ref|ref_read|ref_write)(?=\()", Keyword),
            (rf"@{_IDENTIFIER}", Name.Function),
            (rf"%(?:[0-9]+|{_IDENTIFIER})", Name.Variable),
            (r"meta(?=\[)", Name.Builtin.Pseudo),
            (r"Tensor(?=\[)", Keyword.Type),
            (_DTYPES, Keyword.Type),
            (rf"{_IDENTIFIER}(?=\s*=[^>=])", Name.Attribute),
            (rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*(?=\()", Name.Builtin),
            (r"[^\W\da-z_]\w*", Name.Class),
            (rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*", Name),
            (r"-?(?:[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)(?:f(?:16|32|64)?)?", Number.Float),
            (r"-?[0-9]+f(?:16|32|64)?\b", Number.Float),
            (r"-?[0-9]+(?:i(?:8|16|32|64))?", Number.Integer),
            (r"->|=>|[-+*/=<>!]=?|\?", Operator),
            (r"[(){}\[\],;:.]", Punctuation),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
        "metadata": [(r"(?s).+", Comment)],
    }
