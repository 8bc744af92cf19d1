"""Judge a cell: every statement gives, for the operands that it had, what NumPy gives for them.

Where a cell returns all that it computes, each statement is judged by itself, by what the cell computed
before: rounding does not add up, and a wrong result is found where it arises.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import ml_dtypes
import numpy as np

import nnmagic
from nnmagic.diagnostics import CompileError, TinyNNError
from tests.tinynn.programs.snippets.runner import RTOL
from tests.tinynn.random_vocabulary.forms import ANY_ZERO, MOVES
from tests.tinynn.random_vocabulary.generator import run
from tests.tinynn.random_vocabulary.program import Program, Statement
from tests.tinynn.random_vocabulary.special_forms import FOURIER

#: What a call may raise for arguments that it does not take.
_CALL_ERRORS = (ValueError, IndexError, ZeroDivisionError)
#: The relative tolerance of each inexact dtype.
_TOLERANCES = {
    **RTOL,
    np.dtype(np.complex64): RTOL[np.dtype(np.float32)],
    np.dtype(np.complex128): RTOL[np.dtype(np.float64)],
}
#: How many roundings of statements before may add up in a fused result.
_STEPS = 8
#: Words of the engine inside, which no message may have.
_INNER_WORDS = re.compile(r"TVM|tvm|tirx?\.|Check failed|InternalError|Traceback|0x[0-9a-f]{6}")
#: What NumPy raises where a cell computes: an extreme and a transform of no elements (docs/language.md), the
#: dimension -1 of no elements where the other sizes tell it, NaN where weights sum to zero, or where there is
#: nothing to average, a function along an axis for no places of the others.
_COMPUTED = re.compile(
    r"zero-size array|empty sequence|array of size 0 into|Weights sum to zero|number of FFT data points \(0\)"
    r"|empty arrays|sample points is empty|any iteration dimensions are 0"
    r"|(average|attention): ZeroDivisionError|(percentile|quantile|median): IndexError"
)
#: What a statement checks for results of it that a fused program may not need (docs/language.md).
_UNNEEDED = re.compile(r"gradient: ValueError: Shape of array too small")
#: What the engine refuses beside other statements: data types, or sizes that values decide.
_REFUSED_BESIDE_OTHERS = "threads cannot share the rounds of this loop"
_LINE = re.compile(r"--> [^\n:]*:(\d+)")


@dataclass(frozen=True)
class Fault:
    """What is wrong with one statement; ``kind`` says it in few words, without numbers."""

    function: str
    kind: str
    detail: str
    program: Program
    name: str | None

    @property
    def signature(self) -> str:
        return f"{'fused, ' * self.program.fused}{self.function}: {self.kind}"


@dataclass
class Verdict:
    """What was found out about one program.

    ``refusals`` and ``call_errors``: where nnmagic refuses what NumPy computes, when it compiles and when it
    runs, by function and message. ``agreed``: where both refuse, by function and NumPy's exception.
    """

    faults: list[Fault] = field(default_factory=list)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    call_errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    agreed: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)


def judge(program: Program) -> Verdict:
    """Compile a program, without the statements that are refused, and compare what its calls give."""
    verdict = Verdict()
    _judge(program, verdict)
    return verdict


def judge_both(program: Program) -> Verdict:
    """Judge a program and, if it is right, the one that returns no more than its last results."""
    verdict = judge(program)
    fused = replace(program, fused=True)
    if not verdict.faults and len(fused.returned) < len(program.statements):
        verdict.faults += judge(fused).faults
    return verdict


def _judge(program: Program, verdict: Verdict) -> None:
    if not program.statements:
        return
    try:
        function = _compile(program)
    except Exception as error:  # noqa: BLE001  # that is what this looks for
        if _is_refusal(error):
            if remaining := _without_refused(program, error, verdict):
                _judge(remaining, verdict)
            return
        kind = f"{type(error).__name__} when compiled: {shorten(str(error))}"
        verdict.faults += _blame(program, kind, str(error))
    else:
        for call in program.callable_calls():
            _judge_call(program, function, call, verdict)


def _compile(program: Program) -> nnmagic.CompiledFunction:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
        function = nnmagic.compile(program.source, namespace={}, cache=False)
        for call in program.callable_calls() if program.is_open else ():
            with contextlib.suppress(*_CALL_ERRORS):
                function(*program.arguments(call))
        return function


def _is_refusal(error: Exception) -> TypeGuard[CompileError]:
    """Whether an error says of statements that a cell does not take them."""
    return isinstance(error, TinyNNError) or (
        isinstance(error, CompileError)
        and all(each.message.startswith(_REFUSED_BESIDE_OTHERS) for each in error.diagnostics)
    )


def _without_refused(program: Program, error: CompileError, verdict: Verdict) -> Program | None:
    """The program without the statements that an error refuses; None where it points at none."""
    refused = []
    for each in error.diagnostics:
        statements = program.statements_of(each.span.line) if each.span is not None else ()
        if not statements:
            kind = f"an error that points at no statement: {shorten(each.message)}"
            verdict.faults.append(Fault("cell", kind, each.render(), program, None))
            return None
        statement = statements[0]
        refused += [each.name for each in statements]
        raised = next(filter(None, statement.raises), None)
        if _INNER_WORDS.search(each.message):
            kind = f"refused in words of the engine: {shorten(each.message)}"
            verdict.faults.append(Fault(statement.function, kind, each.render(), program, statement.name))
        elif raised is not None:
            verdict.agreed[statement.function, raised.split(":")[0]] += 1
        else:
            verdict.refusals[statement.function, shorten(each.message)] += 1
    return program.without(refused)


def _blame(program: Program, kind: str, detail: str) -> list[Fault]:
    """The statements that are at fault alone where a whole program does not compile."""
    faults = []
    if len(program.statements) > 1:
        for statement in program.statements:
            alone = program.alone(statement.name) or program.slice_of(statement.name)
            if len(alone.statements) < len(program.statements):
                faults += judge(alone).faults
    if faults:
        return faults
    last = program.statements[-1]
    name = last.function if len(program.statements) == 1 else "several"
    return [Fault(name, kind, detail, program, last.name)]


def _judge_call(program: Program, function: nnmagic.CompiledFunction, call: int, verdict: Verdict) -> None:
    raising = next((each for each in program.statements if each.raises[call]), None)
    arguments = program.arguments(call)
    try:
        results = function(*[argument.copy() for argument in arguments])
    except Exception as error:  # noqa: BLE001  # that is what this looks for
        text = str(error)
        statement = raising or _statement_of(program, text)
        blamed = statement.function if statement else "several"
        if (
            not isinstance(error, _CALL_ERRORS)
            or isinstance(error, CompileError)
            or _INNER_WORDS.search(text)
        ):
            kind = f"a call raises {type(error).__name__}: {shorten(text)}"
            verdict.faults.append(
                Fault(blamed, kind, f"call {call}: {text}", program, statement and statement.name)
            )
        elif raising is not None:
            verdict.agreed[blamed, f"{type(error).__name__} of the call"] += 1
        else:
            verdict.call_errors[blamed, f"{type(error).__name__}: {shorten(text)}"] += 1
        return
    if raising is not None:
        raised = f"{raising.function}: {raising.raises[call]}"
        if not (_COMPUTED.search(raised) or (program.fused and _UNNEEDED.search(raised))):
            kind = f"a result where NumPy raises {shorten(str(raising.raises[call]))}"
            verdict.faults.append(Fault(raising.function, kind, f"call {call}", program, raising.name))
        return
    verdict.faults += _compare_statements(program, arguments, results, call, verdict)


def _statement_of(program: Program, text: str) -> Statement | None:
    line = _LINE.search(text)
    return next(iter(program.statements_of(int(line[1]))), None) if line else None


def _compare_statements(
    program: Program, arguments: tuple[np.ndarray, ...], results: object, call: int, verdict: Verdict
) -> Iterator[Fault]:
    assert isinstance(results, tuple)
    values: dict[str, object] = dict(zip([param.name for param in program.params], arguments, strict=True))
    returned = dict(zip([statement.name for statement in program.returned], results, strict=True))
    wrong: set[str] = set()
    open_names: set[str] = set()  # of statements whose results are as they come, and that are not returned
    for statement in program.statements:
        name = statement.name
        if wrong.intersection(statement.operands):
            wrong.add(name)
            continue
        try:
            expected = run(statement.twin, {operand: values[operand] for operand in statement.operands})
        except Exception:  # noqa: BLE001  # NumPy took its own f32 where the cell has bfloat16
            wrong.add(name)
            continue
        values[name] = returned.get(name, expected)
        if _is_open(statement, values) or open_names.intersection(statement.operands):
            if name not in returned:
                open_names.add(name)
            continue
        if name not in returned:
            continue
        verdict.compared[statement.function] += 1
        looseness = _fused_looseness(program, statement) if program.fused else 1
        terms = statement.terms[call]
        if difference := compare(returned[name], expected, statement, terms, looseness):
            if program.fused and (
                depends_on_zeros(program, statement, arguments, returned[name], terms)
                or _agrees_with_steps(program, statement, arguments, returned[name])
            ):
                continue
            wrong.add(name)
            kind, _, numbers = difference.partition("\n")
            shown = [
                f"call {call}: {numbers}",
                f"NumPy gives {expected!r}",
                f"nnmagic gives {returned[name]!r}",
            ]
            yield Fault(statement.function, kind, "\n".join(shown), program, name)


def _is_open(statement: Statement, values: dict[str, object]) -> bool:
    """Whether NumPy's result is as it comes: of a transform of no elements, or of some that are not finite.

    A convolution pads with zeros, which an infinity makes NaN (docs/language.md). ``digitize`` takes bins
    with NaN for descending ones.
    """
    if statement.function not in (*FOURIER, "convolve", "correlate", "digitize"):
        return False
    operands = [np.asarray(values[name]) for name in statement.operands]
    return any(each.size == 0 or not np.all(np.isfinite(each)) for each in operands)


def depends_on_zeros(
    program: Program, statement: Statement, arguments: tuple[np.ndarray, ...], result: object, terms: float
) -> bool:
    """Whether a fused result is NumPy's for zeros of one sign, where NumPy leaves their sign open.

    ``signbit(max(x, initial=0))`` of -0.0 tells which zero an extreme took; only a result that the cell does
    not return hides that.
    """
    sliced = program.slice_of(statement.name)
    if not any(each.function in ANY_ZERO for each in sliced.statements):
        return False
    given = {param.name: array for param, array in zip(program.params, arguments, strict=True)}
    for zero in (0.0, -0.0):
        values: dict[str, object] = dict(given)
        for each in sliced.statements:
            value = run(each.twin, {operand: values[operand] for operand in each.operands})
            if each.function in ANY_ZERO and isinstance(value, np.ndarray) and value.dtype in _TOLERANCES:
                value = np.where(value == 0, value.dtype.type(zero), value)
            values[each.name] = value
        if not compare(
            result, values[statement.name], statement, terms, _fused_looseness(program, statement)
        ):
            return True
    return False


def _agrees_with_steps(
    program: Program, statement: Statement, arguments: tuple[np.ndarray, ...], result: object
) -> bool:
    """Whether a fused result is that of the program that returns all steps, each of which was judged.

    ``where(gelu(x))`` counts the elements that rounding makes zero.
    """
    steps = replace(program, fused=False)
    results = _compile(steps)(*[argument.copy() for argument in arguments])
    assert isinstance(results, tuple)
    (expected,) = (
        each for own, each in zip(steps.returned, results, strict=True) if own.name == statement.name
    )
    return compare(result, expected, statement, 1.0) is None


def _fused_looseness(program: Program, statement: Statement) -> float:
    """How many roundings of a result's dtype may add up: those before may be of a narrower dtype."""
    names = {each.name for each in program.slice_of(statement.name).statements}
    dtypes = [program.values[name].dtype for name in names if name in program.values]
    coarsest = max((_TOLERANCES[dtype] for dtype in dtypes if dtype in _TOLERANCES), default=1.0)
    own = program.values.get(statement.name)
    return _STEPS * max(1.0, coarsest / _TOLERANCES[own.dtype] if own and own.dtype in _TOLERANCES else 1.0)


