"""Random Relay programs of tensors, by seed, each value of which NumPy computes, too.

A program of the kind ``exact`` has numbers that every order of operations computes alike: small integers,
with many ties. One of the kind ``special`` moves and compares NaN, infinities, zeros and denormal numbers.
One of the kind ``smooth`` has functions of vector mathematics and is judged in float64 with a tolerance.

``python -m tests.engine.kernels.random_graphs FIRST LAST`` runs a range of seeds and prints what disagrees,
made small; ``program(seed)`` is a program, ``disagreement(program)`` what is wrong with it.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from nnmagic.diagnostics import CompileError
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.relax import build
from nnmagic.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import AnyDim, Dim, TensorType, TupleType, Type
from tests.engine.kernels import numpy_operators as twin

Array = np.ndarray
#: An array, or a tuple of arrays.
Value = "Array | tuple[Array, ...]"

SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 130, 1000, 1030]
MOST_ELEMENTS = 5000
TARGETS = [None, None, {"kind": "llvm", "mcpu": "haswell"}]
LEVELS = [3, 3, 3, 2, 1, 0]
#: Up to where a dtype has every integer, floats every multiple of 1/256.
LIMITS = {"float32": 2**16, "float64": 2**40, "int8": 127, "uint8": 255, "int32": 2**31 - 1, "int64": 2**53}


class Unfit(Exception):
    """A choice that does not fit: NumPy's result is not exact, or there is nothing to choose from."""


@dataclass(eq=False)
class Node:
    """A value of a program: its expression and type, what NumPy makes of the arguments' values, and made."""

    expr: Expr
    type: Type
    value: Value
    args: tuple[Node, ...] = ()
    compute: Callable[..., Value] | None = None
    #: The greatest number that any order of the operations has in between, from the arguments' values.
    largest: Callable[..., float] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        assert isinstance(self.value, np.ndarray)
        return self.value.shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        assert isinstance(self.type, TensorType)
        return self.type.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")


@dataclass(frozen=True)
class Program:
    """Results of a graph, how it is compiled, and the sizes of the dimensions that only a call knows."""

    seed: int
    kind: str
    results: tuple[Node, ...]
    target: Mapping[str, object] | None
    level: int
    #: Label of a dimension -> its size, for each call.
    sizes: tuple[Mapping[str, int], ...]

    def nodes(self) -> list[Node]:
        """All nodes, arguments before what uses them."""
        seen: dict[Node, None] = {}

        def visit(node: Node) -> None:
            if node not in seen:
                for arg in node.args:
                    visit(arg)
                seen[node] = None

        for result in self.results:
            visit(result)
        return list(seen)

    @property
    def params(self) -> list[Node]:
        return [node for node in self.nodes() if isinstance(node.expr, Var)]

    def module(self) -> Module:
        body = self.results[0].expr if len(self.results) == 1 else Tuple(tuple(r.expr for r in self.results))
        params = tuple(node.expr for node in self.params)
        return infer_type(Module({"main": Function(params, body)}))  # type: ignore[arg-type]

    def __str__(self) -> str:
        text = self.module().astext(show_meta_data=False)
        return f"seed {self.seed}, target {self.target}, level {self.level}\n{text}"


# --- how a program grows ------------------------------------------------------------------------------------


