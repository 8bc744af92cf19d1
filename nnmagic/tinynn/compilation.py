"""Compile a cell's text and the notebook's names to typed Relay: the steps of the language in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from synr import ast

from nnmagic.diagnostics import (
    CompileError,
    Diagnostics,
    RelayError,
    Source,
    Span,
    TinyNNError,
    internal_error,
)
from nnmagic.relay.gradients.markers import Expanded, expand_marks
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.types import NESTED, RecordType, Type
from nnmagic.tinynn.analysis.bound_names import find_local_names, find_mentioned_names
from nnmagic.tinynn.analysis.kernels import check_kernels, settle_pranges
from nnmagic.tinynn.analysis.lint import lint
from nnmagic.tinynn.calls.defaults import to_python
from nnmagic.tinynn.elaborate import elaborate_cell, new_elaboration
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.namespace.notebook_functions import names_in, source_code
from nnmagic.tinynn.parameters import MISSING, ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo, FunctionInfo, Program, Specialization
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.syntax.nested_parameters import NOTHING_NESTED, Nested
from nnmagic.tinynn.syntax.printing import printing
from nnmagic.tinynn.syntax.source_spans import SpanMap
from nnmagic.tinynn.syntax.statements import StatementCompiler
from nnmagic.tinynn.types.annotations import OpenTensor
from nnmagic.tinynn.values.affine import sizes_of_arrays
from nnmagic.tinynn.values.promotion import promotion
from nnmagic.tinynn.values.values import Formal, Known, NotStaticError
from nnmagic.tracebacks import frames_of, is_own_fault


def compile_source(
    source: Source,
    namespace: Mapping[str, object],
    specialization: Specialization | None = None,
    *,
    promote: bool | None = None,
    debug: bool = True,
) -> Program:
    """Compile a cell's text to a Relay module, with what the text took from the namespace.

    ``specialization``: the arguments to compile one function for, whose parameters have open types.
    ``promote``: how arrays of different dtypes meet, as `promotion` takes it. ``debug``: whether ``print``
    prints.
    Nothing of the namespace is run. Raises TinyNNError with every error of the cell, and InternalError.
    """
    with printing(on=debug):
        try:
            return _compile_source(source, namespace, specialization, promote)
        except Exception as error:
            if isinstance(error, CompileError) or not is_own_fault(error):
                raise
            raise internal_error("this cannot be compiled", error, _span_of_fault(error, source)) from error


def _span_of_fault(error: Exception, source: Source) -> Span:
    """Return the span of the innermost part of the tree that was at work, which the error's frames hold."""
    for frame in reversed(frames_of(error)):
        names = frame.tb_frame.f_locals
        match frame.tb_frame.f_code.co_name, names:
            case "evaluate", {"self": Elaboration() as elaboration, "expr": node}:
                return elaboration.span(node.span)
            case "execute", {"self": Elaboration() as elaboration, "statement": node}:
                return elaboration.span(node.span)
            case "_try_body", {"ctx": Elaboration() as elaboration, "definition": node}:
                return elaboration.span(node.name_span)
            case "compile_stmt", {"self": StatementCompiler() as compiler, "stmt": node}:
                return compiler.spans.public(compiler.spans.of(node))
    return SpanMap(source).start


