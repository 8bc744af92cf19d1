"""Call compiled functions from Python: check the arguments, run the machine code, place the results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.engine.arguments import convert_argument
from nnmagic.engine.foreign_arrays import note_change
from nnmagic.functions.arguments import destinations
from nnmagic.functions.arguments.calls import CallAdapter, store
from nnmagic.functions.arguments.generators import lock, take_generators
from nnmagic.functions.arguments.scalars import Conversion, to_scalars
from nnmagic.relay.generators import set_state, state_of
from nnmagic.tracebacks import OthersFrames, hide_frames, show_frames_of

if TYPE_CHECKING:
    from nnmagic.engine.executable import Executable
    from nnmagic.functions.arguments.records import RecordCalls
    from nnmagic.functions.caching.compile_options import Convert
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.definition import Definition
    from nnmagic.relay.module import Module

#: What a run raises that is no fault of nnmagic's: shown without its frames.
_SHOWN = (Exception, KeyboardInterrupt)


class Caller:
    """What runs when a compiled function is called with arguments of any kind.

    ``direct`` is what CPython calls instead: machine code that takes the usual arguments, and calls a copy of
    this object with all others. It is None where there is none, as before the function is built.
    """

    __slots__ = (
        "__weakref__",
        "call",
        "definition",
        "direct",
        "fast_path",
        "make_direct",
        "of_states",
        "owner",
        "path_into",
        "raise_interrupt",
        "records",
        "run",
        "takes_states",
        "to_scalars",
    )

    def __init__(self, definition: Definition, records: RecordCalls | None) -> None:
        self.definition = definition
        self.call: CallAdapter = definition.call
        self.records = records
        result, arrays = self.call.result, definition.options.zero_d_arrays
        #: Makes scalars of the arrays of rank 0 in a result; None where arrays stay, or there are none.
        self.to_scalars: Conversion | None = None if result is None or arrays else to_scalars(result)
        #: Raises what ended a call that CPython made directly, and that is made again; None elsewhere.
        self.raise_interrupt: Callable[[], None] | None = None
        #: The function, which holds this object.
        self.owner: weakref.ref[CompiledFunction] | None = None
        #: What takes the states of generators in place of these; and whether this object does.
        self.of_states: Caller | None = None
        self.takes_states = False
        self.use(definition.built_executable)

    def use(self, run: Executable | None) -> None:
        """Take the machine code; None before it is built."""
        self.run = run
        self.fast_path = _fast_path_of(self.call, run)
        self.path_into = _path_into(self.call, run)
        self.direct: Callable[..., Any] | None = None
        is_usual = self.fast_path is not None and self.records is None and self.call.arity is not None
        self.make_direct = getattr(run, "direct_call", None) if is_usual else None

    def _otherwise(self) -> Callable[..., Any]:
        """Return a caller that ``direct`` may hold: one that does not hold ``direct``."""
        # A cycle through machine code is invisible to Python's garbage collector: the function
        # would never be freed.
        other = Caller.__new__(Caller)
        for name in ("definition", "call", "records", "owner", "run", "fast_path", "path_into", "to_scalars"):
            setattr(other, name, getattr(self, name))
        other.of_states, other.takes_states = None, False
        other.direct = other.make_direct = None
        other.raise_interrupt = getattr(self.run, "raise_interrupt", None)
        return other

    def _set_direct(self, make_direct: Callable[..., Any]) -> None:
        """Let the function use machine code that CPython calls, from the next call on."""
        self.make_direct = None
        self.direct = make_direct(self._otherwise(), scalars=self.to_scalars is not None)
        self._set_in_owner()

    def _set_in_owner(self) -> None:
        owner = None if self.owner is None else self.owner()
        if owner is not None:
            owner._set_caller(self)

    def build(self) -> Executable:
        """Build the machine code, and let the function use it. Raises EngineError."""
        run = self.definition.executable
        self.use(run)
        self._set_in_owner()
        return run

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Run the function; see ``CompiledFunction``."""
        if self.records is not None:
            with OthersFrames():
                return self.records(args, kwargs, out)
        if self.make_direct is not None:
            self._set_direct(self.make_direct)
        if kwargs or len(args) != self.call.arity or out is not None:
            try:
                args, out = self._bind_arguments(args, kwargs, out)
            except TypeError as error:
                hide_frames(error)
                raise
        if self.call.generators and not self.takes_states:
            with OthersFrames():
                return self._with_states(args, out)
        if self.fast_path is not None:
            try:
                if self.raise_interrupt is not None:
                    self.raise_interrupt()
                result = self.fast_path(args)
                # The fast path takes arrays in C order alone: others are copied for it. All else
                # goes on to the path with messages.
                if result is None and (contiguous := _contiguous(args)) is not None:
                    result = self.fast_path(contiguous)
            except BaseException as error:
                _present(error, self.definition.module)
                raise
            if result is not None and out is None:
                return self._given(result)
            if result is not None:
                with OthersFrames():
                    return self._store(result, out)
        if self.path_into is not None and out is None:
            try:
                results = self.path_into(args)
            except BaseException as error:
                self._say_where(error, self.call.destinations)
                raise
            if results is not None:
                return self._given(results[0]) if results else None
        try:
            values = self._check(args, how=self.definition.options.convert)
        except (TypeError, ValueError) as error:
            self._present_refusal(error, args)
            raise
        run = self.run or self.build()
        if self.call.destinations:
            with OthersFrames():
                result = self._run_into(run, values, args)
        else:
            try:
                result = run(values)
            except BaseException as error:
                _present(error, self.definition.module)
                raise
        if out is None:
            return self._given(result)
        with OthersFrames():
            return self._store(result, out)

    def _given(self, result: Any) -> Any:
        """Return a result as the caller gets it."""
        return result if self.to_scalars is None else self.to_scalars(result)

    def _with_states(self, args: tuple[Any, ...], out: Any) -> Any:
        """Call the function with the states of generators, which have new ones if the call succeeds."""
        if self.of_states is None:
            self.of_states = Caller(self.definition, None)
            self.of_states.call = replace(self.call, arity=len(self.call.parameters))
            self.of_states.takes_states, self.of_states.to_scalars = True, None
        numbers = self.call.generators
        generators = take_generators([(self.call.parameters[number], args[number]) for number in numbers])
        # Locked from the reading of the states to their writing: two threads would otherwise draw
        # the same numbers.
        with lock(generators):
            states = dict(zip(numbers, map(state_of, generators), strict=True))
            result = self.of_states(*(states.get(number, value) for number, value in enumerate(args)))
            for number, generator in zip(numbers, generators, strict=True):
                set_state(generator, states[number])
        return self._given(result) if out is None else self._store(result, out)

    def _present_refusal(self, error: Exception, args: tuple[Any, ...]) -> None:
        """Prepare an error of an argument for the caller; a bare ``raise`` must follow."""
        if isinstance(error, TypeError) and self._would_convert(args):
            error.args = (f"{error}, or in every call: %%tinynn --convert, in a file convert=True",)
        hide_frames(error)

    def _store(self, result: Any, out: Any) -> Any:
        """Write the result into ``out``, and return that."""
        try:
            return store(result, out, f"{self.definition.name}() argument 'out'")
        except (TypeError, ValueError) as error:
            hide_frames(error)
            raise

    def _would_convert(self, args: tuple[Any, ...]) -> bool:
        """Return whether calls of a cell's function would take arguments if they converted without loss."""
        is_bound = len(args) == self.call.arity
        if self.definition.options.convert or self.definition.language != "tinynn" or not is_bound:
            return False
        try:
            self._check(args, how=True)
        except (TypeError, ValueError):
            return False
        return True

    def _check(self, args: Sequence[Any], *, how: Convert) -> list[Any]:
        """Return the arguments as arrays of the parameters' types. Raises TypeError or ValueError."""
        parameters, values = self.call.parameters, list(args)
        for number in self.call.destinations:
            values[number] = destinations.destination(parameters[number], args[number])
        changed = [(parameters[number], values[number]) for number in self.call.destinations]
        if how:
            from nnmagic.functions.arguments.conversions import convert_to_dtypes

            for number, parameter in enumerate(parameters):
                if number not in self.call.destinations:
                    values[number] = convert_to_dtypes(parameter, values[number], how)
        dims: dict[str, int] = {}
        pairs = zip(parameters, values, strict=True)
        values = [convert_argument(parameter, value, dims) for parameter, value in pairs]
        destinations.check_overlap(changed)
        return values

    def _run_into(self, run: Executable, values: list[Any], given: Sequence[Any]) -> Any:
        """Run the function and write into the arrays that it changes; errors say which may have changed.

        ``given``: the arguments, as the caller has them.
        """
        call, changed = self.call, list[int]()
        arrays = [values[number] for number in call.destinations]
        call_into = getattr(run, "call_into", None)
        try:
            results = (
                run(values) if call_into is None else call_into(values, call.destinations_read(), changed)
            )
            return destinations.write_destinations(results, arrays, changed, call.destinations)
        except BaseException as error:
            self._say_where(error, changed)
            raise
        # Whoever caches by the content of an array must learn that it has changed, also after an
        # error.
        finally:
            for number in call.destinations:
                note_change(given[number])

    def _say_where(self, error: BaseException, changed: Sequence[int]) -> None:
        """Say in an error of a run where it was raised, and which arguments it may have changed."""
        names = list(self.call.signature.parameters)
        # States are written back after a call that succeeds, and not before.
        if self.call.destinations == self.call.generators:  # they are as they were
            _present(error, self.definition.module)
            return
        shown = [names[number] for number in changed if number not in self.call.generators]
        _present(error, self.definition.module, shown)

    def _bind_arguments(
        self, args: tuple[Any, ...], keywords: dict[str, Any], out: Any
    ) -> tuple[tuple[Any, ...], Any]:
        """Return the arguments in order, and ``out`` if it is not a parameter of the function."""
        if out is not None and not self.call.takes_out:
            return self.call.bind(args, {**keywords, "out": out}), None
        return self.call.bind(args, keywords), out


