"""Judge programs: each judge compares what an engine makes of a program with something independent of it."""

from __future__ import annotations
import __future__

import contextlib
import importlib
import itertools
import re
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

import nnmagic
from nnmagic import relay
from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.compilation import compile_source
from tests.random_programs.program import Arguments, Program, seeded, uniform
from tests.tinynn.programs.interpreter import find_shared_nodes
from tests.tinynn.programs.snippets.runner import RTOL
from tests.tinynn.python_twin import plain, twin

#: The relative tolerance of each inexact dtype.
TOLERANCES = {
    **RTOL,
    np.dtype(np.complex64): RTOL[np.dtype(np.float32)],
    np.dtype(np.complex128): RTOL[np.dtype(np.float64)],
}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a program, or with one of its statements; ``kind`` says it without numbers."""

    kind: str
    detail: str
    program: Program
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}\n{self.program.source}{self.detail}"


@dataclass
class Verdict:
    """The faults of a program, and how often judges refused, agreed and compared, by what."""

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, outcome: str, what: str = "programs") -> None:
        self.counts[outcome, what] += 1


#: Adds what it finds to the verdict.
Judge = Callable[[Program, Verdict], None]


def judge(program: Program, names: Sequence[str]) -> Verdict:
    """Ask judges, one after the other, until one finds a fault; what one raises is a fault, too."""
    verdict = Verdict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)  # names that chance leaves unused
        warnings.simplefilter("ignore", SyntaxWarning)  # what is odd in a program that chance wrote
        for name in names:
            try:
                JUDGES[name](program, verdict)
            except Exception as error:  # noqa: BLE001  # that is what this looks for
                kind = f"{type(error).__name__}: {shorten(str(error))}"
                verdict.faults.append(Fault(kind, traceback.format_exc(), program))
            if verdict.faults:
                break
    return verdict


# -- Python on NumPy -----------------------------------------------------------------------------------------


def python_of(program: Program) -> Callable[..., object]:
    """Return the cell's last function as Python runs it on NumPy."""
    if not program.rules.numpy:
        python = twin(program.source, {})
        return lambda *arguments: plain(python.call(python.last, *arguments))
    names: dict[str, object] = {"np": np, "parallel": range}
    code = compile(program.source, "<cell>", "exec", __future__.annotations.compiler_flag, True)
    exec(code, names)
    function = list(names.values())[-1]
    assert callable(function)
    return function


def outcome(function: Callable[..., object], program: Program, arguments: Arguments) -> object:
    """Return what a call gives, with the arguments if it changes them, or the class of what it raises."""
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    try:
        with np.errstate(all="ignore"):
            result = function(*copies)
    except program.rules.errors as error:
        return type(error)
    return (result, *copies) if program.rules.changes else result


# -- engines -------------------------------------------------------------------------------------------------


def compile_program(program: Program, **options: object) -> nnmagic.CompiledFunction:
    """Compile a cell for an engine."""
    namespace = {"np": np} if program.rules.numpy else {}
    return nnmagic.compile(program.source, namespace=namespace, cache=False, **options)


def compare_engine(program: Program, verdict: Verdict, **options: object) -> None:
    """Compare what an engine gives in each call with what Python gives."""
    python = python_of(program)
    expected = [outcome(python, program, arguments) for arguments in program.calls]
    try:
        function = compile_program(program, **options)
    except TinyNNError as error:
        raises = program.rules.agrees and all(isinstance(each, type) for each in expected)
        if raises or any(words in str(error) for words in program.rules.refusals):
            verdict.count("refused", shorten(str(error)))
        else:
            verdict.faults.append(
                Fault(f"a valid cell is refused: {shorten(str(error))}", str(error), program)
            )
        return
    for number, (arguments, wanted) in enumerate(zip(program.calls, expected, strict=True)):
        found = outcome(function, program, arguments)
        if difference := differ(found, wanted, program):
            kind, _, numbers = difference.partition("\n")
            shown = f"call {number}: {arguments}\n{numbers}\n{found}\ninstead of\n{wanted}\n"
            verdict.faults.append(Fault(kind, shown, program))
            return
        verdict.count("raised" if isinstance(wanted, type) else "equal", "calls")


def differ(found: object, wanted: object, program: Program) -> str | None:
    """Return how the outcome of a call differs from Python's: what differs, then numbers."""
    rules = program.rules
    if isinstance(found, type) or isinstance(wanted, type):
        # NumPy gives a name that no branch has bound; a cell may see that the index is wrong first.
        if found is wanted or wanted is UnboundLocalError:
            return None
        return (
            f"{getattr(found, '__name__', 'a result')} instead of {getattr(wanted, '__name__', 'a result')}"
        )
    if isinstance(wanted, AdtValue):
        if not isinstance(found, AdtValue) or found.constructor != wanted.constructor:
            return "the constructor"
        return differ(found.fields, wanted.fields, program)
    if isinstance(wanted, tuple):
        if not isinstance(found, tuple) or len(found) != len(wanted):
            return "the number of results"
        parts = (differ(one, other, program) for one, other in zip(found, wanted, strict=True))
        return next(filter(None, parts), None)
    one, other = np.asarray(found), np.asarray(wanted)
    with np.errstate(all="ignore"):
        if rules.largest < np.inf and not np.abs(other).max(initial=0) <= rules.largest:
            return None
    return compare(one, other, rtol=rules.rtol, dtypes=not rules.numpy)


