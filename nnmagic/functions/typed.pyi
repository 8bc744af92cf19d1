# What an editor shows of decorated functions. Only type checkers read this file: at run time
# nnmagic.function gives a CompiledFunction or a SpecializingFunction.
from typing import Any, Generic, ParamSpec, overload

from nnmagic.functions.compiled import CompiledFunction

P = ParamSpec("P")

class TypedFunction(CompiledFunction, Generic[P]):
    """A compiled function with the parameters of the Python function that it was made of."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> Any: ...
