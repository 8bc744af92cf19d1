"""Define Relay's expressions: the whole IR on one page.

Nodes are frozen and compare by identity, because a Relay program is a graph: one node used twice is computed
once. ``span`` is where the node came from, ``checked_type`` what type inference found (None before).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import types as ty
from nnmagic.relay.failures import Failure

#: Values are numbers, strings (dtypes too), None, dimensions, constants and tuples of these.
Attrs = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Node:
    """An expression of Relay. ``str`` of an expression is its Relay text."""

    span: Span | None = None
    checked_type: ty.Type | None = None

    @property
    def inferred_type(self) -> ty.Type:
        """The type that inference found, of a node of a typed module."""
        assert self.checked_type is not None
        return self.checked_type

    @property
    def inferred_tensor(self) -> ty.TensorType:
        """The same of what is known to be a tensor."""
        assert isinstance(self.checked_type, ty.TensorType)
        return self.checked_type

    def __str__(self) -> str:
        from nnmagic.relay.text.printer import expr_text

        return expr_text(cast("Expr", self))

    def __repr__(self) -> str:
        """Return the node alone, in one line: the graph below it may be of any size."""
        type_ = "" if self.checked_type is None else f": {self.checked_type}"
        return f"<{type(self).__name__}{_label(self)}{type_}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Node):
    """``%x``: a parameter, a let-bound or a pattern variable; identity, not the name, says which.

    ``inferred``: type inference filled in the annotation.
    """

    name_hint: str
    type_annotation: ty.Type | None = None
    inferred: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GlobalVar(Node):
    """``@f``: a function of the module, by name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpRef(Node):
    """An operator in callee position, by name (``nn.dense``)."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constructor(Node):
    """A constructor of a data type: ``Cons``. ``tag`` is its index in the declaration."""

    name: str
    inputs: tuple[ty.Type, ...]
    belong_to: ty.GlobalTypeVar
    tag: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Node):
    """A constant tensor. ``data`` is read-only, C-contiguous and in native byte order.

    An array that its owner may still write to is copied.
    """

    data: np.ndarray

    def __post_init__(self) -> None:
        data: object = self.data
        while isinstance(data, np.ndarray):
            if data.flags.writeable:
                copied = np.array(self.data, self.data.dtype.newbyteorder("="), order="C")
                copied.flags.writeable = False
                object.__setattr__(self, "data", copied)
                return
            data = data.base

    @property
    def tensor_type(self) -> ty.TensorType:
        """The constant's type, from its array."""
        dtype = ty.dtype_of_array(self.data)
        assert dtype is not None
        return ty.TensorType(self.data.shape, dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """``op(args, attr=value)``: a call of an operator, a global, a constructor or any function value.

    ``attrs`` of an operator's call holds every attribute, in the order of the declaration.
    """

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = field(default_factory=dict)
    type_args: tuple[ty.Type, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(Node):
    """``(a, b)``."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Node):
    """``t.0``."""

    tuple_value: Expr
    index: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Node):
    """``let %v = value; body``."""

    var: Var
    value: Expr
    body: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """``if (cond) { ... } else { ... }``."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(Node):
    """``fn (params) -> ret_type { body }``; in a module, the definition of a global.

    ``inferred``: type inference filled in the result type.
    """

    params: tuple[Var, ...]
    body: Expr
    ret_type: ty.Type | None = None
    type_params: tuple[ty.TypeVar, ...] = ()
    attrs: Attrs = field(default_factory=dict)
    inferred: bool = field(default=False, kw_only=True)

    @property
    def result_type(self) -> ty.Type:
        """The result type of a function of a typed module."""
        assert self.ret_type is not None
        return self.ret_type


@dataclass(frozen=True, slots=True)
class PatternWildcard:
    """``_``."""


@dataclass(frozen=True, slots=True)
class PatternVar:
    """``%v``: matches anything and binds it."""

    var: Var


@dataclass(frozen=True, slots=True)
class PatternConstructor:
    """``Cons(p, q)``."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternTuple:
    """``(p, q)``."""

    patterns: tuple[Pattern, ...]


Pattern = PatternWildcard | PatternVar | PatternConstructor | PatternTuple


@dataclass(frozen=True, slots=True)
class Clause:
    """One arm of a match."""

    lhs: Pattern
    rhs: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Match(Node):
    """``match (data) { ... }``; ``match?`` where it need not be exhaustive (``complete`` False).

    ``assertion``: of a match that stands for ``assert`` or ``raise``: what is raised for a value that no arm
    takes.
    """

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True
    assertion: Failure | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefCreate(Node):
    """``ref(value)``."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefRead(Node):
    """``ref_read(ref)``."""

    ref: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefWrite(Node):
    """``ref_write(ref, value)``; its value is ``()``."""

    ref: Expr
    value: Expr


def _label(node: Node) -> str:
    """Return what tells a node from others of its kind, after a blank; "" if nothing short does."""
    match node:
        case Var(name_hint=name):
            return f" %{name}"
        case GlobalVar(name=name):
            return f" @{name}"
        case OpRef(name=name) | Constructor(name=name):
            return f" {name}"
        case Constant(data=data):
            return f" {data.dtype}{list(data.shape)}"
        case Call(op=OpRef() | GlobalVar() | Constructor() | Var() as op):
            return _label(op)
    return ""


Expr = (
    Var
    | GlobalVar
    | OpRef
    | Constructor
    | Constant
    | Call
    | Tuple
    | TupleGetItem
    | Let
    | If
    | Function
    | Match
    | RefCreate
    | RefRead
    | RefWrite
)


def constant(value: object, dtype: str | None = None, *, span: Span | None = None) -> Constant:
    """Return a constant from anything NumPy takes.

    Without ``dtype`` an array or a NumPy scalar keeps its own; Python floats become float32 and Python ints
    int32, in lists too. Raises TypeError for an element type that Relay does not have, which complex ones are
    unless ``dtype`` names them, and ValueError for a value that the dtype cannot hold.
    """
    array = np.asarray(value)
    wanted = dtype or ty.dtype_of_array(array)
    if dtype is None and not hasattr(value, "dtype"):
        wanted = _DTYPE_OF_NUMBERS.get(array.dtype.kind, wanted)
    if wanted not in ty.ARRAY_DTYPES or (dtype is None and ty.is_complex(wanted)):
        raise TypeError(f"a Relay constant cannot have the dtype {dtype or array.dtype}")
    data = _convert(array, wanted)
    data.flags.writeable = False
    return Constant(data, span=span)


#: The dtypes of Python's numbers, by the kind of array that NumPy makes of them.
_DTYPE_OF_NUMBERS = {"f": "float32", "i": "int32", "u": "int32"}


def _convert(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return a copy in a dtype; a float may be rounded, anything else must keep its value."""
    if array.dtype.kind == "c" and not ty.is_complex(dtype):
        raise ValueError(f"a complex number does not fit {dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        data = np.array(array, dtype=ty.ARRAY_DTYPES[dtype], order="C", copy=True)
    if ty.dtype_of_array(array) != dtype:
        lost = (
            np.isinf(data) & ~np.isinf(array) if ty.is_float(dtype) or ty.is_complex(dtype) else data != array
        )
        if lost.any():
            raise ValueError(f"{array[lost].flat[0]} does not fit {dtype}")
    return data


def operator_of(expr: Expr) -> str:
    """Return the name of the operator that an expression calls; "" if it calls none."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, OpRef) else ""


def call_of(expr: Expr, *operators: str) -> Call | None:
    """Return the expression if it is a call of one of these operators, or None."""
    return expr if isinstance(expr, Call) and operator_of(expr) in operators else None


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that ``expr`` is made of, in evaluation order, without binders and patterns."""
    parts = _PARTS.get(type(expr))
    return () if parts is None else parts(expr)


_PARTS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Call: lambda call: (call.op, *call.args),
    Tuple: lambda expr: expr.fields,
    TupleGetItem: lambda item: (item.tuple_value,),
    Let: lambda let: (let.value, let.body),
    If: lambda choice: (choice.cond, choice.true_branch, choice.false_branch),
    Function: lambda function: (function.body,),
    Match: lambda match: (match.data, *(clause.rhs for clause in match.clauses)),
    RefCreate: lambda create: (create.value,),
    RefRead: lambda read: (read.ref,),
    RefWrite: lambda write: (write.ref, write.value),
}
