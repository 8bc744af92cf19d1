"""Compile and call sources that nobody wrote: ``python -m tests.tinynn.fuzz.executed_mutations FIRST COUNT``.

Each seed is a changed snippet, which a child process of its own compiles to machine code and calls with
random arguments. It is interrupted at a random moment, unless it has ended before. Then it must answer: with
results, with an error that a user may see, or that it was interrupted. It must not crash, nor go on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

import nnmagic
from nnmagic.diagnostics import CompileError
from tests.tinynn.fuzz.fuzzing import MOST_BYTES, corpus, namespace
from tests.tinynn.fuzz.mutations import mutate
from tests.tinynn.programs.snippets.arguments import arguments_of
from tests.tinynn.programs.snippets.cases import Accepted

#: The longest time until a child is interrupted, in seconds.
_LONGEST = 4.0
#: How often a child is looked at, in seconds, and how much longer it may sleep than it may work.
_TICK, _MOST_WAITING = 0.05, 60
#: What a call may raise.
_CALL_ERRORS = (
    *(ValueError, TypeError, IndexError, ZeroDivisionError, AssertionError),
    *(RecursionError, MemoryError, OverflowError),
)


@dataclass(frozen=True)
class Outcome:
    """How a child ended: ``kind`` is one of the answers below, or what is wrong."""

    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        """Return whether the child gave none of the answers that it may."""
        return self.kind not in ("refused", "compiled", "called", "a call error", "interrupted")


def outcomes(first: int, count: int, patience: float) -> Iterator[tuple[int, str, Outcome]]:
    """Yield each seed, its source, and how it ended; ``patience``: seconds of the processor from
    interrupt to answer.
    """
    nnmagic.compile("def f(x: f32):\n    return x + 1\n", cache=False)(1.0)  # imports what children need
    sources = corpus()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        text = mutate(rng, sources)
        yield seed, text, run_in_child(text, _LONGEST * rng.random() ** 2, patience)


def run_in_child(text: str, delay: float, patience: float) -> Outcome:
    """Compile and call a source in a child, interrupt it after a delay, and wait for its answer."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _answer(text, write)
    os.close(write)
    with os.fdopen(read, "rb", buffering=0) as answers:
        answers.read(1)  # it has begun
        if not select.select([answers], [], [], delay)[0]:
            os.kill(child, signal.SIGINT)
        if not _wait(answers, child, patience):
            os.kill(child, signal.SIGKILL)
        answer = answers.readall()
    status = os.waitpid(child, 0)[1]
    if answer:
        return Outcome(*json.loads(answer))
    number = os.waitstatus_to_exitcode(status)
    return Outcome("no answer after the interrupt" if number == -signal.SIGKILL else f"ended by {number}")


def _wait(answers: RawIOBase, child: int, patience: float) -> bool:
    """Wait for an answer, for so many seconds of the processor; return whether it came."""
    begin = _processor_seconds(child)
    for _ in range(int(_MOST_WAITING * patience / _TICK)):
        if select.select([answers], [], [], _TICK)[0]:
            return True
        if _processor_seconds(child) - begin > patience:
            break
    return bool(select.select([answers], [], [], 0)[0])


def _processor_seconds(process: int) -> float:
    """Return for how long the processor has worked for a process."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answer(text: str, write: int) -> None:
    working = True

    def interrupt(*_: object) -> None:
        nonlocal working
        if working:
            working = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        os.write(write, b".")
        outcome = _compile_and_call(text)
        working = False
    except KeyboardInterrupt:
        outcome = "interrupted", ""
    except BaseException as error:  # noqa: BLE001 - that is what this looks for
        outcome = type(error).__name__, str(error)[:300]
    working = False
    os.write(write, json.dumps(outcome).encode())
    os._exit(0)


def _compile_and_call(text: str) -> tuple[str, str]:
    names = namespace()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
            function = nnmagic.compile(text, namespace=names, cache=False)
    except CompileError:
        return "refused", ""
    try:
        calls = arguments_of(Accepted("", text, namespace=names))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - such parameters have no random arguments
        return "compiled", ""
    for arguments in calls:
        try:
            function(*arguments)
        except CompileError:  # noqa: PERF203 - there are three calls; types that come from a call
            return "refused", ""
        except _CALL_ERRORS as error:
            return "a call error", f"{type(error).__name__}: {str(error)[:300]}"
    return "called", ""


def main() -> int:
    """Run the seeds that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many seeds")
    parser.add_argument(
        "--patience",
        type=float,
        default=1.0,
        help="seconds of the processor from the interrupt to the answer",
    )
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    faults = 0
    for seed, text, outcome in outcomes(options.first, options.count, options.patience):
        kinds[outcome.kind] += 1
        if outcome.is_fault:
            faults += 1
            print(f"## seed {seed}: {outcome.kind} {outcome.detail}\n{text}\n", flush=True)  # noqa: T201
    print(f"{sum(kinds.values())} sources: {dict(kinds)}", flush=True)  # noqa: T201  # its output
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
