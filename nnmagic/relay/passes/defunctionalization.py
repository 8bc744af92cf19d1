"""Represent function values as values of data types.

John C. Reynolds, Definitional Interpreters for Higher-Order Programming Languages, 1972.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from nnmagic.diagnostics import Diagnostic, RelayError
from nnmagic.relay import expr as ir
from nnmagic.relay.infer import infer_type
from nnmagic.relay.infer.calls import without_labels
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.passes.normal_forms import to_a_normal_form
from nnmagic.relay.passes.rewriting import copy_graph
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.structure.traverse import binders, post_order, rewrite
from nnmagic.relay.types import ANY, FuncType, GlobalTypeVar, TensorType, TupleType, Type, TypeCall


def defunctionalize(
    module: Module, entry: str, taken: Collection[str] = (), *, join_sizes: bool = True
) -> Module:
    """Replace function values by values of data types, and their calls by those of functions that match them.

    A function that is a value becomes a constructor, whose fields are what it captures. The module must be
    typed, and comes out typed. Raises RelayError for function values that ``entry`` takes or gives, which are
    known at run time only.

    Args:
        module: the module.
        entry: the function that is called from outside.
        taken: names that no new function gets.
        join_sizes: whether functions that differ by sizes alone may share a data type, in which these sizes
            are not known; otherwise a module that has such functions is returned as it is.

    """
    functions = module.functions
    work = _Defunctionalization(module, {*functions, *taken})
    if work.joins_sizes and not join_sizes:
        return module
    work.check(functions[entry])
    # In A-normal form each function value has a name, so that a call's callee is a name, or a
    # variable that holds data by now.
    named = to_a_normal_form(module).functions
    made = {work.renamed.get(name, name): work.convert(function) for name, function in named.items()}
    made |= work.lifted
    made |= {kind.apply: work.apply(kind) for kind in work.kinds.values()}
    types = {**module.types, **work.copies, **{kind.header.name: kind.data for kind in work.kinds.values()}}
    return infer_type(Module(made, types), look_into_callees=True)


def has_function_values(module: Module) -> bool:
    """Return whether functions are values: of a variable, or of anything but a call's callee."""
    return any(
        (isinstance(node, ir.Function) and not is_opaque(node)) or _holds_functions(node.checked_type)
        for function in module.functions.values()
        for node in post_order(function.body)
        if not isinstance(node, ir.GlobalVar | ir.OpRef | ir.Constructor)
    ) or any(
        isinstance(component, ir.GlobalVar)
        for function in module.functions.values()
        for component in _values(function)
    )


@dataclass(slots=True)
class _Kind:
    """The data type of functions of a type: its name, the name of what calls them, and its constructors."""

    type: FuncType
    header: GlobalTypeVar
    apply: str
    functions: list[tuple[ir.Constructor, str]] = field(default_factory=list)

    @property
    def data(self) -> TypeData:
        return TypeData(self.header, (), tuple(constructor for constructor, _ in self.functions))


