"""Load functions that nnmagic saved, and call them: their machine code, as nnmagic itself calls it."""

from __future__ import annotations

import io
import os
import pickle
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnmagic._version import __version__
from nnmagic.cache.entry import Content
from nnmagic.diagnostics import CompileError, kind_of
from nnmagic.engine import EngineError, cpu, engine_error
from nnmagic.engine.relax.artifact import AOT, FORMAT, VALUE, check_machine, from_files
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.callbacks import prepare_thread
from nnmagic.functions.arguments.calls import CallAdapter, call_of
from nnmagic.functions.arguments.records import RecordCalls, holds_record
from nnmagic.functions.cached_property import Cached
from nnmagic.functions.caching.plain_data import parameter_from_data
from nnmagic.functions.calling import Caller
from nnmagic.functions.function_attributes import FunctionAttributes
from nnmagic.functions.function_files import OF_OTHER_DATA, read_parts, reason_of
from nnmagic.relay import types as ty
from nnmagic.relay.failures import Failure
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.structure.type_data import TypeDecoder
from nnmagic.tracebacks import add_own_folder, short_errors

add_own_folder(__file__)  # whose frames errors do not show

#: The only machine whose object files are linked here.
_MACHINE = "Linux x86_64"

#: How pickles of nnmagic's functions say what reads them.
_READER = "nnmagic.functions.saving", "from_pickle"


@short_errors
def load(path: str | os.PathLike[str]) -> Function:
    """Return the function of a file: one that ``save`` of nnmagic wrote, or a pickle of a function.

    Load files only from people whom you trust: their machine code is run.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it holds no such function.
        EngineError: if the function cannot run here.

    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"nnmagic_runtime.load takes a path, as text or a pathlib.Path, not {kind_of(path)}")
    with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib costs more
        return _of_data(file.read(), os.fspath(path))


@short_errors
def loads(data: bytes) -> Function:
    """Return the function of bytes, as ``load`` does of a file's."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"nnmagic_runtime.loads takes bytes, not {kind_of(data)}")
    return _of_data(bytes(data), "the data")


def _of_data(data: bytes, origin: str) -> Function:
    if data[:1] != pickle.PROTO:
        return Function(_read(data, origin), data)
    try:
        value = _Unpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError) as error:
        raise ValueError(f"{origin} is no pickle that can be read here: {error}") from error
    if not isinstance(value, Function):
        raise ValueError(  # noqa: TRY004 - it is what the data holds
            f"{origin} is a pickle of {kind_of(value)}, and of no function"
        )
    return value


class _Unpickler(pickle.Unpickler):
    """Reads pickles of nnmagic's functions, whose reader is not here."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == _READER:
            return _from_pickle
        if module.partition(".")[0] == "nnmagic":
            hint = "pickle a function alone; of one without types a specialization: f.specializations[0]"
            raise pickle.UnpicklingError(f"it needs {module}, which nnmagic has; {hint}")
        return super().find_class(module, name)


def _from_pickle(data: bytes, python: Sequence[object] = ()) -> Function:
    if python:
        raise engine_error("the function calls functions of Python, which nnmagic alone can do")
    return Function(_read(data, "a pickle"), data)


class Function(FunctionAttributes):
    """A function that nnmagic compiled: ``f(*args, out=None, **kwargs)``, as in the notebook.

    It takes, checks and returns what the compiled function did there, and raises the same errors.
    """

    if TYPE_CHECKING:

        def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
            """Run the function; see the class."""

    else:
        #: What is called: a ``Caller``, or machine code.
        __slots__ = ("__call__", "_caller", "_data")

    def __init__(self, definition: _Definition, data: bytes, *, records: bool = True) -> None:
        signature, head = definition.call.signature, definition.head
        self._describe(definition.name, head["qualname"], head["python_module"], head["doc"], signature, None)
        record_calls, described = (
            _record_calls(definition, data) if records else None,
            cast("Any", definition),
        )
        self._caller, self._data = Caller(described, record_calls), data
        self._caller.owner = cast("Any", weakref.ref(self))
        self._set_caller(self._caller)

    def _set_caller(self, caller: Caller) -> None:
        _CALLED.__set__(self, caller if caller.direct is None else caller.direct)

    @property
    def name(self) -> str:
        """The function's name."""
        return self._caller.definition.name

    def _source_holder(self) -> FunctionType | ModuleType:
        import hashlib

        from nnmagic.functions.cells.python_source import source_holder

        head = cast("Any", self._caller.definition).head
        return source_holder(self.name, head["text"], head["doc"], hashlib.sha256(self._data).hexdigest())

    def __reduce__(self) -> tuple[Callable[[bytes], Function], tuple[bytes], Any]:
        return loads, (self._data,), self._attributes()

    def __repr__(self) -> str:
        return f"<nnmagic function {self.name}{self.__signature__}>"


