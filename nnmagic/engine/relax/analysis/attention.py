"""Find attention: two products with a softmax between them, named or written out.

Type inference does not always know that dynamic sizes agree. So the call of ``ATTENTION`` has what was
written as its first argument, and its rule takes that where the sizes do not clearly agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.passes.rewriting import map_functions
from nnmagic.relay.reference import NoReferenceError, compute
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.types import TensorType

#: An operator of this engine: ``softmax(steps(query @ key)) @ value``. Its arguments are the same computed by
#: other operators, the query, the key, the value, the tensor that softmax takes, and the operands of steps.
#: Its attributes: "transposed" has a bool for query, key and value; "steps" holds, in order, tuples of an
#: operator, the number of its operand and a constant, which only "where", "where not" and ``CAUSAL`` need.
ATTENTION = "nnmagic.attention"

#: The step that sets the scores of keys after the query to a constant; it has no operand.
CAUSAL = "causal"

_RESHAPES = frozenset({"reshape", "dyn.reshape"})
_COMMUTATIVE = frozenset({"add", "multiply"})
_ARITHMETIC = _COMMUTATIVE | {"subtract", "divide"}

#: Masks of more elements, or made by more operators, are not evaluated.
_MOST_ELEMENTS, _MOST_NODES = 2**22, 40


def find_attention(module: Module) -> Module:
    """Put a call of ``ATTENTION`` around each product that is the last of an attention. Types are kept."""
    return map_functions(module, _find_in_function)


def _find_in_function(function: ir.Function) -> ir.Function:
    order = list(post_order(function))
    if not any(ir.call_of(node, "nn.softmax") for node in order):
        return function
    users: dict[ir.Expr, list[ir.Expr]] = {}
    for node in order:
        for child in ir.children(node):
            users.setdefault(child, []).append(node)

    def wrap(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        matched = _match(old)
        if matched is None or not _is_private(matched, users):
            return new
        # Matched on the old graph, whose users are known, and once more on the rewritten one, whose
        # nodes are used.
        again = _match(new)  # its operands may have become other ones
        return new if again is None else again.wrap(new)

    return rewrite(function, wrap)


@dataclass(frozen=True, slots=True)
class _Step:
    """A step from a product to a score."""

    operator: str
    score: ir.Expr
    operand: ir.Expr | None
    constant: float = 0.0


@dataclass(frozen=True, slots=True)
class _Attention:
    """The parts of an attention. ``inner`` are the calls between its products, and the first product."""

    query: ir.Expr
    key: ir.Expr
    value: ir.Expr
    scores: ir.Expr
    transposed: tuple[bool, bool, bool]
    steps: Sequence[_Step]
    inner: Sequence[ir.Call]

    def wrap(self, product: ir.Expr) -> ir.Call:
        """Return the call that stands for the last product."""
        operands: list[ir.Expr] = []
        steps = []
        for step in self.steps:
            steps.append((step.operator, len(operands), step.constant))
            if step.operand is not None:
                operands.append(step.operand)
        args = (product, self.query, self.key, self.value, self.scores, *operands)
        attrs: Mapping[str, object] = {"transposed": self.transposed, "steps": tuple(steps)}
        return ir.Call(ir.OpRef(ATTENTION), args, attrs, span=product.span, checked_type=product.checked_type)


def _is_private(attention: _Attention, users: Mapping[ir.Expr, Sequence[ir.Expr]]) -> bool:
    """Return whether nothing but the attention reads the elements of what it computes on the way."""
    inner: set[ir.Expr] = set(attention.inner)
    outside = [user for node in attention.inner for user in users[node] if user not in inner]
    # The one reader outside is the last product: scores that something else reads must be stored.
    return sum(not _reads_shape(user) for user in outside) == 1


def _reads_shape(user: ir.Expr) -> bool:
    """Return whether what uses a matrix needs no more of it than its shape."""
    # What fills a tensor takes a matrix only for its shape; the value that it fills with is a number.
    return ir.call_of(user, "shape_of") is not None or Trait.FILLS in traits_of(user)


def _match(last: ir.Expr) -> _Attention | None:
    """Read an attention from its last product."""
    product = _product(last)
    if product is None:
        return None
    weights, value = product.args
    inner: list[ir.Call] = []
    while call := ir.call_of(weights, *_RESHAPES):
        inner.append(call)
        weights = call.args[0]
    left_is_transposed, value_is_transposed = _transposes(product)
    softmax = ir.call_of(weights, "nn.softmax")
    if softmax is None or left_is_transposed or not _is_of_last_axis(softmax):
        return None
    inner.append(softmax)
    steps = _read_steps(softmax.args[0], inner)
    first = inner[-1]
    if steps is None or any(step.operand in inner for step in steps):
        return None
    query, key = first.args
    transposed = (*_transposes(first), value_is_transposed)
    return _Attention(query, key, value, softmax.args[0], transposed, steps, inner)


def _read_steps(scores: ir.Expr, inner: list[ir.Call]) -> list[_Step] | None:
    """Read the steps from the first product to the scores, in order, and append the calls to ``inner``.

    A step before a reshape may only have an operand of one element.
    """
    steps: list[_Step] = []
    node, is_reshaped = scores, False
    while _product(node) is None:
        if reshape := ir.call_of(node, *_RESHAPES):
            inner.append(reshape)
            is_reshaped, node = True, reshape.args[0]
            continue
        step = _read_step(node)
        if step is None or (is_reshaped and not _is_scalar(step.operand)):
            return None
        assert isinstance(node, ir.Call)
        inner.append(node)
        steps.append(step)
        node = step.score
    assert isinstance(node, ir.Call)
    inner.append(node)
    return steps[::-1]


def _read_step(node: ir.Expr) -> _Step | None:
    if call := ir.call_of(node, *_ARITHMETIC):
        lhs, rhs = call.args
        name = ir.operator_of(call)
        if name in _COMMUTATIVE and not _may_be_scores(lhs):
            lhs, rhs = rhs, lhs
        return _Step(name, lhs, rhs) if _may_be_scores(lhs) else None
    call = ir.call_of(node, "where")
    if call is None:
        return None
    condition, yes, no = call.args
    if not isinstance(condition.checked_type, TensorType) or condition.checked_type.dtype != "bool":
        return None
    # A constant condition is no mask: constant folding decides it.
    if _constant(condition) is not None:
        return None
    if (constant := _constant(yes)) is not None:
        if _is_triangle(condition, no, chosen=False):
            return _Step(CAUSAL, no, None, constant)
        return _Step("where not", no, condition, constant)
    if (constant := _constant(no)) is None:
        return None
    if _is_causal(condition, yes) or _is_triangle(condition, yes, chosen=True):
        return _Step(CAUSAL, yes, None, constant)
    return _Step("where", yes, condition, constant)


def _may_be_scores(node: ir.Expr) -> bool:
    """Return whether a product leads to a tensor by arithmetic, reshapes and choices."""
    while (call := ir.call_of(node, *_ARITHMETIC, *_RESHAPES, "where")) and _product(node) is None:
        args = call.args[1:] if ir.operator_of(call) == "where" else call.args
        is_second = _constant(args[0]) is not None or (
            _is_scalar(args[0]) and ir.operator_of(call) in _COMMUTATIVE
        )
        node = args[1] if is_second else args[0]
    return _product(node) is not None


def _is_causal(condition: ir.Expr, score: ir.Expr) -> bool:
    """Return whether a condition is that the column is not after the row, counted as cells do."""
    type_, comparison = score.checked_type, ir.call_of(condition, "less_equal")
    if comparison is None or not isinstance(type_, TensorType):
        return False
    rank = len(type_.shape)
    return all(
        _counts_along(counted, axis, score)
        for counted, axis in zip(comparison.args, (rank - 1, rank - 2), strict=True)
    )


def _counts_along(counted: ir.Expr, axis: int, score: ir.Expr) -> bool:
    """Return whether an expression counts positions of the score's tensor from 1 along an axis."""
    count = ir.call_of(counted, "cumsum")
    if count is None or count.attrs["axis"] != axis or count.attrs["exclusive"]:
        return False
    cast = ir.call_of(count.args[0], "cast")
    ones = None if cast is None else ir.call_of(cast.args[0], "ones_like")
    return ones is not None and ones.args[0] is score


