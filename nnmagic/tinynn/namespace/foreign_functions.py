"""Functions of NumPy and of other libraries that a cell lacks, and what to write in their place.

Runs none of them: what a function is called and where it is from is read off it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable

import numpy as np

from nnmagic.tinynn.builtins import BUILTINS

#: Libraries whose functions somebody may expect in a cell, beside Python's own.
_LIBRARIES = frozenset(
    {"numpy", "scipy", "torch", "jax", "tensorflow", "keras", "sklearn", "pandas", "cupy", "einops"}
)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.mean))

#: What a notebook calls modules, where it imports them.
IMPORTS = {
    "np": "numpy",
    "numpy": "numpy",
    "jnp": "jax.numpy",
    "jax": "jax",
    "F": "torch.nn.functional",
    "torch": "torch",
    "math": "math",
    "scipy": "scipy",
    "tf": "tensorflow",
    "pd": "pandas",
    "random": "random",
}

#: What other libraries do to functions.
NOT_HERE = {
    **dict.fromkeys(("grad", "value_and_grad", "jacfwd", "jacrev"), "a cell computes no gradients"),
    "vmap": "write the function for the whole batch: operators broadcast",
    "jit": "leave it out: the functions of a cell are compiled",
}

#: Libraries whose functions mean what those of a cell of the same names mean: all; all but ``_OTHERWISE``.
_ALIKE, _NEARLY = ("numpy", "math", "scipy", "jax", "cupy"), ("torch",)
_OTHERWISE = frozenset(
    (
        "max",
        "min",
        "sort",
        "split",
        "std",
        "var",
        "median",
        "nanmedian",
        "transpose",
        "take",
        "pad",
        "nonzero",
    )
)

#: What says the same, or nearly, in a cell.
_INSTEAD = {
    "trapz": "trapezoid",
    "float": "f32 or f64",
    "int": "i32 or i64",
    "cat": "concatenate",
    "tensor": "array",
    "as_tensor": "array",
    "unsqueeze": "expand_dims",
    "clamp": "clip",
    "mm": "matmul",
    "bmm": "matmul",
    "Tensor": "Tensor[(2, 3), f32] for its type, with its shape and dtype",
    **{f"reduce_{name}": name for name in ("sum", "mean", "max", "min", "prod", "any", "all")},
    "product": "prod",
    "cumproduct": "cumprod",
    "round_": "round",
    "alltrue": "all",
    "sometrue": "any",
    "row_stack": "vstack",
    "asanyarray": "asarray",
    "cumulative_sum": "cumsum",
    "cumulative_prod": "cumprod",
    "float_power": "power(x1.astype(f64), x2.astype(f64))",
    "array_equiv": "(x == y).all()",
    "partition": "sort",
    "argpartition": "argsort",
    "msort": "sort(x, axis=0)",
    "insert": "concatenate, of the parts around it",
    "diagflat": "diag(x.ravel())",
    "cov": "d @ d.T / (x.shape[1] - 1), with d = x - x.mean(axis=1, keepdims=True)",
    "select": "where(condition, x, y), one in another",
    "choose": "where(condition, x, y), or take_along_axis",
    "piecewise": "where(condition, x, y), one in another",
    "isin": "(x[..., None] == y.ravel()).any(axis=-1)",
    "in1d": "(x.ravel()[:, None] == y.ravel()).any(axis=-1)",
    "histogram": "sum(one_hot(index, n), axis=0), which counts",
    "ldexp": "x1 * 2.0 ** x2",
    "conj": "the tensor itself: there are no complex numbers",
    "conjugate": "the tensor itself: there are no complex numbers",
    "real": "the tensor itself: there are no complex numbers",
    "unstack": "x[0], x[1], ...",
    "topk": "topk",
    "ndarray": "Tensor[(2, 3), f32] for its type, with its shape and dtype",
    "ndim": "x.ndim",
    "shape": "x.shape",
    "size": "x.size",
    **dict.fromkeys(("copyto", "putmask", "place", "put"), "y = where(condition, value, x)"),
    **{
        f"nan{name}": f"{name} of where(isnan(x), value, x)"
        for name in ("argmax", "argmin", "cumsum", "cumprod", "median", "quantile", "percentile")
    },
}


def import_hint(name: str) -> str:
    """How the notebook comes by a module of ``IMPORTS``."""
    module = IMPORTS[name]
    return f"run `import {module}{'' if module == name else f' as {name}'}` in another cell"


def is_library(module: str) -> bool:
    """Whether a module is one of Python's, or of a library of arrays."""
    top = module.partition(".")[0]
    return top in _LIBRARIES or (top in sys.stdlib_module_names and top != "__main__")


def library_of(value: object) -> str | None:
    """The library that a function is from; None for any other value."""
    if isinstance(value, np.ufunc):
        return "numpy"
    module = value.__module__ if isinstance(value, _FUNCTIONS) else None
    return module if isinstance(module, str) and is_library(module) else None


def cell_equivalent(path: tuple[str, ...], module: str, known: Iterable[str]) -> str | None:
    """What says in a cell what a function of a library's module says; ``known``: what a cell has of it.

    None where nothing does: a function of the same name may mean another thing.
    """
    word = path[-1]
    instead = _INSTEAD.get(word)
    if instead is not None:
        return ".".join([*path[:-1], instead]) if instead in known else instead
    if word not in BUILTINS or BUILTINS[word].refused:
        return None
    top = module.partition(".")[0]
    if top in _ALIKE or (top in _NEARLY and word not in _OTHERWISE):
        return word
    return None
