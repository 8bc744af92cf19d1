"""Hold the state of type inference: the types of expressions, the module's declarations, the errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnmagic.diagnostics import Diagnostics, Note, Span, closest
from nnmagic.relay.expr import Call, Constructor, Expr, Function, GlobalVar, OpRef, Var
from nnmagic.relay.infer import unify
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.types import FuncType, GlobalTypeVar, TensorType, Type, TypeCall, TypeVar

TOO_DEEP = f"this type nests more than {unify.MAX_NESTING} deep, or has too many parts"


class Context:
    """The state of one run of type inference over one module.

    types: the type of each visited expression, perhaps with holes. signatures: the types of the globals.
    returns: the result types of functions, written or to be inferred. type_args, attrs: what a call's node
    will have besides its type. waiting: the operator calls whose argument types are not known.
    """

    def __init__(self, module: Module, *, loose: bool = False) -> None:
        self.module = module
        self.solver = unify.Solver(loose=loose)
        #: The number of errors that are nothing but differing sizes.
        self.size_errors = 0
        self.diagnostics = Diagnostics()
        self.types: dict[Expr, Type] = {}
        self.signatures: dict[str, FuncType] = {}
        self.returns: dict[Function, Type] = {}
        self.type_args: dict[Call, tuple[Type, ...]] = {}
        self.attrs: dict[Call, dict[str, object]] = {}
        self.waiting: dict[Call, None] = {}
        #: The global function being inferred, for messages about nodes without a span.
        self.function = ""
        self._annotations: dict[int, tuple[Type, Type]] = {}
        self.type_vars_used: dict[TypeVar, Expr] = {}

    def type_of(self, expr: Expr) -> Type:
        """Return what is known of an expression's type."""
        if isinstance(expr, OpRef):
            self.error(
                expr,
                f"the operator {expr.name} is not a value, it can only be called",
                hint=f"wrap it in a function: fn (%x) {{ {expr.name}(%x) }}",
            )
            return unify.UNKNOWN
        type_ = self.types[expr] = self.resolve(self.types[expr], expr)
        return type_

    def resolve(self, type_: Type, expr: Expr) -> Type:
        """Return the type with its filled holes replaced.

        UNKNOWN, after an error at ``expr``, if it is too large.
        """
        try:
            return self.solver.resolve(type_)
        except unify.NestingError:
            self.error(expr, TOO_DEEP)
            return unify.UNKNOWN

    def error(
        self, expr: Expr | None, message: str, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> None:
        """Record an error at an expression; if that has no span, the message names the function."""
        span = span_of(expr)
        where = "" if span is not None or not self.function else f"in @{self.function}: "
        self.diagnostics.error(where + message, span, hint=hint, notes=notes)

    def agree(
        self, expected: Type, actual: Type, expr: Expr, what: str, notes: Sequence[Note] = ()
    ) -> Type | None:
        """Unify two types and return the result; None after an error that names both."""
        try:
            return self.solver.unify(expected, actual)
        except unify.MismatchError as mismatch:
            expected, actual = self.solver.resolve(expected), self.solver.resolve(actual)
            if self.is_broken(expected) or self.is_broken(actual):
                return None
            detail = (
                "" if not mismatch.detail or _differ_visibly(expected, actual) else f": {mismatch.detail}"
            )
            self.size_errors += mismatch.only_sizes
            wanted, shown = unify.describe_type(expected), unify.describe_type(actual)
            self.error(expr, f"{what}: expected {wanted}, found {shown}{detail}", notes=notes)
            return None

    def is_broken(self, type_: Type) -> bool:
        """Return whether a part of a type is unknown because of an error that was reported."""
        return bool(self.diagnostics.errors) and unify.mentions(type_, unify.UNKNOWN)

    def give_up(self, type_: Type) -> None:
        """Make the holes of a type unknown: an error was reported that explains them."""
        while (hole := self.solver.hole_in(self.solver.resolve(type_))) is not None:
            self.solver.fill(hole, unify.UNKNOWN)

    def run_ready(self) -> None:
        """Run the callbacks that waited for holes that are now filled."""
        while self.solver.ready:
            self.solver.ready.popleft()()

    def annotation(self, type_: Type, expr: Expr) -> Type:
        """Return a type that the program states, after checking it; UNKNOWN after an error."""
        entry = self._annotations.get(id(type_))
        if entry is None:
            entry = self._annotations[id(type_)] = (type_, self._check_annotation(type_, expr))
        return entry[1]

    def _check_annotation(self, type_: Type, expr: Expr) -> Type:
        try:
            unify.check_size(type_)
        except unify.NestingError:
            self.error(expr, TOO_DEEP)
            return unify.UNKNOWN
        used: set[TypeVar] = set()
        bound: set[TypeVar] = set()
        work: list[Type] = [type_]
        while work:
            component = work.pop()
            if isinstance(component, TypeVar) and not isinstance(component, unify.Hole):
                used.add(component)
            elif isinstance(component, FuncType):
                bound.update(component.type_params)
            elif isinstance(component, GlobalTypeVar | TypeCall) and not self._is_data_type(component, expr):
                return unify.UNKNOWN
            work.extend(unify.type_parts(component))
        self.type_vars_used.update(dict.fromkeys(used - bound, expr))
        return type_

    def _is_data_type(self, type_: GlobalTypeVar | TypeCall, expr: Expr) -> bool:
        """Return whether a data type is declared and has as many arguments as its declaration says."""
        name, args = (type_.name, None) if isinstance(type_, GlobalTypeVar) else (type_.func.name, type_.args)
        data = self.module.types.get(name)
        if data is None:
            self.error(expr, f"there is no data type {name}", hint=close_name(name, self.module.types))
            return False
        if args is None or len(args) != len(data.type_vars):
            wanted = f"{name}[{', '.join(var.name for var in data.type_vars)}]"
            self.error(expr, f"the data type {name} is written {wanted}, found {unify.describe_type(type_)}")
            return False
        return True

    def constructor(self, named: Constructor, expr: Expr) -> tuple[TypeData, Constructor] | None:
        """Return the declaration of a constructor, with its data type; None after an error at ``expr``."""
        data = self.module.types.get(named.belong_to.name)
        matches = (
            [candidate for candidate in data.constructors if candidate.name == named.name]
            if data is not None
            else []
        )
        if data is None or not matches:
            self.error(expr, f"no data type of this module has the constructor {named.name}")
            return None
        return data, matches[0]

    def declare(self, var: Var) -> Type:
        """Return the type of a variable: its annotation, or a hole."""
        type_ = self.types.get(var)
        if type_ is None:
            written = explicit_annotation(var)
            type_ = self.types[var] = unify.Hole() if written is None else self.annotation(written, var)
        return type_

    def return_type(self, function: Function) -> Type:
        """Return the result type of a function: its annotation, or a hole."""
        type_ = self.returns.get(function)
        if type_ is None:
            written = None if function.inferred else function.ret_type
            type_ = unify.Hole() if written is None else self.annotation(written, function)
            self.returns[function] = type_
        return type_

    def signature(self, function: Function) -> FuncType:
        """Return a function's type before its body is visited."""
        params = tuple(self.declare(param) for param in function.params)
        return FuncType(params, self.return_type(function), function.type_params)


def _differ_visibly(lhs: Type, rhs: Type) -> bool:
    """Return whether the text of two types shows at a glance how they differ."""
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType):
        return False
    return lhs.dtype != rhs.dtype or len(lhs.shape) != len(rhs.shape)


