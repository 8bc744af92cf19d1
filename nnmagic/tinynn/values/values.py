"""Define what an expression of a cell can stand for while it is elaborated.

The elaboration is an online partial evaluator (Jones, Gomard and Sestoft 1993): a value is static (`Known`)
or dynamic (`Computed`), and what depends on static values alone leaves no code. Closures capture environments
and environments hold values, so that both are defined here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Final, NamedTuple, Protocol

from nnmagic.diagnostics import Diagnostic, Note, Span
from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.module import TypeData
from nnmagic.relay.ops.declaration import Operator
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import Generator
from nnmagic.tinynn.types.part_counts import count_parts
from nnmagic.tinynn.values.affine_int import AffineInt

#: The destination of a parameter that is a generator of random numbers.
GENERATOR: Final = "Generator"


class RefusalError(Exception):
    """An expression that a cell does not take; carries a diagnostic to the statement that reports it."""

    def __init__(
        self, message: str, span: Span, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(message, span, hint, tuple(notes))


@dataclass(frozen=True, slots=True)
class Computed:
    """A Relay expression with its type: known at run time, or a constant tensor.

    ``weak``: a Python number (int64, float64 or bool of rank 0) known at run time only, such as a loop's
    counter. Like a literal it takes the dtype of the tensor beside it. ``least``: a lower bound of such an
    int, None if unknown. ``affine``: what it is of a loop's counter. ``default_dtype``: where an array was
    made without a dtype, so that it has NumPy's.
    """

    expr: ir.Expr
    type: ty.Type
    weak: bool = False
    least: int | None = field(default=None, compare=False)
    affine: AffineInt | None = field(default=None, compare=False)
    default_dtype: Span | None = field(default=None, compare=False)

    @property
    def tensor_type(self) -> ty.TensorType:
        """Return the type of what is known to be a tensor."""
        assert isinstance(self.type, ty.TensorType)
        return self.type

    @property
    def shape(self) -> tuple[ty.Dim, ...]:
        """Return the shape of what is known to be a tensor."""
        return self.tensor_type.shape

    @property
    def dtype(self) -> str:
        """Return the dtype of what is known to be a tensor."""
        return self.tensor_type.dtype


@dataclass(frozen=True, slots=True)
class Known:
    """A value known at compile time: number, string, None, ``...``, dtype, annotation, named dimension."""

    value: object


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size that is known at run time only, as an item of ``x.shape``.

    ``dim``: what it is in a shape; ``number``: what it is everywhere else, a weak int64.
    """

    dim: ty.AnyDim
    number: Computed


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple or list. ``whole`` is the Relay expression that it was taken from, if there is one."""

    items: tuple[Value, ...]
    whole: Computed | None = None
    #: The record that it is, if its items have names.
    record: ty.RecordType | None = None
    #: How it was written: ``"list"``, or ``"tuple"``, whose items cannot be assigned; empty for a result.
    #: ``"held"``: a list that a table holds, where Python would change it, too.
    written: str = field(default="", compare=False)
    #: What a function of PyTorch calls its results, as ``x.max(dim=1).values``.
    names: tuple[str, ...] = field(default=(), compare=False)
    #: The number of its items, and of those of the tuples in it.
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _count_items(self.items))


@dataclass(frozen=True, slots=True)
class Column:
    """What the tuples of a list have at one place: numbers of one dtype; ``weak`` ones are Python's."""

    dtype: str
    weak: bool


#: The columns of a list of tuples, in the form of the tuples, which may hold others.
Columns = tuple["Column | Columns", ...]


@dataclass(frozen=True, slots=True)
class ListOfRows:
    """A list that grew in a loop: its items are the rows of a tensor.

    ``is_table``: they are lists of numbers, whose items can be assigned (2: lists of lists of them).
    ``is_row``: it is one of these.
    ``is_shared``: these may have other names, or be one. ``columns``: they are tuples of such numbers.
    """

    rows: Computed
    is_table: int = 0
    is_row: bool = False
    columns: Columns = ()
    is_shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TableOf:
    """A dictionary, or a set, whose keys only the call knows: entries in the order in which they were added.

    ``slots`` and ``keys`` are those of the operators ``table.*``, of which ``used`` rows are entries, deleted
    ones among them, and ``size`` are left. ``values``: a tensor with a row for each entry, or a tuple of such
    tensors; None of a set.
    """

    slots: Computed
    keys: Computed
    used: Computed
    size: Computed
    values: Value

    @property
    def parts(self) -> tuple[Value, ...]:
        """Return its parts in order."""
        return self.slots, self.keys, self.used, self.size, self.values

    @property
    def is_set(self) -> bool:
        """Return whether it has members alone."""
        return self.values == Known(None)


