"""Find which names may share memory, as Python's names of one NumPy array do.

Relay's values are never changed: an assignment to elements makes a new tensor and binds the name to it. Other
names of the same memory would keep the old one, so they lose their value: whoever reads one gets an error.

Memory is known by tokens: of an array that the function makes, the Relay expression that makes it. A value
may share memory with all arrays whose tokens it has: too many tokens refuse too much, never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.gradients.markers import MARK
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.types import TensorType, TupleType, Type
from nnmagic.tinynn.values import values as v

Tokens = frozenset[object]

_NONE: Tokens = frozenset()


@dataclass(frozen=True, slots=True)
class Foreign:
    """Memory that is not the function's own: ``what`` says whose it is; of an unknown owner it is empty."""

    what: str


#: Memory that any value may share, as that of a pattern's variable.
ANY_MEMORY = Foreign("")

#: The memory of any constant.
A_CONSTANT = Foreign("a constant")


def parameters_of(tokens: Iterable[object]) -> set[str]:
    """Return the parameters whose memory is among some."""
    return {token.what.split("`")[1] for token in tokens if isinstance(token, Foreign) and "`" in token.what}


@dataclass(slots=True)
class SharedMemory:
    """What is known about the memory of expressions, in a cell that assigns elements.

    ``tokens``: of expressions; ``bound``: what variables that are bound by let stand for; ``fresh``: the
    functions of the module whose results are in memory of their own.

    ``lists``: the tensors of lists, whose rows may all be one array; ``shown``: the lists whose tensors,
    while they grow, have names of their own.
    """

    tokens: dict[ir.Expr, Tokens] = field(default_factory=dict)
    bound: dict[ir.Var, ir.Expr] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    lists: set[ir.Expr] = field(default_factory=set)
    shown: dict[str, str] = field(default_factory=dict)

    def of_expr(self, expr: ir.Expr) -> Tokens:
        """Return the tokens of the memory that an expression of rank 1 or more may share."""
        tokens = set[object]()
        work, seen = [expr], set[ir.Expr]()
        while work:
            node = work.pop()
            if node in seen:
                continue
            seen.add(node)
            token = self.tokens.get(node)
            if token is None:
                work += self._parts(node, tokens)
            else:
                tokens |= token
        result = frozenset(tokens)
        self.tokens[expr] = result
        return result

    def _parts(self, node: ir.Expr, tokens: set[object]) -> Iterable[ir.Expr]:
        """Add the memory of a node's own, and return the expressions whose memory it may share."""
        match node:
            case ir.Constant(data=data):
                if data.ndim:
                    tokens.add(A_CONSTANT)
                return ()
            case ir.Var():
                if node in self.bound:
                    return (self.bound[node],)
                tokens.add(ANY_MEMORY)
                return ()
            case ir.Call(op=ir.OpRef(name=name), args=args):
                # A view shares its operand's memory, as NumPy's slices do; what is checked is the operand.
                if Trait.VIEW in traits_of(node) or name == "python.require":
                    return args[:1]
                tokens.add(node)
                return ()
            case ir.Call(op=ir.GlobalVar(name=name)) if name in self.fresh:
                tokens.add(node)
                return ()
            case ir.Call(op=ir.Function(body=body) as op) if _is_checkpoint(op):
                return (body,)
            case ir.Call(op=op, args=args):
                tokens.add(node)
                return args if isinstance(op, ir.GlobalVar | ir.Constructor) else (op, *args)
            case ir.Tuple(fields=fields):
                return fields
            case ir.TupleGetItem() if (derived := self._own_memory(node)) is not None:
                tokens.add(derived)
                return ()
            case ir.TupleGetItem(tuple_value=whole, index=index):
                return (whole.fields[index],) if isinstance(whole, ir.Tuple) else (whole,)
            case ir.Let(var=var, value=value, body=body):
                self.bound[var] = value
                return (body,)
            case ir.If(true_branch=then, false_branch=other):
                return then, other
            case ir.GlobalVar() | ir.Constructor() | ir.OpRef():
                return ()
        tokens.add(ANY_MEMORY)
        return ()

    def _own_memory(self, node: ir.Expr) -> object:
        """Return the memory of a gradient, or of the values of a batch, which is its own; None for others."""
        path = list[int]()
        while isinstance(node, ir.TupleGetItem) or node in self.bound:
            if isinstance(node, ir.TupleGetItem):
                path.append(node.index)
                node = node.tuple_value
            else:
                node = self.bound[node]
        is_marked = isinstance(node, ir.Call) and isinstance(node.op, ir.Function) and MARK in node.op.attrs
        return (node, *path) if is_marked and path[-1] == 1 else None

    def of_value(self, value: v.Value, chain: Sequence[v.Environment] = ()) -> Tokens:
        """Return the tokens of a value; what a function captures from ``chain`` is read anew by each call."""
        return self._of_value(value, chain, set())

    def _of_value(self, value: v.Value, chain: Sequence[v.Environment], seen: set[int]) -> Tokens:
        match value:
            case v.Computed(expr=expr, type=type_):
                return self.of_expr(expr) if _has_memory(type_) else _NONE
            case v.ListOfRows(rows=rows, is_row=is_row, columns=()):
                return self.of_expr(rows.expr) if is_row or _has_arrays(rows.type) else _NONE
            case v.TableOf(slots=slots, values=rows):
                return self.of_expr(slots.expr) | self.of_rows(rows)
            case v.TupleOf(items=items):
                return _union(self._of_value(item, chain, seen) for item in items)
            case v.DictOf(items=named):
                return _union(self._of_value(item, chain, seen) for item in named.values())
            case v.Zipped(parts=parts):
                return _union(self._of_value(part.value, chain, seen) for part in parts)
            case v.Method(receiver=receiver):
                return self._of_value(receiver.value, chain, seen)
            case v.GradientOf(kind=kind, function=function, arguments=arguments) if kind != "pullback":
                return _union(self._of_value(part.value, chain, seen) for part in (function, *arguments))
            case v.LocalFunction(environment=environment) | v.ClosureValue(environment=environment):
                if id(value) in seen:
                    return _NONE
                seen.add(id(value))
                given = [formal.default for formal in value.parameters if formal.default is not None]
                captured = () if environment in chain else _captured(value)
                return _union(self._of_value(item, chain, seen) for item in (*given, *captured))
        return _NONE

    def are_disjoint(self, lhs: v.Value, rhs: v.Value) -> bool:
        """Return whether two arrays are known to be parts of one that do not overlap, as two of its rows."""
        if not isinstance(lhs, v.Computed) or not isinstance(rhs, v.Computed):
            return False
        views, others = dict(self._views(lhs.expr)), dict(self._views(rhs.expr))
        if not self.lists.isdisjoint((*views, *others)):
            return False
        return any(base in views and _lie_apart(views[base], view) for base, view in others.items())

    def _views(self, expr: ir.Expr) -> Iterator[tuple[ir.Expr, ir.Expr]]:
        """Yield the arrays that an expression is a view of, each with the view of it that was taken."""
        view = self._resolve_binding(expr)
        while True:
            match view:
                case ir.Call(args=args) if Trait.VIEW in traits_of(view):
                    base = args[0]
                case ir.TupleGetItem(tuple_value=ir.Call(op=ir.OpRef(name="split"), args=(base,))):
                    pass
                case _:
                    return
            base = self._resolve_binding(base)
            yield base, view
            view = base

    def _resolve_binding(self, expr: ir.Expr) -> ir.Expr:
        """Return what a variable that is bound by let stands for."""
        while isinstance(expr, ir.Var) and expr in self.bound:
            expr = self.bound[expr]
        return expr

    def share(self, value: v.Value, tokens: Tokens) -> None:
        """Record that each part of a value may share the memory of these tokens."""
        match value:
            case v.Computed(expr=expr):
                self.tokens[expr] = tokens
            case v.ListOfRows(rows=rows):
                self.hold(rows.expr, tokens)
            case v.TableOf(slots=slots, values=rows):
                self.tokens[slots.expr] = tokens
                self.hold_rows(rows, tokens)
            case v.TupleOf(items=items, whole=whole):
                for part in (*items, *([] if whole is None else [whole])):
                    self.share(part, tokens)

    def of_rows(self, rows: v.Value) -> Tokens:
        """Return the tokens of the arrays that a table holds."""
        return _union(
            self.of_expr(value.expr)
            for value in v.parts_of(rows)
            if isinstance(value, v.Computed) and _has_arrays(value.type)
        )

    def hold_rows(self, rows: v.Value, tokens: Tokens) -> None:
        """Record that the arrays which a table holds may share the memory of these tokens."""
        for part in v.parts_of(rows):
            if isinstance(part, v.Computed):
                self.hold(part.expr, tokens)

    def hold(self, rows: ir.Expr, tokens: Tokens) -> None:
        """Record that a tensor is that of a list, whose items may share the memory of these tokens."""
        self.tokens[rows] = tokens
        self.lists.add(self._resolve_binding(rows))

    def own(self, expr: ir.Expr, what: str | None = None) -> None:
        """Record that an expression has memory of its own; ``what``: whose it is, if not the function's."""
        self.tokens[expr] = frozenset((expr if what is None else Foreign(what),))

    def root_of(self, expr: ir.Expr) -> ir.Expr:
        """Return what an expression is a part of, if it is one of a tuple; else the expression."""
        while isinstance(part := self._resolve_binding(expr), ir.TupleGetItem):
            expr = part.tuple_value
        return part

    def is_foreign(self, expr: ir.Expr) -> bool:
        """Return whether an expression is an array that is not the function's own."""
        return isinstance(expr, ir.Var) and any(isinstance(each, Foreign) for each in self.of_expr(expr))


