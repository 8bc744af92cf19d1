"""Complete words inside cells through IPython's matchers, as JupyterLab and terminals show on Tab."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.jupyter.cursor_context import CursorContext, Names
    from nnmagic.tinynn.editor.symbols import Symbol

#: What JupyterLab calls the kinds of words.
_KINDS = {
    "operator": "function",
    "function": "function",
    "method": "function",
    "attribute": "property",
    "dtype": "type",
    "type": "type",
    "constant": "instance",
    "keyword": "keyword",
}


class CellMatcher:
    """The matcher of one shell: returns the completions at the cursor."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

        @context_matcher(identifier="nnmagic", priority=100)
        def matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self._matches(context)

        self._matcher = matcher

    def add(self) -> None:
        """Add the matcher to the shell."""
        self._shell.Completer.custom_matchers.append(self._matcher)

    def remove(self) -> None:
        """Remove the matcher from the shell."""
        matchers = self._shell.Completer.custom_matchers
        matchers[:] = [matcher for matcher in matchers if matcher is not self._matcher]

    def _matches(self, context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = lines[context.cursor_line][: context.cursor_position]
        first = next((number for number, line in enumerate(lines) if line.strip()), 0)
        magic = re.match(r"%%(tinynn|relay)\b", lines[first])
        if magic and context.cursor_line == first:
            from nnmagic.jupyter.option_completion import complete_cell_options

            return _options(before, complete_cell_options(magic[1], before, self._shell.user_ns))
        if magic:
            body = "\n".join(lines[first + 1 :])
            above = "\n".join([*lines[first + 1 : context.cursor_line], before])
            return _in_relay(body, above) if magic[1] == "relay" else self._in_cell(body, above)
        if line := re.match(r"\s*%tinynn\s+(.*)$", before):
            from nnmagic.jupyter.option_completion import complete_command

            return _options(before, complete_command(line[1], self._shell.user_ns))
        if line := re.match(r"\s*%onnx\s+(.*)$", before):
            from nnmagic.jupyter.onnx_magic import complete_onnx

            return _options(before, complete_onnx(line[1]))
        if key := re.search(r"(\w+)\.stages\[(['\"]?)([\w-]*)$", before):
            return _stage_names(self._shell.user_ns.get(key[1]), key[2], key[3])
        return {"completions": []}

    def _in_cell(self, body: str, above: str) -> SimpleMatcherResult:
        from nnmagic.jupyter.cursor_context import cursor_in, names_in

        cursor, names = cursor_in(above), names_in(body, above)
        hidden: Mapping[str, object] = self._shell.user_ns_hidden
        namespace = {
            name: value
            for name, value in self._shell.user_ns.items()
            if name not in hidden or value is not hidden[name]
        }
        if cursor.quoted:
            subscript = re.search(r"([\w.]+)\[\s*['\"](\w*)$", cursor.line)
            if subscript is None:
                return _result("", {})
            keys = _keys(tuple(subscript[1].split(".")), names, namespace)
            return _result(
                subscript[2], dict.fromkeys([key for key in keys if isinstance(key, str)], "instance")
            )
        return _result(cursor.prefix, suggestions(cursor, names, namespace))


def suggestions(cursor: CursorContext, names: Names, namespace: Mapping[str, object]) -> dict[str, str]:
    """Return the completions at the cursor of a %%tinynn cell with their kinds, the likeliest first."""
    if cursor.owner:
        return {} if re.search(r"\.shape\[[^\]]*\]$", cursor.owner) else _of_tensor()
    if cursor.begins_definition():
        return dict.fromkeys(("def", "class"), "keyword")
    if len(cursor.path) > 1:
        return _members(cursor.path[:-1], names, namespace)
    if cursor.expects_type():
        return _types(names, namespace)
    if cursor.bracket is not None and cursor.bracket.defines and cursor.bracket.kind == "(":
        return {}  # a new name
    if cursor.expects_dimension():
        return _dimensions(namespace)
    completions: dict[str, str] = {}
    if cursor.bracket is not None and cursor.bracket.kind == "[" and not cursor.bracket.commas:
        keys = _keys(tuple(cursor.bracket.callee.split(".")), names, namespace)
        completions = {repr(key): "instance" for key in keys}
    if cursor.expects_keyword() and cursor.bracket is not None:
        taken = {*cursor.bracket.keywords, *_by_position(cursor, names, namespace)}
        completions = {
            f"{name}=": "param"
            for name in _parameters_of(cursor.bracket.callee, names, namespace)
            if name not in taken
        }
    if _expects_dtype(cursor, names, namespace):
        completions = _dtypes() | completions
    return completions | _free_names(names, namespace)


def _expects_dtype(cursor: CursorContext, names: Names, namespace: Mapping[str, object]) -> bool:
    """Return whether the argument at the cursor is a dtype, by its name or by its position."""
    bracket = cursor.bracket
    if bracket is None or bracket.kind != "(" or not bracket.callee or bracket.defines:
        return False
    if re.match(r"\s*\w*dtype\s*=", bracket.part):
        return True
    if bracket.keywords or not cursor.expects_keyword():
        return False
    parameters = _parameters_of(bracket.callee, names, namespace)
    return parameters[bracket.commas : bracket.commas + 1] == ("dtype",)


def _free_names(names: Names, namespace: Mapping[str, object]) -> dict[str, str]:
    from nnmagic.tinynn.editor.symbols import KEYWORDS, namespaces, symbols
    from nnmagic.tinynn.namespace.compiled_values import as_compiled_type

    kinds = dict.fromkeys(names.local, "instance")
    kinds |= dict.fromkeys(names.functions, "function")
    for name, constructors in names.classes.items():
        kinds |= {name: "class", **dict.fromkeys(constructors, "class")}
    own_types = []
    for name, value in namespace.items():
        if not name.startswith("_") and (kind := _capture_kind(value)):
            kinds[name] = kind
            own_types.append(as_compiled_type(value))
    for data in own_types:
        kinds |= dict.fromkeys(data.fields if data is not None else (), "class")  # called by their names
    own = {name: _KINDS[symbol.kind] for name, symbol in symbols().items()}
    spaces = {name.partition(".")[0]: "module" for name in namespaces()}
    keywords = dict.fromkeys(KEYWORDS, "keyword")
    return {**kinds, **{name: kind for name, kind in (spaces | own | keywords).items() if name not in kinds}}


def _capture_kind(value: object) -> str:
    """Return what a cell takes a value of the notebook for; "" if a cell cannot use it."""
    import numpy as np

    from nnmagic.tinynn.editor.symbols import module_symbols
    from nnmagic.tinynn.namespace.compiled_values import as_compiled_function, as_compiled_type
    from nnmagic.tinynn.types.annotations import DType

    if isinstance(value, ModuleType):
        return "module" if module_symbols(value.__name__) or value.__name__.startswith("nnmagic") else ""
    if isinstance(value, bool | int | float | str | tuple | list | dict | np.ndarray | np.generic | DType):
        return "instance"
    if as_compiled_type(value) is not None:
        return "class"
    if as_compiled_function(value) is not None:
        return "function"
    return "instance" if _fields(value) else ""


def _fields(value: object) -> dict[str, str]:
    """Return the fields of an object, such as settings, that a cell can use."""
    from nnmagic.tinynn.namespace.capture import holds_values, member_names, member_of
    from nnmagic.tinynn.parameters import MISSING

    if not holds_values(value):
        return {}
    members = {name: member_of(value, name) for name in member_names(value) if not name.startswith("_")}
    return {
        name: "instance"
        for name, member in members.items()
        if member is not MISSING and not holds_values(member) and _capture_kind(member)
    }


def _value(path: tuple[str, ...], names: Names, namespace: Mapping[str, object]) -> object:
    """Look up a dotted name in the notebook; return MISSING for a name that the cell itself defines."""
    from nnmagic.tinynn.namespace.capture import member_of
    from nnmagic.tinynn.parameters import MISSING

    own = path[0] in names.local or path[0] in names.functions or path[0] in names.classes
    value = MISSING if own else namespace.get(path[0], MISSING)
    for part in path[1:]:
        value = MISSING if value is MISSING else member_of(value, part)
    return value


def _keys(path: tuple[str, ...], names: Names, namespace: Mapping[str, object]) -> list[str | int]:
    """Return the keys of a dictionary of the notebook."""
    value = _value(path, names, namespace)
    return [key for key in value if type(key) in (str, int)] if isinstance(value, dict) else []


def _dimensions(namespace: Mapping[str, object]) -> dict[str, str]:
    """Return the names of the notebook that may be a dimension of a type."""
    return {
        name: "instance"
        for name, value in namespace.items()
        if not name.startswith("_") and isinstance(value, int) and not isinstance(value, bool)
    }


def _members(owner: tuple[str, ...], names: Names, namespace: Mapping[str, object]) -> dict[str, str]:
    """Return the completions after ``owner.``."""
    from nnmagic.tinynn.editor.symbols import module_named, module_symbols, namespaces, ufunc_symbols
    from nnmagic.tinynn.namespace.compiled_values import as_compiled_type

    head = owner[0]
    if len(owner) > 1 and owner[-1] in _OF_NO_TENSOR:
        return {}
    if head in names.local:
        from nnmagic.tinynn.editor.symbols import other_members

        return _of_tensor() | _kinds(other_members())
    if head in names.classes:
        return dict.fromkeys(names.classes[head], "class")
    if head in names.functions:
        return {}
    value = namespace.get(head)
    if members := _fields(_value(owner, names, namespace)):
        return members
    if isinstance(_value(owner, names, namespace), dict):
        return dict.fromkeys(("items", "keys", "values"), "function")
    if isinstance(value, ModuleType) and not value.__name__.startswith("nnmagic"):
        members = _kinds(module_symbols(module_named(owner, namespace)))
        if not members and len(owner) > 1 and module_named(owner[:-1], namespace) == "numpy":
            members = _kinds(ufunc_symbols(owner[-1]))
        return members or _of_space(owner, namespaces())
    if (data := as_compiled_type(value)) is not None:
        return dict.fromkeys(data.fields, "class")
    if spaces := _of_space(owner, namespaces()) | _kinds(module_symbols(module_named(owner, namespace))):
        return spaces
    if owner == ("nnmagic",):
        return {"relay": "module", "InOut": "type", "Out": "type", "Tensor": "type"} | _dtypes()
    return _of_tensor() if head not in ("relay", "nnmagic") else {}


#: Attributes of tensors whose values have none that a cell knows.
_OF_NO_TENSOR = ("shape", "ndim", "size", "dtype", "itemsize", "nbytes")


def _of_tensor() -> dict[str, str]:
    from nnmagic.tinynn.editor.symbols import members

    return _kinds(members())


def _of_space(owner: tuple[str, ...], spaces: Mapping[str, Mapping[str, Symbol]]) -> dict[str, str]:
    """Return the operators and the namespaces inside a namespace."""
    path = owner[1:] if owner[0] in ("relay", "nnmagic") and len(owner) > 1 else owner
    name = ".".join(path)
    inner = [member for member in spaces if member.startswith("" if name == "relay" else f"{name}.")]
    modules = {
        member.removeprefix(f"{name}.").partition(".")[0]: "module" for member in inner if member != "relay"
    }
    return _kinds(spaces.get(name, {})) | modules


def _parameters_of(callee: str, names: Names, namespace: Mapping[str, object]) -> tuple[str, ...]:
    from nnmagic.tinynn.editor.symbols import meaning
    from nnmagic.tinynn.namespace.compiled_values import as_compiled_function

    if callee in names.functions:
        return names.functions[callee]
    if (function := as_compiled_function(namespace.get(callee))) is not None:
        return tuple(parameter.name for parameter in function.parameters)
    path = tuple(callee.split("."))
    outside = {name: value for name, value in namespace.items() if name not in names.local}
    symbol = meaning(path, outside)
    return symbol.keywords if symbol is not None else ()


def _by_position(cursor: CursorContext, names: Names, namespace: Mapping[str, object]) -> tuple[str, ...]:
    """Return the parameters that the positional arguments before the cursor fill."""
    assert cursor.bracket is not None
    given = cursor.bracket.commas - len(cursor.bracket.keywords)
    return _parameters_of(cursor.bracket.callee, names, namespace)[:given]


def _types(names: Names, namespace: Mapping[str, object]) -> dict[str, str]:
    from nnmagic.tinynn.editor.symbols import TYPE_NAMES
    from nnmagic.tinynn.namespace.compiled_values import as_compiled_type

    kinds = _dtypes() | dict.fromkeys(TYPE_NAMES, "type") | dict.fromkeys(names.classes, "class")
    for name, value in namespace.items():
        if not name.startswith("_") and (
            as_compiled_type(value) is not None or isinstance(value, bool | int | tuple)
        ):
            kinds.setdefault(name, "instance")
    return kinds


def _dtypes() -> dict[str, str]:
    from nnmagic.tinynn.types.annotations import DTYPES

    return {dtype.short: "type" for dtype in DTYPES.values()}


def _in_relay(body: str, above: str) -> SimpleMatcherResult:
    """Complete names, operators, attributes and dtypes in a cell of Relay text."""
    from nnmagic.jupyter.cursor_context import cursor_in
    from nnmagic.relay.ops import OPERATORS
    from nnmagic.relay.types import NUMPY_DTYPES

    word = re.search(r"[%@]?[\w.]*$", above)
    prefix = word[0] if word else ""
    cursor = cursor_in(above)
    if cursor.quoted:
        return _result("", {})
    symbols = dict.fromkeys(re.findall(r"[%@][^\W\d]\w*", body), "instance")
    symbols.pop(prefix, None)
    callee = cursor.bracket.callee if cursor.bracket is not None else ""
    if callee in OPERATORS:
        symbols |= {f"{attr.name}=": "param" for attr in OPERATORS[callee].attrs}
    symbols |= dict.fromkeys(OPERATORS, "function")
    symbols |= dict.fromkeys(NUMPY_DTYPES, "type") | {"Tensor": "type"}
    symbols |= dict.fromkeys(("def", "fn", "let", "if", "else", "match", "type"), "keyword")
    return _result(prefix, symbols)


def _stage_names(owner: object, quote: str, prefix: str) -> SimpleMatcherResult:
    """Complete the keys of ``f.stages``, which IPython does not evaluate because it is a property."""
    from nnmagic.functions.compiled import CompiledFunction

    if not isinstance(owner, CompiledFunction):
        return {"completions": []}
    names = owner.stages if quote else map(repr, owner.stages)
    return _result(prefix, dict.fromkeys(names, "instance"))


def _kinds(symbols: Mapping[str, Symbol]) -> dict[str, str]:
    return {name: _KINDS[symbol.kind] for name, symbol in symbols.items()}


def _options(before: str, words: Iterable[str] | None) -> SimpleMatcherResult:
    """Complete words of a magic's line; None leaves the line to other matchers."""
    if words is None:
        return {"completions": []}  # a new one each time: IPython writes into it
    prefix = re.split(r"[\s,=]", before)[-1]
    return _result(prefix, dict.fromkeys(words, "magic"))


def _result(prefix: str, kinds: Mapping[str, str]) -> SimpleMatcherResult:
    """Return the words with the prefix, in the order given, and silence other matchers."""
    own = _Completions(
        SimpleCompletion(text=name, type=kind) for name, kind in kinds.items() if name.startswith(prefix)
    )
    return {"completions": own, "matched_fragment": prefix, "suppress": True, "ordered": True}


class _Completions(list[SimpleCompletion]):
    """Never empty by its length, which IPython takes for the wish that other matchers are silent."""

    def __len__(self) -> int:
        return max(super().__len__(), 1)
