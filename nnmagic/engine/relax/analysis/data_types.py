"""Represent values of data types as numbers, so that machine code alone runs the programs that have them.

A number is the address of a cell, or the tag of a constructor without fields (`cell_layout`). Constructors
become calls of ``MAKE``; a match becomes branches on tags, whose arms read fields. Nothing changes a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.engine.relax.analysis.assertions import FAIL
from nnmagic.engine.relax.analysis.cell_layout import (
    LEAST_ADDRESS,
    VALUE,
    CellLayout,
    CellLayouts,
    NoLayoutError,
    has_data_types,
    open_axes,
    value_type,
)
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.limits import MAX_NESTED_BRANCHES
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import is_callback
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.passes.defunctionalization import defunctionalize, has_function_values
from nnmagic.relay.structure.callgraph import call_graph, reachable
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import ANY, TensorType, TupleType, Type, TypeCall, scalar_type

#: Operators of this engine. MAKE makes a cell of its operands, TAG gives the tag of a value, and FIELD what a
#: cell holds from a word on. OPEN gives the value that the words of an argument stand for, and CLOSE the
#: words for some values.
MAKE, TAG, FIELD, OPEN, CLOSE = (f"cell.{name}" for name in ("make", "tag", "field", "open", "close"))
CELL_OPERATORS = frozenset((MAKE, TAG, FIELD, OPEN, CLOSE))

_BOOL = scalar_type("bool")
_WORDS = TensorType((ANY,), "int64")


@dataclass(frozen=True, slots=True)
class CellSignature:
    """What an entry with data types takes and returns in Python; its machine code has words instead."""

    parameters: Sequence[Type]
    result: Type
    layouts: CellLayouts


def why_interpreted(module: Module, entry: str) -> str | None:
    """Return why the data types of a program cannot be numbers; None if they can, or if it has none."""
    try:
        _check(module, entry)
    except NoLayoutError as error:
        return str(error)
    return None


def represent_data_types(
    module: Module, entry: str, failures: list[Failure]
) -> tuple[Module, CellSignature | None]:
    """Return a module without data types, and the signature of its entry if that has some.

    ``failures`` takes what is raised for values that no arm of a match takes. A module that must be
    interpreted comes out as it is.
    """
    needed = reachable(call_graph(module), entry)
    functions = {name: function for name, function in module.functions.items() if name in needed}
    if not mentions_data_types(module, entry) or why_interpreted(module, entry) is not None:
        return module, None
    layouts = CellLayouts(module.types)
    made = {name: _Numbering(layouts, failures).function(each) for name, each in functions.items()}
    old = functions[entry]
    assert old.ret_type is not None
    signature = CellSignature(tuple(map(type_of, old.params)), old.ret_type, layouts)
    if not any(map(has_data_types, (*signature.parameters, signature.result))):
        return Module(made), None
    inner = f"{entry}_of_cells"
    while inner in made:
        inner += "_"
    calls = {name: _rename(function, entry, inner) for name, function in made.items()}
    return Module({entry: _outer(old, inner), inner: calls.pop(entry), **calls}), signature


def mentions_data_types(module: Module, entry: str) -> bool:
    """Return whether an entry, or a function that it needs, has values of data types."""
    functions = (module.functions[name] for name in reachable(call_graph(module), entry))
    return any(
        has_data_types(node.checked_type)
        for function in functions
        for node in (*function.params, *post_order(function.body))
    )


def function_values_as_data(module: Module, entry: str) -> Module:
    """Return a module whose function values are values of data types, if Python gives and takes none."""
    needed = reachable(call_graph(module), entry)
    functions = {name: function for name, function in module.functions.items() if name in needed}
    used = replace(module, functions=functions)
    if not has_function_values(used) or any(function.type_params for function in functions.values()):
        return module
    held = (*map(type_of, functions[entry].params), functions[entry].ret_type)
    layouts = CellLayouts(module.types)
    if any(type_ is None or layouts.why_not(type_) is not None for type_ in held):
        return module
    return defunctionalize(used, entry)


def _rename(function: ir.Function, old_name: str, new_name: str) -> ir.Function:
    """Return a function that calls another one of a new name."""

    def rename(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return replace(new, name=new_name) if isinstance(new, ir.GlobalVar) and new.name == old_name else new

    made = rewrite(function, rename)
    assert isinstance(made, ir.Function)
    return made


def _outer(old: ir.Function, inner: str) -> ir.Function:
    """Return the function that calls the inner one: it takes and returns words for values of data types."""
    params, args = list[ir.Var](), list[ir.Expr]()
    for var in old.params:
        type_ = type_of(var)
        given = _with_words(type_)
        param = ir.Var(var.name_hint, given, span=var.span, checked_type=given)
        params.append(param)
        opened = (
            _call(OPEN, (part,), VALUE) if isinstance(kind, TypeCall) else part
            for kind, part in zip(leaf_types(type_), _parts(param, given), strict=True)
        )
        args.append(_nested(value_type(type_), opened) if has_data_types(type_) else param)
    assert old.ret_type is not None
    result = value_type(old.ret_type)
    body: ir.Expr = ir.Call(ir.GlobalVar(inner), tuple(args), span=old.span, checked_type=result)
    if has_data_types(old.ret_type):
        pairs = list(zip(leaf_types(old.ret_type), _parts(body, result), strict=True))
        roots = tuple(part for kind, part in pairs if isinstance(kind, TypeCall))
        others = [part for kind, part in pairs if not isinstance(kind, TypeCall)]
        parts = (_call(CLOSE, roots, _WORDS), *others)
        result = TupleType(tuple(_type(part) for part in parts))
        body = ir.Tuple(parts, checked_type=result)
    return replace(old, params=tuple(params), body=body, ret_type=result, checked_type=None)


def _with_words(type_: Type) -> Type:
    if isinstance(type_, TupleType):
        return replace(type_, fields=tuple(map(_with_words, type_.fields)))
    return _WORDS if isinstance(type_, TypeCall) else type_


def _parts(value: ir.Expr, type_: Type) -> list[ir.Expr]:
    """Return the expressions of the parts of a value, with their types."""
    if not isinstance(type_, TupleType):
        return [value]
    if isinstance(value, ir.Tuple):
        pairs = zip(value.fields, type_.fields, strict=True)
        return [part for field, kind in pairs for part in _parts(field, kind)]
    return [
        part
        for number, kind in enumerate(type_.fields)
        for part in _parts(ir.TupleGetItem(value, number, span=value.span, checked_type=kind), kind)
    ]


def _nested(type_: Type, parts: Iterator[ir.Expr]) -> ir.Expr:
    """Return the parts of a value nested in tuples as its type says."""
    if isinstance(type_, TupleType):
        return ir.Tuple(tuple(_nested(field, parts) for field in type_.fields), checked_type=type_)
    return next(parts)


def _call(name: str, args: Sequence[ir.Expr], type_: Type, **attrs: object) -> ir.Call:
    span = args[0].span if args else None
    return ir.Call(ir.OpRef(name), tuple(args), attrs, span=span, checked_type=type_)


def _number(value: int) -> ir.Constant:
    return ir.Constant(np.array(value, np.int64), checked_type=VALUE)


def _type(node: ir.Expr) -> Type:
    type_ = type_of(node) if isinstance(node, ir.Var) else node.checked_type
    assert type_ is not None
    return type_


# What must be interpreted


def _check(module: Module, entry: str) -> None:
    """Raise NoLayoutError for a program whose data types cannot be numbers."""
    layouts = CellLayouts(module.types)
    for name in reachable(call_graph(module), entry):
        function = module.functions[name]
        if function.type_params:
            raise NoLayoutError(f"@{name} has parameters of any type")
        for node in (*function.params, *post_order(function.body)):
            _check_node(node, layouts)
        if _nesting(function.body) > MAX_NESTED_BRANCHES:
            raise NoLayoutError(f"@{name} has more than {MAX_NESTED_BRANCHES} branches inside one another")


def _check_node(node: ir.Expr, layouts: CellLayouts) -> None:
    match node:
        case ir.OpRef() | ir.GlobalVar() | ir.Constructor():
            return
        case ir.Function():
            raise NoLayoutError("it has functions as values")
        case ir.RefCreate() | ir.RefRead() | ir.RefWrite():
            raise NoLayoutError("it has references")
        case ir.Call() if is_callback(node):
            raise NoLayoutError("it calls Python")
        case ir.Match(clauses=clauses) if not clauses:
            raise NoLayoutError("it has a match without arms")
    values = node.args if isinstance(node, ir.Call) else ir.children(node)
    if any(isinstance(value, ir.GlobalVar | ir.Constructor) for value in values):
        raise NoLayoutError("it has functions as values")
    if isinstance(node, ir.Call) and isinstance(node.op, ir.Var):
        raise NoLayoutError("it has functions as values")
    layouts.check(_type(node))


def _nesting(body: ir.Expr) -> int:
    """Return how deep the branches of a body are nested, those of a match one in the other."""
    depth: dict[ir.Expr, int] = {}
    for node in post_order(body):
        inner = [depth[part] for part in ir.children(node)]
        match node:
            case ir.If():
                depth[node] = max(inner[0], 1 + max(inner[1:]))
            case ir.Match():
                arms = (number + arm for number, arm in enumerate(inner[1:], 1))
                depth[node] = max(inner[0], *arms) + 1
            case _:
                depth[node] = max(inner, default=0)
    return depth[body]


# The functions


class _Numbering:
    """Makes one function one without data types."""

    def __init__(self, layouts: CellLayouts, failures: list[Failure]) -> None:
        self._layouts, self._failures = layouts, failures

    def function(self, function: ir.Function) -> ir.Function:
        made = rewrite(function, self._transform)
        assert isinstance(made, ir.Function)
        return made

    def _transform(self, old: ir.Expr, new: ir.Expr) -> ir.Expr:
        match old, new:
            case ir.Call(op=ir.Constructor() as constructor), ir.Call(args=args):
                assert isinstance(old.checked_type, TypeCall)
                layout = self._layouts.of(old.checked_type)[constructor.tag]
                return _make(layout, args, old)
            case ir.Match(), ir.Match():
                return self._match(old, new)
            case ir.Var(), ir.Var() if has_data_types(type_of(old)):
                type_ = value_type(type_of(old))
                return replace(new, type_annotation=type_, checked_type=type_)
            case ir.Function(), ir.Function():
                assert old.ret_type is not None
                assert old.checked_type is not None
                return replace(
                    new, ret_type=value_type(old.ret_type), checked_type=value_type(old.checked_type)
                )
        if old.checked_type is None or not has_data_types(old.checked_type):
            return new
        type_ = value_type(old.checked_type)
        if isinstance(new, ir.Call):
            return replace(new, checked_type=type_, type_args=())
        return replace(new, checked_type=type_)

    # Matches

    def _match(self, old: ir.Match, new: ir.Match) -> ir.Expr:
        """Return a match as branches."""
        matching = _Matching(self._layouts, new.data, _type(old.data))
        arms = list(zip(old.clauses, new.clauses, strict=True))
        tests = [matching.test(before.lhs) for before, _ in arms]
        used = next((number for number, test in enumerate(tests) if test is None), len(tests) - 1)
        last_arm, last = arms[used], tests[used]
        result = matching.arm(last_arm[1])
        assert old.checked_type is not None
        type_ = value_type(old.checked_type)
        if last is not None and not old.complete:
            result = self._or_fail(old, matching, last, result, type_)
        for (_, clause), test in reversed(list(zip(arms[:used], tests[:used], strict=True))):
            assert test is not None
            result = ir.If(test, matching.arm(clause), result, span=old.span, checked_type=type_)
        return result

    def _or_fail(
        self, old: ir.Match, matching: _Matching, test: ir.Expr, result: ir.Expr, type_: Type
    ) -> ir.Expr:
        """Return the last arm, which fails where it does not take the value."""
        if old.assertion is not None:
            return self._fail_unless(test, result, old.assertion.at(old.span), type_)
        where = "" if old.span is None else f" at {old.span}"
        for condition, what in matching.untaken(test):
            failure = Failure(f"no arm of the match{where} takes {what}", "RuntimeError")
            result = self._fail_unless(condition, result, failure, type_)
        return result

    def _fail_unless(self, condition: ir.Expr, result: ir.Expr, failure: Failure, type_: Type) -> ir.Expr:
        fail = ir.Call(ir.OpRef(FAIL), (), {"number": len(self._failures)}, checked_type=type_)
        self._failures.append(failure)
        return ir.If(condition, result, fail, span=condition.span, checked_type=type_)


def _make(layout: CellLayout, args: Sequence[ir.Expr], old: ir.Expr) -> ir.Expr:
    """Return the value that a constructor makes of its fields."""
    if not layout.fields:
        return _number(layout.tag)
    pairs = zip(args, layout.fields, strict=True)
    parts = [part for arg, field in pairs for part in _parts(arg, value_type(field))]
    made = _call(MAKE, parts, VALUE, numbers=_make_numbers(layout))
    return replace(made, span=old.span)


def _make_numbers(layout: CellLayout) -> tuple[int, ...]:
    """Return the first word and the length of a cell, and of each part what `_plan_cell` reads.

    That is its word, the number of its open sizes, and of these the axes and the words.
    """
    numbers = [layout.header, layout.length]
    for part, offset, words in zip(layout.parts, layout.offsets, layout.sizes, strict=True):
        axes = open_axes(part) if isinstance(part, TensorType) else ()
        numbers += [offset, len(axes)]
        numbers += (number for pair in zip(axes, words, strict=True) for number in pair)
    return tuple(numbers)


def _field_numbers(part: TensorType | TypeCall, offset: int, words: Sequence[int]) -> tuple[int, ...]:
    """Return the word of a part, and if sizes are open, for each axis that of its size or a negative size."""
    if not words:
        return (offset,)
    assert isinstance(part, TensorType)
    sizes = iter(words)
    return (offset, *(-dim if isinstance(dim, int) else next(sizes) for dim in part.shape))


class _Matching:
    """Tests the patterns of a match, and binds their variables.

    What a test reads, and what an arm reads, is read where they stand: elsewhere the value may be none of the
    constructor that has it.
    """

    def __init__(self, layouts: CellLayouts, data: ir.Expr, type_: Type) -> None:
        self._layouts, self._data, self._data_type = layouts, data, type_
        self._tag: ir.Expr | None = None

    def test(self, pattern: ir.Pattern) -> ir.Expr | None:
        """Return whether a pattern takes the value; None where it takes any."""
        conditions = list(self._conditions(pattern, self._data, self._data_type))
        test = conditions.pop() if conditions else None
        no = ir.Constant(np.zeros((), np.bool_), checked_type=_BOOL)
        for condition in reversed(conditions):
            assert test is not None
            test = ir.If(condition, test, no, checked_type=_BOOL)
        return test

    def arm(self, clause: ir.Clause) -> ir.Expr:
        """Return an arm with its variables bound."""
        body = clause.rhs
        for var, value in reversed(list(self._bindings(clause.lhs, self._data, self._data_type))):
            body = ir.Let(var, value, body, span=var.span, checked_type=_type(body))
        return body

    def untaken(self, test: ir.Expr) -> Iterator[tuple[ir.Expr, str]]:
        """Yield conditions that hold where ``test`` does, or the value is not of a kind; and that kind."""
        if not isinstance(self._data_type, TypeCall):
            yield test, "this value"
            return
        for layout in self._layouts.of(self._data_type):
            other = _operator("not_equal", self._tag_of(self._data), _number(layout.tag))
            yield _operator("logical_or", test, other), layout.name

    def _conditions(self, pattern: ir.Pattern, value: ir.Expr, type_: Type) -> Iterator[ir.Expr]:
        if isinstance(pattern, ir.PatternConstructor):
            assert isinstance(type_, TypeCall)
            layouts, tag = self._layouts.of(type_), pattern.constructor.tag
            if len(layouts) > 1:
                yield self._is_of(value, layouts, tag)
        for inner, part, kind in self._inner(pattern, value, type_):
            yield from self._conditions(inner, part, kind)

    def _bindings(self, pattern: ir.Pattern, value: ir.Expr, type_: Type) -> Iterator[tuple[ir.Var, ir.Expr]]:
        if isinstance(pattern, ir.PatternVar):
            yield pattern.var, value
        for inner, part, kind in self._inner(pattern, value, type_):
            yield from self._bindings(inner, part, kind)

    def _inner(
        self, pattern: ir.Pattern, value: ir.Expr, type_: Type
    ) -> Iterator[tuple[ir.Pattern, ir.Expr, Type]]:
        """Yield the patterns in a pattern, with the parts of the value that they are for, and their types."""
        match pattern:
            case ir.PatternTuple(patterns=patterns):
                assert isinstance(type_, TupleType)
                for number, (inner, kind) in enumerate(zip(patterns, type_.fields, strict=True)):
                    part = ir.TupleGetItem(value, number, checked_type=value_type(kind))
                    yield inner, value.fields[number] if isinstance(value, ir.Tuple) else part, kind
            case ir.PatternConstructor(constructor=constructor, patterns=patterns):
                assert isinstance(type_, TypeCall)
                layout = self._layouts.of(type_)[constructor.tag]
                for inner, kind, range_ in zip(patterns, layout.fields, layout.ranges(), strict=True):
                    if isinstance(inner, ir.PatternWildcard):
                        continue
                    places = zip(
                        layout.parts[range_], layout.offsets[range_], layout.sizes[range_], strict=True
                    )
                    parts = (
                        _call(FIELD, (value,), value_type(place[0]), numbers=_field_numbers(*place))
                        for place in places
                    )
                    yield inner, _nested(value_type(kind), parts), kind

    def _is_of(self, value: ir.Expr, layouts: Sequence[CellLayout], tag: int) -> ir.Expr:
        """Return whether a constructor made a value."""
        if not layouts[tag].fields:
            return _operator("equal", value, _number(tag))
        if sum(bool(layout.fields) for layout in layouts) == 1:
            return _operator("greater_equal", value, _number(LEAST_ADDRESS))
        return _operator("equal", self._tag_of(value), _number(tag))

    def _tag_of(self, value: ir.Expr) -> ir.Expr:
        if value is not self._data:
            return _call(TAG, (value,), VALUE)
        self._tag = self._tag or _call(TAG, (value,), VALUE)
        return self._tag


def _operator(name: str, a: ir.Expr, b: ir.Expr) -> ir.Call:
    return _call(name, (a, b), _BOOL)
