"""Define what a legalization rule is, the ways to write one, and the table that the operator families fill.

A rule lowers one call of a Relay operator to Relax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import tvm
import tvm_ffi
from tvm import relax, tirx, topi
from tvm import te as te_language
from tvm.ir import StringImm

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.engine.relax.legalize.size_names import SizeNames, define_sizes
from nnmagic.engine.relax.legalize.sizes import is_complicated, simplify
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import REQUIRED
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, RelaxExpr, Var
from nnmagic.relay.expr import Attrs, Call
from nnmagic.relay.op_call import CallView
from nnmagic.relay.types import AnyDim, VarDim

#: A lowered value: one Relax expression, or a tuple of values (Relay's tuples exist only while lowering).
Value: TypeAlias = Any


def assertion(condition: PrimExpr | RelaxExpr, message: str, operator: str | None = None) -> RelaxExpr:
    """Return a call that raises ValueError where a condition does not hold.

    The condition is a truth value, or a tensor of one. Relax's own assertion is Python code of TVM's
    compiler, which may not be installed where the program runs.
    """
    texts = [StringImm(text) for text in (message, operator) if text is not None]
    return relax.Call(relax.ExternFunc(REQUIRED), [condition, *texts], ty_args=[relax.TupleType([])])


#: Reduces truth values to whether all hold.
ALL = te_language.comm_reducer(lambda a, b: tirx.And(a, b), lambda dtype: tirx.const(1, dtype))  # noqa: PLW0108 - TVM reads its parameters' names


@dataclass(frozen=True, slots=True)
class OpCall(CallView):
    """One call that is being lowered.

    builder: collects the Relax code. node: the call in Relay. args: its lowered arguments. labels: the
    dimensions that the enclosing function names. find_elements: returns the elements of a value whose
    elements are sizes. size_names: the sizes that have got names. effects: what the rule has used besides
    types and attributes, or has emitted besides its result.
    """

    builder: relax.BlockBuilder
    node: Call
    args: tuple[Value, ...]
    labels: Mapping[str, Extent]
    find_elements: Callable[[Value], Sequence[Extent] | None] = lambda _: None
    size_names: SizeNames = field(default_factory=SizeNames)
    effects: list[str] = field(default_factory=list)

    def te(
        self,
        function: Callable[..., Tensor | list[Tensor]],
        *args: Value,
        primfunc_attrs: Mapping[str, object] | None = None,
    ) -> RelaxExpr:
        """Return the call of a kernel that a tensor expression computes.

        ``args`` are tensors, tuples of tensors, or dimensions.
        """
        name = _kernel_name(self.node)
        operands = [list(arg) if isinstance(arg, tuple) else arg for arg in args]
        return self.builder.call_te(
            function, *operands, primfunc_name_hint=name, primfunc_attrs=primfunc_attrs
        )

    def elements(self, arg: Value) -> list[Extent] | None:
        """Return the elements of an argument if they are constants or arithmetic on sizes, else None."""
        elements = self.find_elements(arg)
        if elements is None:
            return None
        self.effects.append("elements")
        return list(elements)

    def emit(self, expr: RelaxExpr) -> Value:
        """Bind an intermediate expression to a variable."""
        self.effects.append("emit")
        return self.builder.emit(expr)

    def define_sizes(self, shape: RelaxExpr, variables: Sequence[Var]) -> None:
        """Bind dimensions to the sizes of a shape."""
        self.effects.append("define_sizes")
        define_sizes(self.builder, shape, variables)

    def name_size(self, size: Extent) -> Extent:
        """Return a dimension that names a size if its arithmetic is not simple, else the size."""
        if not is_complicated(size):
            return size
        self.effects.append("name_size")
        return self.size_names.name(self.builder, size)

    def require(self, condition: PrimExpr | bool, message: str) -> None:
        """Refuse the call where a condition on dimensions does not hold.

        Raises EngineError where that is clear at compile time; otherwise the program raises ValueError.
        """
        if isinstance(condition, bool | tirx.IntImm):
            if not bool(condition):
                raise engine_error(f"{self.name}: {message}", self.node.span)
        else:
            self.emit(assertion(condition, f"{self.name}: {message}", self.name))

    def require_all(self, tensor: Value, predicate: Callable[[PrimExpr], PrimExpr], message: str) -> None:
        """Have the program raise ValueError where a predicate does not hold of every element of a tensor."""
        condition = self.holds_of_all(tensor, predicate)
        self.emit(assertion(condition, f"{self.name}: {message}", self.name))

    def holds_of_all(self, tensor: Value, predicate: Callable[[PrimExpr], PrimExpr]) -> Value:
        """Compute whether a predicate holds of every element of a tensor: a tensor of one truth value."""

        def compute(data: Tensor) -> Tensor:
            flat = topi.reshape(data, [math.prod(data.shape)])
            k = te_language.reduce_axis((0, flat.shape[0]), "k")
            return te_language.compute((), lambda: ALL(predicate(flat(k)), axis=k))

        return self.emit(self.te(compute, tensor))

    def lower_dims(self, dims: Iterable[object]) -> list[Extent]:
        """Lower the dimensions of an attribute: ints, or names that the function's parameters have."""
        return [self._lower_dim(dim) for dim in dims]

    def _lower_dim(self, dim: object) -> Extent:
        assert isinstance(dim, int | AnyDim | VarDim)
        size = size_of(dim, self.labels, as_expr)
        if size is not None:
            return size
        label = label_of(dim) or "?"
        raise engine_error(f"{self.name}: the dimension {label} is not one of a parameter", self.node.span)

    def refuse(self, message: str) -> NoReturn:
        """Raise EngineError with the location of this call."""
        raise engine_error(f"{self.name}: {message}", self.node.span)


