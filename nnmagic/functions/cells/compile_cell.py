"""Compile the source of a cell to functions, through the caches."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from nnmagic.cache import Entry, MemoryCache, digest, disk_cache, explain_changes
from nnmagic.diagnostics import CompileError, Diagnostic, RelayError, Source, TinyNNError
from nnmagic.functions.arguments.argument_types import written
from nnmagic.functions.arguments.calls import annotation
from nnmagic.functions.caching import kept_cells
from nnmagic.functions.caching.build_or_load import COUNTS, Use
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.environment import environment
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.caching.typed_cell import TypedCell
from nnmagic.functions.captured import capture_names
from nnmagic.functions.cells.specializations import Template
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo, Definition, text_without_types
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.progress import report
from nnmagic.relay.complex_numbers.lowering import lower_complex
from nnmagic.relay.expr import Constant
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import CallGraph, definition_graph, reachable
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.used_types import collect_used_types, with_field_types
from nnmagic.relay.types import RecordType, TupleType
from nnmagic.tinynn import look_up
from nnmagic.tinynn.program import NumberType
from nnmagic.tracebacks import noting_interrupts

if TYPE_CHECKING:
    from nnmagic.functions.data_types import DataType
    from nnmagic.tinynn.program import Specialization

#: The version of what the key of the cache is made of.
_KEY_FORMAT = "1"

#: The part that is the source's location: what errors show, and no part of machine code.
_LOCATION = "place of the source"


@dataclass(frozen=True, slots=True)
class CompiledCell:
    """The result of compiling one source.

    Attributes:
        functions: the functions that it binds, in source order; names that begin with ``_`` are left out.
        specializing: the functions that are compiled for the types of each call, in the same way.
        types: the data types that it binds.
        own: everything that it defines, with inferred types.
        warnings: problems that do not stop it.
        cache_info: where the result came from.
        captured: the fingerprints of what the free names stood for.
        shown: a display that was rendered before, for reuse.

    """

    functions: tuple[CompiledFunction, ...]
    specializing: tuple[SpecializingFunction, ...]
    types: tuple[DataType | type, ...]
    own: Module
    warnings: tuple[Diagnostic, ...]
    cache_info: CacheInfo
    captured: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    shown: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def bindings(self) -> dict[str, object]:
        """What the source binds, by name."""
        types = {binding.__name__: binding for binding in self.types}
        return {**types, **{binding.name: binding for binding in self._bindings}}

    @property
    def _bindings(self) -> tuple[CompiledFunction | SpecializingFunction, ...]:
        return (*self.functions, *self.specializing)

    @property
    def result(self) -> CompiledFunction | SpecializingFunction:
        """The function that stands for the source: Relay's ``@main`` if there is one, else the last.

        Raises TinyNNError if the source has classes only.
        """
        if not self.functions and not self.specializing:
            message = "the source has no function whose name does not begin with `_`"
            raise TinyNNError([Diagnostic(message, hint="write one, or put the classes in a %%tinynn cell")])
        mains = [f for f in self.functions if f.name == "main" and f._definition.language == "relay"]
        if mains:
            return mains[-1]
        return max(self._bindings, key=_place)

    @property
    def relay_text(self) -> str:
        """The text of everything that the source defines, without inferred types."""
        return text_without_types(lower_complex(self.compiled))

    @property
    def compiled(self) -> Module:
        """Everything that the source defines, after the passes that were asked for."""
        after = {each.name: each._definition.optimize[0].functions[each.name] for each in self.functions}
        names = self.own.functions
        if all(after.get(name, names[name]) is names[name] for name in names):
            return self.own
        return replace(
            self.own, functions={name: after.get(name, function) for name, function in names.items()}
        )


def _place(function: CompiledFunction | SpecializingFunction) -> int:
    """Return where the function stands in its source, as the number of its last line."""
    if isinstance(function, SpecializingFunction):
        return function._template.info.span.line
    return function._definition.line if function._definition.language == "tinynn" else 0


#: What was compiled, for the life of the process.
MEMORY: MemoryCache[CompiledCell] = MemoryCache(max_entries=256, max_bytes=1 << 30)


@noting_interrupts()
def compile_cell(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    *,
    language: str = "tinynn",
    cache: bool = True,
    force: bool = False,
    only_result: bool = False,
    any_name: bool = False,
    specialization: Specialization | None = None,
    build: bool = True,
) -> CompiledCell:
    """Return the functions of a source, from memory, from disk, or compiled.

    Args:
        source: the text.
        namespace: where free names are looked up.
        options: the options of the compilation.
        language: ``"tinynn"`` or ``"relay"``.
        cache: whether to read and write the caches.
        force: compile even if a cache has it.
        only_result: compile machine code for the last function only; the others wait for their first call.
        any_name: whether functions whose names begin with ``_`` are defined, too.
        specialization: the arguments to compile one function for, whose parameters have open types.
        build: whether machine code is compiled now.

    Raises:
        TinyNNError, RelayError, EngineError: if the source cannot be compiled.

    """
    begin = time.perf_counter()
    fingerprints = dependencies(source, options, language)
    names = _scan_names(source.text)
    if specialization is not None:
        fingerprints["types of the arguments"] = _shown_arguments(specialization)
        names = (specialization.name,)
    why = "the cache is off"

    def now(name: str) -> str:
        return fingerprint(look_up(namespace, name))

    if cache and not force:
        remembered = MEMORY.find(fingerprints, now)
        if remembered is not None:
            _build(remembered.value, only_result=only_result, build=build)
            COUNTS.add_saved_time(remembered.value.cache_info.seconds)
            info = CacheInfo("memory", remembered.key, time.perf_counter() - begin, "found in memory")
            return _with_cache_info(remembered.value, info)
        why = options.unkeyed_pass or MEMORY.why_not(names, fingerprints, now)
    elif cache:
        why = "forced"
    use = Use.NO if not cache else Use.REFRESH if force else Use.YES
    entry = _compile(source, namespace, options, language, fingerprints, names, use, specialization, any_name)
    _build(entry.value, only_result=only_result, build=build)
    hit, why = _from_disk(entry, why, now, use)
    if (unkeyed := options.unkeyed_pass) is not None and cache and unkeyed not in why:
        why = f"{why}; {unkeyed}"
    cell = _with_cache_info(entry.value, CacheInfo(hit, entry.key, time.perf_counter() - begin, why))
    if cache:
        MEMORY.put(replace(entry, value=cell, nbytes=entry.nbytes + _machine_code_nbytes(cell)))
    return cell


def _type_or_load(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    language: str,
    dependencies: Mapping[str, str],
    use: Use,
    specialization: Specialization | None,
) -> TypedCell:
    """Return the typed Relay of a source, which the disk may hold."""
    if use is Use.YES and specialization is None:
        stored = kept_cells.find(dependencies, namespace, options)
        if stored is not None:
            return stored
    from nnmagic.functions.cells.type_cell import type_cell

    report("types")
    typed = type_cell(source, namespace, options, language, specialization)
    if use is not Use.NO and specialization is None:
        kept_cells.keep(dependencies, typed, options)
    return typed


def _from_disk(
    entry: Entry[CompiledCell], why: str, now: Callable[[str], str], use: Use
) -> tuple[str | None, str]:
    """Return whether all machine code of a compiled cell was on disk, and if not, why.

    What the cell was compiled from is noted on disk, so that the next kernel can say what has changed.
    """
    origins = [function._definition.origin for function in entry.value.functions]
    built = [origin for origin in origins if origin is not None]
    cache = None if use is Use.NO else disk_cache()
    if cache is None:
        return None, why
    fingerprints = {name: digest({name: text}) for name, text in entry.parts.items() if name != _LOCATION}
    name = " ".join(entry.names)
    if built and all(origin.hit for origin in built):
        hit, why = "disk", "found on disk"
    else:
        hit = None
        reasons = [origin.why for origin in built if origin.why]
        if reasons:
            why = f"{why}; {reasons[0]}" if why != "first time" else reasons[0]
        elif why == "first time":
            why = _find_changes(cache.read_note(name), fingerprints, now)
    cache.note(name, {"parts": fingerprints, "captured": dict(entry.captured)})
    return hit, why


def _find_changes(noted: object, parts: Mapping[str, str], now: Callable[[str], str]) -> str:
    """Return what has changed since another kernel compiled functions of these names."""
    match noted:
        case {"parts": dict() as were, "captured": dict() as captured}:
            words = {str(name): str(was) for name, was in captured.items()}
            return explain_changes(were, words, parts, now) or "no longer on disk"
    return "first time"


def _compile(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    language: str,
    dependencies: Mapping[str, str],
    names: tuple[str, ...],
    use: Use,
    specialization: Specialization | None,
    any_name: bool,
) -> Entry[CompiledCell]:
    """Make typed Relay of a source, or take it from disk, and define its functions."""
    typed = _type_or_load(source, namespace, options, language, dependencies, use, specialization)
    module, texts, own_types = typed.module, typed.texts, typed.own_types
    private = () if any_name else "_"
    public = [
        name for name in texts if name.isidentifier() and not (name.startswith(private) or iskeyword(name))
    ]
    if specialization is not None:
        public = [specialization.name]
    specializing_names = [info.name for info in typed.open_functions if not info.name.startswith(private)]
    if not public and not specializing_names and not typed.types:
        raise _no_binding_error(language, texts)
    graph = definition_graph(module)
    keyed = Entry(names, dependencies, typed.captured, None, 0).key
    info = CacheInfo(None, keyed, 0.0, "")
    functions = tuple(
        CompiledFunction(
            Definition(
                name=name,
                module=_with_types(with_needed_functions(module, graph, name), own_types),
                source=source,
                text=texts[name],
                language=language,
                doc=typed.docs.get(name),
                options=options,
                key=f"{keyed}-{name}",
                parameters=typed.parameters.get(name, ()),
                infos=typed.infos,
                use=use,
            ),
            info,
        )
        for name in public
    )
    own = _with_types(replace(module, functions={name: module.functions[name] for name in texts}), own_types)
    specializing = tuple(
        SpecializingFunction(
            Template(
                function,
                source,
                capture_names(typed.free_names, namespace),
                options,
                f"{keyed}-{function.name}",
                use is not Use.NO,
            ),
            info,
        )
        for function in typed.open_functions
        if function.name in specializing_names
    )
    cell = CompiledCell(functions, specializing, typed.types, own, typed.warnings, info, typed.captured)
    return Entry(names, dependencies, typed.captured, cell, _nbytes(module))


def _machine_code_nbytes(cell: CompiledCell) -> int:
    """Return the size of the machine code that is built, with its copies of constants."""
    executables = [function._definition.built_executable for function in cell.functions]
    artifacts = [
        executable.artifact
        for executable in executables
        if executable is not None and executable.artifact is not None
    ]
    return sum(map(len, (part for artifact in artifacts for part in artifact.code))) + sum(
        constant.nbytes for artifact in artifacts for constant in artifact.constants
    )


def _no_binding_error(language: str, names: Iterable[str]) -> CompileError:
    """Return the error for a source that binds nothing."""
    if list(names) or language == "tinynn":
        message = "nothing here is bound: no function is defined whose name does not begin with `_`"
        return TinyNNError([Diagnostic(message, hint="give a function a name without the underscore")])
    hint = "write one, as in def @main(%x: float32) -> float32 { exp(%x) }"
    return RelayError([Diagnostic("the text holds no function", hint=hint)])


def _build(cell: CompiledCell, *, only_result: bool, build: bool) -> None:
    """Build the machine code of the functions that Python can call."""
    for function in (cell.result,) if only_result else cell.functions:
        if build and isinstance(function, CompiledFunction) and function._definition.call.crosses:
            function.build()


def _with_cache_info(cell: CompiledCell, info: CacheInfo) -> CompiledCell:
    """Return the cell with new objects for its functions, which have no attributes of users yet."""
    functions = tuple(
        CompiledFunction(function._definition, _info_of(function, info)) for function in cell.functions
    )
    specializing = tuple(function.anew() for function in cell.specializing)
    return replace(cell, functions=functions, specializing=specializing, cache_info=info)


def _info_of(function: CompiledFunction, info: CacheInfo) -> CacheInfo:
    """Return the ``cache_info`` of one function of a cell: some may have been on disk, others not."""
    origin = function._definition.origin
    if info.hit is None and origin is not None and origin.hit is not None:
        return replace(info, hit=origin.hit, why=origin.why)
    return info


def with_needed_functions(module: Module, graph: CallGraph, entry: str) -> Module:
    """Return the module with only the functions that ``entry`` needs, and all data types."""
    wanted = reachable(graph, entry)
    return replace(module, functions={name: f for name, f in module.functions.items() if name in wanted})


def _with_types(module: Module, own: Sequence[str]) -> Module:
    """Return the module with only the data types that its functions use or the source defines."""
    used = collect_used_types(module.functions.values(), module.types)
    kept = with_field_types([*used, *own], module.types)
    return replace(module, types=kept)


def _nbytes(module: Module) -> int:
    nodes = {node for function in module.functions.values() for node in post_order(function)}
    return sum(node.data.nbytes for node in nodes if isinstance(node, Constant))


def dependencies(source: Source, options: Options, language: str) -> dict[str, str]:
    """Return everything that a compilation depends on, except captured values, by name."""
    return {
        "source": source.text,
        "language": language,
        "option engine": options.engine_text,
        "option target": options.target_text,
        "option opt_level": str(options.opt_level),
        **({"option promote": str(options.promote)} if options.promote is not None else {}),
        **({"option convert": str(options.convert)} if options.convert else {}),
        **({} if options.debug else {"option debug": "False"}),
        **({"option zero_d_arrays": "True"} if options.zero_d_arrays else {}),
        **options.pass_key,
        _LOCATION: f"{source.filename}:{source.first_line}:{source.indent}",
        "format of the key": _KEY_FORMAT,
        **environment(),
    }


def _shown_arguments(specialization: Specialization) -> str:
    """Return the arguments that a function is compiled for as text, different for different ones."""
    types = [
        f"{name}: {annotation(type_)!r}{_details_of(type_)}" for name, type_ in specialization.types.items()
    ]
    values = [f"{name} = {written(value)}" for name, value in specialization.values.items()]
    return f"{specialization.name}({', '.join([*types, *values])})"


def _details_of(type_: object) -> str:
    """Return the types of the parts of an argument with the names in records; # marks numbers of Python."""
    if isinstance(type_, TupleType):
        names = f"{type_.name}{type_.names}" if isinstance(type_, RecordType) else ""
        return f"{names}({','.join(map(_details_of, type_.fields))})"
    return f"{'#' if isinstance(type_, NumberType) else ''}{type_}"


def _scan_names(text: str) -> tuple[str, ...]:
    """Return the names that a source defines, by a quick scan: they identify a cell after an edit."""
    return tuple(re.findall(r"^(?:def|class)\s+@?([^\s(\[:]+)", text, flags=re.MULTILINE))
