"""Collect the functions of the language: NumPy's, PyTorch's for neural networks, and Python's.

Each file declares its functions as a table; a row holds the name, the signature, a summary and NumPy's name.
Every other function that a cell calls is an operator by its Relay name; ``relay.NAME`` always means the
operator.
"""

from __future__ import annotations

from dataclasses import replace

from nnmagic.tinynn.builtins.argument_checks import of_arrays
from nnmagic.tinynn.builtins.callbacks import CALLBACK
from nnmagic.tinynn.builtins.generators import GENERATORS
from nnmagic.tinynn.builtins.gradients import GRADIENTS
from nnmagic.tinynn.builtins.jax_names import jax_functions, lax_functions
from nnmagic.tinynn.builtins.loop_functions import LOOP_FUNCTIONS
from nnmagic.tinynn.builtins.math_functions import math_functions
from nnmagic.tinynn.builtins.nn.activations import ACTIVATIONS
from nnmagic.tinynn.builtins.nn.attention import ATTENTION
from nnmagic.tinynn.builtins.nn.convolutions import CONVOLUTIONS
from nnmagic.tinynn.builtins.nn.images import IMAGES
from nnmagic.tinynn.builtins.nn.losses import LOSSES
from nnmagic.tinynn.builtins.nn.normalization import NORMALIZATION
from nnmagic.tinynn.builtins.nn.patches import PATCHES
from nnmagic.tinynn.builtins.nn.pooling import POOLING
from nnmagic.tinynn.builtins.nn.recurrent import RECURRENT
from nnmagic.tinynn.builtins.numpy.bits import BITS
from nnmagic.tinynn.builtins.numpy.complex_numbers import COMPLEX_NUMBERS, PYTHON_COMPLEX
from nnmagic.tinynn.builtins.numpy.creation import CREATION
from nnmagic.tinynn.builtins.numpy.deletion import DELETION
from nnmagic.tinynn.builtins.numpy.derived import DERIVED
from nnmagic.tinynn.builtins.numpy.differences import DIFFERENCES
from nnmagic.tinynn.builtins.numpy.dtype_functions import DTYPE_FUNCTIONS
from nnmagic.tinynn.builtins.numpy.dtype_limits import DTYPE_LIMITS
from nnmagic.tinynn.builtins.numpy.elementwise import ELEMENTWISE
from nnmagic.tinynn.builtins.numpy.fourier import FOURIER
from nnmagic.tinynn.builtins.numpy.histograms import HISTOGRAMS
from nnmagic.tinynn.builtins.numpy.index_sets import INDEX_SETS
from nnmagic.tinynn.builtins.numpy.indexing import INDEXING
from nnmagic.tinynn.builtins.numpy.joining import JOINING
from nnmagic.tinynn.builtins.numpy.linalg import LINALG
from nnmagic.tinynn.builtins.numpy.mathematics import MATHEMATICS
from nnmagic.tinynn.builtins.numpy.norms import NORMS
from nnmagic.tinynn.builtins.numpy.number_theory import NUMBER_THEORY
from nnmagic.tinynn.builtins.numpy.orders import ORDERS
from nnmagic.tinynn.builtins.numpy.padding import PADDING
from nnmagic.tinynn.builtins.numpy.polynomials import POLYNOMIALS
from nnmagic.tinynn.builtins.numpy.products import PRODUCTS
from nnmagic.tinynn.builtins.numpy.reductions import REDUCTIONS
from nnmagic.tinynn.builtins.numpy.repetition import REPETITION
from nnmagic.tinynn.builtins.numpy.scans import SCANS
from nnmagic.tinynn.builtins.numpy.selection import SELECTION
from nnmagic.tinynn.builtins.numpy.sets import SETS
from nnmagic.tinynn.builtins.numpy.shapes import OF_MATRICES, SHAPES
from nnmagic.tinynn.builtins.numpy.signals import SIGNALS
from nnmagic.tinynn.builtins.numpy.sizes import SIZES
from nnmagic.tinynn.builtins.numpy.statistics import STATISTICS
from nnmagic.tinynn.builtins.numpy.windows import WINDOWS
from nnmagic.tinynn.builtins.python_names import (
    OF_THE_LIBRARY,
    PYTHON,
    PYTHON_ONLY,
    TO_LIST,
    add_up_items,
    choose_by_key,
    power_with_modulus,
)
from nnmagic.tinynn.builtins.random import RANDOM
from nnmagic.tinynn.builtins.special import special_functions
from nnmagic.tinynn.builtins.torch_meaning import torch_meanings, torch_padding
from nnmagic.tinynn.builtins.torch_names import (
    functional_batch_norm,
    permuting,
    torch_functions,
    torch_methods,
)
from nnmagic.tinynn.builtins.torch_orders import torch_orders
from nnmagic.tinynn.calls.argument_binding import Builtin
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.types.annotations import DTYPES, DType

