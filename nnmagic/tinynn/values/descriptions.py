"""Describe values in the words of error messages."""

from __future__ import annotations

import ast
from types import FunctionType

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.relay.types import AnyDim, FuncType, RecordType, TensorType, Type, TypeCall
from nnmagic.tinynn.types.annotations import Destination, DType, DTypeKind, OpenTensor, Tensor
from nnmagic.tinynn.values import values as v


def brief(number: bool | int | float | complex) -> str:
    """Return a number as text, or ``the number`` where that is too long."""
    text = repr(number) if not isinstance(number, int) or abs(number) < 10**40 else "the number"
    return text if len(text) <= 45 else "the number"


def with_article(type_: Type) -> str:
    """Return a type as text with its article: ``a Tensor[(2,), f32]``, ``an f32``."""
    text = format_type(type_)
    vowel = text[0] in "AEIO" if isinstance(type_, TypeCall) else text[0] in "fi"
    return f"an {text}" if vowel else f"a {text}"


#: What Python calls a weak number, by its type.
_PYTHON_NAMES = {"i64": "int", "f64": "float", "bool_": "bool", "c128": "complex"}


def describe(value: v.Value) -> str:
    """Say what a value is, with its article."""
    match value:
        case v.Computed(type=TensorType(shape=()) as type_, weak=True):
            return f"a Python {_PYTHON_NAMES[format_type(type_)]}"
        case v.Computed(type=type_):
            return with_article(type_) if not isinstance(type_, FuncType) else "a function"
        case v.Dimension(dim=dim):
            return f"the dimension {format_dim(dim)}"
        case v.TupleOf(record=RecordType(name=ty.KNOWN, names=(known,))):
            return describe(v.Known(known))
        case v.TupleOf(record=RecordType(name=name)):
            return f"a {name}"
        case v.TupleOf(items=items):
            return f"a tuple of {len(items)}"
        case v.ListOfRows():
            return "a list"
        case v.TableOf(is_set=is_set):
            return f"a {'set' if is_set else 'dictionary'} whose keys only the call knows"
        case v.DictOf(items=entries):
            return f"a dictionary of {len(entries)}"
        case v.SliceOf():
            return "a slice"
        case v.GeneratorOf():
            return "a generator of random numbers"
        case v.RangeOf():
            return "a range"
        case v.ScheduledRange(word=word):
            return f"a `{word}` range"
        case v.Zipped(word=word):
            return f"`{word}(...)`"
        case v.RecordName(type=record):
            return f"the record `{record.name}`"
        case v.DataTypeName(type=data):
            return f"the class `{data.header.name}`"
        case v.ConstructorName(constructor=constructor):
            return f"the constructor `{constructor.name}` (without its brackets)"
        case v.Unassigned(message=message):
            return message
        case v.TupleConstructor(name=name):
            return f"`{name}`"
        case v.TypeOf(type=type_, destination=""):
            return f"the type {format_type(type_)}"
        case v.TypeOf(type=type_, destination=destination):
            return f"the type {destination}[{format_type(type_)}]"
        case v.Known(value=known):
            return _describe_static(known)
    return _describe_function(value)


def _describe_function(value: v.Value) -> str:
    """Say what is called, or what a transformation of a function gives."""
    match value:
        case (
            v.GlobalFunction(written=name)
            | v.SpecializableFunction(written=name)
            | v.LocalFunction(name=name)
            | v.ClosureValue(name=name)
        ):
            return f"the function `{name}`" if name != "<lambda>" else "a lambda"
        case v.TupleOf(record=ty.RecordType(name=ty.OPTIONAL)):
            return "a value that may be None"
        case v.Character():
            return "a character"
        case v.ModuleOf(module=FunctionType() as module):
            return f"the Python function {module.__name__}"
        case v.ModuleOf(module=module):
            return f"a {type(module).__name__}"
        case v.GradientOf(kind=kind):
            words = {
                "pullback": "the pullback of `vjp`",
                "bound": "what `partial` gives",
                "choice": "a function",
            }
            return words.get(kind, f"what `{kind}` gives")
        case v.OperatorName(operator=operator):
            return f"the operator {operator.name}"
        case v.BuiltinName(builtin=builtin):
            return f"the function {builtin.name}"
        case v.Method(name=name):
            return f"the method {name} (without its call)"
    return "a value"


def _describe_static(value: object) -> str:
    match value:
        case None:
            return "None"
        case bool() | DType() | DTypeKind() | Tensor() | OpenTensor() | Destination():
            return repr(value)
        case int() | float() | complex():
            return f"the number {brief(value)}"
        case str():
            return f"the string {value!r}" if len(value) <= 40 else "a string"
        case AnyDim():
            return f"the dimension {format_dim(value)}"
    return "`...`" if value is Ellipsis else f"a {type(value).__name__}"


def type_note(operand: v.Operand) -> Note:
    """Return a note that points at an operand and says what it is."""
    return Note(f"this is {describe(operand.value)}", operand.span)


def source_text(span: Span, *, as_argument: bool = False) -> str:
    """Return the source of an expression, for a hint that puts an attribute behind it.

    In brackets unless it is a name, a call or the like, or stands ``as_argument`` between commas;
    ``(...)`` if it is long or spans several lines.
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
    return text if as_argument or isinstance(node, whole) or in_brackets else f"({text})"


#: Longer source is not repeated in a hint.
_LONGEST_TEXT = 60
