"""What an expression of a cell can stand for while it is elaborated, and how that is said in words.

Knows Relay's expressions and types and the annotations; knows no syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from nnmagic.diagnostics import Diagnostic, Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.module import TypeData
from nnmagic.relay.ops.declaration import Operator
from nnmagic.relay.signatures import dtype_short_name, format_dim, format_type
from nnmagic.relay.types import (
    NUMPY_DTYPES,
    AnyDim,
    FuncType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    is_float,
)
from nnmagic.tinynn.types.annotations import DType, Tensor

if TYPE_CHECKING:
    from nnmagic.tinynn.calls.argument_binding import Builtin
    from nnmagic.tinynn.syntax import tree
    from nnmagic.tinynn.values.environments import Environment


class RefusalError(Exception):  # carries a diagnostic to the statement or expression that reports it
    """An expression that a cell does not take."""

    def __init__(
        self, message: str, span: Span, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(message, span, hint, tuple(notes))


@dataclass(frozen=True, slots=True)
class Computed:
    """A Relay expression with its type: known when the function runs, or a constant tensor.

    ``weak``: a Python number (int64, float64 or bool of rank 0) that is known only then, such as a loop's
    counter. Like a literal it takes the dtype of the tensor beside it.
    """

    expr: ir.Expr
    type: Type
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A value known while compiling: number, string, None, ``...``, dtype, annotation, named dimension."""

    value: object


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size that is known only when the function runs, as an item of ``x.shape``.

    ``dim``: what it is in a shape; ``number``: what it is everywhere else, a weak int64.
    """

    dim: AnyDim
    number: Computed


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple or list. ``whole`` is the Relay expression that it was taken from, if there is one."""

    items: tuple[Value, ...]
    whole: Computed | None = None


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
    """A parameter as a caller sees it: ``kind`` is that of ``inspect.Parameter``."""

    name: str
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: Value | None = None


@dataclass(frozen=True, slots=True)
class GlobalFunction:
    """A function of the module: one of the cell, or a compiled one. ``type`` None: it is not known (yet).

    ``written`` is the name that the cell calls it by.
    """

    name: str
    written: str
    parameters: tuple[Formal, ...]
    type: FuncType | None


@dataclass(frozen=True, slots=True, eq=False)
class LocalFunction:
    """A nested function or a lambda whose parameters have no types: its body is put where it is called.

    ``versions``: of the names that it takes from around it, how often each was assigned when it was made.
    """

    name: str
    definition: tree.FunctionNode | tree.Lambda
    parameters: tuple[Formal, ...]
    frame: Environment
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class ClosureValue:
    """A nested function with types: a Relay function bound by let.

    ``changing``: of the names that it takes from around it those that are assigned more than once.
    """

    name: str
    parameters: tuple[Formal, ...]
    function: Computed
    definition: tree.FunctionNode
    frame: Environment
    versions: Mapping[str, int]
    changing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeOf:
    """``range(start, stop, step)``: Known ints, or weak numbers."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Zipped:
    """``zip(...)``, ``enumerate(...)``, ``reversed(...)`` before a loop takes them; ``word`` says which."""

    word: str
    parts: tuple[Operand, ...]


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
    """The constructor that has the name of its class, as that of a record has; None where there is none."""
    name = data.type.header.name
    found = (each for each in data.type.constructors if each.name == name)
    return next((ConstructorName(each, data.fields[name]) for each in found), None)


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A name that has no usable value here: whoever reads it is told why."""

    message: str
    hint: str | None
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class OperatorName:
    """An operator, not yet called."""

    operator: Operator


@dataclass(frozen=True, slots=True)
class BuiltinName:
    """A function of the language, not yet called."""

    builtin: Builtin


@dataclass(frozen=True, slots=True)
class Method:
    """``x.sum`` before its call."""

    receiver: Operand
    name: str
    callee: OperatorName | BuiltinName


@dataclass(frozen=True, slots=True)
class TupleConstructor:
    """``tuple`` or ``Tuple`` in an annotation, or Tensor itself, before their subscript."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type that no Python object stands for: a tuple annotation."""

    type: Type


@dataclass(frozen=True, slots=True)
class Failed:
    """What stands in for an expression whose error was reported; whatever uses it stays silent."""


