"""synr tree -> Relay: the Transformer that walks a cell. What a form means stands in the files it calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synr import Transformer, ast

from nnmagic.diagnostics import Diagnostics, Source, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.types import FuncType, Type
from nnmagic.tinynn import tree
from nnmagic.tinynn.annotations import DType
from nnmagic.tinynn.arithmetic import binary, unary
from nnmagic.tinynn.calls import dtype_call, function_call, operator_call
from nnmagic.tinynn.declarations import (
    annotated_type,
    as_declared,
    declared_value,
    named_dimensions,
    relay_value,
    tensor_annotation,
    tuple_annotation,
    unknown_dimension,
)
from nnmagic.tinynn.indexing import subscript
from nnmagic.tinynn.members import attribute
from nnmagic.tinynn.names import assigned_names, callees_first, names_bound
from nnmagic.tinynn.scope import Scope, UnknownName
from nnmagic.tinynn.syntax import SIGNS
from nnmagic.tinynn.unpacking import fail_all, unpack
from nnmagic.tinynn.values import (
    FAILED,
    BuiltinName,
    Computed,
    GlobalFunction,
    Known,
    Method,
    Operand,
    OperatorName,
    Refusal,
    SliceOf,
    TupleConstructor,
    TupleOf,
    Value,
    computed,
    described,
    is_failed,
    source_text,
)


@dataclass(slots=True)
class _Signature:
    """A function's parameters with their types (None where an error was reported) and declared result."""

    parameters: list[tuple[ast.Parameter, Type | None]]
    declared: Type | None
    declared_at: Span | None
    failed: bool


