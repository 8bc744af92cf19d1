"""Run passes in order, with instruments that watch them, and name the pass that goes wrong."""

from __future__ import annotations

import difflib
import linecache
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TextIO

from nnmagic.diagnostics import CompileError, Diagnostic, RelayError, Source, Span, kind_of, last_line
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.infer import ensure_types, erase_types, infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import binders, post_order
from nnmagic.tracebacks import frames_of, is_ours

Pass = Callable[[Module], Module]


@dataclass(frozen=True, slots=True)
class NamedPass:
    """A pass and the name that errors, instruments and ``--show passes`` call it by."""

    name: str
    run: Pass


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass: the module before and after it, and how long it took."""

    name: str
    before: Module
    after: Module
    seconds: float = field(compare=False)

    @property
    def changed(self) -> bool:
        """Whether the text of the module is another one."""
        return self.after is not self.before and self._texts[0] != self._texts[1]

    @property
    def _texts(self) -> tuple[str, str]:
        return str(erase_types(self.before)).rstrip(), str(erase_types(self.after)).rstrip()

    def diff(self, context: int = 3) -> str:
        """Return what the pass changed in the Relay text: lines that begin with ``-``, ``+`` or a blank."""
        before, after = (text.split("\n") for text in self._texts)
        lines = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
        removed = sum(line.startswith("-") for line in lines)
        added = sum(line.startswith("+") for line in lines)
        counts = f"{removed} line{'s' * (removed != 1)} removed, {added} added" if lines else "no change"
        return "\n".join([f"=== {self.name}: {counts}", *lines, *([""] if lines else [])])


class PassInstrument:
    """Watch passes: derive a class and use it in a ``PassContext``. Each method does nothing here."""

    def before(self, name: str, module: Module) -> None:
        """Look at the module that a pass is about to run on."""

    def after(self, run: PassRun) -> None:
        """Look at what a pass has done. An error that this raises ends the compilation."""


class PassTiming(PassInstrument):
    """Add up the seconds that each pass takes: ``timing.seconds["fold_constants"]``."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def after(self, run: PassRun) -> None:
        """Count a run."""
        self.seconds[run.name] = self.seconds.get(run.name, 0.0) + run.seconds


class PassRecorder(PassInstrument):
    """Keep every run in ``runs``, in order."""

    def __init__(self) -> None:
        self.runs: list[PassRun] = []

    def after(self, run: PassRun) -> None:
        """Keep a run."""
        self.runs.append(run)