@dataclass(frozen=True, slots=True)
class Character:
    """A character of a string that is known at run time only, by its code point."""

    code: Computed


@dataclass(frozen=True, slots=True, eq=False)
class DictOf:
    """A dictionary of the notebook; its keys are strings and ints."""

    items: Mapping[object, Value]


@dataclass(frozen=True, slots=True)
class SliceOf:
    """``start:stop:step`` inside a subscript."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter as a caller sees it: ``kind`` is that of ``inspect.Parameter``.

    ``destination``: ``"Out"`` or ``"InOut"`` if a call changes the argument, an array; ``"Generator"`` if it
    is a generator of random numbers.
    """

    name: str
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: Value | None = None
    destination: str = ""

    @property
    def changes_array(self) -> bool:
        """Return whether a call changes an array that is the argument."""
        return self.destination not in ("", GENERATOR)


@dataclass(frozen=True, slots=True)
class GlobalFunction:
    """A function of the module: one of the cell, or a compiled one. ``type`` None: it is not known (yet).

    ``written`` is the name that the cell calls it by.
    """

    name: str
    written: str
    parameters: tuple[Formal, ...]
    type: ty.FuncType | None


@dataclass(frozen=True, slots=True, eq=False)
class LocalFunction:
    """A nested function or a lambda whose parameters have no types: each call inlines its body.

    ``versions``: the names that it captures, each with how often it was assigned when the function was made.
    ``changed``: the parameters whose arrays it changes.
    """

    name: str
    definition: tree.DefinitionNode | tree.Lambda
    parameters: tuple[Formal, ...]
    environment: Environment
    versions: Mapping[str, int]
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class SpecializableFunction:
    """A function of an earlier cell whose parameters have open types: each call has it specialized.

    ``specialize`` gives the compiled function for the types of some arguments and the values of others, or
    raises CompileError. ``code``: what has its source.
    """

    written: str
    parameters: tuple[Formal, ...]
    specialize: Callable[[Mapping[str, ty.Type | Generator], Mapping[str, object]], object]
    code: FunctionType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ModuleOf:
    """An ``nn.Module`` or another object of the notebook, with a method, or a function of Python.

    Each call inlines the source of the method, or of the function. ``path``: how the cell reaches it.
    ``constants``: the tensors that were captured from it, by identity.
    """

    module: object
    path: str
    constants: dict[int, Value]
    method: str = "forward"


