"""Compiles sources that nobody wrote: ``fuzzing.py COUNT SECONDS SEED STATE``, as long as either allows.

A process of its own, so that a hang or a crash is seen from outside: STATE is a file that always holds the
source which is being compiled. What is wrong is printed, one JSON object a line, with a minimal source.
Its clock is the time that the processor works for it: a busy machine makes it later, not wrong.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import re
import resource
import signal
import sys
import time
import traceback
import types
from pathlib import Path

import numpy as np

from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.relay.infer import erase_types
from nnmagic.tinynn import compile_source

#: What a source may take: seconds of the processor, bytes of memory.
MOST_SECONDS = 10
#: Compiled code that never comes back to Python is ended after so many more.
_LAST_SECONDS = 60
MOST_BYTES = 6 << 30
_FIRST_LINE = 2
#: How many random cells are among the sources that are changed.
_RANDOM_CELLS = 300


def namespace() -> dict[str, object]:
    """A notebook's names, of every kind; whoever runs one of them is wrong."""

    def helper(*_args: object) -> object:
        raise AssertionError("nothing of the notebook runs")

    class Layer:
        __call__ = helper
        __getattr__ = helper

    return {
        "np": np,
        "math": math,
        "helper": helper,
        "layer": Layer(),
        "n": 3,
        "rate": 0.5,
        "W": np.ones((3, 4), np.float32),
        "I": np.array([0, 2], np.int32),
        "factors": [0.5, 2.0],
        "sizes": (2, 3),
        "mode": "double",
        "settings": {"a": 1},
        "thing": object(),
        "ops": types.ModuleType("ops"),
    }


def corpus() -> list[str]:
    """The sources of all snippets, those that are taken more often, some of the probes, and random cells."""
    from tests.random_programs.families.vocabulary import write
    from tests.tinynn.programs.snippets.cases import Accepted
    from tests.tinynn.programs.test_snippets import TOPICS, cases_of
    from tests.tinynn.syntax.probes import cells

    cases = [case for topic in TOPICS for case in cases_of(topic)]
    taken = [case.source for case in cases if isinstance(case, Accepted)]
    probes = [text for text in cells()[::4] if 20 < len(text) < 400]
    random_cells = [write(seed).source for seed in range(_RANDOM_CELLS)]
    return taken * 3 + [case.source for case in cases] + probes + random_cells


class SlowError(BaseException):
    """Out of time; no ``except Exception`` of the compiler keeps it."""


def _out_of_time(_signal: int, _frame: types.FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    raise SlowError


def fault_of(text: str, names: dict[str, object]) -> str | None:
    """What is wrong with how a source is compiled; None where it is a program or located errors."""
    handler = signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS + _LAST_SECONDS)
    try:
        return _fault_of(text, names)
    except SlowError as error:
        return f"slow: more than {MOST_SECONDS} s {_location_of(error)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGPROF, handler)


def _fault_of(text: str, names: dict[str, object]) -> str | None:
    try:
        program = compile_source(Source("cell", text, first_line=_FIRST_LINE), names)
        text_of_program = str(erase_types(program.module))
        if set(program.module.functions) < {info.name for info in program.functions if not info.open}:
            return "functions are missing"
        if program.module.functions and not text_of_program.startswith(("def @", "type ")):
            return "the program has no text"
    except TinyNNError as error:
        return _fault_of_errors(error, text)
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # noqa: BLE001  # that is what this looks for
        return f"{type(error).__name__}: {error} {_location_of(error)}"
    return None


def _location_of(error: BaseException) -> str:
    """Where it was raised; of what is slow the last line in the compiler."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SlowError):
        frames = [frame for frame in frames if "nnmagic" in Path(frame.filename).parts] or frames
    return f"({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _fault_of_errors(error: TinyNNError, text: str) -> str | None:
    lines = re.split(r"\r\n|\r|\n", text)
    if not error.diagnostics:
        return "an error without a diagnostic"
    seen = {(each.message, each.span) for each in error.diagnostics}
    if len(seen) < len(error.diagnostics):
        return "the same error twice"
    for each in error.diagnostics:
        span = each.span
        if span is None or not each.message:
            return f"an error without a location or words: {each.message}"
        last = len(lines) + _FIRST_LINE - 1
        inside = _FIRST_LINE <= span.line <= span.end_line <= last
        if not inside or not (span.line, span.column) < (span.end_line, span.end_column):
            return f"a location outside the cell: {each.message}"
        # A span at the end of a line may be one column wide.
        for line, column, more in ((span.line, span.column, 1), (span.end_line, span.end_column, 2)):
            if not 1 <= column <= len(lines[line - _FIRST_LINE]) + more:
                return f"a column outside its line: {each.message}"
        if re.search(r" object at 0x|<class |Traceback|\bTypeOf\(|\bComputed\(|\bKnown\(", each.message):
            return f"an inner name in a message: {each.message}"
        each.render()
    return None


def _kind(fault: str) -> str:
    """What stays of a fault when the source shrinks."""
    location = re.search(r"\((\w+\.py:\d+)\)$", fault)
    return location[1] if location else fault.split(":", maxsplit=1)[0]


def minimal(text: str, fault: str, names: dict[str, object], seconds: float = 5) -> str:
    """A shorter source with the same fault: lines, then stretches of characters are left out."""
    end, kind = time.process_time() + seconds, _kind(fault)
    for pieces in (text.split("\n"), None):
        parts = list(text) if pieces is None else pieces
        joint = "" if pieces is None else "\n"
        size = len(parts) // 2
        while size:
            at = 0
            while at < len(parts) and time.process_time() < end:
                shorter = parts[:at] + parts[at + size :]
                remaining = fault_of(joint.join(shorter), names)
                if remaining is not None and _kind(remaining) == kind:
                    parts = shorter
                else:
                    at += size
            size //= 2
        text = joint.join(parts)
    return text


def main(most: int, seconds: float, seed: int, state: Path) -> None:
    """Prints every kind of fault once, and last how many sources were compiled, in how many seconds."""
    mutate = importlib.import_module("tests.tinynn.fuzz.mutations").mutate
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    rng, sources, names = random.Random(seed), corpus(), namespace()
    kinds: set[str] = set()
    count, begin = 0, time.process_time()
    while count < most and time.process_time() - begin < seconds:
        text = mutate(rng, sources)
        state.write_text(text, encoding="utf-8", errors="surrogatepass")
        count += 1
        fault = fault_of(text, names)
        if fault is not None and _kind(fault) not in kinds:
            kinds.add(_kind(fault))
            shown = minimal(text, fault, names)
            print(json.dumps({"fault": fault, "source": shown}), flush=True)  # noqa: T201  # its output
    taken = {"count": count, "seconds": time.process_time() - begin}
    print(json.dumps(taken), flush=True)  # noqa: T201  # its output


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