def _is_triangle(condition: ir.Expr, score: ir.Expr, *, chosen: bool) -> bool:
    """Return whether a mask that depends on nothing chooses the columns up to the row, or those after."""
    type_ = score.checked_type
    if not isinstance(type_, TensorType) or len(type_.shape) < 2:
        return False
    mask = _evaluate(condition)
    if mask is None or mask.shape[-2:] != type_.shape[-2:] or mask.size != math.prod(mask.shape[-2:]):
        return False
    triangle = np.tri(*mask.shape[-2:]) == int(chosen)
    return np.array_equal(mask.reshape(triangle.shape).astype(bool), triangle)


def _evaluate(expr: ir.Expr) -> np.ndarray | None:
    """Return the value of a small program that depends on nothing; None of any other."""
    values: dict[ir.Expr, object] = {}
    for count, node in enumerate(post_order(expr)):
        type_ = node.checked_type
        if count >= _MOST_NODES:
            return None
        if isinstance(node, ir.Constant):
            values[node] = node.data
        elif isinstance(node, ir.Tuple) and all(field in values for field in node.fields):
            values[node] = tuple(values[field] for field in node.fields)
        elif isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef) and isinstance(type_, TensorType):
            sizes = [dim for dim in type_.shape if isinstance(dim, int)]
            small = len(sizes) == len(type_.shape) and math.prod(sizes) <= _MOST_ELEMENTS
            if not small or any(arg not in values for arg in node.args):
                return None
            try:
                values[node] = compute(node.op.name, [values[arg] for arg in node.args], node.attrs)
            except (NoReferenceError, ValueError, IndexError, ZeroDivisionError):
                return None
        elif not isinstance(node, ir.OpRef):
            return None
    value = values.get(expr)
    return value if isinstance(value, np.ndarray) else None


def _product(node: ir.Expr) -> ir.Call | None:
    """Return the node if it is a product of matrices, or of batches of them, in one dtype."""
    if not isinstance(node, ir.Call) or Trait.PRODUCT not in traits_of(node):
        return None
    types = [part.checked_type for part in (node, *node.args)]
    dtypes = {type_.dtype if isinstance(type_, TensorType) else "" for type_ in types}
    return node if dtypes in ({"float32"}, {"float64"}) else None


def _transposes(product: ir.Call) -> tuple[bool, bool]:
    if ir.operator_of(product) == "nn.dense":
        return False, True
    return bool(product.attrs["transpose_a"]), bool(product.attrs["transpose_b"])


def _is_of_last_axis(softmax: ir.Call) -> bool:
    type_, axis = softmax.checked_type, softmax.attrs["axis"]
    return isinstance(type_, TensorType) and axis in (-1, len(type_.shape) - 1)


def _is_scalar(node: ir.Expr | None) -> bool:
    return node is not None and isinstance(node.checked_type, TensorType) and not node.checked_type.shape


def _constant(node: ir.Expr) -> float | None:
    """Return the value of a constant of one element, None for others."""
    return float(node.data) if isinstance(node, ir.Constant) and node.data.shape == () else None