class PrintChanges(PassInstrument):
    """Print what each pass changes, as lines that begin with ``-`` and ``+``."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def after(self, run: PassRun) -> None:
        """Print the difference, if there is one."""
        if run.changed:
            print(run.diff(), file=self._file or sys.stdout)


class VerifyTypes(PassInstrument):
    """Infer the types of every pass's result anew, those of the compiler's own passes too."""

    def after(self, run: PassRun) -> None:
        """Raise RelayError, which names the pass, for an ill-typed module."""
        if run.after is not run.before:
            check_types(run.name, run.after)


_INSTRUMENTS: ContextVar[tuple[PassInstrument, ...]] = ContextVar("instruments", default=())


class PassContext:
    """Have instruments watch the passes that run inside a ``with`` block, the compiler's own too.

    A function that is found in memory runs no passes: compile with ``cache=False`` to watch them all. An
    inner context adds its instruments to those of the outer one. Every thread has contexts of its own.
    """

    def __init__(self, *instruments: PassInstrument) -> None:
        for instrument in instruments:
            if not isinstance(instrument, PassInstrument):
                raise TypeError(
                    f"PassContext takes instruments, such as PassTiming(), not {kind_of(instrument)}"
                )
        self._instruments = instruments
        self._tokens: list[Token[tuple[PassInstrument, ...]]] = []

    def __enter__(self) -> PassContext:
        self._tokens.append(_INSTRUMENTS.set((*_INSTRUMENTS.get(), *self._instruments)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        _INSTRUMENTS.reset(self._tokens.pop())


def run_instrumented(name: str, run: Pass, module: Module, runs: list[PassRun] | None = None) -> Module:
    """Run a pass under the instruments of the context; its run is also added to ``runs``."""
    instruments = _INSTRUMENTS.get()
    for instrument in instruments:
        instrument.before(name, module)
    begin = time.perf_counter()
    after = run(module)
    if instruments or runs is not None:
        done = PassRun(name, module, after, time.perf_counter() - begin)
        for instrument in instruments:
            instrument.after(done)
        if runs is not None:
            runs.append(done)
    return after


def run_passes(
    module: Module,
    passes: Sequence[str | Pass | NamedPass],
    *,
    keep: Iterable[str] | None = None,
    runs: list[PassRun] | None = None,
) -> Module:
    """Run passes in order on a module, and check what each gives. The result is typed.

    Args:
        module: the module; it is typed first if it is not.
        passes: functions from module to module, or names of the library's.
        keep: the functions that must keep their types; all of them by default.
        runs: a list to which every run is added.

    Raises:
        RelayError: if a pass raises an error, or gives an ill-typed module; it names the pass.
        TypeError, ValueError: for something that is no pass.

    """
    named = named_passes(passes)
    module = ensure_types(module)
    kept = tuple(module.functions if keep is None else keep)
    for pass_ in named:
        module = run_instrumented(pass_.name, _with_checks(pass_, kept), module, runs)
    return module


def named_passes(passes: object) -> tuple[NamedPass, ...]:
    """Return passes with their names. Raises TypeError or ValueError for something that is no pass."""
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        hint = f": write [{passes!r}]" if isinstance(passes, str) else ""
        raise TypeError(f"passes must be a list of passes, not {kind_of(passes)}{hint}")
    return tuple(map(_by_name, passes))


def _by_name(target_pass: object) -> NamedPass:
    if isinstance(target_pass, NamedPass):
        return target_pass
    if isinstance(target_pass, str):
        from nnmagic.relay.passes.library import library_pass

        return NamedPass(target_pass, library_pass(target_pass))
    if not callable(target_pass) or isinstance(target_pass, type):
        raise TypeError(
            f"a pass is a function from a relay.Module to a relay.Module, not {kind_of(target_pass)}"
        )
    inner = target_pass
    while not hasattr(inner, "__name__") and hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    return NamedPass(str(getattr(inner, "__name__", type(target_pass).__name__)), target_pass)


def _with_checks(named_pass: NamedPass, kept: Sequence[str]) -> Pass:
    def run(module: Module) -> Module:
        try:
            result: object = named_pass.run(module)
        except CompileError as error:
            raise _of_pass(named_pass.name, "raised an error", error) from error
        except Exception as error:
            raise _located_error(named_pass.name, error) from error
        if result is module:
            return module
        if not isinstance(result, Module):
            message = f"the pass {named_pass.name} returned {kind_of(result)}, not a relay.Module"
            raise RelayError([Diagnostic(message, hint="return the module that it was given, or a new one")])
        typed = check_types(named_pass.name, result)
        for name in kept:
            _check_same_type(named_pass.name, name, module, typed)
        return typed

    return run


def check_types(name: str, module: Module) -> Module:
    """Return the result of a pass with types inferred. Raises RelayError, which names the pass."""
    try:
        for function in module.functions.values():
            _check_scopes(function)
        return infer_type(module, look_into_callees=True)
    except CompileError as error:
        raise _of_pass(name, "gave an ill-typed module", error) from error
    except Exception as error:
        message = f"the pass {name} gave a module that is not valid Relay: {last_line(error)}"
        raise RelayError([Diagnostic(message)]) from error


def _check_same_type(pass_name: str, name: str, before: Module, after: Module) -> None:
    if name not in after.functions:
        message = f"the pass {pass_name} removed @{name}, which is being compiled"
        raise RelayError([Diagnostic(message, before.functions[name].span)])
    was, now = (str(module.functions[name].checked_type) for module in (before, after))
    if was != now:
        message = f"the pass {pass_name} changed the type of @{name} from {was} to {now}"
        hint = "a pass may change how a function computes its result, not what it takes and returns"
        raise RelayError([Diagnostic(message, before.functions[name].span, hint)])


def _check_scopes(function: Function) -> None:
    """Raise RelayError for a variable that nothing binds."""
    nodes = list(post_order(function))
    bound = {var for node in nodes for var in binders(node)}
    for node in nodes:
        if isinstance(node, Var) and node not in bound:
            message = f"the variable %{node.name_hint} is used where nothing binds it"
            hint = "use the function's own Var: another one of the same name is another variable"
            raise RelayError([Diagnostic(message, node.span, hint)])


def _of_pass(name: str, did: str, error: CompileError) -> CompileError:
    """Return the error of a pass with the pass's name in each message."""
    named = [
        replace(diagnostic, message=f"the pass {name} {did}: {diagnostic.message}")
        for diagnostic in error.diagnostics
    ]
    return RelayError(named)


def _located_error(name: str, error: Exception) -> RelayError:
    """Return the located error for a pass that raised: it points at the line of the pass's own code."""
    message = f"the pass {name} raised {type(error).__name__}: {error}".rstrip(": ")
    return RelayError([Diagnostic(message, next(_places(error), None))])


def _places(error: Exception) -> Iterator[Span]:
    """Yield the places in code outside nnmagic that an error went through, innermost first."""
    for frame in reversed(frames_of(error)):
        if not is_ours(frame):
            filename, number = frame.tb_frame.f_code.co_filename, frame.tb_lineno
            lines = linecache.getlines(filename, frame.tb_frame.f_globals)
            if 0 < number <= len(lines):
                line = lines[number - 1].rstrip("\n")
                start = len(line) - len(line.lstrip()) + 1
                source = Source(filename, "".join(lines))
                yield Span(filename, number, start, number, len(line) + 1, source)
