"""List the Python syntax that a cell does not take, each with its message and what to do instead.

Keyed by the names of Python's own syntax classes. What is in neither table here nor among the forms that
the syntax files take gets a general message: syntax that a later Python adds is refused, not misread.
"""

from __future__ import annotations

import keyword
import re

from nnmagic.diagnostics import closest

_NEVER = "is not part of TinyNN"
_ELSEWHERE = "Python that is not a tensor program belongs in another cell"
#: What works in a loop whose number of rounds is dynamic.
FILL_A_TENSOR = "fill out = zeros((n, 3), f32) by out[i] = row"
#: What to do where a string would be put together.
NO_STRINGS = (
    "a cell makes strings by formatting alone, as in state[f'{i}.weight'] with an i that is known at compile "
    "time; or put the values into a list in another cell, as in "
    "weights = [state[f'{i}.weight'] for i in range(2)], and write weights[i]"
)
#: PyTorch's contexts without gradients.
NO_GRAD = (
    "`with torch.no_grad():` is not part of TinyNN",
    "leave the line out: a cell computes gradients where it says grad(f), and none through stop_gradient(x)",
)
#: ``print`` in a cell that is not to print.
PRINT = (
    "`print` is refused in a cell that is compiled without debugging",
    "leave --no-debug out, or debug=False; or return the value and print it in another cell",
)
_CAPTURE = "compute it in another cell; a cell's functions can use the notebook's names"

#: How a list of lists is used that grows.
RAGGED = (
    "make it here, as in rows = [[] for _ in range(n)] or groups = defaultdict(list), and read it where it "
    "is, as in for x in rows[i]: a name holds a copy of a row, as in row = list(rows[i])"
)

_TRY = (
    f"`try` {_NEVER}: an exception ends the call",
    "test before what would fail, as in `if y != 0:`, or write `try` around the call of the function, in "
    "another cell",
)
#: What ``raise`` takes.
RAISE = "raise a built-in exception with a message, as in raise ValueError('x must be positive')"

#: Statements: (message, hint).
STATEMENTS: dict[str, tuple[str, str]] = {
    "ClassDef": ("a class inside a function is not part of TinyNN", "define it at the top of the cell"),
    "AsyncFunctionDef": (f"`async` {_NEVER}", "write `def`"),
    "AsyncFor": (f"`async` {_NEVER}", "leave `async` out"),
    "AsyncWith": (f"`async` {_NEVER}", "leave `async` out"),
    "With": (f"`with` {_NEVER}", _ELSEWHERE),
    "Try": _TRY,
    "TryStar": _TRY,
    "Import": (f"`import` {_NEVER}", "import in another cell; operators need no import"),
    "ImportFrom": (f"`import` {_NEVER}", "import in another cell; operators need no import"),
    "Global": (f"`global` {_NEVER}", "return the value instead"),
    "Nonlocal": (
        "`nonlocal` is for a function whose body can stand where it is called",
        "one that calls itself, or whose `return` stands in the midst of a loop, returns the value: n = f(n)",
    ),
    "Delete": (f"`del` {_NEVER}", "leave it out: what is not used costs nothing"),
    "TypeAlias": (
        f"`type` {_NEVER}",
        "write the alias in another cell, as in Image = Tensor[(3, 224, 224), f32]",
    ),
}

#: Statements at the top level of a cell, apart from functions: (message, hint).
TOP_LEVEL: dict[str, tuple[str, str]] = {
    "Assign": ("a cell holds functions and constants, such as n = 3, no other assignments", _CAPTURE),
    "AnnAssign": ("a cell holds functions and constants, such as n = 3, no other assignments", _CAPTURE),
    "AugAssign": ("a cell holds functions only, not assignments", _CAPTURE),
    "Expr": ("a cell holds functions only, not expressions", "call the functions from another cell"),
    **{
        name: (f"a cell holds functions only, not `{word}`", _ELSEWHERE)
        for name, word in {
            "If": "if",
            "For": "for",
            "While": "while",
            "Match": "match",
            "Assert": "assert",
            "Pass": "pass",
            "Return": "return",
        }.items()
    },
}

#: Expressions: (message, hint).
EXPRESSIONS: dict[str, tuple[str, str]] = {
    "Await": (f"`await` {_NEVER}", "leave it out"),
    "Yield": (f"`yield` {_NEVER}", "append to a list, and return it"),
    "YieldFrom": (f"`yield` {_NEVER}", "append to a list, and return it"),
    "TemplateStr": (f"a template string {_NEVER}", "write a plain string"),
    "bytes": (f"bytes {_NEVER}", "write a plain string"),
}

#: Methods that modify a list, with the hint for a list ``{0}`` and arguments ``{1}``, ``{2}``.
CHANGE_A_LIST: dict[str, str] = {
    "append": "write {0} = {0} + [{1}]",
    "remove": "make a new list: {0} = [x for x in {0} if c]",
    "update": "write {0}[key] = value, or {0} = {{**{0}, **others}}",
}

#: What other languages write, in what stands before the place of a syntax error and in its line.
_NEAR = {
    "++": "write x += 1",
    "--": "write x -= 1",
    "&&": "write `and`",
    "||": "write `or`",
    ".^": "write **",
}
_NEAR["!"] = "write `not`"
_IN_LINE = {
    r"\s*(else +if|elsif|elseif)\b": "write `elif`",
    r"\s*(function|func|fun|fn) ": "write `def`",
    r"\s*[%!]": "a magic, or a command of the shell, belongs in another cell",
    r"\s*def \w+\((.*, *)?\w+ \w+": "a type stands behind the name, as in x: f32",
}
_FIRST_WORDS = (
    "def",
    "return",
    "for",
    "while",
    "elif",
    "else",
    "class",
    "import",
    "continue",
    "break",
    "assert",
)


def syntax_hint(line: str, offset: int) -> str | None:
    """Return what to do about a line that is no Python at an offset; None if nothing is known."""
    near = line[max(offset - 2, 0) : offset + 1]
    hints = [hint for pattern, hint in _IN_LINE.items() if re.match(pattern, line)]
    hints += [hint for text, hint in _NEAR.items() if text in near]
    first = re.match(r"\s*(\w+) +\w", line)
    if first and not hints and not keyword.iskeyword(first[1]) and (close := closest(first[1], _FIRST_WORDS)):
        return f"did you mean `{close}`?"
    return hints[0] if hints else None
