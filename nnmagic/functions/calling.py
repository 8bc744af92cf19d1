"""Call compiled functions from Python: check the arguments, run the machine code, place the results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.engine.arguments import convert_argument
from nnmagic.engine.executable import Executable
from nnmagic.functions.calls import CallAdapter, store
from nnmagic.functions.destinations import check_destination, check_overlap, say_changed, write_destinations
from nnmagic.functions.error_locations import add_location
from nnmagic.relay.callbacks import take_frames
from nnmagic.relay.module import Module
from nnmagic.tracebacks import hide_frames, show_frames_of

if TYPE_CHECKING:
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.definition import Definition
    from nnmagic.functions.records import RecordCalls

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
        "owner",
        "path_into",
        "raise_interrupt",
        "records",
        "run",
    )

    def __init__(self, definition: Definition, records: RecordCalls | None) -> None:
        self.definition = definition
        self.call: CallAdapter = definition.call
        self.records = records
        #: Raises what ended a call that CPython made directly, and that is made again; None elsewhere.
        self.raise_interrupt: Callable[[], None] | None = None
        #: The function, which holds this object.
        self.owner: weakref.ref[CompiledFunction] | None = None
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
        other = Caller.__new__(Caller)
        for name in ("definition", "call", "records", "owner", "run", "fast_path", "path_into"):
            setattr(other, name, getattr(self, name))
        other.direct = other.make_direct = None
        other.raise_interrupt = getattr(self.run, "raise_interrupt", None)
        return other

    def _set_direct(self, make_direct: Callable[[Callable[..., Any]], Any]) -> None:
        """Let the function use machine code that CPython calls, from the next call on."""
        self.make_direct = None
        self.direct = make_direct(self._otherwise())
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
            return self.records(args, kwargs, out)
        if self.make_direct is not None:
            self._set_direct(self.make_direct)
        if kwargs or len(args) != self.call.arity or out is not None:
            try:
                args, out = self._bind_arguments(args, kwargs, out)
            except TypeError as error:
                hide_frames(error)
                raise
        if self.fast_path is not None:
            try:
                if self.raise_interrupt is not None:
                    self.raise_interrupt()
                result = self.fast_path(args)
                if result is None and (contiguous := _contiguous(args)) is not None:
                    result = self.fast_path(contiguous)
            except BaseException as error:
                _present(error, self.definition.module)
                raise
            if result is not None:
                return result if out is None else self._store(result, out)
        if self.path_into is not None and out is None:
            try:
                own = self.path_into(args)
            except BaseException as error:
                self._say_where(error, self.call.destinations)
                raise
            if own is not None:
                return own[0] if own else None
        try:
            changed = [(self.call.parameters[number], args[number]) for number in self.call.destinations]
            for parameter, array in changed:
                check_destination(parameter, array)
            if self.definition.options.convert:
                args = self._convert_losslessly(args)
            dims: dict[str, int] = {}
            values = [
                convert_argument(parameter, value, dims)
                for parameter, value in zip(self.call.parameters, args, strict=True)
            ]
            check_overlap(changed)
        except (TypeError, ValueError) as error:
            if isinstance(error, TypeError) and self._would_convert(args):
                error.args = (f"{error}, or in every call: %%tinynn --convert, in a file convert=True",)
            hide_frames(error)
            raise
        run = self.run or self.build()
        if self.call.destinations:
            result = self._run_into(run, values)
        else:
            try:
                result = run(values)
            except BaseException as error:
                _present(error, self.definition.module)
                raise
        return result if out is None else self._store(result, out)

    def _store(self, result: Any, out: Any) -> Any:
        """Write the result into ``out``, and return that."""
        try:
            return store(result, out, f"{self.definition.name}() argument 'out'")
        except (TypeError, ValueError) as error:
            hide_frames(error)
            raise

    def _would_convert(self, args: Sequence[Any]) -> bool:
        """Return whether calls of a cell's function would take arguments if they converted without loss."""
        is_bound = len(args) == self.call.arity
        if self.definition.options.convert or self.definition.language != "tinynn" or not is_bound:
            return False
        dims: dict[str, int] = {}
        try:
            for parameter, value in zip(self.call.parameters, self._convert_losslessly(args), strict=True):
                convert_argument(parameter, value, dims)
        except (TypeError, ValueError):
            return False
        return True

    def _convert_losslessly(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments in the dtypes of the parameters, where that loses nothing."""
        from nnmagic.functions.lossless import convert_losslessly

        kept = self.call.destinations
        return tuple(
            value if number in kept else convert_losslessly(parameter, value)
            for number, (parameter, value) in enumerate(zip(self.call.parameters, args, strict=True))
        )

    def _run_into(self, run: Executable, values: list[Any]) -> Any:
        """Run the function and write into the arrays that it changes; errors say which may have changed."""
        call, changed = self.call, list[int]()
        arrays = [values[number] for number in call.destinations]
        call_into = getattr(run, "call_into", None)
        try:
            results = (
                run(values) if call_into is None else call_into(values, call.destinations_read(), changed)
            )
            return write_destinations(results, arrays, changed, call.destinations)
        except BaseException as error:
            self._say_where(error, changed)
            raise

    def _say_where(self, error: BaseException, changed: Sequence[int]) -> None:
        """Say in an error of a run where it was raised, and which arguments it may have changed."""
        names = list(self.call.signature.parameters)
        _present(error, self.definition.module, [names[number] for number in changed])

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
    frames = take_frames(error)
    if frames is not None:
        show_frames_of(error, *frames)
    elif isinstance(error, _SHOWN):
        add_location(error, module)
        if changed is not None:
            say_changed(error, changed)
        hide_frames(error, cause=True)  # the cause is TVM's


def _fast_path_of(call: CallAdapter, run: Executable | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the function that calls the machine code with arguments that need no look, if there is one."""
    return None if call.destinations else getattr(run, "fast_path", None)


def _path_into(call: CallAdapter, run: Executable | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the same of a function that changes arguments: it gives a tuple of what it returns."""
    make_path = getattr(run, "path_into", None)
    return make_path(call.destinations_read()) if make_path is not None and call.destinations else None