Value = (
    Computed
    | Known
    | Dimension
    | TupleOf
    | DictOf
    | SliceOf
    | GlobalFunction
    | LocalFunction
    | ClosureValue
    | RangeOf
    | Zipped
    | DataTypeName
    | ConstructorName
    | Unassigned
    | OperatorName
    | BuiltinName
    | Method
    | TupleConstructor
    | TypeOf
    | Failed
)

FAILED: Final = Failed()


@dataclass(frozen=True, slots=True)
class Operand:
    """A value and the expression that it came from."""

    value: Value
    span: Span
    #: The name of the keyword in a call, if it was given by one.
    keyword: str | None = field(default=None)


def computed(expr: ir.Expr, type_: Type) -> Value:
    """A Relay expression as a value: one of a tuple type is taken apart, so that it can be unpacked."""
    if not isinstance(type_, TupleType):
        return Computed(expr, type_)
    items = (
        computed(ir.TupleGetItem(expr, index, span=expr.span), item)
        for index, item in enumerate(type_.fields)
    )
    return TupleOf(tuple(items), Computed(expr, type_))


def is_failed(value: Value) -> bool:
    """Whether an error in it, or in a part of it, was reported."""
    if isinstance(value, TupleOf):
        return any(map(is_failed, value.items))
    return isinstance(value, Failed)


class NotStaticError(Exception):  # a question answered with no
    """A value that is not known while compiling."""


def known_value(value: Value) -> object:
    """The Python value of what is known while compiling: tuples of them, constants of rank 0.

    A dimension is its AnyDim, as in a shape: who wants a number asks for that first.

    Raises NotKnown.
    """
    match value:
        case Known(value=found) | Dimension(dim=found):
            return found
        case TupleOf(items=items, whole=None):
            return tuple(map(known_value, items))
        case Computed(expr=ir.Constant(data=data), type=TensorType(shape=(), dtype=dtype)):
            return float(data) if is_float(dtype) else data.item()
    raise NotStaticError


#: An int that is known while compiling has at most as many bits: a float holds no larger one.
MAX_INT_BITS = 1024


def is_number(value: object) -> bool:
    """Whether a known value is a Python number (True and False too)."""
    return isinstance(value, bool | int | float)


def number_constant(number: bool | int | float, dtype: str, span: Span, wanted_by: str = "") -> Computed:
    """A Python number as a constant of rank 0. Raises Refusal where the dtype cannot hold it.

    ``wanted_by`` is put into the hint: how to convert the tensor that the number stands beside.
    """
    short = dtype_short_name(dtype)
    if isinstance(number, float) and not is_float(dtype):
        hint = wanted_by or f"write a whole number, or use a float dtype instead of {short}"
        raise RefusalError(f"the float {number!r} cannot become {short}", span, hint=hint)
    if dtype == "bool" and not isinstance(number, bool):
        raise RefusalError(f"the number {number!r} cannot become bool_", span, hint="write True or False")
    native = NUMPY_DTYPES[dtype]
    if not is_float(dtype) and dtype != "bool":
        limits = np.iinfo(str(native))
        if not limits.min <= number <= limits.max:
            raise RefusalError(f"{number} does not fit in {short} ({limits.min} to {limits.max})", span)
    try:
        with np.errstate(over="ignore"):
            stored = np.array(float(number) if is_float(dtype) else number, dtype=native)
    except OverflowError:  # an int beyond the range of a float
        raise RefusalError(f"{_brief(number)} does not fit in {short}", span) from None
    if is_float(dtype) and not np.isfinite(stored) and abs(number) != float("inf") and number == number:  # noqa: PLR0124  # nan
        raise RefusalError(f"{_brief(number)} does not fit in {short}", span)
    return Computed(ir.constant(stored, dtype, span=span), TensorType((), dtype))


def _brief(number: bool | int | float) -> str:
    text = repr(number) if not isinstance(number, int) or abs(number) < 10**40 else "the number"
    return text if len(text) <= 45 else "the number"


def with_article(type_: Type) -> str:
    """``a Tensor[(2,), f32]``, ``an f32``."""
    text = format_type(type_)
    vowel = text[0] in "AEIO" if isinstance(type_, TypeCall) else text[0] in "fi"
    return f"an {text}" if vowel else f"a {text}"