def _is_checkpoint(function: ir.Function) -> bool:
    """Return whether a function gives the value of its body twice."""
    asked = function.attrs.get(MARK)
    return isinstance(asked, tuple) and asked[0] == "checkpoint"


def _lie_apart(lhs: ir.Expr, rhs: ir.Expr) -> bool:
    """Return whether two views of one array are known to have no element in common."""
    if isinstance(lhs, ir.TupleGetItem) and isinstance(rhs, ir.TupleGetItem):
        return lhs.tuple_value is rhs.tuple_value and lhs.index != rhs.index
    first, second = _bounds(lhs), _bounds(rhs)
    for axis in first.keys() & second.keys():
        (begin, end), (other_begin, other_end) = first[axis], second[axis]
        known = min(begin, other_begin, end, other_end) >= 0
        # Negative bounds count from an end that is not known here.
        if known and (end <= other_begin or other_end <= begin):
            return True
    return False


def _bounds(view: ir.Expr) -> dict[int, tuple[int, int]]:
    """Return the bounds of a slice by axis, where its step is positive."""
    if not (isinstance(view, ir.Call) and isinstance(view.op, ir.OpRef) and view.op.name == "strided_slice"):
        return {}
    given = [view.attrs.get(name) for name in ("axes", "begin", "end", "strides")]
    listed = zip(*(operand for operand in given if isinstance(operand, list | tuple)), strict=False)
    if not all(isinstance(operand, list | tuple) for operand in given):
        return {}
    return {
        axis: (low, high)
        for axis, low, high, step in listed
        if isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0
    }


