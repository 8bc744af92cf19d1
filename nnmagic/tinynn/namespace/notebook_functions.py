"""Find the functions of the notebook that values are, or are made of, without running any code of it."""

from __future__ import annotations

import inspect
import pathlib
import sysconfig
import types
from dataclasses import dataclass

from nnmagic.tinynn.namespace.compiled_values import as_template

_PACKAGES = frozenset(("site-packages", "dist-packages"))

#: Where Python and the libraries are installed.
_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(pathlib.Path(__file__).parents[2])}
)


def python_code(value: object) -> types.FunctionType | None:
    """Return the function of the notebook that a value is, or that another compiler made it of; else None.

    Functions of installed libraries are none.
    """
    if ruled_function(value) is not None:
        return None
    for maker in ("numba.", "jax", "torch.", "functools"):
        if type(value).__module__.startswith(maker):
            inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
            value = inner if isinstance(inner, types.FunctionType) else value
    if not isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__"):
        return None
    filename = value.__code__.co_filename
    is_installed = filename.startswith(_INSTALLED) or not _PACKAGES.isdisjoint(
        pathlib.PurePath(filename).parts
    )
    return None if is_installed else value


@dataclass(frozen=True, slots=True)
class RuledFunction:
    """A function of the notebook with a gradient rule: JAX's ``custom_vjp``, or nnmagic's.

    kind: its name. rules: the functions of the rule, None for one that is missing. each: whether
    there is one for each argument.
    """

    kind: str
    function: object
    rules: tuple[object, ...]
    nondiff: tuple[int, ...]
    each: bool = False


def ruled_function(value: object) -> RuledFunction | None:
    """Return what a function with a gradient rule is made of; None for any other value."""
    named = {base.__name__: base.__module__ for base in type(value).__mro__}
    kind = "custom_vjp" if "custom_vjp" in named else "custom_jvp"
    if not named.get(kind, "").startswith(("jax.", "nnmagic.")):
        return None
    parts = vars(value)
    jvps = parts.get("jvps", ())
    if kind == "custom_jvp" and not jvps and isinstance(rule := parts.get("jvp"), types.FunctionType):
        jvps = dict(zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True)).get("jvps", ())
        jvps = getattr(jvps, "cell_contents", ())  # of jax's defjvps
    rules = jvps or tuple(parts.get(name) for name in (("fwd", "bwd") if kind == "custom_vjp" else ("jvp",)))
    return RuledFunction(kind, parts.get("fun"), rules, tuple(parts["nondiff_argnums"]), each=bool(jvps))


def source_code(value: object) -> types.FunctionType | None:
    """Return the function of Python that has the source of a function of the notebook, compiled or not."""
    if as_template(value) is not None:
        wrapped: object = getattr(value, "__wrapped__", None)
        return wrapped if isinstance(wrapped, types.FunctionType) else None
    return python_code(value)


def names_in(code: types.CodeType) -> set[str]:
    """Return the names that may be global in the code of a function, and of those inside it."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def method_code(value: object, name: str) -> types.FunctionType | None:
    """Return the function of the notebook that is a method of an object's class; None for any other."""
    method = inspect.getattr_static(type(value), name, None)
    return python_code(method) if isinstance(method, types.FunctionType) else None
