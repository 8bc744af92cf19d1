"""Write the loops of fast Fourier transforms, of a length that is known at compile time or only at the call.

Many short sequences are transformed side by side, in the lanes of vectors; others one by one, as matrices. A
length with a large prime factor is a convolution of a length without (Bluestein, 1970).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from nnmagic.engine.relax.legalize import fourier_numbers as numbers
from nnmagic.engine.relax.legalize.fourier_butterflies import RADICES, Halves
from nnmagic.engine.relax.legalize.fourier_passes import Columns, Load, SequenceMatrix, Store
from nnmagic.engine.relax.schedules.independent_loops import independent_loop
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import as_expr, at_least, branch, loop, sequence, static_int
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, Stmt

#: The bytes of the vectors. LLVM splits those that the machine has not.
_VECTOR_BYTES = 64

#: The longest sequences of which a vector's lanes are transformed at once: they stay in the second cache.
_LONGEST_COLUMN = 2048

#: How many operations on elements one element of a transform counts as.
_OPERATIONS = 32


@dataclass(frozen=True, slots=True)
class TransformSizes:
    """The sizes of a transform along the middle one of three axes.

    outer, inner: those of the other axes. given, length, kept: that of the axis of the operand, of the
    transform and of the result. kind: "complex", "from real" or "to real"; a real one's spectrum is a half,
    the other half is its conjugate.
    """

    outer: Extent
    inner: Extent
    given: Extent
    length: Extent
    kept: Extent
    kind: str = "complex"

    @property
    def total(self) -> Extent:
        """Return the number of sequences."""
        return self.outer * self.inner

    def begin(self, number: PrimExpr, size: Extent) -> PrimExpr:
        """Return where a sequence begins in an array whose axis has this size."""
        if static_int(self.inner) == 1:
            return number * size
        inner = as_expr(builders.maximum(self.inner, 1))
        return tirx.floordiv(number, inner) * size * inner + tirx.floormod(number, inner)


class Fourier:
    """The loops of a transform, in float32 or float64.

    A single sequence of real numbers, of an even length, is one of half as many complex numbers (Cooley,
    Lewis and Welch, 1970).

    Args:
        load: returns the numbers from a place of the operand on, counted over all axes.
        store: stores those of the result.
        frame: the sizes.
        dtype: that of the computation.
        inverse: whether the signs of the angles are positive.
        exponent: the results are multiplied by this power of the length.

    """

    def __init__(
        self, load: Load, store: Store, frame: TransformSizes, dtype: str, *, inverse: bool, exponent: float
    ) -> None:
        self.load, self.store, self.frame, self.dtype = load, store, frame, dtype
        self.inverse, self.exponent = inverse, exponent
        self.n = as_expr(frame.length)
        self.lanes = 1 if builders.is_for_gpu() else _VECTOR_BYTES // builders.item_bytes(dtype)
        self.scale = tirx.Var("scale", dtype)
        self.is_dense = static_int(frame.inner) == 1
        #: The number of complex numbers of a single sequence, and whether two real ones make one of them.
        self.points: Extent = frame.length
        self.is_packed: PrimExpr | bool = False
        self.roots = numbers.Roots(frame.length)
        static_length = static_int(frame.length)
        if frame.kind != "complex":
            self.is_packed = (
                tirx.floormod(self.n, 2) == 0 if static_length is None else static_length % 2 == 0
            )
            self.points = tirx.Var("points", "int64")
        if self.is_packed is True:
            self.points = (static_length or 0) // 2

    def emit(self) -> Stmt:
        """Return the loops."""
        frame, static_length = self.frame, static_int(self.frame.length)
        if static_length == 0 or static_int(frame.total) == 0:
            return tirx.Evaluate(0)
        value = tirx.const(1, numbers.WIDE)
        if self.exponent:
            size = self.n.astype(numbers.WIDE)
            value = value / (size if self.exponent == -1 else tirx.sqrt(size))
        statements = [tirx.Bind(self.scale, value.astype(self.dtype))]
        if isinstance(self.points, tirx.Var) and frame.kind != "complex":
            half = tirx.if_then_else(self.is_packed, tirx.floordiv(self.n, 2), self.n)
            statements.append(tirx.Bind(self.points, half))
        halves = Halves(self.points)
        if static_length is not None and not halves.is_known:
            return sequence([*statements, self._by_convolution()])
        is_short = self.n <= _LONGEST_COLUMN if static_length is None else static_length <= _LONGEST_COLUMN
        choice = branch(
            at_least(frame.total * 2, self.lanes),
            lambda: branch(is_short, self._by_columns, self._by_matrix),
            self._by_matrix,
        )
        if static_length is None:
            choice = tirx.IfThenElse(halves.rest == 1, choice, self._by_convolution())
        loops = sequence([*statements, *halves.make(), choice])
        # The factors of 0 would never end.
        return loops if static_length is not None else tirx.IfThenElse(self.n > 0, loops, None)

    def given(self, base: PrimExpr, k: PrimExpr, lanes: int = 1) -> numbers.Number:
        """Return elements of a sequence; for the inverse transform with their parts exchanged."""
        value = self.load(base + k * self.frame.inner, lanes)
        return numbers.swap(value) if self.inverse else value

    def put(self, base: PrimExpr, k: PrimExpr, value: numbers.Number, lanes: int = 1) -> Stmt:
        """Store elements of a result."""
        result = self._result(value, lanes)
        return self.store(base + k * self.frame.inner, result, lanes)

    def _result(self, value: numbers.Number, lanes: int = 1) -> numbers.Number:
        if self.exponent:
            factor = builders.broadcast(self.scale, lanes)
            value = value[0] * factor, value[1] * factor
        return numbers.swap(value) if self.inverse else value

    def bases(self, number: PrimExpr) -> tuple[list[Stmt], PrimExpr, PrimExpr]:
        """Return where a sequence begins in the operand and in the result, behind statements for these."""
        source, target = tirx.Var("source", "int64"), tirx.Var("target", "int64")
        frame = self.frame
        begins = [
            tirx.Bind(var, frame.begin(number, size))
            for var, size in ((source, frame.given), (target, frame.kept))
        ]
        return begins, source, target

    def _shared(self, groups: Stmt, sequences: int) -> Stmt:
        """Let threads share the groups of so many sequences."""
        length = static_int(self.frame.length)
        if length is None or not isinstance(groups, tirx.For):
            return groups
        return independent_loop(groups, length * sequences * _OPERATIONS)

    # Many sequences: as many at once as a vector has lanes

    def _by_columns(self) -> Stmt:
        """Transform groups of sequences, the next ones in memory; the last group may repeat some."""
        frame, lanes, roots = self.frame, self.lanes, numbers.Roots(self.frame.length)
        allocation, (turns,) = numbers.pairs(self.dtype, self.n)
        is_wide = at_least(frame.inner, lanes)
        across = as_expr(builders.round_up_div(frame.inner, lanes))

        def fill(k: PrimExpr) -> Stmt:
            return turns.store(k, numbers.cast(roots.root(k), self.dtype))

        def first_of(group: PrimExpr) -> PrimExpr:
            """Return the first sequence of a group of neighbours along the inner axes."""
            # The last group of columns is moved back to end with them: some sequences are
            # transformed twice.
            column = tirx.min(tirx.floormod(group, across) * lanes, as_expr(frame.inner) - lanes)
            return tirx.floordiv(group, across) * frame.inner + column

        def transform(group: PrimExpr) -> Stmt:
            allocation, (data,) = numbers.pairs(self.dtype, self.n * (2 * lanes))
            columns = Columns(data, lanes, self.n)
            arrays = [builders.local_array(lanes, "int64", name) for name in ("sources", "targets")]

            def find(lane: PrimExpr) -> Stmt:
                any_ = tirx.min(group * lanes + lane, as_expr(frame.total) - 1)
                number = _choose(is_wide, lambda: first_of(group) + lane, lambda: any_)
                begins = (frame.begin(number, size) for size in (frame.given, frame.kept))
                stores = zip(arrays, begins, strict=True)
                return sequence([tirx.BufferStore(array, begin, [lane]) for array, begin in stores])

            ends = (lambda lane, array=array: array[as_expr(lane)] for array in arrays)
            return sequence(
                [
                    *allocation,
                    *map(tirx.AllocBuffer, arrays),
                    loop("lane", lanes, find),
                    *columns.begin(),
                    self._load(columns, next(ends), is_wide),
                    columns.transform(frame.length, turns),
                    self._store(columns, next(ends), is_wide),
                ]
            )

        outer, any_ = frame.outer * across, builders.round_up_div(frame.total, lanes)
        count = _choose(is_wide, lambda: as_expr(outer), lambda: as_expr(any_))
        groups = self._shared(loop("group", builders.as_index(count), transform), lanes)
        return sequence([*roots.make(), *allocation, loop("k", self.n, fill), groups])

    def _load(self, columns: Columns, source: Callable[[Index], PrimExpr], is_wide: PrimExpr | bool) -> Stmt:
        """Fill columns: by vectors of neighbours, by squares of rows, or else by elements."""
        lanes, rows = self.lanes, self.frame.given

        def by_rows() -> Stmt:
            return columns.load_rows(rows, lambda k: self.given(source(0), k, lanes))

        def by_squares() -> Stmt:
            return columns.load_squares(rows, lambda lane, k: self.given(source(lane), k, lanes))

        def by_lanes() -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                return columns.load_lane(lane, rows, partial(self.given, source(lane)))

            return loop("lane", lanes, of_lane)

        def mirror(k: PrimExpr) -> Stmt:
            im, re = columns.data.load(columns.at(self.n - rows - k), lanes)
            return columns.data.store(columns.at(k + rows), (-im, re), lanes)

        square = at_least(rows, lanes) if self.is_dense and lanes > 1 else False
        loaded = branch(is_wide, by_rows, lambda: branch(square, by_squares, by_lanes))
        return (
            sequence([loaded, numbers.each(self.n - rows, mirror)])
            if self.frame.kind == "to real"
            else loaded
        )

    def _store(self, columns: Columns, target: Callable[[Index], PrimExpr], is_wide: PrimExpr | bool) -> Stmt:
        """Store the results of columns in the same ways."""
        lanes, stored = self.lanes, self.frame.kept

        def by_rows() -> Stmt:
            return columns.store_rows(stored, lambda k, value: self.put(target(0), k, value, lanes))

        def by_squares() -> Stmt:
            return columns.store_squares(
                stored, lambda lane, k, value: self.put(target(lane), k, value, lanes)
            )

        def by_lanes() -> Stmt:
            def of_lane(lane: PrimExpr) -> Stmt:
                return columns.store_lane(lane, stored, partial(self.put, target(lane)))

            return loop("lane", lanes, of_lane)

        square = at_least(stored, lanes) if self.is_dense and lanes > 1 else False
        return branch(is_wide, by_rows, lambda: branch(square, by_squares, by_lanes))

    # Few or long sequences: one after the other

    def _by_matrix(self) -> Stmt:
        frame = self.frame
        matrix = SequenceMatrix(self.points, self.dtype, self.lanes)
        allocation, (work,) = numbers.pairs(self.dtype, self.points)

        def transform(number: PrimExpr) -> Stmt:
            bound, source, target = self.bases(number)
            begin = [*bound, *matrix.allocation]
            if frame.kind == "complex" and self.is_dense:
                whole = matrix.transform(partial(self.given, source), partial(self.put, target))
                return sequence([*begin, whole])
            return sequence(
                [
                    *begin,
                    *allocation,
                    self.enter(source, work.store),
                    matrix.transform_array(work),
                    self.leave(work.load, target),
                ]
            )

        sequences = self._shared(loop("sequence", frame.total, transform), 1)
        return sequence([*self.make_roots(), *matrix.prepare(), sequences])

    def make_roots(self) -> list[Stmt]:
        """Return the statements that make what ``enter`` and ``leave`` need."""
        return [] if self.is_packed is False else self.roots.make()

    def enter(self, source: PrimExpr, put: Callable[[PrimExpr, numbers.Number], Stmt]) -> Stmt:
        """Give the points of a sequence to ``put``."""

        def plain() -> Stmt:
            if self.frame.kind != "to real":
                return numbers.each(self.points, lambda k: put(k, self.given(source, k)))
            is_mirrored, index = tirx.Var("is_mirrored", "bool"), tirx.Var("own", "int64")

            def mirror(k: PrimExpr) -> Stmt:
                im, re = self.given(source, index)
                value = tirx.Select(is_mirrored, -im, im), re
                bound = tirx.Bind(index, tirx.min(k, self.n - k)), tirx.Bind(is_mirrored, k > self.n - k)
                return sequence([*bound, put(k, value)])

            return numbers.each(self.points, mirror)

        def packed() -> Stmt:
            return numbers.each(self.points, lambda k: put(k, self._pack(source, k)))

        return branch(self.is_packed, packed, plain)

    def _pack(self, source: PrimExpr, k: PrimExpr) -> numbers.Number:
        """Return a point that stands for two real numbers, or for two frequencies."""
        inner = self.frame.inner
        if self.frame.kind == "from real":
            # 2 n real numbers are transformed as n complex ones, even elements as real and odd ones
            # as imaginary parts, and taken apart afterwards (Sorensen et al., Real-valued fast
            # Fourier transform algorithms, 1987).
            return self.load(source + k * 2 * inner, 1)[0], self.load(source + (k * 2 + 1) * inner, 1)[0]
        x, (re, im) = self.load(source + k * inner, 1), self.load(source + (self.points - k) * inner, 1)
        zero = tirx.const(0, self.dtype)  # instead of the imaginary parts of the first and the last frequency
        x, im = (x[0], tirx.Select(k == 0, zero, x[1])), tirx.Select(k == 0, zero, im)
        total, difference = (x[0] + re, x[1] - im), (x[0] - re, x[1] + im)
        cosine, sine = numbers.cast(self.roots.root(k), self.dtype)
        turned = numbers.times(difference, (sine, cosine))  # i exp(2 pi i k / n)
        return numbers.swap((total[0] + turned[0], total[1] + turned[1]))

    def leave(self, get: Callable[[PrimExpr], numbers.Number], target: PrimExpr) -> Stmt:
        """Store a result, whose points ``get`` returns."""

        def plain() -> Stmt:
            return numbers.each(self.frame.kept, lambda k: self.put(target, k, get(k)))

        def packed() -> Stmt:
            if self.frame.kind == "from real":
                return numbers.each(self.frame.kept, lambda k: self.put(target, k, self._unpack(get, k)))
            return numbers.each(self.points, lambda k: self._put_both(target, k, get(k)))

        return branch(self.is_packed, packed, plain)

    def _unpack(self, get: Callable[[PrimExpr], numbers.Number], k: PrimExpr) -> numbers.Number:
        """Return a frequency of real numbers, two of which were a point."""
        last = k == self.points
        x = get(tirx.if_then_else(last, as_expr(0), k))
        re, im = get(tirx.if_then_else(tirx.any(k == 0, last), as_expr(0), self.points - k))
        half = tirx.const(0.5, self.dtype)
        total, difference = (x[0] + re, x[1] - im), (x[0] - re, x[1] + im)
        cosine, sine = numbers.cast(self.roots.root(k), self.dtype)
        turned = numbers.times(difference, (sine, -cosine))  # -i exp(-2 pi i k / n)
        return (total[0] + turned[0]) * half, (total[1] + turned[1]) * half

    def _put_both(self, target: PrimExpr, k: PrimExpr, value: numbers.Number) -> Stmt:
        """Store the two real numbers of a point."""
        re, im = self._result(value)
        places = (target + (k * 2 + component) * self.frame.inner for component in (0, 1))
        return sequence(
            [
                self.store(place, (component, component), 1)
                for place, component in zip(places, (re, im), strict=True)
            ]
        )

    def _by_convolution(self) -> Stmt:
        """Transform sequences as convolutions with a chirp."""
        static_points = static_int(self.points)
        if static_points is not None:
            # Bluestein's algorithm (1970): the circular convolution must be at least 2 n - 1 long
            # to hold the linear one. The next power of two is taken, for which the factors are 4
            # and 2.
            return _Convolution(self, 1 << (2 * static_points - 2).bit_length()).statements()
        size, padded = numbers.State(), tirx.Var("padded", "int64")
        return sequence(
            [
                tirx.AllocBuffer(size.array),
                size.set(1),
                tirx.While(size.get() < as_expr(self.points) * 2 - 1, size.set(size.get() * 2)),
                tirx.Bind(padded, size.get()),
                _Convolution(self, padded).statements(),
            ]
        )


def _choose(condition: PrimExpr | bool, yes: Callable[[], PrimExpr], no: Callable[[], PrimExpr]) -> PrimExpr:
    """Return one of two values, or which one only the call knows."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    return tirx.if_then_else(condition, yes(), no())


