"""What a cell that is being typed defines itself: its functions, data types and constructors, as words.

Types that the elaboration finds are shown as it finds them, the others as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synr import ast

from nnmagic.diagnostics import Source
from nnmagic.relay.signatures import format_type
from nnmagic.tinynn.editor.local_types import parse_incomplete
from nnmagic.tinynn.editor.symbols import Symbol
from nnmagic.tinynn.elaborate import Elaborator
from nnmagic.tinynn.syntax import tree


def cell_symbol(cell: str, path: tuple[str, ...], namespace: Mapping[str, object]) -> Symbol | None:
    """The word of a name that the cell defines: ``helper``, ``List``, ``Cons``, ``List.Cons``; else None."""
    read = parse_incomplete(cell)
    if read is None:
        return None
    source, found, module = read
    elaborator = Elaborator(source, namespace, found)
    match path:
        case (name,) if name in module.funcs:
            elaborator.transform_module(module)
            return _function_word(elaborator, source, module.funcs[name])
        case (name,) if name in module.types:
            return _type_word(elaborator, source, module.types[name])
        case (name,):
            candidates = list(module.types.values())
        case (owner, name) if owner in module.types:
            candidates = [module.types[owner]]
        case _:
            return None
    for data in candidates:
        for constructor in data.constructors:
            if constructor.name == name:
                return _constructor_word(elaborator, source, data, constructor)
    return None


def _function_word(elaborator: Elaborator, source: Source, definition: tree.FunctionNode) -> Symbol:
    known = elaborator.scope.functions[definition.name].type
    if known is not None:
        types = [format_type(type_) for type_ in known.arg_types]
        result: str | None = format_type(known.ret_type)
    else:
        types = [_text(elaborator, source, each.ty) for each in definition.params]
        result = None if definition.ret_type is None else _text(elaborator, source, definition.ret_type)
    return Symbol(
        definition.name,
        "function of this cell",
        definition.docstring or "No docstring.",
        _parameters(elaborator, source, definition.params, types),
        result=result,
        source=_text(elaborator, source, definition),
    )


def _type_word(elaborator: Elaborator, source: Source, data: tree.DataTypeNode) -> Symbol:
    made = [_constructor_word(elaborator, source, data, each).signature for each in data.constructors]
    return Symbol(
        data.name,
        "data type of this cell",
        data.docstring or "No docstring.",
        details=("Constructors:", *(f"  {shown}" for shown in made)),
        source=_text(elaborator, source, data),
    )


def _constructor_word(
    elaborator: Elaborator, source: Source, data: tree.DataTypeNode, constructor: tree.ConstructorDeclaration
) -> Symbol:
    types = [_text(elaborator, source, each.ty) for each in constructor.fields]
    return Symbol(
        constructor.name,
        "constructor of this cell",
        f"Makes a value of {data.name}.",
        _parameters(elaborator, source, constructor.fields, types),
        result=data.name,
        source=_text(elaborator, source, constructor),
    )


def _parameters(
    elaborator: Elaborator,
    source: Source,
    parameters: Sequence[tree.ParameterNode],
    types: list[str],
) -> tuple[str, ...]:
    """The parameters as Python would write them."""
    shown: list[str] = []
    for place, (parameter, type_) in enumerate(zip(parameters, types, strict=True)):
        before = parameters[place - 1].kind if place else ""
        if before == "POSITIONAL_ONLY" != parameter.kind:
            shown.append("/")
        if parameter.kind == "KEYWORD_ONLY" != before:
            shown.append("*")
        default = "" if parameter.default is None else f"={_text(elaborator, source, parameter.default)}"
        is_typed = type_ not in ("", parameter.name)  # where no type is written, the error stands at the name
        shown.append(f"{parameter.name}: {type_}{default}" if is_typed else f"{parameter.name}{default}")
    if parameters and parameters[-1].kind == "POSITIONAL_ONLY":
        shown.append("/")
    return tuple(shown)


def _text(elaborator: Elaborator, source: Source, node: ast.Node | None) -> str:
    """What is written for a node; "" where nothing is."""
    if node is None:
        return ""
    span = elaborator.place(node.span)
    lines = [source.line(number) or "" for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)
