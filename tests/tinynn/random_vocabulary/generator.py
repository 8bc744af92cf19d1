"""Write random cells over the whole vocabulary. NumPy runs each statement as it is written.

So no rule for any function says what a statement gives, which sizes it has, or whether it raises.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from tests.tinynn.python_twin import plain
from tests.tinynn.python_twin.names import NAMES
from tests.tinynn.python_twin.tensor import lift, lift_results
from tests.tinynn.random_vocabulary.forms import (
    ADDS,
    COMPLEX,
    COMPLEX_EXACT,
    CONTINUOUS,
    FUNCTIONS,
    MOVES,
    MULTIPLIES,
    NEURAL,
    NO_METHODS,
    ROUNDS,
    SYNTAX,
)
from tests.tinynn.random_vocabulary.helpers import python_functions
from tests.tinynn.random_vocabulary.program import (
    DTYPE_NAMES,
    DTYPES,
    WRITTEN,
    Program,
    Statement,
    Value,
    kind_of,
)
from tests.tinynn.random_vocabulary.special_forms import DERIVATIVES, FOURIER, HELPED, LINALG

CALLS = 4
#: The dtypes by the letter of a form; those that stand there twice are taken more often.
KINDS = {
    "b": ("bool_",),
    "i": ("i8", "i16", "i32", "i64", "i64"),
    "u": ("u8", "u16", "u32", "u64"),
    "f": ("f16", "f16", "bf16", "f32", "f32", "f32", "f64", "f64"),
    "c": ("c64", "c128"),
}
_KIND_LETTERS = "biiuuffffc"
_MOST_ELEMENTS = 5000
_MOST_RANK = 5
#: Names of the cell that the twin lacks, or that it gives Relay's parameters.
_NAMES = {
    **NAMES,
    **{name: DTYPES[name] for name in ("c64", "c128")},
    **{name: lift_results(getattr(np.linalg, name)) for name in LINALG},
    **{name: lift_results(getattr(np.fft, name)) for name in FOURIER},
    "sliding_window_view": lift_results(np.lib.stride_tricks.sliding_window_view),
    **{name: lift_results(function) for name, function in python_functions().items()},
    "pad": lift_results(np.pad),
    "sign": lift_results(lambda x: np.sign(x) + np.zeros((), np.asarray(x).dtype)),  # of bf16 it may be -0
}
_NAMES["__builtins__"] = {**NAMES["__builtins__"], "slice": slice, "Ellipsis": ...}  # type: ignore[dict-item]
_HOLE = re.compile(r"<([a-z]\w*)(?::([a-z]\d+(?=[ >])|[biufc]*) ?([\d-]*))?>")


class NoFillError(Exception):
    """A form that does not fit what the cell has."""


def run(text: str, values: dict[str, object]) -> object:
    """Evaluate an expression of a cell by Python over NumPy."""
    lifted = {name: lift(value) for name, value in values.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(eval(text, {**_NAMES, **lifted}))


@dataclass
class Generator:
    """Writes one cell, statement by statement."""

    random: random.Random
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    params: list[Value] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    tuples: dict[str, list[object]] = field(default_factory=dict)
    alive: list[int] = field(default_factory=lambda: list(range(CALLS)))
    count: int = 0

    def __post_init__(self) -> None:
        self.named = self.random.choice([0.0, 0.6, 0.6, 1.0])
        self.special = self.chance(0.15)
        names = ["n", "m", "k"]
        while len(self.sizes) < len(names):
            sizes = self.random.sample([0, 1, 2, 3], CALLS)
            if self.chance(0.3):
                sizes[self.random.randrange(CALLS)] = self.random.choice([17, 33])
            if tuple(sizes) not in self.sizes.values():
                self.sizes[names[len(self.sizes)]] = tuple(sizes)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new_name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    # -- parameters --------------------------------------------------------------------------------------

    def dim(self) -> int | str:
        if self.chance(self.named):
            return self.random.choice(["n", "n", "m", "k"])
        return self.random.choice([0, 1, 2, 3, 4, 17, 33] if self.chance(0.2) else [1, 2, 3])

    def size(self, dim: int | str, call: int) -> int:
        return dim if isinstance(dim, int) else self.sizes[dim][call]

    def new_param(self, dtype: str, dims: Sequence[int | str | None], values: Sequence[float] = ()) -> Value:
        """A parameter; its elements are small numbers, or some of ``values``. Raises NoFillError."""
        if None in dims or len(self.params) == 6:
            raise NoFillError
        known = [dim for dim in dims if dim is not None]
        shapes = [[self.size(dim, call) for dim in known] for call in range(CALLS)]
        if max(map(math.prod, shapes)) > _MOST_ELEMENTS:
            raise NoFillError
        arrays = tuple(self.array(dtype, shape, values) for shape in shapes)
        value = Value(self.new_name(), arrays, tuple(known), True)
        self.params.append(value)
        self.values[value.name] = value
        return value

    def array(self, dtype: str, shape: Sequence[int], values: Sequence[float]) -> np.ndarray:
        kind = kind_of(DTYPES[dtype].dtype)
        some: Sequence[float] = (
            values
            or {
                "b": (0, 1),
                "i": (-3, -2, -1, 0, 0, 1, 2, 3),
                "u": (0, 0, 1, 2, 3, 4),
                "f": (-3.0, -2.0, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0),
                "c": (-2.0, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0),
            }[kind]
        )
        if self.special and kind == "f":
            some = [*some, math.inf, -math.inf, math.nan]
        if kind == "c":
            parts = [[self.random.choice(some) for _ in range(math.prod(shape))] for _ in range(2)]
            numbers = np.array(parts[0]) + 1j * np.array(parts[1])
            return numbers.astype(DTYPES[dtype].dtype).reshape(shape)
        elements = [self.random.choice(some) for _ in range(math.prod(shape))]
        return np.array(elements, np.float64).astype(DTYPES[dtype].dtype).reshape(shape)

    # -- statements --------------------------------------------------------------------------------------

    def statement(self) -> None:
        """Write one more statement, with any function."""
        names = sorted([*FUNCTIONS, *SYNTAX, *HELPED])
        for _ in range(30):
            function = self.random.choice(names)
            form = self.random.choice({**FUNCTIONS, **SYNTAX, **HELPED}[function])
            before = len(self.params), self.count
            if self.write(function, form):
                return
            del self.params[before[0] :]
            self.count = before[1]
            known = {param.name for param in self.params} | {each.name for each in self.statements}
            self.values = {name: value for name, value in self.values.items() if name in known}

    def write(self, function: str, form: str) -> bool:
        """Write a statement of this form, if it can be filled and NumPy likes it more often than not."""
        filler = Filler(self, function)
        try:
            text = filler.fill(form)
        except NoFillError:
            return False
        text, _, twin = text.partition(" => ")
        if not twin and self.chance(0.15) and function not in NO_METHODS:
            text = re.sub(rf"^{re.escape(function)}\((v\d+)(?:, )?(.*)\)$", rf"\1.{function}(\2)", text)
        wide = function.startswith("nan") or function in {*NEURAL, "searchsorted", "digitize", "sort"}
        if wide and any(each.dtype == ml_dtypes.bfloat16 for each in filler.operands):
            return False  # NumPy looks for no NaN in bfloat16, and the twin's functions take none
        if self.special and (function in LINALG | DERIVATIVES or "grad" in function):
            return False  # NumPy's LAPACK does not always return from infinities and NaN
        if function in FOURIER and any(each.dtype == np.float16 for each in filler.operands):
            return False  # NumPy rounds the factor of the inverse to f16
        operands = tuple(dict.fromkeys(operand.name for operand in filler.operands))
        results, raises = self.evaluate(twin or text, operands)
        computed = [results[call] for call in self.alive if raises[call] is None]
        if not computed:
            if not self.chance(0.04):
                return False
        elif len(computed) < len(self.alive) and not self.chance(0.25):
            return False
        if not all(map(is_small, computed)):
            return False
        self.alive = [call for call in self.alive if raises[call] is None] or self.alive
        self.add(function, text, operands, results, raises, twin)
        return True

    def evaluate(
        self, text: str, operands: Sequence[str]
    ) -> tuple[dict[int, object], tuple[str | None, ...]]:
        """What each call gives, and what it raises."""
        results: dict[int, object] = {}
        raises: list[str | None] = [None] * CALLS
        for call in self.alive:
            try:
                results[call] = run(text, {name: self.operand(name, call) for name in operands})
            except Exception as error:  # noqa: BLE001, PERF203  # NumPy's refusal
                raises[call] = f"{type(error).__name__}: {error}"
        return results, tuple(raises)

    def operand(self, name: str, call: int) -> object:
        return self.tuples[name][call] if name in self.tuples else self.values[name].arrays[call]

    def add(
        self,
        function: str,
        text: str,
        operands: tuple[str, ...],
        results: dict[int, object],
        raises: tuple[str | None, ...],
        twin: str = "",
    ) -> None:
        name = self.new_name()
        given = [self.values[each] for each in operands if each in self.values]
        terms = tuple(count_terms(function, [value.arrays[call] for value in given]) for call in range(CALLS))
        computed = [results[call] for call in self.alive if call in results]
        dtypes = [np.dtype(np.float64), *(value.dtype for value in given)]
        rounds = function in ROUNDS or (
            function not in COMPLEX_EXACT and (any(map(is_complex, computed)) or "c" in map(kind_of, dtypes))
        )
        exact = (
            not rounds
            and all(value.exact for value in given)
            and all(map(is_exact, computed))
            and (function not in ADDS | MULTIPLIES or max(terms) <= min(map(_most_exact, dtypes)))
        )
        self.statements.append(Statement(name, text, function, operands, raises, exact, terms, twin))
        if not computed:
            return
        if isinstance(computed[0], tuple):
            self.tuples[name] = [results.get(call) for call in range(CALLS)]
            self.take_items(name, function, computed)
            return
        arrays = tuple(results.get(call) for call in range(CALLS))
        shapes = [np.shape(array) for array in computed]
        if all(isinstance(array, np.ndarray) for array in computed) and len({*map(len, shapes)}) == 1:
            dims = tuple(map(self.label, zip(*shapes, strict=True)))
            self.values[name] = Value(name, arrays, dims, exact)  # type: ignore[arg-type]

    def take_items(self, name: str, function: str, computed: Sequence[object]) -> None:
        lengths = {len(result) for result in computed if isinstance(result, tuple)}
        if len(lengths) != 1 or not (length := lengths.pop()):
            return
        text = f"{name}[{self.random.randrange(length)}]"
        results, raises = self.evaluate(text, [name])
        self.add(function, text, (name,), results, raises)

    def label(self, sizes: Sequence[int]) -> int | str | None:
        """The dimension that has these sizes in the calls that are left."""
        for name, known in self.sizes.items():
            if tuple(known[call] for call in self.alive) == tuple(sizes):
                return name
        return sizes[0] if len({*sizes}) == 1 else None


def is_small(result: object) -> bool:
    """Whether a result is small enough to go on with: a tensor, or a tuple of some."""
    if isinstance(result, tuple):
        return bool(result) and all(map(is_small, result))
    return (
        isinstance(result, np.ndarray)
        and result.dtype in DTYPE_NAMES
        and result.size <= _MOST_ELEMENTS
        and result.ndim <= _MOST_RANK
    )


def is_complex(result: object) -> bool:
    """Whether a result is of complex numbers, or a tuple with some."""
    return any(map(is_complex, result)) if isinstance(result, tuple) else np.iscomplexobj(result)


def is_exact(result: object) -> bool:
    if isinstance(result, tuple):
        return all(map(is_exact, result))
    if not isinstance(result, np.ndarray) or kind_of(result.dtype) not in "fc":
        return True
    if kind_of(result.dtype) == "c":
        return is_exact(result.real) and is_exact(result.imag)
    wide = result.astype(np.float64)
    finite, most = wide[np.isfinite(wide)], _most_exact(result.dtype)
    return bool(np.all((finite * 8 == np.rint(finite * 8)) & (abs(finite) <= most)))


def _most_exact(dtype: np.dtype) -> int:
    """Return up to which size multiples of 1/8, and their sums, are exact in a dtype of floats."""
    return 32 if dtype == ml_dtypes.bfloat16 else 256


def count_terms(function: str, arrays: Sequence[np.ndarray | None]) -> float:
    """How large the terms are altogether that a function adds, or the factors that it multiplies."""
    wide = [
        array if np.iscomplexobj(array) else array.astype(np.float64) for array in arrays if array is not None
    ]
    sizes = [np.abs(array).astype(np.float64) for array in wide]
    finite = [np.where(np.isfinite(size), size, 0) for size in sizes]
    if function in MULTIPLIES:
        with np.errstate(over="ignore"):
            return float(np.prod([np.prod(np.maximum(size, 1)) for size in finite]))
    if function in ADDS:
        return float(np.prod([max(1, np.sum(size)) for size in finite]))
    return float(max((np.max(size, initial=0) for size in finite), default=0))


class Filler:
    """Fills the holes of one form; ``operands`` are the values that it took."""

    def __init__(self, generator: Generator, function: str) -> None:
        self.cell = generator
        self.random = generator.random
        self.operands: list[Value] = []
        self.takes_inexact = function in MOVES or function in CONTINUOUS
        self.kinds = "biufc" if function in COMPLEX else "biuf"
        self.filled: dict[str, list[str]] = {}  # what each hole of the cell's text got, for the twin's
        self.joint = 0
        self.axis_text = "0"

    def fill(self, form: str) -> str:
        """The form as text of the cell. Raises NoFillError."""
        self.form = form
        if first := next((hole for hole in _HOLE.finditer(form) if hole[1] == "x"), None):
            self.x = self.pick(first[2] or self.kinds, *_ranks(first[3], 0 if "axis" not in form else 1))
        cell, arrow, twin = form.partition(" => ")
        text = _HOLE.sub(self._hole, cell)
        return text + arrow + _HOLE.sub(self._same_hole, twin)

    def _same_hole(self, hole: re.Match[str]) -> str:
        """What the same hole of the cell's text got; of several the first that is not yet taken."""
        if hole[1] == "x":
            return self.x.name
        texts = self.filled.get(hole[1])
        if texts is None:
            return self._hole(hole)
        return texts.pop(0) if len(texts) > 1 else texts[0]

    def _hole(self, hole: re.Match[str]) -> str:
        method: Callable[..., str] = getattr(self, f"_{hole[1]}")
        text = method(hole[2] or "", hole[3] or "") if hole[1] in ("x", "any") else method()
        self.filled.setdefault(hole[1], []).append(text)
        return text

    def take(self, value: Value) -> str:
        self.operands.append(value)
        return value.name

    def fits(self, value: Value) -> bool:
        alive = all(value.arrays[call] is not None for call in self.cell.alive)
        return alive and (value.exact or self.takes_inexact)

    def known(self, dtype: np.dtype | None = None) -> list[Value]:
        return [
            value
            for value in self.cell.values.values()
            if self.fits(value) and (dtype is None or value.dtype == dtype)
        ]

    def pick(self, kinds: str, low: int, high: int) -> Value:
        one = DTYPES.get(kinds)
        fit = [
            value
            for value in self.known(one.dtype if one else None)
            if (one or kind_of(value.dtype) in kinds) and low <= value.rank <= high
        ]
        if fit and self.cell.chance(0.65):
            return self.random.choice(fit[-4:])
        names = (
            (kinds,) if one else KINDS[self.random.choice([each for each in _KIND_LETTERS if each in kinds])]
        )
        rank = min(max(self.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4]), low), high)
        try:
            return self.cell.new_param(self.random.choice(names), [self.cell.dim() for _ in range(rank)])
        except NoFillError:
            if fit:
                return self.random.choice(fit)
            raise

    def of_dims(
        self, dims: Sequence[int | str | None], dtype: np.dtype, values: Sequence[float] = ()
    ) -> Value:
        """A value with these dimensions. Raises NoFillError."""
        fit = [value for value in self.known(dtype) if value.dims == tuple(dims) and None not in dims]
        if fit and not values and self.cell.chance(0.6):
            return self.random.choice(fit)
        return self.cell.new_param(DTYPE_NAMES[dtype], dims, values)

    # -- values ------------------------------------------------------------------------------------------

    def _x(self, _kinds: str, _ranks: str) -> str:
        return self.take(self.x)

    def _any(self, _kinds: str, ranks: str) -> str:
        low, high = _ranks(ranks, 0)
        fit = [value for value in self.known(self.x.dtype) if low <= value.rank <= high]
        if fit and self.cell.chance(0.7):
            return self.take(self.random.choice(fit))
        rank = min(self.random.randint(max(low, 1), 2), high)
        dims = [self.cell.dim() for _ in range(rank)]
        return self.take(self.cell.new_param(DTYPE_NAMES[self.x.dtype], dims))

    def _other(self) -> str:
        return self._any("", "0-2")

    def _y(self) -> str:
        """What broadcasts with the first operand."""
        if self.cell.chance(0.2):
            return self._number()
        if self.cell.chance(0.03):
            return self.take(self.pick("biuf", 0, 2))  # another dtype, or another shape
        dims = self.x.dims
        fit = [
            value
            for value in self.known(self.x.dtype)
            if value.rank <= len(dims)
            and all(a in (b, 1) for a, b in zip(value.dims[::-1], dims[::-1], strict=False))
            and None not in value.dims
        ]
        if fit and self.cell.chance(0.6):
            return self.take(self.random.choice(fit))
        cut = dims[self.random.randint(0, len(dims)) if self.cell.chance(0.4) else 0 :]
        wanted = [1 if self.cell.chance(0.2) else dim for dim in cut]
        try:
            return self.take(self.of_dims(wanted, self.x.dtype))
        except NoFillError:
            return self.take(self.x)

    def _array(self) -> str:
        """What broadcasts with the first operand, and is no number."""
        try:
            return self.take(self.of_dims(self.x.dims[self.random.randint(0, self.x.rank) :], self.x.dtype))
        except NoFillError:
            return self.take(self.x)

    def _same(self) -> str:
        try:
            return self.take(self.of_dims(self.x.dims, self.x.dtype))
        except NoFillError:
            return self.take(self.x)

    def _same_as_last(self) -> str:
        last = self.operands[-1]
        return self.take(self.of_dims(last.dims, last.dtype))

    def _mask(self) -> str:
        try:
            return self.take(self.of_dims(self.x.dims, np.dtype(bool)))
        except NoFillError:
            return f"({self.take(self.x)} != 0)"

    def _matrix(self) -> str:
        if not self.x.rank:
            raise NoFillError
        batch = self.x.dims[:-2] if self.cell.chance(0.3) else ()
        dims = [*batch, self.x.dims[-1], self.cell.dim()]
        return self.take(
            self.of_dims(dims[:1] if self.cell.chance(0.2) and not batch else dims, self.x.dtype)
        )

    def _joined(self) -> str:
        self.joint = self.random.randrange(self.x.rank)
        dims = list(self.x.dims)
        dims[self.joint] = self.cell.dim()
        return self.take(self.of_dims(dims, self.x.dtype))

    def _index_array(self) -> str:
        dims = [self.cell.dim() for _ in range(self.random.choice([0, 1, 1, 2]))]
        dtype = np.dtype(self.random.choice([np.int64, np.int64, np.int32]))
        return self.take(self.of_dims(dims, dtype, (0, 0, 0, 1, -1)))

    # -- numbers -----------------------------------------------------------------------------------------

    def _number(self) -> str:
        if kind_of(self.x.dtype) == "b":
            return self.random.choice(["True", "False"])
        low = 0 if kind_of(self.x.dtype) == "u" else -2
        number = self.random.randint(low, 3)
        if kind_of(self.x.dtype) == "c" and self.cell.chance(0.3):
            return f"{number}j"
        return str(number + 0.5 if kind_of(self.x.dtype) == "f" and self.cell.chance(0.3) else number)

    def _count(self) -> str:
        return str(self.random.choice([0, 1, 1, 2, 2, 3]))

    def _pieces(self) -> str:
        return str(self.random.choice([1, 2, 3]))

    def _k(self) -> str:
        return str(self.random.choice([-2, -1, 0, 1, 2, 3]))

    def _step(self) -> str:
        return str(self.random.choice([-2, -1, 1, 2, 3]))

    def _rank(self) -> str:
        return str(self.random.randint(0, self.x.rank))

    # -- dtypes ------------------------------------------------------------------------------------------

    def _dtype(self) -> str:
        return self.random.choice([name for names in KINDS.values() for name in names])

    def _number_dtype(self) -> str:
        return self.random.choice([*KINDS["i"], *KINDS["u"], *KINDS["f"]])

    def _float_dtype(self) -> str:
        return self.random.choice(KINDS["f"])

    def _dtype_of_x(self) -> str:
        return DTYPE_NAMES[self.x.dtype]

    def _wider(self) -> str:
        return self.random.choice(
            {
                "b": ["i64", "f32", "i32"],
                "i": ["i64", "f64"],
                "u": ["u64", "f32"],
                "f": ["f64", "f32"],
                "c": ["c128"],
            }[kind_of(self.x.dtype)]
        )

    def _cast(self) -> str:
        """A dtype that holds all the numbers that are converted."""
        if kind_of(self.x.dtype) == "c":
            return "c128" if not self.x.exact else self.random.choice(KINDS["c"])
        arrays = [array for array in self.x.arrays if array is not None]
        numbers = np.concatenate([array.ravel().astype(np.float64) for array in arrays])
        if not self.x.exact:
            return "f64"
        fit = [*KINDS["b"], *KINDS["f"]]
        if np.all(np.isfinite(numbers)):
            for name in [*KINDS["i"], *KINDS["u"]]:
                ends = np.iinfo(DTYPES[name].dtype)
                if np.all((ends.min <= numbers) & (numbers < ends.max)):
                    fit.append(name)
        largest = np.max(np.abs(numbers), initial=0, where=np.isfinite(numbers))
        fit = [
            name for name in fit if name not in ("f16", "bf16") or largest <= _most_exact(DTYPES[name].dtype)
        ]
        return self.random.choice(fit)

    # -- axes and shapes ---------------------------------------------------------------------------------

    def _axis(self) -> str:
        rank = self.x.rank
        axis = self.random.randrange(rank) if rank and not self.cell.chance(0.02) else rank
        self.axis_text = str(axis - rank if self.cell.chance(0.4) and axis < rank else axis)
        return self.axis_text

    def _last_axis(self) -> str:
        return self.axis_text

    def _join_axis(self) -> str:
        return str(self.joint)

    def _axes(self) -> str:
        match self.random.randrange(8):
            case 0:
                return "None"
            case 1 | 2:
                count = self.random.randint(0, self.x.rank)
                axes = self.random.sample(range(self.x.rank), count)
                return str(tuple(axes))
            case _:
                return self._axis() if self.x.rank else "None"

    def _two_axes(self) -> str:
        one, other = self.random.sample(range(self.x.rank), 2)
        return f"({one}, {other - self.x.rank if self.cell.chance(0.5) else other})"

    def _new_axis(self) -> str:
        return str(self.random.randint(-self.x.rank - 1, self.x.rank))

    def _single(self) -> str:
        axes = [axis for axis, dim in enumerate(self.x.dims) if dim == 1]
        return str(self.random.choice(axes)) if axes else self._axis()

    def _permutation(self) -> str:
        return str(tuple(self.random.sample(range(self.x.rank), self.x.rank)))

    def _shape(self) -> str:
        parts = [str(self.random.choice([0, 1, 2, 3])) for _ in range(self.random.choice([0, 1, 2, 2, 3]))]
        fit = [value for value in self.known() if value.rank]
        if fit and self.cell.chance(0.5):
            value = self.random.choice(fit)
            parts.append(f"{self.take(value)}.shape[{self.random.randrange(value.rank)}]")
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _reshape(self) -> str:
        x, rank = self.x.name, self.x.rank
        options = ["-1", "(-1,)", "(1, -1)", "(-1, 1)", f"{x}.shape[::-1]", f"{x}.size", f"(1,) + {x}.shape"]
        options += [f"({x}.size // 1, 1)", f"{x}.shape + (1,)"]
        if rank:
            options += [f"({x}.shape[0], -1)", f"(-1, {x}.shape[-1])", f"(-1, {x}.shape[0])"]
            options += [f"(1, {x}.shape[0], -1)"]
        if rank >= 2:
            options += [f"({x}.shape[0] * {x}.shape[1], -1)", f"(-1, *{x}.shape[1:])"]
            options += [f"({x}.shape[1], {x}.shape[0], -1)", f"(*{x}.shape[:-2], -1)"]
        if rank >= 3:
            options += [
                f"({x}.shape[0], {x}.shape[1] * {x}.shape[2], -1)",
                f"(-1, {x}.shape[1] * {x}.shape[2])",
            ]
        return self.random.choice(options)

    def _indices(self) -> str:
        return self.random.choice(["0", "-1", "[0]", "[0, -1]", "[1, 0, 1]", "[[0, 0], [0, -1]]"])

    def _subscript(self) -> str:
        parts: list[str] = []
        options = [
            "0",
            "-1",
            ":",
            ":",
            "1:",
            ":-1",
            "::2",
            "::-1",
            "-2:",
            "2:0:-1",
            "::-2",
            "1:2",
            "3:",
            "0:0",
        ]
        for axis in range(self.random.randint(1, self.x.rank)):
            if self.cell.chance(0.1):
                parts.append("None")
            if self.cell.chance(0.08):
                parts.append(self.random.choice(["[0]", "[0, -1]", self._index_array()]))
            elif self.cell.chance(0.08):
                size = f"{self.x.name}.shape[{axis}]"
                parts.append(
                    self.random.choice([f":{size} // 2", f"{size} - 1:", f"{size} // 2:", f"-{size}:"])
                )
            else:
                parts.append(self.random.choice(options))
        if self.cell.chance(0.15):
            parts.insert(self.random.choice([0, len(parts)]), "...")
        return ", ".join(parts)

    def _einsum(self) -> str:
        equations = (
            "ij,jk->ik ij->ji ij-> ij->j i,i-> i,i i,j->ij ij,ij->i bij,bjk->bik bij,jk->bik ii->i ii "
            "ij,j->i ijk->kij ij,jk,kl->il i,ij,j-> bi,bj->bij ...i->... ...i,...i->... ij,kj"
        )
        equation = self.random.choice(equations.split())
        letters = {letter: self.cell.dim() for letter in "bijkl"}
        dtype = np.dtype(DTYPES[self.random.choice(KINDS[self.random.choice(_KIND_LETTERS)])].dtype)
        batch = [self.cell.dim()]
        names = []
        for part in equation.split("->")[0].split(","):
            dims = [*(batch if part.startswith("...") else ()), *map(letters.get, part.replace(".", ""))]
            names.append(self.take(self.of_dims(dims, dtype)))
        return f"'{equation}', {', '.join(names)}"


def _ranks(text: str, low: int) -> tuple[int, int]:
    """``"1-3"``, ``"2"`` or nothing as bounds."""
    if not text:
        return low, 4
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def program(seed: int) -> Program:
    """The cell of a seed; the same on every machine, for this version of the forms."""
    generator = Generator(random.Random(seed))
    for _ in range(generator.random.randint(3, 8)):
        generator.statement()
        if generator.statements and generator.statements[-1].always_raises:
            break
    used = {operand for statement in generator.statements for operand in statement.operands}
    params = tuple(param for param in generator.params if param.name in used)
    if generator.chance(0.1):
        ways = [generator.random.choice(list(WRITTEN)) for _ in params]
        params = tuple(replace(param, written=way) for param, way in zip(params, ways, strict=True))
    return Program(params, tuple(generator.statements), generator.values, CALLS)