def explicit_annotation(var: Var) -> Type | None:
    """Return a variable's annotation, unless an earlier inference filled it in."""
    return None if var.inferred else var.type_annotation


def span_of(expr: Expr | None) -> Span | None:
    """Return the span to point at for an expression: its own, or that of a call's callee."""
    if expr is None or expr.span is not None or not isinstance(expr, Call):
        return None if expr is None else expr.span
    return expr.op.span


def note(expr: Expr, type_: Type, words: str = "this") -> tuple[Note, ...]:
    """Return a note that says an expression's type, if it has a span; a variable goes by its name."""
    span = span_of(expr)
    if span is None:
        return ()
    subject = f"%{expr.name_hint}" if isinstance(expr, Var) else words
    return (Note(f"{subject} is {unify.describe_type(type_)}", span),)


def callee_name(expr: Expr) -> str:
    """Return what a message calls the function of a call."""
    match expr:
        case GlobalVar(name=name):
            return f"@{name}"
        case Var(name_hint=name):
            return f"%{name}"
        case OpRef(name=name) | Constructor(name=name):
            return name
        case _:
            return "this function"


def close_name(name: str, names: Iterable[str]) -> str | None:
    """Return a hint with the name that was perhaps meant."""
    close = closest(name, names)
    return f"did you mean {close}?" if close else None
