"""Batch a function of a module: one call computes it for each element of the first axis of some parameters.

What does not depend on the example is computed once. An operator takes the batch axis by its rule; what has
none, and what examples decide, such as a ``while`` loop, runs in a loop over the examples.

JAX calls this vmap; loops over the rest are as in Agarwal and Ganichev, arXiv:1903.04243.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Diagnostics, RelayError, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import custom_rule
from nnmagic.relay.batching import layers as _layers
from nnmagic.relay.batching import rules as _rules
from nnmagic.relay.batching.flags import OF_SIZES, BatchFlags, FunctionFlags, is_test, spread_flag
from nnmagic.relay.batching.registry import RULES
from nnmagic.relay.batching.site import BatchCall, BatchSize, size_along
from nnmagic.relay.callbacks import CALLBACK
from nnmagic.relay.expr import constant as constant_of
from nnmagic.relay.gradients import blocks
from nnmagic.relay.gradients.transformation import prepare
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.traverse import binders, post_order
from nnmagic.relay.structure.tuple_trees import Tree, has_leaf, leaf_types, project, tree_of
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type

del _layers, _rules  # their rules are declared


@dataclass(frozen=True, slots=True)
class Batched:
    """A body over the parameters, whose result has the batch axis first, and what it calls and uses."""

    params: tuple[ir.Var, ...]
    body: ir.Expr
    helpers: dict[str, ir.Function]
    types: Mapping[str, TypeData]


@dataclass(slots=True)
class _BatchScope:
    """A block while it is batched: what its names stand for, and the function in which it stands."""

    env: dict[ir.Expr, ir.Expr]
    own: FunctionFlags
    size: BatchSize

    @property
    def flags(self) -> dict[ir.Expr, Tree]:
        """Which names have the batch axis."""
        return self.own.flags


def batch(module: Module, name: str, argnums: Sequence[int], dim: Dim, taken: set[str]) -> Batched:
    """Batch a function of a typed module along the first axis of the parameters ``argnums``.

    dim: the size of that axis. Names of helpers avoid ``taken``. Raises RelayError with every call that
    cannot be batched.
    """
    prepared = prepare(module, name, taken, RULES)
    function = prepared.functions[name]
    diagnostics = Diagnostics()
    batcher = _Batcher(prepared.functions, {*taken, *prepared.functions}, diagnostics)
    mask: list[bool] = []
    params: list[ir.Var] = []
    for index, param in enumerate(function.params):
        type_ = blocks.type_of(param)
        mask += [index in argnums] * len(leaf_types(type_))
        wide = _batched_type(type_, dim) if index in argnums else type_
        params.append(ir.Var(param.name_hint, wide, span=param.span))
    size = BatchSize(dim) if isinstance(dim, int) else _size_of(params[argnums[0]], dim)
    flags = batcher.flags.of_function(name, tuple(mask))
    env: dict[ir.Expr, ir.Expr] = {}
    for index, (old, new) in enumerate(zip(function.params, params, strict=True)):
        type_ = blocks.type_of(old)
        have = spread_flag(type_, flag=index in argnums)
        env[old] = _with_flags(new, have, flags.flags[old], type_, size)
    scope = _BatchScope(env, flags, size)
    if flags.holds_data:
        value, tree = batcher.whole(name, function, scope), spread_flag(function.result_type, flag=True)
    else:
        value, tree = batcher.of_block(function.body, scope)
    diagnostics.raise_if_any(RelayError)
    body = _complete(value, tree, function.result_type, size)
    helpers = {key: helper for key, helper in prepared.functions.items() if key != name} | batcher.made
    return Batched(tuple(params), body, helpers, prepared.types)


def _batched_type(type_: Type, dim: Dim) -> Type:
    if isinstance(type_, TupleType):
        return TupleType(tuple(_batched_type(field, dim) for field in type_.fields))
    assert isinstance(type_, TensorType)
    return TensorType((dim, *type_.shape), type_.dtype)


def _size_of(param: ir.Var, dim: Dim) -> BatchSize:
    """Return the size of the first axis of a parameter."""
    (leaf, *_), (type_, *_) = project(param, blocks.type_of(param)), leaf_types(blocks.type_of(param))
    assert isinstance(type_, TensorType)
    return BatchSize(dim, leaf, len(type_.shape) - 1)


def _complete(value: ir.Expr, tree: Tree, type_: Type, size: BatchSize) -> ir.Expr:
    """Return a value with the batch axis in all its leaves."""
    return _with_flags(value, tree, spread_flag(type_, flag=True), type_, size)


def _with_flags(value: ir.Expr, tree: Tree, wanted: Tree, type_: Type, size: BatchSize) -> ir.Expr:
    """Return a value with the batch axis in the leaves that are wanted to have it."""
    if isinstance(type_, TupleType):
        count = len(type_.fields)
        have, want = (flag if isinstance(flag, list) else [flag] * count for flag in (tree, wanted))
        if all(bool(a) == bool(b) for a, b in zip(_flat(have, type_), _flat(want, type_), strict=True)):
            return value
        fields = value.fields if isinstance(value, ir.Tuple) else None
        items = [
            fields[index] if fields is not None else ir.TupleGetItem(value, index, span=value.span)
            for index in range(count)
        ]
        rows = zip(items, have, want, type_.fields, strict=True)
        return ir.Tuple(tuple(_with_flags(*row, size) for row in rows), span=value.span)
    return size.spread(value, type_, value.span) if wanted and not tree else value


def _flat(tree: Tree, type_: Type) -> list[bool]:
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [tree] * len(type_.fields)
        return [leaf for part, field in zip(parts, type_.fields, strict=True) for leaf in _flat(part, field)]
    return [bool(tree)]


class _Batcher:
    def __init__(
        self, functions: Mapping[str, ir.Function], taken: set[str], diagnostics: Diagnostics
    ) -> None:
        self.functions = functions
        self.flags = BatchFlags(functions)
        self.taken = taken
        self.diagnostics = diagnostics
        self.made: dict[str, ir.Function] = {}
        self._helpers: dict[tuple[str, frozenset[tuple[str, tuple[bool, ...]]]], str] = {}

    def of_block(self, expr: ir.Expr, scope: _BatchScope) -> tuple[ir.Expr, Tree]:
        """Return the value of a block and its flags."""
        block = blocks.block_of(expr)
        for var, value in block.bindings:
            scope.env[var] = self._of_value(var, value, scope)
        return blocks.rename(block.result, scope.env), scope.flags.get(block.result, False)

    def _of_value(self, var: ir.Var, value: ir.Expr, scope: _BatchScope) -> ir.Expr:
        match value:
            case ir.Call(op=ir.OpRef()):
                return self._of_operator(var, value, scope)
            case ir.Call(op=ir.GlobalVar(name=name), args=args):
                mask = self.flags.mask_of(name, args, scope.flags)
                if not any(mask):
                    return blocks.forward(value, scope.env)
                flags = self.flags.of_call(name, mask, scope.own)
                if flags.diverges:
                    return self._each(var, value, scope)
                return self._of_call(value, flags, scope)
            case ir.If() | ir.Match():
                return self._of_branches(var, value, scope)
        return blocks.forward(value, scope.env)

    def _of_operator(self, var: ir.Var, value: ir.Call, scope: _BatchScope) -> ir.Expr:
        flags = [scope.flags.get(arg, False) for arg in value.args]
        assert isinstance(value.op, ir.OpRef)
        if not any(map(has_leaf, flags)):
            return blocks.forward(value, scope.env)
        if value.op.name in OF_SIZES:
            return self._sizes(value, scope)
        if value.op.name == CALLBACK:
            hint = "give it the whole batch, outside of what vmap maps"
            message = "a callback takes no batch: the function of Python is declared for one example"
            self.diagnostics.error(message, value.span, hint=hint)
            return blocks.forward(value, scope.env)
        result = None
        if value.op.name in RULES:
            args = [blocks.rename(arg, scope.env) for arg in value.args]
            types = [blocks.type_of(arg) for arg in value.args]
            result = RULES[value.op.name](
                BatchCall(value, args, types, flags, blocks.type_of(var), scope.size)
            )
        return self._each(var, value, scope) if result is None else result

    def _sizes(self, value: ir.Call, scope: _BatchScope) -> ir.Expr:
        """Return the sizes of one example."""
        sizes = call(
            "shape_of", [blocks.rename(value.args[0], scope.env)], value.span, dtype=value.attrs["dtype"]
        )
        type_ = blocks.type_of(value.args[0])
        assert isinstance(type_, TensorType)
        # Without the first one, which is the size of the batch.
        example_sizes = call(
            "strided_slice", [sizes], value.span, begin=[1], end=[len(type_.shape) + 1], strides=[1], axes=[0]
        )
        assert isinstance(value.op, ir.OpRef)
        return example_sizes if value.op.name == "shape_of" else call("prod", [example_sizes], value.span)

    # -- branches and functions ----------------------------------------------------------------------------

    def _of_branches(self, var: ir.Var, value: ir.If | ir.Match, scope: _BatchScope) -> ir.Expr:
        data = value.cond if isinstance(value, ir.If) else value.data
        if has_leaf(scope.flags.get(data)) and isinstance(value, ir.If) and is_test(value):
            # An assertion holds for the batch if it holds for every example.
            every = call("all", [blocks.rename(data, scope.env)], value.span, axis=[0])
            return replace(value, cond=every, checked_type=None)
        if has_leaf(scope.flags.get(data)):
            return self._each(var, value, scope)
        variables = blocks.fresh_variables(value)
        wanted, bodies = scope.flags.get(var, False), []
        for body, new in zip(blocks.branches(value), variables, strict=True):
            inner = _BatchScope({**scope.env, **new}, scope.own, scope.size)
            made, tree = self.of_block(body, inner)
            bodies.append(_with_flags(made, tree, wanted, blocks.type_of(var), scope.size))
        return blocks.with_branches(value, scope.env, bodies, variables)

    def _of_call(self, value: ir.Call, flags: FunctionFlags, scope: _BatchScope) -> ir.Expr:
        """Call the batched form of a function."""
        assert isinstance(value.op, ir.GlobalVar)
        name = value.op.name
        args, mask = list[ir.Expr](), iter(flags.mask)
        for param, arg in zip(self.functions[name].params, value.args, strict=True):
            wanted = tree_of(mask, blocks.type_of(param))
            own = blocks.rename(arg, scope.env)
            args.append(
                _with_flags(own, scope.flags.get(arg, False), wanted, blocks.type_of(param), scope.size)
            )
        if scope.size.like is not None and name not in self.flags.of_rules:
            # A size that only the call knows goes along as the length of a vector.
            args.append(scope.size.vector(value.span))
        helper = self._helper(flags, scope.size)
        return ir.Call(ir.GlobalVar(helper, span=value.span), tuple(args), span=value.span)

    def _helper(self, flags: FunctionFlags, size: BatchSize) -> str:
        name = flags.name
        # Of functions that call each other, the flags of all decide what each becomes.
        key = (name, frozenset((callee, own.mask) for callee, own in flags.circle.items()))
        if key in self._helpers:
            return self._helpers[key]
        helper = f"{name}_batched"
        while helper in self.taken:
            helper += "_"
        self.taken.add(helper)
        self._helpers[key] = helper
        function = self.functions[name]
        mask, params, names = iter(flags.mask), list[ir.Var](), dict[str, str]()
        for param in function.params:
            type_ = _type_with(blocks.type_of(param), tree_of(mask, blocks.type_of(param)), size.dim)
            params.append(ir.Var(param.name_hint, type_, span=param.span))
        env: dict[ir.Expr, ir.Expr] = dict(zip(function.params, params, strict=True))
        extra = []
        if name in self.flags.of_rules:
            size = _size_of(params[0], size.dim)
        elif size.like is not None:
            extra = [ir.Var("batch", TensorType((size.dim,), "bool"), span=function.span)]
            size = BatchSize(size.dim, extra[0])
        value, tree = self.of_block(function.body, _BatchScope(env, flags, size))
        body = _with_flags(value, tree, flags.result, function.result_type, size)
        result = _type_with(function.result_type, flags.result, size.dim)
        attrs, rule = dict(function.attrs), custom_rule(function)
        for callee in () if rule is None else rule.functions:
            names[callee] = self._helper(self.flags.of_call(callee, self.flags.all_of(callee), flags), size)
        attrs |= {} if rule is None else rule.attrs(names)
        self.made[helper] = ir.Function((*params, *extra), body, result, attrs=attrs, span=function.span)
        return helper

    def whole(self, name: str, function: ir.Function, scope: _BatchScope) -> ir.Expr:
        """Return the results of a function that runs for one example after the other."""
        helper = f"{name}_example"
        while helper in self.taken:
            helper += "_"
        params = tuple(map(blocks.fresh, function.params))
        env = dict[ir.Expr, ir.Expr](zip(function.params, params, strict=True))
        body = blocks.forward_block(function.body, env)
        self.made[helper] = replace(function, params=params, body=body, checked_type=None)
        call_ = ir.Call(ir.GlobalVar(helper, span=function.span), function.params, span=function.span)
        return self._each(ir.Var("results", function.result_type), call_, scope)

    # -- one example after the other -----------------------------------------------------------------------

    def _each(self, var: ir.Var, value: ir.Expr, scope: _BatchScope) -> ir.Expr:
        """Compute a value in a loop over the examples, which writes into arrays."""
        type_, span, size = blocks.type_of(var), value.span, scope.size
        types = leaf_types(type_)
        starts = [self._zeros(leaf, value, scope) for leaf in types]
        if any(start is None for start in starts):
            return blocks.forward(value, scope.env)
        example = ir.Var("example", TensorType((), "int64"), span=span)
        results = [ir.Var("results", _batched_type(leaf, size.dim), span=span) for leaf in types]
        env = dict(scope.env)
        for name in _free(value):
            if has_leaf(scope.flags.get(name)):
                env[name] = _slice(
                    env.get(name, name), scope.flags[name], blocks.type_of(name), example, span
                )
        parts = project(blocks.forward(value, env), type_)
        index = call("expand_dims", [example], span, axis=0)
        new = [
            call("scatter_nd", [batched, index, part], span)
            for batched, part in zip(results, parts, strict=True)
        ]
        loop = ir.Var("for_example", span=span)
        end: ir.Expr = results[0] if len(results) == 1 else ir.Tuple(tuple(results), span=span)
        count = ir.Var("count", TensorType((), "int64"), span=span)
        more = call("less", [example, count], span)
        step = call("add", [example, constant_of(1, "int64", span=span)], span)
        body = ir.If(more, ir.Call(loop, (step, *new), span=span), end, span=span)
        kinds = tuple(blocks.type_of(result) for result in results)
        function = ir.Function(
            (example, *results), body, kinds[0] if len(kinds) == 1 else TupleType(kinds), span=span
        )
        first = ir.Call(loop, (constant_of(0, "int64", span=span), *starts), span=span)  # type: ignore[arg-type]
        batched = ir.Let(count, size.number(span), ir.Let(loop, function, first, span=span), span=span)
        if not isinstance(type_, TupleType):
            return batched
        flat = [batched] if len(results) == 1 else project(batched, TupleType(kinds))
        return _nest(tree_of(iter(flat), type_))

    def _zeros(self, type_: Type, value: ir.Expr, scope: _BatchScope) -> ir.Expr | None:
        """Return zeros for all examples; None after an error."""
        assert isinstance(type_, TensorType)
        dims = (scope.size.dim, *type_.shape)
        if all(isinstance(dim, int) for dim in dims):
            return call("zeros", [], value.span, shape=list(dims), dtype=type_.dtype)
        sizes = [scope.size.number(value.span), *(self._size(dim, scope, value.span) for dim in type_.shape)]
        if any(size is None for size in sizes):
            message = "the values of an example decide the shape of this result"
            hint = "vmap needs results of one shape: write it with where, or with sizes that are known"
            self.diagnostics.error(message, value.span, hint=hint)
            return None
        columns = [call("expand_dims", [size], value.span, axis=0) for size in sizes if size is not None]
        shape = call("concatenate", [ir.Tuple(tuple(columns))], value.span, axis=0)
        zero = constant_of(0, type_.dtype, span=value.span)
        return call("dyn.full", [zero, shape], value.span, dtype=type_.dtype)

    def _size(self, dim: Dim, scope: _BatchScope, span: Span | None) -> ir.Expr | None:
        """Return a size as an int64 of rank 0; None for one that no name in sight has."""
        if isinstance(dim, int):
            return constant_of(dim, "int64", span=span)
        if isinstance(dim, AnyDim) and dim.label is not None:
            for name, expr in scope.env.items():
                type_ = blocks.type_of(name)
                if isinstance(type_, TensorType) and dim in type_.shape:
                    axis = type_.shape.index(dim) + bool(scope.flags.get(name))
                    return size_along(expr, axis, span)
        return None


def _type_with(type_: Type, tree: Tree, dim: Dim) -> Type:
    """Return a type with the batch axis in the leaves that have it."""
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [tree] * len(type_.fields)
        return TupleType(
            tuple(_type_with(field, part, dim) for field, part in zip(type_.fields, parts, strict=True))
        )
    return _batched_type(type_, dim) if tree else type_


def _free(value: ir.Expr) -> list[ir.Var]:
    """Return the names that a value uses and that are bound outside of it."""
    nodes = list(post_order(value))
    bound = {var for node in nodes for var in binders(node)}
    return [node for node in nodes if isinstance(node, ir.Var) and node not in bound]


def _slice(expr: ir.Expr, tree: Tree, type_: Type, example: ir.Var, span: Span | None) -> ir.Expr:
    """Return the part of one example."""
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [tree] * len(type_.fields)
        items = expr.fields if isinstance(expr, ir.Tuple) else None
        return ir.Tuple(
            tuple(
                _slice(items[i] if items else ir.TupleGetItem(expr, i, span=span), part, field, example, span)
                for i, (part, field) in enumerate(zip(parts, type_.fields, strict=True))
            ),
            span=span,
        )
    return call("take", [expr, example], span, axis=0, mode="fast") if tree else expr


def _nest(tree: Tree) -> ir.Expr:
    if isinstance(tree, list):
        return ir.Tuple(tuple(map(_nest, tree)))
    return tree  # type: ignore[no-any-return] # a leaf of a tree of expressions
