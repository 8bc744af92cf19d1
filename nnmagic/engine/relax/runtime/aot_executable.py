"""Call the machine code of an AOT program with NumPy's array objects as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, nested_source
from nnmagic.engine.relax.artifact import Artifact, Json
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.callbacks import raise_pending
from nnmagic.engine.relax.runtime.compiled_program import StagesOfProgram
from nnmagic.engine.relax.runtime.fast_path import FastPath, make_fast_path
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.engine.relax.runtime.native_entry import NOTHING, NativeEntry, out_of_memory
from nnmagic.engine.relax.runtime.sizes import size_function
from nnmagic.engine.relax.runtime.tensors import argument_array
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType

if TYPE_CHECKING:
    from nnmagic.engine.relax.runtime.compiled_program import CompiledProgram
    from nnmagic.engine.relax.runtime.ufunc import LoopProgram
    from nnmagic.relay.expr import Function, Var
    from nnmagic.relay.failures import Failure


class AotExecutable(StagesOfProgram):
    """A native program.

    A call takes one array (or tuple of arrays) per parameter and returns new arrays, which never share memory
    with an argument or a constant. Several threads, and a forked child, may call it. Raises TypeError for an
    array of a wrong dtype, ValueError for one of a wrong shape, and what the program raises.
    """

    #: Raises what ended a call of the function that ``direct_call`` returns: that only calls ``otherwise``.
    raise_interrupt = staticmethod(raise_pending)

    def __init__(
        self,
        name: str,
        function: Function,
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[Failure] = (),
        library: Any = None,
        *,
        lengths: Sequence[int] = (),
        general: Callable[[], Any] | None = None,
    ) -> None:
        """Load the machine code.

        Args:
            name: the function's name, for messages.
            function: the Relay function, for its types.
            artifact: an AOT artifact.
            compiled: returns the stages, compiling if it must.
            assertions: what the function's assertions raise, by number.
            library: the artifact's code where it is loaded already.
            lengths: the parameters that are integers and sizes of what is computed; the function's last
                parameters stand for these.
            general: builds the executable for any integers: sizes of machine code are not negative.

        """
        from nnmagic.engine.relax.runtime.direct_call import guard_launches

        self._name = name
        self._function = function
        self.artifact = artifact
        self.compiled = compiled
        #: What the function's assertions raise, by number.
        self.assertions = assertions
        facts = artifact.facts
        #: Whether kernels refuse to start threads in calls that CPython makes directly.
        self._guarded = library is None and bool(facts["parallel"]) and guard_launches(artifact.caller)
        library = load_objects(artifact.code) if library is None else library
        self._entry = NativeEntry(name, library, facts, artifact.constants, assertions)
        dims = self._entry.dims
        self._arrays = [_Array(array, len(dims)) for array in facts["parameters"]]
        self._results = [_Array(array, len(dims)) for array in facts["results"]]
        #: The results that the machine code leaves where they are: numbers, dtypes and ranks; and the number
        #: of the array that takes their addresses and sizes.
        self._left: Sequence[tuple[int, str, int]]
        self._addresses: int
        self._addresses, self._left = facts.get("left", (0, ()))
        self._set_parameters(function.params[: len(function.params) - len(lengths)])
        self._lengths, self._general = tuple(lengths), general
        self._built_general: Any = None
        self._result = function.result_type
        #: The result for the arguments of a call as they are; None where they need a look.
        self.fast_path: FastPath | None = None
        #: The arrays that the machine code does not read.
        self._unread = frozenset(facts.get("unread", ()))
        #: The results that are parameters, which the machine code changes in place, with these.
        self._in_place = {int(result): int(param) for result, param in facts.get("in place", ())}
        if not self._in_place and numpy_abi.address is id:
            self.fast_path = self._make_fast_path("None")

    def _set_parameters(self, params: Sequence[Var]) -> None:
        """Note the types and the names of the arrays that a call takes."""
        types = [(var, type_of(var)) for var in params]
        names = [list(flat_names(var.name_hint, type_)) for var, type_ in types]
        self._names = [name for each in names for name in each]
        #: The number of each parameter's first tensor.
        self._first_tensors = [0, *accumulate(map(len, names))]
        self._types = [type_ for _, type_ in types]
        self._flat = all(isinstance(type_, TensorType) for _, type_ in types)

    def __call__(self, arrays: Sequence[object]) -> Any:
        """Return the results for these arguments: an array, or (nested) tuples of arrays."""
        return self.call_into(arrays, (), [])

    def call_into(
        self, arrays: Sequence[object], destinations: Sequence[tuple[int, bool]], changed: list[int]
    ) -> Any:
        """Return the same; the last results are arguments where the machine code can write into these.

        It can if nothing else shares memory with the argument, which is contiguous and aligned.

        Args:
            arrays: the arguments.
            destinations: of the last results, the parameters that they are for, and whether the program
                reads these.
            changed: takes the parameters whose arrays are written, before the first element is.

        """
        values = arrays if self._flat else list(flatten(tuple(arrays)))
        inputs = [
            _readable(value, expected, name)
            for value, expected, name in zip(values, self._arrays, self._names, strict=True)
        ]
        if any(inputs[self._first_tensors[number]] < 0 for number in self._lengths):
            return self._run_general(arrays, destinations, changed)
        sizes = self._entry.sizes_of(inputs)
        for array, expected, name in zip(inputs, self._arrays, self._names, strict=True):
            shape = expected.shape_of(*sizes)
            if array.shape != shape:
                raise ValueError(f"{name} must be of shape {shape}, not {array.shape}")
        results: list[np.ndarray | None] = [None] * len(self._results)
        for number, (parameter, is_read) in enumerate(destinations, self._first_destination(destinations)):
            tensor = self._first_tensors[parameter]
            is_free = number in self._in_place or not is_read or tensor in self._unread
            if is_free and _is_alone(values, inputs, tensor):
                results[number] = inputs[tensor]
                changed.append(parameter)
        for number, tensor in self._in_place.items():
            if results[number] is None:
                inputs[tensor] = results[number] = np.array(inputs[tensor], order="C")
        return rebuild(self._result, iter(self._run(inputs, results)))

    def _first_destination(self, destinations: Sequence[tuple[int, bool]]) -> int:
        """Return the number of the first of the last results, which are for the caller's arrays."""
        return (self._addresses if self._left else len(self._results)) - len(destinations)

    def _run(self, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Run the machine code, with new arrays for the results that have none, and return the results."""
        sizes = self._entry.sizes_of(inputs)
        pairs = zip(results, self._results, strict=True)
        made = [kind.new(sizes, self._name) if result is None else result for result, kind in pairs]
        status = self._entry([*inputs, *made])
        if status is None:
            raise AssertionError("the machine code refuses arrays that were made for it")
        if self._left:
            del made[self._addresses]
        for (number, _, _), array in zip(self._left, status, strict=True):
            made.insert(number, array)
        return made

    def _run_general(
        self, arrays: Sequence[object], destinations: Sequence[tuple[int, bool]], changed: list[int]
    ) -> Any:
        """Call the executable for any lengths, which is built now if it is not there."""
        assert self._general is not None
        run = self._built_general = self._built_general or self._general()
        return run.call_into(arrays, destinations, changed)

    def with_result(self, type_: TensorType, compiled: CompiledProgram) -> AotExecutable:
        """Return the executable of another compilation, which has one more result."""
        return AotExecutable(
            self._name,
            with_result(self._function, type_),
            compiled.artifact,
            lambda: compiled,
            self.assertions,
            lengths=self._lengths,
            general=self._general,
        )

    def direct_call(self, otherwise: Callable[..., Any], *, scalars: bool) -> Callable[..., Any] | None:
        """Return a function that CPython calls directly, if the program has one.

        It calls ``otherwise`` with what it does not take. ``scalars``: whether it returns NumPy's scalars for
        results of rank 0, else arrays.
        """
        entry, facts = self._entry, self.artifact.facts
        if self.fast_path is None or not self.artifact.caller:
            return None
        fields = self._result.fields if isinstance(self._result, TupleType) else (self._result,)
        if not all(isinstance(field, TensorType) for field in fields):
            return None
        if not self._flat:
            return None
        if facts["parallel"] and not self._guarded:
            return None
        workspace = entry.small_workspace()
        if workspace is None:
            return None
        from nnmagic.engine.relax.runtime.direct_call import Signature, make_direct_call

        program = Signature(
            parameters=[(array.shape, array.dtype) for array in self._arrays],
            dims=entry.dims,
            results=[
                (result.shape, result.dtype) for result in self._results[: len(fields) - len(self._left)]
            ],
            left=[(number, NUMPY_DTYPES[dtype], rank) for number, dtype, rank in self._left],
            is_tuple=isinstance(self._result, TupleType),
            scalars=scalars,
            parallel=bool(facts["parallel"]),
            work=facts["work"],
        )
        held = workspace, entry.table
        run = entry.function, entry.release if self._left else None
        return make_direct_call(self.artifact.caller, program, run, held, otherwise)

    def loop_program(self, inputs: int) -> LoopProgram | None:
        """Return the program as the loop of a ufunc that machine code runs; None if it can be none.

        It can if it fills its other parameters, and needs no large workspace.
        """
        from nnmagic.engine.relax.runtime.ufunc import LoopProgram

        outputs = range(inputs, len(self._arrays))
        is_filled = self.path_into([(number, False) for number in outputs]) is not None
        workspace = self._entry.small_workspace()
        parallel = bool(self.artifact.facts["parallel"])
        is_safe = self._guarded or not parallel
        if not is_filled or not is_safe or len(self._results) != len(outputs) or workspace is None:
            return None
        return LoopProgram(self._entry.function, workspace, self._entry.table, parallel)

    def complete_path(self) -> FastPath:
        """Return a function of the arguments of a call that is fast for those that need no look."""
        if self.fast_path is None:
            return self
        return self._make_fast_path("slow_path(args)", slow_path=self)

    def path_into(self, destinations: Sequence[tuple[int, bool]]) -> FastPath | None:
        """Return a function of the arguments of a call that writes the last results into arguments.

        It returns a tuple of the other results, or None where the arguments need a look; ``destinations`` are
        those of ``call_into``. None where there is no such function, as results must be copied.
        """
        if self._left:
            return None
        first = self._first_destination(destinations)
        written = {number: param for number, (param, _) in enumerate(destinations, first)}
        in_place = all(
            not is_read or param in self._unread or self._in_place.get(number) == param
            for number, (param, is_read) in enumerate(destinations, first)
        )
        if not in_place or not self._flat or numpy_abi.address is not id:
            return None
        names = (f"r{number}" for number in range(len(self._results)))
        prefix = ""
        if first:
            assert isinstance(self._result, TupleType)
            prefix = f"{nested_source(self._result.fields[0], names)}, "
        more = {"ndarray": np.ndarray, "overlap": np.may_share_memory}
        return self._make_fast_path("None", written, f"({prefix})", **more)

    def _make_fast_path(
        self, otherwise: str, written: Mapping[int, int] | None = None, result: str = "", **more: Any
    ) -> FastPath:
        entry = self._entry
        names: dict[str, Any] = {
            "entry": entry.run,
            "array": np.array,
            "empty": np.empty,
            **{f"p{number}": array.dtype for number, array in enumerate(self._arrays)},
            "finish": entry.finish,
            "table": id(entry.table),
            "nothing": id(NOTHING),
            "raise_reason": entry.raise_reason,
            **{f"t{number}": result.dtype for number, result in enumerate(self._results)},
            **more,
        }
        if entry.least_workspace:
            names |= {"idle": entry.idle, "new_workspace": entry.borrow_workspace}
        shown = [f"r{number}" for number in range(len(self._results))]
        if self._left:
            del shown[self._addresses]
        for at, (number, _, _) in enumerate(self._left):
            shown.insert(number, f"left[{at}]")
        return make_fast_path(
            self._types,
            [(array.dtype.name, len(array.shape)) for array in self._arrays],
            entry.dims,
            [result.shape for result in self._results],
            names,
            result=result or nested_source(self._result, iter(shown)),
            otherwise=otherwise,
            written=written,
            leaves=bool(self._left),
        )


def with_result(function: Function, type_: TensorType) -> Function:
    """Return a function with one more result."""
    return replace(function, ret_type=TupleType((function.result_type, type_)))


def _is_alone(values: Sequence[object], inputs: Sequence[np.ndarray], number: int) -> bool:
    """Return whether an argument is given as it is, and no other one may share memory with it."""
    array = inputs[number]
    return array is values[number] and not any(
        np.may_share_memory(array, other) for index, other in enumerate(inputs) if index != number
    )


class _Array:
    """The dtype and the shape of a parameter or result.

    ``shape_of`` returns the shape for the dimensions of a call.
    """

    def __init__(self, facts: Json, dims: int) -> None:
        dtype, sizes = facts
        self.dtype = NUMPY_DTYPES[dtype]
        self.shape: Sequence[Json] = sizes
        self.shape_of = size_function(sizes, dims)

    def new(self, sizes: tuple[int, ...], function: str) -> np.ndarray:
        """Return an array for a result."""
        try:
            return np.empty(self.shape_of(*sizes), self.dtype)
        except ValueError as error:  # more elements than can be counted
            raise out_of_memory(function) from error


def _readable(value: Any, expected: _Array, name: str) -> np.ndarray:
    """Return an argument as an array that the machine code can read: itself if possible, else a copy."""
    dtype = expected.dtype
    array = argument_array(value, name, dtype)
    if array.ndim != len(expected.shape):
        raise ValueError(
            f"{name} must be an array of {len(expected.shape)} dimensions, not of shape {array.shape}"
        )
    if array.dtype is dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = np.empty(array.shape, dtype)
    copy[...] = array
    return copy
