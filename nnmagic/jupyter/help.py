"""Help while typing: completion in cells, and ``?`` and Shift-Tab for the words of the language.

IPython looks a name up in the notebook and shows what it finds there. The language's words are in no module,
so the look-up is extended; everything else is IPython's own.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nnmagic.jupyter.completion import CellMatcher

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.tinynn.vocabulary import Word

_ADDED: WeakKeyDictionary[InteractiveShell, CellMatcher] = WeakKeyDictionary()


def add_help(shell: InteractiveShell) -> None:
    """Adds completion and inspection to a shell."""
    matcher = _ADDED[shell] = CellMatcher(shell)
    matcher.add()
    find = shell._ofind

    def found(name: str, namespaces: Any = None) -> Any:
        info = find(name, namespaces)
        page = _page(name.strip(), info, _asked_in(shell), shell.user_ns) if namespaces is None else None
        return info if page is None else replace(info, found=True, obj=page, namespace="nnmagic", parent=None)

    shell._ofind = found  # of this shell alone; deleting it brings the class's own back


def remove_help(shell: InteractiveShell) -> None:
    """Takes away what ``add_help`` added."""
    matcher = _ADDED.pop(shell, None)
    if matcher is not None:
        matcher.remove()
        del shell._ofind


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where help was asked for: the cell that is being typed and the line of its cursor, if there is one.

    source: whether the source is wanted, too; in a terminal that is not known.
    """

    cell: str = ""
    line: int = 1
    source: bool = True


def _asked_in(shell: InteractiveShell) -> _Asked:
    kernel = getattr(shell, "kernel", None)
    message = kernel.get_parent() if kernel is not None else {}
    kind, content = message.get("header", {}).get("msg_type"), message.get("content", {})
    if kind == "inspect_request":
        code = str(content["code"])
        line = code.count("\n", 0, content["cursor_pos"]) + 1
        return _Asked(code, line, source=content.get("detail_level", 0) > 0)
    if kind == "execute_request":
        return _Asked(source=re.search(r"\?\?|pinfo2", str(content["code"])) is not None)
    return _Asked()


def _page(name: str, info: Any, asked: _Asked, namespace: dict[str, object]) -> object:
    """An object that IPython describes in place of what a name means; None for IPython's own answer."""
    if (of_magic := _magic_page(name, asked.cell, asked.line)) is not None:
        return of_magic
    if info.ismagic or name.startswith("%"):
        return None
    path = tuple(name.split("."))
    in_cell = asked.cell.lstrip().startswith("%%tinynn")
    if in_cell and len(path) == 1:
        from nnmagic.tinynn.local_types import type_of_local

        if (local := type_of_local(asked.cell, name, asked.line, namespace)) is not None:
            return _described("local", name, local)
    if info.found:
        from nnmagic.functions.compiled import CompiledFunction

        if isinstance(info.obj, CompiledFunction):
            return _function_page(info.obj, source=asked.source)
        if not in_cell or path[0] in namespace:
            return None
    if not all(part.isidentifier() for part in path):
        return None
    from nnmagic.tinynn.vocabulary import meaning

    word = meaning(path, namespace)
    return None if word is None else _word_page(word)


def _magic_page(name: str, cell: str, line: int) -> object:
    """The help for a word on the line of a magic of ours: the magic, an option, a command."""
    text = cell.split("\n")[line - 1]
    if line == 1 and (found := re.match(r"%%(tinynn|relay)\b", text)):
        from nnmagic.jupyter.magics import TinyNNMagics

        method = getattr(TinyNNMagics, f"{found[1]}_cell")
        if name.lstrip("%") == found[1]:
            return _described("magic", f"%%{found[1]}", inspect.getdoc(method) or "")
        for action in method.parser._actions:
            if f"--{name.lstrip('-')}" in action.option_strings:
                return _described("option", action.option_strings[-1], action.help)
    if re.match(r"\s*%tinynn\b", text):
        from nnmagic.jupyter.commands import COMMANDS

        if name in COMMANDS and re.match(rf"\s*%tinynn\s+(?:help\s+)?{name}\b", text):
            return _described("command", f"%tinynn {name}", COMMANDS[name].page)
    return None


def _word_page(word: Word) -> object:
    lines = [word.summary, *(["", *word.details] if word.details else [])]
    twins = [f"{whose}: {twin}" for whose, twin in (("Relay", word.relay), ("NumPy", word.numpy)) if twin]
    text = "\n".join([*lines, *(["", *twins] if twins else [])])
    signature = None if word.parameters is None else _signature(word.parameters)
    return _described(word.kind, word.name, text, signature)


def _signature(parameters: Sequence[str]) -> inspect.Signature:
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made = []
    for part in parameters:
        name, _, default = part.partition("=")
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif part.startswith("*"):
            made.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            value = _Written(default) if default else inspect.Parameter.empty
            made.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(made)


class _Written:
    """A default, as the declaration writes it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _function_page(function: CompiledFunction, *, source: bool) -> object:
    doc = inspect.cleandoc(function.__doc__ or "A compiled function without a docstring.")
    text = f"{doc}\n\nRelay:\n{textwrap.indent(function.relay_text.rstrip(), '  ')}"
    more: dict[str, object] = {}
    if source:  # with it IPython shows its file, too, which is none
        more["__wrapped__"] = function.__wrapped__
    return _described("compiled function", function.name, text, function.__signature__, more)


def _described(
    kind: str,
    name: str,
    doc: str,
    signature: inspect.Signature | None = None,
    more: Mapping[str, object] | None = None,
) -> object:
    """An object that says no more than this of itself; IPython takes it for one of Python's own."""
    body: dict[str, object] = {
        "__doc__": doc,
        "__module__": "builtins",
        "__name__": name,
        "__repr__": lambda _self: name,
        **(more or {}),
    }
    if signature is not None:

        def call(_self: object) -> None: ...

        own = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_ONLY)
        call.__dict__["__signature__"] = signature.replace(parameters=[own, *signature.parameters.values()])
        body |= {"__signature__": signature, "__call__": call}
    return type(kind, (), body)()