#: The place of what is called in an instance.
_CALLED: Any = Function.__dict__["__call__"]


def _record_calls(definition: _Definition, data: bytes) -> RecordCalls | None:
    """Return what calls a function that takes or gives records; None for any other."""
    types = [parameter.type for parameter in definition.call.parameters]
    result = definition.call.result or definition.result
    if not any(map(holds_record, (*types, result))):
        return None
    return RecordCalls(definition.call, types, result, Function(definition, data, records=False))


class _Definition:
    """A function as a call must know it: of the file's head, and of its types alone."""

    def __init__(
        self,
        head: Mapping[str, Any],
        arrays: list[np.ndarray],
        names: Sequence[str],
        types: Sequence[ty.Type],
        result: ty.Type,
    ) -> None:
        self.head, self.arrays = head, arrays
        self.name, self.language = str(head["name"]), str(head["language"])
        self.options = SimpleNamespace(**head["options"])
        self.names, self.types, self.result = names, types, result
        infos = tuple(parameter_from_data(each, arrays) for each in head["parameters"])
        self.call: CallAdapter = call_of(self.name, self.signature(types, result), infos)
        self.built_executable: Any = None

    def signature(self, types: Sequence[ty.Type], result: ty.Type) -> Any:
        """Return what stands for a module that has the function with these types, and nothing in it."""
        params = [
            SimpleNamespace(name_hint=name, checked_type=type_)
            for name, type_ in zip(self.names, types, strict=True)
        ]
        function = SimpleNamespace(params=params, ret_type=result, result_type=result)
        return SimpleNamespace(functions={self.name: function}, types={})

    @property
    def executable(self) -> Any:
        """The machine code."""
        return self.built_executable

    @Cached
    def module(self) -> Any:
        """Return the typed Relay, which says what an error came from."""
        return _typed_module(self.head, self.arrays)