class _Defunctionalization:
    """The functions and data types of a module while functions become data."""

    def __init__(self, module: Module, names: set[str]) -> None:
        self.module = module
        self.names = names
        self.kinds: dict[object, _Kind] = {}
        #: Whether functions of other sizes have one data type, in which these are not known.
        self.joins_sizes = False
        self.copies: dict[str, TypeData] = {}
        self.lifted: dict[str, ir.Function] = {}
        self._headers: dict[str, GlobalTypeVar] = {}
        self._constructors: dict[tuple[str, int], ir.Constructor] = {}
        self._globals: dict[str, ir.Expr] = {}
        for function in module.functions.values():
            values = set(post_order(function.body)) - set(_named(function)) | {*_values(function)}
            for node in (*function.params, *values):
                for component in _function_types(_type_of(node)):
                    self._join(component)
        for name, data in module.types.items():
            for constructor in data.constructors:
                for held in (component for each in constructor.inputs for component in _function_types(each)):
                    self._join(held)
            if self._reaches_functions(name):
                self._headers[name] = GlobalTypeVar(self._new_name(f"{name}_of_functions", self.module.types))
        for name in self._headers:
            self._copy(module.types[name])
        self.renamed = {
            name: self._new_name(f"{name}_of_data")
            for name, function in module.functions.items()
            if self._changes(_type_of(function))
        }

    def _changes(self, type_: Type | None) -> bool:
        """Return whether a function's own type becomes another."""
        assert isinstance(type_, FuncType)
        return any(self.type(component) != component for component in (*type_.arg_types, type_.ret_type))

    # -- types -----------------------------------------------------------------------------------------

    def check(self, entry: ir.Function) -> None:
        """Check that no function values come from outside. Raises RelayError."""
        own = [(f"`{param.name_hint}`", _type_of(param), param.span) for param in entry.params]
        for name, type_, span in (*own, ("the result", entry.ret_type, entry.span)):
            if type_ is not None and self.type(type_) != type_:
                message = f"{name} is a function that is known at run time only: it has no gradient"
                hint = "define it in the function that asks for the gradient, or in the cell"
                raise RelayError([Diagnostic(message, span, hint)])

    def type(self, type_: Type) -> Type:
        """Return a type with data types in place of functions."""
        match type_:
            case FuncType():
                return TypeCall(self.kinds[_key(type_)].header, ())
            case TupleType(fields=fields):
                return replace(type_, fields=tuple(map(self.type, fields)))
            case TypeCall(func=GlobalTypeVar(name=name), args=args):
                return TypeCall(self._headers.get(name, type_.func), tuple(map(self.type, args)))
        return type_

    def _join(self, type_: FuncType) -> None:
        kind = self.kinds.get(_key(type_))
        if kind is None:
            number = len(self.kinds)
            header = GlobalTypeVar(self._new_name(f"Function{number or ''}", self.module.types))
            self.kinds[_key(type_)] = _Kind(type_, header, self._new_name(f"call_function{number or ''}"))
        else:
            joined = _joined(kind.type, type_)
            self.joins_sizes |= without_labels(kind.type) != without_labels(type_)
            assert isinstance(joined, FuncType)
            # Function types that differ in sizes alone share a data type: a value may be either at
            # run time.
            kind.type = joined

    def _reaches_functions(self, name: str) -> bool:
        seen, work = {name}, [name]
        while work:
            for constructor in self.module.types[work.pop()].constructors:
                for component in (component for type_ in constructor.inputs for component in _parts(type_)):
                    if isinstance(component, FuncType):
                        return True
                    if isinstance(component, TypeCall) and component.func.name not in seen:
                        seen.add(component.func.name)
                        work.append(component.func.name)
        return False

    def _copy(self, data: TypeData) -> None:
        """Declare a data type that holds functions with data types in their place."""
        header = self._headers[data.header.name]
        suffix = header.name.removeprefix(data.header.name)
        constructors = []
        for constructor in data.constructors:
            inputs = tuple(map(self.type, constructor.inputs))
            made = ir.Constructor(f"{constructor.name}{suffix}", inputs, header, constructor.tag)
            self._constructors[data.header.name, constructor.tag] = made
            constructors.append(made)
        self.copies[header.name] = TypeData(header, data.type_vars, tuple(constructors))

    def _new_name(self, name: str, others: Collection[str] = ()) -> str:
        while name in self.names or name in others:
            name += "_"
        self.names.add(name)
        return name

    # -- functions ---------------------------------------------------------------------------------------

    def convert(self, function: ir.Function) -> ir.Function:
        """Return a function of the module, in A-normal form, without function values."""
        names = {node.value: node.var for node in post_order(function) if isinstance(node, ir.Let)}
        variables: dict[ir.Expr, ir.Var] = {}
        types: dict[ir.Expr, Type] = {}

        def transform(old: ir.Expr, new: ir.Expr) -> ir.Expr:
            match old, new:
                case ir.Var(), ir.Var():
                    type_ = _type_of(old)
                    if type_ is not None and self.type(type_) != type_:
                        new = replace(new, type_annotation=self.type(type_), checked_type=None)
                    types[new] = self.type(type_) if type_ is not None else TupleType(())
                    variables[old] = new
                    return new
                case ir.GlobalVar(name=name), ir.GlobalVar() if name in self.renamed:
                    return replace(new, name=self.renamed[name], checked_type=None)
                case ir.Constructor(), _:
                    return self._convert(old)
                case ir.Function(), ir.Function() if old is not function and not is_opaque(old):
                    own = variables.get(names[old]) if old in names else None
                    return self._close(old, replace(new, ret_type=self._result(old)), own, types)
                case ir.Function(), ir.Function() if old is function:
                    return replace(new, ret_type=self._result(old), checked_type=None)
                case ir.Call(), ir.Call(op=ir.Constructor(), type_args=args) if args:
                    return self._with_globals(replace(new, type_args=tuple(map(self.type, args))))
                case ir.Match(), ir.Match():
                    clauses = (ir.Clause(self._pattern(each.lhs), each.rhs) for each in new.clauses)
                    new = replace(new, clauses=tuple(clauses))
                case ir.Call(op=ir.Var() as callee), ir.Call(op=value, args=args):
                    kind = self.kinds[_key(_type_of(callee))]
                    return ir.Call(ir.GlobalVar(kind.apply), (value, *args), span=old.span)
            return self._with_globals(new)

        return rewrite(function, transform)

    def _result(self, function: ir.Function) -> Type | None:
        type_ = function.ret_type
        if type_ is None and isinstance(function.checked_type, FuncType):
            type_ = function.checked_type.ret_type
        return None if type_ is None else self.type(type_)

    def _close(
        self, old: ir.Function, new: ir.Function, own: ir.Var | None, types: dict[ir.Expr, Type]
    ) -> ir.Expr:
        """Return the value of a local function, which becomes a global one; own: its name, in its body."""
        bound = {var for node in (new, *post_order(new)) for var in binders(node)}
        captured = [
            node
            for node in post_order(new.body)
            if isinstance(node, ir.Var) and node not in bound and node is not own
        ]
        hint = own.name_hint if own is not None else "function"
        constructor, name = self._constructor(_type_of(old), hint, tuple(types[var] for var in captured))
        value = ir.Call(constructor, tuple(captured), span=old.span)
        body = new.body if own is None else ir.Let(own, value, new.body, span=old.span)
        params = [ir.Var(var.name_hint, types[var], span=var.span) for var in (*new.params, *captured)]
        inside: dict[ir.Expr, ir.Expr] = dict(zip((*new.params, *captured), params, strict=True))
        whole = ir.Function(tuple(params), rewrite(body, _same, inside), new.ret_type, span=old.span)
        # The body may share nodes with the function around it, whose variables mean something else
        # there.
        made = copy_graph(whole)
        assert isinstance(made, ir.Function)
        self.lifted[name] = replace(made, attrs={})
        return value

    def _constructor(
        self, type_: Type | None, hint: str, inputs: tuple[Type, ...]
    ) -> tuple[ir.Constructor, str]:
        """Return a new constructor of the functions of a type, and a name for the function itself."""
        kind = self.kinds[_key(type_)]
        name = self._new_name(hint)
        number = len(kind.functions)
        constructor = ir.Constructor(f"{kind.header.name}_{name}", inputs, kind.header, number)
        kind.functions.append((constructor, name))
        return constructor, name

    def _with_globals(self, new: ir.Expr) -> ir.Expr:
        """Return a node with constructors in place of global functions that are values."""
        memo: dict[ir.Expr, ir.Expr] = {
            component: self._global(component)
            for component in _values(new)
            if isinstance(component, ir.GlobalVar)
        }
        if not memo:
            return new
        if isinstance(new, ir.Call):
            return replace(new, args=tuple(memo.get(arg, arg) for arg in new.args))
        return rewrite(new, _same, memo)

    def _global(self, function: ir.GlobalVar) -> ir.Expr:
        if function.name not in self._globals:
            originals = {new: old for old, new in self.renamed.items()}
            type_ = self.module.functions[originals.get(function.name, function.name)].checked_type
            kind = self.kinds[_key(type_)]
            name = self._new_name(f"{kind.header.name}_{function.name}")
            constructor = ir.Constructor(name, (), kind.header, len(kind.functions))
            kind.functions.append((constructor, function.name))
            self._globals[function.name] = ir.Call(constructor, ())
        return self._globals[function.name]

    def _convert(self, constructor: ir.Constructor) -> ir.Constructor:
        return self._constructors.get((constructor.belong_to.name, constructor.tag), constructor)

    def _pattern(self, pattern: ir.Pattern) -> ir.Pattern:
        match pattern:
            case ir.PatternConstructor(constructor=constructor, patterns=parts):
                return ir.PatternConstructor(self._convert(constructor), tuple(map(self._pattern, parts)))
            case ir.PatternTuple(patterns=parts):
                return ir.PatternTuple(tuple(map(self._pattern, parts)))
        return pattern

    def apply(self, kind: _Kind) -> ir.Function:
        """Return the function that calls the functions of a type."""
        callee = ir.Var("function", TypeCall(kind.header, ()))
        args = [ir.Var(f"x{index}", self.type(type_)) for index, type_ in enumerate(kind.type.arg_types)]
        clauses = []
        for constructor, name in kind.functions:
            fields = [ir.Var("captured", type_) for type_ in constructor.inputs]
            pattern = ir.PatternConstructor(constructor, tuple(map(ir.PatternVar, fields)))
            clauses.append(ir.Clause(pattern, ir.Call(ir.GlobalVar(name), (*args, *fields))))
        body = ir.Match(callee, tuple(clauses))
        return ir.Function((callee, *args), body, self.type(kind.type.ret_type))