#: TVM's number of the kernels that it does not fuse.
OPAQUE = 8

#: TVM's number of the kernels each of whose elements is computed of one element of each operand, which may be
#: smaller.
BROADCAST = 1

#: TVM's number of the kernels each of whose elements is computed of one element, anywhere in each operand.
INJECTIVE = 2

#: TVM's pattern of a kernel that reduces.
REDUCTION = 3

#: Marks a kernel that reduces and goes on with the results.
REDUCES = "nnmagic.reduces"

#: TVM's number of the kernels into which it fuses the element-wise operators that follow.
OUT_ELEMENTWISE_FUSABLE = 4

#: Lowers a call to an expression that is not bound yet, or to a tuple of bound values.
Rule: TypeAlias = Callable[[OpCall], Value]

#: Every operator that this engine runs, by its Relay name.
RULES: dict[str, Rule] = {}

#: Lowers a call whose arguments may be blocked (``blocked.layout.Blocked``); None where it needs dense ones.
BLOCKED_RULES: dict[str, Rule] = {}


def op(function: Callable[..., RelaxExpr], *names: str, **renamed: str) -> Rule:
    """Lower to a Relax operator of the same meaning: operands by position, the named attributes by keyword.

    ``renamed`` maps the keyword to the attribute where the names differ.
    """
    return lambda call: function(*call.args, **_keywords(call.attrs, names, renamed))


def te(function: Callable[..., Tensor], *names: str, **renamed: str) -> Rule:
    """Lower to a tensor expression of topi's kind: operands by position, the named attributes by keyword."""

    def rule(call: OpCall) -> Value:
        keywords = _keywords(call.attrs, names, renamed)
        return call.te(lambda *tensors: function(*tensors, **keywords), *call.args)

    return rule


def te_of(function: Callable[..., Tensor | list[Tensor]], *, reduces: bool = False) -> Rule:
    """Lower to a tensor expression of (attributes, operands...), for attributes that need a look first.

    ``reduces``: whether it is a reduction and what is computed of its results.
    """
    attrs = {REDUCES: True} if reduces else {}
    return lambda call: call.te(
        lambda *tensors: function(call.attrs, *tensors), *call.args, primfunc_attrs=attrs
    )


def shape_of(value: Value) -> list[Extent]:
    """Return the dimensions of a lowered tensor in normal form, ints where they are static."""
    return [simplify(_as_int(dim)) for dim in value.ty.shape.values]


def is_normal(value: Value) -> bool:
    """Return whether TVM sees the dimensions of a lowered tensor as `shape_of` returns them.

    Relax's operators require equal sizes to be equal expressions.
    """
    dims = value.ty.shape.values
    return all(
        isinstance(normal, int) or dim is normal or tvm_ffi.structural_equal(dim, normal)
        for dim, normal in zip(dims, shape_of(value), strict=True)
    )


def narrow_indices(call: OpCall, indices: Value) -> Value:
    """Return int64 indices as the int32 of Relay's type; `wide_indices` finds the int64 again."""
    return relax.op.astype(call.emit(indices), "int32")


def wide_indices(call: OpCall) -> Value | None:
    """Return the int64 indices that a cast of int32 ones came from, or None if they were always int32."""
    (indices, *_) = call.args
    source = call.node.args[0]
    if not isinstance(source, Call) or getattr(source.op, "name", "") not in _INDEX_OPERATORS:
        return None
    bound = call.builder.lookup_binding(indices) if isinstance(indices, relax.Var) else None
    if not isinstance(bound, relax.Call) or bound.op != _ASTYPE:
        return None
    return bound.args[0]


#: Operators whose results Relay types as int32, also where an index may be larger.
_INDEX_OPERATORS = frozenset({"argmax", "argmin", "argwhere"})

_ASTYPE = tvm.ir.Op.get("relax.astype")


def tensor_dtype(value: Value) -> str:
    """Return the dtype of a lowered tensor."""
    return str(value.ty.dtype.dtype)


def _as_int(dim: PrimExpr) -> Extent:
    return int(dim.value) if hasattr(dim, "value") else dim


def _keywords(attrs: Attrs, names: tuple[str, ...], renamed: dict[str, str]) -> dict[str, object]:
    same = {name: _as_list(attrs[name]) for name in names}
    return same | {keyword: _as_list(attrs[name]) for keyword, name in renamed.items()}


def _as_list(value: object) -> object:
    """Return an attribute as TVM's functions take it: lists for tuples, and plain ints."""
    if isinstance(value, tuple):
        return [_as_list(item) for item in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _kernel_name(call: Call) -> str:
    return str(getattr(call.op, "name", "kernel")).replace(".", "_")
