"""Suggest alternatives to functions of NumPy and other libraries that a cell lacks.

None of them runs; only their names and modules are read.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable

import numpy as np

from nnmagic.tinynn.builtins import BUILTINS

#: Libraries, apart from Python's own, whose functions a user may expect in a cell.
_LIBRARIES = frozenset(
    {"numpy", "scipy", "torch", "jax", "tensorflow", "keras", "sklearn", "pandas", "cupy", "einops"}
)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.mean))

#: Modules by the names under which notebooks usually import them.
IMPORTS = {
    "jnp": "jax.numpy",
    "jax": "jax",
    "F": "torch.nn.functional",
    "torch": "torch",
    "sp": "scipy",
    "scipy": "scipy",
    "sklearn": "sklearn",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
    "pd": "pandas",
    "random": "random",
}

#: Transformations of functions, and annotations, that other libraries have.
NOT_HERE = {
    "Array": "write np.ndarray",
    **{
        name: f"run `from jaxtyping import {name}` in another cell"
        for name in ("Float", "Float32", "Float64", "Int", "Shaped", "Num")
    },
    "hvp": "write jvp(grad(f), (x,), (v,))[1]",
    "jit": "leave it out: the functions of a cell are compiled",
}

#: A call of a function of Python, which the call at hand replaces in hints.
CALLBACK = "callback(function, x, result=Tensor[(3,), f32])"

#: What to do about a function that a cell has in no form.
ELSEWHERE = (
    "call it in another cell, and pass its result as an argument; where a function needs it in the middle, "
    f"write {CALLBACK}, which calls Python"
)

#: Libraries whose functions equal a cell's functions of the same names: all; all but ``_OTHERWISE``.
_ALIKE, _NEARLY = ("numpy", "math", "scipy", "jax", "cupy"), ("torch",)
_OTHERWISE = frozenset(
    (
        *("max", "min", "sort", "split", "std", "var", "median", "nanmedian", "transpose", "take"),
        *("pad", "nonzero"),
    )
)

#: Equivalents, or near equivalents, in a cell.
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
    "asanyarray": "asarray",
    "msort": "sort(x, axis=0)",
    "in1d": "isin(x.ravel(), y)",
    "topk": "topk",
    **dict.fromkeys(
        ("copyto", "putmask", "place", "put", "put_along_axis"),
        "y = where(condition, value, x), or it as a statement of its own",
    ),
}


def import_hint(name: str) -> str:
    """Return a hint that tells how to import a module of ``IMPORTS``."""
    module = IMPORTS[name]
    return f"run `import {module}{'' if module == name else f' as {name}'}` in another cell"


def is_library(module: str) -> bool:
    """Return whether a module belongs to Python or to an array library."""
    top = module.partition(".")[0]
    return top in _LIBRARIES or (top in sys.stdlib_module_names and top != "__main__")


def library_of(value: object) -> str | None:
    """Return the library that a function comes from; None for any other value."""
    if isinstance(value, np.ufunc):
        return "numpy"
    module = value.__module__ if isinstance(value, FUNCTIONS) else None
    return module if isinstance(module, str) and is_library(module) else None


def foreign_hint(name: str) -> str | None:
    """Return the hint for a bare name that NumPy has and a cell has not; None for any other name."""
    if name in _INSTEAD and not name.startswith(("real", "size", "shape", "float", "int")):
        return f"write {_INSTEAD[name]}"
    homes = (np, np.linalg)
    has = any(name in home.__all__ and callable(getattr(home, name, None)) for home in homes)
    return ELSEWHERE if has else None


def cell_equivalent(path: tuple[str, ...], module: str, available: Iterable[str]) -> str | None:
    """Return the cell-language equivalent of a library function, or None.

    A function of the same name in another library may mean something else.
    ``available``: the functions of that library that a cell can call.
    """
    name = path[-1]
    instead = _INSTEAD.get(name)
    if instead is not None:
        return ".".join([*path[:-1], instead]) if instead in available else instead
    if name not in BUILTINS or BUILTINS[name].is_refused:
        return None
    top = module.partition(".")[0]
    if top in _ALIKE or (top in _NEARLY and name not in _OTHERWISE):
        return name
    return None
