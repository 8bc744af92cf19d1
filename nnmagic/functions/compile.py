"""From source to compiled functions, through the cache: ``compile``, ``@function``, a notebook's cell."""

from __future__ import annotations

import re
import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from types import FunctionType
from typing import Any, overload

from nnmagic.cache import Entry, MemoryCache, digest, disk_cache, what_changed
from nnmagic.diagnostics import (
    CompileError,
    Diagnostic,
    RelayError,
    Source,
    Span,
    TinyNNError,
    TinyNNWarning,
    kind_of,
)
from nnmagic.frames import callers_locals, short_errors
from nnmagic.functions.build_or_load import COUNTS, Use
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.data_types import DataType, data_type
from nnmagic.functions.definition import CacheInfo, Definition, untyped_text
from nnmagic.functions.environment import environment
from nnmagic.functions.fingerprint import fingerprint
from nnmagic.functions.options import Options, Target
from nnmagic.functions.python_source import python_namespace, python_source
from nnmagic.progress import report
from nnmagic.relay.callgraph import CallGraph, call_graph, reachable
from nnmagic.relay.expr import Constant
from nnmagic.relay.hashing import content_digest
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.serialization import module_to_data
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.traverse import post_order
from nnmagic.relay.used_types import used_types, with_fields
from nnmagic.tinynn import compile_source, look_up
from nnmagic.tinynn.program import DataTypeInfo, ParameterInfo

#: The version of what the key of the cache is made of.
_KEY_FORMAT = "1"

#: The part that is the source's place: what errors show, and no part of machine code.
_PLACE = "place of the source"


@dataclass(frozen=True, slots=True)
class CompiledCell:
    """What one source gives.

    functions and types: those that it binds, in source order (names that begin with ``_`` are left out).
    own: all that it defines, with inferred types. warnings: what does not stop it. cache_info: how it was
    come by. shown: what was made to show it, by whoever shows it, for when it is found again.
    """

    functions: tuple[CompiledFunction, ...]
    types: tuple[DataType, ...]
    own: Module
    warnings: tuple[Diagnostic, ...]
    cache_info: CacheInfo
    shown: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def bound(self) -> dict[str, object]:
        """What it binds, by name."""
        types = {each.__name__: each for each in self.types}
        return {**types, **{each.name: each for each in self.functions}}

    @property
    def result(self) -> CompiledFunction:
        """The function that stands for the source: Relay's ``@main`` if there is one, else the last.

        Raises TinyNNError where it has classes only.
        """
        if not self.functions:
            message = "the source has no function whose name does not begin with `_`"
            raise TinyNNError([Diagnostic(message, hint="write one, or put the classes in a %%tinynn cell")])
        mains = [f for f in self.functions if f.name == "main" and f._definition.language == "relay"]
        return (mains or self.functions)[-1]

    @property
    def relay_text(self) -> str:
        """The text of all that the source defines, without inferred types."""
        return untyped_text(self.own)


#: What was compiled, for the life of the process.
MEMORY: MemoryCache[CompiledCell] = MemoryCache(max_entries=256, max_bytes=1 << 30)


def compile_cell(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    *,
    language: str = "tinynn",
    cache: bool = True,
    force: bool = False,
    only_result: bool = False,
) -> CompiledCell:
    """The functions of a source, found in memory, on disk, or compiled.

    language: ``"tinynn"`` or ``"relay"``. cache: whether to look into the caches and to put the result there.
    force: compile even where it is there. only_result: whether the other functions, which nobody may call,
    wait for their first call to become machine code. Raises TinyNNError, RelayError or EngineError.
    """
    begin = time.perf_counter()
    parts = _parts(source, options, language)
    names = _defined_names(source.text)
    why = "the cache is off"

    def now(name: str) -> str:
        return fingerprint(look_up(namespace, name))

    if cache and not force:
        found = MEMORY.find(parts, now)
        if found is not None:
            _build(found.value, only_result=only_result)
            COUNTS.saved(found.value.cache_info.seconds)
            return _seen(
                found.value, CacheInfo("memory", found.key, time.perf_counter() - begin, "found in memory")
            )
        why = MEMORY.why_not(names, parts, now)
    elif cache:
        why = "forced"
    use = Use.NO if not cache else Use.REFRESH if force else Use.YES
    entry = _compiled(source, namespace, options, language, parts, names, use)
    _build(entry.value, only_result=only_result)
    hit, why = _from_disk(entry, why, now, use)
    cell = _seen(entry.value, CacheInfo(hit, entry.key, time.perf_counter() - begin, why))
    if cache:
        MEMORY.put(replace(entry, value=cell))
    return cell


