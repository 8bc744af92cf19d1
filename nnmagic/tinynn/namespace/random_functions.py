"""Find NumPy's generators, and suggest what a cell writes for other random numbers of libraries.

None of the code of NumPy, PyTorch, JAX and Python runs.
"""

from __future__ import annotations

from types import BuiltinFunctionType, MethodType, ModuleType

import numpy as np

from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS, GENERATORS
from nnmagic.tinynn.calls.argument_binding import Builtin

_MAKE_A_KEY = "random numbers come from a key: write key = random.key(seed)"

#: What a cell calls in place of the functions of libraries, by their names.
INSTEAD = {
    **dict.fromkeys(("random", "rand", "random_sample", "ranf", "rand_like"), "random.uniform(key, shape)"),
    "uniform": "random.uniform(key, shape, low=0, high=1)",
    **dict.fromkeys(("randn", "standard_normal", "randn_like", "gauss"), "random.normal(key, shape)"),
    **dict.fromkeys(("normal", "normalvariate"), "random.normal(key, shape, loc=0, scale=1)"),
    **dict.fromkeys(
        ("integers", "randint", "randrange", "random_integers"), "random.integers(key, low, high, shape)"
    ),
    **dict.fromkeys(("shuffle", "permutation", "permuted", "randperm"), "random.permutation(key, x)"),
    **dict.fromkeys(("choice", "choices"), "random.choice(key, x, shape)"),
    "sample": "random.choice(key, x, shape, replace=False)",
    "bernoulli": "random.bernoulli(key, p, shape)",
    **dict.fromkeys(("exponential", "standard_exponential", "expovariate"), "random.exponential(key, shape)"),
    "gumbel": "random.gumbel(key, shape)",
    **dict.fromkeys(("multinomial", "categorical"), "random.categorical(key, logits)"),
    "split": "keys = random.split(key, 2)",
    "fold_in": "random.fold_in(key, i)",
    **dict.fromkeys(("bits", "bytes", "getrandbits"), "random.bits(key, shape)"),
}
#: What makes a generator or sets its state.
_GENERATORS = frozenset(
    ("default_rng", "Generator", "RandomState", "PRNGKey", "key", "seed", "manual_seed", "Random")
)
#: Names that no other function of an array library has, where they are not defined.
_BARE = frozenset(("default_rng", "randn", "randint", "randperm", "manual_seed", "PRNGKey"))
_MODULES = ("numpy.random", "jax.random", "random", "jax._src.random", "cupy.random")

#: What a cell takes from ``numpy.random``.
NUMPY_GENERATORS = frozenset({*GENERATORS, "Generator"})

#: The methods of a generator that replace functions of ``numpy.random`` with other names.
_METHODS = {
    **dict.fromkeys(("rand", "random_sample", "ranf", "sample"), "random(size)"),
    "randn": "standard_normal(size)",
    **dict.fromkeys(("randint", "random_integers"), "integers(low, high, size)"),
}


def generator_function(value: object) -> Builtin | None:
    """Return the language's function that makes a generator, of a function of ``numpy.random``; else None."""
    for name, builtin in GENERATORS.items():
        if value is getattr(np.random, name):
            return builtin
    return None


def is_of_numpy(value: object) -> bool:
    """Return whether a module, or a function of random numbers, is NumPy's."""
    if isinstance(value, ModuleType):
        return value.__name__.startswith("numpy")
    owner = getattr(value, "__self__", None)
    return str(getattr(value, "__module__", None) or type(owner).__module__).startswith("numpy")


def numpy_hint(name: str) -> str:
    """Return what a cell writes for a function of ``numpy.random`` that has a hidden state."""
    make = "rng = np.random.default_rng(seed)"
    if name in _GENERATORS:
        return f"write {make}, or pass a generator as an argument: rng: np.random.Generator"
    method = _METHODS.get(name, f"{name}(...)" if name in GENERATOR_METHODS else "random(size)")
    return f"write {make}, then rng.{method}"


def random_hint(name: str) -> str:
    """Return what a cell writes for a function that draws random numbers or makes a generator."""
    if name == "default_rng":
        return numpy_hint(name)
    if name in _GENERATORS:
        return f"{_MAKE_A_KEY}, then random.normal(key, (3,)), random.integers(key, 10), ..."
    instead = INSTEAD.get(name, "random.normal(key, (3,)), random.uniform(key, (3,)), ...")
    return f"{_MAKE_A_KEY}, then {instead}"


def draws_random_numbers(owner: ModuleType, path: tuple[str, ...]) -> str | None:
    """Return the function of random numbers that a dotted name from a module on means; else None."""
    name = owner.__name__
    for index, part in enumerate(path):
        whole = f"{name}.{'.'.join(path[:index])}".rstrip(".")
        if whole in _MODULES:
            return part
    torch = name == "torch" and len(path) == 1
    return (
        path[0] if torch and (path[0] in INSTEAD or path[0] in _GENERATORS) and path[0] != "split" else None
    )


def is_generator(value: object) -> bool:
    """Return whether a value is a generator of random numbers of a library."""
    kind = type(value)
    library = kind.__module__.partition(".")[0] in ("numpy", "torch", "random")
    return library and kind.__qualname__ in ("Generator", "RandomState", "Random", "SystemRandom")


def is_random_function(value: object) -> bool:
    """Return whether a value is a function of random numbers, imported by its own name."""
    if type(value).__name__ == "cython_function_or_method":
        return str(getattr(value, "__module__", "")).startswith("numpy.random")
    if isinstance(value, MethodType | BuiltinFunctionType):
        return is_generator(value.__self__)
    return False


def is_random_name(name: str) -> bool:
    """Return whether a name that is not defined is that of a function of random numbers."""
    return name in _BARE
