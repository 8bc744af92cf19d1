"""Register the runtime callbacks of compiled programs: checks of shapes, indices and conditions.

A program holds the arguments of a check as text, so that it can be loaded in another process.
"""

from __future__ import annotations

import ctypes
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, repeat
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.diagnostics import last_line
from nnmagic.engine.failed_checks import FailedCheck, attach_check, refused_value
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.tensors import host_array
from nnmagic.engine.relax.runtime.thread_pool import is_stopping
from nnmagic.relay.failures import RAISE, Failure, exception_class
from nnmagic.relay.types import ARRAY_DTYPES, Type

if TYPE_CHECKING:
    from nnmagic.relay.expr import Attrs

#: The names under which TVM's machine asks.
SHAPES_FIT, INDEX_IN_RANGE = "nnmagic.shapes_fit", "nnmagic.index_in_range"
REQUIRED, ASSERTED = "nnmagic.required", "nnmagic.asserted"

#: Prints the arrays that it is given.
PRINT = "nnmagic.print"

#: Raises an exception with a message of arrays.
RAISE_EXCEPTION = "nnmagic.raise"

#: Asks nothing: TVM's fusion fails on sizes that nobody uses inside of a branch.
SIZES_NAMED = "nnmagic.sizes_named"

#: Returns a shape, whose sizes are to get names.
SHAPE_TO_NAME = "nnmagic.shape_to_name"

#: What native functions ask, which get 0 or a failure that is raised after their end.
SHAPES_FIT_NATIVE, POLL = "nnmagic.shapes_fit_native", "nnmagic.poll"


def encode_check(name: str, types: Sequence[Type], attrs: Attrs) -> str:
    """Encode a call of an operator as the text that ``SHAPES_FIT`` takes."""
    from nnmagic.relay.structure.serialization import types_to_data

    return json.dumps([name, types_to_data(types, attrs)], separators=(",", ":"))


#: The kind that says that an assertion failed; its number is the message.
_ASSERTED = "asserted"


class CheckError(RuntimeError):
    """A failed check on its way through TVM, which keeps an exception's kind and text: the text is JSON."""

    @classmethod
    def of(cls, kind: type[Exception], message: str, check: FailedCheck) -> CheckError:
        """Return the error that crosses TVM for an exception of a built-in kind."""
        return cls(json.dumps([kind.__name__, message, check.operator, check.axis_size]))

    def to_builtin(self, assertions: Sequence[Failure] = ()) -> BaseException:
        """Return the exception of the call, with its failed check attached.

        ``assertions`` are what the function's assertions raise, by number.
        """
        kind, message, operator, axis_size = json.loads(last_line(self))
        if kind == _ASSERTED:
            return assertions[int(message)].error()
        if operator == RAISE:
            take_pending()
            return attach_check(exception_class(kind)(message), FailedCheck(operator, number=axis_size))
        if kind == "IndexError":
            return attach_check(IndexError(message), FailedCheck(operator, axis_size))
        return refused_value(message, operator)


def _shapes_fit(text: str, fit: bool, *shapes: Sequence[int]) -> None:
    """Raise CheckError if operands of these shapes do not fit; ``fit``: whether they are known to."""
    if not fit:
        _fit(text, tuple(tuple(shape) for shape in shapes))


