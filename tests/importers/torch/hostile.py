"""Hostile operands for samples of torch's operators, and how near to eager torch's a result must be."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: The relative error of a result, a few units of its last place; bfloat16 and float16 have one or two.
RTOL = {torch.float64: 1e-11, torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
#: The finite hostile numbers of floats are these multiples of the largest, smallest and denormal ones.
_ORDINARY = (0.0, 1.0, -1.0, 0.5, 2.0, -3.0)
#: Results of more elements are left out.
_MOST_ELEMENTS = 10**7
#: So many elements that differ are computed one by one.
_SINGLE = 50


#: Functions whose results for hostile operands may differ, with the dtypes, and why.
SWORN: dict[str, tuple[tuple[str, ...], str]] = {}


def sworn(name: str, dtype: str) -> bool:
    """Return whether a difference of a function's results for hostile operands is accepted."""
    dtypes, _ = SWORN.get(name, ((), ""))
    return dtype in dtypes


def numbers(dtype: torch.dtype) -> list[float | int | bool]:
    """Return the hostile numbers of a dtype."""
    if dtype == torch.bool:
        return [False, True]
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        ends = [limits.min, limits.min + 1, -1, 0, 1, 2, limits.max - 1, limits.max]
        return [number for number in ends if limits.min <= number <= limits.max]
    kind = torch.finfo(dtype)
    finite = (kind.max, kind.tiny, kind.smallest_normal * kind.eps)
    signed = [sign * number for number in (*finite, float("inf")) for sign in (1, -1)]
    return [float("nan"), -0.0, *signed]


def fill(tensor: torch.Tensor, chance: random.Random, *, elementwise: bool) -> torch.Tensor:
    """Return a tensor of the same shape with hostile elements: all, beside ordinary ones, or one or two.

    Sums of the largest floats depend on their order: other functions than elementwise ones get one of them.
    """
    found = numbers(tensor.dtype)
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    if chance.random() < 0.4:
        beside = list(_ORDINARY) if tensor.dtype.is_floating_point else []
        if beside and not elementwise:
            found = [number for number in found if abs(number) != torch.finfo(tensor.dtype).max]
        chosen = [chance.choice(found + beside) for _ in range(flat.numel())]
        flat = torch.tensor(chosen, dtype=tensor.dtype)
    elif flat.numel():
        number = chance.choice(found)
        for _ in range(chance.choice((1, 1, 2)) if elementwise else 1):
            flat[chance.randrange(flat.numel())] = number
    return flat.reshape(tensor.shape)


def lay(tensor: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Return the same elements in another layout: transposed, with gaps, or behind others."""
    way = chance.randrange(4)
    if not tensor.ndim or not way:
        return tensor
    if way == 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1))
    part = wide[..., 1::2] if way == 2 else wide[..., wide.shape[-1] - tensor.shape[-1] :]
    part.copy_(tensor)
    return part


def cut(tensors: Sequence[torch.Tensor], size: int) -> list[torch.Tensor]:
    """Return tensors of one element, or without the elements of their last axis."""
    if size:
        return [tensor[(slice(0, 1),) * tensor.ndim] for tensor in tensors]
    return [tensor[..., :0] if tensor.ndim else tensor for tensor in tensors]


def eager(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> Any:
    """Return what torch gives for copies of tensors; None where it raises or gives too much."""
    try:
        with torch.no_grad():
            result = module(*[tensor.clone() for tensor in tensors])
    except Exception:  # noqa: BLE001 - torch refuses these numbers
        return None
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return None if sum(leaf.numel() for leaf in leaves) > _MOST_ELEMENTS else result


def draw(
    module: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    dtype: torch.dtype,
    chance: random.Random,
    *,
    elementwise: bool,
) -> list[torch.Tensor]:
    """Return hostile operands of the same shapes; those for which torch raises stay as they are."""
    drawn = list(tensors)
    for number, tensor in enumerate(tensors):
        if tensor.dtype != dtype or tensor.numel() > _MOST_ELEMENTS // 100:
            continue
        before = drawn[number]
        drawn[number] = lay(fill(tensor, chance, elementwise=elementwise), chance)
        if eager(module, drawn) is None:
            drawn[number] = before
    return drawn


def sizes(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Return the operands, and those of no and of one element that torch takes."""
    yield list(tensors)
    for size in (0, 1):
        smaller = cut(tensors, size)
        if any(one.shape != other.shape for one, other in zip(smaller, tensors, strict=True)):
            if eager(module, smaller) is not None:
                yield smaller


def is_of_single_elements(module: torch.nn.Module, tensors: Sequence[torch.Tensor], actual: Any) -> bool:
    """Return whether a result is torch's for single elements, where its code for vectors gives another."""
    wide = torch.broadcast_tensors(*tensors)
    expected = eager(module, tensors)
    if not isinstance(expected, torch.Tensor) or not expected.shape == wide[0].shape == actual.shape:
        return False
    places = _wrong(actual, expected, elementwise=True).nonzero().tolist()
    for place in places[:_SINGLE]:
        (single,) = eager(module, [tensor[tuple(place)].reshape(1) for tensor in wide])
        if _wrong(actual[tuple(place)], single, elementwise=True):
            return False
    return True


def difference(actual: Any, expected: Any, *, elementwise: bool) -> str | None:
    """Return how a result differs from torch's: in structure, dtype, shape, or in an element.

    NaN, infinities and the signs of zeros must be where torch has them. The error of a function of single
    elements is relative to each, that of others to the largest.
    """
    ours, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            one, other = torch.as_tensor(one), torch.as_tensor(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{one.dtype} {tuple(one.shape)}, not {other.dtype} {tuple(other.shape)}"
        wrong = _wrong(one.contiguous(), other.contiguous(), elementwise=elementwise)
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            return f"{int(wrong.sum())} of {wrong.numel()}: at {place} {one[place]!s}, not {other[place]!s}"
    return None


def _wrong(one: torch.Tensor, other: torch.Tensor, *, elementwise: bool) -> torch.Tensor:
    """Return which elements differ."""
    if not other.dtype.is_floating_point:
        return one != other
    rtol = RTOL[other.dtype]
    left, right = one.double(), other.double()
    finite = right.isfinite()
    scale = right.abs()
    if not elementwise and finite.any():
        scale = torch.maximum(scale, right[finite].abs().max().clamp(min=1.0))
    kind = torch.finfo(other.dtype)
    close = (left - right).abs() <= rtol * scale + kind.smallest_normal * kind.eps
    same = torch.where(finite, left.isfinite() & close, (left == right) | (left.isnan() & right.isnan()))
    zero = (left == 0) & (right == 0)
    return ~same | (zero & (left.signbit() != right.signbit()))
