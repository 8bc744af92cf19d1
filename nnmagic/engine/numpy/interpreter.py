"""Run a typed Relay module on NumPy arrays.

A function's nodes run in Relay's order (``scopes_of``): each once, in its scope. Every function, branch and
arm is a generator on an explicit stack, so that neither recursion nor loops meet the limit of Python's stack;
what stands last in a function replaces it on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from nnmagic.diagnostics import append_location
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import Callback, is_callback
from nnmagic.relay.failures import RAISE
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import PlacementScope, Scopes, scopes_of
from nnmagic.relay.reference import NoReferenceError, compute
from nnmagic.relay.sizes import Sizes, bind_sizes, with_sizes
from nnmagic.relay.values import AdtValue

#: Calls and branches inside one another that are still to be returned to: an entry takes about 1 kB.
MAX_DEPTH = 250_000

#: Is given every computed node with its value, in the order of computation.
Observer = Callable[[ir.Expr, Any], None]


@dataclass(slots=True, eq=False)
class Frame:
    """The values of one activation of a function; ``around``: those of the function that it is defined in."""

    around: Frame | None
    sizes: Sizes
    values: dict[ir.Expr, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function as a value; ``frame`` is None for a function of the module."""

    function: ir.Function
    frame: Frame | None


@dataclass(slots=True, eq=False)
class Reference:
    """A reference: what ``ref(value)`` makes."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Tail:
    """What a generator returns for the value of another one that takes its place."""

    steps: _Steps


_Steps = Generator["_Steps", Any, Any]

#: Returns the value of a node that runs no other code.
_Simple = Callable[["Interpreter", Any, Frame], Any]

#: The nodes of each scope in order, each with the name that a let binds it to, or itself, and how it is
#: computed; None for one that runs other code. A let of what is computed elsewhere is its variable.
_Nodes = dict[PlacementScope, list[tuple[ir.Expr, ir.Expr, "_Simple | None"]]]


class Interpreter:
    """Runs the functions of a typed module; several threads may call it.

    ``observe`` sees each value as it is computed. ``natives`` are functions that the module calls by their
    names and does not hold: they take the tuple of the arguments.

    Raises NoReferenceError for an operator without a rule, what the operators raise, AssertionError for a
    failed assertion, RuntimeError if no arm of a match takes a value, and RecursionError.
    """

    def __init__(
        self,
        module: Module,
        observe: Observer | None = None,
        natives: Mapping[str, Callable[[tuple[Any, ...]], Any]] | None = None,
    ) -> None:
        self.module = module
        self.observe = observe
        self.natives = natives or {}
        self._plans: dict[ir.Function, tuple[Scopes, _Nodes]] = {}
        self._callbacks: dict[ir.Call, Callback] = {}

    def run(self, name: str, arguments: Sequence[Any]) -> Any:
        """Return the result of a function of the module."""
        return _run(self._apply(FunctionValue(self.module.functions[name], None), arguments))

    def _plan(self, function: ir.Function) -> tuple[Scopes, _Nodes]:
        """Return the scopes of the global function around one, and the nodes of each scope in order."""
        if (plan := self._plans.get(function)) is not None:
            return plan
        scopes = scopes_of(function)
        nodes: _Nodes = {}
        functions = [function]
        for node in dict.fromkeys(scopes.order):  # a let where it binds
            if isinstance(node, ir.Var | ir.Constant | ir.GlobalVar | ir.OpRef | ir.Constructor):
                continue
            before = nodes.setdefault(scopes.scope_of[node], [])
            if isinstance(node, ir.Let) and before and before[-1][0] is before[-1][1] is node.value:
                before[-1] = node.value, node.var, before[-1][2]
            elif isinstance(node, ir.Let):
                before.append((node.var, node.var, _same_as(node.value)))
            else:
                before.append((node, node, self._simple(node)))
            if isinstance(node, ir.Function):
                functions.append(node)
        # Scopes compare by identity: all threads must have those of the one that was first.
        plan = self._plans.setdefault(function, (scopes, nodes))
        self._plans.update(dict.fromkeys(functions, plan))
        return plan

    def _apply(self, closure: FunctionValue, arguments: Sequence[Any]) -> _Steps:
        function, around = closure.function, closure.frame
        frame = Frame(around, dict(around.sizes) if around else {})
        for param, value in zip(function.params, arguments, strict=True):
            frame.values[param] = value
            if getattr(value, "ndim", 1):  # a number names no size
                bind_sizes(param.checked_type or param.type_annotation, value, frame.sizes)
        plan = self._plan(function)
        scope = plan[0].outermost if around is None else plan[0].inner[function][0]
        return self._block(plan, scope, function.body, frame)

    def _simple(self, node: ir.Expr) -> _Simple | None:
        """Return how a node is computed that runs no other code, and whose value nobody sees otherwise."""
        match node:
            case ir.Call(op=ir.OpRef()):
                return _call_operator
            case ir.Call(op=ir.Constructor()):
                return _construct
            case ir.Call(op=ir.GlobalVar(name=name)) if (native := self.natives.get(name)) is not None:
                return lambda run, call, frame: native(tuple([run._value(arg, frame) for arg in call.args]))
        return _SIMPLE.get(type(node))

    def _block(
        self, plan: tuple[Scopes, _Nodes], scope: PlacementScope, result: ir.Expr, frame: Frame
    ) -> _Steps:
        """Compute the nodes of a scope, and return the value of one of them."""
        (scopes, nodes), values = plan, frame.values
        for node, name, simple in nodes.get(scope, ()):
            if simple is not None:
                values[node] = values[name] = value = simple(self, node, frame)
                if self.observe is not None and not isinstance(node, ir.Function | ir.Var):
                    self.observe(node, value)
                continue
            match node:
                case ir.If(cond=cond, true_branch=then, false_branch=other):
                    number = 0 if self._value(cond, frame) else 1
                    steps = self._block(plan, scopes.inner[node][number], other if number else then, frame)
                case ir.Match(data=data, clauses=clauses):
                    number = _choose(node, self._value(data, frame), frame)
                    steps = self._block(plan, scopes.inner[node][number], clauses[number].rhs, frame)
                case ir.Call(op=op, args=args):
                    callee, arguments = self._value(op, frame), [self._value(arg, frame) for arg in args]
                    if isinstance(callee, ir.Constructor):
                        values[node] = values[name] = AdtValue(callee.name, tuple(arguments))
                        continue
                    steps = self._apply(callee, arguments)
                case _:
                    raise AssertionError(f"{node!r} has no value")
            if self.observe is None and node is _end_of_lets(result):
                return _Tail(steps)
            values[node] = values[name] = yield steps
        return self._value(result, frame)

    def _value(self, node: ir.Expr, frame: Frame) -> Any:
        """Return the value of a node that has been computed."""
        around: Frame | None = frame
        while around is not None:
            if node in around.values:
                return around.values[node]
            around = around.around
        match node:
            case ir.Constant(data=data):
                return data
            case ir.GlobalVar(name=name):
                return FunctionValue(self.module.functions[name], None)
            case ir.Constructor():
                return AdtValue(node.name) if not node.inputs else node
            case ir.Let():
                return self._value(_end_of_lets(node), frame)
        raise AssertionError(f"{node!r} has not been computed")

    def _operator(self, name: str, call: ir.Call, operands: list[Any], frame: Frame) -> Any:
        if is_callback(call):
            if call not in self._callbacks:
                self._callbacks[call] = Callback(call)
            return self._callbacks[call](operands[0], frame.sizes)
        try:
            attrs = {key: with_sizes(value, frame.sizes) for key, value in call.attrs.items()}
            return compute(name, operands, attrs)
        except NoReferenceError:
            raise
        except Exception as error:
            if name != RAISE and not isinstance(
                error, ValueError | IndexError | KeyError | ZeroDivisionError
            ):
                raise
            _raise_at(error, call)


def _raise_at(error: Exception, call: ir.Call) -> NoReturn:
    message = str(error.args[0]) if len(error.args) == 1 else str(error)
    raise type(error)(append_location(message, call.span)) from None


def _end_of_lets(node: ir.Expr) -> ir.Expr:
    """Return the node that gives a chain of lets its value."""
    while isinstance(node, ir.Let):
        node = node.body
    return node


def _run(steps: _Steps) -> Any:
    """Return the result of a generator; the generators that it waits for are kept on a list."""
    stack = [steps]
    result: Any = None
    while True:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as done:
            stack.pop()
            if isinstance(done.value, _Tail):
                stack.append(done.value.steps)
                result = None
            elif stack:
                result = done.value
            else:
                return done.value
        if len(stack) > MAX_DEPTH:
            raise RecursionError(f"the recursion is deeper than {MAX_DEPTH} calls and branches")


def _choose(node: ir.Match, value: Any, frame: Frame) -> int:
    """Return the number of the arm that takes a value, and bind its names."""
    for number, clause in enumerate(node.clauses):
        bound: dict[ir.Expr, Any] = {}
        if _takes(clause.lhs, value, bound):
            frame.values.update(bound)
            return number
    if node.assertion is not None:
        raise node.assertion.error(node.span)
    where = "" if node.span is None else f" at {node.span}"
    what = value.constructor if isinstance(value, AdtValue) else "this value"
    raise RuntimeError(f"no arm of the match{where} takes {what}")


def _takes(pattern: ir.Pattern, value: Any, bound: dict[ir.Expr, Any]) -> bool:
    match pattern:
        case ir.PatternVar(var=var):
            bound[var] = value
        case ir.PatternConstructor(constructor=constructor, patterns=patterns):
            if value.constructor != constructor.name:
                return False
            subpatterns = patterns or ()
            return not subpatterns or all(
                _takes(pattern_, item, bound)
                for pattern_, item in zip(subpatterns, value.fields, strict=True)
            )
        case ir.PatternTuple(patterns=patterns):
            return all(_takes(pattern_, item, bound) for pattern_, item in zip(patterns, value, strict=True))
    return True


def _same_as(node: ir.Expr) -> _Simple:
    return lambda run, _var, frame: run._value(node, frame)


def _call_operator(run: Interpreter, call: ir.Call, frame: Frame) -> Any:
    assert isinstance(call.op, ir.OpRef)
    return run._operator(call.op.name, call, [run._value(arg, frame) for arg in call.args], frame)


def _construct(run: Interpreter, call: ir.Call, frame: Frame) -> AdtValue:
    assert isinstance(call.op, ir.Constructor)
    return AdtValue(call.op.name, tuple([run._value(arg, frame) for arg in call.args]))


def _write(run: Interpreter, node: ir.RefWrite, frame: Frame) -> tuple[()]:
    run._value(node.ref, frame).value = run._value(node.value, frame)
    return ()


_SIMPLE: dict[type[ir.Expr], _Simple] = {
    ir.Function: lambda _run, node, frame: FunctionValue(node, frame),
    ir.Tuple: lambda run, node, frame: tuple([run._value(part, frame) for part in node.fields]),
    ir.TupleGetItem: lambda run, node, frame: run._value(node.tuple_value, frame)[node.index],
    ir.RefCreate: lambda run, node, frame: Reference(run._value(node.value, frame)),
    ir.RefRead: lambda run, node, frame: run._value(node.ref, frame).value,
    ir.RefWrite: _write,
}