@dataclass
class Generator:
    """Grows a pool of nodes; each step adds one made of earlier ones."""

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
            compute = partial(_of_tuple, compute)
        made = call(name, [arg.expr for arg in args], **attrs)
        type_ = OPERATORS[name].result_type([arg.type for arg in args], made.attrs)
        value = checked(compute(*(arg.value for arg in args)), type_, self.kind)
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
            Node(TupleGetItem(whole.expr, index), type_, whole.value[index], (whole,), partial(_item, index))
            for index, type_ in enumerate(whole.type.fields)
        ]

    def step(self) -> None:
        """Adds a node, or none where the choice does not fit."""
        name = str(self.one_of(STEPS[self.kind]))
        try:
            found = getattr(self, name)()
        except (RelationError, Unfit):
            return
        self.pool += found if isinstance(found, list) else [found]

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

    def divided(self) -> Node:
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

    def clipped(self) -> Node:
        data = self.numeric()
        low = 0 if data.dtype == "uint8" else self.number(-4, 1)
        high = low + self.number(0, 6)
        return self.apply("clip", lambda x: np.clip(x, low, high), data, a_min=float(low), a_max=float(high))

    def compared(self) -> Node:
        data = self.numeric()
        name = str(self.one_of(list(twin.COMPARE)))
        if self.kind == "special":  # TVM takes what is compared with itself for a number
            return self.apply(name, twin.COMPARE[name], data, self.fresh(data.shape, data.dtype))
        return self.apply(name, twin.COMPARE[name], data, self.partner(data))

    def chosen(self) -> Node:
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

    def asked(self) -> Node:
        name = str(self.one_of(["isnan", "isinf", "isfinite"]))
        return self.apply(name, getattr(np, name), self.floating())

    # reductions

    def reduced(self) -> Node:
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

    def placed(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        name, attrs = str(self.one_of(["argmax", "argmin"])), self.axes(data)
        last = self.chance(0.4)
        made = partial(twin.place, name, last, attrs)
        return self.apply(name, made, data, select_last_index=last, **attrs)

    def scanned(self) -> Node:
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

    def sorted(self) -> Node | list[Node]:
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
        found = self.apply("topk", made, data, k=k, axis=axis, is_ascend=rising, ret_type=kind, dtype="int32")
        return self.items(found) if kind == "both" else found

    # moves

    def moved(self) -> Node | list[Node]:
        return getattr(self, str(self.one_of(MOVES)))()  # type: ignore[no-any-return]

    def transposed(self) -> Node:
        data = self.tensor(lambda node: node.rank > 1)
        axes = None if self.chance(0.3) else [int(a) for a in self.rng.permutation(data.rank)]
        return self.apply("transpose", lambda x: np.transpose(x, axes), data, axes=axes)

    def reshaped(self) -> Node:
        data = self.tensor()
        size = int(np.prod(data.shape))
        if not size:
            raise Unfit
        factors = [f for f in range(1, min(size, 200) + 1) if size % f == 0]
        first = int(self.one_of(factors))  # type: ignore[call-overload]
        second = int(self.one_of([f for f in factors if (size // first) % f == 0]))  # type: ignore[call-overload]
        shapes = [[-1], [first, -1], [-1, first], [first, second, -1], [size // first, 1, first]]
        if data.rank > 1:
            merged = [*data.shape[:-2], data.shape[-2] * data.shape[-1]]
            shapes += [merged] * 2
        shape = self.one_of(shapes)
        return self.apply("reshape", lambda x: x.reshape(shape), data, newshape=shape)

    def expanded(self) -> Node:
        data = self.tensor(lambda node: node.rank < 5)
        axis, count = self.number(-data.rank - 1, data.rank), self.number(1, 2)
        first = axis if axis >= 0 else data.rank + 1 + axis

        def compute(x: Array) -> Array:
            return x.reshape([*x.shape[:first], *[1] * count, *x.shape[first:]])

        return self.apply("expand_dims", compute, data, axis=first, num_newaxis=count)

    def squeezed(self) -> Node:
        data = self.tensor(lambda node: 1 in node.shape)
        axes = [place for place, size in enumerate(data.shape) if size == 1]
        axes = axes[: self.number(1, len(axes))]
        return self.apply("squeeze", lambda x: np.squeeze(x, tuple(axes)), data, axis=axes)

    def sliced(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        begin, end, strides = [], [], []
        for size in data.shape:
            step = int(self.one_of([1, 1, 1, 2, 3, -1, -2]))  # type: ignore[call-overload]
            low, high = sorted((self.number(0, size), self.number(0, size)))
            if self.chance(0.3):
                low, high = 0, size
            strides.append(step)
            if step > 0:
                begin.append(low - size if size and self.chance(0.2) and low < size else low)
                end.append(high)
            else:
                begin.append(max(high - 1, 0))
                end.append(low - 1 if low > 0 else -size - 1)
        index = tuple(slice(*each) for each in zip(begin, end, strides, strict=True))
        return self.apply("strided_slice", lambda x: x[index], data, begin=begin, end=end, strides=strides)

    def joined(self) -> Node:
        data = self.tensor()
        if self.chance(0.4) and data.rank < 5:
            others = [
                self.tensor(lambda node: (node.dtype, node.shape) == (data.dtype, data.shape))
                for _ in range(self.number(1, 2))
            ]
            axis = self.number(-data.rank - 1, data.rank)
            return self.apply("stack", lambda *x: np.stack(x, axis), data, *others, joined=True, axis=axis)
        axis = self.axis(data)

        def fits(node: Node) -> bool:
            same = node.dtype == data.dtype and node.rank == data.rank
            return same and all(
                a == b
                for k, (a, b) in enumerate(zip(node.shape, data.shape, strict=True))
                if k != axis % data.rank
            )

        parts = [data, *(self.tensor(fits) for _ in range(self.number(1, 2)))]
        if self.chance(0.4):
            shape = list(data.shape)
            shape[axis] = self.number(0, 9)
            parts.append(self.fresh(shape, data.dtype))
        return self.apply("concatenate", lambda *x: np.concatenate(x, axis), *parts, joined=True, axis=axis)

    def split(self) -> list[Node]:
        data = self.tensor(lambda node: node.rank > 0)
        axis = self.axis(data)
        size = data.shape[axis]
        divisors = [f for f in (1, 2, 3, 4, 5) if size % f == 0]
        if self.chance(0.5):
            places: int | list[int] = int(self.one_of(divisors))  # type: ignore[call-overload]
        else:
            places = sorted({self.number(0, size) for _ in range(self.number(1, 3))})
        made = self.apply(
            "split", partial(twin.split, places, axis), data, indices_or_sections=places, axis=axis
        )
        return self.items(made)

    def tiled(self) -> Node:
        data = self.tensor()
        reps = [self.number(1, 3) for _ in range(self.number(1, max(1, data.rank) + 1))]
        return self.apply("tile", lambda x: np.tile(x, reps), data, reps=reps)

    def repeated(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        axis, count = self.axis(data), self.number(1, 3)
        return self.apply("repeat", lambda x: np.repeat(x, count, axis), data, repeats=count, axis=axis)

    def reversed(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        axis = self.axis(data)
        return self.apply("reverse", lambda x: np.flip(x, axis), data, axis=axis)

    def padded(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and node.dtype != "bool")
        widths = [(self.number(0, 3), self.number(0, 3)) if self.chance(0.6) else (0, 0) for _ in data.shape]
        mode = str(self.one_of(["constant", "constant", "edge", "reflect"]))
        if mode != "constant":
            if any(size <= max(width) for size, width in zip(data.shape, widths, strict=True)):
                raise Unfit
            return self.apply(
                "nn.pad",
                lambda x, _: np.pad(x, widths, mode),
                data,
                self.scalar(0, data.dtype),
                pad_width=widths,
                pad_mode=mode,
            )
        value = self.scalar(self.number(0, 2), data.dtype)
        compute = lambda x, v: np.pad(x, widths, constant_values=v)  # noqa: E731
        return self.apply("nn.pad", compute, data, value, pad_width=widths)

    def taken(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        axis = None if self.chance(0.2) else self.axis(data)
        size = data.shape[axis] if axis is not None else int(np.prod(data.shape))
        mode = str(self.one_of(["clip", "wrap"]))
        shape = [self.number(0, 7) for _ in range(self.number(0, 2))]
        places = (
            self.rng.integers(-size - 1, size + 1, shape)
            if self.chance(0.5)
            else self.rng.integers(0, size, shape)
        )
        indices = self.indices(np.asarray(places))
        return self.apply("take", partial(twin.take, axis, mode), data, indices, axis=axis, mode=mode)

    def indices(self, places: Array) -> Node:
        """Constant or, through a sum with zeros that are a parameter, not."""
        dtype = str(self.one_of(["int32", "int64"]))
        made = self.constant(places, dtype)
        if self.chance(0.6):
            zeros = self.param(places.shape, places.shape, dtype)
            masked = self.apply("bitwise_and", np.bitwise_and, zeros, self.scalar(0, dtype))
            made = self.apply("bitwise_xor", np.bitwise_xor, masked, made)
        return made

    def gathered(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        axis = self.axis(data)
        shape = list(data.shape)
        shape[axis] = self.number(1, 9)
        indices = self.indices(self.rng.integers(0, data.shape[axis], shape))
        return self.apply("gather", partial(twin.gather, axis), data, indices, axis=axis)

    def hot(self) -> Node:
        data = self.tensor(lambda node: node.dtype in ("int32", "int64") and node.rank < 4)
        depth, axis, dtype = self.number(1, 9), self.number(-1, data.rank), self.dtype()
        if dtype == "bool":
            raise Unfit
        on, off = self.scalar(self.number(1, 2), dtype), self.scalar(0, dtype)
        compute = partial(twin.one_hot, depth, axis)
        return self.apply("one_hot", compute, data, on, off, depth=depth, axis=axis, dtype=dtype)

    def scattered(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape and node.dtype != "bool")
        axis = self.axis(data)
        shape = list(data.shape)
        shape[axis] = self.number(1, data.shape[axis])
        places = np.argsort(self.rng.random(data.shape), axis=axis).take(range(shape[axis]), axis)
        indices, updates = self.indices(places), self.fresh(shape, data.dtype)
        names = ["update"] if self.kind == "special" else ["update", "add", "max", "min"]
        name = str(self.one_of(names))
        compute = partial(twin.scatter, axis, name)
        return self.apply("scatter_elements", compute, data, indices, updates, axis=axis, reduction=name)

    def flattened(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        return self.apply("nn.batch_flatten", lambda x: x.reshape(len(x), -1), data)

    def laid_out(self) -> Node:
        data = self.tensor(lambda node: node.rank == 4 and 0 not in node.shape)
        channels = data.shape[1]
        blocks = [b for b in (2, 4, 8, 16) if channels % b == 0]
        if not all(isinstance(dim, int) for dim in data.type.shape):  # type: ignore[union-attr]
            blocks = []  # the engine refuses these
        layouts = {"NHWC": (0, 2, 3, 1), "NWHC": (0, 3, 2, 1)}
        if blocks and self.chance(0.6):
            block = int(self.one_of(blocks))  # type: ignore[call-overload]

            def blocked(x: Array) -> Array:
                n, c, h, w = x.shape
                return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)

            return self.apply(
                "layout_transform", blocked, data, src_layout="NCHW", dst_layout=f"NCHW{block}c"
            )
        name = str(self.one_of(list(layouts)))
        return self.apply(
            "layout_transform", lambda x: x.transpose(layouts[name]), data, src_layout="NCHW", dst_layout=name
        )

    def stretched(self) -> Node:
        data = self.tensor(lambda node: node.rank < 4)
        shape = [
            *([self.number(1, 5)] if self.chance(0.5) else []),
            *(self.number(1, 9) if size == 1 else size for size in data.shape),
        ]
        return self.apply("broadcast_to", lambda x: np.broadcast_to(x, shape), data, shape=shape)

    def triangle(self) -> Node:
        data = self.tensor(lambda node: node.rank > 1)
        k, upper = self.number(-3, 3), self.chance(0.5)
        compute = lambda x, _: (np.triu if upper else np.tril)(x, k)  # noqa: E731
        return self.apply("trilu", compute, data, self.scalar(k, "int32"), upper=upper)

    # products

    def product(self) -> Node:
        data = self.tensor(lambda node: node.rank in (2, 3) and node.dtype != "bool" and is_small(node))
        ta, tb = self.chance(0.3), self.chance(0.5)
        columns = int(self.one_of([*self.dims, 1, 2, 8, 16, 17, 33, 64]))  # type: ignore[call-overload]
        inner = data.shape[-2 if ta else -1]
        dims = data.type.shape[-2 if ta else -1]  # type: ignore[union-attr]
        shape, types = ([columns, inner], [columns, dims]) if tb else ([inner, columns], [dims, columns])
        if data.rank == 3:
            batch = data.shape[0] if self.chance(0.7) else 1
            kind = data.type.shape[0] if batch != 1 else 1  # type: ignore[union-attr]
            other = self.weight([batch, *shape], data.dtype, [kind, *types])
            compute = partial(twin.product, ta, tb)
            return self.apply(
                "nn.batch_matmul",
                compute,
                data,
                other,
                largest=partial(twin.largest_product, ta, tb),
                transpose_a=ta,
                transpose_b=tb,
            )
        other = self.weight(shape, data.dtype, types)
        if tb and not ta and self.chance(0.7):
            units = columns if self.chance(0.5) else None
            made = self.apply(
                "nn.dense",
                partial(twin.product, False, True),
                data,
                other,
                largest=partial(twin.largest_product, False, True),
                units=units,
            )
        else:
            made = self.apply(
                "nn.matmul",
                partial(twin.product, ta, tb),
                data,
                other,
                largest=partial(twin.largest_product, ta, tb),
                transpose_a=ta,
                transpose_b=tb,
            )
        if self.chance(0.4):
            bias = self.fresh([columns], data.dtype)
            made = self.apply("nn.bias_add", np.add, made, bias, axis=-1)
        return self.activated(made)

    def weight(self, shape: Sequence[int], dtype: str, dims: Sequence[Dim]) -> Node:
        """Something of the pool where it fits, or something new."""
        if self.chance(0.3):
            try:
                return self.tensor(
                    lambda node: (node.shape, node.dtype) == (tuple(shape), dtype) and is_small(node)
                )
            except Unfit:
                pass
        return self.fresh(shape, dtype, dims)

    def activated(self, node: Node) -> Node:
        if node.is_float and self.chance(0.4):
            return self.apply("nn.relu", twin.UNARY["nn.relu"], node)
        if self.chance(0.15):
            return self.apply("clip", lambda x: np.clip(x, 0, 6), node, a_min=0.0, a_max=6.0)
        return node

    def attended(self) -> Node:
        """Two products with something between them."""
        if len(self.dims) < 2:
            raise Unfit
        batch, rows, inner = self.number(1, 4), *(int(self.one_of(self.dims)) for _ in range(2))  # type: ignore[call-overload]
        if batch * rows * max(rows, inner) > MOST_ELEMENTS:
            raise Unfit
        q, k, v = (self.fresh([batch, rows, inner], "float32") for _ in range(3))
        scores = self.apply(
            "nn.batch_matmul",
            partial(twin.product, False, True),
            q,
            k,
            largest=partial(twin.largest_product, False, True),
            transpose_a=False,
            transpose_b=True,
        )
        if self.kind == "smooth":
            weights = self.apply("nn.softmax", partial(twin.softmax, -1), scores, axis=-1)
        else:
            weights = self.apply("clip", lambda x: np.clip(x, -3, 3), scores, a_min=-3.0, a_max=3.0)
        return self.apply(
            "nn.batch_matmul",
            partial(twin.product, False, False),
            weights,
            v,
            largest=partial(twin.largest_product, False, False),
            transpose_a=False,
            transpose_b=False,
        )

    # convolutions and pools

    def image(self, rank: int) -> Node:
        """A value (batch, channels, spatial...)."""
        if self.chance(0.7):
            try:
                return self.tensor(
                    lambda n: (
                        n.rank == rank + 2
                        and n.is_float
                        and is_small(n)
                        and 0 not in n.shape
                        and n.shape[1] <= 64
                    )
                )
            except Unfit:
                pass
        channels = int(self.one_of([1, 2, 3, 4, 6, 8, 12, 16, 17, 32]))  # type: ignore[call-overload]
        spatial = [self.number(1, 12 if rank > 1 else 60) for _ in range(rank)]
        shape = [self.number(1, 2), channels, *spatial]
        if np.prod(shape) > MOST_ELEMENTS:
            raise Unfit
        return self.param(shape, shape, "float32" if self.chance(0.9) else "float64")

    def convolved(self) -> Node:
        rank = int(self.one_of([1, 2, 2, 2, 2, 3]))  # type: ignore[call-overload]
        data = self.image(rank)
        channels = data.shape[1]
        divisors = [g for g in range(1, channels + 1) if channels % g == 0]
        groups = 1 if self.chance(0.6) else channels if self.chance(0.5) else int(self.one_of(divisors))  # type: ignore[call-overload]
        out = groups * int(self.one_of([1, 1, 2, 3, 4, 8, 16]))  # type: ignore[call-overload]
        if out > 64:
            raise Unfit
        kernel = [self.number(1, 3 if self.chance(0.9) else 5) for _ in range(rank)]
        strides = [self.number(1, 2) if self.chance(0.4) else 1 for _ in range(rank)]
        dilation = [self.number(1, 2) if self.chance(0.2) else 1 for _ in range(rank)]
        padding = [self.number(0, 2) if self.chance(0.6) else 0 for _ in range(2 * rank)]
        if any(
            size + padding[k] + padding[k + rank] < (kernel[k] - 1) * dilation[k] + 1
            for k, size in enumerate(data.shape[2:])
        ):
            raise Unfit
        many = rank > 1 and groups == channels > 1  # then a weight counts channels, and how many each makes
        shape = [groups, out // groups] if many else [out, channels // groups]
        weight = self.fresh([*shape, *kernel], data.dtype)
        attrs: dict[str, object] = {
            "strides": strides,
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
        }
        attrs |= {"channels": out, "kernel_size": kernel}
        name = f"nn.conv{rank}d"
        compute = partial(twin.convolve, strides, padding, dilation, groups)
        if rank == 2 and groups == 1 and self.chance(0.25):
            flat = self.apply("transpose", lambda x: x.transpose(0, 2, 3, 1), data, axes=[0, 2, 3, 1])
            moved = self.apply("transpose", lambda x: x.transpose(2, 3, 1, 0), weight, axes=[2, 3, 1, 0])

            def channels_last(x: Array, w: Array) -> Array:
                return compute(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)

            return self.activated(
                self.apply(
                    name,
                    channels_last,
                    flat,
                    moved,
                    largest=twin.largest_of(channels_last),
                    data_layout="NHWC",
                    kernel_layout="HWIO",
                    **attrs,
                )
            )
        made = self.apply(name, compute, data, weight, largest=twin.largest_of(compute), **attrs)
        if self.chance(0.5):
            bias = self.fresh([out], data.dtype)
            wide = [1, -1, *[1] * rank]
            made = self.apply("nn.bias_add", lambda x, b: x + b.reshape(wide), made, bias, axis=1)
        if self.chance(0.3):
            made = self.apply("add", np.add, made, self.partner(made))
        return self.activated(made)

    def convolved_back(self) -> Node:
        rank = int(self.one_of([1, 2]))  # type: ignore[call-overload]
        data = self.image(rank)
        out = int(self.one_of([1, 2, 3, 8]))  # type: ignore[call-overload]
        kernel, strides = ([self.number(1, 3) for _ in range(rank)] for _ in range(2))
        padding = [self.number(0, k - 1) for k in kernel * 2]
        extra = [self.number(0, s - 1) for s in strides]
        weight = self.fresh([data.shape[1], out, *kernel], data.dtype)
        compute = partial(twin.convolve_back, strides, padding, extra)
        return self.activated(
            self.apply(
                f"nn.conv{rank}d_transpose",
                compute,
                data,
                weight,
                largest=twin.largest_of(compute),
                strides=strides,
                padding=padding,
                output_padding=extra,
                channels=out,
                kernel_size=kernel,
            )
        )

    def pooled(self) -> Node:
        rank = int(self.one_of([1, 2, 2, 2, 3]))  # type: ignore[call-overload]
        data = self.tensor(lambda n: n.rank == rank + 2 and n.is_float and 0 not in n.shape)
        name = "max" if self.kind == "special" else str(self.one_of(["max", "avg"]))
        if rank == 2 and self.chance(0.2):
            compute = partial(twin.global_pool, name)
            return self.apply(f"nn.global_{name}_pool2d", compute, data)
        sizes = [1, 2, 4] if name == "avg" and self.kind == "exact" else [1, 2, 3]
        pool = [int(self.one_of(sizes)) for _ in range(rank)]  # type: ignore[call-overload]
        strides = [self.number(1, 2) for _ in range(rank)]
        padding = [self.number(0, (k - 1) // 2 + (k > 1 and self.chance(0.2))) for k in pool * 2]
        padding = [min(p, k - 1) for p, k in zip(padding, pool * 2, strict=True)]
        if any(size + padding[k] + padding[k + rank] < pool[k] for k, size in enumerate(data.shape[2:])):
            raise Unfit
        attrs: dict[str, object] = {"count_include_pad": self.chance(0.5)} if name == "avg" else {}
        compute = partial(twin.pool, name, pool, strides, padding, bool(attrs.get("count_include_pad")))
        return self.apply(
            f"nn.{name}_pool{rank}d", compute, data, pool_size=pool, strides=strides, padding=padding, **attrs
        )

    # smooth functions

    def curve(self) -> Node:
        data = self.floating()
        name = str(self.one_of(list(twin.SMOOTH)))
        if name == "exp" and np.abs(data.value).max(initial=0) > 4:
            raise Unfit
        if name in ("sqrt", "rsqrt", "log"):
            one = self.scalar(1, data.dtype)
            data = self.apply("add", np.add, self.apply("abs", np.abs, data), one)
        return self.apply(name, twin.SMOOTH[name], data)

    def gelu(self) -> Node:
        data = self.floating()
        root, one, half = (self.scalar(v, data.dtype) for v in (0.75, 1, 0.5))
        curve = self.apply("erf", twin.SMOOTH["erf"], self.apply("multiply", np.multiply, data, root))
        grown = self.apply("add", np.add, curve, one)
        return self.apply("multiply", np.multiply, self.apply("multiply", np.multiply, data, half), grown)

    def normalized(self) -> Node:
        data = self.tensor(lambda node: node.is_float and node.rank > 0 and 0 not in node.shape)
        axis = self.axis(data)
        match self.number(0, 3):
            case 0:
                return self.apply("nn.softmax", partial(twin.softmax, axis), data, axis=axis)
            case 1:
                compute = lambda x: np.log(np.maximum(twin.softmax(axis, x), 1e-300))  # noqa: E731
                return self.apply("nn.log_softmax", compute, data, axis=axis)
            case 2:
                scale, shift = (self.fresh([data.shape[axis]], data.dtype) for _ in range(2))
                return self.apply(
                    "nn.layer_norm",
                    partial(twin.layer_norm, axis),
                    data,
                    scale,
                    shift,
                    axis=axis,
                    epsilon=0.5,
                )
        if data.rank < 2:
            raise Unfit
        stats = [self.fresh([data.shape[1]], data.dtype) for _ in range(4)]
        stats[3] = self.apply("abs", np.abs, stats[3])
        compute = partial(twin.batch_norm, 0.5)
        whole = call("nn.batch_norm", [n.expr for n in (data, *stats)], axis=1, epsilon=0.5)
        type_ = OPERATORS["nn.batch_norm"].result_type([n.type for n in (data, *stats)], whole.attrs)
        args = (data, *stats)
        value = compute(*(n.value for n in args))
        return self.items(Node(whole, type_, value, args, compute))[0]

    def averaged(self) -> Node:
        data, attrs = self.floating(), {}
        attrs = self.axes(data)
        if 0 in data.shape:
            raise Unfit
        if self.chance(0.6):
            return self.apply("mean", partial(twin.reduce, "mean", data.dtype, attrs), data, **attrs)
        center = self.apply(
            "mean",
            partial(twin.reduce, "mean", data.dtype, {**attrs, "keepdims": True}),
            data,
            **{**attrs, "keepdims": True},
        )
        compute = lambda x, _: twin.reduce("var", data.dtype, attrs, x)  # noqa: E731
        return self.apply("variance", compute, data, center, unbiased=False, **attrs)


MOVES = [
    "transposed",
    "reshaped",
    "expanded",
    "squeezed",
    "sliced",
    "joined",
    "split",
    "tiled",
    "repeated",
    "reversed",
    "padded",
    "taken",
    "gathered",
    "hot",
    "scattered",
    "flattened",
    "laid_out",
    "stretched",
    "triangle",
]
STEPS = {
    "exact": [
        "unary",
        "binary",
        "binary",
        "binary",
        "binary",
        "divided",
        "clipped",
        "compared",
        "compared",
        "chosen",
        "chosen",
        "logical",
        "bits",
        "cast",
        "reduced",
        "reduced",
        "reduced",
        "reduced",
        "placed",
        "placed",
        "placed",
        "scanned",
        "sorted",
        "moved",
        "moved",
        "moved",
        "moved",
        "product",
        "product",
        "attended",
        "convolved",
        "convolved",
        "convolved_back",
        "pooled",
        "new",
    ],
    "special": [
        "unary",
        "binary",
        "binary",
        "compared",
        "chosen",
        "chosen",
        "logical",
        "cast",
        "asked",
        "reduced",
        "reduced",
        "reduced",
        "placed",
        "placed",
        "sorted",
        "moved",
        "moved",
        "moved",
        "moved",
        "moved",
        "pooled",
        "new",
    ],
    "smooth": [
        "unary",
        "binary",
        "binary",
        "binary",
        "curve",
        "curve",
        "curve",
        "gelu",
        "normalized",
        "normalized",
        "averaged",
        "averaged",
        "reduced",
        "moved",
        "product",
        "product",
        "attended",
        "convolved",
        "convolved",
        "pooled",
        "new",
    ],
}


def _of_tuple(compute: Callable[..., Value], values: tuple[Array, ...]) -> Value:
    return compute(*values)


def _item(index: int, values: tuple[Array, ...]) -> Array:
    return values[index]


def broadcasts(node: Node, other: Node) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(node.shape, other.shape))) <= MOST_ELEMENTS
    except ValueError:
        return False


def is_whole(value: Value) -> bool:
    return bool(np.all(value == np.trunc(value)))


def is_small(node: Node) -> bool:
    """Whether products with it are exact."""
    return (is_whole(node.value) and bool(np.abs(node.value).max(initial=0) <= 40)) or not node.is_float


def checked(value: Value, type_: Type, kind: str) -> Value:
    """The value, where the dtype holds it exactly (or nearly enough). Raises Unfit."""
    if isinstance(value, tuple):
        assert isinstance(type_, TupleType)
        return tuple(checked(v, t, kind) for v, t in zip(value, type_.fields, strict=True))  # type: ignore[misc]
    assert isinstance(type_, TensorType)
    value = np.asarray(value)
    if type_.dtype == "bool" or not value.size:
        return value
    if kind == "special" and type_.dtype.startswith("float"):
        return value
    if kind == "smooth":
        if not np.all(np.abs(value) < 200):
            raise Unfit
        return value
    low = 0 if type_.dtype == "uint8" else -LIMITS[type_.dtype]
    parts = value * 256 if type_.dtype.startswith("float") else value
    if not (np.all(value >= low) and np.all(value <= LIMITS[type_.dtype]) and is_whole(parts)):
        raise Unfit
    return value


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 3e38, -3e38, 2.5, 1e-38]


def random_values(rng: np.random.Generator, shape: Sequence[int], dtype: str, kind: str) -> Array:
    """Small integers, or what the kind has; in the widest dtype of the kind of number."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float") and kind == "special":
        return rng.choice(np.array(SPECIAL, "float32"), shape).astype("float64")
    if dtype.startswith("float") and kind == "smooth":
        return rng.uniform(-2, 2, shape).astype("float32").astype("float64")
    low, high = (0, 4) if dtype == "uint8" else (-4, 4) if rng.random() < 0.5 else (-1, 1)
    return rng.integers(low, high + 1, shape).astype("float64" if dtype.startswith("float") else "int64")


def program(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    kind = ("exact", "exact", "exact", "special", "smooth")[int(rng.integers(5))]
    maker = Generator(seed, kind, rng)
    some = SIZES if maker.chance(0.7) else [size for size in SIZES if 2 <= size <= 33]
    maker.dims = [int(maker.one_of(some)) for _ in range(maker.number(1, 4))]  # type: ignore[call-overload]
    if maker.chance(0.25):
        maker.labels = {size: f"n{place}" for place, size in enumerate(maker.dims) if maker.chance(0.6)}
    for _ in range(maker.number(1, 3)):
        maker.new(rank=maker.number(1, 4))
    for _ in range(maker.number(2, 12)):
        maker.step()
    used = {arg for node in maker.pool for arg in ancestors(node)}
    ends = [node for node in maker.pool if node not in used and node.args]
    ends = ends or [node for node in maker.pool if node.args] or maker.pool[-1:]
    results = ends[-maker.number(1, 4) :]
    if maker.chance(0.3):
        results.append(maker.one_of(maker.pool))  # type: ignore[arg-type]
    target = maker.one_of(TARGETS)
    level = int(maker.one_of(LEVELS))  # type: ignore[call-overload]
    first = {label: size for size, label in maker.labels.items()}
    other = [{label: int(maker.one_of(SIZES[:-4])) for label in first} for _ in range(3)] if first else []  # type: ignore[call-overload]
    return Program(seed, kind, tuple(results), target, level, (first, *other))  # type: ignore[arg-type]


def ancestors(node: Node) -> Iterator[Node]:
    """The node's arguments, with those of tuples that are not in a pool."""
    for arg in node.args:
        yield arg
        if isinstance(arg.type, TupleType):
            yield from ancestors(arg)


# --- how it is judged ---------------------------------------------------------------------------------------


def expected(program: Program, sizes: Mapping[str, int], seed: int) -> tuple[list[Array], list[Array]]:
    """Arguments of a call with these sizes, and the results. Raises Unfit where NumPy is no judge."""
    rng = np.random.default_rng([program.seed, seed])
    values: dict[Node, Value] = {}
    given = []
    for node in program.nodes():
        if isinstance(node.expr, Var):
            assert isinstance(node.type, TensorType)
            shape = [dim if isinstance(dim, int) else sizes[str(dim.label)] for dim in node.type.shape]  # type: ignore[union-attr]
            same = tuple(shape) == node.shape and seed == 0
            value = node.value if same else random_values(rng, shape, node.dtype, program.kind)
            assert isinstance(value, np.ndarray)
            values[node] = value
            given.append(value.astype(node.dtype))
        elif isinstance(node.expr, Constant):
            values[node] = node.value
        else:
            assert node.compute is not None
            args = [values[arg] for arg in node.args]
            try:
                values[node] = checked(node.compute(*args), node.type, program.kind)
            except (ValueError, IndexError) as error:
                raise Unfit from error
            if sum(map(np.size, values[node] if isinstance(values[node], tuple) else [values[node]])) > 10**5:
                raise Unfit
            if (
                node.largest is not None
                and program.kind == "exact"
                and node.largest(*args) > LIMITS[node.dtype]
            ):
                raise Unfit
    results = []
    for node in program.results:
        value = values[node]
        assert isinstance(value, np.ndarray)
        results.append(value.astype(node.dtype))
    return given, results


def unusual(array: Array, rng: np.random.Generator) -> Array:
    """The same values in memory that is not contiguous, not aligned, backwards or read-only."""
    match int(rng.integers(7)):
        case 0 if array.ndim:
            array = np.asfortranarray(array)
        case 1 if array.ndim:
            array = np.ascontiguousarray(array[::-1])[::-1]
        case 2 if array.ndim:
            array = np.repeat(array, 2, -1)[..., ::2]
        case 3:
            memory = np.zeros(array.nbytes + 1, "u1")[1:]
            view = memory.view(array.dtype) if array.size else array.ravel()
            view[:] = array.ravel()
            array = view.reshape(array.shape)
        case 4:
            array = array.copy()
            array.flags.writeable = False
    return array


def disagreement(program: Program) -> str | None:
    """What is wrong with the compiled program, in words; None where all is right."""
    module = program.module()
    try:
        executable = build(module, "main", target=program.target, opt_level=program.level)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"not built: {type(error).__name__}: {error}"
    for number, sizes in enumerate(program.sizes):
        try:
            with np.errstate(all="ignore"):
                arrays, results = expected(program, sizes, number)
        except Unfit:
            continue
        rng = np.random.default_rng([program.seed, number, 1])
        dims: dict[str, int] = {}
        try:
            given = [
                convert_argument(Parameter(str(node.expr), node.type), unusual(array, rng), dims)
                for node, array in zip(program.params, arrays, strict=True)
            ]
            found = executable(given)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            if program.sizes[0] and isinstance(error, ValueError) and refused_when_known(program, sizes):
                continue
            return f"not run with {dict(sizes)}: {type(error).__name__}: {error}"
        parts = found if isinstance(found, tuple) else (found,)
        for place, (one, wanted) in enumerate(zip(parts, results, strict=True)):
            wrong = difference(one, wanted, program.kind)
            if wrong:
                return f"result {place} with {dict(sizes)}: {wrong}"
    return None


def difference(found: Array, wanted: Array, kind: str) -> str | None:
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{found.shape} and not {wanted.dtype}{wanted.shape}"
    if kind == "smooth" and found.dtype.kind == "f":
        tolerance = {"rtol": 2e-4, "atol": 2e-4 * (1 + np.abs(wanted).max(initial=0))}
        same = np.isclose(found, wanted, equal_nan=True, **tolerance)
    else:
        same = np.asarray((found == wanted) | ((found != found) & (wanted != wanted)))
    if same.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{(~same).sum()} of {same.size} are wrong, at {place} {found[place]!r} and not {wanted[place]!r}"


# --- how it is made small -----------------------------------------------------------------------------------


def reduced(program: Program, judge: Callable[[Program], str | None] = disagreement) -> Program:
    """A smaller program that is wrong, too: one result, and parameters in place of what is not needed."""
    simpler = [replace(program, results=(result,)) for result in program.results]
    simpler += [replace(program, results=pair) for pair in itertools.pairwise(program.results)]
    program = next((one for one in simpler if len(program.results) > 1 and judge(one)), program)
    for wish in ({"target": None}, {"level": 3}, {"sizes": program.sizes[:1]}):
        other = replace(program, **wish)  # type: ignore[arg-type]
        program = other if judge(other) else program
    changed = True
    while changed:
        changed = False
        for node in reversed(program.nodes()):
            if isinstance(node.expr, Var | Constant) or not isinstance(node.type, TensorType):
                continue
            other = without(program, node)
            if other is not None and judge(other):
                program, changed = other, True
                break
    return program


def without(program: Program, cut: Node) -> Program | None:
    """The program with a parameter, which has its value, in place of a node; None where that is all of it."""
    if cut in program.results or (len(program.sizes) > 1 and "int" in cut.dtype):
        return None
    assert isinstance(cut.type, TensorType)
    assert isinstance(cut.value, np.ndarray)
    known = {label for sizes in program.sizes for label in sizes}
    dims = [
        dim if isinstance(dim, int) or getattr(dim, "label", None) in known else size
        for dim, size in zip(cut.type.shape, cut.shape, strict=True)
    ]
    type_ = TensorType(tuple(dims), cut.dtype)
    return substituted(program, {cut: Node(Var(f"y{len(program.nodes())}", type_), type_, cut.value)})


def substituted(program: Program, made: dict[Node, Node]) -> Program:
    """The program with other nodes in place of some."""

    def again(node: Node) -> Node:
        if node not in made:
            args = tuple(again(arg) for arg in node.args)
            exprs = tuple(arg.expr for arg in args)
            match node.expr:
                case Call():
                    expr: Expr = Call(node.expr.op, exprs, node.expr.attrs)
                case Tuple():
                    expr = Tuple(exprs)
                case TupleGetItem():
                    expr = TupleGetItem(exprs[0], node.expr.index)
                case _:
                    return made.setdefault(node, node)
            made[node] = replace(node, expr=expr, args=args)
        return made[node]

    return replace(program, results=tuple(again(result) for result in program.results))


def refused_when_known(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the program is refused, too, where its parameters' types say these sizes."""
    made = {}
    for node in program.params:
        assert isinstance(node.type, TensorType)
        shape = [sizes[str(dim.label)] if isinstance(dim, AnyDim) else dim for dim in node.type.shape]
        type_ = TensorType(tuple(shape), node.dtype)
        made[node] = replace(node, expr=Var(str(node.expr.name_hint), type_), type=type_)  # type: ignore[attr-defined]
    known = substituted(program, made)  # type: ignore[arg-type]
    try:
        build(known.module(), "main")
    except CompileError:
        return True
    return False


def report(seed: int) -> None:
    """Prints what is wrong with the program of a seed, made small."""
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    try:
        one = program(seed)
        wrong = disagreement(one)
        if wrong is not None:
            small = reduced(one)
            sys.stdout.write(f"WRONG {seed} {one.kind}: {wrong}\n{disagreement(small)}\n{small}\n")
    except Exception:  # noqa: BLE001 - the next seed is another program
        sys.stdout.write(f"ERROR {seed}: {traceback.format_exc()}\n")


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        report(number)
