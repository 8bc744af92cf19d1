"""Expressions of the tree -> values. What a form means stands in the files that it calls."""

from __future__ import annotations

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.types import FuncType
from nnmagic.tinynn.calls.function_calls import constructor_call, function_call, value_call
from nnmagic.tinynn.calls.operator_arguments import dtype_call, operator_call
from nnmagic.tinynn.elaborate.annotation_types import (
    callable_annotation,
    tensor_annotation,
    tuple_annotation,
    unknown_dimension,
)
from nnmagic.tinynn.elaborate.context import Core, fresh
from nnmagic.tinynn.namespace.attributes import attribute
from nnmagic.tinynn.namespace.name_resolution import UnknownNameError
from nnmagic.tinynn.operators.arithmetic import binary, unary
from nnmagic.tinynn.operators.membership import identity, membership
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.syntax import SIGNS, tree
from nnmagic.tinynn.types.annotations import DType
from nnmagic.tinynn.values.values import (
    FAILED,
    MAX_INT_BITS,
    BuiltinName,
    ClosureValue,
    Computed,
    ConstructorName,
    DataTypeName,
    GlobalFunction,
    Known,
    LocalFunction,
    Method,
    Operand,
    OperatorName,
    RefusalError,
    SliceOf,
    TupleConstructor,
    TupleOf,
    Unassigned,
    Value,
    described,
    is_failed,
    record_constructor,
    source_text,
)


