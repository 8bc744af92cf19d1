"""Print a module or an expression as Relay text, to the letter of Relay's own printer.

The rules of numbering, in short: all but the simplest expressions are bound, ``%0 = ...;``, unless they end a
scope and are used once; the number is assigned when the expression's first user is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import CALL_LOWERED, KERNEL
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.ops import NONE_GIVEN, OPERATORS, Attr
from nnmagic.relay.text.literals import attr_text, scalar_text
from nnmagic.relay.text.metadata import METADATA_ATTRS
from nnmagic.relay.text.metadata_writer import MetadataWriter
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.text.types import dim_text, type_text
from nnmagic.relay.types import Dim, FuncType, Type, VarDim

VERSION_LINE = '#[version = "0.0.5"]\n'

_METADATA_LEFT_OUT = (
    "\n/* For debugging purposes the metadata section has been omitted.\n"
    " * If you would like to see the full metadata section you can set the \n"
    " * option to `True` when invoking `astext`. \n */"
)

#: Expressions that are written where they are used and never get a number.
_NEVER_NUMBERED = (ir.Var, ir.GlobalVar, ir.OpRef, ir.Constructor, ir.Constant)

#: Expressions that are followed by ``/* ty=... */``, as are binders of variables.
_TYPE_COMMENTED = (ir.Call, ir.Function, ir.Tuple, ir.TupleGetItem, ir.Constant)


def module_text(module: Module, show_meta_data: bool = True, *, exact: bool = False) -> str:
    """Return the version line, the body, and the metadata section or the comment that replaces it.

    ``exact``: every number can be read back as it is, where Relay writes six digits of those in the body.
    """
    printer = _Printer(attrs_in_metadata=show_meta_data, exact=exact)
    body = printer.module(module)
    if not printer.metadata:
        return VERSION_LINE + body
    section = f"\n#[metadata]\n{printer.metadata.section()}" if show_meta_data else _METADATA_LEFT_OUT
    return VERSION_LINE + body + section


#: Marks the text of an expression; it may add characters, but no line breaks.
Mark = Callable[[ir.Expr, str], str]


def _no_mark(_expr: ir.Expr, text: str) -> str:
    return text


def module_body(module: Module, mark: Mark = _no_mark, in_place: Mapping[ir.Expr, str] | None = None) -> str:
    """Return the data types and the functions, each sorted by name.

    ``mark`` takes every expression with its text, where it is written and where its number is. ``in_place``
    shortens the text for reading: it maps the expressions that are written where they are used to their text,
    "" for Relay's own, and attributes that are expressions, which repeat arguments, are left out. The other
    expressions keep their numbers.
    """
    return _Printer(attrs_in_metadata=False, mark=mark, in_place=in_place).module(module)


def expr_text(expr: ir.Expr) -> str:
    """Return an expression and the bindings it needs; a free variable is declared before its first use."""
    return _Printer(attrs_in_metadata=False).expression(expr)


class _Printer:
    """The state of one printing: numbers and names are unique in the whole module."""

    def __init__(
        self,
        *,
        attrs_in_metadata: bool,
        exact: bool = False,
        mark: Mark = _no_mark,
        in_place: Mapping[ir.Expr, str] | None = None,
    ) -> None:
        self.metadata = MetadataWriter()
        self.is_short = in_place is not None
        self.in_place = in_place or {}
        self.exact = exact
        self.mark = mark
        self.attrs_in_metadata = attrs_in_metadata
        self.texts: dict[ir.Expr, str] = {}  # an expression's own text until it is bound, then its `%0`
        self.bound: set[ir.Expr] = set()
        self.names: Counter[str] = Counter()  # taken names, and how many were derived from each
        self.uses: Counter[ir.Expr] = Counter()  # how often the current function uses an expression
        self.scopes: list[list[str]] = []  # lines of the open scopes
        self.undeclared: dict[ir.Expr, str] = {}  # declarations of free variables, until these are used
        self.printed_types: Mapping[ir.Expr, Type] = {}
        self.kernels: set[str] = set()  # the functions that are called as what was lowered

    def module(self, module: Module) -> str:
        self.printed_types = module.printed_types
        if not self.exact:  # the engine `relay` has no kernels
            self.kernels = {name for name, function in module.functions.items() if KERNEL in function.attrs}
        types = [self.type_data(module.types[name]) for name in sorted(module.types)]
        functions = [self.definition(name, module.functions[name]) for name in sorted(module.functions)]
        return "\n".join(types + functions)

    def type_data(self, data: TypeData) -> str:
        generic = f"[{', '.join(var.name for var in data.type_vars)}]" if data.type_vars else ""
        lines = [
            f"  {constructor.name}{f'({self.types(constructor.inputs)})' if constructor.inputs else ''},"
            for constructor in data.constructors
        ] or ["  "]
        return "\n".join([f"type {data.header.name}{generic} {{", *lines, "}\n"])

    def definition(self, name: str, function: ir.Function) -> str:
        self.uses = _count_uses(function)
        return self.mark(function, run(self.function(f"def @{name}", function))) + "\n"

    def expression(self, expr: ir.Expr) -> str:
        self.uses = _count_uses(expr)
        return run(self.scope(expr))

    # Scopes and references

    def scope(self, expr: ir.Expr) -> Steps[str]:
        """Return the lines that a scope needs, the last of which is ``expr``."""
        self.scopes.append([])
        last = yield self.reference(expr, may_inline=True)
        return "\n".join([*self.scopes.pop(), last])

    def block(self, expr: ir.Expr) -> Steps[str]:
        text = yield self.scope(expr)
        return f"{{\n  {_indent(text)}\n}}"

    def reference(self, expr: ir.Expr, *, may_inline: bool = False) -> Steps[str]:
        """Return the text by which ``expr`` is used; binds it to a number first if necessary."""
        yield self.visit(expr)
        return self.use(expr, may_inline=may_inline)

    def use(self, expr: ir.Expr, *, may_inline: bool = False) -> str:
        """Return what ``reference`` does, for an expression whose text is known."""
        if expr in self.bound:
            return self.mark(expr, self.texts[expr])
        if expr in self.undeclared:
            self.scopes[-1].append(self.undeclared.pop(expr))
        own = self.in_place.get(expr) or self.texts[expr]
        text = self.mark(expr, own) + self.type_comment(expr)
        if isinstance(expr, _NEVER_NUMBERED) or (may_inline and self.uses[expr] <= 1):
            return text
        if isinstance(expr, ir.Let):
            text = f"(\n  {_indent(text)}\n)"
        number = self.texts[expr] = f"%{len(self.bound)}"
        self.bound.add(expr)
        if expr in self.in_place:
            self.texts[expr] = own
            return text
        self.scopes[-1].append(f"{self.mark(expr, number)} = {text};")
        return self.mark(expr, number)

    def visit(self, root: ir.Expr) -> Steps[str]:
        """Make the text of ``root`` and of all it is computed from, depth first through the dataflow."""
        pending = [root]
        while pending:
            expr = pending[-1]
            if expr in self.texts:
                pending.pop()
            elif missing := [child for child in _dataflow(expr) if child not in self.texts]:
                pending += reversed(missing)
            elif (text := self.simple_text(expr)) is not None:
                self.texts[expr] = text
            else:
                self.texts[expr] = yield self.format_scoped(expr)
        return self.texts[root]

    def type_comment(self, expr: ir.Expr) -> str:
        return self.comment(expr) if isinstance(expr, _TYPE_COMMENTED) else ""

    def comment(self, expr: ir.Expr) -> str:
        type_ = self.printed_types.get(expr, expr.checked_type)
        return "" if type_ is None else f" /* ty={self.type(type_)} */"

    # The text of one expression

    def simple_text(self, expr: ir.Expr) -> str | None:
        """Return the text of an expression without scopes, whose children have theirs; None for others."""
        match expr:
            case ir.Var():
                self.undeclared[expr] = f"free_var {self.binder(expr)};"
                return self.texts[expr]
            case ir.Constant():
                return scalar_text(expr, exact=self.exact) or self.metadata.reference(expr)
            case ir.GlobalVar(name=name):
                return f"@{name}"
            case ir.OpRef(name=name) | ir.Constructor(name=name):
                return name
            case ir.Tuple(fields=fields):
                return (
                    f"({', '.join([self.use(field) for field in fields])}{',' if len(fields) == 1 else ''})"
                )
            case ir.TupleGetItem(tuple_value=value, index=index):
                return f"{self.use(value)}.{index}"
            case ir.Call():
                return self.call(expr)
        return None

    def call(self, call: ir.Call) -> str:
        arguments = [self.use(arg) for arg in call.args]
        arguments += self.call_attrs(call)
        callee = self.use(call.op)
        if isinstance(call.op, ir.Constructor) and not call.op.inputs:
            return callee
        if isinstance(call.op, ir.GlobalVar) and call.op.name in self.kernels:
            return f"{CALL_LOWERED}({callee}, ({', '.join(arguments)}{',' if len(arguments) == 1 else ''}))"
        return f"{callee}({', '.join(arguments)})"

    def call_attrs(self, call: ir.Call) -> list[str]:
        name = call.op.name if isinstance(call.op, ir.OpRef) else ""
        if call.attrs and self.attrs_in_metadata and name in METADATA_ATTRS:
            return [self.metadata.attrs_reference(METADATA_ATTRS[name], call.attrs)]
        attrs = [(self.attr(key, value), value) for key, value in non_default_attrs(call).items()]
        return [text for text, value in attrs if not (self.is_short and isinstance(value, ir.Expr))]

    def format_scoped(self, expr: ir.Expr) -> Steps[str]:
        """Return the text of an expression that opens scopes, or that no dataflow goes through."""
        match expr:
            case ir.Function():
                return (yield self.function("fn ", expr))
            case ir.Let():
                return (yield self.lets(expr))
            case ir.If(cond=cond, true_branch=then, false_branch=other):
                condition = yield self.reference(cond)
                then_text = yield self.block(then)
                other_text = yield self.block(other)
                return f"if ({condition}) {then_text} else {other_text}"
            case ir.Match(data=data, clauses=clauses, complete=complete):
                matched = yield self.reference(data)
                arms = ""
                for clause in clauses:
                    arms += yield self.arm(clause)
                word = "match" if complete else "match?"
                return f"{word} ({matched}) {{{_indent(arms)}\n}}"
            case ir.RefCreate(value=value):
                return f"ref({(yield self.reference(value))})"
            case ir.RefRead(ref=ref):
                return f"ref_read({(yield self.reference(ref))})"
            case ir.RefWrite(ref=ref, value=value):
                target = yield self.reference(ref)
                return f"ref_write({target}, {(yield self.reference(value))})"
        raise TypeError(f"not a Relay expression: {expr!r}")

    def function(self, head: str, function: ir.Function) -> Steps[str]:
        generic = f"[{self.types(function.type_params)}]" if function.type_params else ""
        params = [self.binder(param) for param in function.params]
        params += [self.attr(key, value) for key, value in function.attrs.items()]
        printed = self.printed_types.get(function)
        ret_type = printed.ret_type if isinstance(printed, FuncType) else function.ret_type
        result = "" if ret_type is None else f"-> {self.type(ret_type)} "
        body = yield self.block(function.body)
        return f"{head}{generic}({', '.join(params)}) {result}{body}"

    def lets(self, first: ir.Let) -> Steps[str]:
        """Return a chain of lets.

        What the first value needs is bound outside of the let, the rest inside.
        """
        expr: ir.Expr = first
        while isinstance(expr, ir.Let):
            binder = self.binder(expr.var)
            value = yield self.reference(expr.value, may_inline=True)
            if expr is first:
                self.scopes.append([])
            self.scopes[-1].append(f"let {binder} = {value};")
            expr = expr.body
        last = yield self.scope(expr)
        return "\n".join([*self.scopes.pop(), last])

    def arm(self, clause: ir.Clause) -> Steps[str]:
        pattern = self.pattern(clause.lhs)
        block = yield self.block(clause.rhs)
        return f"\n{pattern} => {block},"

    def pattern(self, pattern: ir.Pattern) -> str:
        match pattern:
            case ir.PatternWildcard():
                return "_"
            case ir.PatternVar(var=var):
                return self.binder(var)
            case ir.PatternTuple(patterns=patterns):
                return f"({self.patterns(patterns)})"
            case ir.PatternConstructor(constructor=constructor, patterns=patterns):
                return f"{constructor.name}({self.patterns(patterns)})" if patterns else constructor.name

    def patterns(self, patterns: Sequence[ir.Pattern]) -> str:
        return ", ".join([self.pattern(pattern) for pattern in patterns])

    # Names, types, attributes

    def binder(self, var: ir.Var) -> str:
        """Return a variable where it is bound: its name, made unique, its annotation and its type."""
        hint = var.name_hint
        base = f"%{hint}" if hint[:1].isascii() and hint[:1].isalpha() else f"%v{hint}"
        name = base
        while name in self.names:
            self.names[base] += 1
            name = f"{base}{self.names[base]}"
        self.names[name] = 0
        self.texts[var] = name
        type_ = self.printed_types.get(var, var.type_annotation)
        annotation = "" if type_ is None else f": {self.type(type_)}"
        return self.mark(var, name) + annotation + self.comment(var)

    def type(self, type_: Type) -> str:
        return type_text(type_, self.dim, self.metadata.reference)

    def types(self, types: Sequence[Type]) -> str:
        return ", ".join([self.type(type_) for type_ in types])

    def dim(self, dim: Dim) -> str:
        return self.metadata.reference(dim) if isinstance(dim, VarDim) else dim_text(dim)

    def attr(self, name: str, value: object) -> str:
        return f"{name}={attr_text(value, self.metadata.reference, exact=self.exact)}"


def non_default_attrs(call: ir.Call) -> ir.Attrs:
    """Return the attributes of a call that its text shows: those that differ from the declared defaults."""
    name = call.op.name if isinstance(call.op, ir.OpRef) else ""
    declared = {attr.name: attr for attr in OPERATORS[name].attrs} if name in OPERATORS else {}
    return {
        key: value
        for key, value in call.attrs.items()
        if key not in declared or not _is_default(value, declared[key])
    }


def _dataflow(expr: ir.Expr) -> Sequence[ir.Expr]:
    """Return the children through which the dataflow goes: those of calls, tuples and projections."""
    match expr:
        case ir.Call(op=op, args=args):
            return (op, *args)
        case ir.Tuple(fields=fields):
            return fields
        case ir.TupleGetItem(tuple_value=value):
            return (value,)
    return ()


def _count_uses(root: ir.Expr) -> Counter[ir.Expr]:
    """Return how often each expression is used; twice by the same expression counts two."""
    uses: Counter[ir.Expr] = Counter()
    pending = [root]
    while pending:
        for child in ir.children(pending.pop()):
            uses[child] += 1
            if uses[child] == 1:
                pending.append(child)
    return uses


def _is_default(value: object, attr: Attr) -> bool:
    return attr.default is not NONE_GIVEN and _same_value(value, attr.kind.coerce(attr.default))


def _same_value(lhs: object, rhs: object) -> bool:
    """Return whether values are equal, where a 64-bit integer differs from another one, and 1 from True."""
    if isinstance(lhs, tuple) and isinstance(rhs, tuple):
        return len(lhs) == len(rhs) and all(map(_same_value, lhs, rhs))
    return type(lhs) is type(rhs) and lhs == rhs


def _indent(text: str) -> str:
    """Indent each line but the first by two columns."""
    return text.replace("\n", "\n  ")