@dataclass(frozen=True, slots=True, eq=False)
class ClosureValue:
    """A nested function with types: a Relay function bound by let.

    ``changing``: the captured names that are assigned more than once. ``state``: how often what it captures,
    also through other functions, was assigned when it was made.
    """

    name: str
    parameters: tuple[Formal, ...]
    function: Computed
    definition: tree.DefinitionNode
    environment: Environment
    versions: Mapping[str, int]
    changing: tuple[str, ...] = ()
    state: frozenset[tuple[str, str, int]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class GradientOf:
    """What ``grad`` and its kin make of a function: something to call.

    kind: ``"grad"``, ``"value_and_grad"``, ``"vjp"``, ``"pullback"``, ``"jvp"``, ``"pushforward"``,
    ``"jacobian"``, ``"jacfwd"``, ``"jacrev"``, ``"vmap"``, ``"checkpoint"``, ``"custom_vjp"``,
    ``"custom_jvp"``, ``"tree_map"``, ``"stop"``; ``"partial"`` takes the arguments ``argnums`` alone and
    gives a part of the result; ``"bound"`` is a function whose first ``arguments`` are given, ``"choice"``
    that of ``arguments`` whose number is the function. argnums: a number or a name, or several; those of a
    rule of one's own are not differentiated by; of a checkpoint, the rounds that are kept as one. has_aux: of
    ``"custom_jvp"``, whether each argument has a rule. arguments: those of ``vjp``, ``jvp`` and ``tree_map``,
    which call the function at once, of the pullback, and all those of ``"partial"``; the functions of a rule.
    axes: ``in_axes`` and ``out_axes`` of ``vmap``; for ``"partial"`` the part.
    """

    kind: str
    function: Operand
    argnums: int | str | tuple[int | str, ...] = 0
    has_aux: bool = False
    arguments: tuple[Operand, ...] = ()
    axes: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopCall:
    """A call of ``scan`` or its kin, which becomes a loop over calls of a function.

    kind: ``"scan"``, ``"apply_along_axis"``, ``"piecewise"``, ``"vectorize"``, ``"map"``, or what is written
    in the language as it stands, as ``"gcd"``. number: the axis, or how many conditions. dtypes: those of the
    results, if they are given. text: of the kind ``"text"``, the function, in the language.
    """

    kind: str
    operands: tuple[Operand, ...]
    number: int = 0
    dtypes: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class GeneratorOf:
    """NumPy's generator of random numbers, whose state changes: ``state`` is the name of that.

    No cell can write the name. A generator that has several names has one state.
    """

    state: str


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A draw of random numbers, which changes a generator; ``generator`` None: a new one, of a state.

    ``function`` and ``parameters``: as `numpy.pcg64` takes them. ``like``: the shape and dtype of the
    numbers, or the state of a new generator. ``finish`` makes the value of the call of the numbers.
    """

    generator: Operand | None
    function: str
    like: Computed
    parameters: tuple[Computed, ...] = ()
    finish: Callable[[Computed], Value] = lambda numbers: numbers


@dataclass(frozen=True, slots=True)
class RangeOf:
    """``range(start, stop, step)``: Known ints, or weak numbers."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class ScheduledRange:
    """``parallel(n)``, ``grid(n, m)`` and the like: ranges, one inside the other, that say how to run a loop.

    ``tiles``: of ``tiled``, the sizes of a tile.
    """

    word: str
    ranges: tuple[RangeOf, ...]
    tiles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Zipped:
    """``zip(...)``, ``enumerate(...)``, ``reversed(...)`` before a loop takes them; ``word`` says which.

    strict: the parts must have one number of items.
    """

    word: str
    parts: tuple[Operand, ...]
    strict: bool = False
    #: The number of its parts, and of those in them.
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _count_items(part.value for part in self.parts))


@dataclass(frozen=True, slots=True)
class DataTypeName:
    """A data type of the cell or of an earlier one; ``fields``: the names of each constructor's fields."""

    type: TypeData
    fields: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ConstructorName:
    """A constructor, not yet called."""

    constructor: ir.Constructor
    fields: tuple[str, ...]


def record_constructor(data: DataTypeName) -> ConstructorName | None:
    """Return the constructor of a record, which has the name of its class; None for any other data type."""
    name = data.type.header.name
    for constructor in data.type.constructors:
        if constructor.name == name:
            return ConstructorName(constructor, data.fields[name])
    return None


@dataclass(frozen=True, slots=True)
class RecordName:
    """A record class of the cell or of an earlier one: a type, and what makes its values."""

    type: ty.RecordType


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A name that has no usable value here; ``message`` is the error of whoever reads it.

    ``shared``: this name and the one through which its memory was changed, if that is why; ``may_merge``:
    whether some paths assign it, so that only the call knows if it has a value.
    """

    message: str
    hint: str | None
    notes: tuple[Note, ...]
    shared: tuple[str, ...] = ()
    may_merge: bool = False


@dataclass(frozen=True, slots=True)
class OperatorName:
    """An operator, not yet called."""

    operator: Operator


class BuiltinFunction(Protocol):
    """A function of the language that is not one operator; `calls.argument_binding.Builtin` is one."""

    @property
    def name(self) -> str:
        """The name that a cell calls it by."""

    def call(self, operands: Sequence[Operand], span: Span) -> Value:
        """Bind the arguments and apply the function. Raises RefusalError."""


@dataclass(frozen=True, slots=True)
class BuiltinName:
    """A function of the language, not yet called."""

    builtin: BuiltinFunction


@dataclass(frozen=True, slots=True)
class Method:
    """``x.sum`` before its call."""

    receiver: Operand
    name: str
    callee: OperatorName | BuiltinName


@dataclass(frozen=True, slots=True)
class TupleConstructor:
    """``tuple``, ``Tuple``, ``Tensor``, ``Out`` and the like in an annotation, before their subscript."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type that no Python object stands for: a tuple annotation.

    ``destination``: ``"Out"`` or ``"InOut"`` around a tensor's type, which only a parameter can have.
    """

    type: ty.Type
    destination: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The value of an expression whose error was reported; whatever uses it stays silent."""


