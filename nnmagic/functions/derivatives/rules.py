"""Give functions of Python gradient rules, which cells and ``@nnmagic.function`` call with them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from nnmagic.diagnostics import kind_of
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.specializing import SpecializingFunction

_Tangent = TypeVar("_Tangent", bound=Callable[..., object])


class _Ruled:
    """A function of Python with a gradient rule; a call compiles the function, as ``@nnmagic.function``."""

    def __new__(cls, fun: Callable[..., object] | None = None, **options: Any) -> Any:
        """Return the function; without one, a decorator with these options."""
        return functools.partial(cls, **options) if fun is None else super().__new__(cls)

    def __init__(self, fun: Callable[..., object], nondiff_argnums: int | tuple[int, ...] = ()) -> None:
        if not callable(fun):
            raise TypeError(f"{type(self).__name__} takes a function, not {kind_of(fun)}")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = (
            (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        )

    def compiled(self, engine: str = "auto") -> CompiledFunction | SpecializingFunction:
        """Return the function as ``@nnmagic.function`` compiles it, with its rule."""
        from nnmagic.functions.compile import compile  # noqa: A004 - the public name

        names = ", ".join(inspect.signature(self.fun).parameters)
        name = self.fun.__name__.strip("_") if self.fun.__name__.isidentifier() else "function"
        text = f"def {name}({names}):\n    return _function({names})\n"
        return compile(text, namespace={"_function": self}, engine=engine)

    @functools.cached_property
    def _called(self) -> CompiledFunction | SpecializingFunction:
        return self.compiled()

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._called(*args, **kwargs)


class custom_vjp(_Ruled):  # noqa: N801 - JAX's name
    """A function whose gradient is given by two others: see `defvjp`.

    ``nondiff_argnums``: the numbers of arguments that are not differentiated by, such as functions; the
    backward function takes them first.
    """

    fwd: Callable[..., object] | None = None
    bwd: Callable[..., object] | None = None

    def defvjp(self, fwd: Callable[..., object], bwd: Callable[..., object]) -> None:
        """Set the rule: ``fwd(*args)`` gives ``(result, residuals)``, ``bwd(residuals, d)`` the gradients."""
        self.fwd, self.bwd = fwd, bwd


class custom_jvp(_Ruled):  # noqa: N801 - JAX's name
    """A function whose derivative another gives: see `defjvp`. ``nondiff_argnums``: as in custom_vjp."""

    jvp: Callable[..., object] | None = None
    jvps: tuple[Callable[..., object] | None, ...] = ()

    def defjvp(self, jvp: _Tangent) -> _Tangent:
        """Set the rule: ``jvp(primals, tangents)`` gives ``(result, tangent)``; return it, as a decorator."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: ``jvp(tangent, result, *primals)``; None for one of zeros."""
        self.jvps = jvps