class Elaborator(Transformer):  # type: ignore[misc]  # synr is untyped
    """Walks a cell's tree once; expressions give values, and errors are gathered, not raised."""

    def __init__(self, source: Source, namespace: Mapping[str, object], found: Diagnostics) -> None:
        self.source = source
        self.found = found
        self.scope = Scope(namespace)
        self.locals: dict[str, Value] = {}
        self.assigned: frozenset[str] = frozenset()
        self.unfinished: set[str] = set()
        #: The named dimensions of the function's parameters, each with what the body calls it.
        self.dimensions: dict[str, str] = {}
        self.in_shape = False

    # -- places and errors -----------------------------------------------------------------------------

    def place(self, span: ast.Span) -> Span:
        """A span of the tree as a span of Relay and of diagnostics."""
        return Span(
            span.filename, span.start_line, span.start_column, span.end_line, span.end_column, self.source
        )

    def report(self, refusal: Refusal) -> None:
        """Records an error."""
        error = refusal.diagnostic
        self.found.error(error.message, error.span, hint=error.hint, notes=error.notes)

    # -- the cell --------------------------------------------------------------------------------------

    def transform_module(self, mod: ast.Module) -> dict[str, ir.Function]:
        """The Relay functions of the cell, in source order."""
        self.scope.linker.reserved.update(mod.funcs)
        signatures = {name: self._signature(definition) for name, definition in mod.funcs.items()}
        for name, signature in signatures.items():
            names = tuple(parameter.name for parameter, _ in signature.parameters)
            self.scope.functions[name] = GlobalFunction(name, name, names, None)
        self.unfinished = set(mod.funcs)
        done: dict[str, ir.Function | None] = {}
        for name in callees_first(mod.funcs):
            done[name] = self._function(mod.funcs[name], signatures[name])
            self.unfinished.discard(name)
        return {name: function for name in mod.funcs if (function := done[name]) is not None}

    def _signature(self, definition: tree.Definition) -> _Signature:
        parameters = [(parameter, self._type_or_none(parameter.ty)) for parameter in definition.params]
        declared = None if definition.ret_type is None else self._type_or_none(definition.ret_type)
        failed = any(type_ is None for _, type_ in parameters) or (
            definition.ret_type is not None and declared is None
        )
        at = None if definition.ret_type is None else self.place(definition.ret_type.span)
        return _Signature(parameters, declared, at, failed)

    def _type_or_none(self, annotation: tree.Annotation) -> Type | None:
        try:
            return self.transform_type(annotation)
        except Refusal as refusal:
            self.report(refusal)
        except RecursionError:
            self._report_depth(annotation.span)
        return None

    def transform_type(self, ty: tree.Annotation) -> Type | None:
        """The type that an annotation means, or None where an error was reported. Raises Refusal."""
        value = self.transform_expr(ty.expr)
        return None if is_failed(value) else annotated_type(Operand(value, self.place(ty.span)))

    def _function(self, definition: tree.Definition, signature: _Signature) -> ir.Function | None:
        """The Relay function, or None where an error was reported; callers know its type from then on."""
        before = len(self.found.found)
        self.locals, self.dimensions, params = {}, {}, []
        self.assigned = frozenset(assigned_names(definition.body))
        for parameter, type_ in signature.parameters:
            if type_ is None:
                self.locals[parameter.name] = FAILED
                continue
            variable = ir.Var(parameter.name, type_, span=self.place(parameter.span))
            params.append(variable)
            self.locals[parameter.name] = computed(variable, type_)
            for label, written in named_dimensions(parameter.name, type_):
                self.dimensions.setdefault(label, written)
        result = self._body(definition, signature)
        if result is None or signature.failed or len(self.found.found) > before:
            return None
        expr, type_ = result.expr, result.type
        types = tuple(type_ for _, type_ in signature.parameters if type_ is not None)
        known = self.scope.functions[definition.name]
        self.scope.functions[definition.name] = GlobalFunction(
            known.name, known.written, known.parameters, FuncType(types, type_)
        )
        return ir.Function(tuple(params), expr, type_, span=self.place(definition.span))

    def _body(self, definition: tree.Definition, signature: _Signature) -> Computed | None:
        """The result of a function's statements; None where there is none, or an error was reported."""
        statements = definition.body.stmts
        last_assigned: str | None = None
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                if index + 1 < len(statements):
                    rest = self.place(statements[index + 1].span)
                    hint = "remove it, or move the return to the end"
                    self.found.error("code after `return` is never reached", rest, hint=hint)
                return self._result(statement, definition, signature)
            self.transform_stmt(statement)
            names = names_bound(statement)
            last_assigned = names[-1] if names else last_assigned
        if not any(
            isinstance(statement, tree.InvalidStatement) and statement.returns for statement in statements
        ):
            hint = "add a `return` at its end"
            if last_assigned is not None:
                hint = f"add `return {last_assigned}` at its end"
            self.found.error(
                f"`{definition.name}` returns nothing", self.place(definition.name_span), hint=hint
            )
        return None

    def _result(
        self, statement: ast.Return, definition: tree.Definition, signature: _Signature
    ) -> Computed | None:
        if statement.value is None:
            hint = "return a tensor, or a tuple of them"
            self.found.error("`return` without a value", self.place(statement.span), hint=hint)
            return None
        try:
            value = self.operand(statement.value)
            if is_failed(value.value) or signature.failed:
                return None
            if signature.declared is None:
                return relay_value(value)
            what = f"the result of `{definition.name}`"
            return as_declared(what, signature.declared, value, signature.declared_at)
        except Refusal as refusal:
            self.report(refusal)
        except RecursionError:
            self._report_depth(statement.span)
        return None

    # -- statements ------------------------------------------------------------------------------------

    def transform_stmt(self, stmt: ast.Stmt) -> None:
        """Binds the names of a statement."""
        try:
            match stmt:
                case ast.Assign():
                    self._assign(stmt)
                case tree.Unpack():
                    self._unpack(stmt)
                case tree.InvalidStatement():
                    self.locals.update(dict.fromkeys(stmt.names, FAILED))
        except (Refusal, RecursionError) as problem:
            if isinstance(problem, Refusal):
                self.report(problem)
            else:
                self._report_depth(stmt.span)
            self.locals.update(dict.fromkeys(names_bound(stmt), FAILED))

    def _report_depth(self, span: ast.Span) -> None:
        self.found.error(
            "this is nested too deeply", self.place(span), hint="split it into several assignments"
        )

    def _assign(self, stmt: ast.Assign) -> None:
        name = stmt.lhs[0].id.name
        value = self.transform_expr(stmt.rhs)
        if stmt.ty is not None:
            declared = self._type_or_none(stmt.ty)
            if declared is None or is_failed(value):
                value = FAILED
            else:
                operand = Operand(value, self.place(stmt.rhs.span))
                value = declared_value(f"`{name}`", declared, operand, self.place(stmt.ty.span))
        self.locals[name] = value

    def _unpack(self, stmt: tree.Unpack) -> None:
        value = Operand(self.transform_expr(stmt.rhs), self.place(stmt.rhs.span))
        for target in stmt.targets:
            if is_failed(value.value):
                fail_all(target, self.locals.__setitem__)
            else:
                unpack(target, value, self.place, self.locals.__setitem__)

    # -- expressions -----------------------------------------------------------------------------------

    def transform_expr(self, expr: ast.Expr) -> Value:
        """The value of an expression; FAILED, once it was reported, where it has none."""
        try:
            return self._value(expr)
        except Refusal as refusal:
            self.report(refusal)
            return FAILED

    def operand(self, expr: ast.Expr, keyword: str | None = None) -> Operand:
        """An expression's value with its place."""
        return Operand(self.transform_expr(expr), self.place(expr.span), keyword)

    def _value(self, expr: ast.Expr) -> Value:
        match expr:
            case ast.Var() | ast.Attr():
                return self._named(expr)
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
            case tree.EllipsisLiteral():
                return Known(Ellipsis)
            case tree.Invalid():
                return FAILED
            case tree.Starred():  # in the words of Python's own compiler, which finds most of them
                raise Refusal("can't use starred expression here", self.place(expr.span))
        raise Refusal("this expression is not part of TinyNN", self.place(expr.span))

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
                raise Refusal(f"`*` of {described(starred.value)}", self.place(expr.span))
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
        if name in self.locals:
            return self._attributes(Operand(self.locals[name], self.place(root.span)), chain)
        if name in self.assigned:
            raise self._unbound(name, root)
        path = (name, *(link.field.name for link in chain))
        place = self.place(expr.span)
        try:
            value, taken = self.scope.lookup(path, place, self.locals)
        except UnknownName:
            if self.in_shape:
                raise unknown_dimension(name, place, self.scope.namespace) from None
            if path[0] in self.dimensions:
                hint = f'the dimension "{name}" is {self.dimensions[name]}'
                raise Refusal(f"unknown name `{name}`", place, hint=hint) from None
            raise
        start = chain[taken - 2].span if taken > 1 else root.span
        return self._attributes(Operand(value, self.place(start)), chain[taken - 1 :])

    def _unbound(self, name: str, root: ast.Var) -> Refusal:
        hint = "assign it first"
        if name in self.scope.namespace:
            hint = f"the function assigns `{name}`, which hides the notebook's `{name}`: rename one of them"
        return Refusal(f"`{name}` is used before it is assigned", self.place(root.span), hint=hint)

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

    def _binary(self, op: ast.BuiltinOp | tree.ExtraOp, left: Operand, right: Operand, span: Span) -> Value:
        if is_failed(left.value) or is_failed(right.value):
            return FAILED
        try:
            return binary(op, SIGNS[op], left, right, span)
        except Refusal as refusal:
            self.report(refusal)
            return FAILED

    def _subscript(self, expr: ast.Call) -> Value:
        owner, index = self.operand(expr.params[0]), expr.params[1].values
        span = self.place(expr.span)
        if isinstance(owner.value, TupleConstructor):
            return self._type_subscript(owner.value, index, span)
        items = self._operands(index)
        if any(is_failed(part.value) for part in (owner, *items)):
            return FAILED
        return subscript(owner, items, span)

    def _type_subscript(self, owner: TupleConstructor, index: list[ast.Expr], span: Span) -> Value:
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
        shape = index[0]
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
            return self._apply(callee, operands, self.place(expr.span))
        except Refusal as refusal:
            hiding = self._hiding(expr.func_name)
            if hiding is None:
                raise
            error = refusal.diagnostic
            raise Refusal(error.message, error.span or callee.span, hint=hiding, notes=error.notes) from None

    def _hiding(self, callee: ast.Expr) -> str | None:
        """A hint where a written path such as ``nn.relu`` begins with a name of the function's own."""
        if not (isinstance(callee, ast.Attr) and isinstance(callee.object, ast.Var)):
            return None
        name, word = callee.object.id.name, callee.field.name
        if name not in self.locals or f"{name}.{word}" not in OPERATORS:
            return None
        return f"`{name}` is a name of the function's own here: rename it, or write relay.{name}.{word}"

    def _apply(self, callee: Operand, operands: list[Operand], span: Span) -> Value:
        match callee.value:
            case OperatorName(operator=operator):
                return operator_call(operator, operands, span)
            case BuiltinName(builtin=builtin):
                return builtin.call(operands, span)
            case Method(receiver=receiver, callee=function):
                return self._apply(Operand(function, callee.span), [receiver, *operands], span)
            case GlobalFunction(name=name) as function:
                if name in self.unfinished:
                    reason = "there is no `if` yet that could stop it"
                    raise Refusal(f"`{name}` would call itself without end", callee.span, hint=reason)
                return function_call(function, operands, span)
            case Known(value=DType() as dtype):
                return dtype_call(dtype.name, dtype.short, operands, span)
        hint = None
        if isinstance(callee.value, Known | TupleOf) and source_text(callee.span) == "x":
            hint = "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]"
        raise Refusal(f"{described(callee.value)} cannot be called", callee.span, hint=hint)


def _is_binary(expr: ast.Expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func_name, ast.Op)
        and expr.func_name.name is not ast.BuiltinOp.Subscript
        and len(expr.params) == 2
    )