class _Convolution:
    """Transforms as convolutions with a chirp, of a length that is a power of two.

    ``X[k] = c[k] sum(x[j] c[j] / c[k - j])`` with ``c[k] = exp(-i pi k**2 / n)``.
    """

    def __init__(self, fourier: Fourier, size: Extent) -> None:
        self.fourier, self.n, self.size = fourier, as_expr(fourier.points), as_expr(size)
        self.dtype = fourier.dtype
        radices = RADICES if static_int(size) is None else (4, 2)  # of all lengths, passes are compiled once
        self.matrix = SequenceMatrix(size, self.dtype, fourier.lanes, radices)
        sizes = self.size, self.n, self.size
        self.allocation, (self.work, self.chirp, self.spectrum) = numbers.pairs(self.dtype, *sizes)

    def statements(self) -> Stmt:
        """Return the statements; the first task is to transform what each sequence is convolved with."""
        angles = numbers.Roots(builders.as_index(self.n) * 2)

        def fill_chirp(k: PrimExpr) -> Stmt:
            # The angle is reduced in integers: k * k / n as a float would lose its fraction for
            # large k.
            root = angles.root(tirx.floormod(k * k, self.n * 2))
            return self.chirp.store(k, numbers.cast(root, self.dtype))

        return sequence(
            [
                *self.fourier.make_roots(),
                *self.matrix.prepare(),
                *angles.make(),
                *self.allocation,
                *self.matrix.allocation,
                loop("k", self.n, fill_chirp),
                loop("task", as_expr(self.fourier.frame.total) * 2 + 1, self._do),
            ]
        )

    def _do(self, task: PrimExpr) -> Stmt:
        """Transform the inverse chirp (task 0), a sequence times the chirp, or the product of both."""
        work = self.work
        bound, source, target = self.fourier.bases(tirx.floordiv(tirx.max(task - 1, as_expr(0)), 2))
        is_product, is_first = tirx.floormod(task, 2) == 0, task == 0

        def put(k: PrimExpr, value: numbers.Number) -> Stmt:
            return work.store(k, numbers.times(value, self.chirp.load(k)))

        def get(k: PrimExpr) -> numbers.Number:
            # The inverse transform is the forward one with real and imaginary parts exchanged,
            # before and after.
            return numbers.times(numbers.swap(work.load(k)), self.chirp.load(k))

        def pad(k: PrimExpr) -> Stmt:
            zero = tirx.const(0, self.dtype)
            return work.store(self.n + k, (zero, zero))

        padded = sequence([self.fourier.enter(source, put), loop("k", self.size - self.n, pad)])
        enter = tirx.IfThenElse(is_product, loop("k", self.size, self._multiply), padded)
        leave = tirx.IfThenElse(is_product, self.fourier.leave(get, target), None)
        return sequence(
            [
                *bound,
                tirx.IfThenElse(is_first, loop("k", self.size, self._fill_filter), enter),
                self.matrix.transform_array(work),
                tirx.IfThenElse(is_first, loop("k", self.size, self._keep), leave),
            ]
        )

    def _fill_filter(self, k: PrimExpr) -> Stmt:
        # The filter is even, and wraps around: element `size - j` stands for -j.
        distance = tirx.min(k, self.size - k)
        re, im = self.chirp.load(tirx.min(distance, self.n - 1))
        inside, zero = distance < self.n, tirx.const(0, self.dtype)
        return self.work.store(k, (tirx.Select(inside, re, zero), tirx.Select(inside, -im, zero)))

    def _keep(self, k: PrimExpr) -> Stmt:
        re, im = self.work.load(k)
        divisor = self.size.astype(self.dtype)
        # The inverse transform's division by its length is made here, once for all sequences.
        return self.spectrum.store(k, (re / divisor, im / divisor))

    def _multiply(self, k: PrimExpr) -> Stmt:
        value = [tirx.Var(name, self.dtype) for name in ("re", "im")]
        bound = map(tirx.Bind, value, numbers.swap(numbers.times(self.work.load(k), self.spectrum.load(k))))
        return sequence([*bound, self.work.store(k, (value[0], value[1]))])