def _typed_module(head: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> Any:
    from nnmagic.relay.infer import infer_type
    from nnmagic.relay.structure.serialization import module_from_data

    return infer_type(module_from_data(head["module"], arrays), look_into_callees=True)


def _read(data: bytes, origin: str) -> _Definition:
    """Return a function whose machine code is linked. Raises ValueError or EngineError."""
    try:
        head, arrays, code = read_parts(data)
        _check_version(str(head["name"]), code)
        definition = _Definition(head, arrays, *_types(head, arrays))
        assertions = [Failure(*map(str, each)) for each in code.header.get("assertions", ())]
    except EngineError:
        raise
    except (*OF_OTHER_DATA, CompileError) as error:
        raise ValueError(f"{origin} holds no function that nnmagic saved: {reason_of(error)}") from error
    definition.built_executable = _link(definition, code, assertions)
    return definition


def _check_version(name: str, code: Content) -> None:
    """Raise EngineError for machine code that is not called as it is here."""
    if "facts" not in code.header:
        hint = "save it with the engine that compiles; build a function before you pickle it: f.build()"
        raise engine_error(f"there is no machine code of @{name} in it, and no compiler here", hint=hint)
    made_of = code.header["made of"]
    here = {"format": str(FORMAT), "version of nnmagic": __version__, "layout of arrays": numpy_abi.layout()}
    for what, version in here.items():
        if made_of[what] != version:
            message = f"@{name} was compiled for the {what} {made_of[what]}, and this is {version}"
            hint = f"pip install nnmagic-runtime=={made_of['version of nnmagic']}, or save it again"
            raise engine_error(message, hint=hint)


def _types(head: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> tuple[list[str], list[ty.Type], ty.Type]:
    """Return the names and the types of the parameters, and the type of the result."""
    data, name = head["module"], head["name"]
    decoder = TypeDecoder()
    decoder.add_types(data["types"])
    _, params, _, result, *_ = data["nodes"][data["functions"][name]]
    variables = [data["nodes"][number] for number in params]
    numbers = [result, *(number for _, _, number in variables)]
    if None in numbers:  # one that type inference finds
        function = _typed_module(head, arrays).functions[name]
        return (
            [var.name_hint for var in function.params],
            [var.checked_type for var in function.params],
            function.ret_type,
        )
    result_type, *types = (decoder.types[number] for number in numbers)
    return [str(hint) for _, hint, _ in variables], types, result_type


def _link(definition: _Definition, code: Content, assertions: Sequence[Failure]) -> Any:
    """Return the machine code, linked. Raises EngineError where it cannot run."""
    name = definition.name
    if cpu.platform_name() != _MACHINE:
        hint = "install nnmagic"
        raise engine_error(f"the runtime is for {_MACHINE}, and this is {cpu.platform_name()}", hint=hint)
    types = [*definition.types, definition.result]
    try:
        artifact = from_files(code.header["facts"], code.files)
        check_machine(artifact.facts, name)
        _check_types(name, types, artifact.kind)
        _check_assertions(artifact.facts, assertions)
        prepare_thread()
        *lowered, result = map(ty.lower_complex_type, types)
        function = definition.signature(lowered, result).functions[name]
        lengths = _lengths(artifact.facts["dims"], lowered)
        function.params += [None] * len(lengths)
        run = AotExecutable(
            name, function, artifact, _no_stages, assertions, lengths=lengths, general=_no_compiler
        )
    except (ValueError, LookupError, TypeError, RuntimeError, OSError, struct.error) as error:
        raise engine_error(f"@{name} cannot run here: {reason_of(error)}") from error
    if [*lowered, result] == types:
        return run
    from nnmagic.functions.arguments.complex_arrays import ComplexExecutable

    return ComplexExecutable(run, definition.signature(definition.types, definition.result), name)


def _check_assertions(facts: Mapping[str, Any], assertions: Sequence[Failure]) -> None:
    numbers = [failure[1] for failure in facts["failures"] if failure[0] == "assertion"]
    if max(numbers, default=-1) >= len(assertions):
        raise ValueError("it does not say what its assertions raise; save it again")


def _check_types(name: str, types: Sequence[ty.Type], kind: str) -> None:
    """Raise EngineError for a function that needs more than machine code and NumPy."""
    leaves = [leaf for type_ in types for leaf in leaf_types(type_)]
    if kind != AOT or not all(isinstance(leaf, ty.TensorType) for leaf in leaves):
        message = f"@{name} has data types or functions as values, which nnmagic alone runs"
        raise engine_error(message, hint="save a function of arrays, numbers, tuples and records")
    if any(getattr(leaf, "dtype", "") not in ty.ARRAY_DTYPES for leaf in leaves):
        raise engine_error(f"@{name} has arrays of bfloat16", hint="pip install ml_dtypes")


def _lengths(dims: Sequence[Sequence[int]], types: Sequence[ty.Type]) -> list[int]:
    """Return the parameters that are integers and sizes of what is computed."""
    first, found = 0, []
    tensors = {array for array, axis in dims if axis == VALUE}
    for number, type_ in enumerate(types):
        if first in tensors:
            found.append(number)
        first += len(leaf_types(type_))
    return found


def _no_stages() -> Any:
    raise engine_error(
        "the runtime has no compiler", hint="nnmagic.load shows the stages of a file's function"
    )


def _no_compiler() -> Any:
    raise engine_error(
        "the function must be compiled again for a negative size, and the runtime has no compiler"
    )
