"""Write Relay text of one call a line: the holes of forms that are attributes of operators."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import numpy as np

from nnmagic.diagnostics import CompileError
from nnmagic.relay.expr import Call, Expr
from tests.random_programs.environment import Unfit, Value
from tests.random_programs.relay_text import evaluate, is_linear, module_of
from tests.random_programs.step_writer import Profile, StepWriter
from tests.random_programs.steps import Statement

#: Up to where a dtype has every integer, floats every multiple of 1/256.
_LIMITS = {"float32": 2**16, "float64": 2**40, "int8": 127, "uint8": 255, "int32": 2**31 - 1, "int64": 2**53}
#: Functions that are exact for small integers only.
_WHOLE = {
    *("divide", "floor_divide", "floor_mod", "trunc_divide", "trunc_mod", "mod", "prod", "cumprod"),
    *("product", "attend", "convolve", "convolve_transpose"),
}
_MOST_ELEMENTS = 5000


class RelayWriter(StepWriter):
    """Writes Relay text; ``numbers``: exact, special (of which nothing is computed) or smooth."""

    def __init__(
        self,
        profile: Profile,
        chance: random.Random,
        sizes: Mapping[str, Sequence[int]],
        numbers: str,
        *,
        named: float = 0.0,
        calls: int = 1,
    ) -> None:
        super().__init__(profile, chance, sizes, named=named, calls=calls)
        self.numbers = numbers
        self.reduced = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.x.arrays[0])

    def fits(self, value: Value) -> bool:
        if not super().fits(value):
            return False
        if self.numbers != "exact" or self.function not in _WHOLE or value.dtype.kind != "f":
            return True
        arrays = [array for array in value.arrays if array is not None]
        return all(np.all(each == np.trunc(each)) and np.abs(each).max(initial=0) <= 40 for each in arrays)

    # -- what may be judged ------------------------------------------------------------------------------

    def is_fit(
        self, function: str, text: str, operands: Sequence[str], results: Mapping[int, object]
    ) -> bool:
        if 0 not in results:
            return False
        for call in results:
            values = {name: self.operand(name, call) for name in operands}
            if self.numbers == "exact" and not is_exact(text, values, function):
                return False
            if self.numbers == "smooth" and not _is_bounded(results[call]):
                return False
        steps = self.steps()
        made = Statement(self.language.result(self.count + 1), text, "", tuple(operands), (), True, (), text)
        params = tuple(param for param in self.params if param in steps.params or param.name in operands)
        try:
            module_of(type(steps)(self.language, params, (*steps.statements, made), self.values))
        except CompileError:  # dimensions that only a call knows cannot be compared
            return False
        return True

    # -- values ------------------------------------------------------------------------------------------

    def constant_or_param(self, dims: Sequence[object], dtype: str, values: Sequence[float] = ()) -> str:
        """A parameter, or a constant where all dimensions are known."""
        constant = self.chance(0.5) and all(isinstance(dim, int) for dim in dims)
        return self.take(self.new_param(dtype, dims, values, constant=constant))

    def scalar(self, value: float, dtype: str) -> str:
        return self.take(self.new_param(dtype, (), (value,), constant=True))

    def hole_number(self, _argument: str) -> str:
        return self.scalar(self.random.randint(0, 3 if self.x.kind != "bool" else 1), self.x.kind)

    def mask_of(self, text: str) -> str:
        raise Unfit

    def hole_scalar(self, argument: str) -> str:
        """``<scalar 0.5>``: a constant of the dtype of ``x``."""
        return self.scalar(float(argument), self.x.kind)

    def hole_another(self, argument: str) -> str:
        """A new value of the dimensions of ``x``; ``<another -1>``: of one of them."""
        dims = [self.x.dims[int(argument)]] if argument else self.x.dims
        return self.constant_or_param(dims, self.x.kind)

    def hole_stat(self, argument: str) -> str:
        """A vector with a number for each place of an axis; ``<stat new>``: of a new one."""
        if argument:
            self.hole_axis("")
        return self.constant_or_param([self.x.dims[int(self.axis_text)]], self.x.kind)

    def hole_cast(self, _argument: str) -> str:
        kinds = self.profile.kinds
        letters = "f" if self.numbers == "special" else self.profile.letters
        return f'"{self.random.choice(kinds[self.random.choice(letters)])}"'

    def indices(self, values: np.ndarray) -> str:
        """Indices: constant or, through a parameter of which nothing remains, not."""
        dtype = self.random.choice(["int32", "int64"])
        numbers = self.constant(values.astype(dtype))
        if self.chance(0.4):
            return numbers
        zero = self.scalar(0, dtype)
        return (
            f"bitwise_xor(bitwise_and({self.take(self.new_param(dtype, values.shape))}, {zero}), {numbers})"
        )

    def constant(self, array: np.ndarray) -> str:
        value = self.new_param(array.dtype.name, array.shape, constant=True)
        made = Value(value.name, value.kind, value.dims, (array,) * self.number_of_calls, constant=True)
        self.params[-1] = self.values[value.name] = made
        return self.take(made)

    # -- attributes --------------------------------------------------------------------------------------

    def hole_flag(self, _argument: str) -> str:
        return str(self.chance(0.4))

    def hole_reduction(self, argument: str) -> str:
        """The attributes of a reduction; ``kept``: that keeps axes, ``again``: over the same axes."""
        if argument != "again":
            rank = self.x.rank
            if not rank or self.chance(0.15):
                self.reduced = "axis=None, exclude=False"
            else:
                axes = self.random.sample(
                    range(rank), 1 if self.chance(0.65) else self.random.randint(1, rank)
                )
                axes = [axis - rank * self.chance(0.3) for axis in axes]
                self.reduced = f"axis={axes}, exclude={self.chance(0.1)}"
        return f"{self.reduced}, keepdims={argument == 'kept' or self.chance(0.4)}"

    def hole_axis(self, _argument: str) -> str:
        if not self.x.rank:
            raise Unfit
        self.axis_text = str(self.random.randrange(-self.x.rank, self.x.rank))
        return self.axis_text

    def hole_reshape(self, _argument: str) -> str:
        shape, size = self.shape, math.prod(self.shape)
        if not size:
            raise Unfit
        factors = [factor for factor in range(1, min(size, 200) + 1) if size % factor == 0]
        first = self.random.choice(factors)
        second = self.random.choice([factor for factor in factors if size // first % factor == 0])
        shapes = [[-1], [first, -1], [-1, first], [first, second, -1], [size // first, 1, first]]
        if len(shape) > 1:
            shapes += [[*shape[:-2], shape[-2] * shape[-1]]] * 2
        return str(self.random.choice(shapes))

    def hole_singles(self, _argument: str) -> str:
        axes = [axis for axis, size in enumerate(self.x.dims) if size == 1]
        if not axes:
            raise Unfit
        return str(axes[: self.random.randint(1, len(axes))])

    def hole_slice(self, _argument: str) -> str:
        begin, end, strides = [], [], []
        for size in self.shape:
            step = self.random.choice([1, 1, 1, 2, 3, -1, -2])
            low, high = sorted((self.random.randint(0, size), self.random.randint(0, size)))
            if self.chance(0.3):
                low, high = 0, size
            strides.append(step)
            if step > 0:
                begin.append(low - size if self.chance(0.2) and low < size else low)
                end.append(high)
            else:
                begin.append(max(high - 1, 0))
                end.append(low - 1 if low > 0 else -size - 1)
        return f"begin={begin}, end={end}, strides={strides}, axes=None"

    def hole_joinable(self, _argument: str) -> str:
        """What can be joined with ``x`` along ``<last_axis>``."""
        axis, dims = int(self.hole_axis("")), list(self.x.dims)
        dims[axis] = self.random.randint(0, 9) if self.chance(0.4) else dims[axis]
        return self.take(self.of_dims(dims, self.x.dtype))

    def hole_sections(self, _argument: str) -> str:
        axis = int(self.hole_axis(""))
        size = self.shape[axis]
        sections: object = self.random.choice([factor for factor in (1, 2, 3, 4, 5) if size % factor == 0])
        if self.chance(0.5):
            sections = sorted({self.random.randint(0, size) for _ in range(self.random.randint(1, 3))})
        return f"indices_or_sections={sections}, axis={axis}"

    def hole_reps(self, _argument: str) -> str:
        count = self.random.randint(1, max(1, self.x.rank) + 1)
        return str([self.random.randint(1, 3) for _ in range(count)])

    def hole_widths(self, argument: str) -> str:
        """``<widths reflect>``: widths of paddings that are smaller than the axes."""
        widths = [
            [self.random.randint(0, 3), self.random.randint(0, 3)] if self.chance(0.6) else [0, 0]
            for _ in self.shape
        ]
        if argument and any(size <= max(width) for size, width in zip(self.shape, widths, strict=True)):
            raise Unfit
        return str(widths)

    def hole_taken(self, _argument: str) -> str:
        """Indices, an axis and a mode of ``take``."""
        axis = None if self.chance(0.2) else int(self.hole_axis(""))
        size = self.shape[axis] if axis is not None else math.prod(self.shape)
        if not math.prod(self.shape):
            raise Unfit
        shape = [self.random.randint(0, 7) for _ in range(self.random.randint(0, 2))]
        values = range(-size - 1, size + 1) if self.chance(0.5) else range(size)
        numbers = self.indices(self.drawn(shape, values))
        return f'{numbers}, axis={axis}, mode="{self.random.choice(["clip", "wrap"])}"'

    def drawn(self, shape: Sequence[int], values: Sequence[int]) -> np.ndarray:
        return np.array(self.random.choices(values, k=math.prod(shape)), np.int64).reshape(shape)

    def hole_gathered(self, _argument: str) -> str:
        """Indices and an axis of ``gather``."""
        axis, shape = int(self.hole_axis("")), list(self.shape)
        if not math.prod(shape):
            raise Unfit
        shape[axis] = self.random.randint(1, 9)
        return f"{self.indices(self.drawn(shape, range(self.shape[axis])))}, axis={axis}"

    def hole_scattered(self, _argument: str) -> str:
        """Indices, none of them twice, updates, an axis and a reduction of ``scatter_elements``."""
        axis, shape = int(self.hole_axis("")), list(self.shape)
        if not math.prod(shape):
            raise Unfit
        shape[axis] = self.random.randint(1, shape[axis])
        keys = np.array([self.random.random() for _ in range(math.prod(self.shape))]).reshape(self.shape)
        numbers = self.indices(np.argsort(keys, axis=axis).take(range(shape[axis]), axis))
        updates = self.constant_or_param(shape, self.x.kind)
        names = ["update"] if self.numbers == "special" else ["update", "add", "max", "min"]
        return f'{numbers}, {updates}, axis={axis}, reduction="{self.random.choice(names)}"'

    def hole_blocks(self, _argument: str) -> str:
        """The layout of blocks of channels; the engine refuses those of dimensions that only a call knows."""
        blocks = [block for block in (2, 4, 8, 16) if self.shape[1] % block == 0]
        if not blocks or self.sizes or 0 in self.shape:
            raise Unfit
        return f'"NCHW{self.random.choice(blocks)}c"'

    def hole_broader(self, _argument: str) -> str:
        """A shape that ``x`` can be broadcast to."""
        more = [self.random.randint(1, 5)] if self.chance(0.5) else []
        return str(more + [self.random.randint(1, 9) if size == 1 else size for size in self.shape])

    def hole_hot(self, _argument: str) -> str:
        """The numbers and attributes of ``one_hot``."""
        dtype = self.random.choice(["float32", "int32", "int64", "float64"])
        on, off = self.scalar(self.random.randint(1, 2), dtype), self.scalar(0, dtype)
        depth, axis = self.random.randint(1, 9), self.random.randint(-1, self.x.rank)
        return f'{on}, {off}, depth={depth}, axis={axis}, dtype="{dtype}"'

    def hole_triangle(self, _argument: str) -> str:
        return self.scalar(self.random.randint(-3, 3), "int32")

    def hole_pick(self, argument: str) -> str:
        """``<pick:if 2-3>``: draw ``x``, which another hole writes."""
        kinds, ranks = argument.split()
        low, high = map(int, ranks.split("-"))
        self.x = self.pick(kinds, low, high)
        return ""

    # -- products and windows ----------------------------------------------------------------------------

    def weight(self, dims: Sequence[object], dtype: str) -> str:
        """Something of the program where it fits, or something new."""
        fit = [value for value in self.known(np.dtype(dtype)) if value.dims == tuple(dims)]
        return (
            self.take(self.random.choice(fit))
            if fit and self.chance(0.3)
            else self.constant_or_param(dims, dtype)
        )

    def hole_product(self, _argument: str) -> str:
        """A product of ``x``, a matrix or a pile of matrices."""
        ta, tb = self.chance(0.3), self.chance(0.5)
        columns = self.random.choice([*self.profile.dims, 1, 2, 8, 16, 17, 33, 64])
        inner = self.x.dims[-2 if ta else -1]
        dims: list[object] = [columns, inner] if tb else [inner, columns]
        flags = f"transpose_a={ta}, transpose_b={tb}"
        x = self.take(self.x)
        if self.x.rank == 3:
            other = self.weight([self.x.dims[0] if self.chance(0.7) else 1, *dims], self.x.kind)
            return f"nn.batch_matmul({x}, {other}, {flags})"
        other = self.weight(dims, self.x.kind)
        if tb and not ta and self.chance(0.7):
            made = f"nn.dense({x}, {other}, units={columns if self.chance(0.5) else None})"
        else:
            made = f"nn.matmul({x}, {other}, units=None, {flags})"
        if self.chance(0.4):
            made = f"nn.bias_add({made}, {self.constant_or_param([columns], self.x.kind)}, axis=-1)"
        return self.activated(made)

    def activated(self, text: str) -> str:
        if self.x.dtype.kind == "f" and self.chance(0.4):
            return f"nn.relu({text})"
        return f"clip({text}, a_min=0f, a_max=6f)" if self.chance(0.15) else text

    def hole_attend(self, _argument: str) -> str:
        """Two products with something between them."""
        batch, rows, inner = (
            self.random.randint(1, 4),
            *(self.random.choice(self.profile.dims) for _ in range(2)),
        )
        if batch * rows * max(rows, inner) > _MOST_ELEMENTS:
            raise Unfit
        q, k, v = (self.constant_or_param([batch, rows, inner], "float32") for _ in range(3))
        made = f"nn.batch_matmul({q}, {k}, transpose_a=False, transpose_b=True)"
        is_smooth = self.numbers == "smooth"
        made = f"nn.softmax({made}, axis=-1)" if is_smooth else f"clip({made}, a_min=-3f, a_max=3f)"
        return f"nn.batch_matmul({made}, {v}, transpose_a=False, transpose_b=False)"

    def image(self, rank: int) -> Value:
        """A value (batch, channels, spatial...)."""
        fit = [
            value
            for value in self.known()
            if value.rank == rank + 2
            and value.dtype.kind == "f"
            and np.size(value.arrays[0])
            and value.dims[1] in range(65)
        ]
        if fit and self.chance(0.7):
            return self.random.choice(fit)
        channels = self.random.choice([1, 2, 3, 4, 6, 8, 12, 16, 17, 32])
        spatial = [self.random.randint(1, 12 if rank > 1 else 60) for _ in range(rank)]
        return self.new_param(
            "float64" if self.chance(0.1) else "float32", [self.random.randint(1, 2), channels, *spatial]
        )

    def numbers_of(self, count: int, low: int, high: int, chance: float = 1.0) -> list[int]:
        """Return numbers of a range, or all low."""
        drawn = self.chance(chance)
        return [self.random.randint(low, high) if drawn else low for _ in range(count)]

    def has_windows(self, spans: Sequence[int], padding: Sequence[int]) -> bool:
        """Whether the padded image is as large as a window; the engine refuses others."""
        rank = len(spans)
        sizes = zip(self.shape[2:], padding[:rank], padding[rank:], spans, strict=True)
        return all(size + before + after >= span for size, before, after, span in sizes)

    def hole_convolve(self, _argument: str) -> str:
        rank = self.random.choice([1, 2, 2, 2, 2, 3])
        self.x = self.image(rank)
        channels = self.shape[1]
        divisors = [group for group in range(1, channels + 1) if channels % group == 0]
        groups = 1 if self.chance(0.6) else channels if self.chance(0.5) else self.random.choice(divisors)
        out = groups * self.random.choice([1, 1, 2, 3, 4, 8, 16])
        kernel = self.numbers_of(rank, 1, 3 if self.chance(0.9) else 5)
        strides, dilation = self.numbers_of(rank, 1, 2, 0.4), self.numbers_of(rank, 1, 2, 0.2)
        padding = self.numbers_of(2 * rank, 0, 2, 0.6)
        if out > 64 or not self.has_windows(
            [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)], padding
        ):
            raise Unfit
        many = rank > 1 and groups == channels > 1  # then a weight counts channels, and how many each makes
        shape = [groups, out // groups] if many else [out, channels // groups]
        x, weight = self.take(self.x), self.constant_or_param([*shape, *kernel], self.x.kind)
        attrs = f"strides={strides}, padding={padding}, dilation={dilation}, groups={groups}, channels={out}"
        attrs += f", kernel_size={kernel}"
        if rank == 2 and groups == 1 and self.chance(0.25):
            x, weight = f"transpose({x}, axes=[0, 2, 3, 1])", f"transpose({weight}, axes=[2, 3, 1, 0])"
            layouts = 'data_layout="NHWC", kernel_layout="HWIO"'
            return self.activated(f"nn.conv2d({x}, {weight}, {attrs}, {layouts})")
        made = f"nn.conv{rank}d({x}, {weight}, {attrs})"
        if self.chance(0.5):
            made = f"nn.bias_add({made}, {self.constant_or_param([out], self.x.kind)}, axis=1)"
        if self.chance(0.3):
            dims = [self.random.choice([1, out]), *[1] * rank]
            made = f"add({made}, {self.constant_or_param(dims, self.x.kind)})"
        return self.activated(made)

    def hole_convolve_transpose(self, _argument: str) -> str:
        rank = self.random.choice([1, 2])
        self.x = self.image(rank)
        out = self.random.choice([1, 2, 3, 8])
        kernel, strides = self.numbers_of(rank, 1, 3), self.numbers_of(rank, 1, 3)
        padding = [self.random.randint(0, size - 1) for size in kernel * 2]
        extra = [self.random.randint(0, stride - 1) for stride in strides]
        weight = self.constant_or_param([self.x.dims[1], out, *kernel], self.x.kind)
        return self.activated(
            f"nn.conv{rank}d_transpose({self.take(self.x)}, {weight}, strides={strides}, padding={padding}, "
            f"output_padding={extra}, channels={out}, kernel_size={kernel})"
        )

    def hole_pool(self, _argument: str) -> str:
        rank = self.random.choice([1, 2, 2, 2, 3])
        self.x = self.image(rank)
        name = "max" if self.numbers == "special" else self.random.choice(["max", "avg"])
        if rank == 2 and self.chance(0.2):
            return f"nn.global_{name}_pool2d({self.take(self.x)})"
        sizes = [1, 2, 4] if name == "avg" and self.numbers == "exact" else [1, 2, 3]
        pool = [self.random.choice(sizes) for _ in range(rank)]
        padding = [self.random.randint(0, min((k - 1) // 2 + self.chance(0.2), k - 1)) for k in pool * 2]
        if not self.has_windows(pool, padding):
            raise Unfit
        more = f", count_include_pad={self.chance(0.5)}" if name == "avg" else ""
        strides = self.numbers_of(rank, 1, 2)
        attrs = f"pool_size={pool}, strides={strides}, padding={padding}{more}"
        return f"nn.{name}_pool{rank}d({self.take(self.x)}, {attrs})"


class _InexactError(Exception):
    """A value on the way that its dtype does not hold exactly."""


def is_exact(text: str, values: Mapping[str, object], function: str) -> bool:
    """Whether every order of operations gives the same: all values on the way are small, and sums."""
    dtypes = [
        each.dtype.name
        for value in values.values()
        for each in (value if isinstance(value, tuple) else (value,))
    ]
    limit = min((_LIMITS[dtype] for dtype in dtypes if dtype != "bool"), default=2**16)
    low = 0 if "uint8" in dtypes else -limit

    def check(_: Expr, value: object) -> None:
        for each in value if isinstance(value, tuple) else (value,):
            if not isinstance(each, np.ndarray) or each.dtype.kind == "b" or not each.size:
                continue
            parts = each * 256 if each.dtype.kind == "f" else each
            if not (np.all(each >= low) and np.all(each <= limit) and np.all(parts == np.trunc(parts))):
                raise _InexactError

    def check_sums(node: Expr, value: object) -> None:
        is_sum = is_linear(node) or (isinstance(node, Call) and function in ("prod", "cumprod"))
        if is_sum and isinstance(value, np.ndarray) and np.abs(value).max(initial=0) > limit:
            raise _InexactError

    least = 1 if function in ("prod", "cumprod") else 0
    sizes = {name: _sizes_of(value, least) for name, value in values.items()}
    try:
        evaluate(text, values, check)
        evaluate(text, sizes, check_sums)
    except _InexactError:
        return False
    except (ValueError, IndexError):  # sizes are no indices
        return True
    return True


def _sizes_of(value: object, least: int) -> object:
    if isinstance(value, tuple):
        return tuple(_sizes_of(each, least) for each in value)
    assert isinstance(value, np.ndarray)
    return value if value.dtype == bool else np.asarray(np.maximum(np.abs(value), least)).astype(value.dtype)


def _is_bounded(value: object) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return all(np.all(np.abs(each.astype(np.float64)) < 200) for each in values)
