"""Random well-typed Relay programs, by seed: the same seed is the same program everywhere.

A program is a `@main` over small tensors (and sometimes a global that it calls) of element-wise operators,
reductions, shape changes, products, tuples, lets, ifs, closures, shared nodes and constants. Values stay
small, so that two compilers' roundings stay close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import TensorType, TupleType, Type

SHAPES = [(), (3,), (1, 3), (2, 3), (2, 1), (4, 2, 3), (2, 3, 3), (1, 2, 5, 5)]
UNARY = ["tanh", "sigmoid", "exp", "negative", "abs", "nn.relu", "erf", "cos", "floor", "copy", "sign"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
COMPARE = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
REDUCE = ["sum", "mean", "max", "min", "argmax", "argmin", "prod"]


@dataclass
class Typed:
    """An expression and the type that the generator gave it."""

    expr: Expr
    type: Type


@dataclass
class Generator:
    """Grows a pool of typed expressions; each step adds one made of earlier ones."""

    rng: np.random.Generator
    pool: list[Typed] = field(default_factory=list)
    names: int = 0

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, items: Sequence[object]) -> object:
        return items[int(self.rng.integers(len(items)))]

    def fresh(self, prefix: str, type_: Type | None = None) -> Var:
        """A variable whose name sometimes repeats an earlier one's: the printer must keep them apart."""
        if not self.chance(0.3):
            self.names += 1
        return Var(f"{prefix}{self.names}", type_)

    def tensor(self, wanted: Callable[[TensorType], bool] = lambda _type: True) -> Typed:
        """A tensor of the pool, newer ones more often; IndexError where none will do."""
        fit = [item for item in self.pool if isinstance(item.type, TensorType) and wanted(item.type)]
        recent = fit[-6:] if self.chance(0.7) else fit
        return recent[int(self.rng.integers(len(recent)))] if recent else fit[0]

    def float_tensor(self, rank: int | None = None) -> Typed:
        return self.tensor(lambda t: t.dtype == "float32" and (rank is None or len(t.shape) == rank))

    def apply(self, name: str, args: Sequence[Typed], **attrs: object) -> Typed:
        """An operator's call; RelationError where the types do not fit."""
        made = call(name, [arg.expr for arg in args], **attrs)
        return Typed(made, OPERATORS[name].result_type([arg.type for arg in args], made.attrs))

    def step(self) -> None:
        """Adds one expression; a choice that does not fit the pool adds nothing."""
        makers = [self.unary, self.binary, self.binary, self.compare, self.reduce, self.shape, self.product]
        makers += [self.tuple, self.project, self.let, self.conditional, self.closure, self.scalar, self.nn]
        maker = makers[int(self.rng.integers(len(makers)))]
        try:
            self.pool.append(maker())
        except (RelationError, IndexError):
            return

    def unary(self) -> Typed:
        return self.apply(str(self.one_of(UNARY)), [self.float_tensor()])

    def binary(self) -> Typed:
        left = self.tensor(lambda t: t.dtype != "bool")
        right = self.tensor(lambda t: isinstance(left.type, TensorType) and t.dtype == left.type.dtype)
        return self.apply(str(self.one_of(BINARY)), [left, right])

    def compare(self) -> Typed:
        if self.chance(0.5):
            condition = self.tensor(lambda t: t.dtype == "bool")
            return self.apply("where", [condition, self.float_tensor(), self.float_tensor()])
        return self.apply(str(self.one_of(COMPARE)), [self.float_tensor(), self.float_tensor()])

    def reduce(self) -> Typed:
        data = self.float_tensor()
        assert isinstance(data.type, TensorType)
        rank = len(data.type.shape)
        axes = sorted({int(axis) for axis in self.rng.integers(-rank, rank, size=2)}) if rank else []
        name = str(self.one_of(REDUCE))
        axis = None if self.chance(0.3) or not axes else axes[:1] if name.startswith("arg") else axes
        if axis is not None and len({a % rank for a in axis}) < len(axis):
            axis = axis[:1]
        exclude = axis is not None and self.chance(0.2)  # Relay types it without an axis, but cannot build it
        return self.apply(name, [data], axis=axis, keepdims=self.chance(0.4), exclude=exclude)

    def shape(self) -> Typed:
        data = self.float_tensor()
        assert isinstance(data.type, TensorType)
        rank = len(data.type.shape)
        match int(self.rng.integers(7)):
            case 0:
                return self.apply("transpose", [data], axes=[int(a) for a in self.rng.permutation(rank)])
            case 1:
                return self.apply("expand_dims", [data], axis=int(self.rng.integers(-rank - 1, rank + 1)))
            case 2:
                return self.apply("squeeze", [data])
            case 3:
                return self.apply("reshape", [data], newshape=self.one_of([[-1], [-1, 3], [0, -1], [-3, -2]]))
            case 4:
                return self.apply("strided_slice", [data], begin=[0], end=[2], strides=[1])
            case 5:
                return self.apply("tile", [data], reps=[2, 1])
            case _:
                return self.apply("cast", [data], dtype=self.one_of(["float32", "int32", "bool"]))

    def product(self) -> Typed:
        data = self.float_tensor(2)
        assert isinstance(data.type, TensorType)
        inner = data.type.shape[1]
        if self.chance(0.5):
            weight = self.array((4, int(inner)))  # type: ignore[arg-type]  # all dimensions here are ints
            return self.apply("nn.dense", [data, weight], units=self.one_of([None, 4]))
        weight = self.array((int(inner), 2))  # type: ignore[arg-type]
        return self.apply("nn.matmul", [data, weight])

    def nn(self) -> Typed:
        match int(self.rng.integers(5)):
            case 0:
                return self.apply("nn.softmax", [self.float_tensor()], axis=self.one_of([-1, 0, 1]))
            case 1:
                return self.apply("nn.max_pool2d", [self.float_tensor(4)], pool_size=(2, 2), padding=(0, 1))
            case 2:
                weight = self.array((3, 2, 3, 3))
                return self.apply("nn.conv2d", [self.float_tensor(4), weight], padding=self.one_of([0, 1]))
            case 3:
                return self.apply("nn.leaky_relu", [self.float_tensor()])
            case _:
                return self.apply("clip", [self.float_tensor()], a_min=-0.5, a_max=self.one_of([0.5, 1 / 3]))

    def array(self, shape: tuple[int, ...]) -> Typed:
        made = constant(self.rng.uniform(-0.5, 0.5, size=shape).astype("float32"))
        return Typed(made, made.tensor_type)

    def scalar(self) -> Typed:
        # Relay prints six digits of a scalar: a value that survives that is computed with exactly.
        made = constant(self.one_of([0.5, -1.25, 2.0, 0.125]), "float32")
        return Typed(made, made.tensor_type)

    def tuple(self) -> Typed:
        parts = [self.float_tensor() for _ in range(int(self.rng.integers(1, 4)))]
        made = Typed(Tuple(tuple(p.expr for p in parts)), TupleType(tuple(p.type for p in parts)))
        if len(parts) > 1 and self.chance(0.5):
            return self.apply(str(self.one_of(["concatenate", "stack"])), [made], axis=0)
        return made

    def project(self) -> Typed:
        whole = [item for item in self.pool if isinstance(item.type, TupleType)][-1]
        assert isinstance(whole.type, TupleType)
        index = int(self.rng.integers(len(whole.type.fields)))
        return Typed(TupleGetItem(whole.expr, index), whole.type.fields[index])

    def let(self) -> Typed:
        value = self.float_tensor()
        var = self.fresh("t", value.type if self.chance(0.3) else None)
        body = self.apply(str(self.one_of(BINARY)), [Typed(var, value.type), self.float_tensor()])
        return Typed(Let(var, value.expr, body.expr), body.type)

    def conditional(self) -> Typed:
        cond = self.apply("less", [self.apply("sum", [self.float_tensor()]), self.scalar()])
        then = self.float_tensor()
        other = self.tensor(lambda t: t == then.type)
        return Typed(If(cond.expr, self.apply("tanh", [then]).expr, other.expr), then.type)

    def closure(self) -> Typed:
        data = self.float_tensor()
        param = self.fresh("z", data.type)
        outside = self.float_tensor()
        body = self.apply("add", [Typed(param, data.type), outside])
        made = Function((param,), body.expr)
        return Typed(Call(made, (data.expr,)), body.type)


