"""Record the values of a function's free names at the time when it is defined."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from inspect import getattr_static
from types import FunctionType, ModuleType

from nnmagic.tinynn import look_up
from nnmagic.tinynn.parameters import MISSING


@dataclass(frozen=True)
class Captured:
    """What free names stand for, with arrays and lists copied.

    It pickles: what a pickle cannot hold is left out, except what is called. ``calls_python``: whether
    functions of Python are.
    """

    namespace: Mapping[str, object]
    calls_python: bool = False

    def __reduce__(self) -> tuple[object, tuple[dict[str, bytes], dict[str, object], bool]]:
        functions = {name: value for name, value in self.namespace.items() if self._is_called(value)}
        others = {name: _pickle(value) for name, value in self.namespace.items() if name not in functions}
        return _restore, (others, functions, self.calls_python)

    def _is_called(self, value: object) -> bool:
        """Return whether a value is a function that cells call: cloudpickle holds more of Python's."""
        is_compiled = getattr_static(value, "__relay_key__", None) is not None
        return is_compiled or (self.calls_python and isinstance(value, FunctionType))


@dataclass(frozen=True, slots=True)
class _Module:
    """A module in a pickle, by its name."""

    name: str


class NotPickled:
    """Stands for a value that a pickle cannot hold; a cell that uses it is refused."""


def capture_names(names: Collection[str], namespace: Mapping[str, object]) -> Captured:
    """Return what names stand for in a namespace, and the data types whose constructors they are."""
    from nnmagic.tinynn.namespace.compiled_values import types_with

    captured: dict[str, object] = {}
    for name in names:
        value = look_up(namespace, name)
        if value is MISSING:
            captured |= types_with(namespace, name)
        else:
            captured[name] = _copy(value)
    return Captured(captured, "callback" in names)


def _copy(value: object) -> object:
    """Return a value with its mutable parts copied; what a cell cannot use stays as it is."""
    from nnmagic.tinynn.namespace.capture import NotCapturableError, snapshot

    try:
        return snapshot(value)
    except NotCapturableError:
        return value


def _pickle(value: object) -> bytes:
    kept = _Module(value.__name__) if isinstance(value, ModuleType) else value
    try:
        return pickle.dumps(kept)
    except Exception:  # noqa: BLE001 - a pickle runs code of any class
        return pickle.dumps(NotPickled())


def _restore(pickled: Mapping[str, bytes], functions: Mapping[str, object], calls_python: bool) -> Captured:
    values = {name: pickle.loads(data) for name, data in pickled.items()}  # noqa: S301 - inside a pickle
    return Captured(
        {
            name: importlib.import_module(value.name) if isinstance(value, _Module) else value
            for name, value in values.items()
        }
        | dict(functions),
        calls_python,
    )
