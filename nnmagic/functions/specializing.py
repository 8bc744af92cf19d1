"""Define SpecializingFunction: what a cell binds for a function whose parameters have open types."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.cache import Entry
from nnmagic.diagnostics import CompileError
from nnmagic.functions.arguments import open_signatures
from nnmagic.functions.arguments.argument_types import argument_type, is_known_value
from nnmagic.functions.arguments.destinations import shares_memory
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.cells.known_calls import KnownCalls
from nnmagic.functions.cells.python_source import source_holder
from nnmagic.functions.cells.specializations import Specializations, Template, UntypedCall
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo
from nnmagic.functions.function_attributes import FunctionAttributes
from nnmagic.relay.types import Type
from nnmagic.tinynn.parameters import ParameterInfo
from nnmagic.tinynn.types.annotations import Generator
from nnmagic.tracebacks import OthersFrames, hide_frames, short_errors

if TYPE_CHECKING:
    import numpy as np

    from nnmagic.functions.inspection.why import Why
    from nnmagic.rendering.output import Section


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
        "_known",
        "_known_as",
        "_positional",
        "_specializations",
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
        self._specializations = Specializations(template, wrapped)
        self._known = KnownCalls(self._specializations)
        self._ufunc: np.ufunc | None = None
        self._known_as: str | None = None
        self._takes_out = "out" not in names
        self._bind = open_signatures.binder(info)
        #: How many arguments a call gives that need no binding; -1 where all need it.
        kinds = {parameter.kind for parameter in info.parameters}
        self._positional = len(names) if kinds <= {"POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"} else -1
        names_of = template.qualname, template.module
        self._describe(info.name, *names_of, info.docstring, open_signatures.signature(info), wrapped)

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Run the function, compiled for the types of the arguments; see the class."""
        try:
            if out is not None and not self._takes_out:
                kwargs["out"], out = out, None
            bound = args if len(args) == self._positional and not kwargs else self._bind(*args, **kwargs)
            if (known := self._known.find(bound)) is not None:
                compiled, values = known
            else:
                call = self._call(bound)
                compiled = self._specializations.for_call(call)
                changed = self._give_changed(compiled, call)
                self._known.keep(call, compiled, changed)
                values = list(call.arguments.values())
            positional, keywords = compiled._definition.call.split(values)
        except (TypeError, ValueError, CompileError, KeyboardInterrupt) as error:
            hide_frames(error)
            raise
        with OthersFrames():
            if out is None and not keywords:
                return compiled(*positional)
            return compiled(*positional, out=out, **keywords)

    def _give_changed(self, compiled: CompiledFunction, call: UntypedCall) -> list[str]:
        """Let a call that changes arguments have those themselves, and no copies; return their names.

        Raises ValueError where another one shares memory with one without a type: in Python it would change.
        """
        info = self._template.info
        names = [
            parameter.name
            for parameter in compiled.__relay_parameters__
            if parameter.destination in ("InOut", "Out")
        ]
        if not names:
            return names
        whole = dict(zip((parameter.name for parameter in info.parameters), call.bound, strict=True))
        for name in names:
            for other in call.arguments:
                if other != name and info.open.get(name) is None and shares_memory(whole[name], whole[other]):
                    is_array = isinstance(whole[other], np.ndarray)
                    hint = f"give a copy, as in {other}.copy()" if is_array else "give copies of its arrays"
                    message = f"{self.name}() changes {name!r}, with which {other!r} shares memory; {hint}"
                    raise ValueError(message)
        call.arguments.update({name: whole[name] for name in names})
        return names

    def specialize_for(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[CompiledFunction, Sequence[Any], dict[str, Any]]:
        """Return the function compiled for the arguments of a call, and those that it takes.

        Raises TypeError, ValueError or TinyNNError.
        """
        call = self._call(self._bind(*args, **kwargs))
        compiled = self._specializations.for_call(call)
        return (compiled, *compiled._definition.call.split(list(call.arguments.values())))

    def _call(self, bound: Sequence[Any]) -> UntypedCall:
        """Return what a call gives, by its arguments in order."""
        types: dict[str, Type | Generator] = {}
        values: dict[str, object] = {}
        arguments: dict[str, Any] = {}
        converts = self._template.options.convert
        for parameter, pattern, value in self._specializations.rows(bound):
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
        return UntypedCall(types, values, arguments, bound)

    @short_errors
    def specialize(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object]
    ) -> CompiledFunction:
        """Return the function compiled for types of its parameters, by name; its machine code comes later.

        ``values``: those of parameters that are known when it is compiled. Raises TinyNNError.
        """
        return self._specializations.specialize(types, values, build=False)

    @property
    def name(self) -> str:
        """The function's name, in Relay as in Python."""
        return self._template.info.name

    @property
    def specializations(self) -> tuple[CompiledFunction, ...]:
        """The compiled functions so far, one for each set of argument types, in the order of their calls."""
        return tuple(self._specializations.compiled.values())

    @property
    @short_errors
    def why(self) -> Why:
        """How the function runs that was compiled last; ``f.specializations`` has the others.

        Raises RuntimeError before the first call.
        """
        if not self._specializations.compiled:
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
            for key, compiled in self._specializations.compiled.items()
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

    @short_errors
    def save(self, path: object) -> None:
        """Refuse to write a file: it holds machine code, which each specialization has."""
        del path
        raise self._refusal("save")

    @short_errors
    def export(self, path: object, *, target: object = None) -> None:
        """Refuse to write C: a function of C has types, which each specialization has."""
        del path, target
        raise self._refusal("export")

    if not TYPE_CHECKING:  # it would allow any name to type checkers

        @short_errors
        def __getattr__(self, name: str) -> Any:
            if name[:1] == "_" or not hasattr(CompiledFunction, name):
                return super().__getattr__(name)
            first = "" if self.specializations else "call it, then "
            hint = f"{first}write {self.name}.specializations[0].{name}"
            what = f"each specialization of {self.name} has its own {name!r}"
            raise AttributeError(f"{what}: {hint}")

    def _refusal(self, verb: str) -> TypeError:
        first = "" if self.specializations else "call it, then "
        hint = f"{first}{verb} one of its specializations, as in {self.name}.specializations[0].{verb}(path)"
        return TypeError(f"{self.name}() is compiled for each set of types: {hint}")

    def __reduce__(self) -> tuple[Callable[..., SpecializingFunction], tuple[object, ...], Any]:
        known = tuple(self._specializations.compiled.items()), tuple(self._specializations.needed.items())
        return _restore, (self._identity, self._template, self._cache_info, *known), self._attributes()

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
        return [
            plain("types", "\n".join(lines)),
            *(item._section() for item in self._specializations.compiled.values()),
        ]

    def _state(self) -> str:
        count = len(self._specializations.compiled)
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
        other._specializations, other._known = self._specializations, self._known
        return other

    def _of(self, function: FunctionType) -> SpecializingFunction:
        """Return the function under the names of the Python function that it was made from."""
        renamed = replace(self._template, qualname=function.__qualname__, module=function.__module__)
        return SpecializingFunction(renamed, self._cache_info, wrapped=function)


def _restore(
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
        function._specializations.compiled.setdefault(key, each)
    for key, names in needed:
        function._specializations.needed.setdefault(key, names)
    return function


def _shown_values(key: open_signatures.Key) -> str:
    shown = ", ".join(f"{name}={_shown_value(value)}" for name, value in key[1])
    return f"  # {shown}" if shown else ""


def _shown_value(text: str) -> str:
    """Return what `written` gives as a reader knows it: a function of the notebook has no name there."""
    kind, _, rest = text.partition(" ")
    return {"library": rest.removeprefix("function "), "source": "<function>"}.get(kind, text)
