"""Take the generators of random numbers that a call draws from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import Parameter
from nnmagic.relay.generators import state_of


def take_generators(arguments: Sequence[tuple[Parameter, object]]) -> list[np.random.Generator]:
    """Return the arguments that must be different generators of PCG64. Raises TypeError or ValueError."""
    generators: list[np.random.Generator] = []
    for parameter, value in arguments:
        if not isinstance(value, np.random.Generator):
            hint = "make one with numpy.random.default_rng(seed)"
            message = f"{parameter.name} must be a numpy.random.Generator, not {kind_of(value)}"
            raise TypeError(f"{message}; {hint}")
        kind = type(value.bit_generator)
        if kind is not np.random.PCG64:
            message = f"{parameter.name} must draw from a PCG64, not from a {kind.__name__}"
            raise TypeError(f"{message}; make it with numpy.random.default_rng(seed)")
        if any(value.bit_generator is other.bit_generator for other in generators):
            name = parameter.name.rpartition(" ")[2]
            raise ValueError(
                f"{parameter.name} is a generator that the call takes twice: give {name} another"
            )
        generators.append(value)
    return generators


def with_states(args: Iterable[object]) -> tuple[object, ...]:
    """Return arguments with the states of generators, which stay as they are."""
    return tuple(state_of(value) if isinstance(value, np.random.Generator) else value for value in args)


@contextmanager
def lock(generators: Sequence[np.random.Generator]) -> Iterator[None]:
    """Hold the locks of generators, so that no other thread draws from them."""
    if len(generators) == 1:
        with generators[0].bit_generator.lock:
            yield
        return
    with ExitStack() as stack:
        for generator in sorted(generators, key=lambda each: id(each.bit_generator)):
            stack.enter_context(generator.bit_generator.lock)
        yield
