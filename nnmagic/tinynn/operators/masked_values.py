"""Recognise elements that a mask chose, as in ``x[x > 0] = 1 / x[x > 0]``: their number need not be known.

What is computed element by element may be computed of all elements, and chosen where the mask is true.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, OpRef, Tuple, TupleGetItem, Var
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.types import Dim, TensorType, is_complex, is_float
from nnmagic.tinynn.values.values import Computed

_FAMILIES = frozenset(("unary", "binary"))

#: The most nodes of an expression that are looked at.
_MOST_NODES = 200


def of_all_elements(chosen: Computed, mask: Computed, shape: Sequence[Dim]) -> Computed | None:
    """Return a tensor of a shape that has the chosen elements where a mask of that shape is true.

    None if these are not real or complex numbers that are computed, each alone, of elements that the same
    mask chose: an integer that is divided by 0 would be an error.
    """
    if not (is_float(chosen.dtype) or is_complex(chosen.dtype)):
        return None
    done: dict[Expr, Expr | None] = {}
    is_masked = False
    work = [chosen.expr]
    while work:
        node = work[-1]
        if node in done:
            work.pop()
            continue
        if len(done) > _MOST_NODES:
            return None
        data = _chosen_from(node, mask.expr)
        if data is not None:
            is_masked = True
            done[node] = data
        elif _is_number(node):
            done[node] = node
        elif not isinstance(node, Call) or not _is_elementwise(node):
            return None
        elif missing := [arg for arg in node.args if arg not in done]:
            work.extend(missing)
        else:
            args = tuple(part for arg in node.args if (part := done[arg]) is not None)
            done[node] = Call(node.op, args, node.attrs, span=node.span)
    whole = done[chosen.expr]
    if not is_masked or whole is None:
        return None
    return Computed(whole, TensorType(tuple(shape), chosen.dtype))


def _is_elementwise(call: Call) -> bool:
    if not isinstance(call.op, OpRef):
        return False
    name = call.op.name
    return name == "cast" or (name in OPERATORS and OPERATORS[name].family in _FAMILIES)


def _is_number(node: Expr) -> bool:
    """Return whether a node certainly is of rank 0."""
    match node:
        case Constant(data=data):
            return data.ndim == 0
        case Var(type_annotation=TensorType(shape=())):
            return True
    return False


def _chosen_from(node: Expr, mask: Expr) -> Expr | None:
    """Return the tensor from which a mask chose the elements that a node is; None for another node."""
    match node:
        case Call(op=OpRef(name="adv_index"), args=(Tuple(fields=(data, *columns)),)):
            rank = len(columns)
            if rank and all(_is_column(column, number, mask) for number, column in enumerate(columns)):
                return data
        case Call(op=OpRef(name="take"), args=(data, column)):
            if node.attrs.get("axis") == 0 and _is_column(column, 0, mask):
                return data
    return None


def _is_column(node: Expr, number: int, mask: Expr) -> bool:
    """Return whether a node is a column of the positions where a mask is true."""
    match node:
        case Call(
            op=OpRef(name="take"),
            args=(
                Call(op=OpRef(name="cast"), args=(Call(op=OpRef(name="argwhere"), args=(condition,)),)),
                Constant(data=column),
            ),
        ):
            return node.attrs.get("axis") == 1 and int(column) == number and _is_same(condition, mask)
    return False


def _is_same(lhs: Expr, rhs: Expr) -> bool:
    """Return whether two expressions are the same operators on the same values."""
    work, seen = [(lhs, rhs)], 0
    while work:
        a, b = work.pop()
        seen += 1
        if a is b:
            continue
        if seen > _MOST_NODES:
            return False
        match a, b:
            case Constant(data=one), Constant(data=other):
                if one.dtype != other.dtype or not np.array_equal(one, other):
                    return False
            case Call(op=OpRef(name=name)), Call(op=OpRef(name=other_name)):
                if name != other_name or len(a.args) != len(b.args) or repr(a.attrs) != repr(b.attrs):
                    return False
                work.extend(zip(a.args, b.args, strict=True))
            case Tuple(), Tuple():
                if len(a.fields) != len(b.fields):
                    return False
                work.extend(zip(a.fields, b.fields, strict=True))
            case TupleGetItem(), TupleGetItem():
                if a.index != b.index:
                    return False
                work.append((a.tuple_value, b.tuple_value))
            case _:
                return False
    return True
