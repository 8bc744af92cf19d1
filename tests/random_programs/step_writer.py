"""Write programs of one call a line from forms. NumPy runs each statement as it is written.

So no rule for any function says what a statement gives, which sizes it has, or whether it raises.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tests.random_programs.environment import Unfit, Value
from tests.random_programs.families.forms import (
    ADDS,
    COMPLEX,
    COMPLEX_EXACT,
    CONTINUOUS,
    MOVES,
    MULTIPLIES,
    NO_METHODS,
    ROUNDS,
)
from tests.random_programs.program import choose
from tests.random_programs.steps import Language, Statement, Steps
from tests.random_programs.writer import Grammar, Writer

_MOST_ELEMENTS = 5000
_MOST_RANK = 5
#: How often another form is tried where one does not fit.
_TRIES = 30


@dataclass(frozen=True)
class Profile:
    """What programs of steps are made of.

    Args:
        language: in which they are written.
        forms: how each function is called: text with holes.
        kinds: the dtypes by the letter of a form; those that stand there twice are taken more often.
        letters: the kinds of a new parameter.
        dims: static dimensions.
        more_dims: others, which are taken less often.
        values: the numbers of each kind.
        grammar: further symbols of the forms.
        weights: how often functions are taken, beside those that are taken once.
        most_params: how many parameters a program may have.
        reuse: how often the first operand is a value that is there already.
        inexact: whether every function takes inexact numbers.

    """

    language: Language
    forms: Mapping[str, Sequence[str]]
    kinds: Mapping[str, Sequence[str]]
    letters: str
    dims: Sequence[int]
    more_dims: Sequence[int]
    values: Mapping[str, Sequence[float]]
    grammar: Grammar = field(default_factory=lambda: Grammar({}))
    weights: Mapping[str, float] = field(default_factory=dict)
    most_params: int = 6
    reuse: float = 0.65
    inexact: bool = False


class StepWriter(Writer):
    """Writes one program by a profile; ``sizes``: the size of each named dimension in each call."""

    def __init__(
        self,
        profile: Profile,
        chance: random.Random,
        sizes: Mapping[str, Sequence[int]],
        *,
        named: float,
        calls: int,
    ) -> None:
        super().__init__(profile.grammar, chance)
        self.profile, self.language = profile, profile.language
        self.sizes, self.named = sizes, named
        self.number_of_calls = calls
        self.special = False
        self.statements: list[Statement] = []
        self.values: dict[str, Value] = {}
        self.tuples: dict[str, list[object]] = {}
        self.alive = list(range(self.number_of_calls))
        self.count = -1

    # -- parameters --------------------------------------------------------------------------------------

    def dim(self) -> int | str:
        if self.sizes and self.chance(self.named):
            first, *others = self.sizes
            return self.random.choice([first, first, *others])
        return self.random.choice(self.profile.more_dims if self.chance(0.2) else self.profile.dims)

    def size_of(self, dim: int | str, call: int) -> int:
        return dim if isinstance(dim, int) else self.sizes[dim][call]

    def new_param(
        self, dtype: str, dims: Sequence[object], values: Sequence[float] = (), *, constant: bool = False
    ) -> Value:
        """Make a parameter; its elements are small numbers, or some of ``values``. Raises Unfit."""
        known = [dim for dim in dims if isinstance(dim, int | str)]
        if len(known) < len(dims) or len(self.params) == self.profile.most_params:
            raise Unfit
        shapes = [[self.size_of(dim, call) for dim in known] for call in range(self.number_of_calls)]
        if max(map(math.prod, shapes)) > _MOST_ELEMENTS:
            raise Unfit
        arrays = tuple(self.array(dtype, shape, values) for shape in shapes)
        if constant:
            arrays = arrays[:1] * self.number_of_calls
        self.count += 1
        name = self.language.param(self.count)
        value = Value(name, dtype, tuple(known), arrays, not self.profile.inexact, constant=constant)
        self.params.append(value)
        self.values[name] = value
        return value

    def array(self, dtype: str, shape: Sequence[int], values: Sequence[float]) -> np.ndarray:
        """Return an array of small numbers, or of some of the values."""
        kind = kind_of(self.language.dtypes[dtype])
        some = values or self.profile.values[kind]
        if self.special and kind == "f" and not values:
            some = [*some, math.inf, -math.inf, math.nan]
        if kind == "c":
            parts = [choose(self.random, shape, np.float64, some) for _ in range(2)]
            return (parts[0] + 1j * parts[1]).astype(self.language.dtypes[dtype])
        return choose(self.random, shape, self.language.dtypes[dtype], some)

    # -- statements --------------------------------------------------------------------------------------

    def statement(self) -> None:
        """Write one more statement, with any function."""
        names = sorted(self.profile.forms)
        weights = [self.profile.weights.get(name, 1) for name in names]
        for _ in range(_TRIES):
            function = self.random.choices(names, weights)[0]
            form = self.random.choice(self.profile.forms[function])
            before = len(self.params), self.count
            if self.step(function, form):
                return
            del self.params[before[0] :]
            self.count = before[1]
            known = {param.name for param in self.params} | {each.name for each in self.statements}
            self.values = {name: value for name, value in self.values.items() if name in known}

    def step(self, function: str, form: str) -> bool:
        """Write a statement of this form, if it can be filled and NumPy likes it more often than not."""
        try:
            text, twin = self.fill_form(function, form)
        except Unfit:
            return False
        if (
            twin == text
            and self.chance(0.15)
            and function not in NO_METHODS
            and self.language.item("v", 0) == "v[0]"
        ):
            text = re.sub(rf"^{re.escape(function)}\((v\d+)(?:, )?(.*)\)$", rf"\1.{function}(\2)", text)
            twin = text
        if not self.is_usable(function):
            return False
        operands = tuple(dict.fromkeys(operand.name for operand in self.operands))
        results, raises = self.evaluate(twin, operands)
        computed = [results[call] for call in self.alive if raises[call] is None]
        if not computed:
            if not self.chance(0.04):
                return False
        elif len(computed) < len(self.alive) and not self.chance(0.25):
            return False
        if not all(map(self.is_small, computed)) or not self.is_fit(function, text, operands, results):
            return False
        self.alive = [call for call in self.alive if raises[call] is None] or self.alive
        self.add(function, text, operands, results, raises, twin)
        return True

    def is_usable(self, _function: str) -> bool:
        """Whether NumPy is a judge of the function for the operands."""
        return True

    def is_fit(
        self, _function: str, _text: str, _operands: Sequence[str], _results: Mapping[int, object]
    ) -> bool:
        """Whether a statement may be part of the program."""
        return True

    def helpers_of(self, _text: str) -> tuple[str, ...]:
        """The functions of the program that an expression needs."""
        return ()

    def evaluate(
        self, text: str, operands: Sequence[str]
    ) -> tuple[dict[int, object], tuple[str | None, ...]]:
        """Return what each call gives, and what it raises."""
        results: dict[int, object] = {}
        raises: list[str | None] = [None] * self.number_of_calls
        for call in self.alive:
            try:
                results[call] = self.language.run(text, {name: self.operand(name, call) for name in operands})
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
        twin: str,
    ) -> None:
        self.count += 1
        name = self.language.result(self.count)
        given = [self.values[each] for each in operands if each in self.values]
        calls = range(self.number_of_calls)
        terms = tuple(count_terms(function, [value.arrays[call] for value in given]) for call in calls)
        computed = [results[call] for call in self.alive if call in results]
        dtypes = [np.dtype(np.float64), *(value.dtype for value in given)]
        rounds = function in ROUNDS or (
            function not in COMPLEX_EXACT and (any(map(is_complex, computed)) or "c" in map(kind_of, dtypes))
        )
        exact = not self.profile.inexact and (
            not rounds
            and all(value.exact for value in given)
            and all(map(is_exact, computed))
            and (function not in ADDS | MULTIPLIES or max(terms) <= min(map(most_exact, dtypes)))
        )
        helpers = self.helpers_of(text)
        self.statements.append(Statement(name, text, function, operands, raises, exact, terms, twin, helpers))
        if not computed:
            return
        if isinstance(computed[0], tuple):
            self.tuples[name] = [results.get(call) for call in calls]
            self.take_items(name, function, computed)
            return
        arrays = tuple(results.get(call) for call in calls)
        shapes = [np.shape(array) for array in computed]
        if all(isinstance(array, np.ndarray) for array in computed) and len({*map(len, shapes)}) == 1:
            dims = tuple(map(self.label, zip(*shapes, strict=True)))
            kind = self.language.dtype_name(computed[0].dtype)  # type: ignore[attr-defined]
            self.values[name] = Value(name, kind, dims, arrays, exact)  # type: ignore[arg-type]

    def take_items(self, name: str, function: str, computed: Sequence[object]) -> None:
        lengths = {len(result) for result in computed if isinstance(result, tuple)}
        if len(lengths) != 1 or not (length := lengths.pop()):
            return
        text = self.language.item(name, self.random.randrange(length))
        results, raises = self.evaluate(text, [name])
        self.add(function, text, (name,), results, raises, text)

    def label(self, sizes: Sequence[int]) -> object:
        """The dimension that has these sizes in the calls that are left."""
        for name, known in self.sizes.items():
            if tuple(known[call] for call in self.alive) == tuple(sizes):
                return name
        return sizes[0] if len({*sizes}) == 1 else tuple(sizes)

    def is_small(self, result: object) -> bool:
        """Whether a result is small enough to go on with: a tensor, or a tuple of some."""
        if isinstance(result, tuple):
            return bool(result) and all(map(self.is_small, result))
        return (
            isinstance(result, np.ndarray)
            and result.dtype in self.language.dtypes.values()
            and result.size <= _MOST_ELEMENTS
            and result.ndim <= _MOST_RANK
        )

    def steps(self, **options: object) -> Steps:
        """Return what was written."""
        used = {operand for statement in self.statements for operand in statement.operands}
        params = tuple(param for param in self.params if param.name in used)
        return Steps(self.language, params, tuple(self.statements), self.values, options=options)

    # -- forms -------------------------------------------------------------------------------------------

    def fill_form(self, function: str, form: str) -> tuple[str, str]:
        """Return a form as text, and as NumPy has it. Raises Unfit."""
        self.function, self.labels = function, {}
        self.operands: list[Value] = []
        self.takes_inexact = self.profile.inexact or function in MOVES or function in CONTINUOUS
        self.default_kinds = "biufc" if function in COMPLEX else "biuf"
        self.joint, self.axis_text = 0, "0"
        self.filled: dict[str, list[str]] | None = {}  # what each hole of the cell's text got, for the twin's
        self.repeated: dict[str, list[str]] = {}
        if first := re.search(r"<x(?::(\w*))? ?([\d-]*)>", form):
            ranks = _ranks(first[2], 0 if "axis" not in form else 1)
            self.x = self.pick(first[1] or self.default_kinds, *ranks)
        own, arrow, twin = form.partition(" => ")
        text = self.fill(own)
        if not arrow:
            return text, text
        self.repeated, self.filled = self.filled, None
        return text, self.fill(twin)

    def hole(self, content: str) -> str:
        """Fill a hole; of the twin's text with what the same hole of the cell's got, in their order."""
        name = re.split("[: ]", content)[0]
        if name == "x":
            return self.take(self.x)
        if self.filled is None and (texts := self.repeated.get(name)):
            return texts.pop(0) if len(texts) > 1 else texts[0]
        text = super().hole(content)
        if self.filled is not None:
            self.filled.setdefault(name, []).append(text)
        return text

    def take(self, value: Value) -> str:
        self.operands.append(value)
        return value.name

    def fits(self, value: Value) -> bool:
        alive = all(value.arrays[call] is not None for call in self.alive)
        return alive and (value.exact or self.takes_inexact)

    def known(self, dtype: np.dtype | None = None) -> list[Value]:
        return [
            value
            for value in self.values.values()
            if self.fits(value) and (dtype is None or value.dtype == dtype)
        ]

    def pick(self, kinds: str, low: int, high: int) -> Value:
        """Return a value of one of the kinds, or of a dtype, and of a rank."""
        one = self.language.dtypes.get(kinds)
        fit = [
            value
            for value in self.known(one)
            if (one or kind_of(value.dtype) in kinds) and low <= value.rank <= high
        ]
        if fit and self.chance(self.profile.reuse):
            return self.random.choice(fit[-4:])
        letters = [each for each in self.profile.letters if each in kinds]
        if not one and not letters:
            raise Unfit
        names = (kinds,) if one else self.profile.kinds[self.random.choice(letters)]
        rank = min(max(self.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4]), low), high)
        try:
            return self.new_param(self.random.choice(names), [self.dim() for _ in range(rank)])
        except Unfit:
            if fit:
                return self.random.choice(fit)
            raise

    def of_dims(self, dims: Sequence[object], dtype: np.dtype, values: Sequence[float] = ()) -> Value:
        """Return a value with these dimensions. Raises Unfit."""
        fit = [value for value in self.known(dtype) if value.dims == tuple(dims)]
        if fit and not values and self.chance(0.6):
            return self.random.choice(fit)
        try:
            return self.new_param(self.language.dtype_name(dtype), dims, values)
        except Unfit:
            if fit and not values:
                return self.random.choice(fit)
            raise

    def of_dims_or_x(self, dims: Sequence[object]) -> str:
        try:
            return self.take(self.of_dims(dims, self.x.dtype))
        except Unfit:
            return self.take(self.x)

    # -- values ------------------------------------------------------------------------------------------

    def hole_any(self, argument: str) -> str:
        """Any value of the dtype of ``x``; ``<any: 1>`` of a rank."""
        low, high = _ranks(argument.strip(), 0)
        fit = [value for value in self.known(self.x.dtype) if low <= value.rank <= high]
        if fit and self.chance(0.7):
            return self.take(self.random.choice(fit))
        rank = min(self.random.randint(max(low, 1), 2), high)
        return self.take(self.new_param(self.x.kind, [self.dim() for _ in range(rank)]))

    def hole_other(self, _argument: str) -> str:
        return self.hole_any("0-2")

    def hole_y(self, _argument: str) -> str:
        """What broadcasts with ``x``."""
        if self.chance(0.2):
            return self.hole_number("")
        if self.chance(0.03):
            return self.take(self.pick(self.profile.letters, 0, 2))  # another dtype, or another shape
        dims = self.x.dims
        fit = [
            value
            for value in self.known(self.x.dtype)
            if value.rank <= len(dims)
            and all(a in (b, 1) for a, b in zip(value.dims[::-1], dims[::-1], strict=False))
        ]
        if fit and self.chance(0.6):
            return self.take(self.random.choice(fit))
        cut = dims[self.random.randint(0, len(dims)) if self.chance(0.4) else 0 :]
        return self.of_dims_or_x([1 if self.chance(0.2) else dim for dim in cut])

    def hole_array(self, _argument: str) -> str:
        """What broadcasts with ``x``, and is no number."""
        return self.of_dims_or_x(self.x.dims[self.random.randint(0, self.x.rank) :])

    def hole_same(self, _argument: str) -> str:
        return self.of_dims_or_x(self.x.dims)

    def hole_same_as_last(self, _argument: str) -> str:
        last = self.operands[-1]
        return self.take(self.of_dims(last.dims, last.dtype))

    def hole_mask(self, _argument: str) -> str:
        try:
            return self.take(self.of_dims(self.x.dims, np.dtype(bool)))
        except Unfit:
            return self.mask_of(self.take(self.x))

    def mask_of(self, text: str) -> str:
        return f"({text} != 0)"

    def hole_matrix(self, _argument: str) -> str:
        if not self.x.rank:
            raise Unfit
        batch = self.x.dims[:-2] if self.chance(0.3) else ()
        dims = [*batch, self.x.dims[-1], self.dim()]
        return self.take(self.of_dims(dims[:1] if self.chance(0.2) and not batch else dims, self.x.dtype))

    def hole_joined(self, _argument: str) -> str:
        self.joint = self.random.randrange(self.x.rank)
        dims = list(self.x.dims)
        dims[self.joint] = self.dim()
        return self.take(self.of_dims(dims, self.x.dtype))

    def hole_index_array(self, _argument: str) -> str:
        dims = [self.dim() for _ in range(self.random.choice([0, 1, 1, 2]))]
        dtype = np.dtype(self.random.choice([np.int64, np.int64, np.int32]))
        return self.take(self.of_dims(dims, dtype, (0, 0, 0, 1, -1)))

    # -- numbers -----------------------------------------------------------------------------------------

    def hole_number(self, _argument: str) -> str:
        kind = kind_of(self.x.dtype)
        if kind == "b":
            return self.random.choice(["True", "False"])
        number = self.random.randint(0 if kind == "u" else -2, 3)
        if kind == "c" and self.chance(0.3):
            return f"{number}j"
        return str(number + 0.5 if kind == "f" and self.chance(0.3) else number)

    def hole_rank(self, _argument: str) -> str:
        return str(self.random.randint(0, self.x.rank))

    def hole_dtype(self, _argument: str) -> str:
        return self.random.choice([name for names in self.profile.kinds.values() for name in names])

    def hole_dtype_of_x(self, _argument: str) -> str:
        return self.x.kind

    def hole_cast(self, _argument: str) -> str:
        """A dtype that holds all the numbers that are converted."""
        kinds = self.profile.kinds
        if kind_of(self.x.dtype) == "c":
            return "c128" if not self.x.exact else self.random.choice(kinds["c"])
        arrays = [array for array in self.x.arrays if array is not None]
        numbers = np.concatenate([array.ravel().astype(np.float64) for array in arrays])
        if not self.x.exact:
            return "f64"
        fit = [*kinds["b"], *kinds["f"]]
        if np.all(np.isfinite(numbers)):
            for name in [*kinds["i"], *kinds["u"]]:
                ends = np.iinfo(self.language.dtypes[name])
                if np.all((ends.min <= numbers) & (numbers < ends.max)):
                    fit.append(name)
        largest = np.max(np.abs(numbers), initial=0, where=np.isfinite(numbers))
        halves = [name for name in fit if name in ("f16", "bf16")]
        fit = [
            name for name in fit if name not in halves or largest <= most_exact(self.language.dtypes[name])
        ]
        return self.random.choice(fit)

    # -- axes and shapes ---------------------------------------------------------------------------------

    def hole_axis(self, _argument: str) -> str:
        rank = self.x.rank
        axis = self.random.randrange(rank) if rank and not self.chance(0.02) else rank
        self.axis_text = str(axis - rank if self.chance(0.4) and axis < rank else axis)
        return self.axis_text

    def hole_last_axis(self, _argument: str) -> str:
        return self.axis_text

    def hole_join_axis(self, _argument: str) -> str:
        return str(self.joint)

    def hole_axes(self, _argument: str) -> str:
        match self.random.randrange(8):
            case 0:
                return "None"
            case 1 | 2:
                count = self.random.randint(0, self.x.rank)
                return self.language.list(self.random.sample(range(self.x.rank), count))
            case _:
                return self.hole_axis("") if self.x.rank else "None"

    def hole_two_axes(self, _argument: str) -> str:
        one, other = self.random.sample(range(self.x.rank), 2)
        return f"({one}, {other - self.x.rank if self.chance(0.5) else other})"

    def hole_new_axis(self, _argument: str) -> str:
        return str(self.random.randint(-self.x.rank - 1, self.x.rank))

    def hole_single(self, _argument: str) -> str:
        axes = [axis for axis, dim in enumerate(self.x.dims) if dim == 1]
        return str(self.random.choice(axes)) if axes else self.hole_axis("")

    def hole_permutation(self, _argument: str) -> str:
        return self.language.list(self.random.sample(range(self.x.rank), self.x.rank))

    def hole_shape(self, _argument: str) -> str:
        parts = [str(self.random.choice([0, 1, 2, 3])) for _ in range(self.random.choice([0, 1, 2, 2, 3]))]
        fit = [value for value in self.known() if value.rank]
        if fit and self.chance(0.5):
            value = self.random.choice(fit)
            parts.append(f"{self.take(value)}.shape[{self.random.randrange(value.rank)}]")
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def hole_reshape(self, _argument: str) -> str:
        """A shape of as many elements."""
        fit = [text for least, text in _SHAPES if least <= self.x.rank]
        return self.random.choice(fit).replace("X", self.x.name)

    def hole_subscript(self, _argument: str) -> str:
        parts: list[str] = []
        for axis in range(self.random.randint(1, self.x.rank)):
            if self.chance(0.1):
                parts.append("None")
            if self.chance(0.08):
                parts.append(self.random.choice(["[0]", "[0, -1]", self.hole_index_array("")]))
            elif self.chance(0.08):
                size = f"{self.x.name}.shape[{axis}]"
                ends = [f":{size} // 2", f"{size} - 1:", f"{size} // 2:", f"-{size}:"]
                parts.append(self.random.choice(ends))
            else:
                parts.append(self.random.choice(_SUBSCRIPTS))
        if self.chance(0.15):
            parts.insert(self.random.choice([0, len(parts)]), "...")
        return ", ".join(parts)

    def hole_einsum(self, _argument: str) -> str:
        equation = self.random.choice(_EQUATIONS)
        letters = {letter: self.dim() for letter in "bijkl"}
        dtype = self.random.choice(self.profile.kinds[self.random.choice(self.profile.letters)])
        batch = [self.dim()]
        names = []
        for part in equation.split("->")[0].split(","):
            dims = [*(batch if part.startswith("...") else ()), *map(letters.get, part.replace(".", ""))]
            names.append(self.take(self.of_dims(dims, self.language.dtypes[dtype])))
        return f"'{equation}', {', '.join(names)}"


_SUBSCRIPTS = ["0", "-1", ":", ":", "1:", ":-1", "::2", "::-1", "-2:", "2:0:-1", "::-2", "1:2", "3:", "0:0"]
_EQUATIONS = (
    *("ij,jk->ik", "ij->ji", "ij->", "ij->j", "i,i->", "i,i", "i,j->ij", "ij,ij->i", "bij,bjk->bik"),
    *("bij,jk->bik", "ii->i", "ii", "ij,j->i", "ijk->kij", "ij,jk,kl->il", "i,ij,j->", "bi,bj->bij"),
    *("...i->...", "...i,...i->...", "ij,kj"),
)
#: Shapes of as many elements as X has, which has at least so many axes.
_SHAPES = [
    *(
        (0, text)
        for text in ("-1", "(-1,)", "(1, -1)", "(-1, 1)", "X.shape[::-1]", "X.size", "(1,) + X.shape")
    ),
    *((0, text) for text in ("(X.size // 1, 1)", "X.shape + (1,)")),
    *(
        (1, f"({text})")
        for text in ("X.shape[0], -1", "-1, X.shape[-1]", "-1, X.shape[0]", "1, X.shape[0], -1")
    ),
    *((2, f"({text})") for text in ("X.shape[0] * X.shape[1], -1", "-1, *X.shape[1:]", "*X.shape[:-2], -1")),
    (2, "(X.shape[1], X.shape[0], -1)"),
    *(
        (3, f"({text})")
        for text in ("X.shape[0], X.shape[1] * X.shape[2], -1", "-1, X.shape[1] * X.shape[2]")
    ),
]


def kind_of(dtype: np.dtype) -> str:
    """Return ``b``, ``i``, ``u``, ``f`` or ``c``, as in a form."""
    return "f" if dtype == ml_dtypes.bfloat16 else dtype.kind


def is_complex(result: object) -> bool:
    """Whether a result is of complex numbers, or a tuple with some."""
    return any(map(is_complex, result)) if isinstance(result, tuple) else np.iscomplexobj(result)


def is_exact(result: object) -> bool:
    """Whether a result has small multiples of 1/8 only."""
    if isinstance(result, tuple):
        return all(map(is_exact, result))
    if not isinstance(result, np.ndarray) or kind_of(result.dtype) not in "fc":
        return True
    if kind_of(result.dtype) == "c":
        return is_exact(result.real) and is_exact(result.imag)
    wide = result.astype(np.float64)
    finite, most = wide[np.isfinite(wide)], most_exact(result.dtype)
    return bool(np.all((finite * 8 == np.rint(finite * 8)) & (abs(finite) <= most)))


def most_exact(dtype: np.dtype) -> int:
    """Return up to which size multiples of 1/8, and their sums, are exact in a dtype of floats."""
    if dtype == ml_dtypes.bfloat16:
        return 32
    return {np.dtype(np.float16): 256, np.dtype(np.float32): 4096, np.dtype(np.complex64): 4096}.get(
        dtype, 2**30
    )


def count_terms(function: str, arrays: Sequence[np.ndarray | None]) -> float:
    """Return how large the terms are altogether that a function adds, or the factors that it multiplies."""
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


def _ranks(text: str, low: int) -> tuple[int, int]:
    """Return ``"1-3"``, ``"2"`` or nothing as bounds."""
    if not text:
        return low, 4
    first, _, last = text.partition("-")
    return int(first), int(last or first)
