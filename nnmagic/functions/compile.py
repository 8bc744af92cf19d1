"""Compile from Python: ``compile`` and ``@function``."""

from __future__ import annotations

import secrets
import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast, overload

from nnmagic.cache import digest
from nnmagic.diagnostics import Source, Span, TinyNNWarning, kind_of
from nnmagic.functions.caching.build_or_load import Use
from nnmagic.functions.caching.compile_options import Convert, Options, Target
from nnmagic.functions.cells.compile_cell import compile_cell, dependencies, with_needed_functions
from nnmagic.functions.cells.python_source import python_namespace, python_source
from nnmagic.functions.cells.unproven_loops import refuse_unproven
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo, Definition, text_without_types
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import definition_graph
from nnmagic.relay.structure.encoder import PythonFunctionError
from nnmagic.relay.structure.hashing import content_digest
from nnmagic.relay.structure.serialization import module_to_data
from nnmagic.tracebacks import callers_locals, short_errors

if TYPE_CHECKING:
    from nnmagic.engine.custom import Engine
    from nnmagic.functions.typed import CompileOptions, P, R, TypedFunction, Unpack
    from nnmagic.relay.passes.pipeline import NamedPass, Pass


@overload
def compile(source: Callable[P, R], **options: Unpack[CompileOptions]) -> TypedFunction[P, R]: ...  # noqa: A001


@overload
def compile(source: str | Module, **options: Unpack[CompileOptions]) -> TypedFunction[..., Any]: ...  # noqa: A001


@short_errors
def compile(  # noqa: A001, PLR0913 - the public name; options
    source: str | Callable[..., object] | Module,
    *,
    engine: str | Engine = "auto",
    target: Target = None,
    opt_level: int = 3,
    promote: bool | None = None,
    convert: Convert = False,
    passes: Iterable[str | Pass] = (),
    debug: bool = True,
    zero_d_arrays: bool = False,
    namespace: Mapping[str, object] | None = None,
    cache: bool = True,
) -> CompiledFunction | SpecializingFunction:
    """Compile TinyNN text, a Python function or a Relay module for the CPU.

    Args:
        source: TinyNN text, whose last function (that does not begin with ``_``) is the result; a Python
            function, which is parsed and never run; or a ``relay.Module``, whose ``@main`` or only
            function is the result.
        engine: ``"relax"`` (current TVM), ``"relay"`` (a TVM that still has Relay), ``"auto"``, ``"numpy"``
            (an interpreter), the name of a registered engine, or a callable from a ``relay.Module``, whose
            ``@main`` is to run, to a callable that takes NumPy arrays.
        target: None for this machine's CPU, or TVM's dict of settings.
        opt_level: 0 to 3.
        promote: how arrays of different dtypes meet. None: as in NumPy 2, but an integer array and a float
            array in the dtype of the floats. True: all as in NumPy 2. False: where NumPy's dtype is a wider
            float than the operands have, they are refused.
        convert: whether calls convert arguments to the parameters' dtypes where no number can change, or
            ``"same_kind"``: also to narrower dtypes, and integers to floats, as ``numpy.can_cast`` has it.
        passes: passes to run on the Relay before the compiler's own: functions from a ``relay.Module`` to
            one, or names of those in ``nnmagic.relay.passes``.
        debug: whether ``print`` prints values as they are computed, rather than being refused.
        zero_d_arrays: whether results of rank 0 are arrays rather than NumPy scalars.
        namespace: where free names are looked up; for a Python function, before its closure and globals.
        cache: whether to use the caches.

    Returns:
        The compiled function; a SpecializingFunction if the types of its parameters are left to its calls.

    Raises:
        TinyNNError, RelayError, EngineError: if the program cannot be compiled.
        TypeError, ValueError: for a wrong argument.

    Warns:
        TinyNNWarning: for problems that do not stop it, such as an unused variable.

    """
    options = Options(
        engine, target, opt_level, promote, convert, chosen_passes(passes), debug, zero_d_arrays
    )
    if namespace is not None and not isinstance(namespace, Mapping):
        raise TypeError(f"namespace must be a dict of names and values, not {kind_of(namespace)}")
    match source:
        case str():
            text = Source("<tinynn>", source)
            if options.runs_python:
                from nnmagic.functions.cells.python_engine import run_function

                return cast(CompiledFunction, run_function(text, namespace or {}))
            cell = compile_cell(text, namespace or {}, options, cache=bool(cache), only_result=True)
            for warning in cell.warnings:
                warnings.warn(warning.render(), TinyNNWarning, stacklevel=3)
            return cell.result
        case Module():
            return compile_module(source, options, Use.YES if cache else Use.NO)
        case FunctionType():
            return _compile_function(source, options, dict(namespace or {}), {}, cache=bool(cache))
        case _:
            raise TypeError(
                "nnmagic.compile takes TinyNN text, a Python function or a relay.Module, "
                f"not {kind_of(source)}"
            )


