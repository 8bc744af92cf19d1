"""Make a program small that shows a fault: leave out what the fault does not need."""

from __future__ import annotations

import ast
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.random_programs.judges import Fault, judge
from tests.random_programs.program import Program
from tests.random_programs.steps import Steps

#: Returns the fault of a program that is like the first one; None where there is none.
Finder = Callable[[Program], "Fault | None"]


def shrink(fault: Fault, judges: Sequence[str], seconds: float = 60.0) -> Fault:
    """Return the same fault of a program from which nothing can be left out, as far as there is time."""

    def find(program: Program) -> Fault | None:
        with _interrupted_after(10):  # a loop whose counter was left out
            return next((each for each in judge(program, judges).faults if each.kind == fault.kind), None)

    return shrink_with(fault, find, seconds)


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError where the body takes longer, in the main thread of systems that have signals."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def shrink_with(fault: Fault, find: Finder, seconds: float = 60.0) -> Fault:
    """Shrink as long as a finder finds the fault."""
    end = time.monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for program in candidates(fault):
            if time.monotonic() > end:
                return fault
            if found := find(program):
                fault, smaller = found, True
                break
    return fault


def candidates(fault: Fault) -> Iterator[Program]:
    """Yield smaller programs, the smallest ones first."""
    program = fault.program
    if program.steps is not None:
        for steps in _smaller_steps(program.steps, fault.name):
            made = steps.program(program.family, program.seed, program.rules)
            yield replace(made, steps=replace(steps, fused=program.steps.fused))
        return
    if len(program.calls) > 1:
        for arguments in program.calls:
            yield replace(program, calls=(arguments,))
    for source in smaller_sources(program.source):
        yield program.with_source(source)


def _smaller_steps(steps: Steps, name: str | None) -> Iterator[Steps]:
    if name is not None and len(steps.statements) > 1:
        for shorter in (steps.alone(name), steps.slice_of(name)):
            if shorter is not None and len(shorter.statements) < len(steps.statements):
                yield shorter
    for statement in reversed(steps.statements if len(steps.statements) > 1 else ()):
        yield steps.without([statement.name])
        if shorter := steps.cut(statement.name):
            yield shorter
    for option in steps.options:
        if steps.options[option] not in (None, 3):
            yield replace(steps, options={**steps.options, option: {"opt_level": 3}.get(option)})


def smaller_sources(source: str) -> Iterator[str]:
    """Yield a cell without some statements, with a block's statements instead of it, or simpler."""
    count = sum(1 for _ in ast.walk(ast.parse(source)))
    for size in (8, 4, 2, 1):
        for number in range(count):
            yield from _without_statements(source, number, size)
    for number in range(count):
        yield from _with_simpler_node(source, number)


def _without_statements(source: str, number: int, size: int) -> Iterator[str]:
    tree = ast.parse(source)
    node = _node(tree, number)
    for name in ("body", "orelse", "cases"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for first in range(0, len(block), size):
            rest = block[:first] + block[first + size :]
            if not rest and name != "orelse":
                rest = [ast.Pass()] if name == "body" and not isinstance(block[0], ast.Pass) else block
            if rest is not block and len(block) > 0:
                setattr(node, name, rest)
                yield from _unparse(tree)
                setattr(node, name, block)
        for index, statement in enumerate(block):
            if size > 1 or not isinstance(statement, ast.If | ast.For | ast.While):
                continue
            for inner in filter(None, (statement.body, statement.orelse)):
                setattr(node, name, [*block[:index], *inner, *block[index + 1 :]])
                yield from _unparse(tree)
                setattr(node, name, block)


def _with_simpler_node(source: str, number: int) -> Iterator[str]:
    """Yield the source with a part of an expression instead of it."""
    tree = ast.parse(source)
    node = _node(tree, number)
    for field, value in ast.iter_fields(node):
        if not isinstance(value, ast.expr) or field in ("annotation", "returns", "target", "cls", "func"):
            continue
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                setattr(node, field, part)
                yield from _unparse(tree)
        setattr(node, field, value)


def _node(tree: ast.AST, number: int) -> ast.AST:
    return next(node for index, node in enumerate(ast.walk(tree)) if index == number)


def _unparse(tree: ast.AST) -> Iterator[str]:
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    try:
        compile(text, "<cell>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    yield text
