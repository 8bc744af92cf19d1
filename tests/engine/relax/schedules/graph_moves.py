"""Operators of a random program that move elements: shapes, parts, indices."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.engine.relax.schedules import numpy_operators as twin
from tests.engine.relax.schedules.graph_nodes import Array, Node, Unfit
from tests.engine.relax.schedules.graph_pool import Pool


class Moves(Pool):
    """Transposes, slices, joins, gathers and their like."""

    def move(self) -> Node | list[Node]:
        return getattr(self, str(self.one_of(MOVES)))()  # type: ignore[no-any-return]

    def transpose(self) -> Node:
        data = self.tensor(lambda node: node.rank > 1)
        axes = None if self.chance(0.3) else [int(a) for a in self.rng.permutation(data.rank)]
        return self.apply("transpose", lambda x: np.transpose(x, axes), data, axes=axes)

    def reshape(self) -> Node:
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

    def expand_dims(self) -> Node:
        data = self.tensor(lambda node: node.rank < 5)
        axis, count = self.number(-data.rank - 1, data.rank), self.number(1, 2)
        first = axis if axis >= 0 else data.rank + 1 + axis

        def compute(x: Array) -> Array:
            return x.reshape([*x.shape[:first], *[1] * count, *x.shape[first:]])

        return self.apply("expand_dims", compute, data, axis=first, num_newaxis=count)

    def squeeze(self) -> Node:
        data = self.tensor(lambda node: 1 in node.shape)
        axes = [axis for axis, size in enumerate(data.shape) if size == 1]
        axes = axes[: self.number(1, len(axes))]
        return self.apply("squeeze", lambda x: np.squeeze(x, tuple(axes)), data, axis=axes)

    def strided_slice(self) -> Node:
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

    def join(self) -> Node:
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
            sections: int | list[int] = int(self.one_of(divisors))  # type: ignore[call-overload]
        else:
            sections = sorted({self.number(0, size) for _ in range(self.number(1, 3))})
        made = self.apply(
            "split", partial(twin.split, sections, axis), data, indices_or_sections=sections, axis=axis
        )
        return self.items(made)

    def tile(self) -> Node:
        data = self.tensor()
        reps = [self.number(1, 3) for _ in range(self.number(1, max(1, data.rank) + 1))]
        return self.apply("tile", lambda x: np.tile(x, reps), data, reps=reps)

    def repeat(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        axis, count = self.axis(data), self.number(1, 3)
        return self.apply("repeat", lambda x: np.repeat(x, count, axis), data, repeats=count, axis=axis)

    def reverse(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0)
        axis = self.axis(data)
        return self.apply("reverse", lambda x: np.flip(x, axis), data, axis=axis)

    def pad(self) -> Node:
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

    def take(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        axis = None if self.chance(0.2) else self.axis(data)
        size = data.shape[axis] if axis is not None else int(np.prod(data.shape))
        mode = str(self.one_of(["clip", "wrap"]))
        shape = [self.number(0, 7) for _ in range(self.number(0, 2))]
        values = (
            self.rng.integers(-size - 1, size + 1, shape)
            if self.chance(0.5)
            else self.rng.integers(0, size, shape)
        )
        indices = self.indices(np.asarray(values))
        return self.apply("take", partial(twin.take, axis, mode), data, indices, axis=axis, mode=mode)

    def indices(self, values: Array) -> Node:
        """Constant or, through a sum with zeros that are a parameter, not."""
        dtype = str(self.one_of(["int32", "int64"]))
        made = self.constant(values, dtype)
        if self.chance(0.6):
            zeros = self.param(values.shape, values.shape, dtype)
            masked = self.apply("bitwise_and", np.bitwise_and, zeros, self.scalar(0, dtype))
            made = self.apply("bitwise_xor", np.bitwise_xor, masked, made)
        return made

    def gather(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        axis = self.axis(data)
        shape = list(data.shape)
        shape[axis] = self.number(1, 9)
        indices = self.indices(self.rng.integers(0, data.shape[axis], shape))
        return self.apply("gather", partial(twin.gather, axis), data, indices, axis=axis)

    def one_hot(self) -> Node:
        data = self.tensor(lambda node: node.dtype in ("int32", "int64") and node.rank < 4)
        depth, axis, dtype = self.number(1, 9), self.number(-1, data.rank), self.dtype()
        if dtype == "bool":
            raise Unfit
        on, off = self.scalar(self.number(1, 2), dtype), self.scalar(0, dtype)
        compute = partial(twin.one_hot, depth, axis)
        return self.apply("one_hot", compute, data, on, off, depth=depth, axis=axis, dtype=dtype)

    def scatter(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape and node.dtype != "bool")
        axis = self.axis(data)
        shape = list(data.shape)
        shape[axis] = self.number(1, data.shape[axis])
        values = np.argsort(self.rng.random(data.shape), axis=axis).take(range(shape[axis]), axis)
        indices, updates = self.indices(values), self.fresh(shape, data.dtype)
        names = ["update"] if self.kind == "special" else ["update", "add", "max", "min"]
        name = str(self.one_of(names))
        compute = partial(twin.scatter, axis, name)
        return self.apply("scatter_elements", compute, data, indices, updates, axis=axis, reduction=name)

    def flatten(self) -> Node:
        data = self.tensor(lambda node: node.rank > 0 and 0 not in node.shape)
        return self.apply("nn.batch_flatten", lambda x: x.reshape(len(x), -1), data)

    def transform_layout(self) -> Node:
        data = self.tensor(lambda node: node.rank == 4 and 0 not in node.shape)
        channels = data.shape[1]
        blocks = [b for b in (2, 4, 8, 16) if channels % b == 0]
        if not all(isinstance(dim, int) for dim in data.type.shape):  # type: ignore[union-attr]
            blocks = []  # the engine refuses these
        layouts = {"NHWC": (0, 2, 3, 1), "NWHC": (0, 3, 2, 1)}
        if blocks and self.chance(0.6):
            block = int(self.one_of(blocks))  # type: ignore[call-overload]

            def to_blocks(x: Array) -> Array:
                n, c, h, w = x.shape
                return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)

            return self.apply(
                "layout_transform", to_blocks, data, src_layout="NCHW", dst_layout=f"NCHW{block}c"
            )
        name = str(self.one_of(list(layouts)))
        return self.apply(
            "layout_transform", lambda x: x.transpose(layouts[name]), data, src_layout="NCHW", dst_layout=name
        )

    def broadcast(self) -> Node:
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


MOVES = [
    "transpose",
    "reshape",
    "expand_dims",
    "squeeze",
    "strided_slice",
    "join",
    "split",
    "tile",
    "repeat",
    "reverse",
    "pad",
    "take",
    "gather",
    "one_hot",
    "scatter",
    "flatten",
    "transform_layout",
    "broadcast",
    "triangle",
]
