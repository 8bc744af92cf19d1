"""What operators mean, by NumPy: on int64, float64 and bool, which stand for every narrower dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Array = np.ndarray

UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "copy": np.copy,
    "negative": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.leaky_relu": lambda x: np.where(x > 0, x, x * 0.5),
}
BINARY = {name: getattr(np, name) for name in ("add", "subtract", "multiply", "maximum", "minimum")}
COMPARE = {
    name: getattr(np, name)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
}
SMOOTH: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=["f8"]),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "log": np.log,
    "sin": np.sin,
}


def _trunc_divide(x: Array, y: Array) -> Array:
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


DIVISION: dict[str, Callable[[Array, Array], Array]] = {
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "trunc_divide": _trunc_divide,
    "divide": _trunc_divide,
    "trunc_mod": lambda x, y: x - _trunc_divide(x, y) * y,
    "mod": lambda x, y: x - _trunc_divide(x, y) * y,
}


def cast(x: Array, dtype: str) -> Array:
    if dtype == "bool":
        return x != 0
    return np.trunc(x).astype("int64") if "int" in dtype else x.astype("float64")


# --- reductions ---------------------------------------------------------------------------------------------


def _axes(attrs: Mapping[str, object], rank: int) -> tuple[int, ...]:
    axis = attrs.get("axis")
    if axis is None:
        return tuple(range(rank))
    named = {one % rank for one in axis}  # type: ignore[attr-defined]
    return tuple(one for one in range(rank) if (one in named) != bool(attrs.get("exclude")))


def reduce(name: str, dtype: str, attrs: Mapping[str, object], x: Array) -> Array:
    axes, keep = _axes(attrs, x.ndim), bool(attrs["keepdims"])
    if not axes and name not in ("mean", "var"):
        return x.copy()
    more: dict[str, object] = {}
    if name in ("max", "min"):
        lowest: object = (
            False if dtype == "bool" else -np.inf if dtype.startswith("f") else np.iinfo(dtype).min
        )
        highest: object = (
            True if dtype == "bool" else np.inf if dtype.startswith("f") else np.iinfo(dtype).max
        )
        more["initial"] = lowest if name == "max" else highest
    return np.asarray(getattr(np, name)(x, axis=axes, keepdims=keep, **more))


def largest(name: str, x: Array, attrs: Mapping[str, object]) -> float:
    """The largest partial sum or product in any order."""
    terms = np.abs(x).astype("f8")
    result = reduce(name, "float64", attrs, np.maximum(terms, 1) if name == "prod" else terms)
    return float(result.max(initial=0)) * (256 if name == "prod" and np.any(x != np.trunc(x)) else 1)


def sum_of(x: Array) -> float:
    return float(np.abs(x).sum())


def arg_reduce(name: str, last: bool, attrs: Mapping[str, object], x: Array) -> Array:
    axes, keep = _axes(attrs, x.ndim), bool(attrs["keepdims"])
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    flat = x.transpose([*kept, *axes])
    count = int(np.prod([x.shape[axis] for axis in axes]))
    flat = flat.reshape([x.shape[axis] for axis in kept] + [count])
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if not axes:
        return np.zeros(x.shape, "int64")
    if count == 0:
        result = np.full(flat.shape[:-1], -1)
    elif last:
        result = count - 1 - getattr(np, name)(flat[..., ::-1], -1)
    else:
        result = getattr(np, name)(flat, -1)
    return np.asarray(result.reshape(shape) if keep else result)


def scan(name: str, axis: int | None, exclusive: bool, x: Array) -> Array:
    if axis is None:
        x, axis = x.ravel(), 0
    if exclusive:
        first = np.full_like(x.take([0], axis), 0 if name == "cumsum" else 1) if x.shape[axis] else x
        x = np.concatenate([first, x.take(range(x.shape[axis] - 1), axis)], axis) if x.shape[axis] else x
    return np.asarray(getattr(np, name)(x, axis))


# --- orders -------------------------------------------------------------------------------------------------


def argsort(axis: int, rising: bool, x: Array) -> Array:
    """Stable both ways; NaN above all."""
    if rising:
        return np.argsort(x, axis, kind="stable")
    backwards = np.flip(x, axis)
    return x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis, kind="stable"), axis)


def sort(axis: int, rising: bool, x: Array) -> Array:
    return np.take_along_axis(x, argsort(axis, rising, x), axis)


def topk(k: int, axis: int, rising: bool, kind: str, x: Array) -> Array | tuple[Array, Array]:
    indices = argsort(axis, rising, x)
    if k > 0:
        if k > x.shape[axis]:
            raise ValueError("k")
        indices = indices.take(range(k), axis)
    values = np.take_along_axis(x, indices, axis)
    return {"both": (values, indices), "values": values, "indices": indices}[kind]


# --- indices ------------------------------------------------------------------------------------------------


def one_hot(depth: int, axis: int, indices: Array, on: Array, off: Array) -> Array:
    axis = indices.ndim if axis == -1 else axis
    numbers = np.arange(depth).reshape([-1] + [1] * (indices.ndim - axis))
    return np.where(np.expand_dims(indices, axis) == numbers, on, off)


def _same_beside(axis: int, data: Array, indices: Array) -> None:
    """NumPy broadcasts here, Relay does not."""
    if np.delete(data.shape, axis).tolist() != np.delete(indices.shape, axis).tolist():
        raise ValueError("indices")


def gather(axis: int, data: Array, indices: Array) -> Array:
    _same_beside(axis, data, indices)
    return np.take_along_axis(data, indices, axis)


def scatter(axis: int, name: str, data: Array, indices: Array, updates: Array) -> Array:
    """No index is there twice."""
    _same_beside(axis, data, indices)
    old = np.take_along_axis(data, indices, axis)
    new = {
        "update": lambda: updates,
        "add": lambda: old + updates,
        "max": lambda: np.maximum(old, updates),
        "min": lambda: np.minimum(old, updates),
    }[name]()
    result = data.copy()
    np.put_along_axis(result, indices, new, axis)
    return result


# --- products and windows -----------------------------------------------------------------------------------


def product(ta: bool, tb: bool, a: Array, b: Array) -> Array:
    return np.matmul(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)


def largest_product(ta: bool, tb: bool, a: Array, b: Array) -> float:
    if (a.dtype.kind == "f" and np.any(a != np.trunc(a))) or np.any(b != np.trunc(b)):
        return math.inf
    return float(product(ta, tb, np.abs(a), np.abs(b)).max(initial=0))


def largest_of(compute: Callable[..., Array]) -> Callable[..., float]:
    """The largest partial sum of a function that is a sum of products of its two arguments' elements."""

    def largest(a: Array, b: Array) -> float:
        if np.any(a != np.trunc(a)) or np.any(b != np.trunc(b)):
            return math.inf
        return float(compute(np.abs(a), np.abs(b)).max(initial=0))

    return largest


