"""Judge cells of steps: every statement gives, for the operands that it had, what NumPy gives for them.

Where a cell returns all that it computes, each statement is judged by what the cell computed before: rounding
does not add up, and a wrong result is found where it arises.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TypeGuard

import ml_dtypes
import numpy as np

import nnmagic
from nnmagic.diagnostics import CompileError, TinyNNError
from tests.random_programs.families.forms import ANY_ZERO, MOVES
from tests.random_programs.families.helpers import HELPERS
from tests.random_programs.families.special_forms import FOURIER
from tests.random_programs.judges import TOLERANCES, Fault, Verdict, compare, shorten
from tests.random_programs.program import Program
from tests.random_programs.steps import Statement, Steps
from tests.tinynn.programs.snippets.runner import RTOL

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


def judge_steps(program: Program, verdict: Verdict, **options: object) -> None:
    """Judge each statement of a program by what the program computed before."""
    StepJudge(program, verdict, **options).judge()


class StepJudge:
    """Judges the steps of one program for an engine, and those of a part of it."""

    def __init__(self, program: Program, verdict: Verdict, **options: object) -> None:
        self.program, self.verdict, self.options = program, verdict, options

    def judge(self) -> None:
        """Judge the steps and, if they are right, those that return no more than their last results."""
        steps = self.program.steps
        assert steps is not None
        self.compare(steps)
        fused = replace(steps, fused=True)
        if not self.verdict.faults and not steps.fused and len(fused.returned) < len(steps.statements):
            self.compare(fused)

    def compare(self, steps: Steps) -> None:
        """Compile steps, without the statements that are refused, and compare what their calls give."""
        if not steps.statements:
            return
        try:
            function = self.compile(steps)
        except Exception as error:  # noqa: BLE001  # that is what this looks for
            if _is_refusal(error):
                if remaining := self.without_refused(steps, error):
                    self.compare(remaining)
                return
            self.blame(steps, f"{type(error).__name__} when compiled: {shorten(str(error))}", str(error))
        else:
            for call in steps.calls():
                self.compare_call(steps, function, call)

    def compile(self, steps: Steps) -> nnmagic.CompiledFunction:
        function = nnmagic.compile(steps.source, namespace={}, cache=False, **self.options)
        for call in steps.calls() if steps.is_open else ():
            with contextlib.suppress(*self.program.rules.errors):
                function(*steps.given(call))
        return function

    def fault(self, steps: Steps, function: str, kind: str, detail: str, name: str | None = None) -> None:
        program = replace(self.program, steps=steps, source=steps.source)
        kind = f"{'fused, ' * steps.fused}{function}: {kind}"
        self.verdict.faults.append(Fault(kind, detail, program, name))

    def without_refused(self, steps: Steps, error: CompileError) -> Steps | None:
        """Return the steps without the statements that an error refuses; None where it points at none."""
        refused = []
        for each in error.diagnostics:
            statements = statements_of(steps, each.span.line) if each.span is not None else ()
            if not statements:
                kind = f"an error that points at no statement: {shorten(each.message)}"
                self.fault(steps, "cell", kind, each.render())
                return None
            statement = statements[0]
            refused += [each.name for each in statements]
            raised = next(filter(None, statement.raises), None)
            if _INNER_WORDS.search(each.message):
                kind = f"refused in words of the engine: {shorten(each.message)}"
                self.fault(steps, statement.function, kind, each.render(), statement.name)
            elif raised is not None:
                self.verdict.count("both refuse", f"{statement.function}: {raised.split(':')[0]}")
            else:
                self.verdict.count("refused", f"{statement.function}: {shorten(each.message)}")
        return steps.without(refused)

    def blame(self, steps: Steps, kind: str, detail: str) -> None:
        """Find the statements that are at fault alone where whole steps do not compile."""
        before = len(self.verdict.faults)
        if len(steps.statements) > 1:
            for statement in steps.statements:
                alone = steps.alone(statement.name) or steps.slice_of(statement.name)
                if len(alone.statements) < len(steps.statements):
                    self.compare(alone)
        if len(self.verdict.faults) == before:
            last = steps.statements[-1]
            function = last.function if len(steps.statements) == 1 else "several"
            self.fault(steps, function, kind, detail, last.name)

    def compare_call(self, steps: Steps, function: nnmagic.CompiledFunction, call: int) -> None:
        raising = next((each for each in steps.statements if each.raises[call]), None)
        arguments = steps.given(call)
        try:
            results = as_arrays(function(*[argument.copy() for argument in arguments]))
        except Exception as error:  # noqa: BLE001  # that is what this looks for
            text, allowed = str(error), self.program.rules.errors
            line = _LINE.search(text)
            statement = raising or next(iter(statements_of(steps, int(line[1])) if line else ()), None)
            blamed = statement.function if statement else "several"
            if not isinstance(error, allowed) or isinstance(error, CompileError) or _INNER_WORDS.search(text):
                kind = f"a call raises {type(error).__name__}: {shorten(text)}"
                self.fault(steps, blamed, kind, f"call {call}: {text}", statement and statement.name)
            elif raising is not None:
                self.verdict.count("both refuse", f"{blamed}: {type(error).__name__} of the call")
            else:
                self.verdict.count("a call is refused", f"{blamed}: {type(error).__name__}: {shorten(text)}")
            return
        if raising is None:
            self.compare_statements(steps, arguments, results, call)
            return
        raised = f"{raising.function}: {raising.raises[call]}"
        if not (_COMPUTED.search(raised) or (steps.fused and _UNNEEDED.search(raised))):
            kind = f"a result where NumPy raises {shorten(str(raising.raises[call]))}"
            self.fault(steps, raising.function, kind, f"call {call}", raising.name)

    def compare_statements(
        self, steps: Steps, arguments: tuple[np.ndarray, ...], results: object, call: int
    ) -> None:
        assert isinstance(results, tuple)
        values: dict[str, object] = dict(zip([param.name for param in steps.params], arguments, strict=True))
        returned = dict(zip([statement.name for statement in steps.returned], results, strict=True))
        wrong: set[str] = set()
        open_names: set[str] = (
            set()
        )  # of statements whose results are as they come, and that are not returned
        for statement in steps.statements:
            name = statement.name
            if wrong.intersection(statement.operands):
                wrong.add(name)
                continue
            try:
                expected = steps.language.run(
                    statement.twin, {each: values[each] for each in statement.operands}
                )
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
            self.verdict.count("compared", statement.function)
            looseness = _fused_looseness(steps, statement) if steps.fused else 1
            terms = statement.terms[call]
            if difference := compare_step(returned[name], expected, statement, terms, looseness):
                if steps.fused and (
                    depends_on_zeros(steps, statement, arguments, returned[name], terms)
                    or self.agrees_with_steps(steps, statement, arguments, returned[name])
                ):
                    continue
                wrong.add(name)
                kind, _, numbers = difference.partition("\n")
                shown = f"call {call}: {numbers}\nNumPy gives {expected!r}\nnnmagic gives {returned[name]!r}"
                self.fault(steps, statement.function, kind, shown, name)

    def agrees_with_steps(
        self, steps: Steps, statement: Statement, arguments: tuple[np.ndarray, ...], result: object
    ) -> bool:
        """Whether a fused result is that of the program that returns all steps, each of which was judged.

        ``where(gelu(x))`` counts the elements that rounding makes zero.
        """
        whole = replace(steps, fused=False)
        results = as_arrays(self.compile(whole)(*[argument.copy() for argument in arguments]))
        assert isinstance(results, tuple)
        pairs = zip(whole.returned, results, strict=True)
        (expected,) = (each for own, each in pairs if own.name == statement.name)
        return compare_step(result, expected, statement, 1.0) is None


def as_arrays(result: object) -> object:
    """Return a result with arrays of rank 0 in the place of scalars, as the values of statements are."""
    if isinstance(result, tuple):
        return tuple(map(as_arrays, result))
    assert not isinstance(result, np.ndarray) or result.shape
    return np.asarray(result)


def statements_of(steps: Steps, line: int) -> tuple[Statement, ...]:
    """Return the statements that a line of the source belongs to: those that call a function that has it."""
    first = 1
    for name in steps.helpers:
        end = first + HELPERS[name].source.count("\n")
        if first <= line < end:
            return tuple(each for each in steps.statements if name in each.helpers)
        first = end
    for statement in steps.statements:
        first += 1 + statement.text.count("\n")
        if line <= first:
            return (statement,) if line > first - 1 - statement.text.count("\n") else ()
    return ()


def _is_refusal(error: Exception) -> TypeGuard[CompileError]:
    """Whether an error says of statements that a cell does not take them."""
    return isinstance(error, TinyNNError) or (
        isinstance(error, CompileError)
        and all(each.message.startswith(_REFUSED_BESIDE_OTHERS) for each in error.diagnostics)
    )


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
    steps: Steps, statement: Statement, arguments: tuple[np.ndarray, ...], result: object, terms: float
) -> bool:
    """Whether a fused result is NumPy's for zeros of one sign, where NumPy leaves their sign open.

    ``signbit(max(x, initial=0))`` of -0.0 tells which zero an extreme took; only a result that the cell does
    not return hides that.
    """
    sliced = steps.slice_of(statement.name)
    if not any(each.function in ANY_ZERO for each in sliced.statements):
        return False
    given = {param.name: array for param, array in zip(steps.params, arguments, strict=True)}
    for zero in (0.0, -0.0):
        values: dict[str, object] = dict(given)
        for each in sliced.statements:
            value = steps.language.run(each.twin, {operand: values[operand] for operand in each.operands})
            if each.function in ANY_ZERO and isinstance(value, np.ndarray) and value.dtype in TOLERANCES:
                value = np.where(value == 0, value.dtype.type(zero), value)
            values[each.name] = value
        looseness = _fused_looseness(steps, statement)
        if not compare_step(result, values[statement.name], statement, terms, looseness):
            return True
    return False


def _fused_looseness(steps: Steps, statement: Statement) -> float:
    """Return how many roundings of a result's dtype may add up: those before may be of a narrower dtype."""
    names = {each.name for each in steps.slice_of(statement.name).statements}
    dtypes = [steps.values[name].dtype for name in names if name in steps.values]
    coarsest = max((TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES), default=1.0)
    own = steps.values.get(statement.name)
    return _STEPS * max(1.0, coarsest / TOLERANCES[own.dtype] if own and own.dtype in TOLERANCES else 1.0)