def chosen_passes(passes: Iterable[str | Pass | NamedPass]) -> tuple[NamedPass, ...]:
    """Return passes with their names. Raises TypeError or ValueError for what is none."""
    if passes == ():
        return ()
    from nnmagic.relay.passes.pipeline import named_passes

    return named_passes(passes)


def compile_module(
    module: Module, options: Options, use: Use, source: Source | None = None, language: str = "relay"
) -> CompiledFunction:
    """Compile a module's ``@main`` or only function; the key is that of its exact content.

    ``source``: what the module was made from, in a language that is not Relay.
    """
    begin = time.perf_counter()
    names = list(module.functions)
    name = "main" if "main" in names else names[0] if len(names) == 1 else None
    if name is None:
        functions = (
            f"its functions are {', '.join(f'@{name}' for name in names)}" if names else "it has no function"
        )
        raise ValueError(f"a Relay module needs a function @main, or just one function: {functions}")
    typed = infer_type(module)
    typed = with_needed_functions(typed, definition_graph(typed), name)
    refuse_unproven(typed)
    if source is None:
        source = Source("<relay>", text_without_types(typed))
    try:
        content = content_digest(*module_to_data(typed))  # the text rounds floats
    except PythonFunctionError:
        content = secrets.token_hex(20)  # what the function does is not known
    key = digest({**dependencies(source, options, language), "module": content})
    definition = Definition(
        name=name,
        module=typed,
        source=source,
        text=source.text,
        language=language,
        doc=None,
        options=options,
        key=f"{key}-{name}",
        use=use,
    )
    definition.executable  # noqa: B018 - built now, so that errors come now
    origin = definition.origin
    assert origin is not None
    why = origin.why or ("first time" if use is Use.YES else "the cache is off")
    return CompiledFunction(definition, CacheInfo(origin.hit, key, time.perf_counter() - begin, why))


def _compile_function(
    function: FunctionType,
    options: Options,
    namespace: Mapping[str, object],
    caller: Mapping[str, object],
    *,
    cache: bool,
) -> CompiledFunction | SpecializingFunction:
    own = python_namespace(function, caller)
    scope = ChainMap(dict(namespace), *own.maps)
    if options.runs_python:
        from nnmagic.functions.cells.python_engine import run_function

        return cast(CompiledFunction, run_function(python_source(function), scope, any_name=True))
    cell = compile_cell(python_source(function), scope, options, cache=cache, any_name=True)
    compiled = cell.result
    for warning in cell.warnings:
        span = warning.span or Span(function.__code__.co_filename, function.__code__.co_firstlineno, 1, 1, 1)
        warnings.warn_explicit(warning.render(), TinyNNWarning, span.filename, span.line, function.__module__)
    if isinstance(compiled, SpecializingFunction):
        return compiled._of(function)
    return CompiledFunction(
        compiled._definition,
        compiled.cache_info,
        qualname=function.__qualname__,
        module=function.__module__,
        wrapped=function,
    )


@overload
def function(source: Callable[P, R], /) -> TypedFunction[P, R]: ...


@overload
def function(**options: Unpack[CompileOptions]) -> Callable[[Callable[P, R]], TypedFunction[P, R]]: ...


@short_errors
def function(  # noqa: PLR0913 - options
    source: Callable[..., object] | None = None,
    /,
    *,
    engine: str | Engine = "auto",
    target: Target = None,
    opt_level: int = 3,
    promote: bool | None = None,
    convert: Convert = False,
    passes: Iterable[str | Pass] = (),
    debug: bool = True,
    zero_d_arrays: bool = False,
    namespace: Mapping[str, object] | None = None,
    cache: bool = True,
) -> (
    CompiledFunction
    | SpecializingFunction
    | Callable[[Callable[..., object]], CompiledFunction | SpecializingFunction]
):
    """Compile a Python function: ``@nnmagic.function``, bare or with the options of ``compile``.

    The function is parsed, not run. Free names are looked up in ``namespace``, in its closure, in the
    enclosing scope and in its globals, as they are now. Raises what ``compile`` raises.
    """
    options = Options(
        engine, target, opt_level, promote, convert, chosen_passes(passes), debug, zero_d_arrays
    )
    if namespace is not None and not isinstance(namespace, Mapping):
        raise TypeError(f"namespace must be a dict of names and values, not {kind_of(namespace)}")

    def compile_decorated(
        decorated: Callable[..., object], caller: Mapping[str, object]
    ) -> CompiledFunction | SpecializingFunction:
        if not isinstance(decorated, FunctionType):  # of another compiler, or a mistake
            from nnmagic.tinynn.namespace.notebook_functions import python_code

            decorated = python_code(decorated) or decorated
        if not isinstance(decorated, FunctionType):
            raise TypeError(f"@nnmagic.function takes a Python function, not {kind_of(decorated)}")
        return _compile_function(decorated, options, namespace or {}, caller, cache=bool(cache))

    if source is not None:
        return compile_decorated(source, callers_locals())
    return short_errors(lambda decorated: compile_decorated(decorated, callers_locals()))
