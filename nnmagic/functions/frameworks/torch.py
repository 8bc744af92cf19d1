"""Make functions of PyTorch: ``f.torch`` takes and gives tensors, with gradients and batches.

Each is an ``autograd.Function``, which ``torch.func`` can transform. What ``torch.compile`` traces calls the
same as a custom operator: a graph holds operators, and ``torch.func`` takes the gradient of none of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.frameworks.flat import FlatFunction, specialize
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.importers.torch.tensors import array_of, tensor_of
from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    import torch


class TorchOperator:
    """A compiled function as an operator of torch. ``f.torch`` calls it."""

    def __init__(self, flat: FlatFunction) -> None:
        self.flat = flat
        self.dtypes = [_dtype_of(leaf.dtype) for leaf in flat.inputs]
        self.operator = self._register()

    def _register(self) -> Any:
        """Return the custom operator. It takes tensors, and gives a tensor or a tuple of them."""
        import torch

        flat, count = self.flat, len(self.flat.outputs)
        definition = flat.function._definition
        identity = repr((definition.key, definition.name, definition.options)).encode()
        word = re.sub(r"\W", "_", definition.name)
        name = f"{word}_{sha256(identity).hexdigest()[:16]}"
        if (registered := getattr(torch.ops.nnmagic, name, None)) is not None:
            return registered  # that of an equal function
        taken = ", ".join(f"Tensor x{number}" for number in range(len(flat.inputs)))
        given = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        operator = torch.library.custom_op(
            f"nnmagic::{name}", self._compute, mutates_args=(), schema=f"({taken}) -> {given}"
        )
        operator.register_fake(self._fake)
        operator.register_autograd(self._backward, setup_context=_keep_inputs)
        operator.register_vmap(self._map)
        return getattr(torch.ops.nnmagic, name)

    @cached_property
    def eager(self) -> Callable[..., Any]:
        """The same for calls that nothing traces."""
        import torch

        operator = self

        class Differentiable(torch.autograd.Function):  # type: ignore[misc] # torch is untyped here
            forward = staticmethod(operator._compute)
            setup_context = staticmethod(_keep_inputs)
            backward = staticmethod(operator._backward)
            vmap = staticmethod(operator._map)

        return Differentiable.apply  # type: ignore[no-any-return]

    def __call__(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Run the operator; Python's numbers become tensors."""
        import torch

        given = [
            tensor if isinstance(tensor, torch.Tensor) else torch.as_tensor(tensor, dtype=dtype)
            for tensor, dtype in zip(tensors, self.dtypes, strict=True)
        ]
        known = torch.Tensor, torch.nn.Parameter  # other classes trace what is called
        is_traced = torch.compiler.is_compiling() or any(type(tensor) not in known for tensor in given)
        results = (self.operator if is_traced else self.eager)(*given)
        return results if isinstance(results, tuple) else (results,)

    @short_errors
    def _compute(self, *tensors: torch.Tensor) -> Any:
        for tensor, dtype, path in zip(tensors, self.dtypes, self.flat.paths, strict=True):
            if tensor.dtype != dtype and not self.flat.function._definition.options.convert:
                raise TypeError(
                    f"{path} must be of {dtype}, not {tensor.dtype}; convert it with .to({dtype})"
                )
        return _pack([tensor_of(array) for array in self.flat.run([array_of(each) for each in tensors])])

    def _fake(self, *tensors: torch.Tensor) -> Any:
        """Return tensors without numbers, of the results' shapes."""
        import torch

        shapes = self.flat.shapes([tensor.shape for tensor in tensors])
        context = torch.library.get_ctx() if any(None in shape for shape in shapes) else None
        return _pack(
            [
                torch.empty(
                    [context.new_dynamic_size() if size is None and context else size for size in shape],
                    dtype=_dtype_of(leaf.dtype),
                )
                for shape, leaf in zip(shapes, self.flat.outputs, strict=True)
            ]
        )

    @cached_property
    def pullback(self) -> TorchOperator:
        """The operator that gives the gradients, and has gradients itself. Raises TinyNNError."""
        return TorchOperator(self.flat.pullback)

    @cached_property
    def batched(self) -> TorchOperator:
        """The operator over a batch. Raises TinyNNError."""
        return TorchOperator(self.flat.batched)

    def _backward(self, ctx: Any, *cotangents: torch.Tensor) -> Any:
        # torch's gradients of complex numbers are the conjugates of JAX's, which nnmagic has.
        flows = [_conjugate(cotangent.contiguous()) for cotangent in cotangents]
        results = self.pullback(self.flat.with_cotangents(ctx.saved_tensors, flows))
        return tuple(
            tensor if tensor is None else _conjugate(tensor) for tensor in self.flat.gradients(results)
        )

    def _map(self, info: Any, in_dims: Sequence[int | None], *tensors: torch.Tensor) -> Any:
        moved = [
            tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims, strict=True)
        ]
        results = self.batched(moved)
        return (results[0], 0) if len(results) == 1 else (results, (0,) * len(results))


def torch_function(function: CompiledFunction | SpecializingFunction) -> Callable[..., Any]:
    """Return the function that ``f.torch`` is. Raises TypeError for one that torch has no tensors for."""
    import torch

    if isinstance(function, SpecializingFunction):

        @torch.compiler.disable  # type: ignore[untyped-decorator] # types are those of the tensors at hand
        def call(*args: Any, **kwargs: Any) -> Any:
            compiled, positional, keywords = specialize(function, args, kwargs, _view)
            return compiled.torch(*positional, **keywords)

    else:
        flat = FlatFunction(function, "torch")
        operator = TorchOperator(flat)

        def call(*args: Any, **kwargs: Any) -> Any:
            leaves, makers = flat.open(args, kwargs)
            return flat.close(operator(leaves), makers)

    return update_wrapper(call, function, updated=())


def _view(value: Any) -> Any:
    import torch

    return array_of(value) if isinstance(value, torch.Tensor) else value


def _dtype_of(dtype: str) -> torch.dtype:
    import torch

    found: torch.dtype = getattr(torch, dtype)
    return found


def _pack(tensors: Sequence[torch.Tensor]) -> Any:
    """Return what an operator gives: a tensor, or a tuple of them."""
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _keep_inputs(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
    integers = [
        tensor for tensor in (output if isinstance(output, tuple) else (output,)) if not _is_inexact(tensor)
    ]
    ctx.mark_non_differentiable(*integers)
    ctx.save_for_backward(*inputs)


def _is_inexact(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _conjugate(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.conj_physical() if tensor.is_complex() else tensor
