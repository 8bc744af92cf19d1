"""Products, convolutions, pools and functions of vector mathematics of a random program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import Dim
from tests.engine.relax.schedules import numpy_operators as twin
from tests.engine.relax.schedules.graph_nodes import MOST_ELEMENTS, Array, Node, Unfit, is_small
from tests.engine.relax.schedules.graph_pool import Pool


class Products(Pool):
    """Products and windows, and what follows them."""

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
        return self.activate(made)

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

    def activate(self, node: Node) -> Node:
        if node.is_float and self.chance(0.4):
            return self.apply("nn.relu", twin.UNARY["nn.relu"], node)
        if self.chance(0.15):
            return self.apply("clip", lambda x: np.clip(x, 0, 6), node, a_min=0.0, a_max=6.0)
        return node

    def attend(self) -> Node:
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

    def convolve(self) -> Node:
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

            return self.activate(
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
        return self.activate(made)

    def convolve_transpose(self) -> Node:
        rank = int(self.one_of([1, 2]))  # type: ignore[call-overload]
        data = self.image(rank)
        out = int(self.one_of([1, 2, 3, 8]))  # type: ignore[call-overload]
        kernel, strides = ([self.number(1, 3) for _ in range(rank)] for _ in range(2))
        padding = [self.number(0, k - 1) for k in kernel * 2]
        extra = [self.number(0, s - 1) for s in strides]
        weight = self.fresh([data.shape[1], out, *kernel], data.dtype)
        compute = partial(twin.convolve_back, strides, padding, extra)
        return self.activate(
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

    def pool_windows(self) -> Node:
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

    def normalize(self) -> Node:
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

    def average(self) -> Node:
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
