"""Define SpecializingFunction: what a cell binds for a function whose parameters have open types."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.cache import Entry
from nnmagic.diagnostics import CompileError, Source, TinyNNError, TinyNNWarning
from nnmagic.fork_safety import Lock
from nnmagic.functions.arguments import open_signatures
from nnmagic.functions.arguments.argument_types import (
    PYTHON_INTEGERS,
    argument_type,
    is_known_value,
    plain_number,
)
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.captured import Captured
from nnmagic.functions.cells.python_source import source_holder
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo
from nnmagic.functions.function_attributes import FunctionAttributes
from nnmagic.relay.types import AnyDim, TensorType, Type
from nnmagic.tinynn.program import MISSING, FunctionInfo, ParameterInfo, Specialization
from nnmagic.tinynn.types.annotations import Generator
from nnmagic.tracebacks import hide_frames, short_errors, warn_caller

if TYPE_CHECKING:
    import numpy as np

    from nnmagic.functions.cells.compile_cell import CompiledCell
    from nnmagic.functions.inspection.why import Why
    from nnmagic.rendering.output import Section

#: After so many specializations a warning says how to compile once for all sizes.
_MANY = 32


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


class SpecializingFunction(FunctionAttributes):
    """A function that its first call compiles for the types of the arguments: ``f(*args, out=None)``.

    A parameter without a type takes what the call gives: an array with its dtype and sizes, a Python bool,
    int or float as a number of bool_, i64 or f64, a tuple of them. None and strings are known when it is
    compiled, as is the default of a parameter that the call leaves out, and so are numbers that the function
    cannot be compiled without, such as an axis: it is compiled for each value of these. ``Tensor[..., f32]``
    fixes the dtype, ``Tensor[("n", 3)]`` the shape.

    Raises what a compiled function raises, and TinyNNError where the function cannot be compiled for the
    types of a call. It may be called from any thread, and pickles.
    """

    __slots__ = (
        "_bind",
        "_cache_info",
        "_compiled",
        "_compiling",
        "_known_as",
        "_needed",
        "_patterns",
        "_sized",
        "_takes_out",
        "_template",
        "_ufunc",
    )

    def __init__(
        self, template: Template, cache_info: CacheInfo, *, wrapped: FunctionType | ModuleType | None = None
    ) -> None:
        info = template.info
        names = {parameter.name for parameter in info.parameters}
        self._template = template
        self._cache_info = cache_info
        self._compiled: dict[open_signatures.Key, CompiledFunction] = {}
        #: For types of a call, the arguments that are known when the function is compiled for them.
        self._needed: dict[open_signatures.Key, tuple[str, ...]] = {}
        #: Types of calls whose sizes stand for the names of those of other parameters.
        self._sized: set[open_signatures.Key] = set()
        self._compiling = Lock()
        self._ufunc: np.ufunc | None = None
        self._known_as: str | None = None
        self._takes_out = "out" not in names
        self._bind = open_signatures.binder(info)
        self._patterns = [info.open.get(parameter.name) for parameter in info.parameters]
        names_of = template.qualname, template.module
        self._describe(info.name, *names_of, info.docstring, open_signatures.signature(info), wrapped)

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Run the function, compiled for the types of the arguments; see the class."""
        try:
            if out is not None and not self._takes_out:
                kwargs["out"], out = out, None
            bound = self._bind(*args, **kwargs)
            types, values, arguments = self._arguments(bound)
            compiled = self._for_arguments(types, values, arguments, bound)
            if any(parameter.destination in ("InOut", "Out") for parameter in compiled.__relay_parameters__):
                arguments = self._change_arguments(compiled, arguments, bound)
        except (TypeError, ValueError, CompileError) as error:
            hide_frames(error)
            raise
        positional, keywords = compiled._definition.call.split(list(arguments.values()))
        return compiled(*positional, out=out, **keywords)

    def _change_arguments(
        self, compiled: CompiledFunction, arguments: dict[str, Any], bound: Sequence[Any]
    ) -> dict[str, Any]:
        """Return the arguments of a call that changes some: those themselves, and no copies.

        Raises ValueError where another one shares memory with one of them: in Python it would change, too.
        """
        whole = dict(
            zip((parameter.name for parameter in self._template.info.parameters), bound, strict=True)
        )
        changed = {
            parameter.name: whole[parameter.name]
            for parameter in compiled.__relay_parameters__
            if parameter.destination in ("InOut", "Out")
        }
        for name, array in changed.items():
            for other, value in arguments.items():
                arrays = isinstance(array, np.ndarray) and isinstance(value, np.ndarray)
                if (
                    other != name
                    and self._template.info.open.get(name) is None
                    and arrays
                    and np.may_share_memory(array, value)
                ):
                    hint = f"give a copy, as in {other}.copy()"
                    message = f"{self.name}() changes {name!r}, with which {other!r} shares memory; {hint}"
                    raise ValueError(message)
        return {**arguments, **changed}

    def specialize_for(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[CompiledFunction, Sequence[Any], dict[str, Any]]:
        """Return the function compiled for the arguments of a call, and those that it takes.

        Raises TypeError, ValueError or TinyNNError.
        """
        bound = self._bind(*args, **kwargs)
        types, values, arguments = self._arguments(bound)
        compiled = self._for_arguments(types, values, arguments, bound)
        return (compiled, *compiled._definition.call.split(list(arguments.values())))

    def _arguments(
        self, bound: Sequence[Any]
    ) -> tuple[dict[str, Type | Generator], dict[str, object], dict[str, Any]]:
        """Return the types that a call completes, its compile-time values, and its other arguments."""
        types: dict[str, Type | Generator] = {}
        values: dict[str, object] = {}
        arguments: dict[str, Any] = {}
        converts = self._template.options.convert
        for parameter, pattern, value in self._rows(bound):
            name = parameter.name
            if value is open_signatures.LEFT_OUT:
                if not open_signatures.is_open(pattern):
                    values[name] = parameter.default
            elif pattern is None and is_known_value(value):
                values[name] = value
            elif open_signatures.is_open(pattern):
                what = f"{self.name}() argument {name!r}"
                types[name], arguments[name] = argument_type(what, pattern, value, converts=converts)
            else:
                arguments[name] = value
        return types, values, arguments

    def _rows(self, bound: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
        """Return each parameter with what is written of its type and its argument."""
        return list(zip(self._template.info.parameters, self._patterns, bound, strict=True))

    @short_errors
    def _for_arguments(
        self,
        types: dict[str, Type | Generator],
        values: dict[str, object],
        arguments: dict[str, Any],
        bound: Sequence[Any],
    ) -> CompiledFunction:
        """Return the function compiled for a call; ``arguments`` loses the arguments that are known by then.

        Where it cannot be compiled for the named sizes of other parameters, it is for those of the call.
        """
        key = open_signatures.specialization_key(types, values)
        if (compiled := self._compiled.get(key)) is not None:
            return compiled
        sized = {**types, **self._sizes_of(bound)}
        if key not in self._sized:
            try:
                return self._compiled_for(types, values, arguments, bound)
            except TinyNNError as error:
                if len(sized) == len(types):
                    raise
                refused = error
            try:
                compiled = self._compiled_for(sized, values, arguments, bound)
            except TinyNNError:
                raise refused from None
            # The next call of these types need not fail first.
            self._sized.add(key)
            return compiled
        return self._compiled_for(sized, values, arguments, bound)

    def _sizes_of(self, bound: Sequence[Any]) -> dict[str, Type | Generator]:
        """Return the types of parameters with named sizes, with the sizes of a call if they are possible."""
        sizes: dict[str, int] = {}
        types: dict[str, Type | Generator] = {}
        for parameter, pattern, value in self._rows(bound):
            if not isinstance(pattern, TensorType) or not isinstance(value, np.ndarray):
                continue
            for dim, size in zip(pattern.shape, value.shape, strict=False):
                if isinstance(dim, AnyDim) and sizes.setdefault(str(dim.label), size) != size:
                    return {}
            if any(isinstance(dim, AnyDim) for dim in pattern.shape) and value.ndim == len(pattern.shape):
                types[parameter.name] = replace(pattern, shape=value.shape)
        return types if all(map(str.isidentifier, sizes)) else {}

    def _compiled_for(
        self,
        types: dict[str, Type | Generator],
        values: dict[str, object],
        arguments: dict[str, Any],
        bound: Sequence[Any],
    ) -> CompiledFunction:
        """Return the function compiled for types, and for the numbers of a call that it needs to know."""
        key = open_signatures.specialization_key(types, values)
        if (compiled := self._compiled.get(key)) is not None:
            return compiled
        rows = self._rows(bound)
        numbers = {
            parameter.name: number
            for parameter, pattern, value in rows
            if parameter.name in arguments and pattern in (None, *PYTHON_INTEGERS)
            if (number := plain_number(value)) is not MISSING
        }
        needed = [name for name in self._needed.get(key, ()) if name in numbers]
        refused = None
        lists = [
            parameter.name
            for parameter, _, value in rows
            if isinstance(value, list) and parameter.name in arguments
        ]
        try:
            compiled = self._specialize_values(types, values, {name: numbers[name] for name in needed})
        except TinyNNError as error:
            refused = _of_lists(error, lists)
            if len(needed) == len(numbers):
                raise refused from None
        if compiled is None:
            try:
                found = self._find_needed_numbers(types, values, numbers)
            except TinyNNError as error:
                raise refused if lists and refused is not None else error from None
            needed = [name for name in numbers if name in found or name in needed]  # values may decide which
            compiled = self._specialize_values(types, values, {name: numbers[name] for name in needed})
            self._needed[key] = tuple(needed)
        for name in needed:
            del arguments[name]
        return compiled

    def _specialize_values(
        self,
        types: Mapping[str, Type | Generator],
        values: Mapping[str, object],
        constants: Mapping[str, object],
    ) -> CompiledFunction:
        """Return the function compiled with some more arguments known."""
        dynamic = {name: type_ for name, type_ in types.items() if name not in constants}
        return self._specialize(dynamic, {**values, **constants})

    def _find_needed_numbers(
        self,
        types: Mapping[str, Type | Generator],
        values: Mapping[str, object],
        numbers: Mapping[str, object],
    ) -> tuple[str, ...]:
        """Return which numbers must be known for the function to be compiled.

        Raises TinyNNError where it cannot be compiled with all of them.
        """
        needed = dict(numbers)

        def compile_with(known: Mapping[str, object]) -> None:
            dynamic = {name: type_ for name, type_ in types.items() if name not in known}
            self._compile_quietly(dynamic, {**values, **known}, build=False)

        compile_with(needed)
        # What can be left out is left out for good: as many compilations as numbers, and not one
        # for each subset of them.
        for name in numbers if len(numbers) > 1 else ():
            others = {other: number for other, number in needed.items() if other != name}
            with contextlib.suppress(TinyNNError):
                compile_with(others)
                needed = others
        return tuple(needed)

    @short_errors
    def specialize(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object]
    ) -> CompiledFunction:
        """Return the function compiled for types of its parameters, by name; its machine code comes later.

        ``values``: those of parameters that are known when it is compiled. Raises TinyNNError.
        """
        return self._specialize(types, values, build=False)

    @short_errors
    def _specialize(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool = True
    ) -> CompiledFunction:
        key = open_signatures.specialization_key(types, values)
        compiled = self._compiled.get(key)
        if compiled is None:
            with self._compiling:
                compiled = self._compiled.get(key) or self._compile(types, values, build=build)
                self._compiled[key] = compiled
            if len(self._compiled) == _MANY:
                hint = 'name the sizes that vary, as in Tensor[("n", 3), f32]'
                if numbers := sorted({name for names in self._needed.values() for name in names}):
                    hint += f"; it is compiled for each value of {', '.join(numbers)}"
                message = f"{self.name}() has been compiled for {_MANY} sets of types: {hint}"
                warn_caller(message, TinyNNWarning)
        return compiled

    def _compile(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool
    ) -> CompiledFunction:
        cell = self._compile_quietly(types, values, build=build)
        for warning in cell.warnings:
            warn_caller(warning.render(), TinyNNWarning)
        (compiled,) = cell.functions
        return CompiledFunction(
            compiled._definition,
            compiled.cache_info,
            qualname=self._template.qualname,
            module=self._template.module,
            wrapped=self._was_wrapped,
        )

    def _compile_quietly(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool
    ) -> CompiledCell:
        from nnmagic.functions.cells.compile_cell import compile_cell

        template = self._template
        given = Specialization(template.info.name, dict(types), dict(values))
        return compile_cell(
            template.source,
            template.captured.namespace,
            template.options,
            cache=template.cache,
            specialization=given,
            build=build,
        )

    @property
    def name(self) -> str:
        """The function's name, in Relay as in Python."""
        return self._template.info.name

    @property
    def specializations(self) -> tuple[CompiledFunction, ...]:
        """The compiled functions so far, one for each set of argument types, in the order of their calls."""
        return tuple(self._compiled.values())

    @property
    @short_errors
    def why(self) -> Why:
        """How the function runs that was compiled last; ``f.specializations`` has the others.

        Raises RuntimeError before the first call.
        """
        if not self._compiled:
            message = f"{self.name} is compiled by its first call, for its types: call it, and ask then"
            raise RuntimeError(message)
        return self.specializations[-1].why

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
            f"{compiled.name}{compiled._format_signature()}{_shown_values(key)}"
            for key, compiled in self._compiled.items()
        )

    @property
    @short_errors
    def ufunc(self) -> np.ufunc:
        """The function as a NumPy ufunc, with a loop for each dtype for which it can be compiled.

        Parameters without a type are numbers, those that have a default keep it. Raises TypeError for a
        function that can be no ufunc, TinyNNError for one that cannot be compiled for any dtype.
        """
        from nnmagic.functions.ufuncs import make_ufunc

        return self._keep_ufunc(lambda: make_ufunc(self))

    @property
    @short_errors
    def torch(self) -> Callable[..., Any]:
        """The function for tensors of torch, compiled for their types; see ``CompiledFunction.torch``."""
        from nnmagic.functions.frameworks.torch import torch_function

        return torch_function(self)

    @property
    @short_errors
    def jax(self) -> Callable[..., Any]:
        """The function for arrays of JAX, compiled for their types; see ``CompiledFunction.jax``."""
        from nnmagic.functions.frameworks.jax import jax_function

        return jax_function(self)

    def _keep_ufunc(self, make: Callable[[], np.ufunc]) -> np.ufunc:
        """Return its ufunc, made if there is none yet."""
        if self._ufunc is None:
            self._ufunc = make()
        return self._ufunc

    @property
    def __dsl_code__(self) -> str:
        """The function's source."""
        return self._template.info.source

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Kinds and defaults of its parameters, as another cell knows them."""
        return self._template.info.parameters

    @property
    def __relay_key__(self) -> str:
        """What is equal only for the same definition, as another cell's cache has it."""
        return self._template.key

    @property
    def __relay_template__(self) -> SpecializingFunction:
        """What another cell has specialized for its calls."""
        return self

    def save(self, path: object) -> None:
        """Refuse to write a file: it holds machine code, which each specialization has."""
        del path
        hint = f"save one of its specializations, as in {self.name}.specializations[0].save(path)"
        raise TypeError(f"{self.name}() is compiled for each set of types: {hint}")

    def export(self, path: object, *, target: object = None) -> None:
        """Refuse to write C: a function of C has types, which each specialization has."""
        del path, target
        hint = f"export one of its specializations, as in {self.name}.specializations[0].export(path)"
        raise TypeError(f"{self.name}() is compiled for each set of types: {hint}")

    def __reduce__(self) -> tuple[Callable[..., SpecializingFunction], tuple[object, ...], Any]:
        known = tuple(self._compiled.items()), tuple(self._needed.items())
        return _restored, (self._identity, self._template, self._cache_info, *known), self._attributes()

    @property
    def _identity(self) -> str:
        """What the copies in pickles share: its key, if that says all of what it depends on."""
        if self._known_as is None:
            captured = self._template.captured.namespace.values()
            is_known = all(fingerprint(value) == fingerprint(value) for value in captured)
            key = self._template.key
            self._known_as = key if is_known else f"{key} {secrets.token_hex(8)}"
        return self._known_as

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Return what Dask identifies the function by."""
        return "nnmagic", self._identity

    def __repr__(self) -> str:
        return f"<nnmagic function {self.name}{self._format_signature()}, {self._state()}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from nnmagic.rendering.output import Output

        return Output(tuple(self._sections())).bundle()

    def _sections(self) -> list[Section]:
        """Return its state with the annotations to paste, and the Relay of each specialization."""
        from nnmagic.rendering.output import plain

        lines = [f"{self.name}{self._format_signature()}: {self._state()}"]
        lines += [f"def {item}" for item in self.annotated]
        return [plain("types", "\n".join(lines)), *(item._section() for item in self._compiled.values())]

    def _state(self) -> str:
        count = len(self._compiled)
        if not count:
            return "compiled at its first call"
        return f"compiled for {count} set{'' if count == 1 else 's'} of types"

    def _format_signature(self) -> str:
        return str(open_signatures.signature(self._template.info))

    def _source_holder(self) -> FunctionType | ModuleType:
        info, key = self._template.info, self._template.key
        return source_holder(info.name, info.source, info.docstring, key)

    def anew(self) -> SpecializingFunction:
        """Return an object for the same function, with what is compiled so far and no attributes yet."""
        other = SpecializingFunction(self._template, self._cache_info, wrapped=self._was_wrapped)
        other._compiled, other._needed, other._compiling = self._compiled, self._needed, self._compiling
        other._sized = self._sized
        return other

    def _of(self, function: FunctionType) -> SpecializingFunction:
        """Return the function under the names of the Python function that it was made from."""
        renamed = replace(self._template, qualname=function.__qualname__, module=function.__module__)
        return SpecializingFunction(renamed, self._cache_info, wrapped=function)


def _restored(
    identity: str,
    template: Template,
    cache_info: CacheInfo,
    compiled: Sequence[tuple[open_signatures.Key, CompiledFunction]],
    needed: Sequence[tuple[open_signatures.Key, tuple[str, ...]]],
) -> SpecializingFunction:
    """Return the function of a pickle: the same object as long as it is among those that were loaded last."""
    from nnmagic.functions.saving import LOADED

    fingerprints = {"identity": identity}
    entry = LOADED.find(fingerprints, str)
    function = SpecializingFunction(template, cache_info) if entry is None else entry.value
    assert isinstance(function, SpecializingFunction)
    if entry is None:
        function._known_as = identity
        LOADED.put(Entry(("pickle",), fingerprints, {}, function, 0))
    for key, each in compiled:
        function._compiled.setdefault(key, each)
    for key, names in needed:
        function._needed.setdefault(key, names)
    return function


def _of_lists(error: TinyNNError, lists: Sequence[str]) -> TinyNNError:
    """Return an error that says which argument is a list: what is written for arrays may not take one."""
    first, *rest = error.diagnostics
    if not lists or first.hint is not None:
        return error
    hint = f"`{lists[0]}` is a list, as the call gives it; give an array: numpy.asarray({lists[0]})"
    return TinyNNError([replace(first, hint=hint), *rest])


def _shown_values(key: open_signatures.Key) -> str:
    shown = ", ".join(f"{name}={_shown_value(value)}" for name, value in key[1])
    return f"  # {shown}" if shown else ""


def _shown_value(text: str) -> str:
    """Return what `written` gives as a reader knows it: a function of the notebook has no name there."""
    kind, _, rest = text.partition(" ")
    return {"library": rest.removeprefix("function "), "source": "<function>"}.get(kind, text)