def _has_memory(type_: Type) -> bool:
    """Return whether a value of a type may hold an array: numbers of rank 0 are copied wherever they go."""
    if isinstance(type_, TupleType):
        return any(map(_has_memory, type_.fields))
    return not isinstance(type_, TensorType) or bool(type_.shape)


def _has_arrays(rows: Type) -> bool:
    """Return whether the items of a list are arrays, by the type of its tensor: numbers are copied."""
    return isinstance(rows, TensorType) and len(rows.shape) > 1


def _captured(function: v.LocalFunction | v.ClosureValue) -> Iterator[v.Value]:
    for name in function.versions:
        owner = function.environment.owner(name)
        value = None if owner is None else owner.bindings.locals.get(name)
        if value is not None:
            yield value


def _union(parts: Iterable[Tokens]) -> Tokens:
    return frozenset().union(*parts)


# -- changes -------------------------------------------------------------------------------------------

#: What to do where a list holds an array that is changed.
HOLD_COPIES = "let the list hold copies: write .copy() behind each item that it takes"


def is_list(memory: SharedMemory, name: str, value: v.Value) -> bool:
    """Return whether a name stands for a list that grew in a loop, or for the tensor of one that grows."""
    return isinstance(value, v.ListOfRows | v.TableOf) or name in memory.shown


