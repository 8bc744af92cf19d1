"""Step through a call: the type, range, NaN and Inf count of each value, with its line in the source."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnmagic.diagnostics import Span, kind_of
from nnmagic.engine.arguments import convert_argument
from nnmagic.engine.numpy import Interpreter
from nnmagic.functions.arguments.complex_arrays import ComplexExecutable
from nnmagic.functions.arguments.generators import with_states
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.expr import Call, Constant, Constructor, Expr, OpRef
from nnmagic.relay.module import Module
from nnmagic.rendering.output import Section
from nnmagic.rendering.shape_values import shape_values
from nnmagic.tracebacks import short_errors

#: A run of more values, such as that of a long loop, keeps the first ones, and the first that has a NaN.
MAX_STEPS = 10_000
#: How much of a line of the source a row has.
_LINE = 60


@dataclass(frozen=True, slots=True)
class Step:
    """One value of a run.

    Attributes:
        number: its place in the order of computation, from 1.
        operation: the operator or ``argument %x``.
        dtype: its element type.
        shape: its shape.
        low: the least of its elements that are numbers; None if there is none.
        high: the greatest.
        nans: how many elements are NaN.
        infs: how many are infinite.
        span: where in the source it is computed.
        line: the text of the line there.

    """

    number: int
    operation: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    nans: int
    infs: int
    span: Span | None
    line: str

    @property
    def range(self) -> str:
        """The range as text."""
        if self.low is None:
            return "-"
        return f"{self.low:.4g}" if self.low == self.high else f"{self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True, slots=True)
class Steps(Sequence[Step]):
    """The values of a call in the order of computation.

    Attributes:
        name: of the function.
        steps: the first ``MAX_STEPS`` of them, and the one where the first NaN came up.
        total: how many there were.
        shapes: how many more were numbers of shapes alone, which are not shown.
        result: the result of the function in Relay; None if it raised an error.
        error: the error that ended the run.

    """

    name: str
    steps: tuple[Step, ...]
    total: int
    result: Any
    error: Exception | None
    shapes: int = 0

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        return self.steps[index]

    @property
    def first_nan(self) -> Step | None:
        """The first value with a NaN: an argument that has one, or the operator that made it."""
        return next((step for step in self.steps if step.nans), None)

    def __str__(self) -> str:
        return self.section().text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from nnmagic.rendering.output import Output

        return Output((self.section(),)).bundle()

    def section(self) -> Section:
        """Return the run as a table."""
        from nnmagic.rendering.output import table

        header = ("#", "value", "type", "range", "NaN", "Inf", "line")
        rows = [
            (
                str(step.number),
                step.operation,
                f"{step.dtype}{list(step.shape)}",
                step.range,
                str(step.nans or "-"),
                str(step.infs or "-"),
                f"{step.span.line}: {textwrap.shorten(step.line, _LINE, placeholder=' …')}"
                if step.span
                else "-",
            )
            for step in self.steps
        ]
        some = [i for i in range(7) if header[i] not in ("NaN", "Inf") or any(row[i] != "-" for row in rows)]
        shown_rows = [tuple(row[column] for column in some) for row in (header, *rows)]
        return table("step", shown_rows[1:], shown_rows[0], self._note(), code=len(some) - 1)

    def _note(self) -> str:
        left_out = self.total - len(self.steps)
        of_shapes = f", + {self.shapes} values of shapes" if self.shapes else ""
        told = f", {left_out} not shown" if left_out else ""
        notes = [f"{self.name}: {self.total} values{told}{of_shapes}"]
        first = self.first_nan
        if first is None:
            finite = not left_out and not any(step.infs for step in self.steps)
            notes.append(f"no value has a NaN{' or an Inf' if finite else ''}")
        else:
            where = f", line {first.span.line}" if first.span else ""
            given = first.operation == "constant" or first.operation.startswith("argument")
            made = "" if given else ", whose operands have none"
            notes.append(f"the first NaN is in value {first.number}: {first.operation}{where}{made}")
        if self.error is not None:
            notes.append(f"the run ended with {type(self.error).__name__}: {self.error}")
        return "\n".join(notes)


@short_errors
def step(function: CompiledFunction | SpecializingFunction, /, *args: Any, **keywords: Any) -> Steps:
    """Call a function with the interpreter of the engine ``"numpy"``, and return each value on the way.

    The caller's arrays are not changed. An error of the run is kept in ``Steps.error``. Raises TypeError or
    ValueError for arguments that do not fit.
    """
    if isinstance(function, SpecializingFunction):
        function, args, keywords = function.specialize_for(args, keywords)  # type: ignore[assignment]
    if not isinstance(function, CompiledFunction):
        raise TypeError(f"nnmagic.step takes a compiled function, not {kind_of(function)}")
    dims: dict[str, int] = {}
    call = function._definition.call
    values = [
        convert_argument(parameter, value, dims)
        for parameter, value in zip(call.parameters, with_states(call.bind(args, keywords)), strict=True)
    ]
    recorder = _Recorder(function.relay, function.name)
    result, failed = None, None
    try:
        result = ComplexExecutable(recorder, function._definition.module, function.name)(values)
    except Exception as error:  # noqa: BLE001 - shown after the values before it
        failed = error
    steps = tuple(recorder.steps)
    return Steps(function.name, steps, recorder.count, result, failed, recorder.left_out)


class _Recorder:
    """Runs a function, and records what it computes."""

    artifact = None

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        self._name = name
        self.steps: list[Step] = []
        self.count = 0
        self.left_out = 0
        self._shapes = {value for function in module.functions.values() for value in shape_values(function)}
        self._has_nan = False
        self._constants: set[Constant] = set()

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the result."""
        for param, value in zip(self._module.functions[self._name].params, arrays, strict=True):
            self.note(f"argument %{param.name_hint}", param.span, value)
        return Interpreter(self._module, self.observe).run(self._name, arrays)

    def stage(self, name: str) -> str:
        """Raise KeyError: there is none."""
        raise KeyError(name)

    def observe(self, node: Expr, value: Any) -> None:
        """Record the value of an operator's or constructor's call."""
        if node in self._shapes:
            self.left_out += isinstance(node, Call)
        elif isinstance(node, Call) and isinstance(node.op, OpRef | Constructor):
            for arg in node.args:
                if isinstance(arg, Constant) and arg not in self._constants and _has_nan(arg.data):
                    self._constants.add(arg)
                    self.note("constant", arg.span or node.span, arg.data)
            self.note(node.op.name, node.span, value)

    def note(self, operation: str, span: Span | None, value: Any) -> None:
        """Record the arrays of a value."""
        for number, array in enumerate(_arrays(value)):
            self.count += 1
            one = array.astype(np.float64) if array.dtype.kind not in "biufc" else array
            is_number = one.dtype.kind in "fc"
            nans = int(np.isnan(one).sum()) if is_number else 0
            if len(self.steps) >= MAX_STEPS and (self._has_nan or not nans):
                continue
            self._has_nan = self._has_nan or nans > 0
            infs = int(np.isinf(one).sum()) if is_number else 0
            finite = one[~np.isnan(one)] if nans else one
            real = finite.size and one.dtype.kind != "c"
            named = operation if not isinstance(value, tuple) else f"{operation}.{number}"
            self.steps.append(
                Step(
                    self.count,
                    named,
                    str(array.dtype),
                    array.shape,
                    float(finite.min()) if real else None,
                    float(finite.max()) if real else None,
                    nans,
                    infs,
                    span,
                    _line(span),
                )
            )


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind not in "biu" and bool(np.isnan(array.astype(np.complex128)).any())


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [array for part in value for array in _arrays(part)] if isinstance(value, tuple) else []


def _line(span: Span | None) -> str:
    """Return the text of the line where a span begins."""
    if span is None or span.source is None:
        return ""
    lines = span.source.text.splitlines()
    number = span.line - span.source.first_line
    return lines[number] if 0 <= number < len(lines) else ""