def _windows(x: Array, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """(batch, channels, positions..., window...) of (batch, channels, spatial...)."""
    rank = len(sizes)
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    result = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, 2 + rank)))
    index = (
        [slice(None)] * 2 + [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilation]
    )
    return result[tuple(index)]


def _pad(x: Array, padding: Sequence[int], value: float = 0) -> Array:
    rank = len(padding) // 2
    return np.pad(
        x, [(0, 0), (0, 0), *((padding[k], padding[k + rank]) for k in range(rank))], constant_values=value
    )


def convolve(
    strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, x: Array, w: Array
) -> Array:
    w = w.reshape(-1, x.shape[1] // groups, *w.shape[2:])
    result = _windows(_pad(x, padding), w.shape[2:], strides, dilation)
    out_shape = result.shape[2 : 2 + len(strides)]
    n, count = x.shape[0], int(np.prod(w.shape[2:]))
    # (n, groups, positions, channels * window) times (groups, out, channels * window)
    rows = result.reshape(n, groups, x.shape[1] // groups, int(np.prod(out_shape)), count)
    rows = rows.transpose(0, 1, 3, 2, 4).reshape(n, groups, int(np.prod(out_shape)), -1)
    weights = w.reshape(groups, w.shape[0] // groups, -1)
    sums = np.matmul(rows, weights.transpose(0, 2, 1))
    return sums.transpose(0, 1, 3, 2).reshape(n, w.shape[0], *out_shape)


def convolve_back(
    strides: Sequence[int], padding: Sequence[int], extra: Sequence[int], x: Array, w: Array
) -> Array:
    """What convolution's gradient does: each element adds its window of weights."""
    rank = len(strides)
    sizes = [(size - 1) * s + k for size, s, k in zip(x.shape[2:], strides, w.shape[2:], strict=True)]
    result = np.zeros((x.shape[0], w.shape[1], *(size + e for size, e in zip(sizes, extra, strict=True))))
    for at in np.ndindex(*w.shape[2:]):
        index = tuple(
            slice(k, k + (size - 1) * s + 1, s) for k, size, s in zip(at, x.shape[2:], strides, strict=True)
        )
        result[(slice(None), slice(None), *index)] += np.einsum("nc...,co->no...", x, w[(..., *at)])
    ends = [size + e - padding[k + rank] for k, (size, e) in enumerate(zip(sizes, extra, strict=True))]
    return result[(slice(None), slice(None), *(slice(padding[k], end) for k, end in enumerate(ends)))]


def pool(
    name: str, sizes: Sequence[int], strides: Sequence[int], padding: Sequence[int], padded: bool, x: Array
) -> Array:
    ones = [1] * len(sizes)
    last = tuple(range(-len(sizes), 0))
    if name == "max":
        return _windows(_pad(x, padding, -np.inf), sizes, strides, ones).max(last)
    sums = _windows(_pad(x, padding), sizes, strides, ones).sum(last)
    counted = _windows(_pad(np.ones_like(x), padding, float(padded)), sizes, strides, ones)
    return sums / np.maximum(counted.sum(last), 1)


def global_pool(name: str, x: Array) -> Array:
    return np.asarray((x.max if name == "max" else x.mean)((2, 3), keepdims=True))


# --- norms --------------------------------------------------------------------------------------------------


def softmax(axis: int, x: Array) -> Array:
    grown = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return grown / grown.sum(axis, keepdims=True)


def _wide(rank: int, axis: int) -> list[int]:
    return [-1 if index == axis % rank else 1 for index in range(rank)]


def layer_norm(axis: int, x: Array, scale: Array, shift: Array) -> Array:
    wide = _wide(x.ndim, axis)
    distance = x - x.mean(axis, keepdims=True)
    result = distance / np.sqrt((distance**2).mean(axis, keepdims=True) + 0.5)
    return result * scale.reshape(wide) + shift.reshape(wide)


def batch_norm(epsilon: float, x: Array, *stats: Array) -> tuple[Array, Array, Array]:
    scale, shift, mean, variance = (each.reshape(_wide(x.ndim, 1)) for each in stats)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + shift, stats[2], stats[3]


def split(sections: int | Sequence[int], axis: int, x: Array) -> tuple[Array, ...]:
    """Sections beyond the axis are refused."""
    if not isinstance(sections, int) and max(sections) > x.shape[axis]:
        raise ValueError("sections")
    return tuple(np.split(x, sections, axis))


def take(axis: int | None, mode: str, x: Array, indices: Array) -> Array:
    if not x.size:
        raise ValueError("nothing to take")
    return np.take(x, indices, axis, mode=mode)