def _same(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
    return new


def _type_of(node: ir.Expr) -> Type | None:
    return node.checked_type or (node.type_annotation if isinstance(node, ir.Var) else None)


def _values(node: ir.Expr) -> Iterator[ir.Expr]:
    """Yield the parts of a node that are values, in a function those of all nodes."""
    if isinstance(node, ir.Function):
        for component in post_order(node.body):
            yield from _values(component) if not isinstance(component, ir.Function) else ()
    elif isinstance(node, ir.Call):
        yield from node.args
    elif not isinstance(node, ir.Var):
        yield from ir.children(node)


def _named(function: ir.Function) -> Iterator[ir.Expr]:
    """Yield what is called by a name of the module or the language."""
    kinds = ir.GlobalVar | ir.OpRef | ir.Constructor
    return (node for node in post_order(function) if isinstance(node, kinds))


def _parts(type_: Type | None) -> Iterator[Type]:
    """Yield a type and those that it is made of."""
    work = [] if type_ is None else [type_]
    while work:
        current = work.pop()
        yield current
        match current:
            case TupleType(fields=parts) | TypeCall(args=parts):
                work += parts
            case FuncType(arg_types=args, ret_type=result):
                work += [*args, result]


def _function_types(type_: Type | None) -> Iterator[FuncType]:
    return (component for component in _parts(type_) if isinstance(component, FuncType))


def _holds_functions(type_: Type | None) -> bool:
    return any(True for _ in _function_types(type_))


def _key(type_: Type | None) -> object:
    """Return what types have in common that differ in sizes alone."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return len(shape), dtype
        case TupleType(fields=fields):
            return tuple(map(_key, fields))
        case FuncType(arg_types=args, ret_type=result):
            return "function", tuple(map(_key, args)), _key(result)
    return type_


def _joined(first: Type, second: Type) -> Type:
    """Return the type of two that differ in sizes: where they do, a size is not known."""
    match first, second:
        case TensorType(shape=shape), TensorType(shape=other):
            pairs = zip(shape, other, strict=True)
            return replace(first, shape=tuple(a if a == b else ANY for a, b in pairs))
        case TupleType(fields=fields), TupleType(fields=others):
            return replace(first, fields=tuple(map(_joined, fields, others)))
        case FuncType(arg_types=args), FuncType(arg_types=others):
            result = _joined(first.ret_type, second.ret_type)
            return replace(first, arg_types=tuple(map(_joined, args, others)), ret_type=result)
    return first
