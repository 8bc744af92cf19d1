# What type checkers and editors know of compiled functions. Only they read this file: at run time
# nnmagic.function gives a CompiledFunction or a SpecializingFunction.
from typing import Any, Generic, ParamSpec, TypeVar, overload

from nnmagic.functions.compiled import CompiledFunction

P = ParamSpec("P")
R = TypeVar("R")

class TypedFunction(CompiledFunction, Generic[P, R]):
    """A compiled function with the parameters and the result of the Python function that it was made of."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> R: ...
    @property
    def specializations(self) -> tuple[CompiledFunction, ...]:
        """The compiled functions that its calls have made, if its types are left to them."""
    @property
    def annotated(self) -> tuple[str, ...]:
        """Its signatures with the types of each specialization."""
