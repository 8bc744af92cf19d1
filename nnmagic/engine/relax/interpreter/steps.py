"""Make the steps of the interpreter: Python statements that compute slots from slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nnmagic.engine.relax.analysis.tuple_flattening import leaves, nested_source
from nnmagic.engine.relax.interpreter.instructions import FunctionCode, SizedCallback, Step
from nnmagic.relay.types import TensorType, TupleType, Type


def constant(target: int, value: Any) -> Step:
    """Write a constant."""
    return Step((f"v{target} = c{target}",), (target,), constant=value)


def make_tuple(target: int, fields: Sequence[int]) -> Step:
    """Make a tuple of the values of slots."""
    return Step((f"v{target} = {tuple_source(slots(fields))}",), (target,), tuple(fields))


def get_field(target: int, tuple_: int, index: int) -> Step:
    """Take a field of a tuple."""
    return Step((f"v{target} = v{tuple_}[{index}]",), (target,), (tuple_,))


def construct(target: int, name: str, fields: Sequence[int]) -> Step:
    """Make a value of a data type."""
    parts = ", ".join([repr(name), *slots(fields)])
    return Step((f"v{target} = [{parts}]",), (target,), tuple(fields))


def make_closure(target: int, code: FunctionCode, captured: Sequence[int | None]) -> Step:
    """Make a function value; it captures itself where ``captured`` has None."""
    values = ", ".join("None" if slot is None else f"v{slot}" for slot in captured)
    source = [f"v{target} = Closure(c{target}, [{values}])"]
    source += [
        f"v{target}.captured[{index}] = v{target}" for index, slot in enumerate(captured) if slot is None
    ]
    return Step(tuple(source), (target,), tuple(slot for slot in captured if slot is not None), code)


def make_ref(target: int, value: int) -> Step:
    """Make a reference that holds a value."""
    return Step((f"v{target} = RefCell(v{value})",), (target,), (value,))


def read_ref(target: int, ref: int) -> Step:
    """Read what a reference holds."""
    return Step((f"v{target} = v{ref}.value",), (target,), (ref,))


def write_ref(target: int, ref: int, value: int) -> Step:
    """Write into a reference; the result is the empty tuple."""
    return Step((f"v{ref}.value = v{value}", f"v{target} = ()"), (target,), (ref, value))


def run_kernel(number: int, inputs: Sequence[tuple[int, Type]], targets: Sequence[int], type_: Type) -> Step:
    """Run a kernel and write its result, or the parts of its tuple, to the targets.

    Args:
        number: the kernel's number.
        inputs: the slots that it takes, with their types.
        targets: the slots of the result, or of its parts where there are several.
        type_: the type of the result.

    """
    reads = tuple(slot for slot, _ in inputs)
    given = [leaf for slot, operand in inputs for leaf in _leaf_sources(f"v{slot}", operand)]
    call = f"kernels[{number}]({tuple_source(given)})"
    if isinstance(type_, TensorType):
        return Step((f"v{targets[0]} = {call}",), tuple(targets), reads)
    slots = [f"r{index}" for index, _ in enumerate(leaves(type_))]
    items = iter(slots)
    types = type_.fields if isinstance(type_, TupleType) and len(targets) > 1 else (type_,)
    source = [f"{slots[0] if len(slots) == 1 else tuple_source(slots)} = {call}"]
    source += [
        f"v{target} = {nested_source(operand, items)}" for target, operand in zip(targets, types, strict=True)
    ]
    return Step(tuple(source), tuple(targets), reads)


def call_back(target: int, arguments: int, around: Sequence[int], callback: SizedCallback) -> Step:
    """Call a function of Python with the tuple of arguments in a slot; ``around``: the slots of sizes."""
    source = f"v{target} = c{target}(v{arguments}, {tuple_source(slots(around))})"
    return Step((source,), (target,), (arguments, *around), callback)


def slots(numbers: Iterable[int]) -> list[str]:
    """Return the names of slots."""
    return [f"v{number}" for number in numbers]


def tuple_source(parts: Iterable[str]) -> str:
    """Return the Python expression of a tuple, which is an assignment's target, too."""
    return f"({''.join(f'{part}, ' for part in parts)})"


def _leaf_sources(value: str, type_: Type) -> Iterator[str]:
    """Yield the Python expressions of the tensors of a value."""
    if isinstance(type_, TupleType):
        for index, field in enumerate(type_.fields):
            yield from _leaf_sources(f"{value}[{index}]", field)
    else:
        yield value
