"""Call a compiled program with torch's tensors: flatten arguments, write back changes, build results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.importers.torch.programs import Input, TorchProgram
from nnmagic.importers.torch.tensors import array_of, dtype_of, tensor_of


def call_program(
    program: TorchProgram, run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run a program on arguments in its own structure.

    Raises TypeError or ValueError for arguments that the program was not captured for, RuntimeError for
    tensors that require gradients.
    """
    from torch.utils import _pytree as pytree

    flat = _flatten(program, args, kwargs)
    numpy_only = not any(_is_tensor(item) for item in flat) and any(
        isinstance(item, np.ndarray) for item in flat
    )
    results = run_flat(program, run, flat)
    if numpy_only:
        results = [array_of(item) if _is_tensor(item) else item for item in results]
    return pytree.tree_unflatten(results, program.out_spec)


def run_flat(program: TorchProgram, run: Callable[..., Any], flat: Sequence[Any]) -> list[Any]:
    """Run a program on flat arguments; write what it changes, and return its other results."""
    import torch

    arguments = iter(flat)
    arrays = []
    for declared in program.inputs:
        if declared.kind == "buffer":
            arrays.append(_contiguous(declared.value))
            continue
        if declared.kind == "storage":
            owner = flat[declared.value].detach()
            memory = owner.new_empty(0).set_(owner.untyped_storage())
            arrays.append(array_of(memory if declared.length is None else memory[: declared.length]))
            continue
        if declared.kind == "drawn":
            continue
        item = next(arguments)
        if declared.kind == "tensor":
            arrays.append(_array(declared, item))
        elif declared.kind == "size":
            arrays.append(np.asarray(_size(declared, item), np.int64))
        else:
            _require_constant(declared, item)
    sizes = {
        name: int(arrays[number] if axis < 0 else arrays[number].shape[axis])
        for name, (number, axis) in program.sizes.items()
        if number < len(arrays)
    }
    arrays += [array_of(declared.value(sizes)) for declared in program.inputs if declared.kind == "drawn"]
    computed = run(*arrays)
    results: list[Any] = []
    changes: list[tuple[Any, Any]] = []
    for output in program.outputs:
        if output.kind == "constant":
            value = output.value
        elif output.kind == "input":
            value = flat[output.index]
        else:
            number = computed[output.index]
            value = tensor_of(number) if output.value is None else output.value(number)
            value = value if output.layout is None else output.layout.arrange(value, sizes)
        if output.target is None:
            results.append(value)
        else:
            target = flat[output.target] if isinstance(output.target, int) else output.target
            changes.append((target, value))
    with torch.no_grad():
        for target, value in changes:
            (target if _is_tensor(target) else torch.from_numpy(target)).copy_(value)
    return results if program.views is None else list(program.views(*results))


def _flatten(program: TorchProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the leaves of arguments, whose structure must be the one that was captured."""
    from torch.utils import _pytree as pytree

    expected = list(program.in_spec.child(1).context or []) if program.in_spec.num_children > 1 else []
    if set(expected) == set(kwargs):
        kwargs = {name: kwargs[name] for name in expected}
    flat: list[Any]
    flat, spec = pytree.tree_flatten((args, dict(kwargs)))
    if spec != program.in_spec:
        captured = pytree.tree_unflatten(["*"] * program.in_spec.num_leaves, program.in_spec)
        structure = pytree.tree_unflatten(["*"] * len(flat), spec)
        message = (
            f"{program.name}() was captured for arguments of the structure {captured[0]} and keywords "
            f"{captured[1]}, not {structure[0]} and {structure[1]}"
        )
        raise TypeError(message)
    return flat


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _array(declared: Input, item: Any) -> np.ndarray:
    import torch

    if isinstance(item, torch.Tensor):
        if item.requires_grad and torch.is_grad_enabled():
            message = (
                f"the argument {declared.name!r} requires a gradient, and this function computes none: call "
                'it under torch.no_grad(), or train with torch.compile(module, backend="nnmagic")'
            )
            raise RuntimeError(message)
        try:
            array = _contiguous(item)
        except TypeError as error:
            raise TypeError(f"the argument {declared.name!r}: {error}") from None
    elif isinstance(item, np.ndarray):
        array = np.ascontiguousarray(item) if item.ndim else item
    elif isinstance(item, bool | int | float):
        array = np.asarray(torch.tensor(item).numpy())
    else:
        raise TypeError(f"the argument {declared.name!r} must be a tensor, not {kind_of(item)}")
    for axis, least, most in declared.bounds:
        if axis < array.ndim and not least <= array.shape[axis] <= most:
            message = (
                f"the argument {declared.name!r} has {array.shape[axis]} elements along axis {axis}; "
                f"the program was captured for {least} to {most if most < 2**62 else 'any number'}"
            )
            raise ValueError(message)
    return array


def _contiguous(tensor: Any) -> np.ndarray:
    dtype_of(tensor.dtype)
    return array_of(tensor if tensor.is_contiguous() else tensor.detach().contiguous())


def _size(declared: Input, item: Any) -> int:
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise TypeError(f"the argument {declared.name!r} must be an int, not {kind_of(item)}")
    return int(item)


def _require_constant(declared: Input, item: Any) -> None:
    same = item is declared.value or (type(item) is type(declared.value) and item == declared.value)
    if not same:
        message = f"the argument {declared.name!r} must be {declared.value!r}, as it was when captured"
        raise ValueError(f"{message}, not {item!r}")
