"""Give compiled functions what tools ask of Python's own: names, a docstring, attributes, methods."""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from nnmagic.tracebacks import hide_frames, short_errors


class _Described:
    """An attribute that every function has, and that is none of those in its ``__dict__``."""

    def __init__(self, name: str, make: Callable[[Any], object] | None = None) -> None:
        self._name = name
        self._make = make

    def __get__(self, function: FunctionAttributes | None, owner: type | None = None) -> Any:
        if function is None:
            return self
        value = function._description[self._name]
        if value is None and self._make is not None:
            value = function._description.maps[-1][self._name] = self._make(function)
        return value

    def __set__(self, function: FunctionAttributes, value: object) -> None:
        function._description[self._name] = value


class _OwnText(_Described, str):
    """The docstring or the module of a class whose instances have their own."""

    def __new__(cls, name: str, text: str | None) -> _OwnText:
        del name
        return str.__new__(cls, text or "")

    def __init__(self, name: str, text: str | None) -> None:
        del text
        super().__init__(name)

    def __get__(self, function: FunctionAttributes | None, owner: type | None = None) -> Any:
        return str(self) if function is None else super().__get__(function, owner)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def _annotations(function: FunctionAttributes) -> dict[str, Any]:
    """Return the types of the parameters by name, and that of the result as ``return``."""
    signature = function.__signature__
    shown = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    shown["return"] = signature.return_annotation
    return {name: type_ for name, type_ in shown.items() if type_ is not inspect.Parameter.empty}


class FunctionAttributes:
    """The attributes of a function.

    ``__dict__`` holds those that its users have set and nothing else, as functools.wraps copies it. The
    function is a method where it is an attribute of a class, as one made by ``def``.
    """

    __slots__ = ("__dict__", "__weakref__", "_description")

    #: PEP 484's mark of annotations that are no hints: beartype and others need not check what a call checks.
    __no_type_check__ = True
    __name__ = _Described("__name__")
    __signature__ = _Described("__signature__")
    __annotations__ = _Described("__annotations__", _annotations)
    #: The function of Python that it was made from. Where there is none, it is what ``inspect.getsource`` and
    #: IPython's ``f??`` read its source from.
    __wrapped__ = _Described("__wrapped__", lambda function: function._source_holder())

    if TYPE_CHECKING:
        __qualname__: str

    def __init_subclass__(cls) -> None:
        for name in ("__doc__", "__module__"):
            setattr(cls, name, _OwnText(name, getattr(cls, name)))

    def _describe(
        self,
        name: str,
        qualname: str | None,
        module: str | None,
        doc: str | None,
        signature: inspect.Signature,
        wrapped: FunctionType | ModuleType | None,
    ) -> None:
        """Set what tools see of the function; ``wrapped``: the one of Python that it was made from."""
        own = {
            "__name__": name,
            "__qualname__": qualname or name,
            "__module__": module or "nnmagic",
            "__doc__": doc,
            "__signature__": signature,
            "__annotations__": None,
            "__wrapped__": wrapped,
        }
        #: What the users of the function have set, then what it had before.
        self._description: ChainMap[str, Any] = ChainMap({}, own)

    @property
    def _was_wrapped(self) -> Any:
        """What ``__wrapped__`` was before users of the function set it; None if it was not made yet."""
        return self._description.maps[-1]["__wrapped__"]

    def _source_holder(self) -> FunctionType | ModuleType:
        """Return what has the source of a function that was made from no function of Python."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # it would allow any name to type checkers

        @short_errors
        def __getattr__(self, name: str) -> Any:
            if name == "__qualname__":  # no class can have a descriptor of this name
                return self._description[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        try:
            self._set(name, value)
        except AttributeError as error:
            hide_frames(error)
            raise

    def _set(self, name: str, value: object) -> None:
        if name == "__call__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__call__' is read-only")
        if name == "__qualname__":
            self._description[name] = value
        else:
            object.__setattr__(self, name, value)

    @property
    def __code__(self) -> CodeType:
        """The code of the function of Python: by it tools know whether a function has changed."""
        code: CodeType = self.__wrapped__.__code__  # a module has none, and says so
        return code

    if not TYPE_CHECKING:  # it would be a method to type checkers wherever it is an attribute

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            return self if instance is None else MethodType(self, instance)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        return self

    def _attributes(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return what its users have set, as the state of a pickle; None if that is nothing."""
        described = dict(self._description.maps[0])
        return (self.__dict__, described) if self.__dict__ or described else None