def compare(
    one: np.ndarray, other: np.ndarray, *, rtol: float | None = 0.0, scale: float = 0.0, dtypes: bool = True
) -> str | None:
    """Return how an array differs from another: what differs, then numbers on a line of their own.

    Args:
        one: the array that is judged.
        other: what it should be.
        rtol: how far floats may be; None for the tolerance of their dtype, 0.0 for no difference.
        scale: the differences are relative to this, where it is larger than all elements.
        dtypes: whether the dtypes must be the same.

    """
    if one.shape != other.shape:
        return f"the shape\n{one.shape}, not {other.shape}"
    if dtypes and one.dtype != other.dtype:
        return f"the dtype\n{one.dtype}, not {other.dtype}"
    is_inexact = other.dtype in TOLERANCES
    if not is_inexact or rtol == 0.0:
        same = (one == other) | ((one != one) & (other != other))
    else:
        wide = np.dtype({"c": np.complex128, "V": np.float32}.get(other.dtype.kind, np.float64))
        one, other = one.astype(wide), other.astype(wide)
        scale = max(scale, float(np.max(np.abs(other), initial=0, where=np.isfinite(other))))
        tolerance = rtol if rtol is not None else TOLERANCES[other.dtype]
        with np.errstate(all="ignore"):
            same = np.isclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
            if wide.kind == "c":  # which of the parts is infinite or NaN is open
                same |= ~np.isfinite(one) & ~np.isfinite(other)
    if np.all(same):
        return None
    index = tuple(np.argwhere(~np.asarray(same))[0])
    place = f"at {tuple(map(int, index))} {one[index]!r}, not {other[index]!r}"
    wrong = f"{np.sum(~same)} of {np.size(same)} are wrong, {place}"
    return f"values{', beyond the tolerance' * (is_inexact and rtol != 0.0)}\n{wrong}"


def shorten(message: str) -> str:
    """Return a message without what differs from program to program: numbers, names and types."""
    text = message.strip().split("\n")[0]
    text = re.sub(r"Tensor\[.*?\), \w+\]", "T", text)
    text = re.sub(r'\((?:(?:\?|-?\d+|"[^"]*"),? ?)*\)', "SHAPE", text)
    text = re.sub(r'"[^"]*"', "NAME", text)
    text = re.sub(r"\bv\d+(_\d)?\b", "V", text)
    text = re.sub(r"\b(?:bool_?|[iu]?(?:int)?(?:8|16|32|64)|u\d+|i\d+|b?f\d+|float\d+)\b", "DTYPE", text)
    return re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "N", text)[:160]


# -- the module ----------------------------------------------------------------------------------------------


def check_module(program: Program, verdict: Verdict) -> None:
    """Check that a cell's module computes nothing twice, and is what its text is read as."""
    try:
        module = compile_source(
            Source("cell", program.source), {"np": np} if program.rules.numpy else {}
        ).module
    except TinyNNError:
        return  # the engines judge that
    for name, function in module.functions.items():
        if find_shared_nodes(function):
            verdict.faults.append(Fault("something is computed twice", f"in @{name}", program))
    text = module.astext()
    if not relay.structural_equal(relay.infer_type(relay.parse(text)), module):
        verdict.faults.append(Fault("the text is read as another module", text, program))


# -- gradients -----------------------------------------------------------------------------------------------

_STEP = 1e-6


def compare_gradient(program: Program, verdict: Verdict, **options: object) -> None:
    """Compare the gradient by a function's first three arguments with differences in float64."""
    function = compile_program(program, **options)
    gradient = nnmagic.value_and_grad(function, (0, 1, 2))
    for arguments in program.calls:
        wrong = _compare_gradient_at(program, function, gradient, arguments, verdict)
        if wrong:
            verdict.faults.append(Fault(*wrong, program))
        if wrong or verdict.counts["equal", "derivatives"] >= len(program.calls):
            return
    if not verdict.counts["equal", "derivatives"]:
        verdict.count("not differentiable at any of the points")


def _compare_gradient_at(
    program: Program,
    function: Callable[..., np.ndarray],
    gradient: Callable[..., tuple[np.ndarray, tuple[np.ndarray, ...]]],
    arguments: Arguments,
    verdict: Verdict,
) -> tuple[str, str] | None:
    chance = seeded("directions", program.seed)
    value, found = gradient(*arguments)
    plain_value = function(*arguments)
    if not np.allclose(value, plain_value, rtol=1e-9, atol=1e-12):
        return "the value beside the gradient", f"{value}, not {plain_value}, at {arguments}"
    for number, part in enumerate(found):
        way = uniform(chance, np.shape(arguments[number]))
        expected = differentiate(function, arguments, number, way)
        if expected is None:
            continue
        own = float((part * way).sum())
        if not np.isclose(own, expected, rtol=2e-4, atol=2e-6 * (1 + abs(float(value)))):
            return "the gradient", f"by argument {number}: {own}, not {expected}, at {arguments}"
        verdict.count("equal", "derivatives")
    return None