__all__ = ["BUILTINS", "CONSTANTS", "IN_PLACE", "METHODS", "MODULES", "MODULE_METHODS", "PYTHON_ONLY"]

_NUMPY_ROWS = (
    *(*MATHEMATICS, *ELEMENTWISE, *REDUCTIONS, *STATISTICS, *SHAPES, *JOINING, *REPETITION, *PADDING),
    *(*CREATION, *INDEXING, *DIFFERENCES, *PRODUCTS, *LINALG, *NORMS, *HISTOGRAMS, *SETS, *SCANS),
    *(*SIGNALS, *SELECTION, *BITS),
    *COMPLEX_NUMBERS,
    *LOOP_FUNCTIONS,
    *POLYNOMIALS,
    *INDEX_SETS,
    *ORDERS,
    *WINDOWS,
    *NUMBER_THEORY,
    *DELETION,
    *DERIVED,
)
_LAYERS = (*CONVOLUTIONS, *POOLING, *NORMALIZATION, *IMAGES, *PATCHES, *ATTENTION, *RECURRENT)
_NEURAL_ROWS = (*ACTIVATIONS, *_LAYERS, *LOSSES)


def _table(*rows: Builtin) -> dict[str, Builtin]:
    table: dict[str, Builtin] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"{row.name!r} stands in two tables")
        table[row.name] = row
    return table


#: Free functions, by the bare name, except for ``random.normal`` and the like; an operator's whole name
#: (``nn.conv2d``) always means the operator alone.
BUILTINS: dict[str, Builtin] = _table(
    *_NUMPY_ROWS, *_NEURAL_ROWS, *FOURIER, *RANDOM, *PYTHON, PYTHON_COMPLEX, *GRADIENTS, CALLBACK
)
#: Python's own, where NumPy's of the same name, which a notebook's `np.sum` stays, do less.
BUILTINS |= {
    "sum": add_up_items(BUILTINS["sum"]),
    "max": choose_by_key(BUILTINS["max"]),
    "min": choose_by_key(BUILTINS["min"]),
    "pow": power_with_modulus(BUILTINS["pow"]),
}


def _method(name: str, signature: str) -> Builtin:
    return replace(BUILTINS[name], signature=signature)


_TORCH_ORDERS = torch_orders(BUILTINS)
_TORCH_METHODS = torch_methods(BUILTINS) | {
    name: row for name, row in _TORCH_ORDERS.items() if name not in BUILTINS
}

#: Methods that mean something else in the source of an ``nn.Module``.
MODULE_METHODS: dict[str, Builtin] = torch_meanings(BUILTINS) | {"nanmedian": _TORCH_ORDERS["nanmedian"]}

#: Methods of tensors; every operator whose first argument is a single tensor is one, too.
METHODS: dict[str, Builtin] = {
    **{name: builtin for name, builtin in BUILTINS.items() if builtin.method},
    **_TORCH_METHODS,
    "tolist": TO_LIST,
    "reshape": _method("reshape", "a *newshape"),
    "transpose": permuting(BUILTINS),
    "permute": replace(_method("transpose", "a *axes"), name="permute", aliases="dims=axes"),
    "broadcast_to": _method("broadcast_to", "a *shape"),
    "compress": _method("compress", "a condition axis?"),
}

