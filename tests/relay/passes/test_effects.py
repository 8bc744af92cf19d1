"""Passes and references: an interpreter notes every effect of random programs, before and after a pass."""

import numpy as np
import pytest

from nnmagic.relay import Module, call, constant, infer_type
from nnmagic.relay.expr import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.passes import (
    compose,
    dead_code_elimination,
    eliminate_common_subexpr,
    fold_constants,
    inline,
    partial_unroll,
    simplify_control_flow,
    to_a_normal_form,
    to_graph_normal_form,
)
from nnmagic.relay.types import FuncType, RefType, scalar_type

F32 = scalar_type("float32")
BINARY = {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "less": np.less}


# --- the judge ----------------------------------------------------------------------------------------------


class Interpreter:
    """Runs a program as Relay does: arguments left to right, each node once in a call of its function."""

    def __init__(self, module):
        self.module = module
        self.trace = []
        self.cells = []

    def main(self, *arrays):
        result = self.call(self.module.functions["main"], {}, arrays)
        return result, self.trace

    def call(self, function, outside, args):
        return self.value(function.body, {**outside, **dict(zip(function.params, args, strict=True))})

    def value(self, node, known):
        """The value of a node; ``known`` are the nodes and variables of the activation, and it grows."""
        if node not in known:
            known[node] = self.compute(node, known)
        return known[node]

    def compute(self, node, known):
        match node:
            case Constant(data=data):
                return data
            case Let(var=var, value=value, body=body):
                known[var] = self.value(value, known)
                return self.value(body, known)
            case If(cond=cond, true_branch=then, false_branch=other):
                return self.value(then if self.value(cond, known) else other, known)
            case Function():
                return lambda *args: self.call(node, known, args)
            case GlobalVar(name=name):
                return lambda *args: self.call(self.module.functions[name], {}, args)
            case Call(op=op, args=args):
                values = [self.value(arg, known) for arg in args]
                if isinstance(op, Var | Function | GlobalVar | Call | Let):
                    return self.value(op, known)(*values)
                return BINARY[op.name](*values)
        parts = [self.value(part, known) for part in children(node)]
        match node:
            case Tuple():
                return tuple(parts)
            case TupleGetItem(index=index):
                return parts[0][index]
            case RefCreate():
                self.cells.append(parts[0])
                return self.note("ref", len(self.cells) - 1)
            case RefRead():
                return self.cells[self.note("read", parts[0])]
            case RefWrite():
                self.note("write", parts[0], float(parts[1]))
                self.cells[parts[0]] = parts[1]
                return ()
        raise TypeError(node)

    def note(self, what, cell, *value):
        self.trace.append((what, cell, *value))
        return cell


# --- the programs -------------------------------------------------------------------------------------------


class Program:
    """A random program over scalars and references to them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.names = 0

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def fresh(self, type_=None):
        self.names += 1
        return Var(f"v{self.names}", type_)

    def scalar(self, scope, depth=3):
        """An expression of type float32."""
        scalars, refs, functions = scope
        kind = int(self.rng.integers(10)) if depth else 0
        match kind:
            case 0 | 1 | 2:
                return self.pick(scalars)
            case 3:
                return constant(float(self.rng.integers(-3, 4)))
            case 4 | 5:
                return call(
                    self.pick(["add", "subtract", "maximum"]),
                    [self.scalar(scope, depth - 1) for _ in range(2)],
                )
            case 6 if refs:
                return RefRead(self.pick(refs))
            case 7:
                fields = tuple(self.scalar(scope, depth - 1) for _ in range(2))
                return TupleGetItem(Tuple(fields), int(self.rng.integers(2)))
            case 8 if refs and self.rng.random() < 0.5:
                return Call(GlobalVar("bump"), (self.pick(refs), self.scalar(scope, depth - 1)))
            case 8 if functions:
                return Call(self.pick(functions), (self.scalar(scope, depth - 1),))
            case 9:
                cond = self.pick([constant(value=True), call("less", [self.pick(scalars), constant(0.0)])])
                return If(cond, self.block(scope, 2), self.block(scope, 2))
            case _:
                return self.pick(scalars)

    def function(self, scope):
        param = self.fresh(F32)
        scalars, refs, functions = scope
        return Function((param,), self.block(([*scalars, param], refs, functions), 3), F32)

    def block(self, scope, length):
        """A chain of lets; later ones, and the result, use the variables of earlier ones."""
        scalars, refs, functions = (list(part) for part in scope)
        scope = scalars, refs, functions
        lets = []
        for _ in range(int(self.rng.integers(length + 1))):
            var = self.fresh()
            kind = int(self.rng.integers(8))
            if kind == 0 or (kind < 3 and not refs):
                lets.append((var, RefCreate(self.scalar(scope))))
                refs.append(var)
            elif kind < 3:
                lets.append((var, RefWrite(self.pick(refs), self.scalar(scope))))
            elif kind == 3 and length > 2:
                lets.append((var, self.function(scope)))
                functions.append(var)
            else:
                lets.append((var, self.scalar(scope)))
                scalars.append(var)
                if self.rng.random() < 0.3:
                    scalars.append(lets[-1][1])  # a node that several expressions share
        body = self.scalar(scope)
        for var, value in reversed(lets):
            body = Let(var, value, body)
        return body

    def module(self):
        x, cell, number = Var("x", F32), Var("r", RefType(F32)), Var("n", F32)
        old = Var("old")
        bump = Let(old, RefRead(cell), Let(Var("_"), RefWrite(cell, call("add", [old, number])), old))
        apply = Var("f", FuncType((F32,), F32))
        twice = Call(apply, (Call(apply, (number,)),))
        ref = Var("state")
        state = Function((number2 := Var("n", F32),), Call(GlobalVar("bump"), (ref, number2)), F32)
        scope = [x], [ref], [state]
        body = Let(ref, RefCreate(x), self.block(scope, 8))
        result = Call(GlobalVar("twice"), (Function((p := Var("p", F32),), call("add", [p, body]), F32), x))
        return Module(
            {
                "bump": Function((cell, number), bump, F32, attrs={"Inline": 1}),
                "twice": Function((apply, (n := Var("n", F32))), _rename(twice, number, n), F32),
                "main": Function((x,), result, F32),
            }
        )


def _rename(expr, old, new):
    from nnmagic.relay.structure.traverse import rewrite

    return rewrite(expr, lambda node, changed: new if node is old else changed)


def inline_all(module):
    return inline(module, "all")


PASSES = [
    dead_code_elimination,
    eliminate_common_subexpr,
    fold_constants,
    inline,
    inline_all,
    partial_unroll,
    simplify_control_flow,
    to_a_normal_form,
    to_graph_normal_form,
    compose(to_a_normal_form, simplify_control_flow, eliminate_common_subexpr, to_graph_normal_form),
    compose(inline_all, simplify_control_flow, simplify_control_flow, fold_constants, dead_code_elimination),
]


@pytest.mark.full
@pytest.mark.parametrize("run", PASSES, ids=lambda run: run.__name__)
def test_effects_stay_what_they_are_and_in_their_order(run):
    effects = 0
    for seed in range(60):
        module = Program(seed).module()
        typed = infer_type(module)
        for value in (-1.5, 2.0):
            expected = Interpreter(module).main(np.float32(value))
            assert Interpreter(run(module)).main(np.float32(value)) == expected, seed
        assert Interpreter(run(typed)).main(np.float32(2.0)) == expected, seed
        effects += len(expected[1])
    assert effects > 200