Value = (
    Computed
    | Known
    | Dimension
    | TupleOf
    | ListOfRows
    | TableOf
    | Character
    | DictOf
    | SliceOf
    | GlobalFunction
    | LocalFunction
    | ModuleOf
    | SpecializableFunction
    | ClosureValue
    | GradientOf
    | LoopCall
    | GeneratorOf
    | Draw
    | RangeOf
    | ScheduledRange
    | Zipped
    | DataTypeName
    | ConstructorName
    | RecordName
    | Unassigned
    | OperatorName
    | BuiltinName
    | Method
    | TupleConstructor
    | TypeOf
    | Failed
)

#: What can be called, other than a method.
FUNCTIONS = (
    LocalFunction,
    ClosureValue,
    GlobalFunction,
    SpecializableFunction,
    ModuleOf,
    BuiltinName,
    OperatorName,
    GradientOf,
)

FAILED: Final = Failed()


@dataclass(frozen=True, slots=True)
class Operand:
    """A value and the expression that it came from."""

    value: Value
    span: Span
    #: The name of the keyword in a call, if it was given by one.
    keyword: str | None = field(default=None)

    @property
    def dynamic(self) -> Computed:
        """Return its value, which is known to be computed."""
        return dynamic(self.value)


_WHICH = "return a number that says which"
#: What a function returns that only Python can read, and what to write.
_FOR_PYTHON = {
    ty.CHOICE: ("one of several strings", _WHICH),
    ty.LISTS: ("lists of several lengths", "use them where they are made"),
}


def dynamic(value: Value) -> Computed:
    """Return a value that is known to be computed."""
    assert isinstance(value, Computed)
    return value


def as_value(expr: ir.Expr, type_: ty.Type) -> Value:
    """Wrap a Relay expression as a value; one of a tuple type is taken apart, so that it can be unpacked."""
    match type_:
        case ty.RecordType(name=ty.KNOWN, names=(known,)):
            return Known(known)
        case ty.RecordType(name=ty.LIST, names=(kind,), fields=(of_rows,)):
            is_table = kind in ("lists", "shared")
            weak = is_table or kind == ty.NUMBERS
            rows = Computed(ir.TupleGetItem(expr, 0, span=expr.span), of_rows, weak)
            columns = _columns_of(iter(kind.split()[1:]))
            return ListOfRows(rows, is_table=is_table, columns=columns, is_shared=kind == "shared")
        case ty.RecordType(name=ty.CHOICE | ty.LISTS as kind):
            what, hint = _FOR_PYTHON[kind]
            message = f"this function returns {what}, which only Python can read"
            raise RefusalError(message, expr.span or Span("", 1, 1, 1, 1), hint=hint)
        case ty.TupleType(fields=fields):
            return _taken_apart(expr, type_, fields)
    return Computed(expr, type_)


def _columns_of(words: Iterator[str]) -> Columns:
    """Return the columns that the kind of a list says, up to the bracket that ends a tuple."""
    columns: list[Column | Columns] = []
    for word in words:
        if word == ")":
            break
        columns.append(_columns_of(words) if word == "(" else Column(word, weak=True))
    return tuple(columns)


def _taken_apart(expr: ir.Expr, type_: ty.TupleType, fields: tuple[ty.Type, ...]) -> TupleOf:
    items = (
        as_value(ir.TupleGetItem(expr, index, span=expr.span), item) for index, item in enumerate(fields)
    )
    record = type_ if isinstance(type_, ty.RecordType) else None
    if record is not None and record.name == ty.ITEMS:
        return TupleOf(tuple(items), Computed(expr, type_), written="list")
    return TupleOf(tuple(items), Computed(expr, type_), record)


def dictionary_of(entries: Mapping[object, Value], kind: str = ty.DICTIONARY) -> TupleOf:
    """Return a dictionary: a record of its keys, whose types its items decide. A set has None for values."""
    return TupleOf(tuple(entries.values()), record=ty.RecordType((), kind, tuple(entries)))  # type: ignore[arg-type]


def known_in_result(value: Value) -> Value:
    """Return a result with records for strings, and for None in tuples, which Python gets back."""
    if isinstance(value, TupleOf) and value.whole is None:
        parts = (_of_known(item) if item == Known(None) else known_in_result(item) for item in value.items)
        return replace(value, items=tuple(parts))
    return _of_known(value) if isinstance(value, Known) and isinstance(value.value, str) else value


def _of_known(value: Value) -> TupleOf:
    assert isinstance(value, Known)
    return TupleOf((), record=ty.RecordType((), ty.KNOWN, (value.value,)))  # type: ignore[arg-type]  # see KNOWN