def compare_step(
    result: object, expected: object, statement: Statement, terms: float, looseness: float = 1
) -> str | None:
    """Return how a result differs from NumPy's: what differs, then the numbers on lines of their own."""
    if isinstance(expected, tuple):
        if not isinstance(result, tuple) or len(result) != len(expected):
            return f"the number of results\n{result!r}"
        pairs = zip(result, expected, strict=True)
        return next(filter(None, (compare_step(*pair, statement, terms, looseness) for pair in pairs)), None)
    assert isinstance(expected, np.ndarray)
    if not isinstance(result, np.ndarray):
        return f"no array\n{type(result)}"
    is_exact = statement.exact or (statement.function in MOVES and looseness == 1)
    if result.dtype == ml_dtypes.bfloat16 != expected.dtype and expected.dtype in TOLERANCES:
        # Many of NumPy's functions know no bfloat16 and compute in a wider dtype; a cell keeps it.
        expected, is_exact = expected.astype(result.dtype), statement.function in MOVES and looseness == 1
    tolerance = 0.0 if is_exact else TOLERANCES.get(expected.dtype, 0.0) * looseness
    if difference := compare(result, expected, rtol=tolerance, scale=max(1.0, terms)):
        return difference
    # A fused result may come from a statement that leaves the sign of its zeros open.
    signed = is_exact and expected.dtype in RTOL and statement.function not in ANY_ZERO
    if signed and looseness == 1:
        zeros = expected == 0
        if not np.array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros])):
            return "the sign of zero\n"
    return None
