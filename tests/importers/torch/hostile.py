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


_EMPTY = "a window has no element: torch's index of it may lie outside of the image"
_MOMENTS = "torch updates means and variances element by element: the largest numbers and infinities give NaN"
_PRODUCTS = "sums of products depend on the order in which they are computed"
_ZEROS = "the zeros between and around elements are multiplied by infinite weights"
_EXTREMES = "torch's maximum of these passes over NaN"
_POLES = "torch's values at the poles and at infinity are those of rounded numbers"
_COORDINATES = "coordinates beyond all integers are converted to integers"
_ASYMPTOTIC = "torch's trigamma function is within 1e-11"
_SQUARES = "torch sums the squares of float32 in float64"
_FFT = ("fft", "ifft", "hfft", "ihfft", "rfft", "irfft")
_TRANSFORMS = (*(f"fft.{kind}{axes}" for kind in _FFT for axes in ("", "2", "n")), "stft", "istft")
#: Functions whose results for hostile operands may differ from torch's, and why.
SWORN = {
    **dict.fromkeys(("fmax", "fmin"), "C's fmax and fmin may give either of 0.0 and -0.0"),
    **dict.fromkeys(("nn.functional.relu", "relu"), "0.0 and -0.0 are one number"),
    **dict.fromkeys(("native_group_norm", "native_layer_norm"), _MOMENTS),
    **dict.fromkeys(("nn.functional.group_norm", "nn.functional.layer_norm"), _MOMENTS),
    **dict.fromkeys(("nn.functional.batch_norm", "nn.functional.instance_norm"), _MOMENTS),
    **dict.fromkeys(("_native_batch_norm_legit", "native_batch_norm"), _MOMENTS),
    **dict.fromkeys((f"nn.functional.conv_transpose{rank}d" for rank in (1, 2, 3)), _ZEROS),
    **dict.fromkeys((f"nn.functional.conv{rank}d" for rank in (1, 2, 3)), f"{_ZEROS}; oneDNN spreads NaN"),
    "max_pool2d_with_indices_backward": _EMPTY,
    **dict.fromkeys((f"nn.functional.max_pool{rank}d" for rank in (1, 2, 3)), _EMPTY),
    **dict.fromkeys(("nn.functional.bilinear", "addr", "addbmm"), _PRODUCTS),
    **dict.fromkeys(_TRANSFORMS, _PRODUCTS),
    "linalg.solve_triangular": "the factors of a whole matrix spread NaN to all rows",
    **dict.fromkeys(("triangular_solve", "cholesky_solve", "cholesky_inverse"), _PRODUCTS),
    **dict.fromkeys((f"polygamma.polygamma_n_{order}" for order in range(5)), _POLES),
    "special.polygamma.special_polygamma_n_0": _POLES,
    **dict.fromkeys(
        ("dist", "nn.functional.triplet_margin_loss", "nn.functional.triplet_margin_with_distance_loss"),
        _SQUARES,
    ),
    **dict.fromkeys(("var_mean", "std_mean", "var_mean.unbiased", "std_mean.unbiased"), _MOMENTS),
    **dict.fromkeys(("nn.functional.grid_sample", "grid_sampler_2d", "grid_sampler_3d"), _COORDINATES),
    "addmv": "torch gives the shape of a number that is added where the matrix has no columns",
    **dict.fromkeys(
        (f"nn.functional.interpolate.{kind}" for kind in ("linear", "bilinear", "trilinear", "bicubic")),
        _PRODUCTS,
    ),
    **dict.fromkeys(("nn.functional.upsample_bilinear", "_upsample_bilinear2d_aa"), _PRODUCTS),
    **dict.fromkeys(("cdist", "nn.functional.embedding_bag"), _EXTREMES),
    "special.ndtr": "a unit in the last place of erf shows where 1 is added to it",
    "matrix_exp": "torch overflows in halves",
    "mode": "torch sorts by comparisons, which are false of NaN",
    "unique": "torch gives several NaN, and slices that have some, any order",
    "linalg.slogdet": "torch has the sign 0 for NaN",
    **dict.fromkeys(("bucketize", "searchsorted"), "the boundaries are not sorted"),
}
#: Functions that torch computes of bytes with weights of 16 bits: results differ by 1.
OF_BYTES = frozenset(name for name in SWORN if "interpolate" in name or "upsample" in name)
#: Functions that torch computes with less precision than its other ones, and why.
IMPRECISE = {
    **dict.fromkeys(("polygamma.polygamma_n_1", "polygamma.polygamma_n_2"), _ASYMPTOTIC),
    "special.polygamma.special_polygamma_n_0": _ASYMPTOTIC,  # whose samples have the orders 0 to 4
    "nn.functional.bilinear": "torch rounds sums of halves after each addend",
}
#: Functions of which equal elements have indices in any order: only their first results are compared.
ANY_ORDER = frozenset(("topk", "kthvalue", "mode", "median", "nanmedian"))
#: Functions for which torch's LAPACK ends the process where an element is NaN or infinite.
CRASHING = frozenset(("linalg.eig", "linalg.eigvals"))
#: Functions that read elements by their strides, which Dynamo guards.
OF_STRIDES = frozenset(("as_strided", "as_strided_copy", "as_strided_scatter", "as_strided.partial_views"))
#: What a call refuses in words, and torch computes.
REFUSED = (
    *("Singular matrix", "Matrix is not positive definite", "SVD did not converge"),
    *("the norm of a matrix is too large", "factors that are arguments are not supported"),
)