def _compile_source(
    source: Source,
    namespace: Mapping[str, object],
    specialization: Specialization | None,
    promote: bool | None,
    nested: Nested = NOTHING_NESTED,
) -> Program:
    diagnostics = Diagnostics()
    if specialization is not None and (own := _nested_in(specialization)):
        nested = {**nested, specialization.name: own}
    module = parse(source, diagnostics, nested=nested)
    if module is None or not (module.funcs or module.types):
        diagnostics.raise_if_any(TinyNNError)
        raise AssertionError("a cell without functions is an error")
    elaboration = new_elaboration(source, namespace, diagnostics)
    elaboration.specialize = partial(_compile_source, source, namespace, promote=promote, nested=nested)
    with promotion(promote, elaboration.note), sizes_of_arrays(elaboration.sizes_of_arrays):
        functions = elaborate_cell(elaboration, module, specialization)
    diagnostics.raise_if_any(TinyNNError)
    resolver = elaboration.resolver
    expected = set(resolver.functions) if specialization else set(module.funcs) - set(resolver.templates)
    assert set(functions) == expected, "a function that failed without an error"
    try:
        linked = Module({**functions, **resolver.linker.functions}, resolver.types())
        typed = infer_type(linked, look_into_callees=True)
        typed = settle_pranges(typed, elaboration.note)
        check_kernels(typed, diagnostics)
        diagnostics.raise_if_any(TinyNNError)
        expanded = expand_marks(typed) if elaboration.asks_for_gradients else Expanded(typed)
    except RelayError as error:
        raise TinyNNError(error.diagnostics) from None
    beside = {name: each for name, each in elaboration.beside.items() if name in functions}
    infos = tuple(
        _info(
            definition,
            elaboration.span,
            source,
            (resolver.functions | resolver.templates)[name].parameters,
            resolver.open_types.get(name, {}),
        )
        for name, definition in {**beside, **module.funcs}.items()
        if name in functions or name in resolver.templates
    )
    types = tuple(
        DataTypeInfo(name, data.docstring, resolver.data_types[name].fields)
        for name, data in module.types.items()
        if not data.is_record
    )
    records = tuple(record.type for record in resolver.records.values())
    changed = {
        info.name: {parameter.name for parameter in info.parameters if parameter.destination}
        for info in infos
    }
    lints = () if specialization else lint(module, elaboration.span, changed)  # once for a cell
    warnings = (*lints, *elaboration.warnings.values(), *expanded.warnings)
    known = {**resolver.linker.infos, **{info.name: info for info in types}}
    free = () if specialization or not resolver.templates else _free_names(module, namespace)
    captured = {**{name: look_up(namespace, name) for name in free}, **resolver.looked_up}
    return Program(expanded.module, infos, types, known, captured, module, free, warnings, records)


def _nested_in(specialization: Specialization) -> dict[str, tuple[str, ...]]:
    """Return the parts of the arguments that are lists of lists and the like, by their parameters."""
    return {
        name: type_.names
        for name, type_ in specialization.types.items()
        if isinstance(type_, RecordType) and type_.name == NESTED
    }


def _free_names(cell: tree.CellNode, namespace: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names that functions mention and that are neither theirs nor the cell's.

    Also those that functions of the notebook mention which these call.
    """
    free: set[str] = set()
    for definition in cell.funcs.values():
        own = {parameter.name for parameter in definition.params} | find_local_names(definition.body)
        free |= find_mentioned_names(definition) - own
    work = list(free - set(cell.funcs))
    while work:
        code = source_code(look_up(namespace, work.pop()))
        inner = set() if code is None else names_in(code.__code__) - free
        free |= inner
        work += inner
    return tuple(sorted(free - set(cell.funcs) - set(cell.types)))


def _info(
    definition: tree.DefinitionNode,
    to_span: Callable[[ast.Span], Span],
    source: Source,
    formals: Sequence[Formal],
    open_types: Mapping[str, Type | OpenTensor | None],
) -> FunctionInfo:
    span = to_span(definition.span)
    lines = (source.line(number) or "" for number in range(span.line, span.end_line + 1))
    parameters = tuple(
        ParameterInfo(
            formal.name, formal.kind, _default_of(formal, is_open=bool(open_types)), formal.destination
        )
        for formal in formals
    )
    text = "\n".join(lines)
    return FunctionInfo(definition.name, definition.docstring, span, text, parameters, open_types)


def _default_of(formal: Formal, *, is_open: bool) -> object:
    if formal.default is None:
        return MISSING
    if is_open and isinstance(formal.default, Known):
        return formal.default.value
    try:
        return to_python(formal.default)
    except NotStaticError:  # a function, which only the compiler has
        return None