def _from_disk(
    entry: Entry[CompiledCell], why: str, now: Callable[[str], str], use: Use
) -> tuple[str | None, str]:
    """Whether all machine code of a cell that was compiled was on disk, and why not.

    What it was compiled of is noted there, so that the next kernel can say what has changed since.
    """
    origins = [each._definition.origin for each in entry.value.functions]
    built = [origin for origin in origins if origin is not None]
    cache = None if use is Use.NO else disk_cache()
    if cache is None:
        return None, why
    parts = {name: digest({name: text}) for name, text in entry.parts.items() if name != _PLACE}
    name = " ".join(entry.names)
    if built and all(origin.hit for origin in built):
        hit, why = "disk", "found on disk"
    else:
        hit = None
        reasons = [origin.why for origin in built if origin.why]
        if reasons:
            why = f"{why}; {reasons[0]}" if why != "first time" else reasons[0]
        elif why == "first time":
            why = _since_noted(cache.noted(name), parts, now)
    cache.note(name, {"parts": parts, "captured": dict(entry.captured)})
    return hit, why


def _since_noted(noted: object, parts: Mapping[str, str], now: Callable[[str], str]) -> str:
    """What has changed since another kernel compiled functions of these names."""
    match noted:
        case {"parts": dict() as were, "captured": dict() as captured}:
            words = {str(name): str(was) for name, was in captured.items()}
            return what_changed(were, words, parts, now) or "no longer on disk"
    return "first time"


def _compiled(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    language: str,
    parts: Mapping[str, str],
    names: tuple[str, ...],
    use: Use,
) -> Entry[CompiledCell]:
    """Compiles a source to typed Relay."""
    report("types")
    captured: dict[str, str] = {}
    docs: dict[str, str | None] = {}
    parameters: dict[str, tuple[ParameterInfo, ...]] = {}
    infos: Mapping[str, DataTypeInfo] = {}
    classes: tuple[DataType, ...] = ()
    found: tuple[Diagnostic, ...] = ()
    if language == "relay":
        module = infer_type(parse_module(source))
        texts = dict.fromkeys(module.functions, source.text)
        own_types = list(module.types)
    else:
        program = compile_source(source, namespace)
        module, infos, found = program.module, program.known_types, program.warnings
        captured = {name: fingerprint(value) for name, value in program.captured.items()}
        texts = {info.name: _without_indent(info.source, source.indent) for info in program.functions}
        docs = {info.name: info.docstring for info in program.functions}
        parameters = {info.name: info.parameters for info in program.functions}
        own_types = [info.name for info in program.types]
        classes = tuple(
            data_type(name, module.types, infos) for name in own_types if not name.startswith("_")
        )
    public = [name for name in texts if name.isidentifier() and not (name.startswith("_") or iskeyword(name))]
    if not public and not classes:
        raise _nothing(language, texts)
    graph = call_graph(module)
    keyed = Entry(names, parts, captured, None, 0).key
    info = CacheInfo(None, keyed, 0.0, "")
    functions = tuple(
        CompiledFunction(
            Definition(
                name=name,
                module=_with_types(_needed(module, graph, name), own_types),
                source=source,
                text=texts[name],
                language=language,
                doc=docs.get(name),
                options=options,
                key=f"{keyed}-{name}",
                parameters=parameters.get(name, ()),
                infos=infos,
                use=use,
            ),
            info,
        )
        for name in public
    )
    own = _with_types(replace(module, functions={name: module.functions[name] for name in texts}), own_types)
    cell = CompiledCell(functions, classes, own, found, info)
    return Entry(names, parts, captured, cell, _nbytes(module))


