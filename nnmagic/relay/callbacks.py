"""Call Python functions from Relay: the operator ``python.callback``, and what runs its calls.

Relay's text has the name of a function of Python alone; a module holds the function itself, as the attribute
``function``.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from nnmagic.diagnostics import Span, append_location, kind_of
from nnmagic.relay.expr import Call, Expr, Function, operator_of
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.relay.sizes import Sizes, with_sizes
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, dtype_of_array, is_float

#: The operator.
CALLBACK = "python.callback"

#: Where an error of a callback keeps the frames to show: the cell's, and those of Python's function.
_FRAMES = "nnmagic_callback_frames"


@dataclass(frozen=True, slots=True, eq=False)
class PythonFunction:
    """A function of Python as the value of an attribute: equal only to the same function."""

    function: Callable[..., Any]
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonFunction) and other.function == self.function

    def __hash__(self) -> int:
        return hash((PythonFunction, id(self.function)))


def name_of(function: object) -> str:
    """Return the name of a function of Python, or of its class."""
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def is_callback(node: Expr) -> bool:
    """Return whether an expression calls a function of Python."""
    return operator_of(node) == CALLBACK


def has_effects(node: Expr) -> bool:
    """Return whether an expression calls a function of Python that is declared to have effects."""
    return isinstance(node, Call) and is_callback(node) and bool(node.attrs["effects"])


def callbacks_in(function: Function) -> list[Call]:
    """Return the calls of functions of Python in a function, each once."""
    return [node for node in post_order(function) if isinstance(node, Call) and is_callback(node)]


class Callback:
    """One call of a function of Python in a program: takes arrays, and checks what the function returns.

    Raises what the function raises, with the line of the cell in its traceback; TypeError or ValueError for a
    result of another type than declared.
    """

    def __init__(self, call: Call) -> None:
        """Prepare a call that holds its function. Raises TypeError for one that has the name alone."""
        function = call.attrs["function"]
        if not isinstance(function, PythonFunction):
            raise TypeError(f"the module has the name of the Python function `{function}` alone")
        self._function = function
        self._span = call.span
        shapes, dtypes = call.attrs["shapes"], call.attrs["dtypes"]
        assert isinstance(shapes, tuple)
        assert isinstance(dtypes, tuple)
        self._types = [TensorType(*each) for each in zip(shapes, dtypes, strict=True)]
        self._enter = _frame_of_cell(call.span)

    def __call__(self, arguments: Sequence[np.ndarray], sizes: Sizes) -> Any:
        """Return the result: an array, or a tuple of arrays if their number is not one."""
        values = [_read_only(argument) for argument in arguments]
        try:
            result = self._enter(self._function.function, values)
        except BaseException as error:
            _keep_frames(error, _next(error.__traceback__))
            raise
        try:
            return self._check(result, sizes)
        except (TypeError, ValueError) as error:
            _keep_frames(error, None)
            raise

    def _check(self, result: Any, sizes: Sizes) -> Any:
        types, name = self._types, self._function.name
        if len(types) == 1:
            return self._array(result, types[0], f"the callback `{name}` returned", sizes)
        if not types:
            if result is not None:
                message = (
                    f"the callback `{name}` returned {kind_of(result)}, and is declared without a result"
                )
                raise TypeError(append_location(message, self._span))
            return ()
        if not isinstance(result, tuple) or len(result) != len(types):
            given = f"a tuple of {len(result)}" if isinstance(result, tuple) else kind_of(result)
            message = f"the callback `{name}` returned {given}, and is declared with {len(types)} results"
            raise TypeError(append_location(message, self._span))
        return tuple(
            self._array(part, type_, f"the callback `{name}` returned as result {index}", sizes)
            for index, (part, type_) in enumerate(zip(result, types, strict=True))
        )

    def _array(self, value: Any, type_: TensorType, said: str, sizes: Sizes) -> np.ndarray:
        """Return one result as an array of the program's own. Raises TypeError or ValueError."""
        declared = f"{said} {{}}, and is declared as {format_type(type_)}"
        if isinstance(value, bool | int | float) and not isinstance(value, np.generic) and not type_.shape:
            return self._number(value, type_, declared)
        known = hasattr(value, "__array__") or isinstance(value, np.ndarray | np.generic)
        array = np.asarray(value) if known else None
        if array is None or dtype_of_array(array) != type_.dtype:
            description = kind_of(value) if array is None else f"an array of {array.dtype}"
            message = declared.format(description)
            raise TypeError(append_location(message + f"; return an array of {type_.dtype}", self._span))
        wanted = with_sizes(type_.shape, sizes)
        fits = len(wanted) == array.ndim and all(
            not isinstance(size, int) or size == description
            for size, description in zip(wanted, array.shape, strict=True)
        )
        if not fits:
            message = declared.format(f"an array of the shape {array.shape}")
            sizes_used = zip(map(format_dim, type_.shape), wanted, strict=True)
            named = [f", with {name} = {size}" for name, size in sizes_used if name != str(size)]
            message += "".join(dict.fromkeys(named))
            raise ValueError(append_location(message, self._span))
        return np.array(array, ARRAY_DTYPES[type_.dtype], order="C")

    def _number(self, value: bool | float, type_: TensorType, declared: str) -> np.ndarray:
        """Return a number of Python as the array that it is declared to be."""
        dtype = ARRAY_DTYPES[type_.dtype]
        if isinstance(value, bool) or type_.dtype == "bool":
            fits = isinstance(value, bool) and type_.dtype == "bool"
        elif is_float(type_.dtype):
            with np.errstate(over="ignore"):
                fits = not math.isfinite(value) or bool(
                    np.isfinite(np.array(value, np.float64).astype(dtype))
                )
        else:
            limits = np.iinfo(type_.dtype)
            fits = isinstance(value, int) and limits.min <= value <= limits.max
        if not fits:
            raise TypeError(
                append_location(declared.format(f"the {type(value).__name__} {value}"), self._span)
            )
        array: np.ndarray = np.array(value, dtype)
        return array