def rows_of_list(value: Value) -> Value:
    """Return the tensor that NumPy makes of a list of rows; any other value as it is."""
    return replace(value.rows, weak=False) if isinstance(value, ListOfRows) else value


def is_set(value: Value) -> bool:
    """Return whether a value is a set."""
    if isinstance(value, TableOf):
        return value.is_set
    return isinstance(value, TupleOf) and value.record is not None and value.record.name == ty.SET


def known_value(constant: object) -> Value:
    """Return what is known at compile time as a value: a tuple as one of values."""
    if isinstance(constant, tuple):
        return TupleOf(tuple(map(known_value, constant)), written="tuple")
    return Known(constant)


def entries_of(value: Value) -> Mapping[object, Value] | None:
    """Return the items of a dictionary, or of a set, by their keys; None of any other value."""
    if isinstance(value, DictOf):
        return value.items
    if (
        isinstance(value, TupleOf)
        and value.record is not None
        and value.record.name in (ty.DICTIONARY, ty.SET)
    ):
        return dict(zip(value.record.names, value.items, strict=True))
    return None


def tuple_type(fields: Iterable[ty.Type], record: ty.RecordType | None) -> ty.TupleType:
    """Return the type of a tuple, or that of a record whose fields have these types."""
    types = tuple(fields)
    return ty.TupleType(types) if record is None else replace(record, fields=types)


def _count_items(items: Iterable[Value]) -> int:
    return sum(1 + item.size if isinstance(item, TupleOf | Zipped) else 1 for item in items)


def changes_arguments(value: Value) -> bool:
    """Return whether a value is a function that changes arrays among its arguments."""
    if isinstance(value, LocalFunction):
        return bool(value.changed)
    return isinstance(value, GlobalFunction) and any(formal.changes_array for formal in value.parameters)


def takes_generators(function: GlobalFunction) -> bool:
    """Return whether a function takes generators of random numbers."""
    return any(formal.destination == GENERATOR for formal in function.parameters)


def functions_in(values: Iterable[Value]) -> Iterator[LocalFunction | ClosureValue]:
    """Yield the functions among some values and in their parts that read names when they are called.

    A pullback has none: what its function captures was read by ``vjp``.
    """
    work = list(values)
    while work:
        match work.pop():
            case LocalFunction() | ClosureValue() as function:
                yield function
                # Defaults are values, too, and may be functions that capture.
                work += [formal.default for formal in function.parameters if formal.default is not None]
            case TupleOf(items=items):
                work += items
            case GradientOf(kind=kind, function=function_, arguments=arguments) if kind != "pullback":
                work += [function_.value, *(argument.value for argument in arguments)]
            case Method(receiver=receiver):
                work.append(receiver.value)
            case Zipped(parts=parts):
                work += [part.value for part in parts]


def captured_bindings(names: Iterable[tuple[Environment, str]]) -> Iterator[tuple[Environment, str]]:
    """Yield names, each with its owner, and those that functions which they stand for capture.

    ``names``: each with where it is read.
    """
    work, seen = list(names), set[tuple[int, str]]()
    while work:
        environment, name = work.pop()
        owner = environment.owner(name)
        # Functions may capture each other, or themselves.
        if owner is None or (id(owner), name) in seen:
            continue
        seen.add((id(owner), name))
        yield owner, name
        if name in owner.bindings.locals:
            for function in functions_in([owner.bindings.locals[name]]):
                work += [(function.environment, captured) for captured in function.versions]


def captured_names(values: Iterable[Value]) -> set[str]:
    """Return the names that functions among some values and in their parts capture, and so on."""
    read = [(each.environment, name) for each in functions_in(values) for name in each.versions]
    return {name for _, name in captured_bindings(read)}


def size_of(value: Value) -> int:
    """Return the number of items of a tuple, parts of a type, or names that a function captures; else 0."""
    match value:
        case TupleOf(size=size) | Zipped(size=size):
            return size
        case TypeOf(type=type_):
            return count_parts(type_)
        case LocalFunction(versions=versions) | ClosureValue(versions=versions):
            return len(versions)
    return 0


def check_size(value: Value, span: Span) -> None:
    """Check that a tuple or a type is not too large, as one that doubles is. Raises RefusalError."""
    size = size_of(value)
    if size <= MAX_TUPLE_SIZE:
        return
    if isinstance(value, TupleOf | Zipped):
        message = f"a tuple of {size} items, with those of the tuples in it, is too long"
        raise RefusalError(f"{message} (at most {MAX_TUPLE_SIZE})", span)
    if isinstance(value, TypeOf):
        raise RefusalError(f"this type has more than {MAX_TUPLE_SIZE} parts", span)