def compare(
    result: object, expected: object, statement: Statement, terms: float, looseness: float = 1
) -> str | None:
    """How a result differs from NumPy's: what differs, then the numbers on lines of their own."""
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            return f"the number of results\n{result!r}"
        pairs = zip(result, expected, strict=True)
        return next(filter(None, (compare(*pair, statement, terms, looseness) for pair in pairs)), None)
    assert isinstance(expected, np.ndarray)
    if not isinstance(result, np.ndarray):
        return f"no array\n{type(result)}"
    if result.shape != expected.shape:
        return f"the shape\n{result.shape}, not {expected.shape}"
    if (
        result.dtype == ml_dtypes.bfloat16
        and expected.dtype in _TOLERANCES
        and expected.dtype != result.dtype
    ):
        # Many of NumPy's functions know no bfloat16 and compute in a wider dtype; a cell keeps it.
        rounded = expected.astype(result.dtype)
        return compare(result, rounded, replace(statement, exact=False), terms, looseness)
    if result.dtype != expected.dtype:
        return f"the dtype\n{result.dtype}, not {expected.dtype}"
    if (
        statement.exact
        or (statement.function in MOVES and looseness == 1)
        or expected.dtype not in _TOLERANCES
    ):
        if not np.array_equal(result, expected, equal_nan=expected.dtype in _TOLERANCES):
            return "values\n"
        # A fused result may come from a statement that leaves the sign of its zeros open.
        signed = expected.dtype in RTOL and statement.function not in ANY_ZERO
        if signed and looseness == 1:
            zeros = expected == 0
            if not np.array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros])):
                return "the sign of zero\n"
        return None
    wide = np.dtype({"c": np.complex128, "V": np.float32}.get(expected.dtype.kind, np.float64))
    one, other = result.astype(wide), expected.astype(wide)
    scale = max(1.0, terms, float(np.max(np.abs(other), initial=0, where=np.isfinite(other))))
    tolerance = _TOLERANCES[expected.dtype] * looseness
    with np.errstate(all="ignore"):
        near = np.isclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        if wide.kind == "c":  # which of the parts is infinite or NaN is open
            near |= ~np.isfinite(one) & ~np.isfinite(other)
    return None if np.all(near) else "values, beyond the tolerance\n"