def _nothing(language: str, names: Iterable[str]) -> CompileError:
    """The error of a source that binds nothing."""
    if list(names) or language == "tinynn":
        message = "nothing here is bound: no function is defined whose name does not begin with `_`"
        return TinyNNError([Diagnostic(message, hint="give a function a name without the underscore")])
    hint = "write one, as in def @main(%x: float32) -> float32 { exp(%x) }"
    return RelayError([Diagnostic("the text holds no function", hint=hint)])


def _build(cell: CompiledCell, *, only_result: bool) -> None:
    """Makes the machine code of those that Python can call."""
    for function in (cell.result,) if only_result else cell.functions:
        if function._definition.call.crosses:
            function.build()


def _seen(cell: CompiledCell, info: CacheInfo) -> CompiledCell:
    """The cell with functions that say how they were come by this time."""
    functions = tuple(CompiledFunction(each._definition, _info_of(each, info)) for each in cell.functions)
    return replace(cell, functions=functions, cache_info=info)


def _info_of(function: CompiledFunction, info: CacheInfo) -> CacheInfo:
    """How one function of a cell was come by: some may have been on disk where others were not."""
    origin = function._definition.origin
    if info.hit is None and origin is not None and origin.hit is not None:
        return replace(info, hit=origin.hit, why=origin.why)
    return info


def _without_indent(text: str, indent: int) -> str:
    """A function's text as it was compiled; its lines have the indentation that was taken off the source."""
    return "\n".join(line[indent:] for line in text.split("\n"))


def _needed(module: Module, graph: CallGraph, entry: str) -> Module:
    """The module with the functions that ``entry`` needs, and all data types."""
    wanted = reachable(graph, entry)
    return replace(module, functions={name: f for name, f in module.functions.items() if name in wanted})


def _with_types(module: Module, own: Sequence[str]) -> Module:
    """The module with the data types that its functions use, and those that the source itself defines."""
    used = used_types(module.functions.values(), module.types)
    kept = with_fields([*used, *own], module.types)
    return replace(module, types=kept)


def _nbytes(module: Module) -> int:
    nodes = {node for function in module.functions.values() for node in post_order(function)}
    return sum(node.data.nbytes for node in nodes if isinstance(node, Constant))


def _parts(source: Source, options: Options, language: str) -> dict[str, str]:
    """All that a compilation depends on, but what it captures; a miss is explained in these names."""
    return {
        "source": source.text,
        "language": language,
        "option engine": options.engine,
        "option target": options.target_text,
        "option opt_level": str(options.opt_level),
        _PLACE: f"{source.filename}:{source.first_line}:{source.indent}",
        "format of the key": _KEY_FORMAT,
        **environment(),
    }


def _defined_names(text: str) -> tuple[str, ...]:
    """The names that a source defines, read in passing: what stays when a cell is edited."""
    return tuple(re.findall(r"^(?:def|class)\s+@?([^\s(\[:]+)", text, flags=re.MULTILINE))


@short_errors
def compile(  # noqa: A001 - the public name; Python's own compile is not used here
    source: str | FunctionType | Module,
    *,
    engine: str = "auto",
    target: Target = None,
    opt_level: int = 3,
    namespace: Mapping[str, object] | None = None,
    cache: bool = True,
) -> CompiledFunction:
    """Compiles TinyNN text, a Python function or a Relay module for the CPU.

    source: text, whose last function (that does not begin with ``_``) is the result; a Python function, which
    is read and never run; or a ``relay.Module``, whose ``@main``, or only function, is the result. engine:
    ``"relax"`` (current TVM), ``"relay"`` (a TVM that still has Relay) or ``"auto"``. target: None for this
    machine's CPU, or TVM's dict of settings. opt_level: 0 to 3. namespace: where free names are looked up; a
    Python function looks into its closure and globals after it. cache: whether to use the caches.

    Raises TinyNNError, RelayError or EngineError for a program that cannot be compiled, TypeError or
    ValueError for a wrong argument. Warns with TinyNNWarning of what does not stop it, such as a variable
    that nothing uses.
    """
    options = Options(engine, target, opt_level)
    if namespace is not None and not isinstance(namespace, Mapping):
        raise TypeError(f"namespace must be a dict of names and values, not {kind_of(namespace)}")
    match source:
        case str():
            text = Source("<tinynn>", source)
            cell = compile_cell(text, namespace or {}, options, cache=bool(cache), only_result=True)
            for warning in cell.warnings:
                warnings.warn(warning.render(), TinyNNWarning, stacklevel=3)
            return cell.result
        case Module():
            return _compile_module(source, options, Use.YES if cache else Use.NO)
        case FunctionType():
            return _compile_function(source, options, dict(namespace or {}), {}, cache=bool(cache))
        case _:
            raise TypeError(
                "nnmagic.compile takes TinyNN text, a Python function or a relay.Module, "
                f"not {kind_of(source)}"
            )