def differentiate(
    function: Callable[..., np.ndarray], arguments: Arguments, number: int, way: np.ndarray
) -> float | None:
    """Return the derivative in a direction; None where there is none, or it changes too fast to tell."""

    def at(step: float) -> float:
        moved = list(arguments)
        moved[number] = arguments[number] + step * way  # type: ignore[operator] # an array
        return float(function(*moved))

    slopes = [(at(step) - at(-step)) / (2 * step) for step in (_STEP, 10 * _STEP)]
    sides = (at(_STEP) - at(0)) / _STEP, (at(0) - at(-_STEP)) / _STEP
    scale = 1e-3 * (1 + abs(slopes[0]))
    is_smooth = abs(sides[0] - sides[1]) <= scale and abs(slopes[1] - slopes[0]) <= scale / 100
    return slopes[0] if is_smooth and np.isfinite(slopes[0]) else None


# -- parallel loops ------------------------------------------------------------------------------------------

_RACE_SHAPES = ((5, 4), (8, 8), (3, 9))


@dataclass
class _Traced:
    """An array that records which round uses which element; ``parallel`` begins the rounds."""

    data: np.ndarray
    reads: dict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    writes: dict[tuple[int, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    round: int = -1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def _element(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(position % size for position, size in zip(index, self.shape, strict=True))

    def __getitem__(self, index: tuple[int, ...]) -> float:
        value = float(self.data[index])
        self.reads[self._element(index)].add(self.round)
        return value

    def __setitem__(self, index: tuple[int, ...], value: float) -> None:
        self.data[index] = value
        self.writes[self._element(index)].add(self.round)

    def clashes(self) -> bool:
        return any(len(rounds | self.reads[element]) > 1 for element, rounds in list(self.writes.items()))


def has_race(source: str) -> bool:
    """Return whether different rounds use one element that one of them changes, for some shapes."""

    def parallel(*bounds: int) -> Iterator[int]:
        for number, value in enumerate(range(*bounds)):
            y.round = number
            yield value

    names: dict[str, object] = {"parallel": parallel, "np": np}
    exec("from __future__ import annotations\n" + source, names)
    for shape, k in itertools.product(_RACE_SHAPES, range(3)):
        y = _Traced(np.ones(shape))
        with contextlib.suppress(IndexError):
            names["f"](np.ones(shape), y, k)  # type: ignore[operator]
        if y.clashes():
            return True
    return False


def check_races(program: Program, verdict: Verdict) -> None:
    """Check that a cell is refused if rounds clash, with a hint, and that its loop is parallel if not."""
    race = has_race(program.source)
    try:
        module = compile_source(Source("cell", program.source), {"np": np}).module
    except TinyNNError as error:
        (diagnostic, *_) = error.diagnostics
        verdict.count("refused", "races" if race else "without a race")
        if diagnostic.span is None or not diagnostic.hint:
            verdict.faults.append(Fault("a refusal without a place or a hint", str(error), program))
        return
    verdict.count("taken", "races" if race else "without a race")
    if race:
        verdict.faults.append(Fault("a race is taken", "", program))
    elif "parallel=" not in module.astext():
        verdict.faults.append(Fault("the loop is not parallel", "", program))


# -- judges in modules of their own --------------------------------------------------------------------------


def _of_module(name: str, function: str, **options: object) -> Judge:
    """Return a judge of another module, which is imported when it is asked: it may import TVM."""

    def ask(program: Program, verdict: Verdict) -> None:
        module = importlib.import_module(f"tests.random_programs.{name}")
        getattr(module, function)(program, verdict, **options)

    return ask


def _compare_some(program: Program, verdict: Verdict) -> None:
    """Compare machine code of every eighth program, which takes most of the time, at both levels."""
    if program.seed % 8 == 0:
        compare_engine(program, verdict, engine="relax", opt_level=3 if program.seed % 16 else 0)


JUDGES: dict[str, Judge] = {
    "some relax": _compare_some,
    "graph": _of_module("relay_judge", "compare_machine_code"),
    "reference": _of_module("relay_judge", "compare_reference"),
    "text": _of_module("relay_judge", "compare_text"),
    "steps": _of_module("step_judge", "judge_steps"),
    "steps of numpy": _of_module("step_judge", "judge_steps", engine="numpy"),
    "eager torch": _of_module("torch_judge", "judge_memory", engine="relax"),
    "eager torch of numpy": _of_module("torch_judge", "judge_memory", engine="numpy"),
    "module": check_module,
    "races": check_races,
    "differences": compare_gradient,
    "differences of numpy": lambda program, verdict: compare_gradient(program, verdict, engine="numpy"),
    "numpy": lambda program, verdict: compare_engine(program, verdict, engine="numpy"),
    "relax": lambda program, verdict: compare_engine(program, verdict, engine="relax"),
    "plain": lambda program, verdict: compare_engine(program, verdict, engine="relax", opt_level=0),
}
