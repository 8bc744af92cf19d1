"""Describe the functions, data types and constructors that an incomplete cell defines.

Types are shown as elaborated if possible, else as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synr import ast

from nnmagic.diagnostics import Source
from nnmagic.relay.signatures import format_type
from nnmagic.tinynn.editor.local_types import parse_incomplete
from nnmagic.tinynn.editor.symbols import Symbol
from nnmagic.tinynn.elaborate import Elaboration, elaborate_cell, new_elaboration
from nnmagic.tinynn.syntax import tree


def cell_symbol(cell: str, path: tuple[str, ...], namespace: Mapping[str, object]) -> Symbol | None:
    """Return the symbol of a name that the cell defines, or None.

    The name may be that of a function, a data type or a constructor: ``helper``, ``List``, ``Cons`` or
    ``List.Cons``.
    """
    read = parse_incomplete(cell)
    if read is None:
        return None
    source, diagnostics, module = read
    elaboration = new_elaboration(source, namespace, diagnostics)
    match path:
        case (name,) if name in module.funcs:
            elaborate_cell(elaboration, module)
            return _function_symbol(elaboration, source, module.funcs[name])
        case (name,) if name in module.types:
            return _type_symbol(elaboration, source, module.types[name])
        case (name,):
            candidates = list(module.types.values())
        case (owner, name) if owner in module.types:
            candidates = [module.types[owner]]
        case _:
            return None
    for data in candidates:
        for constructor in data.constructors:
            if constructor.name == name:
                return _constructor_symbol(elaboration, source, data, constructor)
    return None


def _function_symbol(elaboration: Elaboration, source: Source, definition: tree.DefinitionNode) -> Symbol:
    signature = elaboration.resolver.functions[definition.name].type
    if signature is not None:
        types = [format_type(type_) for type_ in signature.arg_types]
        result: str | None = format_type(signature.ret_type)
    else:
        types = [_text(elaboration, source, parameter.ty) for parameter in definition.params]
        result = None if definition.ret_type is None else _text(elaboration, source, definition.ret_type)
    return Symbol(
        definition.name,
        "function of this cell",
        definition.docstring or "No docstring.",
        _parameters(elaboration, source, definition.params, types),
        result=result,
        source=_text(elaboration, source, definition),
    )


def _type_symbol(elaboration: Elaboration, source: Source, data: tree.DataTypeNode) -> Symbol:
    signatures = [
        _constructor_symbol(elaboration, source, data, constructor).signature
        for constructor in data.constructors
    ]
    return Symbol(
        data.name,
        "data type of this cell",
        data.docstring or "No docstring.",
        details=("Constructors:", *(f"  {shown}" for shown in signatures)),
        source=_text(elaboration, source, data),
    )


def _constructor_symbol(
    elaboration: Elaboration,
    source: Source,
    data: tree.DataTypeNode,
    constructor: tree.ConstructorDeclaration,
) -> Symbol:
    types = [_text(elaboration, source, field.ty) for field in constructor.fields]
    return Symbol(
        constructor.name,
        "constructor of this cell",
        f"Makes a value of {data.name}.",
        _parameters(elaboration, source, constructor.fields, types),
        result=data.name,
        source=_text(elaboration, source, constructor),
    )


def _parameters(
    elaboration: Elaboration, source: Source, parameters: Sequence[tree.ParameterNode], types: list[str]
) -> tuple[str, ...]:
    """Return the parameters as Python would write them."""
    shown: list[str] = []
    for index, (parameter, type_) in enumerate(zip(parameters, types, strict=True)):
        before = parameters[index - 1].kind if index else ""
        if before == "POSITIONAL_ONLY" != parameter.kind:
            shown.append("/")
        if parameter.kind == "KEYWORD_ONLY" != before:
            shown.append("*")
        default = "" if parameter.default is None else f"={_text(elaboration, source, parameter.default)}"
        is_typed = type_ not in ("", parameter.name)  # a missing type is reported at the name
        shown.append(f"{parameter.name}: {type_}{default}" if is_typed else f"{parameter.name}{default}")
    if parameters and parameters[-1].kind == "POSITIONAL_ONLY":
        shown.append("/")
    return tuple(shown)


def _text(elaboration: Elaboration, source: Source, node: ast.Node | None) -> str:
    """Return the source text of a node, "" for none."""
    if node is None:
        return ""
    span = elaboration.span(node.span)
    lines = [source.line(number) or "" for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)
