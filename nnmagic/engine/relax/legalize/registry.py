"""What a lowering rule is, the ways to write one, and the table that the families fill.

A rule says what one call of a Relay operator becomes in Relax. Knows Relay's calls and TVM, no other part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tvm import relax, tirx, topi
from tvm import te as te_language
from tvm.ir import StringImm

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.engine.relax.runtime.callbacks import REQUIRED
from nnmagic.engine.relax.tir.builders import expr
from nnmagic.relay.expr import Attrs, Call
from nnmagic.relay.types import AnyDim, VarDim

#: A lowered value: one Relax expression, or a tuple of values (Relay's tuples exist only while lowering).
Value = Any


def required(condition: Any, message: str) -> Any:
    """The call that raises ValueError where a condition does not hold: a truth value, or a tensor of one.

    Relax's own assertion is Python code of TVM's compiler, which may not be there when the program runs.
    """
    return relax.Call(
        relax.ExternFunc(REQUIRED), [condition, StringImm(message)], ty_args=[relax.TupleType([])]
    )


_ALL = te_language.comm_reducer(lambda a, b: tirx.And(a, b), lambda dtype: tirx.const(1, dtype))  # noqa: PLW0108 - TVM reads its parameters' names


@dataclass(frozen=True, slots=True)
class OpCall:
    """One call being lowered: the builder that collects code, the call, its lowered arguments.

    ``labels`` holds the dimensions that the enclosing function names; ``effects`` says what the rule has had
    computed besides its result.
    """

    builder: relax.BlockBuilder
    call: Call
    args: tuple[Value, ...]
    labels: Mapping[str, Any]
    effects: list[str] = field(default_factory=list)

    @property
    def attrs(self) -> Attrs:
        """The call's attributes, complete."""
        return self.call.attrs

    def te(
        self,
        function: Callable[..., Any],
        *args: Value,
        primfunc_attrs: Mapping[str, object] | None = None,
    ) -> Value:
        """A kernel computed by a tensor expression; ``args`` are tensors, tuples of them or dimensions."""
        name = _kernel_name(self.call)
        given = [list(arg) if isinstance(arg, tuple) else arg for arg in args]
        return self.builder.call_te(function, *given, primfunc_name_hint=name, primfunc_attrs=primfunc_attrs)

    def emit(self, expr: Any) -> Value:
        """Binds an intermediate expression to a variable."""
        self.effects.append("emit")
        return self.builder.emit(expr)

    def match_cast(self, value: Value, type_: Any) -> Value:
        """Binds a value as of a type, whose dimensions it names."""
        self.effects.append("match_cast")
        return self.builder.match_cast(value, type_)

    def require(self, condition: Any, message: str) -> None:
        """What must hold of symbolic dimensions; the call raises ValueError where it does not."""
        if isinstance(condition, bool | tirx.IntImm):
            if not bool(condition):
                raise engine_error(f"{self.name}: {message}", self.call.span)
        else:
            self.emit(required(condition, f"{self.name}: {message}"))

    def require_all(self, tensor: Value, holds: Callable[[Any], Any], message: str) -> None:
        """What must hold of every element; the call raises ValueError where it does not."""

        def compute(data: Any) -> Any:
            flat = topi.reshape(data, [math.prod(data.shape)])
            k = te_language.reduce_axis((0, flat.shape[0]), "k")
            return te_language.compute((), lambda: _ALL(holds(flat(k)), axis=k))

        held = self.emit(self.te(compute, tensor))
        self.emit(required(held, f"{self.name}: {message}"))

    def dims(self, dims: Iterable[object]) -> list[Any]:
        """Dimensions that an attribute gives (ints, or names that the parameters of the function have)."""
        return [self._dim(dim) for dim in dims]

    def _dim(self, dim: object) -> Any:
        assert isinstance(dim, int | AnyDim | VarDim)
        found = size_of(dim, self.labels, expr)
        if found is not None:
            return found
        label = label_of(dim) or "?"
        raise engine_error(f"{self.name}: the dimension {label} is not one of a parameter", self.call.span)

    @property
    def name(self) -> str:
        """The operator's name, for messages."""
        return str(getattr(self.call.op, "name", "call"))

    def refuse(self, message: str) -> NoReturn:
        """Says that this call cannot be run, at its place."""
        raise engine_error(f"{self.name}: {message}", self.call.span)


#: TVM's number of the kernels that it does not fuse.
OPAQUE = 8

#: Lowers a call: gives an expression that is not yet bound, or a tuple of bound values.
Rule = Callable[[OpCall], Value]

#: Every operator that this engine runs, by its Relay name.
RULES: dict[str, Rule] = {}

#: Lowers a call whose arguments may be blocked (``blocked.Blocked``); None where it needs plain ones.
BLOCKED_RULES: dict[str, Rule] = {}


def op(function: Callable[..., Any], *names: str, **renamed: str) -> Rule:
    """A Relax operator of the same meaning: operands by position, the named attributes by keyword.

    ``renamed`` maps the keyword to the attribute where the names differ.
    """
    return lambda site: function(*site.args, **_keywords(site.attrs, names, renamed))


def te(function: Callable[..., Any], *names: str, **renamed: str) -> Rule:
    """A tensor expression, usually from topi: operands by position, the named attributes by keyword."""

    def rule(site: OpCall) -> Value:
        keywords = _keywords(site.attrs, names, renamed)
        return site.te(lambda *tensors: function(*tensors, **keywords), *site.args)

    return rule


def te_of(function: Callable[..., Any]) -> Rule:
    """A tensor expression of (attributes, operands...), where the attributes need a look first."""
    return lambda site: site.te(lambda *tensors: function(site.attrs, *tensors), *site.args)


def shape_of(value: Value) -> list[Any]:
    """The dimensions of a lowered tensor, ints where they are known."""
    return [_plain(dim) for dim in value.ty.shape.values]


def attr_dtype(value: Value) -> str:
    """The dtype of a lowered tensor."""
    return str(value.ty.dtype.dtype)


def _plain(dim: Any) -> Any:
    return int(dim.value) if hasattr(dim, "value") else dim


def _keywords(attrs: Attrs, names: tuple[str, ...], renamed: dict[str, str]) -> dict[str, object]:
    same = {name: _listed(attrs[name]) for name in names}
    return same | {keyword: _listed(attrs[name]) for keyword, name in renamed.items()}


def _listed(value: object) -> object:
    """TVM's functions take lists where our attributes are tuples, and plain ints."""
    if isinstance(value, tuple):
        return [_listed(item) for item in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _kernel_name(call: Call) -> str:
    return str(getattr(call.op, "name", "kernel")).replace(".", "_")
