"""Show help: completion in cells, and ``?`` and Shift-Tab for the words of the language.

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

from nnmagic.jupyter.changes import find_origin
from nnmagic.jupyter.completion import CellMatcher

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.tinynn.editor.symbols import Symbol

_ADDED: WeakKeyDictionary[InteractiveShell, CellMatcher] = WeakKeyDictionary()


def add_help(shell: InteractiveShell) -> None:
    """Add completion and inspection to a shell."""
    matcher = _ADDED[shell] = CellMatcher(shell)
    matcher.add()
    find, describe = shell._ofind, shell.inspector.info

    def find_with_page(name: str, namespaces: Any = None) -> Any:
        info = find(name, namespaces)
        page = _page(name.strip(), info, _cell_of_request(shell), shell) if namespaces is None else None
        return info if page is None else replace(info, found=True, obj=page, namespace="nnmagic", parent=None)

    def describe_with_page(obj: object, *args: Any, **keywords: Any) -> Any:
        info = describe(obj, *args, **keywords)
        return {**info, **_FIELDS, **obj.fields} if isinstance(obj, _Page) else info

    # Of this shell alone; deleting them brings the class's own back.
    shell._ofind = find_with_page
    shell.inspector.info = describe_with_page


def remove_help(shell: InteractiveShell) -> None:
    """Remove what ``add_help`` added."""
    matcher = _ADDED.pop(shell, None)
    if matcher is not None:
        matcher.remove()
        del shell._ofind
        vars(shell.inspector).pop("info", None)  # a new inspector, of other colours, has none


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where help was asked for: the cell and the line of its cursor, if there is one."""

    cell: str = ""
    line: int = 1


def _cell_of_request(shell: InteractiveShell) -> _Asked:
    kernel = getattr(shell, "kernel", None)
    message = kernel.get_parent() if kernel is not None else {}
    if message.get("header", {}).get("msg_type") != "inspect_request":
        return _Asked()
    code = str(message["content"]["code"])
    blank = len(code) - len(code.lstrip("\n"))  # lines above the magic's
    return _Asked(code[blank:], code.count("\n", 0, message["content"]["cursor_pos"]) + 1 - blank)


def _page(name: str, info: Any, asked: _Asked, shell: InteractiveShell) -> _Page | None:
    """Return the page that replaces IPython's own description of a name; None to keep IPython's."""
    namespace: dict[str, object] = shell.user_ns
    if (of_magic := _magic_page(name, asked.cell, asked.line)) is not None:
        return of_magic
    path = tuple(name.split("."))
    if info.ismagic or not all(part.isidentifier() for part in path):
        return None
    in_cell = asked.cell.lstrip().startswith("%%tinynn")
    if in_cell and (own := _page_of_cell(path, asked, namespace)) is not None:
        return own
    value = info.obj if info.found else None
    if in_cell and value is None and len(path) == 1:
        value = _constructor(name, namespace)
    if (of_object := _object_page(value, shell)) is not None:
        return of_object
    if info.found and not in_cell:
        return None
    from nnmagic.tinynn.editor.symbols import meaning

    symbol = meaning(path, namespace)
    return None if symbol is None else _symbol_page(symbol)


def _page_of_cell(path: tuple[str, ...], asked: _Asked, namespace: dict[str, object]) -> _Page | None:
    """Return the page of a name that the cell itself defines."""
    from nnmagic.tinynn.editor.cell_symbols import cell_symbol
    from nnmagic.tinynn.editor.local_types import type_of_local

    if len(path) == 1 and (local := type_of_local(asked.cell, path[0], asked.line, namespace)) is not None:
        return _make_page("local", path[0], local)
    symbol = cell_symbol(asked.cell, path, namespace)
    return None if symbol is None else _symbol_page(symbol)


def _constructor(name: str, namespace: dict[str, object]) -> object:
    """Return the constructor that a cell may call by its bare name; None if no data type has it."""
    from nnmagic.tinynn.namespace.compiled_values import types_with

    return next((getattr(data, name) for data in types_with(namespace, name).values()), None)


