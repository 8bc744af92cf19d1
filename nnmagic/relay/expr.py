"""Relay's expressions: the whole IR on one page.

Nodes are frozen and compare by identity, because a Relay program is a graph: one node used twice is computed
once. ``span`` is where the node came from, ``checked_type`` what type inference found (None before). Knows no
text format, no operators, no TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.types import GlobalTypeVar, TensorType, Type, TypeVar, dtype_of_array

#: The value of an attribute: a number, a string (dtypes too), None, a tuple of values, or an expression.
AttrValue = "bool | int | float | str | None | tuple[AttrValue, ...] | Constant"
Attrs = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """What every expression carries."""

    span: Span | None = field(default=None, repr=False)
    checked_type: Type | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Var(Node):
    """``%x``: a parameter, a let-bound or a pattern variable; identity, not the name, says which.

    ``inferred`` says that type inference filled in the annotation, nobody wrote it.
    """

    name_hint: str
    type_annotation: Type | None = None
    inferred: bool = field(default=False, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalVar(Node):
    """``@f``: a function of the module, by name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class OpRef(Node):
    """An operator in callee position, by name (``nn.dense``)."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Constructor(Node):
    """A constructor of a data type: ``Cons``. ``tag`` is its place in the declaration."""

    name: str
    inputs: tuple[Type, ...]
    belong_to: GlobalTypeVar
    tag: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """A tensor known now. ``data`` is read-only, C-contiguous and in native byte order."""

    data: np.ndarray

    @property
    def tensor_type(self) -> TensorType:
        """The constant's type, from its array."""
        dtype = dtype_of_array(self.data)
        assert dtype is not None
        return TensorType(self.data.shape, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """``op(args, attr=value)``: a call of an operator, a global, a constructor or any function value.

    ``attrs`` of an operator's call holds every attribute, in the order of the declaration.
    """

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = field(default_factory=dict)
    type_args: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Tuple(Node):
    """``(a, b)``."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TupleGetItem(Node):
    """``t.0``."""

    tuple_value: Expr
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Let(Node):
    """``let %v = value; body``."""

    var: Var
    value: Expr
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """``if (cond) { ... } else { ... }``."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Function(Node):
    """``fn (params) -> ret_type { body }``; in a module, the definition of a global.

    ``inferred`` says that type inference filled in the result type, nobody wrote it.
    """

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    type_params: tuple[TypeVar, ...] = ()
    attrs: Attrs = field(default_factory=dict)
    inferred: bool = field(default=False, kw_only=True, repr=False)


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


@dataclass(frozen=True, slots=True, eq=False)
class Match(Node):
    """``match (data) { ... }``; ``match?`` where it need not be exhaustive (``complete`` False)."""

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class RefCreate(Node):
    """``ref(value)``."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class RefRead(Node):
    """``ref_read(ref)``."""

    ref: Expr


@dataclass(frozen=True, slots=True, eq=False)
class RefWrite(Node):
    """``ref_write(ref, value)``; its value is ``()``."""

    ref: Expr
    value: Expr


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
    """A constant from anything NumPy takes.

    Without ``dtype`` an array keeps its own, a Python float becomes float32 and a Python int int32.
    Raises TypeError for an element type that Relay does not have.
    """
    from nnmagic.relay.types import NUMPY_DTYPES

    if dtype is None and isinstance(value, bool | int | float):
        dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    given = np.asarray(value)
    wanted = dtype or dtype_of_array(given)
    if wanted is None or wanted not in NUMPY_DTYPES:
        raise TypeError(f"a Relay constant cannot have the dtype {dtype or given.dtype}")
    data = np.array(given, dtype=NUMPY_DTYPES[wanted], order="C", copy=True)
    data.flags.writeable = False
    return Constant(data, span=span)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that ``expr`` is made of, in evaluation order (binders and patterns left out)."""
    match expr:
        case Call(op=op, args=args):
            return (op, *args)
        case Tuple(fields=fields):
            return fields
        case TupleGetItem(tuple_value=value):
            return (value,)
        case Let(value=value, body=body):
            return (value, body)
        case If(cond=cond, true_branch=then, false_branch=other):
            return (cond, then, other)
        case Function(body=body):
            return (body,)
        case Match(data=data, clauses=clauses):
            return (data, *(clause.rhs for clause in clauses))
        case RefCreate(value=value):
            return (value,)
        case RefRead(ref=ref):
            return (ref,)
        case RefWrite(ref=ref, value=value):
            return (ref, value)
        case _:
            return ()
