"""Make functions of JAX: ``f.jax`` takes and gives arrays, also under ``jit``, ``grad`` and ``vmap``.

A call leaves what XLA compiles by ``jax.pure_callback``, and runs the machine code of the cell there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from math import prod
from typing import Any

import numpy as np

from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.frameworks.flat import FlatFunction, specialize, stand_in
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.types import ARRAY_DTYPES, is_inexact
from nnmagic.tracebacks import short_errors

#: The dtypes that JAX has only where 64 bits are enabled.
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


class JaxFunction:
    """A compiled function of flat arrays of JAX. ``f.jax`` calls it."""

    def __init__(self, flat: FlatFunction) -> None:
        self.flat = flat

    @cached_property
    def differentiable(self) -> Callable[..., Any]:
        """The function with its gradients by JAX's reverse mode."""
        import jax

        function = jax.custom_vjp(self._call)
        function.defvjp(
            lambda *arrays: (function(*arrays), arrays), self._backward
        )  # itself, for second gradients
        return function  # type: ignore[no-any-return] # JAX is untyped here

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Run the function; Python's numbers become arrays. Raises TypeError or ValueError."""
        import jax
        import jax.numpy as jnp

        flat, name = self.flat, self.flat.function.name
        wide = _WIDE.intersection(leaf.dtype for leaf in (*flat.inputs, *flat.outputs))
        if wide and not jax.config.jax_enable_x64:
            hint = 'jax.config.update("jax_enable_x64", True)'
            raise TypeError(
                f"{name}() has {min(wide)}, and JAX has numbers of 32 bits only: say {hint} first"
            )
        arrays = [
            jnp.asarray(value, leaf.dtype)
            if isinstance(value, bool | int | float | complex)
            else jnp.asarray(value)
            for value, leaf in zip(leaves, flat.inputs, strict=True)
        ]
        results: Sequence[Any] = self.differentiable(*arrays)
        return results

    def _call(self, *arrays: Any) -> tuple[Any, ...]:
        import jax

        flat = self.flat
        shapes = flat.shapes([array.shape for array in arrays], [array.dtype.name for array in arrays])
        if any(None in shape for shape in shapes):
            message = f"{flat.function.name}() gives an array of a size that its values decide"
            raise TypeError(f"{message}, and JAX has none")
        results = [
            jax.ShapeDtypeStruct(shape, ARRAY_DTYPES[leaf.dtype])
            for shape, leaf in zip(shapes, flat.outputs, strict=True)
        ]
        return tuple(jax.pure_callback(self._run, results, *arrays, vmap_method="broadcast_all"))

    @short_errors
    def _run(self, *arrays: Any) -> list[np.ndarray]:
        """Compute the results; axes of batches that `vmap` has put in front are one."""
        given = [np.asarray(array) for array in arrays]
        rank = given[0].ndim - len(self.flat.inputs[0].shape)
        if not rank:
            return self.flat.run(given)
        sizes = given[0].shape[:rank]
        if not prod(sizes):
            shapes = self.flat.shapes([array.shape[rank:] for array in given])
            dtypes = [ARRAY_DTYPES[leaf.dtype] for leaf in self.flat.outputs]
            return [np.empty((*sizes, *shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        rows = [array.reshape(-1, *array.shape[rank:]) for array in given]
        return [result.reshape(*sizes, *result.shape[1:]) for result in self.flat.batched.run(rows)]

    @cached_property
    def pullback(self) -> JaxFunction:
        """The function that gives the gradients, and has gradients itself. Raises TinyNNError."""
        return JaxFunction(self.flat.pullback)

    def _backward(self, arrays: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        import jax

        flat = self.flat
        flows = [  # JAX has no cotangents of integers
            cotangent if is_inexact(leaf.dtype) else np.zeros(cotangent.shape, ARRAY_DTYPES[leaf.dtype])
            for cotangent, leaf in zip(cotangents, flat.outputs, strict=True)
        ]
        gradients = flat.gradients(self.pullback(flat.with_cotangents(arrays, flows)))
        return tuple(
            np.zeros(array.shape, jax.dtypes.float0) if gradient is None else gradient
            for array, gradient in zip(arrays, gradients, strict=True)
        )


def jax_function(function: CompiledFunction | SpecializingFunction) -> Callable[..., Any]:
    """Return the function that ``f.jax`` is. Raises TypeError for one that JAX has no arrays for."""
    import jax

    def view(value: Any) -> Any:
        return stand_in(value.dtype.name, value.shape) if isinstance(value, jax.Array) else value

    if isinstance(function, SpecializingFunction):

        def call(*args: Any, **kwargs: Any) -> Any:
            compiled, positional, keywords = specialize(function, args, kwargs, view)
            return compiled.jax(*positional, **keywords)

    else:
        flat = FlatFunction(function, "JAX")
        flat_function = JaxFunction(flat)

        def call(*args: Any, **kwargs: Any) -> Any:
            leaves, makers = flat.open(args, kwargs)
            return flat.close(flat_function(leaves), makers)

    return update_wrapper(call, function, updated=())