def shorten(message: str) -> str:
    """A message without what differs from program to program: its first line, numbers, names and types."""
    text = message.strip().split("\n")[0]
    text = re.sub(r"Tensor\[.*?\), \w+\]", "T", text)
    text = re.sub(r'\((?:(?:\?|-?\d+|"[^"]*"),? ?)*\)', "SHAPE", text)
    text = re.sub(r'"[^"]*"', "NAME", text)
    text = re.sub(r"\bv\d+(_\d)?\b", "V", text)
    text = re.sub(r"\b(?:bool_?|[iu]?(?:int)?(?:8|16|32|64)|u\d+|i\d+|b?f\d+|float\d+)\b", "DTYPE", text)
    return re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "N", text)[:160]


def minimal(fault: Fault) -> Fault:
    """The same fault of a shorter program: one statement, those that it needs, or as few as still show it."""
    if fault.name is None:
        return fault
    for shorter in (fault.program.alone(fault.name), fault.program.slice_of(fault.name)):
        if shorter is not None and (same := _find(fault, shorter)):
            return same
    for statement in reversed(fault.program.statements):
        shorter = fault.program.without([statement.name])
        if any(each.name == fault.name for each in shorter.statements):
            fault = _find(fault, shorter) or fault
    return fault


def _find(fault: Fault, program: Program) -> Fault | None:
    return next((found for found in judge(program).faults if found.signature == fault.signature), None)
