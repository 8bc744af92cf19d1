"""Represent values of data types as numbers, so that machine code alone runs the programs that have them.

A number is the address of a cell, or the tag of a constructor without fields (`cell_layout`). Constructors
become calls of ``MAKE``; a match becomes branches on tags, whose arms read fields. Nothing changes a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnmagic.engine.relax.analysis import assertions, cell_operators, entry_signature, pattern_tests
from nnmagic.engine.relax.analysis import cell_layout as cells
from nnmagic.limits import MAX_NESTED_BRANCHES
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import is_callback
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.passes.defunctionalization import defunctionalize, has_function_values
from nnmagic.relay.structure.callgraph import call_graph, reachable
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import ANY, RefType, TensorType, TupleType, Type, TypeCall

_WORDS = TensorType((ANY,), "int64")


@dataclass(frozen=True, slots=True)
class CellSignature:
    """What an entry with data types takes and returns in Python; its machine code has words instead."""

    parameters: Sequence[Type]
    result: Type
    layouts: cells.CellLayouts


def why_interpreted(module: Module, entry: str) -> str | None:
    """Return why the data types of a program cannot be numbers; None if they can, or if it has none."""
    try:
        _check(module, entry)
    except cells.NoLayoutError as error:
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
    layouts = cells.CellLayouts(module.types)
    made = {name: _CellRewriter(layouts, failures).function(each) for name, each in functions.items()}
    old = functions[entry]
    signature = CellSignature(tuple(map(entry_signature.type_of, old.params)), old.result_type, layouts)
    if not any(map(cells.has_data_types, (*signature.parameters, signature.result))):
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
        cells.has_data_types(node.checked_type)
        for function in functions
        for node in (*function.params, *post_order(function.body))
    )


def function_values_as_data(module: Module, entry: str) -> Module:
    """Return a module whose function values are values of data types, if Python gives and takes none."""
    needed = reachable(call_graph(module), entry)
    functions = {name: function for name, function in module.functions.items() if name in needed}
    used = replace(module, functions=functions)
    if not has_function_values(used) or any(map(_is_beyond_data, functions.values())):
        return module
    held = (*map(entry_signature.type_of, functions[entry].params), functions[entry].ret_type)
    layouts = cells.CellLayouts(module.types)
    if any(type_ is None or layouts.why_not(type_) is not None for type_ in held):
        return module
    # Values of one data type with other sizes would be of sizes that nobody knows: of another type in Relay.
    return defunctionalize(used, entry, join_sizes=False)


def _is_beyond_data(function: ir.Function) -> bool:
    """Return whether a function is generic or holds what is, or has references: these stay functions."""
    return any(
        (isinstance(node, ir.Function) and bool(node.type_params)) or isinstance(node.checked_type, RefType)
        for node in (function, *post_order(function.body))
    )


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
        type_ = entry_signature.type_of(var)
        given = _with_words(type_)
        param = ir.Var(var.name_hint, given, span=var.span, checked_type=given)
        params.append(param)
        opened = (
            cell_operators.call_operator(cell_operators.OPEN, (part,), cells.VALUE)
            if isinstance(kind, TypeCall)
            else part
            for kind, part in zip(leaf_types(type_), cell_operators.parts_of_value(param, given), strict=True)
        )
        args.append(
            cell_operators.nested(cells.value_type(type_), opened) if cells.has_data_types(type_) else param
        )
    result = cells.value_type(old.result_type)
    body: ir.Expr = ir.Call(ir.GlobalVar(inner), tuple(args), span=old.span, checked_type=result)
    if cells.has_data_types(old.result_type):
        leaves = cell_operators.parts_of_value(body, result)
        pairs = list(zip(leaf_types(old.result_type), leaves, strict=True))
        roots = tuple(part for kind, part in pairs if isinstance(kind, TypeCall))
        others = [part for kind, part in pairs if not isinstance(kind, TypeCall)]
        parts = (cell_operators.call_operator(cell_operators.CLOSE, roots, _WORDS), *others)
        result = TupleType(tuple(cell_operators.type_of_node(part) for part in parts))
        body = ir.Tuple(parts, checked_type=result)
    return replace(old, params=tuple(params), body=body, ret_type=result, checked_type=None)


def _with_words(type_: Type) -> Type:
    if isinstance(type_, TupleType):
        return replace(type_, fields=tuple(map(_with_words, type_.fields)))
    return _WORDS if isinstance(type_, TypeCall) else type_


# What must be interpreted


def _check(module: Module, entry: str) -> None:
    """Raise NoLayoutError for a program whose data types cannot be numbers."""
    layouts = cells.CellLayouts(module.types)
    for name in reachable(call_graph(module), entry):
        function = module.functions[name]
        if function.type_params:
            raise cells.NoLayoutError(f"@{name} has parameters of any type")
        for node in (*function.params, *post_order(function.body)):
            _check_node(node, layouts)
        if _nesting(function.body) > MAX_NESTED_BRANCHES:
            raise cells.NoLayoutError(
                f"@{name} has more than {MAX_NESTED_BRANCHES} branches inside one another"
            )


def _check_node(node: ir.Expr, layouts: cells.CellLayouts) -> None:
    match node:
        case ir.OpRef() | ir.GlobalVar() | ir.Constructor():
            return
        case ir.Function():
            raise cells.NoLayoutError("it has functions as values")
        case ir.RefCreate() | ir.RefRead() | ir.RefWrite():
            raise cells.NoLayoutError("it has references")
        case ir.Call() if is_callback(node):
            raise cells.NoLayoutError("it calls Python")
        case ir.Match(clauses=clauses) if not clauses:
            raise cells.NoLayoutError("it has a match without arms")
    values = node.args if isinstance(node, ir.Call) else ir.children(node)
    if any(isinstance(value, ir.GlobalVar | ir.Constructor) for value in values):
        raise cells.NoLayoutError("it has functions as values")
    if isinstance(node, ir.Call) and isinstance(node.op, ir.Var):
        raise cells.NoLayoutError("it has functions as values")
    layouts.check(cell_operators.type_of_node(node))


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


class _CellRewriter:
    """Makes one function one without data types."""

    def __init__(self, layouts: cells.CellLayouts, failures: list[Failure]) -> None:
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
                return cell_operators.make_cell(layout, args, old)
            case ir.Match(), ir.Match():
                return self._match(old, new)
            case ir.Var(), ir.Var() if cells.has_data_types(entry_signature.type_of(old)):
                type_ = cells.value_type(entry_signature.type_of(old))
                return replace(new, type_annotation=type_, checked_type=type_)
            case ir.Function(), ir.Function():
                return replace(
                    new,
                    ret_type=cells.value_type(old.result_type),
                    checked_type=cells.value_type(old.inferred_type),
                )
        if old.checked_type is None or not cells.has_data_types(old.checked_type):
            return new
        type_ = cells.value_type(old.checked_type)
        if isinstance(new, ir.Call):
            return replace(new, checked_type=type_, type_args=())
        return replace(new, checked_type=type_)

    # Matches

    def _match(self, old: ir.Match, new: ir.Match) -> ir.Expr:
        """Return a match as branches."""
        matching = pattern_tests.Matching(self._layouts, new.data, cell_operators.type_of_node(old.data))
        arms = list(zip(old.clauses, new.clauses, strict=True))
        tests = [matching.test(before.lhs) for before, _ in arms]
        used = next((number for number, test in enumerate(tests) if test is None), len(tests) - 1)
        last_arm, last = arms[used], tests[used]
        result = matching.arm(last_arm[1])
        type_ = cells.value_type(old.inferred_type)
        if last is not None and not old.complete:
            result = self._or_fail(old, matching, last, result, type_)
        for (_, clause), test in reversed(list(zip(arms[:used], tests[:used], strict=True))):
            assert test is not None
            result = ir.If(test, matching.arm(clause), result, span=old.span, checked_type=type_)
        return result

    def _or_fail(
        self, old: ir.Match, matching: pattern_tests.Matching, test: ir.Expr, result: ir.Expr, type_: Type
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
        fail = ir.Call(ir.OpRef(assertions.FAIL), (), {"number": len(self._failures)}, checked_type=type_)
        self._failures.append(failure)
        return ir.If(condition, result, fail, span=condition.span, checked_type=type_)
