"""What each name of a cell is in the twin. What NumPy has under a name is NumPy's own: NumPy is the judge."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.tinynn.python_twin import neural, torch_names
from tests.tinynn.python_twin.tensor import DTYPES, Tensor, lift_results

_KINDS = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.sum))

#: NumPy's functions under their names; some have others, too.
_NUMPY: dict[str, Callable[..., object]] = {
    name: value
    for name, value in vars(np).items()
    if not name.startswith("_") and isinstance(value, _KINDS) and name not in ("print", "input", "open")
}
_OTHER_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "floor_mod": "mod", "trunc_mod": "fmod", "concat": "concatenate", "permute_dims": "transpose",
    "variance": "var", "negative": "negative", "pow": "power", "fix": "trunc",  # np.fix is deprecated
    "bitwise_not": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip

_NEURAL: dict[str, Callable[..., object]] = {
    name: value
    for name, value in vars(neural).items()
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == neural.__name__
}


#: Of a bare name PyTorch's parameters and defaults count; of a written path (``nn.NAME``) Relay's.
_TORCH: dict[str, Callable[..., object]] = {
    name: value for name, value in vars(torch_names).items() if callable(value) and not name.startswith("_")
}


def _of_numbers(name: str) -> Callable[..., object]:
    """``max(2, n)`` is Python's where every argument is one number, else NumPy's of one array."""
    python, numpy = getattr(builtins, name), _NUMPY[name]

    def call(*args: object, **keywords: object) -> object:
        if len(args) > 1 and not keywords and all(np.ndim(each) == 0 for each in args):
            return python(*args)
        return numpy(*args, **keywords)

    return call


def _of_arrays(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *arrays: np.asarray(function(*map(_ordered, arrays))).astype(np.result_type(*arrays))


def _ordered(a: object) -> np.ndarray:
    """Return an array that NumPy can sort: it puts NaN of bfloat16 anywhere."""
    array = np.asarray(a)
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def _sum(a: object, *args: object, **keywords: object) -> object:
    """Add up the items of a list as Python does, the elements of an array or of nested lists as NumPy."""
    items = a if isinstance(a, np.ndarray) or not np.iterable(a) else list(a)
    nested = not isinstance(items, list) or any(isinstance(item, tuple | list) for item in items)
    return _NUMPY["sum"](items, *args, **keywords) if nested or args or keywords else builtins.sum(items)


_FREE: dict[str, Callable[..., object]] = {
    **_NUMPY,
    **{name: _NUMPY[other] for name, other in _OTHER_NAMES.items()},
    **_NEURAL,
    **_TORCH,
    **{name: _of_numbers(name) for name in ("max", "min")},
    "sum": _sum,
    # They call the method that works in place.
    "sort": lambda a, axis=-1: np.sort(_ordered(a), axis).astype(np.asarray(a).dtype),
    "unique": lambda a: np.unique(_ordered(a)).astype(np.asarray(a).dtype),
    **{name: _of_arrays(_NUMPY[name]) for name in ("union1d", "intersect1d", "setdiff1d")},
    "partition": lambda a, kth, axis=-1: np.sort(_ordered(a), axis).astype(np.asarray(a).dtype),
    "argpartition": lambda a, kth, axis=-1: np.argsort(_ordered(a), axis, stable=True),
}
FUNCTIONS = {name: lift_results(function) for name, function in _FREE.items()}
Tensor.functions.update(FUNCTIONS)
Tensor.sort = FUNCTIONS["sort"]


def _relay_round(x):
    """Halves away from zero."""
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


#: Where Relay's operator of a written path means something else than NumPy's function of the name.
_RELAY: dict[str, Callable[..., object]] = {
    "argmax": lambda data, axis=None, keepdims=False: np.argmax(data, axis, keepdims=keepdims).astype(
        "int32"
    ),
    "argmin": lambda data, axis=None, keepdims=False: np.argmin(data, axis, keepdims=keepdims).astype(
        "int32"
    ),
    "sum": lambda data, axis=None, keepdims=False: np.sum(data, axis, data.dtype, keepdims=keepdims),
    "prod": lambda data, axis=None, keepdims=False: np.prod(data, axis, data.dtype, keepdims=keepdims),
    "round": _relay_round,
    "take": lambda data, indices, axis=None, mode="clip": np.take(data, indices, axis, mode=mode),
    "full": lambda fill_value, shape, dtype: np.full(shape, fill_value, dtype),
}
_RELAY_NEURAL = {**_NEURAL, "matmul": neural.relay_matmul}


class _Operators(types.SimpleNamespace):
    """``nn`` and ``relay``: operators as attributes."""


nn = _Operators(**{name: lift_results(function) for name, function in _RELAY_NEURAL.items()})
relay = _Operators(**{**FUNCTIONS, **{name: lift_results(each) for name, each in _RELAY.items()}, "nn": nn})

_PYTHON = (
    "abs all any bool enumerate float int len list max min pow range reversed round sorted sum tuple zip "
    "AssertionError"
)
#: Every name that a cell may use without the notebook; annotations are never evaluated.
NAMES: dict[str, object] = {
    "__builtins__": {
        **{name: getattr(builtins, name) for name in _PYTHON.split()},
        "__build_class__": builtins.__build_class__,
    },
    "__name__": "cell",
    **DTYPES,
    **FUNCTIONS,
    "nn": nn,
    "relay": relay,
    "newaxis": None,
    "pi": np.pi,
    "inf": np.inf,
    "nan": np.nan,
}