def describe_holder(memory: SharedMemory, name: str, value: v.Value) -> str:
    """Describe a name that may share memory, as a message begins with it."""
    return f"the list `{memory.shown.get(name, name)}`" if is_list(memory, name, value) else f"`{name}`"


def forget_shared_names(
    memory: SharedMemory, chain: Sequence[v.Environment], name: str, changed: Tokens, span: Span
) -> None:
    """Take the values of the other names that may share memory that was changed through ``name``."""
    bindings = chain[0].bindings
    for other, value in list(bindings.locals.items()):
        if other != name and may_share(memory.of_value(value, chain), changed):
            holder = describe_holder(memory, other, value)
            message = f"{holder} may share memory with `{name}`, which was changed"
            hint = f"give it memory of its own before the change, as in {other} = {other}.copy()"
            if is_list(memory, other, value):
                hint = HOLD_COPIES
            elif not isinstance(value, v.Computed) or not isinstance(value.type, TensorType):
                hint = f"let it hold a copy, as {name}.copy()"
            notes = [Note(f"`{name}` is changed here", span)]
            if other in memory.shown and other in bindings.spans:
                notes.append(Note(f"`{memory.shown[other]}` grows here", bindings.spans[other]))
            elif other in bindings.spans:
                notes.append(Note(f"`{other}` is assigned here", bindings.spans[other]))
            lost = v.Unassigned(message, hint, tuple(notes), (other, name))
            bindings.bind(other, lost, bindings.spans.get(other))


def may_share(lhs: Tokens, rhs: Tokens) -> bool:
    """Return whether two values may share memory."""
    if not lhs or not rhs:
        return False
    return ANY_MEMORY in lhs or ANY_MEMORY in rhs or not lhs.isdisjoint(rhs)


# -- loops ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LoopMemory:
    """What the names that a loop carries may share at the beginning of each of its rounds.

    ``tokens``: of memory outside of the loop, and one token for each two names that may share memory.
    ``forgotten``: other names that a round takes the values of.
    """

    outside: Tokens
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    forgotten: Mapping[str, v.Unassigned] = field(default_factory=dict)
    #: The lists that names may be, by what `Elaboration.identities` says, with a token for each two names.
    lists: Mapping[str, frozenset[object]] = field(default_factory=dict)

    def widen(
        self,
        carried: Collection[str],
        before: v.Bindings,
        rounds: Iterable[v.Bindings],
        tokens_of: Callable[[v.Value], Tokens],
        are_disjoint: Callable[[v.Value, v.Value], bool],
    ) -> LoopMemory:
        """Return the same with what names share before the loop, and where rounds go on to the next one."""
        tokens = {name: set(self.tokens.get(name, _NONE)) for name in carried}
        forgotten = dict(self.forgotten)
        for bindings in (before, *rounds):
            values = bindings.locals
            held = {name: tokens_of(values[name]) for name in carried if name in values}
            for name, own in held.items():
                tokens[name] |= {
                    token for token in own if token in self.outside or isinstance(token, Foreign)
                }
            # Two names that may share memory at the end of a round may do so at the beginning of
            # the next one, where the expressions are new: a token for the pair stands for that.
            for lhs, rhs in combinations(held, 2):
                if may_share(held[lhs], held[rhs]) and not are_disjoint(values[lhs], values[rhs]):
                    pair = frozenset((lhs, rhs))
                    tokens[lhs].add(pair)
                    tokens[rhs].add(pair)
            for name, value in values.items():
                had = before.locals.get(name, value)
                if (
                    isinstance(value, v.Unassigned)
                    and not isinstance(had, v.Unassigned)
                    and name not in carried
                ):
                    forgotten.setdefault(name, value)
        kept = {name: frozenset(own) for name, own in tokens.items()}
        return replace(self, tokens=kept, forgotten=forgotten)
