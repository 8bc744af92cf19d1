"""Get the machine code of a function: from the file that it came from, from disk, or by compiling.

The key on disk is a hash of the Relay and of everything else that compiling depends on (``key_fields``).
Names of variables, comments and the notebook are not part of it.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from nnmagic.cache import CacheWarning, Content, MissingEntry, Store, digest, disk_cache
from nnmagic.diagnostics import CompileError, last_line
from nnmagic.engine import engine_error
from nnmagic.engine.relax.artifact import FORMAT
from nnmagic.engine.relax.runtime.debug_files import debug_folder
from nnmagic.engine.relax.runtime.installation import has_compiler
from nnmagic.fork_safety import Lock
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.environment import FOR_RUNNING, environment, is_current
from nnmagic.relay.module import Module
from nnmagic.relay.structure.hashing import code_data, content_digest
from nnmagic.tracebacks import warn_caller

if TYPE_CHECKING:
    from nnmagic.engine.executable import Executable
    from nnmagic.engine.relax.artifact import Artifact

#: What an engine raises for an artifact that is not what it should be.
_OF_OTHER_CODE = (
    CompileError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
)


class _OtherVersionError(ValueError):
    """Machine code in a file that another version made."""


class Use(Enum):
    """How the cache on disk is used: read and written, written only, or not at all."""

    YES, REFRESH, NO = "yes", "refresh", "no"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of machine code. hit: ``"disk"`` or None. why: why it was compiled, if known."""

    hit: str | None
    why: str = ""