#: What Python calls a weak number, by its type.
_PYTHON_NAMES = {"i64": "int", "f64": "float", "bool_": "bool"}


def described(value: Value) -> str:
    """What a value is, in words, with its article."""
    match value:
        case Computed(type=type_, weak=True):
            return f"a Python {_PYTHON_NAMES[format_type(type_)]}"
        case Computed(type=type_):
            return with_article(type_) if not isinstance(type_, FuncType) else "a function"
        case Dimension(dim=dim):
            return f"the dimension {format_dim(dim)}"
        case TupleOf(items=items):
            return f"a tuple of {len(items)}"
        case DictOf(items=found):
            return f"a dictionary of {len(found)}"
        case SliceOf():
            return "a slice"
        case GlobalFunction(written=name) | LocalFunction(name=name) | ClosureValue(name=name):
            return f"the function `{name}`" if name != "<lambda>" else "a lambda"
        case RangeOf():
            return "a range"
        case Zipped(word=word):
            return f"`{word}(...)`"
        case DataTypeName(type=data):
            return f"the class `{data.header.name}`"
        case ConstructorName(constructor=constructor):
            return f"the constructor `{constructor.name}` (without its brackets)"
        case Unassigned(message=message):
            return message
        case OperatorName(operator=operator):
            return f"the operator {operator.name}"
        case BuiltinName(builtin=builtin):
            return f"the function {builtin.name}"
        case Method(name=name):
            return f"the method {name} (without its call)"
        case TupleConstructor(name=name):
            return f"`{name}`"
        case TypeOf(type=type_):
            return f"the type {format_type(type_)}"
        case Known(value=known):
            return _known_described(known)
    return "a value"


def _known_described(known: object) -> str:
    match known:
        case None:
            return "None"
        case bool() | DType() | Tensor():
            return repr(known)
        case int() | float():
            return f"the number {_brief(known)}"
        case str():
            return f"the string {known!r}" if len(known) <= 40 else "a string"
        case AnyDim():
            return f"the dimension {format_dim(known)}"
    return "`...`" if known is Ellipsis else f"a {type(known).__name__}"


def typed_note(operand: Operand) -> Note:
    """Points at an operand and says what it is."""
    return Note(f"this is {described(operand.value)}", operand.span)


def source_text(span: Span) -> str:
    """The source of an expression, for a hint that puts an attribute behind it or an operator before it.

    In brackets unless it is a name, a call or the like; ``(...)`` if it is long or goes over several lines.
    """
    line = span.source.line(span.line) if span.source else None
    if line is None or span.end_line != span.line or span.end_column - span.column > _LONGEST_TEXT:
        return "(...)"
    text = line[span.column - 1 : span.end_column - 1]
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return "(...)"
    whole = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.ListComp, ast.GeneratorExp)
    in_brackets = isinstance(node, ast.Tuple) and (not node.elts or node.elts[0].col_offset > 0)
    return text if isinstance(node, whole) or in_brackets else f"({text})"


#: Longer source is not repeated in a hint.
_LONGEST_TEXT = 60


def same_value(left: Value, right: Value) -> bool:
    """Whether two values are one: the same expression or function, equal numbers of one Python type."""
    match left, right:
        case Computed(expr=one, type=ours), Computed(expr=other, type=theirs):
            return one is other and ours == theirs
        case TupleOf(items=ours), TupleOf(items=theirs):
            return len(ours) == len(theirs) and all(map(same_value, ours, theirs))
        case Dimension(dim=one, number=ours), Dimension(dim=other, number=theirs):
            return ours.expr is theirs.expr or (one == other and one.label is not None)
        case Known(value=one), Known(value=other):
            return type(one) is type(other) and repr(one) == repr(other)  # tells 0.0 from -0.0
        case ((LocalFunction() | ClosureValue() | Method()), _):
            return left is right
    return left == right


def natural_dtype(number: bool | int | float) -> str:
    """The dtype of a Python number that is known only when the function runs."""
    if isinstance(number, bool):
        return "bool"
    return "int64" if isinstance(number, int) else "float64"