def _read_only(argument: np.ndarray) -> np.ndarray | np.generic:
    """Return a view that the function cannot write to: the program may still need the array.

    An array of rank 0 is a NumPy scalar, as NumPy's own functions give it.
    """
    if not argument.ndim:
        number: np.generic = argument.dtype.type(argument)
        return number
    view: np.ndarray = argument.view()
    view.flags.writeable = False
    return view


# -- tracebacks ----------------------------------------------------------------------------------------


def _frame_of_cell(span: Span | None) -> Callable[[Callable[..., Any], Sequence[Any]], Any]:
    """Return a function that calls a function of Python; in a traceback it stands at a line of the cell."""
    tree = ast.parse("def callback(function, values): return function(*values)")
    if span is not None:
        places = {"lineno": span.line, "col_offset": span.column - 1}
        places |= {"end_lineno": span.end_line, "end_col_offset": span.end_column - 1}
        for node in ast.walk(tree):
            vars(node).update({name: place for name, place in places.items() if hasattr(node, name)})
    names: dict[str, Any] = {}
    exec(compile(tree, "<Relay>" if span is None else _filename(span), "exec"), names)  # noqa: S102 - our own text
    enter: Callable[[Callable[..., Any], Sequence[Any]], Any] = names["callback"]
    return enter


def _filename(span: Span) -> str:
    """Return the name by which Python finds a span's source; a text that is no file gets one of its own."""
    shown = str(span).rsplit(":", 2)[0]
    if span.source is None or (shown == span.filename and not shown.startswith("<")):
        return shown
    text = "\n" * (span.source.first_line - 1) + span.source.text
    filename = f"<{shown.strip('<>')} {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return filename


def _next(frames: TracebackType | None) -> TracebackType | None:
    return None if frames is None else frames.tb_next


def _keep_frames(error: BaseException, frames: TracebackType | None) -> None:
    error.__dict__[_FRAMES] = (frames,)


def take_frames(error: BaseException) -> tuple[TracebackType | None] | None:
    """Return the frames to show of an error that a callback raised, once; None of any other error."""
    frames: tuple[TracebackType | None] | None = error.__dict__.pop(_FRAMES, None)
    return frames
