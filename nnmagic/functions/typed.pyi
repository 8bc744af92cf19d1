# What type checkers and editors know of compiled functions. Only they read this file: at run time
# nnmagic.function gives a CompiledFunction or a SpecializingFunction.
from collections.abc import Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, overload

from typing_extensions import Unpack as Unpack

from nnmagic.engine.custom import Engine
from nnmagic.functions.caching.compile_options import Convert, Target
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.relay.passes.pipeline import Pass

P = ParamSpec("P")
R = TypeVar("R")

class CompileOptions(TypedDict, total=False):
    """The options of nnmagic.compile and nnmagic.function, with the defaults that they have there."""

    engine: str | Engine
    target: Target
    opt_level: int
    promote: bool | None
    convert: Convert
    passes: Iterable[str | Pass]
    debug: bool
    zero_d_arrays: bool
    namespace: Mapping[str, object] | None
    cache: bool

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