def numbers(name: str, dtype: torch.dtype) -> list[float | int | bool]:
    """Return the hostile numbers of a dtype; torch crashes where the least integer is divided by -1."""
    if dtype == torch.bool:
        return [False, True]
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        ends = [limits.min, limits.min + 1, -1, 0, 1, 2, limits.max - 1, limits.max]
        if any(word in name for word in ("div", "remainder", "fmod", "__rmod__")):
            ends.remove(limits.min)
        return [number for number in ends if limits.min <= number <= limits.max]
    kind = torch.finfo(dtype)
    finite = (kind.max, kind.tiny, kind.smallest_normal * kind.eps)
    signed = [sign * number for number in (*finite, float("inf")) for sign in (1, -1)]
    return [float("nan"), -0.0, *signed]


def fill(name: str, tensor: torch.Tensor, chance: random.Random, *, elementwise: bool) -> torch.Tensor:
    """Return a tensor of the same shape with hostile elements: all, beside ordinary ones, or one or two.

    Sums of the largest floats depend on their order: other functions than elementwise ones get one of them.
    """
    found = numbers(name, tensor.dtype)
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
    name: str,
    module: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    dtype: torch.dtype,
    chance: random.Random,
    *,
    elementwise: bool,
) -> list[torch.Tensor]:
    """Return hostile operands of the same shapes; those for which torch raises stay as they are."""
    drawn = list(tensors)
    is_laid = name not in OF_STRIDES
    for number, tensor in enumerate(tensors):
        if tensor.dtype != dtype or tensor.numel() > _MOST_ELEMENTS // 100:
            continue
        before = drawn[number]
        if not dtype.is_complex:  # of which torch's own functions differ
            drawn[number] = fill(name, tensor, chance, elementwise=elementwise)
        if is_laid:
            drawn[number] = lay(drawn[number], chance)
        if eager(module, drawn) is None:
            drawn[number] = before
    return drawn


