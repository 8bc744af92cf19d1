"""Move what does not change from round to round out of loops.

A loop is a function that calls itself. A parameter that it hands on unchanged has one value in all rounds,
and so has what is computed from such parameters alone. The caller computes that once, and passes it as a
further argument.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import Trait, is_speculatable, traits_of
from nnmagic.relay.passes.rewriting import keeps_types, substitute
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.structure import callgraph
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.types import TensorType, TupleType, Type

#: The most elements of a matrix that is transposed: a larger one is read from memory in either order.
_MOST_TRANSPOSED = 1 << 16


@keeps_types
def hoist_loop_invariants(module: Module, entry: str) -> Module:
    """Compute before each loop what its rounds share, where that cannot fail.

    A loop is a global function that calls itself; ``entry`` is none, as it is called from outside.
    Tensors whose shapes are known at compile time are looked at alone. The module must be typed.
    """
    functions = dict(module.functions)
    for group in callgraph.components(
        callgraph.call_graph(module)
    ):  # callees first: inner loops before those around them
        name = group[0]
        # Only a function that calls itself alone is a loop.
        if len(group) > 1 or name == entry or is_opaque(functions[name]):
            continue
        function, bodies = functions[name], [each.body for each in functions.values()]
        if function.type_params or not callgraph.rounds_of(name, function):
            continue
        # A call through a value, which no pass sees, would lack the further arguments.
        if any(callgraph.is_passed_on(name, body) for body in bodies):
            continue
        loop, transposes = _transpose_matrices(_inline_invariant_lets(functions[name], name), name)
        hoisted = _parts_to_hoist(loop, name, transposes)
        if not hoisted:
            continue
        functions = {
            caller: function if is_opaque(function) else _pass_parts(function, name, loop, hoisted)
            for caller, function in functions.items()
            if caller != name
        } | {name: _take_parts(loop, name, hoisted)}
    return replace(module, functions={name: functions[name] for name in module.functions})


@dataclass(slots=True)
class _Invariants:
    """The expressions of a loop that have one value in all rounds.

    working: those that compute anything. sizes: of each, the number of elements of the largest tensor that it
    is computed from.
    """

    working: set[ir.Expr] = field(default_factory=set)
    sizes: dict[ir.Expr, int] = field(default_factory=dict)

    def add(self, node: ir.Expr, exprs: Sequence[ir.Expr], *, works: bool) -> None:
        """Add a node that is made of ``exprs``, if they have one value and its shape is known."""
        size = _elements(node)
        if size is not None and all(expr in self.sizes for expr in exprs):
            self.sizes[node] = max((self.sizes[expr] for expr in exprs), default=size)
            if works or any(expr in self.working for expr in exprs):
                self.working.add(node)


def _invariants_of(function: ir.Function, name: str, kept: Collection[ir.Expr] = ()) -> _Invariants:
    """Return the invariants of a loop; ``kept`` are calls that are worth computing once, whatever they do."""
    invariants = _Invariants()
    for number in callgraph.find_invariants(name, function):
        invariants.add(function.params[number], (), works=False)
    nodes = list(post_order(function.body))
    values = {node.var: node.value for node in nodes if isinstance(node, ir.Let)}
    for node in nodes:
        match node:
            case ir.Var() if node in values:
                invariants.add(node, (values[node],), works=False)
            case ir.Constant() | ir.Tuple() | ir.TupleGetItem():
                invariants.add(node, ir.children(node), works=False)
            # A loop may run no round, and its body may be a branch that is not taken: only what
            # raises nothing and has no effect may be computed ahead of it. `for i in range(n): if
            # ok: linalg.inv(a)` must not raise for n = 0.
            case ir.Call(args=args) if is_speculatable(node):
                invariants.add(node, args, works=Trait.MOVES not in traits_of(node) or node in kept)
    return invariants


def _inline_invariant_lets(function: ir.Function, name: str) -> ir.Function:
    """Return a loop without the lets of what has one value in all rounds."""
    sizes = _invariants_of(function, name).sizes
    replaced: dict[ir.Expr, ir.Expr] = {}
    for node in post_order(function.body):
        if isinstance(node, ir.Let) and node.value in sizes:
            replaced |= {node: node.body, node.var: node.value}
    return substitute(function, replaced)


def _transpose_matrices(function: ir.Function, name: str) -> tuple[ir.Function, set[ir.Expr]]:
    """Return a loop that multiplies rows by transposes in place of matrices by columns; and the transposes.

    A product of a matrix with a column adds up along rows; with the transpose, it adds whole vectors.
    """
    sizes = _invariants_of(function, name).sizes
    transposes: dict[ir.Expr, ir.Call] = {}
    replaced: dict[ir.Expr, ir.Expr] = {}
    for node in post_order(function.body):
        if not isinstance(node, ir.Call) or not _multiplies_column(node) or node in sizes:
            continue
        matrix, column = node.args
        if sizes.get(matrix, math.inf) > _MOST_TRANSPOSED:
            continue
        rows, length = cast("tuple[int, int]", matrix.inferred_tensor.shape)
        dtype = matrix.inferred_tensor.dtype
        if matrix not in transposes:
            type_ = TensorType((length, rows), dtype)
            transposes[matrix] = _call("transpose", matrix, type_, axes=(1, 0))
        row = _reshape(column, (1, length), dtype)
        product = replace(node, args=(row, transposes[matrix]), checked_type=TensorType((1, rows), dtype))
        replaced[node] = _reshape(product, (rows, 1), dtype)
    changed = substitute(function, replaced) if replaced else function
    assert isinstance(changed, ir.Function)
    return changed, set(transposes.values())


def _multiplies_column(call: ir.Call) -> bool:
    """Return whether a call multiplies a matrix with a column, of known sizes, not empty, of one dtype."""
    if not isinstance(call.op, ir.OpRef) or call.op.name != "nn.matmul":
        return False
    if any(call.attrs[name] for name in ("out_dtype", "transpose_a", "transpose_b")):
        return False
    matrix, column = (arg.inferred_tensor for arg in call.args)
    return (
        column.shape[1] == 1
        and matrix.dtype == column.dtype
        and None not in map(_size_of, (matrix, column))
        and 0 not in matrix.shape  # a reshape takes 0 for the size that there was
    )


def _reshape(value: ir.Expr, shape: tuple[int, int], dtype: str) -> ir.Call:
    return _call("reshape", value, TensorType(shape, dtype), newshape=shape, allowzero=False)


def _call(name: str, value: ir.Expr, type_: TensorType, **attrs: object) -> ir.Call:
    return ir.Call(ir.OpRef(name), (value,), attrs, span=value.span, checked_type=type_)


def _parts_to_hoist(function: ir.Function, name: str, transposes: Collection[ir.Expr]) -> list[ir.Expr]:
    """Return the largest parts that are worth an argument, and the transposes."""
    invariants = _invariants_of(function, name, transposes)
    nodes = list(post_order(function.body))
    work = [child for node in nodes if node not in invariants.sizes for child in ir.children(node)]
    hoisted: set[ir.Expr] = set()
    seen: set[ir.Expr] = set()
    while work:
        node = work.pop()
        if node not in seen and node in invariants.working:
            seen.add(node)
            # The largest invariant part is taken whole; the search goes into parts that are not
            # worth it.
            if node in transposes or _is_worth(node, invariants.sizes[node]):
                hoisted.add(node)
            else:
                work.extend(ir.children(node))
    return [node for node in nodes if node in hoisted]


def _is_worth(node: ir.Expr, size: int) -> bool:
    """Return whether an expression is computed once; ``size``: of the largest tensor that it is made of.

    A tensor that is larger than that is repeated, which costs a kernel less than reading it.
    """
    traits = traits_of(node)
    if not traits or Trait.MOVES in traits:
        return False
    elements = _elements(node)
    return Trait.HEAVY in traits or (size > 1 and elements is not None and elements <= size)


def _elements(node: ir.Expr) -> int | None:
    """Return the number of elements of a tensor, or of the largest of a tuple; None if that is not known."""
    type_ = node.checked_type or (node.type_annotation if isinstance(node, ir.Var) else None)
    return _size_of(type_)


def _size_of(type_: Type | None) -> int | None:
    match type_:
        case TensorType(shape=shape):
            dims = [dim for dim in shape if isinstance(dim, int)]
            return math.prod(dims) if len(dims) == len(shape) else None
        case TupleType(fields=fields):
            sizes = [_size_of(field) for field in fields]
            static_sizes = [size for size in sizes if size is not None]
            return max(static_sizes, default=0) if len(static_sizes) == len(sizes) else None
    return None


def _take_parts(function: ir.Function, name: str, invariants: Sequence[ir.Expr]) -> ir.Function:
    """Return the loop that takes the parts as its last parameters, and hands them on."""
    params = [
        ir.Var(
            f"v{len(function.params) + index}",
            hoisted_expr.checked_type,
            span=hoisted_expr.span,
            checked_type=hoisted_expr.checked_type,
        )
        for index, hoisted_expr in enumerate(invariants)
    ]

    def transform(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return replace(new, args=(*new.args, *params)) if callgraph.is_call(new, name) else new

    body = rewrite(function.body, transform, dict(zip(invariants, params, strict=True)))
    return replace(function, params=(*function.params, *params), body=body, checked_type=None)


def _pass_parts(caller: ir.Function, name: str, loop: ir.Function, parts: Sequence[ir.Expr]) -> ir.Function:
    """Return a function that computes the parts wherever it calls the loop."""

    def transform(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if not callgraph.is_call(new, name):
            return new
        values: dict[ir.Expr, ir.Expr] = dict(zip(loop.params, new.args, strict=True))
        more = [rewrite(part, lambda _before, after: after, values) for part in parts]
        return replace(new, args=(*new.args, *more))

    return rewrite(caller, transform)