class Expressions(Core):
    """The values of expressions."""

    # -- expressions -----------------------------------------------------------------------------------

    def transform_expr(self, expr: ast.Expr) -> Value:
        """The value of an expression; FAILED, once it was reported, where it has none."""
        try:
            return self._value(expr)
        except RefusalError as refusal:
            self.report(refusal)
            return FAILED

    def _value(self, expr: ast.Expr) -> Value:
        match expr:
            case ast.Var() | ast.Attr():
                return self._named(expr)
            case ast.Constant(value=int() as number) if number.bit_length() > MAX_INT_BITS:
                message = f"an int of {number.bit_length()} bits is larger than any float"
                raise RefusalError(message, self.place(expr.span))
            case ast.Constant():
                return Known(expr.value)
            case ast.Call(func_name=ast.Op() as op):
                return self._operation(expr, op)
            case ast.Call():
                return self._call(expr)
            case ast.Tuple() | ast.ArrayLiteral():
                return TupleOf(tuple(item.value for item in self._operands(expr.values)))
            case ast.Slice():
                return SliceOf(*(self.transform_expr(part) for part in (expr.start, expr.end, expr.step)))
            case tree.Conditional():
                return self.conditional(expr)
            case tree.Logical():
                return self.logical(expr)
            case tree.Chain():
                return self.chain(expr)
            case tree.NamedExpr():
                return self._walrus(expr)
            case tree.Lambda():
                return self.lambda_value(expr)
            case tree.Comprehension():
                return self.comprehension(expr)
            case tree.EllipsisLiteral():
                return Known(Ellipsis)
            case tree.Invalid():
                return FAILED
            case tree.Starred():  # in the words of Python's own compiler, which finds most of them
                raise RefusalError("can't use starred expression here", self.place(expr.span))
        raise RefusalError("this expression is not part of TinyNN", self.place(expr.span))

    def _operands(self, exprs: list[ast.Expr]) -> list[Operand]:
        """The operands of a call or the items of a tuple; ``*items`` of a tuple are put in their place."""
        operands: list[Operand] = []
        for expr in exprs:
            if not isinstance(expr, tree.Starred):
                operands.append(self.operand(expr))
                continue
            starred = self.operand(expr.value)
            if isinstance(starred.value, TupleOf):
                operands += [Operand(item, starred.span) for item in starred.value.items]
            elif is_failed(starred.value):
                operands.append(starred)
            else:
                raise RefusalError(f"`*` of {described(starred.value)}", self.place(expr.span))
        return operands

    # -- names -----------------------------------------------------------------------------------------

    def _named(self, expr: ast.Expr) -> Value:
        """A name with its attributes; a dotted name outside the function may name an operator."""
        chain: list[ast.Attr] = []
        root = expr
        while isinstance(root, ast.Attr):
            chain.append(root)
            root = root.object
        chain.reverse()
        if not isinstance(root, ast.Var):
            return self._attributes(self.operand(root), chain)
        name = root.id.name
        owner = self.frame.owner(name)
        if owner is not None:
            value = self.read(name, owner.env.locals.get(name), root)
            return self._attributes(Operand(value, self.place(root.span)), chain)
        path = (name, *(link.field.name for link in chain))
        place = self.place(expr.span)
        try:
            value, taken = self.scope.lookup(path, place, self.frame.names())
        except UnknownNameError:
            if self.in_shape:
                raise unknown_dimension(name, place, self.scope.namespace) from None
            written = self.frame.dimensions.get(path[0])
            if written is not None:
                hint = f'the dimension "{name}" is {written}'
                raise RefusalError(f"unknown name `{name}`", place, hint=hint) from None
            raise
        start = chain[taken - 2].span if taken > 1 else root.span
        return self._attributes(Operand(value, self.place(start)), chain[taken - 1 :])

    def read(self, name: str, value: Value | None, root: ast.Var) -> Value:
        """What a local name stands for. Raises Refusal where that is nothing."""
        if value is None:
            raise self._unbound(name, root)
        if isinstance(value, Unassigned):
            if value in self.told:
                return FAILED
            self.told.add(value)
            raise RefusalError(value.message, self.place(root.span), hint=value.hint, notes=value.notes)
        return fresh(value)

    def _unbound(self, name: str, root: ast.Var) -> RefusalError:
        hint = "assign it first"
        if name in self.scope.namespace:
            hint = f"the function assigns `{name}`, which hides the notebook's `{name}`: rename one of them"
        return RefusalError(f"`{name}` is used before it is assigned", self.place(root.span), hint=hint)

    def _walrus(self, expr: tree.NamedExpr) -> Value:
        value = self.transform_expr(expr.value)
        owner = self.frame.owner(expr.target.id.name)
        if owner is not None and owner is not self.frame:  # a comprehension that makes functions
            owner.env.bind(expr.target.id.name, FAILED)
            message = "`:=` beside a lambda in a comprehension is not supported"
            raise RefusalError(message, self.place(expr.span), hint="write a `for` with an assignment")
        self.frame.env.bind(expr.target.id.name, value, self.place(expr.target.span))
        return value

    def _attributes(self, owner: Operand, chain: list[ast.Attr]) -> Value:
        for link in chain:
            if is_failed(owner.value):
                return FAILED
            span = self.place(link.span)
            owner = Operand(attribute(owner, link.field.name, span), span)
        return owner.value

    # -- operators and calls ---------------------------------------------------------------------------

    def _operation(self, expr: ast.Call, op: ast.Op) -> Value:
        if op.name is ast.BuiltinOp.Subscript:
            return self._subscript(expr)
        if len(expr.params) == 1:
            operand = self.operand(expr.params[0])
            span = self.place(expr.span)
            if op.name is ast.BuiltinOp.Not:
                return self.negated(operand, span)
            return FAILED if is_failed(operand.value) else unary(op.name, SIGNS[op.name], operand, span)
        return self._chain(expr)

    def _chain(self, expr: ast.Call) -> Value:
        """A binary operator; down the left side in a loop, so that a long sum needs no deep recursion."""
        chain: list[ast.Call] = []
        node: ast.Expr = expr
        while _is_binary(node):
            chain.append(node)
            node = node.params[0]
        left = self.operand(node)
        for call in reversed(chain):
            right = self.operand(call.params[1])
            span = self.place(call.span)
            left = Operand(self._binary(call.func_name.name, left, right, span), span)
        return left.value

    def compare(self, op: ast.Op, left: Operand, right: Operand, span: Span) -> Value:
        """One comparison of a chain."""
        return self._binary(op.name, left, right, span)

    def _binary(self, op: ast.BuiltinOp | tree.ExtraOp, left: Operand, right: Operand, span: Span) -> Value:
        if is_failed(left.value) or is_failed(right.value):
            return FAILED
        try:
            if op in (tree.ExtraOp.Is, tree.ExtraOp.IsNot):
                return identity(SIGNS[op], left, right, span)
            if op in (tree.ExtraOp.In, tree.ExtraOp.NotIn):
                return membership(SIGNS[op], left, right, span)
            return binary(op, SIGNS[op], left, right, span)
        except RefusalError as refusal:
            self.report(refusal)
            return FAILED

    def _subscript(self, expr: ast.Call) -> Value:
        owner, index = self.operand(expr.params[0]), expr.params[1].values
        span = self.place(expr.span)
        if isinstance(owner.value, TupleConstructor):
            return self._type_subscript(owner.value, index, span)
        if isinstance(owner.value, BuiltinName) and owner.value.builtin.name == "list":
            hint = 'write tuple[f32, f32], a type for each item, or Tensor[("n",), f32]'
            raise RefusalError("`list[...]` is no type of a cell", span, hint=hint)
        items = self._operands(index)
        if any(is_failed(part.value) for part in (owner, *items)):
            return FAILED
        return subscript(owner, items, span)

    def _type_subscript(self, owner: TupleConstructor, index: list[ast.Expr], span: Span) -> Value:
        if owner.name == "Callable":
            items = self._operands(index)
            return (
                FAILED if any(is_failed(item.value) for item in items) else callable_annotation(items, span)
            )
        if owner.name != "Tensor":
            items = self._operands(index)
            return FAILED if any(is_failed(item.value) for item in items) else tuple_annotation(items)
        self.in_shape = True
        try:
            items = self._operands(index[:1])
        finally:
            self.in_shape = False
        items += self._operands(index[1:])
        if any(is_failed(item.value) for item in items):
            return FAILED
        shape = index[0] if index else None  # `Tensor[()]`
        parts: list[Operand] = []
        if isinstance(shape, ast.Tuple | ast.ArrayLiteral) and items and isinstance(items[0].value, TupleOf):
            places = [self.place(part.span) for part in shape.values]
            if len(places) == len(items[0].value.items):
                parts = list(map(Operand, items[0].value.items, places))
        return tensor_annotation(items, parts, span)

    def _call(self, expr: ast.Call) -> Value:
        callee = self.operand(expr.func_name)
        operands = self._operands(expr.params)
        for key, value in expr.keyword_params.items():
            operands.append(Operand(self.transform_expr(value), self.place(value.span), key.value))
        if any(is_failed(operand.value) for operand in (callee, *operands)):
            return FAILED
        try:
            return self.apply_value(callee, operands, self.place(expr.span))
        except RefusalError as refusal:
            hiding = self._hiding(expr.func_name)
            if hiding is None:
                raise
            error = refusal.diagnostic
            raise RefusalError(
                error.message, error.span or callee.span, hint=hiding, notes=error.notes
            ) from None

    def _hiding(self, callee: ast.Expr) -> str | None:
        """A hint where a written path such as ``nn.relu`` begins with a name of the function's own."""
        if not (isinstance(callee, ast.Attr) and isinstance(callee.object, ast.Var)):
            return None
        name, word = callee.object.id.name, callee.field.name
        if self.frame.owner(name) is None or f"{name}.{word}" not in OPERATORS:
            return None
        return f"`{name}` is a name of the function's own here: rename it, or write relay.{name}.{word}"

    def apply_value(self, callee: Operand, operands: list[Operand], span: Span) -> Value:
        """A call of a value. Raises Refusal."""
        self.count_work()
        match callee.value:
            case OperatorName(operator=operator):
                return operator_call(operator, operands, span)
            case BuiltinName(builtin=builtin):
                return builtin.call(operands, span)
            case Method(receiver=receiver, callee=function):
                return self.apply_value(Operand(function, callee.span), [receiver, *operands], span)
            case GlobalFunction(name=name, type=None) if name in self.unfinished:
                self.awaited.add(name)
                weak = self.weak_results.get(name)
                return FAILED if weak is None else Computed(ir.GlobalVar(name, span=span), weak, weak=True)
            case GlobalFunction() as function:
                return function_call(function, operands, span, self)
            case ClosureValue() as closure:
                current = self.renewed(closure)
                return FAILED if current is None else function_call(current, operands, span, self)
            case LocalFunction() as local:
                return self.inlined(local, operands, callee.span, span)
            case Computed(type=FuncType()) as function_value:
                return value_call(function_value, operands, span, self)
            case ConstructorName() as constructor:
                return constructor_call(constructor, operands, span, self)
            case DataTypeName() as data:
                own = record_constructor(data)
                if own is not None:
                    return constructor_call(own, operands, span, self)
                names = ", ".join(data.fields)
                raise RefusalError(
                    f"{described(data)} cannot be called",
                    callee.span,
                    hint=f"call one of its constructors: {names}",
                )
            case Known(value=DType() as dtype):
                return dtype_call(dtype.name, dtype.short, operands, span)
        hint: str | None = None
        if isinstance(callee.value, Known | TupleOf) and not source_text(callee.span).isidentifier():
            hint = "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]"
        elif isinstance(callee.value, Computed):
            hint = "leave the brackets out, or index it, as in x[0]"
        raise RefusalError(f"{described(callee.value)} cannot be called", callee.span, hint=hint)


def _is_binary(expr: ast.Expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func_name, ast.Op)
        and expr.func_name.name is not ast.BuiltinOp.Subscript
        and len(expr.params) == 2
    )
