"""Compile a cell's text and the notebook's names to typed Relay: the steps of the language in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from synr import ast

from nnmagic.diagnostics import Diagnostics, RelayError, Source, Span, TinyNNError
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.tinynn.analysis.lint import lint
from nnmagic.tinynn.calls.defaults import to_python
from nnmagic.tinynn.elaborate import elaborate_cell, new_elaboration
from nnmagic.tinynn.program import MISSING, DataTypeInfo, FunctionInfo, ParameterInfo, Program
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.values.values import Formal


def compile_source(source: Source, namespace: Mapping[str, object]) -> Program:
    """Compile a cell's text to a Relay module, with what the text took from the namespace.

    Nothing of the namespace is run. Raises TinyNNError with every error of the cell.
    """
    diagnostics = Diagnostics()
    module = parse(source, diagnostics)
    if module is None or not (module.funcs or module.types):
        diagnostics.raise_if_any(TinyNNError)
        raise AssertionError("a cell without functions is an error")
    elaboration = new_elaboration(source, namespace, diagnostics)
    functions = elaborate_cell(elaboration, module)
    diagnostics.raise_if_any(TinyNNError)
    assert len(functions) == len(module.funcs), "a function that failed without an error"
    try:
        typed = infer_type(
            Module({**functions, **elaboration.resolver.linker.functions}, elaboration.resolver.types()),
            look_into_callees=True,
        )
    except RelayError as error:
        raise TinyNNError(error.diagnostics) from None
    infos = tuple(
        _info(definition, elaboration.span, source, elaboration.resolver.functions[name].parameters)
        for name, definition in module.funcs.items()
    )
    types = tuple(
        DataTypeInfo(name, data.docstring, elaboration.resolver.data_types[name].fields)
        for name, data in module.types.items()
    )
    changed = {info.name: {each.name for each in info.parameters if each.destination} for info in infos}
    warnings = tuple(lint(module, elaboration.span, changed))
    known = {**elaboration.resolver.linker.infos, **{info.name: info for info in types}}
    return Program(typed, infos, types, known, elaboration.resolver.looked_up, module, warnings)


def _info(
    definition: tree.DefinitionNode,
    to_span: Callable[[ast.Span], Span],
    source: Source,
    formals: Sequence[Formal],
) -> FunctionInfo:
    span = to_span(definition.span)
    lines = (source.line(number) or "" for number in range(span.line, span.end_line + 1))
    parameters = tuple(
        ParameterInfo(
            formal.name,
            formal.kind,
            MISSING if formal.default is None else to_python(formal.default),
            formal.destination,
        )
        for formal in formals
    )
    return FunctionInfo(definition.name, definition.docstring, span, "\n".join(lines), parameters)
