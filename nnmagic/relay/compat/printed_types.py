"""Compute the types that the original Relay prints where they differ from those that inference finds.

The original unifies types as objects, not as values. Where a dynamic dimension meets a number, both types
become the wider one, annotations included, although what was computed from them before keeps the number; and
of a type variable that stands for a type with type variables in it, only the outer one is replaced. So the
text of a typed module shows types that are wider than inference knows, or incomplete, as
``meta[IncompleteType][0]``.

nnmagic prints them to the letter, because its text is compared with the original's. This file reproduces the
steps of the original's inference in their order; the types that hold are those of ``nnmagic.relay.infer``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.operators import find_operator
from nnmagic.relay.infer.context import explicit_annotation
from nnmagic.relay.infer.unify import Hole, MismatchError, map_leaves, mentions, substitute, unify_dim
from nnmagic.relay.module import Module
from nnmagic.relay.ops import RelationError
from nnmagic.relay.ops.relations import identity
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.types import FuncType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar, scalar_type


class UnlikeRelayError(Exception):
    """A step that the original Relay would not have taken, so that its text is not known."""


def infer_printed_types(
    module: Module, attrs: Mapping[ir.Call, Mapping[str, object]], signatures: Mapping[str, FuncType]
) -> dict[ir.Expr, Type]:
    """Return the type that the original Relay prints for each expression of a well-typed module.

    A type that the original does not find is a Hole.

    Args:
        module: the module, perhaps without types.
        attrs: the complete attributes of the operators' calls.
        signatures: the types of the globals as callers know them.

    Raises:
        UnlikeRelayError: the original would have ended with an error.

    """
    printed: dict[ir.Expr, Type] = {}
    for function in module.functions.values():
        inferencer = _Inferencer(module, signatures, attrs)
        try:
            run(inferencer.type_of(function))
            inferencer.solver.solve()
        except (MismatchError, RelationError) as error:
            raise UnlikeRelayError(str(error)) from error
        printed |= {expr: inferencer.resolve_type(expr) for expr in inferencer.types}
    return printed


# --- the solver -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _TypeClass:
    """An equivalence class of type objects; ``type`` is what all of them are now."""

    type: Type
    parent: _TypeClass | None = None
    rules: dict[_Rule, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Rule:
    """A step that runs once ``types`` are known; it takes them and returns whether it is done."""

    types: Sequence[Type]
    step: Callable[[Sequence[Type]], bool]
    done: bool = False
    queued: bool = True


class _Solver:
    """Union-find over types, and the rules that wait for them in the order in which they were added."""

    def __init__(self) -> None:
        self._classes: dict[int, tuple[Type, _TypeClass]] = {}
        self._queue: deque[_Rule] = deque()

    def add(self, rule: _Rule) -> None:
        for type_ in rule.types:
            self._class(type_).rules[rule] = None
        self._queue.append(rule)

    def solve(self) -> None:
        """Run the queued rules whose types are known."""
        while self._queue:
            rule = self._queue.popleft()
            rule.queued = False
            if not rule.done:
                rule.done = rule.step([self.resolve(self._class(type_).type) for type_ in rule.types])

    def resolve(self, type_: Type) -> Type:
        """Return what a type is now; type variables in it are replaced, but not those in their types."""
        entry = self._classes.get(id(type_))
        top = type_ if entry is None else _root(entry[1]).type
        return map_leaves(top, lambda leaf: self._class(leaf).type if isinstance(leaf, Hole) else leaf)

    def unify(self, lhs: Type, rhs: Type, *, only_left: bool = False) -> Type:
        """Make both types their common type; with ``only_left``, only the left one."""
        first, second = self._class(lhs), self._class(rhs)
        if first is second:
            return first.type
        for hole, other in ((first, second), (second, first)):
            if isinstance(hole.type, Hole):
                if mentions(other.type, hole.type):
                    raise MismatchError("a type would contain itself")
                self._merge(hole, other)
                return other.type
        joined = self._join(first.type, second.type)
        top = self._class(joined)
        self._merge(first, top)
        if not only_left:
            self._merge(second, top)
        return joined

    def instantiate(self, function: FuncType, given: Sequence[Type] = ()) -> FuncType:
        types = [*given, *(Hole() for _ in function.type_params[len(given) :])]
        monomorphic = replace(function, type_params=())
        instance = substitute(_copy(monomorphic), dict(zip(function.type_params, types, strict=True)))
        assert isinstance(instance, FuncType)
        return instance if function.type_params else monomorphic

    def _class(self, type_: Type) -> _TypeClass:
        entry = self._classes.get(id(type_))
        if entry is None:
            entry = self._classes[id(type_)] = (type_, _TypeClass(type_))
        return _root(entry[1])

    def _merge(self, source: _TypeClass, target: _TypeClass) -> None:
        if source is target:
            return
        source.parent = target
        for rule in source.rules:
            if not rule.done:
                target.rules[rule] = None
                if not rule.queued:
                    rule.queued = True
                    self._queue.append(rule)

    def _join(self, lhs: Type, rhs: Type) -> Type:
        match lhs, rhs:
            case TensorType(), TensorType():
                return _join_tensors(lhs, rhs)
            case TupleType(fields=a), TupleType(fields=b) if len(a) == len(b):
                return TupleType(self._unify_all(a, b))
            case RefType(value=a), RefType(value=b):
                return RefType(self.unify(a, b))
            case TypeCall(func=f, args=a), TypeCall(func=g, args=b) if f == g and len(a) == len(b):
                return TypeCall(f, self._unify_all(a, b))
            case FuncType(), FuncType() if len(lhs.arg_types) == len(rhs.arg_types):
                lhs, rhs = self.instantiate(lhs), self.instantiate(rhs)
                result = self.unify(lhs.ret_type, rhs.ret_type)
                return FuncType(self._unify_all(lhs.arg_types, rhs.arg_types), result)
        if lhs != rhs:
            raise MismatchError
        return lhs

    def _unify_all(self, lhs: Sequence[Type], rhs: Sequence[Type]) -> tuple[Type, ...]:
        return tuple(self.unify(a, b) for a, b in zip(lhs, rhs, strict=True))


def _root(node: _TypeClass) -> _TypeClass:
    while node.parent is not None:
        if node.parent.parent is not None:
            node.parent = node.parent.parent
        node = node.parent
    return node


def _join_tensors(lhs: TensorType, rhs: TensorType) -> TensorType:
    if lhs == rhs:
        return lhs
    if lhs.dtype != rhs.dtype or len(lhs.shape) != len(rhs.shape):
        raise MismatchError
    shape = [unify_dim(a, b) for a, b in zip(lhs.shape, rhs.shape, strict=True)]
    if None in shape:
        raise MismatchError
    return TensorType(tuple(dim for dim in shape if dim is not None), lhs.dtype)


def _copy(type_: Type) -> Type:
    """Return an equal type that is another object, as are its parts."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(shape, dtype)
        case TupleType(fields=fields):
            return TupleType(tuple(map(_copy, fields)))
        case FuncType(arg_types=args, ret_type=result, type_params=params):
            return FuncType(tuple(map(_copy, args)), _copy(result), params)
        case RefType(value=value):
            return RefType(_copy(value))
        case TypeCall(func=func, args=args):
            return TypeCall(func, tuple(map(_copy, args)))
        case _:
            return type_