class _Counts:
    """Counts of lookups in the cache on disk, and the seconds of compiling that both caches saved."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.hits = self.misses = 0
        self.seconds = 0.0

    def count_hit(self, seconds: float) -> None:
        with self._lock:
            self.hits += 1
            self.seconds += seconds

    def add_saved_time(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds

    def count_miss(self) -> None:
        with self._lock:
            self.misses += 1


#: What the caches did in this process.
COUNTS = _Counts()


def key_fields(
    module: Module, entry: str, options: Options, destinations: Sequence[int] = ()
) -> dict[str, str]:
    """Return everything that the machine code of a function depends on, by name."""
    data, arrays = code_data(module, [entry])
    return {
        "format": str(FORMAT),
        "program": content_digest(data, []),
        "constants": content_digest(None, arrays),
        "engine": options.resolve_engine,
        "option target": options.target_text,
        "option opt_level": str(options.opt_level),
        **({"destinations": str(list(destinations))} if destinations else {}),
        **environment(),
    }


def key_of(fields: Mapping[str, str]) -> str:
    """Return the name of an entry."""
    return hashlib.sha256(digest(fields).encode()).hexdigest()


def build(
    module: Module,
    entry: str,
    options: Options,
    use: Use,
    carried: Content | None,
    destinations: Sequence[int] = (),
) -> tuple[Executable, Origin]:
    """Return the machine code of a function of a typed module, and its origin.

    ``carried`` is the machine code in the file that the function came from; ``destinations`` are the
    parameters whose arrays it may change. Raises EngineError.
    """
    if options.resolve_engine != "relax":
        why = f"the engine {options.engine_label} keeps nothing on disk"
        return options.build(module, entry), Origin(None, why)
    why = ""
    if carried is not None:
        try:
            return _load_from_file(carried, module, entry, options, destinations), Origin(None)
        except _OF_OTHER_CODE as error:
            why = f"its machine code cannot run here: {_reason(error)}"
            if isinstance(error, _OtherVersionError) and has_compiler():  # or what follows says it
                _warn_once(entry, str(error))
    cache = None if use is Use.NO or debug_folder() is not None else disk_cache()
    if cache is None:
        return _compile(module, entry, options, why, destinations), Origin(None, why)
    wanted = key_fields(module, entry, options, destinations)
    key = key_of(wanted)
    if use is Use.YES:
        loaded = _load_entry(cache, key, wanted, module, entry, options, destinations)
        if not isinstance(loaded, MissingEntry):
            return loaded, Origin("disk", f"{why}; found on disk" if why else "found on disk")
        COUNTS.count_miss()
        why = why or loaded.why
    begin = time.perf_counter()
    built = _compile(module, entry, options, why, destinations)
    if built.artifact is not None:
        content = content_of(built.artifact, wanted, entry, time.perf_counter() - begin)
        # An entry of code that a changed compiler made would be found under the key of the old one.
        if is_current():
            # `why` may be that the entry cannot be loaded: it must not be found again.
            cache.put(key, content, replace=use is Use.REFRESH or bool(why))
        else:
            told = "the compiler's files have changed since this process began, so nothing is kept on disk"
            warnings.warn(f"{told}; restart the kernel", CacheWarning, stacklevel=2)
    return built, Origin(None, why)


def content_of(artifact: Artifact, made_of: Mapping[str, str], entry: str, seconds: float) -> Content:
    """Return an artifact as the content of an entry; ``seconds``: how long it took to compile."""
    facts, files = artifact.to_files()
    header = {"made of": dict(made_of), "facts": facts, "function": entry, "seconds": round(seconds, 4)}
    return Content(header, files)


def _load_entry(
    cache: Store,
    key: str,
    wanted: Mapping[str, str],
    module: Module,
    entry: str,
    options: Options,
    destinations: Sequence[int],
) -> Executable | MissingEntry:
    content = cache.get(key)
    if isinstance(content, MissingEntry):
        return content
    try:
        if content.header["made of"] != wanted:
            raise ValueError("it is that of something else")
        executable = _load(content, module, entry, options, destinations)
        COUNTS.count_hit(float(content.header["seconds"]))
    except _OF_OTHER_CODE as error:
        reason = f"an entry cannot be used: {_reason(error)}"
        warnings.warn(f"nnmagic's cache in {cache.directory}: {reason}", CacheWarning, stacklevel=2)
        return MissingEntry(reason)
    return executable


def _load_from_file(
    content: Content, module: Module, entry: str, options: Options, destinations: Sequence[int]
) -> Executable:
    made_of, here = content.header["made of"], {"format": str(FORMAT), **environment()}
    for name in ("format", *FOR_RUNNING):
        if made_of[name] != here[name]:
            raise _OtherVersionError(f"it is for the {name} {made_of[name]}, and this is {here[name]}")
    return _load(content, module, entry, options, destinations)


def _warn_once(entry: str, reason: str) -> None:
    """Warn of machine code of another version, once for all functions that it has the same reason for."""
    if reason not in _warned:
        _warned.add(reason)
        told = f"the machine code of @{entry} cannot run here: {reason}; it is compiled again"
        hint = "pickle or save it again with this version"
        warn_caller(f"{told} (and so are others like it); {hint}", CacheWarning)


#: Why machine code of other versions could not run, where a warning said so.
_warned: set[str] = set()


def _load(
    content: Content, module: Module, entry: str, options: Options, destinations: Sequence[int]
) -> Executable:
    from nnmagic.engine import relax
    from nnmagic.engine.relax.artifact import from_files

    artifact = from_files(content.header["facts"], content.files)
    target, level = options.target, options.opt_level
    return relax.load(artifact, module, entry, target=target, opt_level=level, destinations=destinations)


def _compile(
    module: Module, entry: str, options: Options, why: str, destinations: Sequence[int]
) -> Executable:
    """Compile; ``why``: the reason why existing code could not be used."""
    if why and not has_compiler():
        hint = (
            "install apache-tvm, or unset TVM_USE_RUNTIME_LIB; its compiler makes the code again from Relay"
        )
        raise engine_error(f"@{entry} cannot be run: {why}, and TVM's compiler is not here", hint=hint)
    return options.build(module, entry, destinations)


def _reason(error: Exception) -> str:
    if isinstance(error, CompileError):
        return error.diagnostics[0].message
    return last_line(error)
