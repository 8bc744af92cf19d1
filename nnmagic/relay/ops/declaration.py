"""What an operator's declaration is, and the table of all of them.

One declaration serves the printer, the parser, type inference, completion, the operator table and the
documentation. What an engine does with an operator stands in the engine. Knows types and constants, no TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nnmagic.diagnostics import closest
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import AttrKind
from nnmagic.relay.types import Type


class _Missing:
    """The type of NONE_GIVEN and REQUIRED."""

    def __repr__(self) -> str:
        return "<no default>"


#: Stands for "no default" where None would be a value.
NONE_GIVEN: Final = _Missing()
#: As a default in calls from Python: there is none, although Relay text has one.
REQUIRED: Final = _Missing()


class RelationError(Exception):
    """Argument types or attributes that an operator refuses.

    ``operands`` are the places, in the argument list, of the arguments to point at.
    """

    def __init__(
        self, message: str, *operands: int, hint: str | None = None, attr: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operands = operands
        self.hint = hint
        #: The attribute to point at, where the error names it.
        self.attr = attr


#: (argument types, all attributes) -> result type. Raises RelationError; the operator's name is put in
#: front of its message.
Relation = Callable[[Sequence[Type], Attrs], Type]

#: Fills unknown (None) argument types from the known ones and the attributes, as Relay's relation assigns the
#: type of an unannotated weight. Gives the list with what it could fill.
Assume = Callable[[Sequence[Type | None], Attrs], Sequence[Type | None]]


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an operator.

    ``default`` is Relay's C++ default: a value equal to it is not printed; without one (NONE_GIVEN) the
    attribute is always printed. ``call_default`` is the default of Relay's Python function, which a cell's
    call uses; it need be given only where it differs.
    """

    name: str
    kind: AttrKind
    default: object = NONE_GIVEN
    call_default: object = NONE_GIVEN

    @property
    def default_in_call(self) -> object:
        """What a call from Python leaves out stands for; NONE_GIVEN where it must be given."""
        if self.call_default is REQUIRED:
            return NONE_GIVEN
        return self.default if self.call_default is NONE_GIVEN else self.call_default


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's declaration.

    name: the text name (``nn.dense``). args: argument names. attrs: in the order in which Relay prints them.
    relation: its type rule. summary: one sentence. numpy: its twin in NumPy, if any. attrs_key: Relay's name
    for the attribute class. call_order: positional order of arguments and attributes in a call from Python,
    where it is not arguments, then attributes. keywords: the names that Relay's Python function has for
    arguments and attributes, where they are others. arg_defaults: numbers that a call from Python may leave
    out. variadic: takes one argument that is a tuple of tensors.
    """

    name: str
    args: tuple[str, ...]
    relation: Relation
    summary: str
    attrs: tuple[Attr, ...] = ()
    attrs_key: str | None = None
    call_order: tuple[str, ...] | None = None
    numpy: str | None = None
    family: str = ""
    assume: Assume | None = None
    variadic: bool = False
    keywords: Mapping[str, str] = field(default_factory=dict)
    arg_defaults: Mapping[str, bool | int | float] = field(default_factory=dict)

    def attr(self, name: str) -> Attr | None:
        """The attribute of that name, if the operator has it."""
        return next((attr for attr in self.attrs if attr.name == name), None)

    def complete_attrs(self, given: Mapping[str, object], *, from_call: bool = False) -> dict[str, object]:
        """Every attribute in declaration order: the given values, coerced, and defaults for the rest.

        ``from_call`` takes the defaults of Relay's Python function instead of the C++ ones and normalises
        values as it does (``strides=2`` is ``(2, 2)``). Raises RelationError for an unknown or missing
        attribute or a value of the wrong kind.
        """
        for name in given:
            if self.attr(name) is None:
                raise RelationError(
                    f"{self.name} has no attribute {name!r}",
                    hint=_attr_hint([a.name for a in self.attrs], name),
                    attr=name,
                )
        complete: dict[str, object] = {}
        for attr in self.attrs:
            value = given.get(attr.name, NONE_GIVEN)
            if value is NONE_GIVEN:
                value = attr.default_in_call if from_call else attr.default
                if value is NONE_GIVEN:
                    message = f"{self.name} needs the attribute {attr.name!r} ({attr.kind.words})"
                    raise RelationError(message, attr=attr.name)
            try:
                complete[attr.name] = attr.kind.in_call(value) if from_call else attr.kind.coerce(value)
            except (TypeError, ValueError) as error:
                message = f"{self.name}: attribute {attr.name!r} {error}"
                raise RelationError(message, attr=attr.name) from None
        return complete

    def result_type(self, arg_types: Sequence[Type], attrs: Attrs) -> Type:
        """The type of a call. Raises RelationError."""
        if len(arg_types) != len(self.args):
            wanted = f"{len(self.args)} argument" + ("" if len(self.args) == 1 else "s")
            raise RelationError(f"{self.name} takes {wanted} ({', '.join(self.args)}), got {len(arg_types)}")
        try:
            return self.relation(arg_types, attrs)
        except RelationError as error:
            message = f"{self.name}: {error.message}"
            raise RelationError(message, *error.operands, hint=error.hint, attr=error.attr) from None


def _attr_hint(names: Sequence[str], wrong: str) -> str | None:
    close = closest(wrong, names)
    if close:
        return f"did you mean {close!r}?"
    return f"its attributes: {', '.join(names)}" if names else "it has no attributes"


#: All operators by name; filled by the files of this package, which ``nnmagic.relay.ops`` imports.
OPERATORS: dict[str, Operator] = {}


def declare(  # noqa: PLR0913 - the columns of a table
    name: str,
    args: str,
    relation: Relation,
    summary: str,
    *attrs: Attr,
    attrs_key: str | None = None,
    call_order: str | None = None,
    numpy: str | None = None,
    family: str,
    assume: Assume | None = None,
    variadic: bool = False,
    keywords: Mapping[str, str] | None = None,
    arg_defaults: Mapping[str, bool | int | float] | None = None,
) -> Operator:
    """Enters an operator into the table; ``args`` and ``call_order`` are names separated by blanks."""
    if name in OPERATORS:
        raise ValueError(f"operator {name!r} is declared twice")
    operator = Operator(
        name=name,
        args=tuple(args.split()),
        relation=relation,
        summary=summary,
        attrs=attrs,
        attrs_key=f"relay.attrs.{attrs_key}" if attrs_key else None,
        call_order=tuple(call_order.split()) if call_order else None,
        numpy=numpy,
        family=family,
        assume=assume,
        variadic=variadic,
        keywords=keywords or {},
        arg_defaults=arg_defaults or {},
    )
    OPERATORS[name] = operator
    return operator