def generate(seed: int) -> Module:
    """The program of a seed: up to 4 parameters and 20 steps, one or several results, sometimes a helper."""
    maker = Generator(np.random.default_rng(seed))
    params = []
    for _ in range(int(maker.rng.integers(1, 5))):
        type_ = TensorType(SHAPES[int(maker.rng.integers(len(SHAPES)))])
        params.append(maker.fresh("x", type_))
        maker.pool.append(Typed(params[-1], type_))
    functions = {}
    if maker.chance(0.3):
        type_ = TensorType((2, 3))
        param = Var("x", type_)
        functions["helper"] = Function((param,), Call(OpRef("exp"), (param,)), type_)
        maker.pool.append(Typed(Call(GlobalVar("helper"), (maker.array((2, 3)).expr,)), type_))
    for _ in range(int(maker.rng.integers(2, 20))):
        maker.step()
    results = maker.pool[-int(maker.rng.integers(1, 3)) :]
    body = results[0].expr if len(results) == 1 else Tuple(tuple(item.expr for item in results))
    return Module({**functions, "main": Function(tuple(params), body)})


def inputs(module: Module, seed: int) -> list[np.ndarray]:
    """Arrays for `@main`'s parameters, by seed."""
    rng = np.random.default_rng([seed, 1])
    shapes = [p.type_annotation.shape for p in module.functions["main"].params]  # type: ignore[union-attr]
    return [np.asarray(rng.uniform(-1, 1, size=shape), dtype="float32") for shape in shapes]