#: Methods that modify an array in place, with the hint that replaces them.
IN_PLACE: dict[str, str] = {
    "sort": "write y = sort(x, axis=-1)",
    "fill": "write y = full_like(x, value), or x[...] = value for an array that the function made",
    "resize": "write y = x.reshape(shape)",
    "put": "write y = where(condition, value, x), or x.put(places, values) as a statement of its own",
    "partition": "write y = partition(x, 1), or x.partition(1) as a statement of its own",
    "itemset": "write y = where(condition, value, x)",
    **{
        f"{name}_": f"write y = {name}(x)"
        for name in ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "round", "floor", "ceil")
    },
    **{
        f"{name}_": f"write y = x {sign} value, or x {sign}= value"
        for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
    },
    "clip_": "write y = clip(x, low, high)",
    "clamp_": "write y = clip(x, low, high)",
    "zero_": "write y = zeros_like(x)",
    "fill_": "write y = full_like(x, value)",
    "copy_": "write x = value",
}
for _name in IN_PLACE:
    METHODS.pop(_name, None)

_NUMPY = {row.name: row for row in _NUMPY_ROWS if row.numpy is not None or row.is_refused}
_NUMPY |= SIZES | DTYPE_LIMITS | DTYPE_FUNCTIONS
_NUMPY |= {name: of_arrays(_NUMPY[name]) for name in ("max", "amax", "min", "amin", "sum", "prod")}
_LINALG = {
    name: BUILTINS[name]
    for name in (
        *(row.name for row in (*LINALG, *NORMS)),
        *("multi_dot", "matmul", "outer", "cross", "trace", "vecdot", "diagonal"),
        *("tensordot", "matrix_transpose"),
    )
}
_LINALG |= {row.name: row for row in OF_MATRICES}
_FOURIER = {row.name: row for row in FOURIER}
_FUNCTIONAL = {
    **{row.name: row for row in _NEURAL_ROWS},
    **{name: BUILTINS[name] for name in ("tanh",)},
    "batch_norm": functional_batch_norm(BUILTINS),
    "pad": torch_padding(BUILTINS),
}
_SPECIAL = special_functions(BUILTINS)

#: The language's functions by the module that a notebook calls them from. None of these modules runs.
MODULES: dict[str, dict[str, Builtin]] = {
    "numpy": _NUMPY,
    "numpy.linalg": _LINALG,
    "numpy.fft": _FOURIER,
    "numpy.random": GENERATORS,
    "numpy.lib.stride_tricks": {"sliding_window_view": BUILTINS["sliding_window_view"]},
    "jax": jax_functions(BUILTINS),
    "jax.lax": lax_functions(BUILTINS),
    "jax.numpy.fft": _FOURIER,
    "jax.numpy": _NUMPY,
    "jax.numpy.linalg": _LINALG,
    "jax.nn": {row.name: row for row in ACTIVATIONS},
    "torch": torch_functions(BUILTINS, _TORCH_METHODS) | _TORCH_ORDERS | DTYPE_LIMITS,
    "torch.nn.functional": _FUNCTIONAL,
    "math": math_functions(BUILTINS),
    "scipy.special": _SPECIAL,
    "jax.scipy.special": _SPECIAL,
    "numba": {"prange": ITERATION["prange"]},
    **OF_THE_LIBRARY,
}

#: NumPy's names of numbers and dtypes.
CONSTANTS: dict[str, DType | float | None] = {
    "pi": 3.141592653589793,
    "inf": float("inf"),
    "nan": float("nan"),
    "newaxis": None,
    **{dtype.name: dtype for dtype in DTYPES.values() if dtype.name not in ("bool",)},
}
