"""Judge programs: each judge compares what an engine makes of a program with something independent of it."""

from __future__ import annotations
import __future__

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

import nnmagic
from nnmagic import relay
from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.compilation import compile_source
from tests.random_programs.program import Arguments, Program
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
    """What is wrong with a program; ``kind`` says it in few words, without numbers."""

    kind: str
    detail: str
    program: Program

    @property
    def signature(self) -> str:
        return self.kind

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
    """Ask judges, one after the other, until one finds a fault."""
    verdict = Verdict()
    for name in names:
        JUDGES[name](program, verdict)
        if verdict.faults:
            break
    return verdict


# -- Python on NumPy -----------------------------------------------------------------------------------------


def python_of(program: Program) -> Callable[..., object]:
    """Return the cell's last function as Python runs it on NumPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # what is odd in a program that chance wrote
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)  # names that chance leaves unused
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
            verdict.count("refused")
        else:
            verdict.faults.append(Fault("a valid cell is refused", str(error), program))
        return
    except Exception as error:  # noqa: BLE001  # that is what this looks for
        kind = f"{type(error).__name__} when compiled"
        verdict.faults.append(Fault(kind, shorten(str(error)), program))
        return
    for number, (arguments, wanted) in enumerate(zip(program.calls, expected, strict=True)):
        try:
            found = outcome(function, program, arguments)
        except Exception as error:  # noqa: BLE001  # the same
            kind = f"a call raises {type(error).__name__}"
            verdict.faults.append(Fault(kind, f"call {number}: {error}", program))
            return
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
        if found is wanted or (wanted is UnboundLocalError and isinstance(found, type)):
            return None
        return f"{getattr(found, '__name__', 'a result')} instead of {getattr(wanted, '__name__', 'a result')}"
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
    wrong = f"{np.sum(~same)} of {np.size(same)} are wrong, at {tuple(map(int, index))} {one[index]!r}, not {other[index]!r}"
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
        module = compile_source(Source("cell", program.source), {"np": np} if program.rules.numpy else {}).module
    except TinyNNError:
        return  # the engines judge that
    for name, function in module.functions.items():
        if find_shared_nodes(function):
            verdict.faults.append(Fault("something is computed twice", f"in @{name}", program))
    text = module.astext()
    if not relay.structural_equal(relay.infer_type(relay.parse(text)), module):
        verdict.faults.append(Fault("the text is read as another module", text, program))


JUDGES: dict[str, Judge] = {
    "module": check_module,
    "numpy": lambda program, verdict: compare_engine(program, verdict, engine="numpy"),
    "relax": lambda program, verdict: compare_engine(program, verdict, engine="relax"),
    "plain": lambda program, verdict: compare_engine(program, verdict, engine="relax", opt_level=0),
}
