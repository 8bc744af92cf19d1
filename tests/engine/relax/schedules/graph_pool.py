"""The pool of values that a random program grows from; element-wise operators, reductions, orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nnmagic.relay.expr import Tuple, TupleGetItem, Var, constant
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type
from tests.engine.relax.schedules import numpy_operators as twin
from tests.engine.relax.schedules.graph_nodes import (
    LIMITS,
    MOST_ELEMENTS,
    Array,
    Node,
    Unfit,
    Value,
    broadcasts,
    check_value,
    is_whole,
    item,
    of_tuple,
    random_values,
)


@dataclass
class Pool:
    """Typed values so far, and how more are made of them."""

    seed: int
    kind: str
    rng: np.random.Generator
    pool: list[Node] = field(default_factory=list)
    #: The dimensions that shapes are made of, and those of them that only a call knows.
    dims: list[int] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    params: int = 0

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, items: Sequence[object]) -> object:
        if not len(items):
            raise Unfit
        return items[int(self.rng.integers(len(items)))]

    def number(self, low: int, high: int) -> int:
        """Low and high included."""
        return int(self.rng.integers(low, high + 1))

    # -- values --

    def numbers(self, shape: Sequence[int], dtype: str) -> Array:
        """Values of the program's kind, as wide as NumPy has them."""
        return random_values(self.rng, shape, dtype, self.kind)

    def dim_type(self, size: int) -> Dim:
        return AnyDim(self.labels[size]) if size in self.labels else size

    def param(self, dims: Sequence[Dim], shape: Sequence[int], dtype: str) -> Node:
        self.params += 1
        type_ = TensorType(tuple(dims), dtype)
        node = Node(Var(f"x{self.params}", type_), type_, self.numbers(shape, dtype))
        self.pool.append(node)
        return node

    def constant(self, array: Array, dtype: str) -> Node:
        made = constant(np.array(array, dtype, order="C"))
        return Node(made, made.tensor_type, array)

    def scalar(self, value: float, dtype: str) -> Node:
        return self.constant(np.asarray(value, "int64" if "int" in dtype else "float64"), dtype)

    def fresh(self, shape: Sequence[int], dtype: str, dims: Sequence[Dim] | None = None) -> Node:
        """A parameter or a constant of a shape."""
        named = [
            d if isinstance(d, int) or d.label in self.labels.values() else s  # type: ignore[union-attr]
            for d, s in zip(dims if dims is not None else shape, shape, strict=True)
        ]
        if self.chance(0.5) or any(not isinstance(dim, int) for dim in named):
            return self.param(named, shape, dtype)
        return self.constant(self.numbers(shape, dtype), dtype)

    def new(self, rank: int | None = None, dtype: str | None = None) -> Node:
        """A parameter of a shape of the program's dimensions."""
        rank = self.number(0, 4) if rank is None else rank
        for _ in range(20):
            shape = [1 if self.chance(0.15) else int(self.one_of(self.dims)) for _ in range(rank)]  # type: ignore[call-overload]
            if np.prod(shape) <= MOST_ELEMENTS:
                return self.param([self.dim_type(size) for size in shape], shape, dtype or self.dtype())
        return self.param([3] * rank, [3] * rank, dtype or self.dtype())

    def dtype(self) -> str:
        if self.kind == "smooth":
            return "float32" if self.chance(0.9) else "float64"
        names = ["float32"] * 5 + ["int32", "int64", "float64", "int8", "uint8", "bool"]
        return str(self.one_of(names))

    def tensor(self, wanted: Callable[[Node], bool] = lambda _node: True) -> Node:
        """A tensor of the pool, newer ones more often."""
        fit = [node for node in self.pool if isinstance(node.type, TensorType) and wanted(node)]
        return self.one_of(fit[-4:] if self.chance(0.6) else fit)  # type: ignore[return-value]

    def numeric(self) -> Node:
        return self.tensor(lambda node: node.dtype != "bool")

    def floating(self, rank: int | None = None) -> Node:
        return self.tensor(lambda node: node.is_float and (rank is None or node.rank == rank))

    def partner(self, node: Node) -> Node:
        """An operand that broadcasts with the node: one of the pool, the node itself, or a new one."""
        assert isinstance(node.type, TensorType)
        if self.chance(0.6):
            try:
                return self.tensor(lambda other: other.dtype == node.dtype and broadcasts(other, node))
            except Unfit:
                pass
        first = self.number(0, node.rank) if self.chance(0.4) else 0
        keep = [not self.chance(0.2) for _ in node.shape[first:]]
        shape = [size if kept else 1 for size, kept in zip(node.shape[first:], keep, strict=True)]
        dims = [dim if kept else 1 for dim, kept in zip(node.type.shape[first:], keep, strict=True)]
        if self.chance(0.1):
            return (
                self.scalar(self.number(0, 3), node.dtype) if node.dtype != "bool" else self.fresh((), "bool")
            )
        return self.fresh(shape, node.dtype, dims)

    # -- operators --

    def apply(
        self,
        name: str,
        compute: Callable[..., Value],
        *args: Node,
        largest: Callable[..., float] | None = None,
        joined: bool = False,
        **attrs: object,
    ) -> Node:
        """An operator's call; ``joined`` puts the arguments into a tuple. Raises Unfit or RelationError."""
        if joined:
            args = (self.tuple(args),)
            compute = partial(of_tuple, compute)
        made = call(name, [arg.expr for arg in args], **attrs)
        type_ = OPERATORS[name].result_type([arg.type for arg in args], made.attrs)
        value = check_value(compute(*(arg.value for arg in args)), type_, self.kind)
        if largest is not None and self.kind == "exact":
            assert isinstance(type_, TensorType)
            if largest(*(arg.value for arg in args)) > LIMITS.get(type_.dtype, 2**15):
                raise Unfit
        self._check_shape(name, value, type_)
        return Node(made, type_, value, args, compute, largest)

    def _check_shape(self, name: str, value: Value, type_: Type) -> None:
        values = value if isinstance(value, tuple) else (value,)
        types = type_.fields if isinstance(type_, TupleType) else (type_,)
        for one, each in zip(values, types, strict=True):
            assert isinstance(each, TensorType)
            agree = len(one.shape) == len(each.shape) and all(
                not isinstance(dim, int) or dim == size
                for dim, size in zip(each.shape, one.shape, strict=True)
            )
            if any(isinstance(dim, int) and dim < 0 for dim in each.shape):
                raise Unfit  # the engine refuses it
            assert agree, f"seed {self.seed}: {name} has the type {each}, NumPy's result {one.shape}"
            if one.size > 4 * MOST_ELEMENTS:
                raise Unfit

    def tuple(self, args: Sequence[Node]) -> Node:
        type_ = TupleType(tuple(arg.type for arg in args))
        return Node(
            Tuple(tuple(arg.expr for arg in args)),
            type_,
            tuple(arg.value for arg in args),  # type: ignore[misc]
            tuple(args),
            lambda *values: values,
        )

    def items(self, whole: Node) -> list[Node]:
        """The parts of a tuple."""
        assert isinstance(whole.type, TupleType)
        return [
            Node(TupleGetItem(whole.expr, index), type_, whole.value[index], (whole,), partial(item, index))
            for index, type_ in enumerate(whole.type.fields)
        ]

    def axis(self, node: Node) -> int:
        if not node.rank:
            raise Unfit
        return self.number(-node.rank, node.rank - 1)

    def axes(self, node: Node) -> dict[str, object]:
        """The attributes of a reduction."""
        attrs: dict[str, object] = {"keepdims": self.chance(0.4)}
        if node.rank and self.chance(0.85):
            count = 1 if self.chance(0.65) else self.number(1, node.rank)
            chosen = self.rng.permutation(node.rank)[:count]
            attrs["axis"] = [int(axis) - node.rank * self.chance(0.3) for axis in chosen]
            attrs["exclude"] = self.chance(0.1)
        return attrs

    # element-wise

    def unary(self) -> Node:
        data = self.numeric()
        names = ["abs", "copy", *(["negative"] if data.dtype != "uint8" else [])]
        if data.is_float and self.kind == "special":
            names += ["nn.relu", "floor", "ceil", "trunc"]
        elif data.is_float:
            names += ["nn.relu", "floor", "ceil", "trunc", "round", "nn.leaky_relu", "sign"]
        name = str(self.one_of(names))
        return self.apply(name, twin.UNARY[name], data, **({"alpha": 0.5} if "leaky" in name else {}))

    def binary(self) -> Node:
        data = self.numeric()
        names = ["maximum", "minimum"]
        names += ["add", "subtract", "multiply"] if self.kind != "special" else []
        name = str(self.one_of(names))
        other = self.partner(data)
        if self.chance(0.4):
            data, other = other, data
        return self.apply(name, twin.BINARY[name], data, other)

    def divide(self) -> Node:
        """By something that is never 0."""
        data = self.tensor(lambda node: node.dtype != "bool" and is_whole(node.value))
        names = ["floor_divide", "floor_mod"]
        names += ["trunc_divide", "trunc_mod", "divide", "mod"] if "int" in data.dtype else []
        other = self.partner(data)
        if not is_whole(other.value):
            raise Unfit
        one = self.scalar(1, data.dtype)
        above = self.apply("maximum", np.maximum, self.apply("abs", np.abs, other), one)
        if data.dtype != "uint8" and self.chance(0.3):
            above = self.apply("negative", np.negative, above)
        name = str(self.one_of(names))
        return self.apply(name, twin.DIVISION[name], data, above)

    def clip(self) -> Node:
        data = self.numeric()
        low = 0 if data.dtype == "uint8" else self.number(-4, 1)
        high = low + self.number(0, 6)
        return self.apply("clip", lambda x: np.clip(x, low, high), data, a_min=float(low), a_max=float(high))

    def compare(self) -> Node:
        data = self.numeric()
        name = str(self.one_of(list(twin.COMPARE)))
        if self.kind == "special":  # TVM takes what is compared with itself for a number
            return self.apply(name, twin.COMPARE[name], data, self.fresh(data.shape, data.dtype))
        return self.apply(name, twin.COMPARE[name], data, self.partner(data))

    def select(self) -> Node:
        data = self.tensor()
        condition = self.tensor(lambda node: node.dtype == "bool" and broadcasts(node, data))
        args = [data, self.partner(data)]
        if not broadcasts(args[1], condition):
            raise Unfit
        if self.chance(0.5):
            args.reverse()
        return self.apply("where", np.where, condition, *args)

    def logical(self) -> Node:
        data = self.tensor(lambda node: node.dtype == "bool")
        if self.chance(0.3):
            return self.apply("logical_not", np.logical_not, data)
        name = str(self.one_of(["logical_and", "logical_or", "logical_xor"]))
        return self.apply(name, getattr(np, name), data, self.partner(data))

    def bits(self) -> Node:
        data = self.tensor(lambda node: "int" in node.dtype)
        name = str(self.one_of(["bitwise_and", "bitwise_or", "bitwise_xor"]))
        return self.apply(name, getattr(np, name), data, self.partner(data))

    def cast(self) -> Node:
        data, dtype = self.tensor(), self.dtype()
        if self.kind == "special" and not dtype.startswith("float"):
            dtype = "float64"
        return self.apply("cast", lambda x: twin.cast(x, dtype), data, dtype=dtype)

    def classify(self) -> Node:
        name = str(self.one_of(["isnan", "isinf", "isfinite"]))
        return self.apply(name, getattr(np, name), self.floating())

    # reductions

    def reduce(self) -> Node:
        data = self.tensor()
        name = ["sum", "prod", "max", "min", "any", "all"][self.number(0, 5)]
        if name in ("any", "all"):
            data = self.tensor(lambda node: node.dtype == "bool")
        elif data.dtype == "bool" or (self.kind == "special" and name in ("sum", "prod")):
            name = str(self.one_of(["max", "min"]))
        attrs = self.axes(data)
        made = partial(twin.reduce, name, data.dtype, attrs)
        bound = {"sum": "sum", "prod": "prod"}.get(name)
        largest = bound and (lambda x: twin.largest(bound, x, attrs))
        return self.apply(name, made, data, largest=largest or None, **attrs)

    def arg_reduce(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        name, attrs = str(self.one_of(["argmax", "argmin"])), self.axes(data)
        last = self.chance(0.4)
        made = partial(twin.arg_reduce, name, last, attrs)
        return self.apply(name, made, data, select_last_index=last, **attrs)

    def scan(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and node.dtype != "bool")
        name, exclusive = str(self.one_of(["cumsum", "cumsum", "cumprod"])), self.chance(0.3)
        axis = None if self.chance(0.2) else self.axis(data)
        made = partial(twin.scan, name, axis, exclusive)
        return self.apply(
            name,
            made,
            data,
            largest=twin.sum_of if name == "cumsum" else None,
            axis=axis,
            exclusive=exclusive,
        )

    def sort(self) -> Node | list[Node]:
        data = self.tensor(lambda node: node.rank > 0)
        axis, rising = self.axis(data), self.chance(0.5)
        match self.number(0, 2):
            case 0:
                made = partial(twin.sort, axis, rising)
                return self.apply("sort", made, data, axis=axis, is_ascend=rising)
            case 1:
                made = partial(twin.argsort, axis, rising)
                return self.apply("argsort", made, data, axis=axis, is_ascend=rising, dtype="int32")
        k = self.number(0, data.shape[axis])
        kind = str(self.one_of(["both", "values", "indices"]))
        made = partial(twin.topk, k, axis, rising, kind)
        result = self.apply(
            "topk", made, data, k=k, axis=axis, is_ascend=rising, ret_type=kind, dtype="int32"
        )
        return self.items(result) if kind == "both" else result
