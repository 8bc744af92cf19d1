"""Define attention by PyTorch's name."""

from __future__ import annotations

import math

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins.argument_checks import flag, formula, require_float, static_number, static_size
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.values import Operand, RefusalError, Value


def _attention(call: Arguments) -> Value:
    """Compute softmax(query @ key.T * scale + mask) @ value (Vaswani et al., arXiv:1706.03762)."""
    query, key, value = (formula(call, name) for name in ("query", "key", "value"))
    require_float(call, query, "query")
    for name, operand in (("query", query), ("key", key), ("value", value)):
        if operand.rank < 2:
            message = f"`{name}` must be of rank 2 or more, not of shape {format_shape(operand.shape)}"
            raise call.refusal(name, message)
    if static_number(call, "dropout_p", 0.0) != 0:
        raise call.refusal("dropout_p", "there is no training, so no dropout")
    width = static_size(call, query.shape[-1], call.at("query"), "the size of the last axis")
    scale = float(static_number(call, "scale", 1 / math.sqrt(width) if width else 1.0))
    flipped = key.transpose([*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scores = _matrices(call, query, "query", flipped, "key") * scale
    if flag(call, "is_causal"):
        if "attn_mask" in call:
            raise RefusalError(f"{call.name} takes `attn_mask` or `is_causal`", call.at("attn_mask"))
        scores = causal_mask(scores)
    if "attn_mask" in call:
        mask = formula(call, "attn_mask")
        if mask.dtype not in ("bool", scores.dtype):
            message = f"{call.name}: `attn_mask` must be of bools or {dtype_short_name(scores.dtype)}"
            raise RefusalError(f"{message}, not {dtype_short_name(mask.dtype)}", call.at("attn_mask"))
        scores = mask.choose(scores, -math.inf) if mask.dtype == "bool" else scores + mask
    shares = scores.op("nn.softmax", axis=-1)
    return _matrices(call, shares, "query", value, "value").value


def _matrices(call: Arguments, one: Formula, first: str, other: Formula, second: str) -> Formula:
    lhs, rhs = Operand(one.value, call.at(first)), Operand(other.value, call.at(second))
    return Formula(matrix_product(lhs, rhs, call.span, call.name), call.span)


def causal_mask(scores: Formula) -> Formula:
    """Return a mask that is -inf where the column exceeds the row.

    Positions are counted at run time, so that sizes may be dynamic.
    """
    ones = scores.op("ones_like").cast("int32")
    rows, columns = (ones.op("cumsum", axis=axis) for axis in (scores.rank - 2, scores.rank - 1))
    return (columns <= rows).choose(scores, -math.inf)


ATTENTION = (
    cell_function(
        "scaled_dot_product_attention",
        "query key value attn_mask? dropout_p?=0.0 is_causal?=False scale?=None",
        _attention,
        "Compute softmax(q @ k.T * scale + mask) @ v.",
        aliases="mask=attn_mask",
    ),
)