def parts_of(value: Value) -> Iterator[Value]:
    """Yield a value, or the items of a tuple and of the tuples in it."""
    if isinstance(value, TupleOf):
        for item in value.items:
            yield from parts_of(item)
    else:
        yield value


def is_failed(value: Value) -> bool:
    """Return whether an error in the value, or in a part of it, was reported."""
    if isinstance(value, TupleOf):
        return any(map(is_failed, value.items))
    if isinstance(value, SliceOf):
        return any(map(is_failed, (value.start, value.stop, value.step)))
    return isinstance(value, Failed)


class NotStaticError(Exception):
    """A value that is not known at compile time."""


def static_value(value: Value) -> object:
    """Return the Python value of a static value: Known, a constant of rank 0, a tuple of these.

    A dimension gives its AnyDim, as in a shape; call `as_number` first where a number is needed.

    Raises:
        NotStaticError: the value is dynamic.

    """
    match value:
        case Known(value=static) | Dimension(dim=static):
            return static
        case TupleOf(items=items, whole=None):
            return tuple(map(static_value, items))
        case Computed(expr=ir.Constant(data=data), type=ty.TensorType(shape=(), dtype=dtype)):
            return float(data) if ty.is_float(dtype) else data.item()
    raise NotStaticError


def static_or(value: Value, default: object) -> object:
    """Return the Python value of a static value, or the default for a dynamic one."""
    try:
        return static_value(value)
    except NotStaticError:
        return default


# -- environments ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Bindings:
    """What the local names stand for at one point of a function. Branches work on copies.

    ``versions`` counts assignments, so that a function inside another can tell whether a name that it uses
    was assigned again; ``spans`` holds where each name was last assigned.
    """

    locals: dict[str, Value] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)

    # Values are immutable, so a shallow copy is enough for a branch to assign names of its own.
    def copy(self) -> Bindings:
        """Return bindings that can change independently."""
        return Bindings(dict(self.locals), dict(self.versions), dict(self.spans))

    def restore(self, other: Bindings) -> None:
        """Take the names of a copy, which must not be used afterwards."""
        self.locals, self.versions, self.spans = other.locals, other.versions, other.spans

    def bind(self, name: str, value: Value, span: Span | None = None) -> None:
        """Record an assignment."""
        self.locals[name] = value
        self.versions[name] = self.versions.get(name, 0) + 1
        if span is not None:
            self.spans[name] = span

    def forget(self, name: str) -> None:
        """Unbind a name."""
        self.locals.pop(name, None)


class NamedSize(NamedTuple):
    """The size of a named dimension of a parameter, and how the body writes it: ``x.shape[0]``."""

    written: str
    size: Dimension


@dataclass(slots=True, eq=False)
class Environment:
    """A function under elaboration. ``parent``: the function that it stands in.

    ``assigned``: the names that its statements bind, its own wherever they stand, as in Python.
    ``reassigned``: those of its names that are bound more than once.
    """

    name: str
    assigned: frozenset[str] = frozenset()
    reassigned: frozenset[str] = frozenset()
    parent: Environment | None = None
    bindings: Bindings = field(default_factory=Bindings)
    #: The named dimensions of the parameters.
    dimensions: dict[str, NamedSize] = field(default_factory=dict)
    #: A statement failed in a way that leaves open what the function returns.
    failed: bool = False
    #: The parameters whose arrays the function changes, with their types.
    destinations: dict[str, ty.Type] = field(default_factory=dict)
    #: What it imports, by the names that it gives that.
    imports: dict[str, object] = field(default_factory=dict)
    #: What the named dimensions of its annotations are in the function that it is inlined in.
    sizes: dict[str, ty.Dim] = field(default_factory=dict)

    def chain(self) -> list[Environment]:
        """Return the environment and those around it, the innermost first."""
        chain = [self]
        while (parent := chain[-1].parent) is not None:
            chain.append(parent)
        return chain

    def owner(self, name: str) -> Environment | None:
        """Return the environment that a name belongs to; None for a name of the cell or the notebook."""
        for environment in self.chain():
            if name in environment.bindings.locals or name in environment.assigned:
                return environment
        return None

    def names(self) -> Iterator[str]:
        """Yield every local name in sight, the innermost first."""
        for environment in self.chain():
            yield from environment.bindings.locals
