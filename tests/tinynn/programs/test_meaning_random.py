"""Random valid cells mean what Python means by them: by a small engine over NumPy, some by the real one.

NNMAGIC_MEANING_PROGRAMS makes the search longer, NNMAGIC_MEANING_SEED another one. A failure says the seed;
``random_programs.program(seed)`` is the cell.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

import nnmagic
from nnmagic import relay
from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.relay.module import Module
from nnmagic.tinynn import compile_source
from tests.suites import FULL
from tests.tinynn.programs.interpreter import find_shared_nodes, run
from tests.tinynn.programs.random_programs import program
from tests.tinynn.programs.snippets.runner import same
from tests.tinynn.python_twin import plain, twin

PROGRAMS = int(os.environ.get("NNMAGIC_MEANING_PROGRAMS", "400" if FULL else "200"))
SEED = int(os.environ.get("NNMAGIC_MEANING_SEED", "0"))
#: So many go through the real engine, which takes longer.
BUILT = PROGRAMS // 10


def _make_case(seed: int) -> tuple[str, list[tuple[tuple[object, ...], object]]]:
    """A cell, and its calls with what Python gives."""
    source, calls = program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # what is odd in a program that chance wrote
        python = twin(source, {})
    return source, [(arguments, plain(python.call("f", *arguments))) for arguments in calls]


def _judge(seed: int, compiled: Callable[[str], Callable[..., object]]) -> None:
    source, calls = _make_case(seed)
    function = compiled(source)
    for arguments, expected in calls:
        same(function(*arguments), expected, f"seed {seed}, {arguments}", None)


#: A name of memory that was changed by another name cannot be read: programs know nothing of it.
_READS_STALE = "which NumPy would have changed, too"


def _module(source: str) -> Module:
    try:
        return compile_source(Source("cell", source), {}).module
    except TinyNNError as error:
        if _READS_STALE in str(error):
            pytest.skip("reads a name of an array that another name has changed")
        raise AssertionError(f"a valid cell is refused:\n{error}\n{source}") from None


def _interpret(source: str) -> Callable[..., object]:
    module = _module(source)
    for name, function in module.functions.items():
        assert not find_shared_nodes(function), f"@{name} computes something twice:\n{source}"
    text = module.astext()
    assert relay.structural_equal(relay.infer_type(relay.parse(text)), module), text
    return lambda *arguments: run(module, "f", *arguments)


@pytest.mark.sampled(every=2)
@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_programs_mean_what_python_means(part: int) -> None:
    for seed in range(SEED + part, SEED + PROGRAMS, 8):
        _judge(seed, _interpret)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::nnmagic.TinyNNWarning")  # names that chance leaves unused
@pytest.mark.parametrize("part", range(4))
def test_programs_run_as_python_runs(part: int) -> None:
    for seed in range(SEED + PROGRAMS + part, SEED + PROGRAMS + BUILT, 4):
        _judge(seed, lambda source: nnmagic.compile(source, namespace={}, cache=False))


def _nest(depth: int, line: str) -> str:
    """Statements in one another, ``{d}`` their depth."""
    lines = [f"{'    ' * (level + 1)}{line.format(d=level)}:" for level in range(depth)]
    return "\n".join(
        ["def f(x: f32, n: i64):", *lines, f"{'    ' * (depth + 1)}x = x + 1", "    return x", ""]
    )


def _one_line(text: str) -> str:
    return f"def f(x: f32, n: i64):\n    return {text}\n"


DEEP = {
    "loops": _nest(18, "for i{d} in range(n)"),
    "while": _nest(18, "while x > {d}"),
    "written out": _nest(18, "for i{d} in range(2)"),
    "long loops": _nest(18, "for i{d} in range(100)"),
    "branches": _nest(60, "if x > {d}"),
    "and": _one_line(" and ".join(f"n // {number + 2} > 1" for number in range(60))),
    "and in brackets": _one_line("(n // 2 > 1 and " * 30 + "n > 1" + ")" * 30),
    "choices": _one_line("".join(f"n + {number} if n > {number} else " for number in range(40)) + "n"),
    "choices in conditions": _one_line("(1 if " * 25 + "n > 1" + " else 0)" * 25),
    "comparisons": _one_line(" < ".join(f"n // {number + 2}" for number in range(60))),
    "branches in a row": "def f(x: f32):\n"
    + "".join(f"    if x > {number}:\n        x = x * 2\n" for number in range(1000))
    + "    return x\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_work_grows_with_the_size_of_a_cell(name: str) -> None:
    """Where each level doubled the work, some of these would take longer than the universe has."""
    assert _module(DEEP[name]).functions["f"]
