"""Turn a module into plain data and back, exactly, with what its text rounds or leaves out.

The data is for JSON: lists, strings, numbers. Arrays are kept beside it, for the writer of the file.
Expressions are in one list, parts before the whole, and refer to one another by index, so that sharing
survives and depth costs nothing. Inferred types are left out, and unless spans are asked for, all spans but
those of a ``match?``, which may fail at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Source, Span
from nnmagic.limits import MAX_CHARACTERS
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.structure.encoder import Encoder, Json
from nnmagic.relay.structure.type_data import TypeDecoder, dim_from_data, expect

#: The largest number of a line or column, and the most columns that are removed from the front of lines.
_MOST_LINES, _MOST_INDENT = 1 << 31, 1 << 10


def module_to_data(
    module: Module, *, spans: bool = False, python: list[PythonFunction] | None = None
) -> tuple[Json, list[np.ndarray]]:
    """Return a module as JSON data, and the arrays that it refers to by index.

    Inferred types, annotations included, are left out: ``infer_type`` finds them again. ``spans``: whether
    every expression keeps its span, and the data the sources that spans point into. ``python`` takes the
    functions of Python that the module calls, to which the data refers by index. Raises PythonFunctionError
    for a module that calls some without it.
    """
    encoder = Encoder(python)
    functions = {name: encoder.graph(function) for name, function in module.functions.items()}
    data_types = {
        name: {
            "vars": [encoder.type(var) for var in data.type_vars],
            "constructors": [encoder.node(constructor) for constructor in data.constructors],
        }
        for name, data in module.types.items()
    }
    tables = {"types": encoder.types, "nodes": encoder.nodes}
    if spans:
        tables |= _spans_to_data(encoder.expressions)
    return {**tables, "functions": functions, "data_types": data_types}, encoder.arrays


def module_from_data(
    data: Json, arrays: Sequence[np.ndarray], python: Sequence[PythonFunction] = ()
) -> Module:
    """Return the module again, as it was before type inference.

    Raises ValueError, TypeError, KeyError or IndexError for data that ``module_to_data`` did not make.
    """
    decoder = _Decoder(arrays, python)
    decoder.add_types(data["types"])
    spans = _spans_from_data(data) if "spans" in data else [None] * len(data["nodes"])
    for record, span in zip(data["nodes"], spans, strict=True):
        node = decoder.node(record)
        decoder.nodes.append(node if span is None else replace(node, span=span))
    functions = {str(name): decoder.function(index) for name, index in data["functions"].items()}
    data_types = {
        name: TypeData(
            ty.GlobalTypeVar(name),
            tuple(decoder.type_var(index) for index in record["vars"]),
            tuple(decoder.constructor(index) for index in record["constructors"]),
        )
        for name, record in data["data_types"].items()
    }
    return Module(functions, data_types)


def types_to_data(types: Sequence[ty.Type], attrs: ir.Attrs) -> Json:
    """Return types and the attributes of a call as JSON data. Raises TypeError for constants among them."""
    encoder = Encoder()
    data = {"places": [encoder.type(type_) for type_ in types], "attrs": encoder._attrs(attrs)}
    if encoder.arrays:
        raise TypeError("an attribute holds an array")
    return {**data, "types": encoder.types}


def types_from_data(data: Json) -> tuple[tuple[ty.Type, ...], ir.Attrs]:
    """Return the types and attributes again. Raises what ``module_from_data`` raises."""
    decoder = _Decoder(())
    decoder.add_types(data["types"])
    return decoder.types_at(data["places"]), decoder._attrs(data["attrs"])


def _spans_to_data(expressions: Sequence[ir.Expr]) -> dict[str, Json]:
    """Return the span of each expression, and the sources that they refer to by index."""
    sources: dict[int, tuple[int, Source]] = {}
    spans: list[Json] = []
    for expression in expressions:
        span = expression.span
        if span is None:
            spans.append(None)
            continue
        place = None
        if span.source is not None:
            place = sources.setdefault(id(span.source), (len(sources), span.source))[0]
        spans.append([span.filename, span.line, span.column, span.end_line, span.end_column, place])
    listed = [[*source_to_data(source), list(source.names.items())] for _, source in sources.values()]
    return {"spans": spans, "sources": listed}


def source_to_data(source: Source) -> Json:
    """Return a source as JSON data, without the names of its nodes."""
    return [source.filename, source.text, source.first_line, source.indent]


def source_from_data(data: Json, names: Json = ()) -> Source:
    """Return a source again. Raises ValueError for data that ``source_to_data`` did not make."""
    match data:
        case [str() as filename, str() as text, int() as line, int() as indent] if (
            0 <= line <= _MOST_LINES and 0 <= indent <= _MOST_INDENT
        ):
            return Source(filename, text, line, indent, {int(at): str(node) for at, node in names})
    raise ValueError("not a source")


def _spans_from_data(data: Json) -> list[Span | None]:
    sources = [source_from_data(source, names) for *source, names in data["sources"]]
    spans: list[Span | None] = []
    for record in data["spans"]:
        match record:
            case None:
                spans.append(None)
            case [*place, int() | None as source]:
                spans.append(_place(place, None if source is None else sources[source]))
            case _:
                raise ValueError(f"not a span: {record!r}")
    return spans


def _place(data: Json, source: Source | None) -> Span:
    """Return a span of a source. Raises ValueError for lines and columns that no source has."""
    match data:
        case [str() as name, int() as line, int() as column, int() as end_line, int() as end_column] if (
            0 <= line <= end_line <= _MOST_LINES
            and end_line - line <= MAX_CHARACTERS
            and 0 <= min(column, end_column) <= max(column, end_column) <= _MOST_LINES
        ):
            return Span(name, line, column, end_line, end_column, source)
    raise ValueError(f"not a span: {data!r}")


def _span(data: Json) -> Span | None:
    match data:
        case None:
            return None
        case [str() as name, int() as line, _, _, _, None | str() as text]:
            return _place(data[:5], None if text is None else Source(name, text, line))
    raise ValueError(f"not a span: {data!r}")


class _Decoder(TypeDecoder):
    """A decoder that makes types and expressions again, each from those before it."""

    def __init__(self, arrays: Sequence[np.ndarray], python: Sequence[PythonFunction] = ()) -> None:
        super().__init__()
        self.arrays = arrays
        self.python = python
        self.nodes: list[ir.Expr] = []

    def _nodes(self, indices: Sequence[int]) -> tuple[ir.Expr, ...]:
        return tuple(self.nodes[index] for index in indices)

    def constructor(self, index: int) -> ir.Constructor:
        return expect(self.nodes[index], ir.Constructor)

    def function(self, index: int) -> ir.Function:
        return expect(self.nodes[index], ir.Function)

    def _var(self, index: int) -> ir.Var:
        return expect(self.nodes[index], ir.Var)

    def node(self, record: Json) -> ir.Expr:
        match record:
            case ["Var", str() as name, annotation]:
                return ir.Var(name, self._optional_type(annotation))
            case ["GlobalVar", str() as name]:
                return ir.GlobalVar(name)
            case ["OpRef", str() as name]:
                return ir.OpRef(name)
            case ["Constructor", str() as name, list() as inputs, str() as owner, int() as tag]:
                return ir.Constructor(name, self.types_at(inputs), ty.GlobalTypeVar(owner), tag)
            case ["Constant", int() as position]:
                return ir.constant(self.arrays[position], ty.dtype_of_array(self.arrays[position]))
            case ["Call", int() as op, list() as args, list() as attrs, list() as types]:
                return ir.Call(self.nodes[op], self._nodes(args), self._attrs(attrs), self.types_at(types))
            case ["Tuple", list() as fields]:
                return ir.Tuple(self._nodes(fields))
            case ["TupleGetItem", int() as value, int() as index]:
                return ir.TupleGetItem(self.nodes[value], index)
            case ["Let", int() as var, int() as value, int() as body]:
                return ir.Let(self._var(var), self.nodes[value], self.nodes[body])
            case ["If", int() as cond, int() as then, int() as other]:
                return ir.If(self.nodes[cond], self.nodes[then], self.nodes[other])
            case ["Function", list() as params, int() as body, ret, list() as types, list() as attrs]:
                return ir.Function(
                    tuple(map(self._var, params)),
                    self.nodes[body],
                    self._optional_type(ret),
                    tuple(map(self.type_var, types)),
                    self._attrs(attrs),
                )
            case ["Match", int() as data, list() as arms, bool() as complete]:
                clauses = tuple(ir.Clause(self._pattern(lhs), self.nodes[rhs]) for lhs, rhs in arms)
                return ir.Match(self.nodes[data], clauses, complete)
            case ["Match", int() as data, list() as arms, False, None | [str(), str()] as raised, span]:
                clauses = tuple(ir.Clause(self._pattern(lhs), self.nodes[rhs]) for lhs, rhs in arms)
                failure = None if raised is None else Failure(*raised)
                return ir.Match(
                    self.nodes[data], clauses, complete=False, assertion=failure, span=_span(span)
                )
            case ["RefCreate", int() as value]:
                return ir.RefCreate(self.nodes[value])
            case ["RefRead", int() as ref]:
                return ir.RefRead(self.nodes[ref])
            case ["RefWrite", int() as ref, int() as value]:
                return ir.RefWrite(self.nodes[ref], self.nodes[value])
        raise ValueError(f"not an expression: {record!r}")

    def _pattern(self, record: Json) -> ir.Pattern:
        match record:
            case ["_"]:
                return ir.PatternWildcard()
            case ["Var", int() as position]:
                return ir.PatternVar(self._var(position))
            case ["Constructor", int() as position, list() as parts]:
                return ir.PatternConstructor(self.constructor(position), tuple(map(self._pattern, parts)))
            case ["Tuple", list() as parts]:
                return ir.PatternTuple(tuple(map(self._pattern, parts)))
        raise ValueError(f"not a pattern: {record!r}")

    def _optional_type(self, index: Json) -> ty.Type | None:
        return None if index is None else self.types[index]

    def _attrs(self, items: Json) -> Mapping[str, object]:
        return {str(name): self._value(value) for name, value in items}

    def _value(self, data: Json) -> object:
        match data:
            case None | bool() | int() | str():
                return data
            case {"int64": int() as number}:
                return ty.Int64(number)
            case {"float": str() as digits}:
                return float.fromhex(digits)
            case {"tuple": list() as parts}:
                return tuple(map(self._value, parts))
            case {"dim": dim}:
                return dim_from_data(dim)
            case {"constant": int() as position}:
                return expect(self.nodes[position], ir.Constant)
            case {"variable": int() as position}:
                return expect(self.nodes[position], ir.Var)
            case {"python": int() as position}:
                return self.python[position]
        raise ValueError(f"not an attribute's value: {data!r}")
