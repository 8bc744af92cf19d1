"""Damage data at random, and ask whether a reader refuses it at once and in words."""

from __future__ import annotations

import copy
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

#: Numbers at the ends of what sizes, axes and counts may be, and beyond.
NUMBERS = (0, 1, 2, 3, 7, -1, -2, -7, 64, 65, 99, 10**5, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-320)

#: How many seconds of the processor a case may take, and how many bytes of memory all may take together.
_LONGEST, _MOST_BYTES = 10, 6 << 30


class HangError(BaseException):
    """A case that does not end: no reader catches it."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise HangError


def damage_json(data: Any, draw: random.Random) -> None:
    """Change, remove, double or exchange one part of JSON data, in place."""
    places: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        part = waiting.pop()
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in items:
            places.append((part, key))
            waiting.append(value)
    if not places:
        return
    part, key = draw.choice(places)
    other, index = draw.choice(places)
    match draw.randrange(8):
        case 0:
            del part[key]
        case 1:
            part[key] = copy.deepcopy(other[index])
        case 2 if isinstance(part, list):
            part.append(part[key])
        case _:
            part[key] = _another(part[key], draw)


def _another(value: object, draw: random.Random) -> object:
    """Return another value, mostly of the same type."""
    if draw.random() < 0.1:
        return draw.choice((None, True, "", [], {}, -1, 0.5, "x"))
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((*NUMBERS, value + 1, value - 1))
        case float():
            return draw.choice(FLOATS)
        case str():
            return draw.choice(("", "\0", "float99", "é", value + value, value[:-1], value[::-1], "int64"))
    return draw.choice((None, 0, "", [], {}))


def damaged_text(text: str, draw: random.Random) -> str:
    """Return a text with a number, a word or a character changed, removed, doubled or exchanged."""
    tokens = re.findall(r"\w+|\s+|.", text)
    numbers = [index for index, each in enumerate(tokens) if each.isdecimal()]
    names = [index for index, each in enumerate(tokens) if each.isidentifier()]
    first, second = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    match draw.randrange(7):
        case 0:
            tokens[first] = ""
        case 1:
            tokens[first] *= 2
        case 2:
            tokens[first], tokens[second] = tokens[second], tokens[first]
        case 3 if names:
            tokens[draw.choice(names)] = tokens[draw.choice(names)]
        case _ if numbers:
            tokens[draw.choice(numbers)] = str(draw.choice(NUMBERS))
    return "".join(tokens)


def run(
    attempt: Callable[[random.Random], object], allowed: Sequence[type[Exception]], *, seed: int, count: int
) -> None:
    """Run an attempt many times; it draws its case, and may raise an allowed error.

    A case that raises another error, or an internal one, that does not end, or that takes much memory, ends
    this process with an error; the last number on standard output is that of the case.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    signal.signal(signal.SIGVTALRM, _stop)
    outcomes = Counter[str]()
    for number in range(count):
        print(number, flush=True)  # noqa: T201 - for who reads the output of the process
        signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
        try:
            attempt(random.Random(f"{seed} {number}"))
            outcomes["accepted"] += 1
        except tuple(allowed) as error:
            if "internal error" in str(error):
                raise
            outcomes["refused"] += 1
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if len(outcomes) < 2:
        raise AssertionError(f"all cases are {outcomes}")
