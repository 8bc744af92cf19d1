"""Say what the operators of a graph of torch.compile are decomposed to."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from nnmagic.importers.torch.formulas import FORMULAS, OF_TRANSFORMERS

#: Operators whose decompositions round the results of each step.
ROUNDED_ONCE = ("addcmul", "addcdiv")
#: Operators that are imported as a whole: the decomposition of select_scatter loses what lies in one place,
#: that of detach that it has no gradient.
WHOLE = (*ROUNDED_ONCE, "select_scatter", "detach", "special_log_ndtr")
_PREFIX = "aten::_foreach_"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return torch's decompositions to core ATen, and those of lists of tensors, by operator."""
    import torch
    from torch._decomp import core_aten_decompositions

    table: dict[Any, Callable[..., Any]] = {**_of_lists(), **core_aten_decompositions()}
    table[torch.ops.aten._native_multi_head_attention.default] = _heads
    table[torch.ops.aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    complete(table)
    for name in WHOLE:
        table.pop(getattr(torch.ops.aten, name).default, None)
    return table


def _of_lists() -> dict[Any, Callable[..., list[Any]]]:
    """Return how the operators on lists of tensors, which optimizers call, are those of one tensor."""
    import torch

    table: dict[Any, Callable[..., list[Any]]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        short = name.removeprefix("_foreach_")
        if not full.startswith(_PREFIX) or name.endswith("_") or overload.endswith("out"):
            continue
        if short in ROUNDED_ONCE and overload == "Tensor":  # whose numbers are the elements of a tensor
            continue
        function = _function_of(short)
        if function is not None:
            packet = getattr(torch.ops.aten, name)
            table[getattr(packet, overload or "default")] = partial(_each, function)
    return table


def _function_of(name: str) -> Callable[..., Any] | None:
    """Return the function of one tensor; None where torch has none."""
    import torch

    special: dict[str, Callable[..., Any]] = {
        "addcdiv": lambda x, one, other, value=1: torch.addcdiv(x, one, other, value=value),
        "addcmul": lambda x, one, other, value=1: torch.addcmul(x, one, other, value=value),
        "copy": lambda x, source, non_blocking=False: torch.ops.aten.copy(x, source, non_blocking),
        "maximum": lambda x, other: (
            torch.maximum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_min(x, other)
        ),
        "minimum": lambda x, other: (
            torch.minimum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_max(x, other)
        ),
        "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
        "zero": torch.zeros_like,
    }
    return special.get(name) or getattr(torch, name, None)


def _each(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Call a function with one item of each list after the other, and with all that is no list."""
    (count, *_) = (len(arg) for arg in (*args, *kwargs.values()) if isinstance(arg, list | tuple))

    def item(arg: Any, number: int) -> Any:
        return arg[number] if isinstance(arg, list | tuple) else arg

    return [
        function(
            *(item(arg, number) for arg in args), **{key: item(arg, number) for key, arg in kwargs.items()}
        )
        for number in range(count)
    ]


def complete(table: MutableMapping[Any, Callable[..., Any]]) -> None:
    """Add what torch's decompositions lack, and the numbers of eager torch for linspace of integers."""
    import torch
    from torch._decomp import core_aten_decompositions

    overload = torch.ops.aten.linspace.default
    table[overload] = partial(_linspace, core_aten_decompositions()[overload])
    table[torch.ops.aten.bernoulli.default] = table[torch.ops.aten.bernoulli.Tensor] = _bernoulli
    table[torch.ops.aten.rrelu_with_noise_functional.default] = _randomized_leaky_relu
    table[torch.ops.aten.rrelu_with_noise_backward.default] = _randomized_leaky_relu_backward
    for namespace, formulas in ((torch.ops.aten, FORMULAS), (torch.ops.transformers, OF_TRANSFORMERS)):
        for name, formula in formulas.items():
            packet = getattr(namespace, name, None)
            for kind in packet.overloads() if packet is not None else ():
                if not kind.endswith("out"):
                    table[getattr(packet, kind)] = formula


def _linspace(
    of_floats: Callable[..., Any], start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any
) -> Any:
    """Compute integers in float64, as eager torch does; torch's own decomposition does so in float32."""
    import torch

    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return of_floats(start, end, steps, dtype=dtype, **options)
    place = torch.arange(steps, dtype=torch.float64, **options)
    first, last = int(start), int(end)
    if steps == 1:
        return torch.full((1,), first, dtype=dtype, **options)
    step = (last - first) / (steps - 1)
    return torch.where(place < steps // 2, first + step * place, last - step * (steps - 1 - place)).to(dtype)


def _bernoulli(data: Any, chances: Any = None, *, generator: Any = None) -> Any:
    """Draw in the dtype of the chances, as eager torch does; torch's own decomposition does so in float32."""
    import torch

    chances = data if chances is None else chances
    dtype = torch.float64 if chances.dtype == torch.float64 else torch.float32
    chosen = {} if generator is None else {"generator": generator}
    return (torch.rand(data.shape, dtype=dtype, **chosen) < chances).to(data.dtype)


def _randomized_leaky_relu(
    data: Any,
    noise: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Any, Any]:
    """Return the activation and the slopes, of which eager torch draws those of negative numbers only."""
    import torch

    if not training:
        return torch.nn.functional.leaky_relu(data, (lower + upper) / 2), noise
    slopes = torch.where(data <= 0, torch.ops.aten.uniform(data, lower, upper, generator=generator), 1.0)
    return data * slopes, slopes


def _randomized_leaky_relu_backward(grad: Any, data: Any, noise: Any, *settings: Any) -> Any:
    import torch

    lower, upper, training, is_result = settings
    if training:
        return grad * noise
    return torch.ops.aten.leaky_relu_backward(grad, data, (lower + upper) / 2, is_result)


def _heads(query: Any, key: Any, value: Any, _embed_dim: int, num_head: int, *rest: Any) -> tuple[Any, Any]:
    """Compute attention of several heads.

    ``rest``: weight and bias of query, key and value, then of the result; then, if given, a mask of what is
    left out, whether shares are wanted, and as means over heads, and the mask's type: 1 where it is of keys.
    """
    import torch
    from torch.nn.functional import linear

    qkv_weight, qkv_bias, proj_weight, proj_bias, *optional = rest
    settings: list[Any] = [None, True, True, None]
    settings[: len(optional)] = optional
    mask, need_weights, average_attn_weights, mask_type = settings
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        linear(data, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for data, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-1, -2)
    if mask is not None:
        spread = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(spread.to(torch.bool), float("-inf"))
    shares = scores.softmax(-1)
    result = linear((shares @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_zeros(0)
    return result, shares.mean(1) if average_attn_weights else shares


def _encoder_layer(src: Any, embed_dim: int, num_heads: int, *flags: Any) -> Any:
    """Compute a layer of a transformer's encoder as torch does for inference.

    ``flags``: weight and bias of attention and of its result; whether the activation is GELU, whether norms
    are first, and their epsilon; weight and bias of two norms and of two linear layers; a mask and its type.
    """
    from torch.nn.functional import gelu, layer_norm, linear, relu

    attention, (use_gelu, norm_first, eps), norms = flags[:4], flags[4:7], flags[7:11]
    first, first_bias, second, second_bias = flags[11:15]
    mask, mask_type = (*flags[15:], None, None)[:2]

    def norm(data: Any, number: int) -> Any:
        return layer_norm(data, (embed_dim,), norms[2 * number], norms[2 * number + 1], eps)

    def attend(data: Any) -> Any:
        options = (mask, *(False, True), mask_type)
        return _heads(data, data, data, embed_dim, num_heads, *attention, *options)[0]

    def forward(data: Any) -> Any:
        hidden = linear(data, first, first_bias)
        return linear(gelu(hidden) if use_gelu else relu(hidden), second, second_bias)

    if norm_first:
        data = src + attend(norm(src, 0))
        return data + forward(norm(data, 1))
    data = norm(src + attend(src), 0)
    return norm(data + forward(data), 1)
