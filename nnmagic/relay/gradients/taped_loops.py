"""Differentiate loops of a known number of rounds by two loops, whose tape is arrays.

The first loop runs the rounds forward and stores what the second one needs of each: the carried values, and
the results of expensive operators. The second loop takes the rounds from the last to the first, and
computes everything else again. Both call themselves at their end, so that neither needs a stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import LOOP
from nnmagic.relay.gradients.activity import FunctionActivity
from nnmagic.relay.gradients.blocks import (
    bindings_with_reads,
    forward,
    forward_block,
    fresh,
    reads_before_changes,
    reads_element,
    rename,
    type_of,
    with_bindings,
)
from nnmagic.relay.gradients.cotangents import Cotangents
from nnmagic.relay.gradients.counted_loops import CountedRecursion
from nnmagic.relay.ops.calls import call
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import Tree, items, leaf_types, leaves, nest, project, tree_of
from nnmagic.relay.types import ANY, AnyDim, TensorType, TupleType, Type

if TYPE_CHECKING:
    from nnmagic.relay.gradients.backward import Backward

_INDEX = TensorType((), "int64")


@dataclass(frozen=True, slots=True)
class TapedLoop:
    """A loop and the names of its two functions.

    forward: (carried, fixed, tapes) -> (carried after the last round, tapes). backward: (cotangents of the
    carried values, of the fixed ones, carried fixed values, tapes) -> the cotangents before the first round.
    tapes: their types. leaves: the leaf of a parameter whose values each has; None of other values.
    read: the fixed parameters that the backward loop reads.
    """

    loop: CountedRecursion
    activity: FunctionActivity
    forward: str
    backward: str
    tapes: tuple[TensorType, ...]
    leaves: tuple[tuple[ir.Var, int] | None, ...]
    read: tuple[ir.Var, ...]

    def leaf_activity(self, param: ir.Var) -> list[bool]:
        """Return which leaves of a parameter are differentiated."""
        return _active_leaves(self.activity, param)


@dataclass(frozen=True, slots=True)
class TapedCall:
    """A call of a loop whose rounds are on tapes: its arguments, and the results of the first pass."""

    taped: TapedLoop
    args: Mapping[ir.Expr, ir.Expr]
    env: Mapping[ir.Expr, ir.Expr]
    tapes: tuple[ir.Expr, ...]


# Store all of what the backward pass reads: Griewank and Walther (2008), chapter 4. Unlike
# recursion, whose stack keeps everything, tapes are arrays of known size, and both passes are
# loops.
def call_forward(
    taped: TapedLoop,
    loop: CountedRecursion,
    args: Sequence[ir.Expr],
    env: Mapping[ir.Expr, ir.Expr],
    span: Span | None,
) -> tuple[ir.Expr, TapedCall]:
    """Return the value of a call of the loop, and what its backward pass needs.

    loop: as this call begins it. env: what the names of the caller stand for.
    """
    substitution = dict[ir.Expr, ir.Expr](zip(loop.function.params, args, strict=True))
    number = _count(loop, substitution, span)
    if loop.number == ANY:  # below 0, it is no number of rounds
        number = call("maximum", [number, _number(0, span)], span)
    tapes = []
    for tape, leaf in zip(taped.tapes, taped.leaves, strict=True):
        first = None if leaf is None else project(substitution[leaf[0]], type_of(leaf[0]))[leaf[1]]
        tapes.append(_zeros(tape, first, loop, env, number, span))
    params = (*loop.carried, *loop.fixed)
    rounds = ir.Call(
        ir.GlobalVar(taped.forward, span=span),
        (_number(0, span), *(substitution[param] for param in params), *tapes),
        span=span,
    )
    count = len(loop.carried)
    results = list(items(rounds, count + len(tapes)))
    inner: dict[ir.Expr, ir.Expr] = {
        **substitution,
        **dict(zip(loop.carried, results, strict=False)),
        loop.counter: _counter_in_round(loop, number, span),
    }
    return forward_block(loop.exit, inner), TapedCall(taped, substitution, inner, tuple(results[count:]))


def call_backward(
    tape: TapedCall,
    backward: Backward,
    seed: Tree,
    so_far: Mapping[ir.Var, list[ir.Expr | None]],
    span: Span | None,
) -> list[Tree]:
    """Return the cotangents of the arguments of a call; ``seed``: that of its result.

    so_far: leaves to which those of fixed parameters are added. The rounds do that in place: arrays of zeros,
    and their sum, would cost each run of an inner loop a whole array.
    """
    taped, loop = tape.taped, tape.taped.loop
    _, cotangents = backward.of_block(loop.exit, tape.env, dict(taped.activity.active), seed, valued=False)
    params = [*loop.carried, *loop.fixed]
    seeds: list[ir.Expr] = []
    for param in params:
        cotangents.add(
            param, tree_of(iter(so_far.get(param, ())), type_of(param)) if param in so_far else None
        )
        filled = cotangents.filled(param, tape.env[param])
        seeds += [leaf for leaf, active in zip(filled, taped.leaf_activity(param), strict=True) if active]
    fixed = [tape.args[param] for param in taped.read]
    result = ir.Call(
        ir.GlobalVar(taped.backward, span=span), (_number(0, span), *seeds, *fixed, *tape.tapes), span=span
    )
    gradients = items(result, len(seeds))
    trees: dict[ir.Expr, Tree] = {}
    for param in params:
        parts = [next(gradients) if active else None for active in taped.leaf_activity(param)]
        trees[param] = tree_of(iter(parts), type_of(param))
    return [trees.get(param) for param in loop.function.params]


class LoopTaper:
    """Make the two functions of a loop."""

    def __init__(
        self, backward: Backward, loop: CountedRecursion, activity: FunctionActivity, name: str
    ) -> None:
        self.backward = backward
        self.loop = loop
        self.activity = activity
        self.name = name
        self.span = loop.function.span

    def tape(self) -> TapedLoop | None:
        """Return the loop with its functions, which become some of ``backward.made``.

        None if what must be stored has sizes that are dynamic.
        """
        loop, backward = self.loop, self.backward
        names = [backward.new_name(f"{self.name}_{suffix}") for suffix in ("taped", "backward")]
        stored = {
            leaf: path
            for param in loop.carried
            for leaf, path in (
                (ir.Var(param.name_hint, type_), (param, index)) for index, type_ in _parts(param)
            )
        }
        env: dict[ir.Expr, ir.Expr] = {param: fresh(param) for param in loop.fixed}
        place = ir.Var("round", _INDEX, span=self.span)
        env[loop.counter] = fresh(loop.counter)
        for param in loop.carried:
            own = [leaf for leaf, (of, _) in stored.items() if of is param]
            env[param] = nest(tree_of(iter(own), type_of(param)))
        round_, in_branches = _with_reads(loop.round)
        products: dict[ir.Var, ir.Var] = {
            ir.Var(var.name_hint, type_of(var)): var
            for var in (*(var for var, value in loop.round if self._is_kept(var, value)), *in_branches)
        }
        meanings: dict[ir.Var, ir.Expr] = {var: placeholder for placeholder, var in products.items()}
        env.update({var: meanings[var] for var, _ in loop.round if var in meanings})
        seeds, results, field_types = self._pull_round(env, {var: meanings[var] for var in in_branches})
        # Of another size in the next round, its cotangent there has that one.
        like = {
            leaf: seeds[path]
            for leaf, path in stored.items()
            if path in seeds and (_keeps_sizes(leaf) or self._is_updated(path[0]))
        }
        results = _in_shape_of(results, like)
        # Only values that the cotangents of a round mention are stored: a loop that only adds needs
        # none.
        needed = _free(results)
        taped = [leaf for leaf in (*stored, *products) if leaf in needed]
        # A tape is one array, a row for each round, so each value must have the same shape in all rounds:
        # a known one, or that of the parameter before the first.
        if not all(_is_static(leaf) or self._is_made_anew(stored.get(leaf)) for leaf in taped):
            return None
        tapes = tuple(_tape_type(leaf, loop.number) for leaf in taped)
        variables = [ir.Var(f"tape{index}", type_, span=self.span) for index, type_ in enumerate(tapes)]
        # What is not read again may change in place after this loop.
        read = tuple(param for param in loop.fixed if param is loop.end or env[param] in needed)
        fixed = [env[param] for param in read]
        reads, results = reads_before_changes(results)
        next_round = ir.Call(
            ir.GlobalVar(names[1], span=self.span),
            (self._next(place), *results, *fixed, *variables),
            span=self.span,
        )
        body = self._read_tapes(
            place, env, zip(taped, variables, strict=True), with_bindings(reads, next_round)
        )
        given = list(seeds.values())
        self._define(names[1], place, env, (*given, *fixed, *variables), body, given, field_types)
        paths = [stored[leaf] if leaf in stored else products[leaf] for leaf in taped]
        self._define_forward(names[0], round_, paths, tapes)
        return TapedLoop(loop, self.activity, names[0], names[1], tapes, tuple(map(stored.get, taped)), read)

    def _read_tapes(
        self,
        place: ir.Var,
        env: Mapping[ir.Expr, ir.Expr],
        tapes: Iterable[tuple[ir.Var, ir.Var]],
        body: ir.Expr,
    ) -> ir.Expr:
        """Return a backward round with what it reads of tapes; ``place``: how many rounds came before it."""
        loop, last = self.loop, ir.Var("last", _INDEX, span=self.span)
        for leaf, tape in tapes:
            # The round's number is in range by construction: no check.
            body = ir.Let(leaf, call("take", [tape, last], self.span, axis=0, mode="fast"), body)
        counter = env[loop.counter]
        assert isinstance(counter, ir.Var)
        body = ir.Let(counter, _counter_in_round(loop, last, self.span), body)
        before: ir.Expr = call("subtract", [_count(loop, env, self.span), _number(1, self.span)], self.span)
        if isinstance(loop.number, int):
            before = _number(loop.number - 1, self.span)
        # The backward loop counts up, and visits round n - 1 - k in its round k.
        return ir.Let(last, call("subtract", [before, place], self.span), body)

    def _is_kept(self, var: ir.Var, value: ir.Expr) -> bool:
        """Return whether a tape has a value: that of an expensive operator, or an element of what changes.

        The array that it is read from need not be stored then, of which each round changes an element.
        """
        if not reads_element(value):
            return _is_expensive(var, value)
        read = value.args[0]
        is_shape = any(each is read and ir.operator_of(of) == "shape_of" for each, of in self.loop.round)
        return not is_shape and read not in self.loop.fixed

    def _is_updated(self, param: ir.Var) -> bool:
        """Return whether rounds change elements of an array, which keeps its size."""
        changes, expr = dict(self.loop.round), self.loop.again[param]
        while expr is not param:
            value = changes.get(cast("ir.Var", expr))
            if not isinstance(value, ir.Call) or Trait.UPDATES not in traits_of(value):
                return False
            expr = value.args[0]
        return True

    def _is_made_anew(self, path: tuple[ir.Var, int] | None) -> bool:
        """Return whether each round makes an array of named sizes, so that a row of it costs no more.

        An array of which rounds change elements may be large.
        """
        if path is None or not _keeps_sizes(path[0]):
            return False
        value = dict(self.loop.round).get(cast("ir.Var", self.loop.again[path[0]]))
        return (
            isinstance(value, ir.Call)
            and bool(ir.operator_of(value))
            and Trait.UPDATES not in traits_of(value)
        )

    def _pull_round(
        self, env: dict[ir.Expr, ir.Expr], reads: Mapping[ir.Var, ir.Expr]
    ) -> tuple[dict[tuple[ir.Var, int], ir.Var], list[ir.Expr], list[Type]]:
        """Pull cotangents through a round; return their variables, their values before it, and types.

        Each variable is of a leaf of a parameter. ``reads``: what names in branches stand for.
        """
        loop, active = self.loop, dict(self.activity.active)
        scope = self.backward.scope(env, active, reads)
        self.backward.run(loop.round, scope)
        cotangents = Cotangents(scope.env, self.backward.data_types)
        seeds: dict[tuple[ir.Var, int], ir.Var] = {}
        for param in (*loop.carried, *loop.fixed):
            leaves: list[ir.Var | None] = []
            for type_, flows in zip(
                leaf_types(type_of(param)), _active_leaves(self.activity, param), strict=True
            ):
                own = self.backward.data_types.cotangent_type(type_)
                leaves.append(ir.Var(f"d_{param.name_hint}", own, span=self.span) if flows else None)
            seeds |= {(param, at): each for at, each in enumerate(leaves) if each is not None}
            self.backward.add(cotangents, loop.again[param], tree_of(iter(leaves), type_of(param)), scope)
        self.backward.pull(loop.round, scope, cotangents)
        results: list[ir.Expr] = []
        for param in (*loop.carried, *loop.fixed):
            filled = cotangents.filled(param, scope.env[param])
            active_leaves = _active_leaves(self.activity, param)
            results += [leaf for leaf, flows in zip(filled, active_leaves, strict=True) if flows]
        return seeds, results, [type_of(seed) for seed in seeds.values()]

    def _define_forward(
        self,
        name: str,
        round_: Sequence[tuple[ir.Var, ir.Expr]],
        paths: Sequence[ir.Var | tuple[ir.Var, int]],
        tapes: Sequence[TensorType],
    ) -> None:
        """Define the loop that runs the rounds and stores values of each."""
        loop, place = self.loop, ir.Var("round", _INDEX, span=self.span)
        env: dict[ir.Expr, ir.Expr] = {param: fresh(param) for param in (*loop.carried, *loop.fixed)}
        params = [env[param] for param in loop.carried]
        fixed = [env[param] for param in loop.fixed]
        variables = [ir.Var(f"tape{index}", type_, span=self.span) for index, type_ in enumerate(tapes)]
        counter = fresh(loop.counter)
        env[loop.counter] = counter
        for var, value in round_:
            env[var] = forward(value, env)
        row = call("expand_dims", [place], self.span, axis=0)
        stored = []
        for path, tape in zip(paths, variables, strict=True):
            value = (
                env[path] if isinstance(path, ir.Var) else project(env[path[0]], type_of(path[0]))[path[1]]
            )
            # Changed in place: the tape is carried by the loop alone, so no copy of it is made.
            stored.append(call("scatter_nd", [tape, row, value], self.span, mode="update"))
        again = [rename(loop.again[param], env) for param in loop.carried]
        body: ir.Expr = ir.Call(
            ir.GlobalVar(name, span=self.span), (self._next(place), *again, *fixed, *stored), span=self.span
        )
        body = ir.Let(counter, _counter_in_round(loop, place, self.span), body)
        results = [*params, *variables]
        types = [*(type_of(param) for param in loop.carried), *tapes]
        self._define(name, place, env, (*params, *fixed, *variables), body, results, types)

    def _define(
        self,
        name: str,
        place: ir.Var,
        env: Mapping[ir.Expr, ir.Expr],
        params: Sequence[ir.Expr],
        body: ir.Expr,
        results: Sequence[ir.Expr],
        types: Sequence[Type],
    ) -> None:
        """Define ``name(place, params) = if (place < number) body else results``."""
        condition = call("less", [place, _count(self.loop, env, self.span)], self.span)
        result = results[0] if len(results) == 1 else ir.Tuple(tuple(results), span=self.span)
        type_ = types[0] if len(types) == 1 else TupleType(tuple(types))
        whole = ir.If(condition, body, result, span=self.span)
        variables = [param for param in params if isinstance(param, ir.Var)]
        self.backward.made[name] = ir.Function(
            (place, *variables), whole, type_, attrs={LOOP: 1}, span=self.span
        )

    def _next(self, place: ir.Var) -> ir.Expr:
        return call("add", [place, _number(1, self.span)], self.span)


def _active_leaves(activity: FunctionActivity, param: ir.Var) -> list[bool]:
    tree = activity.active.get(param, False)
    type_ = type_of(param)
    return [bool(leaf) for leaf in leaves(tree if tree is not False else None, type_)]


def _parts(param: ir.Var) -> list[tuple[int, Type]]:
    return list(enumerate(leaf_types(type_of(param))))


def _is_expensive(var: ir.Var, value: ir.Expr) -> bool:
    """Return whether a value is stored on a tape: that of an expensive operator, of a known shape."""
    return Trait.HEAVY in traits_of(value) and _is_static(var)


def _is_static(var: ir.Var) -> bool:
    type_ = type_of(var)
    return isinstance(type_, TensorType) and all(isinstance(dim, int) for dim in type_.shape)


def _keeps_sizes(var: ir.Var) -> bool:
    """Return whether all rounds have the same sizes: each is known, or has a name."""
    type_ = type_of(var)
    return isinstance(type_, TensorType) and all(
        isinstance(dim, int) or getattr(dim, "label", None) is not None for dim in type_.shape
    )


def _with_reads(
    round_: Sequence[tuple[ir.Var, ir.Expr]],
) -> tuple[list[tuple[ir.Var, ir.Expr]], list[ir.Var]]:
    """Return a round whose branches give the elements that they read, too, and the names of these."""
    bindings, names = list[tuple[ir.Var, ir.Expr]](), list[ir.Var]()
    for var, value in round_:
        if isinstance(value, ir.If):
            more, found = bindings_with_reads(var, value)
            bindings += more
            names += found
        else:
            bindings.append((var, value))
    return bindings, names


#: Operators that read the shape of their first operand alone.
_OF_SHAPES = frozenset(("zeros_like", "ones_like", "shape_of"))


def _in_shape_of(exprs: Sequence[ir.Expr], like: Mapping[ir.Var, ir.Var]) -> list[ir.Expr]:
    """Return expressions with others of the same shape for variables of which they need the shape alone."""
    used = {
        part
        for node in post_order(ir.Tuple(tuple(exprs)))
        if ir.operator_of(node) not in _OF_SHAPES
        for part in ir.children(node)
    }
    shapes: dict[ir.Expr, ir.Expr] = {
        leaf: other for leaf, other in like.items() if leaf not in used and leaf not in exprs
    }
    replaced = substitute(ir.Tuple(tuple(exprs)), shapes) if shapes else ir.Tuple(tuple(exprs))
    assert isinstance(replaced, ir.Tuple)
    return list(replaced.fields)


def _free(exprs: Sequence[ir.Expr]) -> set[ir.Expr]:
    """Return the variables that expressions use."""
    return {node for node in post_order(ir.Tuple(tuple(exprs))) if isinstance(node, ir.Var)}


def _count(loop: CountedRecursion, env: Mapping[ir.Expr, ir.Expr], span: Span | None) -> ir.Expr:
    """Return the number of rounds."""
    if isinstance(loop.number, int):
        return _number(loop.number, span)
    assert loop.end is not None
    return env[loop.end]


def _zeros(
    tape: TensorType,
    first: ir.Expr | None,
    loop: CountedRecursion,
    env: Mapping[ir.Expr, ir.Expr],
    count: ir.Expr,
    span: Span | None,
) -> ir.Expr:
    """Return an empty tape; one of named sizes is made from the arrays that have them.

    first: a value that has the sizes of a row.
    """
    sizes, is_static = list(tape.shape[1:]), all(isinstance(size, int) for size in tape.shape[1:])
    if loop.number == ANY:
        rows = call("expand_dims", [count], span, axis=0)
        if is_static and sizes:
            rest = [ir.constant([size], "int64", span=span) for size in sizes]
            rows = call("concatenate", [ir.Tuple((rows, *rest))], span, axis=0)
        rows = call("dyn.full", [ir.constant(0, tape.dtype, span=span), rows], span, shape=None)
    elif loop.sized is None:
        rows = call("zeros", [], span, shape=[tape.shape[0], *(sizes if is_static else ())], dtype=tape.dtype)
    else:
        array, axis = loop.sized
        sums = call("sum", [rename(array, env)], span, axis=[axis], exclude=True)
        rows = call("cast", [call("zeros_like", [sums], span)], span, dtype=tape.dtype)
    if not sizes or (is_static and loop.sized is None):
        return rows
    column = call("expand_dims", [rows], span, axis=1, num_newaxis=len(sizes))
    row = call("zeros", [], span, shape=sizes, dtype=tape.dtype) if is_static else first
    assert row is not None
    return call("add", [column, row if is_static else call("zeros_like", [row], span)], span)


def _tape_type(leaf: ir.Var, number: int | AnyDim) -> TensorType:
    type_ = type_of(leaf)
    assert isinstance(type_, TensorType)
    return TensorType((number, *type_.shape), type_.dtype)


def _counter_in_round(loop: CountedRecursion, place: ir.Expr, span: Span | None) -> ir.Expr:
    """Return the counter's value in a round."""
    type_ = type_of(loop.counter)
    assert isinstance(type_, TensorType)
    value = place if type_.dtype == "int64" else call("cast", [place], span, dtype=type_.dtype)
    if loop.step != 1:
        value = call("multiply", [value, ir.constant(loop.step, type_.dtype, span=span)], span)
    if loop.start != 0:
        value = call("add", [value, ir.constant(loop.start, type_.dtype, span=span)], span)
    return value


def _number(value: int, span: Span | None) -> ir.Expr:
    return ir.constant(value, "int64", span=span)
