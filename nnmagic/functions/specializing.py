"""Define SpecializingFunction: what a cell binds for a function whose parameters have open types."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from nnmagic.diagnostics import Source, TinyNNWarning
from nnmagic.fork_safety import Lock
from nnmagic.functions.argument_types import argument_type, is_known_value
from nnmagic.functions.calls import annotation, make_binder, shown_default
from nnmagic.functions.captured import Captured
from nnmagic.functions.compile_options import Options
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo
from nnmagic.relay.types import Type
from nnmagic.tinynn.program import MISSING, FunctionInfo, ParameterInfo, Specialization
from nnmagic.tinynn.types.annotations import DESTINATIONS, OpenTensor, Tensor
from nnmagic.tracebacks import hide_frames, short_errors

if TYPE_CHECKING:
    from nnmagic.rendering.output import Section

#: After so many specializations a warning says how to compile once for all sizes.
_MANY = 32

#: The types of a call by parameter, and how its compile-time values are written.
_Key = tuple[tuple[tuple[str, Type], ...], tuple[tuple[str, str], ...]]

#: Stands for an argument that a call leaves out.
_LEFT_OUT = object()


@dataclass(frozen=True)
class Template:
    """A function before its types are known.

    Attributes:
        info: the function, with what is written of its types.
        source: the whole cell.
        captured: what its free names stand for, as the notebook had them when it was defined.
        options: the options of each compilation.
        key: equal only for the same definition with the same options and captured values.
        cache: whether specializations use the caches.

    """

    info: FunctionInfo
    source: Source
    captured: Captured = field(repr=False)
    options: Options
    key: str
    cache: bool
    qualname: str | None = None
    module: str | None = None


class SpecializingFunction:
    """A function that its first call compiles for the types of the arguments: ``f(*args, out=None)``.

    A parameter without a type takes what the call gives: an array with its dtype and sizes, a Python bool,
    int or float as a number of bool_, i64 or f64, a tuple of them. None and strings are known when it is
    compiled, as is the default of a parameter that the call leaves out. ``Tensor[..., f32]`` fixes the
    dtype, ``Tensor[("n", 3)]`` the shape.

    Raises what a compiled function raises, and TinyNNError where the function cannot be compiled for the
    types of a call. It may be called from any thread, and pickles.
    """

    __name__: str
    __qualname__: str
    __doc__: str | None
    __module__: str
    __signature__: inspect.Signature

    def __init__(self, template: Template, cache_info: CacheInfo) -> None:
        info = template.info
        names = {each.name for each in info.parameters}
        self._template = template
        self._cache_info = cache_info
        self._compiled: dict[_Key, CompiledFunction] = {}
        self._compiling = Lock()
        self._takes_out = "out" not in names
        self._bind = _binder(info)
        self._patterns = [info.open.get(each.name) for each in info.parameters]
        self.__name__ = info.name
        self.__qualname__ = template.qualname or info.name
        self.__doc__ = info.docstring
        self.__module__ = template.module or "nnmagic"
        self.__signature__ = _signature(info, takes_out=self._takes_out)
        self.__relay_key__ = template.key

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Run the function, compiled for the types of the arguments; see the class."""
        try:
            if out is not None and not self._takes_out:
                kwargs["out"], out = out, None
            types, values, given = self._arguments(self._bind(*args, **kwargs))
        except (TypeError, ValueError) as error:
            hide_frames(error)
            raise
        compiled = self._specialized(types, values)
        if any(each.destination for each in compiled.__relay_parameters__):
            given = self._with_changed(compiled, given, self._bind(*args, **kwargs))
        positional, keywords = self._split(given)
        return compiled(*positional, out=out, **keywords)

    def _with_changed(
        self, compiled: CompiledFunction, given: dict[str, Any], bound: Sequence[Any]
    ) -> dict[str, Any]:
        """Return the arguments of a call that changes some: those themselves, and no copies.

        Raises ValueError where another one shares memory with one of them: in Python it would change, too.
        """
        whole = dict(zip((each.name for each in self._template.info.parameters), bound, strict=True))
        changed = {each.name: whole[each.name] for each in compiled.__relay_parameters__ if each.destination}
        for name, array in changed.items():
            for other, value in given.items():
                arrays = isinstance(array, np.ndarray) and isinstance(value, np.ndarray)
                if (
                    other != name
                    and self._template.info.open.get(name) is None
                    and arrays
                    and np.may_share_memory(array, value)
                ):
                    hint = f"give a copy, as in {other}.copy()"
                    message = (
                        f"{self.__name__}() changes {name!r}, with which {other!r} shares memory; {hint}"
                    )
                    raise ValueError(message)
        return {**given, **changed}

    def specialize_for(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[CompiledFunction, list[Any], dict[str, Any]]:
        """Return the function compiled for the arguments of a call, and those that it takes.

        Raises TypeError, ValueError or TinyNNError.
        """
        types, values, given = self._arguments(self._bind(*args, **kwargs))
        return (self._specialized(types, values), *self._split(given))

    def _split(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional arguments and the keyword arguments of a call."""
        by_name = {each.name for each in self._template.info.parameters if each.kind == "KEYWORD_ONLY"}
        positional = [value for name, value in given.items() if name not in by_name]
        return positional, {name: value for name, value in given.items() if name in by_name}

    def _arguments(self, bound: Sequence[Any]) -> tuple[dict[str, Type], dict[str, object], dict[str, Any]]:
        """Return the types that a call completes, its compile-time values, and its other arguments."""
        types: dict[str, Type] = {}
        values: dict[str, object] = {}
        given: dict[str, Any] = {}
        converts = self._template.options.convert
        for parameter, pattern, value in zip(
            self._template.info.parameters, self._patterns, bound, strict=True
        ):
            name = parameter.name
            if value is _LEFT_OUT:
                if not _is_open(pattern):
                    values[name] = parameter.default
            elif pattern is None and is_known_value(value):
                values[name] = value
            elif _is_open(pattern):
                what = f"{self.__name__}() argument {name!r}"
                types[name], given[name] = argument_type(what, pattern, value, converts=converts)
            else:
                given[name] = value
        return types, values, given

    @short_errors
    def specialize(self, types: Mapping[str, Type], values: Mapping[str, object]) -> CompiledFunction:
        """Return the function compiled for types of its parameters, by name; its machine code comes later.

        ``values``: those of parameters that are known when it is compiled. Raises TinyNNError.
        """
        return self._specialized(types, values, build=False)

    @short_errors
    def _specialized(
        self, types: Mapping[str, Type], values: Mapping[str, object], *, build: bool = True
    ) -> CompiledFunction:
        key = (tuple(types.items()), tuple((name, repr(value)) for name, value in values.items()))
        compiled = self._compiled.get(key)
        if compiled is None:
            with self._compiling:
                compiled = self._compiled.get(key) or self._compile(types, values, build=build)
                self._compiled[key] = compiled
            if len(self._compiled) == _MANY:
                hint = 'name the sizes that vary, as in Tensor[("n", 3), f32]'
                message = f"{self.__name__}() has been compiled for {_MANY} sets of types: {hint}"
                warnings.warn(message, TinyNNWarning, stacklevel=5)
        return compiled

    def _compile(
        self, types: Mapping[str, Type], values: Mapping[str, object], *, build: bool
    ) -> CompiledFunction:
        from nnmagic.functions.compile_cell import compile_cell

        template = self._template
        given = Specialization(template.info.name, dict(types), dict(values))
        cell = compile_cell(
            template.source,
            template.captured.namespace,
            template.options,
            cache=template.cache,
            specialization=given,
            build=build,
        )
        for warning in cell.warnings:
            warnings.warn(warning.render(), TinyNNWarning, stacklevel=6)
        (compiled,) = cell.functions
        return CompiledFunction(
            compiled._definition, compiled.cache_info, qualname=self.__qualname__, module=self.__module__
        )

    @property
    def name(self) -> str:
        """The function's name, in Relay as in Python."""
        return self.__name__

    @property
    def specializations(self) -> tuple[CompiledFunction, ...]:
        """The compiled functions so far, one for each set of argument types, in the order of their calls."""
        return tuple(self._compiled.values())

    @property
    def cache_info(self) -> CacheInfo:
        """Whether the definition was found in a cache; each specialization has its own."""
        return self._cache_info

    @property
    def annotated(self) -> tuple[str, ...]:
        """The signatures to paste, one for each specialization, as in ``foo(x: Tensor[(569, 30), f64])``.

        What was known at compile time follows in a comment.
        """
        return tuple(
            f"{each.name}{each._format_signature()}{_shown_values(key)}"
            for key, each in self._compiled.items()
        )

    @property
    def __dsl_code__(self) -> str:
        """The function's source."""
        return self._template.info.source

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Kinds and defaults of its parameters, as another cell knows them."""
        return self._template.info.parameters

    @property
    def __relay_template__(self) -> SpecializingFunction:
        """What another cell has specialized for its calls."""
        return self

    def save(self, path: object) -> None:
        """Refuse to write a file: it holds machine code, which each specialization has."""
        del path
        hint = f"save one of its specializations, as in {self.__name__}.specializations[0].save(path)"
        raise TypeError(f"{self.__name__}() is compiled for each set of types: {hint}")

    def __reduce__(self) -> tuple[Callable[..., SpecializingFunction], tuple[Template, CacheInfo]]:
        return SpecializingFunction, (self._template, self._cache_info)

    def __copy__(self) -> SpecializingFunction:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> SpecializingFunction:
        return self

    def __repr__(self) -> str:
        return f"<nnmagic function {self.name}{self._format_signature()}, {self._state()}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from nnmagic.rendering.output import Output

        return Output(tuple(self._sections())).bundle()

    def _sections(self) -> list[Section]:
        """Return its state with the annotations to paste, and the Relay of each specialization."""
        from nnmagic.rendering.output import plain

        lines = [f"{self.name}{self._format_signature()}: {self._state()}"]
        lines += [f"def {each}" for each in self.annotated]
        return [plain("types", "\n".join(lines)), *(each._section() for each in self._compiled.values())]

    def _state(self) -> str:
        count = len(self._compiled)
        if not count:
            return "compiled at its first call"
        return f"compiled for {count} set{'' if count == 1 else 's'} of types"

    def _format_signature(self) -> str:
        """Return the signature without ``out``, which all have."""
        own = list(self.__signature__.parameters.values())
        return str(self.__signature__.replace(parameters=own[:-1] if self._takes_out else own))

    def _renamed(self, qualname: str, module: str) -> SpecializingFunction:
        """Return the function under the names of the Python function that it was made from."""
        renamed = replace(self._template, qualname=qualname, module=module)
        return SpecializingFunction(renamed, self._cache_info)


def _shown_values(key: _Key) -> str:
    return f"  # {', '.join(f'{name}={value}' for name, value in key[1])}" if key[1] else ""


def _is_open(pattern: Type | OpenTensor | None) -> TypeGuard[OpenTensor | None]:
    return pattern is None or isinstance(pattern, OpenTensor)


def _binder(info: FunctionInfo) -> Callable[..., tuple[Any, ...]]:
    """Return a function that returns the arguments in order, `_LEFT_OUT` for those that have a default."""
    marked = [
        each if each.default is MISSING else replace(each, default=_LEFT_OUT) for each in info.parameters
    ]
    return make_binder(info.name, marked)


def _signature(info: FunctionInfo, *, takes_out: bool) -> inspect.Signature:
    shown = [
        inspect.Parameter(
            each.name,
            inspect._ParameterKind[each.kind],
            default=shown_default(each.default),
            annotation=_shown_pattern(info.open.get(each.name), each.destination),
        )
        for each in info.parameters
    ]
    if takes_out:
        shown.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(shown)


def _shown_pattern(pattern: Type | OpenTensor | None, destination: str) -> object:
    if pattern is None:
        return inspect.Parameter.empty
    if isinstance(pattern, OpenTensor):
        return pattern
    shown = annotation(pattern)
    return DESTINATIONS[destination](shown) if destination and isinstance(shown, Tensor) else shown