def _compile_module(module: Module, options: Options, use: Use) -> CompiledFunction:
    """A Relay module's ``@main`` or only function; its key is that of its exact content."""
    begin = time.perf_counter()
    names = list(module.functions)
    name = "main" if "main" in names else names[0] if len(names) == 1 else None
    if name is None:
        found = (
            f"its functions are {', '.join(f'@{name}' for name in names)}" if names else "it has no function"
        )
        raise ValueError(f"a Relay module needs a function @main, or just one function: {found}")
    typed = infer_type(module)
    typed = _needed(typed, call_graph(typed), name)
    text = untyped_text(typed)
    source = Source("<relay>", text)
    content = content_digest(*module_to_data(typed))  # the text rounds floats
    key = digest({**_parts(source, options, "relay"), "module": content})
    definition = Definition(
        name=name,
        module=typed,
        source=source,
        text=text,
        language="relay",
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
) -> CompiledFunction:
    own = python_namespace(function, caller)
    scope = ChainMap(dict(namespace), *own.maps)
    cell = compile_cell(python_source(function), scope, options, cache=cache)
    compiled = cell.result
    for warning in cell.warnings:
        place = warning.span or Span(function.__code__.co_filename, function.__code__.co_firstlineno, 1, 1, 1)
        warnings.warn_explicit(
            warning.render(), TinyNNWarning, place.filename, place.line, function.__module__
        )
    return CompiledFunction(
        compiled._definition,
        compiled.cache_info,
        qualname=function.__qualname__,
        module=function.__module__,
    )


@overload
def function(source: FunctionType, /) -> CompiledFunction: ...


@overload
def function(
    *,
    engine: str = "auto",
    target: Target = None,
    opt_level: int = 3,
    namespace: Mapping[str, object] | None = None,
    cache: bool = True,
) -> Callable[[FunctionType], CompiledFunction]: ...


@short_errors
def function(
    source: FunctionType | None = None,
    /,
    *,
    engine: str = "auto",
    target: Target = None,
    opt_level: int = 3,
    namespace: Mapping[str, object] | None = None,
    cache: bool = True,
) -> CompiledFunction | Callable[[FunctionType], CompiledFunction]:
    """Compiles a Python function: ``@nnmagic.function``, bare or with the options of ``compile``.

    The function is read, not run. Free names are looked up in ``namespace``, in its closure, in the scope
    that it is written in and in its globals, as they are now. Raises what ``compile`` raises.
    """
    options = Options(engine, target, opt_level)
    if namespace is not None and not isinstance(namespace, Mapping):
        raise TypeError(f"namespace must be a dict of names and values, not {kind_of(namespace)}")

    def compiled(decorated: FunctionType, caller: Mapping[str, object]) -> CompiledFunction:
        if not isinstance(decorated, FunctionType):
            raise TypeError(f"@nnmagic.function takes a Python function, not {kind_of(decorated)}")
        return _compile_function(decorated, options, namespace or {}, caller, cache=bool(cache))

    if source is not None:
        return compiled(source, callers_locals())
    return short_errors(lambda decorated: compiled(decorated, callers_locals()))
