"""Turn integer parameters that determine shapes into symbolic sizes: ``zeros((n, n))``, where ``n`` is one.

Machine code knows the sizes of its arrays when a call begins. A parameter that decides a size is therefore
one of these: in the program it is the length of a further array without elements, of shape ``(0, n)``, in
whose place the machine code reads the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nnmagic.engine.relax.analysis.dim_labels import new_labels
from nnmagic.relay.expr import Call, Constant, Expr, Function, GlobalVar, Let, OpRef, Tuple, Var, constant
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import keeps_types, substitute
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import AnyDim, TensorType

#: The operands of operators that are sizes of the result.
_SIZES = {"dyn.full": (1,), "dyn.zeros": (0,), "dyn.broadcast_to": (1,), "dyn.reshape": (1,), "arange": (1,)}

#: Operators whose result is a size, or a shape, where their operands are.
_ARITHMETIC = frozenset(
    (
        *("add", "subtract", "multiply", "floor_divide", "maximum", "minimum", "cast", "expand_dims"),
        *("reshape", "concatenate"),
    )
)

_NUMBER = TensorType((), "int64")


def find_value_sizes(module: Module, entry: str) -> tuple[int, ...]:
    """Return the numbers of the parameters of a typed function that are integers and decide sizes."""
    return tuple(sorted(_Search(module).params_of(entry)))


@keeps_types
def with_value_sizes(module: Module, entry: str, numbers: tuple[int, ...]) -> Module:
    """Return a module whose entry takes further arrays, the lengths of which these parameters stand for."""
    function = module.functions[entry]
    labels = new_labels(function, "length_")
    added: list[Var] = []
    replaced: dict[Expr, Expr] = {}
    for number in numbers:
        param = function.params[number]
        type_ = TensorType((0, AnyDim(next(labels))), "bool")
        array = Var(f"{param.name_hint}_length", type_, span=param.span)
        added.append(array)
        shape = Call(OpRef("shape_of"), (array,), {"dtype": "int64"}, span=param.span)
        replaced[param] = Call(
            OpRef("take"), (shape, constant(1, "int32", span=param.span)), {"axis": 0}, span=param.span
        )
    body = substitute(function.body, replaced)
    new = replace(function, params=(*function.params, *added), body=body, checked_type=None)
    return replace(module, functions={**module.functions, entry: new})


class _Search:
    """Searches for the parameters that decide sizes, through the functions that a function calls."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: dict[str, frozenset[int]] = {}

    def params_of(self, name: str) -> frozenset[int]:
        """Return the numbers of these parameters of a global function."""
        if name not in self.found:
            self.found[name] = frozenset()  # of a function that calls itself
            function = self.module.functions[name]
            sizes = set(self._variables(function))
            self.found[name] = frozenset(
                number for number, param in enumerate(function.params) if param in sizes
            )
        return self.found[name]

    def _variables(self, function: Function) -> Iterator[Var]:
        """Yield the integers that decide sizes in a function."""
        nodes = list(post_order(function.body))
        values = {node.var: node.value for node in nodes if isinstance(node, Let)}
        seen: set[Expr] = set()
        for node in nodes:
            for operand in self._sizes(node):
                yield from _integers(operand, values, seen)

    def _sizes(self, node: Expr) -> list[Expr]:
        """Return the operands of a call that decide sizes."""
        match node:
            case Call(op=OpRef(name=name), args=args):
                return [args[number] for number in _SIZES.get(name, ()) if number < len(args)]
            case Call(op=GlobalVar(name=name), args=args) if name in self.module.functions:
                return [args[number] for number in self.params_of(name)]
        return []


def _integers(expr: Expr, values: Mapping[Var, Expr], seen: set[Expr]) -> Iterator[Var]:
    """Yield the variables that an integer, or a shape, is computed from by arithmetic alone."""
    work = [expr]
    while work:
        node = work.pop()
        if node in seen or isinstance(node, Constant):
            continue
        seen.add(node)
        match node:
            case Var() if node in values:
                work.append(values[node])
            case Var() if node.checked_type == _NUMBER:
                yield node
            case Tuple(fields=fields):
                work.extend(fields)
            case Call(op=OpRef(name=name), args=args) if name in _ARITHMETIC:
                work.extend(args)
            case Call(op=OpRef(name="python.require"), args=(number, _)):
                work.append(number)