# --- the types of expressions -----------------------------------------------------------------------------


class _Inferencer:
    """The inference of one global function, step by step as in the original."""

    def __init__(
        self,
        module: Module,
        signatures: Mapping[str, FuncType],
        attrs: Mapping[ir.Call, Mapping[str, object]],
    ) -> None:
        self.module = module
        self.signatures = signatures
        self.attrs = attrs
        self.solver = _Solver()
        self.types: dict[ir.Expr, Type] = {}

    def resolve_type(self, expr: ir.Expr) -> Type:
        """Return the final type of an expression; of a function, with the result type as printed."""
        type_ = self.solver.resolve(self.types[expr])
        if isinstance(expr, ir.Function) and isinstance(type_, FuncType):
            written = _explicit_result_type(expr)
            return type_ if written is None else replace(type_, ret_type=self.solver.resolve(written))
        return type_

    def type_of(self, expr: ir.Expr) -> Steps[Type]:
        type_ = self.types.get(expr)
        if type_ is None:
            type_ = yield self._infer(expr)
            self.types[expr] = type_
        return type_

    def _types_of(self, exprs: Sequence[ir.Expr]) -> Generator[Steps[Type], Type, tuple[Type, ...]]:
        types: list[Type] = []
        for expr in exprs:
            type_ = self.types.get(expr)
            types += [(yield self.type_of(expr)) if type_ is None else type_]
        return tuple(types)

    def _infer(self, expr: ir.Expr) -> Steps[Type]:
        unify = self.solver.unify
        match expr:
            case ir.Var():
                return explicit_annotation(expr) or Hole()
            case ir.GlobalVar(name=name):
                return self.signatures[name]
            case ir.Constant():
                return expr.tensor_type
            case ir.Constructor():
                return self._constructor(expr)
            case ir.Call():
                return (yield self._call(expr))
            case ir.Tuple(fields=fields):
                return TupleType((yield from self._types_of(fields)))
            case ir.TupleGetItem(tuple_value=value, index=index):
                return self._projection((yield self.type_of(value)), index)
            case ir.Let():
                return (yield self._lets(expr))
            case ir.If(cond=cond, true_branch=then, false_branch=other):
                unify((yield self.type_of(cond)), scalar_type("bool"))
                first = yield self.type_of(then)
                return unify(first, (yield self.type_of(other)))
            case ir.Function():
                return (yield self._function(expr))
            case ir.Match(data=data, clauses=clauses):
                matched = yield self.type_of(data)
                result: Type | None = None
                for clause in clauses:
                    self._pattern(clause.lhs, matched)
                    arm = yield self.type_of(clause.rhs)
                    result = arm if result is None else unify(result, arm)
                assert result is not None
                return result
            case ir.RefCreate(value=value):
                return RefType((yield self.type_of(value)))
            case ir.RefRead(ref=ref):
                held: Type = Hole()
                unify((yield self.type_of(ref)), RefType(held))
                return held
            case ir.RefWrite(ref=ref, value=value):
                held = Hole()
                unify((yield self.type_of(ref)), RefType(held))
                unify((yield self.type_of(value)), held)
                return TupleType(())
        raise UnlikeRelayError

    def _lets(self, expr: ir.Let) -> Steps[Type]:
        chain = [expr]
        while True:
            let = chain[-1]
            declared: Type = Hole()
            if isinstance(let.value, ir.Function):
                declared = yield self.type_of(let.var)
            annotation = explicit_annotation(let.var)
            if annotation is not None:
                declared = self.solver.unify(declared, annotation)
            value = yield self.type_of(let.value)
            self.types[let.var] = self.solver.unify(declared, value)
            if not isinstance(let.body, ir.Let) or let.body in self.types:
                break
            chain.append(let.body)
        result = yield self.type_of(chain[-1].body)
        self.types.update(dict.fromkeys(chain, result))
        return result

    def _function(self, expr: ir.Function) -> Steps[Type]:
        self.solver.solve()
        params = yield from self._types_of(expr.params)
        result = yield self.type_of(expr.body)
        if isinstance(result, FuncType):
            result = self.solver.instantiate(result)
        written = _explicit_result_type(expr)
        if written is not None:
            result = self.solver.unify(written, result)
        return self.solver.resolve(FuncType(params, result, expr.type_params))

    def _constructor(self, expr: ir.Constructor) -> Type:
        data = self.module.types[expr.belong_to.name]
        return FuncType(expr.inputs, TypeCall(data.header, data.type_vars), data.type_vars)

    def _call(self, call: ir.Call) -> Steps[Type]:
        args = yield from self._types_of(call.args)
        if isinstance(call.op, ir.OpRef):
            return self._operator(call, call.op.name, args)
        self.solver.solve()
        callee = yield self.type_of(call.op)
        if not isinstance(callee, FuncType):
            callee = self.solver.unify(callee, FuncType(args, Hole()))
        if not isinstance(callee, FuncType) or len(callee.arg_types) != len(args):
            raise UnlikeRelayError
        callee = self.solver.instantiate(callee, call.type_args if call.checked_type is None else ())
        for param, arg in zip(callee.arg_types, args, strict=True):
            self.solver.unify(param, arg, only_left=True)
        return callee.ret_type

    def _operator(self, call: ir.Call, name: str, args: Sequence[Type]) -> Type:
        operator = find_operator(name)
        attrs, result = self.attrs[call], Hole()

        def step(types: Sequence[Type]) -> bool:
            *inputs, output = types
            if operator.relation is identity:
                self.solver.unify(output, inputs[0])
                return True
            for index, assumed in _assume_types(name, inputs, attrs):
                self.solver.unify(inputs[index], assumed)
            inputs = list(map(self.solver.resolve, inputs))
            if any(_is_open(type_) for type_ in inputs):
                return False
            self.solver.unify(output, _copy(operator.result_type(inputs, attrs)))
            return True

        self.solver.add(_Rule((*args, result), step))
        return result

    def _projection(self, value: Type, index: int) -> Type:
        result = Hole()

        def step(types: Sequence[Type]) -> bool:
            if not isinstance(types[0], TupleType):
                return False
            self.solver.unify(types[1], types[0].fields[index])
            return True

        self.solver.add(_Rule((value, result), step))
        return result

    def _pattern(self, pattern: ir.Pattern, type_: Type) -> None:
        match pattern:
            case ir.PatternVar(var=var):
                self.types[var] = explicit_annotation(var) or Hole()
                self.solver.unify(self.types[var], type_)
            case ir.PatternConstructor(constructor=constructor, patterns=patterns):
                data = self.module.types[constructor.belong_to.name]
                expected = TypeCall(data.header, tuple(Hole() for _ in data.type_vars))
                unified = self.solver.unify(type_, expected)
                assert isinstance(unified, TypeCall)
                args: dict[TypeVar, Type] = dict(zip(data.type_vars, unified.args, strict=True))
                for subpattern, wanted in zip(patterns, constructor.inputs, strict=True):
                    self._pattern(subpattern, substitute(_copy(wanted), args))
            case ir.PatternTuple(patterns=patterns):
                unified = self.solver.resolve(type_)
                if not isinstance(unified, TupleType):
                    unified = self.solver.unify(type_, TupleType(tuple(Hole() for _ in patterns)))
                assert isinstance(unified, TupleType)
                for subpattern, wanted in zip(patterns, unified.fields, strict=True):
                    self._pattern(subpattern, wanted)


def _explicit_result_type(function: ir.Function) -> Type | None:
    return None if function.inferred else function.ret_type


def _assume_types(
    name: str, inputs: Sequence[Type], attrs: Mapping[str, object]
) -> Iterator[tuple[int, Type]]:
    """Yield the types that an operator assumes for its further arguments, with their indices."""
    assume = find_operator(name).assume
    if assume is None:
        return
    types = [None if _is_open(type_) else type_ for type_ in inputs]
    for index in range(1, len(inputs)):
        masked = [*types[:index], None, *types[index + 1 :]]
        assumed = assume(masked, attrs)[index]
        if assumed is not None:
            yield index, _copy(assumed)


def _is_open(type_: Type) -> bool:
    """Return whether a tensor, or a tuple of tensors, is not known yet."""
    if isinstance(type_, TupleType):
        return any(map(_is_open, type_.fields))
    return isinstance(type_, Hole)
