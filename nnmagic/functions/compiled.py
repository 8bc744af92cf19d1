"""Define CompiledFunction: what a cell binds.

TVM is imported when machine code is first needed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from nnmagic.engine.executable import Executable
from nnmagic.functions.arguments.records import RecordCalls, holds_record
from nnmagic.functions.caching.compile_options import Target
from nnmagic.functions.calling import Caller
from nnmagic.functions.definition import CacheInfo, Definition
from nnmagic.functions.function_attributes import FunctionAttributes
from nnmagic.functions.passes import Passes
from nnmagic.functions.stages import Stages
from nnmagic.relay.module import Module
from nnmagic.tinynn.parameters import ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo
from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    import os

    import numpy as np

    from nnmagic.functions.data_types import DataType
    from nnmagic.functions.inspection.why import Why
    from nnmagic.relay.callbacks import PythonFunction
    from nnmagic.rendering.graph import Graph
    from nnmagic.rendering.listing import Origins
    from nnmagic.rendering.output import Section

_Form = TypeVar("_Form")

#: Where the source lines of Relay are shown; those of a listing are many and long.
_ORIGINS: dict[str, Origins] = {"tinynn": "beside", "relay": "none"}


class CompiledFunction(FunctionAttributes):
    """A compiled tensor function: ``f(*args, out=None, **kwargs)``.

    Takes NumPy arrays, Python scalars and whatever ``numpy.asarray`` takes without a copy (for a parameter
    that is a tuple, a tuple of them); gives a new NumPy array, a NumPy scalar for a result of rank 0, a tuple
    of them, or an AdtValue. ``out`` is an array, or a tuple of arrays, that takes the result and is given
    back; it may overlap the arguments. Arguments of parameters that are ``Out`` or ``InOut`` in the signature
    are changed: arrays or tensors of PyTorch, which may overlap other arguments, but not each other.
    All arguments are read before anything is written.

    Raises TypeError or ValueError, which name the parameter, for arguments that do not fit, AssertionError
    with its message and location where an assertion of the function does not hold. It may be called from any
    thread, pickles, and has attributes as every function of Python.
    """

    def __init__(
        self,
        definition: Definition,
        cache_info: CacheInfo,
        *,
        qualname: str | None = None,
        module: str | None = None,
        wrapped: FunctionType | ModuleType | None = None,
        records: bool = True,
    ) -> None:
        call = definition.call
        caller = Caller(definition, _record_calls(definition, cache_info) if records else None)
        self._describe(definition.name, qualname, module, definition.doc, call.signature, wrapped)
        self._definition, self._cache_info, self._call, self._caller = definition, cache_info, call, caller
        caller.owner = weakref.ref(self)
        self._set_caller(caller)

    if TYPE_CHECKING:

        def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
            """Run the function; see the class."""

    else:
        #: What CPython calls: it finds this place in the class, which holds a ``Caller`` or machine code.
        __slots__ = ("__call__", "_cache_info", "_call", "_caller", "_definition")

    def _set_caller(self, caller: Caller) -> None:
        _CALLED.__set__(self, caller if caller.direct is None else caller.direct)

    @short_errors
    def build(self) -> Executable:
        """Build the machine code now rather than at the first call. Raises EngineError."""
        return self._caller.build()

    @property
    def name(self) -> str:
        """The function's name, in Relay as in Python."""
        return self._definition.name

    @property
    def relay(self) -> Module:
        """The function and those that it calls, as typed Relay; complex tensors are pairs of floats."""
        return self._definition.relay

    @property
    def relay_text(self) -> str:
        """The text of ``relay`` without the inferred types."""
        return self.stages["relay"]

    @property
    @short_errors
    def graph(self) -> Graph:
        """Its dataflow graph: a notebook shows it as a picture, ``str`` as lines of text."""
        from nnmagic.rendering.graph import graph_of

        return graph_of(self.relay, self.name)

    @property
    def types(self) -> Mapping[str, DataType]:
        """The data types of its module by name; ``f.types["List"].Cons(...)`` makes a value for it."""
        return self._definition.types

    @property
    def stages(self) -> Stages:
        """The stages of the compilation as texts, by name; each is made when it is asked for."""
        return self._definition.stages

    @property
    def passes(self) -> Passes:
        """What each pass did to its Relay: those that were asked for, then those of its ``opt_level``."""
        return Passes(self._definition.pass_runs)

    @property
    @short_errors
    def why(self) -> Why:
        """How its loops, kernels and arrays run, line by line, and what costs. Raises EngineError."""
        from nnmagic.functions.inspection.why import why

        return why(self._definition)

    @property
    def cache_info(self) -> CacheInfo:
        """Whether it was compiled or found in a cache, and why."""
        origin, info = self._definition.origin, self._cache_info
        if self._definition.carried is None or origin is None or not origin.why or origin.why in info.why:
            return info
        return replace(info, why=f"{info.why}; {origin.why}")

    @property
    @short_errors
    def ufunc(self) -> np.ufunc:
        """The function as a NumPy ufunc, with a loop for its dtypes.

        A function of numbers is a ufunc of elements; one of arrays a generalized ufunc, whose signature has
        the sizes of its types. Parameters that have a default keep it. Raises TypeError for a function that
        can be none.
        """
        from nnmagic.functions.ufuncs import make_ufunc

        return self._keep_ufunc(lambda: make_ufunc(self))

    @property
    def torch(self) -> Callable[..., Any]:
        """The function for tensors of torch, on the CPU: an operator with gradients and batches.

        autograd, ``torch.func`` and ``torch.compile`` know it; say ``g = f.torch`` ahead of what torch
        compiles as one graph. Raises TypeError for a function that changes its arguments or has types that
        torch has no tensors for, ImportError without torch.
        """
        made = self._definition.__dict__  # looked up first: torch.compile traces this, and not what makes it
        return made["_torch"] if "_torch" in made else self._make_torch()

    @short_errors
    def _make_torch(self) -> Callable[..., Any]:
        from nnmagic.functions.frameworks.torch import torch_function

        return self._keep("_torch", lambda: torch_function(self))

    @property
    @short_errors
    def jax(self) -> Callable[..., Any]:
        """The function for arrays of JAX, on the CPU: with reverse-mode gradients, ``jit`` and ``vmap``.

        Raises TypeError for a function that changes its arguments or has types that JAX has no arrays for,
        ImportError without JAX.
        """
        from nnmagic.functions.frameworks.jax import jax_function

        return self._keep("_jax", lambda: jax_function(self))

    def _keep_ufunc(self, make: Callable[[], np.ufunc]) -> np.ufunc:
        """Return its ufunc, made if there is none yet."""
        return self._keep("_ufunc", make)

    def _keep(self, name: str, make: Callable[[], _Form]) -> _Form:
        """Return a form of the function that all objects of its definition share, made if it is not there."""
        forms: dict[str, Any] = self._definition.__dict__
        form: _Form = forms[name] if name in forms else forms.setdefault(name, make())
        return form

    def _source_holder(self) -> FunctionType | ModuleType:
        return self._definition.source_holder

    @property
    def __dsl_code__(self) -> str:
        """The function's source."""
        return self._definition.text

    @property
    def __relay_code__(self) -> str:
        """The same as ``relay_text``."""
        return self.relay_text

    @property
    def __relay_key__(self) -> str:
        """What is equal only for the same definition, as another cell's cache has it."""
        return self._definition.key

    @property
    def __relay_global__(self) -> tuple[str, Module]:
        """The name of its global and the typed module that defines it: what another cell links."""
        return self._definition.name, self._definition.module

    @property
    def __relay_parameters__(self) -> tuple[ParameterInfo, ...]:
        """Kinds and defaults of its parameters, as another cell knows them."""
        return self._definition.parameters

    @property
    def __relay_types__(self) -> Mapping[str, DataTypeInfo]:
        """What classes say of its data types, as another cell knows them."""
        return self._definition.infos

    @short_errors
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ``nnmagic.load`` reads: machine code, and the Relay that it is made from.

        It holds no pickle. The file appears whole or not at all. Raises OSError, and EngineError if the
        function cannot be built.
        """
        from nnmagic.functions.saving import save

        save(self, path)

    @short_errors
    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the function as an ONNX model.

        Its inputs are the parameters, those of a tuple one by one; named dimensions keep their names. The
        file appears whole or not at all; constants of 2 GB or more go to ``<path>.data`` beside it.

        Raises RelayError with everything that ONNX cannot express, ImportError without the package onnx, and
        OSError.
        """
        from nnmagic.exporters.onnx import write_onnx

        write_onnx(self._definition.module_to_export, path, name=self.name)

    @short_errors
    def export(self, path: str | os.PathLike[str], *, target: Target = None) -> None:
        """Write the function as C, which needs libm and libc alone; ``nnmagic.export`` says what is written.

        Raises EngineError for a function that needs more, ValueError for a suffix or a name that cannot be.
        """
        from nnmagic.functions.exporting.export import export

        export(path, self, target=target)

    @property
    @short_errors
    def ctypes(self) -> Any:
        """The function as one of ctypes.

        A float of numbers is ``double (double, int64_t)`` or alike, and NaN where the call fails. A function
        of arrays is as ``export`` writes it: it returns 0, or a code that says what failed.
        """
        from nnmagic.functions.exporting.pointers import ctypes_function

        return self._keep("_ctypes", lambda: ctypes_function(self))

    @property
    @short_errors
    def address(self) -> int:
        """The address of what ``ctypes`` calls, as long as the function lives."""
        from nnmagic.functions.exporting.pointers import pointer

        return pointer(self, "numbers").address

    @short_errors
    def capsule(self, signature: str | None = None) -> object:
        """Return what ``scipy.LowLevelCallable`` takes: ``quad(LowLevelCallable(f.capsule()), 0, 1)``.

        Args:
            signature: one of SciPy's, such as ``"double (int, double *)"``; by default the first that fits.

        Raises EngineError for a function that no signature fits.

        """
        from nnmagic.functions.exporting.pointers import capsule

        return capsule(self, signature)

    def __reduce__(self) -> tuple[Callable[..., CompiledFunction], tuple[object, ...], Any]:
        from nnmagic.functions.saving import from_pickle, to_bytes

        python: list[PythonFunction] = []  # which the pickle carries in its own way
        data = to_bytes(self, python)
        return from_pickle, (data, tuple(python)) if python else (data,), self._attributes()

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Return what Dask identifies the function by."""
        return "nnmagic", self._definition.key

    def __repr__(self) -> str:
        return f"<nnmagic function {self.name}{self._format_signature()}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from nnmagic.rendering.output import Output

        return Output((self._section(),)).bundle()

    def _section(self) -> Section:
        """Return its Relay beside its source, under its signature."""
        from nnmagic.rendering.sections import relay_section

        origins: Origins = _ORIGINS.get(self._definition.language, "hover")
        return relay_section(self.relay, self.relay_text, [self._head()], origins=origins)

    def _head(self) -> str:
        """Return the HTML of its signature, with what its results in Relay are if a call changes arrays."""
        from nnmagic.rendering.sections import signature_head

        said = (self.__doc__ or "").strip().split("\n")[0]
        if results := self._call.results_in_relay():
            said = f"{said} In Relay its results are {', '.join(results)}."
        return signature_head(self.name, self._format_signature(), said)

    def _format_signature(self) -> str:
        return str(self._call.signature)


def _record_calls(definition: Definition, cache_info: CacheInfo) -> RecordCalls | None:
    """Return what calls a function that takes or gives records; None for any other."""
    function = definition.module.functions[definition.name]
    types = [parameter.type for parameter in definition.call.parameters]
    result = definition.call.result or function.result_type
    if not any(map(holds_record, (*types, result))):
        return None
    plain = CompiledFunction(definition, cache_info, records=False)
    return RecordCalls(definition.call, types, result, plain)


#: The place of what is called in an instance.
_CALLED: Any = CompiledFunction.__dict__["__call__"]