@lru_cache(maxsize=10_000)
def _fit(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    from nnmagic.engine.relax.analysis.shape_constraints import check, of_shapes

    name, types, attrs = _parse_call(text)
    items = iter(shapes)
    try:
        check(name, [of_shapes(type_, items) for type_ in types], attrs)
    except ValueError as error:
        raise CheckError.of(ValueError, str(error), FailedCheck(name)) from None


@lru_cache(maxsize=1000)
def _parse_call(text: str) -> tuple[str, Sequence[Type], Attrs]:
    from nnmagic.relay.structure.serialization import types_from_data

    name, data = json.loads(text)
    return (name, *types_from_data(data))


def _index_in_range(report: Any, size: Any) -> None:
    """Raise CheckError for an index out of range: a single one, or ``report[1]`` if ``report[0]`` is set."""
    (length,) = size
    values = host_array(report)
    wrong, index = values.tolist() if values.ndim else (not 0 <= values.item() < length, values.item())
    if wrong:
        raise CheckError.of(IndexError, index_message(index, length), FailedCheck("take", length))


def index_message(index: int, length: int) -> str:
    """Return the message for an index out of range; negative ones were counted from the end."""
    shown = index if index >= 0 else index - length
    return f"index {shown} is out of range for an axis of size {length}"


def _check_assertion(condition: Any, number: int) -> None:
    """Raise CheckError unless an assertion, the one of this number, holds."""
    if not host_array(condition).item():
        raise CheckError(json.dumps([_ASSERTED, str(number), "", None]))


class _Pending(threading.local):
    """What ended a native function of this thread, to be raised when it has returned."""

    error: BaseException | None = None


_pending = _Pending()


def take_pending() -> BaseException | None:
    """Return what ended this thread's native function, once."""
    error, _pending.error = _pending.error, None
    return error


def raise_pending() -> None:
    """Raise what ended this thread's native function, if it was ended and nobody has been told.

    A failed check is none: the call that is made in its place tells it.
    """
    if (error := take_pending()) is not None and not isinstance(error, CheckError):
        raise error


def keep_pending(
    entry: Callable[..., int], run_elsewhere: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., int]:
    """Return a function that runs ``entry`` on another thread; what ended it is then pending on this one.

    ``run_elsewhere`` makes of a function one that runs it on another thread.
    """

    def run(*args: Any) -> tuple[int, BaseException | None]:
        prepare_thread()
        return entry(*args), take_pending()

    run_there = run_elsewhere(run)

    def call(*args: Any) -> int:
        code, _pending.error = run_there(*args)
        return int(code)

    return call


def _shapes_fit_native(text: str, count: int, *sizes: int) -> int:
    """Return 0 if operands of these shapes fit.

    The sizes are ``count`` ranks, then the dimensions of each operand.
    """
    ranks, dims = sizes[:count], iter(sizes[count:])
    shapes = tuple(tuple(next(dims) for _ in range(rank)) for rank in ranks)
    try:
        _fit(text, shapes)
    except CheckError as error:
        _pending.error = error
        return 1
    return 0


def _answers() -> Iterator[int]:
    """Yield 0 for each poll, 1 if the program is to stop."""
    answer = 0
    while True:
        try:
            yield answer  # Python handles signals where a generator goes on: inside of this block
            answer = int(is_stopping())
        except GeneratorExit:  # noqa: PERF203 - this is no work per item
            return
        except BaseException as error:  # noqa: BLE001 - raised when the native function has returned
            _pending.error = error
            answer = 1


class _Pollers(threading.local):
    """The answers of a thread; those of one that is not prepared are all 0."""

    answers: Iterator[int] = repeat(0)


_pollers = _Pollers()

#: Returns the next answer of this thread. A Python function would be left by the exception of a signal before
#: its first line, so this is a chain of functions in C down to the generator.
_poll = map(methodcaller("__next__"), map(attrgetter("answers"), repeat(_pollers))).__next__


def prepare_thread() -> None:
    """Have polls of this thread answer that a program is to stop; done where an exception may be raised."""
    if "answers" not in vars(_pollers):
        answers = _answers()
        next(answers)  # to the inside of its block
        _pollers.answers = answers


def _require(condition: Any, message: str, operator: str | None = None) -> None:
    """Raise an error unless a condition, a truth value or a tensor of one, of an operator holds."""
    holds = condition if isinstance(condition, bool | int) else host_array(condition).item()
    if holds:
        return
    if operator is None:  # the program's own limit
        raise ValueError(message)
    raise CheckError.of(ValueError, message, FailedCheck(operator))


def _print(layout: str, described: str, *numbers: int) -> None:
    """Print arrays, which are given by their dtypes and ranks, as JSON, and by their addresses and sizes.

    What is raised meanwhile, as by the handler of a signal, is pending.
    """
    try:
        _print_arrays(layout, described, *numbers)
    except BaseException as error:
        _pending.error = error
        raise


def _raise(layout: str, described: str, kind: str, number: int, *numbers: int) -> None:
    """Raise CheckError for an exception whose message is made of arrays, which are given as to ``_print``."""
    from nnmagic.relay.reference.printing import text_of

    try:
        text = json.dumps([kind, text_of(layout, _arrays(described, numbers)), RAISE, number])
    except BaseException as error:
        _pending.error = error
        raise
    _pending.error = CheckError(text)
    raise _pending.error


def _print_arrays(layout: str, described: str, *numbers: int) -> None:
    from nnmagic.relay.reference.printing import print_values

    print_values(layout, _arrays(described, numbers))


def _arrays(described: str, numbers: Sequence[int]) -> list[np.ndarray]:
    """Return copies of the arrays that kernels give by their addresses and sizes."""
    rest, arrays = iter(numbers), list[np.ndarray]()
    for name, rank in json.loads(described):
        address, shape = int(getattr(next(rest), "value", 0) or 0), tuple(islice(rest, rank))
        dtype = ARRAY_DTYPES[name]
        content = ctypes.string_at(address, math.prod(shape) * dtype.itemsize)
        arrays.append(np.frombuffer(content, dtype).reshape(shape))
    return arrays


tvm_ffi.register_error("nnmagic.CheckError", CheckError)
tvm_ffi.register_error(KeyboardInterrupt.__name__, KeyboardInterrupt)  # a function of Python was interrupted
tvm_ffi.register_global_func(SHAPES_FIT, _shapes_fit, override=True)
tvm_ffi.register_global_func(INDEX_IN_RANGE, _index_in_range, override=True)
tvm_ffi.register_global_func(REQUIRED, _require, override=True)
tvm_ffi.register_global_func(ASSERTED, _check_assertion, override=True)
tvm_ffi.register_global_func(PRINT, _print, override=True)
tvm_ffi.register_global_func(RAISE_EXCEPTION, _raise, override=True)
tvm_ffi.register_global_func(SIZES_NAMED, lambda _: None, override=True)
tvm_ffi.register_global_func(SHAPE_TO_NAME, lambda shape: shape, override=True)
tvm_ffi.register_global_func(SHAPES_FIT_NATIVE, _shapes_fit_native, override=True)
tvm_ffi.register_global_func(POLL, _poll, override=True)
