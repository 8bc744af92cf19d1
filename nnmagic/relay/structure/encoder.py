"""Turn the expressions and types of a module into plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.structure.traverse import post_order

#: A JSON value; what ``json`` returns is untyped.
Json = Any


class PythonFunctionError(TypeError):
    """A module cannot become data because it calls a function of Python."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the module calls the Python function `{name}`, which is no data")
        self.name = name


class Encoder:
    """A table in which every type and expression gets an index."""

    def __init__(self, python: list[PythonFunction] | None = None) -> None:
        self.types: list[Json] = []
        self.nodes: list[Json] = []
        self.arrays: list[np.ndarray] = []
        self.python = python
        self._type_indices: dict[object, int] = {}
        self._node_indices: dict[ir.Expr, int] = {}

    @property
    def expressions(self) -> Sequence[ir.Expr]:
        """The expressions of the table, in its order."""
        return list(self._node_indices)

    def graph(self, root: ir.Expr) -> int:
        """Return the index of an expression, after entering all its parts."""
        for node in post_order(root, skip=self._node_indices):
            self.node(node)
        return self._node_indices[root]

    def node(self, node: ir.Expr) -> int:
        """Return the index of an expression whose parts have theirs."""
        index = self._node_indices.get(node)
        if index is None:
            record = self._record(node)
            index = self._node_indices[node] = len(self.nodes)
            self.nodes.append(record)
        return index

    def _all(self, nodes: Sequence[ir.Expr]) -> list[int]:
        return [self.node(node) for node in nodes]

    def _record(self, node: ir.Expr) -> Json:
        match node:
            case ir.Var(name_hint=name, type_annotation=annotation, inferred=inferred):
                return ["Var", self.variable(name), None if inferred else self._optional_type(annotation)]
            case ir.GlobalVar(name=name):
                return ["GlobalVar", self.function(name)]
            case ir.OpRef(name=name):
                return ["OpRef", name]
            case ir.Constructor():
                return ["Constructor", *self.constructor(node)]
            case ir.Constant(data=data):
                self.arrays.append(data)
                return ["Constant", len(self.arrays) - 1]
            case ir.Call(op=op, args=args, attrs=attrs, type_args=type_args):
                types = [self.type(arg) for arg in type_args]
                return ["Call", self.node(op), self._all(args), self._attrs(attrs), types]
            case ir.Tuple(fields=fields):
                return ["Tuple", self._all(fields)]
            case ir.TupleGetItem(tuple_value=value, index=index):
                return ["TupleGetItem", self.node(value), index]
            case ir.Let(var=var, value=value, body=body):
                return ["Let", self.node(var), self.node(value), self.node(body)]
            case ir.If(cond=cond, true_branch=then, false_branch=other):
                return ["If", self.node(cond), self.node(then), self.node(other)]
            case ir.Function(params=params, body=body, ret_type=ret, type_params=type_params, attrs=attrs):
                types = [self.type(var) for var in type_params]
                ret_index = None if node.inferred else self._optional_type(ret)
                return ["Function", self._all(params), self.node(body), ret_index, types, self._attrs(attrs)]
            case ir.Match(data=data, clauses=clauses, complete=complete, assertion=assertion):
                arms = [[self._pattern(arm.lhs), self.node(arm.rhs)] for arm in clauses]
                raised = None if assertion is None else [assertion.message, assertion.kind]
                failure = [] if complete else [raised, self.span(node.span)]
                return ["Match", self.node(data), arms, complete, *failure]
            case ir.RefCreate(value=value):
                return ["RefCreate", self.node(value)]
            case ir.RefRead(ref=ref):
                return ["RefRead", self.node(ref)]
            case ir.RefWrite(ref=ref, value=value):
                return ["RefWrite", self.node(ref), self.node(value)]

    def _pattern(self, pattern: ir.Pattern) -> Json:
        match pattern:
            case ir.PatternWildcard():
                return ["_"]
            case ir.PatternVar(var=var):
                return ["Var", self.node(var)]
            case ir.PatternConstructor(constructor=constructor, patterns=parts):
                return ["Constructor", self.node(constructor), [self._pattern(field) for field in parts]]
            case ir.PatternTuple(patterns=parts):
                return ["Tuple", [self._pattern(field) for field in parts]]

    def _attrs(self, attrs: ir.Attrs) -> Json:
        return [[name, self._value(value)] for name, value in attrs.items()]

    def _value(self, value: object) -> Json:
        match value:
            case None | bool() | str():
                return value
            case ty.Int64():
                return {"int64": int(value)}
            case int():
                return value
            case float():
                return {"float": value.hex()}
            case tuple() | list():
                return {"tuple": [self._value(part) for part in value]}
            case ty.AnyDim() | ty.VarDim():
                return {"dim": self.dim(value)}
            case ir.Constant():
                return {"constant": self.node(value)}
            case ir.Var():
                return {"variable": self.node(value)}
            case PythonFunction():
                return self.python_function(value)
        raise TypeError(f"an attribute cannot be a {type(value).__name__}")

    def _optional_type(self, type_: ty.Type | None) -> int | None:
        return None if type_ is None else self.type(type_)

    def type(self, type_: ty.Type) -> int:
        """Return the index of a type; types of the same text share one."""
        record = self._type_record(type_)
        # The record distinguishes 3 and 3i64, which are equal; variables of one name are not one.
        key = type_ if isinstance(type_, ty.TypeVar) else repr(record)
        index = self._type_indices.setdefault(key, len(self.types))
        if index == len(self.types):
            self.types.append(record)
        return index

    def _type_record(self, type_: ty.Type) -> Json:
        match type_:
            case ty.TensorType(shape=shape, dtype=dtype):
                return ["Tensor", [self.dim(dim) for dim in shape], dtype]
            case ty.RecordType(fields=fields, name=name, names=names):
                return ["Record", [self.type(field) for field in fields], name, list(names)]
            case ty.TupleType(fields=fields):
                return ["Tuple", [self.type(field) for field in fields]]
            case ty.TypeVar(name=name):
                return ["TypeVar", self.variable(name)]
            case ty.FuncType(arg_types=args, ret_type=ret, type_params=params):
                type_vars = [self.type(var) for var in params]
                return ["Func", [self.type(field) for field in args], self.type(ret), type_vars]
            case ty.RefType(value=value):
                return ["Ref", self.type(value)]
            case ty.GlobalTypeVar(name=name):
                return ["GlobalTypeVar", self.data_type(name)]
            case ty.TypeCall(func=func, args=args):
                return ["TypeCall", self.data_type(func.name), [self.type(field) for field in args]]

    # Names; hashing.py overrides these methods to leave names out.

    def variable(self, name: str) -> Json:
        """Return the name of a variable of a function or of a type."""
        return name

    def function(self, name: str) -> Json:
        """Return the name of a function of the module."""
        return name

    def data_type(self, name: str) -> Json:
        """Return the name of a data type of the module."""
        return name

    def constructor(self, node: ir.Constructor) -> list[Json]:
        """Return what identifies a constructor."""
        return [
            node.name,
            [self.type(input_type) for input_type in node.inputs],
            node.belong_to.name,
            node.tag,
        ]

    def python_function(self, function: PythonFunction) -> Json:
        """Return the index of a function of Python. Raises PythonFunctionError where none are taken."""
        if self.python is None:
            raise PythonFunctionError(function.name)
        if function not in self.python:
            self.python.append(function)
        return {"python": self.python.index(function)}

    def dim(self, dim: ty.Dim) -> Json:
        """Return a dimension as data."""
        match dim:
            case ty.AnyDim(label=label):
                return {"any": label}
            case ty.VarDim(name=name):
                return {"var": name}
            case ty.Int64():
                return {"int64": int(dim)}
        return int(dim)

    def span(self, span: Span | None) -> Json:
        """Return a span with its source lines, which an error that is raised at run time shows."""
        if span is None:
            return None
        numbers = range(span.line, span.end_line + 1)
        lines = [span.source.line(line) if span.source else None for line in numbers]
        text = None if None in lines else "\n".join(line for line in lines if line is not None)
        return [span.filename, span.line, span.column, span.end_line, span.end_column, text]
