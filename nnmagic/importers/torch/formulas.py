"""What operators compute that torch has no decomposition of: windows, rounding to scales, attention's kernel.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.fake_quantize_per_tensor_affine.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any


def _window(
    formula: Callable[..., Any],
    length: int,
    periodic: bool = True,
    *settings: float,
    dtype: Any = None,
    device: Any = None,
    **_options: Any,
) -> Any:
    """Return a window: a formula of its places and the last of them."""
    import torch

    dtype = torch.get_default_dtype() if dtype is None else dtype
    if length < 2:
        return torch.ones(length, dtype=dtype, device=device)
    last = length if periodic else length - 1
    return formula(torch.arange(last + 1, dtype=dtype, device=device), last, *settings)[:length]


def _bartlett(places: Any, last: int) -> Any:
    import torch

    ramp = places * (2 / last)
    return torch.where(places <= last // 2, ramp, 2 - ramp)


def _blackman(places: Any, last: int) -> Any:
    angles = places * (math.pi / last)
    return (angles * 4).cos() * 0.08 - (angles * 2).cos() * 0.5 + 0.42


def _hamming(places: Any, last: int, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return (places * (2 * math.pi / last)).cos() * -beta + alpha


def _kaiser(places: Any, last: int, beta: float = 12.0) -> Any:
    import torch

    half = last / 2
    inside = (1 - ((places - half) / half) ** 2).clamp(min=0)
    return torch.special.i0(beta * inside.sqrt()) / torch.special.i0(torch.full((), beta, dtype=places.dtype))


def _round_to_scale(data: Any, scale: Any, zero: Any, low: int, high: int) -> tuple[Any, Any]:
    """Return multiples of a scale, and whether each was within the range before it was clipped."""
    import torch

    scale = torch.full((), scale, dtype=torch.float32) if isinstance(scale, float) else scale
    place = data.to(torch.promote_types(data.dtype, scale.dtype)) * (1 / scale)
    is_whole = not isinstance(zero, torch.Tensor) or not zero.is_floating_point()
    place = place.round() + zero if is_whole else (place + zero).round()
    result = (place.clamp(low, high) - zero) * scale
    return result.to(data.dtype), (place >= low) & (place <= high)


def _round_to_tensors(data: Any, scale: Any, zero: Any, enabled: Any, low: int, high: int) -> tuple[Any, Any]:
    import torch

    result, mask = _round_to_scale(data, scale.reshape(()), zero.reshape(()), low, high)
    is_on = enabled.reshape(()) != 0
    return torch.where(is_on, result, data), mask | ~is_on


def _round_channels(data: Any, scale: Any, zero: Any, axis: int, low: int, high: int) -> tuple[Any, Any]:
    shape = [-1 if at == axis else 1 for at in range(data.dim())]
    return _round_to_scale(data, scale.reshape(shape), zero.reshape(shape), low, high)


def _scores(query: Any, key: Any, is_causal: bool, mask: Any, scale: float | None) -> tuple[Any, float]:
    """Return the scores of attention, and their scale."""
    import torch

    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.mT) * scale
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(allowed, scores, -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        scores = torch.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = scores + mask
    return scores, scale


def _widen(query: Any, *others: Any) -> list[Any]:
    """Return operands in the dtype that sums have, each head of keys and values for each of the query's."""
    from torch._prims_common import get_computation_dtype

    count = query.shape[1]
    return [
        each.to(get_computation_dtype(query.dtype)).repeat_interleave(count // each.shape[1], 1)
        if each.shape[1] != count
        else each.to(get_computation_dtype(query.dtype))
        for each in (query, *others)
    ]


def _attention(
    query: Any,
    key: Any,
    value: Any,
    _dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> tuple[Any, Any]:
    """Return attention, whose axes lie in memory as the query's, and the logarithm of each row's sum."""
    from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

    wide, keys, values = _widen(query, key, value)
    scores, _ = _scores(wide, keys, is_causal, attn_mask, scale)
    total = scores.logsumexp(-1, keepdim=True)
    shares = (scores - total).exp().masked_fill(total == -math.inf, 0)
    result = (shares @ values).to(query.dtype)
    order, _ = compute_elementwise_output_logical_to_physical_perm(query)
    back = sorted(range(4), key=order.__getitem__)
    laid_out = result.permute(order).contiguous().permute(back)
    return laid_out, total.squeeze(-1).transpose(1, 2).contiguous().transpose(1, 2)


def _attention_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    result: Any,
    total: Any,
    _dropout: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> list[Any]:
    """Return the gradients of query, key and value (Dao et al., arXiv:2205.14135)."""
    wide, keys, values, flow, out = _widen(query, key, value, grad, result)
    scores, scale = _scores(wide, keys, is_causal, attn_mask, scale)
    total = total.unsqueeze(-1)
    shares = (scores - total).exp().masked_fill(total == -math.inf, 0)
    inner = shares * (flow @ values.mT - (flow * out).sum(-1, keepdim=True)) * scale
    gradients = (inner @ keys, inner.mT @ wide, shares.mT @ flow)
    return [
        _sum_heads(gradient, given.shape[1]).to(given.dtype).transpose(1, 2).contiguous().transpose(1, 2)
        for gradient, given in zip(gradients, (query, key, value), strict=True)
    ]


def _of_groups(offs: Any, count: Any) -> Any:
    """Return whether each of so many rows is in each group; a group ends where its offset says."""
    import torch

    group = torch.searchsorted(offs.to(torch.int64), torch.arange(count), right=True)
    return group == torch.arange(offs.shape[0])[:, None]


def _multiply_groups(lhs: Any, rhs: Any, offs: Any = None, _bias: Any = None, out_dtype: Any = None) -> Any:
    """Multiply groups of rows, or of a sum's terms, by matrices of their own."""
    import torch

    if offs is None:
        result = torch.bmm(lhs, rhs)
    elif lhs.dim() == rhs.dim():  # two matrices: the groups are of the terms
        result = (lhs * _of_groups(offs, lhs.shape[1])[:, None]) @ rhs
    elif lhs.dim() == 2:
        result = _sum_chosen(_of_groups(offs, lhs.shape[0])[..., None], lhs @ rhs)
    else:
        result = _sum_chosen(_of_groups(offs, rhs.shape[1])[:, None], lhs @ rhs)
    return result.to(lhs.dtype if out_dtype is None else out_dtype)


def _sum_chosen(mask: Any, products: Any) -> Any:
    return products.masked_fill(~mask, 0).sum(0)


def _multiply_groups_backward(rows: Any, matrices: Any, offs: Any, grad: Any) -> tuple[Any, Any]:
    return _multiply_groups(grad, matrices.mT, offs), _multiply_groups(rows.mT, grad, offs)


def _sum_heads(gradient: Any, heads: int) -> Any:
    if gradient.shape[1] == heads:
        return gradient
    return gradient.unflatten(1, (heads, -1)).sum(2)


def _reflect(vectors: Any, scales: Any, target: Any, *, inverse: bool = False) -> Any:
    """Multiply from the left by reflections I - scale v v^H; each v begins with a 1 on the diagonal."""
    import torch

    places, scales = torch.arange(vectors.shape[-2]), scales.conj() if inverse else scales
    numbers = range(scales.shape[-1])
    for number in numbers if inverse else reversed(numbers):
        vector = torch.where(places > number, vectors[..., number], (places == number).to(vectors.dtype))
        shares = scales[..., number, None, None] * (vector.conj()[..., None, :] @ target)
        target = target - vector[..., None] * shares
    return target


def _multiply_reflections(vectors: Any, scales: Any) -> Any:
    import torch

    rows, columns = vectors.shape[-2:]
    identity = torch.eye(rows, columns, dtype=vectors.dtype).expand(vectors.shape)
    return _reflect(vectors, scales, identity).mT.contiguous().mT  # by columns, as LAPACK's results lie


def _apply_reflections(
    vectors: Any, scales: Any, other: Any, left: bool = True, transpose: bool = False
) -> Any:
    if left:
        return _reflect(vectors, scales, other, inverse=transpose).mT.contiguous().mT
    return _reflect(vectors, scales, other.mH, inverse=not transpose).mH.mT.contiguous().mT


def multilabel_margin_loss(
    data: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """Compute ``torch.nn.functional.multilabel_margin_loss``: the labels of a row end at the first -1.

    torch decomposes its own before a backend is asked, and counts class 0 for each place behind the labels.
    """
    import torch

    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    rows, labels = torch.atleast_2d(data), torch.atleast_2d(target)
    is_label = (labels == -1).cumsum(1) == 0
    classes = torch.arange(rows.shape[1])
    is_target = ((labels[..., None] == classes) & is_label[..., None]).any(1)
    margins = 1 - rows.gather(1, labels.where(is_label, 0))[..., None] + rows[:, None]
    counted = is_label[..., None] & ~is_target[:, None] & (margins > 0)
    losses = margins.where(counted, 0).sum((1, 2)) / rows.shape[1]
    if reduction == "none":
        return losses.reshape(data.shape[:-1])
    return losses.mean() if reduction == "mean" else losses.sum()


def _first_places(data: Any, *, size: int, fill_value: int = -1) -> Any:
    """Return the places of so many elements that are not 0; rows of a number where there are fewer."""
    import torch

    if data.dim() == 0 or data.numel() == 0:
        return torch.full((size, data.dim()), fill_value)
    counts = (data != 0).reshape(-1).cumsum(0)
    place = torch.searchsorted(counts, torch.arange(1, size + 1))
    is_found, axes = place < data.numel(), []
    for length in reversed(data.shape):
        axes.append(place % length)
        place = place // length
    return torch.where(is_found[:, None], torch.stack(axes[::-1], 1), fill_value)


def _normalize_batch(*args: Any) -> tuple[Any, ...]:
    import torch

    settings = (*args[:-2], True, *args[-2:])  # of training
    result, mean, scale, *running = torch.ops.aten._native_batch_norm_legit_functional(*settings)
    return result, mean, scale, torch.zeros(0, dtype=torch.uint8), *running


def _spherical_bessel(data: Any) -> Any:
    import torch

    data = data if data.is_floating_point() else data.to(torch.get_default_dtype())
    return torch.where((data == 0) | data.isinf(), (data == 0).to(data.dtype), data.sin() / data)


def _bessel(name: str, data: Any) -> Any:
    import torch

    return getattr(torch.special, name)(data)


#: Formulas by the names of ATen's operators, and by those of transformers.
FORMULAS: dict[str, Callable[..., Any]] = {
    "_batch_norm_with_update_functional": _normalize_batch,
    "_grouped_mm": _multiply_groups,
    "bartlett_window": partial(_window, _bartlett),
    "blackman_window": partial(_window, _blackman),
    "hamming_window": partial(_window, _hamming),
    "linalg_householder_product": _multiply_reflections,
    "multilabel_margin_loss": lambda data, target, reduction=1: multilabel_margin_loss(
        data, target, reduction=("none", "mean", "sum")[reduction]
    ),
    "nonzero_static": _first_places,
    "special_modified_bessel_i0": partial(_bessel, "i0"),
    "special_modified_bessel_i1": partial(_bessel, "i1"),
    "special_spherical_bessel_j0": _spherical_bessel,
    "ormqr": _apply_reflections,
    "kaiser_window": partial(_window, _kaiser),
    "fake_quantize_per_tensor_affine_cachemask": _round_to_scale,
    "fake_quantize_per_channel_affine_cachemask": _round_channels,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _round_to_tensors,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
OF_TRANSFORMERS: dict[str, Callable[..., Any]] = {
    "grouped_mm_fallback": _multiply_groups,
    "grouped_mm_fallback_backward": _multiply_groups_backward,
}