def _contiguous(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the arguments with copies of the arrays whose elements are not in order; None if all are."""
    is_other = [type(value) is np.ndarray and not value.flags.c_contiguous for value in args]
    if not any(is_other):
        return None
    pairs = zip(args, is_other, strict=True)
    return tuple(np.ascontiguousarray(value) if other else value for value, other in pairs)


def _present(error: BaseException, module: Module, changed: Sequence[str] | None = None) -> None:
    """Prepare an error of a run for its caller, who gets it next by a bare ``raise``.

    One that a function of Python raised keeps the frames of that function; others say where they arose.
    """
    from nnmagic.functions.inspection.error_locations import add_location
    from nnmagic.relay.callbacks import take_frames

    frames = take_frames(error)
    if frames is not None:
        show_frames_of(error, *frames)
    elif isinstance(error, _SHOWN):
        add_location(error, module)
        if changed is not None:
            destinations.note_changed_arrays(error, changed)
        hide_frames(error, cause=True)  # the cause is TVM's


def _fast_path_of(call: CallAdapter, run: Executable | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the function that calls the machine code with arguments that need no look, if there is one."""
    return None if call.destinations else getattr(run, "fast_path", None)


def _path_into(call: CallAdapter, run: Executable | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the same of a function that changes arguments: it gives a tuple of what it returns."""
    make_path = getattr(run, "path_into", None)
    return make_path(call.destinations_read()) if make_path is not None and call.destinations else None
