"""Search functions and operators: by name, by pattern, by what they do, and by other libraries' names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.editor.symbols import Symbol, searchable

#: Words of the field -> operators that have other names here; a word may stand for several operators.
_SYNONYMS = {
    "accumulate": "cumsum cumprod",
    "addmm": "nn.matmul nn.bias_add",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "astype": "cast",
    "attention": "nn.batch_matmul nn.softmax",
    "average": "mean nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d",
    "batchnorm": "nn.batch_norm",
    "bmm": "nn.batch_matmul",
    "bounding": "vision.non_max_suppression vision.get_valid_counts",
    "cat": "concatenate",
    "constant": "full full_like",
    "crop": "strided_slice image.crop_and_resize",
    "cumulative": "cumsum cumprod",
    "deconvolution": "nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose",
    "dot": "nn.matmul nn.dense nn.batch_matmul",
    "embedding": "take one_hot",
    "fft": "dft stft",
    "flatten": "nn.batch_flatten reshape",
    "flip": "reverse",
    "gemm": "nn.matmul nn.dense nn.batch_matmul",
    "interpolate": "image.resize1d image.resize2d image.resize3d nn.upsampling",
    "iota": "arange",
    "layernorm": "nn.layer_norm",
    "linear": "nn.dense nn.matmul nn.bias_add",
    "logsumexp": "log sum exp nn.log_softmax",
    "masked": "where sequence_mask",
    "neg": "negative",
    "nms": "vision.non_max_suppression vision.all_class_non_max_suppression",
    "nonzero": "argwhere",
    "norm": "nn.l2_normalize",
    "permute": "transpose",
    "pow": "power",
    "prefix": "cumsum cumprod",
    "rand": "random.uniform random.normal",
    "range": "arange",
    "reciprocal": "divide rsqrt",
    "reduce": "sum prod max min mean all any",
    "remainder": "floor_mod mod trunc_mod",
    "roll": "concatenate strided_slice",
    "scan": "cumsum cumprod",
    "select": "where take strided_slice",
    "std": "variance sqrt",
    "swapaxes": "transpose",
    "unsqueeze": "expand_dims",
    "var": "variance",
}
_ENDINGS = re.compile(r"(?<=.{4})(ations?|ings?|ed|es|s)$")


def find_names(patterns: list[str]) -> list[Symbol]:
    """Return the functions and operators that fit all patterns, those that fit the first one best first."""
    first, *others = [list(_rank_names(pattern.lower())) for pattern in patterns or ["*"]]
    names = [name for name in first if all(name in other for other in others)]
    return [searchable()[name] for name in names]


def _rank_names(pattern: str) -> Iterator[str]:
    """Yield the names that fit a pattern: by name, then by synonym, then by what they do."""
    symbols = searchable()
    names = sorted(symbols)
    if any(char in pattern for char in "*?["):
        yield from (name for name in names if _fits(name, pattern))
        return
    words = dict.fromkeys([pattern, _ENDINGS.sub("", pattern)])
    matches = [name for word in words for name in names if word in name]
    matches += [name for word in words for name in _SYNONYMS.get(word, "").split() if name in symbols]
    matches += [name for word in words for name in names if word in _description(symbols[name])]
    yield from dict.fromkeys(matches)


def _fits(name: str, pattern: str) -> bool:
    """Return whether a name fits a pattern of the shell, as a whole or without its namespace."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _description(symbol: Symbol) -> str:
    """Return the words that a function is found by beside its name."""
    family = OPERATORS[symbol.relay].family if symbol.relay else ""
    return f"{symbol.summary} {family} {symbol.numpy or ''}".lower()
