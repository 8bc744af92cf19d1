"""Find functions that call themselves once, and go on afterwards: `linear_loops` makes loops of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.step_operands import values_read, written_storage, written_values


def find_linear_recursion(function: aot.NativeFunction) -> aot.LinearRecursion | None:
    """Return the call of a function that calls itself once, with the same sizes, in any run of it."""
    if not function.recursive or function.loops or function.result_dims:
        return None
    paths = list(_paths(function.body, function))
    # Two calls of itself make a tree of calls, as Fibonacci's numbers do, and mutual recursion a
    # stack of two kinds of frames: neither is a loop down and one up.
    if len(paths) != 1 or _is_reached_through_others(function):
        return None
    (path,) = paths
    region, position = path[-1]
    call = region[position]
    assert isinstance(call, aot.FunctionCall)
    # Levels with other sizes have frames of other sizes.
    if not all(size.same_as(dim) for size, dim in zip(call.sizes, function.dims, strict=True)):
        return None
    # A result that is a parameter is in one place on all levels only if each hands that on.
    if not set(map(function.parameters.__getitem__, function.changed.values())) <= invariant_parameters(
        function, call
    ):
        return None
    if any(isinstance(step, aot.DefineSize | aot.NameSizes) for step in function.steps()):
        return None
    if any(storage.on_heap for step in function.steps() for storage in written_storage(step)):
        return None
    recursion = aot.LinearRecursion(call, tuple(path))
    return replace(recursion, saved=tuple(_save(function, recursion)))


def invariant_parameters(function: aot.NativeFunction, call: aot.FunctionCall) -> set[aot.Value]:
    """Return the parameters that the call passes on as they are."""
    pairs = zip(function.parameters, call.args, strict=True)
    return {param for param, arg in pairs if param is arg}


def _paths(region: aot.Region, function: aot.NativeFunction) -> Iterator[list[tuple[aot.Region, int]]]:
    for position, step in enumerate(region):
        if isinstance(step, aot.FunctionCall) and step.callee is function:
            yield [(region, position)]
        if isinstance(step, aot.Branch):
            for part in (step.then, step.other):
                for path in _paths(part, function):
                    yield [(region, position), *path]


def _is_reached_through_others(function: aot.NativeFunction) -> bool:
    """Return whether a function that it calls calls it."""
    others = (callee for callee in aot.with_callees(function) if callee is not function)
    steps = (step for callee in others for step in callee.steps())
    return any(isinstance(step, aot.FunctionCall) and step.callee is function for step in steps)


def _save(
    function: aot.NativeFunction, recursion: aot.LinearRecursion
) -> Iterator[aot.Register | aot.Storage]:
    there: set[aot.Value] = set()
    there.update(function.parameters)
    there -= invariant_parameters(function, recursion.call)
    there.update(value for step in recursion.before() for value in written_values(step))
    there -= set(recursion.call.results)
    read = [value for step in aot.steps_of(list(recursion.after())) for value in values_read(step)]
    for value in dict.fromkeys(read):
        if value not in there or isinstance(value, aot.Immediate):
            continue
        if isinstance(value, aot.Register) or value.kind in ("pointer", "view", "parameter"):
            yield value