def _object_page(value: object, shell: InteractiveShell) -> _Page | None:
    """Return the page of an object that a cell has bound."""
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.data_types import DataConstructor, DataType
    from nnmagic.functions.specializing import SpecializingFunction

    match value:
        case CompiledFunction():
            doc = inspect.cleandoc(value.__doc__ or "A compiled function without a docstring.")
            text = f"{doc}\n\nRelay:\n{textwrap.indent(value.relay_text.rstrip(), '  ')}"
            more = {"file": find_origin(value, shell), "source": value.__dsl_code__}
            return _make_page("compiled function", value.name, text, value.__signature__, more)
        case SpecializingFunction():
            doc = inspect.cleandoc(value.__doc__ or "A compiled function without a docstring.")
            text = "\n".join([f"{doc}\n", f"It is {value._state()}.", *map("  {}".format, value.annotated)])
            more = {"source": value.__dsl_code__}
            return _make_page("compiled function", value.name, text, value.__signature__, more)
        case DataType():
            var = vars(value)["_constructors"].get(value.__name__)  # of a record
            signature = None if var is None else var.__signature__
            return _make_page("data type", value.__name__, value.__doc__ or "", signature)
        case DataConstructor():
            return _make_page("constructor", value.__name__, value.__doc__ or "", value.__signature__)
    return None


def _magic_page(name: str, cell: str, line: int) -> _Page | None:
    """Return the page of a word on a magic's line: the magic, an option, a command."""
    lines = cell.split("\n")
    text = lines[line - 1]
    if magic := re.match(r"%%(tinynn|relay)\b", lines[0]):
        from nnmagic.jupyter.magics import TinyNNMagics

        method = getattr(TinyNNMagics, f"{magic[1]}_cell")
        if name.lstrip("%") == magic[1]:  # on a line below, too, where no other name stands before the cursor
            return _make_page("magic", f"%%{magic[1]}", inspect.getdoc(method) or "")
        for action in method.parser._actions if line == 1 else ():
            if f"--{name.lstrip('-')}" in action.option_strings:
                return _make_page("option", action.option_strings[-1], action.help)
    if re.match(r"\s*%tinynn\b", text):
        from nnmagic.jupyter.commands import COMMANDS

        if name in COMMANDS and re.match(rf"\s*%tinynn\s+(?:help\s+)?{name}\b", text):
            return _make_page("command", f"%tinynn {name}", COMMANDS[name].page)
    return None


def _symbol_page(symbol: Symbol) -> _Page:
    twins = [f"{whose}: {twin}" for whose, twin in (("Relay", symbol.relay), ("NumPy", symbol.twin)) if twin]
    example = [f"Example: {symbol.example}"] if symbol.example else []
    parts = ([symbol.summary], symbol.details, twins, example)
    text = "\n\n".join("\n".join(lines) for lines in parts if lines)
    signature = None if symbol.parameters is None else _signature(symbol.parameters, symbol.result)
    return _make_page(symbol.kind, symbol.name, text, signature, {"source": symbol.source})


def _signature(parameters: Sequence[str], result: str | None) -> inspect.Signature:
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made: list[inspect.Parameter] = []
    for parameter in parameters:
        declared, _, default = parameter.partition("=")
        name, _, annotation = declared.partition(": ")
        if parameter == "/":
            made = [each.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for each in made]
        elif parameter == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif parameter.startswith("*"):
            made.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            made.append(
                inspect.Parameter(
                    name, kind, default=_source_form(default), annotation=_source_form(annotation)
                )
            )
    return inspect.Signature(made, return_annotation=_source_form(result))


class _Written:
    """A default value or a type, as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _source_form(text: str | None) -> Any:
    return _Written(text) if text else inspect.Parameter.empty


class _Page:
    """The description of a name: an object that IPython takes for one of Python's own.

    fields: what its description has beside the type, the signature and the docstring.
    """

    fields: Mapping[str, object]


#: What a description of ours has not.
_FIELDS = {
    **dict.fromkeys(("string_form", "file", "source", "class_docstring", "init_docstring", "call_docstring")),
    "namespace": "Interactive",  # which is not shown
}


def _make_page(
    kind: str,
    name: str,
    doc: str,
    signature: inspect.Signature | None = None,
    fields: Mapping[str, object] | None = None,
) -> _Page:
    """Return an object whose description has this and no more."""
    body: dict[str, object] = {
        "__doc__": doc,
        "__module__": "builtins",
        "__name__": name,
        "__repr__": lambda _self: name,
        "fields": fields or {},
    }
    if signature is not None:

        def call(_self: object) -> None: ...

        own = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_ONLY)
        call.__dict__["__signature__"] = signature.replace(parameters=[own, *signature.parameters.values()])
        body |= {"__signature__": signature, "__call__": call}
    page: _Page = type(kind, (_Page,), body)()
    return page
