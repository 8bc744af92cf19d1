"""Find the data types that functions use: in annotations, constructors, patterns, other data types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nnmagic.relay import expr as ir
from nnmagic.relay.module import TypeData
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import FuncType, GlobalTypeVar, RefType, TupleType, Type, TypeCall


def collect_used_types(
    functions: Iterable[ir.Function], types: Mapping[str, TypeData]
) -> dict[str, TypeData]:
    """Return those of the types that the functions need, in the order of ``types``."""
    if not types:
        return {}
    work = [name for function in functions for node in post_order(function) for name in _types_of_node(node)]
    return with_field_types(work, types)


def with_field_types(names: Iterable[str], types: Mapping[str, TypeData]) -> dict[str, TypeData]:
    """Return types by name, with those that their values hold, in the order of ``types``."""
    needed: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name in needed or name not in types:
            continue
        needed.add(name)
        work += [
            type_name
            for constructor in types[name].constructors
            for field in constructor.inputs
            for type_name in _type_names(field)
        ]
    return {name: data for name, data in types.items() if name in needed}


def _types_of_node(node: ir.Expr) -> Iterator[str]:
    match node:
        case ir.Var(type_annotation=annotation):
            yield from _type_names(annotation)
        case ir.Function(params=params, ret_type=result):
            for param in params:  # the body may use none of them
                yield from _type_names(param.type_annotation)
            yield from _type_names(result)
        case ir.Constructor(belong_to=owner):
            yield owner.name
        case ir.Call(type_args=args):
            for type_ in args:
                yield from _type_names(type_)
        case ir.Match(clauses=clauses):
            patterns: list[ir.Pattern] = [clause.lhs for clause in clauses]
            while patterns:
                match patterns.pop():
                    case ir.PatternConstructor(constructor=constructor, patterns=parts):
                        yield constructor.belong_to.name
                        patterns += parts
                    case ir.PatternTuple(patterns=parts):
                        patterns += parts


def _type_names(type_: Type | None) -> Iterator[str]:
    work = [type_]
    while work:
        match work.pop():
            case GlobalTypeVar(name=name):
                yield name
            case TypeCall(func=func, args=args):
                work += [func, *args]
            case TupleType(fields=fields):
                work += fields
            case FuncType(arg_types=args, ret_type=result):
                work += [*args, result]
            case RefType(value=value):
                work.append(value)
