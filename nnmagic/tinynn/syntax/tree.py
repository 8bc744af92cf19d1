"""Define the nodes of a cell's tree that synr's own tree lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

import attr
from synr import ast


@attr.s(auto_attribs=True, frozen=True)
class _Expr(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """An expression."""

    span: ast.Span


@attr.s(auto_attribs=True, frozen=True)
class _Stmt(ast.Stmt):  # type: ignore[misc]  # synr is untyped
    """A statement."""

    span: ast.Span


@attr.s(auto_attribs=True, frozen=True)
class _Node(ast.Node):  # type: ignore[misc]  # synr is untyped
    """A part of either."""

    span: ast.Span


# -- expressions ---------------------------------------------------------------------------------------


class ExtraOp(Enum):
    """Python's operators that synr's BuiltinOp lacks."""

    MatMul = auto()
    Pow = auto()
    LShift = auto()
    RShift = auto()
    Is = auto()
    IsNot = auto()
    In = auto()
    NotIn = auto()


@attr.s(auto_attribs=True, frozen=True)
class Starred(_Expr):
    """``*value`` in a call, in a tuple or at the left of an assignment."""

    value: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class EllipsisLiteral(_Expr):
    """``...``."""


@attr.s(auto_attribs=True, frozen=True)
class Invalid(_Expr):
    """Refused expression; its users report nothing more."""


@attr.s(auto_attribs=True, frozen=True)
class Conditional(_Expr):
    """``then if condition else other``."""

    condition: ast.Expr
    then: ast.Expr
    other: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class Import(_Stmt):
    """``import module as name``, or ``from module import member as name``: names with modules and members."""

    names: Mapping[str, tuple[str, str]]


@attr.s(auto_attribs=True, frozen=True)
class CallStatement(_Stmt):
    """``function(a, b)`` alone, which is there for what it changes."""

    call: ast.Call


@attr.s(auto_attribs=True, frozen=True)
class ChangingCall(ast.Call):  # type: ignore[misc]  # synr is untyped
    """Call of a function that changes arguments, as a statement or the right side of one.

    ``changed``: the names of those that are names.
    """

    span: ast.Span
    func_name: ast.Expr
    params: Sequence[ast.Expr]
    keyword_params: Mapping[ast.Expr, ast.Expr]
    changed: Sequence[str]


@attr.s(auto_attribs=True, frozen=True)
class Logical(_Expr):
    """``a and b and c`` or ``a or b``; ``word`` is "and" or "or"."""

    word: str
    values: Sequence[ast.Expr]


@attr.s(auto_attribs=True, frozen=True)
class Chain(_Expr):
    """``a < b < c``: operands and the operators between them."""

    operands: Sequence[ast.Expr]
    ops: Sequence[ast.Op]


@attr.s(auto_attribs=True, frozen=True)
class FormattedValue(_Node):
    """``{value!r:spec}`` in a formatted string; ``conversion`` is the character after the ``!``, or -1."""

    value: ast.Expr
    conversion: int
    spec: FormattedString | None


@attr.s(auto_attribs=True, frozen=True)
class FormattedString(_Expr):
    """``f"layer{i}.weight"``: its texts and values."""

    parts: Sequence[str | FormattedValue]


@attr.s(auto_attribs=True, frozen=True)
class Printed(_Expr):
    """What a call of ``print`` writes: its texts and values."""

    parts: Sequence[str | FormattedValue]


@attr.s(auto_attribs=True, frozen=True)
class Dictionary(_Expr):
    """``{key: value, **others}``; the key of others is None."""

    items: Sequence[tuple[ast.Expr | None, ast.Expr]]


@attr.s(auto_attribs=True, frozen=True)
class DictionaryComprehension(_Expr):
    """``{key: value for target in items}``; ``pairs`` is the comprehension of keys and values.

    ``is_set``: of ``{key for target in items}``, that of the keys.
    """

    pairs: Comprehension
    is_set: bool = False


@attr.s(auto_attribs=True, frozen=True)
class Message(_Expr):
    """The message of an exception: its texts and values. ``number`` tells the messages of a cell apart."""

    parts: Sequence[str | FormattedValue]
    number: int


@attr.s(auto_attribs=True, frozen=True)
class NamedExpr(_Expr):
    """``name := value``."""

    target: ast.Var
    value: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class Comprehension(_Expr):
    """``[element for target in iterable if condition]``, in square or in round brackets."""

    element: ast.Expr
    generators: Sequence[Generator]


@attr.s(auto_attribs=True, frozen=True)
class Generator(_Node):
    """One ``for target in iterable if condition`` of a comprehension."""

    target: ast.Expr
    iterable: ast.Expr
    conditions: Sequence[ast.Expr]


# -- functions and data types --------------------------------------------------------------------------


@attr.s(auto_attribs=True, frozen=True)
class Annotation(ast.Type):  # type: ignore[misc]  # synr is untyped
    """Type, kept as an expression, so that aliases and captured numbers work in it."""

    span: ast.Span
    expr: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class ParameterNode(ast.Parameter):  # type: ignore[misc]  # synr is untyped
    """Parameter; ``kind`` is that of ``inspect.Parameter``; ``ty`` may be None in a nested function."""

    span: ast.Span
    name: str
    ty: Annotation | None
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: ast.Expr | None = None


@attr.s(auto_attribs=True, frozen=True)
class DefinitionNode(ast.Function):  # type: ignore[misc]  # synr is untyped
    """Function with the span of its name and its docstring; a statement if nested in another function."""

    span: ast.Span
    name: str
    params: list[ParameterNode]
    ret_type: Annotation | None
    body: ast.Block
    decorators: list[ast.Expr]
    name_span: ast.Span
    docstring: str | None


@attr.s(auto_attribs=True, frozen=True)
class Lambda(_Expr):
    """``lambda x: body``."""

    params: list[ParameterNode]
    body: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class ConstructorDeclaration(_Node):
    """Constructor of a data type. A field without a name is named by its position."""

    name: str
    fields: Sequence[ParameterNode]


@attr.s(auto_attribs=True, frozen=True)
class DataTypeNode(_Node):
    """Class of a cell: an algebraic data type, or a record, whose only constructor has its fields."""

    name: str
    name_span: ast.Span
    constructors: Sequence[ConstructorDeclaration]
    docstring: str | None
    is_record: bool = False


@attr.s(auto_attribs=True, frozen=True)
class CellNode(ast.Module):  # type: ignore[misc]  # synr is untyped
    """Whole cell. ``refused``: the names that a refused assignment would have bound.

    ``imports``: the imports above its functions. ``constants``: the names that are assigned there.
    """

    span: ast.Span
    funcs: Mapping[str, DefinitionNode]
    types: Mapping[str, DataTypeNode]
    refused: frozenset[str] = frozenset()
    imports: Sequence[Import] = ()
    constants: Mapping[str, object] = attr.ib(factory=dict)


# -- statements ----------------------------------------------------------------------------------------


@attr.s(auto_attribs=True, frozen=True)
class InvalidStatement(_Stmt):
    """Refused statement. ``names``: those that it would have bound; ``returns``: it holds a return."""

    names: Sequence[str]
    returns: bool


@attr.s(auto_attribs=True, frozen=True)
class Pass(_Stmt):
    """``pass``, or a lone string."""


@attr.s(auto_attribs=True, frozen=True)
class Raise(_Stmt):
    """``raise kind(message)``; ``kind`` is the name of the class."""

    kind: str
    message: Message


@attr.s(auto_attribs=True, frozen=True)
class Break(_Stmt):
    """``break``."""


@attr.s(auto_attribs=True, frozen=True)
class Continue(_Stmt):
    """``continue``."""


@attr.s(auto_attribs=True, frozen=True)
class Unpack(_Stmt):
    """``a, (b, *c), d[i] = rhs`` and ``a = b = rhs``.

    A target is a Var, a subscript of one, or a Tuple of targets, one of which may be Starred.
    """

    targets: Sequence[ast.Expr]
    rhs: ast.Expr


class WriteOut(Unpack):
    """``function(…, out=target)``: the result is assigned to the elements of ``target``, a subscript."""


class UpdateName(ast.Assign):  # type: ignore[misc]  # synr is untyped
    """``name += rhs`` with any operator, as ``name = name + rhs``."""


class SetShape(ast.Assign):  # type: ignore[misc]  # synr is untyped
    """``name.shape = other.shape = value``; ``rhs`` is a tuple of ``name.reshape(value)`` for each name."""


class Append(UpdateName):
    """``name.append(item)``, as ``name = name + [item]``."""

    @property
    def item(self) -> ast.Expr:
        """Return the item."""
        return self.rhs.params[1].values[0]


class ChangeList(ast.Assign):  # type: ignore[misc]  # synr is untyped
    """A method that changes a list, such as ``name.pop()``, as ``name = name[:-1]``."""


@attr.s(auto_attribs=True, frozen=True)
class ListPart(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """A part of a list that changes in a loop which is a function; ``kind`` says what of its ``parts``."""

    span: ast.Span
    kind: str
    source: str
    parts: Sequence[ast.Expr]


@attr.s(auto_attribs=True, frozen=True)
class TablePart(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """Whether a table is ``"full"`` or ``"sparse"``, or a ``"larger"`` or a ``"packed"`` one."""

    span: ast.Span
    kind: str
    table: ast.Var


@attr.s(auto_attribs=True, frozen=True)
class ChangeTable(_Stmt):
    """``name.add(key)``, ``discard``, ``remove`` of a set, or ``del name[key]``, by the ``word`` "del".

    ``call``: the call of the method as an expression; of ``del`` the subscript.
    """

    name: ast.Var
    word: str
    key: ast.Expr
    call: ast.Call


@attr.s(auto_attribs=True, frozen=True)
class MadeSet(ast.Expr):  # type: ignore[misc]  # synr is untyped
    """``{a, b}``, whose ``members`` are a tuple, or ``set(members)``."""

    span: ast.Span
    members: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class Grow(_Stmt):
    """An `Append` in a loop that is a function: a row of ``rows``.

    ``index`` counts the rounds, or the items. ``source``: the name of the list.
    """

    rows: ast.Var
    index: ast.Expr
    item: ast.Expr
    source: str


@attr.s(auto_attribs=True, frozen=True)
class UpdateElements(_Stmt):
    """``target += rhs`` with any operator; ``target`` is a subscript of a Var, or a chain of them.

    ``appended``: of ``target.append(item)``, how the target is written; rhs is a list of the item.
    """

    target: ast.Call
    op: ast.Op
    rhs: ast.Expr
    appended: str = ""


@attr.s(auto_attribs=True, frozen=True)
class While(_Stmt):
    """``while condition: body``; ``orelse`` runs unless a ``break`` ended the loop."""

    condition: ast.Expr
    body: ast.Block
    orelse: ast.Block


@attr.s(auto_attribs=True, frozen=True)
class For(_Stmt):
    """``for target in iterable: body``; ``orelse`` runs unless a ``break`` ended the loop."""

    target: ast.Expr
    iterable: ast.Expr
    body: ast.Block
    orelse: ast.Block


@attr.s(auto_attribs=True, frozen=True)
class MatchNode(_Stmt):
    """``match subject:`` with its cases."""

    subject: ast.Expr
    cases: Sequence[Case]


@attr.s(auto_attribs=True, frozen=True)
class Case(_Node):
    """``case pattern if guard: body``."""

    pattern: ast.Node
    guard: ast.Expr | None
    body: ast.Block


# -- patterns ------------------------------------------------------------------------------------------


@attr.s(auto_attribs=True, frozen=True)
class ValuePattern(_Node):
    """``3``, ``-1.5``, ``None``, ``module.name``: equal to a value."""

    value: ast.Expr


@attr.s(auto_attribs=True, frozen=True)
class CapturePattern(_Node):
    """``name``, ``_`` (name None), ``pattern as name``."""

    name: str | None
    pattern: ast.Node | None = None


@attr.s(auto_attribs=True, frozen=True)
class SequencePattern(_Node):
    """``(p, q)``, ``[p, *rest]``; one of the parts may be a Starred CapturePattern."""

    patterns: Sequence[ast.Node]


@attr.s(auto_attribs=True, frozen=True)
class StarPattern(_Node):
    """``*rest`` in a sequence pattern."""

    name: str | None


@attr.s(auto_attribs=True, frozen=True)
class ConstructorPattern(_Node):
    """``Cons(p, tail=q)``: positional patterns, then those by field name."""

    constructor: ast.Expr
    patterns: Sequence[ast.Node]
    keywords: Mapping[str, ast.Node]


@attr.s(auto_attribs=True, frozen=True)
class OrPattern(_Node):
    """``p | q``."""

    patterns: Sequence[ast.Node]


@attr.s(auto_attribs=True, frozen=True)
class InvalidPattern(_Node):
    """Refused pattern."""

    names: Sequence[str]
