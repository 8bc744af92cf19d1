"""Find the elements of arrays that the rounds of a loop read and write at one place: registers hold them.

``c[i, j] += a[i, k] * b[k, j]`` would wait for memory in each round, as nothing tells LLVM that ``a`` and
``b`` are not ``c``. Here that is known: no value changes in Relay, so what a loop changes in place is shared
with nothing else that it reads. (Compilers know this as scalar promotion.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import PLAIN, CountedLoop
from nnmagic.engine.relax.codegen.aot.loop_versions import Affine, Indices
from nnmagic.engine.relax.tir.builders import collect_loads
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Var


@dataclass(frozen=True, slots=True)
class InvariantElement:
    """The only element of an array that a loop accesses; ``indices`` are in terms of its parameters."""

    storage: aot.Storage
    buffer: Buffer
    indices: tuple[Affine, ...]
    sizes: dict[Var, PrimExpr]


def find_invariant_elements(
    loop: aot.NativeFunction, counted: CountedLoop, origin: Callable[[object], object]
) -> Iterator[InvariantElement]:
    """Yield the elements that each round of an innermost loop accesses, and some round may store.

    ``origin``: what a parameter is a copy of.
    """
    stored = {
        step.storage: None for step in aot.steps_of(counted.round) if isinstance(step, aot.StoreElement)
    }
    if not stored or not all(isinstance(step, PLAIN) for step in aot.steps_of(counted.round)):
        return
    indices = Indices(loop, counted, from_end=True)
    for storage in stored:
        accesses = list(_accesses(counted.round, storage))
        certain: aot.Region = [step for step in counted.round if not isinstance(step, aot.Branch)]
        always = any(True for _ in _accesses(certain, storage))
        places = [_place(indices, step, each, origin) for step, _, each in accesses]
        is_one = None not in places and all(place == places[0] for place in places)
        if is_one and always and storage.kind == "parameter":
            step, buffer, place = accesses[0]
            sums = [indices.evaluate(index, step) for index in place]
            known = tuple(each for each in sums if each is not None)
            yield InvariantElement(storage, buffer, known, step.sizes)


def _accesses(
    region: aot.Region, storage: aot.Storage
) -> Iterator[tuple[aot.ScalarCode | aot.StoreElement, Buffer, Sequence[Index]]]:
    """Yield the steps that read or write an element of an array, each with the array's buffer and indices."""
    for step in aot.steps_of(region):
        exprs: list[PrimExpr] = []
        if isinstance(step, aot.ScalarCode):
            exprs = [value for stage in step.stages for value in (*stage.values, *(stage.inits or ()))]
        elif isinstance(step, aot.StoreElement):
            exprs = [*step.indices, step.value]
            if step.storage is storage:
                yield step, step.buffer, step.indices
        if isinstance(step, aot.ScalarCode | aot.StoreElement):
            for load in collect_loads(*exprs):
                if step.values.get(load.source) is storage:
                    yield step, load.source, load.indices


def _place(
    indices: Indices,
    step: aot.ScalarCode | aot.StoreElement,
    place: Sequence[Index],
    origin: Callable[[object], object],
) -> list[Affine] | None:
    """Return indices as sums of origins that no round changes; None for others."""
    sums = [indices.evaluate(index, step) for index in place]
    known = [each.renamed(origin) for each in sums if each is not None and indices.counter not in each.terms]
    return known if len(known) == len(sums) else None
