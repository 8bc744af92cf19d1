"""Define the interpreter's instructions: control flow over the slots of a function.

A slot holds one value of one call. Values are NumPy arrays, Python tuples, ``RefCell``, ``Closure``, and
lists for values of data types: the constructor's name, then the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.callbacks import Callback
from nnmagic.relay.failures import Failure
from nnmagic.relay.sizes import Sizes, bind_sizes
from nnmagic.relay.types import Type

#: What a block needs of a call of its function: the arguments and captured values, or what it resumes with.
Frame: TypeAlias = tuple[Any, ...]

#: The kernels of a run, by number: each takes a tuple of arrays, and returns an array or some.
Kernels: TypeAlias = Sequence[Callable[[tuple[Any, ...]], Any]]

#: A straight-line or branching part of a function: takes the kernels, the return stack and its frame, and
#: returns the block to continue with and that block's frame.
Block: TypeAlias = Callable[[Kernels, "list[tuple[Block, Frame]]", Frame], Any]


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
        start: the first block, made of the body by the first call.

    """

    name: str
    params: tuple[int, ...] = ()
    captures: tuple[int, ...] = ()
    size: int = 0
    body: Code = field(default_factory=lambda: Code((), 0))
    start: Block = field(init=False)


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function value: its code and the values that it captured."""

    code: FunctionCode
    captured: Sequence[Any]


@dataclass(frozen=True, slots=True, eq=False)
class SizedCallback:
    """A call of a function of Python; ``types``: those of the values whose sizes its results are named by."""

    callback: Callback
    types: Sequence[Type]

    def __call__(self, arguments: Sequence[np.ndarray], around: Sequence[object]) -> Any:
        """Return the result for the arguments, given the values around."""
        sizes: Sizes = {}
        for type_, value in zip(self.types, around, strict=True):
            bind_sizes(type_, value, sizes)
        return self.callback(arguments, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Instructions without a backward branch, and the slot of the result.

    Attributes:
        instructions: the instructions.
        result: the slot of the result.
        free: the slots that it reads and does not write before.
        calls: whether it calls a function.
        nesting: how deep branches are nested in it.

    """

    instructions: tuple[Instruction, ...]
    result: int
    free: frozenset[int] = field(init=False)
    calls: bool = field(init=False)
    nesting: int = field(init=False)

    def __post_init__(self) -> None:
        inner = [
            code
            for instruction in self.instructions
            if isinstance(instruction, Branch | Select)
            for code in instruction.codes
        ]
        *_, free = live_before(self)
        object.__setattr__(self, "free", frozenset(free))
        object.__setattr__(
            self,
            "calls",
            any(isinstance(instruction, Apply) for instruction in self.instructions)
            or any(code.calls for code in inner),
        )
        object.__setattr__(self, "nesting", max((1 + code.nesting for code in inner), default=0))


def live_before(code: Code) -> Iterator[set[int]]:
    """Yield the slots that are live at the end, before the last instruction, and so on to the first.

    It is one set, which changes.
    """
    live = {code.result}
    yield live
    for instruction in reversed(code.instructions):
        live.difference_update(instruction.writes)
        live.update(instruction.reads)
        yield live


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An instruction that computes slots from slots: Python statements, where ``v3`` is slot 3.

    ``constant``: what ``c3`` is in a step that writes slot 3.
    """

    source: tuple[str, ...]
    writes: tuple[int, ...]
    reads: tuple[int, ...] = ()
    constant: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Continue with one of two pieces of code, as the array in ``cond`` says."""

    cond: int
    then: Code
    other: Code
    target: int

    @property
    def codes(self) -> Sequence[Code]:
        """The pieces of code."""
        return self.then, self.other

    @property
    def writes(self) -> Sequence[int]:
        """The slots that it writes."""
        return (self.target,)

    @property
    def reads(self) -> frozenset[int]:
        """The slots that it reads."""
        return self.then.free | self.other.free | {self.cond}


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """An arm of a match: Python conditions on the value, the slots that it binds, and its code.

    ``binds``: the slots, and what Python expressions of the value are bound.
    """

    conditions: tuple[str, ...]
    binds: tuple[tuple[int, str], ...]
    code: Code


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """Continue with the first arm whose pattern takes the value.

    ``assertion``: what a match raises that stands for an assertion; ``span``: the location of the match.
    """

    data: int
    arms: tuple[Arm, ...]
    target: int
    assertion: Failure | None
    span: Span | None

    @property
    def codes(self) -> Sequence[Code]:
        """The pieces of code."""
        return [arm.code for arm in self.arms]

    @property
    def writes(self) -> Sequence[int]:
        """The slots that it writes."""
        return (self.target,)

    @property
    def reads(self) -> frozenset[int]:
        """The slots that it reads."""
        inside = (arm.code.free.difference(slot for slot, _ in arm.binds) for arm in self.arms)
        return frozenset({self.data}).union(*inside)


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """Call a function value, or the code of a global function."""

    callee: int | FunctionCode
    args: tuple[int, ...]
    target: int

    @property
    def writes(self) -> Sequence[int]:
        """The slots that it writes."""
        return (self.target,)

    @property
    def reads(self) -> Sequence[int]:
        """The slots that it reads."""
        return (self.callee, *self.args) if isinstance(self.callee, int) else self.args


Instruction = Step | Branch | Select | Apply
