"""Check the settings of ``%config TinyNNMagics``. Imports TVM only to check a target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from nnmagic.diagnostics import CompileError, closest
from nnmagic.functions.caching.compile_options import OPT_LEVELS, Options, engine_names
from nnmagic.jupyter.cell_output import parse_show_option
from nnmagic.jupyter.errors import MagicError

if TYPE_CHECKING:
    from nnmagic.engine.custom import Engine
    from nnmagic.relay.passes.pipeline import NamedPass

_SWITCHES = ("quiet", "cache", "tb", "warn_changed", "zero_d_arrays")
#: Whole numbers, each with the least that it may be.
_NUMBERS = {"cache_mb": 0, "num_threads": 1}


def problem(name: str, value: object, namespace: Mapping[str, object]) -> str | None:
    """Return why a setting cannot have a value, and what it may be; None if it can.

    namespace: the notebook's variables, among which an engine may be a function.
    """
    try:
        _check(name, value, namespace)
    except CompileError as error:
        diagnostic = error.diagnostics[0]
        return f"{diagnostic.message}; {diagnostic.hint}" if diagnostic.hint else diagnostic.message
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        return str(error)
    return None


def _check(name: str, value: object, namespace: Mapping[str, object]) -> None:
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise TypeError("it must be True or False")
    elif name == "promote":
        Options(promote=value)  # type: ignore[arg-type]  # which checks it
    elif name == "convert":
        if not isinstance(value, bool) and value != "same_kind":
            raise ValueError("it must be True, False or 'same_kind'")
    elif name in _NUMBERS:
        least = _NUMBERS[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"it must be a whole number from {least} on, or None")
    elif name == "engine":
        if not isinstance(value, str) or not (value in engine_names(value) or callable(namespace.get(value))):
            known = ", ".join(map(repr, engine_names()))
            raise ValueError(f"it must be one of {known}, or the name of a function of the notebook")
    elif name == "opt_level":
        if isinstance(value, bool) or value not in OPT_LEVELS:
            raise ValueError("it must be 0, 1, 2 or 3")
    elif name == "show":
        if not isinstance(value, str):
            raise TypeError("it must be text, as in 'relay,graph'")
        parse_show_option(value)
    elif name == "cache_dir":
        if value is not None and not isinstance(value, str):
            raise TypeError("it must be text, the path of a directory, or None")
        if value is not None and (path := directory_of(value)).exists() and not path.is_dir():
            raise ValueError("it must be a directory")
    elif name == "target" and value is not None:
        if not isinstance(value, str):
            raise TypeError("""it must be a JSON object in quotes, as in '{"kind": "llvm"}', or None""")
        Options(target=target_of(value)).check_target()


def find_engine(name: str, namespace: Mapping[str, object]) -> str | Engine:
    """Return an engine as the options take it: a name, or the notebook's function of that name.

    Raises ValueError for a name of neither.
    """
    if name in engine_names(name):
        return name
    value = namespace.get(name)
    if value is None or not callable(value):
        known = ", ".join(map(repr, engine_names()))
        raise ValueError(
            f"engine must be one of {known} or the name of a function of the notebook, not {name!r}"
        )
    return value


def directory_of(text: str) -> Path:
    """Return a directory's path, with ``~`` expanded."""
    return Path(text).expanduser()


def target_of(text: str | None) -> str | Mapping[str, object] | None:
    """Return a target as the options take it. Raises ValueError for invalid JSON."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return dict(json.loads(text))
    except json.JSONDecodeError as error:
        raise MagicError(f"the target is no JSON object: {error}") from None


def passes_of(text: str | None, namespace: Mapping[str, object]) -> tuple[NamedPass, ...]:
    """Return the passes of a comma-separated list: functions of the notebook, or of the library.

    Raises ValueError for an unknown name, TypeError for something that is no pass.
    """
    if text is None:
        return ()
    from nnmagic.relay.passes.library import LIBRARY
    from nnmagic.relay.passes.pipeline import NamedPass, named_passes

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"--passes names no pass; the library's are {', '.join(LIBRARY)}")
    passes: list[NamedPass] = []
    for name in names:
        known = name in namespace or name in LIBRARY
        if not known and (close := closest(name, [*LIBRARY, *_functions(namespace)])):
            raise ValueError(f"there is no pass {name!r}; did you mean {close}?")
        (named_pass,) = named_passes([namespace.get(name, name)])
        passes.append(NamedPass(name, named_pass.run))
    return tuple(passes)


def _functions(namespace: Mapping[str, object]) -> list[str]:
    return [name for name, value in namespace.items() if isinstance(value, FunctionType)]
