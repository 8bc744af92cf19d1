"""Find functions that call themselves once, and go on afterwards: `linear_loops` makes loops of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnmagic.engine.relax.codegen.aot.memory import values_read
from nnmagic.engine.relax.codegen.aot.program import (
    Conditional,
    DefineSize,
    FunctionCall,
    Immediate,
    LinearRecursion,
    NameSizes,
    NativeFunction,
    Region,
    Register,
    Storage,
    Value,
    steps_of,
    values_written,
    with_callees,
    written_storage,
)


def find_linear_recursion(function: NativeFunction) -> LinearRecursion | None:
    """Return the call of a function that calls itself once, with the same sizes, in any run of it."""
    if not function.recursive or function.loops or function.changed or function.result_dims:
        return None
    paths = list(_paths(function.body, function))
    if len(paths) != 1 or _is_reached_through_others(function):
        return None
    (path,) = paths
    region, position = path[-1]
    call = region[position]
    assert isinstance(call, FunctionCall)
    if not all(size.same_as(dim) for size, dim in zip(call.sizes, function.dims, strict=True)):
        return None
    if any(isinstance(step, DefineSize | NameSizes) for step in function.steps()):
        return None
    if any(storage.on_heap for step in function.steps() for storage in written_storage(step)):
        return None
    recursion = LinearRecursion(call, tuple(path))
    return replace(recursion, saved=tuple(_saved(function, recursion)))


def invariant_parameters(function: NativeFunction, call: FunctionCall) -> set[Value]:
    """Return the parameters that the call passes on as they are."""
    pairs = zip(function.parameters, call.args, strict=True)
    return {param for param, arg in pairs if param is arg}


def _paths(region: Region, function: NativeFunction) -> Iterator[list[tuple[Region, int]]]:
    for position, step in enumerate(region):
        if isinstance(step, FunctionCall) and step.callee is function:
            yield [(region, position)]
        if isinstance(step, Conditional):
            for part in (step.then, step.other):
                for path in _paths(part, function):
                    yield [(region, position), *path]


def _is_reached_through_others(function: NativeFunction) -> bool:
    """Return whether a function that it calls calls it."""
    others = (each for each in with_callees(function) if each is not function)
    steps = (step for each in others for step in each.steps())
    return any(isinstance(step, FunctionCall) and step.callee is function for step in steps)


def _saved(function: NativeFunction, recursion: LinearRecursion) -> Iterator[Register | Storage]:
    there: set[Value] = set()
    there.update(function.parameters)
    there -= invariant_parameters(function, recursion.call)
    there.update(value for step in recursion.before() for value in values_written(step))
    there -= set(recursion.call.results)
    read = [value for step in steps_of(list(recursion.after())) for value in values_read(step)]
    for value in dict.fromkeys(read):
        if value not in there or isinstance(value, Immediate):
            continue
        if isinstance(value, Register) or value.kind in ("pointer", "view", "parameter"):
            yield value
