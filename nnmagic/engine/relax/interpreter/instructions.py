"""Define the interpreter's instructions: control flow over the slots of a frame.

A frame holds the values of one call of one function; its slot 0 holds the kernels of the run. Values are TVM
tensors, Python tuples, ``AdtValue``, ``RefCell`` and functions: ``Closure``, or a constructor of the IR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nnmagic.diagnostics import Span

Slots = list[Any]


@dataclass(slots=True, eq=False)
class RefCell:
    """A mutable reference."""

    value: Any


@dataclass(slots=True, eq=False)
class FunctionCode:
    """The code of a function; the body is filled in later, because functions refer to each other.

    Attributes:
        name: the function's name.
        params: the slots of the parameters.
        captures: the slots of the captured values.
        size: the number of slots.
        body: the instructions.

    """

    name: str
    params: tuple[int, ...] = ()
    captures: tuple[int, ...] = ()
    size: int = 1
    body: Code = field(default_factory=lambda: Code((), 0))


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function value: its code and the values that it captured."""

    code: FunctionCode
    captured: Slots


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Instructions without a backward branch, and the slot of the result."""

    instructions: tuple[Instruction, ...]
    result: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An instruction that computes slots from slots."""

    run: Callable[[Slots], None]


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Continue with one of two pieces of code, as the tensor in ``cond`` says.

    ``is_tail``, here and below: nothing follows it, so no return entry is pushed.
    """

    cond: int
    then: Code
    other: Code
    target: int
    is_tail: bool


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """Continue with the first arm whose pattern takes the value; a pattern writes what it binds.

    ``assertion``: the message of a match that stands for an assertion; ``span``: the location of the match.
    """

    data: int
    arms: tuple[tuple[Callable[[Any, Slots], bool], Code], ...]
    target: int
    is_tail: bool
    assertion: str | None
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """Call a function value, or the code of a global function."""

    callee: int | FunctionCode
    args: tuple[int, ...]
    target: int
    is_tail: bool


Instruction = Step | Branch | Select | Apply
