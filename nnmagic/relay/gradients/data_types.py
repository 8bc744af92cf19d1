"""Give values of data types cotangents: values of another data type, with a constructor for each of theirs.

The cotangent of ``Cons(x, tail)`` is ``Cons_gradient(dx, dtail)``: what is no float, and holds none, has no
place in it. ``List_zero`` stands for zeros of any form, so that what nothing flows into costs nothing. What
callers see has the type of the value itself, with zeros for integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.failures import Failure
from nnmagic.relay.gradients.blocks import type_of
from nnmagic.relay.infer.unify import substitute
from nnmagic.relay.module import TypeData
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.tuple_trees import Tree, items, leaf_types, leaves, nest, project, tree_of
from nnmagic.relay.types import GlobalTypeVar, TensorType, TupleType, Type, TypeCall, is_inexact

_OTHER_FORM = Failure("a cotangent or a tangent has other constructors than its value", "ValueError")


class DataTypes:
    """The data types of a module and those of their cotangents.

    types: all of them. functions: those that add cotangents and convert them, as far as they are used.
    """

    def __init__(self, types: Mapping[str, TypeData], new_name: Callable[[str], str]) -> None:
        self.types = dict(types)
        self.functions: dict[str, ir.Function] = {}
        self._new_name = new_name
        self._flows: dict[TypeCall, bool] = {}
        self._cotangents: dict[TypeCall, TypeData] = {}
        self._names: dict[tuple[str, TypeCall], str] = {}

    # -- types -----------------------------------------------------------------------------------------

    def flows(self, leaf: Type) -> bool:
        """Return whether a leaf has a cotangent: it is a tensor of floats, or complex, or may hold some."""
        if not isinstance(leaf, TypeCall):
            return isinstance(leaf, TensorType) and is_inexact(leaf.dtype)
        if leaf not in self._flows:
            seen, work = {leaf}, [leaf]
            while work:
                fields = self._fields(work.pop())
                held = {inner for field in fields for type_ in field for inner in leaf_types(type_)}
                work += [inner for inner in held - seen if isinstance(inner, TypeCall)]
                seen |= {inner for inner in held if isinstance(inner, TypeCall)}
                if any(isinstance(inner, TensorType) and is_inexact(inner.dtype) for inner in held):
                    self._flows[leaf] = True
                    break
            # No float was found in anything that the type can hold, however it nests.
            self._flows.setdefault(leaf, False)
        return self._flows[leaf]

    def flowing(self, type_: Type) -> Tree:
        """Return a tree that says which leaves of a value have a cotangent."""
        return tree_of(map(self.flows, leaf_types(type_)), type_)

    def cotangent_type(self, leaf: Type) -> Type:
        """Return the type of the cotangent of a leaf."""
        return TypeCall(self._declare(leaf).header, ()) if isinstance(leaf, TypeCall) else leaf

    def _fields(self, type_: TypeCall) -> list[tuple[Type, ...]]:
        """Return the types of the fields of each constructor."""
        declared = self.types[type_.func.name]
        types = dict(zip(declared.type_vars, type_.args, strict=True))
        return [
            tuple(substitute(field, types) for field in constructor.inputs)
            for constructor in declared.constructors
        ]

    def _declare(self, type_: TypeCall) -> TypeData:
        """Return the data type of cotangents; one that an earlier gradient declared is used again."""
        if type_ in self._cotangents:
            return self._cotangents[type_]
        primal = self.types[type_.func.name]
        taken = {constructor.name for data in self.types.values() for constructor in data.constructors}
        suffix = "_gradient"
        while True:
            header = GlobalTypeVar(f"{primal.header.name}{suffix}")
            names = [
                f"{header.name}_zero",
                *(f"{declared_constructor.name}{suffix}" for declared_constructor in primal.constructors),
            ]
            declared_ = self.types.get(header.name)
            if (
                declared_ is not None
                and not type_.args
                and [declared_constructor.name for declared_constructor in declared_.constructors] == names
            ):
                self._cotangents[type_] = declared_
                return declared_
            if declared_ is None and taken.isdisjoint(names):
                break
            suffix += "_"
        # Declared before its constructors are: a recursive type's cotangent holds itself.
        self._cotangents[type_] = self.types[header.name] = TypeData(header, (), ())
        inputs: list[tuple[Type, ...]] = [()]
        for fields in self._fields(type_):
            parts = (leaf for field in fields for leaf in leaf_types(field) if self.flows(leaf))
            inputs.append(tuple(map(self.cotangent_type, parts)))
        constructors = (
            ir.Constructor(name, own_inputs, header, tag)
            for tag, (name, own_inputs) in enumerate(zip(names, inputs, strict=True))
        )
        self._cotangents[type_] = self.types[header.name] = TypeData(header, (), tuple(constructors))
        return self._cotangents[type_]

    # -- cotangents --------------------------------------------------------------------------------------

    def zero(self, primal: ir.Expr, leaf: Type) -> ir.Expr:
        """Return the cotangent of a leaf into which nothing flows."""
        if isinstance(leaf, TypeCall):
            return ir.Call(self._declare(leaf).constructors[0], (), span=primal.span)
        return call("zeros_like", [primal], primal.span)

    def sum(self, first: ir.Expr, second: ir.Expr, leaf: Type) -> ir.Expr:
        """Return the sum of two cotangents of a leaf."""
        if isinstance(leaf, TypeCall):
            return self._call("add", leaf, first, second)
        return call("add", [first, second], second.span)

    def full(self, primal: ir.Expr, leaf: Type, cotangent: ir.Expr | None = None) -> ir.Expr:
        """Return a cotangent as callers see it, in the type of the leaf itself; zeros without one.

        A value of a data type without floats stands for itself.
        """
        if isinstance(leaf, TypeCall):
            if not self.flows(leaf):
                return primal
            return self._call("fill", leaf, primal, cotangent or self.zero(primal, leaf))
        if not isinstance(leaf, TensorType):
            return primal
        return cotangent or self.zero(primal, leaf)

    def given(self, cotangent: ir.Expr, leaf: Type) -> ir.Expr:
        """Return a cotangent that a caller gives, which has the type of the leaf itself."""
        return self._call("read", leaf, cotangent) if isinstance(leaf, TypeCall) else cotangent

    def stopped(self, value: ir.Expr, leaf: Type) -> ir.Expr:
        """Return a leaf through which no gradient flows: its bits, read as what they are."""
        if not self.flows(leaf):
            return value
        if isinstance(leaf, TypeCall):
            return self._call("stop", leaf, value)
        assert isinstance(leaf, TensorType)
        return call("reinterpret", [value], value.span, dtype=leaf.dtype)

    def of_fields(self, value: ir.Call, args: Sequence[ir.Expr], cotangent: ir.Expr) -> list[Tree]:
        """Return the cotangents of the arguments of a constructor's call; args: what they stand for."""
        type_, constructor = type_of(value), value.op
        assert isinstance(type_, TypeCall)
        assert isinstance(constructor, ir.Constructor)
        types = self._fields(type_)[constructor.tag]
        declared_ = self._declare(type_).constructors[constructor.tag + 1]
        if isinstance(cotangent, ir.Call) and cotangent.op is declared_:
            fields = iter(cotangent.args)
        else:
            primals = [part for arg, field in zip(args, types, strict=True) for part in _leaves(arg, field)]
            zeros = [self.zero(primal, leaf) for primal, leaf in primals if self.flows(leaf)]
            variables = [ir.Var("d", leaf, span=value.span) for leaf in declared_.inputs]
            clauses = [(0, [], _tuple(zeros)), (declared_.tag, variables, _tuple(variables))]
            fields = items(self._match(cotangent, type_, clauses, value.span), len(zeros))
        flowing = [[self.flows(leaf) for leaf in leaf_types(field)] for field in types]
        return [
            tree_of(iter([next(fields) if flows else None for flows in row]), field)
            for row, field in zip(flowing, types, strict=True)
        ]

    def of_pattern(
        self,
        pattern: ir.Pattern,
        type_: Type,
        env: Mapping[ir.Expr, ir.Expr],
        cotangents: Callable[[ir.Var], Tree],
    ) -> Tree:
        """Return the cotangent of what a pattern takes apart, from those of the variables that it binds.

        env: what the variables stand for. There are no wildcards in the pattern: see ``without_wildcards``.
        """
        match pattern:
            case ir.PatternVar(var=var):
                return cotangents(var)
            case ir.PatternTuple(patterns=parts):
                assert isinstance(type_, TupleType)
                rows = zip(parts, type_.fields, strict=True)
                return [self.of_pattern(subpattern, field, env, cotangents) for subpattern, field in rows]
            case ir.PatternConstructor(constructor=constructor, patterns=parts):
                assert isinstance(type_, TypeCall)
                pairs = list(zip(parts, self._fields(type_)[constructor.tag], strict=True))
                cotangents_ = [
                    leaf
                    for subpattern, field in pairs
                    for leaf in leaves(self.of_pattern(subpattern, field, env, cotangents), field)
                ]
                if not any(leaf is not None for leaf in cotangents_):
                    return None
                primals = [leaf for subpattern, field in pairs for leaf in _primals(subpattern, field, env)]
                fields = [
                    self.zero(primal, leaf) if leaf_cotangent is None else leaf_cotangent
                    for leaf_cotangent, (primal, leaf) in zip(cotangents_, primals, strict=True)
                    if self.flows(leaf)
                ]
                return ir.Call(self._declare(type_).constructors[constructor.tag + 1], tuple(fields))
        return None

    def without_wildcards(self, value: ir.Match) -> ir.Match:
        """Return a match whose patterns give each part a name."""
        clauses = (
            replace(clause, lhs=self._named(clause.lhs, type_of(value.data))) for clause in value.clauses
        )
        return replace(value, clauses=tuple(clauses))

    def _named(self, pattern: ir.Pattern, type_: Type) -> ir.Pattern:
        match pattern:
            case ir.PatternWildcard():
                return ir.PatternVar(ir.Var("part", type_))
            case ir.PatternTuple(patterns=parts):
                assert isinstance(type_, TupleType)
                fields = type_.fields
            case ir.PatternConstructor(constructor=constructor, patterns=parts):
                assert isinstance(type_, TypeCall)
                fields = self._fields(type_)[constructor.tag]
            case _:
                return pattern
        return replace(pattern, patterns=tuple(map(self._named, parts, fields)))

    # -- functions of cotangents -------------------------------------------------------------------------

    def _call(self, kind: str, type_: TypeCall, *args: ir.Expr) -> ir.Expr:
        """Call a helper: ``add(d, d)``, ``fill(value, d)``, ``read(value)`` or ``stop(value)``."""
        name = self._names.get((kind, type_))
        if name is None:
            name = self._new_name(f"{type_.func.name}_gradient_{kind}")
            self._names[kind, type_] = name
            self.functions[name] = getattr(self, f"_{kind}")(type_)
        return ir.Call(ir.GlobalVar(name), args, span=args[-1].span)

    def _add(self, type_: TypeCall) -> ir.Function:
        cotangent_type = self.cotangent_type(type_)
        first, second = ir.Var("first", cotangent_type), ir.Var("second", cotangent_type)
        outer: list[_Arm] = [(0, [], second)]
        for constructor in self._declare(type_).constructors[1:]:
            lhs, rhs = ([ir.Var(hint, leaf) for leaf in constructor.inputs] for hint in ("a", "b"))
            leaf_pairs = zip(lhs, rhs, self._flowing_leaves(type_, constructor.tag - 1), strict=True)
            sums = tuple(self.sum(a, b, leaf) for a, b, leaf in leaf_pairs)
            inner: list[_Arm] = [(0, [], first), (constructor.tag, rhs, ir.Call(constructor, sums))]
            outer.append((constructor.tag, lhs, self._match(second, type_, inner)))
        return ir.Function((first, second), self._match(first, type_, outer), cotangent_type)

    def _fill(self, type_: TypeCall) -> ir.Function:
        cotangent = ir.Var("d", self.cotangent_type(type_))

        def fill(constructor: ir.Constructor, fields: Sequence[ir.Var]) -> ir.Expr:
            declared_ = self._declare(type_).constructors[constructor.tag + 1]
            cotangent_fields = [ir.Var("d", leaf) for leaf in declared_.inputs]
            primals = [part for field in fields for part in _leaves(field, type_of(field))]
            zeros = [self.zero(primal, leaf) for primal, leaf in primals if self.flows(leaf)]
            full_values = []
            for given in (zeros, cotangent_fields):
                rest = iter(given)
                full = iter(
                    [
                        self.full(*each, next(rest)) if self.flows(each[1]) else self.full(*each)
                        for each in primals
                    ]
                )
                filled = tuple(nest(tree_of(full, type_of(field))) for field in fields)
                full_values.append(ir.Call(constructor, filled, type_args=type_.args))
            inner: list[_Arm] = [(0, [], full_values[0]), (declared_.tag, cotangent_fields, full_values[1])]
            return self._match(cotangent, type_, inner)

        return self._map(type_, type_, fill, [cotangent])

    def _read(self, type_: TypeCall) -> ir.Function:
        def read(constructor: ir.Constructor, fields: Sequence[ir.Var]) -> ir.Expr:
            primals = (part for field in fields for part in _leaves(field, type_of(field)))
            given = tuple(self.given(primal, leaf) for primal, leaf in primals if self.flows(leaf))
            return ir.Call(self._declare(type_).constructors[constructor.tag + 1], given)

        return self._map(type_, self.cotangent_type(type_), read)

    def _stop(self, type_: TypeCall) -> ir.Function:
        def stop(constructor: ir.Constructor, fields: Sequence[ir.Var]) -> ir.Expr:
            trees = (
                tree_of((self.stopped(*leaf) for leaf in _leaves(field, type_of(field))), type_of(field))
                for field in fields
            )
            return ir.Call(constructor, tuple(map(nest, trees)), type_args=type_.args)

        return self._map(type_, type_, stop)

    def _map(
        self,
        type_: TypeCall,
        result: Type,
        make: Callable[[ir.Constructor, Sequence[ir.Var]], ir.Expr],
        more: Sequence[ir.Var] = (),
    ) -> ir.Function:
        """Return the function that makes something of the fields of each constructor of a value."""
        value, arms = ir.Var("value", type_), []
        for constructor, types in zip(
            self.types[type_.func.name].constructors, self._fields(type_), strict=True
        ):
            fields = [ir.Var("x", field) for field in types]
            pattern = ir.PatternConstructor(constructor, tuple(map(ir.PatternVar, fields)))
            arms.append(ir.Clause(pattern, make(constructor, fields)))
        return ir.Function((value, *more), ir.Match(value, tuple(arms)), result)

    def _flowing_leaves(self, type_: TypeCall, tag: int) -> list[Type]:
        """Return the types of the leaves of a constructor's fields that have cotangents."""
        return [leaf for field in self._fields(type_)[tag] for leaf in leaf_types(field) if self.flows(leaf)]

    def _match(
        self, cotangent: ir.Expr, type_: TypeCall, arms: Sequence[_Arm], span: Span | None = None
    ) -> ir.Expr:
        """Take a cotangent of a value of a type apart; it raises for constructors without an arm."""
        constructors = self._declare(type_).constructors
        clauses = tuple(
            ir.Clause(ir.PatternConstructor(constructors[tag], tuple(map(ir.PatternVar, fields))), body)
            for tag, fields, body in arms
        )
        if len(arms) == len(constructors):
            return ir.Match(cotangent, clauses, span=span)
        return ir.Match(cotangent, clauses, complete=False, assertion=_OTHER_FORM, span=span)


#: An arm of a match: the number of the constructor, the variables of its fields, and the body.
_Arm: TypeAlias = "tuple[int, Sequence[ir.Var], ir.Expr]"


def _tuple(fields: Sequence[ir.Expr]) -> ir.Expr:
    return fields[0] if len(fields) == 1 else ir.Tuple(tuple(fields))


def _leaves(expr: ir.Expr, type_: Type) -> list[tuple[ir.Expr, Type]]:
    """Return the leaves of a value with their types."""
    return list(zip(project(expr, type_), leaf_types(type_), strict=True))


def _primals(pattern: ir.Pattern, type_: Type, env: Mapping[ir.Expr, ir.Expr]) -> list[tuple[ir.Expr, Type]]:
    """Return the leaves of what a pattern matched, with their types; data types stand for themselves."""
    match pattern:
        case ir.PatternVar(var=var):
            return _leaves(env[var], type_)
        case ir.PatternTuple(patterns=parts):
            assert isinstance(type_, TupleType)
            pairs = zip(parts, type_.fields, strict=True)
            return [leaf for part, field in pairs for leaf in _primals(part, field, env)]
    return [(ir.Tuple(()), type_)]
