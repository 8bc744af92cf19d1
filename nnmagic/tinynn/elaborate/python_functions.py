"""Inline functions and methods of the notebook that Python could run: their source is read, never run."""

from __future__ import annotations

import ast as py
import contextlib
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace

import attr
from synr import ast

from nnmagic.diagnostics import Diagnostics, Note, Source, Span
from nnmagic.tinynn.analysis import bound_names
from nnmagic.tinynn.analysis.changing_calls import find_changed_parameters
from nnmagic.tinynn.calls.function_calls import FunctionMaker
from nnmagic.tinynn.elaborate.closures import inline_call
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.python_hints import without_hints
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.namespace.notebook_functions import names_in, source_code
from nnmagic.tinynn.namespace.torch_values import is_torch_module
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import is_number


def call_python(
    ctx: Elaboration,
    called: v.ModuleOf,
    operands: list[v.Operand],
    callee: Span,
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    """Return the result of a function of the notebook, or of a method, whose source is inlined.

    Raises RefusalError where the language lacks something of it.
    """
    function = ctx.methods.get((id(called.module), called.method))
    if function is None:
        function = ctx.methods[id(called.module), called.method] = _as_inline_function(ctx, called, callee)
    assert isinstance(function, v.LocalFunction)
    given = operands
    if not isinstance(called.module, types.FunctionType):
        own = "forward" if is_torch_module(called.module) else "__call__"
        given = [v.Operand(replace(called, method=own), callee), *operands]
    return inline_call(ctx, function, given, callee, span, make_function)


def definitions_beside(
    ctx: Elaboration, functions: Mapping[str, tree.DefinitionNode]
) -> dict[str, tree.DefinitionNode]:
    """Return the functions of the notebook that stand beside those of a cell, as if it held them.

    They have no types, and change arguments or call themselves, so that they can be neither linked nor
    inlined; and so do those that call them.
    """
    definitions: dict[str, tree.DefinitionNode] = {}
    work = list(functions.values())
    while work:
        for name in sorted(_called_names(work.pop().body) - functions.keys() - definitions.keys()):
            definition = _definition_of(ctx, name)
            if definition is not None:
                definitions[name] = definition
                work.append(definition)
    needed = {name for name, definition in definitions.items() if _is_beside(name, definition)}
    while callers := {
        name
        for name, each in definitions.items()
        if name not in needed and bound_names.find_mentioned_names(each.body) & needed
    }:
        needed |= callers
    for name in needed:
        ctx.resolver.look_up_notebook(name)  # which records it for the cache
    return {name: definitions[name] for name in needed}


def _called_names(body: ast.Block) -> set[str]:
    calls = (node for node in bound_names.walk(body) if isinstance(node, ast.Call))
    return {call.func_name.id.name for call in calls if isinstance(call.func_name, ast.Var)}


def _is_beside(name: str, definition: tree.DefinitionNode) -> bool:
    parameters = {parameter.name for parameter in definition.params}
    changed = bound_names.find_element_assignments(definition.body) & parameters
    return bool(changed or find_changed_parameters(definition)) or name in bound_names.find_mentioned_names(
        definition.body
    )


def _definition_of(ctx: Elaboration, name: str) -> tree.DefinitionNode | None:
    """Return the source of a function of the notebook without types; None where there is none to take."""
    function = source_code(look_up(ctx.resolver.namespace, name))
    if function is None or function.__name__ != name or function.__closure__:
        return None
    own = function.__globals__
    if any(
        look_up(ctx.resolver.namespace, free) is not own[free]
        for free in names_in(function.__code__) & own.keys()
    ):
        return None  # its file is another one
    try:
        lines, first_line = inspect.getsourcelines(function.__code__)
    except (OSError, TypeError):
        return None
    source, diagnostics = _dedent(function, lines, first_line), Diagnostics()
    cell = parse(source, diagnostics)
    if diagnostics.errors or cell is None or name not in cell.funcs:
        return None
    cell = without_hints(ctx, cell)
    if cell.funcs[name].params and all(parameter.ty is not None for parameter in cell.funcs[name].params):
        return None
    ctx.other_sources.append(source)
    defaults = _defaults_of(function)
    params = [
        attr.evolve(each, default=ast.Constant(each.default.span, defaults[each.name]))
        if each.default is not None and is_number(defaults.get(each.name))
        else each
        for each in cell.funcs[name].params
    ]
    return attr.evolve(cell.funcs[name], decorators=[], params=params)


def python_function(ctx: Elaboration, value: v.Value, span: Span) -> v.Value:
    """Return a function of Python of the notebook as one to inline; any other value as it is."""
    if not isinstance(value, v.ModuleOf) or not isinstance(value.module, types.FunctionType):
        return value
    key = (id(value.module), value.method)
    if key not in ctx.methods:
        ctx.methods[key] = _as_inline_function(ctx, value, span)
    function = ctx.methods[key]
    assert isinstance(function, v.LocalFunction)
    return function


def _as_inline_function(ctx: Elaboration, called: v.ModuleOf, callee: Span) -> v.LocalFunction:
    """Return a function, or a method, as one to inline. Raises RefusalError."""
    is_method = not isinstance(called.module, types.FunctionType)
    name = f"{type(called.module).__name__}.{called.method}" if is_method else called.path
    method = called.module
    if is_method:
        method = inspect.getattr_static(type(called.module), called.method, None)
    if not isinstance(method, types.FunctionType):
        raise v.RefusalError(f"{name} is no function that is written in Python", callee)
    if method.__closure__ and is_method:
        hint = "define the class at the top of a cell, and give it what it needs as attributes"
        raise v.RefusalError(f"{name} uses names of a function around it, or super()", callee, hint=hint)
    is_lambda = method.__name__ == "<lambda>"
    source = _lambda_source(method, name, callee) if is_lambda else _source(method, name, callee)
    diagnostics = Diagnostics()
    cell = parse(source, diagnostics, methods=True)
    for error in diagnostics.errors:
        notes = () if error.span is None else (Note(f"in {name}: {error.message}", error.span),)
        message = f"{name} is not within the language of a cell: {error.message}"
        raise v.RefusalError(message, callee, hint=error.hint, notes=notes)
    assert cell is not None
    definition = next(iter(cell.funcs.values())) if is_lambda else cell.funcs[method.__name__]
    params = [attr.evolve(parameter, ty=None) for parameter in definition.params]
    definition = attr.evolve(definition, params=params, ret_type=None)
    ctx.other_sources.append(source)
    environment = v.Environment("")
    if is_torch_module(called.module):
        _check_names(ctx, definition, method, name, callee)
    else:
        environment.imports.update(_names_of(method))
    defaults = _defaults_of(method)
    formals = tuple(
        v.Formal(param.name, param.kind, _default(ctx, param.name, defaults, callee)) for param in params
    )
    return v.LocalFunction(name, definition, formals, environment, {})


def _defaults_of(function: types.FunctionType) -> dict[str, object]:
    """Return the defaults of the parameters of a function, as they were when it was defined."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = function.__defaults__ or ()
    return {
        **dict(zip(names[len(names) - len(given) :], given, strict=True)),
        **(function.__kwdefaults__ or {}),
    }


def _default(ctx: Elaboration, name: str, defaults: Mapping[str, object], span: Span) -> v.Value | None:
    return ctx.resolver.lookup_import((name,), defaults, span)[0] if name in defaults else None


def _names_of(function: types.FunctionType) -> dict[str, object]:
    """Return what the free names of a function stand for: names of the function around it, and globals."""
    names = {
        name: function.__globals__[name]
        for name in names_in(function.__code__)
        if name in function.__globals__
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            names[name] = cell.cell_contents
    return names


def _lambda_source(function: types.FunctionType, name: str, callee: Span) -> Source:
    """Return a lambda as the source of a function. Raises RefusalError."""
    code = function.__code__
    try:
        lines, _ = inspect.findsource(code)
        written = [
            definition
            for definition in py.walk(py.parse("".join(lines)))
            if isinstance(definition, py.Lambda)
        ]
    except (OSError, TypeError, SyntaxError):
        written = []
    names = code.co_varnames[: code.co_argcount]
    candidates = [
        definition
        for definition in written
        if definition.lineno == code.co_firstlineno
        and tuple(arg.arg for arg in (*definition.args.posonlyargs, *definition.args.args)) == names
    ]
    if len(candidates) != 1:
        what = "is one of several in a line" if candidates else "has no source that can be read"
        raise v.RefusalError(f"the lambda `{name}` {what}", callee, hint="define it with `def`")
    (found,) = candidates
    text = f"def {name.rpartition('.')[2]}({py.unparse(found.args)}):\n    return {py.unparse(found.body)}\n"
    return Source(code.co_filename, text, code.co_firstlineno)


def _source(method: types.FunctionType, name: str, callee: Span) -> Source:
    try:
        lines, first_line = inspect.getsourcelines(method.__code__)
    except (OSError, TypeError):
        hint = "define it in a cell of this notebook"
        raise v.RefusalError(f"the source of {name} cannot be read", callee, hint=hint) from None
    return _dedent(method, lines, first_line)


def _dedent(function: types.FunctionType, lines: Sequence[str], first_line: int) -> Source:
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = "".join(line[indent:] if not line[:indent].strip() else line for line in lines)
    return Source(function.__code__.co_filename, text, first_line, indent)


def _check_names(
    ctx: Elaboration, definition: tree.DefinitionNode, method: types.FunctionType, name: str, callee: Span
) -> None:
    """Raise RefusalError for a free name that is another in the module's file than in the notebook.

    Libraries that the file imports, and their functions, need not be imported by the notebook.
    """
    own = {parameter.name for parameter in definition.params} | bound_names.find_local_names(definition.body)
    for free in sorted(bound_names.find_mentioned_names(definition.body) - own):
        there = method.__globals__.get(free, MISSING)
        here = look_up(ctx.resolver.namespace, free)
        if here is MISSING and _is_of_library(there):
            here = ctx.resolver.imported.setdefault(free, there)
        if there is not MISSING and here is not there:
            what = "is not defined in the notebook" if here is MISSING else "is another in the notebook"
            message = f"{name} uses `{free}`, which {what}"
            raise v.RefusalError(
                message, callee, hint=f"give the notebook the `{free}` of {method.__module__}"
            )


def _is_of_library(value: object) -> bool:
    """Return whether a value is a module that a cell knows, or a function of one."""
    named = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(named, str) and named.partition(".")[0] in ("math", "numpy", "torch")
