"""Make the steps of the interpreter: closures that compute slots from slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi

from nnmagic.engine.relax.analysis.tuple_flattening import flatten, rebuild
from nnmagic.engine.relax.interpreter.instructions import (
    Closure,
    FunctionCode,
    RefCell,
    Slots,
    Step,
)
from nnmagic.relay.types import TensorType, Type
from nnmagic.relay.values import AdtValue


def constant(target: int, value: Any) -> Step:
    """Write a constant."""

    def run_step(slots: Slots) -> None:
        slots[target] = value

    return Step(run_step)


def make_tuple(target: int, fields: Sequence[int]) -> Step:
    """Make a tuple of the values of slots."""

    def run_step(slots: Slots) -> None:
        slots[target] = tuple([slots[field] for field in fields])

    return Step(run_step)


def get_field(target: int, whole: int, index: int) -> Step:
    """Take a field of a tuple."""

    def run_step(slots: Slots) -> None:
        slots[target] = slots[whole][index]

    return Step(run_step)


def construct(target: int, name: str, fields: Sequence[int]) -> Step:
    """Make a value of a data type."""

    def run_step(slots: Slots) -> None:
        slots[target] = AdtValue(name, tuple([slots[field] for field in fields]))

    return Step(run_step)


def make_closure(target: int, code: FunctionCode, captured: Sequence[int | None]) -> Step:
    """Make a function value; it captures itself where ``captured`` has None."""

    def run_step(slots: Slots) -> None:
        closure = Closure(code, [])
        closure.captured.extend(closure if slot is None else slots[slot] for slot in captured)
        slots[target] = closure

    return Step(run_step)


def make_ref(target: int, value: int) -> Step:
    """Make a reference that holds a value."""

    def run_step(slots: Slots) -> None:
        slots[target] = RefCell(slots[value])

    return Step(run_step)


def read_ref(target: int, ref: int) -> Step:
    """Read what a reference holds."""

    def run_step(slots: Slots) -> None:
        slots[target] = slots[ref].value

    return Step(run_step)


def write_ref(target: int, ref: int, value: int) -> Step:
    """Write into a reference; the result is the empty tuple."""

    def run_step(slots: Slots) -> None:
        slots[ref].value = slots[value]
        slots[target] = ()

    return Step(run_step)


def run_kernel(number: int, inputs: Sequence[int], flat: bool, targets: Sequence[int], type_: Type) -> Step:
    """Run a kernel and write its result, or the parts of its tuple, to the targets."""
    single = isinstance(type_, TensorType)

    def run_step(slots: Slots) -> None:
        given = [slots[slot] for slot in inputs]
        result = slots[0][number](given if flat else list(flatten(tuple(given))))
        if single:
            slots[targets[0]] = result
            return
        tensors = iter([result] if isinstance(result, tvm_ffi.Tensor) else result)
        values = rebuild(type_, tensors)
        for slot, value in zip(targets, values if len(targets) > 1 else (values,), strict=True):
            slots[slot] = value

    return Step(run_step)