def sizes(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Return the operands, and those of no and of one element that torch takes."""
    yield list(tensors)
    for size in (0, 1):
        smaller = cut(tensors, size)
        differs = any(one.shape != other.shape for one, other in zip(smaller, tensors, strict=True))
        if differs and eager(module, smaller) is not None:
            yield smaller


class AsWritten(torch.fx.Interpreter):
    """Run a graph with stable sorts, and with products that are rounded before they are added.

    Sorts of torch are stable if it is asked for that only; of eager torch, not of inductor, a sum with a
    factor ``alpha`` is one operation, so that the product may be higher than the largest number.
    """

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        aten = torch.ops.aten
        if target is aten.sort.default:
            kwargs = {**dict(zip(("dim", "descending"), args[1:], strict=False)), **kwargs}
            return aten.sort.stable(args[0], stable=True, **kwargs)
        if target in (aten.add.Tensor, aten.sub.Tensor) and "alpha" in kwargs:
            return target(args[0], args[1] * kwargs["alpha"])
        return super().call_function(target, args, kwargs)


def is_of_single_elements(module: torch.nn.Module, tensors: Sequence[torch.Tensor], actual: Any) -> bool:
    """Return whether a result is torch's for single elements, where its code for vectors gives another."""
    expected = eager(module, tensors)
    (actual, *others) = pytree.tree_leaves(actual)
    shape = None if others else getattr(expected, "shape", None)
    if not tensors or shape is None or actual.shape != shape:
        return False
    try:
        wide = torch.broadcast_tensors(*tensors)
    except RuntimeError:
        return False
    if wide[0].shape != shape:
        return False
    places = _wrong(actual, expected, elementwise=True).nonzero().tolist()
    for place in places[:_SINGLE]:
        single = eager(module, [tensor[tuple(place)].reshape(1) for tensor in wide])
        if single is None or _wrong(actual[tuple(place)].reshape(1), single, elementwise=True):
            return False
    return bool(places)


def _widest(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.dtype.is_floating_point else tensor


def is_nearer(module: torch.nn.Module, tensors: Sequence[torch.Tensor], actual: Any) -> bool:
    """Return whether results are, where they differ from torch's, nearer to what torch has for float64."""
    doubles = [_widest(tensor) for tensor in tensors]
    found = (actual, eager(module, tensors), eager(module, doubles))
    ours, theirs, exact = (pytree.tree_leaves(result) for result in found)
    if not exact or not len(ours) == len(theirs) == len(exact):
        return False
    for one, other, third in zip(ours, theirs, exact, strict=True):
        if not isinstance(third, torch.Tensor) or not other.shape == one.shape == third.shape:
            return False
        wrong = _wrong(one, other, elementwise=True)
        errors = (
            torch.where(item == third, 0.0, (_widest(item) - third).abs())[wrong] for item in (one, other)
        )
        if not torch.less_equal(*(error.nan_to_num(nan=float("inf")) for error in errors)).all():
            return False
    return True


def difference(actual: Any, expected: Any, *, elementwise: bool) -> str | None:
    """Return how a result differs from torch's: in structure, dtype, shape, or in an element.

    NaN and infinities must be where torch has them, in functions of single elements the signs of zeros, too.
    The error of these is relative to each element, that of others to the largest.
    """
    ours, theirs = (
        [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(result)] for result in (actual, expected)
    )
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{one.dtype} {tuple(one.shape)}, not {other.dtype} {tuple(other.shape)}"
        wrong = _wrong(one.contiguous(), other.contiguous(), elementwise=elementwise)
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            return f"{int(wrong.sum())} of {wrong.numel()}: at {place} {one[place]!s}, not {other[place]!s}"
    return None


def _wrong(one: torch.Tensor, other: torch.Tensor, *, elementwise: bool) -> torch.Tensor:
    """Return which elements differ."""
    if other.dtype.is_complex:
        parts = [
            _wrong(*map(part, (one, other)), elementwise=elementwise) for part in (torch.real, torch.imag)
        ]
        return (parts[0] | parts[1]) & ~((one - other).abs() <= RTOL[other.real.dtype] * other.abs())
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
    signs = (left == 0) & (right == 0) & (left.signbit() != right.signbit())
    return ~same | signs if elementwise else ~same
