"""What the evaluator carries out: the control flow of functions, as instructions over the slots of a frame.

A frame holds the values of one call of one function; its slot 0 holds the kernels of the run. Values are TVM
tensors, Python tuples, ``AdtValue``, ``RefCell`` and functions: ``Closure``, or a constructor of the IR.
Knows nothing of TVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nnmagic.diagnostics import Span

Slots = list[Any]


@dataclass(slots=True, eq=False)
class RefCell:
    """A reference: whoever holds it sees what was written last."""

    value: Any


@dataclass(slots=True, eq=False)
class FunctionCode:
    """The code of one function; filled in after it was made, because functions mention each other.

    params and captures: the slots of the parameters, and of the values from outside that the body uses.
    """

    name: str
    params: tuple[int, ...] = ()
    captures: tuple[int, ...] = ()
    size: int = 1
    body: Code = field(default_factory=lambda: Code((), 0))


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function as a value: its code and the values that it captured."""

    code: FunctionCode
    captured: Slots


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Instructions without a branch back, and the slot of what they come to."""

    instructions: tuple[Instruction, ...]
    result: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Computes something from slots and writes it into slots."""

    run: Callable[[Slots], None]


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Goes on with one of two pieces of code, as the tensor in ``cond`` says.

    ``last``, here and below: nothing is left to do after it, so no way back is kept.
    """

    cond: int
    then: Code
    other: Code
    target: int
    last: bool


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """Goes on with the first arm whose pattern takes the value; a pattern writes what it binds.

    ``assertion``: the message of one that stands for an assertion; ``span``: the place of the match.
    """

    data: int
    arms: tuple[tuple[Callable[[Any, Slots], bool], Code], ...]
    target: int
    last: bool
    assertion: str | None
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """Calls a function value, or the code of a global function."""

    callee: int | FunctionCode
    args: tuple[int, ...]
    target: int
    last: bool


Instruction = Step | Branch | Select | Apply
